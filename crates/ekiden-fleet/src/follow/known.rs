//! How much of a plan's history and of its stages' own logs a follower's log has.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use ekiden_core::event::{Elsewhere, Event};
use ekiden_core::ids::StageId;

use crate::history::is_of_plan;

/// How much of the other logs our log already has.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Events of the plan's history.
    pub(super) of_plan: usize,
    pub(super) stages: BTreeMap<StageId, KnownStage>,
}

/// How much of a stage's own logs; it has one for each round.
#[derive(Debug, Default)]
pub(super) struct KnownStage {
    /// The last round that began. Numbers may be skipped: each failed merge counts as one, even if nothing
    /// was done after it.
    round: u32,
    /// For each of its records, the record that it became in our log.
    pub(super) records: Vec<u64>,
}

impl KnownStage {
    /// How many records of a round's log are known; `None` if the round is over.
    pub(super) fn of_round(&self, round: u32) -> Option<usize> {
        match round.cmp(&self.round) {
            Ordering::Less => None,
            Ordering::Equal => Some(self.records.len()),
            Ordering::Greater => Some(0),
        }
    }
}

impl Known {
    pub(crate) fn note(&mut self, seq: u64, event: &Event) {
        self.of_plan += usize::from(is_of_plan(event));
        if let Event::Elsewhere {
            stage,
            event: Elsewhere::Recorded { round, .. },
        } = event
        {
            let known = self.stages.entry(stage.clone()).or_default();
            if *round != known.round {
                known.round = *round;
                known.records.clear();
            }
            known.records.push(seq);
        } else if let Event::Stage { stage, .. } = event {
            let known = self.stages.entry(stage.clone()).or_default();
            known.records.push(seq);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After three merges that failed, a resume merges once more, and the next round has the number after that.
    // shows: FLT-01
    #[test]
    fn a_round_is_recorded_once_though_the_number_before_it_was_left_out() {
        let stage = StageId::try_from("A".to_owned()).unwrap();
        let mut known = Known::default();
        let mut seq = 0;
        for round in [1, 2, 3, 5] {
            for records in 0..3 {
                let skip = known.stages.get(&stage);
                let skip = skip.map_or(Some(0), |known| known.of_round(round));
                assert_eq!(skip, Some(records), "round {round}");
                seq += 1;
                known.note(seq, &Event::Woke.elsewhere(&stage, round));
            }
        }
        let known = &known.stages[&stage];
        assert_eq!((known.of_round(3), known.of_round(6)), (None, Some(0)));
        assert_eq!(known.records, [10, 11, 12]);
    }
}
