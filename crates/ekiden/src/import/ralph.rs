//! The state of a Ralph loop as CCS specifies it, which ekiden's loop takes over.

use ekiden_core::ralph::RalphState;
use ekiden_engine::workspace::Workspace;
use ekiden_store::ralph;

use super::source::Source;
use super::{Became, Conversion};
use crate::failure::Failure;

const STATE: &str = ".claude/ralph-state.json";

/// Imports it if there is no loop yet.
pub fn take(
    source: &Source,
    workspace: &Workspace,
    dry_run: bool,
) -> Result<Option<Conversion>, Failure> {
    let Some(mut theirs) = source.object(STATE)? else {
        return Ok(None);
    };
    // It counts their formats, maybe in words.
    theirs.remove("version");
    let conversion = |became| Ok(Some(Conversion::new(STATE, became)));
    let theirs: RalphState = match serde_json::from_value(theirs.into()) {
        Ok(theirs) => theirs,
        Err(error) => {
            return conversion(Became::Nothing(format!(
                "it is not the state of a loop: {error}"
            )));
        }
    };
    let (disk, published) = (workspace.disk(), workspace.published());
    let name = ".ekiden/ralph-state.json".to_owned();
    let is_taken = |ours: &RalphState| {
        (&ours.context_checkpoint, &ours.others) == (&theirs.context_checkpoint, &theirs.others)
    };
    match ralph::state(&disk, &published)? {
        Some(ours) if is_taken(&ours) => return conversion(Became::Known(name)),
        Some(_) => {
            let why = format!("{name} is there, and further on");
            return conversion(Became::Nothing(why));
        }
        None if dry_run => return conversion(Became::New(name)),
        None => {}
    }
    workspace.prepare()?;
    let taken = ralph::change(&disk, &published, |state| {
        *state = RalphState {
            version: state.version,
            ..theirs
        };
    });
    taken?;
    conversion(Became::New(name))
}
