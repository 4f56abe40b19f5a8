//! What past work in a project took, read from its logs. Nothing else about it is kept.

use std::collections::BTreeMap;

use ekiden_core::agent::AgentKind;
use ekiden_core::estimate::{Kind, Learned, Past, Range, SAMPLES_MAX, Sample, Took};
use ekiden_core::guard::Level;
use ekiden_core::guard::estimate::Estimate;
use ekiden_core::handoff::open_items;
use ekiden_core::ids::RunId;
use ekiden_core::limits::{ITEMS_A_SESSION, SESSIONS_MAX_MAX};
use ekiden_core::manifest::graph::Graph;
use ekiden_core::manifest::{Stage as Planned, Take};
use ekiden_core::plan::StageState;
use ekiden_core::relay::{ItemState, Relay};
use ekiden_core::run::Run;
use ekiden_core::settings::RunStarted;
use ekiden_core::time::{Millis, Timestamp};
use ekiden_engine::history;
use ekiden_engine::workspace::Workspace;
use ekiden_report::Timeline;
use ekiden_report::timeline::{Session, Stage, State};

use crate::output::line::one_line;
use crate::output::phrase;
use crate::specs::file_bytes;

/// How many of the newest runs are read.
const RUNS_MAX: usize = 30;
/// What their logs have in all; those that do not fit are left out: an estimate is not worth the wait.
const LOGS_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Everything that is over in the newest runs, oldest first. Unreadable logs are left out: `ekiden status`
/// names them. So are runs of the rehearsal agent, which works without a model, unless they are what is asked about.
pub fn of_project(workspace: &Workspace, agent: AgentKind) -> Vec<Past> {
    let is_rehearsed = agent == AgentKind::Rehearsal;
    let runs = history::list(workspace)
        .unwrap_or_default()
        .into_iter()
        .rev();
    let mut room = LOGS_BYTES_MAX;
    let is_read = |run: &RunId| {
        let left = history::log_bytes(workspace, run).ok();
        let left = left.and_then(|bytes| room.checked_sub(bytes));
        room = left.unwrap_or(room);
        left.is_some()
    };
    let runs = runs.map(|listed| listed.run).filter(is_read).take(RUNS_MAX);
    let mut all: Vec<Vec<Past>> = runs
        .filter_map(|run| of_run(workspace, &run, is_rehearsed))
        .collect();
    all.reverse();
    all.concat()
}

/// What is over of a run.
fn of_run(workspace: &Workspace, run: &RunId, is_rehearsed: bool) -> Option<Vec<Past>> {
    let mut timeline: Option<Timeline> = None;
    let summary = history::read(workspace, run, |record, run| {
        timeline
            .get_or_insert_with(|| Timeline::new(run))
            .take(record, run);
    });
    let (run, mut timeline) = (summary.ok()?.run, timeline?);
    if (run.header().settings.agent.kind == AgentKind::Rehearsal) != is_rehearsed {
        return None;
    }
    timeline.settle(&run);
    Some(
        timeline
            .stages
            .iter()
            .flat_map(|stage| of_stage(stage, &run))
            .collect(),
    )
}

fn of_stage(stage: &Stage, run: &Run) -> Vec<Past> {
    let Some((relay, planned)) = run.relay(&stage.id).zip(run.stage(&stage.id)) else {
        return Vec::new();
    };
    if relay.items.is_some() {
        return relay.past_items().collect();
    }
    let estimated = planned.part.estimate_tokens;
    let (mut all, mut sum) = (Vec::new(), Took::default());
    for session in stage
        .sessions
        .iter()
        .filter(|session| session.end().is_some())
    {
        let took = took(session);
        let window = session.window();
        let window = window.unwrap_or_else(|| relay.settings.window());
        let until_handoff = window.tokens_of(relay.settings.levels, Level::L2);
        let rest = estimated.saturating_sub(sum.context_tokens);
        all.push(Past {
            kind: Kind::Session,
            estimated: rest.min(until_handoff),
            took,
        });
        sum = sum.plus(took);
    }
    // What was expected was expected of the first task.
    if stage.state == State::Done && stage.tasks.len() == 1 {
        let kind = kind(run.header());
        all.push(Past {
            kind,
            estimated,
            took: sum,
        });
    }
    // Earlier logs say nothing about what was expected.
    all.retain(|past| past.estimated > 0);
    all
}

fn kind(header: &RunStarted) -> Kind {
    match header.manifest.plan {
        Some(_) => Kind::Stage,
        None => Kind::Run,
    }
}

fn took(session: &Session) -> Took {
    let kinds = session.kinds();
    Took {
        context_tokens: session.usage().map_or(0, |(tokens, _)| tokens),
        sessions: 1,
        duration: session.duration(),
        spend: session.spend(),
        read_tokens: kinds.read_afresh(),
        written_tokens: kinds.output,
    }
}

