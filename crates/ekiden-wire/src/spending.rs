//! What an attempt spends, folded over its stream: exact when a turn ends, an estimate in between.
//!
//! A result says what each model cost. Until it comes, each response, including a subagent's, is charged by its
//! usage and the price from the last results. When a response begins, the stream has its input tokens. Its
//! output is estimated from the size of its text, because the figure in the stream is not final. A client that is
//! asked says the cost so far, and thereby how far off the estimate is: the price of a model may depend on the size
//! of the request, which no price per token shows.
//!
//! Results count from the beginning of the *conversation*, so a resumed one starts with a sum that was already
//! charged. The client also says what was used since the last result; for an agent that does not, we take the
//! difference.
//!
//! A figure that names a model is booked for that model; a sum is booked for none.
//!
//! An attempt that was cut off is charged one more response like its last: a request may have been running whose
//! figures never arrived.

use std::collections::BTreeMap;

use ekiden_core::budget::{Price, Prices, Spend, TokenCounts, plain_model};
use ekiden_core::ends::LimitKind;
use ekiden_core::limits::BYTES_PER_TOKEN;

use crate::json;
use crate::rpc::begins_attempt;
use crate::stream::{Assistant, ClientEvent, ModelUsage, TurnResult};

/// How many models one attempt distinguishes: an agent could name any number.
const MODELS_MAX: usize = 16;
/// How many responses of one turn wait for its result; each could have any id.
const OPEN_MAX: usize = 4096;
const NAME_BYTES_MAX: usize = 256;
/// The id of our question what the conversation has cost.
pub const COST: &str = "cost";
/// A cost so far is taken as it is from this many times what its last decimal counts; below, it may be one of these more.
const COST_STEPS_MIN: u64 = 20;

/// Spend and learned prices of one attempt.
#[derive(Debug, Clone, Default)]
pub struct SpendEstimate {
    /// What models cost, from what was known before and what was reported since.
    prices: Prices,
    /// Those of them that were reported since.
    pub learned: Prices,
    unknown: Price,
    settled: Charge,
    /// The part of it that is known by model; at most [`MODELS_MAX`] models.
    models: BTreeMap<String, Charge>,
    /// What the conversation's last result reported by model, to compute differences.
    totals: BTreeMap<String, ModelUsage>,
    total_usd: f64,
    /// Responses since the last result.
    open: BTreeMap<String, Open>,
    /// What they cost so far, in billionths of a US dollar: as the client said, and by the prices.
    so_far: Option<(u64, u64)>,
    /// What the conversation had cost before this attempt.
    before_nano_usd: u64,
    /// The client has said the cost so far.
    answered: bool,
    /// It can, as far as we know.
    pub says_cost: bool,
    /// A response came since we asked.
    changed: bool,
    /// Some of what was spent will never be known.
    guessed: bool,
    /// Responses of the main thread.
    pub turns: u32,
    last: Option<Open>,
    /// The account pays by subscription.
    pub subscription: bool,
}

/// What was spent, in billionths of a US dollar and in tokens.
#[derive(Debug, Clone, Copy, Default)]
struct Charge {
    nano_usd: u64,
    tokens: TokenCounts,
}

/// A response that no result covers yet.
#[derive(Debug, Clone, PartialEq)]
struct Open {
    model: String,
    main_thread: bool,
    tokens: TokenCounts,
    written: u64,
}

impl SpendEstimate {
    /// A meter for an attempt that begins.
    pub fn new(prices: Prices, unknown: Price) -> Self {
        Self {
            prices,
            unknown,
            says_cost: true,
            ..Self::default()
        }
    }

    /// Handles the next event. Returns true if there is more to report than before.
    pub fn observe(&mut self, event: &ClientEvent) -> bool {
        if let ClientEvent::Assistant(response) = event
            && !response.synthetic
        {
            self.respond(response);
            return true;
        }
        if let ClientEvent::Result(result) = event {
            self.settle(result);
            return true;
        }
        if let ClientEvent::ControlResponse { request_id, answer } = event
            && request_id == COST
        {
            match answer {
                Ok(said) => self.correct(&json::text(&said["text"])),
                Err(_) => self.says_cost = false,
            }
            return !self.open.is_empty();
        }
        if begins_attempt(event) {
            self.begin_anew();
        }
        // Only accounts with a subscription have limits of a known kind. Any service may refuse for a while.
        self.subscription |=
            matches!(event, ClientEvent::RateLimit(info) if info.kind != LimitKind::Unknown);
        false
    }

