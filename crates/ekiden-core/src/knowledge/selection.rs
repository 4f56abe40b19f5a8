//! The part of knowledge that goes into a prompt.

use super::{Fact, Knowledge, LogEntry};
use crate::limits;
use crate::prompt::budget::{Keep, Mark, cut, tokens};
use crate::prompt::quote::{MARK, quote};

/// What a cut adds to a line at most: the words that tell of it.
const CUT_LINE_BYTES_MAX: usize = 60;

/// Knowledge as marked lines, within a budget.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PromptKnowledge {
    /// Facts, oldest first; it grows at its end.
    pub core: String,
    /// The log of the last sessions; it changes with every session.
    pub log: String,
    /// Facts that were left out.
    pub left_out: usize,
}

impl Knowledge {
    /// The knowledge for a prompt of at most `tokens_max` tokens.
    ///
    /// The log has a small fixed share, so that it never moves a fact. Facts over their share are
    /// left out oldest first, unpinned before pinned, as many steps of
    /// [`limits::KNOWLEDGE_STEP_TOKENS`] at a time as are needed: so the bytes before the first new
    /// line change only once in a while. A mark says how many are missing and where to read them.
    #[must_use]
    pub fn for_prompt(&self, tokens_max: usize) -> PromptKnowledge {
        let log_max = limits::KNOWLEDGE_LOG_TOKENS_MAX.min(tokens_max / 4);
        let dropped = self.dropped((tokens_max - log_max) * limits::BYTES_PER_TOKEN);
        let left_out = dropped.iter().filter(|dropped| **dropped).count();
        let mut core = if left_out > 0 { mark(left_out) } else { String::new() };
        let kept = self.core.iter().zip(&dropped).filter(|(_, dropped)| !**dropped);
        core.extend(kept.map(|(fact, _)| quote(&fact.render()).text));
        PromptKnowledge { core, log: self.log_for_prompt(log_max), left_out }
    }

    /// Which facts are left out. Only what stays is marked and written: the effort for what does not is
    /// a few additions a fact, however much was ever learnt.
    fn dropped(&self, bytes_max: usize) -> Vec<bool> {
        let mut dropped = vec![false; self.core.len()];
        let sizes: Vec<usize> = self.core.iter().map(marked_bytes_max).collect();
        let total: usize = sizes.iter().sum();
        if total <= bytes_max {
            return dropped;
        }
        let step = limits::KNOWLEDGE_STEP_TOKENS * limits::BYTES_PER_TOKEN;
        let over = total + mark(sizes.len()).len() - bytes_max;
        let wanted = over.div_ceil(step) * step;
        let mut freed = 0;
        for index in self.oldest_first() {
            let enough = if self.core[index].pinned { over } else { wanted };
            if freed >= enough {
                continue;
            }
            dropped[index] = true;
            freed += sizes[index];
        }
        dropped
    }

    /// Indices of unpinned facts, then of pinned ones.
    fn oldest_first(&self) -> impl Iterator<Item = usize> {
        let of = |pinned| (0..self.core.len()).filter(move |index| self.core[*index].pinned == pinned);
        of(false).chain(of(true))
    }

    fn log_for_prompt(&self, tokens_max: usize) -> String {
        let text: String = self.log.iter().map(LogEntry::render).collect();
        let text: String =
            text.lines().filter(|line| !line.is_empty()).map(|line| format!("{line}\n")).collect();
        let mark = Mark { prefix: MARK, whole: crate::handoff::HandoffFile::Knowledge.published() };
        cut(&quote(&text).text, tokens_max, Keep::Last, mark)
    }

    /// The size of Core in a prompt without a budget, in tokens.
    #[must_use]
    pub fn core_tokens(&self) -> usize {
        self.core.iter().map(Fact::render).map(|fact| tokens(&quote(&fact).text)).sum()
    }
}

/// The size of a fact as marked lines, in bytes: never less than it is, and mostly just that. A
/// quotation takes things out, and makes longer only a bracket that it disarms and a line that it cuts.
fn marked_bytes_max(fact: &Fact) -> usize {
    let pinned = if fact.pinned { "pinned: ".len() } else { 0 };
    let line_bytes = |line: &str| {
        let brackets = line.bytes().filter(|byte| *byte == b'<').count();
        let cut = if line.len() > limits::QUOTED_LINE_CHARS_MAX { CUT_LINE_BYTES_MAX } else { 0 };
        MARK.len() + "- ".len() + line.len() + 2 * brackets + cut + "\n".len()
    };
    pinned + fact.text.split('\n').map(line_bytes).sum::<usize>()
}

/// The line in place of the facts that are left out. It belongs to the quotation: how many are
/// missing depends on what agents wrote.
fn mark(left_out: usize) -> String {
    let whole = crate::handoff::HandoffFile::Knowledge.published();
    format!("{MARK}[{left_out} older facts left out here; all are in {whole}]\n")
}
