//! The names of commands and skills that a session would know, and under which of them ours go.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use ekiden_core::prompt::{SKILL_MARK, Skill};

/// Commands lie in directories below each other; nobody goes deeper than this.
const DEPTH_MAX: usize = 4;

/// The names that other people's commands and skills have.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    taken: BTreeSet<String>,
}

impl Shelf {
    /// Looks into the client's directories. Our own skills take no name.
    pub(super) fn look<'d>(dirs: impl IntoIterator<Item = &'d Path>) -> Self {
        let mut shelf = Self::default();
        for dir in dirs {
            shelf.add_commands(&dir.join("commands"), DEPTH_MAX);
            for skill in entries(&dir.join("skills")) {
                shelf.add_skill(&skill);
            }
        }
        shelf
    }

    /// The name for a skill: its own, else one with `ekiden-` before it.
    pub(super) fn free_name(&self, skill: Skill) -> Option<String> {
        let own = skill.name();
        [own.to_owned(), format!("ekiden-{own}")].into_iter().find(|name| !self.taken.contains(name))
    }

    fn add_commands(&mut self, dir: &Path, depth: usize) {
        for path in entries(dir) {
            if path.extension() == Some(OsStr::new("md")) {
                self.taken.extend(path.file_stem().and_then(OsStr::to_str).map(str::to_owned));
            } else if depth > 0 && path.is_dir() {
                self.add_commands(&path, depth - 1);
            }
        }
    }

    /// A skill is called by the name of its directory, and by the one that it gives itself.
    fn add_skill(&mut self, dir: &Path) {
        let Ok(bytes) = std::fs::read(dir.join("SKILL.md")) else { return };
        let text = String::from_utf8_lossy(&bytes);
        if !text.contains(SKILL_MARK) {
            let names = [dir.file_name().and_then(OsStr::to_str), own_name(&text)];
            self.taken.extend(names.into_iter().flatten().map(str::to_owned));
        }
    }
}

/// The `name` in the head of a skill.
fn own_name(text: &str) -> Option<&str> {
    let (head, _) = text.strip_prefix("---\n")?.split_once("\n---")?;
    let name = head.lines().find_map(|line| line.strip_prefix("name:"))?;
    Some(name.trim().trim_matches(['"', '\'']))
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test writes the files that it reads")]
mod tests {
    use super::*;

    // shows: OPS-02
    #[test]
    fn a_name_that_somebody_has_is_left_to_them() {
        let dir = tempfile::tempdir().unwrap();
        let free = || Skill::ALL.map(|skill| Shelf::look([dir.path()]).free_name(skill).unwrap_or_default());
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert_eq!(free(), ["checkpoint", "handoff", "orient"]);
        write("skills/orient/SKILL.md", &format!("---\nname: orient\nmetadata:\n{SKILL_MARK}---\n"));
        assert_eq!(free(), ["checkpoint", "handoff", "orient"], "our own");
        write("skills/checkpoint/SKILL.md", "---\nname: other\n---\n");
        write("commands/mine/handoff.md", "Hand over.");
        write("skills/whatever/SKILL.md", "---\ndescription: x\nname: 'orient'\n---\n");
        assert_eq!(free(), ["ekiden-checkpoint", "ekiden-handoff", "ekiden-orient"]);
        write("commands/ekiden-handoff.md", "");
        assert_eq!(free(), ["ekiden-checkpoint", "", "ekiden-orient"]);
    }
}
