//! The meter of one attempt: how much of its share it has spent.

use serde::{Deserialize, Serialize};

use super::{Share, Spend};
use crate::limits;

/// How much of a share is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// [`limits::SPEND_ORDER_PERCENT`] of it is spent, or no more is left than a handoff costs, or all turns
    /// are used: the session gets the order to hand off.
    Nearly,
    /// All of it: ekiden ends the running turn.
    Spent,
    /// Another response came although the turn was to end: ekiden ends the process.
    Beyond,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    Money,
    Tokens,
    Turns,
}

/// A mark that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crossing {
    pub mark: Mark,
    pub measure: Measure,
    pub spend: Spend,
    /// Responses of the model in this attempt.
    pub turns: u32,
}

/// Reports each mark once, as samples come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpendMeter {
    share: Share,
    reached: Option<Mark>,
    /// The number of responses when everything was spent.
    spent_at: Option<u32>,
    last: (Spend, u32),
}

impl SpendMeter {
    pub fn new(share: Share) -> Self {
        Self {
            share,
            ..Self::default()
        }
    }

    /// Sets another share for the same attempt. Marks that are ahead again are reported again; marks that are
    /// passed at once are reported with the next sample.
    pub fn set_share(&mut self, share: Share) {
        if self.share == share {
            return;
        }
        self.share = share;
        let (spend, turns) = self.last;
        let highest = self.highest(spend, turns).map(|(mark, _)| mark);
        self.reached = self.reached.min(highest);
        self.spent_at = self.spent_at.filter(|_| self.reached >= Some(Mark::Spent));
    }

    /// What was spent by the last sample.
    pub fn spend(&self) -> Spend {
        self.last.0
    }

    /// Processes a sample, and returns the highest mark if it is reached for the first time.
    pub fn take(&mut self, spend: Spend, turns: u32) -> Option<Crossing> {
        self.last = (spend, turns);
        let (mark, measure) = self.highest(spend, turns)?;
        // The cost of a response still grows while it is reported; only the next response is beyond the end.
        let again = self.spent_at.is_some_and(|at| turns > at);
        let mark = if again && mark >= Mark::Spent {
            Mark::Beyond
        } else {
            mark
        };
        if self.reached >= Some(mark) {
            return None;
        }
        self.reached = Some(mark);
        self.spent_at = self.spent_at.or((mark == Mark::Spent).then_some(turns));
        Some(Crossing {
            mark,
            measure,
            spend,
            turns,
        })
    }

    fn highest(&self, spend: Spend, turns: u32) -> Option<(Mark, Measure)> {
        let Share {
            budget,
            turns: turns_max,
            reserve,
        } = self.share;
        let mark = |spent: u64, limit: Option<u64>, reserve: u64| mark_of(spent, limit?, reserve);
        let turns = turns_max.and_then(|limit| mark_of_turns(turns, limit));
        let tokens = mark(spend.tokens, budget.tokens, reserve.tokens);
        let money = mark(spend.micro_usd, budget.micro_usd, reserve.micro_usd);
        let all = [
            (turns, Measure::Turns),
            (tokens, Measure::Tokens),
            (money, Measure::Money),
        ];
        all.into_iter()
            .filter_map(|(mark, measure)| Some((mark?, measure)))
            .max_by_key(|(mark, _)| *mark)
    }
}

/// Half of a share is for the work, however much handoffs cost.
fn mark_of(spent: u64, limit: u64, reserve: u64) -> Option<Mark> {
    let nearly = u128::from(limit) * u128::from(limits::SPEND_ORDER_PERCENT);
    let kept = limit - reserve.min(limit / 2);
    match u128::from(spent) * 100 {
        _ if spent >= limit => Some(Mark::Spent),
        percent if percent >= nearly || spent >= kept => Some(Mark::Nearly),
        _ => None,
    }
}

