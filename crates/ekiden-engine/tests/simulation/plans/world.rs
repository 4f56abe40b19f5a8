//! A world for plans: worktrees that are counts of items, a repository that is a list of merges, and one
//! agent for each stage.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use ekiden_agent::attempt::{Activity, Ended, HookAnswer, Order, Report};
use ekiden_core::budget::Spend;
use ekiden_core::ends::{EndCause, LimitKind};
use ekiden_core::event::{
    Check, CheckOutcome, Commit, Counters, Delivery, GroundEvent, Grounded, Merge, Survey, Traces,
};
use ekiden_core::guard::HookInput;
use ekiden_core::ids::{AttemptId, EffectId, StageId};
use ekiden_core::manifest::Verification;
use ekiden_core::time::{Millis, Timestamp};
use ekiden_engine::EngineError;
use ekiden_engine::archive_job::ArchiveJob;
use ekiden_engine::commit::CommitJob;
use ekiden_engine::grounds::GroundJob;
use ekiden_engine::hands::{Hands, Input, Launch, Since};
use ekiden_engine::places::Places;
use ekiden_store::disk::{Disk, DiskResult};
use ekiden_store::layout::Published;
use ekiden_store::published::prepare_published;
use ekiden_store::sim::SimDisk;

use super::PlanScenario;
use crate::world::{Deed, handoff_texts, layout, write};

/// What survives every crash.
#[derive(Debug, Clone, Default)]
pub(super) struct PlanWorld {
    /// The worktrees, as git keeps them.
    pub(super) trees: BTreeMap<StageId, Tree>,
    /// Every merge that was made: by its mark, of which stage.
    pub(super) merges: Vec<(String, StageId)>,
    /// Every process that was started.
    pub(super) started: Vec<(StageId, AttemptId, u32)>,
    /// Handoffs that stand there written to their end, by the number of the start.
    pub(super) written: Vec<u32>,
    pub(super) commits: Vec<String>,
    /// What the user's branch holds.
    pub(super) given: BTreeSet<StageId>,
    pub(super) now: u64,
    pub(super) lives: u32,
}

/// A stage's worktree.
#[derive(Debug, Clone, Default)]
pub(super) struct Tree {
    /// The stages whose work it holds.
    pub(super) holds: BTreeSet<StageId>,
    pub(super) items: u32,
    /// Files are in conflict there.
    clashes: bool,
}

/// The hands of one life of the engine.
pub(super) struct PlanHands {
    pub(super) disk: Arc<SimDisk>,
    pub(super) world: Rc<RefCell<PlanWorld>>,
    pub(super) scenario: PlanScenario,
    pub(super) places: Places,
    pub(super) queue: Rc<RefCell<VecDeque<Next>>>,
    pub(super) agents: BTreeMap<StageId, Agent>,
}

/// What happens next in this life.
#[derive(Debug)]
pub(super) enum Next {
    Input(Box<Input>),
    /// The agent of this stage writes its handoff and wants to end its turn.
    HandOver(StageId),
}

#[derive(Debug, Clone)]
pub(super) struct Agent {
    attempt: AttemptId,
    start: u32,
    deed: Deed,
}

impl PlanWorld {
    /// The stages that are part of the whole.
    fn whole(&self) -> BTreeSet<StageId> {
        self.merges.iter().map(|(_, stage)| stage.clone()).collect()
    }
}

impl Next {
    /// Whose turn it is; outcomes come in an order of their own for each stage.
    pub(super) fn stage(&self) -> Option<&StageId> {
        match self {
            Self::HandOver(stage) => Some(stage),
            Self::Input(input) => match &**input {
                Input::Agent { stage, .. }
                | Input::Surveyed { stage, .. }
                | Input::Committed { stage, .. }
                | Input::Verified { stage, .. }
                | Input::Archived { stage, .. }
                | Input::Published { stage, .. }
                | Input::Ground { stage, .. } => Some(stage),
                _ => None,
            },
        }
    }
}

impl PlanHands {
    fn push(&self, input: Input) {
        self.queue.borrow_mut().push_back(Next::Input(Box::new(input)));
    }

    fn report(&self, stage: &StageId, report: Report) {
        if let Some(agent) = self.agents.get(stage) {
            self.push(Input::Agent { stage: stage.clone(), attempt: agent.attempt, report });
        }
    }

