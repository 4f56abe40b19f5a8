//! The end of a run: why, what it came to, the one command to type next.

use ekiden_core::outcome::Outcome;
use ekiden_core::plan::StageCounts;
use ekiden_core::relay::{Relay, Totals};
use ekiden_core::run::Run;
use ekiden_core::time::{Millis, Timestamp};
use ekiden_report::Timeline;
use ekiden_report::page::Text;
use jiff::tz::TimeZone;

use super::entry::Entry;
use super::json::fields;
use super::line::{Line, Tone};
use super::outcome::{self, Description};
use super::reporter::Reporter;
use super::{phrase, problems};
use crate::exit::Exit;

/// What a run came to.
struct Sums {
    totals: Totals,
    /// Time in which ekiden worked on it, waits included.
    worked: Millis,
    waited: Millis,
    /// Items of the last handoff that are done and open, if it lists them.
    items: Option<(usize, usize)>,
    /// What became of the stages of a plan.
    stages: Option<StageCounts>,
    /// Changed and untracked files, if git knows.
    files_changed: Option<usize>,
    facts: usize,
}

impl Reporter {
    pub(super) fn run_ended(&mut self, run: &Run, outcome: &Outcome) -> Entry {
        let timeline = self.timeline();
        let worked = timeline.map_or(Millis(0), |timeline| timeline.worked);
        let sums = Sums::of(run, worked);
        let sessions_max: u32 = relays(run).map(|relay| relay.stage.sessions_max).sum();
        Entry::new("run_ended")
            .fields(fields! {
                "outcome": outcome,
                "exit_code": Exit::of(outcome).code(),
                "sessions": sums.totals.sessions,
                "session_max": run.session_max(),
                "sessions_max": sessions_max,
                "duration_ms": sums.worked,
                "waiting_ms": sums.waited,
                "cost_micro_usd": sums.totals.spend.micro_usd,
                "estimated": sums.totals.spend.estimated,
                "subscription": sums.totals.subscription,
                "tokens": sums.totals.spend.tokens,
                "items_open": sums.items.map(|(_, open)| open),
                "items_done": sums.items.map(|(done, _)| done),
            })
            .fields(sums.stages.map(|stages| fields! { "stages": stages }))
            .fields(fields! { "facts": sums.facts })
            .fields(timeline.and_then(problems::json))
            .fields(fields! { "files_changed": sums.files_changed })
            .fields(
                self.report
                    .as_ref()
                    .map(|report| fields! { "report": report }),
            )
            .lines(self.end_lines(run, outcome, &sums))
    }

    fn end_lines(&self, run: &Run, outcome: &Outcome, sums: &Sums) -> Vec<Line> {
        let id = self.id(run);
        let ending = Ending::of(&Ended {
            outcome,
            run,
            at: self.at,
            worked: sums.worked,
            has_commits: self.timeline().is_some_and(Timeline::has_commits),
            id: &id,
            which: "",
            zone: &self.zone,
        });
        let (label, next) = if outcome.is_complete() {
            ("next       ".to_owned(), ending.command)
        } else if Exit::of(outcome) == Exit::Blocked {
            let next = ending.command;
            let next = format!("{next} 'TEXT'     or: {next}   (opens your editor)");
            ("answer     ".to_owned(), next)
        } else {
            (format!("to continue{}:  ", ending.once), ending.command)
        };
        let mut lines = vec![
            Line::default(),
            Line::new(ending.tone, ending.head.plain()).with(Tone::Plain, sums.text(outcome)),
        ];
        let details = ending.details.into_iter();
        lines.extend(details.map(|text| Line::new(Tone::Plain, text)));
        lines.extend(self.timeline().and_then(problems::line));
        if sums.facts > 0 {
            let facts = phrase::count(sums.facts as u64, "fact");
            let text = format!("knowledge  {facts} in .ekiden/KNOWLEDGE.md");
            lines.push(Line::new(Tone::Quiet, text));
        }
        if let Some(report) = &self.report {
            let text = format!("report     {}", phrase::path(report));
            lines.push(Line::new(Tone::Quiet, text));
        }
        if outcome.is_complete() || !outcome.is_final() {
            lines.push(Line::new(Tone::Quiet, label).with(Tone::Plain, next));
        }
        lines
    }
}

/// A run that ended, and what is known of it.
pub struct Ended<'a> {
    pub outcome: &'a Outcome,
    pub run: &'a Run,
    pub at: Timestamp,
    /// Time in which ekiden worked on it.
    pub worked: Millis,
    /// A commit was made while it worked.
    pub has_commits: bool,
    /// Its id, as short as it can be.
    pub id: &'a str,
    /// By what the command that continues it names it, behind a blank; nothing where it is the newest.
    pub which: &'a str,
    pub zone: &'a TimeZone,
}

/// How a run ended, for people.
pub struct Ending {
    pub tone: Tone,
    /// Why, with the exit code where that is not 0.
    pub head: Text,
    /// What a person needs to know before they can do something about it, a line each.
    pub details: Vec<String>,
    /// When it makes sense to continue, after "to continue".
    pub once: &'static str,
    /// The command to type next.
    pub command: String,
}

