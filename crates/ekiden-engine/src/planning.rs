//! Planning: conversations outside of any run, under the lock of the work dir.
//!
//! ```text
//!  Planner (lock, runtime, signals) ── hold ──► agent (under its keeper)
//!        ▲                                        │ turn over
//!        └── Reviewer: accept, ask again, refuse ◄┘
//! ```
//!
//! A planning session has no log: nothing that is lost with it cannot be asked for again, and what comes of
//! it is a file that a person reads before anything runs. So it is not resumed: after a usage limit it begins
//! anew. What it keeps lies in `planning/` of the state directory until the next one.
//!
//! Invariants: no run works here meanwhile. When [`Planner::hold`] returns, nothing of its agent is alive.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ekiden_agent::attempt::{
    Activity, Answer, AttemptHandle, AttemptSpec, Ended, FirstMessage, HookAnswer, Order, Report,
};
use ekiden_core::bounds::Bounds;
use ekiden_core::budget::{Gauge, Mark, Measure, Spend};
use ekiden_core::effect::StartMode;
use ekiden_core::ends::EndCause;
use ekiden_core::event::StopRequest;
use ekiden_core::guard::{GuardView, HookInput, Level, Profile, ToolUse, Verdict, verdict};
use ekiden_core::ids::{AttemptId, RunId, SessionNumber, StageId};
use ekiden_core::prompt::{self, HANDOFF_DIR, PromptBlocks};
use ekiden_core::settings::AgentSpec;
use ekiden_core::time::Timestamp;
use ekiden_store::disk::{Disk, RealDisk};
use ekiden_store::lock::AttemptLock;
use ekiden_store::replace::{Durability, replace};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::clock::{Clock, SystemClock};
use crate::desk::resolve_input;
use crate::error::EngineError;
use crate::history;
use crate::runner::{Place, Signals, runtime};
use crate::session_files::raw_stream;
use crate::workspace::Workspace;

/// Reports that wait; a full channel holds the agent back.
const REPORTS_MAX: usize = 256;
/// How long the end of what an earlier planning session left behind is waited for.
const KEEPER_PATIENCE: Duration = Duration::from_secs(10);

/// How often the clock is looked at while one waits.
const TICK: Duration = Duration::from_secs(1);

/// Who judges what a planning session answers.
pub trait Reviewer {
    /// A turn is over. The answer is empty where no schema was asked for.
    fn review(&mut self, answer: Answer) -> Review;

    /// Something happens in the session; decides nothing.
    fn activity(&mut self, activity: &Activity);
}

/// What becomes of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Review {
    /// It is good, or nothing better is to be had: the conversation is over.
    Over,
    /// It is asked for again, with this message.
    Ask(String),
}

/// A planning session.
pub struct PlanningSession<'a> {
    /// Its place among those of one planning, by which its files are named.
    pub number: SessionNumber,
    /// The agent.
    pub agent: AgentSpec,
    /// The first message.
    pub prompt: PromptBlocks,
    /// The JSON Schema that answers are held to.
    pub schema: Option<String>,
    /// The architecture document, absolute: it is always open to be read.
    pub document: &'a Path,
    /// It is open to be written as well.
    pub writes: bool,
    /// What the session may use. A run's budget is that of all sessions together.
    pub bounds: Bounds,
}

/// How a planning session ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanningEnd {
    /// The reviewer was content, or gave up.
    Reviewed,
    /// Something else ended it.
    Ended(EndCause),
    /// A signal ended it.
    Stopped {
        /// Which.
        signal: i32,
    },
}

/// The right to plan in a work dir: nothing else works there until it is dropped.
pub struct Planner {
    place: Place,
    run: RunId,
    runtime: Runtime,
    signals: Signals,
    /// What all sessions so far have spent.
    spent: Spend,
}

impl Planner {
    /// Takes the work dir. `run` is an id of its own, which names conversations and starts no run.
    ///
    /// # Errors
    ///
    /// If another engine works here, something of an earlier planning still lives, or the state cannot be
    /// written.
    pub fn take(workspace: &Workspace, run: RunId) -> Result<Self, EngineError> {
        let place = Place::take(Arc::new(RealDisk::fenced(&workspace.dir)), workspace)?;
        let runtime = runtime()?;
        let signals = runtime.block_on(async { Signals::listen() })?;
        // Orphans of keepers that somebody killed come to us.
        let _ = ekiden_agent::become_subreaper();
        let planner = Self { place, run, runtime, signals, spent: Spend::default() };
        ekiden_store::archive::ensure_dir(&*planner.place.disk, &planner.dir())?;
        Ok(planner)
    }

