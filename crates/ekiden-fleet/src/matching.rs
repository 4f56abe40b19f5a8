//! Which workers can do a stage: those that have everything it runs on.
//!
//! A worker has labels and the programs of its agents. Temporal gives a stage to any worker that polls the
//! stage's task queue. So there is a queue for each set of labels and programs, and a worker polls the
//! queues of all sets that it has. Merges have separate queues.

use std::collections::BTreeSet;
use std::iter::once;
use std::path::Path;
use std::time::Duration;

use ekiden_core::agent::AgentSpec;
use ekiden_core::manifest::{Manifest, Stage, Take};
use ekiden_core::settings::RunStarted;
use temporalio_client::{Client, NamespacedClient as _};
use temporalio_common::protos::temporal::api::enums::v1::TaskQueueType;
use temporalio_common::protos::temporal::api::taskqueue::v1::TaskQueue;
use temporalio_common::protos::temporal::api::workflowservice::v1::DescribeTaskQueueRequest;
use tokio::time::Instant;
use tonic::Request;

use crate::Failure;

/// How many labels and programs a worker may have. It polls two to the power of that many queues of stages,
/// and as many of merges.
pub(crate) const HAS_MAX: usize = 6;
/// How long after its start the server may take to know a worker, and how often the server is asked.
const BEGINNING_MAX: Duration = Duration::from_secs(3);
const BEGINNING_PAUSE: Duration = Duration::from_millis(200);
/// Separates a worker's name from its labels and programs, in its identity on the server.
const HAS: &str = " has ";

/// Adds what the agents of each stage run on.
pub(crate) fn with_agents(header: &mut RunStarted) {
    let RunStarted {
        manifest, settings, ..
    } = header;
    for stage in &mut manifest.stages {
        let own = stage.part.agent.as_deref().unwrap_or(&settings.agent);
        let others = settings.reviewer.as_deref().into_iter();
        let agents = once(own).chain(others).chain(&settings.fallback.agents);
        let programs: Vec<String> = agents.filter_map(program).collect();
        stage.part.runs_on.extend(programs);
    }
}

/// The program of an agent, unless it is built in.
fn program(agent: &AgentSpec) -> Option<String> {
    let name = Path::new(agent.command.first()?).file_name()?;
    Some(name.to_string_lossy().into_owned())
}

/// The queue of stages that need all of these.
pub(crate) fn queue(plans: &str, runs_on: &BTreeSet<String>) -> String {
    let all = once(plans).chain(runs_on.iter().map(String::as_str));
    all.collect::<Vec<_>>().join("+")
}

/// The queues that a worker polls. The first is for stages that run anywhere, and for the plans themselves.
pub(crate) fn queues(plans: &str, has: &BTreeSet<String>) -> Vec<String> {
    let mut sets = vec![BTreeSet::new()];
    for one in has {
        let with = |set: &BTreeSet<String>| set.iter().chain(once(one)).cloned().collect();
        let more: Vec<_> = sets.iter().map(with).collect();
        sets.extend(more);
    }
    sets.iter().map(|set| queue(plans, set)).collect()
}

/// The queues of merges, which do not wait for slots of stages, are named like the stage queues of other
/// plans.
pub(crate) fn merges(plans: &str) -> String {
    format!("{plans}/merges")
}

/// A worker's identity on the server, which says what it has.
pub(crate) fn identity(name: &str, has: &BTreeSet<String>) -> String {
    let has: Vec<&str> = has.iter().map(String::as_str).collect();
    format!("{name}{HAS}{}", has.join(","))
}

fn has(identity: &str) -> BTreeSet<String> {
    let told = identity.rsplit_once(HAS).map_or("", |(_, told)| told);
    let all = told.split(',').filter(|one| !one.is_empty());
    all.map(str::to_owned).collect()
}

pub(crate) fn list(set: &BTreeSet<String>) -> String {
    let all: Vec<&str> = set.iter().map(String::as_str).collect();
    all.join(", ")
}

/// Refuses a plan with a stage that no worker can do. Workers that are just starting get a moment. If there
/// are no workers at all, the plan is accepted and waits for one.
pub(crate) async fn check(
    client: &Client,
    plans: &str,
    manifest: &Manifest,
) -> Result<(), Failure> {
    let until = Instant::now() + BEGINNING_MAX;
    loop {
        let workers = workers(client, plans).await?;
        let Some(why) = nobody(manifest.stages.iter(), &workers) else {
            return Ok(());
        };
        if Instant::now() <= until {
            tokio::time::sleep(BEGINNING_PAUSE).await;
        } else if workers.is_empty() {
            crate::say(&format!(
                "no worker takes stages from `{plans}` yet; the plan waits for one"
            ));
            return Ok(());
        } else {
            return Err(Failure::no_worker(why));
        }
    }
}

/// Why stages whose turn it is wait, if no worker can do one of them.
pub(crate) async fn missing(
    client: &Client,
    plans: &str,
    stages: impl Iterator<Item = &Stage>,
) -> Result<Option<String>, Failure> {
    let workers = workers(client, plans).await?;
    let why = nobody(stages, &workers);
    Ok(why.map(|why| match workers.is_empty() {
        true => format!("no worker takes stages from `{plans}`"),
        false => why,
    }))
}

/// Whether a worker can do a stage that is none of these, and of none of these accounts. One that died
/// counts for some minutes.
pub(crate) async fn able(
    client: &Client,
    plans: &str,
    stage: &Stage,
    unable: &BTreeSet<String>,
) -> Result<bool, Failure> {
    let identities = identities(client, plans).await?;
    Ok(identities.iter().any(|one| can(one, stage, unable)))
}

