//! Follows a fleet's plan: the log in this work dir records what happened on the workers as if it had
//! happened here.
//!
//! ```text
//! Temporal's history ──► what the plan decided ──┐
//! refs/ekiden/<run>/stages ──► each stage's log ─┴─ by time ──► RemoteRun ──► .../runs/<run>/log.jsonl
//! ekiden stop, pause, answer ──► RemoteRun ──► the workflow's signal ──► its history
//! ```
//!
//! A stage's log is pushed when its session starts and with each handoff. What the session does in between
//! is in the workers' heartbeats: see [`crate::at_work`]. A follower can leave at any time, and several
//! machines can follow one plan. A person's messages go through the history, so that all followers see
//! them.

mod known;

use std::collections::{BTreeMap, VecDeque};
use std::mem::discriminant;
use std::path::Path;
use std::time::Duration;

use ekiden_core::effect::{Effect, WorktreeEffect};
use ekiden_core::event::{Elsewhere, Event, Merge, RelayEvent, WorktreeEvent};
use ekiden_core::ids::{RunId, StageId};
use ekiden_core::manifest::Stage;
use ekiden_core::outcome::Outcome;
use ekiden_core::plan::StageState;
use ekiden_core::relay::Relay;
use ekiden_core::run::Run;
use ekiden_core::settings::FleetPlace;
use ekiden_core::steering::{Steered, Steering};
use ekiden_core::text::in_full;
use ekiden_core::time::Timestamp;
use ekiden_engine::clock::{Clock as _, SystemClock};
use ekiden_engine::remote_run::{Message, RemoteRun};
use ekiden_engine::worktrees::merged;
use temporalio_client::errors::WorkflowInteractionError;
use temporalio_client::{
    Client, WorkflowDescribeOptions, WorkflowExecutionStatus, WorkflowFetchHistoryOptions,
    WorkflowHandle, WorkflowSignalOptions,
};
use temporalio_common::protos::temporal::api::history::v1::HistoryEvent;
use uuid::Uuid;

use crate::Failure;
use crate::at_work;
use crate::deliver::deliver;
use crate::earlier;
use crate::fault::{Fault, LEAVES};
use crate::git::Git;
use crate::history;
use crate::matching;
use crate::order::{PlanSignal, Submission, refs};
use crate::stage::STATE;
use crate::worker::Leave;
use crate::workflow::FleetPlan;

pub(crate) use known::Known;

/// How often the server is polled.
const LOOK: Duration = Duration::from_secs(1);
/// The exit code after a signal is this plus the signal's number.
const SIGNALLED: u8 = 128;
/// If the server has no news, the remote is asked once in this many polls.
const LOOKS_PER_FETCH: u32 = 10;

pub(crate) struct Following {
    pub(crate) handle: WorkflowHandle<Client, FleetPlan>,
    pub(crate) run: RemoteRun,
    pub(crate) known: Known,
    pub(crate) git: Git,
    pub(crate) remote: String,
    pub(crate) submission: Submission,
    /// Ctrl-C stops the plan; otherwise it only ends the following.
    pub(crate) stops: bool,
    pub(crate) seen: Seen,
}

/// A message for the server.
struct ToTell {
    steered: Steered,
    /// The sender that waits until the message is recorded.
    asker: Option<Message>,
    /// The server has it.
    is_told: bool,
}

/// The state of server and remote at the last poll.
#[derive(Default)]
pub(crate) struct Seen {
    looks: u32,
    /// Which history was the last one, and its length.
    history: (String, usize),
    beginning: Beginning,
    /// Where the stages' logs were, by ref.
    logs: BTreeMap<String, String>,
    /// Why stages and merges failed on their workers, as it was said last.
    failures: BTreeMap<String, String>,
    /// Why a stage waits for a worker.
    missing: Option<String>,
}

