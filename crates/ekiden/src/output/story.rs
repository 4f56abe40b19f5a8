//! The story of a run: what each record of its log has to tell.
//!
//! [`Story::tell`] takes a record and the run as it stands after it. It is a fold without IO, so the
//! live lines of `ekiden run` and those of `ekiden log` afterwards are the same. What it remembers
//! is little: the window of the session at work, why the last attempt ended, and how long ekiden has
//! worked on the run.

use std::collections::BTreeMap;

use ekiden_core::effect::{Effect, RelayEffect};
use ekiden_core::ends::EndCause;
use ekiden_core::event::{AttemptEnded, Check, CheckOutcome, Commit, Event, RelayEvent, Survey};
use ekiden_core::guard::{Level, Levels, Window};
use ekiden_core::handoff::{self, FileText, HandoffFiles, Marker, Status};
use ekiden_core::ids::{SessionNumber, StageId};
use ekiden_core::manifest::{Ground, Verification};
use ekiden_core::outcome::Outcome;
use ekiden_core::prompt::Notes;
use ekiden_core::record::Record;
use ekiden_core::relay::{LastSession, Next, Phase, Relay, WaitCause};
use ekiden_core::run::Run;
use ekiden_core::steering::{Steered, Steering};
use ekiden_core::time::{Millis, Timestamp};

use super::handed::{cautions, handoff_news, handoff_of, left};
use super::line::one_line;
use super::news::{
    AttemptNews, CheckNews, FilledNews, FromNews, Left, News, RunEnd, RunStart, SpendNews, WindowNews,
};
use super::stages::{PlanNews, Stages};
use super::steering;
use super::trouble::Trouble;
use crate::exit::Exit;

/// Something told, and the stage that it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The stage, if it is about one.
    pub stage: Option<StageId>,
    /// What there is to tell.
    pub news: News,
}

/// The story so far.
#[derive(Debug, Clone, Default)]
pub struct Story {
    windows: BTreeMap<StageId, (Window, Option<String>)>,
    last: Option<Timestamp>,
    worked: Millis,
    /// Why the last attempt ended.
    ended: Option<EndCause>,
    /// The highest level that a first response reached.
    filled: Level,
    trouble: Trouble,
    stages: Stages,
}

impl Story {
    /// Takes in a record that was told before, in another life of the program.
    pub fn catch_up(&mut self, record: &Record, run: &Run) {
        self.tell(record, run);
    }

    /// What a record has to tell. `run` stands as it is after the record.
    pub fn tell(&mut self, record: &Record, run: &Run) -> Vec<Told> {
        self.pass(record);
        let mut told = match &record.event {
            Event::RunStarted(_) => of_run(News::RunStarted(run_start(run))),
            Event::RunResumed(resumed) => {
                self.windows.clear();
                let mut told = of_run(News::RunResumed {
                    ekiden: resumed.ekiden.clone(),
                    session_max: session_max(run),
                });
                if resumed.task.is_some() {
                    told.extend(of_run(News::TaskChanged { task: one_line(&run.task_names()) }));
                }
                // What is held back or waited for outlasted the engine.
                for (stage, relay) in run.relays() {
                    let held = paused(relay).or_else(|| self.waiting(relay));
                    told.extend(staged(stage, held.into_iter().collect()));
                }
                told
            }
            Event::Continued(continued) => {
                self.windows.clear();
                of_run(News::RunContinued {
                    ekiden: continued.ekiden.clone(),
                    task: one_line(&run.task_names()),
                    session_max: session_max(run),
                })
            }
            Event::UtcOffsetChanged { .. } | Event::Woke | Event::Ground { .. } => Vec::new(),
            Event::Delivered { delivery, .. } => of_run(News::Delivered(delivery.clone())),
            Event::LogicChanged { seq } => of_run(News::LogicChanged { seq: *seq }),
            Event::StopRequested(request) => {
                of_run(News::StopRequested { request: *request, session: working_session(run) })
            }
            Event::Steered(steered) => of_steering(steered, run),
            Event::Stage { stage, event } => {
                let news = run.relay(stage).map(|relay| self.of_relay(stage, run, relay, event));
                staged(stage, news.unwrap_or_default())
            }
        };
        let stages = self.stages.tell(record, run).into_iter();
        told.extend(stages.map(|(stage, news)| Told { stage: Some(stage), news: News::Stage(news) }));
        self.note(record.time, &told);
        for effect in &record.effects {
            let of_effect = self.of_effect(effect, run);
            self.note(record.time, &of_effect);
            told.extend(of_effect);
        }
        told
    }

