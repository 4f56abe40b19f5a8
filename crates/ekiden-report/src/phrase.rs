//! Quantities and times as people read them.
//!
//! Durations are rounded to what matters, times are local, tokens are in thousands, money has two digits.
//! Nothing here knows what a quantity is about.

use ekiden_core::budget::{Budget, Spend};
use ekiden_core::ids::RunId;
use ekiden_core::limits;
use ekiden_core::text::clean;
use ekiden_core::time::{Millis, Timestamp};
use jiff::Zoned;
use jiff::tz::TimeZone;

const COMMIT_DIGITS: usize = 7;
/// The fewest digits that name a run.
const ID_DIGITS_MIN: usize = 4;

/// `0.3s`, `41s`, `14m`, `2h 51m`, `3d 4h`.
pub fn duration(length: Millis) -> String {
    let secs = match length.0 {
        0..1000 => 0,
        millis => millis.saturating_add(500) / 1000,
    };
    let minutes = (secs + 30) / 60;
    let hours = (secs + 1800) / 3600;
    match secs {
        0 => tenths((length.0 + 50) / 100, "s"),
        1..60 => format!("{secs}s"),
        60..600 if !secs.is_multiple_of(60) => format!("{}m {}s", secs / 60, secs % 60),
        _ if minutes < 60 => format!("{minutes}m"),
        _ if minutes < 24 * 60 => pair(minutes / 60, "h", minutes % 60, "m"),
        _ => pair(hours / 24, "d", hours % 24, "h"),
    }
}

/// `840`, `122k`, `1M`, `1.2M`.
pub fn tokens(tokens: u64) -> String {
    match tokens {
        0..1_000 => tokens.to_string(),
        1_000..10_000 => tenths((tokens + 50) / 100, "k"),
        10_000..999_500 => format!("{}k", (tokens + 500) / 1000),
        _ => tenths(tokens.saturating_add(50_000) / 100_000, "M"),
    }
}

/// `840 B`, `12 kB`, `3.4 MB`.
pub fn bytes(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..999_500 => format!("{} kB", (bytes + 500) / 1_000),
        _ => tenths(bytes.saturating_add(50_000) / 100_000, " MB"),
    }
}

/// `$1.84`, from millionths of a dollar.
pub fn money(micro_usd: u64) -> String {
    let cents = micro_usd.saturating_add(5_000) / 10_000;
    format!("${}.{:02}", cents / 100, cents % 100)
}

/// The cost of something: `≈$1.84` for an estimate, and marked as the API price on a subscription.
pub fn cost(micro_usd: u64, estimated: bool, subscription: bool) -> String {
    let about = if estimated { "≈" } else { "" };
    let whose = if subscription { " API price" } else { "" };
    format!("{about}{}{whose}", money(micro_usd))
}

/// The tokens of something: `≈215k` for an estimate.
pub fn spent_tokens(spend: Spend) -> String {
    let about = if spend.estimated { "≈" } else { "" };
    format!("{about}{}", tokens(spend.tokens))
}

/// `$10.00`, `500k tokens`; nothing if there is no limit.
pub fn budget(budget: Budget) -> Option<String> {
    let money = budget.micro_usd.map(money);
    let tokens = budget.tokens.map(tokens);
    let tokens = tokens.map(|tokens| format!("{tokens} tokens"));
    let limits: Vec<String> = money.into_iter().chain(tokens).collect();
    (!limits.is_empty()).then(|| limits.join(" and "))
}

/// `$4.95 of $5.00 and 20k of 2M tokens`: what was spent of each limit of a budget.
pub fn spent_of(spent: Spend, subscription: bool, of: Budget) -> String {
    let of_money = of.micro_usd.map(|limit| {
        let cost = cost(spent.micro_usd, spent.estimated, subscription);
        format!("{cost} of {}", money(limit))
    });
    let of_tokens = of
        .tokens
        .map(|limit| format!("{} of {} tokens", spent_tokens(spent), tokens(limit)));
    let parts: Vec<String> = of_money.into_iter().chain(of_tokens).collect();
    parts.join(" and ")
}

