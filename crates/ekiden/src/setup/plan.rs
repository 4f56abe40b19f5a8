//! What will be changed: worked out whole, before anything is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ekiden_core::hash::sha256_hex;
use ekiden_core::prompt::{SKILL_MARK, Skill, SkillNames};
use ekiden_store::disk::Disk as _;
use ekiden_store::receipt::{Receipt, ReceiptError};
use ekiden_wire::client_settings::{self, SettingsFault, StatusLineFate, Survey};

use super::FILE_BYTES_MAX;
use super::place::Place;
use super::shelf::Shelf;
use crate::exit::Exit;
use crate::failure::{self, Failure};

/// A file before and after; nothing where there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The file.
    pub path: PathBuf,
    /// Its text now.
    pub before: Option<String>,
    /// Its text then.
    pub after: Option<String>,
}

/// All that will be changed.
#[derive(Debug)]
pub struct Plan {
    /// The settings file.
    pub settings: FileChange,
    /// The skills.
    pub skills: Vec<FileChange>,
    /// What the receipt will say, and the settings without us. Nothing if the receipt goes.
    pub receipt: Option<(Receipt, Option<String>)>,
    /// Directories that were or will be made for us, outer ones first.
    pub dirs: Vec<PathBuf>,
    /// What becomes of the status line.
    pub status_line: Option<StatusLineFate>,
    /// By which names the skills can be called.
    pub commands: Vec<String>,
    /// What a person should know.
    pub notes: Vec<String>,
}

/// What is there now.
struct Found {
    settings: Option<String>,
    receipt: Option<Receipt>,
    /// The settings as they would be without us, if the receipt still fits them.
    original: Option<Option<String>>,
}

impl FileChange {
    /// Nothing changes.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.before == self.after
    }
}

impl Plan {
    /// Nothing changes.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.settings.is_none() && self.skills.iter().all(FileChange::is_none)
    }

    /// The guard of `program` in this place, with nothing of an older one left.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or the settings may not be changed, or not without guessing.
    pub fn install(place: &Place, program: &str) -> Result<Self, Failure> {
        let found = Found::look(place)?;
        let before = found.settings.clone().unwrap_or_default();
        let installed = client_settings::install(&before, program).map_err(|fault| refused(place, &fault))?;
        let settings = FileChange {
            path: place.settings.clone(),
            before: found.settings.clone(),
            after: Some(installed.text),
        };
        writable(&settings)?;
        let mut skills = Skills::of(place, &found);
        let commands = skills.install(program)?;
        let dirs = needed_dirs(place, &skills.changes, found.receipt.as_ref());
        let receipt = Receipt {
            settings: place.settings.clone(),
            created: found.receipt.as_ref().map_or(found.settings.is_none(), |receipt| receipt.created),
            written: sha256_hex(settings.after.as_deref().unwrap_or_default().as_bytes()),
            files: skills.files,
            dirs: dirs.clone(),
        };
        Ok(Self {
            receipt: Some((receipt, found.without_us(place)?)),
            dirs,
            settings,
            skills: skills.changes,
            status_line: Some(installed.status_line),
            commands,
            notes: skills.notes,
        })
    }

    /// The place without us.
    ///
    /// # Errors
    ///
    /// As [`Plan::install`].
    pub fn remove(place: &Place) -> Result<Self, Failure> {
        let found = Found::look(place)?;
        let settings = FileChange {
            path: place.settings.clone(),
            before: found.settings.clone(),
            after: found.without_us(place)?,
        };
        writable(&settings)?;
        let mut skills = Skills::of(place, &found);
        skills.remove(found.settings.as_deref())?;
        let of_skills =
            skills.changes.iter().map(|change| ekiden_store::disk::parent(&change.path).to_owned());
        let made = found.receipt.iter().flat_map(|receipt| receipt.dirs.clone());
        let dirs: BTreeSet<PathBuf> = made.chain(of_skills).collect();
        Ok(Self {
            settings,
            skills: skills.changes,
            receipt: None,
            dirs: dirs.into_iter().collect(),
            status_line: None,
            commands: Vec::new(),
            notes: skills.notes,
        })
    }
}

