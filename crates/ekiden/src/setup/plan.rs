//! The planned change, complete before anything is changed, and how it is applied.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ekiden_core::hash::sha256_hex;
use ekiden_store::archive::ensure_dir;
use ekiden_store::disk::{Disk as _, DiskResult, RealDisk, if_there, parent};
use ekiden_store::receipt::Receipt;
use ekiden_store::replace::{Durability, replace, replace_foreign};
use ekiden_wire::client_settings::{self, SettingsFault, StatusLineFate};
use serde_json::Value;

use super::client_mod;
use super::skills::Skills;
use super::target::{Scope, Target};
use super::{FILE_BYTES_MAX, STATE_BYTES_MAX};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::settings::file::refuse_read_only;

/// A file before and after; `None` if there is no file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    pub path: PathBuf,
    pub before: Option<String>,
    pub after: Option<String>,
}

#[derive(Debug)]
pub struct Plan {
    pub settings: FileChange,
    /// The client's state, including our MCP server.
    pub server: FileChange,
    pub skills: Vec<FileChange>,
    /// The new receipt, and the settings without us. `None` if the receipt goes.
    receipt: Option<(Receipt, Option<String>)>,
    /// Directories that go when they are empty, outer ones first.
    dirs: BTreeSet<PathBuf>,
    pub status_line: Option<StatusLineFate>,
    /// The names of the skills, as called.
    pub commands: Vec<String>,
    /// What a person should know.
    pub notes: Vec<String>,
}

impl FileChange {
    pub fn is_none(&self) -> bool {
        self.before == self.after
    }
}

impl Plan {
    /// Whether nothing will change.
    pub fn is_none(&self) -> bool {
        self.changes().next().is_none()
    }

    pub fn changes(&self) -> impl Iterator<Item = &FileChange> {
        let all = [&self.settings, &self.server]
            .into_iter()
            .chain(&self.skills);
        all.filter(|change| !change.is_none())
    }

    /// The guard of `program` in this place, and its MCP server if wanted, with nothing left of an older
    /// one.
    pub fn install(target: &Target, program: &str, mcp: bool) -> Result<Self, Failure> {
        let (before, receipt) = look(target)?;
        let failed = |fault| not_understood(&target.settings, &fault);
        let mut text = before.clone().unwrap_or_default();
        if let Some(line) = status_line_below(target) {
            text = client_settings::add_status_line(&text, &line).map_err(failed)?;
        }
        let installed = client_settings::install(&text, program).map_err(failed)?;
        let server = Server::of(target, receipt.as_ref(), mcp.then_some(program))?;
        let original = without_us(target, before.as_deref(), receipt.as_ref())?;
        // The rule goes by the server's name, so it would allow another server's tools.
        let is_ours = mcp && server.note.is_none();
        let allowed = is_ours
            || original
                .as_deref()
                .is_some_and(client_settings::allows_tools);
        let text = client_settings::allow_tools(&installed.text, allowed).map_err(failed)?;
        let of_mod = (target.scope == Scope::User).then(|| client_mod::root(&target.dir));
        let of_mod = of_mod.as_ref().map(|dir| dir.to_string_lossy());
        let text = client_settings::use_mod(&text, of_mod.as_deref()).map_err(failed)?;
        let mut skills = Skills::of(target, receipt.as_ref());
        let commands = skills.install(program)?;
        skills.notes.extend(server.note);
        let mut dirs: BTreeSet<PathBuf> = [target.dir.clone(), target.dir.join("skills")].into();
        dirs.extend(around(&skills.changes, target));
        dirs.retain(|dir| !dir.exists());
        dirs.extend(receipt.iter().flat_map(|receipt| receipt.dirs.clone()));
        let receipt = Receipt {
            settings: target.settings.clone(),
            created: receipt
                .as_ref()
                .map_or(before.is_none(), |receipt| receipt.created),
            written: sha256_hex(text.as_bytes()),
            before: skills.before(),
            files: skills.files,
            dirs: dirs.iter().cloned().collect(),
            state_created: server.created,
            server_made: server.made,
        };
        Ok(Self {
            settings: change_of(&target.settings, before, Some(text))?,
            server: server.change,
            skills: skills.changes,
            receipt: Some((receipt, original)),
            dirs,
            status_line: Some(installed.status_line),
            commands,
            notes: skills.notes,
        })
    }

