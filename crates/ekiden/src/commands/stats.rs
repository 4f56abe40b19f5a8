//! `ekiden stats`: what sessions cost, how well they end and start again, and at which size to hand off.

use clap::Args;
use ekiden_core::guard::Levels;
use ekiden_core::limits::PRICE_UNKNOWN_NANO_USD;
use ekiden_core::time::{Millis, Timestamp};
use ekiden_engine::clock::{Clock as _, SystemClock};
use jiff::tz::TimeZone;

use super::Invocation;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::json::{Fields, fields};
use crate::output::line::{Line, Tone, one_line};
use crate::output::table::{Cell, Column, Side, lines as table_lines};
use crate::output::{Output, phrase};
use crate::settings::flags::{Asking, Typed};
use crate::settings::{agents, table};
use crate::stats::deferrals::Deferrals;
use crate::stats::gather::{self, Transcripts};
use crate::stats::metrics::{ClientSessions, Fraction, Metrics};
use crate::stats::spending::{Spending, Used};
use crate::stats::threshold::{Best, Measure, REQUESTS_MIN, Row, Threshold, threshold};

const DAY: Millis = Millis::from_secs(24 * 60 * 60);
/// Rows of a table of what was spent.
const ROWS_MAX: usize = 31;
/// The bar of a row, in columns.
const BAR_COLUMNS: f64 = 24.0;
const BARS: [char; 9] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// Show what sessions cost, and how well they end and begin again
///
/// The costs cover all Claude Code sessions on this machine, from their transcripts; they are estimates at prices that the
/// client reported. The other figures cover this project's runs and watched sessions. ekiden sends nothing anywhere.
#[derive(Args)]
pub struct StatsArgs {
    /// How many days to look back
    #[arg(long, value_name = "N", default_value = "30", value_parser = clap::value_parser!(u64).range(1..=3650))]
    days: u64,
    /// Show at which context size work was cheapest, and what to set
    #[arg(long)]
    threshold: bool,
    #[command(flatten)]
    typed: Typed<Asking>,
}

pub fn stats(args: &StatsArgs, output: &mut Output) -> Result<Exit, Failure> {
    let invocation = Invocation::looking(args.typed.flags(), output)?;
    let json = invocation.json()?;
    let now = SystemClock.now();
    let since = now - Millis(DAY.0.saturating_mul(args.days));
    let accounts = agents::claude_accounts(&invocation.given.agents);
    let transcripts = Transcripts::read(&invocation.environment, accounts, since);
    if transcripts.unreadable > 0 {
        let files = phrase::count(transcripts.unreadable, "transcript");
        output.warn(&format!("{files} could not be read"));
    }
    let spending = Spending::of(&transcripts.all, &TimeZone::system());
    if !spending.unpriced.is_empty() && spending.total.nano_usd > 0 {
        let models: Vec<&str> = spending.unpriced.iter().map(String::as_str).collect();
        let price = phrase::money(PRICE_UNKNOWN_NANO_USD * 1_000);
        output.warn(&format!(
            "no session reported the cost of {}: estimated at {price} per million uncached input tokens",
            models.join(", ")
        ));
    }
    let lines = match args.threshold {
        true => {
            let found = threshold(&spending.sessions);
            let mut deferrals = Deferrals::default();
            let workspace = invocation.workspace()?;
            let watched = gather::watched(&workspace, since);
            watched.for_each(|records| deferrals.take(&records));
            let suggestion = deferrals.suggestion(invocation.given.need(&table::GUARD_LEVELS)?);
            if json {
                let answer = threshold_answer(args.days, &spending, found.as_ref());
                let answer = answer.with("deferrals", deferrals);
                return output.answer_json(&answer.with("earlier_levels", suggestion));
            }
            let levels = invocation.given.need(&table::LEVELS)?;
            let mut lines = threshold_lines(
                args.days,
                &spending,
                found.as_ref(),
                levels,
                output.columns(),
            );
            lines.extend(deferral_lines(&deferrals, suggestion));
            lines
        }
        false => {
            let metrics = metrics(&invocation, &transcripts, since, output)?;
            if json {
                return output.answer_json(&answer(args.days, &spending, &metrics));
            }
            lines(args.days, &spending, &metrics, output.columns())
        }
    };
    lines.iter().for_each(|line| output.line(line));
    Ok(Exit::Done)
}

