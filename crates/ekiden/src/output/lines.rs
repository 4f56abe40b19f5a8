//! The story in lines for people: each says something that they would want to know, in the order in
//! which they would ask.
//!
//! A line under a session is indented; `!` marks what a person should look at. Levels below L3 are
//! not told: the line that ends the session says what its context came to.

use ekiden_core::effect::StartMode;
use ekiden_core::ends::EndCause;
use ekiden_core::event::{CheckOutcome, Commit, StopRequest};
use ekiden_core::guard::Level;
use ekiden_core::limits;
use ekiden_core::relay::HANDOFF_DIR;
use ekiden_core::time::Timestamp;
use jiff::tz::TimeZone;

use super::bounds;
use super::ending;
use super::judged;
use super::line::{Line, Tone, one_line};
use super::news::{AttemptNews, CheckNews, HandoffNews, Left, News, RunStart, WindowNews};
use super::phrase;
use super::stages::{self, PlanNews};
use super::steering;
use super::waits::Wait;

/// How much of a commit's id is shown.
const COMMIT_DIGITS: usize = 7;
/// Lines shown of what a refused commit's hooks said; the log keeps more.
const COMMIT_TAIL_SHOWN: usize = 5;

/// How the lines of one run are told.
#[derive(Debug, Clone)]
pub struct Telling {
    /// The run's id, as short as it can be.
    pub run: String,
    /// Where the reader is.
    pub zone: TimeZone,
    /// When the run was started: times of the same day do without the day.
    pub started: Timestamp,
    /// The work dir lies in a git repository.
    pub git: bool,
    /// The reader can type to the run.
    pub guided: bool,
}

impl Telling {
    /// The lines of one piece of news.
    #[must_use]
    pub fn lines(&self, at: Timestamp, news: &News) -> Vec<Line> {
        match news {
            News::RunStarted(start) => {
                std::iter::once(self.run_started(start)).chain(committing(start)).collect()
            }
            News::RunResumed { session_max, .. } => {
                let text = format!("run {} goes on · {}", self.run, self.clock(at));
                vec![
                    Line::new(Tone::Plain, text).with(Tone::Quiet, format!(" · up to session {session_max}")),
                ]
            }
            News::RunContinued { task, session_max, .. } => {
                let text = format!("run {} continues · {}", self.run, self.clock(at));
                let what = format!(" · up to session {session_max} · {task}");
                vec![Line::new(Tone::Plain, text).with(Tone::Quiet, what)]
            }
            News::TaskChanged { task } => {
                vec![Line::new(Tone::Plain, format!("the task is changed: {task}"))]
            }
            News::LogicChanged { seq } => {
                vec![Line::attention(format!("another version of ekiden decides from record {seq} on"))]
            }
            News::StopRequested { request, session } => vec![stop_requested(*request, *session)],
            News::PauseRequested { session } => vec![pause_requested(*session)],
            News::Paused { session, .. } if self.guided => held(*session),
            News::Paused { session, .. } => {
                let text = format!("paused before session {session}; `ekiden unpause` goes on");
                vec![Line::attention(text)]
            }
            News::Instructed { words, taken } => vec![steering::instructed_line(words, *taken)],
            News::LimitsChanged { changed, .. } => vec![steering::limits_line(changed)],
            News::Unpaused => vec![Line::new(Tone::Plain, format!("unpaused · {}", self.clock(at)))],
            News::FirstCheck { check, claim_needed } => vec![first_check(check, *claim_needed)],
            News::SessionStarted { session, attempt, conversation } => {
                vec![self.session_started(at, *session, *attempt, *conversation)]
            }
            News::Window(window) => vec![window_line(window)],
            News::Level { level, usage_tokens, percent, .. } => {
                level_line(*level, *usage_tokens, *percent).into_iter().collect()
            }
            // Every session begins with the same; it is told once.
            News::WindowFull(filled) if filled.known => Vec::new(),
            News::WindowFull(filled) => vec![bounds::window_full(filled)],
            News::Spend(spend) => vec![bounds::spend(spend)],
            News::Compacted { usage_tokens, .. } => vec![compacted(*usage_tokens)],
            News::AttemptEnded(attempt) => attempt_ended(attempt),
            News::Handoff(handoff) => handoff_lines(handoff),
            News::Rescue { session, cause } => vec![rescue(*session, cause)],
            News::Check { session, check, veto } => check_lines(*session, check, *veto),
            News::Judged(warning) => judged::lines(warning),
            News::Commit { session, result } => commit_lines(*session, result),
            News::SurveyFailed { error } => {
                vec![Line::attention(format!("cannot look at the work tree: {error}"))]
            }
            News::Waiting { until, why, cause, session, attempt } => {
                let next = (*session, *attempt);
                Wait { until: *until, why: *why, cause: cause.as_ref(), next }.lines(at, &self.zone)
            }
            News::KnowledgeEdited { facts } => {
                let facts = phrase::count(*facts as u64, "fact");
                vec![Line::new(Tone::Quiet, format!("your edit of KNOWLEDGE.md is taken over: {facts}"))]
            }
            News::Stage(news) => stages::lines(news),
            News::Delivered(delivery) => vec![stages::delivery(delivery)],
            News::RunEnded(end) => ending::lines(self, at, end),
            News::Warning { text } => vec![Line::attention(one_line(text))],
        }
    }

