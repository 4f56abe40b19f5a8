//! How the dispatcher starts, continues and stops runs. It does each with a command of ekiden, so a run is
//! the same as if a person had typed the command.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ekiden_agent::detached;
use ekiden_core::ids::MessageId;
use ekiden_core::issue::{Issue, IssueRef, TrackerKind};
use ekiden_core::limits;
use ekiden_core::settings::Settings;
use ekiden_core::steering::{Steered, Steering};
use ekiden_core::time::Millis;
use ekiden_engine::clock::{Clock as _, SystemClock};
use ekiden_engine::git::branch;
use ekiden_engine::steering::RunningRun;
use ekiden_engine::workspace::Workspace;
use ekiden_store::disk::{Disk as _, Reach, RealDisk};
use ekiden_tracker::Queued;

use super::place::{IssueWorktree, SENDER, Standing, label_file};
use super::{DispatchArgs, Dispatcher};
use crate::commands::Invocation;
use crate::commands::issue::branch_of;
use crate::exit::Exit;
use crate::failure::{Failure, OrFail as _};
use crate::settings::agents;
use crate::settings::approval::Approvals;
use crate::settings::file::{SettingsFile, settings_file};
use crate::settings::flags::words;
use crate::settings::given::{Flags, Given, Origin};
use crate::settings::table::{self, Row};

/// The branch of a run, unless `tracker.branch` says another.
const BRANCH: &str = "ekiden/{issue}-{title}";
/// The first pause after a run that could not be started; it doubles.
const PAUSE_MIN: Millis = Millis::from_secs(30);
const PAUSE_MAX: Millis = Millis::from_secs(60 * 60);
/// What bounds a run: `--total-budget` counts on it.
const BOUNDS: [&Row; 5] = [
    &table::MAX_SESSIONS.row,
    &table::RUN_BUDGET.row,
    &table::RUN_TOKENS.row,
    &table::SESSION_BUDGET.row,
    &table::SESSION_TOKENS.row,
];

/// What each run is started with beside its issue and its place.
pub(super) fn words_of_runs(
    args: &DispatchArgs,
    invocation: &Invocation,
    settings: &Settings,
) -> Result<Vec<String>, Failure> {
    let mut flags: Flags = args.typed.flags();
    flags.retain(|name, _| *name != table::WORK_DIR.row.name && *name != table::JSON.row.name);
    if invocation.given.origin(&table::GIT_COMMIT.row) == Origin::Default {
        flags.insert(table::GIT_COMMIT.row.name, "true".to_owned());
    }
    // This project's settings also apply in its worktrees, which are elsewhere and have only the committed
    // version of its file.
    for row in BOUNDS {
        let value = invocation.given.value(row);
        if let Some(value) = value.filter(|value| value.origin != Origin::Default) {
            flags.insert(row.name, value.text.clone());
        }
    }
    // A run refuses a budget for an agent that it does not know. Typed budgets are passed on as they are.
    // Of the files' budgets, only those for agents that the run certainly knows are: its own, and the
    // user's.
    let rows = Given::of_user(&invocation.environment)?.agents;
    let set = agents::budgets_set(&invocation.given)?;
    let mut budgets = settings.bounds.agents.clone();
    budgets.retain(|name, _| {
        set.contains_key(name) || *name == settings.agent.name || agents::find(&rows, name).is_ok()
    });
    let [budget, tokens] = agents::as_flags(&budgets);
    let permissions = &settings.agent.permissions;
    let skip = permissions.skip.then(|| "true".to_owned());
    for (row, text) in [
        (&table::SKIP_PERMISSIONS.row, skip),
        (&table::PERMISSION_MODE.row, permissions.mode.clone()),
        (&table::AGENT_BUDGET.row, budget),
        (&table::AGENT_TOKENS.row, tokens),
    ] {
        flags.extend(text.map(|text| (row.name, text)));
    }
    let mut all = words(&flags);
    all.extend(args.pull_request.then(|| "--pull-request".to_owned()));
    all.extend(
        args.task
            .iter()
            .flat_map(|task| ["--".to_owned(), task.clone()]),
    );
    Ok(all)
}