impl Seen {
    /// Says once why something is tried again. That a worker had no slot, or leaves, is no failure.
    fn tell_failures<'a>(&mut self, failures: impl Iterator<Item = (&'a str, &'a str)>) {
        let no_slot = Fault::NoSlot.to_string();
        for (work, why) in failures {
            if why.ends_with(&no_slot) || why.ends_with(LEAVES) {
                continue;
            }
            if self.failures.get(work).is_some_and(|said| said == why) {
                continue;
            }
            // `stage A`, `merge A`
            let (place, _round) = work.rsplit_once('/').unwrap_or((work, ""));
            let place = place.replacen('/', " ", 1);
            crate::say(&format!("{place} failed and is tried again: {why}"));
            self.failures.insert(work.to_owned(), why.to_owned());
        }
    }
}

/// What the earlier histories said.
#[derive(Clone, Default)]
struct Beginning {
    reader: history::Reader,
    events: usize,
}

/// The events of one source, in order.
type Pending = VecDeque<(Timestamp, Event)>;

impl Following {
    /// Follows until the plan has ended or the follower leaves. Returns the exit code: how the plan ended
    /// is in its log.
    pub(crate) async fn follow(mut self) -> Result<u8, Failure> {
        // Why the last look failed.
        let mut away = String::new();
        let (mut messages, mut leave) = (Vec::new(), Leave::listen()?);
        let mut is_stopping = false;
        loop {
            let looked = match self.look(&mut messages).await {
                Ok(()) => self.deliver().await,
                failed => {
                    // So that the next look asks the remote, too.
                    self.seen.history.1 = 0;
                    failed
                }
            };
            let why = match looked {
                Ok(()) => String::new(),
                Err(fault) => in_full(&fault.for_good()?),
            };
            if why != away && !why.is_empty() {
                crate::say(&format!("{why}; waiting for it"));
            }
            away = why;
            // They have come back through the history, and are in our log.
            let run = self.run.run();
            let heard = |message: &mut ToTell| run.has_heard(&message.steered.message);
            let heard = messages.extract_if(.., heard);
            heard
                .filter_map(|message| message.asker)
                .for_each(Message::is_recorded);
            // An outcome from before a resume no longer counts.
            if away.is_empty() && self.run.run().outcome().is_some() {
                return Ok(0);
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                asker = self.run.steered() => messages.push(ToTell {
                    steered: asker.steered.clone(),
                    asker: Some(asker),
                    is_told: false,
                }),
                signal = leave.asked() => {
                    if !self.stops {
                        return Ok(0);
                    }
                    if is_stopping {
                        return Ok(SIGNALLED + signal);
                    }
                    is_stopping = true;
                    crate::say("stopping: waiting until every agent has stopped; ctrl-c again does not wait");
                    messages.push(ToTell { steered: Steered::new(Uuid::new_v4(), Steering::Stop { now: false }), asker: None, is_told: false });
                }
            }
        }
    }

    pub(crate) async fn tell(&self, told: PlanSignal) -> Result<(), WorkflowInteractionError> {
        let options = WorkflowSignalOptions::default();
        let told = told.bounded();
        self.handle.signal(FleetPlan::tell, told, options).await
    }

