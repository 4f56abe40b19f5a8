//! Metrics of a run: what its attempts spent, and what its sessions left.

use ekiden_core::budget::Spend;
use ekiden_report::timeline::Left;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, MeterProvider as _};
use opentelemetry_sdk::metrics::SdkMeterProvider;

use crate::open::{dollars, name, scope, variant, word};

/// Bucket bounds of the context at a handoff, in tokens.
const CONTEXT_BOUNDS: [f64; 8] = [20e3, 50e3, 80e3, 100e3, 120e3, 150e3, 200e3, 500e3];

#[derive(Debug)]
pub(crate) enum Measure {
    /// What an attempt spent with one model.
    Spend {
        agent: String,
        model: Option<String>,
        spend: Spend,
    },
    Session {
        agent: String,
        left: Option<Left>,
        context_tokens: Option<u64>,
    },
}

pub(crate) struct Metrics {
    tokens: Counter<u64>,
    cost: Counter<f64>,
    sessions: Counter<u64>,
    context: Histogram<u64>,
}

impl Metrics {
    pub(crate) fn new(provider: &SdkMeterProvider) -> Self {
        let meter = provider.meter_with_scope(scope());
        Self {
            tokens: meter
                .u64_counter("ekiden.usage.tokens")
                .with_unit("{token}")
                .with_description("Tokens that sessions used, cache reads not counted.")
                .build(),
            cost: meter
                .f64_counter("ekiden.cost")
                .with_unit("USD")
                .with_description("What sessions cost at API prices.")
                .build(),
            sessions: meter
                .u64_counter("ekiden.sessions")
                .with_unit("{session}")
                .with_description("Sessions that are over, by what they left.")
                .build(),
            context: meter
                .u64_histogram("ekiden.handoff.context")
                .with_unit("{token}")
                .with_description("Context in use when a session had handed off.")
                .with_boundaries(CONTEXT_BOUNDS.to_vec())
                .build(),
        }
    }

    pub(crate) fn record(&self, measure: &Measure) {
        match measure {
            Measure::Spend {
                agent,
                model,
                spend,
            } => {
                let mut of = vec![name("gen_ai.agent.name", agent)];
                of.extend(
                    model
                        .as_ref()
                        .map(|model| name("gen_ai.request.model", model)),
                );
                self.tokens.add(spend.tokens, &of);
                self.cost.add(dollars(spend.micro_usd), &of);
            }
            Measure::Session {
                agent,
                left,
                context_tokens,
            } => {
                let agent = name("gen_ai.agent.name", agent);
                let left = left.unwrap_or(Left::Nothing);
                let hands_off = matches!(left, Left::Handoff | Left::Completion | Left::Question);
                let what: KeyValue = word("ekiden.session.left", variant(&left));
                self.sessions.add(1, &[agent.clone(), what]);
                if let Some(tokens) = context_tokens.filter(|_| hands_off) {
                    self.context.record(tokens, &[agent]);
                }
            }
        }
    }
}
