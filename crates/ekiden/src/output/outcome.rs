//! How a run, a relay or a stage ended, as text: one place that knows every outcome.

use ekiden_core::budget::{AgentBudget, Budget, Spend};
use ekiden_core::ends::EndClass;
use ekiden_core::ids::StageId;
use ekiden_core::outcome::{Outcome, StageFailed};
use ekiden_core::plan::StageState;
use ekiden_core::run::Run;
use ekiden_core::steering::StopRequest;
use ekiden_core::text;
use ekiden_core::time::{Millis, Timestamp};
use ekiden_report::page::Text;
use jiff::tz::TimeZone;

use super::line::{Tone, masked, one_line, warning_line};
use super::phrase;
use super::shown_work_dir::ShownWorkDir;
use crate::exit::Exit;

/// How much of a question or a cause a row shows, in characters; `ekiden log` has the rest.
const REASON_CHARS_MAX: usize = 60;
/// How many kinds of content a line names.
const KINDS_SHOWN: usize = 4;
/// A dollar, in millionths.
const DOLLAR: u64 = 1_000_000;

/// What to say at the end of a run.
#[derive(Debug, Default)]
pub struct Description {
    pub why: Text,
    /// What sessions ask, one line each.
    pub questions: Vec<String>,
    /// What a person needs to know before they can act, one line each.
    pub details: Vec<String>,
    /// When it makes sense to continue, after "to continue".
    pub once: &'static str,
    /// What `ekiden resume` needs to get further this time.
    pub flags: String,
}

impl Description {
    /// `at` is when the run ended.
    pub fn of(
        outcome: &Outcome,
        run: &Run,
        at: Timestamp,
        zone: &TimeZone,
        there: &ShownWorkDir,
    ) -> Self {
        let until = |until: &Timestamp| phrase::future(*until, at, zone);
        let why = set_apart(&outcome.to_string(), said(outcome));
        let mut said = Self {
            why,
            ..Self::default()
        };
        match outcome {
            Outcome::Blocked { question } => {
                said.questions = whole(question);
                if is_in_notes(question, run) {
                    let file = there.published("PROGRESS.md");
                    said.questions.push(format!("handoff    {file}"));
                }
            }
            Outcome::Stopped { request } => said.why = Text::own(stopped(*request)),
            Outcome::LimitTooFar { until: reset } => {
                said.limit_too_far(&until(reset), reset.since(at));
            }
            Outcome::RateLimited { until: reset } => {
                said.why = Text::own(next_try(&until(reset)));
                said.once = " then";
            }
            Outcome::BudgetSpent { budget, agents, .. } => {
                // Other stages may have worked on, and spent more.
                let totals = run.totals();
                (said.why, said.flags) =
                    budget_spent(totals.spend, totals.subscription, *budget, agents);
            }
            Outcome::WindowTooFull {
                usage_tokens,
                filled_by,
            } => said.window_too_full(*usage_tokens, filled_by),
            Outcome::Stuck { repeats, percent } => said.stuck(*repeats, *percent),
            Outcome::Stalled { sessions } => said.stands_still(format!(
                "stalled: {} in a row brought nothing new",
                phrase::count((*sessions).into(), "session")
            )),
            Outcome::Denied { rules } => said.denied(rules),
            Outcome::AgentFailed { cause } => {
                said.why = set_apart(&cause.to_string(), cause.said());
                if let EndClass::Stop(hint) = cause.class() {
                    said.details = vec![format!("what to do:  {hint}")];
                }
            }
            Outcome::StagesFailed { failed, blocked } => {
                said.of_stages(failed, *blocked, run, there);
            }
            Outcome::NoWorktree { .. }
            | Outcome::NotMerged { .. }
            | Outcome::Unmerged { .. }
            | Outcome::NotDone { .. } => said.once = ", once that is repaired",
            Outcome::NoCheck { .. } => {
                let hint = "nothing was begun; start again with a `--verify` that can run";
                said.details = vec![hint.to_owned()];
            }
            Outcome::Complete { .. }
            | Outcome::Undelivered { .. }
            | Outcome::SessionLimit
            | Outcome::TooManyCrashes { .. } => {}
        }
        said.details.extend(review_missing(run));
        said
    }