    /// What went wrong so far.
    #[must_use]
    pub fn trouble(&self) -> &Trouble {
        &self.trouble
    }

    fn note(&mut self, at: Timestamp, told: &[Told]) {
        told.iter().for_each(|told| self.trouble.take(at, &told.news));
    }

    /// The window of the session at work, for the share that is used.
    #[must_use]
    pub fn percent(&self, stage: &StageId, usage_tokens: u64) -> Option<u64> {
        self.windows.get(stage).filter(|_| usage_tokens > 0).map(|(window, _)| window.percent(usage_tokens))
    }

    /// Why the last attempt ended, if one did.
    #[must_use]
    pub fn ended(&self) -> Option<&EndCause> {
        self.ended.as_ref()
    }

    fn pass(&mut self, record: &Record) {
        self.pass_time(record);
        if let Event::Stage { event: RelayEvent::AttemptEnded(ended), .. } = &record.event {
            self.ended = Some(ended.cause.clone());
        }
    }

    /// Time in which nobody worked on the run does not count.
    fn pass_time(&mut self, record: &Record) {
        let idle = matches!(
            record.event,
            Event::RunResumed(_)
                | Event::Continued(_)
                | Event::Stage { event: RelayEvent::KnowledgeEdited { .. }, .. }
        );
        if let Some(last) = self.last.filter(|_| !idle) {
            self.worked.0 += record.time.since(last).0;
        }
        self.last = Some(record.time);
    }

    fn of_relay(&mut self, stage: &StageId, run: &Run, relay: &Relay, event: &RelayEvent) -> Vec<News> {
        let settings = relay.settings();
        match event {
            RelayEvent::Surveyed { survey: Err(error), .. } => {
                vec![News::SurveyFailed { error: one_line(error) }]
            }
            RelayEvent::Committed { commit: Commit::Cancelled, .. } => Vec::new(),
            RelayEvent::Committed { commit, .. } => {
                vec![News::Commit { session: relay.session().get(), result: commit.clone() }]
            }
            RelayEvent::Verified { check, .. } => {
                verified(&settings.marker, relay, check).into_iter().collect()
            }
            RelayEvent::WindowChanged { attempt, window, model } => self
                .window(stage, settings.levels, attempt.session, *window, model.as_ref())
                .into_iter()
                .collect(),
            RelayEvent::LevelCrossed { attempt, level, usage_tokens } => vec![News::Level {
                session: attempt.session.get(),
                level: *level,
                usage_tokens: *usage_tokens,
                percent: self.percent(stage, *usage_tokens),
            }],
            RelayEvent::BaselineMeasured { attempt, level, usage_tokens, filled_by } => {
                let known = *level <= self.filled;
                self.filled = self.filled.max(*level);
                vec![News::WindowFull(FilledNews {
                    known,
                    session: attempt.session.get(),
                    level: *level,
                    usage_tokens: *usage_tokens,
                    percent: self.percent(stage, *usage_tokens),
                    filled_by: filled_by.iter().map(|(name, tokens)| (one_line(name), *tokens)).collect(),
                })]
            }
            RelayEvent::SpendCrossed { attempt, crossing } => vec![News::Spend(SpendNews {
                session: attempt.session.get(),
                mark: crossing.mark,
                measure: crossing.measure,
                cost_micro_usd: crossing.spend.micro_usd,
                estimated: crossing.spend.estimated,
                tokens: crossing.spend.tokens,
                turns: crossing.turns,
            })],
            RelayEvent::Compacted { attempt, usage_tokens } => {
                vec![News::Compacted { session: attempt.session.get(), usage_tokens: *usage_tokens }]
            }
            RelayEvent::AttemptEnded(ended) => self.attempt_ended(stage, run, relay, ended),
            RelayEvent::KnowledgeEdited { .. } => {
                vec![News::KnowledgeEdited { facts: relay.knowledge().core.len() }]
            }
            RelayEvent::Surveyed { survey: Ok(_), .. }
            | RelayEvent::Published { .. }
            | RelayEvent::Archived { .. }
            | RelayEvent::AttemptStarted { .. }
            | RelayEvent::MessageDelivered { .. }
            | RelayEvent::StopAsked { .. }
            | RelayEvent::TurnEnded { .. }
            | RelayEvent::RefusalsSpent { .. }
            | RelayEvent::Woke => Vec::new(),
        }
    }