impl Dispatcher<'_> {
    pub(super) fn take(&mut self, named: &IssueRef, issue: &Issue, places: &[IssueWorktree]) {
        let there = places.iter().find(|place| place.issue == named.id);
        let tree = there.map_or_else(|| self.new_tree(&named.id), |place| place.tree.clone());
        // Since the last look, it may have been begun by a dispatcher that was killed meanwhile.
        if there.is_some() && self.unused(&tree).is_none() {
            return;
        }
        let form = self.branch.clone().unwrap_or_else(|| BRANCH.to_owned());
        let made = self.make(&tree);
        let name = match named.tracker {
            TrackerKind::Local => format!("{}/{}.md", named.repo, named.id),
            TrackerKind::Linear | TrackerKind::Github => named.to_string(),
        };
        let mut branch = branch_of(&form, named, &issue.title);
        if branch::exists(&self.workspace, &branch) {
            // It had a run before.
            let suffix = tree.to_string_lossy();
            let (_, suffix) = suffix.rsplit_once('-').unwrap_or_default();
            branch = format!("{branch}-{suffix}");
        }
        let mut words = vec!["run", "--issue", &name, "--branch", &branch, "--detach"];
        words.extend(self.words.iter().map(String::as_str));
        let begun = made.and_then(|()| self.run(&self.within(&tree), &words));
        if begun.is_err() {
            self.remove_unused(&tree);
        }
        self.begun(&named.id, &format!("taken, on {branch}"), begun);
    }

    /// Makes a worktree. Settings that the user approved for the project are approved there, too, as long as they are the same.
    fn make(&self, tree: &Path) -> Result<(), String> {
        let told = |failure: Failure| failure.error().to_owned();
        let base = branch::base(&self.workspace).map_err(|error| told(error.into()))?;
        let commit = base.map(|base| base.commit).unwrap_or_default();
        branch::add_worktree(&self.workspace.dir, tree, &commit)?;
        // Without it another dispatcher may take the issue for one that has lost its label.
        if let Some(file) = label_file(tree) {
            let label = self.args.label.as_bytes();
            let _ = RealDisk::new().create_file(&file, label, Reach::Cache);
        }
        let file = settings_file(&self.within(tree));
        let approve = || match SettingsFile::of_project(&file)? {
            Some(file) => Approvals::read(&self.environment)?.pass_on(&self.workspace.dir, &file),
            None => Ok(()),
        };
        approve().map_err(told)
    }

    pub(super) fn resume(&mut self, place: &IssueWorktree) {
        let Standing::CutOff(work) = &place.standing else {
            return;
        };
        let words = ["resume", work.run.as_str(), "--detach"];
        let begun = self.run(&place.workspace.dir, &words);
        self.begun(&place.issue, "goes on", begun);
    }

    /// Asks a run to hand off and stop, by a message that shows who sent it.
    pub(super) fn stop(&mut self, place: &IssueWorktree) {
        let sent = stop(&place.workspace);
        match sent {
            Ok(()) => self.say(&place.issue, "is asked to hand off and stop", None),
            Err(failure) => self.say(&place.issue, "cannot be stopped", Some(failure.error())),
        }
    }

    /// Removes a worktree that nobody needs, unless something in it is not committed or its branch is not pushed.
    /// Says once why it stays.
    pub(super) fn clear(&mut self, place: &IssueWorktree) {
        // Since it was looked at, the tracker was asked, and a person may have continued the run.
        let now = self.look_at(place.tree.clone());
        if now.is_none_or(|now| now.standing != place.standing) {
            return;
        }
        let outbox = self.trackers.outbox();
        let waiting = outbox.and_then(|outbox| outbox.waiting().ok());
        let mut waiting = waiting.iter().flatten().filter_map(Queued::of);
        let removed = match waiting.any(|write| write.dir == place.workspace.dir) {
            true => Err("writes of its run wait; `ekiden tracker status` shows them".to_owned()),
            false => self.remove(&place.tree, &place.workspace.dir),
        };
        let Err(why) = removed else {
            self.cleared_micro_usd += place.takes_micro_usd(0);
            return;
        };
        let before = self.kept_shown.insert(place.tree.clone(), why.clone());
        if before.as_ref() != Some(&why) {
            self.say(&place.issue, "keeps its worktree", Some(&why));
        }
    }

    /// Removes a worktree whose run could not begin.
    fn remove_unused(&self, tree: &Path) {
        if let Some(place) = self.unused(tree) {
            // One that stays is used by the next try.
            let _ = self.remove(tree, &place.workspace.dir);
        }
    }

    fn unused(&self, tree: &Path) -> Option<IssueWorktree> {
        let place = self.look_at(tree.to_owned());
        place.filter(|place| place.standing == Standing::Empty)
    }

    pub(super) fn look_at(&self, tree: PathBuf) -> Option<IssueWorktree> {
        let within = self.workspace.git.as_ref().map(|git| git.prefix.as_str());
        let (state_dir, home) = (self.state_dir.as_deref(), self.environment.state_home());
        IssueWorktree::look(tree, within.unwrap_or_default(), state_dir, home)
    }

    /// Removes a worktree, unless something in it is not committed.
    fn remove(&self, tree: &Path, dir: &Path) -> Result<(), String> {
        branch::remove_worktree(&self.workspace.dir, tree)?;
        let approvals = Approvals::read(&self.environment);
        // An approval of something that is gone does no harm.
        let _ = approvals.and_then(|approvals| approvals.withdraw(dir));
        Ok(())
    }

    /// Runs a command of ekiden in a work dir. Its answer, or why it failed.
    pub(super) fn run(&self, dir: &Path, words: &[&str]) -> Result<String, String> {
        let mut all: Vec<OsString> = words.iter().map(OsString::from).collect();
        all.splice(1..1, ["--work-dir".into(), dir.into()]);
        let own = ekiden_agent::keeper::path_of_executable().map_err(|error| error.to_string())?;
        let ran = detached::run(&own, &all).map_err(|error| error.to_string())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match ran.status.success() {
            true => Ok(text(&ran.stdout).trim().to_owned()),
            false => {
                let said = text(&ran.stderr);
                let error = said.lines().find_map(|line| line.strip_prefix("error: "));
                Err(error.unwrap_or(&said).to_owned())
            }
        }
    }

    /// Records that a run began, or could not begin and is retried after ever longer pauses.
    fn begun(&mut self, issue: &str, what: &str, begun: Result<String, String>) {
        match begun {
            Ok(_) => {
                self.failed.remove(issue);
                self.say(issue, what, None);
            }
            Err(why) => {
                let (times, next) = self.failed.entry(issue.to_owned()).or_default();
                let pause = PAUSE_MIN.0.checked_shl(*times).unwrap_or(PAUSE_MAX.0);
                *times = (*times + 1).min(16);
                *next = SystemClock.now() + Millis(pause.min(PAUSE_MAX.0));
                self.has_room = true;
                self.say(issue, "cannot begin", Some(&why));
            }
        }
    }

    fn new_tree(&self, issue: &str) -> PathBuf {
        let bits = uuid::Uuid::new_v4().as_u128();
        self.dir.join(format!("{issue}-{:04x}", bits & 0xffff))
    }

    fn within(&self, tree: &Path) -> PathBuf {
        let git = self.workspace.git.as_ref();
        git.map_or_else(|| tree.to_owned(), |git| tree.join(&git.prefix))
    }
}

/// Asks the run of a work dir to hand off and stop.
fn stop(workspace: &Workspace) -> Result<(), Failure> {
    let running = RunningRun::find(workspace, None)?;
    let id = format!("{SENDER}{}", uuid::Uuid::new_v4().simple());
    let steered = Steered {
        message: MessageId::try_from(id).or_fail(Exit::Bug, "cannot ask")?,
        from: None,
        steering: Steering::Stop { now: false },
    };
    running.send(workspace, &steered, limits::STEER_PATIENCE)?;
    Ok(())
}
