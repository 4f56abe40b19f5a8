//! A run's writes to its issue, made from its log: one living comment, a label, a state.
//!
//! Every write is derived from a record, and so is its key. A run that continues after a crash queues all
//! of them again, and a key that is already known has no effect.

use std::collections::{BTreeMap, BTreeSet};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ekiden_core::effect::Effect;
use ekiden_core::estimate::Past;
use ekiden_core::event::Event;
use ekiden_core::guard::Level;
use ekiden_core::handoff::{Heading, said};
use ekiden_core::ids::StageId;
use ekiden_core::issue::IssueRef;
use ekiden_core::outcome::Outcome;
use ekiden_core::prompt::Author;
use ekiden_core::record::Record;
use ekiden_core::renewal::LastSession;
use ekiden_core::run::Run;
use ekiden_core::secrets::mask;
use ekiden_core::settings::RunStarted;
use ekiden_core::steering::Steered;
use ekiden_core::text::one_line;
use ekiden_core::time::{Millis, Timestamp};
use ekiden_engine::clock::{Clock as _, SystemClock};
use ekiden_engine::workspace::Workspace;
use ekiden_report::timeline::Session;
use ekiden_report::{Page, Streams, Timeline, render};
use ekiden_store::outbox::Outbox;
use ekiden_tracker::{
    Document, Entry, HEADS, KEPT, NewState, Queued, Write, is_limited, pull_request,
};
use jiff::tz::TimeZone;

use super::Trackers;
use super::comments::Listener;
use crate::output::phrase;
use crate::past;
use crate::report;
use crate::settings::table;

/// How often a run checks whether something is due again, and for comments.
const LOOK: Millis = Millis::from_secs(60);
/// The longest title of a pull request, in characters.
const TITLE_CHARS_MAX: usize = 120;
const NOT_COMMITTED: &str = "not all of the verified work is committed on the run's branch, so no pull request is opened and no \
                             issue closed; commit it there (see `git status`), then `ekiden continue`";
const UNSENT: &str = "the pull request does not have this work yet; `ekiden tracker status` says if something is in the way";
/// One record never causes more.
const WRITES_MAX: u64 = 1_000;
/// How long the end of a run waits for what is being sent; a separate process does the rest.
const AT_END: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(20);

pub struct Feed {
    trackers: Trackers,
    outbox: Outbox,
    issue: Option<IssueRef>,
    listener: Option<Listener>,
    /// The newest session of each stage that has its entry.
    seen: BTreeMap<StageId, u32>,
    /// The stages whose sub-issues are closed.
    closed: BTreeSet<StageId>,
    /// The label has been set since the run began or continued; with the first handoff of all, the state, too.
    is_marked: bool,
    /// When it last checked for something due.
    looked: Timestamp,
    /// It is sending right now.
    sending: Option<JoinHandle<()>>,
    has_failed: bool,
    /// What past work took, as of when the run began or continued.
    past: Vec<Past>,
}

impl Feed {
    /// `None` if there is neither an issue nor a pull request, or no home for the outbox.
    pub fn new(trackers: Trackers, workspace: &Workspace, header: &RunStarted) -> Option<Self> {
        header.issue.as_ref().or(header.pull_request.as_ref())?;
        let listener = header.issue.as_ref().map(|issue| Listener {
            workspace: workspace.clone(),
            issue: issue.clone(),
            run: header.run.clone(),
            since: header.issue_read.unwrap_or_else(|| SystemClock.now()),
        });
        Some(Self {
            listener,
            outbox: trackers.outbox()?,
            trackers,
            issue: header.issue.clone(),
            seen: BTreeMap::new(),
            closed: BTreeSet::new(),
            is_marked: false,
            looked: Timestamp::default(),
            sending: None,
            has_failed: false,
            past: past::of_project(workspace, header.settings.agent.kind),
        })
    }

    /// What people wrote in the issue since it was read, and the run has not heard: for the session that continues it.
    pub fn unheard(&self, run: &Run) -> Vec<Steered> {
        let Some(mut listener) = self.listener.clone() else {
            return Vec::new();
        };
        listener.since = read_until(run);
        let asked = self
            .trackers
            .in_time(move |trackers| listener.messages(trackers));
        let mut messages = asked.unwrap_or_default();
        messages.retain(|message| !run.has_heard(&message.message));
        messages
    }

