//! Trackers according to the settings: where they are, with which key, and which issue a name means.
//!
//! ```text
//! run ──────► Feed ──┐                       ┌─► thread of the run
//! checkpoint ────────┼─► outbox (user's) ────┤
//! issue, tracker ────┘                       └─► `__tracker`, a process of its own
//! ```
//!
//! Without `tracker.kind`, ekiden writes nothing to an issue that nobody named: a branch of a cloned
//! repository must not make ekiden post there.

mod comments;
mod credential;
mod feed;
mod role;
mod watched;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use ekiden_agent::task::run_quick;
use ekiden_core::guard::checkpoint::issue_of_branch;
use ekiden_core::issue::{Issue, IssueRef, Naming, TrackerKind};
use ekiden_core::limits;
use ekiden_core::text::{in_full, shell_word};
use ekiden_core::time::Timestamp;
use ekiden_engine::git::branch;
use ekiden_store::disk::{RealDisk, parent};
use ekiden_store::outbox::Outbox;
use ekiden_tracker::{
    Fault, GitHub, Known, Linear, Local, Queued, RealWeb, Sender, Sent, Tracker, Write,
};

pub use self::feed::Feed;
pub use self::role::{ROLE, begin, run};
pub use self::watched::{LoopInIssue, tell_checkpoint, tell_continued};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::phrase;
use crate::settings::environment::Environment;
use crate::settings::given::Given;
use crate::settings::table::{self, Setting, TABLE};

/// How long a checkpoint and `orient` wait for a tracker's answer.
const ASK_PATIENCE: Duration = Duration::from_secs(4);

#[derive(Debug, Clone)]
pub struct Trackers {
    given: Given,
    environment: Environment,
    dir: PathBuf,
    web: Known<RealWeb>,
}

impl Trackers {
    pub fn new(given: &Given, environment: &Environment, dir: &Path) -> Self {
        Self {
            given: given.clone(),
            environment: environment.clone(),
            dir: dir.to_owned(),
            web: Known::new(RealWeb),
        }
    }

    /// The trackers of a project, for processes that no person started.
    pub fn of_project(dir: &Path) -> Result<Self, Failure> {
        let environment = Environment::of_process();
        let given = Given::gather_unasked(dir, &environment)?;
        Ok(Self::new(&given, &environment, dir))
    }

    /// The user's outbox; `None` without a home.
    pub fn outbox(&self) -> Option<Outbox> {
        let dir = self.environment.state_home()?.join("ekiden/outbox");
        Some(Outbox::of(Arc::new(RealDisk::new()), &dir))
    }

    /// The project's tracker, if the user set one.
    pub fn kind(&self) -> Option<TrackerKind> {
        self.get(&table::TRACKER_KIND).flatten()
    }

    /// The issue that a name, a number or an address means.
    pub fn named(&self, text: &str) -> Result<IssueRef, Failure> {
        self.read(text).map_err(|why| {
            let text = format!("`{text}` names no issue: {why}");
            Failure::new(Exit::MissingInput, text)
                .hint("such as ANV-123, owner/name#12, or an issue's address")
        })
    }

    /// The issue that the project's tracker has by this name, if the user set a tracker. A bare number or
    /// key never means another tracker.
    pub fn of_name(&self, name: &str) -> Option<IssueRef> {
        let kind = self.kind()?;
        let issue = self.read(name).ok()?;
        (issue.tracker == kind || name.contains('/')).then_some(issue)
    }

    /// Whether the configured tracker can have an issue of this name. Makes no request, so hooks can call
    /// it.
    pub fn takes_name(&self, name: &str) -> bool {
        let host = self.github_host();
        let naming = Naming {
            tracker: self.kind(),
            repo: Some("owner/name"),
            github_host: &host,
        };
        naming.tracker.is_some_and(|kind| {
            let issue = IssueRef::read(name, naming);
            issue.is_ok_and(|issue| issue.tracker == kind || name.contains('/'))
        })
    }

    /// The issue that a branch's name means, if the user set a tracker. One in a file must be there.
    pub fn of_branch(&self, branch: &str) -> Option<IssueRef> {
        let issue = self.of_name(&issue_of_branch(branch)?)?;
        let is_there = issue.tracker != TrackerKind::Local || self.local().has(&issue.id);
        is_there.then_some(issue)
    }