fn metrics(
    invocation: &Invocation,
    transcripts: &Transcripts,
    since: Timestamp,
    output: &mut Output,
) -> Result<Metrics, Failure> {
    let mut metrics = Metrics::default();
    let setup = gather::setup_at(&invocation.environment);
    let sessions = transcripts.all.iter().filter(|one| !one.is_subagent);
    sessions.for_each(|one| metrics.of_client(&one.requests, setup));
    let unreadable = gather::project(&invocation.workspace()?, since, &mut metrics)?;
    if unreadable > 0 {
        let runs = phrase::count(unreadable, "run");
        output.warn(&format!(
            "{runs} could not be read; `ekiden status --all` says why"
        ));
    }
    Ok(metrics)
}

fn answer(days: u64, spending: &Spending, metrics: &Metrics) -> Fields {
    Fields::versioned().and(fields! {
        "days": days,
        "sessions": spending.sessions.len(),
        "total": spending.total,
        "by_day": spending.by_day,
        "by_project": spending.by_project,
        "by_model": spending.by_model,
        "metrics": metrics,
    })
}

fn threshold_answer(days: u64, spending: &Spending, found: Option<&Threshold>) -> Fields {
    let requests = spending.session_requests();
    Fields::versioned().and(fields! {
        "days": days,
        "sessions": spending.sessions.len(),
        "requests": requests,
        "threshold": found,
    })
}

fn lines(days: u64, spending: &Spending, metrics: &Metrics, columns: Option<usize>) -> Vec<Line> {
    let mut lines = vec![heading(days, spending)];
    let groups = [
        ("day", &spending.by_day, true),
        ("project", &spending.by_project, false),
        ("model", &spending.by_model, false),
    ];
    for (name, group, by_name) in groups {
        let mut used: Vec<(&String, &Used)> = group.iter().collect();
        match by_name {
            true => used.reverse(),
            false => used.sort_by_key(|(_, used)| std::cmp::Reverse(used.nano_usd)),
        }
        if !used.is_empty() {
            lines.push(Line::default());
            lines.extend(spent(name, &used, columns));
        }
    }
    lines.push(Line::default());
    lines.extend(metric_lines(metrics, columns));
    lines
}

/// `last 30 days · 214 sessions · 12,345 requests · ≈$81.20`.
fn heading(days: u64, spending: &Spending) -> Line {
    let covered = covered(days, spending, spending.total.requests);
    let cost = cost(spending.total.nano_usd);
    Line::new(Tone::Plain, format!("{covered} · {cost}"))
}

fn covered(days: u64, spending: &Spending, requests: u64) -> String {
    let sessions = phrase::count(spending.sessions.len() as u64, "session");
    let requests = phrase::count(requests, "request");
    let days = phrase::count(days, "day");
    format!("last {days} · {sessions} · {requests}")
}

fn spent(name: &'static str, used: &[(&String, &Used)], wide: Option<usize>) -> Vec<Line> {
    let columns = [
        Column::new(name, Side::Left, 0),
        Column::new("requests", Side::Right, 2),
        Column::new("read", Side::Right, 3),
        Column::new("cached", Side::Right, 4),
        Column::new("written", Side::Right, 3),
        Column::new("tokens", Side::Right, 1),
        Column::new("cost", Side::Right, 0),
    ];
    let plain = |text: String| (Tone::Plain, text);
    let row = |(name, used): &(&String, &Used)| -> Vec<Cell> {
        let tokens = used.tokens;
        vec![
            plain(one_line(name)),
            plain(used.requests.to_string()),
            plain(phrase::tokens(tokens.input + tokens.cache_write)),
            plain(phrase::tokens(tokens.cache_read)),
            plain(phrase::tokens(tokens.output)),
            plain(phrase::tokens(tokens.counted())),
            plain(cost(used.nano_usd)),
        ]
    };
    let rows: Vec<Vec<Cell>> = used.iter().take(ROWS_MAX).map(row).collect();
    let mut lines = table_lines(&columns, &rows, wide);
    if let Some(more @ 1..) = used.len().checked_sub(ROWS_MAX) {
        let text = format!("... {more} more: ekiden stats --json");
        lines.push(Line::new(Tone::Quiet, text));
    }
    lines
}

/// An estimate: the client tells its own figure only for whole sessions.
fn cost(nano_usd: u64) -> String {
    phrase::cost(nano_usd / 1_000, nano_usd > 0, false)
}

/// How sessions go, and the target.
const METRICS: [(&str, &str); 7] = [
    ("context lost to compaction", "80% less"),
    ("sessions compacted in mid-task", "under 5%"),
    ("handoffs that were worked from", "over 90%"),
    ("items done in a session", "20% more"),
    ("checkpoints a person asked for", "over 50%"),
    ("runs that were completed", "over 90%"),
    ("compacted sessions of runs", "under 5%"),
];
/// The same for runs through a list, where there were any.
const RALPH_METRICS: [(&str, &str); 4] = [
    ("Ralph: compacted sessions", "under 5%"),
    ("Ralph: handoffs worked from", "over 95%"),
    ("Ralph: items done in a session", "30% more"),
    ("Ralph: completed runs", "over 90%"),
];