    fn ended(&mut self, stage: &StageId, cause: EndCause) {
        let counters = Counters { cost_micro_usd: 900_000, tokens: 9, ..Counters::default() };
        let ended = Ended { cause, counters, traces: Traces::default(), resumable: false };
        self.report(stage, Report::Ended(Box::new(ended)));
        self.agents.remove(stage);
    }

    /// The directory in which a stage works, as git makes it.
    pub(super) fn furnish(&self, stage: &StageId) -> DiskResult<()> {
        let dir = self.places.dir(stage);
        if self.disk.stat(&dir)?.is_none() {
            self.disk.create_dir(&dir)?;
        }
        prepare_published(&*self.disk, &Published::new(&dir), &layout()).map(|_| ())
    }

    /// The first message has come: what the agent does with it.
    fn work(&mut self, stage: &StageId) {
        let Some(deed) = self.agents.get(stage).map(|agent| agent.deed) else { return };
        let spend = Spend { micro_usd: 900_000, tokens: 9, estimated: true };
        self.report(stage, Report::Spend { spend, turns: 1 });
        match deed {
            Deed::Crash => self.ended(stage, EndCause::Crashed { exit: 1 }),
            Deed::Nothing => self.ended(stage, EndCause::Completed),
            Deed::Limit => {
                let resets_at = Some(Timestamp(self.world.borrow().now) + Millis::from_secs(60));
                self.ended(stage, EndCause::RateLimited { resets_at, kind: LimitKind::FiveHour });
            }
            Deed::Work | Deed::ClaimEarly | Deed::Hasty => self.make_an_item(stage),
        }
    }

    fn make_an_item(&self, stage: &StageId) {
        let is_last = {
            let mut world = self.world.borrow_mut();
            let tree = world.trees.get_mut(stage).expect("an agent works in a worktree");
            let needs = self.scenario.needs(stage);
            assert!(needs.is_subset(&tree.holds), "{stage} begins without {needs:?}");
            if !std::mem::take(&mut tree.clashes) {
                tree.items += 1;
            }
            tree.items >= self.scenario.items(stage)
        };
        let window = Report::Window {
            model_tokens: 1000,
            compaction_tokens: None,
            model: None,
            filled_by: Vec::new(),
        };
        self.report(stage, window);
        self.report(stage, Report::Usage { context_tokens: 100 });
        let tool = Activity::Tool { name: "Bash".to_owned(), target: "touch item".to_owned() };
        self.report(stage, Report::Activity(tool));
        if is_last {
            self.queue.borrow_mut().push_back(Next::HandOver(stage.clone()));
        } else {
            self.report(stage, Report::Usage { context_tokens: 650 });
        }
    }

    pub(super) fn hand_over(&mut self, stage: &StageId) {
        let Some(agent) = self.agents.get(stage).cloned() else { return };
        let done = self.world.borrow().trees[stage].items >= self.scenario.items(stage);
        let dir: PathBuf = self.places.published(stage).handoff();
        let files = handoff_texts(agent.start, done);
        // Who writes it anew has taken the old one away.
        self.world.borrow_mut().written.retain(|start| *start != agent.start);
        if files.iter().all(|(name, text)| write(&self.disk, &dir.join(name), text)) {
            self.world.borrow_mut().written.push(agent.start);
        }
        let input = HookInput::Stop { background: false };
        self.report(stage, Report::Hook { callback: "stop".to_owned(), input });
    }

    /// As `grounds::merge` does it: what was made is found, what clashes goes into the stage's own tree.
    fn merged(&self, job: &GroundJob) -> Merge {
        let stage = &job.stage.id;
        let mut world = self.world.borrow_mut();
        let whole = world.whole();
        if !world.merges.iter().any(|(mark, _)| *mark == job.mark) {
            let tree = world.trees.get_mut(stage).expect("what is merged has a worktree");
            let others = whole.difference(&tree.holds);
            if others.into_iter().any(|other| self.scenario.clash(stage, other)) {
                tree.holds.extend(whole);
                tree.clashes = true;
            }
            if tree.clashes {
                return Merge::Conflict { files: vec!["item".to_owned()] };
            }
            assert!(tree.items >= self.scenario.items(stage), "{stage} is merged and not done");
            world.merges.push((job.mark.clone(), stage.clone()));
        }
        let commit = world.merges.len().to_string();
        Merge::Done { commit, files: vec!["item".to_owned()], undeclared: Vec::new() }
    }
}

