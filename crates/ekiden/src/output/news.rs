//! What a run has to tell: the catalogue behind the lines for people and the lines for programs.
//!
//! Both are made from the same [`News`], so `--json` says everything that the lines say. Its
//! serialised form is the published schema (`docs/json.md`): names are added to it under the same
//! version, never changed. Quantities carry their unit in the name; times are RFC 3339 in UTC.

use ekiden_core::budget::{Budget, Mark, Measure};
use ekiden_core::effect::StartMode;
use ekiden_core::ends::EndCause;
use ekiden_core::event::{CheckOutcome, Commit, Delivery, StopRequest};
use ekiden_core::guard::Level;
use ekiden_core::ids::{RunId, StageId};
use ekiden_core::judge::Warning;
use ekiden_core::outcome::Outcome;
use ekiden_core::plan::StageTally;
use ekiden_core::relay::WaitCause;
use ekiden_core::time::{Millis, Timestamp};
use serde::{Serialize, Serializer};

use super::stages::{PlanNews, StageNews};
use super::trouble::Trouble;
use super::{judged, phrase};

/// The version of the lines for programs.
pub const JSON_VERSION: u32 = 1;

/// A line for programs.
#[derive(Debug, Serialize)]
pub struct JsonLine<'a> {
    /// The version of this form.
    pub v: u32,
    /// When it was recorded.
    #[serde(serialize_with = "utc")]
    pub time: Timestamp,
    /// The run.
    pub run: &'a RunId,
    /// The stage that it is about, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<&'a StageId>,
    /// What happened.
    #[serde(flatten)]
    pub news: &'a News,
}

/// Something that a run has to tell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum News {
    /// The run began.
    RunStarted(RunStart),
    /// The run goes on.
    RunResumed {
        /// The version of the program that carries on.
        ekiden: String,
        /// The last session that may begin.
        session_max: u32,
    },
    /// The run was complete, and goes on with follow-up work.
    RunContinued {
        /// The version of the program that carries on.
        ekiden: String,
        /// What the new task is called.
        task: String,
        /// The last session that may begin.
        session_max: u32,
    },
    /// The task is as the user has edited it.
    TaskChanged {
        /// What it is called.
        task: String,
    },
    /// The log was written by other logic.
    LogicChanged {
        /// The first record where it shows.
        seq: u64,
    },
    /// Somebody wants the run to stop.
    StopRequested {
        /// How.
        request: StopRequest,
        /// The session that is asked to hand over, if one is at work.
        session: Option<u32>,
    },
    /// A person wants a pause; the session at work goes on to its end.
    PauseRequested {
        /// That session, if one is at work.
        session: Option<u32>,
    },
    /// Nothing begins until the run is unpaused.
    Paused {
        /// The session that comes then.
        session: u32,
        /// Its attempt.
        attempt: u32,
    },
    /// A person wants the run to go on.
    Unpaused,
    /// A person has words for the next session.
    Instructed {
        /// What it will read.
        words: String,
        /// There was room for it.
        taken: bool,
    },
    /// A person changed limits.
    LimitsChanged {
        /// The last session that may begin now.
        session_max: u32,
        /// What all sessions together may spend now.
        run_budget: Budget,
        /// What one session may spend now.
        session_budget: Budget,
        /// What was changed, in words.
        changed: Vec<String>,
    },
    /// The verification before session 1.
    FirstCheck {
        /// How it went.
        #[serde(flatten)]
        check: CheckNews,
        /// A pass of it is not enough: the agent has to say that all is done.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        claim_needed: bool,
    },
    /// An attempt at a session begins.
    SessionStarted {
        /// The session.
        session: u32,
        /// Which try, from 1.
        attempt: u32,
        /// Whether its conversation is new.
        conversation: StartMode,
    },
    /// The window is known, or another.
    Window(WindowNews),
    /// The session's context reached a level.
    Level {
        /// The session.
        session: u32,
        /// The level.
        level: Level,
        /// The use, in tokens.
        usage_tokens: u64,
        /// The use as a share of the usable window.
        percent: Option<u64>,
    },
    /// A session's first response reached a level already.
    WindowFull(FilledNews),
    /// A session's spend reached a mark.
    Spend(SpendNews),
    /// The agent compacted its context: the handoff came too late.
    Compacted {
        /// The session.
        session: u32,
        /// The context that it had before, in tokens; 0 if it did not say.
        usage_tokens: u64,
    },
    /// An attempt is over.
    AttemptEnded(AttemptNews),
    /// The session left a handoff.
    Handoff(HandoffNews),
    /// The session left no handoff that could be used; ekiden wrote one from what it saw.
    Rescue {
        /// The session.
        session: u32,
        /// Why its last attempt ended.
        cause: EndCause,
    },
    /// The verification after a session.
    Check {
        /// The session.
        session: u32,
        /// How it went.
        #[serde(flatten)]
        check: CheckNews,
        /// The session had said that all is done, and the verification does not agree.
        veto: bool,
    },
    /// What is said of a session that is over, beside its end.
    Judged(Warning),
    /// The session was committed, or was not.
    Commit {
        /// The session.
        session: u32,
        /// What came of it.
        result: Commit,
    },
    /// The work tree could not be looked at.
    SurveyFailed {
        /// Why not.
        error: String,
    },
    /// Nothing happens until a time.
    Waiting {
        /// Until when.
        #[serde(serialize_with = "utc")]
        until: Timestamp,
        /// Why.
        why: WaitCause,
        /// What ended the attempt before, if that is why.
        cause: Option<EndCause>,
        /// The session that comes then.
        session: u32,
        /// Its attempt.
        attempt: u32,
    },
    /// A person changed the published knowledge.
    KnowledgeEdited {
        /// How many facts it holds now.
        facts: usize,
    },
    /// Something about a stage of a plan.
    Stage(StageNews),
    /// The user has what all stages of a plan made, or knows where it lies.
    Delivered(Delivery),
    /// The run is over for now.
    RunEnded(Box<RunEnd>),
    /// Something is wrong that does not stop the run. Told while it happens, not kept.
    Warning {
        /// What.
        text: String,
    },
}

