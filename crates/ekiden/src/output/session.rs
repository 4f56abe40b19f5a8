//! The entries of a session: how its attempts go and end.

use ekiden_core::budget::{Crossing, Mark, Measure};
use ekiden_core::ends::{EndCause, EndClass};
use ekiden_core::event::{AttemptEnded, AttemptEvent, RelayEvent, TaskOutcome};
use ekiden_core::guard::{Level, Window};
use ekiden_core::handoff::Fault;
use ekiden_core::ids::{AttemptId, StageId};
use ekiden_core::limits;
use ekiden_core::outcome::Outcome;
use ekiden_core::prompt::Finding;
use ekiden_core::relay::{HANDOFF_DIR, ITEMS_FILE, Purpose, Relay};
use ekiden_core::run::Run;

use ekiden_report::timeline::cautions;
pub use ekiden_report::timeline::{AttemptEnd, Left};

use super::entry::Entry;
use super::handed_off::{handoff_entry, rescue_line};
use super::json::fields;
use super::line::{Line, Tone, one_line};
use super::reporter::Reporter;
use super::steering::asked;
use super::{outcome, phrase};

impl Reporter {
    pub(super) fn of_relay(
        &mut self,
        stage: &StageId,
        run: &Run,
        relay: &Relay,
        event: &RelayEvent,
    ) {
        let entry = match event {
            RelayEvent::Attempt { attempt, event } => {
                if let AttemptEvent::Ended(ended) = event {
                    return self.attempt_ended(stage, run, relay, *attempt, ended);
                }
                self.of_attempt(stage, relay, attempt.session.get(), event)
            }
            RelayEvent::Task { outcome, .. } => match outcome {
                // It was cancelled because somebody wanted the run to stop.
                TaskOutcome::Surveyed { survey: Err(_) }
                    if matches!(relay.outcome(), Some(Outcome::Stopped { .. })) =>
                {
                    None
                }
                TaskOutcome::Surveyed { survey: Err(error) } => {
                    let error = one_line(error);
                    let line = Line::attention(format!("cannot look at the work tree: {error}"));
                    let entry = Entry::new("survey_failed").fields(fields! { "error": error });
                    Some(entry.line(line))
                }
                TaskOutcome::Committed { commit } => self.committed(stage, relay, commit),
                TaskOutcome::Verified { check } => self.verified(stage, relay, check),
                TaskOutcome::Surveyed { survey: Ok(_) }
                | TaskOutcome::Published
                | TaskOutcome::Archived => None,
            },
            RelayEvent::KnowledgeEdited { .. } => {
                let facts = relay.knowledge.core.len();
                let count = phrase::count(facts as u64, "fact");
                let text = format!("after your edit, KNOWLEDGE.md has {count}");
                let entry = Entry::new("knowledge_edited").fields(fields! { "facts": facts });
                Some(entry.line(Line::new(Tone::Quiet, text)))
            }
            RelayEvent::ListEdited { items } => {
                let (done, open) = items.counts();
                let text = format!(
                    "after your edit, {ITEMS_FILE} has {open} open of {}",
                    done + open
                );
                let entry =
                    Entry::new("list_edited").fields(fields! { "done": done, "open": open });
                Some(entry.line(Line::new(Tone::Quiet, text)))
            }
            RelayEvent::Woke => self.time_is_up(relay, run),
        };
        if let Some(entry) = entry {
            self.add_of(stage, entry);
        }
    }

    /// Why a session hands off although its context is not full. It includes the time of day: if the clock
    /// was set forward, only that explains why the time is up.
    fn time_is_up(&mut self, relay: &Relay, run: &Run) -> Option<Entry> {
        let attempt = relay.timed_out()?;
        if self.timed_out.replace(attempt) == Some(attempt) {
            return None;
        }
        let (session, clock) = (attempt.session.get(), self.clock(run));
        let timeout = relay.settings.bounds.session_timeout.unwrap_or_default();
        let length = phrase::duration(timeout);
        let grace = phrase::duration(limits::TIMEOUT_GRACE);
        let what = match relay.agent().kind.takes_messages() {
            true => asked(relay).to_owned(),
            false => format!("may finish within {grace}; then it is ended"),
        };
        let text = format!("time limit of {length} reached at {clock}; session {session} {what}");
        let entry = Entry::of_session("time_up", session).fields(fields! { "timeout_ms": timeout });
        Some(entry.line(Line::labelled("time", Tone::Quiet, text)))
    }