/// Notes in a run's first record what is expected of each stage, if the manifest does not say it: the files
/// that a task names change, so it cannot be found out later. Also notes what the past makes of it, for the
/// plan's scheduler and for the items of lists.
pub fn expect(header: &mut RunStarted, workspace: &Workspace, past: &[Past]) {
    let window = header.settings.window().usable_tokens();
    let learned = Learned::of(past, kind(header));
    let items = past.iter().filter(|past| past.kind == Kind::Item);
    let mut items: Vec<Sample> = items.filter_map(Past::context).collect();
    items.drain(..items.len().saturating_sub(SAMPLES_MAX));
    for stage in &mut header.manifest.stages {
        if stage.part.estimate_tokens == 0 {
            let files: Vec<u64> = file_bytes(&workspace.dir, &stage.task)
                .into_values()
                .collect();
            stage.part.estimate_tokens = Estimate::of(&stage.task, &files, window, None).tokens;
        }
        if stage.part.items {
            stage.part.items_before.clone_from(&items);
        } else if learned.samples > 0 {
            let expected = learned.context.range(stage.part.estimate_tokens);
            stage.part.expected_tokens = expected.p50;
        }
    }
}

/// How much longer a run works, in milliseconds; `None` if nothing like it is over, or it has taken longer
/// than all of them.
pub fn left(run: &Run, past: &[Past], now: Timestamp) -> Option<Range> {
    let manifest = &run.header().manifest;
    let jobs = manifest
        .plan
        .as_ref()
        .map_or(1, |rules| u64::from(rules.jobs.max(1)));
    let none = Range { p50: 0, p90: 0 };
    let (mut through, mut sum, mut longest) = (BTreeMap::new(), none, none);
    let latest = |one: Range, other: Range| Range {
        p50: one.p50.max(other.p50),
        p90: one.p90.max(other.p90),
    };
    for place in Graph::of(&manifest.stages).waves()?.concat() {
        let stage = &manifest.stages[place];
        let waits = run.stage_waits_until(&stage.id, now);
        let waits = waits.map_or(0, |until| until.since(now).0);
        let own = left_of_stage(stage, run, past, now)?.map(|millis| millis.saturating_add(waits));
        let needs = stage
            .part
            .needs
            .iter()
            .filter_map(|need| through.get(&need.stage));
        let end = own.plus(needs.copied().fold(none, latest));
        (sum, longest) = (sum.plus(own), latest(longest, end));
        through.insert(&stage.id, end);
    }
    let left = latest(longest, sum.map(|millis| millis / jobs));
    (left.p90 > 0).then_some(left)
}

fn left_of_stage(stage: &Planned, run: &Run, past: &[Past], now: Timestamp) -> Option<Range> {
    let is_over = matches!(run.plan().state(&stage.id), Some(StageState::Over(_)));
    if is_over || stage.part.take != Take::Run {
        return Some(Range { p50: 0, p90: 0 });
    }
    let relay = run.relay(&stage.id);
    let session = relay
        .and_then(Relay::runs_since)
        .map_or(Millis(0), |since| now.since(since));
    let less = |range: Range, millis: u64| range.map(|all| all.saturating_sub(millis));
    if let Some(relay) = relay.filter(|relay| relay.items.is_some()) {
        let learned = Learned::of(past, Kind::Item);
        let of_item = |(estimated, took): (u64, Took)| {
            Some(less(
                learned.outlook(estimated, 1).duration_ms?,
                took.duration.0,
            ))
        };
        let open: Option<Vec<Range>> = relay.items_with(ItemState::Open).map(of_item).collect();
        let sum = open?.into_iter().reduce(Range::plus)?;
        return Some(less(sum, session.0));
    }
    let running = relay.map_or(Millis(0), |relay| relay.totals.running);
    let all = Learned::of(past, kind(run.header()))
        .outlook(stage.part.estimate_tokens, 1)
        .duration_ms?;
    Some(less(all, running.0.saturating_add(session.0)))
}

/// Limits that the work may exceed. It starts all the same.
pub fn warnings(header: &RunStarted, past: &[Past]) -> Vec<String> {
    let settings = &header.settings;
    let learned = Learned::of(past, kind(header));
    let until_handoff = settings.window().tokens_of(settings.levels, Level::L2);
    let stages = header
        .manifest
        .stages
        .iter()
        .filter(|stage| !stage.part.items && stage.part.take == Take::Run);
    let outlook = |stage: &Planned| learned.outlook(stage.part.estimate_tokens, until_handoff);
    // What an agent that takes no messages is told to do in a session.
    let a_session = match settings.agent.kind.takes_messages() {
        true => usize::MAX,
        false => ITEMS_A_SESSION as usize,
    };
    let many = stages.clone().filter_map(|stage| {
        let least = open_items(&stage.task).open.len().div_ceil(a_session) as u64;
        let p90 = outlook(stage).sessions.p90.max(least);
        let p90 = p90.min(SESSIONS_MAX_MAX.into());
        let most = u64::from(stage.sessions_max);
        let name = one_line(&stage.task_name);
        (p90 > most).then(|| {
            format!(
                "{name} may take up to {p90} sessions, and may have {most}; `-m {p90}` allows more"
            )
        })
    });
    let mut all: Vec<String> = many.collect();
    let cost = stages
        .filter_map(|stage| outlook(stage).micro_usd)
        .reduce(Range::plus);
    let budget = settings.bounds.run.micro_usd;
    all.extend(cost.zip(budget).filter(|(cost, budget)| cost.p50 > *budget).map(|(cost, budget)| {
        let (costs, budget) = (phrase::costs(cost), phrase::money(budget));
        format!("such work costs {costs} here, and the budget is {budget}; `ekiden estimate` says why")
    }));
    all
}
