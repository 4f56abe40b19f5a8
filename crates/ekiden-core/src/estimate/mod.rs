//! Estimates of work as ranges, learned from similar work in the past.
//!
//! [`crate::guard::estimate`] counts the text, the files it names and its items. This module compares such estimates
//! with the actual usage. Each finished piece of work is a [`Sample`]. Its residual is its distance from `estimated ^
//! power`, and the quantiles of the residuals give the range of the next estimate. The power is 1 (a table of
//! ratios), 1/2, or 0 (the past alone, for estimates that say nothing), whichever left the smallest residuals.
//!
//! A run decides only by the estimates in its first record, so rounding cannot change a decision.

mod learned;
mod windows;

use serde::{Deserialize, Serialize};

pub use learned::{Kind, Learned, Outlook, Past, Took};
pub use windows::{Session, Sessions, Unit, Windows};

/// Fewer samples than this are padded.
pub const SAMPLES_MIN: usize = 10;
/// Samples that count: the newest, because work and agents change.
pub const SAMPLES_MAX: usize = 100;
/// Invented residuals, as ratios, that pad the real ones; the first are replaced first. So the extreme ones stay
/// until there are enough samples, and a range is wide while little is known.
const PADDING: [f64; SAMPLES_MIN] = [1.0, 1.0, 0.9, 1.2, 0.75, 1.5, 0.6, 2.0, 0.5, 3.5];
const POWERS: [f64; 3] = [1.0, 0.5, 0.0];

/// The estimate of a piece of work, and what it took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    pub estimated: u64,
    pub actual: u64,
}

/// Half of such work takes no more than `p50`, nine of ten pieces no more than `p90`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Range {
    pub p50: u64,
    pub p90: u64,
}

/// The errors of [`Model::of`] on unseen samples: each is predicted from those before it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Errors {
    /// Samples that were predicted.
    pub samples: usize,
    /// The mean error of `p50`, in percent of the actual value (MAPE).
    pub p50_off_percent: f64,
    /// The same for the mean of the past, as a comparison.
    pub mean_off_percent: f64,
    /// How often `p90` held, in percent.
    pub p90_held_percent: f64,
}

/// What is learned from samples, oldest first.
#[derive(Debug, Clone)]
pub struct Model {
    power: f64,
    /// Sorted.
    residuals: Vec<f64>,
}

impl Model {
    /// For work whose estimate and measure have the same unit: without samples the estimate itself is the
    /// middle.
    pub fn of(samples: &[Sample]) -> Self {
        Self::centred(samples, 0.0)
    }

    /// For work in another unit, such as time. None without samples.
    pub fn of_measure(samples: &[Sample]) -> Option<Self> {
        let newest = newest(samples);
        let centre = median(&residuals(newest, POWERS[0]))?;
        Some(Self::centred(newest, centre))
    }

    fn centred(samples: &[Sample], centre: f64) -> Self {
        let samples = newest(samples);
        let is_learned = samples.len() >= SAMPLES_MIN;
        let powers = if is_learned {
            &POWERS[..]
        } else {
            &POWERS[..1]
        };
        let all = powers
            .iter()
            .map(|power| (*power, residuals(samples, *power)));
        let best = all.min_by(|(_, one), (_, other)| spread(one).total_cmp(&spread(other)));
        let (power, mut residuals) = best.unwrap_or((POWERS[0], Vec::new()));
        let padding = PADDING.iter().skip(residuals.len());
        residuals.extend(padding.map(|ratio| centre + ratio.ln()));
        residuals.sort_by(f64::total_cmp);
        Self { power, residuals }
    }

    pub fn range(&self, estimated: u64) -> Range {
        let middle = self.power * log(estimated);
        let at = |residual: f64| whole((middle + residual).exp());
        let p50 = at(median(&self.residuals).unwrap_or_default());
        // Of n residuals and the next one, nine of ten are not above this one.
        let place = ((self.residuals.len() + 1) * 9).div_ceil(10);
        let p90 = at(self.residuals[place.min(self.residuals.len()) - 1]);
        Range { p50, p90 }
    }
}

impl Range {
    pub fn plus(self, other: Self) -> Self {
        Self {
            p50: self.p50.saturating_add(other.p50),
            p90: self.p90.saturating_add(other.p90),
        }
    }

    pub fn map(self, change: impl Fn(u64) -> u64) -> Self {
        Self {
            p50: change(self.p50),
            p90: change(self.p90),
        }
    }
}

impl Errors {
    /// The first `skip` samples are only learned from. None if no other is left.
    pub fn of(samples: &[Sample], skip: usize) -> Option<Self> {
        let first = skip.max(1);
        let count = samples
            .len()
            .checked_sub(first)
            .filter(|count| *count > 0)?;
        let (mut off, mut mean_off, mut held) = (0.0, 0.0, 0_u32);
        for at in first..samples.len() {
            let (past, now) = (&samples[..at], samples[at]);
            let range = Model::of(past).range(now.estimated);
            let actual = float(now.actual.max(1));
            let sum: f64 = past.iter().map(|sample| float(sample.actual)).sum();
            off += (float(range.p50) - actual).abs() / actual;
            mean_off += (sum / float(at as u64) - actual).abs() / actual;
            held += u32::from(now.actual <= range.p90);
        }
        let percent = |sum: f64| sum * 100.0 / float(count as u64);
        Some(Self {
            samples: count,
            p50_off_percent: percent(off),
            mean_off_percent: percent(mean_off),
            p90_held_percent: percent(f64::from(held)),
        })
    }
}

fn newest(samples: &[Sample]) -> &[Sample] {
    &samples[samples.len().saturating_sub(SAMPLES_MAX)..]
}

fn residuals(samples: &[Sample], power: f64) -> Vec<f64> {
    let of = |sample: &Sample| log(sample.actual) - power * log(sample.estimated);
    let mut residuals: Vec<f64> = samples.iter().map(of).collect();
    residuals.sort_by(f64::total_cmp);
    residuals
}

/// How far they lie from their middle.
fn spread(residuals: &[f64]) -> f64 {
    let middle = median(residuals).unwrap_or_default();
    residuals
        .iter()
        .map(|residual| (residual - middle).abs())
        .sum()
}

fn median(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = sorted[(sorted.len() - 1) / 2];
    Some((lower + upper) / 2.0)
}

fn log(figure: u64) -> f64 {
    float(figure.max(1)).ln()
}

#[expect(clippy::cast_precision_loss, reason = "an estimate of a few digits")]
fn float(figure: u64) -> f64 {
    figure as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative, and a cast ends at the largest"
)]
fn whole(figure: f64) -> u64 {
    figure.round() as u64
}

#[cfg(test)]
mod tests;
