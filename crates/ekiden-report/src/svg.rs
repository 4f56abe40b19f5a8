//! Drawings as static SVG. The page's CSS classes give a drawing its colours, so it is dark where the page is dark.
//!
//! A drawing is 480 wide, and its letters are still readable at a phone's width. Its title and description say what
//! it shows, for people who cannot see it. The only words of an agent in a drawing are names, which are escaped.

use ekiden_core::budget::{Budget, Spend};
use ekiden_core::guard::Level;
use ekiden_core::time::Timestamp;
use jiff::tz::TimeZone;
use minijinja::{Value, context};

use crate::curve::Point;
use crate::phrase;
use crate::render::rendered;
use crate::timeline::{Session, Stage, Timeline};

const WIDTH: u64 = 480;
const HEIGHT: u64 = 210;
const BARS_HEIGHT: u64 = 120;
/// Room for the labels beside the plot.
const LEFT: u64 = 44;
const RIGHT: u64 = 30;
const TOP: u64 = 14;
const BOTTOM: u64 = 22;
/// Bars of a chart; with more sessions, several share a bar.
const BARS_MAX: usize = 80;
/// Lines of a plot that are drawn separately. With more, each would be a point, so all are drawn as one.
const LINES_MAX: usize = 200;
/// The height of a bar with the text above it.
const BAR: u64 = 38;

/// The context of a stage's sessions over time, with the levels, the orders to hand off and the waits. Nothing if no
/// session reports its context.
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
    let window = stage.sessions.iter().rev().find_map(Session::window);
    let level = |level| window.map(|window| window.tokens_of(timeline.levels, level));
    let axes = Axes {
        from: stage.sessions.first()?.began,
        to: points.last()?.at,
        tokens_max: top_tokens
            .max(level(Level::L3).unwrap_or(0))
            .saturating_mul(21)
            / 20
            + 1,
    };
    let levels = [Level::L1, Level::L2, Level::L3].into_iter();
    let levels = levels.filter_map(|name| Some((name.to_string(), axes.y(level(name)?))));
    let is_dense = points.last().is_some_and(|last| last.line > LINES_MAX);
    let lines = points.chunk_by(|one, next| is_dense || one.line == next.line);
    let curves = lines.map(|line| {
        let places = line.iter().map(|point| axes.place(point.at, point.tokens));
        let mut places: Vec<String> = places.collect();
        places.dedup();
        places.join(" ")
    });
    let clock = |at| phrase::clock(at, timeline.started, zone);
    let parts = context! {
        waits => axes.waits(timeline, place),
        levels => levels.collect::<Vec<_>>(),
        curves => curves.collect::<Vec<_>>(),
        orders => axes.orders(stage, points),
        peak => axes.y(top_tokens),
        tokens => phrase::tokens(top_tokens),
        from => clock(axes.from),
        to => clock(axes.to),
        ..frame(HEIGHT)
    };
    Some(rendered("context.svg", parts))
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

    /// Where waits begin and end.
    fn waits(&self, timeline: &Timeline, place: usize) -> Vec<(u64, u64)> {
        let waits = timeline.waits.iter().filter(|wait| wait.stage == place);
        let waits = waits.map(|wait| (self.x(wait.from), self.x(wait.over.unwrap_or(self.to))));
        waits.filter(|(from, to)| to > from).collect()
    }

    /// Draws a mark at the curve's height when the order was given.
    fn orders(&self, stage: &Stage, points: &[Point]) -> Vec<(u64, u64)> {
        let attempts = stage.sessions.iter().flat_map(|session| &session.attempts);
        let marks = attempts.filter_map(|attempt| attempt.ordered).map(|at| {
            let next = points.partition_point(|point| point.at < at);
            let beside = points.get(next).or(points.last());
            (self.x(at), self.y(beside.map_or(0, |point| point.tokens)))
        });
        let mut marks: Vec<_> = marks.collect();
        // Of overlapping marks, only one is drawn.
        marks.dedup_by_key(|(x, _)| *x);
        marks
    }
}

/// The cost of each session as a bar, or its tokens if nothing costs money. Of too many, the dearest of each few.
/// Nothing for fewer than two.
pub fn costs(timeline: &Timeline) -> Option<String> {
    let sessions: Vec<_> = timeline
        .sessions()
        .map(|(stage, session)| {
            let name = match timeline.is_plan {
                true => format!("{} · {}", stage.id, session.number),
                false => session.number.to_string(),
            };
            (name, session.spend())
        })
        .collect();
    let in_money = sessions.iter().any(|(_, spend)| spend.micro_usd > 0);
    let value = |(_, spend): &(String, Spend)| {
        if in_money {
            spend.micro_usd
        } else {
            spend.tokens
        }
    };
    let each = sessions.len().div_ceil(BARS_MAX).max(1);
    let bars = sessions.chunks(each);
    let bars: Vec<(&str, u64)> = bars
        .filter_map(|bar| bar.iter().max_by_key(|session| value(session)))
        .map(|session| (session.0.as_str(), value(session)))
        .collect();
    let top = bars
        .iter()
        .map(|(_, value)| *value)
        .max()
        .filter(|top| *top > 0 && sessions.len() > 1)?;
    let said = |value| {
        if in_money {
            phrase::money(value)
        } else {
            phrase::tokens(value)
        }
    };
    let step = (WIDTH - LEFT - RIGHT) * 10 / bars.len() as u64;
    let bars = bars.iter().zip(0..).map(|((name, value), place)| {
        let tall = scaled(*value, top, BARS_HEIGHT - BOTTOM - TOP);
        (
            LEFT + step * place / 10,
            tall,
            (*name).to_owned(),
            said(*value),
        )
    });
    let parts = context! {
        bars => bars.collect::<Vec<_>>(),
        bar_width => (step / 10).saturating_sub(2).clamp(1, 40),
        most => said(top),
        first => sessions.first().map(|(name, _)| name),
        last => sessions.last().map(|(name, _)| name),
        ..frame(BARS_HEIGHT)
    };
    Some(rendered("costs.svg", parts))
}

/// Spend against the run's budget: a bar for money and one for tokens. Nothing if neither has a limit.
pub fn budget(spent: Spend, budget: Budget) -> Option<String> {
    let money = budget
        .micro_usd
        .map(|limit| (spent.micro_usd, limit, phrase::money(limit)));
    let tokens = budget.tokens.map(|limit| {
        let said = format!("{} tokens", phrase::tokens(limit));
        (spent.tokens, limit, said)
    });
    let bars: Vec<_> = money.into_iter().chain(tokens).collect();
    let height = BAR * bars.len() as u64;
    let bars = bars.into_iter().zip(0..);
    let bars = bars.map(|((spent, limit, said), place)| {
        let percent = scaled(spent, limit, 100);
        let class = match percent {
            0..90 => "within",
            90..100 => "nearly",
            _ => "spent",
        };
        let filled = scaled(spent.min(limit), limit, WIDTH);
        (place * BAR, percent, said, class, filled)
    });
    let parts = context! { bars => bars.collect::<Vec<_>>(), ..frame(height) };
    (height > 0).then(|| rendered("budget.svg", parts))
}

/// The room for a plot in a drawing of this height.
fn frame(height: u64) -> Value {
    context! {
        width => WIDTH,
        height,
        left => LEFT,
        right => WIDTH - RIGHT,
        top => TOP,
        bottom => height.saturating_sub(BOTTOM),
    }
}

fn scaled(value: u64, of: u64, length: u64) -> u64 {
    let part = u128::from(value) * u128::from(length) / u128::from(of.max(1));
    u64::try_from(part).unwrap_or(length)
}
