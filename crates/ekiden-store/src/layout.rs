//! Where each file lies. Paths only: nothing here looks at a disk.
//!
//! ```text
//! <state directory>/                  <work dir>/.ekiden/
//! ├── format                          ├── .gitignore  config.toml
//! ├── lock  lock-<worktree>           ├── handoff/
//! ├── guard/made/ guard/consumed/      ├── handoffs/
//! ├── planning/ planning-<worktree>/   │
//! └── runs/<run-id>/                  ├── TASK.md
//!     ├── log.jsonl                   ├── PROGRESS.md KNOWLEDGE.md NEXT_PROMPT.md
//!     ├── inbox/  inbox/bad/          ├── status.json
//!     ├── sessions/<n>/               └── runs -> <state directory>/runs
//!     └── stages/<id>/sessions/<n>/
//! ```
//!
//! Every name is fixed or an id that cannot hold a `/`, so no text of an agent can change a path.

use std::path::{Path, PathBuf};

use ekiden_core::handoff::HandoffFile;
use ekiden_core::ids::{RunId, SessionNumber, StageId};

/// The standing text of a stage's agents.
pub const PROTOCOL: &str = "protocol.md";

/// The paths of a state directory, which may serve several work dirs: the worktrees of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateLayout {
    root: PathBuf,
}

impl StateLayout {
    /// The layout beneath this directory: an absolute path, links resolved as far as it exists.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The state directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Says which layout this is: [`crate::format::STATE`].
    #[must_use]
    pub fn format(&self) -> PathBuf {
        self.root.join("format")
    }

    /// The lock of a work dir: the main one's, or that of a linked worktree by its git name.
    ///
    /// # Panics
    ///
    /// If the name is no plain file name, which git's names are.
    #[must_use]
    pub fn lock(&self, worktree: Option<&str>) -> PathBuf {
        match worktree {
            None => self.root.join("lock"),
            Some(name) => {
                assert!(!name.is_empty() && !name.contains('/'), "`{name}` is no plain name");
                self.root.join(format!("lock-{name}"))
            }
        }
    }

    /// Handoff documents that ekiden made, each as an empty file of its name.
    #[must_use]
    pub fn documents_made(&self) -> PathBuf {
        self.root.join("guard").join("made")
    }

    /// Handoff documents that a session has loaded, each with the session's id.
    #[must_use]
    pub fn documents_consumed(&self) -> PathBuf {
        self.root.join("guard").join("consumed")
    }

    /// Where an index for commits of work in progress lies while it is needed.
    ///
    /// # Panics
    ///
    /// If the name is no plain file name.
    #[must_use]
    pub fn wip_index(&self, name: &str) -> PathBuf {
        assert!(!name.is_empty() && !name.contains('/'), "`{name}` is no plain name");
        self.root.join("guard").join(format!("{name}.index"))
    }

    /// What the last planning of a work dir left: its prompts and streams, and an answer that was refused.
    /// The main one's, or that of a linked worktree by its git name.
    ///
    /// # Panics
    ///
    /// If the name is no plain file name, which git's names are.
    #[must_use]
    pub fn planning(&self, worktree: Option<&str>) -> PathBuf {
        match worktree {
            None => self.root.join("planning"),
            Some(name) => {
                assert!(!name.is_empty() && !name.contains('/'), "`{name}` is no plain name");
                self.root.join(format!("planning-{name}"))
            }
        }
    }

    /// All runs.
    #[must_use]
    pub fn runs(&self) -> PathBuf {
        self.root.join("runs")
    }

    /// One run.
    #[must_use]
    pub fn run(&self, run: &RunId) -> RunLayout {
        RunLayout { dir: self.runs().join(run.as_str()) }
    }
}

/// The paths of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunLayout {
    dir: PathBuf,
}

impl RunLayout {
    /// The run's directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The log.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.dir.join("log.jsonl")
    }

    /// Messages to the engine.
    #[must_use]
    pub fn inbox(&self) -> PathBuf {
        self.dir.join("inbox")
    }

    /// The relays of a plan.
    #[must_use]
    pub fn stages(&self) -> PathBuf {
        self.dir.join("stages")
    }

    /// The relay of a stage of a plan; of the only stage if none is named.
    #[must_use]
    pub fn relay(&self, stage: Option<&StageId>) -> RelayLayout {
        let dir = match stage {
            Some(stage) => self.stages().join(stage.as_str()),
            None => self.dir.clone(),
        };
        RelayLayout { dir }
    }
}

/// The paths of one stage's relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayLayout {
    dir: PathBuf,
}

