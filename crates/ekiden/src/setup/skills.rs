//! The files in the client's directory. Those of the mod have fixed places. The skills get free names: if
//! somebody else has a command or skill of that name, ours is prefixed with `ekiden-`.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use ekiden_core::hash::sha256_hex;
use ekiden_core::prompt::{SKILL_MARK, Skill, SkillNames};
use ekiden_store::receipt::Receipt;
use ekiden_wire::client_settings::Survey;

use super::client_mod;
use super::plan::{FileChange, read};
use super::program::for_skills;
use super::target::{Scope, Target};
use crate::client::settings::read_file;
use crate::failure::Failure;

/// How deeply directories of commands may be nested.
const DEPTH_MAX: usize = 4;

pub(super) struct Skills<'p> {
    target: &'p Target,
    receipt: Option<&'p Receipt>,
    pub changes: Vec<FileChange>,
    /// For the receipt: what was written, by hash.
    pub files: BTreeMap<PathBuf, String>,
    pub notes: Vec<String>,
}

impl<'p> Skills<'p> {
    pub fn of(target: &'p Target, receipt: Option<&'p Receipt>) -> Self {
        Self {
            target,
            receipt,
            changes: Vec::new(),
            files: BTreeMap::new(),
            notes: Vec::new(),
        }
    }

    /// Installs every skill under a free name. Returns the commands that call them.
    pub fn install(&mut self, program: &str) -> Result<Vec<String>, Failure> {
        let other = self.target.other_dir.as_deref();
        let taken = taken_names([self.target.dir.as_path()].into_iter().chain(other));
        let names =
            SkillNames::by(|skill| free_name(skill, &taken).unwrap_or_else(|| prefixed(skill)));
        let mut commands = Vec::new();
        for skill in Skill::ALL {
            let (own, name) = (skill.name(), names.of(skill));
            if taken.contains(name) {
                let note =
                    format!("no skill for `{own}`: /{own} and /{name} belong to somebody else");
                self.notes.push(note);
                continue;
            }
            let program = for_skills(self.target.scope, program);
            self.put(self.path(name), skill.text(&program, &names))?;
            commands.push(format!("/{name}"));
        }
        if self.target.scope == Scope::User {
            for (path, text) in client_mod::files(&self.target.dir, program) {
                self.put(path, text)?;
            }
        }
        for path in self.written_before() {
            if !self.files.contains_key(&path) {
                self.take_out(path, |_| false)?;
            }
        }
        Ok(commands)
    }

    /// Removes every skill that we wrote. Without a receipt, those with the text that we would write.
    pub fn remove(&mut self, settings: Option<&str>) -> Result<(), Failure> {
        let survey = settings.and_then(|text| Survey::read(text.as_bytes()));
        let survey = survey.unwrap_or_default();
        let scope = self.target.scope;
        let programs = survey.programs().into_iter();
        let programs: Vec<String> = programs.map(|program| for_skills(scope, program)).collect();
        let names = SkillNames::by(|skill| {
            let prefixed = prefixed(skill);
            if self.path(&prefixed).exists() {
                prefixed
            } else {
                skill.name().to_owned()
            }
        });
        let mut paths: BTreeSet<PathBuf> = self.written_before();
        paths.extend(Skill::ALL.map(|skill| self.path(names.of(skill))));
        let mut texts: Vec<String> = (programs.iter())
            .flat_map(|program| Skill::ALL.map(|skill| skill.text(program, &names)))
            .collect();
        if scope == Scope::User {
            for program in survey.programs() {
                let (of_mod, text): (Vec<_>, Vec<_>) = client_mod::files(&self.target.dir, program)
                    .into_iter()
                    .unzip();
                paths.extend(of_mod);
                texts.extend(text);
            }
        }
        let is_ours = |text: &str| texts.iter().any(|ours| ours == text);
        paths
            .into_iter()
            .try_for_each(|path| self.take_out(path, is_ours))
    }

    fn put(&mut self, path: PathBuf, wanted: String) -> Result<(), Failure> {
        let before = read(self.target, &path)?;
        let made = |text: &str| {
            let receipt = self.receipt;
            receipt.is_some_and(|receipt| receipt.made(&path, text.as_bytes()))
        };
        if before
            .as_ref()
            .is_some_and(|text| *text != wanted && !made(text))
        {
            self.note_changed(&path);
            let written = self.receipt.and_then(|receipt| receipt.files.get(&path));
            self.files.extend(written.map(|hash| (path, hash.clone())));
            return Ok(());
        }
        self.files
            .insert(path.clone(), sha256_hex(wanted.as_bytes()));
        self.changes.push(FileChange {
            path,
            before,
            after: Some(wanted),
        });
        Ok(())
    }

