//! What one relay is doing right now, and the line that shows it.
//!
//! Nothing here needs to be kept: all of it is printed for good when the session ends.

use ekiden_core::agent::{AgentKind, Interface};
use ekiden_core::budget::Spend;
use ekiden_core::ends::EndCause;
use ekiden_core::event::AttemptEvent;
use ekiden_core::guard::{Level, Levels, Window};
use ekiden_core::outcome::WaitCause;
use ekiden_core::relay::{Phase, Relay, ReviewStep};
use ekiden_core::time::Timestamp;
use jiff::tz::TimeZone;

use super::growth::Growth;
use super::line::{Line, Tone, one_line};
use super::phrase;
use super::waits;

const CELLS: u64 = 10;
/// A cell by the number of its filled eighths.
const FILLED: [char; 9] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
const LEVEL_MARK: char = '┊';

/// What a relay is doing, with what is known beyond the log.
#[derive(Debug, Clone, Default)]
pub struct RelayProgress {
    doing: Doing,
    since: Timestamp,
    /// The session at work, or the next one.
    session: u32,
    session_max: u32,
    levels: Option<Levels>,
    /// While it works, the agent reports neither its context nor what it spends.
    pub reports_nothing: bool,
    /// The window of the last session that reported one, and why the last attempt ended.
    window: Option<Window>,
    ended: Option<EndCause>,
    /// Context use in tokens and the window, once known.
    pub usage: Option<(u64, Window)>,
    pub spend: Spend,
    /// That is the API price, which nobody pays.
    pub subscription: bool,
    pub activity: Option<Activity>,
    pub subagents: usize,
    growth: Growth,
}

/// What a session is doing, in short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activity {
    pub text: String,
    /// When it began, if that was seen.
    pub since: Option<Timestamp>,
}

/// What is visible of a session from outside.
#[derive(Debug)]
pub struct Seen<'a> {
    pub usage_tokens: u64,
    pub spend: Spend,
    pub subscription: bool,
    pub subagents: usize,
    pub activity: Option<&'a Activity>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Doing {
    #[default]
    Nothing,
    Reviewing(ReviewStep),
    Working,
    Waiting {
        until: Option<Timestamp>,
        why: String,
    },
    /// A person wants nothing new to start.
    Paused,
}

impl RelayProgress {
    pub(super) fn note(&mut self, event: &AttemptEvent) {
        if let AttemptEvent::WindowChanged { window, .. } = event {
            self.window = Some(*window);
        } else if let AttemptEvent::Ended(ended) = event {
            self.ended = Some(ended.cause.clone());
        }
    }

    /// Takes in the state of the relay after a record.
    pub(super) fn follow(&mut self, at: Timestamp, relay: &Relay, levels: Levels) {
        let (doing, since) = Doing::of(relay, at, self.ended.as_ref());
        let session = relay.session().get();
        if (&self.doing, self.session) != (&doing, session) || doing == Doing::Paused {
            *self = Self {
                doing,
                since,
                session,
                window: self.window,
                ended: self.ended.take(),
                ..Self::default()
            };
        }
        self.session_max = relay.session_max();
        self.levels = Some(levels);
        let agent = relay.agent();
        self.reports_nothing =
            agent.kind == AgentKind::Exec || agent.interface == Interface::Terminal;
    }

    pub fn uses(&mut self, usage_tokens: u64, window: Window, at: Timestamp) {
        self.usage = Some((usage_tokens, window));
        self.growth.take(at, usage_tokens);
    }

    /// What was seen of the session at work beyond the log. `at` is when, if it was seen live.
    pub fn see(&mut self, seen: &Seen<'_>, at: Timestamp) {
        match self.window.filter(|_| seen.usage_tokens > 0) {
            Some(window)
                if self
                    .usage
                    .is_none_or(|(tokens, _)| tokens != seen.usage_tokens) =>
            {
                self.uses(seen.usage_tokens, window, at);
            }
            Some(window) => self.usage = Some((seen.usage_tokens, window)),
            None => self.usage = None,
        }
        self.spend = seen.spend;
        self.subscription = seen.subscription;
        self.subagents = seen.subagents;
        self.activity = seen.activity.cloned();
    }

    pub fn is_working(&self) -> bool {
        self.doing == Doing::Working
    }

    pub fn is_paused(&self) -> bool {
        self.doing == Doing::Paused
    }

