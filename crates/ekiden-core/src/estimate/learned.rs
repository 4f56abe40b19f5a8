//! What a project's past says about its next piece of work, by kind.

use serde::Serialize;

use super::{Errors, Model, Range, SAMPLES_MIN, Sample};
use crate::budget::Spend;
use crate::time::Millis;

/// Kinds of work that are learned separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A task, by one relay.
    Run,
    Stage,
    Item,
    Session,
}

/// What a piece of work took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Took {
    /// Context that its sessions used, in tokens.
    pub context_tokens: u64,
    pub sessions: u64,
    pub duration: Millis,
    pub spend: Spend,
    /// Input tokens without cache reads, if the agent reports them separately.
    pub read_tokens: u64,
    /// The same for output tokens.
    pub written_tokens: u64,
}

/// A finished piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Past {
    pub kind: Kind,
    pub estimated: u64,
    pub took: Took,
}

/// What work of a kind will take, according to the project's past.
#[derive(Debug, Clone)]
pub struct Learned {
    pub context: Model,
    duration: Option<Model>,
    micro_usd: Option<Model>,
    read_tokens: Option<Model>,
    written_tokens: Option<Model>,
    /// Pieces of work of this kind that it is learned from.
    pub samples: usize,
    pub errors: Option<Errors>,
}

/// What a piece of work will take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Outlook {
    /// Context, in tokens.
    pub context_tokens: Range,
    pub sessions: Range,
    /// None while no work of the kind is finished.
    pub duration_ms: Option<Range>,
    pub micro_usd: Option<Range>,
    /// Read afresh, in tokens.
    pub read_tokens: Option<Range>,
    /// Written, in tokens.
    pub written_tokens: Option<Range>,
}

impl Learned {
    /// `past` has the oldest first. If there is little work of the kind, the project's other kinds are used
    /// instead.
    pub fn of(past: &[Past], kind: Kind) -> Self {
        let (own, others): (Vec<&Past>, Vec<&Past>) =
            past.iter().partition(|past| past.kind == kind);
        let others: Vec<&Past> = others
            .into_iter()
            .filter(|past| past.kind != Kind::Session)
            .collect();
        let missing = SAMPLES_MIN.saturating_sub(own.len());
        let stand_in = &others[others.len().saturating_sub(missing)..];
        let all: Vec<&Past> = stand_in.iter().chain(&own).copied().collect();
        let measured = |all: &[&Past], of: fn(&Took) -> u64| -> Vec<Sample> {
            let samples = all.iter().map(|past| Sample {
                estimated: past.estimated,
                actual: of(&past.took),
            });
            samples
                .filter(|sample| sample.actual > 0 && sample.estimated > 0)
                .collect()
        };
        let model = |of: fn(&Took) -> u64| Model::of_measure(&measured(&all, of));
        let context: fn(&Took) -> u64 = |took| took.context_tokens;
        Self {
            context: Model::of(&measured(&all, context)),
            duration: model(|took| took.duration.0),
            micro_usd: model(|took| took.spend.micro_usd),
            read_tokens: model(|took| took.read_tokens),
            written_tokens: model(|took| took.written_tokens),
            samples: own.len(),
            errors: Errors::of(&measured(&own, context), 0),
        }
    }

    /// `session_tokens` is the context after which a session hands off.
    pub fn outlook(&self, estimated: u64, session_tokens: u64) -> Outlook {
        let context_tokens = self.context.range(estimated);
        let range = |model: &Option<Model>| model.as_ref().map(|model| model.range(estimated));
        Outlook {
            context_tokens,
            sessions: context_tokens.map(|tokens| tokens.div_ceil(session_tokens.max(1)).max(1)),
            duration_ms: range(&self.duration),
            micro_usd: range(&self.micro_usd),
            read_tokens: range(&self.read_tokens),
            written_tokens: range(&self.written_tokens),
        }
    }
}

