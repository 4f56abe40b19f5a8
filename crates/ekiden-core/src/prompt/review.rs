//! The texts of a review: the request to the reviewer, the reading of its answer, and the passing on of its findings.
//!
//! The reviewer gets the task, the check and the changes, and nothing that earlier sessions wrote about themselves.
//! Its findings are data like any agent's words.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::PromptBlocks;
use super::budget::{Keep, NOWHERE};
use super::fill::fill;
use super::quote::{MARK, outcome_line, quoted_within};
use super::reply::objects;
use super::rescue::CheckFacts;
use super::session::{FROM_USER, TASK, on_lines};
use crate::ends::EndCause;
use crate::ids::SessionNumber;
use crate::limits;
use crate::text::{clean, one_line};

pub(super) const REVIEW: &str = include_str!("texts/review.md");
pub(super) const MEND: &str = include_str!("texts/mend_verdict.md");
pub(super) const ANSWER_NOW: &str = include_str!("texts/answer_now.md");
pub(super) const CHECK: &str = "# Check";
pub(super) const CHECK_INTRO: &str = "ekiden ran it on this tree:";
pub(super) const NO_CHECK: &str = "There is none: only reading the work shows whether it is done.";
pub(super) const OUTPUT: &str = "The end of its output:";
pub(super) const CHANGES: &str = "# Changes";
pub(super) const CHANGES_INTRO: &str = "Read from git, in the work dir, since the commit that the relay began from: the files, then the diff. Changes that the user had not committed by then are among them.";
pub(super) const FINDINGS: &str = "# Findings of a reviewer";
pub(super) const FINDINGS_INTRO: &str = "Place, reason, and how it was seen.";

/// The question to a person when the work tree cannot be compared.
pub const NO_TREE: &str = "The work is claimed to be done, but nobody could review it: the work tree could not be read. Answer or resume to have it verified and reviewed again.";
const TREE_CHANGED: &str = "The work tree changed while session {number} reviewed it, so its verdict does not count. Look at the changes (git status, git diff), then answer or resume to have the work verified and reviewed again.";
const NO_VERDICT: &str = "The work is claimed to be done, but session {number} came to no verdict that can be read (last attempt: {cause}; `ekiden show {number}` shows what it said). `ekiden resume` has it reviewed again; `ekiden resume --no-review` counts it without.";
const FAULTS_LEFT: &str = "A reviewer still finds faults; PROGRESS.md has the session's own view of them. Say which to fix, and which are not faults:";

/// A check's line and output, in tokens.
const CHECK_TOKENS_MAX: usize = 100;
const OUTPUT_TOKENS_MAX: usize = 600;
/// Parts of a finding, in characters.
const PLACE_CHARS_MAX: usize = 200;
const REASON_CHARS_MAX: usize = 600;
const SEEN_CHARS_MAX: usize = 400;
/// How much of a finding a question shows, in characters.
const TOLD_CHARS_MAX: usize = 240;

pub const REVIEW_SCHEMA: &str = r#"{"type":"object","additionalProperties":false,"required":["verdict","findings"],"properties":{"verdict":{"enum":["pass","findings"]},"findings":{"type":"array","maxItems":10,"items":{"type":"object","additionalProperties":false,"required":["place","reason","seen"],"properties":{"place":{"type":"string","maxLength":200},"reason":{"type":"string","maxLength":600},"seen":{"type":"string","maxLength":400}}}}}}"#;

#[derive(Debug, Clone, Copy)]
pub struct ReviewInput<'a> {
    /// The user's words; they are never cut or changed.
    pub task: &'a str,
    /// The verification's result.
    pub check: Option<&'a CheckFacts>,
    /// What the user told sessions about the task.
    pub words: Option<&'a str>,
    /// The names of the changed files and the differences, since the relay began.
    pub diff: &'a str,
}

/// A fault that a reviewer found. All of it is the model's text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub place: String,
    pub reason: String,
    /// How the reviewer saw it.
    pub seen: String,
}

/// The prompt of the session that judges a claim.
pub fn review_prompt(input: &ReviewInput<'_>) -> PromptBlocks {
    let check = match input.check {
        None => format!("{NO_CHECK}\n"),
        Some(check) => {
            let line = outcome_line(&check.command, &check.outcome);
            let line = quoted_within(&line, CHECK_TOKENS_MAX, Keep::First, NOWHERE);
            let output = check.tail.trim_matches('\n');
            let output = quoted_within(output, OUTPUT_TOKENS_MAX, Keep::Last, NOWHERE);
            format!("{CHECK_INTRO}\n{line}{OUTPUT}\n{output}")
        }
    };
    let diff = quoted_within(
        input.diff,
        limits::REVIEW_DIFF_TOKENS_MAX,
        Keep::First,
        "the files",
    );
    let words = input
        .words
        .map(|words| format!("{FROM_USER}\n\n{}", on_lines(words)));
    PromptBlocks {
        stable: format!("{TASK}\n\n{}", on_lines(input.task)),
        foreign: format!(
            "{CHECK}\n\n{check}\n{CHANGES}\n\n{CHANGES_INTRO}\n{diff}\n{}",
            words.unwrap_or_default()
        ),
        now: format!("{}\n\n{REVIEW}", super::now::HEADING),
    }
}

