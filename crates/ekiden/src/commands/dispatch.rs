//! `ekiden dispatch`: starts a run for each issue that wants one, as issues come in.
//!
//! ```text
//! tracker ── find ──► round ──► `ekiden run --issue` in a worktree ──► a run in the background
//!                       ▲                                                      │
//!                       └────────────── worktrees, logs, locks ◄───────────────┘
//! ```
//!
//! It keeps no state: a worktree's name says which issue it is for, its lock whether the run works, its log
//! everything else. So if anything dies, the next dispatcher still finds what was under way.

mod begin;
mod issues;
mod messages;
mod place;
mod round;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use clap::Args;
use ekiden_agent::SignalFlag;
use ekiden_core::issue::{Issue, IssueRef, TrackerKind};
use ekiden_core::limits;
use ekiden_core::settings::Settings;
use ekiden_core::time::{Millis, Timestamp};
use ekiden_engine::clock::{Clock as _, SystemClock};
use ekiden_engine::git::branch;
use ekiden_engine::known_limits;
use ekiden_engine::workspace::Workspace;
use ekiden_store::archive::ensure_dir;
use ekiden_store::disk::RealDisk;
use ekiden_store::error::StoreError;
use ekiden_store::lock::lock_attempt;
use ekiden_tracker::KEPT;
use jiff::tz::TimeZone;

use self::begin::words_of_runs;
use self::issues::by_its_place;
use self::place::{IssueWorktree, Standing, trees};
use self::round::{Step, Wanted, steps};
use super::issue::warn_of_unusable;
use super::repository::{self, nothing_verifies};
use super::run::{check_agents, settle_all_permissions};
use super::task::Task;
use super::{Invocation, launch};
use crate::client::settings::ClientSettings;
use crate::exit::Exit;
use crate::failure::{Failure, OrFail as _};
use crate::output::line::{Line, Tone, one_line};
use crate::output::{Output, phrase};
use crate::plan::isolation;
use crate::settings::environment::Environment;
use crate::settings::flags::{Dispatching, Typed};
use crate::settings::given::Origin;
use crate::settings::table;
use crate::settings::{chosen, form};
use crate::tracker::Trackers;

/// How often it checks for signals and for runs that have ended.
const LOOK: Duration = Duration::from_millis(250);
/// The least number of such checks between two rounds: one second.
const LOOKS: u32 = 4;

/// Start a run for each labelled issue of a tracker, as issues come in
///
/// Looks for open issues with a label, the most urgent and then the oldest first, and works on at most `--jobs` of them at
/// a time. Each gets a separate run, with all the limits that you set here, in its own worktree outside your work dir and on
/// its own branch. ekiden commits what sessions do. The runs work in the background; `ekiden status --everywhere` shows them.
///
/// If you remove the label or close the issue, its run hands off and stops; if you set the label again, the run continues.
/// ekiden does not take an issue again while the worktree of its run is there; it removes a complete run's worktree when the
/// label is gone. It never takes an issue that another open issue blocks, and starts nothing while it knows of a usage limit.
/// ctrl-c asks all runs to hand off and stop, and waits for that; the next dispatcher resumes them, also after a kill.
#[derive(Args)]
pub struct DispatchArgs {
    /// What you want of each issue: a file, or the text in quotes [default: all of it]
    #[arg(value_name = "TASK")]
    task: Option<String>,
    /// The label of issues to run
    #[arg(long, value_name = "NAME", default_value = "ekiden")]
    label: String,
    /// Only issues of this assignee: a login on GitHub, an address in Linear, `assignee:` in a file
    #[arg(long, value_name = "LOGIN")]
    assignee: Option<String>,
    /// Runs at a time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    jobs: u32,
    /// What all runs together may cost, in US dollars; a run begins only if its `--run-budget` fits in what is left
    #[arg(long, value_name = "USD", value_parser = form::dollars)]
    total_budget: Option<u64>,
    /// How often to ask the tracker, such as 30s, 5m; at least 1s
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = every)]
    every: Millis,
    /// End when no issue is left that needs a run
    #[arg(long)]
    once: bool,
    /// Open a pull request for each run that is verified
    #[arg(long)]
    pull_request: bool,
    #[command(flatten)]
    typed: Typed<Dispatching>,
}

fn every(text: &str) -> Result<Millis, String> {
    form::duration(text).map(|every| every.max(Millis::from_secs(1)))
}

