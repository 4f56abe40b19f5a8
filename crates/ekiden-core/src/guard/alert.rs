//! What the guard says in a watched session: to the person, and to the agent.
//!
//! The person gets the level's text with the real percentage. The agent gets facts without a number to watch,
//! since a countdown makes it cut its work short. What to do next is phrased as the project's convention.

use super::checkpoint::CheckpointReason;
use super::estimate::Estimate;
use super::watch::{Alert, HandoffTime};

/// The names of the guard's commands where it is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandNames {
    pub handoff: String,
    pub orient: String,
}

impl CommandNames {
    /// The names with this prefix: empty, `ekiden-` or `ekiden:`.
    pub fn with_prefix(prefix: &str) -> Self {
        Self {
            handoff: format!("/{prefix}handoff"),
            orient: format!("/{prefix}orient"),
        }
    }
}

/// The same in two voices; either may be empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AlertTexts {
    /// To the person, on the screen.
    pub person: String,
    /// To the agent, beside its next input.
    pub agent: String,
}

const AGENT_EARLY: &str = include_str!("../prompt/texts/alert_early.md").trim_ascii_end();
const AGENT_SOON: &str = include_str!("../prompt/texts/alert_soon.md").trim_ascii_end();
const AGENT_NOW: &str = include_str!("../prompt/texts/alert_now.md").trim_ascii_end();
const AGENT_WRITTEN: &str = include_str!("../prompt/texts/alert_written.md").trim_ascii_end();
const AGENT_FAILED: &str = include_str!("../prompt/texts/alert_failed.md").trim_ascii_end();
const AGENT_COMPACTED: &str = include_str!("../prompt/texts/alert_compacted.md").trim_ascii_end();
const AGENT_REFUSED: &str = include_str!("../prompt/texts/alert_refused.md").trim_ascii_end();
const AGENT_HELD: &str = include_str!("../prompt/texts/alert_held.md").trim_ascii_end();
const AGENT_LARGE: &str = include_str!("../prompt/texts/alert_large.md").trim_ascii_end();
const AGENT_SHARD: &str = include_str!("../prompt/texts/alert_shard.md").trim_ascii_end();

/// The wordings that agents read, for the manual.
#[cfg(test)]
pub const AGENT_TEXTS: [&str; 10] = [
    AGENT_EARLY,
    AGENT_SOON,
    AGENT_NOW,
    AGENT_WRITTEN,
    AGENT_FAILED,
    AGENT_COMPACTED,
    AGENT_REFUSED,
    AGENT_HELD,
    AGENT_LARGE,
    AGENT_SHARD,
];

/// The text of an alert. `directory` is where handoff documents are. `issue` is the one that will get the
/// checkpoint.
pub fn said(
    alert: &Alert,
    names: &CommandNames,
    directory: &str,
    issue: Option<&str>,
) -> AlertTexts {
    let CommandNames { handoff, orient } = names;
    let (person, agent) = match alert {
        Alert::Level { percent, handoff } => level(*percent, *handoff, names, issue),
        Alert::Written {
            reason: CheckpointReason::Compaction,
            document,
        } => (
            format!(
                "Before the conversation got shorter, ekiden wrote a handoff document: {document}"
            ),
            AGENT_COMPACTED.replace("{document}", document),
        ),
        Alert::Written { document, .. } => (
            format!(
                "Handoff written: {document}\nA fresh session continues from it: /clear, then {orient}"
            ),
            AGENT_WRITTEN.replace("{document}", document),
        ),
        Alert::Failed => (
            format!(
                "ekiden could not write the checkpoint; `ekiden checkpoint` says why. {handoff} tries again."
            ),
            AGENT_FAILED.to_owned(),
        ),
        Alert::Large(estimate) => (large(estimate, handoff), AGENT_LARGE.to_owned()),
        Alert::Shard(large) => (large.suggestion(), AGENT_SHARD.to_owned()),
        Alert::Refused => (
            format!(
                "The context is nearly full, so ekiden refused one call and asked for a handoff. To continue in a \
                 fresh session: /clear, then {orient}. To continue here, send any prompt: nothing more is refused. \
                 `guard.l3 = \"advise\"` never refuses."
            ),
            AGENT_REFUSED.to_owned(),
        ),
        Alert::Held => (
            "The context is nearly full, so ekiden asked for the handoff before the turn ends. \
             `guard.l3 = \"advise\"` never does."
                .to_owned(),
            AGENT_HELD.to_owned(),
        ),
        Alert::NoHandoff { percent } => (
            format!(
                "Context at {percent}% and no handoff yet. Run `{handoff}` before you leave it for long."
            ),
            String::new(),
        ),
    };
    let agent = agent
        .replace("{handoff}", handoff)
        .replace("{directory}", directory);
    AlertTexts { person, agent }
}

fn large(estimate: &Estimate, handoff: &str) -> String {
    format!(
        "This task may take about {}% of the usable window ({}K tokens), and less than that is left.\n\
         Shard it into {} parts, run `{handoff}` first and begin it in a fresh session, or proceed anyway.",
        estimate.percent,
        estimate.tokens.div_ceil(1000),
        estimate.shards().max(2),
    )
}