    /// What was spent so far.
    #[must_use]
    pub fn spent(&self) -> Spend {
        self.spent
    }

    /// Holds a conversation to its end.
    ///
    /// # Errors
    ///
    /// If its files cannot be had. Nothing has run then.
    pub fn hold(
        &mut self,
        session: PlanningSession<'_>,
        reviewer: &mut dyn Reviewer,
    ) -> Result<PlanningEnd, EngineError> {
        let bounds = session.bounds.clone();
        let share = bounds.session.within(bounds.run.after(self.spent));
        let view = self.guard_view(session.document);
        let document = session.document.to_owned();
        let (reports, inbox) = mpsc::channel(REPORTS_MAX);
        let writes = session.writes;
        let disk = Arc::clone(&self.place.disk);
        let timeout = bounds.session_timeout.map(Duration::from);
        let gauge = Gauge::new(share, bounds.turns_max);
        let spec = self.spec(session)?;
        let signals = &mut self.signals;
        let (end, spent) = self.runtime.block_on(async {
            let attempt = ekiden_agent::start(spec, reports);
            let deadline = timeout.map(|timeout| Instant::now() + timeout);
            let (answer, settled, spent) = (Answer::default(), None, Spend::default());
            let talk = Talk {
                attempt,
                inbox,
                disk,
                view,
                document,
                writes,
                gauge,
                deadline,
                answer,
                settled,
                spent,
            };
            talk.hold(signals, reviewer).await
        });
        self.spent = self.spent.plus(spent);
        Ok(end)
    }

    /// Waits until then by the wall clock, which goes on while the machine is suspended. The signal that ended
    /// the wait, if one did.
    pub fn wait_until(&mut self, until: Timestamp) -> Option<i32> {
        let signals = &mut self.signals;
        self.runtime.block_on(async {
            while SystemClock.now() < until {
                tokio::select! {
                    request = signals.next() => return Some(signal_of(&request)),
                    () = tokio::time::sleep(Duration::from(until.since(SystemClock.now())).min(TICK)) => {}
                }
            }
            None
        })
    }

    /// Keeps a text beside what the sessions left, for a person to look at; where it lies.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn keep(&self, name: &str, text: &str) -> Result<PathBuf, EngineError> {
        let path = self.dir().join(name);
        replace(&*self.place.disk, &path, text.as_bytes(), Durability::Whole)?;
        Ok(path)
    }

    fn dir(&self) -> PathBuf {
        let worktree = self.place.workspace.git.as_ref().and_then(|git| git.worktree.as_deref());
        self.place.state.view().layout().planning(worktree)
    }

    /// Everything of ours is closed. There is no handoff: nothing lies within a file.
    fn guard_view(&self, document: &Path) -> GuardView {
        let workspace = &self.place.workspace;
        GuardView {
            profile: Profile::Relay,
            level: Level::L0,
            handoff_dir: document.to_owned(),
            engine_dirs: vec![workspace.published.clone(), workspace.state_dir.clone()],
            missing: String::new(),
        }
    }

    fn spec(&self, session: PlanningSession<'_>) -> Result<AttemptSpec, EngineError> {
        let dir = self.dir();
        let attempt = AttemptId::first(session.number);
        let conversation = attempt.conversation(&self.run, &StageId::only());
        let lock = AttemptLock::wait_free(&dir.join("attempt.lock"), KEEPER_PATIENCE)?.into_file();
        let events = dir.join(format!("{}.jsonl", session.number));
        if self.place.disk.stat(&events)?.is_some() {
            self.place.disk.remove(&events)?;
        }
        let prompt_file = self.keep(&format!("{}.md", session.number), &session.prompt.to_archive())?;
        Ok(AttemptSpec {
            ekiden: self.place.ekiden.clone(),
            agent: session.agent,
            attempt,
            conversation,
            mode: StartMode::Fresh,
            dir: self.place.workspace.dir.clone(),
            protocol: String::new(),
            protocol_file: PathBuf::new(),
            message: FirstMessage::Prompt(session.prompt),
            prompt_file,
            schema: session.schema,
            prices: history::prices(&self.place.workspace),
            env: vec![
                ("EKIDEN_RUN".to_owned(), self.run.to_string()),
                ("EKIDEN_SESSION_ID".to_owned(), conversation.to_string()),
            ],
            lock,
            raw: raw_stream(Arc::clone(&self.place.disk), &events)?,
        })
    }
}