    /// Queues what follows from a record that is on disk. Returns a warning for people; an error only once.
    pub fn recorded(&mut self, record: &Record, run: &Run, timeline: &Timeline) -> Option<String> {
        if let Some(listener) = &mut self.listener {
            listener.since = read_until(run);
        }
        let mut writes = Vec::new();
        let mut end = None;
        for effect in &record.effects {
            if let Effect::EndRun { outcome } = effect {
                end = Some(outcome);
            }
        }
        let is_verified = end == Some(&(Outcome::Complete { verified: true }));
        let is_delivered = is_verified && self.is_committed(run);
        if let Some(issue) = self.issue.clone() {
            let mut of_issue = self.of_sessions(record, run, timeline);
            of_issue.extend(self.of_stages(record, run));
            of_issue.extend(
                end.into_iter()
                    .flat_map(|end| self.of_end(end, is_delivered, record, run)),
            );
            writes.extend(
                of_issue
                    .into_iter()
                    .map(|(what, write)| (issue.clone(), what, write)),
            );
        }
        writes.extend(
            is_delivered
                .then(|| pull_request_of(run, timeline))
                .flatten(),
        );
        let warning = (is_verified && !is_delivered).then(|| NOT_COMMITTED.to_owned());
        // The outbox may have forgotten that the tracker has them, and people may have changed the issue
        // since. A comment is written again as it is, and needs its old entries if the run goes on.
        if SystemClock.now().since(record.time) > KEPT {
            writes.retain(|(_, _, write)| matches!(write, Write::Entry { .. }));
        }
        let places = record.seq * WRITES_MAX..;
        let queued = places.zip(writes).map(|(order, (issue, what, write))| {
            let key = format!("{}/{}/{what}", run.header().run, record.seq);
            let (trackers, outbox) = (&self.trackers, &self.outbox);
            trackers.queue(outbox, &issue, key, (SystemClock.now(), order), write)
        });
        let queued: Result<Vec<bool>, _> = queued.collect();
        match queued {
            Ok(queued) => {
                if queued.contains(&true) {
                    self.send();
                }
                // Records are told again when the run goes on.
                warning.filter(|_| SystemClock.now().since(record.time) < LOOK)
            }
            Err(error) => (!std::mem::replace(&mut self.has_failed, true))
                .then(|| format!("the issue is not updated: {error}; once it can, `ekiden resume {}` queues its end again", run.header().run)),
        }
    }

    /// Retries what failed when its time has come, and checks for new comments.
    pub fn tick(&mut self, now: Timestamp) {
        if now.since(self.looked) < LOOK {
            return;
        }
        self.looked = now;
        self.send();
    }

