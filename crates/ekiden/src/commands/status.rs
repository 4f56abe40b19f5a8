//! `ekiden status`: what runs here, and how far it is.

use clap::Args;
use ekiden_core::budget::Budget;
use ekiden_core::ids::RunId;
use ekiden_core::outcome::Outcome;
use ekiden_core::relay::{Phase, Relay};
use ekiden_core::time::{Millis, Timestamp};
use ekiden_engine::history::{self, Listed, RunSummary};
use ekiden_engine::workspace::Workspace;
use ekiden_store::lock::Holder;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::{Scene, run_ids, watch};
use crate::exit::Exit;
use crate::failure::{self, Failure};
use crate::output::line::{Line, Tone, one_line};
use crate::output::stage_table::{self, StageRow};
use crate::output::{Output, bounds, phrase};
use crate::settings::flags::{Asking, Typed};

const EXAMPLES: &str = "\
Examples:
  ekiden status
  ekiden status --all                          every run here, newest first
  ekiden status --watch && git push            wait until it is done
  ekiden status --json | jq '.runs[0].state'
";

/// The version of the JSON form.
const JSON_VERSION: u32 = 1;

/// Show what runs here, and how far it is
///
/// One line for the newest run of the work dir: its id, its state, its session, its cost, its task.
/// `--json` lists all runs, newest first. A run that cannot be read is shown with the reason; it hides
/// nothing else.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub struct StatusArgs {
    /// Show every run here, not only the newest
    #[arg(long)]
    all: bool,
    /// Look again each second until the newest run is over; then exit as that run did
    #[arg(long, conflicts_with = "all")]
    watch: bool,
    #[command(flatten)]
    typed: Typed<Asking>,
}

/// Runs the command.
///
/// # Errors
///
/// If the state directory cannot be read.
pub fn status(args: &StatusArgs, output: &mut Output) -> Result<Exit, Failure> {
    let scene = Scene::set(args.typed.flags())?;
    let workspace = scene.workspace()?;
    if args.watch {
        return watch::watch(&workspace, scene.json()?, output);
    }
    let holder = history::holder(&workspace);
    let mut listed = history::list(&workspace)?;
    listed.reverse();
    let rows = listed.into_iter().map(|run| row(&workspace, run, holder.as_ref()));
    if scene.json()? {
        output.json(&Answer { v: JSON_VERSION, runs: rows.collect() });
        return Ok(Exit::Done);
    }
    let shown: Vec<AnyRow> = if args.all { rows.collect() } else { newest(rows) };
    if shown.is_empty() {
        output.line(&Line::new(Tone::Plain, "nothing has run here yet"));
        output.line(&Line::new(Tone::Quiet, "next  ").with(Tone::Plain, "ekiden run TASK"));
    }
    let (ids, zone) = (run_ids(&workspace)?, TimeZone::system());
    let with_next = !args.all;
    shown.iter().flat_map(|row| row.lines(&ids, &zone, with_next)).for_each(|line| output.line(&line));
    Ok(Exit::Done)
}

/// The newest run, and whatever is newer and cannot be read.
fn newest(rows: impl Iterator<Item = AnyRow>) -> Vec<AnyRow> {
    let mut shown = Vec::new();
    for row in rows {
        let is_read = matches!(row, AnyRow::Read(_));
        shown.push(row);
        if is_read {
            break;
        }
    }
    shown
}

fn row(workspace: &Workspace, listed: Listed, holder: Option<&Holder>) -> AnyRow {
    let (run, started) = (listed.run, listed.started);
    let summary = match listed.unreadable {
        Some(error) => Err(error),
        None => history::read(workspace, &run, |_, _| {}),
    };
    match summary {
        Ok(summary) => AnyRow::Read(Box::new(Row::of(&summary, holder))),
        Err(error) => AnyRow::Unreadable(Unreadable {
            run,
            state: "unreadable",
            started: started.map(phrase::utc),
            error: format!("cannot {}", failure::chain(&error)),
            hint: error.hint(),
        }),
    }
}

/// Says how one run stands.
///
/// # Errors
///
/// If the runs cannot be listed.
pub fn tell_one(
    workspace: &Workspace,
    run: &RunSummary,
    json: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    let row = Row::of(run, history::holder(workspace).as_ref());
    if json {
        output.json(&Answer { v: JSON_VERSION, runs: vec![AnyRow::Read(Box::new(row))] });
    } else {
        tell_row(workspace, &row, output)?;
    }
    Ok(())
}

/// The newest run, unless it is complete or cannot be read.
///
/// # Errors
///
/// If the runs cannot be listed.
pub(super) fn unfinished(workspace: &Workspace) -> Result<Option<Row>, Failure> {
    let holder = history::holder(workspace);
    let newest = history::list(workspace)?.pop();
    Ok(newest.and_then(|run| match row(workspace, run, holder.as_ref()) {
        AnyRow::Read(row) if row.state != State::Complete => Some(*row),
        AnyRow::Read(_) | AnyRow::Unreadable(_) => None,
    }))
}

