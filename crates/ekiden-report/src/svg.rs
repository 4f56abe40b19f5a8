//! Drawings as static SVG. The classes of the page that holds a drawing give its colours, so it is dark where the page is.
//!
//! A drawing is 480 wide, and its letters can still be read at a phone's width. Its title and description say what it
//! shows, for people who do not see it. The only words of an agent in a drawing are names, which are escaped.

use std::fmt::Write as _;

use ekiden_core::budget::{Budget, Spend};
use ekiden_core::guard::{Level, Window};
use ekiden_core::time::Timestamp;
use jiff::tz::TimeZone;

use crate::curve::Point;
use crate::phrase;
use crate::timeline::{Stage, Timeline};

const WIDTH: u64 = 480;
const HEIGHT: u64 = 210;
/// Room for what stands beside the plot.
const LEFT: u64 = 44;
const RIGHT: u64 = 30;
const TOP: u64 = 14;
const BOTTOM: u64 = 22;
/// Bars of a chart; of more sessions several share one.
const BARS_MAX: usize = 80;
/// Lines of a plot that are drawn apart. Of more each would be a point, so all are one.
const LINES_MAX: usize = 200;
/// The height of a bar with the words above it.
const BAR: u64 = 38;

/// The context of a stage's sessions over time, with the levels, the orders to hand off and the waits. Nothing where no
/// session tells how full its context is.
pub fn context(
    timeline: &Timeline,
    place: usize,
    points: &[Point],
    zone: &TimeZone,
) -> Option<String> {
    let stage = &timeline.stages[place];
    let top_tokens = points
        .iter()
        .map(|point| point.tokens)
        .max()
        .filter(|top| *top > 0)?;
    let window = newest_window(stage);
    let level = |level| window.map(|window| window.tokens_of(timeline.levels, level));
    let axes = Axes {
        from: stage.sessions.first()?.began,
        to: points.last()?.at,
        tokens_max: top_tokens.max(level(Level::L3).unwrap_or(0)) * 21 / 20 + 1,
    };
    let mut svg = open(HEIGHT, "Context use over time");
    axes.waits(timeline, place, &mut svg);
    for name in [Level::L1, Level::L2, Level::L3] {
        if let Some(tokens) = level(name) {
            axes.level(name, tokens, &mut svg);
        }
    }
    let is_dense = points.last().is_some_and(|last| last.line > LINES_MAX);
    for line in points.chunk_by(|one, next| is_dense || one.line == next.line) {
        let mut points: Vec<String> = line
            .iter()
            .map(|point| axes.place(point.at, point.tokens))
            .collect();
        points.dedup();
        let _ = write!(
            svg,
            r#"<polyline class="curve" points="{}"/>"#,
            points.join(" ")
        );
    }
    axes.orders(stage, points, &mut svg);
    axes.labels(timeline, top_tokens, zone, &mut svg);
    svg.push_str("</svg>");
    Some(svg)
}

/// The scales of a plot.
struct Axes {
    from: Timestamp,
    to: Timestamp,
    tokens_max: u64,
}

impl Axes {
    fn x(&self, at: Timestamp) -> u64 {
        let all = self.to.since(self.from).0.max(1);
        let passed = at.since(self.from).0.min(all);
        LEFT + scaled(passed, all, WIDTH - LEFT - RIGHT)
    }

    fn y(&self, tokens: u64) -> u64 {
        let height = HEIGHT - TOP - BOTTOM;
        TOP + height - scaled(tokens.min(self.tokens_max), self.tokens_max, height)
    }

    fn place(&self, at: Timestamp, tokens: u64) -> String {
        format!("{},{}", self.x(at), self.y(tokens))
    }

    fn waits(&self, timeline: &Timeline, place: usize, svg: &mut String) {
        for wait in timeline.waits.iter().filter(|wait| wait.stage == place) {
            let (from, to) = (self.x(wait.from), self.x(wait.over.unwrap_or(self.to)));
            if to > from {
                let (width, height) = (to - from, HEIGHT - TOP - BOTTOM);
                let _ = write!(
                    svg,
                    r#"<rect class="wait" x="{from}" y="{TOP}" width="{width}" height="{height}"/>"#
                );
            }
        }
    }

    fn level(&self, level: Level, tokens: u64, svg: &mut String) {
        let (y, end) = (self.y(tokens), WIDTH - RIGHT);
        let _ = write!(
            svg,
            r#"<line class="level {level}" x1="{LEFT}" y1="{y}" x2="{end}" y2="{y}"/><text x="{}" y="{}">{level}</text>"#,
            end + 4,
            y + 4
        );
    }

