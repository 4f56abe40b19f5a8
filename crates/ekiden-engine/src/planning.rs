//! Planning: conversations outside of any run, under the lock of the work dir.
//!
//! ```text
//!  Planner (lock, runtime, signals) ── hold ──► agent (under its keeper)
//!        ▲                                        │ turn over
//!        └── review: accept, or ask again ◄───────┘
//! ```
//!
//! A planning session has no log: whatever is lost can be asked for again, and the result is a file that a person
//! reads before anything runs. So it is not resumed; after a usage limit it starts over. Its prompt and event
//! stream stay in `planning/` of the state directory until the next planning session.
//!
//! Invariants: no run works here meanwhile. When [`Planner::hold`] returns, nothing of its agent is alive.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ekiden_agent::attempt::{AgentCommand, Answer, AttemptHandle, AttemptSpec, HookAnswer, Report};
use ekiden_core::agent::AgentSpec;
use ekiden_core::bounds::Bounds;
use ekiden_core::budget::{Budget, Mark, Measure, Prices, Share, Spend, SpendMeter};
use ekiden_core::effect::StartMode;
use ekiden_core::ends::EndCause;
use ekiden_core::event::{AttemptEnded, Counters};
use ekiden_core::guard::{GuardView, HookInput, Level, Profile, Ruling, ToolUse, ruling};
use ekiden_core::ids::{AttemptId, RunId, SessionNumber, StageId};
use ekiden_core::prompt::{PromptBlocks, REFUSED_IN_PLANNING};
use ekiden_core::relay::Prompt;
use ekiden_core::steering::StopRequest;
use ekiden_core::time::Timestamp;
use ekiden_store::disk::Disk;
use ekiden_store::lock::lock_attempt;
use ekiden_store::replace::{Durability, replace};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::clock::{Clock, SystemClock};
use crate::engine::hook_answer;
use crate::error::EngineError;
use crate::history;
use crate::known_limits::KnownLimits;
use crate::main_loop::TICK;
use crate::observer::Observer;
use crate::process_runner::{REPORTS_MAX, raw_stream};
use crate::run_files::resolve_input;
use crate::runner::{KEEPER_PATIENCE, LockedWorkDir};
use crate::runtime::runtime;
use crate::signals::{OnHangup, Signals};
use crate::workspace::Workspace;

/// Judges the answer of a turn, which is empty if no schema was asked for. A returned text goes to the agent as
/// the next message; `None` ends the conversation.
pub type Review<'a> = &'a mut dyn FnMut(Answer) -> Option<String>;

pub struct PlanningSession<'a> {
    pub prompt: PromptBlocks,
    /// The JSON Schema that answers must match. Without one the session writes the document.
    pub schema: Option<String>,
    /// The architecture document, absolute. The agent may always read it.
    pub document: &'a Path,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanningEnd {
    Reviewed,
    Ended(EndCause),
    Stopped { signal: i32 },
}

/// The right to plan in a work dir: nothing else works there until it is dropped.
pub struct Planner {
    work_dir: LockedWorkDir,
    /// Names conversations; no such run exists.
    run: RunId,
    agent: AgentSpec,
    bounds: Bounds,
    runtime: Runtime,
    signals: Signals,
    pub session: SessionNumber,
    spent: Spend,
    subscription: bool,
    /// What its sessions and the project's newest run taught.
    pub prices: Prices,
}