    fn read(&self, text: &str) -> Result<IssueRef, String> {
        let host = self.github_host();
        let kind = self.kind();
        // Only a number needs it, and it takes a call of git.
        let is_number = kind == Some(TrackerKind::Github) || text.trim().starts_with('#');
        let needs_repo = is_number && !text.contains('/');
        let repo = needs_repo.then(|| self.repo(&host)).flatten();
        let naming = Naming {
            tracker: kind,
            repo: repo.as_deref(),
            github_host: &host,
        };
        let mut issue = IssueRef::read(text, naming)?;
        if issue.tracker == TrackerKind::Local && !issue.repo.is_empty() {
            // A file may be named from where the person stands.
            let dir = std::path::absolute(&issue.repo).map_err(|error| error.to_string())?;
            let real = dir.canonicalize().ok();
            let is_ours = real.is_some() && real == self.local_dir().canonicalize().ok();
            issue.repo = match is_ours {
                true => String::new(),
                false => dir.to_string_lossy().into_owned(),
            };
        }
        // A file of that name takes precedence over a service that nobody set.
        let local =
            kind.is_none() && issue.tracker == TrackerKind::Linear && self.local().has(&issue.id);
        Ok(match local {
            true => IssueRef::plain(TrackerKind::Local, &issue.id),
            false => issue,
        })
    }

    pub fn open(&self, issue: &IssueRef) -> Result<Box<dyn Tracker>, Fault> {
        self.check_settings()?;
        Ok(match issue.tracker {
            TrackerKind::Local if !issue.repo.is_empty() => {
                Box::new(self.local_in(Path::new(&issue.repo)))
            }
            TrackerKind::Local => Box::new(self.local()),
            TrackerKind::Linear => {
                let url = self.get(&table::TRACKER_LINEAR_URL).unwrap_or_default();
                Box::new(Linear::new(RealWeb, url, &self.key(issue.tracker)?))
            }
            TrackerKind::Github => {
                let url = self.get(&table::TRACKER_GITHUB_URL).unwrap_or_default();
                let key = self.key(issue.tracker)?;
                let tracker = GitHub::new(self.web.clone(), &url, issue.repo.clone(), &key);
                // Without the setting, the repository is that of `origin`.
                let set = self.get(&table::TRACKER_GITHUB_REPO);
                let origin = set.and_then(|_| self.origin(&self.github_host()));
                match origin {
                    Some(origin) => Box::new(tracker.pushed_to(&origin)),
                    None => Box::new(tracker),
                }
            }
        })
    }

    /// Settings that do not count might name another host, and another key for it.
    fn check_settings(&self) -> Result<(), Fault> {
        if let Some(fault) = &self.given.unused {
            return Err(unusable(&self.dir, fault));
        }
        let mut rows = TABLE.iter().filter(|row| row.name.starts_with("tracker."));
        let held = rows.find_map(|row| Some((row.name, self.given.held_back(row)?)));
        held.map_or(Ok(()), |(name, held)| {
            let approve = format!(
                "`ekiden config approve -d {}`",
                shell_word(&self.dir.to_string_lossy())
            );
            Err(Fault::Settings(format!(
                "{} sets `{name}`, which needs your approval: {approve}",
                held.place
            )))
        })
    }

    /// The project's tracker without an issue: for lists and new issues.
    pub fn open_project(&self, kind: TrackerKind) -> Result<Box<dyn Tracker>, Fault> {
        let repo = match kind {
            TrackerKind::Github => self.repo(&self.github_host()).unwrap_or_default(),
            TrackerKind::Linear | TrackerKind::Local => String::new(),
        };
        if kind == TrackerKind::Github && repo.is_empty() {
            return Err(Fault::Missing(
                "a repository (set `tracker.github.repo`, or `git remote add origin URL`)"
                    .to_owned(),
            ));
        }
        let id = String::new();
        self.open(&IssueRef {
            tracker: kind,
            repo,
            id,
        })
    }

    /// Where the pull request of a branch is: on GitHub, or in a file as a rehearsal.
    pub fn pull_request(&self, branch: String) -> Result<IssueRef, Failure> {
        let (tracker, repo) = match self.kind() {
            Some(TrackerKind::Local) => (TrackerKind::Local, String::new()),
            Some(TrackerKind::Linear | TrackerKind::Github) | None => {
                let pushes = self.remote().is_some();
                let repo = self.repo(&self.github_host()).filter(|_| pushes);
                let repo = repo.ok_or_else(|| {
                    let text = "cannot tell which repository on GitHub takes a pull request, or where to push";
                    Failure::new(Exit::MissingInput, text)
                        .hint("`git remote add origin URL`, and `tracker.github.repo` if it is not on GitHub")
                })?;
                (TrackerKind::Github, repo)
            }
        };
        let id = branch;
        Ok(IssueRef { tracker, repo, id })
    }