    fn of_attempt(
        &mut self,
        stage: &StageId,
        relay: &Relay,
        session: u32,
        event: &AttemptEvent,
    ) -> Option<Entry> {
        match event {
            AttemptEvent::WindowChanged { window, model } => {
                self.window(stage, relay, session, *window, model.as_ref())
            }
            AttemptEvent::LevelCrossed {
                level,
                usage_tokens,
                ..
            } => {
                let percent = self.percent(stage, *usage_tokens);
                let entry = Entry::of_session("level", session).fields(
                    fields! { "level": level, "usage_tokens": usage_tokens, "percent": percent },
                );
                let share = self.share(stage, relay, *usage_tokens);
                let is_forced = *level == Level::L3 && relay.purpose() == Purpose::Work;
                Some(entry.lines(is_forced.then(|| forced_line(*usage_tokens, share))))
            }
            AttemptEvent::BaselineMeasured {
                level,
                usage_tokens,
                filled_by,
            } => {
                let percent = self.percent(stage, *usage_tokens);
                let entry = Entry::of_session("window_full", session).fields(fields! {
                    "level": level,
                    "usage_tokens": usage_tokens,
                    "percent": percent,
                    "filled_by": filled_by,
                });
                // Every session begins the same way; people see it once.
                let is_new = *level > self.filled;
                self.filled = self.filled.max(*level);
                let share = self.share(stage, relay, *usage_tokens);
                let line = window_full(*usage_tokens, share, filled_by);
                Some(entry.lines(is_new.then_some(line)))
            }
            AttemptEvent::SpendCrossed { crossing } => Some(spend_entry(relay, session, crossing)),
            AttemptEvent::Compacted { usage_tokens } => {
                let at = match usage_tokens {
                    0 => String::new(),
                    tokens => format!(" at {}", phrase::tokens(*tokens)),
                };
                let text =
                    format!("the agent compacted its context{at}: the handoff came too late");
                let entry = Entry::of_session("compacted", session)
                    .fields(fields! { "usage_tokens": usage_tokens });
                Some(entry.line(Line::attention(text)))
            }
            AttemptEvent::Ended(_)
            | AttemptEvent::Started { .. }
            | AttemptEvent::Answered { .. }
            | AttemptEvent::MessageDelivered
            | AttemptEvent::StopAsked { .. }
            | AttemptEvent::TurnEnded { .. }
            | AttemptEvent::RefusalsSpent => None,
        }
    }

    /// `61% of 200k usable (context.cap_tokens)`.
    fn share(&self, stage: &StageId, relay: &Relay, usage_tokens: u64) -> Option<String> {
        let (window, _) = self.windows.get(stage)?;
        let percent = self.percent(stage, usage_tokens)?;
        Some(format!("{percent}% of {}", usable(*window, relay)))
    }

    fn window(
        &mut self,
        stage: &StageId,
        relay: &Relay,
        session: u32,
        window: Window,
        model: Option<&String>,
    ) -> Option<Entry> {
        let now = (window, model.cloned());
        if self.windows.insert(stage.clone(), now.clone()) == Some(now) {
            return None;
        }
        let handoff = window.handoff_tokens(relay.settings.levels);
        let model = model.map(|model| one_line(model));
        let of_model = model.as_ref();
        let of_model = of_model.map_or(String::new(), |model| format!(" ({model})"));
        let (size, at) = (phrase::tokens(window.model_tokens), phrase::tokens(handoff));
        let usable = match window.usable_tokens() == window.model_tokens {
            true => String::new(),
            false => format!("{}, ", usable(window, relay)),
        };
        let text = format!("{size} tokens{of_model}, {usable}hands off at {at}");
        let entry = Entry::of_session("window", session).fields(fields! {
            "model": model,
            "window_tokens": window.model_tokens,
            "usable_tokens": window.usable_tokens(),
            "handoff_tokens": handoff,
        });
        Some(entry.line(Line::labelled("window", Tone::Quiet, text)))
    }

