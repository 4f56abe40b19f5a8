//! A world for plans: worktrees that are counts of items, a repository that is a list of merges, and one
//! agent for each stage.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use ekiden_agent::attempt::{Activity, AgentCommand, HookAnswer, Report};
use ekiden_core::budget::Spend;
use ekiden_core::effect::WorktreeEffect;
use ekiden_core::ends::{EndCause, LimitKind};
use ekiden_core::event::{
    AttemptEnded, Check, CheckOutcome, Commit, Counters, Delivery, Event, Merge, PreparedWorktree,
    Survey, TaskOutcome, WorktreeEvent,
};
use ekiden_core::guard::HookInput;
use ekiden_core::ids::{AttemptId, EffectId, StageId};
use ekiden_core::time::{Millis, Timestamp};
use ekiden_engine::EngineError;
use ekiden_engine::effect_runner::{ArchiveJob, EffectRunner, Input, Launch, Since, VerifyJob};
use ekiden_engine::git::commit::CommitJob;
use ekiden_engine::notify::Notice;
use ekiden_engine::paths::RunPaths;
use ekiden_engine::worktrees::StageJob;
use ekiden_sim::SimDisk;
use ekiden_store::disk::{Disk, DiskResult};
use ekiden_store::layout::Published;
use ekiden_store::published::prepare_published;

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

/// The effect runner of one life of the engine.
pub(super) struct PlanRunner {
    pub(super) disk: Arc<SimDisk>,
    pub(super) world: Rc<RefCell<PlanWorld>>,
    pub(super) scenario: PlanScenario,
    pub(super) paths: RunPaths,
    pub(super) queue: Rc<RefCell<VecDeque<Next>>>,
    pub(super) agents: BTreeMap<StageId, Agent>,
}

/// What happens next in this life.
#[derive(Debug)]
pub(super) enum Next {
    Input(Box<Input>),
    /// The agent of this stage writes its handoff and wants to end its turn.
    HandOff(StageId),
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
            Self::HandOff(stage) => Some(stage),
            Self::Input(input) => match &**input {
                Input::Agent { stage, .. }
                | Input::Event(Event::Stage { stage, .. } | Event::Worktree { stage, .. }) => {
                    Some(stage)
                }
                _ => None,
            },
        }
    }
}

impl PlanRunner {
    fn push(&self, input: Input) {
        self.queue
            .borrow_mut()
            .push_back(Next::Input(Box::new(input)));
    }

    fn report(&self, stage: &StageId, report: Report) {
        if let Some(agent) = self.agents.get(stage) {
            self.push(Input::Agent {
                stage: stage.clone(),
                attempt: agent.attempt,
                report,
            });
        }
    }

    fn ended(&mut self, stage: &StageId, cause: EndCause) {
        let counters = Counters {
            spend: Spend {
                micro_usd: 900_000,
                tokens: 9,
                estimated: false,
            },
            ..Counters::default()
        };
        let ended = AttemptEnded {
            counters,
            ..AttemptEnded::bare(cause)
        };
        self.report(stage, Report::Ended(Box::new(ended)));
        self.agents.remove(stage);
    }

    /// The directory in which a stage works, as git makes it.
    pub(super) fn furnish(&self, stage: &StageId) -> DiskResult<()> {
        let dir = self.paths.dir(stage);
        if self.disk.stat(&dir)?.is_none() {
            self.disk.create_dir(&dir)?;
        }
        prepare_published(&*self.disk, &Published::new(&dir), &layout()).map(|_| ())
    }

    /// The first message has come: what the agent does with it.
    fn work(&mut self, stage: &StageId) {
        let Some(deed) = self.agents.get(stage).map(|agent| agent.deed) else {
            return;
        };
        let spend = Spend {
            micro_usd: 900_000,
            tokens: 9,
            estimated: true,
        };
        self.report(
            stage,
            Report::Spend {
                spend,
                turns: 1,
                subscription: false,
            },
        );
        match deed {
            Deed::Crash => self.ended(stage, EndCause::Crashed { exit: 1 }),
            Deed::Nothing => self.ended(stage, EndCause::Completed),
            Deed::Limit | Deed::FarLimit => {
                let resets_at = Some(Timestamp(self.world.borrow().now) + deed.resets_in());
                self.ended(
                    stage,
                    EndCause::RateLimited {
                        resets_at,
                        kind: LimitKind::FiveHour,
                    },
                );
            }
            Deed::Work | Deed::ClaimEarly | Deed::Hasty => self.make_an_item(stage),
        }
    }