    fn stuck(&mut self, repeats: u32, percent: Option<u8>) {
        if let Some(percent) = percent {
            return self.stands_still(format!(
                "stuck: the handoffs repeat each other ({percent}% alike), and nothing changes"
            ));
        }
        let sessions = phrase::count(repeats.into(), "session");
        self.stands_still(format!(
            "stuck: {sessions} in a row left no usable handoff and changed nothing"
        ));
        let budget = "             if a session's budget ended them, raise --session-budget or --session-tokens";
        self.details.push(budget.to_owned());
    }

    fn limit_too_far(&mut self, at_reset: &str, wait: Millis) {
        let why = format!("{}, later than --max-wait allows", next_try(at_reset));
        self.why = Text::own(why);
        let hours = wait.as_secs().div_ceil(3600);
        self.flags = format!(" --max-wait {hours}h");
    }

    fn window_too_full(&mut self, usage_tokens: u64, filled_by: &[(String, u64)]) {
        let tokens = phrase::tokens(usage_tokens);
        let why =
            format!("the first response already took {tokens} tokens: there is no room to work");
        self.why = Text::own(why);
        if !filled_by.is_empty() {
            let what = format!("what fills it: {}", self::filled_by(filled_by));
            self.details.push(what);
        }
        self.details.push("what to do:  give the agent fewer tools, servers and memory files, a shorter task, or, in a new run, more room (--new with --model, --context-cap-tokens or --levels)".to_owned());
        self.once = " after that";
    }

    fn stands_still(&mut self, why: String) {
        self.why = Text::own(why);
        let look = "`ekiden log` shows where it hangs; add --research if files need not change";
        self.details = vec![format!("what to do:  {look}")];
        self.once = ", once you know why";
    }

    fn denied(&mut self, rules: &[String]) {
        self.why = Text::own(
            "the agent was refused permissions that it needed, and a run cannot ask for them",
        );
        self.details = vec![
            "what to do:  allow what the task needs: for good with `allowed_tool` in your config.toml, or for".to_owned(),
            "             this run alone as below".to_owned(),
        ];
        for rule in rules.iter().map(|rule| one_line(rule)) {
            self.details.push(format!("  {rule}"));
            if let Ok(rule) = shlex::try_quote(&rule) {
                self.flags.push_str(&format!(" --allowed-tool {rule}"));
            }
        }
    }

    fn of_stages(&mut self, failed: &[StageFailed], blocked: u32, run: &Run, there: &ShownWorkDir) {
        let asking = failed.iter().filter(|one| one.outcome.asks()).count();
        let count = |stages: usize| phrase::count(stages as u64, "stage");
        let need = if asking == 1 { "needs" } else { "need" };
        self.why = Text::own(match (asking, failed.len() - asking) {
            (0, failed) => format!("{} failed", count(failed)),
            (asking, 0) => format!("{} {need} your input", count(asking)),
            (asking, failed) => {
                format!("{} failed, {asking} {need} your input", count(failed))
            }
        });
        for one in failed {
            if let Outcome::Blocked { question } = &*one.outcome {
                self.questions.extend(asks(&one.stage, question, there));
            } else {
                let how = short(&one.outcome);
                self.details.push(format!("  {}  {how}", one.stage));
            }
        }
        if blocked > 0 {
            let blocked = phrase::count(blocked.into(), "other stage");
            self.details.push(format!("  {blocked} blocked by that"));
        }
        let is_left = |(_, state): &(_, &StageState)| !matches!(state, StageState::Over(_));
        match run.plan().states().filter(is_left).count() {
            0 => {}
            left => {
                let left = phrase::count(left as u64, "other stage");
                self.details
                    .push(format!("  {left} left, since that stops the plan"));
            }
        }
        self.once = ", once that is repaired";
        let not_done = |one: &&StageFailed| matches!(*one.outcome, Outcome::NotDone { .. });
        if let Some(one) = failed.iter().find(not_done) {
            let file = there.published(&format!("handoffs/{}.md", one.stage));
            self.details.push(format!("what to do:  see {file}"));
            self.once = ", if the check can pass now";
        }
    }
}