/// What was spent, of the budget if there is one. Nothing if there is none, and no cost is known.
pub fn spent(spend: Spend, subscription: bool, of: Budget) -> Option<String> {
    match of.is_unlimited() {
        true if spend.micro_usd == 0 => None,
        true => Some(cost(spend.micro_usd, spend.estimated, subscription)),
        false => Some(spent_of(spend, subscription, of)),
    }
}

/// `61% 122k`, or without the percentage if the window is unknown.
pub fn usage(usage_tokens: u64, percent: Option<u64>) -> String {
    let percent = percent.map_or(String::new(), |percent| format!("{percent}% "));
    format!("{percent}{}", tokens(usage_tokens))
}

pub fn commit(id: &str) -> String {
    clean(id).text.chars().take(COMMIT_DIGITS).collect()
}

/// `1 session`, `2 sessions`.
pub fn count(number: u64, one: &str) -> String {
    if number == 1 {
        format!("1 {one}")
    } else {
        format!("{number} {one}s")
    }
}

/// `1 file`, `3 files`, `40 files or more`: a survey keeps no more lines than that.
pub fn files(number: usize) -> String {
    let more = if number >= limits::SURVEY_LINES_MAX {
        " or more"
    } else {
        ""
    };
    format!("{}{more}", count(number as u64, "file"))
}

pub fn zoned(at: Timestamp, zone: &TimeZone) -> Zoned {
    at.instant().to_zoned(zone.clone())
}

/// `22:04`, with the day if it differs from that of `beside`, and with the year likewise: `Sun 22 Nov 03:10`.
pub fn clock(at: Timestamp, beside: Timestamp, zone: &TimeZone) -> String {
    let (at, beside) = (zoned(at, zone), zoned(beside, zone));
    let form = if at.date() == beside.date() {
        "%H:%M"
    } else if at.year() == beside.year() {
        "%a %-d %b %H:%M"
    } else {
        "%a %-d %b %Y %H:%M"
    };
    at.strftime(form).to_string()
}

/// The same to the second, unless it is a full minute: a time that a person waits for.
pub fn clock_to_the_second(at: Timestamp, beside: Timestamp, zone: &TimeZone) -> String {
    let text = clock(at, beside, zone);
    match zoned(at, zone).second() {
        0 => text,
        second => format!("{text}:{second:02}"),
    }
}

/// A time that lies in the future, with its zone: `03:10 Europe/Athens`.
pub fn future(at: Timestamp, now: Timestamp, zone: &TimeZone) -> String {
    let name = match zone.iana_name() {
        Some(name) => name.to_owned(),
        None => zoned(at, zone).strftime("%Z").to_string(),
    };
    format!("{} {name}", clock(at, now, zone))
}

/// `Sat 21 Nov 2026 22:04`.
pub fn day_and_time(at: Timestamp, zone: &TimeZone) -> String {
    zoned(at, zone).strftime("%a %-d %b %Y %H:%M").to_string()
}

/// `2026-11-21T22:04`, for lists that are sorted by time.
pub fn minute(at: Timestamp, zone: &TimeZone) -> String {
    zoned(at, zone).strftime("%Y-%m-%dT%H:%M").to_string()
}

/// `2026-11-21T20:04:00.123Z`, for programs.
pub fn utc(at: Timestamp) -> String {
    zoned(at, &TimeZone::UTC)
        .strftime("%Y-%m-%dT%H:%M:%S.%3fZ")
        .to_string()
}