    fn make_an_item(&self, stage: &StageId) {
        let is_last = {
            let mut world = self.world.borrow_mut();
            let tree = world
                .trees
                .get_mut(stage)
                .expect("an agent works in a worktree");
            let needs = self.scenario.needs(stage);
            assert!(
                needs.is_subset(&tree.holds),
                "{stage} begins without {needs:?}"
            );
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
        self.report(
            stage,
            Report::Usage {
                context_tokens: 100,
            },
        );
        let tool = Activity::Tool {
            call: String::new(),
            name: "Bash".to_owned(),
            target: "touch item".to_owned(),
        };
        self.report(stage, Report::Activity(tool));
        if is_last {
            self.queue
                .borrow_mut()
                .push_back(Next::HandOff(stage.clone()));
        } else {
            self.report(
                stage,
                Report::Usage {
                    context_tokens: 650,
                },
            );
        }
    }

    pub(super) fn hand_off(&mut self, stage: &StageId) {
        let Some(agent) = self.agents.get(stage).cloned() else {
            return;
        };
        let done = self.world.borrow().trees[stage].items >= self.scenario.items(stage);
        let dir: PathBuf = self.paths.published(stage).handoff();
        let files = handoff_texts(agent.start, done);
        // Who writes it anew has taken the old one away.
        self.world
            .borrow_mut()
            .written
            .retain(|start| *start != agent.start);
        if files
            .iter()
            .all(|(name, text)| write(&self.disk, &dir.join(name), text))
        {
            self.world.borrow_mut().written.push(agent.start);
        }
        let input = HookInput::Stop { background: false };
        self.report(
            stage,
            Report::Hook {
                callback: "stop".to_owned(),
                input,
            },
        );
    }

    fn prepared(&self, stage: &StageId) -> Result<PreparedWorktree, String> {
        let mut world = self.world.borrow_mut();
        let holds = world.whole();
        world.trees.entry(stage.clone()).or_insert_with(|| Tree {
            holds,
            ..Tree::default()
        });
        self.furnish(stage)
            .map(|()| PreparedWorktree::default())
            .map_err(|error| error.to_string())
    }

    /// As `worktrees::merge` does it: what was made is found where the engine says that it may have been made,
    /// what conflicts goes into the stage's own tree.
    fn merged(&self, job: &StageJob) -> Merge {
        let stage = &job.stage.id;
        let mut world = self.world.borrow_mut();
        let whole = world.whole();
        let is_made = world.merges.iter().any(|(mark, _)| *mark == job.mark);
        if !(job.is_repeated && is_made) {
            let tree = world
                .trees
                .get_mut(stage)
                .expect("what is merged has a worktree");
            let others = whole.difference(&tree.holds);
            if others
                .into_iter()
                .any(|other| self.scenario.clash(stage, other))
            {
                tree.holds.extend(whole);
                tree.clashes = true;
            }
            if tree.clashes {
                return Merge::Conflict {
                    files: vec!["item".to_owned()],
                };
            }
            assert!(
                tree.items >= self.scenario.items(stage),
                "{stage} is merged and not done"
            );
            world.merges.push((job.mark.clone(), stage.clone()));
        }
        let commit = world.merges.len().to_string();
        Merge::Done {
            commit,
            files: vec!["item".to_owned()],
            undeclared: Vec::new(),
        }
    }
}

impl EffectRunner for PlanRunner {
    fn start(&mut self, launch: Launch) -> Result<(), EngineError> {
        let (start, nth) = {
            let mut world = self.world.borrow_mut();
            let start = u32::try_from(world.started.len()).unwrap() + 1;
            let nth = world
                .started
                .iter()
                .filter(|(stage, ..)| *stage == launch.stage)
                .count()
                + 1;
            world
                .started
                .push((launch.stage.clone(), launch.attempt, start));
            (start, nth)
        };
        let deed = self.scenario.deed(&launch.stage, nth);
        let before = self.agents.insert(
            launch.stage.clone(),
            Agent {
                attempt: launch.attempt,
                start,
                deed,
            },
        );
        assert!(before.is_none(), "{} has two agents", launch.stage);
        assert!(
            self.agents.len() <= self.scenario.jobs as usize,
            "more agents than slots"
        );
        self.report(&launch.stage, Report::Started { pid: 1000 + start });
        Ok(())
    }

