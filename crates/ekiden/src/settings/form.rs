//! How the text of a setting becomes a value, and what to say when it cannot.
//!
//! Every source gives text: a flag, a variable, a value of a file. One function per form reads it,
//! so that a setting means the same wherever it was set.

use std::ops::RangeInclusive;

use ekiden_core::guard::Levels;
use ekiden_core::handoff::Marker;
use ekiden_core::time::Millis;

/// A value, or what would have been right.
pub type Read<T> = Result<T, String>;

/// A whole number within a range.
pub fn number(text: &str, range: RangeInclusive<u64>) -> Read<u64> {
    let plain = text.trim().replace('_', "");
    let wanted = || format!("a whole number from {} to {}", range.start(), range.end());
    plain.parse().ok().filter(|number| range.contains(number)).ok_or_else(wanted)
}

/// Whole seconds within a range.
pub fn seconds(text: &str, range: RangeInclusive<u64>) -> Read<Millis> {
    number(text, range).map(Millis::from_secs).map_err(|wanted| format!("{wanted} (seconds)"))
}

/// A length of time with its unit, such as `90s`, `5m`, `6h` or `1h 30m`.
pub fn duration(text: &str) -> Read<Millis> {
    let wanted = || "a duration such as 90s, 5m, 6h or 1h 30m".to_owned();
    let length: jiff::SignedDuration = text.trim().parse().map_err(|_| wanted())?;
    u64::try_from(length.as_millis()).map(Millis).map_err(|_| wanted())
}

/// Yes or no.
pub fn switch(text: &str) -> Read<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Ok(true),
        "false" | "no" | "off" | "0" => Ok(false),
        _ => Err("true or false".to_owned()),
    }
}

/// Any text that is not empty.
pub fn text(text: &str) -> Read<String> {
    if text.trim().is_empty() { Err("a text that is not empty".to_owned()) } else { Ok(text.to_owned()) }
}

/// Several texts, one a line.
pub fn lines(text: &str) -> Read<Vec<String>> {
    Ok(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

/// A program and its arguments, quoted as in a shell.
pub fn command(text: &str) -> Read<Vec<String>> {
    shlex::split(text)
        .filter(|words| words.first().is_some_and(|program| !program.is_empty()))
        .ok_or_else(|| "a program and its arguments, quoted as in a shell".to_owned())
}

/// The word that claims completion.
pub fn marker(text: &str) -> Read<Marker> {
    Marker::try_from(text.to_owned())
        .map_err(|_| "one word of at most 40 characters, other than IN_PROGRESS and BLOCKED".to_owned())
}

/// Where the levels begin.
pub fn levels(text: &str) -> Read<Levels> {
    text.parse().map_err(|_| "three rising percentages from 1 to 99, such as 50,60,70".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_range() {
        assert_eq!(number("10", 1..=10_000), Ok(10));
        assert_eq!(number(" 1_000 ", 1..=10_000), Ok(1000));
        for bad in ["0", "10001", "-1", "2.5", "ten", ""] {
            let wanted = Err("a whole number from 1 to 10000".to_owned());
            assert_eq!(number(bad, 1..=10_000), wanted, "{bad}");
        }
        assert_eq!(seconds("90", 0..=3600), Ok(Millis::from_secs(90)));
    }

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(duration("90s"), Ok(Millis::from_secs(90)));
        assert_eq!(duration("6h"), Ok(Millis::from_secs(6 * 3600)));
        assert_eq!(duration("1h 30m"), Ok(Millis::from_secs(5400)));
        for bad in ["", "90", "-5m", "soon", "6 parsecs"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn switches_take_the_usual_words() {
        assert_eq!(switch("1"), Ok(true));
        assert_eq!(switch("Off"), Ok(false));
        assert!(switch("maybe").is_err());
    }

    #[test]
    fn a_command_is_split_as_a_shell_does() {
        let words = command("my-agent --name 'two words'").unwrap();
        assert_eq!(words, ["my-agent", "--name", "two words"]);
        for bad in ["", "  ", "open 'quote", "''"] {
            assert!(command(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_list_has_one_entry_a_line() {
        assert_eq!(lines("Bash(git:*, x)\n\n Read ").unwrap(), ["Bash(git:*, x)", "Read"]);
    }
}
