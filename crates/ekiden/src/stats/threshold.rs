//! At which context size a session should hand off, judged by what requests have cost so far.
//!
//! Requests are grouped into steps of [`STEP_TOKENS`] by the size of the context they were made from. For
//! each step we know what a request cost, how many tool calls it made, and how much it added to the
//! context. That is enough to add up a relay whose sessions hand off at a given context:
//!
//! ```text
//!  a session  =  finding its way (what sessions cost until their first edit)
//!              + the requests from there to the handoff, step by step
//!              + the handoff: a few requests at its context
//!  a call     =  what that costs, over the calls in the second line
//! ```
//!
//! A small context makes each request cheap but finding the way frequent; a large one the other way round.
//! A bootstrap shows how certain the best context is: it resamples the existing sessions, always in the
//! same way, so the same transcripts give the same answer.

/// The granularity of contexts.
pub const STEP_TOKENS: u64 = 20_000;
/// With fewer requests there is no answer.
pub const REQUESTS_MIN: usize = 200;
/// Contexts above all these steps count in the last one. No model has such a window.
const STEPS_MAX: usize = 200;
/// A step with fewer requests shows nothing.
const STEP_REQUESTS_MIN: u64 = 20;
/// The requests that write a handoff.
const HANDOFF_REQUESTS: f64 = 3.0;
const RESAMPLES: usize = 200;
/// A context that costs at most this much more than the best is equally good, in percent.
const ALIKE_PERCENT: f64 = 5.0;

/// A request of a session's main thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sample {
    /// The context that it was made from.
    pub context_tokens: u64,
    /// Tokens read and written: the context and the answer.
    pub tokens: u64,
    /// In billionths of a US dollar.
    pub nano_usd: u64,
    /// How long the model took, in milliseconds.
    pub latency_ms: Option<u64>,
    pub calls: u32,
    pub failed_calls: u32,
    pub edits: bool,
}

/// The units of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Billionths of a US dollar.
    Money,
    Tokens,
    /// Milliseconds of the model's time.
    Time,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    requests: u64,
    nano_usd: u64,
    tokens: u64,
    latency_ms: u64,
    /// Requests whose latency is known.
    timed: u64,
    calls: u64,
    failed_calls: u64,
    /// What requests added to the context, counting only those that another one followed.
    growth_tokens: u64,
    followed: u64,
}

#[derive(Debug, Clone, Default)]
pub struct SessionSums {
    steps: Vec<Sums>,
    /// Until its first edit, in a session that has one.
    orientation: Option<Orientation>,
}

/// What a session reads until its first edit.
#[derive(Debug, Clone, Copy, Default)]
struct Orientation {
    sums: Sums,
    context_tokens: u64,
}

/// The cost of a relay whose sessions hand off at a context.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Row {
    pub handoff_tokens: u64,
    /// Requests seen in the last step before it.
    pub requests: u64,
    /// Per tool call, in the units of [`Measure`]; `None` if unknown.
    #[serde(rename = "cost_nano_usd_per_call")]
    pub nano_usd: Option<f64>,
    #[serde(rename = "tokens_per_call")]
    pub tokens: Option<f64>,
    #[serde(rename = "model_ms_per_call")]
    pub latency_ms: Option<f64>,
    /// Calls that failed in that step, per hundred.
    pub failed_percent: f64,
}

/// The best context by one measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Best {
    pub measure: Measure,
    pub handoff_tokens: u64,
    /// Where it is in eight of ten drawings.
    pub low_tokens: u64,
    pub high_tokens: u64,
    /// Contexts that cost nearly the same.
    pub alike_from_tokens: u64,
    pub alike_to_tokens: u64,
    /// No session went further, so a larger context may be even better.
    pub is_largest: bool,
}

/// What the requests of some sessions show.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Threshold {
    pub rows: Vec<Row>,
    /// Money, tokens and time, as far as known.
    pub best: Vec<Best>,
}

impl Measure {
    const ALL: [Self; 3] = [Self::Money, Self::Tokens, Self::Time];
}

