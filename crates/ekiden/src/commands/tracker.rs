//! `ekiden tracker`: shows what waits to be written into issues, and writes it now.

use std::time::Duration;

use clap::{Args, Subcommand};
use ekiden_engine::clock::{Clock as _, SystemClock};
use ekiden_store::outbox::Outbox;
use ekiden_tracker::{Fault, Waiting, standing};
use jiff::tz::TimeZone;

use super::Invocation;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::json::{Fields, fields};
use crate::output::line::{Line, Tone, one_line};
use crate::output::{Output, phrase};
use crate::settings::flags::{Asking, Typed};
use crate::tracker::{Trackers, failure};

/// How long `flush` waits for another process that sends.
const LOCK_PATIENCE: Duration = Duration::from_secs(30);

/// Show or send writes that wait for a tracker
///
/// Runs and checkpoints write into the issue that they work on: a comment that they keep up to date, a label, a state. Each
/// write waits on disk until the tracker has it, 30 days at most, and ekiden tries it again and again. No run waits for it.
#[derive(Args)]
pub struct TrackerArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Show what waits, since when, and why
    Status {
        #[command(flatten)]
        typed: Typed<Asking>,
    },
    /// Send waiting writes now, without waiting for the next try
    ///
    /// Rate limits of the service still apply. If something is still waiting, the exit code tells why the first of it
    /// does: 65 refused, 66 missing, 77 not permitted, 78 settings, otherwise 69. With --json it is always 69.
    Flush {
        #[command(flatten)]
        typed: Typed<Asking>,
    },
}

pub fn tracker(args: &TrackerArgs, output: &mut Output) -> Result<Exit, Failure> {
    let invocation = match &args.what {
        What::Status { typed } => Invocation::looking(typed.flags(), output)?,
        // Without a settings file the key might go to another host.
        What::Flush { typed } => Invocation::new(typed.flags())?,
    };
    let trackers = invocation.trackers(&invocation.workspace_here()?);
    let outbox = trackers.outbox();
    let outbox = outbox.ok_or_else(|| Failure::no_home("the outbox"))?;
    match args.what {
        What::Status { .. } => status(&invocation, &outbox, output),
        What::Flush { .. } => {
            invocation
                .environment
                .refuse_a_session("write into issues")?;
            flush(&trackers, &outbox, invocation.json()?, output)
        }
    }
}

fn status(invocation: &Invocation, outbox: &Outbox, output: &mut Output) -> Result<Exit, Failure> {
    let standing = standing(outbox, SystemClock.now())?;
    let (waiting, unreadable) = (standing.waiting, standing.unreadable);
    if invocation.json()? {
        let write = |Waiting { queued, next, why }: &Waiting| {
            fields! {
                "dir": phrase::path(&queued.dir), "issue": queued.issue.to_string(), "tracker": queued.issue.tracker,
                "what": queued.in_words(), "why": why, "since": phrase::utc(queued.at), "next": next.map(phrase::utc),
            }
        };
        let waiting: Vec<Fields> = waiting.iter().map(write).collect();
        let answer = fields! { "waiting": waiting, "unreadable": unreadable };
        return output.answer_json(&Fields::versioned().and(answer));
    }
    if waiting.is_empty() {
        output.line("nothing is waiting: all writes were sent");
    }
    let (zone, here) = (TimeZone::system(), invocation.workspace_here()?.dir);
    // If several writes of an issue wait for the same thing, it is printed once, below them.
    for same in waiting.chunk_by(|one, next| {
        let (this, other) = (&one.queued, &next.queued);
        (&this.dir, &this.issue, &one.why) == (&other.dir, &other.issue, &next.why)
    }) {
        for Waiting { queued, .. } in same {
            let issue = one_line(&queued.issue.to_string());
            let what = format!("{issue}  {}", one_line(&queued.in_words()));
            let since = phrase::day_and_time(queued.at, &zone);
            let since = match queued.dir == here {
                true => format!("  since {since}"),
                false => format!("  in {} since {since}", phrase::project(&queued.dir)),
            };
            output.line(Line::new(Tone::Plain, what).with(Tone::Quiet, since));
        }
        if let Some(write) = same.last()
            && let Some(why) = &write.why
        {
            let next = write.next.map(|next| phrase::day_and_time(next, &zone));
            let next = next.map(|next| format!("; next try {next}"));
            output.line(Line::attention(one_line(why) + &next.unwrap_or_default()));
        }
    }
    if unreadable > 0 {
        output.warn(&format!(
            "{} cannot be read: damaged, or written by a newer ekiden",
            phrase::count(unreadable as u64, "write")
        ));
    }
    if !waiting.is_empty() {
        let there = invocation.in_work_dir(&here);
        output.line(Line::next(format!("ekiden tracker flush{there}")));
    }
    Ok(Exit::Done)
}

fn flush(
    trackers: &Trackers,
    outbox: &Outbox,
    json: bool,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let Some(_sending) = outbox.lock(LOCK_PATIENCE)? else {
        let text = "another ekiden process is sending what waits";
        return Err(
            Failure::new(Exit::Held, text).hint("`ekiden tracker status` shows what it leaves")
        );
    };
    let now = SystemClock.now();
    let sent = trackers.send(outbox, now, true)?;
    let left = standing(outbox, now)?.waiting.len();
    if json {
        let answer = fields! { "sent": sent.count, "dropped": sent.dropped, "waiting": left };
        output.json(&Fields::versioned().and(answer));
    } else {
        output.line(format!(
            "sent {}",
            phrase::count(sent.count as u64, "write")
        ));
    }
    if sent.dropped > 0 {
        output.warn(&format!(
            "{} dropped after waiting for 30 days",
            phrase::count(sent.dropped as u64, "write")
        ));
    }
    match sent.failed.first() {
        Some((issue, fault)) if !json => {
            let text = format!("write into {issue}");
            let failed = failure(&text, issue.tracker, fault);
            let what = match matches!(fault, Fault::Missing(_)) {
                true => "unless it comes back, ekiden drops them after 30 days",
                false => "`ekiden tracker status` shows them",
            };
            Err(failed.hint(format!("writes still waiting: {left}; {what}")))
        }
        None if left == 0 => Ok(Exit::Done),
        None if !json => {
            let text = format!("writes still waiting: {left}");
            Err(Failure::new(Exit::Unreachable, text).hint("`ekiden tracker status` shows why"))
        }
        Some(_) | None => Ok(Exit::Unreachable),
    }
}
