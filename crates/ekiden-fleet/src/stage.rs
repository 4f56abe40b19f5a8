//! The hidden role that runs one stage: its own engine in its own process.
//!
//! It reads its job from the first line of standard input, and people's messages from the other lines. It
//! writes a line whenever a session starts, does something, or has its handoff accepted, and the outcome as
//! its last line. SIGTERM stops it like any run.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{Write as _, stdin, stdout};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use ekiden_core::bounds::BoundsChange;
use ekiden_core::budget::{Budget, Spend};
use ekiden_core::event::{Answer, Event, RelayEvent, RunResumed, TaskOutcome};
use ekiden_core::guard::Window;
use ekiden_core::ids::{AttemptId, RunId, StageId};
use ekiden_core::limits::STEER_PATIENCE;
use ekiden_core::outcome::Outcome;
use ekiden_core::record::Record;
use ekiden_core::relay::Relay;
use ekiden_core::run::Run;
use ekiden_core::settings::{LimitsChanged, RunStarted, Settings};
use ekiden_core::steering::{Steered, Steering};
use ekiden_core::text::in_full;
use ekiden_engine::log_check::ChangedLog;
use ekiden_engine::observer::{Activity, Observer};
use ekiden_engine::remote_run::AtWork;
use ekiden_engine::runner::{self, Driving};
use ekiden_engine::steering::{self, Sender};
use ekiden_engine::workspace::Workspace;
use ekiden_engine::{EngineError, history};
use serde::{Deserialize, Serialize};

use crate::at_work;
use crate::messages::{Messages, Vouching};
use crate::shares::Spent;

/// The first argument that asks for this role.
pub(crate) const ROLE: &str = "__stage";
/// Where the work dir's state is kept, inside the attempt's directory.
pub(crate) const STATE: &str = "state";
/// How often a message is retried, since the engine may not have started yet.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StageJob {
    pub(crate) header: RunStarted,
    pub(crate) work_dir: PathBuf,
    pub(crate) state_dir: PathBuf,
    /// Where the limits that it hits are noted, and those that others hit.
    pub(crate) limits_dir: PathBuf,
    /// There is a log to continue.
    pub(crate) goes_on: bool,
    /// The answer to the question that ended it.
    pub(crate) answer: Option<String>,
    pub(crate) budget: Option<Budget>,
    /// For agents that share a budget with other stages.
    pub(crate) agents: BTreeMap<String, Budget>,
    /// Its spending when it last reported; more than its log shows, if a worker died.
    pub(crate) charged: Spent,
    /// The messages for stages; `None` if the workflow did not answer.
    pub(crate) messages: Option<Messages>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line {
    Begun,
    Handoff,
    /// Everything it has spent.
    Spent(Spent),
    /// What its session is doing, if one is at work.
    Now(Option<AtWork>),
    Ended(Outcome),
    Failed(String),
}

pub(crate) fn run() -> i32 {
    let mut line = String::new();
    let read = stdin().read_line(&mut line);
    let ended = read
        .map_err(|error| error.to_string())
        .and_then(|_| serde_json::from_str(&line).map_err(|error| error.to_string()))
        .and_then(|job: StageJob| carry_out(job).map_err(|error| in_full(&*error)));
    let (told, code) = match ended {
        Ok(outcome) => (Line::Ended(outcome), 0),
        Err(why) => (Line::Failed(why), 1),
    };
    print(&told);
    code
}

fn carry_out(job: StageJob) -> Result<Outcome, Box<dyn Error>> {
    // The log's chain is compared with a value that stays on the machine that made it, so it is not checked
    // here. The remote's own access rules decide who can write a log.
    let workspace = Workspace {
        state_dir: job.state_dir.clone(),
        is_trusted: true,
        limits_dir: Some(job.limits_dir.clone()),
        ..Workspace::find(&job.work_dir, None)?
    };
    listen(&workspace, &job.header.run);
    match job.goes_on {
        true => go_on(&workspace, job),
        false => Ok(begin(&workspace, job)?),
    }
}

