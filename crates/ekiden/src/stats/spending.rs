//! Spending by day, project and model, according to the transcripts.

use std::collections::{BTreeMap, BTreeSet};

use ekiden_core::agent::AgentKind;
use ekiden_core::budget::{Prices, TokenCounts, plain_model};
use ekiden_wire::requests::Requests;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::threshold::{Sample, SessionSums};
use crate::output::phrase;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Used {
    #[serde(flatten)]
    pub tokens: TokenCounts,
    pub requests: u64,
    #[serde(rename = "cost_nano_usd")]
    pub nano_usd: u64,
}

pub struct Transcript {
    pub requests: Requests,
    /// They include the first of its session.
    pub begins: bool,
    /// It belongs to a subagent, whose context is separate.
    pub is_subagent: bool,
}

#[derive(Debug, Default)]
pub struct Spending {
    pub by_day: BTreeMap<String, Used>,
    pub by_project: BTreeMap<String, Used>,
    pub by_model: BTreeMap<String, Used>,
    pub total: Used,
    /// Models whose price is unknown.
    pub unpriced: BTreeSet<String>,
    /// The sessions, for the threshold.
    pub sessions: Vec<SessionSums>,
}

impl Used {
    fn add(&mut self, tokens: TokenCounts, nano_usd: u64) {
        self.tokens = self.tokens.plus(tokens);
        self.requests += 1;
        self.nano_usd = self.nano_usd.saturating_add(nano_usd);
    }
}

impl Spending {
    /// Adds up the transcripts. Costs are estimated at the prices that the client's own sums give.
    pub fn of(transcripts: &[Transcript], zone: &TimeZone) -> Self {
        let mut prices = Prices::default();
        let mut sums = BTreeMap::<&str, (TokenCounts, u64)>::new();
        let costs = transcripts.iter().flat_map(|one| &one.requests.costs);
        for (model, (tokens, nano_usd)) in costs {
            prices.learn(model, *tokens, *nano_usd);
            let sum = sums.entry(plain_model(model)).or_default();
            *sum = (sum.0.plus(*tokens), sum.1.saturating_add(*nano_usd));
        }
        // A single session may cost more than its tokens, such as one that searched the web. The sum decides.
        for (model, (tokens, nano_usd)) in sums {
            prices.learn(model, tokens, nano_usd);
        }
        let mut spending = Self::default();
        let models = transcripts.iter().flat_map(|one| &one.requests.all);
        let models: BTreeSet<&str> = models.map(|request| &*request.model).collect();
        let unpriced = models.into_iter().filter(|model| !prices.knows(model));
        spending.unpriced = unpriced.map(str::to_owned).collect();
        for transcript in transcripts {
            let samples = spending.take(transcript, &prices, zone);
            if !samples.is_empty() && !transcript.is_subagent {
                spending.sessions.push(SessionSums::of(&samples));
            }
        }
        spending
    }

    /// Requests of the sessions' main threads.
    pub fn session_requests(&self) -> u64 {
        self.sessions.iter().map(SessionSums::requests).sum()
    }

    fn take(&mut self, transcript: &Transcript, prices: &Prices, zone: &TimeZone) -> Vec<Sample> {
        let project = transcript.requests.dir.as_deref().unwrap_or("unknown");
        let samples = transcript.requests.all.iter().map(|request| {
            let tokens = request.usage.counts();
            let price = prices.of(&request.model, AgentKind::Claude.price_unknown());
            let nano_usd = price.nano_usd(tokens);
            let day = phrase::zoned(request.at, zone).date().to_string();
            let sums = [
                self.by_day.entry(day).or_default(),
                self.by_project.entry(project.to_owned()).or_default(),
                self.by_model.entry(request.model.to_string()).or_default(),
                &mut self.total,
            ];
            sums.into_iter().for_each(|sum| sum.add(tokens, nano_usd));
            Sample {
                context_tokens: request.usage.context_tokens(),
                tokens: tokens.counted() + tokens.cache_read,
                nano_usd,
                latency_ms: request.latency.map(|latency| latency.0),
                calls: request.calls,
                failed_calls: request.failed_calls,
                // Only what a session did until its first edit is of interest.
                edits: request.edits && transcript.begins,
            }
        });
        samples.collect()
    }
}

#[cfg(test)]
mod tests {
    use ekiden_core::time::Timestamp;
    use ekiden_wire::requests::Request;
    use ekiden_wire::usage::Usage;

    use super::*;

    fn transcript(requests: usize, is_subagent: bool) -> Transcript {
        let request = Request {
            model: "m".into(),
            at: Timestamp(86_400_000),
            usage: Usage {
                input: 1_000,
                cache_read: 10_000,
                cache_creation: 0,
                output: 100,
            },
            ..Request::default()
        };
        Transcript {
            requests: Requests {
                all: vec![request; requests],
                dir: Some("/p".to_owned()),
                ..Requests::default()
            },
            begins: true,
            is_subagent,
        }
    }

    // shows: UIX-09
    #[test]
    fn a_subagent_is_no_session() {
        let transcripts = [
            transcript(2, false),
            transcript(1, false),
            transcript(1, true),
            transcript(0, false),
        ];
        let spending = Spending::of(&transcripts, &TimeZone::UTC);
        assert_eq!(spending.total.requests, 4);
        assert_eq!(spending.by_day["1970-01-02"], spending.total);
        assert_eq!(spending.by_project["/p"], spending.total);
        assert_eq!(spending.total.tokens.counted(), 4 * 1_100);
        let sessions: Vec<u64> = spending
            .sessions
            .iter()
            .map(SessionSums::requests)
            .collect();
        assert_eq!(sessions, [2, 1]);
        assert_eq!(spending.unpriced, BTreeSet::from(["m".to_owned()]));
    }

    // shows: UIX-09
    #[test]
    fn what_the_client_says_that_a_session_cost_gives_the_price() {
        let mut told = transcript(1, false);
        let tokens = told.requests.all[0].usage.counts();
        told.requests
            .costs
            .insert("m".to_owned(), (tokens, 5_000_000));
        let spending = Spending::of(&[told, transcript(1, false)], &TimeZone::UTC);
        let off = spending.total.nano_usd.abs_diff(10_000_000);
        assert!(off < 100_000, "{}", spending.total.nano_usd);
        assert!(spending.unpriced.is_empty());
    }

    // shows: UIX-09
    #[test]
    fn one_session_with_fees_does_not_set_the_price_of_all() {
        let session = |input: u64, cache_read: u64, fees: u64| {
            let mut one = transcript(1, false);
            let usage = &mut one.requests.all[0].usage;
            (usage.input, usage.cache_read) = (input, cache_read);
            let tokens = usage.counts();
            let cost = input * 4_000 + 100 * 20_000 + cache_read * 200 + fees;
            let costs = &mut one.requests.costs;
            costs.insert("m[1m]".to_owned(), (tokens, cost));
            (one, cost)
        };
        let usual = (1..=10).map(|size| session(50_000 * size, 3_000_000, 0));
        let searched = session(20_000, 100_000, 120_000_000);
        let (transcripts, costs): (Vec<_>, Vec<_>) = usual.chain([searched]).unzip();
        let total = Spending::of(&transcripts, &TimeZone::UTC).total.nano_usd;
        let costs: u64 = costs.iter().sum();
        assert!(total.abs_diff(costs) <= costs / 50, "{total} for {costs}");
    }
}
