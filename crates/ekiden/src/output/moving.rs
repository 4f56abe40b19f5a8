//! The one line that moves: what the session at work is doing just now.
//!
//! It says nothing that must be kept: everything in it is told again, for good, when the session ends.

use ekiden_core::budget::Spend;
use ekiden_core::ends::EndCause;
use ekiden_core::guard::{Level, Levels, Window};
use ekiden_core::relay::{Looking, Phase, Relay};
use ekiden_core::time::{Millis, Timestamp};
use jiff::tz::TimeZone;

use super::line::{Line, Tone, one_line};
use super::phrase;
use super::waits;

/// Cells of the bar.
const CELLS: u64 = 10;
/// Eighths of a cell, as characters.
const EIGHTHS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// Where a level begins.
const LEVEL_MARK: char = '┊';

/// What happens now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doing {
    /// Nothing that takes time.
    Nothing,
    /// The work tree is looked at, or the verification runs.
    Looking {
        /// At what.
        at: Looking,
        /// Since when.
        since: Timestamp,
    },
    /// A session works.
    Working(Work),
    /// Until a time nothing happens.
    Waiting {
        /// Until when.
        until: Timestamp,
        /// Why, in a few words.
        why: String,
        /// The session that comes then.
        session: u32,
        /// The number of the last session that may begin.
        session_max: u32,
    },
    /// A person wants nothing to begin.
    Paused {
        /// Since when.
        since: Timestamp,
        /// The session that comes then.
        session: u32,
    },
}

/// A session at work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    /// Its number.
    pub session: u32,
    /// The number of the last session that may begin.
    pub session_max: u32,
    /// Since when its attempt works.
    pub since: Timestamp,
    /// Its context use in tokens and its window, once known.
    pub usage: Option<(u64, Window)>,
    /// What its attempt has spent.
    pub spend: Spend,
    /// What it does.
    pub activity: Option<String>,
}

impl Doing {
    /// What a relay does after a record, given what it did before and why its last attempt ended.
    #[must_use]
    pub fn after(self, relay: &Relay, at: Timestamp, ended: Option<&EndCause>) -> Self {
        match (relay.phase(), self) {
            (Phase::Planned | Phase::Ended { .. }, _) => Self::Nothing,
            (Phase::Preparing(looking) | Phase::Reviewing { looking, .. }, before) => {
                let since = match before {
                    Self::Looking { at, since } if at == *looking => since,
                    Self::Looking { .. }
                    | Self::Nothing
                    | Self::Working(_)
                    | Self::Waiting { .. }
                    | Self::Paused { .. } => at,
                };
                Self::Looking { at: *looking, since }
            }
            (Phase::Paused { since, next }, _) => {
                Self::Paused { since: *since, session: next.id.session.get() }
            }
            (Phase::Waiting { until, cause, next }, _) => Self::Waiting {
                until: *until,
                why: waits::why(*cause, ended),
                session: next.id.session.get(),
                session_max: relay.session_max(),
            },
            (Phase::Running(session), before) => {
                let number = session.attempt.id.session.get();
                match before {
                    Self::Working(work) if work.session == number => Self::Working(work),
                    Self::Working(_)
                    | Self::Nothing
                    | Self::Looking { .. }
                    | Self::Waiting { .. }
                    | Self::Paused { .. } => Self::Working(Work {
                        session: number,
                        session_max: relay.session_max(),
                        since: at,
                        usage: None,
                        spend: Spend::default(),
                        activity: None,
                    }),
                }
            }
        }
    }

    /// The line, if there is something to show.
    #[must_use]
    pub fn line(&self, now: Timestamp, levels: Levels, zone: &TimeZone) -> Option<Line> {
        match self {
            Self::Nothing => None,
            Self::Looking { at, since } => {
                let what = match at {
                    Looking::Commit => "committing",
                    Looking::Survey => "looking at the work tree",
                    Looking::Verification => "verifying",
                };
                let took = whole_seconds(now.since(*since));
                Some(Line::new(Tone::Quiet, format!("  {what}  {took}")))
            }
            Self::Waiting { until, why, session, session_max } => {
                let left = whole_seconds(until.since(now));
                let until = phrase::clock_to_the_second(*until, now, zone);
                let place = format!("  {session} of {session_max}  ");
                let what = format!("waiting {left}, until {until}");
                let why = format!("  {}", one_line(why));
                Some(Line::new(Tone::Quiet, place).with(Tone::Plain, what).with(Tone::Quiet, why))
            }
            Self::Paused { since, session } => {
                let took = whole_seconds(now.since(*since));
                let then = format!("  `ekiden unpause` goes on with session {session}");
                Some(Line::new(Tone::Plain, format!("  paused {took}")).with(Tone::Quiet, then))
            }
            Self::Working(work) => Some(work.line(now, levels)),
        }
    }
}

impl Work {
    fn line(&self, now: Timestamp, levels: Levels) -> Line {
        let took = whole_seconds(now.since(self.since));
        let place = format!("  {} of {} ", self.session, self.session_max);
        let line = match &self.usage {
            Some((tokens, window)) => {
                let percent = window.percent(*tokens);
                let tone = tone_of(window.level(levels, *tokens));
                let figures = format!(" {percent}% {}  {took}", phrase::tokens(*tokens));
                let bar = bar(*tokens, window.usable_tokens(), levels);
                Line::new(Tone::Quiet, place).with(tone, bar).with(Tone::Plain, figures)
            }
            None => Line::new(Tone::Quiet, place).with(Tone::Plain, format!(" starting  {took}")),
        };
        let line = match self.spend.micro_usd {
            0 => line,
            cost => line.with(Tone::Plain, format!("  {}", phrase::cost(cost, self.spend.estimated, false))),
        };
        match &self.activity {
            Some(activity) => line.with(Tone::Quiet, format!("  {}", one_line(activity))),
            None => line,
        }
    }
}