    pub fn remove(target: &Target) -> Result<Self, Failure> {
        let (before, receipt) = look(target)?;
        let after = without_us(target, before.as_deref(), receipt.as_ref())?;
        let mut skills = Skills::of(target, receipt.as_ref());
        skills.remove(before.as_deref())?;
        let created = receipt.iter().flat_map(|receipt| receipt.dirs.clone());
        Ok(Self {
            dirs: created.chain(around(&skills.changes, target)).collect(),
            settings: change_of(&target.settings, before, after)?,
            server: Server::of(target, receipt.as_ref(), None)?.change,
            skills: skills.changes,
            receipt: None,
            status_line: None,
            commands: Vec::new(),
            notes: skills.notes,
        })
    }

    /// Applies the plan; each file is the old or the new one, never half of it. After an error or a crash
    /// the next call finds what was done.
    pub fn apply(&self, target: &Target) -> Result<(), Failure> {
        for change in [&self.settings, &self.server] {
            if read(target, &change.path)? == change.before {
                continue;
            }
            let path = change.path.display();
            let text = format!("cannot change `{path}`: something else changed it just now");
            return Err(Failure::new(Exit::State, text).hint("nothing was changed; try again"));
        }
        let disk = &target.disk;
        let put = |change| put(disk, change);
        // The client's state is never in the project.
        let put_server = || self::put(&RealDisk::new(), &self.server);
        let Some((receipt, original)) = &self.receipt else {
            put(&self.settings)?;
            put_server()?;
            self.skills.iter().try_for_each(put)?;
            for dir in self.dirs.iter().rev() {
                match disk.remove_dir(dir) {
                    // A person's link to a directory is no directory, and stays.
                    Err(error) if !error.is_absent() && !error.is_not_empty() => {
                        return Err(error.into());
                    }
                    _ => {}
                }
            }
            return Ok(target.receipt.remove(disk)?);
        };
        let original = original.as_ref().map(String::as_bytes);
        target.receipt.write(disk, receipt, original)?;
        self.skills.iter().try_for_each(put)?;
        put_server()?;
        Ok(put(&self.settings)?)
    }
}

/// The MCP server in the client's state.
struct Server {
    change: FileChange,
    created: bool,
    made: usize,
    note: Option<String>,
}

impl Server {
    /// With our server for `program`, or without our server.
    fn of(
        target: &Target,
        receipt: Option<&Receipt>,
        program: Option<&str>,
    ) -> Result<Self, Failure> {
        let failed = |fault| not_understood(&target.state, &fault);
        let before = read(target, &target.state)?;
        let created = receipt.is_some_and(|receipt| receipt.state_created);
        let made = receipt.map_or(0, |receipt| receipt.server_made);
        let (text, project) = (
            before.as_deref().unwrap_or_default(),
            target.project.as_deref(),
        );
        let Some(program) = program else {
            let after = client_settings::unregister(text, project, made).map_err(failed)?;
            let is_ours = created && is_empty_object(&after);
            let after = (before.is_some() && !is_ours).then_some(after);
            return Ok(Self {
                change: change_of(&target.state, before, after)?,
                created: false,
                made: 0,
                note: None,
            });
        };
        let with = client_settings::register(text, project, program).map_err(failed)?;
        let other = target.other_receipt.as_ref();
        let other = other.and_then(|receipt| receipt.read(&target.disk).ok()?);
        let created = created || other.is_some_and(|receipt| receipt.state_created);
        let note = with
            .taken
            .then(|| "no MCP server: one named `ekiden` belongs to somebody else".to_owned());
        Ok(Self {
            created: created || before.is_none(),
            made: made.max(with.made),
            change: change_of(&target.state, before, Some(with.text))?,
            note,
        })
    }
}

fn put(disk: &RealDisk, change: &FileChange) -> DiskResult<()> {
    let path = change.path.as_path();
    match (&change.before, &change.after) {
        (before, after) if before == after => Ok(()),
        (Some(_), Some(after)) => replace_foreign(disk, path, after.as_bytes()),
        (None, Some(after)) => {
            ensure_dir(disk, parent(path))?;
            replace(disk, path, after.as_bytes(), Durability::Full)
        }
        (_, None) => disk.remove(path).and_then(|()| disk.sync_dir(parent(path))),
    }
}

