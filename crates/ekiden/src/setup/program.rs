//! The path by which hooks call this program.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use ekiden_wire::client_settings::GuardCommand;

use super::target::Scope;
use crate::exit::Exit;
use crate::failure::{Failure, OrFail as _};

/// The absolute path of the running program, as it was called: a package manager puts a permanent link on
/// `PATH` and replaces its target. A program of another name is refused: its hooks could not be
/// distinguished from other people's.
pub fn own_program() -> Result<String, Failure> {
    let running = ekiden_agent::keeper::path_of_executable().and_then(|path| path.canonicalize());
    let running = running.or_fail(Exit::State, "cannot find the path of this program")?;
    let called = std::env::args_os().next().unwrap_or_default();
    let path = as_called(&called, &std::env::var_os("PATH").unwrap_or_default())
        .filter(|path| path.canonicalize().is_ok_and(|path| path == running))
        .unwrap_or(running);
    let program = path.to_str().filter(|program| is_recognised(program));
    program.map(str::to_owned).ok_or_else(|| {
        let path = path.display();
        let text = format!("cannot install `{path}`: hooks of ekiden are recognised by its name");
        Failure::new(Exit::Settings, text)
            .hint("name the program `ekiden`, in a directory whose path is UTF-8")
    })
}

/// What the shell found for the typed word.
fn as_called(called: &OsStr, path: &OsStr) -> Option<PathBuf> {
    if Path::new(called).components().count() > 1 {
        return std::path::absolute(called).ok();
    }
    let dirs = std::env::split_paths(path).filter(|dir| dir.is_absolute());
    dirs.map(|dir| dir.join(called))
        .find(|program| program.is_file())
}

/// How the skills call it. Those of a project may be committed, so they contain no personal path as long as
/// the shell finds an `ekiden`: npm's is a script that starts this program.
pub(super) fn for_skills(scope: Scope, program: &str) -> String {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if scope == Scope::Project && as_called(OsStr::new("ekiden"), &path).is_some() {
        return "ekiden".to_owned();
    }
    shlex::try_quote(program).map_or_else(|_| program.to_owned(), std::borrow::Cow::into_owned)
}

fn is_recognised(program: &str) -> bool {
    let hook = GuardCommand::Hook {
        program: program.to_owned(),
        event: "Stop".to_owned(),
    };
    hook.text()
        .and_then(|text| GuardCommand::parse(&text))
        .as_ref()
        == Some(&hook)
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: OPS-02
    #[test]
    fn a_program_is_taken_as_it_was_called() {
        let called = |word: &str, path: &str| as_called(OsStr::new(word), OsStr::new(path));
        assert_eq!(
            called("/opt/ekiden", ""),
            Some(PathBuf::from("/opt/ekiden"))
        );
        assert_eq!(
            called("sh", "relative:/nowhere:/bin:/usr/bin"),
            Some(PathBuf::from("/bin/sh"))
        );
        assert!(called("./ekiden", "/bin").is_some_and(|path| path.is_absolute()));
        assert_eq!(called("no-such-program", "/bin"), None);
    }

    #[test]
    fn only_a_name_that_is_recognised_is_installed() {
        assert!(is_recognised("/o p/ekiden") && is_recognised("/o/ekiden-0.2"));
        assert!(!is_recognised("/o/relay") && !is_recognised("/o/ekiden (deleted)"));
    }
}