    /// Waits a moment for what is on its way, and leaves the rest to a separate process. Returns a warning if
    /// the pull request, which people wait for, is among it.
    pub fn finish(self) -> Option<&'static str> {
        let mut waited = Duration::ZERO;
        while self
            .sending
            .as_ref()
            .is_some_and(|sending| !sending.is_finished())
            && waited < AT_END
        {
            thread::sleep(STEP);
            waited += STEP;
        }
        let waiting = self.outbox.waiting().ok()?;
        if !waiting.is_empty() {
            // `ekiden tracker status` shows what waits.
            let _ = super::begin(&self.trackers.dir);
        }
        let mut waiting = waiting.iter().filter_map(Queued::of);
        let is_its_pull = |queued: Queued| {
            queued.dir == self.trackers.dir && matches!(queued.write, Write::PullRequest { .. })
        };
        waiting.any(is_its_pull).then_some(UNSENT)
    }

    fn send(&mut self) {
        if self
            .sending
            .as_ref()
            .is_some_and(|sending| !sending.is_finished())
        {
            return;
        }
        let (trackers, listener) = (self.trackers.clone(), self.listener.clone());
        let outbox = self.outbox.clone();
        let work = move || {
            // Another process may be sending: check again in a minute.
            let _ = trackers.drain(Duration::from_secs(1));
            let may_ask = |listener: &Listener| {
                !is_limited(&outbox, listener.issue.tracker, SystemClock.now())
            };
            if let Some(listener) = listener.filter(may_ask) {
                listener.look(&trackers);
            }
        };
        self.sending = thread::Builder::new()
            .name("tracker".to_owned())
            .spawn(work)
            .ok();
    }

    /// The entries of sessions that ended with this record; at the first since the run continued, the label,
    /// and at the first of all, the state.
    fn of_sessions(
        &mut self,
        record: &Record,
        run: &Run,
        timeline: &Timeline,
    ) -> Vec<(String, Write)> {
        let mut writes = Vec::new();
        let is_first = self.seen.is_empty();
        for (stage, relay) in run.relays() {
            let Some(last) = &relay.last else {
                // The stage begins anew on a fleet, and so do its sessions' numbers.
                self.seen.remove(stage);
                continue;
            };
            let number = last.session.get();
            let seen = self.seen.get(stage).copied().unwrap_or_default();
            if last.notes.by == Author::FollowUp || number <= seen {
                continue;
            }
            self.seen.insert(stage.clone(), number);
            let place = timeline.stages.iter().find(|of_it| of_it.id == *stage);
            let session = place.and_then(|place| {
                let mut latest = place.sessions.iter().rev();
                latest.find(|session| session.number == number)
            });
            let name = timeline.is_plan.then_some(stage);
            let mut stages = run.header().manifest.stages.iter();
            let is_list = stages.any(|of_it| of_it.id == *stage && of_it.part.items);
            let word = if is_list { "Iteration" } else { "Session" };
            let mut entry = Self::entry(name, (word, number), session, last, record.time);
            let place = name.map(|stage| format!("-{stage}")).unwrap_or_default();
            let document = format!("{}{place}-session-{number}", run.header().run);
            let whole = format!("{}\n\n{}", last.notes.progress, last.notes.next_prompt);
            entry.document = self.trackers.document(&document, whole);
            if let Some(left) = past::left(run, &self.past, record.time) {
                let left = phrase::durations(left);
                entry
                    .facts
                    .push(format!("Time left, by past work here: {left}."));
            }
            writes.push((format!("{stage}/entry"), self.comment(entry, run)));
        }
        let is_over = run.outcome().is_some_and(Outcome::is_complete);
        if !writes.is_empty() && !is_over && !std::mem::replace(&mut self.is_marked, true) {
            let mut marks = self.trackers.marks();
            // Where a person has moved the issue since, it stays.
            marks.retain(|(_, mark)| is_first || !matches!(mark, Write::State { .. }));
            let marks = marks.into_iter();
            writes.extend(marks.map(|(what, write)| (what.to_owned(), write)));
        }
        writes
    }

    fn entry(
        stage: Option<&StageId>,
        (word, number): (&str, u32),
        session: Option<&Session>,
        last: &LastSession,
        at: Timestamp,
    ) -> Entry {
        let place = stage
            .map(|stage| format!("Stage {stage} · "))
            .unwrap_or_default();
        let how = match last.notes.by {
            Author::Rescue => "ended without a handoff",
            Author::Agent | Author::Both | Author::FollowUp => "handed off",
        };
        let how = session.and_then(level).unwrap_or_else(|| how.to_owned());
        let lines = |text: &str, heading: Heading| -> Vec<String> {
            said(text, heading.name())
                .iter()
                .flat_map(|text| text.lines())
                .map(str::to_owned)
                .collect()
        };
        let next = lines(&last.notes.next_prompt, Heading::ResumeAt);
        Entry {
            head: format!("{place}{word} {number} · {how}"),
            at,
            facts: session.and_then(fact).into_iter().collect(),
            done: lines(&last.notes.progress, Heading::Done),
            next,
            asks: Vec::new(),
            document: Document::None,
        }
    }

    /// Each stage's sub-issue when the run begins, and its end when the stage is done.
    fn of_stages(&mut self, record: &Record, run: &Run) -> Vec<(String, Write)> {
        let id = &run.header().run;
        let stages = run.header().manifest.stages.iter();
        let mut writes = Vec::new();
        for stage in stages.filter(|_| run.header().sub_issues) {
            let (stage, name) = (&stage.id, &stage.task_name);
            let is_done = run.plan().is_done(stage) && self.closed.insert(stage.clone());
            if !is_done && !matches!(record.event, Event::RunStarted(_)) {
                continue;
            }
            let write = Write::SubIssue {
                key: format!("{id}/stage/{stage}"),
                title: one_line(&mask(&format!("{stage} {name}")), TITLE_CHARS_MAX),
                text: format!("{}{id}: stage {stage} of its plan.", HEADS[0]),
                is_done,
                since: run.started_at(),
            };
            writes.push((format!("sub-issue/{stage}"), write));
        }
        writes
    }

    /// The last entry, and what happens to label and state.
    fn of_end(
        &mut self,
        outcome: &Outcome,
        is_delivered: bool,
        record: &Record,
        run: &Run,
    ) -> Vec<(String, Write)> {
        self.is_marked = false;
        let asks = run
            .questions()
            .flat_map(|(_, question)| question.lines().map(str::to_owned));
        let asks = asks.collect();
        let is_verified = matches!(outcome, Outcome::Complete { verified: true });
        let lacks = (is_verified && !is_delivered).then(|| NOT_COMMITTED.to_owned());
        let entry = Entry {
            head: format!("Run ended · {outcome}"),
            at: record.time,
            facts: lacks.into_iter().collect(),
            done: Vec::new(),
            next: Vec::new(),
            asks,
            document: Document::None,
        };
        let mut writes = vec![("end".to_owned(), self.comment(entry, run))];
        if outcome.is_complete() {
            let label = self.trackers.label().map(|name| Write::Label {
                name,
                is_set: false,
            });
            writes.extend(label.map(|label| ("end-label".to_owned(), label)));
        }
        if is_delivered && self.closes() {
            let state = NewState::Done;
            writes.push(("end-state".to_owned(), Write::State { state }));
        }
        writes
    }

    /// Whether the run's branch has what was verified, if more is done with that. A plan's is where its stages are merged.
    fn is_committed(&self, run: &Run) -> bool {
        // Ekiden itself writes there.
        let issues = self.trackers.get(&table::TRACKER_LOCAL_DIR);
        let issues = issues.unwrap_or_default() + "/";
        let header = run.header();
        let counts =
            header.pull_request.is_some() || (header.settings.commit.is_some() && self.closes());
        let mut relays = run.relays();
        !counts || header.is_plan() || relays.all(|(_, relay)| relay.is_committed(&issues))
    }

    fn closes(&self) -> bool {
        self.trackers.get(&table::TRACKER_ON_COMPLETE) == Some(true)
    }

    fn comment(&self, entry: Entry, run: &Run) -> Write {
        let id = &run.header().run;
        Write::Entry {
            comment: format!("run/{id}"),
            head: format!("{}{id}. This comment is kept up to date.", HEADS[0]),
            entry: Box::new(entry.bounded()),
        }
    }
}