    pub fn spend(&self) -> Spend {
        self.said(self.sum())
    }

    /// It rests on an assumed price, until the client says more.
    pub fn is_guess(&self) -> bool {
        let mut models = self.open.values().map(|open| &open.model);
        self.says_cost && !self.answered && models.any(|model| !self.prices.knows(model))
    }

    /// A response has come since this was asked last.
    pub fn changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Its tokens by kind.
    pub fn kinds(&self) -> TokenCounts {
        self.sum().tokens
    }

    fn sum(&self) -> Charge {
        let mut sum = self.settled;
        self.open
            .values()
            .for_each(|open| sum.add(self.charge(open)));
        sum
    }

    /// The same for each model that is known to have taken part.
    pub fn models(&self) -> BTreeMap<String, Spend> {
        let mut models = self.models.clone();
        for open in self.open.values() {
            book(&mut models, &open.model, self.charge(open));
        }
        let said = |(model, charge)| (model, self.said(charge));
        models.into_iter().map(said).collect()
    }

    fn said(&self, charge: Charge) -> Spend {
        Spend {
            micro_usd: charge.nano_usd.div_ceil(1000),
            tokens: charge.tokens.counted(),
            estimated: self.guessed || !self.open.is_empty(),
        }
    }

    /// The process is gone. If a turn was running, its last request may never have been reported.
    pub fn end(&mut self) {
        if self.open.is_empty() {
            return;
        }
        if let Some(last) = self.last.take() {
            self.take(&last.model, self.charge(&last));
        }
        self.guessed = true;
    }

    /// Another process continues the same saved stream; earlier spend was charged to its own process.
    fn begin_anew(&mut self) {
        *self = Self::new(std::mem::take(&mut self.prices), self.unknown);
    }

    fn respond(&mut self, response: &Assistant) {
        self.changed = true;
        let id = cut(&response.message_id);
        let fresh = !self.open.contains_key(&id);
        if fresh && self.open.len() >= OPEN_MAX {
            self.settle_one();
        }
        if fresh && response.main_thread {
            self.turns = self.turns.saturating_add(1);
        }
        let open = self.open.entry(id).or_insert_with(|| Open {
            model: cut(&response.model),
            main_thread: response.main_thread,
            tokens: TokenCounts::default(),
            written: 0,
        });
        open.tokens = response.usage.counts();
        open.written = open.written.saturating_add(response.content_bytes);
        if open.main_thread {
            self.last = Some(open.clone());
        }
    }

    /// The client says what the conversation has cost so far.
    fn correct(&mut self, said: &str) {
        let sum = dollars(said);
        let open = |sum: u64| sum.saturating_sub(self.settled.nano_usd);
        if self.open.is_empty() {
            self.before_nano_usd = sum.map_or(0, |(sum, _)| open(sum));
            return;
        }
        self.answered = true;
        let priced = self.open.values().map(|open| self.priced(open)).sum();
        let Some((sum, step)) = sum.filter(|_| priced > 0) else {
            return;
        };
        let cost = open(sum).saturating_sub(self.before_nano_usd);
        if cost >= step * COST_STEPS_MIN {
            self.so_far = Some((cost, priced));
        } else if cost + step < priced {
            self.so_far = Some((cost + step, priced));
        }
    }

    /// Charges one response by its estimate, without its result.
    fn settle_one(&mut self) {
        if let Some((_, open)) = self.open.pop_first() {
            self.take(&open.model, self.charge(&open));
            self.guessed = true;
        }
    }

    fn settle(&mut self, result: &TurnResult) {
        let used = self.used_since(result);
        for (model, usage) in &used {
            let charge = Charge {
                nano_usd: nano_usd(usage.cost_usd),
                tokens: usage.counts(),
            };
            self.take(model, charge);
            if self.models.contains_key(plain_model(model)) {
                let nano_usd = charge.nano_usd.saturating_sub(usage.fees_nano_usd());
                self.prices.learn(model, usage.counts(), nano_usd);
                self.learned.merge(&self.prices.only(model));
            }
        }
        // An agent that names no models may report a sum.
        let sum = result.total_cost_usd;
        let tells_sum = result.model_usage.is_empty() && sum > 0.0;
        if tells_sum {
            let fell = sum < self.total_usd;
            let usd = if fell { sum } else { sum - self.total_usd };
            self.settled.nano_usd = self.settled.nano_usd.saturating_add(nano_usd(usd));
        }
        // What no figures cover was estimated, and stays an estimate.
        for open in std::mem::take(&mut self.open).into_values() {
            let mut charge = self.charge(&open);
            if !used.is_empty() {
                continue;
            } else if tells_sum {
                charge.nano_usd = 0;
            } else {
                self.guessed = true;
            }
            self.take(&open.model, charge);
        }
        (self.last, self.so_far) = (None, None);
        // A result without figures says nothing about the conversation's sums.
        if !result.model_usage.is_empty() {
            self.totals.clone_from(&result.model_usage);
        }
        if sum > 0.0 {
            self.total_usd = sum;
        }
    }

