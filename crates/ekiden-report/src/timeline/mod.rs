//! A run's timeline from its log: stages, their sessions, their attempts, and the events beside them.
//!
//! [`Timeline::take`] folds one record, given the run's state after it; `output::Reporter` of the binary makes its
//! lines in the same pass. [`Timeline::settle`] computes what only the end of the fold knows: sums, states of stages,
//! open questions. It can be called at any time, and more than once.
//!
//! Texts are kept up to a length, so that the timeline of 10,000 sessions fits into memory.

mod attempt_end;
mod attempts;
mod fold;
mod problem;
mod settle;
mod words;

use std::collections::BTreeMap;

use ekiden_core::budget::{AgentBudget, Budget, Spend, TokenCounts};
use ekiden_core::ends::EndCause;
use ekiden_core::event::{AttemptEnded, Check, Commit, Counters, Delivery, Merge};
use ekiden_core::guard::{Level, Levels, Window};
use ekiden_core::handoff::OpenItems;
use ekiden_core::ids::{AttemptNumber, RunId, StageId};
use ekiden_core::manifest::{Stage as Planned, Verification};
use ekiden_core::outcome::{Outcome, WaitCause};
use ekiden_core::relay::Totals;
use ekiden_core::run::Run;
use ekiden_core::text::short;
use ekiden_core::time::{Millis, Timestamp};

pub use attempt_end::{AttemptEnd, Left, cautions};
pub use fold::Before;
pub use problem::{Kind, Problem, check_word, of_warning, weakening};
pub use words::Words;

/// How much of an agent's text is kept, in characters. The archive has it whole.
const WORDS_CHARS_MAX: usize = 4_000;
/// How much of a task is kept; `.ekiden/TASK.md` has it whole.
const TASK_CHARS_MAX: usize = 8_000;
/// Lines of a survey that are kept: commits, files.
const SURVEY_LINES_MAX: usize = 200;

#[derive(Debug)]
pub struct Timeline {
    pub run: RunId,
    /// The run's name, for people.
    pub task_name: String,
    /// The version of the program that started it.
    pub ekiden: String,
    pub work_dir: String,
    pub git: bool,
    pub agent: String,
    pub model: Option<String>,
    pub levels: Levels,
    pub is_plan: bool,
    /// Items that were already done, if the run continues another one.
    pub items_before: usize,
    /// In the order of the manifest. A run of a single relay has one.
    pub stages: Vec<Stage>,
    pub waits: Vec<Wait>,
    pub problems: Vec<Problem>,
    /// What people asked of the run, in ekiden's words and theirs.
    pub asked: Vec<Asked>,
    /// What sessions added to the knowledge, in that order.
    pub learned: Vec<Learned>,
    pub delivery: Option<Delivery>,
    pub started: Timestamp,
    pub last: Timestamp,
    /// When it ended, unless it has continued since.
    pub ended: Option<Timestamp>,
    /// How long ekiden worked on it, waits included.
    pub worked: Millis,
    /// How much of that nothing was at work, because what could begin had to wait.
    pub waited: Millis,
    /// That is so since the last record.
    waits_now: bool,
    /// Until when both are counted.
    worked_until: Timestamp,
    /// The last record before ekiden was killed, or until when an attempt worked on that it had to leave.
    killed: Option<Timestamp>,
    pub standing: Standing,
    /// The place of each stage, by its id.
    index: BTreeMap<StageId, usize>,
    /// Each relay's state before the last record, and after it.
    before: BTreeMap<StageId, Before>,
    after: BTreeMap<StageId, Before>,
}

/// The facts known at the end of the fold.
#[derive(Debug, Default)]
pub struct Standing {
    /// None while the run works, or if ekiden was killed.
    pub outcome: Option<Outcome>,
    pub totals: Totals,
    pub budget: Budget,
    pub agents: Vec<AgentBudget>,
    /// Facts that all sessions know, oldest first.
    pub facts: Vec<String>,
    /// Changed and untracked files that are not committed, if git knows.
    pub files_open: Option<usize>,
    /// The maximum number of sessions, of this run alone.
    pub sessions_max: u32,
}

#[derive(Debug)]
pub struct Stage {
    pub id: StageId,
    pub name: String,
    /// The task, and each later wording of it.
    pub tasks: Vec<(Timestamp, String)>,
    /// The verification that shows that it is done.
    pub verification: Option<String>,
    /// The stages that it needs, by their places.
    pub needs: Vec<usize>,
    /// The verification's result before the first session.
    pub baseline: Option<Check>,
    pub sessions: Vec<Session>,
    pub merges: Vec<(Timestamp, Merge)>,
    pub state: State,
    /// Why it is in this state, in a few words; may be empty.
    pub why: String,
    pub tries: u32,
    pub question: Option<String>,
    /// The items of the last handoff, if it lists them.
    pub items: Option<OpenItems>,
    /// How many facts there were before the last record, corrected ones included.
    known: usize,
}

