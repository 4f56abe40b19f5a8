//! Reads the archive of a session: its texts, and the changes of its commits.
//!
//! A missing file is not an error: archives may be pruned, a session may have crashed before it wrote
//! anything, and git may have forgotten a commit.

use std::io::Read;
use std::path::{Path, PathBuf};

use ekiden_agent::child::SpawnError;
use ekiden_agent::task;
use ekiden_core::handoff::HandoffFile;
use ekiden_core::ids::{AttemptNumber, RunId, SessionNumber, StageId};
use ekiden_core::limits;
use ekiden_store::disk::{Disk, DiskResult, Kind, RealDisk, if_there};
use ekiden_store::layout::SessionLayout;

use crate::run_files::of_attempt;
use crate::workspace::Workspace;

/// How much is read of one text.
const TEXT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The content of a commit that has no files, as git itself names it, in a repository with SHA-1 and in one with
/// SHA-256.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
const EMPTY_TREE_SHA256: &str = "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321";

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

#[derive(Debug)]
pub struct SessionArchive {
    disk: RealDisk,
    layout: SessionLayout,
}

impl SessionArchive {
    /// The archive of a session, whether or not it contains anything.
    pub fn of(
        workspace: &Workspace,
        run: &RunId,
        stage: Option<&StageId>,
        session: SessionNumber,
    ) -> Self {
        let run = workspace.layout().run(run);
        Self {
            disk: workspace.disk(),
            layout: run.relay(stage).session(session),
        }
    }

    pub fn dir(&self) -> &Path {
        self.layout.dir()
    }

    /// The name of a part. An attempt after the first has its own prompt and handoff.
    pub fn name(&self, part: Part, attempt: AttemptNumber) -> String {
        let name = |path: PathBuf| {
            let name = path.file_name().unwrap_or_default();
            name.to_string_lossy().into_owned()
        };
        match part {
            Part::Prompt => of_attempt(&name(self.layout.prompt()), attempt),
            Part::Handoff(file) => of_attempt(&name(self.layout.handoff(file)), attempt),
            Part::Events => name(self.layout.events()),
            Part::Verify => name(self.layout.verify_log()),
        }
    }

    pub fn read(&self, part: Part, attempt: AttemptNumber) -> DiskResult<Option<Vec<u8>>> {
        if_there(self.disk.read(&self.path(part, attempt), TEXT_BYTES_MAX))
    }

    /// The same from the byte `from` on, as a stream, for a part that may be long or still growing.
    pub fn reader(
        &self,
        part: Part,
        attempt: AttemptNumber,
        from: u64,
    ) -> DiskResult<Option<Box<dyn Read + Send>>> {
        if_there(self.disk.reader(&self.path(part, attempt), from))
    }

    /// The files that are there, with their lengths in bytes. Empty if the session left nothing, or all of
    /// it was removed.
    pub fn files(&self) -> DiskResult<Vec<(String, u64)>> {
        let names = if_there(self.disk.list(self.dir()))?.unwrap_or_default();
        let mut files = Vec::new();
        for name in names {
            if let Some(stat) = self.disk.stat(&self.dir().join(&name))?
                && stat.kind == Kind::File
            {
                files.push((name.to_string_lossy().into_owned(), stat.len));
            }
        }
        // What it left in place of a file is shown too, whatever it is.
        let left = self.layout.left();
        for name in if_there(self.disk.list(&left))?.unwrap_or_default() {
            let bytes = self
                .disk
                .stat(&left.join(&name))?
                .map_or(0, |stat| stat.len);
            files.push((format!("left/{}", name.to_string_lossy()), bytes));
        }
        Ok(files)
    }

    fn path(&self, part: Part, attempt: AttemptNumber) -> PathBuf {
        self.dir().join(self.name(part, attempt))
    }
}

/// What git shows of the changes from one commit to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    /// The text, within the work dir and without `.ekiden/`.
    pub text: String,
    pub cut: bool,
}

/// The difference between two commits, or from nothing to one; with `stat`, the files and how much changed in each. None if git no longer has them: a rebase or a
/// clean-up may have removed them.
pub fn patch(
    workspace: &Workspace,
    from: Option<&str>,
    to: &str,
    stat: bool,
) -> Result<Option<Patch>, SpawnError> {
    let form = if stat { "--stat" } else { "--patch" };
    let nothing = match to.len() == EMPTY_TREE_SHA256.len() {
        true => EMPTY_TREE_SHA256,
        false => EMPTY_TREE,
    };
    let from = from.unwrap_or(nothing);
    let args = [
        "-c",
        "core.quotePath=false",
        "diff",
        form,
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
        "--relative",
        from,
        to,
        "--",
        ".",
        ":(exclude).ekiden",
    ];
    let output = task::run_quick("git", &args, &workspace.dir, limits::SURVEY_TIMEOUT)?;
    let went_well = output.end == ekiden_agent::child::ChildEnd::Exited(0);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(went_well.then_some(Patch {
        text,
        cut: output.cut,
    }))
}
