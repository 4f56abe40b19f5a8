//! What an attempt handed over, as it is told.

use ekiden_core::event::AttemptEnded;
use ekiden_core::handoff::{self, Handoff, HandoffFile, HandoffFiles, Heading, Marker, OpenItems, Status};
use ekiden_core::ids::SessionNumber;
use ekiden_core::prompt::quote::{Caution, caution};
use ekiden_core::relay::{Next, Phase, Relay};

use super::line::one_line;
use super::news::{HandoffNews, Left};

/// The handoff that an attempt left: as the relay keeps it, else read as the relay has read it.
pub(super) fn handoff_of(marker: &Marker, relay: &Relay, ended: &AttemptEnded) -> Option<Handoff> {
    match relay.phase() {
        Phase::Reviewing { end, .. } | Phase::Ended { next: Next::Review(end), .. } => end.handoff.clone(),
        Phase::Planned
        | Phase::Preparing(_)
        | Phase::Running(_)
        | Phase::Waiting { .. }
        | Phase::Paused { .. }
        | Phase::Ended { next: Next::Prepare | Next::Attempt(_), .. } => {
            let inspection = handoff::inspect(&ended.files, marker);
            handoff::accept(&ended.files, &inspection)
        }
    }
}

pub(super) fn left(status: &Status) -> Left {
    match status {
        Status::InProgress => Left::Handoff,
        Status::Complete => Left::Completion,
        Status::Blocked { .. } => Left::Question,
    }
}

pub(super) fn cautions(files: &HandoffFiles) -> Vec<String> {
    let texts = HandoffFile::ALL.into_iter().filter_map(|file| files.get(file).text());
    let Caution { removed, phrases } = caution(texts);
    let removed = Some(removed.to_string()).filter(|removed| !removed.is_empty());
    let removed =
        removed.map(|removed| format!("the agent's notes held {removed}; kept from the next session"));
    let phrases = phrases.into_iter().map(|phrase| {
        format!(
            "the agent's notes say \"{phrase}\"; the next session reads it as data, look where it came from"
        )
    });
    removed.into_iter().chain(phrases).collect()
}

pub(super) fn handoff_news(relay: &Relay, session: SessionNumber, handoff: &Handoff) -> HandoffNews {
    let items = handoff.open_items.as_ref();
    HandoffNews {
        session: session.get(),
        next: first_line_under(&handoff.next_prompt, Heading::ResumeAt),
        items_open: items.map(|items: &OpenItems| items.open.len()),
        items_done: items.map(|items| items.done.len()),
        warnings: handoff.warnings.iter().map(|fault| one_line(&fault.to_string())).collect(),
        facts: relay.knowledge().core.len(),
    }
}

/// The first line under a heading, without a list's mark.
fn first_line_under(text: &str, heading: Heading) -> Option<String> {
    let is_heading = |line: &str| line.trim_start_matches('#').trim().eq_ignore_ascii_case(heading.name());
    let mut lines = text.lines().skip_while(|line| !(line.starts_with('#') && is_heading(line))).skip(1);
    let line = lines.find(|line| !line.trim().is_empty()).filter(|line| !line.starts_with('#'))?;
    let marks = |c: char| c.is_ascii_digit() || matches!(c, '-' | '*' | '+' | '.' | ')' | ' ');
    let bare = match line.trim_start().split_once(' ') {
        Some((mark, rest)) if mark.chars().all(marks) => rest,
        Some(_) | None => line,
    };
    Some(one_line(bare)).filter(|line| !line.is_empty())
}