    /// What the tracker says about an issue, in a few lines, or why it says nothing. Waits [`ASK_PATIENCE`]
    /// at most.
    pub fn ask(&self, issue: &IssueRef) -> Result<Issue, String> {
        let issue = issue.clone();
        let asked = self.in_time(move |trackers| {
            let tracker = trackers.open(&issue)?;
            tracker.issue(&issue.id).map(|found| Issue {
                name: issue.to_string(),
                ..found
            })
        });
        asked?.map_err(|fault| fault.to_string())
    }

    /// What they answer within [`ASK_PATIENCE`].
    fn in_time<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, String> {
        let trackers = self.clone();
        let (sender, answer) = mpsc::channel();
        // Perhaps nobody waits any more.
        let ask = move || drop(sender.send(ask(&trackers)));
        let started = std::thread::Builder::new()
            .name("tracker".to_owned())
            .spawn(ask);
        started.map_err(|error| error.to_string())?;
        let answer = answer.recv_timeout(ASK_PATIENCE);
        answer.map_err(|_| "no answer".to_owned())
    }

    /// Sends what is due, for all projects. Call it under the outbox's lock.
    pub fn send(&self, outbox: &Outbox, now: Timestamp, all: bool) -> Result<Sent, Failure> {
        // Each project has its own settings.
        let open = |dir: &Path, issue: &IssueRef| match dir == self.dir {
            true => self.open(issue),
            false => Self::of_project(dir)
                .map_err(|failure| unusable(dir, failure.error()))?
                .open(issue),
        };
        let push = |dir: &Path, branch: &str| branch::push(dir, branch).map_err(Fault::Refused);
        let sender = Sender {
            outbox,
            open: &open,
            push: &push,
            now,
            jitter: uuid::Uuid::new_v4().as_bytes()[0],
        };
        Ok(sender.send(all)?)
    }

    pub fn local(&self) -> Local {
        self.local_in(&self.local_dir())
    }

    /// Where this project has issues in files.
    pub fn local_dir(&self) -> PathBuf {
        let dir = self.get(&table::TRACKER_LOCAL_DIR).unwrap_or_default();
        self.dir.join(dir)
    }

    /// Stores a write to an issue in the outbox, durably. Returns whether it is new. The error is a line.
    fn queue(
        &self,
        outbox: &Outbox,
        issue: &IssueRef,
        key: String,
        (at, order): (Timestamp, u64),
        write: Write,
    ) -> Result<bool, String> {
        let queued = Queued {
            v: Queued::VERSION,
            key,
            at,
            order,
            dir: self.dir.clone(),
            issue: self.in_outbox(issue),
            write,
        };
        let queued = queued.queue(outbox);
        queued.map_err(|error| format!("cannot {}", in_full(&error)))
    }

    /// The same issue in the outbox, where a file's name alone is not unique: it holds writes of all projects.
    fn in_outbox(&self, issue: &IssueRef) -> IssueRef {
        let mut issue = issue.clone();
        if issue.tracker == TrackerKind::Local && issue.repo.is_empty() {
            issue.repo = self.local_dir().to_string_lossy().into_owned();
        }
        issue
    }

    fn local_in(&self, dir: &Path) -> Local {
        let is_ours = dir.starts_with(&self.dir);
        let project = if is_ours { &self.dir } else { parent(dir) };
        Local::new(Arc::new(RealDisk::fenced(&self.dir)), project, dir)
    }

    /// The address of GitHub's pages, derived from the address of its API.
    fn github_host(&self) -> String {
        let url = self.get(&table::TRACKER_GITHUB_URL).unwrap_or_default();
        let rest = url.split_once("://").map_or(&*url, |(_, rest)| rest);
        let host = rest.split('/').next().unwrap_or_default();
        host.strip_prefix("api.").unwrap_or(host).to_owned()
    }