fn refused(why: String) -> Outcome {
    let on_worker = true;
    Outcome::NoWorktree { why, on_worker }
}

/// Passes on people's messages while the engine works.
fn listen(workspace: &Workspace, run: &RunId) {
    let sender = Sender::to(workspace, run);
    thread::spawn(move || {
        for line in stdin().lines().map_while(Result::ok) {
            let Ok(message) = serde_json::from_str(&line) else {
                continue;
            };
            while sender.send(&message, STEER_PATIENCE).is_err() {
                thread::sleep(PAUSE);
            }
        }
    });
}

fn begin(workspace: &Workspace, job: StageJob) -> Result<Outcome, EngineError> {
    let mut teller = Teller {
        lost: job.charged,
        ..Teller::in_dir(workspace)
    };
    let mut header = job.header;
    let bounds = &mut header.settings.bounds;
    bounds.run = Budget::default();
    bounds.change(&left(job.budget, job.agents, &teller.lost));
    let driving = driving(&job.messages.unwrap_or_default(), |_| true);
    let set_aside = true;
    runner::start(workspace, header, set_aside, driving, &mut teller)
}

fn go_on(workspace: &Workspace, job: StageJob) -> Result<Outcome, Box<dyn Error>> {
    let mut teller = Teller::in_dir(workspace);
    let run = job.header.run.clone();
    let has_answer = job.messages.is_some();
    let messages = job.messages.unwrap_or_default();
    let (mut foreign, mut vouching) = (None, Vouching::new(&messages));
    let found = history::read(workspace, &run, |record, _| {
        let is_foreign = record.seq > 1 && !is_of_worker(&record.event, &mut vouching);
        foreign = foreign.or(is_foreign.then_some(record.seq));
    })?;
    if !is_of_plan(found.run.header(), &job.header) {
        let why = "the stage's log at the remote is not of this plan".to_owned();
        return Ok(refused(why));
    }
    if let Some(seq) = foreign {
        if !has_answer {
            return Err("the plan's workflow did not say what people told its stages".into());
        }
        let why = format!(
            "record {seq} of the stage's log at the remote changes what was approved; no worker writes such a record"
        );
        return Ok(refused(why));
    }
    teller.lost = job.charged.since(&spent(&found.run));
    teller.tell_spent(spent(&found.run));
    if let Some(outcome) = found.run.outcome().filter(|outcome| outcome.is_final()) {
        return Ok(outcome.clone());
    }
    // An attempt that died may have taken it already.
    let asks = |stage: &StageId| found.run.questions().any(|(asking, _)| asking == stage);
    let stage = job.header.manifest.stages.first();
    let stage = stage.map(|stage| stage.id.clone());
    let answer = stage.filter(asks).zip(job.answer);
    let mut resumed = RunResumed {
        ekiden: env!("CARGO_PKG_VERSION").to_owned(),
        answer: answer.map(|(stage, words)| Answer { stage, words }),
        elsewhere: true,
        ..RunResumed::default()
    };
    resumed.limits.bounds = left(job.budget, job.agents, &teller.lost);
    let (id, accept) = (Some(run.as_str()), ChangedLog::Accept);
    let driving = driving(&messages, |message| !found.run.has_heard(&message.message));
    let ended = runner::resume(workspace, id, resumed, accept, driving, &mut teller);
    Ok(ended?)
}

/// An order to hand off is for a session that is at work.
fn driving(messages: &Messages, is_new: impl Fn(&Steered) -> bool) -> Driving {
    let mut driving = Driving::alone();
    let is_wanted = |message: &&Steered| message.steering != Steering::HandOff && is_new(message);
    driving.messages = messages.all().filter(is_wanted).cloned().collect();
    driving
}