impl Ending {
    pub fn of(ended: &Ended<'_>) -> Self {
        let (outcome, run) = (ended.outcome, ended.run);
        let sums = Sums::of(run, ended.worked);
        let (tone, word) = outcome::word(outcome);
        let said = Description::of(outcome, ended.at, ended.zone);
        let why = special_why(outcome, run, &sums).map_or(said.why, Text::own);
        let head = match outcome.is_complete() {
            true => why,
            false => Text::own(format!("{word} ({}): ", Exit::of(outcome).code())).joined(why),
        };
        let command = if !outcome.is_complete() {
            outcome::resume_command(outcome, run, ended.at, ended.which)
        } else if let Outcome::Undelivered { command, .. } = outcome {
            command.clone()
        } else if sums.files_changed.unwrap_or(0) > 0 {
            "git status".to_owned()
        } else if ended.has_commits {
            "git log --stat".to_owned()
        } else {
            format!("ekiden log {}", ended.id)
        };
        Self {
            tone,
            head,
            details: said.details,
            once: said.once,
            command,
        }
    }
}

impl Sums {
    fn of(run: &Run, worked: Millis) -> Self {
        let totals = run.totals();
        let is_plan = run.header().manifest.plan.is_some();
        let items = relays(run).find_map(|relay| relay.last.as_ref()?.open_items.as_ref());
        // A fleet's worker commits what its stage left once that has ended.
        let header = run.header();
        let survey = relays(run)
            .filter(|_| header.place.git && header.fleet.is_none())
            .find_map(|relay| relay.seen.survey.as_ref());
        Self {
            totals,
            worked,
            waited: totals.waiting.min(worked),
            items: items.map(|items| (items.done.len(), items.open.len())),
            stages: is_plan.then(|| run.plan().counts()),
            files_changed: survey.map(|survey| survey.status.len()),
            facts: if is_plan {
                run.shared_knowledge().core.len()
            } else {
                relays(run).map(|relay| relay.knowledge.core.len()).sum()
            },
        }
    }

    /// Nothing is said of what is not known.
    fn text(&self, outcome: &Outcome) -> String {
        let totals = &self.totals;
        let mut parts = Vec::new();
        if *outcome != Outcome::SessionLimit {
            parts.push(phrase::count(totals.sessions.into(), "session"));
        }
        let waited = match self.waited.as_secs() {
            0 => String::new(),
            _ => format!(", of which {} waiting", phrase::duration(self.waited)),
        };
        parts.push(format!("{}{waited}", phrase::duration(self.worked)));
        if totals.spend.micro_usd > 0 {
            let (cost, estimated) = (totals.spend.micro_usd, totals.spend.estimated);
            parts.push(phrase::cost(cost, estimated, totals.subscription));
        }
        parts.extend(self.stages.and_then(stages));
        if let (Some((done, open @ 1..)), None) = (self.items, self.stages) {
            parts.push(format!("{done} of {} items done", done + open));
        }
        if let Some(files @ 1..) = self.files_changed {
            parts.push(format!("{} not committed", phrase::files(files)));
        }
        parts.iter().map(|part| format!(" · {part}")).collect()
    }
}

/// Why the run ended, where that takes a look at the run.
fn special_why(outcome: &Outcome, run: &Run, sums: &Sums) -> Option<String> {
    if let Outcome::Undelivered { verified, .. } = outcome {
        let complete = Outcome::Complete {
            verified: *verified,
        };
        let why = special_why(&complete, run, sums)?;
        return Some(format!(
            "{why}, not delivered ({})",
            Exit::Undelivered.code()
        ));
    }
    if let Outcome::Complete { verified } = outcome {
        return Some(match (verified, sums.stages) {
            (true, _) => "verified complete".to_owned(),
            (false, Some(StageCounts { done: 0, .. })) => {
                "complete: there was nothing to do".to_owned()
            }
            (false, None | Some(StageCounts { verified: 0, .. })) => {
                "complete (not verified)".to_owned()
            }
            (false, Some(StageCounts { done, verified, .. })) => {
                let done = phrase::count(done as u64, "stage");
                format!("complete ({verified} of {done} verified)")
            }
        });
    }
    if *outcome == Outcome::SessionLimit {
        let from = run.header().from.as_ref();
        let before = from.map_or(0, |from| from.last.session.get());
        let (used, max) = (sums.totals.sessions, run.session_max() - before);
        let text = format!("session limit reached after {used} of {max} sessions");
        return Some(text);
    }
    let is_question = matches!(outcome, Outcome::Blocked { .. }) && sums.stages.is_none();
    let asking = relays(run).next().filter(|_| is_question)?;
    Some(format!("session {} needs your input", asking.session()))
}

/// What became of the stages, unless all are done.
fn stages(counts: StageCounts) -> Option<String> {
    let all = phrase::count(counts.all as u64, "stage");
    let mut text = format!("{} of {all} done", counts.done);
    for (count, what) in [(counts.skipped, "skipped"), (counts.left_out, "left out")] {
        if count > 0 {
            text.push_str(&format!(", {count} {what}"));
        }
    }
    (counts.done < counts.all).then_some(text)
}

fn relays(run: &Run) -> impl Iterator<Item = &Relay> {
    run.relays().map(|(_, relay)| relay)
}
