//! Reads files that another program left, or that a stranger made to look so.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ekiden_store::beneath::{self, NotInside};

use crate::exit::Exit;
use crate::failure::{Failure, OrFail as _};
use crate::output::line::one_line;
use crate::output::phrase;

/// How much of one file is read, in bytes. Handoffs and manifests are far smaller.
const BYTES_MAX: u64 = 1024 * 1024;
/// How many names of one directory are read.
const NAMES_MAX: usize = 10_000;

/// The directory of a project that another program worked in.
#[derive(Debug)]
pub struct Source {
    pub dir: PathBuf,
    /// The only program's directory that counts, if one was named.
    pub only: Option<&'static str>,
}

impl Source {
    /// Their project: the directory that is named, or the one in which the named `.cleave`, `.casm` or `.claude` is.
    pub fn of(path: &Path) -> Result<Self, Failure> {
        let what = format!("cannot import from {}", phrase::path(path));
        let dir = path.canonicalize().or_fail(Exit::MissingInput, what)?;
        if !dir.is_dir() {
            let text = format!(
                "cannot import from {}: it is not a directory",
                phrase::path(path)
            );
            return Err(Failure::new(Exit::MissingInput, text).hint("name the project's directory"));
        }
        let mut theirs = [".cleave", ".casm", ".claude"].into_iter();
        let only = theirs.find(|name| dir.ends_with(name));
        let dir = match dir.parent().filter(|_| only.is_some()) {
            Some(project) => project.to_owned(),
            None => dir,
        };
        Ok(Self { dir, only })
    }

    /// A file's text; `None` if there is no such file.
    pub fn text(&self, name: &str) -> Result<Option<String>, Failure> {
        let found = match beneath::open_file(&self.dir, Path::new(name)) {
            _ if self.is_left_out(name) => return Ok(None),
            Ok(found) => found,
            Err(NotInside::Absent) => return Ok(None),
            Err(why) => return Err(refused(name, &format!("it {why}"))),
        };
        let mut bytes = Vec::new();
        let read = found.file.take(BYTES_MAX + 1).read_to_end(&mut bytes);
        read.map_err(|error| refused(name, &format!("it cannot be read: {error}")))?;
        if bytes.len() as u64 > BYTES_MAX {
            let most = BYTES_MAX >> 20;
            return Err(refused(name, &format!("it is larger than {most} MiB")));
        }
        let text = String::from_utf8(bytes);
        text.map(Some)
            .map_err(|_| refused(name, "it is not UTF-8 text"))
    }

    /// When a file was last changed, if known.
    pub fn modified(&self, name: &str) -> Option<SystemTime> {
        let found = beneath::open_file(&self.dir, Path::new(name)).ok()?;
        found.file.metadata().ok()?.modified().ok()
    }

    pub fn object(
        &self,
        name: &str,
    ) -> Result<Option<serde_json::Map<String, serde_json::Value>>, Failure> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        let object = serde_json::from_str(&text);
        object
            .map(Some)
            .map_err(|error| refused(name, &format!("it is not a JSON object: {error}")))
    }

    /// The names in a directory, sorted; empty if there is no such directory.
    pub fn names(&self, name: &str) -> Result<Vec<String>, Failure> {
        let found = match beneath::open(&self.dir, Path::new(name)) {
            _ if self.is_left_out(name) => return Ok(Vec::new()),
            Ok(found) => found,
            Err(NotInside::Absent) => return Ok(Vec::new()),
            Err(why) => return Err(refused(name, &format!("it {why}"))),
        };
        let entries = found
            .path
            .read_dir()
            .map_err(|error| refused(name, &format!("it cannot be listed: {error}")))?;
        let names = entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.take(NAMES_MAX + 1).collect();
        if names.len() > NAMES_MAX {
            return Err(refused(
                name,
                &format!("it has more than {NAMES_MAX} files"),
            ));
        }
        names.sort_unstable();
        Ok(names)
    }

    fn is_left_out(&self, name: &str) -> bool {
        self.only.is_some_and(|only| !name.starts_with(only))
    }
}

fn refused(name: &str, why: &str) -> Failure {
    let text = format!("cannot import {}: {why}", one_line(name));
    Failure::new(Exit::InvalidInput, text)
        .hint("nothing of it was taken over; repair the file or move it away, and import again")
}