impl Sums {
    fn of(sample: &Sample, growth: Option<u64>) -> Self {
        Self {
            requests: 1,
            nano_usd: sample.nano_usd,
            tokens: sample.tokens,
            latency_ms: sample.latency_ms.unwrap_or(0),
            timed: u64::from(sample.latency_ms.is_some()),
            calls: u64::from(sample.calls),
            failed_calls: u64::from(sample.failed_calls),
            growth_tokens: growth.unwrap_or(0),
            followed: u64::from(growth.is_some()),
        }
    }

    fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.nano_usd = self.nano_usd.saturating_add(other.nano_usd);
        self.tokens += other.tokens;
        self.latency_ms += other.latency_ms;
        self.timed += other.timed;
        self.calls += other.calls;
        self.failed_calls += other.failed_calls;
        self.growth_tokens += other.growth_tokens;
        self.followed += other.followed;
    }

    /// Per request.
    fn mean(&self, measure: Measure) -> Option<f64> {
        let (sum, count) = match measure {
            Measure::Money => (self.nano_usd, self.requests),
            Measure::Tokens => (self.tokens, self.requests),
            Measure::Time => (self.latency_ms, self.timed),
        };
        (sum > 0).then(|| ratio(sum, count))
    }
}

impl SessionSums {
    /// Adds up a session's requests, in their order.
    pub fn of(samples: &[Sample]) -> Self {
        let mut session = Self::default();
        let first_edit = samples.iter().position(|sample| sample.edits);
        for (index, sample) in samples.iter().enumerate() {
            let next = samples.get(index + 1);
            let growth = next.and_then(|next| {
                // A shrinking context was summarised or cleared.
                next.context_tokens.checked_sub(sample.context_tokens)
            });
            let sums = Sums::of(sample, growth);
            let step = step_of(sample.context_tokens);
            let steps_min = session.steps.len().max(step + 1);
            session.steps.resize(steps_min, Sums::default());
            session.steps[step].add(&sums);
            if let Some(first_edit) = first_edit {
                let orientation = session.orientation.get_or_insert_default();
                if index < first_edit {
                    orientation.sums.add(&sums);
                } else if index == first_edit {
                    orientation.context_tokens = sample.context_tokens;
                }
            }
        }
        session
    }

    pub fn requests(&self) -> u64 {
        self.steps.iter().map(|step| step.requests).sum()
    }
}

#[derive(Default)]
struct Pool {
    steps: Vec<Sums>,
    orientation: Sums,
    orientation_context_tokens: u64,
    /// Sessions that made an edit.
    orientations: u64,
}

impl Pool {
    fn of<'a>(sessions: impl Iterator<Item = &'a SessionSums>) -> Self {
        let mut pool = Self::default();
        for session in sessions {
            let steps_min = pool.steps.len().max(session.steps.len());
            pool.steps.resize(steps_min, Sums::default());
            let steps = pool.steps.iter_mut().zip(&session.steps);
            steps.for_each(|(all, one)| all.add(one));
            if let Some(orientation) = &session.orientation {
                pool.orientation.add(&orientation.sums);
                pool.orientation_context_tokens += orientation.context_tokens;
                pool.orientations += 1;
            }
        }
        pool
    }

    /// Where work begins.
    fn first(&self) -> usize {
        match self
            .orientation_context_tokens
            .checked_div(self.orientations)
        {
            Some(context_tokens) => step_of(context_tokens),
            None => self.steps.iter().position(is_known).unwrap_or(0),
        }
    }

    /// The steps that show something, without a gap from where work begins.
    fn known(&self) -> std::ops::Range<usize> {
        let first = self.first();
        let known = self
            .steps
            .iter()
            .skip(first)
            .take_while(|step| is_known(step));
        first..first + known.count()
    }

    /// What a call costs if sessions hand off at the end of each known step.
    fn costs(&self, measure: Measure) -> Vec<Option<f64>> {
        let orientation = match (self.orientations, self.orientation.mean(measure)) {
            (0, _) | (_, None) => 0.0,
            (orientations, Some(mean)) => mean * ratio(self.orientation.requests, orientations),
        };
        let (mut cost, mut calls) = (orientation, 0.0);
        let steps = self.steps[self.known()].iter();
        let costs = steps.map(|step| {
            let growth_tokens = ratio(step.growth_tokens, step.followed).max(1.0);
            let requests = ratio(STEP_TOKENS, 1) / growth_tokens;
            let mean = step.mean(measure)?;
            cost += mean * requests;
            calls += ratio(step.calls, step.requests) * requests;
            (calls > 0.0).then(|| (cost + HANDOFF_REQUESTS * mean) / calls)
        });
        costs.collect()
    }

    /// The cheapest step by one measure.
    fn best(&self, measure: Measure) -> Option<usize> {
        let costs = self.costs(measure);
        let known = costs.iter().zip(self.known());
        let known = known.filter_map(|(cost, step)| Some(((*cost)?, step)));
        known
            .min_by(|one, other| one.0.total_cmp(&other.0))
            .map(|(_, step)| step)
    }
}

