//! The state of a run, as `status` and the commands that watch a run print it.

use ekiden_core::budget::{AgentBudget, Spend};
use ekiden_core::estimate::Range;
use ekiden_core::ids::RunId;
use ekiden_core::outcome::Outcome;
use ekiden_core::record::Record;
use ekiden_core::relay::{Phase, Relay};
use ekiden_core::run::Run;
use ekiden_core::text::{clean, in_full};
use ekiden_core::time::Timestamp;
use ekiden_engine::EngineError;
use ekiden_engine::clock::{Clock, SystemClock};
use ekiden_engine::history::{self, Listed, RunSummary};
use ekiden_engine::workspace::Workspace;
use ekiden_store::lock::Holder;
use jiff::tz::TimeZone;

use super::follow::Tails;
use super::run_ids;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::board::Board;
use crate::output::json::{Fields, fields};
use crate::output::line::{Line, Tone, one_line};
use crate::output::outcome::Description;
use crate::output::shown_work_dir::ShownWorkDir;
use crate::output::stage_table::{self, Row};
use crate::output::{Output, outcome, phrase};
use crate::past;

/// The newest run, unless it is complete or cannot be read.
pub(super) fn unfinished(workspace: &Workspace) -> Result<Option<RunStatus>, Failure> {
    let holder = history::holder(workspace);
    let newest = history::list(workspace)?.pop();
    let read = newest.and_then(|newest| look(workspace, newest, holder).ok());
    Ok(read.filter(|run| run.state() != State::Complete))
}

/// Reads the whole log of a listed run. `holder` is the engine that works here, on whatever run.
pub(super) fn look(
    workspace: &Workspace,
    listed: Listed,
    holder: Option<Holder>,
) -> Result<RunStatus, Box<Unreadable>> {
    let (run, started) = (listed.run, listed.started);
    let read = match listed.unreadable {
        Some(error) => Err(error),
        None => RunStatus::read(workspace, &run, holder),
    };
    read.map_err(|error| {
        Box::new(Unreadable {
            run,
            started,
            error,
        })
    })
}

pub(super) fn json(looked: &Result<RunStatus, Box<Unreadable>>) -> Fields {
    match looked {
        Ok(run) => run.json(),
        Err(unreadable) => unreadable.json(),
    }
}

/// A run that cannot be read.
pub(super) struct Unreadable {
    pub(super) run: RunId,
    pub(super) started: Option<Timestamp>,
    pub(super) error: EngineError,
}

impl Unreadable {
    fn json(&self) -> Fields {
        fields! {
            "run": self.run,
            "state": "unreadable",
            "started": self.started.map(phrase::utc),
            "error": format!("cannot {}", in_full(&self.error)),
            "hint": self.hint(),
        }
    }

    /// What can be done about the fault itself; another run can be named anyway.
    fn hint(&self) -> Option<String> {
        let mut fault = &self.error;
        if let EngineError::Unreadable { cause, .. } = fault {
            fault = cause;
        }
        Failure::from(fault).hints().first().cloned()
    }

    pub(super) fn lines(&self, ids: &[RunId]) -> Vec<Line> {
        let id = phrase::short_id(&self.run, ids);
        let error = format!("   cannot {}", in_full(&self.error));
        let head = Line::new(Tone::Plain, format!("{id}  relay  "))
            .with(Tone::Failed, "unreadable")
            .with(Tone::Plain, error);
        let hint = self
            .hint()
            .map(|hint| Line::new(Tone::Quiet, "hint  ").with(Tone::Plain, hint));
        std::iter::once(head).chain(hint).collect()
    }
}

/// The state of a run that was imported and has not continued since.
const IMPORTED: &str = "imported";

pub(super) struct RunStatus {
    pub(super) summary: RunSummary,
    holder: Option<Holder>,
    pub(super) board: Board,
    /// How much longer it will work, in milliseconds, if somebody asked.
    pub(super) left: Option<Range>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// An engine works on it.
    Running,
    /// An engine holds it, and nothing begins until a person says so.
    Paused,
    /// ekiden was killed.
    Killed,
    /// It is with a fleet, and nobody follows it here.
    WithFleet,
    Complete,
    /// It ended otherwise.
    Ended,
}

impl RunStatus {
    /// `holder` is the engine that works here, on whatever run.
    pub(super) fn read(
        workspace: &Workspace,
        run: &RunId,
        holder: Option<Holder>,
    ) -> Result<Self, EngineError> {
        let mut board = Board::default();
        let follow = |record: &Record, run: &Run| board.follow(record, run);
        let summary = history::read(workspace, run, follow)?;
        Ok(Self::new(summary, board, holder))
    }

