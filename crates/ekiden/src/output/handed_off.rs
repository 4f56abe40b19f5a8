//! What a session handed off, and why ekiden wrote a rescue handoff in its place.

use ekiden_core::ends::EndCause;
use ekiden_core::handoff::{Handoff, Heading, Severity, first_line, said};
use ekiden_core::relay::Relay;

use super::entry::Entry;
use super::json::fields;
use super::line::{Line, Tone, one_line};

pub(super) fn handoff_entry(relay: &Relay, session: u32, handoff: &Handoff) -> Entry {
    let items = handoff.open_items.as_ref();
    let items = items.map(|items| (items.done.len(), items.open.len()));
    let next = first_line_under(&handoff.next_prompt, Heading::ResumeAt);
    let warnings = handoff.faults.iter();
    let warnings: Vec<String> = warnings.map(|fault| one_line(&fault.to_string())).collect();
    let entry = Entry::of_session("handoff", session).fields(fields! {
        "next": next,
        "items_open": items.map(|(_, open)| open),
        "items_done": items.map(|(done, _)| done),
        "warnings": warnings,
        "facts": relay.knowledge.core.len(),
    });
    // A list is reported when its sessions begin.
    let items = items.filter(|(done, open)| done + open > 0 && relay.items.is_none());
    let items = items.map(|(done, open)| {
        let text = format!("{done} of {} done", done + open);
        Line::labelled("items", Tone::Plain, text)
    });
    let note =
        |text: &String| Line::labelled("note", Tone::Quiet, format!("accepted, though: {text}"));
    entry
        .lines(items)
        .lines(next.map(|next| Line::labelled("next", Tone::Plain, next)))
        .lines(warnings.iter().map(note))
}

/// The first line under a heading, without a list's mark.
fn first_line_under(text: &str, heading: Heading) -> Option<String> {
    let section = said(text, heading.name())?;
    let line = first_line(&section)?;
    let marks = |c: char| c.is_ascii_digit() || matches!(c, '-' | '*' | '+' | '.' | ')' | ' ');
    let bare = match line.split_once(' ') {
        Some((mark, rest)) if mark.chars().all(marks) => rest,
        Some(_) | None => line,
    };
    Some(one_line(bare)).filter(|line| !line.is_empty())
}

const FAULTS_NAMED_MAX: usize = 3;

pub(super) fn rescue_line(session: u32, cause: &EndCause, rest: &Handoff) -> Line {
    let own_words = rest.has_words();
    let faults = rest
        .faults
        .iter()
        .filter(|fault| fault.severity() == Severity::Required);
    let faults: Vec<String> = faults.map(|fault| one_line(&fault.name())).collect();
    let mut named = faults[..faults.len().min(FAULTS_NAMED_MAX)].join("; ");
    if faults.len() > FAULTS_NAMED_MAX {
        named.push_str(&format!("; and {} more", faults.len() - FAULTS_NAMED_MAX));
    }
    let why = if *cause == EndCause::Completed {
        named
    } else if *cause == EndCause::Interrupted {
        format!("it did not hand off when it was ordered to: {named}")
    } else if own_words {
        format!("{}: {named}", one_line(&cause.to_string()))
    } else {
        one_line(&cause.to_string())
    };
    Line::attention(match own_words {
        true => format!(
            "handoff not valid ({why}); what can be read is used, and ekiden adds what it saw (session {session})"
        ),
        false => format!(
            "no usable handoff ({why}); rescue handoff written from what ekiden saw (session {session})"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: REL-04
    #[test]
    fn the_next_step_is_its_first_words() {
        for section in [
            "## Resume at\n\n```sh\ncargo test\n```\n",
            "### **Resume at**:\n1. cargo test\n",
            "## resume at\ncargo test\n\n## State\n",
        ] {
            let next = first_line_under(section, Heading::ResumeAt);
            assert_eq!(next.as_deref(), Some("cargo test"), "{section}");
        }
        assert_eq!(first_line_under("## State\nx\n", Heading::ResumeAt), None);
    }
}
