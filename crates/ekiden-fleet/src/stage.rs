//! The hidden role that carries out one stage: an engine of its own, in a process of its own.
//!
//! It reads what to do from standard input, writes a line whenever a session's handoff is accepted, and the
//! outcome as its last line. SIGTERM stops it as it stops any run.

use std::io::{Write as _, stdin, stdout};
use std::path::PathBuf;

use ekiden_core::budget::{Budget, Spend};
use ekiden_core::event::{Answer, Event, RelayEvent, RunResumed, TaskOutcome};
use ekiden_core::ids::StageId;
use ekiden_core::outcome::Outcome;
use ekiden_core::record::Record;
use ekiden_core::run::Run;
use ekiden_core::settings::RunStarted;
use ekiden_core::text::in_full;
use ekiden_engine::log_check::ChangedLog;
use ekiden_engine::observer::Observer;
use ekiden_engine::runner::{self, Driving, Unfinished};
use ekiden_engine::workspace::Workspace;
use ekiden_engine::{EngineError, history};
use serde::{Deserialize, Serialize};

/// The first argument that asks for this role.
pub(crate) const ROLE: &str = "__stage";
/// The work dir's state is kept here, in the attempt's place.
pub(crate) const STATE: &str = "state";

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StageJob {
    pub(crate) header: RunStarted,
    pub(crate) work_dir: PathBuf,
    pub(crate) state_dir: PathBuf,
    /// Where usage limits are noted that it meets, and those that others met.
    pub(crate) limits_dir: PathBuf,
    /// There is a log to go on from.
    pub(crate) goes_on: bool,
    /// The answer to the question with which it ended.
    pub(crate) answer: Option<String>,
    pub(crate) budget: Option<Budget>,
    /// What it had spent when somebody heard of it last; more than its log tells, if a worker died.
    pub(crate) charged: Spend,
}

/// A line of its output.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line {
    /// A handoff was accepted.
    Handoff,
    /// All that it has spent.
    Spent(Spend),
    Ended(Outcome),
    Failed(String),
}

pub(crate) fn run() -> i32 {
    let ended = serde_json::from_reader(stdin().lock())
        .map_err(|error| error.to_string())
        .and_then(|job: StageJob| carry_out(job).map_err(|error| in_full(&error)));
    let (told, code) = match ended {
        Ok(outcome) => (Line::Ended(outcome), 0),
        Err(why) => (Line::Failed(why), 1),
    };
    tell(&told);
    code
}

fn carry_out(job: StageJob) -> Result<Outcome, EngineError> {
    // What the log's chain is compared with stays on the machine where it was made, so it is not asked here. The
    // remote's own access rules say who can write a log.
    let workspace = Workspace {
        state_dir: job.state_dir,
        is_trusted: true,
        limits_dir: Some(job.limits_dir),
        ..Workspace::find(&job.work_dir, None)?
    };
    let run = job.header.run.clone();
    let mut teller = Teller::default();
    if !job.goes_on {
        teller.lost = job.charged;
        let mut header = job.header;
        header.settings.bounds.run = left(job.budget, teller.lost).unwrap_or_default();
        let (unfinished, driving) = (Unfinished::SetAside, Driving::alone());
        return runner::start(&workspace, header, unfinished, driving, &mut teller);
    }
    let found = history::read(&workspace, &run, |_, _| {})?;
    if !is_of_plan(found.run.header(), &job.header) {
        return Ok(Outcome::NoWorktree {
            why: "the stage's log at the remote is not of this plan".to_owned(),
        });
    }
    teller.lost = job.charged.since(spent(&found.run));
    teller.tell_spent(spent(&found.run));
    if let Some(outcome) = found.run.outcome().filter(|outcome| outcome.is_final()) {
        return Ok(outcome.clone());
    }
    // An attempt that died may have taken it up already.
    let asks = |stage: &StageId| found.run.questions().any(|(asking, _)| asking == stage);
    let stage = job.header.manifest.stages.first();
    let stage = stage.map(|stage| stage.id.clone());
    let answer = stage.filter(asks).zip(job.answer);
    let mut resumed = RunResumed {
        ekiden: env!("CARGO_PKG_VERSION").to_owned(),
        answer: answer.map(|(stage, words)| Answer { stage, words }),
        ..RunResumed::default()
    };
    resumed.limits.bounds.run = left(job.budget, teller.lost).unwrap_or_default();
    let (id, accept) = (Some(run.as_str()), ChangedLog::Accept);
    let driving = Driving::alone();
    runner::resume(&workspace, id, resumed, accept, driving, &mut teller)
}

/// The log is the remote's. What it has run is the plan's all the same.
fn is_of_plan(theirs: &RunStarted, ours: &RunStarted) -> bool {
    let (told, asked) = (&theirs.settings, &ours.settings);
    (&theirs.run, &theirs.manifest) == (&ours.run, &ours.manifest)
        && (&told.agent, &told.reviewer, &told.fallback)
            == (&asked.agent, &asked.reviewer, &asked.fallback)
}

/// What its log may come to, after what died with a worker.
fn left(budget: Option<Budget>, lost: Spend) -> Option<Budget> {
    budget.map(|budget| budget.after(lost))
}

fn spent(run: &Run) -> Spend {
    let relays = run.relays().map(|(_, relay)| relay.spend());
    relays.fold(Spend::default(), Spend::plus)
}

#[derive(Default)]
struct Teller {
    /// What sessions that are over have spent.
    over: Spend,
    /// What died with a worker, and is in no log.
    lost: Spend,
    told: Spend,
}

impl Teller {
    fn tell_spent(&mut self, spent: Spend) {
        let spent = spent.plus(self.lost);
        if std::mem::replace(&mut self.told, spent) != spent {
            tell(&Line::Spent(spent));
        }
    }
}

impl Observer for Teller {
    fn spend(&mut self, _stage: &StageId, spend: Spend) {
        self.tell_spent(self.over.plus(spend));
    }

    fn recorded(&mut self, record: &Record, run: &Run) {
        let totals = run.relays().map(|(_, relay)| relay.totals.spend);
        self.over = totals.fold(Spend::default(), Spend::plus);
        self.tell_spent(spent(run));
        if let Event::Stage {
            event:
                RelayEvent::Task {
                    outcome: TaskOutcome::Archived,
                    ..
                },
            ..
        } = &record.event
        {
            tell(&Line::Handoff);
        }
    }
}

/// The worker reads these lines. If it is gone, the keeper ends us.
fn tell(told: &Line) {
    if let Ok(mut line) = serde_json::to_vec(told) {
        line.push(b'\n');
        let _ = stdout().write_all(&line).and_then(|()| stdout().flush());
    }
}
