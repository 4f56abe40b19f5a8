//! A text without what only tells the time.
//!
//! Dates, times of day and seconds since 1970 change by themselves. A session that changed nothing else
//! in a file has not worked on it.

/// The text without dates and times; `None` if it has none.
pub fn without_times(text: &str) -> Option<String> {
    let mut timeless = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(start);
        let (word, after) = from.split_at(from.find(|c| !is_of_time(c)).unwrap_or(from.len()));
        timeless.push_str(before);
        if !tells_time(word) {
            timeless.push_str(word);
        }
        rest = after;
    }
    timeless.push_str(rest);
    (timeless.len() < text.len()).then_some(timeless)
}

/// `2026-11-21T10:00:00.123+02:00` is made of these.
fn is_of_time(c: char) -> bool {
    c.is_ascii_digit() || matches!(c, '-' | ':' | '.' | '+' | 'T' | 'Z')
}

fn tells_time(word: &str) -> bool {
    is_date(word) || is_clock(word) || is_epoch(word)
}

/// `2026-11-21`, with or without more.
fn is_date(word: &str) -> bool {
    let digits = |from: usize, to: usize| {
        word.get(from..to)
            .is_some_and(|part| part.bytes().all(|b| b.is_ascii_digit()))
    };
    let dash = |at: usize| word.as_bytes().get(at) == Some(&b'-');
    digits(0, 4) && dash(4) && digits(5, 7) && dash(7) && digits(8, 10)
}

/// `10:00` or `10:00:00`.
fn is_clock(word: &str) -> bool {
    let Some((hours, rest)) = word.split_once(':') else {
        return false;
    };
    let two = |part: &str| part.len() >= 2 && part.bytes().take(2).all(|b| b.is_ascii_digit());
    (1..=2).contains(&hours.len()) && hours.bytes().all(|b| b.is_ascii_digit()) && two(rest)
}

/// Seconds, milliseconds, microseconds or nanoseconds since 1970, of our days.
fn is_epoch(word: &str) -> bool {
    let whole = word.split('.').next().unwrap_or_default();
    matches!(whole.len(), 10 | 13 | 16 | 19)
        && whole.starts_with('1')
        && whole.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // shows: REL-14
    #[test]
    fn dates_times_and_seconds_since_1970_go() {
        let same =
            |one: &str, other: &str| assert_eq!(without_times(one), without_times(other), "{one}");
        same(
            "at 2026-11-21T10:00:00Z.",
            "at 2026-11-21T11:30:01.5+02:00.",
        );
        same("updated: 2026-11-21\n", "updated: 2026-11-22\n");
        same("Sat 10:00:03 UTC", "Sat 9:12:44 UTC");
        same("{\"ts\": 1795291440}", "{\"ts\": 1795291999}");
        same("1795291440123", "1795291440999");
    }

    // shows: REL-14
    #[test]
    fn other_numbers_stay() {
        for text in [
            "version 1.2.3",
            "x = 47",
            "16:9",
            "0.85",
            "id 2026",
            "3-4-5",
            "",
            "no digits",
            "12345678901",
        ] {
            assert_eq!(without_times(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_left_out_is_all_that_is_lost(text in "[a-z0-9:T.\n -]{0,60}") {
            if let Some(timeless) = without_times(&text) {
                prop_assert!(timeless.len() < text.len());
                let mut chars = text.chars();
                prop_assert!(timeless.chars().all(|kept| chars.any(|c| c == kept)));
            }
        }
    }
}
