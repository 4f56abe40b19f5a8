//! How the text of a setting becomes a value, and what to say when it cannot.
//!
//! Every source gives text: a flag, a variable, a value in a file. One function reads each form, so a
//! setting means the same wherever it is set.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use ekiden_core::bounds::OnRateLimit;
use ekiden_core::fallback::Returns;
use ekiden_core::guard::checkpoint::Wip;
use ekiden_core::guard::{Levels, LineFormat, Part};
use ekiden_core::handoff::Marker;
use ekiden_core::issue::{TrackerKind, is_repo};
use ekiden_core::names::UnknownName;
use ekiden_core::notice::NoticeKind;
use ekiden_core::quiet::QuietHours;
use ekiden_core::time::Millis;
use ekiden_engine::notify::is_address;
use ekiden_engine::runner::OnHangup;

/// A value, or what would have been right.
pub type Read<T> = Result<T, String>;

fn parsed<T: FromStr>(text: &str, wanted: &str) -> Read<T> {
    text.trim().parse().map_err(|_| wanted.to_owned())
}

pub fn number<N>(text: &str, range: RangeInclusive<N>) -> Read<N>
where
    N: FromStr + PartialOrd + Display,
{
    let number = text.trim().replace('_', "").parse().ok();
    number
        .filter(|number| range.contains(number))
        .ok_or_else(|| format!("a whole number from {} to {}", range.start(), range.end()))
}

/// Whole seconds within a range.
pub fn seconds(text: &str, range: RangeInclusive<u64>) -> Read<Millis> {
    number(text, range)
        .map(Millis::from_secs)
        .map_err(|wanted| format!("{wanted} (seconds)"))
}

/// A duration with its unit, such as `90s`, `5m`, `6h` or `1h 30m`; `0` needs none.
pub fn duration(text: &str) -> Read<Millis> {
    let wanted = "a duration such as 90s, 5m, 6h or 1h 30m";
    if text.trim() == "0" {
        return Ok(Millis(0));
    }
    let length: jiff::SignedDuration = parsed(text, wanted)?;
    let millis = u64::try_from(length.as_millis());
    millis.map(Millis).map_err(|_| wanted.to_owned())
}

/// A duration with its unit; `0` or `none` for no limit.
pub fn duration_or_none(text: &str) -> Read<Millis> {
    match text.trim() {
        "none" => Ok(Millis(0)),
        text => duration(text).map_err(|wanted| format!("{wanted}, or 0 for no limit")),
    }
}

/// US dollars, such as `5`, `2.50` or `$20`, in millionths.
pub fn dollars(text: &str) -> Read<u64> {
    let plain = text.trim();
    let plain = plain.strip_prefix('$').unwrap_or(plain);
    scaled(plain, 1_000_000).ok_or_else(|| "US dollars such as 5 or 2.50".to_owned())
}

/// Tokens, such as `400000`, `400k` or `1.5M`.
pub fn tokens(text: &str) -> Read<u64> {
    let plain = text.trim().replace('_', "");
    let read = match (plain.strip_suffix(['k', 'K']), plain.strip_suffix('M')) {
        (Some(thousands), _) => scaled(thousands, 1_000),
        (_, Some(millions)) => scaled(millions, 1_000_000),
        (None, None) => scaled(&plain, 1),
    };
    read.ok_or_else(|| "a number of tokens such as 400000, 400k or 1.5M".to_owned())
}

pub fn tokens_or_none(text: &str) -> Read<u64> {
    match text.trim() {
        "0" => Ok(0),
        text => tokens(text).map_err(|wanted| format!("{wanted}, or 0 for all")),
    }
}

/// Dollars by agent, such as `claude=5,codex=2.50`.
pub fn dollars_by_agent(text: &str) -> Read<BTreeMap<String, u64>> {
    let wanted = "agents with US dollars such as claude=5,codex=2.50";
    by_agent(text, dollars, wanted)
}

/// Tokens by agent, such as `claude=2M`.
pub fn tokens_by_agent(text: &str) -> Read<BTreeMap<String, u64>> {
    let wanted = "agents with tokens such as claude=2M,codex=400k";
    by_agent(text, tokens, wanted)
}

fn by_agent(text: &str, read: fn(&str) -> Read<u64>, wanted: &str) -> Read<BTreeMap<String, u64>> {
    let mut all = BTreeMap::new();
    let mut is_new = |one: &str| {
        let (agent, budget) = one.split_once('=')?;
        let agent = Some(agent.trim()).filter(|agent| !agent.is_empty())?;
        let before = all.insert(agent.to_owned(), read(budget).ok()?);
        before.is_none().then_some(())
    };
    let read = text.split(',').map(&mut is_new).collect::<Option<()>>();
    read.map(|()| all).ok_or_else(|| wanted.to_owned())
}