/// The log comes from the remote. Even so, what it has run must be the plan's.
fn is_of_plan(theirs: &RunStarted, ours: &RunStarted) -> bool {
    (&theirs.run, &theirs.manifest) == (&ours.run, &ours.manifest)
        && approved(&theirs.settings) == approved(&ours.settings)
}

/// Settings without what each worker detects for itself, and without budgets, which come with each attempt.
fn approved(settings: &Settings) -> Settings {
    let mut approved = settings.clone();
    approved.commit = None;
    approved.bounds.utc_offset_secs = 0;
    approved.bounds.run = Budget::default();
    approved.bounds.agents.clear();
    approved
}

/// A worker may have recorded it. Any other event that could change the task, the agent or its permissions
/// was written by somebody who may write to the remote, and who does not decide that.
fn is_of_worker(event: &Event, vouching: &mut Vouching<'_>) -> bool {
    match event {
        Event::Steered(steered) => vouching.knows(steered),
        Event::RunResumed(resumed) => {
            let mut limits = resumed.limits.clone();
            limits.bounds.run = Budget::default();
            limits.bounds.agents.clear();
            resumed.task.is_none() && limits == LimitsChanged::default()
        }
        Event::LogicChanged { .. }
        | Event::LogAccepted { .. }
        | Event::UtcOffsetChanged { .. }
        | Event::Woke
        | Event::Worktree { .. }
        | Event::StopRequested(_)
        | Event::Stage { .. } => true,
        Event::RunStarted(_)
        | Event::Continued(_)
        | Event::Delivered { .. }
        | Event::Elsewhere { .. } => false,
    }
}

/// How much its log may add up to, less the spending that died with a worker.
fn left(
    budget: Option<Budget>,
    mut agents: BTreeMap<String, Budget>,
    lost: &Spent,
) -> BoundsChange {
    for (agent, budget) in &mut agents {
        *budget = budget.after(lost.of(agent));
    }
    BoundsChange {
        run: budget.map_or_else(Budget::default, |budget| budget.after(lost.all)),
        agents,
        ..BoundsChange::default()
    }
}

fn spent(run: &Run) -> Spent {
    let agents = run.agent_budgets().into_iter();
    Spent {
        all: run.totals().spend,
        agents: agents.map(|agent| (agent.agent, agent.spent)).collect(),
    }
}

#[derive(Default)]
struct Teller {
    /// The spending of sessions that are over.
    over: Spent,
    /// The session at work.
    agent: String,
    /// Spending that died with a worker, and is in no log.
    lost: Spent,
    told: Spent,
    /// What the session is doing.
    now: Option<AtWork>,
    /// Its work dir, with a slash at the end.
    dir: String,
}

impl Teller {
    fn in_dir(workspace: &Workspace) -> Self {
        Self {
            dir: format!("{}/", workspace.dir.display()),
            ..Self::default()
        }
    }

    /// Reports what the session is doing, if that has changed.
    fn tell_now(&mut self, change: impl FnOnce(&mut AtWork, &str) -> bool) {
        if let Some(now) = &mut self.now
            && change(now, &self.dir)
        {
            print(&Line::Now(self.now.clone()));
        }
    }

    /// Reports which session is at work, if it is another one.
    fn tell_attempt(&mut self, attempt: Option<AttemptId>) {
        if attempt == self.now.as_ref().map(|now| now.attempt) {
            return;
        }
        self.now = attempt.map(|attempt| AtWork::new(attempt, steering::host()));
        print(&Line::Now(self.now.clone()));
        attempt.is_some().then(|| print(&Line::Begun));
    }

    fn tell_spent(&mut self, spent: Spent) {
        let spent = spent.plus(&self.lost);
        if self.told != spent {
            self.told.clone_from(&spent);
            print(&Line::Spent(spent));
        }
    }
}

impl Observer for Teller {
    fn activity(&mut self, _stage: &StageId, activity: &Activity) {
        self.tell_now(|now, dir| at_work::note(now, activity, dir));
    }