    fn run_started(&self, start: &RunStart) -> Line {
        let before = start.from.as_ref().map_or(0, |from| from.session);
        let length = match &start.plan {
            Some(plan) => plan_length(plan),
            None => {
                let sessions = u64::from(start.session_max.saturating_sub(before));
                format!("relay, at most {}", phrase::count(sessions, "session"))
            }
        };
        let from =
            start.from.as_ref().map(|from| format!(" · from session {} of {}", from.session, from.run));
        let agent = match &start.model {
            Some(model) => format!("{} ({})", start.agent, one_line(model)),
            None => start.agent.clone(),
        };
        let budget =
            bounds::budget(start.run_budget).map(|budget| format!(", at most {budget}")).unwrap_or_default();
        let hands_off = start.levels.map(|[_, at, _]| format!(", hands off at {at}%")).unwrap_or_default();
        Line::new(Tone::Plain, format!("run {}", self.run))
            .with(Tone::Quiet, format!(" · {length}{budget} · {agent}{hands_off} · {}", start.task))
            .with(Tone::Quiet, from.unwrap_or_default())
    }

    fn session_started(&self, at: Timestamp, session: u32, attempt: u32, conversation: StartMode) -> Line {
        let line = Line::new(Tone::Plain, format!("session {session}"))
            .with(Tone::Quiet, format!(" · {}", self.clock(at)));
        match (attempt, conversation) {
            (1, _) => line,
            (_, StartMode::Fresh) => line.with(Tone::Quiet, format!(" · attempt {attempt}")),
            (_, StartMode::Resume) => {
                line.with(Tone::Quiet, format!(" · attempt {attempt}, the same conversation"))
            }
        }
    }

    fn clock(&self, at: Timestamp) -> String {
        phrase::clock(at, self.started, &self.zone)
    }
}

fn plan_length(plan: &PlanNews) -> String {
    let stages = phrase::count(plan.stages as u64, "stage");
    match plan.worktrees {
        true => format!("plan, {stages}, at most {} at a time", plan.jobs),
        false => format!("plan, {stages}, one at a time in the work dir"),
    }
}

fn stop_requested(request: StopRequest, session: Option<u32>) -> Line {
    let text = match (request, session) {
        (StopRequest::Gently, Some(session)) => {
            let grace = phrase::duration(limits::STOP_GRACE);
            format!("session {session} is asked to hand off within {grace}; ctrl-c again stops at once")
        }
        (StopRequest::Gently, None) => "stopping".to_owned(),
        (StopRequest::Now { .. }, _) => "stopping at once".to_owned(),
    };
    Line::attention(text)
}

/// What a person can do about a run that they hold.
fn held(session: u32) -> Vec<Line> {
    let quiet = |text: &str| Line::new(Tone::Quiet, format!("    {text}"));
    vec![
        Line::attention(format!("held before session {session}: type what it shall know, a line each")),
        quiet("-m 20, --run-budget 5 and the like change limits (see `ekiden limits --help`)"),
        quiet("go begins the session; quit stops, and `ekiden resume` carries on"),
    ]
}

fn pause_requested(session: Option<u32>) -> Line {
    Line::attention(match session {
        Some(session) => format!("nothing begins after session {session}; `ekiden unpause` takes that back"),
        None => "nothing begins any more; `ekiden unpause` takes that back".to_owned(),
    })
}

