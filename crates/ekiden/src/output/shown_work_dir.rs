//! How shown commands and paths name the work dir.
//!
//! A command finds a run in the current directory, or in one above it, by itself. If the person named another work dir
//! with `-d`, the next command has to name it too.

use std::path::PathBuf;

use super::phrase;

#[derive(Debug, Clone, Default)]
pub struct ShownWorkDir {
    /// The work dir; empty if it is the current directory.
    pub dir: PathBuf,
    /// What the person typed after `-d`, as a word for the shell.
    pub typed: Option<String>,
}

impl ShownWorkDir {
    /// ` -d DIR` for the next command of ekiden; empty if it is not needed.
    pub fn flag(&self) -> String {
        let typed = self.typed.as_ref();
        typed.map_or(String::new(), |dir| format!(" -d {dir}"))
    }

    pub fn git(&self, command: &str) -> String {
        match &self.typed {
            Some(dir) => format!("git -C {dir} {command}"),
            None => format!("git {command}"),
        }
    }

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