    /// Sends messages that the server does not have yet, and takes in news.
    async fn look(&mut self, messages: &mut [ToTell]) -> Result<(), Fault> {
        for message in messages.iter_mut().filter(|message| !message.is_told) {
            let steered = message.steered.clone();
            match self.tell(PlanSignal::Steered { steered }).await {
                // The plan has ended: what is read next says how.
                Ok(()) | Err(WorkflowInteractionError::NotFound(_)) => message.is_told = true,
                Err(error) => return Err(error.into()),
            }
        }
        let told = self
            .handle
            .describe(WorkflowDescribeOptions::default())
            .await?;
        self.run.show(at_work::sessions(told.raw()));
        self.seen.tell_failures(at_work::failures(told.raw()));
        let reached = (told.run_id().to_owned(), told.history_length());
        self.seen.looks += 1;
        if self.seen.looks.is_multiple_of(LOOKS_PER_FETCH) {
            self.tell_missing().await;
        } else if reached == self.seen.history {
            return Ok(());
        }
        let (mut of_plan, beginning) = self.of_plan(&reached.0).await?;
        // After the history: everything that it mentions has been pushed.
        let (mut of_stages, logs) = self.of_stages().await?;
        while let Some(next) = earliest(&mut of_plan, &mut of_stages, |stage, outcome| {
            is_known(self.run.run(), stage, outcome)
        }) {
            self.take(next).await?;
        }
        self.run.publish(SystemClock.now())?;
        // Only now: what was not taken in is read again.
        (self.seen.history, self.seen.beginning) = (reached, beginning);
        self.seen.logs.extend(logs);
        let is_lost = matches!(
            told.status(),
            WorkflowExecutionStatus::Failed
                | WorkflowExecutionStatus::Terminated
                | WorkflowExecutionStatus::TimedOut
        );
        if is_lost && self.run.run().outcome().is_none() {
            let why =
                "the plan's workflow has ended without an outcome; Temporal's own page says why";
            return Err(Fault::Lost(why));
        }
        Ok(())
    }

    /// Says once that no worker can do a stage whose turn it is.
    async fn tell_missing(&mut self) {
        let header = &self.submission.header;
        let plan = self.run.run().plan();
        let is_turn = |stage: &&Stage| {
            matches!(
                plan.state(&stage.id),
                Some(StageState::Preparing | StageState::Working | StageState::Merging)
            )
        };
        let stages = header.manifest.stages.iter().filter(is_turn);
        let queue = header.fleet.as_ref().map_or("", |place| &place.queue);
        let Ok(missing) = matching::missing(self.handle.client(), queue, stages).await else {
            return;
        };
        if let Some(why) = missing.as_ref().filter(|_| missing != self.seen.missing) {
            crate::say(&format!("{why}; the plan waits for one"));
        }
        self.seen.missing = missing;
    }

    /// What the plan decided since, and how its last history begins. A long plan has several histories;
    /// each names the one before.
    async fn of_plan(&self, last: &str) -> Result<(Pending, Beginning), Fault> {
        let mut histories = vec![self.history(last).await?];
        let mut is_seen = last == self.seen.history.0;
        while let Some(before) = histories.last().and_then(|last| history::before(last))
            && !is_seen
        {
            is_seen = before == self.seen.history.0;
            histories.push(match self.history(&before).await {
                Err(Fault::Server(WorkflowInteractionError::NotFound(_))) => {
                    let why = "the Temporal server has forgotten how the plan began; follow a plan before the retention of its namespace is over";
                    return Err(Fault::Lost(why));
                }
                history => history?,
            });
        }
        // From the last one seen, otherwise from the very first.
        let mut beginning = self.seen.beginning.clone();
        let skip = self.known.of_plan - beginning.events;
        let mut pending = Pending::new();
        while let Some(history) = histories.pop() {
            let mut reader = beginning.reader.clone();
            let before = pending.len();
            pending.extend(history.iter().flat_map(|event| reader.read(event)));
            if !histories.is_empty() {
                let events = beginning.events + pending.len() - before;
                beginning = Beginning { reader, events };
            }
        }
        pending.drain(..skip.min(pending.len()));
        Ok((pending, beginning))
    }

    async fn history(&self, id: &str) -> Result<Vec<HistoryEvent>, Fault> {
        let mut execution = self.handle.info().clone();
        execution.run_id = Some(id.to_owned());
        let client = self.handle.client().clone();
        let handle: WorkflowHandle<Client, FleetPlan> = WorkflowHandle::new(client, execution);
        let all = handle.fetch_history(WorkflowFetchHistoryOptions::default());
        Ok(all.into_events().await?)
    }