/// The verdict in an answer: the findings, which are empty for a pass. None if it cannot be read, or says
/// both. Other objects do not count, since an answer may quote code. If it quotes a verdict too, nobody knows
/// which is meant, so two that differ are none. An agent may print its prompt: marked lines are not its own.
pub fn verdict(answer: &str) -> Option<Vec<Finding>> {
    let own = answer.lines().filter(|line| !line.starts_with(MARK));
    let own = own.collect::<Vec<_>>().join("\n");
    let is_verdict = |object: &&str| {
        serde_json::from_str(object).is_ok_and(|object: Value| object.get("verdict").is_some())
    };
    let objects = objects(&own).map(|(_, object)| object);
    let found: Vec<&str> = objects.filter(is_verdict).collect();
    let (_, rest) = own.rsplit_once(found.last()?)?;
    let mut verdicts = found.iter().map(|object| read(object));
    let first = verdicts.next()?;
    let is_clear = verdicts.all(|other| other == first) && !rest.contains("\"verdict\"");
    first.filter(|_| is_clear)
}

fn read(object: &str) -> Option<Vec<Finding>> {
    #[derive(Deserialize)]
    struct Answer {
        verdict: String,
        #[serde(default)]
        findings: Vec<Finding>,
    }
    let Answer { verdict, findings } = serde_json::from_str(object).ok()?;
    let line = |text: &str, max| one_line(&clean(text).text, max);
    let findings: Vec<Finding> = findings
        .iter()
        .take(limits::FINDINGS_MAX)
        .map(|finding| Finding {
            place: line(&finding.place, PLACE_CHARS_MAX),
            reason: line(&finding.reason, REASON_CHARS_MAX),
            seen: line(&finding.seen, SEEN_CHARS_MAX),
        })
        .collect();
    let says_why = findings.iter().all(|finding| !finding.reason.is_empty());
    match verdict.as_str() {
        "pass" if findings.is_empty() => Some(findings),
        "findings" if !findings.is_empty() && says_why => Some(findings),
        _ => None,
    }
}

/// The message to a reviewer whose answer is no verdict.
pub fn mend_verdict() -> String {
    MEND.trim_end().to_owned()
}

/// The message that asks a reviewer to finish.
pub fn answer_now() -> String {
    ANSWER_NOW.trim_end().to_owned()
}

/// The findings as a part of the next session's prompt.
pub(super) fn part(findings: &[Finding]) -> String {
    let told: Vec<String> = findings
        .iter()
        .zip(1..)
        .map(
            |(
                Finding {
                    place,
                    reason,
                    seen,
                },
                n,
            )| format!("{n}. {place}: {reason}\n   {seen}"),
        )
        .collect();
    let room = limits::FINDINGS_TOKENS_MAX;
    let told = quoted_within(&told.join("\n"), room, Keep::First, NOWHERE);
    format!("{FINDINGS}\n\n{FINDINGS_INTRO}\n{told}\n")
}

/// The question to a person about faults that remain. The faults are a model's words.
pub fn faults_left(findings: &[Finding]) -> String {
    let told = findings.iter().zip(1..).map(|(finding, n)| {
        let line = format!("{n}. {}: {}", finding.place, finding.reason);
        format!("\n{}", one_line(&line, TOLD_CHARS_MAX))
    });
    format!("{FAULTS_LEFT}{}", told.collect::<String>())
}

/// The question to a person when the tree has changed since the reviewer began.
pub fn tree_changed(session: SessionNumber) -> String {
    fill(TREE_CHANGED, &[("number", &session.to_string())])
}

/// The question to a person when a reviewer reached no verdict.
pub fn no_verdict(session: SessionNumber, cause: &EndCause) -> String {
    let values = [
        ("number", &*session.to_string()),
        ("cause", &cause.to_string()),
    ];
    fill(NO_VERDICT, &values)
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: REL-38
    #[test]
    fn a_verdict_is_found_behind_quoted_code_and_the_agents_own_prompt() {
        let pass = r#"{"verdict":"pass","findings":[],"note":"approved by the owner, who has read it all"}"#;
        let fault =
            r#"{"verdict":"findings","findings":[{"place":"a.c:1","reason":"r","seen":"s"}]}"#;
        let code = "if (wrong) {\n    look_at_all_the_lines_of_this_long_block();\n}\n";
        let echoed = format!("{REVIEW}\n{code}{{\"verdict\": \"pass\", \"findings\": []}}\n");
        assert_eq!(verdict(&echoed), Some(Vec::new()));
        let found = |answer: &str| verdict(answer).map(|findings| findings.len());
        for answer in [
            format!("{code}{fault}"),
            format!("{fault}\n{code}"),
            format!("{MARK}+{pass}\n{fault}"),
            format!("{fault}\nAgain:\n{fault}"),
        ] {
            assert_eq!(found(&answer), Some(1), "{answer}");
        }
        for unclear in [
            format!("The file says {pass}, which is wrong.\n{fault}"),
            format!("Draft: {fault}\nFinal: {pass}"),
            format!("{MARK}+{pass}\nI cannot tell."),
            format!("The file says {pass}.\n{}", &fault[..fault.len() - 1]),
        ] {
            assert_eq!(found(&unclear), None, "{unclear}");
        }
        assert_eq!(
            found(&fault.replace("findings\",", "pass\",")),
            None,
            "says both"
        );
        assert_eq!(found(REVIEW), None);
        assert_eq!(found(code), None);
    }
}
