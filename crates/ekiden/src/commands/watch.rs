//! `ekiden status --watch`: the newest run, looked at until it is over.
//!
//! On a terminal the lines stay where they are and are written over, in one piece, only where they changed.
//! Elsewhere there is a line whenever something has happened, and none for time that passes.

use std::thread;
use std::time::Duration;

use ekiden_engine::clock::{Clock, SystemClock};
use ekiden_engine::workspace::Workspace;
use jiff::tz::TimeZone;

use super::follow::Follow;
use super::{asked_run, run_ids};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::output::view::{self, Frame};

/// How often it is looked.
const PAUSE: Duration = Duration::from_secs(1);

/// Watches the newest run to its end: then exits as that run did.
pub(super) fn watch(
    workspace: &Workspace,
    json: bool,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let run = asked_run(workspace, None, output)?;
    let (ids, zone) = (run_ids(workspace)?, TimeZone::system());
    let (mut printed, mut shown) = (None, None);
    let mut follow = Follow::begin(workspace, &run, |_, _| {})?;
    loop {
        let status = &follow.status;
        let over = status.is_over();
        let lines = status.lines(&ids, &zone, over);
        let news = (status.summary.last.seq, status.word().1);
        if json {
            let answer = status.answer();
            if printed.as_ref() != Some(&answer) {
                output.json(&answer);
                printed = Some(answer);
            }
        } else if output.has_screen() && !over {
            let (columns, rows) = output.size();
            let frame = Frame {
                now: SystemClock.now(),
                zone: &zone,
                columns,
                rows,
            };
            let moving = match &status.summary.run.header().manifest.plan {
                None => view::lines(&status.board, None, frame),
                // The table has its stages already.
                Some(_) => status.board.line(frame.now, &zone).into_iter().collect(),
            };
            output.draw(&[lines, moving].concat());
        } else if shown != Some(news) {
            lines.iter().for_each(|line| output.line(line));
            shown = Some(news);
        }
        if over {
            return Ok(status.exit());
        }
        thread::sleep(PAUSE);
        follow.look(|_, _| {})?;
    }
}
