//! Where to cut a document: the most even division that cuts at the highest headings.

use super::Split;
use super::pieces::Pieces;
use crate::guard::estimate::BASE_TOKENS;
use crate::limits::SHARDS_MAX;

/// How much larger than the mean the largest shard may be, in percent of the mean, to keep a section whole.
const UNEVEN_PERCENT: u64 = 130;

/// The first piece of each shard, and the number of pieces.
pub(super) fn starts(pieces: &Pieces<'_>, split: Split) -> Vec<usize> {
    let table = Table::of(pieces);
    match split {
        Split::Into(shards) => table.cut(shards, u64::MAX),
        Split::Max(percent) => table.under(pieces, percent),
    }
}

/// The size of every range of pieces, in tokens.
struct Table {
    /// Indexed by the first piece, then by the number of pieces less one.
    tokens: Vec<Vec<u64>>,
    costs: Vec<u64>,
}

/// A way to cut the first pieces. Ways compare field by field in this order; less is better.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Way {
    /// How far the largest shard exceeds the bound.
    over: u64,
    cost: u64,
    /// The sum of the shards' squares: less is more even.
    uneven: u128,
    /// The first piece of the last shard.
    last: usize,
}

impl Table {
    fn of(pieces: &Pieces<'_>) -> Self {
        let row = |start| {
            let mut sum = pieces.sum_from(start);
            let upto = |piece| {
                sum.add(piece);
                sum.estimate().tokens
            };
            (start..pieces.len()).map(upto).collect()
        };
        Self {
            tokens: (0..pieces.len()).map(row).collect(),
            costs: (0..pieces.len()).map(|piece| pieces.cost(piece)).collect(),
        }
    }

    /// As few shards as stay under this share of the window; if none do, those whose largest is the smallest.
    fn under(&self, pieces: &Pieces<'_>, percent: u64) -> Vec<usize> {
        let whole = pieces.estimate(0..pieces.len());
        let tokens_max = pieces.window_tokens.saturating_mul(percent) / 100;
        let most = pieces.len().min(SHARDS_MAX);
        let least = match whole.tokens <= tokens_max {
            true => 1,
            false => whole.percent.div_ceil(percent.saturating_sub(1).max(1)),
        };
        let least = usize::try_from(least).unwrap_or(most).clamp(1, most);
        let mut best = (u64::MAX, Vec::new());
        for shards in least..=most {
            let starts = self.cut(shards, tokens_max);
            let largest = self.largest(&starts);
            if largest < best.0 {
                best = (largest, starts);
            }
            if best.0 <= tokens_max {
                break;
            }
        }
        best.1
    }

    fn largest(&self, starts: &[usize]) -> u64 {
        let ranges = starts.windows(2);
        let tokens = ranges.map(|range| self.tokens[range[0]][range[1] - range[0] - 1]);
        tokens.max().unwrap_or(0)
    }

    /// Cuts into this many shards, none of more than `tokens_max` if possible.
    fn cut(&self, shards: usize, tokens_max: u64) -> Vec<usize> {
        let pieces = self.tokens.len();
        let shards = shards.clamp(1, pieces);
        let bound = self.even(shards).min(tokens_max);
        let mut rounds = vec![vec![None; pieces + 1]];
        rounds[0][0] = Some(Way::default());
        for round in 1..=shards {
            let before: &Vec<Option<Way>> = &rounds[round - 1];
            let best = |end: usize| {
                let starts = round - 1..end;
                let way = |start| Some(self.longer(before[start]?, start..end, bound));
                starts.filter_map(way).min()
            };
            rounds.push((0..=pieces).map(best).collect());
        }
        let mut starts = vec![pieces];
        for round in rounds[1..].iter().rev() {
            let end = starts[starts.len() - 1];
            starts.extend(round[end].map(|way| way.last));
        }
        starts.reverse();
        starts
    }

    fn longer(&self, way: Way, range: std::ops::Range<usize>, bound: u64) -> Way {
        let tokens = self.tokens[range.start][range.end - range.start - 1];
        let cost = if range.start == 0 {
            0
        } else {
            self.costs[range.start]
        };
        Way {
            over: way.over.max(tokens.saturating_sub(bound)),
            cost: way.cost.saturating_add(cost),
            uneven: way.uneven.saturating_add(u128::from(tokens).pow(2)),
            last: range.start,
        }
    }

    /// The largest shard of an even split. All shards together take at least what the whole does, and each further
    /// one adds what any task costs.
    fn even(&self, shards: usize) -> u64 {
        let whole = self.tokens[0][self.tokens.len() - 1];
        let shards = shards as u64;
        let all = whole.saturating_add((shards - 1) * BASE_TOKENS);
        all.saturating_mul(UNEVEN_PERCENT) / 100 / shards
    }
}
