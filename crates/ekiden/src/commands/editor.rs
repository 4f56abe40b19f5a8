//! The user's editor.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::path::Path;

use crate::exit::Exit;
use crate::failure::Failure;

/// Fails if there is no terminal for an editor; one that the user named may need none.
pub(super) fn check_terminal(doing: &str) -> Result<(), Failure> {
    let has_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    if has_terminal || named().is_some() {
        return Ok(());
    }
    let what = format!("cannot {doing}: there is no terminal for an editor");
    Err(Failure::new(Exit::Usage, what)
        .hint("a program in $EDITOR can change the file without one"))
}

/// The words of the editor that the user named.
fn named() -> Option<Vec<String>> {
    let set = |name| shlex::split(&std::env::var(name).ok()?).filter(|words| !words.is_empty());
    set("VISUAL").or_else(|| set("EDITOR"))
}

/// Opens a file in the user's editor, found as other programs find it, and waits until it is closed. `doing` is
/// what fails without it.
pub(super) fn open(file: &Path, doing: &str) -> Result<(), Failure> {
    let mut words = named().unwrap_or_else(|| vec!["vi".to_owned()]).into_iter();
    let program = words.next().unwrap_or_default();
    let args: Vec<OsString> = words.map(OsString::from).chain([file.into()]).collect();
    let status = ekiden_agent::foreground::run(program.as_ref(), &args).map_err(|error| {
        let what = format!("cannot start the editor `{program}`");
        Failure::caused(Exit::MissingInput, &what, &error)
            .hint("name your editor in $VISUAL or $EDITOR")
    })?;
    match status.success() {
        true => Ok(()),
        false => {
            let what = format!("cannot {doing}: the editor `{program}` ended with {status}");
            Err(Failure::new(Exit::Unfinished, what))
        }
    }
}
