//! Where each file is. Paths only: nothing here looks at a disk.
//!
//! ```text
//! <state directory>/                  <work dir>/.ekiden/
//! ├── format  id                      ├── .gitignore  config.toml
//! ├── lock  lock-<worktree>           ├── handoff/
//! ├── guard/made/ guard/consumed/      ├── handoffs/
//! ├── planning/ planning-<worktree>/   │
//! └── runs/<run-id>/                  ├── TASK.md
//!     ├── log.jsonl                   ├── PROGRESS.md KNOWLEDGE.md NEXT_PROMPT.md
//!     ├── steer  report.md  report.html  ├── status.json
//!     ├── sessions/<n>/               └── runs -> <state directory>/runs
//!     └── stages/<id>/sessions/<n>/
//! ```
//!
//! Every name is fixed, or is an id that cannot contain a `/`, so no text of an agent can change a path.

use std::path::{Path, PathBuf};

use ekiden_core::handoff::HandoffFile;
use ekiden_core::ids::{RunId, SessionNumber, StageId};

/// The instructions that all sessions of a stage share.
pub const PROTOCOL: &str = "protocol.md";
/// The same for an agent that takes no messages, if an agent that does may share the stage.
pub const PROTOCOL_BY_ITEMS: &str = "protocol.items.md";
pub const LOG_FILE: &str = "log.jsonl";
pub const TASK_FILE: &str = "TASK.md";

/// A table of the files with fixed names in a directory: each becomes a method that returns its path.
macro_rules! files {
    ($layout:ident { $($(#[$doc:meta])* $name:ident: $path:expr,)* }) => {
        impl $layout {
            pub fn dir(&self) -> &Path {
                &self.dir
            }
            $($(#[$doc])* pub fn $name(&self) -> PathBuf {
                self.dir.join($path)
            })*
        }
    };
}

/// The paths of a state directory, which may serve several work dirs: the worktrees of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateLayout {
    dir: PathBuf,
}

files!(StateLayout {
    /// Says which layout this is: [`crate::format::STATE`].
    format: "format",
    /// A random id, under which the user's own state directory keeps what belongs to this state.
    id: "id",
    /// Handoff documents that ekiden made, each as an empty file of its name.
    documents_made: "guard/made",
    /// Handoff documents that a session has loaded, each with the session's id.
    documents_consumed: "guard/consumed",
    runs: "runs",
});

impl StateLayout {
    /// The layout beneath this directory: an absolute path, links resolved as far as it exists.
    pub fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
        }
    }

    /// The lock of a work dir: the main one's, or that of a linked worktree, by its git name.
    pub fn lock(&self, worktree: Option<&str>) -> PathBuf {
        self.of_worktree("lock", worktree)
    }

    /// The prompts, streams and refused answer of the last planning in a work dir.
    pub fn planning(&self, worktree: Option<&str>) -> PathBuf {
        self.of_worktree("planning", worktree)
    }

    /// Where a temporary index for commits of work in progress is kept.
    pub fn wip_index(&self, name: &str) -> PathBuf {
        assert_is_name(name);
        self.dir.join("guard").join(format!("{name}.index"))
    }

    pub fn run(&self, run: &RunId) -> RunLayout {
        RunLayout {
            dir: self.runs().join(run.as_str()),
        }
    }

    fn of_worktree(&self, name: &str, worktree: Option<&str>) -> PathBuf {
        let Some(worktree) = worktree else {
            return self.dir.join(name);
        };
        assert_is_name(worktree);
        self.dir.join(format!("{name}-{worktree}"))
    }
}

/// Names of worktrees come from git, which allows no `/` in them.
fn assert_is_name(name: &str) {
    assert!(
        !name.is_empty() && !name.contains('/'),
        "`{name}` is not a plain name"
    );
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunLayout {
    dir: PathBuf,
}

files!(RunLayout {
    log: LOG_FILE,
    /// The socket on which a running run is steered.
    socket: "steer",
    /// The result of the run, for people.
    report_markdown: "report.md",
    /// The same with drawings, for a browser.
    report_html: "report.html",
    /// What a damaged log still tells. The report from before the damage tells more, and stays.
    partial_markdown: "report-partial.md",
    partial_html: "report-partial.html",
    /// What sessions on other machines are doing now.
    at_work: "at-work.json",
    /// The relays of a plan.
    stages: "stages",
});

impl RunLayout {
    /// The relay of a plan's stage, or of the only stage if none is named.
    pub fn relay(&self, stage: Option<&StageId>) -> RelayLayout {
        RelayLayout {
            dir: stage.map_or(self.dir.clone(), |stage| self.stages().join(stage.as_str())),
        }
    }
}

/// The paths of one stage's relay: in a plan in a separate directory, else in the run's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayLayout {
    dir: PathBuf,
}

files!(RelayLayout {
    protocol: PROTOCOL,
    /// Files that were where the relay and its sessions write when it began, and were not its own.
    left: "left",
    /// What the stage hands off to those that need it.
    result: "handoff.md",
    /// Held while anything of an attempt lives. All sessions share one, so that none needs a new file.
    attempt_lock: "attempt.lock",
    sessions: "sessions",
});

impl RelayLayout {
    pub fn session(&self, session: SessionNumber) -> SessionLayout {
        SessionLayout {
            dir: self.sessions().join(session.to_string()),
        }
    }
}

/// The paths of one session's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionLayout {
    dir: PathBuf,
}

files!(SessionLayout {
    /// The prompt, as it was sent.
    prompt: Self::PROMPT,
    /// The agent's event stream, as it came.
    events: "events.jsonl",
    /// The output of the verification after this session.
    verify_log: "verify.log",
    /// Files that were in the handoff directory or in place of published files when an attempt was over, and
    /// were not an accepted handoff.
    left: "left",
});

impl SessionLayout {
    pub const PROMPT: &'static str = "prompt.md";

    pub fn handoff(&self, file: HandoffFile) -> PathBuf {
        self.dir.join(match file {
            HandoffFile::Progress => "progress.md",
            HandoffFile::NextPrompt => "next_prompt.md",
            HandoffFile::Knowledge => "knowledge.md",
        })
    }
}

/// The paths of what people and the agent see: `.ekiden/` in the work dir.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    pub work_dir: PathBuf,
    dir: PathBuf,
}

files!(Published {
    handoff: "handoff",
    /// Handoff documents of watched sessions.
    handoffs: "handoffs",
    /// The untracked files that a plan names for its stage.
    context: "context",
    /// The task, frozen at the start.
    task: TASK_FILE,
    /// A watched session, for other programs.
    checkpoint_state: "checkpoint-state.json",
    /// A loop, for other programs and its next iteration.
    ralph_state: "ralph-state.json",
    status: "status.json",
    /// A link to the runs in the state directory.
    runs: "runs",
    /// Keeps everything but the settings out of git.
    gitignore: ".gitignore",
});

impl Published {
    /// The paths in this work dir: an absolute path, links resolved.
    pub fn new(work_dir: &Path) -> Self {
        Self {
            work_dir: work_dir.to_owned(),
            dir: work_dir.join(".ekiden"),
        }
    }

    pub fn file(&self, file: HandoffFile) -> PathBuf {
        self.dir.join(file.name())
    }
}