/// Says how a run stands, for people.
///
/// # Errors
///
/// If the runs cannot be listed.
pub(super) fn tell_row(workspace: &Workspace, row: &Row, output: &mut Output) -> Result<(), Failure> {
    let ids = run_ids(workspace)?;
    row.lines(&ids, &TimeZone::system(), true).iter().for_each(|line| output.line(line));
    Ok(())
}

/// The answer for programs.
#[derive(Serialize)]
pub(super) struct Answer {
    v: u32,
    runs: Vec<AnyRow>,
}

impl Answer {
    /// The answer about one run.
    pub(super) fn of(row: Row) -> Self {
        Self { v: JSON_VERSION, runs: vec![AnyRow::Read(Box::new(row))] }
    }
}

/// A run, as far as it can be told of.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum AnyRow {
    Read(Box<Row>),
    Unreadable(Unreadable),
}

/// A run that cannot be read.
#[derive(Debug, Serialize)]
struct Unreadable {
    run: RunId,
    state: &'static str,
    started: Option<String>,
    error: String,
    hint: Option<&'static str>,
}

impl AnyRow {
    fn lines(&self, ids: &[RunId], zone: &TimeZone, with_next: bool) -> Vec<Line> {
        match self {
            Self::Read(row) => row.lines(ids, zone, with_next),
            Self::Unreadable(run) => run.lines(ids),
        }
    }
}

impl Unreadable {
    fn lines(&self, ids: &[RunId]) -> Vec<Line> {
        let id = phrase::short_id(&self.run, ids);
        let head = Line::new(Tone::Plain, format!("{id}  relay  ")).with(Tone::Failed, "unreadable");
        let head = head.with(Tone::Plain, format!("   {}", self.error));
        let hint = self.hint.map(|hint| Line::new(Tone::Quiet, "hint  ").with(Tone::Plain, hint));
        std::iter::once(head).chain(hint).collect()
    }
}

/// One run.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    run: RunId,
    state: State,
    task: String,
    session: u32,
    session_max: u32,
    sessions_over: u32,
    cost_micro_usd: u64,
    #[serde(rename = "running_ms")]
    running: Millis,
    #[serde(rename = "waiting_ms")]
    waiting: Millis,
    tool_calls: u64,
    cost_estimated: bool,
    subscription: bool,
    tokens: u64,
    run_budget: Budget,
    started: String,
    updated: String,
    waits_until: Option<String>,
    outcome: Option<Outcome>,
    exit_code: Option<u8>,
    pid: Option<u32>,
    host: Option<String>,
    /// A person wants nothing to begin, whether it is held already or not.
    paused: bool,
    /// The stages of a plan.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stages: Vec<StageRow>,
    #[serde(skip)]
    sessions_max: u32,
    #[serde(skip)]
    doing: String,
    #[serde(skip)]
    until: Option<Timestamp>,
    #[serde(skip)]
    last: Timestamp,
}

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// An engine works on it.
    Running,
    /// An engine holds it, and nothing begins until a person says so.
    Paused,
    /// Its engine is gone without an end.
    Interrupted,
    /// Done.
    Complete,
    /// A person is needed.
    Blocked,
    /// Stopped early.
    Stopped,
    /// Ended by a failure.
    Failed,
}

impl Row {
    /// No engine works on it: nothing more will happen by itself.
    pub(super) fn is_over(&self) -> bool {
        self.state != State::Running
    }

    pub(super) fn of(summary: &RunSummary, holder: Option<&Holder>) -> Self {
        let run = &summary.run;
        let holder = holder.filter(|holder| holder.run.as_ref() == Some(summary.id()));
        let outcome = run.outcome().cloned();
        let relays = || run.relays().map(|(_, relay)| relay);
        let until = run.wakes_at().filter(|_| relays().any(|relay| relay.waits_until().is_some()));
        Self {
            run: summary.id().clone(),
            state: state(outcome.as_ref(), holder, relays().any(is_held)),
            task: one_line(&run.task_names()),
            session: relays().map(|relay| relay.session().get()).max().unwrap_or(0),
            session_max: relays().map(Relay::session_max).sum(),
            sessions_over: relays().map(|relay| relay.tally().sessions).sum(),
            running: Millis(relays().map(|relay| relay.tally().running.0).sum()),
            waiting: Millis(relays().map(|relay| relay.tally().waiting.0).sum()),
            tool_calls: relays().map(|relay| relay.tally().tool_calls).sum(),
            cost_micro_usd: relays().map(|relay| relay.spend().micro_usd).sum(),
            cost_estimated: relays().any(|relay| relay.spend().estimated),
            subscription: relays().any(|relay| relay.tally().subscription),
            tokens: relays().map(|relay| relay.spend().tokens).sum(),
            run_budget: relays().map(Relay::run_budget).next().unwrap_or_default(),
            started: phrase::utc(run.started_at()),
            updated: phrase::utc(summary.last),
            waits_until: until.map(phrase::utc),
            exit_code: outcome.as_ref().map(|outcome| Exit::of(outcome).code()),
            outcome,
            pid: holder.map(|holder| holder.pid),
            host: holder.map(|holder| holder.host.clone()),
            sessions_max: relays().map(|relay| relay.stage().sessions_max).sum(),
            paused: relays().any(Relay::is_paused),
            doing: run
                .live()
                .chain(run.relays())
                .map(|(_, relay)| phrase::doing(relay))
                .next()
                .unwrap_or_default(),
            stages: stage_table::rows(run),
            until,
            last: summary.last,
        }
    }

