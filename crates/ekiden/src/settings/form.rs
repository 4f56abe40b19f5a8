//! How the text of a setting becomes a value, and what to say when it cannot.
//!
//! Every source gives text: a flag, a variable, a value of a file. One function per form reads it,
//! so that a setting means the same wherever it was set.

use std::ops::RangeInclusive;

use ekiden_core::bounds::OnRateLimit;
use ekiden_core::guard::Levels;
use ekiden_core::handoff::Marker;
use ekiden_core::quiet::QuietHours;
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

/// A length of time with its unit; `0` or `none` for no limit.
pub fn duration_or_none(text: &str) -> Read<Millis> {
    match text.trim() {
        "0" | "none" => Ok(Millis(0)),
        text => duration(text).map_err(|wanted| format!("{wanted}, or 0 for no limit")),
    }
}

/// US dollars, such as `5`, `2.50` or `$20`, in millionths.
pub fn dollars(text: &str) -> Read<u64> {
    let plain = text.trim();
    let plain = plain.strip_prefix('$').unwrap_or(plain);
    scaled(plain, 1_000_000)
        .filter(|micro| *micro > 0)
        .ok_or_else(|| "US dollars such as 5 or 2.50".to_owned())
}

/// Tokens, such as `400000`, `400k` or `1.5M`.
pub fn tokens(text: &str) -> Read<u64> {
    let plain = text.trim().replace('_', "");
    let read = match (plain.strip_suffix(['k', 'K']), plain.strip_suffix('M')) {
        (Some(thousands), _) => scaled(thousands, 1_000),
        (_, Some(millions)) => scaled(millions, 1_000_000),
        (None, None) => plain.parse().ok(),
    };
    read.filter(|tokens| *tokens > 0)
        .ok_or_else(|| "a number of tokens such as 400000, 400k or 1.5M".to_owned())
}

/// A decimal number of units, exactly.
fn scaled(text: &str, unit: u64) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(part) || part.len() > 6 {
        return None;
    }
    let part: u64 = if part.is_empty() { 0 } else { format!("{part:0<6}").parse().ok()? };
    let whole: u64 = whole.parse().ok()?;
    // A part finer than the unit is no value of it.
    let scaled = u128::from(part) * u128::from(unit);
    let exact = scaled.is_multiple_of(1_000_000).then_some(scaled / 1_000_000)?;
    whole.checked_mul(unit)?.checked_add(u64::try_from(exact).ok()?)
}

/// Local times in which no session starts.
pub fn quiet_hours(text: &str) -> Read<QuietHours> {
    match text.trim() {
        "none" => Ok(QuietHours::default()),
        text => text.parse().map_err(|_| {
            "local times such as 22:00-07:00, several with commas between, not the whole day; or none"
                .to_owned()
        }),
    }
}

/// What a usage limit leads to.
pub fn on_rate_limit(text: &str) -> Read<OnRateLimit> {
    match text.trim() {
        "wait" => Ok(OnRateLimit::Wait),
        "stop" => Ok(OnRateLimit::Stop),
        _ => Err("wait or stop".to_owned()),
    }
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

    // shows: REL-22
    #[test]
    fn money_and_tokens_are_exact() {
        assert_eq!(dollars("5"), Ok(5_000_000));
        assert_eq!(dollars(" $2.50 "), Ok(2_500_000));
        assert_eq!(dollars("0.01"), Ok(10_000));
        assert_eq!(tokens("400k"), Ok(400_000));
        assert_eq!(tokens("1.5M"), Ok(1_500_000));
        assert_eq!(tokens("400_000"), Ok(400_000));
        for bad in ["", "0", "-1", "five", "1.2.3", ".5", "0.0000001", "99999999999999999999", "5 USD"] {
            assert!(dollars(bad).is_err(), "{bad}");
            assert!(tokens(bad).is_err(), "{bad}");
        }
        assert!(tokens("1.0001k").is_err(), "a tenth of a token");
    }

    // shows: REL-12
    #[test]
    fn what_has_no_limit_can_be_said() {
        assert_eq!(duration_or_none("0"), Ok(Millis(0)));
        assert_eq!(duration_or_none("45m"), Ok(Millis::from_secs(2700)));
        assert!(duration_or_none("45").is_err());
        assert_eq!(quiet_hours("none"), Ok(QuietHours::default()));
        assert!(quiet_hours("00:00-24:00").is_err());
        assert_eq!(on_rate_limit("stop"), Ok(OnRateLimit::Stop));
        assert!(on_rate_limit("go").is_err());
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