    fn tell(&mut self, stage: &StageId, order: AgentCommand) {
        match order {
            AgentCommand::Begin => self.work(stage),
            AgentCommand::Say(_) => {
                self.report(stage, Report::Delivered);
                self.queue
                    .borrow_mut()
                    .push_back(Next::HandOff(stage.clone()));
            }
            AgentCommand::Answer {
                answer: HookAnswer::Pass,
                ..
            } => {
                self.report(stage, Report::TurnEnded { failed: false });
            }
            AgentCommand::Answer { .. } => self
                .queue
                .borrow_mut()
                .push_back(Next::HandOff(stage.clone())),
            AgentCommand::Close => self.ended(stage, EndCause::Completed),
            AgentCommand::Terminate => self.ended(stage, EndCause::Stopped),
            AgentCommand::Interrupt => {}
        }
    }

    fn survey(&mut self, stage: &StageId, effect: EffectId, _since: Since) {
        let tree = format!("{:?}", self.world.borrow().trees.get(stage));
        let survey = Ok(Survey {
            head: Some("abc".to_owned()),
            tree,
            ..Survey::default()
        });
        self.push(Input::task(stage, effect, TaskOutcome::Surveyed { survey }));
    }

    /// As in a relay: a commit is looked for only where the engine says that it may have been made.
    fn commit(&mut self, stage: &StageId, effect: EffectId, job: CommitJob) {
        let mut world = self.world.borrow_mut();
        if !(job.is_repeated && world.commits.contains(&job.effect)) {
            world.commits.push(job.effect.clone());
        }
        drop(world);
        let commit = Commit::Made {
            id: job.effect,
            files: 1,
            elsewhere: None,
            left_out: Vec::new(),
        };
        self.push(Input::task(
            stage,
            effect,
            TaskOutcome::Committed { commit },
        ));
    }

    fn verify(&mut self, stage: &StageId, effect: EffectId, job: VerifyJob) {
        let passed = self
            .world
            .borrow()
            .trees
            .get(stage)
            .is_some_and(|tree| tree.items >= self.scenario.items(stage) && !tree.clashes);
        let outcome = if passed {
            CheckOutcome::Passed
        } else {
            CheckOutcome::Failed { code: 1 }
        };
        let check = Check {
            outcome,
            tree: job.tree,
            duration: Millis(1),
            tail: "the tail".to_owned(),
        };
        self.push(Input::task(stage, effect, TaskOutcome::Verified { check }));
    }

    fn cancel(&mut self) {}

    fn archive(&mut self, stage: &StageId, effect: EffectId, job: ArchiveJob) {
        self.push(match job.run(&*self.disk) {
            Ok(()) => Input::task(stage, effect, TaskOutcome::Archived),
            Err(error) => Input::Warning(error.to_string()),
        });
    }

    fn worktree(&mut self, effect: EffectId, what: WorktreeEffect, job: StageJob) {
        let event = match what {
            WorktreeEffect::Prepare => {
                let worktree = self.prepared(&job.stage.id);
                WorktreeEvent::Prepared { worktree }
            }
            WorktreeEffect::Merge => {
                let merge = self.merged(&job);
                WorktreeEvent::Merged { merge }
            }
            WorktreeEffect::Confirm => panic!("nobody says that {} was done before", job.stage.id),
        };
        let stage = job.stage.id;
        self.push(Input::Event(Event::Worktree {
            stage,
            effect,
            event,
        }));
    }

    fn deliver(&mut self, effect: EffectId, tip: Option<String>, _is_repeated: bool) {
        let mut world = self.world.borrow_mut();
        let commit = world.merges.len().to_string();
        assert_eq!(
            tip.as_ref(),
            Some(&commit),
            "the engine knows what is to be handed off"
        );
        world.given = world.whole();
        drop(world);
        let delivery = Delivery::Given {
            branch: None,
            commit,
        };
        self.push(Input::Event(Event::Delivered { effect, delivery }));
    }

    fn notify(&mut self, _effect: EffectId, _notice: Notice) {}
}
