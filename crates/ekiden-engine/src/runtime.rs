//! The runtime of a run, of planning, or of one question: one thread, and others for what blocks.

use std::time::Duration;

use tokio::runtime::Runtime;

use crate::error::EngineError;

pub(crate) fn runtime() -> Result<Runtime, EngineError> {
    let built = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .thread_keep_alive(Duration::from_secs(u32::MAX.into()))
        .build();
    let runtime = built.map_err(system("start a runtime"))?;
    // Without any such thread tokio panics once an agent uses up the processes, so there is always one.
    drop(runtime.spawn_blocking(|| ()));
    Ok(runtime)
}

pub(crate) fn system(what: &'static str) -> impl FnOnce(std::io::Error) -> EngineError {
    move |source| EngineError::System { what, source }
}