impl Past {
    /// The expected context and the used one, if the agent counts tokens.
    pub fn context(&self) -> Option<Sample> {
        let sample = Sample {
            estimated: self.estimated,
            actual: self.took.context_tokens,
        };
        (sample.actual > 0).then_some(sample)
    }
}

impl Took {
    pub fn plus(self, other: Self) -> Self {
        Self {
            context_tokens: self.context_tokens.saturating_add(other.context_tokens),
            sessions: self.sessions.saturating_add(other.sessions),
            duration: Millis(self.duration.0.saturating_add(other.duration.0)),
            spend: self.spend.plus(other.spend),
            read_tokens: self.read_tokens.saturating_add(other.read_tokens),
            written_tokens: self.written_tokens.saturating_add(other.written_tokens),
        }
    }
}

impl Outlook {
    /// Both pieces of work, one after the other. The sum of two p90 is too high rather than too low.
    pub fn plus(self, other: Self) -> Self {
        let sum = |one: Option<Range>, other: Option<Range>| Some(one?.plus(other?));
        Self {
            context_tokens: self.context_tokens.plus(other.context_tokens),
            sessions: self.sessions.plus(other.sessions),
            duration_ms: sum(self.duration_ms, other.duration_ms),
            micro_usd: sum(self.micro_usd, other.micro_usd),
            read_tokens: sum(self.read_tokens, other.read_tokens),
            written_tokens: sum(self.written_tokens, other.written_tokens),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn past(kind: Kind, estimated: u64, tokens: u64) -> Past {
        let took = Took {
            context_tokens: tokens,
            sessions: 1,
            duration: Millis(tokens / 10),
            written_tokens: tokens / 100,
            ..Took::default()
        };
        Past {
            kind,
            estimated,
            took,
        }
    }

    // shows: EST-004
    #[test]
    fn kinds_are_learned_apart_and_stand_in_for_each_other_until_there_are_ten() {
        let mut all = vec![past(Kind::Stage, 1_000, 3_000); 12];
        let item = |all: &[Past]| Learned::of(all, Kind::Item).outlook(2_000, 5_000);
        let first = item(&all);
        assert_eq!(
            first.context_tokens,
            Range {
                p50: 6_000,
                p90: 6_000
            }
        );
        assert_eq!(first.sessions, Range { p50: 2, p90: 2 });
        all.extend([past(Kind::Item, 1_000, 500); 10]);
        all.extend([past(Kind::Session, 1_000, 90_000); 10]);
        let learned = Learned::of(&all, Kind::Item);
        assert_eq!(
            (learned.samples, learned.errors.map(|errors| errors.samples)),
            (10, Some(9))
        );
        let now = item(&all);
        assert_eq!(
            now.context_tokens,
            Range {
                p50: 1_000,
                p90: 1_000
            }
        );
        assert_eq!(
            (now.duration_ms, now.written_tokens, now.read_tokens),
            (
                Some(Range { p50: 100, p90: 100 }),
                Some(Range { p50: 10, p90: 10 }),
                None
            )
        );
        let run = Learned::of(&all, Kind::Run).outlook(2_000, 5_000);
        assert_eq!(
            run.context_tokens, now.context_tokens,
            "no session stands in"
        );
        let sum = now.plus(first);
        assert_eq!((sum.sessions.p90, sum.micro_usd), (3, None));
    }

    // shows: EST-004
    #[test]
    fn the_errors_are_those_of_the_ranges_that_were_shown() {
        let all = vec![past(Kind::Run, 10_000, 143_000); 5];
        let off = (1..5).map(|before| {
            let shown = Learned::of(&all[..before], Kind::Run).outlook(10_000, 5_000);
            shown.context_tokens.p50.abs_diff(143_000) * 100 / 143_000
        });
        let mean = off.sum::<u64>() / 4;
        let errors = Learned::of(&all, Kind::Run).errors.unwrap();
        let told = errors.p50_off_percent.round();
        assert!(
            (told - super::super::float(mean)).abs() <= 1.0,
            "{mean}: {errors:?}"
        );
    }
}
