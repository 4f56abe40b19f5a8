//! Turns the records of a log into entries for people and for programs.
//!
//! [`Reporter::entries`] takes a record and the state of the run after it. It is a fold without IO, so
//! `ekiden run`, `ekiden log` and `ekiden show` print the same. It remembers what a single record does not
//! say: the run's timeline, and what it reported before.
//!
//! A line under a session is indented; `!` marks what a person should look at.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use ekiden_core::effect::{Effect, RelayEffect, StartAttempt, StartMode};
use ekiden_core::event::{Continued, Delivery, Event, RunResumed};
use ekiden_core::guard::{Level, Window};
use ekiden_core::ids::{AttemptId, RunId, StageId};
use ekiden_core::manifest::{Isolation, PlanRules, Verification};
use ekiden_core::outcome::WaitCause;
use ekiden_core::record::Record;
use ekiden_core::relay::{NextAttempt, Phase, Purpose, Relay};
use ekiden_core::run::Run;
use ekiden_core::settings::RunStarted;
use ekiden_core::steering::{Steered, Steering, StopRequest};
use ekiden_core::time::Timestamp;
use ekiden_report::Timeline;
use ekiden_report::timeline::Before;
use jiff::tz::TimeZone;

use super::entry::Entry;
use super::json::{Fields, fields};
use super::line::{Line, Tone, one_line};
use super::shown_work_dir::ShownWorkDir;
use super::waits::Wait;
use super::{phrase, stage_table, steering};

pub struct Reporter {
    /// The runs that the run's short id must differ from.
    pub ids: Vec<RunId>,
    pub zone: TimeZone,
    /// The reader can type to the run.
    pub guided: bool,
    pub there: ShownWorkDir,
    /// Where the run's report is, once it is written.
    pub report: Option<PathBuf>,
    /// What the log says so far; `None` before its first record.
    pub timeline: Option<Timeline>,
    pub(super) windows: BTreeMap<StageId, (Window, Option<String>)>,
    /// The time of the last record.
    pub(super) at: Timestamp,
    /// The last attempt that ran out of time.
    pub(super) timed_out: Option<AttemptId>,
    /// The highest level that a first response reached.
    pub(super) filled: Level,
    /// The stages whose end is reported.
    pub(super) over: BTreeSet<StageId>,
    pub(super) tries: BTreeMap<StageId, u32>,
    /// The agents whose spent budget is reported.
    pub(super) spent_agents: BTreeSet<String>,
    /// It was asked to pause before the record.
    was_paused: bool,
    /// It was asked to stop before the record.
    was_stopping: Option<StopRequest>,
    /// The last request for a handoff, until something else begins.
    handoff_asked: Option<Entry>,
    /// The entries of the record so far.
    entries: Vec<Entry>,
}

impl Reporter {
    pub fn new(ids: Vec<RunId>, zone: TimeZone) -> Self {
        Self {
            ids,
            zone,
            guided: false,
            there: ShownWorkDir::default(),
            report: None,
            timeline: None,
            windows: BTreeMap::new(),
            spent_agents: BTreeSet::new(),
            at: Timestamp::default(),
            timed_out: None,
            filled: Level::default(),
            over: BTreeSet::new(),
            tries: BTreeMap::new(),
            was_paused: false,
            was_stopping: None,
            handoff_asked: None,
            entries: Vec::new(),
        }
    }