fn level(
    percent: u64,
    time: HandoffTime,
    names: &CommandNames,
    issue: Option<&str>,
) -> (String, String) {
    let CommandNames { handoff, orient } = names;
    let (sign, headline, rest, agent) = match time {
        HandoffTime::Later => (
            "⚠️",
            "Consider completing current task before starting new work.",
            format!("Run `{handoff}` to checkpoint, or continue if task is nearly complete."),
            AGENT_EARLY,
        ),
        HandoffTime::Waits(until) => (
            "🔶",
            &*format!("The checkpoint waits until {until}%."),
            format!("Run `{handoff}` to checkpoint now."),
            "",
        ),
        HandoffTime::Soon => (
            "🔶",
            "Initiating checkpoint sequence.",
            "Completing current edit, then generating handoff document.".to_owned(),
            AGENT_SOON,
        ),
        HandoffTime::Written => (
            "🔶",
            "The handoff document is written.",
            format!("A fresh session continues from it: /clear, then {orient}"),
            "",
        ),
        HandoffTime::Now => (
            "🔴",
            "Emergency checkpoint!",
            format!(
                "Committing WIP changes and generating handoff NOW.\n\
                 Next session should run `{orient}` to continue."
            ),
            AGENT_NOW,
        ),
    };
    let begins = matches!(time, HandoffTime::Soon | HandoffTime::Now);
    let issue = issue.filter(|_| begins);
    let told = issue.map(|issue| format!("\nIssue {issue} will be updated with progress."));
    let told = told.unwrap_or_default();
    let person = format!("{sign} Context at {percent}% - {headline}\n{rest}{told}");
    (person, agent.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::LargeSpec;

    fn said_of(alert: &Alert) -> AlertTexts {
        said(
            alert,
            &CommandNames::with_prefix(""),
            ".ekiden/handoffs",
            None,
        )
    }

    fn of_level(percent: u64, handoff: HandoffTime) -> AlertTexts {
        said_of(&Alert::Level { percent, handoff })
    }

    fn written(reason: CheckpointReason) -> Alert {
        let document = "h.md".to_owned();
        Alert::Written { reason, document }
    }

    // shows: MON-004
    #[test]
    fn the_person_reads_the_real_percentage() {
        expect_test::expect![[r"
            ⚠️ Context at 71% - Consider completing current task before starting new work.
            Run `/handoff` to checkpoint, or continue if task is nearly complete."]]
        .assert_eq(&of_level(71, HandoffTime::Later).person);
        expect_test::expect![[r"
            🔶 Context at 86% - Initiating checkpoint sequence.
            Completing current edit, then generating handoff document."]]
        .assert_eq(&of_level(86, HandoffTime::Soon).person);
        expect_test::expect![[r"
            🔴 Context at 95% - Emergency checkpoint!
            Committing WIP changes and generating handoff NOW.
            Next session should run `/orient` to continue."]]
        .assert_eq(&of_level(95, HandoffTime::Now).person);
    }

    // shows: MON-004
    #[test]
    fn the_tracker_is_named_only_where_a_checkpoint_begins_and_an_issue_is_told() {
        let said = |handoff, issue| {
            let alert = Alert::Level {
                percent: 86,
                handoff,
            };
            said(&alert, &CommandNames::with_prefix(""), "d", issue).person
        };
        let sentence = "\nIssue ANV-123 will be updated with progress.";
        assert!(said(HandoffTime::Soon, Some("ANV-123")).ends_with(sentence));
        assert!(said(HandoffTime::Now, Some("ANV-123")).ends_with(sentence));
        assert!(!said(HandoffTime::Later, Some("ANV-123")).contains("Issue"));
        assert!(!said(HandoffTime::Soon, None).contains("Issue"));
    }

    // shows: MON-004, CHK-10
    #[test]
    fn a_checkpoint_for_a_compaction_ends_nothing() {
        let said = said_of(&written(CheckpointReason::Compaction));
        assert!(
            said.person
                .starts_with("Before the conversation got shorter"),
            "{said:?}"
        );
        assert!(said.agent.contains("the work continues"), "{said:?}");
        for text in [said.person, said.agent] {
            assert!(
                !text.contains("/clear") && !text.contains("turn ends"),
                "{text}"
            );
        }
    }

    // shows: MON-004
    #[test]
    fn an_agent_that_waits_for_a_document_learns_that_none_follows() {
        let said = said_of(&Alert::Failed);
        assert!(
            said.agent
                .contains("no document follows. /handoff tries again"),
            "{said:?}"
        );
    }

    // shows: MON-004
    #[test]
    fn commands_are_named_as_they_are_installed() {
        let names = CommandNames::with_prefix("ekiden:");
        let said = said(
            &written(CheckpointReason::Level2),
            &names,
            ".ekiden/handoffs",
            None,
        );
        assert!(said.person.contains("/ekiden:orient"), "{}", said.person);
        assert!(said.agent.contains("/ekiden:handoff"), "{}", said.agent);
    }

    // shows: MON-004
    #[test]
    fn the_agent_reads_no_number() {
        let alerts = [
            Alert::Level {
                percent: 71,
                handoff: HandoffTime::Later,
            },
            Alert::Level {
                percent: 86,
                handoff: HandoffTime::Soon,
            },
            Alert::Level {
                percent: 86,
                handoff: HandoffTime::Waits(90),
            },
            Alert::Level {
                percent: 95,
                handoff: HandoffTime::Now,
            },
            Alert::Level {
                percent: 86,
                handoff: HandoffTime::Written,
            },
            written(CheckpointReason::Level2),
            written(CheckpointReason::Compaction),
            Alert::Refused,
            Alert::Failed,
            Alert::Large(Estimate::of("a task", &[90_000], 100_000, Some(55_000))),
            Alert::NoHandoff { percent: 60 },
            Alert::Shard(LargeSpec {
                name: "spec.md".to_owned(),
                percent: 70,
                parts: vec!["S01  All  70%".to_owned()],
            }),
        ];
        for alert in alerts {
            let agent = said_of(&alert).agent;
            assert!(
                !agent.contains(|c: char| c.is_ascii_digit() || c == '%'),
                "{agent}"
            );
            assert!(!agent.contains('{'), "an open slot: {agent}");
        }
    }
}
