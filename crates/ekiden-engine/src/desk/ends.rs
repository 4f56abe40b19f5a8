//! What the stages of a plan left, for those that need it and for people.

use ekiden_core::handoff::HandoffFile;
use ekiden_core::plan::{StageEnd, StageState};
use ekiden_core::run::Run;
use ekiden_store::archive::make_dir;
use ekiden_store::disk::{DiskResult, parent};
use ekiden_store::layout::Published;
use ekiden_store::replace::{Durability, replace};

use super::Desk;

impl Desk {
    /// Writes down, for the stages that are over, what each hands over, or why it failed; and what all of them
    /// know, where people look for it.
    ///
    /// # Errors
    ///
    /// If the disk refuses.
    pub fn keep_ends(&mut self, run: &Run) -> DiskResult<()> {
        let published = Published::new(&self.places.workspace().dir);
        for (stage, state) in run.plan().states().filter(|(_, state)| matches!(state, StageState::Over(_))) {
            if !self.ends.insert(stage.clone()) && *state == StageState::Over(StageEnd::Done) {
                continue;
            }
            let tree = self.places.dir(stage).display().to_string();
            let text = match run.result(stage) {
                Some(result) => Some(result.text.clone()),
                None => run.diagnosis(stage, &tree),
            };
            let Some(text) = text else { continue };
            let kept = self.places.relay(stage).result();
            for path in [kept, self.places.shown_result(stage)] {
                make_dir(&*self.disk, parent(&path))?;
                if !self.reads(&path, &text) {
                    replace(&*self.disk, &path, text.as_bytes(), Durability::Derived)?;
                }
            }
        }
        if self.places.whole_tree().is_some() {
            let (path, text) = (published.file(HandoffFile::Knowledge), run.shared_knowledge().render());
            return replace(&*self.disk, &path, text.as_bytes(), Durability::Derived);
        }
        Ok(())
    }
}
