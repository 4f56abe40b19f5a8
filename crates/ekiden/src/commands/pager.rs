//! The user's pager.

use std::ffi::OsString;

use ekiden_core::{secrets, text};

use crate::exit::Exit;
use crate::failure::{Failure, OrFail as _};

const USUAL: &str = "less";

/// Shows what an agent wrote in the user's pager, without anything that could act on the terminal and without
/// secrets, and waits until it is closed.
pub(super) fn show(written: &str) -> Result<(), Failure> {
    let set = shlex::split(&std::env::var("PAGER").unwrap_or_default());
    let words = set.filter(|words| !words.is_empty());
    let mut words = words.unwrap_or_else(|| vec![USUAL.to_owned()]).into_iter();
    let program = words.next().unwrap_or_default();
    let args: Vec<OsString> = words.map(OsString::from).collect();
    let clean = text::clean(written).text;
    let read = ekiden_agent::foreground::read(program.as_ref(), &args, &secrets::mask(&clean));
    // Its exit code says nothing: some pagers fail when they are left early.
    let what = format!("cannot start the pager `{program}`");
    let read = read.map(drop).or_fail(Exit::MissingInput, what);
    read.map_err(|failure| failure.hint("name your pager in $PAGER"))
}
