//! The runtime of a run, of planning, or of one question: one thread.

use tokio::runtime::Runtime;

use crate::error::EngineError;

pub(crate) fn runtime() -> Result<Runtime, EngineError> {
    let built = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    built.map_err(system("start a runtime"))
}

pub(crate) fn system(what: &'static str) -> impl FnOnce(std::io::Error) -> EngineError {
    move |source| EngineError::System { what, source }
}
