//! Quantities, times, paths and what a relay does, as people read them.

use std::path::Path;

use ekiden_core::estimate::Range;
use ekiden_core::ids::RunId;
use ekiden_core::outcome::WaitCause;
use ekiden_core::relay::{Phase, Purpose, Relay, ReviewStep};
use ekiden_core::text::clean;
use ekiden_core::time::Millis;
pub use ekiden_report::phrase::*;

use super::line::one_line;
use super::outcome;

/// `41k to 143k`.
pub fn range(range: Range, told: impl Fn(u64) -> String) -> String {
    let (p50, p90) = (told(range.p50), told(range.p90));
    if p50 == p90 {
        p50
    } else {
        format!("{p50} to {p90}")
    }
}

/// `41m to 2h 23m`.
pub fn durations(range: Range) -> String {
    self::range(range, |millis| duration(Millis(millis)))
}

/// `$1.20 to $4.00`.
pub fn costs(range: Range) -> String {
    self::range(range, |micro_usd| cost(micro_usd, true, false))
}

/// How the next command names a run, after a blank. The newest needs no name: the last of `ids`, or one that began
/// after they were read.
pub fn which(id: &RunId, ids: &[RunId]) -> String {
    let is_newest = ids.last() == Some(id) || !ids.contains(id);
    match is_newest {
        true => String::new(),
        false => format!(" {}", short_id(id, ids)),
    }
}

/// The length of the shortest shown id. A shorter word is not taken for an id: many words consist of hex digits.
pub const ID_CHARS_MIN: usize = 4;

/// The word is probably the beginning of a run's id. Words such as `added` have no digit.
pub fn is_like_id(word: &str) -> bool {
    word.len() >= ID_CHARS_MIN
        && word.chars().all(|c| c.is_ascii_hexdigit())
        && word.contains(|c: char| c.is_ascii_digit())
}

/// The lowest similarity, from 0 to 1, at which a word is suggested instead of another.
const LIKENESS_MIN: f64 = 0.65;

/// A duration without tenths of a second, which would only flicker.
pub fn whole_seconds(length: Millis) -> String {
    duration(Millis::from_secs(length.as_secs()))
}

/// A path relative to the person's current directory, or below their home as `~`.
pub fn path(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let home = std::env::var_os("HOME").unwrap_or_default();
    path_from(path, &here, Path::new(&home))
}

/// A project's directory, the same from any current directory: below their home as `~`.
pub fn project(dir: &Path) -> String {
    let home = std::env::var_os("HOME").unwrap_or_default();
    path_from(dir, Path::new(""), Path::new(&home))
}

/// The word that was probably meant. Of two equally close words, the one of the same length: people swap
/// letters more often than they add one.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|other| (strsim::normalized_damerau_levenshtein(word, other), other))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|one, two| {
            let longer = |other: &str| other.len().abs_diff(word.len());
            let nearer = one.0.total_cmp(&two.0);
            nearer.then_with(|| longer(two.1).cmp(&longer(one.1)))
        })
        .map(|(_, other)| other)
}

fn path_from(path: &Path, here: &Path, home: &Path) -> String {
    let below = |base: &Path| path.strip_prefix(base).ok().filter(|_| base.is_absolute());
    let text = match (below(here), below(home)) {
        (Some(rest), _) => rest.display().to_string(),
        (None, Some(rest)) => format!("~/{}", rest.display()),
        (None, None) => path.strip_prefix(".").unwrap_or(path).display().to_string(),
    };
    // A name may contain anything, and what is shown must not act on the terminal.
    let text = clean(&text).text.replace(['\n', '\t'], " ");
    if text.is_empty() {
        ".".to_owned()
    } else {
        text
    }
}

/// What a relay is doing, in a few words.
pub fn doing(relay: &Relay) -> String {
    let doing = match &relay.phase {
        Phase::Planned => "not begun",
        Phase::Reviewing { step: at, .. } => reviewing(*at),
        Phase::Running(_) if relay.purpose() == Purpose::Review => "reviewing",
        Phase::Running(session) if session.is_handing_off() => "handing off",
        Phase::Running(_) => "working",
        Phase::Waiting { cause, .. } => waiting(*cause),
        Phase::Paused { .. } => "nothing begins",
        Phase::Ended { outcome, .. } => return outcome::short(outcome),
    };
    doing.to_owned()
}

pub fn waiting(cause: WaitCause) -> &'static str {
    match cause {
        WaitCause::UsageLimit => "waiting (usage limit)",
        WaitCause::Failure => "waiting (failure)",
        WaitCause::QuietHours => "waiting (quiet hours)",
        WaitCause::Guided => "counting down",
        WaitCause::Pause => "pausing",
        WaitCause::Budget => "waiting (budget)",
    }
}

pub fn reviewing(at: ReviewStep) -> &'static str {
    match at {
        ReviewStep::Commit => "committing",
        ReviewStep::Survey => "looking at the work tree",
        ReviewStep::Verification => "verifying",
        ReviewStep::BeforeReviewer | ReviewStep::AfterReviewer => "looking at the work tree",
    }
}

/// What a run continues, after its task: a session of another run, or work of another program.
pub fn origin(from: Option<(&RunId, u32)>, imported: Option<&str>) -> String {
    match (from, imported.map(one_line)) {
        (Some((run, session)), None) => format!(" · from session {session} of {run}"),
        (Some((_, session)), Some(of)) => format!(" · imported after session {session} of {of}"),
        (None, Some(of)) => format!(" · imported from {of}"),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_told_from_where_the_person_stands() {
        let from = |path| {
            path_from(
                Path::new(path),
                Path::new("/h/me/project"),
                Path::new("/h/me"),
            )
        };
        assert_eq!(from("/h/me/project/a/b"), "a/b");
        assert_eq!(from("/h/me/project"), ".");
        assert_eq!(from("/h/me/.config/x"), "~/.config/x");
        assert_eq!(from("/etc/x"), "/etc/x");
        assert_eq!(from("./a"), "a");
        assert_eq!(from("."), ".");
        assert_eq!(from("/etc/a\u{1b}]0;title\u{7}b\nc  d"), "/etc/ab c  d");
    }

    // shows: REL-23
    #[test]
    fn only_a_run_that_is_not_the_newest_is_named() {
        let ids = [7, 8].map(RunId::from_bits);
        let named = [7, 8, 9].map(|id| which(&RunId::from_bits(id), &ids).is_empty());
        assert_eq!(named, [false, true, true]);
        assert_eq!(
            which(&ids[0], &ids),
            format!(" {}", short_id(&ids[0], &ids))
        );
    }

    #[test]
    fn only_a_near_word_is_offered() {
        let known = ["max_sessions", "max_wait", "pause"];
        assert_eq!(
            nearest("max_session", known.into_iter()),
            Some("max_sessions")
        );
        assert_eq!(nearest("colour", known.into_iter()), None);
    }
}
