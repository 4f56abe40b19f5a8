//! The end of a run: why, with what result, and the one command to type next.

use ekiden_core::outcome::Outcome;
use ekiden_core::plan::StageCounts;
use ekiden_core::relay::Relay;
use ekiden_core::run::Run;
use ekiden_report::Timeline;
use ekiden_report::page::Text;
use jiff::tz::TimeZone;

use super::entry::Entry;
use super::json::fields;
use super::line::{Line, Tone};
use super::outcome::{self, Description};
use super::reporter::Reporter;
use super::shown_work_dir::ShownWorkDir;
use super::{phrase, problems};
use crate::exit::Exit;

impl Reporter {
    pub(super) fn run_ended(&mut self, run: &Run, outcome: &Outcome) {
        self.settled(run);
        let Some(timeline) = &self.timeline else {
            return;
        };
        let (id, standing) = (self.id(run), &timeline.standing);
        let which = phrase::which(&run.header().run, &self.ids);
        let ended = Ended {
            outcome,
            run,
            timeline,
            id: &id,
            which: &which,
            there: &self.there,
            zone: &self.zone,
        };
        let (totals, items) = (standing.totals, ended.items());
        let ending = Ending::of(&ended);
        let has_next = outcome.is_complete() || !outcome.is_final();
        let next = has_next.then(|| ending.command.clone());
        let entry = Entry::new("run_ended")
            .fields(fields! {
                "outcome": outcome,
                "exit_code": Exit::of(outcome).code(),
                "sessions": totals.sessions,
                "session_max": run.session_max(),
                "sessions_max": standing.sessions_max,
                "duration_ms": timeline.worked,
                "waiting_ms": timeline.waited,
                "cost_micro_usd": totals.spend.micro_usd,
                "estimated": totals.spend.estimated,
                "subscription": totals.subscription,
                "tokens": totals.spend.tokens,
                "items_open": items.map(|(_, open)| open),
                "items_done": items.map(|(done, _)| done),
            })
            .fields(ended.stages().map(|stages| fields! { "stages": stages }))
            .fields(fields! { "facts": standing.facts.len() })
            .fields(problems::json(timeline, None))
            .fields(fields! { "files_changed": standing.files_open })
            .fields(
                self.report
                    .as_ref()
                    .map(|report| fields! { "report": report }),
            )
            .fields(next.map(|next| fields! { "next_command": next }))
            .lines(self.end_lines(&ended, ending));
        self.add(entry);
    }

    fn end_lines(&self, ended: &Ended<'_>, ending: Ending) -> Vec<Line> {
        let outcome = ended.outcome;
        let (label, next) = if outcome.is_complete() {
            ("next       ".to_owned(), ending.command)
        } else if Exit::of(outcome) == Exit::Blocked {
            let next = ending.command;
            let next = format!("{next} 'TEXT'     or: {next}   (opens your editor)");
            ("answer     ".to_owned(), next)
        } else {
            (
                format!("to continue{}:  ", ending.said.once),
                ending.command,
            )
        };
        let mut lines = vec![
            Line::default(),
            Line::new(ending.tone, ending.head.plain()).with(Tone::Plain, ended.sums()),
        ];
        let details = ending.said.questions.into_iter().chain(ending.said.details);
        lines.extend(details.map(|text| Line::new(Tone::Plain, text)));
        lines.extend(problems::line(ended.timeline, None));
        let facts = ended.timeline.standing.facts.len() as u64;
        if facts > 0 {
            let facts = phrase::count(facts, "fact");
            let file = self.there.published("KNOWLEDGE.md");
            let text = format!("knowledge  {facts} in {file}");
            lines.push(Line::new(Tone::Quiet, text));
        }
        if let Some(report) = &self.report {
            let text = format!("report     {}", phrase::path(report));
            lines.push(Line::new(Tone::Quiet, text));
        }
        if outcome.is_complete() || !outcome.is_final() {
            let line = Line::new(Tone::Quiet, label).with(Tone::Plain, next);
            lines.push(line.whole());
        }
        lines
    }
}

/// A run that ended, and what we know about it.
pub struct Ended<'a> {
    pub outcome: &'a Outcome,
    pub run: &'a Run,
    /// Settled when the run is.
    pub timeline: &'a Timeline,
    /// Its id, as short as possible.
    pub id: &'a str,
    /// How the command that continues it names it, after a blank; empty if it is the newest.
    pub which: &'a str,
    pub there: &'a ShownWorkDir,
    pub zone: &'a TimeZone,
}