impl Planner {
    /// Takes the work dir. A run's budget covers all sessions together. It is an error if another engine works here, or
    /// something of an earlier planning still lives.
    pub fn take(
        workspace: &Workspace,
        run: RunId,
        agent: AgentSpec,
        bounds: Bounds,
    ) -> Result<Self, EngineError> {
        let disk = Arc::new(workspace.disk());
        let work_dir = LockedWorkDir::take(disk, workspace)?;
        let runtime = runtime()?;
        let signals = runtime.block_on(async { Signals::listen(OnHangup::Stop) })?;
        // If somebody kills keepers, we adopt their orphans.
        let _ = ekiden_agent::become_subreaper();
        let planner = Self {
            work_dir,
            run,
            agent,
            bounds,
            runtime,
            signals,
            session: SessionNumber::FIRST,
            spent: Spend::default(),
            subscription: false,
            prices: history::newest_of_project(workspace)
                .map(|run| run.prices())
                .unwrap_or_default(),
        };
        ekiden_store::archive::ensure_dir(&*planner.work_dir.disk, &planner.dir())?;
        Ok(planner)
    }

    /// How many processes of an earlier run were ended.
    pub fn left_behind(&self) -> usize {
        self.work_dir.left_behind
    }

    /// What its sessions have spent; true if that is the API price.
    pub fn spent(&self) -> (Spend, bool) {
        (self.spent, self.subscription)
    }

    /// What may be spent in all.
    pub fn budget(&self) -> Budget {
        self.bounds.run
    }

    pub fn hold(
        &mut self,
        session: &PlanningSession<'_>,
        review: Review<'_>,
        observer: &mut dyn Observer,
    ) -> Result<PlanningEnd, EngineError> {
        let budget = self
            .bounds
            .session
            .within(self.bounds.run.after(self.spent));
        if budget.is_spent() {
            return Ok(PlanningEnd::Ended(EndCause::BudgetSpent));
        }
        let timeout = self.bounds.session_timeout.map(Duration::from);
        let (limits, agent) = (self.known_limits(), self.agent.clone());
        if let Some(cause) = limits.met_elsewhere(&agent, SystemClock.now()) {
            return Ok(PlanningEnd::Ended(cause));
        }
        let spec = self.spec(session)?;
        self.session = self.session.next();
        let (reports, inbox) = mpsc::channel(REPORTS_MAX);
        let (disk, view) = (Arc::clone(&self.work_dir.disk), self.guard_view(session));
        let meter = SpendMeter::new(Share {
            budget,
            turns: self.bounds.turns_max,
            ..Share::default()
        });
        let (signals, writes) = (&mut self.signals, session.schema.is_none());
        let (end, counters) = self.runtime.block_on(async {
            let conversation = Conversation {
                attempt: ekiden_agent::start(spec, reports),
                inbox,
                disk,
                view,
                writes,
                meter,
                deadline: timeout.map(|timeout| Instant::now() + timeout),
                answer: Answer::default(),
                settled: None,
                spent: Spend::default(),
                learn: &|ended| drop(limits.learn(&agent, ended, SystemClock.now())),
            };
            conversation.hold(signals, review, observer).await
        });
        self.spent = self.spent.plus(counters.spend);
        self.subscription |= counters.subscription;
        self.prices.merge(&counters.prices);
        Ok(end)
    }

    /// Waits until then by the wall clock, which runs while the machine is suspended. A wait that counts from `since` is
    /// also over if the clock was set back to before that. Returns the signal that ended the wait, if one did.
    pub fn wait_until(&mut self, since: Option<Timestamp>, until: Timestamp) -> Option<i32> {
        let since = since.unwrap_or_default();
        let signals = &mut self.signals;
        self.runtime.block_on(async {
            while (since..until).contains(&SystemClock.now()) {
                tokio::select! {
                    request = signals.next() => return Some(signal_of(&request)),
                    () = tokio::time::sleep(Duration::from(until.since(SystemClock.now())).min(TICK)) => {}
                }
            }
            None
        })
    }

    /// Keeps a text beside what the sessions left, so that a person can look at it. Returns its path.
    pub fn keep(&self, name: &str, text: &str) -> Result<PathBuf, EngineError> {
        let path = self.dir().join(name);
        replace(
            &*self.work_dir.disk,
            &path,
            text.as_bytes(),
            Durability::Whole,
        )?;
        Ok(path)
    }

