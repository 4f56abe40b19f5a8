//! Quantities, times and paths as people read them.
//!
//! Durations are rounded to what matters, times are local, tokens are thousands, money has two
//! digits. Nothing here knows what it is said about.

use std::path::Path;

use ekiden_core::event::StopRequest;
use ekiden_core::ids::RunId;
use ekiden_core::limits;
use ekiden_core::outcome::Outcome;
use ekiden_core::relay::{Looking, Phase, Relay, WaitCause};
use ekiden_core::time::{Millis, Timestamp};
use jiff::Zoned;
use jiff::tz::TimeZone;

use super::line::one_line;

/// The least likeness, from 0 to 1, at which a word is offered in place of another.
const LIKENESS_MIN: f64 = 0.65;
/// The fewest digits by which a run is called.
const ID_DIGITS_MIN: usize = 4;

/// `0.3s`, `41s`, `14m`, `2h 51m`, `3d 4h`.
#[must_use]
pub fn duration(length: Millis) -> String {
    let secs = length.as_secs();
    let minutes = (secs + 30) / 60;
    let hours = (secs + 1800) / 3600;
    match secs {
        0 if length.0 < 100 => "0s".to_owned(),
        0 => format!("{}.{}s", length.0 / 1000, length.0 % 1000 / 100),
        1..60 => format!("{secs}s"),
        60..600 if !secs.is_multiple_of(60) => format!("{}m {}s", secs / 60, secs % 60),
        _ if minutes < 60 => format!("{minutes}m"),
        _ if minutes < 24 * 60 => pair(minutes / 60, "h", minutes % 60, "m"),
        _ => pair(hours / 24, "d", hours % 24, "h"),
    }
}

/// `840`, `122k`, `1M`, `1.2M`.
#[must_use]
pub fn tokens(tokens: u64) -> String {
    match tokens {
        0..1_000 => tokens.to_string(),
        1_000..10_000 => tenths(tokens / 100, "k"),
        10_000..999_500 => format!("{}k", (tokens + 500) / 1000),
        _ => tenths((tokens + 50_000) / 100_000, "M"),
    }
}

/// `840 B`, `12 kB`, `3.4 MB`.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..999_500 => format!("{} kB", (bytes + 500) / 1_000),
        _ => tenths((bytes + 50_000) / 100_000, " MB"),
    }
}

/// `$1.84`, of millionths of a dollar.
#[must_use]
pub fn money(micro_usd: u64) -> String {
    let cents = (micro_usd + 5_000) / 10_000;
    format!("${}.{:02}", cents / 100, cents % 100)
}

/// What something cost: `≈$1.84` while it is an estimate, and with whose price on a subscription.
#[must_use]
pub fn cost(micro_usd: u64, estimated: bool, subscription: bool) -> String {
    let about = if estimated { "≈" } else { "" };
    let whose = if subscription { " API price" } else { "" };
    format!("{about}{}{whose}", money(micro_usd))
}

/// `1 session`, `2 sessions`.
#[must_use]
pub fn count(number: u64, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

/// `1 file`, `3 files`, `40 files or more`: a survey keeps no more lines than that.
#[must_use]
pub fn files(number: usize) -> String {
    let more = if number >= limits::SURVEY_LINES_MAX { " or more" } else { "" };
    format!("{}{more}", count(number as u64, "file"))
}

/// A point in time in a zone.
#[must_use]
pub fn zoned(at: Timestamp, zone: &TimeZone) -> Zoned {
    let millis = i64::try_from(at.0).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::MAX).to_zoned(zone.clone())
}

/// `22:04`, or with the day if that is not the day of `beside`: `Sun 22 Nov 03:10`.
#[must_use]
pub fn clock(at: Timestamp, beside: Timestamp, zone: &TimeZone) -> String {
    let (at, beside) = (zoned(at, zone), zoned(beside, zone));
    let form = if at.date() == beside.date() { "%H:%M" } else { "%a %-d %b %H:%M" };
    at.strftime(form).to_string()
}

/// The same to the second, where it is not a full minute: a time that is waited for.
#[must_use]
pub fn clock_to_the_second(at: Timestamp, beside: Timestamp, zone: &TimeZone) -> String {
    let text = clock(at, beside, zone);
    match zoned(at, zone).second() {
        0 => text,
        second => format!("{text}:{second:02}"),
    }
}

/// A time that lies in the future, with its zone: `03:10 Europe/Athens`.
#[must_use]
pub fn future(at: Timestamp, now: Timestamp, zone: &TimeZone) -> String {
    let name = match zone.iana_name() {
        Some(name) => name.to_owned(),
        None => zoned(at, zone).strftime("%Z").to_string(),
    };
    format!("{} {name}", clock(at, now, zone))
}