    /// What the stages did since, and where their logs are now. Also fetches the files that they left.
    async fn of_stages(
        &self,
    ) -> Result<(BTreeMap<StageId, Pending>, BTreeMap<String, String>), Fault> {
        let run = &self.submission.header.run;
        let (theirs, ours) = (refs::handoffs(run), refs::followed(run));
        let spec = format!("+{theirs}/*:{ours}/*");
        let merged = format!("+{}:{}", refs::merged(run), FleetPlace::merged(run));
        self.git.fetch(&self.remote, &[&spec, &merged]).await?;
        let list = ["for-each-ref", "--format=%(objectname) %(refname)", &ours];
        let mut pending: BTreeMap<StageId, Pending> = BTreeMap::new();
        let mut logs = BTreeMap::new();
        let listed = self.git.line(&list).await?;
        let mut rounds: Vec<(StageId, u32, &str, &str)> = listed
            .lines()
            .filter_map(|line| {
                let (commit, name) = line.split_once(' ')?;
                let (stage, round) = refs::round_of(name, &ours)?;
                Some((stage, round, commit, name))
            })
            .collect();
        rounds.sort();
        for (stage, round, commit, name) in rounds {
            if self
                .seen
                .logs
                .get(name)
                .is_some_and(|known| known == commit)
            {
                continue;
            }
            let known = self.known.stages.get(&stage);
            let Some(skip) = known.map_or(Some(0), |known| known.of_round(round)) else {
                continue;
            };
            let all = earlier::records(&self.git, run, commit).await?;
            let new = all.into_iter().skip(skip);
            let new = new.map(|record| (record.time, record.event.elsewhere(&stage, round)));
            pending.entry(stage.clone()).or_default().extend(new);
            self.bring_files(run, commit).await?;
            logs.insert(name.to_owned(), commit.to_owned());
        }
        Ok((pending, logs))
    }

    /// Handoffs, prompts and streams, for everything that shows sessions.
    async fn bring_files(&self, run: &RunId, commit: &str) -> Result<(), Fault> {
        let tree = format!("{commit}:{STATE}/runs/{run}/stages");
        if self.git.object(&tree).await?.is_none() {
            return Ok(());
        }
        let place = self.run.dir().join("stages");
        let scratch = tempfile::tempdir_in(self.run.dir());
        let scratch = scratch.map_err(Fault::io("make a directory for git"))?;
        let common = self.git.line(&["rev-parse", "--absolute-git-dir"]).await?;
        let git = Git::of(common.as_ref(), &scratch.path().join("index"), &place);
        git.line(&["read-tree", &tree]).await?;
        // They are workers' files, and sit beside the user's own.
        let checkout = ["checkout-index", "--all", "--force"];
        let plain = [
            "-c",
            "core.symlinks=false",
            "-c",
            "core.hooksPath=/dev/null",
        ];
        git.line(&[&plain[..], &checkout[..]].concat()).await?;
        Ok(())
    }

    async fn take(&mut self, (at, event): (Timestamp, Event)) -> Result<(), Fault> {
        let event = self.with_files(self.answering(event)).await?;
        let seq = self.run.record(at, event.clone())?;
        self.known.note(seq, &event);
        Ok(())
    }

    /// The same, with the effects of our log that it answers.
    fn answering(&self, mut event: Event) -> Event {
        if let Event::Worktree {
            stage,
            effect,
            event,
        } = &mut event
        {
            let wanted = match event {
                WorktreeEvent::Prepared { .. } => WorktreeEffect::Prepare,
                WorktreeEvent::Merged { .. } => WorktreeEffect::Merge,
                WorktreeEvent::Confirmed { .. } => WorktreeEffect::Confirm,
            };
            let wanted = Effect::Worktree {
                stage: stage.clone(),
                effect: wanted,
            };
            *effect = self.run.ordered(&wanted).unwrap_or(*effect);
        } else if let Event::Stage {
            stage,
            event: RelayEvent::Task { effect, .. },
        } = &mut event
        {
            let known = self.known.stages.get(stage);
            let place = usize::try_from(effect.seq).unwrap_or(0).checked_sub(1);
            let seq = known.zip(place);
            let seq = seq.and_then(|(known, at)| known.records.get(at));
            effect.seq = seq.copied().unwrap_or(effect.seq);
        }
        event
    }

