//! What the guard says in a watched session: to the person, and to the agent.
//!
//! The person gets the level's words with the real percentage. The agent gets facts without a number to
//! watch, since a countdown makes it trim its work; and what to do is named as the custom of the place.

use super::estimate::Estimate;
use super::watch::{Alert, HandoffTime, Refusal};

/// How the guard's commands are called where it is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandNames {
    /// Writes a handoff: `/handoff`.
    pub handoff: String,
    /// Finds its place again: `/orient`.
    pub orient: String,
}

impl CommandNames {
    /// The names with this in front: nothing, `ekiden-` or `ekiden:`.
    #[must_use]
    pub fn with_prefix(prefix: &str) -> Self {
        Self { handoff: format!("/{prefix}handoff"), orient: format!("/{prefix}orient") }
    }
}

/// The same in two voices.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Said {
    /// To the person, on the screen.
    pub person: String,
    /// To the agent, beside what it reads next; may be empty.
    pub agent: String,
}

const AGENT_EARLY: &str = "Much of this session's context is in use. The custom here is to finish the item at \
     hand before anything new is begun. {handoff} writes a handoff at any time.";
const AGENT_SOON: &str = "The project's guard has begun a checkpoint of this session. The custom here is to \
     finish the current edit and to begin nothing new. The document to fill in will be named next.";
const AGENT_NOW: &str = "The project's guard takes a checkpoint of this session now. A fresh conversation goes on \
     from it. Only files in {directory} can still be read and written here. The document to fill in will be named next.";
const AGENT_WRITTEN: &str = "The guard's handoff document of this session is {document}. It holds what a program \
     can know. The custom here is to finish the current edit, then to fill in what is missing there, with {handoff} or \
     by editing it. Missing are what is done, what was decided and why, what stands in the way, and the next steps. \
     After that the turn ends.";
const AGENT_REFUSED: &str = "Not run: this session is handing over, and a fresh conversation goes on from its \
     document. Files in {directory} can still be read and written. When the document says what is done, decided \
     and next, end the turn.";
const AGENT_LARGE: &str = "What is asked for here may not fit into what is left of this session's context. The custom \
     here is to tell the user so before beginning. Three ways are open: to split it into parts, to run {handoff} first \
     and begin it in a fresh session, or to go on all the same.";

/// The wordings that agents read, for the lint, the manual and the benchmarks.
pub const AGENT_TEXTS: [&str; 6] =
    [AGENT_EARLY, AGENT_SOON, AGENT_NOW, AGENT_WRITTEN, AGENT_REFUSED, AGENT_LARGE];

/// The words of an alert. `issue` is what the work belongs to, if that is known and a tracker follows it;
/// `directory` is where handoff documents lie.
#[must_use]
pub fn said(alert: &Alert, names: &CommandNames, issue: Option<&str>, directory: &str) -> Said {
    let fill = |text: &str| text.replace("{handoff}", &names.handoff).replace("{directory}", directory);
    match alert {
        Alert::Level { percent, handoff } => Said {
            person: level(*percent, *handoff, names, issue),
            agent: match handoff {
                HandoffTime::Later => fill(AGENT_EARLY),
                HandoffTime::Waits(_) => String::new(),
                HandoffTime::Soon => fill(AGENT_SOON),
                HandoffTime::Now => fill(AGENT_NOW),
            },
        },
        Alert::Written(document) => Said {
            person: format!(
                "Handoff written: {document}\nA fresh session goes on from it: /clear, then {}",
                names.orient
            ),
            agent: fill(AGENT_WRITTEN).replace("{document}", document),
        },
        Alert::Failed => Said {
            person: format!(
                "ekiden could not write the checkpoint; `ekiden checkpoint` says why. {} tries again.",
                names.handoff
            ),
            agent: String::new(),
        },
        Alert::Large(estimate) => Said { person: large(estimate, names), agent: fill(AGENT_LARGE) },
        Alert::NoHandoff { percent } => Said {
            person: format!(
                "Context at {percent}% and no handoff yet. Run `{}` before you leave it for long.",
                names.handoff
            ),
            agent: String::new(),
        },
    }
}

/// The reason of a refused call.
#[must_use]
pub fn refused(directory: &str) -> String {
    AGENT_REFUSED.replace("{directory}", directory)
}

/// What the person reads when refusals end a turn.
#[must_use]
pub fn turn_ended(refusal: Refusal, names: &CommandNames) -> Option<String> {
    match refusal {
        Refusal::Call => None,
        Refusal::Turn => Some(format!(
            "The context is nearly full and the session did not hand over, so ekiden ended its turn. The checkpoint \
             that it wrote stands: /clear, then {}. Another prompt goes on here.",
            names.orient
        )),
    }
}