/// Comments up to this time are in the task.
fn read_until(run: &Run) -> Timestamp {
    run.header().issue_read.unwrap_or_else(|| run.started_at())
}

/// The branch, with the run's report.
fn pull_request_of(run: &Run, timeline: &Timeline) -> Option<(IssueRef, String, Write)> {
    let pull = run.header().pull_request.clone()?;
    let heading = report::tell(timeline, run, run.header().run.as_str(), false, None);
    let page = Page::new(timeline, &Streams::default(), &heading, &TimeZone::system());
    let write = Write::PullRequest {
        branch: pull.id.clone(),
        title: one_line(&mask(&run.task_names()), TITLE_CHARS_MAX),
        body: pull_request(&render::markdown(&page)),
    };
    Some((pull, "pull-request".to_owned(), write))
}

/// `L2 at 86%`
fn level(session: &Session) -> Option<String> {
    let attempt = session.attempts.last()?;
    let crossing = attempt
        .crossings
        .iter()
        .max_by_key(|crossing| crossing.level)?;
    let level = Some(crossing.level).filter(|level| *level > Level::L1)?;
    let percent = attempt
        .window
        .map(|window| window.percent(crossing.usage_tokens));
    Some(format!(
        "{level}{}",
        percent
            .map(|percent| format!(" at {percent}%"))
            .unwrap_or_default()
    ))
}

/// `Worked for 14m, 38 tool calls.`
fn fact(session: &Session) -> Option<String> {
    session.end()?;
    let worked = phrase::duration(session.duration());
    let calls = phrase::count(session.tool_calls().into(), "tool call");
    Some(match session.is_heard() {
        true => format!("Worked for {worked}, {calls}."),
        false => format!("Worked for {worked}."),
    })
}

#[cfg(test)]
mod tests {
    use ekiden_core::ends::EndCause;
    use ekiden_core::event::Counters;
    use ekiden_report::timeline::{Attempt, End};

    use super::*;

    // shows: LIN-003
    #[test]
    fn a_session_is_told_with_all_its_attempts() {
        let attempt = |number, cause| Attempt {
            number,
            is_heard: true,
            end: Some(End {
                at: Timestamp(0),
                cause,
                counters: Counters {
                    duration: Millis(47_500),
                    tool_calls: 3,
                    ..Counters::default()
                },
            }),
            ..Attempt::default()
        };
        let session = Session {
            attempts: vec![
                attempt(1, EndCause::ServerError),
                attempt(2, EndCause::Completed),
            ],
            ..Session::default()
        };
        let told = fact(&session);
        assert_eq!(told.as_deref(), Some("Worked for 1m 35s, 6 tool calls."));
        assert_eq!(fact(&Session::default()), None);
    }
}