    pub fn line(&self, now: Timestamp, zone: &TimeZone) -> Option<Line> {
        let took = phrase::whole_seconds(now.since(self.since));
        let place = format!("  {} of {} ", self.session, self.session_max);
        let line = match &self.doing {
            Doing::Nothing => return None,
            Doing::Reviewing(at) => {
                let what = phrase::reviewing(*at);
                Line::new(Tone::Quiet, format!("  {what}  {took}"))
            }
            Doing::Waiting { until, why } => {
                let length = until.map_or(took, |until| {
                    let left = phrase::whole_seconds(until.since(now));
                    let until = phrase::clock_to_the_second(until, now, zone);
                    format!("{left}, until {until}")
                });
                Line::new(Tone::Quiet, place)
                    .with(Tone::Plain, format!(" waiting {length}"))
                    .with(Tone::Quiet, format!("  {}", one_line(why)))
            }
            Doing::Paused => {
                let then = format!("  `ekiden unpause` continues with session {}", self.session);
                Line::new(Tone::Plain, format!("  paused {took}")).with(Tone::Quiet, then)
            }
            Doing::Working => self.working(Line::new(Tone::Quiet, place), &took),
        };
        Some(line)
    }

    /// The line without what has a separate line in the live view, and with more about the context.
    pub(super) fn head(&self, now: Timestamp, zone: &TimeZone) -> Option<Line> {
        if self.doing != Doing::Working {
            return self.line(now, zone);
        }
        let took = phrase::whole_seconds(now.since(self.since));
        let place = format!("  {} of {} ", self.session, self.session_max);
        let line = self.with_usage(Line::new(Tone::Quiet, place));
        let window = self.usage.map(|(_, window)| window.usable_tokens());
        let window = window.map(|window| format!(" of {}", phrase::tokens(window)));
        let rate = self.growth.per_minute().filter(|rate| *rate > 0);
        let rate = rate.map(|rate| format!("  +{} a minute", phrase::tokens(rate)));
        let rest = window.into_iter().chain(rate).collect::<String>();
        Some(
            line.with(Tone::Quiet, rest)
                .with(Tone::Plain, format!("  {took}")),
        )
    }

    fn with_usage(&self, line: Line) -> Line {
        let Some(((tokens, window), levels)) = self.usage.zip(self.levels) else {
            let has_begun = self.reports_nothing || self.activity.is_some();
            let doing = if has_begun { " working" } else { " starting" };
            return line.with(Tone::Plain, doing);
        };
        let tone = match window.level(levels, tokens) {
            Level::L3 => Tone::Attention,
            Level::L0 | Level::L1 | Level::L2 => Tone::Plain,
        };
        let usage = phrase::usage(tokens, Some(window.percent(tokens)));
        line.with(tone, bar(tokens, window.usable_tokens(), levels))
            .with(Tone::Plain, format!(" {usage}"))
    }

    fn working(&self, line: Line, took: &str) -> Line {
        let mut line = self.with_usage(line).with(Tone::Plain, format!("  {took}"));
        if self.spend.micro_usd > 0 {
            let cost = phrase::cost(
                self.spend.micro_usd,
                self.spend.estimated,
                self.subscription,
            );
            line = line.with(Tone::Plain, format!("  {cost}"));
        }
        match &self.activity {
            Some(activity) => line.with(Tone::Quiet, format!("  {}", one_line(&activity.text))),
            None => line,
        }
    }
}

impl Doing {
    /// What a relay is doing, and since when if it has just begun.
    fn of(relay: &Relay, at: Timestamp, ended: Option<&EndCause>) -> (Self, Timestamp) {
        match &relay.phase {
            Phase::Planned | Phase::Ended { .. } => (Self::Nothing, at),
            Phase::Reviewing { step, .. } => (Self::Reviewing(*step), at),
            Phase::Running(_) => (Self::Working, at),
            Phase::Paused { since, .. } => (Self::Paused, *since),
            Phase::Waiting { until, cause, .. } => {
                let why = waits::why(*cause, ended);
                let until = (*cause != WaitCause::Budget).then_some(*until);
                (Self::Waiting { until, why }, at)
            }
        }
    }
}

/// `▕███▍ ┊┊┊  ▏`: how much of the usable window is used, and where the levels begin.
fn bar(used: u64, of: u64, levels: Levels) -> String {
    let eighths = (used.min(of) * CELLS * 8).checked_div(of).unwrap_or(0);
    let marks = <[u8; 3]>::from(levels).map(|percent| u64::from(percent) * CELLS / 100);
    let cell = |cell: u64| match eighths.saturating_sub(cell * 8) {
        0 if marks.contains(&cell) => LEVEL_MARK,
        filled => FILLED[usize::try_from(filled.min(8)).unwrap_or(8)],
    };
    let cells: String = (0..CELLS).map(cell).collect();
    format!("▕{cells}▏")
}

#[cfg(test)]
mod tests {
    use ekiden_core::ends::LimitKind;
    use ekiden_core::guard::Profile;

    use super::*;