pub fn dispatch(args: &DispatchArgs, output: &mut Output) -> Result<Exit, Failure> {
    let invocation = Invocation::new(args.typed.flags())?;
    invocation.environment.refuse_a_session("dispatch issues")?;
    let workspace = invocation.workspace_here()?;
    if args.task.as_deref() == Some("-") {
        let text = "each run reads the task anew, and standard input can be read once";
        return Err(Failure::new(Exit::Usage, text).hint("name a file, or say it in quotes"));
    }
    let task = args.task.as_deref().map(|task| Task::read(task, output));
    task.transpose()?;
    let mut settings = chosen::settings(&invocation.given, &invocation.here)?;
    invocation.warn_of_held_back(output);
    launch::check_detached(settings.agent.interface, settings.guided)?;
    check_agents(settings.agents(), &invocation, &workspace.dir)?;
    let isolated = settings.agent.permissions.isolated;
    let client = ClientSettings::read(&invocation.environment, &workspace.dir, isolated);
    settle_all_permissions(&invocation, &client, &mut settings, None, output)?;
    refuse_unfit(args, &invocation, &workspace, &settings)?;
    let state_dir = chosen::state_dir(&invocation.given, &invocation.here)?;
    let dir = isolation::place(
        "issues",
        &workspace,
        &invocation.environment,
        state_dir.clone(),
    )?;
    if branch::base(&workspace)?.is_none() {
        let text = "cannot work on issues in parallel: there is no git repository with a commit";
        return Err(Failure::new(Exit::Settings, text)
            .hint("`git init && git commit --allow-empty -m start` makes one"));
    }
    let trackers = invocation.trackers(&workspace);
    let kind = trackers.kind().unwrap_or(TrackerKind::Local);
    if kind == TrackerKind::Local {
        warn_of_unusable(&trackers, output);
    }
    let dispatcher = Dispatcher {
        kind,
        words: words_of_runs(args, &invocation, &settings)?,
        branch: invocation.given.get(&table::TRACKER_BRANCH)?,
        json: invocation.json()?,
        args,
        trackers,
        workspace,
        settings,
        dir,
        state_dir,
        environment: invocation.environment.clone(),
        shown: BTreeMap::new(),
        failed: BTreeMap::new(),
        has_room: false,
        limited: Duration::ZERO,
        cleared_micro_usd: 0,
        kept_shown: BTreeMap::new(),
        has_found: false,
        blocked: BTreeSet::new(),
        blocked_shown: BTreeSet::new(),
        is_spent: false,
        obstacle: None,
        output,
    };
    dispatcher.dispatch()
}

/// Refuses at the start what no run could begin with.
fn refuse_unfit(
    args: &DispatchArgs,
    invocation: &Invocation,
    workspace: &Workspace,
    settings: &Settings,
) -> Result<(), Failure> {
    if invocation.given.origin(&table::BRANCH.row) == Origin::Flag {
        let hint = "leave out `--branch`; `tracker.branch` says how they are named";
        return Err(Failure::new(Exit::Settings, "each run has its own branch").hint(hint));
    }
    let each = settings.bounds.run.micro_usd;
    let has_room = |total| each.is_some_and(|each| each <= total);
    if !args.total_budget.is_none_or(has_room) {
        let text = "`--total-budget` needs a budget of each run, and room for one";
        return Err(Failure::new(Exit::Usage, text)
            .hint("`--run-budget USD` is what each run may cost; it must not exceed the total"));
    }
    if args.pull_request {
        repository::may_open_pull_request(invocation, workspace)?;
        chosen::verification(&invocation.given)?.ok_or_else(nothing_verifies)?;
    }
    Ok(())
}

struct Dispatcher<'a> {
    args: &'a DispatchArgs,
    trackers: Trackers,
    kind: TrackerKind,
    /// The project, whose commit runs start from.
    workspace: Workspace,
    settings: Settings,
    /// Where the worktrees are.
    dir: PathBuf,
    state_dir: Option<PathBuf>,
    environment: Environment,
    /// Flags of each run.
    words: Vec<String>,
    /// The form of a run's branch, if the user set one.
    branch: Option<String>,
    json: bool,
    /// The state of each worktree at the last look.
    shown: BTreeMap<PathBuf, Standing>,
    /// Issues whose runs could not be started or resumed: how often, and when to try again.
    failed: BTreeMap<String, (u32, Timestamp)>,
    /// A run could not be started in this round, so there may be room for another one.
    has_room: bool,
    /// How long the tracker takes no more requests.
    limited: Duration,
    /// What the runs of worktrees that were removed had spent.
    cleared_micro_usd: u64,
    /// Why worktrees that nobody needs were kept, as last reported.
    kept_shown: BTreeMap<PathBuf, String>,
    /// The total budget has no room for another run.
    is_spent: bool,
    /// The tracker has answered before, so a fault of it does not end the dispatcher.
    has_found: bool,
    /// Issues that wait for another open issue.
    blocked: BTreeSet<String>,
    /// Those that were last reported.
    blocked_shown: BTreeSet<String>,
    /// Why nothing begins now, as last reported.
    obstacle: Option<String>,
    output: &'a mut Output,
}