impl Found {
    fn look(place: &Place) -> Result<Self, Failure> {
        let settings = read(place, &place.settings)?;
        let receipt = place.receipt.read(&place.disk).map_err(|error| unreadable(&error))?;
        let fits = |receipt: &Receipt| settings.as_ref().is_some_and(|text| receipt.wrote(text.as_bytes()));
        let original = match &receipt {
            Some(receipt) if fits(receipt) => {
                let original = place.receipt.read_original(&place.disk, FILE_BYTES_MAX);
                let original = original.map_err(|error| unreadable(&error))?;
                Some(original.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
            }
            Some(_) | None => None,
        };
        Ok(Self { settings, receipt, original })
    }

    /// The settings as they would be without us: byte for byte as they were if nobody else changed
    /// them, else what is there without what is ours. Nothing where only we made a file of them.
    fn without_us(&self, place: &Place) -> Result<Option<String>, Failure> {
        if let Some(original) = &self.original {
            return Ok(original.clone());
        }
        let Some(text) = &self.settings else { return Ok(None) };
        let without = client_settings::remove(text).map_err(|fault| refused(place, &fault))?;
        let created = self.receipt.as_ref().is_some_and(|receipt| receipt.created);
        let is_empty = without.split_whitespace().collect::<String>() == "{}";
        Ok((!(created && is_empty)).then_some(without))
    }
}

// ── Skills ─────────────────────────────────────────────────────────────────────────────────────

/// The skills of a place, on the way to what they shall be.
struct Skills<'p> {
    place: &'p Place,
    receipt: Option<&'p Receipt>,
    changes: Vec<FileChange>,
    files: BTreeMap<PathBuf, String>,
    notes: Vec<String>,
}

impl<'p> Skills<'p> {
    fn of(place: &'p Place, found: &'p Found) -> Self {
        let receipt = found.receipt.as_ref();
        Self { place, receipt, changes: Vec::new(), files: BTreeMap::new(), notes: Vec::new() }
    }

    /// Every skill under a name that is free. The names by which they can be called.
    fn install(&mut self, program: &str) -> Result<Vec<String>, Failure> {
        let dirs = [Some(self.place.dir.as_path()), self.place.other_dir.as_deref()];
        let shelf = Shelf::look(dirs.into_iter().flatten());
        let names = SkillNames::by(|skill| {
            shelf.free_name(skill).unwrap_or_else(|| format!("ekiden-{}", skill.name()))
        });
        let mut commands = Vec::new();
        for skill in Skill::ALL {
            let name = names.of(skill);
            if shelf.free_name(skill).is_none() {
                let own = skill.name();
                self.notes.push(format!("no skill for `{own}`: /{own} and /{name} belong to somebody else"));
                continue;
            }
            self.put(name, skill.text(&word(program), &names))?;
            commands.push(format!("/{name}"));
        }
        for path in self.made_before() {
            if !self.files.contains_key(&path) {
                self.take_away(path, |_| false)?;
            }
        }
        Ok(commands)
    }

    fn put(&mut self, name: &str, wanted: String) -> Result<(), Failure> {
        let path = self.path(name);
        let before = read(self.place, &path)?;
        let made = self.receipt.and_then(|receipt| receipt.files.get(&path)).cloned();
        let is_theirs =
            before.as_ref().is_some_and(|text| *text != wanted && made != Some(sha256_hex(text.as_bytes())));
        if is_theirs {
            self.notes.push(format!("{} was changed since, and stays as it is", path.display()));
            self.files.extend(made.map(|hash| (path, hash)));
            return Ok(());
        }
        self.files.insert(path.clone(), sha256_hex(wanted.as_bytes()));
        self.changes.push(FileChange { path, before, after: Some(wanted) });
        Ok(())
    }

    /// Every skill that we made goes. Without a receipt, those that read as ours would.
    fn remove(&mut self, settings: Option<&str>) -> Result<(), Failure> {
        let survey = settings.and_then(|text| Survey::read(text.as_bytes())).unwrap_or_default();
        let words: Vec<String> = survey.programs().into_iter().map(word).collect();
        let all = Skill::ALL.map(Skill::name);
        let named = all.iter().flat_map(|name| [(*name).to_owned(), format!("ekiden-{name}")]);
        let mut paths: BTreeSet<PathBuf> = named.map(|name| self.path(&name)).collect();
        paths.extend(self.made_before());
        let reads_as_ours = |text: &str| words.iter().any(|program| is_text_for(text, program));
        paths.into_iter().try_for_each(|path| self.take_away(path, reads_as_ours))
    }