/// The line about claims that only a review is missing for.
pub fn review_missing(run: &Run) -> Option<String> {
    let relays = run.relays().filter(|(_, relay)| relay.lacks_only_review());
    let stages: Vec<String> = relays.map(|(stage, _)| stage.to_string()).collect();
    let of = match run.relays().count() {
        1 => String::new(),
        _ => format!("{}: ", stages.join(", ")),
    };
    let text = "the work is claimed to be done, and only its review is missing; `ekiden resume --no-review` counts it without";
    (!stages.is_empty()).then(|| format!("{of}{text}"))
}

/// The service may not have said when the limit is lifted.
fn next_try(at: &str) -> String {
    format!("a usage limit is reached; the next try would be at {at}")
}

/// What another party said about an end. It is at the end of the outcome's text.
fn said(outcome: &Outcome) -> Option<&str> {
    if let Outcome::TooManyCrashes { cause } = outcome {
        cause.said()
    } else if let Outcome::NoWorktree { why, .. }
    | Outcome::NotMerged { why }
    | Outcome::NotDone { why }
    | Outcome::NoCheck { program: why } = outcome
    {
        Some(why)
    } else {
        None
    }
}

/// One of our texts, with another party's message set apart. That message comes last, or all of it counts
/// as theirs.
fn set_apart(text: &str, said: Option<&str>) -> Text {
    let Some(said) = said else {
        return Text::own(text);
    };
    match text.strip_suffix(said) {
        Some(ours) => Text::own(ours).and_said(said),
        None => Text::said(text),
    }
}

pub fn asks(stage: &StageId, question: &str, there: &ShownWorkDir) -> Vec<String> {
    let file = there.published(&format!("handoffs/{stage}.md"));
    let file = format!("  in full  {file}");
    let head = std::iter::once(format!("  {stage}  asks:"));
    head.chain(whole(question)).chain([file]).collect()
}

/// An agent asked it in its last handoff. A question of ekiden's own, such as about a review, is not there.
fn is_in_notes(question: &str, run: &Run) -> bool {
    let first = question.lines().next().unwrap_or_default();
    let first = first.trim_end_matches('…');
    let mut last = run.relays().filter_map(|(_, relay)| relay.last.as_ref());
    last.any(|last| last.notes.progress.contains(first))
}

/// A question with all its lines, whatever their length.
fn whole(question: &str) -> Vec<String> {
    let question = masked(question);
    let question = text::clean(&question).text.replace('\t', "  ");
    let lines = question.lines();
    lines
        .map(|line| format!("  {line}").trim_end().to_owned())
        .collect()
}

/// A limit with its own amount on top of what is spent. A limit that is too small for a session would not help.
fn raised(limit: u64, spent: u64) -> u64 {
    spent.saturating_add(limit.max(spent))
}

/// How a budget ran out, and the flags that raise it.
fn budget_spent(
    spent: Spend,
    subscription: bool,
    budget: Budget,
    agents: &[AgentBudget],
) -> (Text, String) {
    if let Some(first) = agents.first() {
        let name = one_line(&first.agent);
        let name = shlex::try_quote(&name).unwrap_or_default();
        let flags = raising_flags("agent", &format!("{name}="), first.spent, first.budget);
        return (Text::said(&agents_spent(agents)), flags);
    }
    let used = phrase::spent_of(spent, subscription, budget);
    let why = format!("the budget has no room for another session: {used}");
    (Text::own(why), raising_flags("run", "", spent, budget))
}

/// The flags that raise a budget: each limit of which most is used, or all if a stage's part was too small. `name` stands
/// before the amounts.
fn raising_flags(of: &str, name: &str, spent: Spend, budget: Budget) -> String {
    let money = ("budget", budget.micro_usd, spent.micro_usd, DOLLAR);
    let tokens = ("tokens", budget.tokens, spent.tokens, 1);
    let flags = |quarters: u64| -> String {
        let each = [money, tokens].into_iter();
        let each = each.filter_map(|(what, limit, spent, unit)| {
            let limit = limit.filter(|limit| spent >= limit / 4 * quarters)?;
            let all = raised(limit, spent).div_ceil(unit);
            Some(format!(" --{of}-{what} {name}{all}"))
        });
        each.collect()
    };
    Some(flags(3))
        .filter(|short| !short.is_empty())
        .unwrap_or_else(|| flags(0))
}