fn metric_lines(metrics: &Metrics, wide: Option<usize>) -> Vec<Line> {
    let columns = [
        Column::new("how sessions go", Side::Left, 0),
        Column::new("target", Side::Left, 0),
        Column::new("measured", Side::Left, 0),
    ];
    let now = metrics.since_setup;
    let compacted = Fraction {
        part: now.compacted,
        of: now.sessions,
    };
    let measured = [
        lost(metrics.before_setup, now),
        share(compacted),
        share(metrics.runs.resumes),
        done(metrics.before_setup.items, metrics.runs.items),
        share(metrics.asked_checkpoints),
        share(metrics.runs.complete),
        share(metrics.runs.compacted),
    ];
    let ralph = metrics.ralph;
    let of_ralph = [
        share(ralph.compacted),
        share(ralph.resumes),
        average(ralph.items),
        share(ralph.complete),
    ];
    let of_ralph = RALPH_METRICS.into_iter().zip(of_ralph);
    let rows: Vec<Vec<Cell>> = METRICS
        .into_iter()
        .zip(measured)
        .chain(of_ralph.filter(|_| ralph.compacted.of > 0))
        .map(|((name, target), measured)| {
            vec![
                (Tone::Plain, name.to_owned()),
                (Tone::Quiet, target.to_owned()),
                (Tone::Plain, measured),
            ]
        })
        .collect();
    table_lines(&columns, &rows, wide)
}

/// What an average session loses, and how that was before.
fn lost(before: ClientSessions, now: ClientSessions) -> String {
    let of = |sessions: ClientSessions| sessions.lost_by_session();
    let Some(lost) = of(now) else {
        return "no sessions yet".to_owned();
    };
    let told = format!("{} tokens a session", phrase::tokens(lost));
    match of(before) {
        Some(earlier) => format!("{told}, {} before setup", phrase::tokens(earlier)),
        None => format!("{told}, before setup unknown"),
    }
}

/// What an average session of a run does, and what sessions without ekiden ticked of their own lists.
fn done(before: Fraction, now: Fraction) -> String {
    let told = average(now);
    match before.of {
        0 => format!("{told}, before setup unknown"),
        _ => format!("{told}, {} before setup", average(before)),
    }
}

fn share(share: Fraction) -> String {
    match share.percent() {
        Some(percent) => format!("{percent}% ({} of {})", share.part, share.of),
        None => "none yet".to_owned(),
    }
}

fn average(share: Fraction) -> String {
    match (share.part * 10).checked_div(share.of) {
        Some(tenths) => format!("{}.{}", tenths / 10, tenths % 10),
        None => "none yet".to_owned(),
    }
}

fn threshold_lines(
    days: u64,
    spending: &Spending,
    found: Option<&Threshold>,
    levels: Levels,
    wide: Option<usize>,
) -> Vec<Line> {
    let told = covered(days, spending, spending.session_requests());
    let mut lines = vec![Line::new(Tone::Plain, told), Line::default()];
    let Some(found) = found else {
        let text = format!(
            "Too few to tell: at least {REQUESTS_MIN} requests with calls of tools are needed, in contexts of different sizes."
        );
        lines.push(Line::new(Tone::Plain, text));
        return lines;
    };
    lines.extend(plot(found, wide));
    for best in &found.best {
        lines.push(Line::default());
        lines.extend(best_lines(best, levels));
    }
    lines
}

/// What a call costs at each size, with a bar for the money.
fn plot(found: &Threshold, wide: Option<usize>) -> Vec<Line> {
    let columns = [
        Column::new("hand off at", Side::Right, 0),
        Column::new("cost of a call", Side::Left, 0),
        Column::new("", Side::Right, 0),
        Column::new("tokens", Side::Right, 1),
        Column::new("time", Side::Right, 2),
        Column::new("failed", Side::Right, 3),
        Column::new("requests", Side::Right, 4),
    ];
    let costs = found.rows.iter().filter_map(|row| row.nano_usd);
    let most = costs.fold(0.0, f64::max);
    let best = found.best.first().map(|best| best.handoff_tokens);
    let row = |row: &Row| -> Vec<Cell> {
        let is_best = best == Some(row.handoff_tokens);
        let tone = if is_best { Tone::Done } else { Tone::Plain };
        let quiet = |text: Option<String>| (Tone::Quiet, text.unwrap_or_default());
        let money = row
            .nano_usd
            .map(|nano_usd| format!("${:.4}", nano_usd / 1e9));
        let time = row.latency_ms.map(|millis| format!("{:.1}s", millis / 1e3));
        vec![
            (Tone::Plain, phrase::tokens(row.handoff_tokens)),
            (tone, bar(row.nano_usd.unwrap_or(0.0), most)),
            quiet(money),
            quiet(row.tokens.map(|tokens| phrase::tokens(whole(tokens)))),
            quiet(time),
            quiet(Some(format!("{:.1}%", row.failed_percent))),
            quiet(Some(row.requests.to_string())),
        ]
    };
    let rows: Vec<Vec<Cell>> = found.rows.iter().map(row).collect();
    table_lines(&columns, &rows, wide)
}