impl Hands for PlanHands {
    fn start(&mut self, launch: Launch) -> Result<(), EngineError> {
        let (start, nth) = {
            let mut world = self.world.borrow_mut();
            let start = u32::try_from(world.started.len()).unwrap() + 1;
            let nth = world.started.iter().filter(|(stage, ..)| *stage == launch.stage).count() + 1;
            world.started.push((launch.stage.clone(), launch.attempt, start));
            (start, nth)
        };
        let deed = self.scenario.deed(&launch.stage, nth);
        let before = self.agents.insert(launch.stage.clone(), Agent { attempt: launch.attempt, start, deed });
        assert!(before.is_none(), "{} has two agents", launch.stage);
        assert!(self.agents.len() <= self.scenario.jobs as usize, "more agents than slots");
        self.report(&launch.stage, Report::Started { pid: 1000 + start });
        Ok(())
    }

    fn tell(&mut self, stage: &StageId, order: Order) {
        match order {
            Order::Begin => self.work(stage),
            Order::Say(_) => {
                self.report(stage, Report::Delivered);
                self.queue.borrow_mut().push_back(Next::HandOver(stage.clone()));
            }
            Order::Answer { answer: HookAnswer::Pass, .. } => {
                self.report(stage, Report::TurnEnded { failed: false });
            }
            Order::Answer { .. } => self.queue.borrow_mut().push_back(Next::HandOver(stage.clone())),
            Order::Close => self.ended(stage, EndCause::Completed),
            Order::Terminate => self.ended(stage, EndCause::Stopped),
            Order::Interrupt => {}
        }
    }

    fn survey(&mut self, stage: &StageId, effect: EffectId, _since: Since) {
        let tree = format!("{:?}", self.world.borrow().trees.get(stage));
        let survey = Ok(Survey { head: Some("abc".to_owned()), tree, ..Survey::default() });
        self.push(Input::Surveyed { stage: stage.clone(), effect, survey });
    }

    fn commit(&mut self, stage: &StageId, effect: EffectId, job: CommitJob) {
        let mut world = self.world.borrow_mut();
        if !world.commits.contains(&job.effect) {
            world.commits.push(job.effect.clone());
        }
        drop(world);
        let commit = Commit::Made { id: job.effect, files: 1, left_out: Vec::new() };
        self.push(Input::Committed { stage: stage.clone(), effect, commit });
    }

    fn verify(&mut self, stage: &StageId, effect: EffectId, _verification: &Verification) {
        let passed = self
            .world
            .borrow()
            .trees
            .get(stage)
            .is_some_and(|tree| tree.items >= self.scenario.items(stage) && !tree.clashes);
        let outcome = if passed { CheckOutcome::Passed } else { CheckOutcome::Failed { code: 1 } };
        let check = Check { outcome, tree: None, duration: Millis(1), tail: "the tail".to_owned() };
        self.push(Input::Verified { stage: stage.clone(), effect, check, output: "the tail".to_owned() });
    }

    fn cancel(&mut self, _stage: &StageId) {}

    fn archive(&mut self, stage: &StageId, effect: EffectId, job: ArchiveJob) {
        let failure = job.run(&*self.disk).err().map(|error| error.to_string());
        self.push(Input::Archived { stage: stage.clone(), effect, failure });
    }

    fn prepare(&mut self, effect: EffectId, job: GroundJob) {
        let stage = job.stage.id;
        {
            let mut world = self.world.borrow_mut();
            let holds = world.whole();
            world.trees.entry(stage.clone()).or_insert_with(|| Tree { holds, ..Tree::default() });
        }
        let ground = self.furnish(&stage).map(|()| Grounded::default()).map_err(|error| error.to_string());
        self.push(Input::Ground { stage, event: GroundEvent::Prepared { effect, ground } });
    }

    fn merge(&mut self, effect: EffectId, job: GroundJob) {
        let merge = self.merged(&job);
        self.push(Input::Ground { stage: job.stage.id, event: GroundEvent::Merged { effect, merge } });
    }

    fn confirm(&mut self, _effect: EffectId, job: GroundJob) {
        panic!("nobody says that {} was done before", job.stage.id)
    }

    fn deliver(&mut self, effect: EffectId, whole: Option<String>, _is_repeated: bool) {
        let mut world = self.world.borrow_mut();
        let commit = world.merges.len().to_string();
        assert_eq!(whole.as_ref(), Some(&commit), "the engine knows what is to be handed over");
        world.given = world.whole();
        drop(world);
        self.push(Input::Delivered { effect, delivery: Delivery::Given { branch: None, commit } });
    }

    fn notify(&mut self, _text: String) {}
}