    #[test]
    fn the_bar_fills_by_eighths_and_never_overflows() {
        let bar = |used, of| super::bar(used, of, Profile::Relay.levels());
        assert_eq!(bar(0, 100), "▕     ┊┊┊  ▏");
        assert_eq!(bar(34, 100), "▕███▍ ┊┊┊  ▏");
        assert_eq!(bar(65, 100), "▕██████▌┊  ▏");
        assert_eq!(bar(100, 100), "▕██████████▏");
        assert_eq!(bar(250, 100), "▕██████████▏");
        assert_eq!(bar(1, 0), "▕     ┊┊┊  ▏");
    }

    fn progress(doing: Doing) -> RelayProgress {
        RelayProgress {
            doing,
            session: 4,
            session_max: 10,
            levels: Some(Profile::Relay.levels()),
            ..RelayProgress::default()
        }
    }

    fn text(progress: &RelayProgress, now: u64) -> String {
        let line = progress.line(Timestamp(now), &TimeZone::UTC);
        line.unwrap().plain()
    }

    // shows: UIX-02
    #[test]
    fn the_moving_line_says_what_is_going_on() {
        let window = Window {
            model_tokens: 200_000,
            compaction_tokens: None,
            reserve_tokens: 0,
            cap_tokens: None,
        };
        let starting = progress(Doing::Working);
        assert_eq!(text(&starting, 2_000), "  4 of 10  starting  2s");
        let working = RelayProgress {
            usage: Some((68_000, window)),
            spend: Spend {
                micro_usd: 610_000,
                tokens: 9,
                estimated: true,
            },
            activity: Some(Activity {
                text: "Bash pytest tests/test_billing -q\n".to_owned(),
                since: None,
            }),
            ..starting
        };
        assert_eq!(
            text(&working, 180_000),
            "  4 of 10 ▕███▍ ┊┊┊  ▏ 34% 68k  3m  ≈$0.61  Bash pytest tests/test_billing -q"
        );
        let by_subscription = RelayProgress {
            subscription: true,
            ..working
        };
        assert!(text(&by_subscription, 180_000).contains("  ≈$0.61 API price  Bash"));
    }

    // shows: REL-11
    #[test]
    fn a_wait_says_why_and_counts_down() {
        let until = Some(Timestamp(3_630_000));
        let limited = Some(EndCause::RateLimited {
            resets_at: Some(Timestamp(3_600_000)),
            kind: LimitKind::FiveHour,
        });
        let done = Some(EndCause::Completed);
        let told = [
            (WaitCause::UsageLimit, limited.clone(), 60_000),
            (WaitCause::UsageLimit, limited.clone(), 3_540_000),
            (WaitCause::UsageLimit, limited.clone(), 3_540_400),
            (WaitCause::UsageLimit, limited.clone(), 3_541_500),
            (WaitCause::UsageLimit, limited, 9_999_999),
            (WaitCause::UsageLimit, done.clone(), 3_600_000),
            (
                WaitCause::Failure,
                Some(EndCause::Crashed { exit: 3 }),
                3_628_000,
            ),
            (WaitCause::Failure, Some(EndCause::ServerError), 3_600_000),
            (WaitCause::Failure, done.clone(), 3_600_000),
            (WaitCause::QuietHours, done.clone(), 3_600_000),
            (WaitCause::Pause, done, 3_600_000),
        ]
        .map(|(why, ended, now)| {
            let why = waits::why(why, ended.as_ref());
            text(&progress(Doing::Waiting { until, why }), now) + "\n"
        });
        expect_test::expect![[r#"
            told
              4 of 10  waiting 1h, until 01:00:30  the 5-hour limit is reached
              4 of 10  waiting 1m 30s, until 01:00:30  the 5-hour limit is reached
              4 of 10  waiting 1m 29s, until 01:00:30  the 5-hour limit is reached
              4 of 10  waiting 1m 28s, until 01:00:30  the 5-hour limit is reached
              4 of 10  waiting 0s, until 01:00:30  the 5-hour limit is reached
              4 of 10  waiting 30s, until 01:00:30  a usage limit is reached
              4 of 10  waiting 2s, until 01:00:30  the agent crashed (exit code 3)
              4 of 10  waiting 30s, until 01:00:30  the service failed
              4 of 10  waiting 30s, until 01:00:30  the turn ended without a usable result
              4 of 10  waiting 30s, until 01:00:30  quiet hours
              4 of 10  waiting 30s, until 01:00:30  the pause between sessions
        "#]]
        .assert_eq(&format!("told\n{}", told.concat()));
        let share = Doing::Waiting {
            until: None,
            why: waits::why(WaitCause::Budget, None),
        };
        assert_eq!(
            text(&progress(share), 5_000),
            "  4 of 10  waiting 5s  other stages hold what is left of the budget"
        );
        let paused = text(&progress(Doing::Paused), 90_000);
        assert_eq!(
            paused,
            "  paused 1m 30s  `ekiden unpause` continues with session 4"
        );
    }
}
