//! Where the run is that a command tells of: for the paths and commands that it shows.
//!
//! A command finds the runs of the current directory or of one above it by itself. Another work dir was named with
//! `-d`, and the next command has to name it too.

use std::path::PathBuf;

use super::phrase;

#[derive(Debug, Clone, Default)]
pub struct There {
    /// The work dir; empty if it is the current directory.
    pub dir: PathBuf,
    /// The same as it was typed with `-d`, as a word for the shell.
    pub typed: Option<String>,
}

impl There {
    /// The flag that names it, after a blank.
    pub fn flag(&self) -> String {
        let typed = self.typed.as_ref();
        typed.map_or(String::new(), |dir| format!(" -d {dir}"))
    }

    /// A command of git there.
    pub fn git(&self, command: &str) -> String {
        match &self.typed {
            Some(dir) => format!("git -C {dir} {command}"),
            None => format!("git {command}"),
        }
    }

    /// A command line that works only there.
    pub fn command(&self, line: &str) -> String {
        match &self.typed {
            Some(dir) => format!("cd {dir} && {line}"),
            None => line.to_owned(),
        }
    }

    /// A file in `.ekiden/`, from where the person stands.
    pub fn published(&self, name: &str) -> String {
        phrase::path(&self.dir.join(".ekiden").join(name))
    }
}