    /// The entries of a record. `run` is the state after it.
    pub fn entries(&mut self, record: &Record, run: &Run) -> Vec<Entry> {
        self.at = record.time;
        let timeline = self.timeline.get_or_insert_with(|| Timeline::new(run));
        timeline.take(record, run);
        let is_asked = !timeline.asked.is_empty();
        self.of_event(&record.event, run);
        if matches!(record.event, Event::StopRequested(_)) && !is_asked {
            // An import's own, and nothing runs.
            self.entries
                .iter_mut()
                .for_each(|entry| entry.lines.clear());
        }
        let is_warning = |effect: &&Effect| {
            let warns = |effect: &RelayEffect| matches!(effect, RelayEffect::Warn { .. });
            matches!(effect, Effect::Stage { effect, .. } if warns(effect))
        };
        // What follows for the stage comes after the warnings that are its cause.
        let (warnings, others): (Vec<_>, Vec<_>) = record.effects.iter().partition(is_warning);
        for effect in warnings {
            self.of_effect(effect, run);
        }
        if run.header().is_plan() {
            self.of_plan(record, run);
        }
        for effect in others {
            self.of_effect(effect, run);
        }
        self.was_paused =
            run.is_paused() || run.relays().any(|(_, relay)| steering::is_held(relay));
        self.was_stopping = run.relays().find_map(|(_, relay)| relay.wishes.stop);
        std::mem::take(&mut self.entries)
    }