impl RelayLayout {
    /// The relay's directory; the run's own where there is no plan.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The standing text, the same for every session of the relay.
    #[must_use]
    pub fn protocol(&self) -> PathBuf {
        self.dir.join(PROTOCOL)
    }

    /// Files that stood where the relay publishes when it began, and were not its own.
    #[must_use]
    pub fn left(&self) -> PathBuf {
        self.dir.join("left")
    }

    /// What the stage hands over to those that need it.
    #[must_use]
    pub fn result(&self) -> PathBuf {
        self.dir.join("handoff.md")
    }

    /// What the stage was given to put right, in git's words.
    #[must_use]
    pub fn conflicts(&self) -> PathBuf {
        self.dir.join("conflicts.json")
    }

    /// Held while anything of an attempt lives. One for all sessions: a new file lies between no two of them.
    #[must_use]
    pub fn attempt_lock(&self) -> PathBuf {
        self.dir.join("attempt.lock")
    }

    /// All sessions.
    #[must_use]
    pub fn sessions(&self) -> PathBuf {
        self.dir.join("sessions")
    }

    /// One session.
    #[must_use]
    pub fn session(&self, session: SessionNumber) -> SessionLayout {
        SessionLayout { dir: self.sessions().join(session.to_string()) }
    }
}

/// The paths of one session's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionLayout {
    dir: PathBuf,
}

impl SessionLayout {
    /// The prompt's name in [`SessionLayout::dir`].
    pub const PROMPT: &'static str = "prompt.md";

    /// The session's directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The prompt, as it was sent.
    #[must_use]
    pub fn prompt(&self) -> PathBuf {
        self.dir.join(Self::PROMPT)
    }

    /// The agent's event stream, as it came.
    #[must_use]
    pub fn events(&self) -> PathBuf {
        self.dir.join("events.jsonl")
    }

    /// A file of the handoff, as it was accepted.
    #[must_use]
    pub fn handoff(&self, file: HandoffFile) -> PathBuf {
        self.dir.join(match file {
            HandoffFile::Progress => "progress.md",
            HandoffFile::NextPrompt => "next_prompt.md",
            HandoffFile::Knowledge => "knowledge.md",
        })
    }

    /// The output of the verification after this session.
    #[must_use]
    pub fn verify_log(&self) -> PathBuf {
        self.dir.join("verify.log")
    }

    /// Files that stood in the handoff directory or in place of published files when an attempt was
    /// over, and were no accepted handoff.
    #[must_use]
    pub fn left(&self) -> PathBuf {
        self.dir.join("left")
    }
}

/// The published file of the task.
pub const TASK_FILE: &str = "TASK.md";

/// The paths of what people and the agent see: `.ekiden/` in the work dir.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    work_dir: PathBuf,
}

impl Published {
    /// The paths in this work dir: an absolute path, links resolved.
    #[must_use]
    pub fn new(work_dir: &Path) -> Self {
        Self { work_dir: work_dir.to_owned() }
    }

    /// The work dir.
    #[must_use]
    pub fn work_dir(&self) -> &Path {
        &self.work_dir
    }

    /// `.ekiden/`
    #[must_use]
    pub fn dir(&self) -> PathBuf {
        self.work_dir.join(".ekiden")
    }

    /// Where the agent writes.
    #[must_use]
    pub fn handoff(&self) -> PathBuf {
        self.dir().join("handoff")
    }

    /// Handoff documents of watched sessions.
    #[must_use]
    pub fn handoffs(&self) -> PathBuf {
        self.dir().join("handoffs")
    }

    /// The task, frozen at the start.
    #[must_use]
    pub fn task(&self) -> PathBuf {
        self.dir().join(TASK_FILE)
    }

    /// A published file of the handoff.
    #[must_use]
    pub fn file(&self, file: HandoffFile) -> PathBuf {
        self.dir().join(file.name())
    }

    /// A watched session, for other programs.
    #[must_use]
    pub fn checkpoint_state(&self) -> PathBuf {
        self.dir().join("checkpoint-state.json")
    }

    /// For other programs.
    #[must_use]
    pub fn status(&self) -> PathBuf {
        self.dir().join("status.json")
    }

    /// The project's settings, which may be committed.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.dir().join("config.toml")
    }

    /// A link to the runs in the state directory.
    #[must_use]
    pub fn runs(&self) -> PathBuf {
        self.dir().join("runs")
    }

    /// Keeps everything but the settings out of git.
    #[must_use]
    pub fn gitignore(&self) -> PathBuf {
        self.dir().join(".gitignore")
    }
}