    fn used_since(&self, result: &TurnResult) -> BTreeMap<String, ModelUsage> {
        if let Some(since) = &result.usage_since_last {
            return since.clone();
        }
        let difference = |(model, total): (&String, &ModelUsage)| {
            let before = self.totals.get(model).copied().unwrap_or_default();
            (model.clone(), since(total, &before))
        };
        let used = result.model_usage.iter().map(difference);
        used.filter(|(_, usage)| usage.counts() != TokenCounts::default())
            .collect()
    }

    fn take(&mut self, model: &str, charge: Charge) {
        self.settled.add(charge);
        book(&mut self.models, model, charge);
    }

    fn charge(&self, open: &Open) -> Charge {
        let priced = u128::from(self.priced(open));
        let (cost, estimate) = self.so_far.unwrap_or((1, 1));
        let nano_usd = priced * u128::from(cost) / u128::from(estimate);
        Charge {
            nano_usd: u64::try_from(nano_usd).unwrap_or(u64::MAX),
            tokens: open.counts(),
        }
    }

    fn priced(&self, open: &Open) -> u64 {
        let price = self.prices.of(&open.model, self.unknown);
        price.nano_usd(open.counts())
    }
}

fn cut(name: &str) -> String {
    name[..name.floor_char_boundary(NAME_BYTES_MAX)].to_owned()
}

fn book(models: &mut BTreeMap<String, Charge>, model: &str, charge: Charge) {
    let model = plain_model(model);
    if let Some(known) = models.get_mut(model) {
        known.add(charge);
    } else if models.len() < MODELS_MAX && !model.is_empty() {
        models.insert(model.to_owned(), charge);
    }
}

impl Charge {
    fn add(&mut self, more: Self) {
        self.nano_usd = self.nano_usd.saturating_add(more.nano_usd);
        self.tokens = self.tokens.plus(more.tokens);
    }
}

impl Open {
    /// Its tokens, as far as they are known.
    fn counts(&self) -> TokenCounts {
        let written = self.written / BYTES_PER_TOKEN as u64;
        TokenCounts {
            output: self.tokens.output.max(written),
            ..self.tokens
        }
    }
}

/// A sum that falls belongs to a conversation that began anew, and counts whole.
fn since(total: &ModelUsage, before: &ModelUsage) -> ModelUsage {
    let less = |told: fn(&ModelUsage) -> u64| told(total).checked_sub(told(before));
    let taken = || {
        Some(ModelUsage {
            input_tokens: less(|usage| usage.input_tokens)?,
            output_tokens: less(|usage| usage.output_tokens)?,
            cache_read_input_tokens: less(|usage| usage.cache_read_input_tokens)?,
            cache_creation_input_tokens: less(|usage| usage.cache_creation_input_tokens)?,
            web_search_requests: less(|usage| usage.web_search_requests)?,
            cost_usd: Some(total.cost_usd - before.cost_usd).filter(|usd| *usd >= 0.0)?,
            context_window: total.context_window,
        })
    };
    taken().unwrap_or(*total)
}