    fn attempt_ended(
        &mut self,
        stage: &StageId,
        run: &Run,
        relay: &Relay,
        attempt: AttemptId,
        ended: &AttemptEnded,
    ) {
        let end = AttemptEnd::of(relay, attempt.session, ended);
        let (session, counters) = (attempt.session.get(), &ended.counters);
        let cautions = cautions(ended);
        let percent = self.percent(stage, counters.usage_tokens);
        let tool_calls = self
            .timeline
            .as_ref()
            .is_some_and(|timeline| timeline.is_heard(stage, attempt))
            .then_some(counters.tool_calls);
        let entry = Entry::of_session("attempt_ended", session).fields(fields! {
            "attempt": attempt.attempt,
            "left": end.left,
            "cause": ended.cause,
            "duration_ms": counters.duration,
            "usage_tokens": counters.usage_tokens,
            "percent": percent,
            "tool_calls": tool_calls,
            "cost_micro_usd": counters.spend.micro_usd,
            "estimated": counters.spend.estimated,
            "subscription": counters.subscription,
            "tokens": counters.spend.tokens,
            "turns": tool_calls.map(|_| counters.turns),
            "touched": ended.touched,
            "misplaced": ended.misplaced,
            "cautions": cautions,
            "malformed_lines": counters.malformed_lines,
            "goes_on": end.goes_on,
        });
        let beyond = percent.filter(|percent| *percent > 100);
        let window = self.windows.get(stage);
        let beyond = beyond.and(window.map(|(window, _)| usable(*window, relay)));
        let mut line = end_line(relay.purpose(), end.left, ended, percent, tool_calls);
        if let Some(usable) = beyond {
            line = line.with(Tone::Plain, format!(" · more than the {usable}"));
        }
        // If nobody takes over from it, the wait or the end of the run says so.
        let is_out = matches!(ended.cause.class(), EndClass::Wait | EndClass::Stop(_));
        if is_out && relay.one_of_several().is_some() {
            line = line.with(
                Tone::Attention,
                format!(" · {}", one_line(&ended.cause.to_string())),
            );
        }
        self.add_of(stage, entry.line(line).lines(oddities(ended, cautions)));
        self.agent_budgets(run);
        if let Some(findings) = relay.found() {
            self.add_of(stage, findings_entry(session, findings));
            return;
        }
        match &end.handoff {
            Ok(handoff) => self.add_of(stage, handoff_entry(relay, session, handoff)),
            Err(rest) if end.is_rescued => {
                let faults: Vec<String> = rest.faults.iter().map(Fault::name).collect();
                let entry = Entry::of_session("rescue", session).fields(fields! {
                    "cause": ended.cause,
                    "faults": faults,
                });
                self.add_of(stage, entry.line(rescue_line(session, &ended.cause, rest)));
            }
            Err(_) => {}
        }
    }

    /// Reports once each agent that has no budget left for another session.
    fn agent_budgets(&mut self, run: &Run) {
        for agent in run.agent_budgets() {
            let is_known = self.spent_agents.contains(&agent.agent);
            match agent.is_spent {
                true if !is_known => {
                    self.spent_agents.insert(agent.agent.clone());
                    let line = Line::attention(outcome::agent_spent(&agent));
                    self.add(Entry::new("agent_budget_spent").fields(agent).line(line));
                }
                true => {}
                false => drop(self.spent_agents.remove(&agent.agent)),
            }
        }
    }
}

/// A reviewer's own text.
fn findings_entry(session: u32, findings: &[Finding]) -> Entry {
    let line = |finding: &Finding| {
        let text = format!(
            "{}: {}",
            one_line(&finding.place),
            one_line(&finding.reason)
        );
        Line::labelled("finding", Tone::Plain, text)
    };
    Entry::of_session("review", session)
        .fields(fields! { "findings": findings })
        .lines(findings.iter().map(line))
}

/// A session's spending reached a mark.
fn spend_entry(relay: &Relay, session: u32, crossing: &Crossing) -> Entry {
    let spend = crossing.spend;
    let (what, label) = match crossing.measure {
        Measure::Money => (
            phrase::cost(spend.micro_usd, spend.estimated, relay.totals.subscription),
            "budget",
        ),
        Measure::Tokens => (format!("{} tokens", phrase::tokens(spend.tokens)), "budget"),
        Measure::Turns => (phrase::count(crossing.turns.into(), "turn"), "turns"),
    };
    let line = match crossing.mark {
        Mark::Nearly => {
            let text = format!("{what} used; session {session} {}", asked(relay));
            Line::labelled(label, Tone::Quiet, text)
        }
        Mark::Spent => Line::attention(format!(
            "session {session} has used all it may ({what}); its turn is ended"
        )),
        Mark::Beyond => Line::attention(format!(
            "session {session} continued after that ({what}); it is ended"
        )),
    };
    let entry = Entry::of_session("spend", session).fields(fields! {
        "mark": crossing.mark,
        "measure": crossing.measure,
        "cost_micro_usd": spend.micro_usd,
        "estimated": spend.estimated,
        "tokens": spend.tokens,
        "turns": crossing.turns,
    });
    entry.line(line)
}