fn can(identity: &str, stage: &Stage, unable: &BTreeSet<String>) -> bool {
    let has = has(identity);
    let is_left = !unable.contains(identity) && has.is_disjoint(unable);
    is_left && stage.part.runs_on.is_subset(&has)
}

/// The stage that none of these workers can do, and what they lack.
fn nobody<'a>(
    mut stages: impl Iterator<Item = &'a Stage>,
    workers: &BTreeSet<BTreeSet<String>>,
) -> Option<String> {
    let stage = stages.find(|stage| {
        let runs_on = &stage.part.runs_on;
        let can = workers.iter().any(|has| runs_on.is_subset(has));
        stage.part.take == Take::Run && !can
    })?;
    let (id, runs_on) = (&stage.id, list(&stage.part.runs_on));
    let others = workers.iter().filter(|has| !has.is_empty()).map(list);
    let others: Vec<String> = others.collect();
    let others = match others.is_empty() {
        true => "no worker has any of that".to_owned(),
        false => format!("the workers have: {}", others.join("; ")),
    };
    Some(format!(
        "no worker can do the stage {id}: it runs on {runs_on}, and {others}"
    ))
}

/// What each worker of these plans has.
async fn workers(client: &Client, plans: &str) -> Result<BTreeSet<BTreeSet<String>>, Failure> {
    let identities = identities(client, plans).await?;
    Ok(identities.iter().map(|identity| has(identity)).collect())
}

/// The workers of these plans. A busy worker counts, since it still runs the plans' own steps.
async fn identities(client: &Client, plans: &str) -> Result<Vec<String>, Failure> {
    let request = DescribeTaskQueueRequest {
        namespace: client.namespace(),
        task_queue: Some(TaskQueue {
            name: plans.to_owned(),
            ..TaskQueue::default()
        }),
        task_queue_type: TaskQueueType::Workflow.into(),
        ..DescribeTaskQueueRequest::default()
    };
    let asked = client.connection().workflow_service();
    let told = { asked }.describe_task_queue(Request::new(request)).await;
    let told = told.map_err(Failure::unreachable)?.into_inner();
    let pollers = told.pollers.into_iter();
    Ok(pollers.map(|poller| poller.identity).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::plan_of;

    fn set(all: &[&str]) -> BTreeSet<String> {
        all.iter().map(|one| (*one).to_owned()).collect()
    }

    // shows: FLT-04
    #[test]
    fn a_worker_takes_from_the_queue_of_each_set_that_it_has() {
        let queues = queues("ekiden", &set(&["linux", "gpu", "claude"]));
        assert_eq!(queues.len(), 8);
        assert_eq!(queues[0], "ekiden");
        for wanted in [
            &["gpu", "linux"][..],
            &["claude"],
            &["gpu", "claude", "linux"],
        ] {
            assert!(
                queues.contains(&queue("ekiden", &set(wanted))),
                "{wanted:?}"
            );
        }
        assert!(!queues.contains(&queue("ekiden", &set(&["codex"]))));
        assert_eq!(super::queues("ekiden", &set(&[])), ["ekiden"]);
    }

    // shows: FLT-04
    #[test]
    fn a_stage_that_no_single_worker_has_all_for_is_named() {
        let mut manifest = plan_of(3, 1, |_| None);
        manifest.stages[1].part.runs_on = set(&["gpu", "claude"]);
        let workers = |all: &[&[&str]]| all.iter().map(|has| set(has)).collect();
        let told = |all: &[&[&str]]| nobody(manifest.stages.iter(), &workers(all));
        assert_eq!(told(&[&[], &["claude", "gpu", "linux"]]), None);
        let why = told(&[&[], &["claude"], &["gpu", "linux"]]);
        let wanted = "no worker can do the stage S1: it runs on claude, gpu, and the workers have: claude; gpu, linux";
        assert_eq!(why.as_deref(), Some(wanted));
        let why = told(&[&[]]).unwrap();
        assert!(why.ends_with("and no worker has any of that"), "{why}");
        manifest.stages[1].part.take = Take::Assume;
        assert_eq!(nobody(manifest.stages.iter(), &workers(&[&[]])), None);
    }

    // shows: FLT-03, FLT-04
    #[test]
    fn a_stage_is_left_to_workers_with_other_accounts_than_those_that_cannot_do_it() {
        let mut manifest = plan_of(1, 1, |_| None);
        let stage = &mut manifest.stages[0];
        stage.part.runs_on = set(&["claude"]);
        let one = identity("1@one", &set(&["claude", "max"]));
        let two = identity("2@two", &set(&["claude", "max"]));
        let three = identity("3@three", &set(&["claude"]));
        let other = identity("4@four", &set(&["codex"]));
        let able = |unable: &[&str]| {
            let all = [&one, &two, &three, &other].into_iter();
            let able = all.filter(|one| can(one, stage, &set(unable)));
            able.cloned().collect::<Vec<_>>()
        };
        assert_eq!(able(&[&one]), [two.clone(), three.clone()]);
        assert_eq!(able(&[&one, "max"]), std::slice::from_ref(&three));
        assert!(able(&[&one, "max", &three]).is_empty());
    }

    #[test]
    fn what_a_worker_has_is_read_from_its_identity() {
        for all in [set(&[]), set(&["gpu"]), set(&["claude", "gpu"])] {
            assert_eq!(has(&identity("one has two", &all)), all);
        }
        // Of another program.
        assert_eq!(has("4242@host"), set(&[]));
    }
}
