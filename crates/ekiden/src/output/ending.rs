//! The last lines of a run: how it ended, what it came to, the one command to type next.

use ekiden_core::ends::{EndCause, EndClass};
use ekiden_core::event::StopRequest;
use ekiden_core::outcome::Outcome;
use ekiden_core::plan::StageTally;
use ekiden_core::time::Timestamp;

use super::bounds;
use super::line::{Line, Tone, one_line};
use super::lines::Telling;
use super::news::RunEnd;
use super::phrase;

/// The lines of a run's end.
#[must_use]
pub fn lines(telling: &Telling, at: Timestamp, end: &RunEnd) -> Vec<Line> {
    let (tone, what) = headline(telling, at, end);
    let mut lines = vec![Line::default(), Line::new(tone, what).with(Tone::Plain, sums(end))];
    if let Outcome::Blocked { question } = &end.outcome {
        lines.extend(question.lines().map(|line| Line::new(Tone::Plain, format!("  {}", one_line(line)))));
    }
    if let Outcome::WindowTooFull { filled_by, .. } = &end.outcome {
        lines.extend(bounds::window_remedy(filled_by));
    }
    if let Outcome::AgentFailed { cause } = &end.outcome {
        lines.extend(remedy(cause).map(|text| Line::new(Tone::Plain, format!("what to do:  {text}"))));
    }
    if let Outcome::Stuck { .. } | Outcome::Stalled { .. } = &end.outcome {
        let text = "`ekiden log` tells where it hangs; add --research if files need not change";
        lines.push(Line::new(Tone::Plain, format!("what to do:  {text}")));
    }
    if let Outcome::Denied { rules } = &end.outcome {
        let text =
            "what to do:  allow what the task needs: in permissions.allow of the agent's settings for good";
        lines.push(Line::new(Tone::Plain, text));
        let text = "             (.claude/settings.local.json), or for this run alone as below";
        lines.push(Line::new(Tone::Plain, text));
        lines.extend(rules.iter().map(|rule| Line::new(Tone::Plain, format!("  {}", one_line(rule)))));
    }
    if let Outcome::StagesFailed { failed, blocked } = &end.outcome {
        lines.extend(failed.iter().map(|one| {
            let text = format!("  {}  {}", one.stage, phrase::ended(&one.outcome));
            Line::new(Tone::Plain, text)
        }));
        if *blocked > 0 {
            let blocked = phrase::count(u64::from(*blocked), "other stage");
            lines.push(Line::new(Tone::Plain, format!("  {blocked} blocked by that")));
        }
    }
    lines.extend(end.trouble.line());
    if end.facts > 0 {
        let facts = phrase::count(end.facts as u64, "fact");
        lines.push(Line::new(Tone::Quiet, format!("knowledge  {facts} in .ekiden/KNOWLEDGE.md")));
    }
    lines.push(next(telling, at, end));
    lines
}

/// How it ended, in a few words.
fn headline(telling: &Telling, at: Timestamp, end: &RunEnd) -> (Tone, String) {
    let code = end.exit_code;
    match &end.outcome {
        Outcome::Complete { verified: true } => (Tone::Done, "verified complete".to_owned()),
        Outcome::Complete { verified: false } => (Tone::Done, unverified(end.stages)),
        Outcome::Blocked { .. } => (Tone::Attention, format!("blocked ({code}): a person is needed")),
        Outcome::SessionLimit => {
            let used =
                format!("session limit reached after {} of {}", end.sessions, end.session_max - end.before);
            (Tone::Attention, format!("stopped ({code}): {used} sessions"))
        }
        Outcome::Stopped { request: StopRequest::Gently } => {
            (Tone::Attention, format!("stopped ({code}): as you asked"))
        }
        Outcome::Stopped { request: StopRequest::Now { .. } } => {
            (Tone::Attention, format!("stopped ({code}): at once, as you asked"))
        }
        Outcome::LimitTooFar { until } => {
            let until = phrase::future(*until, at, &telling.zone);
            let text = format!("the usage limit resets at {until}, later than --max-wait allows");
            (Tone::Attention, format!("stopped ({code}): {text}"))
        }
        Outcome::RateLimited { until } => {
            let until = phrase::future(*until, at, &telling.zone);
            (Tone::Attention, format!("stopped ({code}): a usage limit is reached, until {until}"))
        }
        Outcome::BudgetSpent { spent, budget } => {
            (Tone::Attention, format!("stopped ({code}): {}", bounds::budget_spent(*spent, *budget)))
        }
        Outcome::WindowTooFull { usage_tokens, .. } => {
            let tokens = phrase::tokens(*usage_tokens);
            let text = format!("the first response already took {tokens} tokens: there is no room to work");
            (Tone::Failed, format!("failed ({code}): {text}"))
        }
        Outcome::AgentFailed { cause } => {
            (Tone::Failed, format!("failed ({code}): {}", one_line(&cause.to_string())))
        }
        Outcome::Stuck { percent, .. } => {
            let text =
                format!("stuck: the handoffs repeat each other ({percent}% alike), and nothing changes");
            (Tone::Attention, format!("stopped ({code}): {text}"))
        }
        Outcome::Stalled { sessions } => {
            let text =
                format!("stalled: {} in a row changed nothing", phrase::count((*sessions).into(), "session"));
            (Tone::Attention, format!("stopped ({code}): {text}"))
        }
        Outcome::Denied { .. } => {
            let text = "the agent was refused what it needed, and nobody is there to be asked";
            (Tone::Failed, format!("failed ({code}): {text}"))
        }
        Outcome::NoGround { why } => {
            (Tone::Failed, format!("failed ({code}): no place to work: {}", one_line(why)))
        }
        Outcome::Unmerged { .. } | Outcome::NotMerged { .. } | Outcome::NotDone { .. } => {
            (Tone::Failed, format!("failed ({code}): {}", phrase::ended(&end.outcome)))
        }
        Outcome::StagesFailed { failed, .. } => {
            let failed = phrase::count(failed.len() as u64, "stage");
            (Tone::Failed, format!("failed ({code}): {failed} failed"))
        }
        Outcome::TooManyCrashes { cause } => {
            let cause = one_line(&cause.to_string());
            (Tone::Failed, format!("failed ({code}): too many sessions in a row crashed; at last {cause}"))
        }
    }
}

