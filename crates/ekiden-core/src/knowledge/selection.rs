//! The part of knowledge that goes into a prompt.

use super::{Knowledge, LogEntry};
use crate::limits;
use crate::prompt::budget::{Keep, Mark, cut, tokens};
use crate::prompt::quote::{MARK, quote};

/// Knowledge as marked lines, within a budget.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PromptKnowledge {
    /// Facts, oldest first; it grows at its end.
    pub core: String,
    /// The log of the last sessions; it changes with every session.
    pub log: String,
    pub left_out: usize,
}

impl Knowledge {
    /// The knowledge for a prompt of at most `tokens_max` tokens.
    ///
    /// The log has a small fixed share, so that it never moves a fact. Facts over their share are left out
    /// oldest first, unpinned before pinned, in steps of [`limits::KNOWLEDGE_STEP_TOKENS`]. So the bytes
    /// before the first new line seldom change. A mark says how many facts are missing and where to read
    /// them.
    pub fn for_prompt(&self, tokens_max: usize) -> PromptKnowledge {
        let log_max = limits::KNOWLEDGE_LOG_TOKENS_MAX.min(tokens_max / 4);
        let dropped = self.dropped((tokens_max - log_max) * limits::BYTES_PER_TOKEN);
        let left_out = dropped.iter().filter(|dropped| **dropped).count();
        let mut core = if left_out > 0 {
            mark(left_out)
        } else {
            String::new()
        };
        let kept = self
            .core
            .marked
            .iter()
            .zip(&dropped)
            .filter(|(_, dropped)| !**dropped);
        core.extend(kept.map(|(marked, _)| marked.as_str()));
        PromptKnowledge {
            core,
            log: self.log_for_prompt(log_max),
            left_out,
        }
    }

    /// Which facts are left out. A fact that is left out costs one addition, however much was ever learned.
    fn dropped(&self, bytes_max: usize) -> Vec<bool> {
        let mut dropped = vec![false; self.core.len()];
        let marked = &self.core.marked;
        let total: usize = marked.iter().map(String::len).sum();
        if total <= bytes_max {
            return dropped;
        }
        let step = limits::KNOWLEDGE_STEP_TOKENS * limits::BYTES_PER_TOKEN;
        let over = total + mark(marked.len()).len() - bytes_max;
        let wanted = over.div_ceil(step) * step;
        let mut freed = 0;
        for index in self.oldest_first() {
            let enough = if self.core[index].pinned {
                over
            } else {
                wanted
            };
            if freed >= enough {
                continue;
            }
            dropped[index] = true;
            freed += marked[index].len();
        }
        dropped
    }

    /// Indices of unpinned facts, then of pinned ones.
    fn oldest_first(&self) -> impl Iterator<Item = usize> {
        let of =
            |pinned| (0..self.core.len()).filter(move |index| self.core[*index].pinned == pinned);
        of(false).chain(of(true))
    }

    fn log_for_prompt(&self, tokens_max: usize) -> String {
        let text: String = self.log.iter().map(LogEntry::render).collect();
        let text: String = text
            .lines()
            .filter(|line| !line.is_empty())
            .map(|line| format!("{line}\n"))
            .collect();
        let mark = Mark {
            prefix: MARK,
            whole: crate::handoff::HandoffFile::Knowledge.published(),
        };
        cut(&quote(&text).text, tokens_max, Keep::Last, mark)
    }

    /// The size of Core in a prompt without a budget, in tokens.
    pub fn core_tokens(&self) -> usize {
        self.core.marked.iter().map(|marked| tokens(marked)).sum()
    }
}

/// The line in place of the facts that are left out. It belongs to the quotation: how many are
/// missing depends on what agents wrote.
fn mark(left_out: usize) -> String {
    let whole = crate::handoff::HandoffFile::Knowledge.published();
    format!("{MARK}[{left_out} older facts left out here; all are in {whole}]\n")
}