impl Dispatcher<'_> {
    fn dispatch(mut self) -> Result<Exit, Failure> {
        let _lock = self.lock()?;
        let signals = SignalFlag::listen().or_fail(Exit::Bug, "cannot listen to signals")?;
        let mut is_first = true;
        loop {
            let (places, did_something) = self.round()?;
            let is_idle = !places.iter().any(IssueWorktree::is_at_work) && !did_something;
            let is_free = self.obstacle.is_none() && !self.is_spent && self.failed.is_empty();
            // A label may be misspelled.
            if is_first && is_idle && is_free && self.blocked.is_empty() && !self.json {
                let again = match self.args.once {
                    true => String::new(),
                    false => format!(
                        "; ekiden looks again every {}",
                        phrase::duration(self.args.every)
                    ),
                };
                let label = one_line(&self.args.label);
                let text = format!("no issue with the label `{label}` needs a run{again}");
                self.output.line(Line::new(Tone::Quiet, text));
            }
            if is_idle && is_free {
                self.say_blocked();
            }
            if self.args.once && is_idle && (self.obstacle.is_none() || self.is_spent) {
                return Ok(match self.failed.is_empty() && !self.is_spent {
                    true => Exit::Done,
                    false => Exit::Unfinished,
                });
            }
            is_first = false;
            if self.rest(&places, &signals) {
                return Ok(self.drain(&signals));
            }
        }
    }

    /// One dispatcher for each project: two would take the same issue.
    fn lock(&self) -> Result<std::fs::File, Failure> {
        ensure_dir(&RealDisk::new(), &self.dir)?;
        let lock = lock_attempt(&self.dir.join(".dispatching"), Duration::ZERO);
        lock.map_err(|error| match matches!(error, StoreError::Held { .. }) {
            true => Failure::new(Exit::Held, "another dispatcher works for this project")
                .hint("`ekiden status --everywhere` shows its runs"),
            false => error.into(),
        })
    }

    /// Waits until the tracker is to be asked again, or a run has ended. Returns whether somebody wants it to end.
    fn rest(&mut self, places: &[IssueWorktree], signals: &SignalFlag) -> bool {
        let mut waited = Duration::ZERO;
        let limited = std::mem::take(&mut self.limited);
        let every = match std::mem::take(&mut self.has_room) {
            true => Duration::ZERO,
            false => self.args.every.into(),
        };
        while waited < every.max(limited).max(LOOK * LOOKS) {
            if signals.lower() {
                return true;
            }
            if places.iter().any(IssueWorktree::has_ended) {
                self.limited = limited.saturating_sub(waited);
                return false;
            }
            thread::sleep(LOOK);
            waited += LOOK;
        }
        false
    }

    /// Looks at everything and does what is due. Returns the worktrees as they are then, and whether something was done.
    fn round(&mut self) -> Result<(Vec<IssueWorktree>, bool), Failure> {
        let Some(places) = self.look() else {
            return Ok((Vec::new(), false));
        };
        self.trackers.send_what_is_due();
        let Some(found) = self.listed()? else {
            return Ok((places, false));
        };
        let now = SystemClock.now();
        let limit = known_limits::held(&self.workspace, self.settings.workers(), now);
        let obstacle = limit.as_ref().map(|cause| {
            let until = cause.resets_at().unwrap_or(now) + limits::RESET_BUFFER;
            let until = phrase::future(until, now, &TimeZone::system());
            format!("{cause}; nothing begins before {until}")
        });
        let wanted: Vec<(IssueRef, Issue)> = found
            .iter()
            .map(|issue| by_its_place(issue, &places))
            .filter_map(|issue| Some((self.named(&issue)?, issue)))
            .collect();
        let ids: Vec<String> = wanted.iter().map(|(named, _)| named.id.clone()).collect();
        let blocked = wanted.iter().filter(|(_, issue)| issue.is_blocked);
        let blocked = blocked.map(|(named, _)| named.id.clone());
        self.blocked = blocked
            .filter(|id| !places.iter().any(|place| place.issue == *id))
            .collect();
        let wants: Vec<(&IssueWorktree, Wanted)> = places
            .iter()
            .map(|place| (place, self.wants(place, &ids, now)))
            .collect();
        let open = wanted.iter().filter(|(_, issue)| !issue.is_blocked);
        let due = open.map(|(named, _)| named.id.clone());
        let due: Vec<String> = due.filter(|id| self.is_due(id, now)).collect();
        let room = self.room(&places);
        let is_left = steps(&due, &wants, usize::MAX, usize::MAX)
            .iter()
            .any(|step| matches!(step, Step::Take(_)));
        self.is_spent = obstacle.is_none() && room == 0 && is_left;
        let spent = || no_room(&places, &ids).filter(|_| self.is_spent);
        self.say_obstacle(obstacle.or_else(spent));
        let jobs = match limit {
            Some(_) => 0,
            None => self.args.jobs as usize,
        };
        let steps = steps(&due, &wants, jobs, room);
        for step in &steps {
            match *step {
                Step::Stop(at) => self.stop(&places[at]),
                Step::Clear(at) => self.clear(&places[at]),
                Step::Resume(at) => self.resume(&places[at]),
                Step::Take(at) => {
                    if let Some((named, issue)) =
                        wanted.iter().find(|(named, _)| named.id == due[at])
                    {
                        self.take(named, issue, &places);
                    }
                }
            }
        }
        let begun = steps.iter().any(|step| !matches!(step, Step::Clear(_)));
        // A run that has ended by now has freed its place, which the second look below would miss.
        self.has_room |= places.iter().any(IssueWorktree::has_ended);
        // A run that has just begun may end before the tracker is asked again.
        let places = match begun {
            true => self.look().unwrap_or(places),
            false => places,
        };
        Ok((places, begun))
    }

    /// How many more runs the total budget has room for.
    fn room(&self, places: &[IssueWorktree]) -> usize {
        let each = self.settings.bounds.run.micro_usd;
        let Some((total, each)) = self.args.total_budget.zip(each) else {
            return usize::MAX;
        };
        let taken = places.iter().map(|place| place.takes_micro_usd(each));
        let left = total.saturating_sub(taken.sum::<u64>() + self.cleared_micro_usd);
        (left / each.max(1)) as usize
    }

    /// The worktrees as they are. Reports what changed since the last look, or that they cannot be read.
    fn look(&mut self) -> Option<Vec<IssueWorktree>> {
        let mut places = Vec::new();
        let trees = match trees(&self.dir) {
            Ok(trees) => trees,
            Err(error) => {
                let dir = phrase::path(&self.dir);
                let text = format!("cannot read {dir}: {error}; nothing begins");
                self.say_obstacle(Some(text));
                return None;
            }
        };
        places.extend(trees.into_iter().filter_map(|tree| self.look_at(tree)));
        for place in &places {
            let before = self
                .shown
                .insert(place.tree.clone(), place.standing.clone());
            if let (Standing::Over(work, outcome), None) = (&place.standing, &before)
                && outcome.is_complete()
                && SystemClock.now().since(work.last) <= KEPT
            {
                // It may have been killed before its last writes were queued. It is over, so nothing else
                // is done.
                let _ = self.run(&place.workspace.dir, &["resume", work.run.as_str()]);
            }
            if before.as_ref() != Some(&place.standing) {
                self.say_standing(place, before.as_ref());
            }
        }
        Some(places)
    }

    /// Has all runs hand off and stop, and waits for that until a second signal.
    fn drain(mut self, signals: &SignalFlag) -> Exit {
        let text = "waiting until the runs have stopped; ctrl-c stops waiting\n";
        let mut text = Some(text).filter(|_| !self.json);
        let exit = match self.args.once {
            true => Exit::Unfinished,
            false => Exit::Done,
        };
        loop {
            let places = self.look();
            let is_over = |places: &Vec<_>| !places.iter().any(IssueWorktree::is_at_work);
            if places.as_ref().is_some_and(is_over) {
                return exit;
            }
            text.take()
                .into_iter()
                .for_each(|text| self.output.message(text));
            for place in places.iter().flatten() {
                if matches!(place.standing, Standing::Works(_)) {
                    self.stop(place);
                }
            }
            for _ in 0..LOOKS {
                thread::sleep(LOOK);
                if signals.lower() {
                    return exit;
                }
            }
        }
    }
}

/// What is said if the total budget has no room for another run; nothing while a run at work may leave some. A run for an
/// issue that is not listed goes on only if that comes back, and holds its budget until then.
fn no_room(places: &[IssueWorktree], listed: &[String]) -> Option<String> {
    if places.iter().any(IssueWorktree::is_at_work) {
        return None;
    }
    let text = "the total budget has no room for another run; nothing new begins";
    let waits = |place: &&IssueWorktree| {
        matches!(place.standing, Standing::CutOff(_)) && !listed.contains(&place.issue)
    };
    let Some(place) = places.iter().find(waits) else {
        return Some(text.to_owned());
    };
    let (issue, tree) = (one_line(&place.issue), phrase::path(&place.tree));
    Some(format!(
        "{text}; the unfinished run for {issue} holds its budget, although no open issue with the label has that name: \
         `git worktree remove {tree}` frees it"
    ))
}