/// `200k usable (context.cap_tokens)`: the whole of every percentage, and what sets it.
fn usable(window: Window, relay: &Relay) -> String {
    let usable = window.usable_tokens();
    let of_stage = relay.stage.part.session_tokens;
    let of_stage = of_stage.map(|tokens| relay.settings.levels.cap_for_handoff(tokens));
    let by = if window.cap_tokens != Some(usable) {
        ""
    } else if of_stage == Some(usable) {
        " (session_tokens of the stage)"
    } else {
        " (context.cap_tokens)"
    };
    format!("{} usable{by}", phrase::tokens(usable))
}

/// The line for a window that is full before the work begins.
fn window_full(usage_tokens: u64, share: Option<String>, by: &[(String, u64)]) -> Line {
    let tokens = phrase::tokens(usage_tokens);
    let part = share.map_or(String::new(), |share| format!("{share}, "));
    let by = match outcome::filled_by(by) {
        by if by.is_empty() => by,
        by => format!(": {by}"),
    };
    Line::attention(format!(
        "the first response already takes {part}{tokens} tokens{by}"
    ))
}

fn end_line(
    purpose: Purpose,
    left: Left,
    ended: &AttemptEnded,
    percent: Option<u64>,
    tool_calls: Option<u32>,
) -> Line {
    if left == Left::Nothing && matches!(ended.cause, EndCause::LimitKnown { .. }) {
        let text = format!("not started: {}", ended.cause);
        return Line::labelled("ended", Tone::Plain, text);
    }
    let counters = &ended.counters;
    let (without, ended_without) = match purpose {
        Purpose::Work if ended.files.begun() => {
            ("without a valid handoff", "ended without a valid handoff")
        }
        Purpose::Work => ("without a handoff", "ended without a handoff"),
        Purpose::Review => ("without a verdict", "ended without a verdict"),
    };
    let (tone, what) = match (left, &ended.cause) {
        (Left::Handoff, _) => (Tone::Plain, "handed off"),
        (Left::Completion, _) => (Tone::Plain, "says all is done"),
        (Left::Question, _) => (Tone::Attention, "needs your input"),
        (Left::Passed, _) => (Tone::Plain, "review passed"),
        (Left::Findings, _) => (Tone::Attention, "review found faults"),
        (Left::Nothing, EndCause::Stopped | EndCause::Interrupted) => (Tone::Plain, "stopped"),
        (Left::Nothing, EndCause::RateLimited { .. } | EndCause::Overloaded) => {
            (Tone::Plain, "interrupted")
        }
        // The label says "ended" if it has no figures to show.
        (Left::Nothing, _) if counters.usage_tokens == 0 => (Tone::Failed, without),
        (Left::Nothing, _) => (Tone::Failed, ended_without),
    };
    let mut figures = format!(" after {}", phrase::duration(counters.duration));
    if let Some(calls) = tool_calls {
        let calls = phrase::count(calls.into(), "tool call");
        figures.push_str(&format!(" · {calls}"));
    }
    if counters.spend.micro_usd > 0 {
        let (cost, subscription) = (counters.spend.micro_usd, counters.subscription);
        let cost = phrase::cost(cost, counters.spend.estimated, subscription);
        figures.push_str(&format!(" · {cost}"));
    }
    let label = match counters.usage_tokens {
        0 => "ended".to_owned(),
        tokens => phrase::usage(tokens, percent),
    };
    Line::labelled(&label, tone, what).with(Tone::Plain, figures)
}

/// What should not have happened in an attempt.
fn oddities(ended: &AttemptEnded, cautions: Vec<String>) -> Vec<Line> {
    let names = |files: &[String]| (!files.is_empty()).then(|| one_line(&files.join(", ")));
    let touched = names(&ended.touched)
        .map(|files| format!("the agent changed {files}; the change is not used"));
    let misplaced = names(&ended.misplaced).map(|files| {
        format!("the agent wrote {files} beside {HANDOFF_DIR}, not into it; it is used anyway")
    });
    let notes = touched.into_iter().chain(misplaced).chain(cautions);
    let mut lines: Vec<Line> = notes.map(Line::attention).collect();
    if ended.counters.malformed_lines > 0 {
        let lost = phrase::count(ended.counters.malformed_lines.into(), "line");
        let text = format!("{lost} from the agent could not be read");
        lines.push(Line::labelled("note", Tone::Quiet, text));
    }
    lines
}

/// The line of L3. Lower levels have none: the line that ends the session says how full its context was.
fn forced_line(usage_tokens: u64, share: Option<String>) -> Line {
    let share = share.map_or(String::new(), |share| format!(", {share}"));
    let usage = phrase::tokens(usage_tokens);
    let text = format!("at {usage}{share}: only the handoff may still be written");
    Line::labelled("context", Tone::Quiet, text)
}
