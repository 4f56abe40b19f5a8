//! Removes the parts of a text that only tell the time.
//!
//! Dates, times of day and seconds since 1970 change by themselves. A session that changed nothing else in a
//! file has not worked on it.

use std::sync::LazyLock;

use regex::{Captures, Regex};

/// `2026-11-21T10:00:00.123+02:00`, and any other number with the characters of a time.
static NUMBER: LazyLock<Regex> = LazyLock::new(|| pattern("[0-9][0-9:.+TZ-]*"));

/// The beginning of a number that is a time: a date; `10:00`, with or without seconds; present-day seconds,
/// milliseconds, microseconds or nanoseconds since 1970.
static TIME: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?x) ^(?:
            [0-9]{4}-[0-9]{2}-[0-9]{2}
            | [0-9]{1,2}:[0-9]{2}
            | 1[0-9]{9}(?:[0-9]{3}){0,3}(?:\.|$)
        )",
    )
});

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is ours")
}

/// The text without dates and times; `None` if it has none.
pub fn without_times(text: &str) -> Option<String> {
    let timeless = NUMBER.replace_all(text, |number: &Captures<'_>| {
        let number = &number[0];
        let kept = if TIME.is_match(number) { "" } else { number };
        kept.to_owned()
    });
    (timeless.len() < text.len()).then(|| timeless.into_owned())
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
