//! `ekiden status --watch`: watches the newest run until it is over.
//!
//! On a terminal it looks like `ekiden attach`, with the same keys. Elsewhere it prints a line whenever
//! something happens, and none for passing time.

use std::thread;
use std::time::Duration;

use ekiden_engine::workspace::Workspace;
use jiff::tz::TimeZone;

use super::follow::Follow;
use super::{Invocation, asked_run, attach, run_ids};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;

/// How often to look at the run.
const PAUSE: Duration = Duration::from_secs(1);

/// Watches the newest run to its end: then exits as that run did.
pub(super) fn watch(
    invocation: &Invocation,
    workspace: &Workspace,
    json: bool,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let run = asked_run(workspace, None, output)?;
    let (ids, zone) = (run_ids(workspace)?, TimeZone::system());
    let there = invocation.shown_work_dir(workspace)?;
    let (mut printed, mut shown) = (None, None);
    let mut follow = Follow::begin(workspace, &run, |_, _| {})?;
    if output.has_screen() && !json && !follow.status.is_over() {
        let exit = attach::show(invocation, workspace, &run, json, output)?;
        // A person who left does not know how it ended, and nothing may follow as if it had ended well.
        return Ok(exit.unwrap_or(Exit::Unfinished));
    }
    loop {
        let status = &follow.status;
        let over = status.is_over();
        let lines = status.lines(&ids, &zone, Some(&there).filter(|_| over));
        let news = (status.summary.last.seq, status.word().1);
        if json {
            let answer = status.answer();
            if printed.as_ref() != Some(&answer) {
                output.json(&answer);
                printed = Some(answer);
            }
        } else if shown != Some(news) {
            lines.iter().for_each(|line| output.line(line));
            shown = Some(news);
        }
        if over {
            return Ok(status.exit());
        }
        if output.is_unread() {
            return Ok(Exit::Unfinished);
        }
        thread::sleep(PAUSE);
        follow.look(|_, _| {})?;
    }
}