fn tone_of(level: Level) -> Tone {
    match level {
        Level::L0 | Level::L1 | Level::L2 => Tone::Plain,
        Level::L3 => Tone::Attention,
    }
}

/// Tenths of a second would only flicker.
fn whole_seconds(length: Millis) -> String {
    phrase::duration(Millis::from_secs(length.as_secs()))
}

/// `▕███▍ ┊┊┊  ▏`: how much of the usable window is used, and where the levels begin.
fn bar(used: u64, of: u64, levels: Levels) -> String {
    let eighths = (used.min(of) * CELLS * 8).checked_div(of).unwrap_or(0);
    let full = usize::try_from(eighths / 8).unwrap_or(0);
    let part = (eighths % 8).checked_sub(1).and_then(|part| EIGHTHS.get(usize::try_from(part).ok()?));
    let filled: String = std::iter::repeat_n('█', full).chain(part.copied()).collect();
    let marks: Vec<u64> = <[u8; 3]>::from(levels).map(|percent| u64::from(percent) * CELLS / 100).into();
    let begun = u64::try_from(filled.chars().count()).unwrap_or(CELLS);
    let rest = (begun..CELLS).map(|cell| if marks.contains(&cell) { LEVEL_MARK } else { ' ' });
    format!("▕{filled}{}▏", rest.collect::<String>())
}

#[cfg(test)]
mod tests {
    use ekiden_core::ends::LimitKind;
    use ekiden_core::guard::Profile;
    use ekiden_core::relay::WaitCause;

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

    // shows: UIX-02
    #[test]
    fn the_moving_line_says_what_is_going_on() {
        let window =
            Window { model_tokens: 200_000, compaction_tokens: None, reserve_tokens: 0, cap_tokens: None };
        let work = Work {
            session: 2,
            session_max: 10,
            since: Timestamp(0),
            usage: Some((68_000, window)),
            spend: Spend { micro_usd: 610_000, tokens: 9, estimated: true },
            activity: Some("Bash pytest tests/test_billing -q\n".to_owned()),
        };
        let text = |doing: &Doing, now| {
            doing.line(Timestamp(now), Profile::Relay.levels(), &TimeZone::UTC).unwrap().plain()
        };
        let line = text(&Doing::Working(work.clone()), 180_000);
        assert_eq!(line, "  2 of 10 ▕███▍ ┊┊┊  ▏ 34% 68k  3m  ≈$0.61  Bash pytest tests/test_billing -q");
        let starting = Doing::Working(Work { usage: None, spend: Spend::default(), activity: None, ..work });
        assert_eq!(text(&starting, 2_000), "  2 of 10  starting  2s");
    }

    // shows: REL-11
    #[test]
    fn a_wait_says_why_and_counts_down() {
        let until = Timestamp(3_630_000);
        let text = |why: WaitCause, ended: Option<EndCause>, now| {
            let why = waits::why(why, ended.as_ref());
            let doing = Doing::Waiting { until, why, session: 4, session_max: 10 };
            doing.line(Timestamp(now), Profile::Relay.levels(), &TimeZone::UTC).unwrap().plain()
        };
        let limited = |kind| Some(EndCause::RateLimited { resets_at: Some(Timestamp(3_600_000)), kind });
        let told = [
            text(WaitCause::UsageLimit, limited(LimitKind::FiveHour), 60_000),
            text(WaitCause::UsageLimit, limited(LimitKind::FiveHour), 3_540_000),
            text(WaitCause::UsageLimit, limited(LimitKind::FiveHour), 3_540_400),
            text(WaitCause::UsageLimit, limited(LimitKind::FiveHour), 3_541_500),
            text(WaitCause::UsageLimit, limited(LimitKind::FiveHour), 9_999_999),
            text(WaitCause::Failure, Some(EndCause::Crashed { exit: 3 }), 3_628_000),
            text(WaitCause::Failure, Some(EndCause::ServerError), 3_600_000),
            text(WaitCause::Failure, Some(EndCause::Completed), 3_600_000),
            text(WaitCause::QuietHours, Some(EndCause::Completed), 3_600_000),
            text(WaitCause::Pause, Some(EndCause::Completed), 3_600_000),
        ];
        expect_test::expect![[r#"
            told
              4 of 10  waiting 1h, until 01:00:30  the 5-hour limit is reached
              4 of 10  waiting 1m 30s, until 01:00:30  the 5-hour limit is reached
              4 of 10  waiting 1m 29s, until 01:00:30  the 5-hour limit is reached
              4 of 10  waiting 1m 28s, until 01:00:30  the 5-hour limit is reached
              4 of 10  waiting 0s, until 01:00:30  the 5-hour limit is reached
              4 of 10  waiting 2s, until 01:00:30  the agent crashed (exit code 3)
              4 of 10  waiting 30s, until 01:00:30  the service failed
              4 of 10  waiting 30s, until 01:00:30  the turn ended with nothing done
              4 of 10  waiting 30s, until 01:00:30  quiet hours
              4 of 10  waiting 30s, until 01:00:30  the pause between sessions
        "#]]
        .assert_eq(&format!("told\n{}", told.map(|line| line + "\n").concat()));
        let paused = Doing::Paused { since: Timestamp(0), session: 4 };
        let line = paused.line(Timestamp(90_000), Profile::Relay.levels(), &TimeZone::UTC).unwrap();
        assert_eq!(line.plain(), "  paused 1m 30s  `ekiden unpause` goes on with session 4");
    }
}
