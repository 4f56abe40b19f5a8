//! What large plans cost, and how good their order is: `cargo bench -p ekiden-core`.
//!
//! Prints one line of JSON, which `cargo xtask bench` reads. Stages work in simulated time, so this measures
//! only the plan's decisions. Each order is compared with a bound that no order can beat: the longest chain,
//! or all work divided among the slots.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    clippy::expect_used,
    reason = "a measure reads the clock and prints; nothing of this is shipped"
)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use ekiden_core::effect::WorktreeEffect;
use ekiden_core::ids::StageId;
use ekiden_core::manifest::{Isolation, Manifest, Need, Part, PlanRules, Stage};
use ekiden_core::outcome::Outcome;
use ekiden_core::plan::{Plan, PlanDecision};
use ekiden_core::time::Timestamp;
use ekiden_manifest::{Defaults, Syntax, TextAlone, read};

/// Stages of the manifest that is read.
const STAGES: usize = 10_000;
/// Sizes of plans whose cost for each stage is compared.
const SIZES: [usize; 3] = [100, 1_000, 10_000];
/// Random plans whose order is compared with the bound.
const GRAPHS: usize = 1_000;
const GRAPH_STAGES_MAX: usize = 200;
const JOBS: [u32; 4] = [1, 2, 4, 8];
const REPEATS: usize = 7;

fn main() {
    let text = manifest_text(STAGES);
    let (mut load, mut parse) = (Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        let (document, took) = timed(|| {
            let read = read(&text, Syntax::Toml, &Defaults::default(), &mut TextAlone);
            read.expect("the sample has no fault")
        });
        assert_eq!(document.stages.len(), STAGES);
        load.push(millis(took));
        let (table, took) = timed(|| toml::de::DeTable::parse(&text).expect("the sample is TOML"));
        assert!(table.get_ref().contains_key("stage"));
        parse.push(millis(took));
    }
    let cost: Vec<f64> = SIZES.iter().map(|size| cost_ns(*size)).collect();
    let gaps: Vec<f64> = (0..GRAPHS).map(|seed| gap(seed as u64)).collect();
    let worst = gaps.iter().copied().fold(0.0, f64::max);
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let beyond = (0..GRAPHS).filter(|seed| is_beyond(*seed as u64)).count();
    println!(
        "{}",
        serde_json::json!({"load_ms": load, "parse_ms": parse, "cost_ns": cost, "worst": worst, "mean": mean, "beyond": beyond})
    );
}

/// A small generator, so that every run sees the same plans.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % end.max(1)
    }
}

/// Each stage needs up to three of the fifty before it.
fn needs(numbers: &mut Numbers, at: usize) -> Vec<usize> {
    let near = at.min(50);
    let mut needs: Vec<usize> = (0..numbers.below(4))
        .filter(|_| near > 0)
        .map(|_| at - 1 - numbers.below(near))
        .collect();
    needs.sort_unstable();
    needs.dedup();
    needs
}

fn manifest_text(stages: usize) -> String {
    let mut numbers = Numbers(7);
    let mut text = "format = 1\nproject = \"large\"\n\n".to_owned();
    for at in 0..stages {
        let needs: Vec<String> = needs(&mut numbers, at)
            .iter()
            .map(|need| format!("\"S{need}\""))
            .collect();
        // Writing into a string cannot fail.
        let _ = write!(
            text,
            "[[stage]]\nid = \"S{at}\"\nname = \"Stage {at}\"\nneeds = [{}]\ncontext = [\"src/{at}.rs\"]\noutputs = \
             [\"out/{at}.txt\"]\nestimate_tokens = {}\nvalidation = {{ kind = \"command\", command = \"test -s \
             out/{at}.txt\" }}\nprompt = \"\"\"\nMake out/{at}.txt from src/{at}.rs, as the document says.\n\"\"\"\n\n",
            needs.join(", "),
            1_000 + numbers.below(50_000),
        );
    }
    text
}

fn plan(seed: u64, stages: usize, jobs: u32) -> (Manifest, Vec<Vec<usize>>) {
    let mut numbers = Numbers(seed);
    let needs: Vec<Vec<usize>> = (0..stages).map(|at| needs(&mut numbers, at)).collect();
    let stages = needs.iter().enumerate().map(|(at, needs)| Stage {
        id: id(at),
        task: String::new(),
        task_name: String::new(),
        verification: None,
        claim_needed: true,
        sessions_max: 1,
        part: Part {
            needs: needs
                .iter()
                .map(|need| Need {
                    stage: id(*need),
                    optional: false,
                })
                .collect(),
            estimate_tokens: 1 + numbers.below(100) as u64,
            ..Part::default()
        },
    });
    let isolation = Isolation::Worktrees {
        dir: String::new(),
        base: String::new(),
        branch: None,
        copy: Vec::new(),
        setup: None,
    };
    let rules = PlanRules {
        project: String::new(),
        file: String::new(),
        hash: String::new(),
        jobs,
        isolation,
        architecture: String::new(),
        document: String::new(),
    };
    (
        Manifest {
            stages: stages.collect(),
            plan: Some(Box::new(rules)),
        },
        needs,
    )
}