    pub(super) fn new(summary: RunSummary, board: Board, holder: Option<Holder>) -> Self {
        let mut status = Self {
            summary,
            holder: None,
            board,
            left: None,
        };
        status.look_who_holds(holder);
        status
    }

    /// Looks at what its sessions do just now, and estimates how much longer it will work.
    pub(super) fn look_at_work(&mut self, workspace: &Workspace) {
        if !self.is_over() {
            let run = &self.summary.run;
            Tails::default().look(workspace, run, &mut self.board);
            let past = past::of_project(workspace, run.header().settings.agent.kind);
            self.left = past::left(run, &past, SystemClock.now());
        }
    }

    pub(super) fn look_who_holds(&mut self, holder: Option<Holder>) {
        self.holder = holder.filter(|holder| holder.run.as_ref() == Some(self.summary.id()));
    }

    pub(super) fn state(&self) -> State {
        let run = &self.summary.run;
        let is_held = |relay: &Relay| matches!(relay.phase, Phase::Paused { .. });
        match (&self.holder, run.outcome()) {
            (Some(_), _) if run.relays().any(|(_, relay)| is_held(relay)) => State::Paused,
            (Some(_), _) => State::Running,
            (None, None) if run.header().fleet.is_some() => State::WithFleet,
            (None, None) => State::Killed,
            (None, Some(outcome)) if outcome.is_complete() => State::Complete,
            (None, Some(_)) => State::Ended,
        }
    }

    /// An engine holds it, whether or not anything may begin.
    pub(super) fn is_held(&self) -> bool {
        self.holder.is_some()
    }

    /// The exit of a command that watched it to its end. If ekiden was killed, that of a run that can be resumed.
    pub(super) fn exit(&self) -> Exit {
        let outcome = self.summary.run.outcome();
        outcome.map_or(Exit::StoppedEarly, Exit::of)
    }

    /// No engine works on it: nothing more will happen by itself.
    pub(super) fn is_over(&self) -> bool {
        match self.state() {
            State::Running | State::Paused => false,
            State::Killed | State::WithFleet | State::Complete | State::Ended => true,
        }
    }

    pub(super) fn print(
        &self,
        workspace: &Workspace,
        there: &ShownWorkDir,
        json: bool,
        output: &mut Output,
    ) -> Result<(), Failure> {
        if json {
            output.json(&self.answer());
            return Ok(());
        }
        let lines = self.lines(&run_ids(workspace)?, &TimeZone::system(), Some(there));
        lines.iter().for_each(|line| output.line(line));
        Ok(())
    }

