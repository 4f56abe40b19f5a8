//! The part of a handoff that a timeline keeps: the agent's own words.

use ekiden_core::handoff::{Heading, said};
use ekiden_core::prompt::{Author, Finding, Notes};
use ekiden_core::text::short;

use super::WORDS_CHARS_MAX;

/// Where a rescue begins, in place of an agent's notes or below them.
const RESCUED: &str = "Rescue: ";
const HANDOFF_CHARS_MAX: usize = 10_000;
/// The number of newest sessions per stage whose words are kept: a page shows no more.
pub(super) const HANDOFFS_KEPT: usize = 41;

/// A session in the agent's own words, by the headings of its handoff.
#[derive(Debug)]
pub struct Words {
    pub by: Author,
    pub done: Option<String>,
    pub stopped_at: Option<String>,
    pub issues: Option<String>,
    /// What a reviewer found, one line each.
    pub found: Option<String>,
    pub works: Option<String>,
    pub avoid: Option<String>,
    /// The files of the handoff.
    pub whole: String,
}

impl Words {
    /// A reviewer's findings, each with its place, the reason and how it was seen.
    pub(super) fn of_reviewer(findings: &[Finding]) -> Self {
        let line = |finding: &Finding| {
            let Finding {
                place,
                reason,
                seen,
            } = finding;
            format!("{place}: {reason} ({seen})")
        };
        let lines: Vec<String> = findings.iter().map(line).collect();
        Self {
            found: (!lines.is_empty()).then(|| short(&lines.join("\n"), WORDS_CHARS_MAX)),
            ..Self::of(&Notes {
                by: Author::Agent,
                progress: String::new(),
                next_prompt: String::new(),
            })
        }
    }

    pub(super) fn of(notes: &Notes) -> Self {
        let words = |text: &str, heading: Heading| {
            said(text, heading.name()).map(|words| short(&words, WORDS_CHARS_MAX))
        };
        let (progress, mut next_prompt) = (notes.progress.as_str(), notes.next_prompt.as_str());
        if notes.by != Author::Agent {
            // The rest is ekiden's.
            next_prompt = next_prompt.split(RESCUED).next().unwrap_or_default();
        }
        Self {
            by: notes.by,
            done: words(progress, Heading::Done),
            stopped_at: words(progress, Heading::StoppedAt),
            issues: words(progress, Heading::Issues),
            found: None,
            works: words(next_prompt, Heading::WhatWorks),
            avoid: words(next_prompt, Heading::WhatToAvoid),
            whole: [&notes.progress, &notes.next_prompt]
                .map(|file| short(file, HANDOFF_CHARS_MAX))
                .join("\n\n")
                .trim()
                .to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: UIX-05
    #[test]
    fn what_a_rescue_adds_is_not_the_agents_own() {
        let [works, avoid] = [Heading::WhatWorks, Heading::WhatToAvoid].map(Heading::name);
        let own = format!("## {works}\n\nOne file each.\n\n");
        let nothing = "Nothing is recorded.";
        let rescue = format!(
            "Rescue: it is not complete.\n\n## {works}\n\n{nothing}\n\n## {avoid}\n\n{nothing}\n"
        );
        let words = |by, next_prompt: String| {
            let progress = String::new();
            let words = Words::of(&Notes {
                by,
                progress,
                next_prompt,
            });
            (words.works, words.avoid)
        };
        let [ours, both] = ["", &own].map(|own| words(Author::Both, format!("{own}{rescue}")));
        assert_eq!(ours, (None, None));
        assert_eq!(both, (Some("One file each.".to_owned()), None));
    }
}