    fn of_effect(&self, effect: &Effect, run: &Run) -> Vec<Told> {
        match effect {
            Effect::Stage { stage, effect: RelayEffect::StartAttempt(start) } => {
                let news = News::SessionStarted {
                    session: start.attempt.session.get(),
                    attempt: start.attempt.attempt.get(),
                    conversation: start.mode,
                };
                staged(stage, vec![news])
            }
            // A wait begins with a durable look at what is published; so does an end.
            Effect::Stage { stage, effect: RelayEffect::PublishDurably } => {
                let waiting =
                    run.relay(stage).and_then(|relay| self.waiting(relay).or_else(|| paused(relay)));
                staged(stage, waiting.into_iter().collect())
            }
            Effect::Stage { stage, effect: RelayEffect::Warn { warning } } => {
                staged(stage, vec![News::Judged(warning.clone())])
            }
            Effect::Stage { .. } | Effect::Ground { .. } | Effect::Deliver => Vec::new(),
            Effect::EndRun { outcome } => of_run(News::RunEnded(Box::new(self.run_end(run, outcome)))),
        }
    }

    fn window(
        &mut self,
        stage: &StageId,
        levels: Levels,
        session: SessionNumber,
        window: Window,
        model: Option<&String>,
    ) -> Option<News> {
        let now = (window, model.cloned());
        if self.windows.get(stage) == Some(&now) {
            return None;
        }
        self.windows.insert(stage.clone(), now);
        Some(News::Window(WindowNews {
            session: session.get(),
            model: model.map(|model| one_line(model)),
            window_tokens: window.model_tokens,
            usable_tokens: window.usable_tokens(),
            handoff_tokens: window.handoff_tokens(levels),
        }))
    }

    fn attempt_ended(&self, stage: &StageId, run: &Run, relay: &Relay, ended: &AttemptEnded) -> Vec<News> {
        let session = ended.attempt.session;
        let handoff = handoff_of(&relay.settings().marker, relay, ended);
        let goes_on = handoff.is_none() && next_session(relay) == Some(session);
        let counters = &ended.counters;
        let mut news = vec![News::AttemptEnded(AttemptNews {
            session: session.get(),
            attempt: ended.attempt.attempt.get(),
            left: handoff.as_ref().map_or(Left::Nothing, |handoff| left(&handoff.status)),
            cause: ended.cause.clone(),
            duration: counters.duration,
            usage_tokens: counters.usage_tokens,
            percent: self.percent(stage, counters.usage_tokens),
            tool_calls: is_heard(run).then_some(counters.tool_calls),
            cost_micro_usd: counters.cost_micro_usd,
            estimated: counters.estimated,
            subscription: counters.subscription,
            tokens: counters.tokens,
            turns: is_heard(run).then_some(counters.turns),
            touched: ended.touched.clone(),
            misplaced: ended.misplaced.clone(),
            cautions: cautions(&ended.files),
            malformed_lines: counters.malformed_lines,
            goes_on,
        })];
        match handoff {
            Some(handoff) => news.push(News::Handoff(handoff_news(relay, session, &handoff))),
            None if goes_on => {}
            None => news.push(News::Rescue { session: session.get(), cause: ended.cause.clone() }),
        }
        news
    }