fn id(at: usize) -> StageId {
    StageId::try_from(format!("S{at}")).expect("letters and digits")
}

fn lengths(manifest: &Manifest) -> Vec<u64> {
    manifest
        .stages
        .iter()
        .map(|stage| stage.part.estimate_tokens)
        .collect()
}

/// What deciding costs for each stage that ends, in nanoseconds: in as many plans of this size as make
/// [`STAGES`] stages. All are made before, so that plans of every size come from the same amount of memory.
fn cost_ns(size: usize) -> f64 {
    let manifests: Vec<Manifest> = (0..STAGES / size)
        .map(|seed| plan(seed as u64, size, 8).0)
        .collect();
    let lengths: Vec<_> = manifests.iter().map(lengths).collect();
    let mut costs: Vec<f64> = (0..REPEATS)
        .map(|_| {
            let mut plans: Vec<Plan> = manifests.iter().map(Plan::new).collect();
            let (_, took) = timed(|| {
                plans.iter_mut().zip(&lengths).for_each(|(plan, lengths)| {
                    drive(plan, lengths);
                });
            });
            took.as_secs_f64() * 1e9 / STAGES as f64
        })
        .collect();
    costs.sort_by(f64::total_cmp);
    costs[REPEATS / 2]
}

/// Carries a plan out in simulated time; merges take none. How long it takes.
fn drive(plan: &mut Plan, lengths: &[u64]) -> u64 {
    let mut at_work: BinaryHeap<Reverse<(u64, StageId)>> = BinaryHeap::new();
    let mut now = 0;
    loop {
        loop {
            let decisions = plan.next(Timestamp(0));
            if decisions.is_empty() {
                break;
            }
            for decision in decisions {
                match decision {
                    PlanDecision::Worktree(stage, WorktreeEffect::Prepare) => {
                        plan.prepared(&stage, Ok(()));
                        let at = plan.place(&stage).expect("it is of this plan");
                        at_work.push(Reverse((now + lengths[at], stage)));
                    }
                    PlanDecision::Worktree(stage, WorktreeEffect::Merge) => plan.merged(&stage),
                    PlanDecision::Deliver => plan.delivered(None),
                    PlanDecision::End(_) => return now,
                    PlanDecision::Start(_)
                    | PlanDecision::Retry { .. }
                    | PlanDecision::Worktree(_, WorktreeEffect::Confirm) => {
                        unreachable!("nothing fails here")
                    }
                }
            }
        }
        let Reverse((end, stage)) = at_work.pop().expect("a plan that has not ended works");
        now = end;
        plan.stage_ended(&stage, &Outcome::Complete { verified: true });
    }
}

/// How long a random plan takes, what no order can beat, and its slots.
fn order(seed: u64) -> (u64, u64, u32) {
    let mut numbers = Numbers(seed ^ 0x9e37_79b9);
    let (size, jobs) = (
        1 + numbers.below(GRAPH_STAGES_MAX),
        JOBS[numbers.below(JOBS.len())],
    );
    let (manifest, needs) = plan(seed, size, jobs);
    let length = |at: usize| manifest.stages[at].part.estimate_tokens;
    let mut ends = vec![0; size];
    for at in 0..size {
        ends[at] = needs[at].iter().map(|need| ends[*need]).max().unwrap_or(0) + length(at);
    }
    let longest = ends.into_iter().max().unwrap_or(0);
    let work: u64 = (0..size).map(length).sum();
    (
        drive(&mut Plan::new(&manifest), &lengths(&manifest)),
        longest.max(work.div_ceil(u64::from(jobs))),
        jobs,
    )
}

fn gap(seed: u64) -> f64 {
    let (took, bound, _) = order(seed);
    took as f64 / bound as f64
}

/// It took longer than (2 - 1/m) times the bound.
fn is_beyond(seed: u64) -> bool {
    let (took, bound, jobs) = order(seed);
    took * u64::from(jobs) > (2 * u64::from(jobs) - 1) * bound
}

fn timed<T>(act: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = act();
    (result, start.elapsed())
}

fn millis(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}