    pub(super) fn lines(&self, ids: &[RunId], zone: &TimeZone, with_next: bool) -> Vec<Line> {
        let id = phrase::short_id(&self.run, ids);
        if !self.stages.is_empty() {
            return self.plan_lines(&id, with_next);
        }
        let (tone, state) = self.state.word();
        let mut rest = format!("  session {} of {}", self.session, self.session_max);
        let waiting = self.until.filter(|_| self.state == State::Running);
        match waiting {
            Some(until) => {
                let until = phrase::future(until, self.last, zone);
                rest.push_str(&format!("   {} until {until}", self.doing));
            }
            None => rest.push_str(&format!("   {}", self.doing)),
        }
        if self.paused && self.state == State::Running {
            rest.push_str(", then paused");
        }
        if self.cost_micro_usd > 0 {
            rest.push_str(&format!(
                "   {}",
                phrase::cost(self.cost_micro_usd, self.cost_estimated, self.subscription)
            ));
        }
        let head = Line::new(Tone::Plain, format!("{id}  relay  ")).with(tone, state);
        let mut lines = vec![head.with(Tone::Plain, rest).with(Tone::Plain, format!("   {}", self.task))];
        let next = self.next(&id).filter(|_| with_next);
        lines.extend(next.map(|next| Line::new(Tone::Quiet, "next  ").with(Tone::Plain, next)));
        lines
    }

    fn plan_lines(&self, id: &str, with_next: bool) -> Vec<Line> {
        let (tone, state) = self.state.word();
        let mut rest = format!("   {}   {}", stage_table::summary(&self.stages), self.task);
        if self.paused && self.state == State::Running {
            rest.push_str("   nothing new begins");
        }
        if self.cost_micro_usd > 0 {
            let cost = phrase::cost(self.cost_micro_usd, self.cost_estimated, self.subscription);
            rest.push_str(&format!("   {cost}"));
        }
        let head = Line::new(Tone::Plain, format!("{id}  plan   ")).with(tone, state).with(Tone::Plain, rest);
        let next = self.next(id).filter(|_| with_next);
        let next = next.map(|next| Line::new(Tone::Quiet, "next  ").with(Tone::Plain, next));
        std::iter::once(head).chain(stage_table::lines(&self.stages)).chain(next).collect()
    }

    fn next(&self, id: &str) -> Option<String> {
        if let (State::Stopped, Some(Outcome::BudgetSpent { spent, budget })) = (self.state, &self.outcome) {
            return Some(bounds::next_budget(*spent, *budget));
        }
        match self.state {
            State::Running => None,
            State::Paused => Some("ekiden unpause".to_owned()),
            State::Complete => Some(format!("ekiden log {id}")),
            State::Stopped if self.outcome == Some(Outcome::SessionLimit) => {
                Some(format!("ekiden resume -m {}", self.sessions_max))
            }
            State::Interrupted | State::Blocked | State::Stopped | State::Failed => {
                Some("ekiden resume".to_owned())
            }
        }
    }
}

impl State {
    fn word(self) -> (Tone, &'static str) {
        match self {
            Self::Running => (Tone::Plain, "running"),
            Self::Paused => (Tone::Attention, "paused"),
            Self::Interrupted => (Tone::Attention, "interrupted"),
            Self::Complete => (Tone::Done, "complete"),
            Self::Blocked => (Tone::Attention, "blocked"),
            Self::Stopped => (Tone::Attention, "stopped"),
            Self::Failed => (Tone::Failed, "failed"),
        }
    }
}

fn is_held(relay: &Relay) -> bool {
    matches!(relay.phase(), Phase::Paused { .. })
}

fn state(outcome: Option<&Outcome>, holder: Option<&Holder>, held: bool) -> State {
    match (holder, outcome) {
        (Some(_), _) if held => State::Paused,
        (Some(_), _) => State::Running,
        (None, None) => State::Interrupted,
        (None, Some(Outcome::Complete { .. })) => State::Complete,
        (None, Some(Outcome::Blocked { .. })) => State::Blocked,
        (
            None,
            Some(
                Outcome::SessionLimit
                | Outcome::Stopped { .. }
                | Outcome::LimitTooFar { .. }
                | Outcome::Stuck { .. }
                | Outcome::Stalled { .. }
                | Outcome::RateLimited { .. }
                | Outcome::BudgetSpent { .. },
            ),
        ) => State::Stopped,
        (
            None,
            Some(
                Outcome::AgentFailed { .. }
                | Outcome::Denied { .. }
                | Outcome::TooManyCrashes { .. }
                | Outcome::NoGround { .. }
                | Outcome::NotMerged { .. }
                | Outcome::Unmerged { .. }
                | Outcome::NotDone { .. }
                | Outcome::StagesFailed { .. }
                | Outcome::WindowTooFull { .. },
            ),
        ) => State::Failed,
    }
}
