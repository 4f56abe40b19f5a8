//! The task that the person writes in the editor. It stays in a file outside the project until a command
//! writes it into the project.

use std::path::PathBuf;

use ekiden_engine::workspace::Workspace;
use ekiden_store::disk::{Disk as _, Reach, RealDisk};

use super::task::Task;
use super::{editor, init};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;

/// Where the text is kept, once there is one.
#[derive(Default)]
pub(super) struct Draft(Option<PathBuf>);

impl Draft {
    /// Has the person write it in the editor. An empty template is not kept.
    pub(super) fn write(
        &mut self,
        workspace: &Workspace,
        name: &str,
        output: &mut Output,
    ) -> Result<String, Failure> {
        let template = init::template(&workspace.dir);
        let draft = std::env::temp_dir().join(format!("ekiden-{}-{name}", std::process::id()));
        RealDisk::new().create_file(&draft, template.as_bytes(), Reach::Cache)?;
        self.0 = Some(draft.clone());
        let edited = editor::open(&draft, "write a task");
        if std::fs::read(&draft).is_ok_and(|text| text == template.as_bytes()) {
            self.remove();
            edited?;
            let failure = Failure::new(Exit::Usage, "the task is still the empty template");
            return Err(failure.hint("nothing was started; the same command asks again"));
        }
        edited?;
        Ok(Task::read(&draft.to_string_lossy(), output)?.text)
    }

    /// The text is elsewhere now, or there is none.
    pub(super) fn remove(&mut self) {
        // A file left in the temporary directory does no harm.
        let _ = self.0.take().map(|draft| RealDisk::new().remove(&draft));
    }

    /// Where it is kept, for the person.
    pub(super) fn kept(&self) -> Option<String> {
        let draft = self.0.as_ref()?;
        Some(format!("what was written is kept in {}", draft.display()))
    }
}