/// How a run ended, for people.
pub struct Ending {
    pub tone: Tone,
    /// Why, with the exit code if that is not 0.
    pub head: Text,
    pub said: Description,
    /// The command to type next.
    pub command: String,
}

impl Ending {
    pub fn of(ended: &Ended<'_>) -> Self {
        let (outcome, timeline, there) = (ended.outcome, ended.timeline, ended.there);
        let at = timeline.ended.unwrap_or(timeline.last);
        let (tone, word) = outcome::word(outcome);
        let said = Description::of(outcome, ended.run, at, ended.zone, ended.there);
        let why = ended
            .special_why(outcome)
            .map_or_else(|| said.why.clone(), Text::own);
        let ran = timeline
            .stages
            .iter()
            .any(|stage| !stage.sessions.is_empty());
        let is_import = ended.run.header().imported.is_some() && !ran;
        let is_stopped = matches!(outcome, Outcome::Stopped { .. });
        let head = match (outcome.is_complete(), is_import && is_stopped) {
            (true, _) => why,
            (false, true) => Text::own("imported; nothing has run yet"),
            (false, false) => {
                Text::own(format!("{word} ({}): ", Exit::of(outcome).code())).joined(why)
            }
        };
        let command = if !outcome.is_complete() {
            let which = format!("{}{}", ended.which, there.flag());
            outcome::resume_command(outcome, ended.run, at, &which)
        } else if let Outcome::Undelivered { command, .. } = outcome {
            there.command(command)
        } else if timeline.standing.files_open.unwrap_or(0) > 0 {
            there.git("status")
        } else if timeline.has_commits() {
            there.git("log --stat")
        } else {
            format!("ekiden log {}{}", ended.id, there.flag())
        };
        Self {
            tone,
            head,
            said,
            command,
        }
    }
}

impl Ended<'_> {
    /// Done and open items of the last handoff, if it lists them; in a plan those of all stages together.
    fn items(&self) -> Option<(usize, usize)> {
        let lists = relays(self.run).filter_map(Relay::open_items);
        lists
            .map(|items| (items.done.len(), items.open.len()))
            .reduce(|(done, open), (more, others)| (done + more, open + others))
    }

    /// What happened to the stages of a plan.
    fn stages(&self) -> Option<StageCounts> {
        let is_plan = self.timeline.is_plan;
        is_plan.then(|| self.run.plan().counts())
    }

    /// Omits what is unknown.
    fn sums(&self) -> String {
        let (worked, waited) = (self.timeline.worked, self.timeline.waited);
        let standing = &self.timeline.standing;
        let totals = &standing.totals;
        let mut parts = Vec::new();
        if *self.outcome != Outcome::SessionLimit {
            parts.push(phrase::count(self.timeline.begun(), "session"));
        }
        let waited = match waited.as_secs() {
            0 => String::new(),
            _ => format!(", of which {} waiting", phrase::duration(waited)),
        };
        parts.push(format!("{}{waited}", phrase::duration(worked)));
        if totals.spend.micro_usd > 0 {
            let (cost, estimated) = (totals.spend.micro_usd, totals.spend.estimated);
            parts.push(phrase::cost(cost, estimated, totals.subscription));
        }
        parts.extend(self.stages().and_then(stages));
        if let (Some((done, open @ 1..)), None) = (self.items(), self.stages()) {
            parts.push(format!("{done} of {} items done", done + open));
        }
        if let Some(files @ 1..) = standing.files_open {
            parts.push(format!("{} not committed", phrase::files(files)));
        }
        parts.iter().map(|part| format!(" · {part}")).collect()
    }

    /// Why the run ended, for reasons that need a look at the run.
    fn special_why(&self, outcome: &Outcome) -> Option<String> {
        if let Outcome::Undelivered { verified, .. } = outcome {
            let verified = *verified;
            let why = self.special_why(&Outcome::Complete { verified })?;
            return Some(format!(
                "{why}, not delivered ({})",
                Exit::Undelivered.code()
            ));
        }
        if let Outcome::Complete { verified } = outcome {
            return Some(match (verified, self.stages()) {
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
            let standing = &self.timeline.standing;
            let (used, max) = (standing.totals.sessions, standing.sessions_max);
            let text = format!("session limit reached after {used} of {max} sessions");
            return Some(text);
        }
        let is_question = matches!(outcome, Outcome::Blocked { .. }) && !self.timeline.is_plan;
        let asking = relays(self.run).next().filter(|_| is_question)?;
        Some(format!("session {} needs your input", asking.session()))
    }
}

/// What happened to the stages, unless all are done.
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