/// What these sessions show; `None` if there are too few requests.
pub fn threshold(sessions: &[SessionSums]) -> Option<Threshold> {
    let requests: u64 = sessions.iter().map(SessionSums::requests).sum();
    let pool = Pool::of(sessions.iter());
    if requests < REQUESTS_MIN as u64 || pool.known().len() < 2 {
        return None;
    }
    let [money, tokens, time] = Measure::ALL.map(|measure| pool.costs(measure));
    let rows = pool.known().enumerate().map(|(index, step)| {
        let seen = &pool.steps[step];
        Row {
            handoff_tokens: end_of(step),
            requests: seen.requests,
            nano_usd: money[index],
            tokens: tokens[index],
            latency_ms: time[index],
            failed_percent: 100.0 * ratio(seen.failed_calls, seen.calls.max(1)),
        }
    });
    let best = Measure::ALL.iter();
    Some(Threshold {
        rows: rows.collect(),
        best: best
            .filter_map(|measure| best_by(*measure, &pool, sessions))
            .collect(),
    })
}

fn best_by(measure: Measure, pool: &Pool, sessions: &[SessionSums]) -> Option<Best> {
    let best = pool.best(measure)?;
    let mut drawn = draws(measure, sessions);
    drawn.sort_unstable();
    let share = |tenths: usize| drawn.get(drawn.len() * tenths / 10).copied();
    let (low, high) = (share(1).unwrap_or(best), share(9).unwrap_or(best));
    let (costs, known) = (pool.costs(measure), pool.known());
    let least = costs[best - known.start]?;
    let is_alike =
        |cost: &Option<f64>| cost.is_some_and(|cost| cost <= least * (1.0 + ALIKE_PERCENT / 100.0));
    let alike = |at: Option<usize>| end_of(known.start + at.unwrap_or(best - known.start));
    Some(Best {
        measure,
        handoff_tokens: end_of(best),
        low_tokens: end_of(low.min(best)),
        high_tokens: end_of(high.max(best)),
        alike_from_tokens: alike(costs.iter().position(is_alike)),
        alike_to_tokens: alike(costs.iter().rposition(is_alike)),
        is_largest: best + 1 == known.end,
    })
}

/// The best step of each drawing of as many sessions as exist.
fn draws(measure: Measure, sessions: &[SessionSums]) -> Vec<usize> {
    let mut state = 1_u64;
    let mut draw = || {
        // Knuth's MMIX generator: the same on every machine.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let index = usize::try_from(state >> 33).unwrap_or(0) % sessions.len();
        &sessions[index]
    };
    let mut best = || {
        let drawn = (0..sessions.len()).map(|_| draw());
        Pool::of(drawn).best(measure)
    };
    (0..RESAMPLES).filter_map(|_| best()).collect()
}

fn is_known(step: &Sums) -> bool {
    step.requests >= STEP_REQUESTS_MIN && step.calls > 0 && step.followed > 0
}

fn step_of(context_tokens: u64) -> usize {
    let step = usize::try_from(context_tokens / STEP_TOKENS);
    step.unwrap_or(STEPS_MAX).min(STEPS_MAX - 1)
}