/// The first sum of dollars in a text, and what its last decimal counts, in billionths of a dollar.
fn dollars(text: &str) -> Option<(u64, u64)> {
    let (_, sum) = text.split_once('$')?;
    let end = sum.find(|c: char| !c.is_ascii_digit() && c != '.');
    let sum = &sum[..end.unwrap_or(sum.len())];
    let decimals = sum
        .split_once('.')
        .map_or(0, |(_, decimals)| decimals.len());
    let step = 10_u64.checked_pow(9_u32.checked_sub(decimals.try_into().ok()?)?)?;
    Some((nano_usd(sum.parse().ok()?), step))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cost is small; a float that is not is taken to the nearest whole number that there is"
)]
pub(crate) fn nano_usd(usd: f64) -> u64 {
    (usd * 1e9).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::{RateLimitInfo, RateLimitStatus};
    use crate::tests as fixtures;

    const UNKNOWN: Price = Price::usual(15_000);

    fn meter() -> SpendEstimate {
        SpendEstimate::new(Prices::default(), UNKNOWN)
    }

    fn response(id: &str, input: u64, cache_read: u64, content_bytes: u64) -> ClientEvent {
        ClientEvent::Assistant(Box::new(Assistant {
            message_id: id.to_owned(),
            model: "opus".to_owned(),
            usage: crate::usage::Usage {
                input,
                cache_read,
                cache_creation: 0,
                output: 1,
            },
            main_thread: true,
            synthetic: false,
            blocks: Vec::new(),
            error: None,
            limit: None,
            content_bytes,
        }))
    }

    fn usage(input_tokens: u64, cost_usd: f64) -> BTreeMap<String, ModelUsage> {
        let usage = ModelUsage {
            input_tokens,
            cost_usd,
            ..ModelUsage::default()
        };
        [("opus".to_owned(), usage)].into()
    }

    fn result(total: BTreeMap<String, ModelUsage>) -> ClientEvent {
        ClientEvent::Result(Box::new(TurnResult {
            model_usage: total,
            ..TurnResult::default()
        }))
    }

    // shows: REL-22
    #[test]
    fn recorded_turns_settle_at_what_the_client_told() {
        let mut meter = meter();
        for event in fixtures::events("two-results.jsonl") {
            meter.observe(&event);
        }
        let spend = meter.spend();
        assert_eq!(
            (spend.micro_usd, spend.estimated),
            (41_290, false),
            "told once, though in two results"
        );
        assert_ne!(meter.learned, Prices::default());
    }

    // shows: REL-22
    #[test]
    fn a_running_turn_is_estimated_and_lines_of_one_response_count_once() {
        let mut meter = meter();
        assert!(meter.observe(&response("a", 1_000, 0, 0)));
        assert!(meter.observe(&response("a", 1_000, 0, 300)));
        // 1,000 tokens read and 100 written at five times the price.
        assert_eq!(
            meter.spend(),
            Spend {
                micro_usd: 22_500,
                tokens: 1_100,
                estimated: true
            }
        );
        meter.observe(&response("b", 0, 1_000, 0));
        assert_eq!(meter.turns, 2);
        assert_eq!(meter.spend().micro_usd, 22_500 + 1_575);
    }

    // shows: REL-22
    #[test]
    fn a_price_is_learned_and_the_next_turn_estimated_with_it() {
        let mut meter = meter();
        meter.observe(&response("a", 1_000_000, 0, 0));
        meter.observe(&result(usage(1_000_000, 4.0)));
        assert_eq!(
            meter.spend(),
            Spend {
                micro_usd: 4_000_000,
                tokens: 1_000_000,
                estimated: false
            }
        );
        meter.observe(&response("b", 1_000_000, 0, 0));
        let spend = meter.spend();
        assert_eq!((spend.micro_usd, spend.estimated), (8_000_020, true));
    }

    fn said(text: &str) -> ClientEvent {
        ClientEvent::ControlResponse {
            request_id: COST.to_owned(),
            answer: Ok(serde_json::json!({ "text": text })),
        }
    }

    // shows: REL-22
    #[test]
    fn what_the_client_says_in_mid_turn_corrects_the_estimate() {
        let mut meter = meter();
        // A resumed conversation: this was spent before.
        assert!(!meter.observe(&said("Estimated cost:        $0.4000\nby model: ($0.3)")));
        meter.observe(&response("a", 100_000, 0, 0));
        assert!(meter.is_guess());
        assert_eq!(meter.spend().micro_usd, 1_500_075);
        assert!(meter.observe(&said("Estimated cost:        $0.4200\nby model: ($0.3)")));
        let spend = meter.spend();
        assert_eq!((spend.micro_usd, spend.estimated), (20_000, true));
        // The next response costs as much by token, until the client says otherwise.
        meter.observe(&response("b", 200_000, 0, 0));
        assert_eq!(meter.spend().micro_usd, 59_999);
        assert!(meter.observe(&said("Total cost: $0.72 (costs may be inaccurate)")));
        assert_eq!(meter.spend().micro_usd, 320_000);
        // A process that is killed may have had one more like the last.
        let mut killed = meter.clone();
        killed.end();
        assert_eq!(killed.spend().micro_usd, 533_332);
        // The result has the exact figure, and the next turn is estimated by the price.
        meter.observe(&result(usage(300_000, 0.3)));
        assert_eq!(meter.spend().micro_usd, 300_000);
        meter.observe(&response("c", 300_000, 0, 0));
        assert_eq!(meter.spend().micro_usd, 600_005);
    }

    // shows: REL-22
    #[test]
    fn what_tells_no_cost_corrects_nothing() {
        let mut meter = meter();
        meter.observe(&response("a", 100_000, 0, 0));
        let before = meter.spend();
        assert!(meter.is_guess());
        for text in ["", "$", "$x", "$1.2.3", "$1.0000000000"] {
            assert!(meter.observe(&said(text)));
            assert_eq!(meter.spend(), before, "{text}");
        }
        assert!(!meter.is_guess(), "nothing better is to come");
        meter.observe(&said("$0.10"));
        assert_eq!(meter.spend().micro_usd, 110_000, "as much as it can be");
    }

    // shows: REL-22
    #[test]
    fn a_client_that_cannot_say_its_cost_is_charged_the_assumed_price() {
        let mut meter = meter();
        meter.observe(&response("a", 100_000, 0, 0));
        let before = meter.spend();
        let unsupported = ClientEvent::ControlResponse {
            request_id: COST.to_owned(),
            answer: Err("Unsupported".to_owned()),
        };
        assert!(meter.observe(&unsupported));
        assert!(!meter.is_guess());
        assert_eq!(meter.spend(), before);
    }

    // shows: REL-22
    #[test]
    fn what_searches_cost_is_charged_but_no_token_has_it() {
        let mut known = Prices::default();
        known.learn(
            "haiku",
            TokenCounts {
                input: 10,
                ..TokenCounts::default()
            },
            10_000,
        );
        let mut meter = SpendEstimate::new(known, UNKNOWN);
        meter.observe(&response("a", 1_000_000, 0, 0));
        let searched = |total: u64, cost_usd: f64| {
            let mut usage = usage(1_000_000, cost_usd);
            usage.get_mut("opus").unwrap().web_search_requests = total;
            usage
        };
        meter.observe(&result(searched(120, 5.2)));
        assert_eq!(meter.spend().micro_usd, 5_200_000);
        meter.observe(&response("b", 1_000_000, 0, 0));
        assert_eq!(meter.spend().micro_usd, 5_200_000 + 4_000_020);
        assert!(meter.learned.knows("opus"));
        assert!(!meter.learned.knows("haiku"), "known before");
        meter.begin_anew();
        assert_eq!(meter.learned, Prices::default());
        assert_eq!(meter.prices.of("opus", UNKNOWN).fresh_nano_usd, 4_000);
    }

    // shows: REL-22
    #[test]
    fn a_resumed_conversations_sum_is_charged_once() {
        let told = |total, since| {
            ClientEvent::Result(Box::new(TurnResult {
                model_usage: total,
                usage_since_last: Some(since),
                ..TurnResult::default()
            }))
        };
        let mut first = meter();
        first.observe(&told(usage(500_000, 2.0), usage(500_000, 2.0)));
        let mut resumed = meter();
        resumed.observe(&told(usage(600_000, 2.4), usage(100_000, 0.4)));
        assert_eq!(
            first.spend().micro_usd + resumed.spend().micro_usd,
            2_400_000
        );
    }

    // shows: REL-22
    #[test]
    fn without_that_differences_are_taken_and_a_sum_that_falls_counts_whole() {
        let mut meter = meter();
        meter.observe(&result(usage(100, 1.0)));
        meter.observe(&result(BTreeMap::new()));
        meter.observe(&result(usage(150, 1.5)));
        assert_eq!(meter.spend().micro_usd, 1_500_000);
        meter.observe(&result(usage(25, 0.25)));
        assert_eq!(meter.spend().micro_usd, 1_750_000);
    }

    // shows: REL-22
    #[test]
    fn who_was_cut_off_is_charged_what_may_have_been_on_its_way() {
        let mut meter = meter();
        meter.observe(&response("a", 1_000, 0, 0));
        let before = meter.spend();
        meter.end();
        let spend = meter.spend();
        assert_eq!(spend.micro_usd, 2 * before.micro_usd);
        assert!(spend.estimated);
        let mut meter = self::meter();
        meter.observe(&result(usage(100, 1.0)));
        meter.end();
        assert_eq!(
            meter.spend(),
            Spend {
                micro_usd: 1_000_000,
                tokens: 100,
                estimated: false
            }
        );
    }

    // shows: REL-27
    #[test]
    fn what_is_told_of_a_model_counts_for_it() {
        let mut meter = meter();
        meter.observe(&response("a", 1_000, 0, 0));
        let two = [("opus[1m]", 1_000, 4.0), ("haiku", 300, 0.5)];
        let told = two.map(|(model, tokens, cost)| {
            let mut usage = usage(tokens, cost);
            (model.to_owned(), usage.pop_first().unwrap().1)
        });
        meter.observe(&result(told.into()));
        let known = |tokens, micro_usd| Spend {
            micro_usd,
            tokens,
            estimated: false,
        };
        let models = meter.models();
        assert_eq!(models["opus"], known(1_000, 4_000_000));
        assert_eq!(models["haiku"], known(300, 500_000));
        meter.observe(&response("b", 1_000, 0, 0));
        let opus = meter.models()["opus"];
        assert!(opus.estimated && opus.tokens == 2_001);
        meter.end();
        let all = meter.models().into_values();
        let all = all.fold(Spend::default(), Spend::plus);
        assert_eq!(all.tokens, meter.spend().tokens);
        for model in 0..1_000 {
            let mut usage = usage(1, 0.1);
            let usage = usage.pop_first().unwrap().1;
            meter.observe(&result([(model.to_string(), usage)].into()));
        }
        assert_eq!(meter.models().len(), MODELS_MAX);
        let prices = serde_json::to_value(&meter.learned).unwrap();
        assert_eq!(prices.as_object().unwrap().len(), MODELS_MAX);
    }

    // shows: REL-22, AGT-08
    #[test]
    fn a_turn_of_any_number_of_responses_takes_bounded_memory_and_is_charged() {
        let mut meter = meter();
        for number in 0..3 * OPEN_MAX {
            let id = format!("{number}-{}", "x".repeat(1_000));
            meter.observe(&response(&id, 1_000, 0, 0));
        }
        assert_eq!(meter.open.len(), OPEN_MAX);
        assert!(meter.open.keys().all(|id| id.len() == NAME_BYTES_MAX));
        let spend = meter.spend();
        assert_eq!(spend.tokens, 3 * OPEN_MAX as u64 * 1_001);
        assert!(spend.estimated);
    }

    // shows: REL-22
    #[test]
    fn a_result_without_figures_settles_nothing() {
        let mut meter = meter();
        meter.observe(&response("a", 1_000, 0, 0));
        let before = meter.spend();
        meter.observe(&result(BTreeMap::new()));
        assert_eq!(meter.spend(), before);
        meter.observe(&response("b", 1_000, 0, 0));
        assert_eq!(meter.spend().micro_usd, 2 * before.micro_usd);
    }

    // shows: REL-22
    #[test]
    fn a_sum_without_models_counts_as_it_is() {
        let told = |total_cost_usd| {
            ClientEvent::Result(Box::new(TurnResult {
                total_cost_usd,
                ..TurnResult::default()
            }))
        };
        let mut meter = meter();
        meter.observe(&response("a", 1_000, 0, 0));
        meter.observe(&told(1.0));
        meter.observe(&told(0.0));
        meter.observe(&told(1.25));
        assert_eq!(
            meter.spend(),
            Spend {
                micro_usd: 1_250_000,
                tokens: 1_001,
                estimated: false
            }
        );
    }

    // shows: REL-22
    #[test]
    fn limits_are_told_to_subscriptions_alone() {
        let mut meter = meter();
        for event in fixtures::events("rate-limits.jsonl") {
            meter.observe(&event);
        }
        assert!(meter.subscription);
    }

    // shows: REL-22
    #[test]
    fn a_limit_that_nobody_names_may_be_of_an_account_that_pays_by_use() {
        let mut meter = meter();
        meter.observe(&ClientEvent::RateLimit(RateLimitInfo {
            status: RateLimitStatus::Rejected,
            resets_at: None,
            kind: LimitKind::Unknown,
        }));
        assert!(!meter.subscription);
    }
}