    /// A mark at the height that the curve has when the order is given.
    fn orders(&self, stage: &Stage, points: &[Point], svg: &mut String) {
        let attempts = stage.sessions.iter().flat_map(|session| &session.attempts);
        let mut last_x = None;
        for at in attempts.filter_map(|attempt| attempt.ordered) {
            // Of marks that lie on each other one is drawn.
            if last_x.replace(self.x(at)) == Some(self.x(at)) {
                continue;
            }
            let next = points.partition_point(|point| point.at < at);
            let beside = points.get(next).or(points.last());
            let (x, y) = (self.x(at), self.y(beside.map_or(0, |point| point.tokens)));
            let _ = write!(svg, r#"<circle class="order" cx="{x}" cy="{y}" r="4"/>"#);
        }
    }

    fn labels(&self, timeline: &Timeline, top_tokens: u64, zone: &TimeZone, svg: &mut String) {
        let (bottom, end) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        let _ = write!(
            svg,
            r#"<path class="axis" d="M{LEFT} {TOP}V{bottom}H{end}"/><text class="end" x="{}" y="{}">{}</text><text class="end" x="{}" y="{bottom}">0</text>"#,
            LEFT - 4,
            self.y(top_tokens) + 4,
            phrase::tokens(top_tokens),
            LEFT - 4,
        );
        let clock = |at| phrase::clock(at, timeline.started, zone);
        let _ = write!(
            svg,
            r#"<text x="{LEFT}" y="{0}">{1}</text><text class="end" x="{end}" y="{0}">{2}</text>"#,
            HEIGHT - 6,
            clock(self.from),
            clock(self.to),
        );
    }
}

/// The cost of each session as a bar, or its tokens where nothing costs money. Nothing for fewer than two.
pub fn costs(timeline: &Timeline) -> Option<String> {
    let spends: Vec<_> = timeline
        .sessions()
        .map(|(_, session)| session.spend())
        .collect();
    let in_money = spends.iter().any(|spend| spend.micro_usd > 0);
    let values = spends.iter().map(|spend| {
        if in_money {
            spend.micro_usd
        } else {
            spend.tokens
        }
    });
    let values: Vec<u64> = values.collect();
    let each = values.len().div_ceil(BARS_MAX).max(1);
    let bars: Vec<u64> = values.chunks(each).map(|bar| bar.iter().sum()).collect();
    let top = bars
        .iter()
        .copied()
        .max()
        .filter(|top| *top > 0 && values.len() > 1)?;
    let said = |value| {
        if in_money {
            phrase::money(value)
        } else {
            phrase::tokens(value)
        }
    };
    let (height, bottom) = (120, 120 - BOTTOM);
    let mut svg = open(height, "What each session took");
    let step = (WIDTH - LEFT - RIGHT) * 10 / bars.len() as u64;
    for (place, value) in bars.iter().enumerate() {
        let tall = scaled(*value, top, bottom - TOP);
        let x = LEFT + step * place as u64 / 10;
        let (y, width) = (bottom - tall, (step / 10).saturating_sub(2).clamp(1, 40));
        let from = place * each + 1;
        let _ = write!(
            svg,
            r#"<rect class="bar" x="{x}" y="{y}" width="{width}" height="{tall}"><title>{from}: {}</title></rect>"#,
            said(*value)
        );
    }
    let (end, below) = (WIDTH - RIGHT, height - 6);
    let _ = write!(
        svg,
        r#"<path class="axis" d="M{LEFT} {TOP}V{bottom}H{end}"/><text class="end" x="{}" y="{}">{}</text><text x="{LEFT}" y="{below}">1</text><text class="end" x="{end}" y="{below}">{}</text></svg>"#,
        LEFT - 4,
        TOP + 6,
        said(top),
        values.len(),
    );
    Some(svg)
}

/// What was spent of the run's budget: a bar for money and one for tokens. Nothing if neither has a limit.
pub fn budget(spent: Spend, budget: Budget) -> Option<String> {
    let money = budget
        .micro_usd
        .map(|limit| (spent.micro_usd, limit, phrase::money(limit)));
    let tokens = budget.tokens.map(|limit| {
        let said = format!("{} tokens", phrase::tokens(limit));
        (spent.tokens, limit, said)
    });
    let bars: Vec<_> = money.into_iter().chain(tokens).collect();
    let mut svg = open(BAR * bars.len() as u64, "What was spent of the budget");
    for ((spent, limit, said), place) in bars.iter().zip(0..) {
        let percent = scaled(*spent, *limit, 100);
        let class = match percent {
            0..90 => "within",
            90..100 => "nearly",
            _ => "spent",
        };
        let (y, width) = (place * BAR, scaled((*spent).min(*limit), *limit, WIDTH));
        let _ = write!(
            svg,
            r#"<text x="0" y="{}">{percent}% of {said}</text><rect class="track" x="0" y="{1}" width="{WIDTH}" height="8" rx="4"/><rect class="{class}" x="0" y="{1}" width="{width}" height="8" rx="4"/>"#,
            y + 14,
            y + 20,
        );
    }
    svg.push_str("</svg>");
    (!bars.is_empty()).then_some(svg)
}

fn newest_window(stage: &Stage) -> Option<Window> {
    let attempts = stage
        .sessions
        .iter()
        .rev()
        .flat_map(|session| session.attempts.iter().rev());
    attempts.filter_map(|attempt| attempt.window).next()
}

fn open(height: u64, title: &str) -> String {
    opened("plot", WIDTH, height, title)
}

pub(crate) fn opened(class: &str, width: u64, height: u64, title: &str) -> String {
    format!(
        r#"<svg class="{class}" width="{width}" viewBox="0 0 {width} {height}" role="img" aria-label="{title}" xmlns="http://www.w3.org/2000/svg"><title>{title}</title>"#
    )
}

fn scaled(value: u64, of: u64, length: u64) -> u64 {
    let part = u128::from(value) * u128::from(length) / u128::from(of.max(1));
    u64::try_from(part).unwrap_or(length)
}