    /// The same, with the files that a merge changed, and those of them that the stage had not declared.
    async fn with_files(&self, mut event: Event) -> Result<Event, Fault> {
        if let Event::Worktree {
            stage,
            event: WorktreeEvent::Merged { merge },
            ..
        } = &mut event
            && let Merge::Done { commit, .. } = merge
        {
            // It comes from the server, so it could be anything.
            if !commit.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err(Fault::Lost("a merge names no commit"));
            }
            let changed = self.git.changed(commit).await?;
            let Submission { header, prefix } = &self.submission;
            let mut stages = header.manifest.stages.iter();
            let stage = stages.find(|known| known.id == *stage);
            let declared = stage.map_or(&[][..], |stage| &stage.part.outputs);
            let done = merged(commit.clone(), &changed, Path::new(prefix), declared);
            *merge = done.map_err(Fault::Refused)?;
        }
        Ok(event)
    }

    /// Fetches the plan's result, once the plan orders it.
    async fn deliver(&mut self) -> Result<(), Fault> {
        let Some(effect) = self.run.ordered(&Effect::Deliver) else {
            return Ok(());
        };
        let delivery = deliver(&self.git, &self.submission, &self.remote).await?;
        let event = Event::Delivered { effect, delivery };
        let now = SystemClock.now();
        self.run.record(now, event)?;
        self.run.publish(now)?;
        Ok(())
    }
}

/// The earliest of the next events. Clocks of machines may differ; the events of one source keep their
/// order, and what a stage did comes before the end that it led to.
fn earliest(
    of_plan: &mut Pending,
    of_stages: &mut BTreeMap<StageId, Pending>,
    is_known: impl Fn(&StageId, &Outcome) -> bool,
) -> Option<(Timestamp, Event)> {
    let next_at = |source: &Pending| source.front().map(|(at, _)| *at);
    let first = of_stages.values().filter_map(next_at).min();
    if next_at(of_plan).is_none_or(|at| first.is_some_and(|first| first <= at)) {
        let mut sources = of_stages.values_mut();
        return sources.find(|source| next_at(source) == first)?.pop_front();
    }
    if let (_, Event::Elsewhere { stage, event }) = of_plan.front()?
        && let Elsewhere::Ended { outcome } = event
        && !is_known(stage, outcome)
        && let Some(before) = of_stages.get_mut(stage).and_then(Pending::pop_front)
    {
        return Some(before);
    }
    of_plan.pop_front()
}

/// Our log has this end of the stage's own log, or that log has no such end.
fn is_known(run: &Run, stage: &StageId, outcome: &Outcome) -> bool {
    let is_of_worker = matches!(
        outcome,
        Outcome::Stopped { .. } | Outcome::NoWorktree { .. }
    );
    let own = run.relay(stage).and_then(Relay::outcome);
    is_of_worker || own.is_some_and(|own| discriminant(own) == discriminant(outcome))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As if the stage's worker were an hour ahead of the server.
    // shows: FLT-03
    #[test]
    fn what_a_stage_did_comes_before_its_end_whatever_its_clock_says() {
        let stage = StageId::try_from("A".to_owned()).unwrap();
        let outcome = Outcome::Complete { verified: true };
        let ended = Elsewhere::Ended { outcome };
        let ended = Event::Elsewhere {
            stage: stage.clone(),
            event: ended,
        };
        let mut of_plan = Pending::from([(Timestamp(1), Event::Woke), (Timestamp(9), ended)]);
        let did = |at: u64| (Timestamp(3_600_000 + at), Event::Woke.elsewhere(&stage, 1));
        // The last one is of the next round.
        let mut of_stages = BTreeMap::from([(stage.clone(), Pending::from([2, 8, 20].map(did)))]);
        let mut order = Vec::new();
        while let Some((at, _)) = earliest(&mut of_plan, &mut of_stages, |_, _| order.len() > 2) {
            order.push(at.0 % 3_600_000);
        }
        assert_eq!(order, [1, 2, 8, 9, 20]);
    }
}