impl News {
    /// The session that it is about, if it is about one.
    #[must_use]
    pub fn session(&self) -> Option<u32> {
        match self {
            Self::SessionStarted { session, .. }
            | Self::Level { session, .. }
            | Self::Compacted { session, .. }
            | Self::Rescue { session, .. }
            | Self::Commit { session, .. }
            | Self::Check { session, .. } => Some(*session),
            Self::Window(window) => Some(window.session),
            Self::WindowFull(filled) => Some(filled.session),
            Self::Spend(spend) => Some(spend.session),
            Self::AttemptEnded(attempt) => Some(attempt.session),
            Self::Handoff(handoff) => Some(handoff.session),
            Self::Judged(warning) => judged::session(warning),
            Self::RunStarted(_)
            | Self::RunResumed { .. }
            | Self::RunContinued { .. }
            | Self::TaskChanged { .. }
            | Self::LogicChanged { .. }
            | Self::StopRequested { .. }
            | Self::PauseRequested { .. }
            | Self::Paused { .. }
            | Self::Unpaused
            | Self::Instructed { .. }
            | Self::LimitsChanged { .. }
            | Self::FirstCheck { .. }
            | Self::SurveyFailed { .. }
            | Self::Waiting { .. }
            | Self::KnowledgeEdited { .. }
            | Self::Stage(_)
            | Self::Delivered(_)
            | Self::RunEnded(_)
            | Self::Warning { .. } => None,
        }
    }
}

/// What a run was started with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunStart {
    /// The program's version.
    pub ekiden: String,
    /// Where the task came from.
    pub task: String,
    /// The work dir.
    pub work_dir: String,
    /// Who works.
    pub agent: String,
    /// The model, if one was chosen.
    pub model: Option<String>,
    /// The last session that may begin.
    pub session_max: u32,
    /// Where the levels begin, in percent; nothing if the agent does not tell its context.
    pub levels: Option<[u8; 3]>,
    /// The verification, if there is one.
    pub verification: Option<String>,
    /// The branch, if the user named one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// If sessions are committed: how many files stay out, since they had changes at the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_alone: Option<usize>,
    /// What all sessions together may spend.
    pub run_budget: Budget,
    /// The run and the session that it goes on from, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<FromNews>,
    /// The plan, if it is more than a single relay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanNews>,
}

/// Where a run goes on from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FromNews {
    /// The other run.
    pub run: RunId,
    /// Its session.
    pub session: u32,
}

/// A context window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WindowNews {
    /// The session.
    pub session: u32,
    /// The model, if the agent named it.
    pub model: Option<String>,
    /// The model's window.
    pub window_tokens: u64,
    /// What of it is used.
    pub usable_tokens: u64,
    /// The use at which the session is told to hand over.
    pub handoff_tokens: u64,
}

/// A window that is full before the work begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FilledNews {
    /// The session.
    pub session: u32,
    /// The level that its first response reached.
    pub level: Level,
    /// The context of that response.
    pub usage_tokens: u64,
    /// The same as a share of the usable window.
    pub percent: Option<u64>,
    /// What fills it, in tokens, largest first.
    pub filled_by: Vec<(String, u64)>,
    /// An earlier session reached this level as well.
    #[serde(skip)]
    pub known: bool,
}