/// The state of a stage, as a person sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Waiting,
    Working,
    /// It was working when the run ended or was killed.
    Interrupted,
    Done,
    /// It ended with a question, and nobody has answered it.
    Asks,
    Failed,
    /// It failed, which was allowed.
    Skipped,
    LeftOut,
    Blocked,
}

#[derive(Debug, Default)]
pub struct Session {
    pub number: u32,
    pub began: Timestamp,
    /// It judges the claim of the session before.
    pub is_review: bool,
    /// The agent that worked in it, if the run has a fallback.
    pub agent: Option<String>,
    pub attempts: Vec<Attempt>,
    /// What its last attempt left, once that is over.
    pub left: Option<Left>,
    /// ekiden wrote a handoff for it, since it left no valid one.
    pub is_rescued: bool,
    /// Only the newest sessions of a stage keep them.
    pub words: Option<Words>,
    /// Items of its handoff that are done and open, if it lists them.
    pub items: Option<(usize, usize)>,
    pub commit: Option<Commit>,
    /// The verification after it.
    pub check: Option<Check>,
    /// Commits since the session before, newest first, one line each.
    pub commits: Vec<String>,
    /// Files that it changed, committed or not, with git's letters.
    pub files: Vec<String>,
}

#[derive(Debug, Default)]
pub struct Attempt {
    pub number: u32,
    pub began: Timestamp,
    /// It continues the conversation of the attempt before.
    pub resumes: bool,
    /// Its agent reports what it does and how full its context is.
    pub is_heard: bool,
    pub model: Option<String>,
    pub window: Option<Window>,
    pub crossings: Vec<Crossing>,
    /// When the order to hand off was first known.
    pub ordered: Option<Timestamp>,
    pub end: Option<End>,
}

/// Context use reached a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crossing {
    pub at: Timestamp,
    pub level: Level,
    pub usage_tokens: u64,
}

#[derive(Debug)]
pub struct End {
    pub at: Timestamp,
    pub cause: EndCause,
    pub counters: Counters,
}

#[derive(Debug)]
pub struct Wait {
    pub stage: usize,
    /// The session that comes next.
    pub session: u32,
    pub cause: WaitCause,
    /// How the attempt before ended, if that is the reason.
    pub ended_by: Option<EndCause>,
    pub from: Timestamp,
    pub until: Timestamp,
    /// When the wait or the run was over.
    pub over: Option<Timestamp>,
}

/// Something that a person asked of the run.
#[derive(Debug)]
pub struct Asked {
    pub at: Timestamp,
    pub what: &'static str,
    /// Their own words, if there are any.
    pub words: String,
}

/// A fact that a session added.
#[derive(Debug)]
pub struct Learned {
    pub stage: usize,
    pub session: u32,
    pub fact: String,
}

impl Timeline {
    /// An empty timeline; only the first record of `run` counts.
    pub fn new(run: &Run) -> Self {
        let (header, at) = (run.header(), run.started_at());
        let stages = &header.manifest.stages;
        let from = header.from.as_ref();
        let items = from.and_then(|from| from.last.open_items.as_ref());
        let index: BTreeMap<StageId, usize> = stages
            .iter()
            .zip(0..)
            .map(|(stage, place)| (stage.id.clone(), place))
            .collect();
        Self {
            run: header.run.clone(),
            task_name: run.task_names(),
            ekiden: header.ekiden.clone(),
            work_dir: header.place.work_dir.clone(),
            git: header.place.git,
            agent: header.settings.agent.name.clone(),
            model: header.settings.agent.model.clone(),
            levels: header.settings.levels,
            is_plan: header.is_plan(),
            items_before: items.map_or(0, |items| items.done.len()),
            stages: stages
                .iter()
                .map(|stage| Stage::new(stage, at, &index))
                .collect(),
            waits: Vec::new(),
            problems: Vec::new(),
            asked: Vec::new(),
            learned: Vec::new(),
            delivery: None,
            started: at,
            last: at,
            ended: None,
            worked: Millis(0),
            waited: Millis(0),
            waits_now: false,
            worked_until: at,
            killed: None,
            standing: Standing::default(),
            index,
            before: BTreeMap::new(),
            after: BTreeMap::new(),
        }
    }

    pub fn sessions(&self) -> impl Iterator<Item = (&Stage, &Session)> {
        self.stages
            .iter()
            .flat_map(|stage| stage.sessions.iter().map(move |session| (stage, session)))
    }