/// A run is complete, and not all of it is verified.
fn unverified(stages: Option<StageTally>) -> String {
    match stages {
        None => "complete, as the agent says; nothing verified it".to_owned(),
        Some(StageTally { done: 0, .. }) => "complete: there was nothing to do".to_owned(),
        Some(StageTally { verified: 0, .. }) => "complete, as the agents say; nothing verified it".to_owned(),
        Some(StageTally { done, verified, .. }) => {
            let rest = if done - verified == 1 {
                "the other as its agent says"
            } else {
                "the others as their agents say"
            };
            format!("complete; {verified} of {} verified, {rest}", phrase::count(done as u64, "stage"))
        }
    }
}

/// What became of the stages, unless all are done.
fn stages(tally: StageTally) -> Option<String> {
    let StageTally { all, done, skipped, left_out, .. } = tally;
    let mut text = format!("{done} of {} done", phrase::count(all as u64, "stage"));
    for (count, what) in [(skipped, "skipped"), (left_out, "left out")] {
        if count > 0 {
            text.push_str(&format!(", {count} {what}"));
        }
    }
    (done < all).then_some(text)
}

/// What the run came to. Nothing is said of what is not known.
fn sums(end: &RunEnd) -> String {
    let mut parts = Vec::new();
    if end.outcome != Outcome::SessionLimit {
        parts.push(phrase::count(u64::from(end.sessions), "session"));
    }
    let waited = match end.waiting.as_secs() {
        0 => String::new(),
        _ => format!(", of which {} waiting", phrase::duration(end.waiting)),
    };
    parts.push(format!("{}{waited}", phrase::duration(end.duration)));
    if end.cost_micro_usd > 0 {
        parts.push(phrase::cost(end.cost_micro_usd, end.estimated, end.subscription));
    }
    parts.extend(end.stages.and_then(stages));
    if let (Some(done), Some(open @ 1..), None) = (end.items_done, end.items_open, end.stages) {
        parts.push(format!("{done} of {} items done", done + open));
    }
    if let Some(files) = end.files_changed.filter(|files| *files > 0) {
        parts.push(format!("{} not committed", phrase::files(files)));
    }
    parts.iter().map(|part| format!(" · {part}")).collect()
}

/// The one command that a person would type next.
fn next(telling: &Telling, at: Timestamp, end: &RunEnd) -> Line {
    let (label, command) = match &end.outcome {
        Outcome::Complete { .. } if !telling.git => ("next", format!("ekiden log {}", telling.run)),
        Outcome::Complete { .. } if end.files_changed.unwrap_or(0) > 0 => ("next", "git status".to_owned()),
        Outcome::Complete { .. } => ("next", "git log --stat".to_owned()),
        Outcome::SessionLimit => ("to go on:", format!("ekiden resume -m {}", end.sessions_max)),
        Outcome::LimitTooFar { until } => {
            let hours = until.since(at).as_secs().div_ceil(3600);
            ("to go on:", format!("ekiden resume --max-wait {hours}h"))
        }
        Outcome::Denied { rules } => ("to go on:", format!("ekiden resume{}", allowing(rules))),
        Outcome::BudgetSpent { spent, budget } => ("to go on:", bounds::next_budget(*spent, *budget)),
        Outcome::RateLimited { .. } => ("to go on then:", "ekiden resume".to_owned()),
        Outcome::WindowTooFull { .. } => ("to go on after that:", "ekiden resume".to_owned()),
        Outcome::Blocked { .. } => ("to go on, once that is settled:", "ekiden resume".to_owned()),
        Outcome::Stuck { .. } | Outcome::Stalled { .. } => {
            ("to go on, once you know why:", "ekiden resume".to_owned())
        }
        Outcome::StagesFailed { .. }
        | Outcome::NoGround { .. }
        | Outcome::NotMerged { .. }
        | Outcome::Unmerged { .. }
        | Outcome::NotDone { .. } => ("to go on, once that is repaired:", "ekiden resume".to_owned()),
        Outcome::Stopped { .. } | Outcome::AgentFailed { .. } | Outcome::TooManyCrashes { .. } => {
            ("to go on:", "ekiden resume".to_owned())
        }
    };
    let label = if label == "next" { format!("{label:<11}") } else { format!("{label}  ") };
    Line::new(Tone::Quiet, label).with(Tone::Plain, command)
}

/// The flags that allow these rules, as a shell reads them.
fn allowing(rules: &[String]) -> String {
    let rules = rules.iter().map(|rule| one_line(rule));
    let flags = rules.filter_map(|rule| Some(format!(" --allowed-tool {}", shlex::try_quote(&rule).ok()?)));
    flags.collect()
}

fn remedy(cause: &EndCause) -> Option<String> {
    match cause.class() {
        EndClass::Stop(hint) => Some(hint.to_string()),
        EndClass::Fine | EndClass::Wait | EndClass::Retry | EndClass::Left | EndClass::TooLate => None,
    }
}