    fn waiting(&self, relay: &Relay) -> Option<News> {
        let Phase::Waiting { until, cause, next } = relay.phase() else { return None };
        let after_an_end = match cause {
            WaitCause::UsageLimit | WaitCause::Failure => self.ended.clone(),
            WaitCause::Pause | WaitCause::QuietHours | WaitCause::Guided => None,
        };
        Some(News::Waiting {
            until: *until,
            why: *cause,
            cause: after_an_end,
            session: next.id.session.get(),
            attempt: next.id.attempt.get(),
        })
    }

    fn run_end(&self, run: &Run, outcome: &Outcome) -> RunEnd {
        let relays = || run.relays().map(|(_, relay)| relay);
        let items = relays().find_map(|relay| relay.last().and_then(|last| last.open_items.as_ref()));
        RunEnd {
            outcome: outcome.clone(),
            exit_code: Exit::of(outcome).code(),
            sessions: relays().map(|relay| relay.tally().sessions).sum(),
            session_max: session_max(run),
            before: run.header().from.as_ref().map_or(0, |from| from.last.session.get()),
            sessions_max: relays().map(|relay| relay.stage().sessions_max).sum(),
            duration: self.worked,
            waiting: Millis(relays().map(|relay| relay.tally().waiting.0).sum::<u64>().min(self.worked.0)),
            cost_micro_usd: relays().map(|relay| relay.tally().cost_micro_usd).sum(),
            estimated: relays().any(|relay| relay.tally().estimated),
            subscription: relays().any(|relay| relay.tally().subscription),
            tokens: relays().map(|relay| relay.tally().tokens).sum(),
            items_open: items.map(|items| items.open.len()),
            items_done: items.map(|items| items.done.len()),
            stages: run.header().manifest.plan.as_ref().map(|_| run.plan().tally()),
            facts: match &run.header().manifest.plan {
                Some(_) => run.shared_knowledge().core.len(),
                None => relays().map(|relay| relay.knowledge().core.len()).sum(),
            },
            trouble: self.trouble.clone().at_end(self.last.unwrap_or_default()),
            files_changed: relays()
                .filter(|_| run.header().place.git)
                .find_map(Relay::survey)
                .map(|survey: &Survey| survey.status.len()),
        }
    }
}

fn of_run(news: News) -> Vec<Told> {
    vec![Told { stage: None, news }]
}

fn staged(stage: &StageId, news: Vec<News>) -> Vec<Told> {
    news.into_iter().map(|news| Told { stage: Some(stage.clone()), news }).collect()
}

/// A late stop is void and a second pause is the first, so there is nothing to tell of them.
fn of_steering(steered: &Steered, run: &Run) -> Vec<Told> {
    let session = working_session(run);
    match (&steered.steering, steered.steering.stop()) {
        (Steering::Stop { .. }, Some(request)) if !steered.late => {
            of_run(News::StopRequested { request, session })
        }
        (Steering::Stop { .. }, _) => Vec::new(),
        (Steering::Pause, _) if run.relays().any(|(_, relay)| paused(relay).is_some()) => Vec::new(),
        (Steering::Pause, _) => of_run(News::PauseRequested { session }),
        (Steering::Unpause, _) => of_run(News::Unpaused),
        (Steering::Instruct { words }, _) => of_run(steering::instructed(words, run)),
        (Steering::ChangeLimits(limits), _) => of_run(steering::limits_changed(limits, run)),
    }
}