    /// How many sessions began. The run's totals do not count one that was cut off.
    pub fn begun(&self) -> u64 {
        self.sessions().count() as u64
    }

    /// The state of the stage's relay before the last record.
    pub fn before(&self, stage: &StageId) -> Before {
        self.before.get(stage).copied().unwrap_or_default()
    }

    pub fn wait(&self, stage: &StageId) -> Option<&Wait> {
        let place = self.index.get(stage)?;
        let mut newest = self.waits.iter().rev().take(self.stages.len());
        newest.find(|wait| wait.stage == *place && wait.over.is_none())
    }

    /// A commit was made while the run worked.
    pub fn has_commits(&self) -> bool {
        let is_made = |commit: &Commit| matches!(commit, Commit::Made { .. });
        self.delivery.is_some()
            || self.sessions().any(|(_, session)| {
                !session.commits.is_empty() || session.commit.as_ref().is_some_and(is_made)
            })
    }
}

impl Stage {
    fn new(planned: &Planned, at: Timestamp, index: &BTreeMap<StageId, usize>) -> Self {
        let needs = planned.part.needs.iter();
        Self {
            id: planned.id.clone(),
            name: planned.task_name.clone(),
            tasks: vec![(at, short(&planned.task, TASK_CHARS_MAX))],
            verification: planned.verification.as_ref().map(Verification::in_one_line),
            needs: needs
                .filter_map(|need| index.get(&need.stage).copied())
                .collect(),
            baseline: None,
            sessions: Vec::new(),
            merges: Vec::new(),
            state: State::Waiting,
            why: String::new(),
            tries: 1,
            question: None,
            items: None,
            known: 0,
        }
    }
}

impl Session {
    pub fn spend(&self) -> Spend {
        self.ends()
            .fold(Spend::default(), |sum, end| sum.plus(end.counters.spend))
    }

    /// Part of its cost is the API price, which nobody pays.
    pub fn has_subscription(&self) -> bool {
        self.ends().any(|end| end.counters.subscription)
    }

    pub fn kinds(&self) -> TokenCounts {
        self.ends().fold(TokenCounts::default(), |sum, end| {
            sum.plus(end.counters.kinds.unwrap_or_default())
        })
    }

    pub fn duration(&self) -> Millis {
        Millis(self.ends().map(|end| end.counters.duration.0).sum())
    }

    pub fn tool_calls(&self) -> u32 {
        self.ends().map(|end| end.counters.tool_calls).sum()
    }

    /// The agent of this attempt reports what it does.
    pub fn hears(&self, attempt: AttemptNumber) -> bool {
        let mut attempts = self.attempts.iter();
        attempts.any(|one| one.is_heard && one.number == attempt.get())
    }

    /// An agent that worked in it reports what it does.
    pub fn is_heard(&self) -> bool {
        self.attempts.iter().any(|attempt| attempt.is_heard)
    }

    /// How its last attempt ended, if it did.
    pub fn end(&self) -> Option<&End> {
        self.attempts.last()?.end.as_ref()
    }

    /// The model that led it; subagents may have had others.
    pub fn model(&self) -> Option<&str> {
        self.attempts
            .iter()
            .rev()
            .find_map(|attempt| attempt.model.as_deref())
    }

    /// Each model's spend. Spend without a model counts for the one that led the session.
    pub fn spend_by_model(&self) -> BTreeMap<&str, Spend> {
        let mut models: BTreeMap<&str, Spend> = BTreeMap::new();
        for end in self.ends() {
            for (model, spend) in end.counters.spend_by_model(self.model()) {
                let sum = models.entry(model.unwrap_or("unknown model")).or_default();
                *sum = sum.plus(spend);
            }
        }
        models
    }

    /// Context use at the end of its last attempt that ended in tokens, and the share of the window if that is known.
    pub fn usage(&self) -> Option<(u64, Option<u64>)> {
        let tokens = self.ends().last()?.counters.usage_tokens;
        let share = self.window().map(|window| window.percent(tokens));
        (tokens > 0).then_some((tokens, share))
    }

    pub fn window(&self) -> Option<Window> {
        let mut attempts = self.attempts.iter().rev();
        attempts.find_map(|attempt| attempt.window)
    }

    pub(crate) fn ends(&self) -> impl Iterator<Item = &End> {
        self.attempts
            .iter()
            .filter_map(|attempt| attempt.end.as_ref())
    }
}

impl End {
    fn of(at: Timestamp, ended: &AttemptEnded) -> Self {
        Self {
            at,
            cause: ended.cause.clone(),
            counters: ended.counters.clone(),
        }
    }
}