    pub(super) fn add(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    pub(super) fn add_of(&mut self, stage: &StageId, mut entry: Entry) {
        entry.stage = Some(stage.clone());
        self.entries.push(entry);
    }

    /// The state of the stage's relay before the record.
    pub(super) fn before(&self, stage: &StageId) -> Before {
        let timeline = self.timeline.as_ref();
        timeline.map_or(Before::Otherwise, |timeline| timeline.before(stage))
    }

    /// The same, with the run's totals.
    pub fn settled(&mut self, run: &Run) -> Option<&Timeline> {
        let timeline = self.timeline.as_mut()?;
        timeline.settle(run);
        Some(timeline)
    }

    /// The share of the stage's window that is used, once the window is known.
    pub fn percent(&self, stage: &StageId, usage_tokens: u64) -> Option<u64> {
        let (window, _) = self.windows.get(stage).filter(|_| usage_tokens > 0)?;
        Some(window.percent(usage_tokens))
    }

    /// The run's id, as short as possible.
    pub(super) fn id(&self, run: &Run) -> String {
        phrase::short_id(&run.header().run, &self.ids)
    }

    pub(super) fn clock(&self, run: &Run) -> String {
        phrase::clock(self.at, run.started_at(), &self.zone)
    }

    fn of_event(&mut self, event: &Event, run: &Run) {
        match event {
            Event::RunStarted(header) => self.add(self.run_started(header, run)),
            Event::RunResumed(resumed) => self.run_resumed(resumed, run),
            Event::Continued(continued) => self.run_continued(continued, run),
            Event::Delivered { delivery, .. } => {
                self.add(delivered(delivery));
            }
            Event::LogicChanged { seq } => {
                let text = format!("ekiden decides otherwise than before from record {seq} on");
                let entry = Entry::new("logic_changed").fields(fields! { "seq": seq });
                self.add(entry.line(Line::attention(text)));
            }
            Event::LogAccepted { seq } => {
                let text = format!("you accepted the log, which was changed from record {seq} on");
                let entry = Entry::new("log_accepted").fields(fields! { "seq": seq });
                self.add(entry.line(Line::attention(text)));
            }
            Event::StopRequested(request) => {
                self.add(steering::stop_requested(*request, "ctrl-c again", run));
            }
            Event::Steered(steered) => self.steered(steered, run),
            Event::Stage { stage, event } => {
                if let Some(relay) = run.relay(stage) {
                    self.of_relay(stage, run, relay, event);
                }
            }
            Event::UtcOffsetChanged { .. }
            | Event::Woke
            | Event::Worktree { .. }
            | Event::Elsewhere { .. } => {}
        }
    }

    fn steered(&mut self, steered: &Steered, run: &Run) {
        if let (Some(request), Some(before)) = (steered.steering.stop(), self.was_stopping)
            && !request.outweighs(before)
        {
            return;
        }
        let entry = steering::steered(steered, run, self.was_paused, &self.clock(run), &self.there);
        if steered.steering == Steering::HandOff {
            if entry == self.handoff_asked {
                return;
            }
            self.handoff_asked.clone_from(&entry);
        }
        self.entries.extend(entry);
    }

    fn of_effect(&mut self, effect: &Effect, run: &Run) {
        match effect {
            Effect::Stage { stage, effect } => match (effect, run.relay(stage)) {
                (RelayEffect::StartAttempt(start), _) => {
                    self.handoff_asked = None;
                    self.add_of(stage, self.session_started(stage, start, run));
                }
                // A wait begins with a durable check of what is published; so does an end.
                (RelayEffect::PublishDurably, Some(relay)) => self.held_back(stage, relay),
                (RelayEffect::Warn { warning }, _) => {
                    let entry = Self::judged(warning);
                    self.add_of(stage, entry);
                }
                (_, _) => {}
            },
            Effect::Worktree { .. } | Effect::Deliver => {}
            Effect::EndRun { outcome } => self.run_ended(run, outcome),
        }
    }

    fn run_started(&self, header: &RunStarted, run: &Run) -> Entry {
        let (settings, plan) = (&header.settings, header.manifest.plan.as_deref());
        let mut stages = header.manifest.stages.iter();
        let verification = stages.find_map(|stage| stage.verification.as_ref());
        let verification = verification.filter(|_| plan.is_none());
        let (task, session_max) = (one_line(&run.task_names()), run.session_max());
        let from = header.from.as_ref();
        let from = from.map(|from| (&from.run, from.last.session.get()));
        let imported = header.imported.as_ref();
        let levels = settings
            .agent
            .kind
            .takes_messages()
            .then(|| <[u8; 3]>::from(settings.levels));
        let dirty = settings.commit.as_ref().map(|commit| commit.dirty.len());
        let (agent, model) = (&settings.agent.name, settings.agent.model.as_ref());
        let branch = header.place.branch.as_ref();
        let issue = header.issue.as_ref().map(ToString::to_string);
        let entry = Entry::new("run_started")
            .fields(fields! {
                "ekiden": header.ekiden,
                "task": task,
                "work_dir": header.place.work_dir,
                "agent": agent,
                "model": model,
                "session_max": session_max,
                "levels": levels,
                "verification": verification.map(Verification::in_one_line),
            })
            .fields(branch.map(|branch| fields! { "branch": branch }))
            .fields(dirty.map(|dirty| fields! { "left_alone": dirty }))
            .fields(fields! { "run_budget": settings.bounds.run })
            .fields(from.map(|(run, session)| {
                fields! { "from": fields! { "run": run, "session": session } }
            }))
            .fields(imported.map(|imported| fields! { "imported": imported.from }))
            .fields(issue.as_ref().map(|issue| fields! { "issue": issue }))
            .fields(plan.map(|rules| fields! { "plan": plan_fields(rules, run) }));
        let length = match plan {
            Some(rules) => plan_length(rules, run),
            None => {
                let before = from.map_or(0, |(_, session)| session);
                let sessions = u64::from(session_max.saturating_sub(before));
                format!("relay, at most {}", phrase::count(sessions, "session"))
            }
        };
        let budget = phrase::budget(settings.bounds.run)
            .map_or(String::new(), |budget| format!(", at most {budget}"));
        let model = model.map_or(String::new(), |model| format!(" ({})", one_line(model)));
        let levels = levels.map_or(String::new(), |[_, at, _]| format!(", hands off at {at}%"));
        let from = phrase::origin(from, imported.map(|imported| imported.from.as_str()));
        let issue = issue.as_deref().map(one_line);
        // The task of a run that was given its issue begins with it.
        let issue = issue.filter(|issue| !task.starts_with(issue.as_str()));
        let reports = issue.map_or(String::new(), |issue| format!(" · reports to {issue}"));
        let rest = format!(" · {length}{budget} · {agent}{model}{levels} · {task}{reports}{from}");
        entry
            .line(Line::new(Tone::Plain, format!("run {}", self.id(run))).with(Tone::Quiet, rest))
            .lines(committing(branch.map(String::as_str), dirty))
    }

    fn run_resumed(&mut self, resumed: &RunResumed, run: &Run) {
        self.windows.clear();
        let session_max = run.session_max();
        let text = format!("run {} continues · {}", self.id(run), self.clock(run));
        let rows = stage_table::rows(run);
        let rest = match rows.is_empty() {
            true => format!(" · up to session {session_max}"),
            false => format!(" · {}", stage_table::summary(&rows)),
        };
        let entry = Entry::new("run_resumed")
            .fields(fields! { "ekiden": resumed.ekiden, "session_max": session_max });
        self.add(entry.line(Line::new(Tone::Plain, text).with(Tone::Quiet, rest)));
        if let Some(answer) = &resumed.answer {
            self.add(steering::answered(&answer.stage, &answer.words, true, run));
        }
        if resumed.task.is_some() {
            let task = one_line(&run.task_names());
            let entry = Entry::new("task_changed").fields(fields! { "task": task });
            let text = format!("the task has changed: {task}");
            self.add(entry.line(Line::new(Tone::Plain, text)));
        }
        // What is held back or waited for outlived the engine.
        for (stage, relay) in run.relays() {
            self.held_back(stage, relay);
        }
        if !rows.is_empty() && run.is_paused() {
            self.add(steering::pause_requested(run, &self.there));
        }
    }

    fn run_continued(&mut self, continued: &Continued, run: &Run) {
        self.windows.clear();
        let (task, session_max) = (one_line(&run.task_names()), run.session_max());
        let text = format!("run {} continues · {}", self.id(run), self.clock(run));
        let rest = format!(" · up to session {session_max} · {task}");
        let commit = run
            .relays()
            .find_map(|(_, relay)| relay.settings.commit.as_ref());
        let dirty = commit.map(|commit| commit.dirty.len());
        let branch = run.header().place.branch.as_deref();
        let entry = Entry::new("run_continued")
            .fields(
                fields! { "ekiden": continued.ekiden, "task": task, "session_max": session_max },
            )
            .fields(dirty.map(|dirty| fields! { "left_alone": dirty }));
        let entry = entry.line(Line::new(Tone::Plain, text).with(Tone::Quiet, rest));
        self.add(entry.lines(dirty.and_then(|_| committing(branch, dirty))));
    }

    fn session_started(&self, stage: &StageId, start: &StartAttempt, run: &Run) -> Entry {
        let item = run
            .relay(stage)
            .and_then(|relay| Some((relay.item_in_hand()?, relay.item_percents()?)));
        let item = item.filter(|_| start.purpose == Purpose::Work);
        let (session, attempt) = (start.attempt.session.get(), start.attempt.attempt.get());
        let relay = run.relay(stage);
        let agent = relay.and_then(Relay::one_of_several);
        let by = agent.as_deref().map(one_line).unwrap_or_default();
        let clock = self.clock(run);
        let mut rest = match start.purpose {
            Purpose::Work if by.is_empty() => format!(" · {clock}"),
            Purpose::Work => format!(" · {by} · {clock}"),
            Purpose::Review => format!(" · reviews the work, by {by} · {clock}"),
        };
        if attempt > 1 {
            rest.push_str(&format!(" · attempt {attempt}"));
            if start.mode == StartMode::Resume {
                rest.push_str(", the same conversation");
            }
        }
        Entry::of_session("session_started", session)
            .fields(fields! { "attempt": attempt, "conversation": start.mode })
            .fields(agent.map(|agent| fields! { "agent": agent }))
            .fields((start.purpose == Purpose::Review).then(|| fields! { "purpose": start.purpose }))
            .fields(item.as_ref().map(|((number, item, estimate), percents)| {
                fields! { "item": item.text, "item_number": number, "item_percent": estimate.percent, "item_percents": percents }
            }))
            .line(Line::new(Tone::Plain, format!("session {session}")).with(Tone::Quiet, rest))
            .lines(item.map(|((number, item, _), percents)| {
                let text = format!("{number}: {}", one_line(&item.text));
                let is_large = relay.is_some_and(Relay::is_item_large);
                let hint = if is_large { "; it is asked to use subagents" } else { "" };
                let percents = phrase::range(percents, |percent| format!("{percent}%"));
                let size = format!(" · {percents} of the context{hint}");
                Line::labelled("item", Tone::Plain, text).with(Tone::Quiet, size)
            }))
    }

    /// Says that the relay waits or is paused, if it does.
    fn held_back(&mut self, stage: &StageId, relay: &Relay) {
        let (entry, next) = match &relay.phase {
            Phase::Paused { next, .. } => {
                let session = next.id.session.get();
                (steering::paused(session, self.guided, &self.there), next)
            }
            Phase::Waiting {
                until, cause, next, ..
            } => (self.waiting(stage, *until, *cause, next), next),
            Phase::Planned | Phase::Running(_) | Phase::Reviewing { .. } | Phase::Ended { .. } => {
                return;
            }
        };
        let next = fields! { "session": next.id.session, "attempt": next.id.attempt };
        self.add_of(stage, entry.fields(next));
    }

    fn waiting(
        &self,
        stage: &StageId,
        until: Timestamp,
        why: WaitCause,
        next: &NextAttempt,
    ) -> Entry {
        let next = (next.id.session.get(), next.id.attempt.get());
        let timeline = self.timeline.as_ref();
        let cause = timeline.and_then(|timeline| timeline.wait(stage)?.ended_by.as_ref());
        let wait = Wait {
            until,
            why,
            cause,
            next,
        };
        Entry::new("waiting")
            .fields(fields! { "until": phrase::utc(until), "why": why, "cause": cause })
            .lines(wait.lines(self.at, &self.zone, &self.there))
    }
}

fn plan_fields(rules: &PlanRules, run: &Run) -> Fields {
    fields! {
        "manifest": one_line(&rules.file),
        "stages": run.plan().stages(),
        "jobs": run.plan().jobs(),
        "worktrees": rules.isolation != Isolation::InPlace,
    }
}

fn plan_length(rules: &PlanRules, run: &Run) -> String {
    let stages = phrase::count(run.plan().stages() as u64, "stage");
    match rules.isolation {
        Isolation::InPlace => format!("plan, {stages}, one at a time in the work dir"),
        Isolation::Worktrees { .. } => {
            format!("plan, {stages}, at most {} at a time", run.plan().jobs())
        }
    }
}

/// What happens to the sessions' changes, if that is not left to the agent.
fn committing(branch: Option<&str>, dirty: Option<usize>) -> Option<Line> {
    let on = branch.map_or(String::new(), |name| format!(" on `{}`", one_line(name)));
    let text = match dirty {
        None if branch.is_none() => return None,
        None => format!("works{on}"),
        Some(0) => format!("commits after each session{on}"),
        Some(files) => {
            let stay = if files == 1 { "stays" } else { "stay" };
            let files = phrase::count(files as u64, "file");
            format!("commits after each session{on}; {files} with earlier changes {stay} out of it")
        }
    };
    Some(Line::new(Tone::Quiet, text))
}

/// What happened to the results of all stages.
fn delivered(delivery: &Delivery) -> Entry {
    let line = match delivery {
        Delivery::Given { branch, commit } => {
            let branch = branch.as_ref().map_or_else(
                || "your checkout".to_owned(),
                |name| format!("`{}`", one_line(name)),
            );
            let commit = phrase::commit(commit);
            let text = format!("{branch} is at {commit} now, with what all stages made");
            Line::new(Tone::Plain, text)
        }
        Delivery::Kept {
            branch,
            why,
            command,
        } => {
            let (branch, why) = (one_line(branch), one_line(why));
            Line::attention(format!(
                "your branch is unchanged: {why}. The work of all stages is on `{branch}`; `{command}` brings it in"
            ))
        }
    };
    Entry::new("delivered").fields(delivery).line(line)
}