fn run_start(run: &Run) -> RunStart {
    let header = run.header();
    let single = header.manifest.plan.is_none();
    let verification =
        header.manifest.stages.iter().find_map(|stage| stage.verification.as_ref()).filter(|_| single);
    RunStart {
        ekiden: header.ekiden.clone(),
        task: one_line(&run.task_names()),
        work_dir: header.place.work_dir.clone(),
        agent: header.settings.agent.name.clone(),
        model: header.settings.agent.model.clone(),
        session_max: session_max(run),
        levels: is_heard(run).then(|| header.settings.levels.into()),
        verification: verification.map(Verification::told_in_line),
        branch: header.place.branch.clone(),
        left_alone: header.settings.commit.as_ref().map(|commit| commit.dirty.len()),
        from: header
            .from
            .as_ref()
            .map(|from| FromNews { run: from.run.clone(), session: from.last.session.get() }),
        run_budget: header.settings.bounds.run,
        plan: header.manifest.plan.as_ref().map(|rules| PlanNews {
            manifest: one_line(&rules.file),
            stages: header.manifest.stages.len(),
            jobs: run.plan().jobs(),
            worktrees: rules.ground != Ground::InPlace,
        }),
    }
}

/// The agent tells what it does and how full its context is.
fn is_heard(run: &Run) -> bool {
    run.header().settings.agent.kind.takes_messages()
}

fn session_max(run: &Run) -> u32 {
    run.relays().map(|(_, relay)| relay.session_max()).sum()
}

fn working_session(run: &Run) -> Option<u32> {
    let working = |relay: &&Relay| matches!(relay.phase(), Phase::Running(_));
    run.relays().map(|(_, relay)| relay).find(working).map(|relay| relay.session().get())
}

/// The session of the attempt that the relay makes or would make next.
fn next_session(relay: &Relay) -> Option<SessionNumber> {
    match relay.phase() {
        Phase::Running(session) => Some(session.attempt.id.session),
        Phase::Waiting { next, .. }
        | Phase::Paused { next, .. }
        | Phase::Ended { next: Next::Attempt(next), .. } => Some(next.id.session),
        Phase::Planned
        | Phase::Preparing(_)
        | Phase::Reviewing { .. }
        | Phase::Ended { next: Next::Prepare | Next::Review(_), .. } => None,
    }
}

fn verified(marker: &Marker, relay: &Relay, check: &Check) -> Option<News> {
    let verification = relay.stage().verification.as_ref()?;
    if check.outcome == CheckOutcome::Cancelled {
        return None;
    }
    let news = CheckNews {
        command: verification.told_in_line(),
        result: check.outcome.clone(),
        duration: check.duration,
        last_line: check.tail.lines().rev().map(one_line).find(|line| !line.is_empty()),
    };
    Some(match relay.last().filter(|last| is_of_this_task(relay, last)) {
        Some(last) => News::Check {
            session: last.session.get(),
            check: news,
            veto: !check.passed() && claimed(marker, last),
        },
        // Another try has begun by that, and knows nothing of the last one's notes.
        None if relay.tally().sessions > 0 => {
            News::Check { session: relay.tally().sessions, check: news, veto: false }
        }
        None => News::FirstCheck { check: news, claim_needed: relay.stage().claim_needed },
    })
}

/// The session was over in this run, and worked on the task of now: else nothing was verified after it.
fn is_of_this_task(relay: &Relay, last: &LastSession) -> bool {
    relay.tally().sessions > 0 && !matches!(last.notes, Notes::Continuation { .. })
}

/// The session that is over had said that all is done.
fn claimed(marker: &Marker, last: &LastSession) -> bool {
    let Notes::Handoff { progress, .. } = &last.notes else { return false };
    let files = HandoffFiles { progress: FileText::Text(progress.clone()), ..HandoffFiles::default() };
    handoff::inspect(&files, marker).status == Some(Status::Complete)
}

fn paused(relay: &Relay) -> Option<News> {
    let Phase::Paused { next, .. } = relay.phase() else { return None };
    Some(News::Paused { session: next.id.session.get(), attempt: next.id.attempt.get() })
}