fn first_check(check: &CheckNews, claim_needed: bool) -> Line {
    let command = one_line(&check.command);
    let then = "so the agent must say that all is done as well";
    match &check.result {
        CheckOutcome::Passed if claim_needed => {
            let text =
                format!("`{command}` passes before the work begins: it does not tell whether it is done");
            Line::attention(text)
        }
        CheckOutcome::Failed { .. } if claim_needed => {
            Line::new(Tone::Plain, format!("verification `{command}` fails now, as it should"))
        }
        CheckOutcome::Passed => {
            Line::new(Tone::Plain, format!("verification `{command}` passes already, {then}"))
        }
        CheckOutcome::Failed { .. } => Line::new(
            Tone::Plain,
            format!("verification `{command}` fails now, so a later pass ends the run"),
        ),
        CheckOutcome::Cancelled => Line::new(Tone::Plain, format!("verification `{command}` was cancelled")),
        CheckOutcome::TimedOut => {
            let length = phrase::duration(check.duration);
            Line::new(Tone::Plain, format!("verification `{command}` takes longer than {length} now, {then}"))
        }
        CheckOutcome::NotRun { error } => {
            let error = one_line(error);
            Line::new(Tone::Failed, format!("verification `{command}` cannot run: {error}"))
        }
    }
}

/// What becomes of the sessions' changes, where that is not left to the agent.
fn committing(start: &RunStart) -> Option<Line> {
    let on = start.branch.as_ref().map(|name| format!(" on `{}`", one_line(name))).unwrap_or_default();
    let text = match (start.left_alone, &start.branch) {
        (None, None) => return None,
        (None, Some(_)) => format!("works{on}"),
        (Some(0), _) => format!("commits after each session{on}"),
        (Some(files), _) => {
            let files = phrase::count(files as u64, "file");
            format!("commits after each session{on}; {files} with changes from before stay out of it")
        }
    };
    Some(Line::new(Tone::Quiet, text))
}

fn commit_lines(session: u32, commit: &Commit) -> Vec<Line> {
    let (line, left_out) = match commit {
        Commit::Made { id, files, left_out } => {
            let id = one_line(id).chars().take(COMMIT_DIGITS).collect::<String>();
            let files = phrase::count(u64::from(*files), "file");
            (Line::labelled("commit", Tone::Plain, format!("{id}, {files}")), left_out)
        }
        Commit::Nothing { left_out } => {
            (Line::labelled("commit", Tone::Quiet, "nothing to commit"), left_out)
        }
        Commit::Failed { error, tail } => return uncommitted(session, error, tail),
        Commit::Cancelled => return Vec::new(),
    };
    let names: Vec<String> = left_out.iter().map(|name| one_line(name)).collect();
    let told = (!names.is_empty()).then(|| {
        let text = format!("not committed, since they had changes before the run: {}", names.join(", "));
        Line::attention(text)
    });
    std::iter::once(line).chain(told).collect()
}

fn uncommitted(session: u32, error: &str, tail: &str) -> Vec<Line> {
    let line = Line::attention(format!("session {session} is not committed: {}", one_line(error)));
    let said: Vec<String> = tail.lines().map(one_line).filter(|said| !said.is_empty()).collect();
    let last = said[said.len().saturating_sub(COMMIT_TAIL_SHOWN)..].iter();
    std::iter::once(line).chain(last.map(|said| Line::new(Tone::Quiet, format!("    {said}")))).collect()
}

fn window_line(window: &WindowNews) -> Line {
    let model = window.model.as_ref().map(|model| format!(" ({model})")).unwrap_or_default();
    let (size, handoff) = (phrase::tokens(window.window_tokens), phrase::tokens(window.handoff_tokens));
    Line::labelled("window", Tone::Quiet, format!("{size} tokens{model}, hands off at {handoff}"))
}

fn level_line(level: Level, usage_tokens: u64, percent: Option<u64>) -> Option<Line> {
    match level {
        Level::L0 | Level::L1 | Level::L2 => None,
        Level::L3 => {
            let use_of = usage(usage_tokens, percent);
            let text = format!("at {use_of}: only the handoff may still be written");
            Some(Line::labelled("context", Tone::Quiet, text))
        }
    }
}

fn compacted(usage_tokens: u64) -> Line {
    let at = match usage_tokens {
        0 => String::new(),
        tokens => format!(" at {}", phrase::tokens(tokens)),
    };
    Line::attention(format!("the agent compacted its context{at}: the handoff came too late"))
}