    fn usage(&mut self, _stage: &StageId, usage_tokens: u64, _window: Window) {
        self.tell_now(|now, _| {
            std::mem::replace(&mut now.usage_tokens, usage_tokens) != usage_tokens
        });
    }

    fn spend(&mut self, _stage: &StageId, spend: Spend, _subscription: bool) {
        self.tell_now(|now, _| std::mem::replace(&mut now.spend, spend) != spend);
        let in_hand = Spent::by(&self.agent, spend);
        self.tell_spent(self.over.clone().plus(&in_hand));
    }

    fn recorded(&mut self, record: &Record, run: &Run) {
        let all = spent(run);
        self.over = all.clone();
        let relay = run.live().next().map(|(_, relay)| relay);
        self.tell_attempt(relay.and_then(Relay::attempt).map(|(attempt, _)| attempt));
        if let Some(relay) = relay {
            relay.agent().name.clone_into(&mut self.agent);
            let in_hand = relay.spend().since(relay.totals.spend);
            self.over = all.clone().since(&Spent::by(&self.agent, in_hand));
        }
        self.tell_spent(all);
        if let Event::Stage {
            event:
                RelayEvent::Task {
                    outcome: TaskOutcome::Archived,
                    ..
                },
            ..
        } = &record.event
        {
            print(&Line::Handoff);
        }
    }
}

/// The worker reads these lines. If it is gone, the keeper ends us.
fn print(line: &Line) {
    if let Ok(mut line) = serde_json::to_vec(line) {
        line.push(b'\n');
        let _ = stdout().write_all(&line).and_then(|()| stdout().flush());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ekiden_core::event::Continued;
    use ekiden_core::ids::MessageId;
    use ekiden_core::renewal::NewTask;

    // shows: FLT-05
    #[test]
    fn a_record_that_changes_what_was_approved_is_no_workers() {
        let nobody = Messages::default();
        let is_of_workers = |event: &Event| is_of_worker(event, &mut Vouching::new(&nobody));
        let changed = |change: &dyn Fn(&mut LimitsChanged)| {
            let mut limits = LimitsChanged::default();
            change(&mut limits);
            limits
        };
        let resumed = |limits| {
            Event::RunResumed(RunResumed {
                limits,
                ..RunResumed::default()
            })
        };
        let task = NewTask {
            text: "Do something else.".to_owned(),
            name: "other".to_owned(),
        };
        let wider = [
            changed(&|limits| limits.permissions.skip = Some(true)),
            changed(&|limits| limits.permissions.mode = Some("bypassPermissions".to_owned())),
            changed(&|limits| limits.permissions.allowed_tools = vec!["Bash".to_owned()]),
            changed(&|limits| limits.no_review = true),
            changed(&|limits| limits.sessions_max = Some(1000)),
            changed(&|limits| limits.bounds.turns_max = Some(0)),
        ];
        for limits in wider {
            let steering = Steering::ChangeLimits(Box::new(limits.clone()));
            let steered = Event::Steered(Steered {
                message: MessageId::try_from("7c5b5a2e-1".to_owned()).unwrap(),
                from: None,
                steering,
            });
            assert!(!is_of_workers(&resumed(limits)) && !is_of_workers(&steered));
        }
        let other_task = Event::RunResumed(RunResumed {
            task: Some(task.clone()),
            ..RunResumed::default()
        });
        let continued = Event::Continued(Continued {
            ekiden: String::new(),
            task,
            commit: None,
            limits: LimitsChanged::default(),
        });
        // This would put a relay of another agent in the stage's place.
        let stage = StageId::try_from("A".to_owned()).unwrap();
        let elsewhere = Event::Woke.elsewhere(&stage, 1);
        for event in [other_task, continued, elsewhere] {
            assert!(!is_of_workers(&event), "{event:?}");
        }
        let budget = changed(&|limits| limits.bounds.run.tokens = Some(5));
        for limits in [LimitsChanged::default(), budget] {
            assert!(is_of_workers(&resumed(limits)));
        }
    }
}