fn large(estimate: &Estimate, names: &CommandNames) -> String {
    let Estimate { tokens, percent, .. } = estimate;
    format!(
        "This task may take about {percent}% of the usable window ({}K tokens), and less than that is left.\n\
         Shard it into {} parts, run `{}` first and begin it in a fresh session, or proceed anyway.",
        tokens.div_ceil(1000),
        estimate.shards().max(2),
        names.handoff
    )
}

fn level(percent: u64, handoff: HandoffTime, names: &CommandNames, issue: Option<&str>) -> String {
    let issue =
        issue.map(|issue| format!("\nIssue {issue} will be updated with progress.")).unwrap_or_default();
    match handoff {
        HandoffTime::Later => format!(
            "⚠️ Context at {percent}% - Consider completing current task before starting new work.\n\
             Run `{}` to checkpoint, or continue if task is nearly complete.",
            names.handoff
        ),
        HandoffTime::Waits(until) => format!(
            "🔶 Context at {percent}% - The checkpoint waits until {until}%.\n\
             Run `{}` to checkpoint now.",
            names.handoff
        ),
        HandoffTime::Soon => format!(
            "🔶 Context at {percent}% - Initiating checkpoint sequence.\n\
             Completing current edit, then generating handoff document.{issue}"
        ),
        HandoffTime::Now => format!(
            "🔴 Context at {percent}% - Emergency checkpoint!\n\
             Committing WIP changes and generating handoff NOW.\n\
             Next session should run `{}` to continue.",
            names.orient
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said_of(alert: &Alert, issue: Option<&str>) -> Said {
        said(alert, &CommandNames::with_prefix(""), issue, ".ekiden/handoffs")
    }

    fn of_level(percent: u64, handoff: HandoffTime, issue: Option<&str>) -> Said {
        said_of(&Alert::Level { percent, handoff }, issue)
    }

    // shows: MON-004
    #[test]
    fn the_person_reads_the_real_percentage() {
        expect_test::expect![[r"
            ⚠️ Context at 71% - Consider completing current task before starting new work.
            Run `/handoff` to checkpoint, or continue if task is nearly complete."]]
        .assert_eq(&of_level(71, HandoffTime::Later, None).person);
        expect_test::expect![[r"
            🔶 Context at 86% - Initiating checkpoint sequence.
            Completing current edit, then generating handoff document.
            Issue ANV-123 will be updated with progress."]]
        .assert_eq(&of_level(86, HandoffTime::Soon, Some("ANV-123")).person);
        expect_test::expect![[r"
            🔴 Context at 95% - Emergency checkpoint!
            Committing WIP changes and generating handoff NOW.
            Next session should run `/orient` to continue."]]
        .assert_eq(&of_level(95, HandoffTime::Now, None).person);
    }

    // shows: MON-004
    #[test]
    fn without_an_issue_none_is_spoken_of() {
        assert!(!of_level(86, HandoffTime::Soon, None).person.contains("Issue"));
    }

    // shows: MON-004
    #[test]
    fn commands_are_named_as_they_are_installed() {
        let names = CommandNames::with_prefix("ekiden:");
        let said = said(&Alert::Written("h.md".into()), &names, None, ".ekiden/handoffs");
        assert!(said.person.contains("/ekiden:orient"), "{}", said.person);
        assert!(said.agent.contains("/ekiden:handoff"), "{}", said.agent);
    }

    // shows: MON-004
    #[test]
    fn the_agent_reads_no_number() {
        let alerts = [
            Alert::Level { percent: 71, handoff: HandoffTime::Later },
            Alert::Level { percent: 86, handoff: HandoffTime::Soon },
            Alert::Level { percent: 86, handoff: HandoffTime::Waits(90) },
            Alert::Level { percent: 95, handoff: HandoffTime::Now },
            Alert::Written(".ekiden/handoffs/a.md".into()),
            Alert::Failed,
            Alert::Large(Estimate::of("a task", &[90_000], 100_000, Some(55_000))),
            Alert::NoHandoff { percent: 60 },
        ];
        for alert in alerts {
            let agent = said_of(&alert, None).agent;
            assert!(!agent.contains(|c: char| c.is_ascii_digit() || c == '%'), "{agent}");
            assert!(!agent.contains('{'), "an open slot: {agent}");
        }
        assert!(!refused(".ekiden/handoffs").contains('{'));
    }
}