/// A mark of spend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SpendNews {
    /// The session.
    pub session: u32,
    /// How far its share is spent.
    pub mark: Mark,
    /// In what.
    pub measure: Measure,
    /// What the attempt cost by now, in millionths of a US dollar.
    pub cost_micro_usd: u64,
    /// The cost is an estimate.
    pub estimated: bool,
    /// What it used of a budget of tokens.
    pub tokens: u64,
    /// Responses of the model.
    pub turns: u32,
}

/// An attempt that is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AttemptNews {
    /// The session.
    pub session: u32,
    /// Which try, from 1.
    pub attempt: u32,
    /// What it left.
    pub left: Left,
    /// Why it ended.
    pub cause: EndCause,
    /// How long it ran.
    #[serde(rename = "duration_ms")]
    pub duration: Millis,
    /// Context use at the end.
    pub usage_tokens: u64,
    /// The use as a share of the usable window.
    pub percent: Option<u64>,
    /// Calls of tools, if the agent tells of them.
    pub tool_calls: Option<u32>,
    /// What it cost, in millionths of a US dollar.
    pub cost_micro_usd: u64,
    /// Part of the cost is an estimate.
    pub estimated: bool,
    /// The account has a subscription: the cost is what others would pay.
    pub subscription: bool,
    /// What it used of a budget of tokens.
    pub tokens: u64,
    /// Responses of the model, where the agent tells them.
    pub turns: Option<u32>,
    /// Published files that the agent changed; not taken over.
    pub touched: Vec<String>,
    /// Files of the handoff that it wrote among the published ones; taken over.
    pub misplaced: Vec<String>,
    /// What in the handoff looks as if somebody wanted to steer an agent with it.
    pub cautions: Vec<String>,
    /// Lines of the agent's stream that could not be read.
    pub malformed_lines: u32,
    /// The same session goes on in another attempt.
    pub goes_on: bool,
}

/// What an attempt left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Left {
    /// A handoff; work is left.
    Handoff,
    /// A handoff that says that all is done.
    Completion,
    /// A handoff that asks for a person.
    Question,
    /// Nothing that can be used.
    Nothing,
}

/// A handoff.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HandoffNews {
    /// The session that left it.
    pub session: u32,
    /// Where the next session begins.
    pub next: Option<String>,
    /// Open items, if it has a list.
    pub items_open: Option<usize>,
    /// Ticked items, if it has a list.
    pub items_done: Option<usize>,
    /// What was wrong with it and was accepted.
    pub warnings: Vec<String>,
    /// Facts that every later session will know.
    pub facts: usize,
}

/// A run of the verification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckNews {
    /// The command.
    pub command: String,
    /// How it ended.
    pub result: CheckOutcome,
    /// How long it took.
    #[serde(rename = "duration_ms")]
    pub duration: Millis,
    /// The last line of its output.
    pub last_line: Option<String>,
}

/// How a run ended, with its sums.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunEnd {
    /// How.
    pub outcome: Outcome,
    /// The code that the program exits with.
    pub exit_code: u8,
    /// Sessions that are over.
    pub sessions: u32,
    /// The last session that may begin.
    pub session_max: u32,
    /// The session of another run that it goes on from; 0 if there is none.
    #[serde(skip)]
    pub before: u32,
    /// How many sessions a run may take unless told otherwise.
    pub sessions_max: u32,
    /// Time in which ekiden worked on it, waits included.
    #[serde(rename = "duration_ms")]
    pub duration: Millis,
    /// Time in which it waited.
    #[serde(rename = "waiting_ms")]
    pub waiting: Millis,
    /// What it cost so far, in millionths of a US dollar.
    pub cost_micro_usd: u64,
    /// Part of the cost is an estimate.
    pub estimated: bool,
    /// The account has a subscription: the cost is what others would pay.
    pub subscription: bool,
    /// What it used so far of a budget of tokens.
    pub tokens: u64,
    /// Open items, if the last handoff has a list.
    pub items_open: Option<usize>,
    /// Ticked items, if the last handoff has a list.
    pub items_done: Option<usize>,
    /// What became of the stages of a plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stages: Option<StageTally>,
    /// Facts in the published knowledge.
    pub facts: usize,
    /// What went wrong.
    #[serde(skip_serializing_if = "Trouble::is_none")]
    pub trouble: Trouble,
    /// Changed and untracked files in the work tree, if git can tell.
    pub files_changed: Option<usize>,
}

fn utc<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&phrase::utc(*at))
}