fn attempt_ended(attempt: &AttemptNews) -> Vec<Line> {
    let took = phrase::duration(attempt.duration);
    let (tone, what) = match (attempt.left, &attempt.cause) {
        (Left::Handoff, _) => (Tone::Plain, "handed off"),
        (Left::Completion, _) => (Tone::Plain, "says that all is done"),
        (Left::Question, _) => (Tone::Attention, "asks for a person"),
        (Left::Nothing, EndCause::Stopped | EndCause::Interrupted) => (Tone::Plain, "stopped"),
        (Left::Nothing, EndCause::RateLimited { .. } | EndCause::Overloaded) => (Tone::Plain, "interrupted"),
        // The label has said "ended" where it has no figures to show.
        (Left::Nothing, _) if attempt.usage_tokens == 0 => (Tone::Failed, "without a handoff"),
        (Left::Nothing, _) => (Tone::Failed, "ended without a handoff"),
    };
    let calls =
        attempt.tool_calls.map(|calls| format!(" · {}", phrase::count(u64::from(calls), "tool call")));
    let cost = match attempt.cost_micro_usd {
        0 => String::new(),
        cost => format!(" · {}", phrase::cost(cost, attempt.estimated, attempt.subscription)),
    };
    let label = usage(attempt.usage_tokens, attempt.percent);
    let figures = format!(" after {took}{}{cost}", calls.unwrap_or_default());
    let mut lines = vec![Line::labelled(&label, tone, what).with(Tone::Plain, figures)];
    if !attempt.touched.is_empty() {
        let files: Vec<String> = attempt.touched.iter().map(|file| one_line(file)).collect();
        lines.push(Line::attention(format!("the agent changed {}; not taken over", files.join(", "))));
    }
    if !attempt.misplaced.is_empty() {
        let files: Vec<String> = attempt.misplaced.iter().map(|file| one_line(file)).collect();
        let text =
            format!("the agent wrote {} beside {HANDOFF_DIR}, not into it; taken over", files.join(", "));
        lines.push(Line::attention(text));
    }
    lines.extend(attempt.cautions.iter().map(|caution| Line::attention(caution.clone())));
    if attempt.malformed_lines > 0 {
        let lines_lost = phrase::count(u64::from(attempt.malformed_lines), "line");
        lines.push(Line::labelled(
            "note",
            Tone::Quiet,
            format!("{lines_lost} from the agent could not be read"),
        ));
    }
    lines
}

fn handoff_lines(handoff: &HandoffNews) -> Vec<Line> {
    let items = match (handoff.items_done, handoff.items_open) {
        (Some(done), Some(open)) if done + open > 0 => {
            Some(Line::labelled("items", Tone::Plain, format!("{done} of {} done", done + open)))
        }
        (_, _) => None,
    };
    let next = handoff.next.as_ref().map(|next| Line::labelled("next", Tone::Plain, next));
    let warning = |text: &String| Line::labelled("note", Tone::Quiet, format!("accepted, though: {text}"));
    items.into_iter().chain(next).chain(handoff.warnings.iter().map(warning)).collect()
}

fn rescue(session: u32, cause: &EndCause) -> Line {
    let cause = if *cause == EndCause::Interrupted {
        "it did not hand over when it was told to".to_owned()
    } else if *cause == EndCause::Completed {
        "its files are missing or not valid".to_owned()
    } else {
        one_line(&cause.to_string())
    };
    let text = format!("no handoff that can be used ({cause}); rescue handoff written from what ekiden saw");
    Line::attention(format!("{text} (session {session})"))
}

fn check_lines(session: u32, check: &CheckNews, veto: bool) -> Vec<Line> {
    let took = phrase::duration(check.duration);
    let last = check.last_line.as_ref().map(|line| format!(": {line}")).unwrap_or_default();
    let line = match &check.result {
        CheckOutcome::Passed => {
            Line::labelled("verify", Tone::Done, "passed").with(Tone::Plain, format!(" in {took}"))
        }
        CheckOutcome::Failed { .. } => {
            Line::labelled("verify", Tone::Failed, "failed").with(Tone::Plain, format!(" in {took}{last}"))
        }
        CheckOutcome::TimedOut => Line::labelled("verify", Tone::Failed, "took too long")
            .with(Tone::Plain, format!(": over {took}{last}")),
        CheckOutcome::NotRun { error } => Line::labelled("verify", Tone::Failed, "cannot run")
            .with(Tone::Plain, format!(": {}", one_line(error))),
        CheckOutcome::Cancelled => Line::labelled("verify", Tone::Quiet, "cancelled"),
    };
    let vetoed = veto.then(|| {
        let text = "said that all is done, but the verification does not pass";
        Line::attention(format!("session {session} {text}; its output goes to the next session"))
    });
    std::iter::once(line).chain(vetoed).collect()
}

/// `61% 122k`, as far as it is known.
fn usage(tokens: u64, percent: Option<u64>) -> String {
    match (tokens, percent) {
        (0, _) => "ended".to_owned(),
        (_, Some(percent)) => format!("{percent}% {}", phrase::tokens(tokens)),
        (_, None) => phrase::tokens(tokens),
    }
}