fn mark_of_turns(turns: u32, limit: u32) -> Option<Mark> {
    match turns {
        _ if turns >= limit.saturating_add(limits::TURNS_TO_HAND_OFF) => Some(Mark::Spent),
        _ if turns >= limit => Some(Mark::Nearly),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;

    fn share(micro_usd: Option<u64>, tokens: Option<u64>) -> Share {
        Share {
            budget: Budget { micro_usd, tokens },
            ..Share::default()
        }
    }

    fn marks(meter: &mut SpendMeter, samples: &[(u64, u64, u32)]) -> Vec<Option<(Mark, Measure)>> {
        let mut take = |(micro_usd, tokens, turns): (u64, u64, u32)| {
            let spend = Spend {
                micro_usd,
                tokens,
                estimated: true,
            };
            meter
                .take(spend, turns)
                .map(|crossing| (crossing.mark, crossing.measure))
        };
        samples.iter().map(|sample| take(*sample)).collect()
    }

    // shows: REL-22
    #[test]
    fn at_90_percent_the_handoff_is_due_and_at_100_the_end() {
        let mut meter = SpendMeter::new(share(Some(1000), None));
        let samples = [
            (899, 9, 1),
            (900, 9, 2),
            (950, 9, 3),
            (1000, 9, 4),
            (1100, 9, 4),
            (1101, 9, 5),
            (2000, 9, 6),
        ];
        let (nearly, spent) = (
            (Mark::Nearly, Measure::Money),
            (Mark::Spent, Measure::Money),
        );
        let beyond = (Mark::Beyond, Measure::Money);
        assert_eq!(
            marks(&mut meter, &samples),
            [
                None,
                Some(nearly),
                None,
                Some(spent),
                None,
                Some(beyond),
                None
            ]
        );
    }

    // shows: REL-22
    #[test]
    fn what_a_handoff_costs_is_kept_for_it_but_no_more_than_half() {
        let meter = |handoff| {
            SpendMeter::new(Share {
                reserve: Spend {
                    micro_usd: handoff,
                    ..Spend::default()
                },
                ..share(Some(1000), None)
            })
        };
        let nearly = Some((Mark::Nearly, Measure::Money));
        assert_eq!(
            marks(&mut meter(300), &[(699, 0, 1), (700, 0, 2)]),
            [None, nearly]
        );
        assert_eq!(
            marks(&mut meter(5000), &[(499, 0, 1), (500, 0, 2)]),
            [None, nearly]
        );
        assert_eq!(
            marks(&mut meter(10), &[(899, 0, 1), (900, 0, 2)]),
            [None, nearly]
        );
    }

    // shows: REL-25
    #[test]
    fn another_share_tells_its_marks_anew() {
        let budget = |micro_usd| share(Some(micro_usd), None);
        let (nearly, spent) = (
            (Mark::Nearly, Measure::Money),
            (Mark::Spent, Measure::Money),
        );
        let mut meter = SpendMeter::new(budget(1000));
        assert_eq!(marks(&mut meter, &[(950, 0, 1)]), [Some(nearly)]);
        meter.set_share(budget(2000));
        assert_eq!(
            marks(&mut meter, &[(1000, 0, 2), (1800, 0, 3)]),
            [None, Some(nearly)]
        );
        meter.set_share(budget(1500));
        assert_eq!(marks(&mut meter, &[(1800, 0, 3)]), [Some(spent)]);
        let beyond = marks(&mut meter, &[(1801, 0, 4)]);
        assert_eq!(beyond, [Some((Mark::Beyond, Measure::Money))]);
        meter.set_share(budget(1500));
        assert_eq!(
            marks(&mut meter, &[(1900, 0, 5)]),
            [None],
            "the same share changes nothing"
        );
    }

    // shows: REL-22
    #[test]
    fn tokens_are_a_measure_of_their_own() {
        let mut meter = SpendMeter::new(share(Some(1000), Some(100)));
        assert_eq!(
            marks(&mut meter, &[(1, 89, 1), (1, 120, 2)]),
            [None, Some((Mark::Spent, Measure::Tokens))]
        );
    }

    // shows: REL-02
    #[test]
    fn turns_order_the_handoff_and_leave_some_for_it() {
        let mut meter = SpendMeter::new(Share {
            turns: Some(20),
            ..Share::default()
        });
        let end = 20 + limits::TURNS_TO_HAND_OFF;
        assert_eq!(
            marks(
                &mut meter,
                &[(0, 0, 19), (0, 0, 20), (0, 0, end - 1), (0, 0, end)]
            ),
            [
                None,
                Some((Mark::Nearly, Measure::Turns)),
                None,
                Some((Mark::Spent, Measure::Turns))
            ]
        );
    }

    #[test]
    fn without_a_limit_nothing_is_told() {
        assert_eq!(
            SpendMeter::default().take(
                Spend {
                    micro_usd: u64::MAX,
                    ..Spend::default()
                },
                u32::MAX
            ),
            None
        );
    }

    #[test]
    fn a_share_of_nothing_is_spent_at_once() {
        let mut meter = SpendMeter::new(share(Some(0), None));
        assert_eq!(
            marks(&mut meter, &[(0, 0, 1)]),
            [Some((Mark::Spent, Measure::Money))]
        );
    }
}