/// The directories around these files, inside the client's.
fn around(changes: &[FileChange], target: &Target) -> Vec<PathBuf> {
    let dirs = changes.iter().flat_map(|change| {
        let above = parent(&change.path).ancestors();
        above.take_while(|dir| dir.starts_with(&target.dir) && *dir != target.dir)
    });
    dirs.map(Path::to_owned).collect()
}

/// The settings and the receipt as they are now.
fn look(target: &Target) -> Result<(Option<String>, Option<Receipt>), Failure> {
    let receipt = target.receipt.read(&target.disk)?;
    Ok((read(target, &target.settings)?, receipt))
}

/// The settings as they would be without us: byte for byte as before if nobody else changed them, otherwise
/// the current ones without what is ours. `None` if only we made a file of them.
fn without_us(
    target: &Target,
    settings: Option<&str>,
    receipt: Option<&Receipt>,
) -> Result<Option<String>, Failure> {
    let Some(text) = settings else {
        return Ok(None);
    };
    let original = match receipt {
        Some(_) => target.receipt.read_original(&target.disk, FILE_BYTES_MAX)?,
        None => None,
    };
    let original = original.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let created = receipt.is_some_and(|receipt| receipt.created);
    let unchanged = receipt.is_some_and(|receipt| receipt.wrote(text.as_bytes()));
    // If the copy is missing although there was a file, somebody deleted it: then only what is ours goes.
    if unchanged && (original.is_some() || created) {
        return Ok(original);
    }
    let failed = |fault| not_understood(&target.settings, &fault);
    let mut without = client_settings::remove(text, original.as_deref()).map_err(failed)?;
    let had_line = original
        .as_deref()
        .and_then(client_settings::own_status_line);
    if without != text
        && had_line.is_none()
        && let Some(line) = status_line_below(target)
    {
        without = client_settings::drop_status_line(&without, &line).map_err(failed)?;
    }
    // The rule that allows our tools is the user's if it was there before. Without a receipt nobody knows; then it is
    // ours if anything else here is.
    let rule_is_ours = match receipt {
        Some(_) => !original
            .as_deref()
            .is_some_and(client_settings::allows_tools),
        None => without != text,
    };
    if rule_is_ours {
        without = client_settings::allow_tools(&without, false).map_err(failed)?;
    }
    Ok((!(created && is_empty_object(&without))).then_some(without))
}

/// The status line that one in the project would hide.
fn status_line_below(target: &Target) -> Option<Value> {
    let dirs = [Some(&target.dir), target.other_dir.as_ref()];
    let dirs = dirs.into_iter().flatten();
    let mut dirs = dirs.filter(|_| target.scope == Scope::Project);
    dirs.find_map(|dir| {
        let text = read(target, &dir.join("settings.json")).ok()??;
        client_settings::own_status_line(&text)
    })
}

fn is_empty_object(text: &str) -> bool {
    text.split_whitespace().collect::<String>() == "{}"
}

/// The file's text; `None` if there is no file.
pub(super) fn read(target: &Target, path: &Path) -> Result<Option<String>, Failure> {
    let bytes_max = if path == target.state {
        STATE_BYTES_MAX
    } else {
        FILE_BYTES_MAX
    };
    let Some(bytes) = if_there(target.disk.read(path, bytes_max))? else {
        return Ok(None);
    };
    String::from_utf8(bytes).map(Some).map_err(|_| {
        let text = format!("cannot change `{}`: it is not UTF-8", path.display());
        Failure::new(Exit::Settings, text)
            .hint("nothing was changed; save it as UTF-8, then try again")
    })
}

fn change_of(
    path: &Path,
    before: Option<String>,
    after: Option<String>,
) -> Result<FileChange, Failure> {
    let path = path.to_owned();
    if before != after {
        refuse_read_only(&path)?;
    }
    Ok(FileChange {
        path,
        before,
        after,
    })
}

fn not_understood(path: &Path, fault: &SettingsFault) -> Failure {
    let text = format!("cannot change `{}`: {fault}", path.display());
    Failure::new(Exit::Settings, text).hint("nothing was changed; fix the file, then try again")
}
