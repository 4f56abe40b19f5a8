//! The path by which hooks call this program.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use ekiden_wire::client_settings::GuardCommand;

use crate::exit::Exit;
use crate::failure::Failure;

/// The absolute path of the running program, as it was called: a package manager puts a link on `PATH`
/// that stays, and replaces what it leads to.
///
/// # Errors
///
/// If the path is not known, is no UTF-8, or its name is not `ekiden`: then what was installed could
/// not be told from other people's hooks.
pub fn own_program() -> Result<String, Failure> {
    let failed = |error| Failure::caused(Exit::State, "cannot tell where this program is", &error);
    let running = std::env::current_exe().and_then(|path| path.canonicalize()).map_err(failed)?;
    let called = std::env::args_os().next().unwrap_or_default();
    let path = as_called(&called, &std::env::var_os("PATH").unwrap_or_default())
        .filter(|path| path.canonicalize().is_ok_and(|path| path == running))
        .unwrap_or(running);
    let program = path.to_str().map(str::to_owned);
    program.filter(|program| is_known_again(program)).ok_or_else(|| {
        Failure::new(
            Exit::Settings,
            format!("cannot install `{}`: hooks of ekiden are known by its name", path.display()),
        )
        .hint("call the program `ekiden`, in a directory whose name is UTF-8")
    })
}

/// What the shell found for the word that was typed.
fn as_called(called: &OsStr, path: &OsStr) -> Option<PathBuf> {
    if Path::new(called).components().count() > 1 {
        return std::path::absolute(called).ok();
    }
    let dirs = std::env::split_paths(path).filter(|dir| dir.is_absolute());
    dirs.map(|dir| dir.join(called)).find(|program| program.is_file())
}

fn is_known_again(program: &str) -> bool {
    let hook = GuardCommand::Hook { program: program.to_owned(), event: "Stop".to_owned() };
    hook.text().and_then(|text| GuardCommand::parse(&text)).as_ref() == Some(&hook)
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: OPS-02
    #[test]
    fn a_program_is_taken_as_it_was_called() {
        let called = |word: &str, path: &str| as_called(OsStr::new(word), OsStr::new(path));
        assert_eq!(called("/opt/ekiden", ""), Some(PathBuf::from("/opt/ekiden")));
        assert_eq!(called("sh", "relative:/nowhere:/bin:/usr/bin"), Some(PathBuf::from("/bin/sh")));
        assert!(called("./ekiden", "/bin").is_some_and(|path| path.is_absolute()));
        assert_eq!(called("no-such-program", "/bin"), None);
    }

    #[test]
    fn only_a_name_that_is_known_again_is_installed() {
        assert!(is_known_again("/o p/ekiden") && is_known_again("/o/ekiden-0.2"));
        assert!(!is_known_again("/o/relay") && !is_known_again("/o/ekiden (deleted)"));
    }
}