    fn stages(&self) -> Vec<Row<'_>> {
        let (run, now) = (&self.summary.run, self.summary.last.time);
        let rows = stage_table::rows(run).into_iter();
        let rows = rows.map(|row| row.seen(&self.board));
        match self.state() {
            State::Killed | State::Ended => rows.map(Row::cut_off).collect(),
            State::Running | State::Paused | State::WithFleet | State::Complete => {
                rows.map(|row| row.held(run, now)).collect()
            }
        }
    }

    /// The answer about this run alone.
    pub(super) fn answer(&self) -> Fields {
        Fields::versioned().with("runs", [self.json()])
    }

    /// What all sessions have spent, including those at work as far as it was seen.
    fn spend(&self) -> Spend {
        let run = &self.summary.run;
        self.board.spend(run.settled(), run.totals().spend)
    }

    fn has_subscription(&self) -> bool {
        self.summary.run.totals().subscription || self.board.has_subscription()
    }

    /// How far the budgets of single agents are spent, including the sessions at work as far as they were seen.
    fn agent_budgets(&self) -> Vec<AgentBudget> {
        let run = &self.summary.run;
        let with_seen = |mut agent: AgentBudget| {
            let at_work = run.live().map(|(_, relay)| relay);
            for relay in at_work.filter(|relay| relay.agent().name == agent.agent) {
                let seen = self.board.spend_of(relay).since(relay.spend());
                agent.spent = agent.spent.plus(seen);
                let progress = self.board.of(&relay.stage.id);
                agent.subscription |= progress.is_some_and(|progress| progress.subscription);
            }
            agent
        };
        run.agent_budgets().into_iter().map(with_seen).collect()
    }

    pub(super) fn json(&self) -> Fields {
        let (run, totals) = (&self.summary.run, self.summary.run.totals());
        let spend = self.spend();
        let (outcome, first) = (run.outcome(), self.board.first());
        let usage = first.and_then(|first| first.usage);
        let activity = first.and_then(|first| first.activity.as_ref());
        let budget = run.budget();
        let stages: Vec<Fields> = self.stages().iter().map(Row::json).collect();
        let state = match self.is_only_imported() {
            true => IMPORTED,
            false => self.word().1,
        };
        let asked = run.questions().map(|(stage, question)| {
            let question = clean(question).text;
            fields! { "stage": stage, "question": question }
        });
        fields! {
            "run": self.summary.id(),
            "state": state.replace(", ", "_").replace(' ', "_"),
            "task": one_line(&run.task_names()),
            "agent": run.relays().find_map(|(_, relay)| relay.one_of_several()),
            "session": run.session(),
            "session_max": run.session_max(),
            "sessions_over": totals.sessions,
            "cost_micro_usd": spend.micro_usd,
            "running_ms": totals.running,
            "waiting_ms": totals.waiting,
            "tool_calls": totals.tool_calls,
            "cost_estimated": spend.estimated,
            "subscription": self.has_subscription(),
            "tokens": spend.tokens,
            "run_budget": budget,
            "agent_budgets": self.agent_budgets(),
            "started": phrase::utc(run.started_at()),
            "updated": phrase::utc(self.summary.last.time),
            "left_ms": self.left,
            "waits_until": run.waits_until().map(phrase::utc),
            "outcome": outcome,
            "exit_code": outcome.map(|outcome| Exit::of(outcome).code()),
            "pid": self.holder.as_ref().map(|holder| holder.pid),
            "host": self.holder.as_ref().map(|holder| &holder.host),
            "paused": run.is_paused(),
            "usage_tokens": usage.map(|(tokens, _)| tokens),
            "percent": usage.map(|(tokens, window)| window.percent(tokens)),
            "activity": activity.map(|activity| one_line(&activity.text)),
            "asked": asked.collect::<Vec<_>>(),
        }
        .and((!stages.is_empty()).then(|| fields! { "stages": stages }))
    }

    /// The lines for people. Its questions and the next command are among them only if `there` says where it is.
    pub(super) fn lines(
        &self,
        ids: &[RunId],
        zone: &TimeZone,
        there: Option<&ShownWorkDir>,
    ) -> Vec<Line> {
        let run = &self.summary.run;
        let id = phrase::short_id(self.summary.id(), ids);
        let task = one_line(&run.task_names());
        let (tone, state) = self.word();
        let is_pausing = run.is_paused() && state == "running";
        let spend = self.spend();
        let is_counted = spend != Spend::default() || !self.board.is_uncounted();
        let cost = phrase::spent(spend, self.has_subscription(), run.budget());
        let cost = cost.filter(|_| is_counted);
        let cost = cost.map_or_else(String::new, |cost| format!("   {cost}"));
        let span = self.span(zone);
        let stages = self.stages();
        let (kind, rest) = if stages.is_empty() {
            let then = if is_pausing { ", then paused" } else { "" };
            let (session, max) = (run.session(), run.session_max());
            let doing = self.doing(zone);
            let by = run.relays().find_map(|(_, relay)| relay.one_of_several());
            let by = by.map(|agent| format!(" · {}", one_line(&agent)));
            let by = by.unwrap_or_default();
            let rest =
                format!("  session {session} of {max}{by} · {span}   {doing}{then}{cost}   {task}");
            ("relay  ", rest)
        } else {
            let summary = stage_table::summary(&stages);
            let then = if is_pausing {
                "   nothing new begins"
            } else if run.is_paused() && self.state() == State::Killed {
                "   was paused"
            } else {
                ""
            };
            (
                "plan   ",
                format!("   {summary} · {span}   {task}{then}{cost}"),
            )
        };
        let head = Line::new(Tone::Plain, format!("{id}  {kind}"))
            .with(tone, state)
            .with(Tone::Plain, rest);
        let below = there.into_iter().flat_map(|there| {
            let asked = self.asked(zone, there).into_iter();
            let asked = asked.map(|line| Line::new(Tone::Plain, line));
            asked.chain(self.next(ids, there).map(Line::next))
        });
        std::iter::once(head)
            .chain(self.agent_budgets().iter().map(agent_budget))
            .chain(stage_table::lines(&stages, self.summary.last.time, zone))
            .chain(below)
            .collect()
    }

    /// The questions that wait for an answer, and the claims that wait for a review.
    fn asked(&self, zone: &TimeZone, there: &ShownWorkDir) -> Vec<String> {
        let run = &self.summary.run;
        match (self.state(), run.outcome()) {
            (State::Ended, Some(outcome)) if Exit::of(outcome) == Exit::Blocked => {
                let said = Description::of(outcome, run, self.summary.last.time, zone, there);
                [said.questions, said.details].concat()
            }
            // Other stages are working in the meantime, or were.
            (State::Running | State::Paused | State::Killed, None) | (State::Ended, _) => {
                let asked = run.questions();
                asked
                    .flat_map(|(stage, asked)| outcome::asks(stage, asked, there))
                    .chain(outcome::review_missing(run))
                    .collect()
            }
            (State::Running | State::Paused | State::Killed, Some(_))
            | (State::WithFleet | State::Complete, _) => Vec::new(),
        }
    }

    /// Since when it has been working, or from when to when it did.
    fn span(&self, zone: &TimeZone) -> String {
        let (began, last) = (self.summary.run.started_at(), self.summary.last.time);
        let now = SystemClock.now();
        let from = phrase::clock(began, now, zone);
        if self.holder.is_some() {
            let worked = phrase::duration(now.since(began));
            let left = self.left.map_or(String::new(), |left| {
                let left = phrase::durations(left);
                format!(", {left} left")
            });
            return format!("since {from}, {worked}{left}");
        }
        format!("{from} to {}", phrase::clock(last, began, zone))
    }

    /// It was imported and did not continue: nobody asked it to stop.
    fn is_only_imported(&self) -> bool {
        let run = &self.summary.run;
        matches!(run.outcome(), Some(Outcome::Stopped { .. }))
            && run.header().imported.is_some()
            && run.totals().running.0 == 0
    }

    fn doing(&self, zone: &TimeZone) -> String {
        let run = &self.summary.run;
        if self.is_only_imported() {
            return IMPORTED.to_owned();
        }
        let first = run.live().chain(run.relays()).next();
        let doing = first.map_or(String::new(), |(_, relay)| phrase::doing(relay));
        match run.waits_until().filter(|_| !self.is_over()) {
            Some(until) => {
                let until = phrase::future(until, self.summary.last.time, zone);
                format!("{doing} until {until}")
            }
            None if self.state() == State::Killed => match run.is_paused() {
                true => "was paused".to_owned(),
                false => format!("was {doing}"),
            },
            None => doing,
        }
    }

    pub(super) fn next(&self, ids: &[RunId], there: &ShownWorkDir) -> Option<String> {
        let (run, flag) = (&self.summary.run, there.flag());
        let id = phrase::short_id(self.summary.id(), ids);
        let which = phrase::which(self.summary.id(), ids) + &flag;
        let answer = outcome::answer_command(run, &which);
        match (self.state(), run.outcome()) {
            (State::Running, _) => answer,
            (State::Paused, _) => Some(format!("ekiden unpause{flag}")),
            (State::Complete, Some(Outcome::Undelivered { command, .. })) => {
                Some(there.command(command))
            }
            (State::Complete, _) => Some(format!("ekiden log {id}{flag}")),
            (State::Ended, Some(Outcome::NoCheck { .. })) => {
                Some(format!("ekiden run TASK --verify 'COMMAND'{flag}"))
            }
            (State::Ended, Some(outcome)) => {
                let at = self.summary.last.time;
                Some(outcome::resume_command(outcome, run, at, &which))
            }
            (State::WithFleet, _) => Some(format!("ekiden fleet follow {id}{flag}")),
            (State::Killed | State::Ended, _) => {
                answer.or_else(|| Some(format!("ekiden resume{which}")))
            }
        }
    }

    pub(super) fn word(&self) -> (Tone, &'static str) {
        match (self.state(), self.summary.run.outcome()) {
            (State::Running, _) => (Tone::Plain, "running"),
            (State::Paused, _) => (Tone::Attention, "paused"),
            (State::WithFleet, _) => (Tone::Plain, "with the fleet"),
            (State::Complete | State::Ended, Some(outcome)) => outcome::word(outcome),
            (State::Killed | State::Complete | State::Ended, _) => (Tone::Attention, "killed"),
        }
    }
}

fn agent_budget(agent: &AgentBudget) -> Line {
    let used = phrase::spent_of(agent.spent, agent.subscription, agent.budget);
    let line = Line::new(Tone::Plain, format!("  {}  {used}", one_line(&agent.agent)));
    match agent.is_spent {
        true => line.with(Tone::Attention, ", spent"),
        false => line,
    }
}