/// The shortest prefix of an id that no other id has; at least four digits.
pub fn short_id(id: &RunId, others: &[RunId]) -> String {
    let id = id.as_str();
    let taken = |prefix: &str| {
        others
            .iter()
            .any(|other| other.as_str() != id && other.as_str().starts_with(prefix))
    };
    let length = (ID_DIGITS_MIN..id.len())
        .find(|length| !taken(&id[..*length]))
        .unwrap_or(id.len());
    id[..length].to_owned()
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

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Timestamp = Timestamp(1_795_291_440_000);

    fn athens() -> TimeZone {
        TimeZone::posix("EET-2EEST,M3.5.0/3,M10.5.0/4").unwrap()
    }

    #[test]
    fn durations_are_rounded_to_what_matters() {
        let texts: Vec<String> = [
            0,
            380,
            999,
            1_900,
            41_000,
            61_000,
            130_000,
            846_000,
            3_599_999,
            10_260_000,
            273_600_000,
        ]
        .map(|millis| duration(Millis(millis)))
        .into();
        let wanted = [
            "0s", "0.4s", "1s", "2s", "41s", "1m 1s", "2m 10s", "14m", "1h", "2h 51m", "3d 4h",
        ];
        assert_eq!(texts, wanted);
    }

    #[test]
    fn tokens_are_thousands() {
        let texts: Vec<String> = [
            0,
            840,
            1_000,
            4_260,
            12_400,
            122_300,
            999_400,
            999_600,
            1_000_000,
            1_234_000,
            u64::MAX,
        ]
        .map(tokens)
        .into();
        assert_eq!(
            texts,
            [
                "0",
                "840",
                "1k",
                "4.3k",
                "12k",
                "122k",
                "999k",
                "1M",
                "1M",
                "1.2M",
                "18446744073709.5M"
            ]
        );
    }

    #[test]
    fn money_has_two_digits() {
        assert_eq!(money(u64::MAX), "$18446744073709.55");
        assert_eq!(
            [0, 1_840_000, 13_204_999, 995_001].map(money),
            ["$0.00", "$1.84", "$13.20", "$1.00"]
        );
    }

    #[test]
    fn a_budget_names_each_of_its_limits() {
        let both = Budget {
            micro_usd: Some(10_000_000),
            tokens: Some(1000),
        };
        assert_eq!(budget(both).as_deref(), Some("$10.00 and 1k tokens"));
        assert_eq!(budget(Budget::default()), None);
    }

    // shows: REL-22
    #[test]
    fn a_cost_says_whether_it_is_known() {
        assert_eq!(cost(1_840_000, false, false), "$1.84");
        assert_eq!(cost(1_840_000, true, false), "≈$1.84");
        let spend = |estimated| Spend {
            tokens: 215_000,
            estimated,
            ..Spend::default()
        };
        assert_eq!(spent_tokens(spend(true)), "≈215k");
        assert_eq!(spent_tokens(spend(false)), "215k");
        assert_eq!(cost(1_840_000, true, true), "≈$1.84 API price");
    }

    #[test]
    fn times_are_local_and_name_the_day_only_if_it_differs() {
        let zone = athens();
        let night = DAY + Millis::from_secs(6 * 3600);
        assert_eq!(clock(DAY, DAY, &zone), "22:04");
        assert_eq!(clock(night, DAY, &zone), "Sun 22 Nov 04:04");
        let next_year = DAY + Millis::from_secs(60 * 86_400);
        assert_eq!(clock(next_year, DAY, &zone), "Wed 20 Jan 2027 22:04");
        assert_eq!(clock_to_the_second(DAY, DAY, &zone), "22:04");
        assert_eq!(
            clock_to_the_second(DAY + Millis::from_secs(30), DAY, &zone),
            "22:04:30"
        );
        assert_eq!(future(DAY, DAY, &zone), "22:04 EET");
        assert_eq!(day_and_time(DAY, &zone), "Sat 21 Nov 2026 22:04");
        assert_eq!(utc(DAY), "2026-11-21T20:04:00.000Z");
    }

    #[test]
    fn ids_are_as_short_as_they_can_be() {
        let ids: Vec<RunId> = [0x7f3a_0b1c, 0x7f3a_1111, 0x0000_0001]
            .map(RunId::from_bits)
            .into();
        assert_eq!(short_id(&ids[0], &ids), "7f3a0");
        assert_eq!(short_id(&ids[2], &ids), "0000");
        assert_eq!(short_id(&ids[2], &[]), "0000");
    }
}