/// `Sat 21 Nov 2026 22:04`.
#[must_use]
pub fn day_and_time(at: Timestamp, zone: &TimeZone) -> String {
    zoned(at, zone).strftime("%a %-d %b %Y %H:%M").to_string()
}

/// `2026-11-21T20:04:00.123Z`, for programs.
#[must_use]
pub fn utc(at: Timestamp) -> String {
    zoned(at, &TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

/// A path relative to where the person stands, or below their home as `~`.
#[must_use]
pub fn path(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let home = std::env::var_os("HOME").unwrap_or_default();
    path_from(path, &here, Path::new(&home))
}

/// The word that was probably meant.
#[must_use]
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|other| (strsim::normalized_damerau_levenshtein(word, other), other))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|one, two| one.0.total_cmp(&two.0))
        .map(|(_, other)| other)
}

/// The shortest beginning of an id that no other id has; four digits at least.
#[must_use]
pub fn short_id(id: &RunId, others: &[RunId]) -> String {
    let id = id.as_str();
    let taken =
        |prefix: &str| others.iter().any(|other| other.as_str() != id && other.as_str().starts_with(prefix));
    let length = (ID_DIGITS_MIN..id.len()).find(|length| !taken(&id[..*length])).unwrap_or(id.len());
    id[..length].to_owned()
}

fn path_from(path: &Path, here: &Path, home: &Path) -> String {
    let below = |base: &Path| -> Option<String> {
        let rest = path.strip_prefix(base).ok().filter(|_| base.is_absolute())?;
        Some(rest.to_string_lossy().into_owned())
    };
    let text = match (below(here), below(home)) {
        (Some(rest), _) => rest,
        (None, Some(rest)) => format!("~/{rest}"),
        (None, None) => path.strip_prefix(".").unwrap_or(path).to_string_lossy().into_owned(),
    };
    if text.is_empty() { ".".to_owned() } else { text }
}

fn pair(large: u64, large_unit: &str, small: u64, small_unit: &str) -> String {
    if small == 0 {
        format!("{large}{large_unit}")
    } else {
        format!("{large}{large_unit} {small}{small_unit}")
    }
}

fn tenths(tenths: u64, unit: &str) -> String {
    match tenths % 10 {
        0 => format!("{}{unit}", tenths / 10),
        rest => format!("{}.{rest}{unit}", tenths / 10),
    }
}

/// What a relay does, in a few words.
#[must_use]
pub fn doing(relay: &Relay) -> String {
    match relay.phase() {
        Phase::Planned => "not begun".to_owned(),
        Phase::Preparing(looking) | Phase::Reviewing { looking, .. } => match looking {
            Looking::Commit => "committing".to_owned(),
            Looking::Survey => "looking at the work tree".to_owned(),
            Looking::Verification => "verifying".to_owned(),
        },
        Phase::Running(session) if session.talk.is_ordered() => "handing off".to_owned(),
        Phase::Running(_) => "working".to_owned(),
        Phase::Waiting { cause: WaitCause::UsageLimit, .. } => "waiting (usage limit)".to_owned(),
        Phase::Waiting { cause: WaitCause::Failure, .. } => "waiting (failure)".to_owned(),
        Phase::Waiting { cause: WaitCause::QuietHours, .. } => "waiting (quiet hours)".to_owned(),
        Phase::Waiting { cause: WaitCause::Guided, .. } => "counting down".to_owned(),
        Phase::Waiting { cause: WaitCause::Pause, .. } => "pausing".to_owned(),
        Phase::Paused { .. } => "nothing begins".to_owned(),
        Phase::Ended { outcome, .. } => ended(outcome),
    }
}

/// How a relay, a stage or a run ended, in a few words.
#[must_use]
pub fn ended(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Complete { verified: true } => "verified".to_owned(),
        Outcome::Complete { verified: false } => "not verified".to_owned(),
        Outcome::Blocked { question } => in_short(question),
        Outcome::SessionLimit => "session limit".to_owned(),
        Outcome::Stopped { request: StopRequest::Gently } => "as you asked".to_owned(),
        Outcome::Stopped { request: StopRequest::AS_BY_CTRL_C_TWICE } => "at once, as you asked".to_owned(),
        Outcome::Stopped { request: StopRequest::Now { signal } } => format!("by signal {signal}"),
        Outcome::LimitTooFar { .. } | Outcome::RateLimited { .. } => "usage limit".to_owned(),
        Outcome::BudgetSpent { .. } => "budget spent".to_owned(),
        Outcome::WindowTooFull { .. } => "window full from the start".to_owned(),
        Outcome::Stuck { .. } => "stuck".to_owned(),
        Outcome::Stalled { .. } => "stalled".to_owned(),
        Outcome::Denied { .. } => "not permitted".to_owned(),
        Outcome::AgentFailed { cause } | Outcome::TooManyCrashes { cause } => in_short(&cause.to_string()),
        Outcome::NotMerged { why } => format!("cannot be merged: {}", in_short(why)),
        Outcome::NoGround { why } => format!("no place to work: {}", in_short(why)),
        Outcome::Unmerged { .. } => "does not go together with other stages".to_owned(),
        Outcome::NotDone { why } => format!("not done: {}", in_short(why)),
        Outcome::StagesFailed { failed, .. } => {
            let stages: Vec<&str> = failed.iter().map(|one| one.stage.as_str()).collect();
            in_short(&format!("failed: {}", stages.join(", ")))
        }
    }
}

