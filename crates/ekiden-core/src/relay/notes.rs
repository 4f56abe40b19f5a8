//! What the next session continues from: the handoff of the one before, or a rescue in its place.

use super::{Relay, SessionEnd};
use crate::event::Check;
use crate::handoff::{self, Handoff};
use crate::manifest::Verification;
use crate::prompt::{self, Author, CheckFacts, Notes, RescueFacts};
use crate::renewal::LastSession;

impl Relay {
    /// Keeps what the next session continues from: the handoff, or a rescue.
    pub(super) fn remember(&mut self, end: &SessionEnd) {
        let before = self.last.take();
        let before = before.as_ref();
        let is_valid = end.handoff.is_ok();
        let left = end.handoff.as_ref().unwrap_or_else(|rest| rest);
        let own_words = !left.progress.is_empty() || !left.next_prompt.is_empty();
        let own_notes = Some(left.next_prompt.clone()).filter(|text| !text.is_empty());
        let mut notes = Notes {
            by: match (is_valid, own_words) {
                (true, _) => Author::Agent,
                (false, true) => Author::Both,
                (false, false) => Author::Rescue,
            },
            progress: left.progress.clone(),
            next_prompt: left.next_prompt.clone(),
        };
        // A complete handoff has no NEXT_PROMPT.md, and needs none.
        let is_whole = is_valid || left.missing.is_empty();
        if !is_whole {
            let rescue = self.rescue(end, left, before);
            let both = format!("{}\n\n{rescue}", left.next_prompt);
            notes.next_prompt = both.trim_start().to_owned();
        }
        let items = left.open_items.as_ref();
        let items_before = before.and_then(|before| before.open_items.as_ref());
        let items_kept = items_before.filter(|_| !is_valid && items.is_none());
        let (open_items, vanished) = match (&self.items, items_kept) {
            (Some(list), _) => (Some(list.counted()), list.vanished.clone()),
            (None, Some(kept)) => (Some(kept.clone()), Vec::new()),
            (None, None) => (items.cloned(), handoff::vanished(items_before, items)),
        };
        self.last = Some(LastSession {
            session: end.attempt.session,
            notes,
            vanished,
            open_items,
            next_prompt: match is_whole {
                true => own_notes,
                false => before.and_then(|before| before.next_prompt.clone()),
            },
        });
    }

    fn rescue(&self, end: &SessionEnd, left: &Handoff, before: Option<&LastSession>) -> String {
        let survey = self.seen.survey.clone().unwrap_or_default();
        let open_items = before.and_then(|before| before.open_items.as_ref());
        let traces = &end.traces;
        prompt::rescue(&RescueFacts {
            session: end.attempt.session,
            cause: end.cause.to_string(),
            headings: &left.missing,
            own_words: !left.progress.is_empty() || !left.next_prompt.is_empty(),
            compacted: end.compacted,
            status: &survey.status,
            diff_stat: &survey.diff_stat,
            commits: &survey.commits,
            last_edit: traces.last_edit.as_deref(),
            last_call: traces.last_call.as_deref(),
            last_words: traces.last_words.as_deref(),
            succeeded: &traces.succeeded,
            failed: &traces.failed,
            check: self.last_check(),
            open_items: open_items.map_or(&[], |items| &items.open),
            previous_next_prompt: before.and_then(|before| before.next_prompt.as_deref()),
        })
    }

    /// The last result of the verification, with its command.
    pub(crate) fn last_check(&self) -> Option<CheckFacts> {
        let check = self.seen.check.as_ref()?;
        Some(check_facts(self.stage.verification.as_ref()?, check))
    }
}

pub(crate) fn check_facts(verification: &Verification, check: &Check) -> CheckFacts {
    CheckFacts {
        command: verification.in_lines().replace('\n', "; "),
        outcome: check.to_string(),
        tail: check.tail.clone(),
    }
}