/// Says that no agent starts another session.
fn agents_spent(agents: &[AgentBudget]) -> String {
    if let [agent] = agents {
        return agent_spent(agent);
    }
    let each = agents.iter().map(|agent| {
        let used = phrase::spent_of(agent.spent, agent.subscription, agent.budget);
        format!("{} {used}", one_line(&agent.agent))
    });
    let each = each.collect::<Vec<_>>().join(", ");
    format!("no agent has budget for another session: {each}")
}

/// Says that an agent starts no further session.
pub fn agent_spent(agent: &AgentBudget) -> String {
    let used = phrase::spent_of(agent.spent, agent.subscription, agent.budget);
    let name = one_line(&agent.agent);
    format!("the budget of `{name}` has no room for another session: {used}")
}

/// What fills a context window, largest first: `MCP tools 81k, Memory files 30k`.
pub fn filled_by(by: &[(String, u64)]) -> String {
    let kinds = by.iter().take(KINDS_SHOWN);
    let kinds =
        kinds.map(|(name, tokens)| format!("{} {}", one_line(name), phrase::tokens(*tokens)));
    kinds.collect::<Vec<_>>().join(", ")
}

/// How a relay, a stage or a run ended, for a row of a table.
pub fn short(outcome: &Outcome) -> String {
    text::short(&cause(outcome), REASON_CHARS_MAX)
}

/// The same for a separate line.
pub fn cause(outcome: &Outcome) -> String {
    let text =
        if let Outcome::Complete { verified } | Outcome::Undelivered { verified, .. } = outcome {
            let not = if *verified { "" } else { "not " };
            format!("{not}verified")
        } else if let Outcome::Blocked { question } = outcome {
            return question_line(question);
        } else if let Outcome::Stopped { request } = outcome {
            stopped(*request)
        } else if let Outcome::AgentFailed { cause } = outcome {
            cause.to_string()
        } else {
            outcome.to_string()
        };
    warning_line(&text)
}

/// A question on one line. A list may be the whole question.
pub fn question_line(question: &str) -> String {
    one_line(question.trim_start_matches(['-', '*', ' ']))
}

fn stopped(request: StopRequest) -> String {
    match request {
        StopRequest::Gently => "as you asked".to_owned(),
        StopRequest::AS_BY_CTRL_C_TWICE => "at once, as you asked".to_owned(),
        StopRequest::HANGUP => "the terminal went away".to_owned(),
        StopRequest::Now { signal } => format!("at once, by signal {signal}"),
    }
}

/// How a run ended, in one word.
pub fn word(outcome: &Outcome) -> (Tone, &'static str) {
    match Exit::of(outcome) {
        Exit::Done => (Tone::Done, "complete"),
        Exit::Blocked => (Tone::Attention, "blocked"),
        Exit::Undelivered => (Tone::Attention, "complete, not delivered"),
        Exit::StoppedEarly | Exit::Signal(_) => (Tone::Attention, "stopped"),
        Exit::Unfinished
        | Exit::Usage
        | Exit::InvalidInput
        | Exit::MissingInput
        | Exit::Unreachable
        | Exit::Bug
        | Exit::State
        | Exit::Held
        | Exit::NotPermitted
        | Exit::Settings => (Tone::Failed, "failed"),
    }
}

/// The command that continues a run that ended this way: with an answer, or with other limits if these were
/// in the way. `which` names the run, after a blank; the newest one needs no name.
pub fn resume_command(outcome: &Outcome, run: &Run, at: Timestamp, which: &str) -> String {
    if Exit::of(outcome) == Exit::Blocked {
        let mut command = format!("ekiden answer{which}");
        if let Outcome::StagesFailed { failed, .. } = outcome
            && failed.len() > 1
        {
            command.push_str(&format!(" --stage {}", failed[0].stage));
        }
        return command;
    }
    if matches!(
        outcome,
        Outcome::Stopped { .. } | Outcome::StagesFailed { .. }
    ) && let Some(command) = answer_command(run, which)
    {
        return command;
    }
    if *outcome == Outcome::SessionLimit {
        let relays = run.relays().map(|(_, relay)| relay.stage.sessions_max);
        return format!("ekiden resume{which} -m {}", relays.sum::<u32>());
    }
    let mut flags =
        Description::of(outcome, run, at, &TimeZone::UTC, &ShownWorkDir::default()).flags;
    if let Outcome::LimitTooFar { until } = outcome
        && run.relays().any(|(stage, relay)| {
            // Changed limits do not reach a stage that is done.
            !run.plan().is_done(stage) && until.since(at) <= relay.settings.wait_max
        })
    {
        // Several waits together were too long, and they count anew.
        flags.clear();
    }
    format!("ekiden resume{which}{flags}")
}