/// A decimal number of units, exact and greater than zero. A fraction finer than the unit is not a value.
fn scaled(text: &str, unit: u64) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits: u64 = format!("{whole}{part}").parse().ok()?;
    let scaled = u128::from(digits) * u128::from(unit);
    let parts = 10u128.checked_pow(u32::try_from(part.len()).ok()?)?;
    let is_exact = !whole.is_empty() && scaled > 0 && scaled.is_multiple_of(parts);
    u64::try_from(scaled / parts).ok().filter(|_| is_exact)
}

/// Local times in which no session starts.
pub fn quiet_hours(text: &str) -> Read<QuietHours> {
    match text.trim() {
        "none" => Ok(QuietHours::default()),
        text => parsed(
            text,
            "local times such as 22:00-07:00, several with commas between, not the whole day; or none",
        ),
    }
}

/// One of two words.
fn either<T>(text: &str, [one, other]: [(&str, T); 2]) -> Read<T> {
    match text.trim() {
        text if text == one.0 => Ok(one.1),
        text if text == other.0 => Ok(other.1),
        _ => Err(format!("{} or {}", one.0, other.0)),
    }
}

pub fn on_rate_limit(text: &str) -> Read<OnRateLimit> {
    let words = [("wait", OnRateLimit::Wait), ("stop", OnRateLimit::Stop)];
    either(text, words)
}

pub fn on_hangup(text: &str) -> Read<OnHangup> {
    let words = [("continue", OnHangup::Continue), ("stop", OnHangup::Stop)];
    either(text, words)
}

pub fn switch(text: &str) -> Read<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Ok(true),
        "false" | "no" | "off" | "0" => Ok(false),
        _ => Err("true or false".to_owned()),
    }
}

/// Any text that is not empty.
pub fn text(text: &str) -> Read<String> {
    match text.trim() {
        "" => Err("a text that is not empty".to_owned()),
        _ => Ok(text.to_owned()),
    }
}

/// A commit's subject, in which {subject} stands for ekiden's own.
pub fn subject(text: &str) -> Read<String> {
    match text.contains("{subject}") && !text.contains('\n') {
        true => Ok(text.to_owned()),
        false => Err("one line with {subject} in it, such as 'chore: {subject}'".to_owned()),
    }
}

/// A branch's name, in which {issue} and {title} stand for those of an issue.
pub fn branch(text: &str) -> Read<String> {
    let rest = text.replace("{issue}", "").replace("{title}", "");
    match rest.contains(['{', '}']) {
        true => Err("a name such as feat/{issue}-{title}; it has no other placeholders".to_owned()),
        false => self::text(text),
    }
}

/// Agents that take over from each other; an empty list is a valid answer, too.
pub fn agents(text: &str) -> Read<Vec<String>> {
    let names = text.split(',').map(str::trim);
    let names: Vec<String> = names
        .filter(|name| *name != "none")
        .map(str::to_owned)
        .collect();
    match names.iter().any(String::is_empty) {
        true => Err("names of agents, such as codex or claude:haiku; or none".to_owned()),
        false => Ok(names),
    }
}

pub fn returns(text: &str) -> Read<Returns> {
    let next = ("next-session", Returns::NextSession);
    either(text, [next, ("never", Returns::Never)])
}

/// A path of the user's, absolute or from their home.
pub fn user_path(text: &str) -> Read<String> {
    let text = text.trim();
    let in_home = || Some(std::env::home_dir()?.join(text.strip_prefix("~/")?));
    let dir = match text.starts_with('/') {
        true => Some(PathBuf::from(text)),
        false => in_home(),
    };
    let dir = dir.and_then(|dir| dir.into_os_string().into_string().ok());
    dir.ok_or_else(|| "an absolute path such as /home/me/work or ~/work".to_owned())
}

/// Kinds of notices; an empty list is a valid answer, too.
pub fn notice_kinds(text: &str) -> Read<Vec<NoticeKind>> {
    if text.trim() == "none" {
        return Ok(Vec::new());
    }
    let kinds = text.split(',').map(|kind| kind.trim().parse());
    kinds.collect::<Result<_, UnknownName>>().map_err(|_| {
        let names = NoticeKind::ALL.map(NoticeKind::name).join(", ");
        format!("some of {names}; or none")
    })
}

pub fn address(text: &str) -> Read<String> {
    let text = text.trim();
    match is_address(text) {
        true => Ok(text.to_owned()),
        false => Err("an address such as https://host/path".to_owned()),
    }
}

pub fn address_or_none(text: &str) -> Read<String> {
    match text.trim() {
        "none" => Ok("none".to_owned()),
        text => address(text).map_err(|right| format!("{right}, or none")),
    }
}