    /// The project's repository on GitHub: from the settings, otherwise from `origin`.
    fn repo(&self, host: &str) -> Option<String> {
        let set = self.get(&table::TRACKER_GITHUB_REPO);
        set.or_else(|| self.origin(host))
    }

    /// The repository that branches are pushed to, if it is on GitHub.
    fn origin(&self, host: &str) -> Option<String> {
        repo_of(&self.remote()?, host)
    }

    /// Where branches are pushed to, if there is such a place.
    fn remote(&self) -> Option<String> {
        let args = ["remote", "get-url", "origin"];
        let origin = run_quick("git", &args, &self.dir, limits::NOTIFY_TIMEOUT).ok()?;
        let origin = String::from_utf8_lossy(&origin.stdout).trim().to_owned();
        (!origin.is_empty()).then_some(origin)
    }

    fn get<T>(&self, setting: &Setting<T>) -> Option<T> {
        self.given.get(setting).ok().flatten()
    }
}

fn unusable(dir: &Path, fault: &str) -> Fault {
    let dir = phrase::project(dir);
    Fault::Settings(format!("the settings of {dir} cannot be used: {fault}"))
}

/// `git@HOST:owner/name.git`, `https://HOST/owner/name`
fn repo_of(origin: &str, host: &str) -> Option<String> {
    let (at, path) = match origin.split_once("://") {
        Some((_, rest)) => rest.split_once('/')?,
        None => origin.split_once(':')?,
    };
    let at = at.rsplit_once('@').map_or(at, |(_, at)| at);
    let found = at.split_once(':').map_or(at, |(found, _)| found);
    // GitHub's name for SSH on the port of HTTPS.
    let found = found.strip_prefix("ssh.").unwrap_or(found);
    let repo = path.trim_matches('/');
    let repo = repo.strip_suffix(".git").unwrap_or(repo);
    let is_it = found.eq_ignore_ascii_case(host) && ekiden_core::issue::is_repo(repo);
    is_it.then(|| repo.to_owned())
}

/// A fault as a failure of a command; `what` reads well after "cannot".
pub fn failure(what: &str, kind: TrackerKind, fault: &Fault) -> Failure {
    let exit = match fault {
        Fault::Settings(_) => Exit::Settings,
        Fault::Missing(_) => Exit::MissingInput,
        Fault::NoKey(_) | Fault::KeyCommand(_) | Fault::NotPermitted(_) => Exit::NotPermitted,
        Fault::Unreachable(_) | Fault::Failing(_) | Fault::Limited { .. } | Fault::Garbage(_) => {
            Exit::Unreachable
        }
        // Its files cannot be read or written.
        Fault::Refused(_) if kind == TrackerKind::Local => Exit::State,
        Fault::Refused(_) => Exit::InvalidInput,
    };
    let failure = Failure::new(exit, format!("cannot {what}: {}: {fault}", kind.name()));
    match fault {
        Fault::NoKey(_) => failure.hint("or let a program print it: `tracker.credential_command`"),
        Fault::KeyCommand(_) => failure.hint("`tracker.credential_command` must print a key"),
        Fault::NotPermitted(_) => failure.hint("`ekiden doctor` checks the key"),
        Fault::Missing(_) if kind != TrackerKind::Local => {
            failure.hint("or it exists, but the key has no access to it")
        }
        Fault::Settings(_)
        | Fault::Missing(_)
        | Fault::Unreachable(_)
        | Fault::Failing(_)
        | Fault::Limited { .. }
        | Fault::Garbage(_)
        | Fault::Refused(_) => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: TRK-05
    #[test]
    fn a_repository_is_found_by_its_remote() {
        for (origin, host, repo) in [
            ("git@github.com:me/app.git", "github.com", Some("me/app")),
            ("https://github.com/me/app", "github.com", Some("me/app")),
            (
                "ssh://git@github.corp/me/app.git/",
                "github.corp",
                Some("me/app"),
            ),
            (
                "ssh://git@ssh.github.com:443/me/app.git",
                "github.com",
                Some("me/app"),
            ),
            (
                "https://x:token@GitHub.com/me/app.git",
                "github.com",
                Some("me/app"),
            ),
            ("https://notgithub.com/me/app", "github.com", None),
            ("/srv/github.com/me/app", "github.com", None),
            ("https://gitlab.com/me/app", "github.com", None),
            ("", "github.com", None),
        ] {
            assert_eq!(repo_of(origin, host).as_deref(), repo, "{origin}");
        }
    }
}