fn end_of(step: usize) -> u64 {
    (step as u64 + 1) * STEP_TOKENS
}

#[expect(clippy::cast_precision_loss, reason = "figures to be shown")]
fn ratio(sum: u64, count: u64) -> f64 {
    sum as f64 / count.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A session that reads for eight requests and then works to this context, 2,500 tokens at a time. A token of
    /// context costs as much in each request; what is read afresh costs fifty times that.
    fn session(to_tokens: u64) -> SessionSums {
        let samples: Vec<Sample> = (0..)
            .map(|index| Sample {
                context_tokens: 25_000 + index * 2_500,
                tokens: 25_000 + index * 2_500,
                nano_usd: 25_000 + index * 2_500 + 50 * 2_500,
                latency_ms: Some(4_000),
                calls: 1,
                failed_calls: 0,
                edits: index >= 8,
            })
            .take_while(|sample| sample.context_tokens < to_tokens)
            .collect();
        SessionSums::of(&samples)
    }

    fn sessions(count: usize, to_tokens: u64) -> Vec<SessionSums> {
        std::iter::repeat_with(|| session(to_tokens))
            .take(count)
            .collect()
    }

    fn best(found: &Threshold, measure: Measure) -> Best {
        *found
            .best
            .iter()
            .find(|best| best.measure == measure)
            .unwrap()
    }

    // shows: EST-07
    #[test]
    fn the_best_context_is_where_a_call_costs_least() {
        let found = threshold(&sessions(30, 300_000)).unwrap();
        // Finding the way costs 8 requests of 158,750 on average, a handoff 3; each step has 8 calls.
        let costs: Vec<f64> = found.rows.iter().filter_map(|row| row.nano_usd).collect();
        let least = costs.iter().copied().fold(f64::MAX, f64::min);
        let money = best(&found, Measure::Money);
        let row = found
            .rows
            .iter()
            .find(|row| row.nano_usd == Some(least))
            .unwrap();
        assert_eq!(money.handoff_tokens, row.handoff_tokens);
        assert!(
            !money.is_largest && money.low_tokens <= money.high_tokens,
            "{money:?}"
        );
        assert!(
            (100_000..200_000).contains(&money.handoff_tokens),
            "{money:?}"
        );
        assert!(money.alike_from_tokens <= money.handoff_tokens);
        // Time does not grow with the context here, so a session should go on as long as it can.
        let time = best(&found, Measure::Time);
        assert!(
            time.is_largest && time.handoff_tokens == 300_000,
            "{time:?}"
        );
        assert_eq!(
            threshold(&sessions(30, 300_000)),
            Some(found),
            "the same again"
        );
    }

    // shows: EST-07
    #[test]
    fn finding_the_way_at_no_cost_makes_small_contexts_best() {
        let work = |tokens: u64| Sample {
            context_tokens: tokens,
            tokens,
            nano_usd: tokens * tokens / 1_000,
            calls: 1,
            edits: true,
            ..Sample::default()
        };
        let samples: Vec<Sample> = (0..120).map(|index| work(1_000 + index * 2_000)).collect();
        let all = vec![SessionSums::of(&samples); 30];
        let found = threshold(&all).unwrap();
        assert_eq!(best(&found, Measure::Money).handoff_tokens, STEP_TOKENS);
    }

    // shows: EST-07
    #[test]
    fn few_requests_tell_nothing() {
        let requests = session(100_000).requests();
        let too_few = usize::try_from(199 / requests).unwrap();
        assert_eq!(threshold(&sessions(too_few, 100_000)), None);
        assert_eq!(threshold(&[]), None);
        assert!(threshold(&sessions(too_few + 20, 100_000)).is_some());
    }

    #[test]
    fn absurd_figures_are_bounded() {
        let sample = Sample {
            context_tokens: u64::MAX,
            tokens: u64::MAX >> 16,
            calls: u32::MAX,
            ..Sample::default()
        };
        let session = SessionSums::of(&[sample]);
        assert_eq!(session.steps.len(), STEPS_MAX);
        assert_eq!(threshold(&vec![session; 300]), None);
    }
}