/// The command that answers the first question that a stage of a plan asks.
pub fn answer_command(run: &Run, which: &str) -> Option<String> {
    let (stage, _) = run.questions().next()?;
    Some(format!("ekiden answer{which} --stage {stage}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(micro_usd: u64, tokens: u64) -> Spend {
        Spend {
            micro_usd,
            tokens,
            estimated: true,
        }
    }

    // shows: PLN-08
    #[test]
    fn a_command_at_the_end_of_a_long_cause_is_shown_whole() {
        let why = format!("{}`rm -rf /tree`", "a long way ".repeat(40));
        assert!(cause(&Outcome::NotMerged { why: why.clone() }).ends_with(&why));
    }

    // shows: REL-22
    #[test]
    fn the_command_that_continues_names_a_budget_that_is_not_spent() {
        let money = Budget {
            micro_usd: Some(10 * DOLLAR),
            tokens: None,
        };
        let (why, flag) = budget_spent(spent(10_020_000, 5), false, money, &[]);
        assert_eq!(flag, " --run-budget 21");
        assert_eq!(
            why.plain(),
            "the budget has no room for another session: ≈$10.02 of $10.00"
        );
        let tokens = Budget {
            micro_usd: Some(10 * DOLLAR),
            tokens: Some(1000),
        };
        let (_, flag) = budget_spent(spent(DOLLAR, 1001), false, tokens, &[]);
        assert_eq!(flag, " --run-tokens 2002");
        // Raising one of two limits that are nearly used would not help.
        let (why, flag) = budget_spent(spent(9_500_000, 900), true, tokens, &[]);
        assert_eq!(flag, " --run-budget 20 --run-tokens 1900");
        let why = why.plain();
        assert!(
            why.ends_with(": ≈$9.50 API price of $10.00 and ≈900 of 1k tokens"),
            "{why}"
        );
        // As if a stage's part was too small to begin.
        let alone = Budget {
            micro_usd: None,
            ..tokens
        };
        let (why, flag) = budget_spent(spent(0, 0), false, alone, &[]);
        assert_eq!(flag, " --run-tokens 1000");
        assert!(why.plain().ends_with("0 of 1k tokens"));
        // One session took 18 times what was allowed.
        let (_, flag) = budget_spent(spent(DOLLAR, 18_000), false, tokens, &[]);
        assert_eq!(flag, " --run-tokens 36000");
        let of = |agent: &str, spent: Spend, budget: Budget| AgentBudget {
            agent: agent.to_owned(),
            spent,
            budget,
            is_spent: true,
            subscription: false,
        };
        let agents = [
            of("claude", spent(9_000_000, 5), money),
            of("my codex", spent(0, 900), tokens),
        ];
        let (why, flag) = budget_spent(spent(9_000_000, 905), false, Budget::default(), &agents);
        assert_eq!(flag, " --agent-budget claude=19");
        let why = why.plain();
        assert!(why.starts_with("no agent has budget for another session: claude ≈$9.00 of"));
        let (_, flag) = budget_spent(spent(0, 900), false, Budget::default(), &agents[1..]);
        assert_eq!(flag, " --agent-tokens 'my codex'=1900");
    }

    // shows: REL-35
    #[test]
    fn a_question_is_whole_however_long_its_lines_are() {
        let long = "which of them? ".repeat(40);
        let question = format!("Keep it or drop it?\u{1b}[2J\n{long}");
        let lines = asks(&StageId::only(), &question, &ShownWorkDir::default());
        assert_eq!(lines[1], "  Keep it or drop it?");
        assert_eq!(lines[2], format!("  {}", long.trim_end()));
    }
}