pub fn tracker_kind(text: &str) -> Read<Option<TrackerKind>> {
    let text = text.trim();
    let mut all = TrackerKind::ALL.into_iter();
    match all.find(|kind| kind.name() == text) {
        None if text != "none" => Err("linear, github, local or none".to_owned()),
        kind => Ok(kind),
    }
}

/// A repository on GitHub.
pub fn repo(text: &str) -> Read<String> {
    match is_repo(text.trim()) {
        true => Ok(text.trim().to_owned()),
        false => Err("a repository such as owner/name".to_owned()),
    }
}

/// A directory of the project, by its path from there.
pub fn dir_inside(text: &str) -> Read<String> {
    let is_name = |part: Component<'_>| matches!(part, Component::Normal(_));
    match !text.trim().is_empty() && Path::new(text.trim()).components().all(is_name) {
        true => Ok(text.trim().to_owned()),
        false => Err("a directory of the project, such as .issues".to_owned()),
    }
}

/// Whether a verified run closes its issue.
pub fn on_complete(text: &str) -> Read<bool> {
    either(text, [("close", true), ("comment", false)])
}

/// Several texts, one per line.
pub fn lines(text: &str) -> Read<Vec<String>> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    Ok(lines.map(str::to_owned).collect())
}

/// A program and its arguments, quoted as in a shell.
pub fn command(text: &str) -> Read<Vec<String>> {
    shlex::split(text)
        .filter(|words| words.first().is_some_and(|program| !program.is_empty()))
        .ok_or_else(|| "a program and its arguments, quoted as in a shell".to_owned())
}

/// The word with which the agent says that the task is complete.
pub fn marker(text: &str) -> Read<Marker> {
    Marker::try_from(text.to_owned()).map_err(|_| {
        "one word of at most 40 characters, other than IN_PROGRESS and BLOCKED".to_owned()
    })
}

pub fn levels(text: &str) -> Read<Levels> {
    let wanted = "three rising percentages from 1 to 99, such as 50,60,70";
    parsed(text, wanted)
}

/// Whether a call of a watched session is refused at L3.
pub fn at_l3(text: &str) -> Read<bool> {
    either(text, [("refuse", true), ("advise", false)])
}

pub fn line_format(text: &str) -> Read<LineFormat> {
    let parts = Part::ALL.map(Part::name).join(", ");
    let wanted = format!("names separated by spaces ({parts}, colour)");
    parsed(text, &wanted)
}

/// Where a watched session's uncommitted work goes.
pub fn wip(text: &str) -> Read<Wip> {
    parsed(text, "ref, branch or off")
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

    // shows: TRK-07
    #[test]
    fn a_branch_has_no_unknown_placeholders() {
        for good in ["feat/{issue}-{title}", "work"] {
            assert_eq!(branch(good), Ok(good.to_owned()));
        }
        for bad in ["feat/{nonsense}", "feat/{issue", "", "{Issue}"] {
            assert!(branch(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(duration("90s"), Ok(Millis::from_secs(90)));
        assert_eq!(duration("0"), Ok(Millis(0)));
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
        for bad in [
            "",
            "0",
            "-1",
            "five",
            "1.2.3",
            ".5",
            "0.0000001",
            "99999999999999999999",
            "5 USD",
        ] {
            assert!(dollars(bad).is_err(), "{bad}");
            assert!(tokens(bad).is_err(), "{bad}");
        }
        assert!(tokens("1.0001k").is_err(), "a tenth of a token");
        assert_eq!(tokens_by_agent("a=1, b=2k").map(|all| all["b"]), Ok(2_000));
        assert!(dollars_by_agent("a=1,a=2").is_err(), "which of them?");
    }

    // shows: UIX-10
    #[test]
    fn a_notification_goes_somewhere_or_is_refused() {
        let kinds = [NoticeKind::Done, NoticeKind::NeedsYou];
        assert_eq!(notice_kinds("done, needs_you"), Ok(kinds.to_vec()));
        assert_eq!(notice_kinds("none"), Ok(Vec::new()));
        assert!(notice_kinds("").is_err() && notice_kinds("done,all").is_err());
        for fine in ["https://ntfy.sh/topic", " http://[::1]:8080/x?auth=y"] {
            assert_eq!(address(fine), Ok(fine.trim().to_owned()));
        }
        for bad in [
            "",
            "ntfy.sh/topic",
            "file:///etc",
            "https://",
            "https:///x",
            "http://a b/",
        ] {
            assert!(address(bad).is_err(), "{bad}");
        }
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
        assert_eq!(
            lines("Bash(git:*, x)\n\n Read ").unwrap(),
            ["Bash(git:*, x)", "Read"]
        );
    }
}