    /// For the receipt: what is written over, by hash.
    pub fn before(&self) -> BTreeMap<PathBuf, String> {
        let changes = self.changes.iter().filter(|change| !change.is_none());
        let before = changes.filter_map(|change| {
            let text = change.before.as_ref()?;
            Some((change.path.clone(), sha256_hex(text.as_bytes())))
        });
        before.collect()
    }

    fn take_out(&mut self, path: PathBuf, is_ours: impl Fn(&str) -> bool) -> Result<(), Failure> {
        let Some(text) = read(self.target, &path)? else {
            return Ok(());
        };
        let wrote = |receipt: &Receipt| receipt.made(&path, text.as_bytes());
        if self.receipt.is_some_and(wrote) || is_ours(&text) {
            self.changes.push(FileChange {
                path,
                before: Some(text),
                after: None,
            });
        } else if text.contains(SKILL_MARK) || self.written_before().contains(&path) {
            self.note_changed(&path);
        }
        Ok(())
    }

    fn note_changed(&mut self, path: &Path) {
        let path = path.display();
        self.notes
            .push(format!("{path} was changed since, so it stays as it is; where it is missing, `ekiden setup` writes it anew"));
    }

    fn written_before(&self) -> BTreeSet<PathBuf> {
        let files = self
            .receipt
            .into_iter()
            .flat_map(|receipt| receipt.files.keys().chain(receipt.before.keys()));
        files.cloned().collect()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.target.dir.join("skills").join(name).join("SKILL.md")
    }
}

fn prefixed(skill: Skill) -> String {
    format!("ekiden-{}", skill.name())
}

fn free_name(skill: Skill, taken: &BTreeSet<String>) -> Option<String> {
    let names = [skill.name().to_owned(), prefixed(skill)];
    names.into_iter().find(|name| !taken.contains(name))
}

/// The names of other people's commands and skills in the client's directories.
fn taken_names<'d>(dirs: impl IntoIterator<Item = &'d Path>) -> BTreeSet<String> {
    let mut taken = BTreeSet::new();
    for dir in dirs {
        add_commands(&dir.join("commands"), DEPTH_MAX, &mut taken);
        for skill in entries(&dir.join("skills")) {
            let text = read_file(&skill.join("SKILL.md")).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            // A skill is called by the name of its directory, and by the name that it gives itself.
            if !text.is_empty() && !text.contains(SKILL_MARK) {
                let names = [skill.file_name().and_then(OsStr::to_str), own_name(&text)];
                taken.extend(names.into_iter().flatten().map(str::to_owned));
            }
        }
    }
    taken
}

fn add_commands(dir: &Path, depth: usize, taken: &mut BTreeSet<String>) {
    for path in entries(dir) {
        if path.extension() == Some(OsStr::new("md")) {
            taken.extend(path.file_stem().and_then(OsStr::to_str).map(str::to_owned));
        } else if depth > 0 && path.is_dir() {
            add_commands(&path, depth - 1, taken);
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
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect()
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "a test writes the files that it reads"
)]
mod tests {
    use super::*;

    // shows: OPS-02
    #[test]
    fn a_name_that_somebody_has_is_left_to_them() {
        let dir = tempfile::tempdir().unwrap();
        let free = || {
            let taken = taken_names([dir.path()]);
            Skill::ALL.map(|skill| free_name(skill, &taken).unwrap_or_default())
        };
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert_eq!(
            free(),
            ["checkpoint", "handoff", "orient", "ralph", "shard"]
        );
        write(
            "skills/orient/SKILL.md",
            &format!("---\nname: orient\nmetadata:\n{SKILL_MARK}---\n"),
        );
        assert_eq!(
            free(),
            ["checkpoint", "handoff", "orient", "ralph", "shard"],
            "our own"
        );
        write("skills/checkpoint/SKILL.md", "---\nname: other\n---\n");
        write("commands/mine/handoff.md", "Hand off.");
        write(
            "skills/whatever/SKILL.md",
            "---\ndescription: x\nname: 'orient'\n---\n",
        );
        assert_eq!(
            free(),
            [
                "ekiden-checkpoint",
                "ekiden-handoff",
                "ekiden-orient",
                "ralph",
                "shard"
            ]
        );
        write("commands/ekiden-handoff.md", "");
        assert_eq!(
            free(),
            ["ekiden-checkpoint", "", "ekiden-orient", "ralph", "shard"]
        );
    }
}