    fn known_limits(&self) -> KnownLimits {
        let disk = Arc::clone(&self.work_dir.disk);
        KnownLimits::of(&self.work_dir.workspace, disk, None)
    }

    fn dir(&self) -> PathBuf {
        let worktree = self.work_dir.workspace.worktree();
        self.work_dir.state.view().layout().planning(worktree)
    }

    /// All of ekiden's files are closed to the agent. There is no handoff, so the document takes the handoff
    /// directory's place: nothing lies inside a file.
    fn guard_view(&self, session: &PlanningSession<'_>) -> GuardView {
        let workspace = &self.work_dir.workspace;
        GuardView {
            profile: Profile::Relay,
            level: Level::L0,
            handoff_dir: session.document.to_owned(),
            engine_dirs: vec![
                workspace.published().dir().to_owned(),
                workspace.state_dir.clone(),
            ],
            missing: String::new(),
        }
    }

    fn spec(&self, session: &PlanningSession<'_>) -> Result<AttemptSpec, EngineError> {
        let dir = self.dir();
        let attempt = AttemptId::first(self.session);
        let conversation = attempt.conversation(&self.run, &StageId::only());
        let lock = Some(lock_attempt(&dir.join("attempt.lock"), KEEPER_PATIENCE)?);
        let events = dir.join(format!("{}.jsonl", self.session));
        if self.work_dir.disk.stat(&events)?.is_some() {
            self.work_dir.disk.remove(&events)?;
        }
        let prompt_file = self.keep(
            &format!("{}.md", self.session),
            &session.prompt.to_archive(),
        )?;
        Ok(AttemptSpec {
            ekiden: self.work_dir.ekiden.clone(),
            agent: self.agent.clone(),
            attempt,
            conversation,
            mode: StartMode::Fresh,
            dir: self.work_dir.workspace.dir.clone(),
            protocol: String::new(),
            protocol_file: PathBuf::new(),
            message: Prompt::Fresh(session.prompt.clone()),
            prompt_file,
            events_file: events.clone(),
            schema: session.schema.clone(),
            prices: self.prices.clone(),
            env: vec![
                ("EKIDEN_RUN".to_owned(), self.run.to_string()),
                ("EKIDEN_SESSION_ID".to_owned(), conversation.to_string()),
            ],
            lock,
            raw: raw_stream(Arc::clone(&self.work_dir.disk), &events)?,
        })
    }
}

struct Conversation<'a> {
    attempt: AttemptHandle,
    inbox: mpsc::Receiver<Report>,
    disk: Arc<dyn Disk>,
    view: GuardView,
    /// The session may write the document.
    writes: bool,
    meter: SpendMeter,
    deadline: Option<Instant>,
    /// The answer of the turn that runs.
    answer: Answer,
    /// How it will have ended, whatever the process says about its own end.
    settled: Option<PlanningEnd>,
    spent: Spend,
    /// Learns from its end what other runs may need.
    learn: &'a dyn Fn(&AttemptEnded),
}