/// A conversation that goes on.
struct Talk {
    attempt: AttemptHandle,
    inbox: mpsc::Receiver<Report>,
    disk: Arc<dyn Disk>,
    view: GuardView,
    document: PathBuf,
    writes: bool,
    gauge: Gauge,
    deadline: Option<Instant>,
    /// The answer of the turn that runs.
    answer: Answer,
    /// How it will have ended, whatever the process says of its own end.
    settled: Option<PlanningEnd>,
    spent: Spend,
}

impl Talk {
    async fn hold(mut self, signals: &mut Signals, reviewer: &mut dyn Reviewer) -> (PlanningEnd, Spend) {
        loop {
            let deadline = self.deadline;
            let report = tokio::select! {
                report = self.inbox.recv() => report,
                request = signals.next() => {
                    self.terminate(PlanningEnd::Stopped { signal: signal_of(&request) });
                    continue;
                }
                () = at(deadline) => {
                    self.deadline = None;
                    self.terminate(PlanningEnd::Ended(EndCause::TimeUp));
                    continue;
                }
            };
            match report {
                Some(Report::Ended(ended)) => return self.ended(*ended),
                Some(report) => self.hear(report, reviewer),
                // An adapter whose task died; its keeper ends the agent.
                None => return (PlanningEnd::Ended(EndCause::EngineLost), self.spent),
            }
        }
    }

    fn hear(&mut self, report: Report, reviewer: &mut dyn Reviewer) {
        match report {
            Report::Started { .. } => self.attempt.tell(Order::Begin),
            Report::Spend { spend, turns } => self.spend(spend, turns),
            Report::Answered(answer) => self.answer = answer,
            Report::TurnEnded { failed: true } => self.attempt.tell(Order::Close),
            Report::TurnEnded { failed: false } => self.turn_ended(reviewer),
            Report::Hook { callback, input } => {
                let answer = self.verdict(&input);
                self.attempt.tell(Order::Answer { callback, answer });
            }
            Report::Activity(activity) => reviewer.activity(&activity),
            Report::Window { .. }
            | Report::Usage { .. }
            | Report::Compacted { .. }
            | Report::Delivered
            | Report::Ended(_) => {}
        }
    }

    fn turn_ended(&mut self, reviewer: &mut dyn Reviewer) {
        // What was stopped is not asked for anything more.
        if self.settled.is_some() {
            return;
        }
        match reviewer.review(std::mem::take(&mut self.answer)) {
            Review::Over => {
                self.settled = Some(PlanningEnd::Reviewed);
                self.attempt.tell(Order::Close);
            }
            Review::Ask(text) => self.attempt.tell(Order::Say(text)),
        }
    }

    fn spend(&mut self, spend: Spend, turns: u32) {
        self.spent = spend;
        let crossing = self.gauge.take(spend, turns).filter(|crossing| crossing.mark >= Mark::Spent);
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
        self.attempt.tell(Order::Terminate);
    }

    /// The document is open whatever the agent's own rules say, to subagents to be read.
    fn verdict(&self, input: &HookInput) -> HookAnswer {
        let input = resolve_input(&*self.disk, input);
        match &input {
            HookInput::PreTool { tool: ToolUse::Read(path), .. } if *path == self.document => {
                return HookAnswer::Allow;
            }
            HookInput::PreTool { tool: ToolUse::Write(path), subagent } if *path == self.document => {
                return if self.writes && !subagent { HookAnswer::Allow } else { HookAnswer::Pass };
            }
            HookInput::PreTool { .. } | HookInput::Stop { .. } | HookInput::PreCompact | HookInput::Other => {
            }
        }
        match verdict(&self.view, &input) {
            Verdict::Allow => HookAnswer::Allow,
            Verdict::Pass => HookAnswer::Pass,
            Verdict::Deny(denial) => HookAnswer::Deny(prompt::refusal(&denial, HANDOFF_DIR)),
            Verdict::Block => HookAnswer::Block(prompt::no_compaction()),
        }
    }

    fn ended(self, ended: Ended) -> (PlanningEnd, Spend) {
        let spent = self.spent.at_least(ended.counters.spend());
        (self.settled.unwrap_or(PlanningEnd::Ended(ended.cause)), spent)
    }
}

fn signal_of(request: &StopRequest) -> i32 {
    match request {
        // Nothing is handed over here, so there is nothing to do gently.
        StopRequest::Gently => rustix::process::Signal::INT.as_raw(),
        StopRequest::Now { signal } => *signal,
    }
}

/// Waits until then; for ever if there is no such time.
async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