/// The most that is shown of a question or a cause, in characters.
const REASON_CHARS_MAX: usize = 60;

/// A row has room for the beginning; `ekiden log` tells the rest.
fn in_short(text: &str) -> String {
    ekiden_core::text::short(&one_line(text), REASON_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Timestamp = Timestamp(1_795_291_440_000);

    fn athens() -> TimeZone {
        TimeZone::posix("EET-2EEST,M3.5.0/3,M10.5.0/4").unwrap()
    }

    #[test]
    fn durations_are_rounded_to_what_matters() {
        let texts: Vec<String> =
            [0, 300, 1_900, 41_000, 61_000, 130_000, 846_000, 3_599_999, 10_260_000, 273_600_000]
                .map(|millis| duration(Millis(millis)))
                .into();
        let wanted = ["0s", "0.3s", "1s", "41s", "1m 1s", "2m 10s", "14m", "1h", "2h 51m", "3d 4h"];
        assert_eq!(texts, wanted);
    }

    #[test]
    fn tokens_are_thousands() {
        let texts: Vec<String> =
            [0, 840, 1_000, 4_260, 12_400, 122_300, 999_400, 999_600, 1_000_000, 1_234_000]
                .map(tokens)
                .into();
        assert_eq!(texts, ["0", "840", "1k", "4.2k", "12k", "122k", "999k", "1M", "1M", "1.2M"]);
    }

    #[test]
    fn money_has_two_digits() {
        assert_eq!([0, 1_840_000, 13_204_999, 995_001].map(money), ["$0.00", "$1.84", "$13.20", "$1.00"]);
    }

    // shows: REL-22
    #[test]
    fn a_cost_says_whether_it_is_known() {
        assert_eq!(cost(1_840_000, false, false), "$1.84");
        assert_eq!(cost(1_840_000, true, false), "≈$1.84");
        assert_eq!(cost(1_840_000, true, true), "≈$1.84 API price");
    }

    #[test]
    fn times_are_local_and_name_the_day_only_if_it_differs() {
        let zone = athens();
        let night = DAY + Millis::from_secs(6 * 3600);
        assert_eq!(clock(DAY, DAY, &zone), "22:04");
        assert_eq!(clock(night, DAY, &zone), "Sun 22 Nov 04:04");
        assert_eq!(clock_to_the_second(DAY, DAY, &zone), "22:04");
        assert_eq!(clock_to_the_second(DAY + Millis::from_secs(30), DAY, &zone), "22:04:30");
        assert_eq!(future(DAY, DAY, &zone), "22:04 EET");
        assert_eq!(day_and_time(DAY, &zone), "Sat 21 Nov 2026 22:04");
        assert_eq!(utc(DAY), "2026-11-21T20:04:00.000Z");
    }

    #[test]
    fn paths_are_told_from_where_the_person_stands() {
        let from = |path| path_from(Path::new(path), Path::new("/h/me/project"), Path::new("/h/me"));
        assert_eq!(from("/h/me/project/a/b"), "a/b");
        assert_eq!(from("/h/me/project"), ".");
        assert_eq!(from("/h/me/.config/x"), "~/.config/x");
        assert_eq!(from("/etc/x"), "/etc/x");
        assert_eq!(from("./a"), "a");
        assert_eq!(from("."), ".");
    }

    #[test]
    fn ids_are_as_short_as_they_can_be() {
        let ids: Vec<RunId> = [0x7f3a_0b1c, 0x7f3a_1111, 0x0000_0001].map(RunId::from_bits).into();
        assert_eq!(short_id(&ids[0], &ids), "7f3a0");
        assert_eq!(short_id(&ids[2], &ids), "0000");
        assert_eq!(short_id(&ids[2], &[]), "0000");
    }

    #[test]
    fn only_a_near_word_is_offered() {
        let known = ["max_sessions", "max_wait", "pause"];
        assert_eq!(nearest("max_session", known.into_iter()), Some("max_sessions"));
        assert_eq!(nearest("colour", known.into_iter()), None);
    }
}