impl Conversation<'_> {
    async fn hold(
        mut self,
        signals: &mut Signals,
        review: Review<'_>,
        observer: &mut dyn Observer,
    ) -> (PlanningEnd, Counters) {
        loop {
            let deadline = self.deadline;
            let report = tokio::select! {
                report = self.inbox.recv() => report,
                request = signals.next() => {
                    self.terminate(PlanningEnd::Stopped { signal: signal_of(&request) });
                    continue;
                }
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                    self.deadline = None;
                    self.terminate(PlanningEnd::Ended(EndCause::TimeUp));
                    continue;
                }
            };
            match report {
                Some(Report::Ended(ended)) => return self.ended(*ended),
                Some(report) => self.hear(report, review, observer),
                // An adapter whose task died; its keeper ends the agent.
                None => return self.ended(AttemptEnded::bare(EndCause::EngineLost)),
            }
        }
    }

    fn hear(&mut self, report: Report, review: Review<'_>, observer: &mut dyn Observer) {
        match report {
            Report::Started { .. } => self.attempt.tell(AgentCommand::Begin),
            Report::Spend { spend, turns, .. } => self.spend(spend, turns),
            Report::Answered(answer) => self.answer = answer,
            Report::TurnEnded { failed: true } => self.attempt.tell(AgentCommand::Close),
            Report::TurnEnded { failed: false } => self.turn_ended(review),
            Report::Hook { callback, input } => {
                let answer = self.ruling(&input);
                self.attempt.tell(AgentCommand::Answer { callback, answer });
            }
            Report::Activity(activity) => observer.activity(&StageId::only(), &activity),
            Report::Window { .. }
            | Report::Usage { .. }
            | Report::Compacted { .. }
            | Report::Delivered
            | Report::Ended(_) => {}
        }
    }

    /// An answer that is there counts, also if a bound ended the conversation meanwhile: the line that reports the cost
    /// has the answer, too. A person who stopped it wants none.
    fn turn_ended(&mut self, review: Review<'_>) {
        if matches!(self.settled, Some(PlanningEnd::Stopped { .. })) {
            return;
        }
        match review(std::mem::take(&mut self.answer)) {
            Some(text) if self.settled.is_none() => self.attempt.tell(AgentCommand::Say(text)),
            Some(_) => {}
            None => {
                self.settled = Some(PlanningEnd::Reviewed);
                self.attempt.tell(AgentCommand::Close);
            }
        }
    }

    fn spend(&mut self, spend: Spend, turns: u32) {
        self.spent = spend;
        let crossing = self
            .meter
            .take(spend, turns)
            .filter(|crossing| crossing.mark >= Mark::Spent);
        match crossing.map(|crossing| crossing.measure) {
            Some(Measure::Turns) => self.terminate(PlanningEnd::Ended(EndCause::TurnLimit)),
            Some(Measure::Money | Measure::Tokens) => {
                self.terminate(PlanningEnd::Ended(EndCause::BudgetSpent));
            }
            None => {}
        }
    }

    fn terminate(&mut self, end: PlanningEnd) {
        self.settled.get_or_insert(end);
        self.attempt.tell(AgentCommand::Terminate);
    }

    /// The document is open whatever the agent's own rules say; subagents may only read it.
    fn ruling(&self, input: &HookInput) -> HookAnswer {
        let input = resolve_input(&*self.disk, input);
        let is_document = |path: &Path| path == self.view.handoff_dir;
        match &input {
            HookInput::PreTool {
                tool: ToolUse::Read(path),
                ..
            } if is_document(path) => HookAnswer::Allow,
            HookInput::PreTool {
                tool: ToolUse::Write(path),
                subagent,
            } if is_document(path) && self.writes && !subagent => HookAnswer::Allow,
            HookInput::PreTool {
                tool: ToolUse::Write(path),
                ..
            } if is_document(path) => HookAnswer::Pass,
            HookInput::PreTool { .. }
            | HookInput::Stop { .. }
            | HookInput::PreCompact
            | HookInput::Other => match ruling(&self.view, &input) {
                Ruling::Deny(_) => HookAnswer::Deny(REFUSED_IN_PLANNING.to_owned()),
                ruling @ (Ruling::Pass | Ruling::Allow | Ruling::Block) => hook_answer(ruling),
            },
        }
    }

    fn ended(self, ended: AttemptEnded) -> (PlanningEnd, Counters) {
        (self.learn)(&ended);
        let counters = Counters {
            spend: self.spent.at_least(ended.counters.spend),
            ..ended.counters
        };
        let end = self.settled.unwrap_or(PlanningEnd::Ended(ended.cause));
        (end, counters)
    }
}

fn signal_of(request: &StopRequest) -> i32 {
    match request {
        // There is no handoff to wait for.
        StopRequest::Gently => rustix::process::Signal::INT.as_raw(),
        StopRequest::Now { signal } => *signal,
    }
}
