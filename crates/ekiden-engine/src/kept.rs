//! What is kept of a session: its texts as they were archived, and what git knows of its commits.
//!
//! Only read, for people who want to see what a session saw, said or changed. What is missing is no
//! error here: archives may be pruned, a session may have crashed before it wrote anything, and git may
//! have forgotten a commit. The caller says which of these it is.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ekiden_agent::task::{self, QuickError};
use ekiden_core::handoff::HandoffFile;
use ekiden_core::ids::{AttemptNumber, RunId, SessionNumber, StageId};
use ekiden_core::limits;
use ekiden_store::disk::{Disk, DiskError, DiskResult, Kind, RealDisk};
use ekiden_store::layout::{SessionLayout, StateLayout};

use crate::desk::of_attempt;
use crate::workspace::Workspace;

/// The most that is read of one text.
const TEXT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The content of a commit that has no files, in a repository with SHA-1, as git itself names it.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/// A part of what is kept of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// What the agent was given.
    Prompt,
    /// A file of the handoff, as the agent wrote it.
    Handoff(HandoffFile),
    /// The agent's event stream, of all attempts.
    Events,
    /// The output of the verification after the session.
    Verify,
}

/// The archive of one session.
#[derive(Debug)]
pub struct Kept {
    disk: Arc<dyn Disk>,
    layout: SessionLayout,
}

impl Kept {
    /// The archive of a session, whether or not there is anything in it.
    #[must_use]
    pub fn of(workspace: &Workspace, run: &RunId, stage: Option<&StageId>, session: SessionNumber) -> Self {
        let layout = StateLayout::new(&workspace.state_dir).run(run).relay(stage).session(session);
        Self { disk: Arc::new(RealDisk::fenced(&workspace.dir)), layout }
    }

    /// Where it lies.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.layout.dir()
    }

    /// The name of a part. An attempt after the first has prompt and handoff of its own.
    #[must_use]
    pub fn name(&self, part: Part, attempt: AttemptNumber) -> String {
        let (path, each) = match part {
            Part::Prompt => (self.layout.prompt(), true),
            Part::Handoff(file) => (self.layout.handoff(file), true),
            Part::Events => (self.layout.events(), false),
            Part::Verify => (self.layout.verify_log(), false),
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if each { of_attempt(&name, attempt) } else { name }
    }

    /// A part as it is kept, or nothing if it is not there.
    ///
    /// # Errors
    ///
    /// If the disk refuses.
    pub fn read(&self, part: Part, attempt: AttemptNumber) -> DiskResult<Option<Vec<u8>>> {
        found(self.disk.read(&self.path(part, attempt), TEXT_BYTES_MAX))
    }

    /// The same from the byte `from` on, as a stream, for what may be long or still growing.
    ///
    /// # Errors
    ///
    /// If the disk refuses.
    pub fn reader(
        &self,
        part: Part,
        attempt: AttemptNumber,
        from: u64,
    ) -> DiskResult<Option<Box<dyn Read + Send>>> {
        found(self.disk.reader(&self.path(part, attempt), from))
    }

    /// The files that are there, with their lengths in bytes. None if the session left nothing, or all of
    /// it was removed.
    ///
    /// # Errors
    ///
    /// If the disk refuses.
    pub fn files(&self) -> DiskResult<Vec<(String, u64)>> {
        let names = found(self.disk.list(self.layout.dir()))?.unwrap_or_default();
        let mut files = Vec::new();
        for name in names {
            if let Some(stat) = self.disk.stat(&self.layout.dir().join(&name))?
                && stat.kind == Kind::File
            {
                files.push((name.to_string_lossy().into_owned(), stat.len));
            }
        }
        Ok(files)
    }

    fn path(&self, part: Part, attempt: AttemptNumber) -> PathBuf {
        self.layout.dir().join(self.name(part, attempt))
    }
}

/// What git shows of the way from one commit to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    /// The text, within the work dir and without `.ekiden/`.
    pub text: String,
    /// There is more than was read.
    pub cut: bool,
}

/// How much of a change is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// The files and how much changed in each.
    Stat,
    /// Every line.
    Lines,
}

/// The difference between two commits, or from nothing to one. Nothing is said where git no longer has
/// them: a rebase or a clean-up may have removed them.
///
/// # Errors
///
/// If git cannot be asked.
pub fn patch(
    workspace: &Workspace,
    from: Option<&str>,
    to: &str,
    detail: Detail,
) -> Result<Option<Patch>, QuickError> {
    let stat = match detail {
        Detail::Stat => "--stat",
        Detail::Lines => "--patch",
    };
    let from = from.unwrap_or(EMPTY_TREE);
    let options =
        ["-c", "core.quotePath=false", "diff", stat, "--no-color", "--no-ext-diff", "--no-textconv"];
    let args = options.into_iter().chain(["--relative", from, to, "--", ".", ":(exclude).ekiden"]);
    let args: Vec<_> = args.map(Into::into).collect();
    let output = task::run_quick("git".as_ref(), &args, &workspace.dir, limits::SURVEY_TIMEOUT)?;
    let went_well = output.end == ekiden_agent::child::ChildEnd::Exited(0);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(went_well.then_some(Patch { text, cut: output.cut }))
}

fn found<T>(result: Result<T, DiskError>) -> DiskResult<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