    fn take_away(&mut self, path: PathBuf, is_ours: impl Fn(&str) -> bool) -> Result<(), Failure> {
        let Some(text) = read(self.place, &path)? else { return Ok(()) };
        let made = self.receipt.is_some_and(|receipt| receipt.made(&path, text.as_bytes()));
        if made || is_ours(&text) {
            self.changes.push(FileChange { path, before: Some(text), after: None });
        } else if text.contains(SKILL_MARK) || self.made_before().contains(&path) {
            self.notes.push(format!("{} was changed since, and stays as it is", path.display()));
        }
        Ok(())
    }

    fn made_before(&self) -> BTreeSet<PathBuf> {
        self.receipt.into_iter().flat_map(|receipt| receipt.files.keys().cloned()).collect()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.dir.join("skills").join(name).join("SKILL.md")
    }
}

/// A program as a word of shell.
fn word(program: &str) -> String {
    shlex::try_quote(program).map_or_else(|_| program.to_owned(), std::borrow::Cow::into_owned)
}

/// The text is one that we would install, under whatever names.
fn is_text_for(text: &str, program: &str) -> bool {
    let forms = [false, true];
    let names = forms.into_iter().flat_map(|a| forms.map(|b| forms.map(|c| [a, b, c]))).flatten();
    names.into_iter().any(|[checkpoint, handoff, orient]| {
        let names = SkillNames::by(|skill| {
            let renamed = match skill {
                Skill::Checkpoint => checkpoint,
                Skill::Handoff => handoff,
                Skill::Orient => orient,
            };
            format!("{}{}", if renamed { "ekiden-" } else { "" }, skill.name())
        });
        Skill::ALL.iter().any(|skill| skill.text(program, &names) == text)
    })
}

// ── Files ──────────────────────────────────────────────────────────────────────────────────────

/// The directories that are missing, and those that were missing before we came.
fn needed_dirs(place: &Place, skills: &[FileChange], receipt: Option<&Receipt>) -> Vec<PathBuf> {
    let above = |path: &Path| -> Vec<PathBuf> {
        let dirs = path.ancestors().skip(1).take_while(|dir| dir.starts_with(&place.dir));
        dirs.filter(|dir| !dir.exists()).map(Path::to_owned).collect()
    };
    let missing = skills.iter().map(|change| change.path.as_path()).chain([place.settings.as_path()]);
    let missing: BTreeSet<PathBuf> = missing.flat_map(above).collect();
    let made = receipt.into_iter().flat_map(|receipt| receipt.dirs.clone());
    // In order, an outer directory stands before those in it.
    made.chain(missing).collect::<BTreeSet<_>>().into_iter().collect()
}

fn read(place: &Place, path: &Path) -> Result<Option<String>, Failure> {
    let bytes = match place.disk.read(path, FILE_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(Failure::new(Exit::State, format!("cannot {}", failure::chain(&error)))),
    };
    String::from_utf8(bytes).map(Some).map_err(|_| {
        let text = format!("cannot change `{}`: it is no UTF-8", path.display());
        Failure::new(Exit::Settings, text).hint("nothing was changed")
    })
}

/// A file that a person made read-only could be replaced all the same, but that is not what they meant.
fn writable(change: &FileChange) -> Result<(), Failure> {
    let is_fixed = std::fs::metadata(&change.path).is_ok_and(|found| found.permissions().readonly());
    if change.is_none() || !is_fixed {
        return Ok(());
    }
    let text = format!("cannot change `{}`: it is read-only", change.path.display());
    Err(Failure::new(Exit::NotPermitted, text).hint("nothing was changed; `chmod u+w` lets it be changed"))
}

fn refused(place: &Place, fault: &SettingsFault) -> Failure {
    let text = format!("cannot change `{}`: {fault}", place.settings.display());
    Failure::new(Exit::Settings, text).hint("nothing was changed; mend the file, then try again")
}

fn unreadable(error: &ReceiptError) -> Failure {
    let failed = Failure::new(Exit::State, format!("cannot {}", failure::chain(error)));
    match error {
        ReceiptError::Disk(_) => failed,
        ReceiptError::Format(error) => failed.hint(error.hint()),
        ReceiptError::Damaged { .. } => {
            failed.hint("remove it: then what is ours is still found, but not put back byte for byte")
        }
    }
}