fn bar(part: f64, most: f64) -> String {
    let share = if most > 0.0 { part / most } else { 0.0 };
    let eighths = whole(share * BAR_COLUMNS * 8.0);
    let full = usize::try_from(eighths / 8).unwrap_or(0);
    let rest = usize::try_from(eighths % 8).unwrap_or(0);
    let width = usize::try_from(whole(BAR_COLUMNS)).unwrap_or(0);
    let cells = std::iter::repeat_n(BARS[8], full).chain((rest > 0).then_some(BARS[rest]));
    format!("{:<width$}", cells.collect::<String>())
}

fn best_lines(best: &Best, levels: Levels) -> Vec<Line> {
    let name = match best.measure {
        Measure::Money => "money",
        Measure::Tokens => "tokens",
        Measure::Time => "time",
    };
    let at = phrase::tokens(best.handoff_tokens);
    let range = format!(
        "80% confidence interval {} to {}; within 5% of the best from {} to {}",
        phrase::tokens(best.low_tokens),
        phrase::tokens(best.high_tokens),
        phrase::tokens(best.alike_from_tokens),
        phrase::tokens(best.alike_to_tokens)
    );
    let at_least = if best.is_largest { "at least " } else { "" };
    let mut lines = vec![
        Line::new(Tone::Plain, format!("{name:<8}"))
            .with(Tone::Done, format!("{at_least}{at}"))
            .with(Tone::Quiet, format!("  {range}"))
            .hanging(8),
    ];
    if best.measure == Measure::Money {
        let percent = u64::from(<[u8; 3]>::from(levels)[1]);
        let cap = (best.handoff_tokens * 100).div_ceil(percent * 1_000) * 1_000;
        let set = format!("ekiden config set context.cap_tokens {cap}");
        lines.push(
            Line::new(Tone::Quiet, "        to set  ")
                .with(Tone::Plain, set)
                .with(
                    Tone::Quiet,
                    format!("  (a run hands off at {percent}% of it)"),
                )
                .hanging(16),
        );
    }
    lines
}

/// What became of reminders to hand off; nothing if there were none.
fn deferral_lines(deferrals: &Deferrals, suggestion: Option<[u8; 3]>) -> Vec<Line> {
    if deferrals.deferred.of == 0 {
        return Vec::new();
    }
    let told = format!(
        "of the reminders to hand off; a compaction came first after {} of those, and after {} of the others",
        share(deferrals.compacted),
        share(deferrals.compacted_at_once)
    );
    let head = Line::new(Tone::Plain, format!("{:<8}", "put off"))
        .with(Tone::Done, share(deferrals.deferred))
        .with(Tone::Quiet, format!("  {told}"))
        .hanging(8);
    let earlier = suggestion.map(|levels| {
        let [warn, handoff, force] = levels;
        let set = format!("ekiden config set guard.levels {warn},{handoff},{force}");
        Line::new(Tone::Quiet, "        to be reminded earlier  ").with(Tone::Plain, set)
    });
    [Line::default(), head].into_iter().chain(earlier).collect()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a figure to be shown, not negative"
)]
fn whole(figure: f64) -> u64 {
    figure.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: UIX-09, EST-07
    #[test]
    fn the_tables_have_room_in_a_narrow_terminal() {
        let row = Row {
            handoff_tokens: 140_000,
            requests: 812,
            nano_usd: Some(41.2e6),
            tokens: Some(141e3),
            latency_ms: Some(9_200.0),
            failed_percent: 12.5,
        };
        let found = Threshold {
            rows: vec![row],
            best: Vec::new(),
        };
        for wide in [60, 80, 200] {
            let mut lines = metric_lines(&Metrics::default(), Some(wide));
            lines.extend(plot(&found, Some(wide)));
            for line in lines.iter().map(|line| line.styled(Some(wide))) {
                assert!(line.lines().count() <= 2, "{line}");
            }
        }
    }
}
