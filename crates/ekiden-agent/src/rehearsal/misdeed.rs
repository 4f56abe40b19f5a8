//! Doing what a scenario wants, at its moments.
//!
//! A deed does what a bad agent, client or service would do, through the same wire and the same
//! tools: a command asks the host's hook first, words are words of a response. Only what a broken
//! process would do by itself (die, hang, print) goes past the wire.

use std::io::{self, Write};
use std::thread;
use std::time::Duration;

use ekiden_core::ends::LimitKind;
use ekiden_wire::agent_side::Saying;
use ekiden_wire::stream::{RateLimitInfo, RateLimitStatus};
use rustix::process::{Signal, getpid, kill_process};

use super::checklist::Script;
use super::scenario::{Anywhere, Deed, InTurn, Moment, Print, Revision};
use super::talk::Halt;
use super::turn::{Agent, Turn};
use super::work::Tool;
use crate::unix;

/// The status of a usage limit.
const TOO_MANY_REQUESTS: u16 = 429;
/// Written at once of a text that comes many times.
const PRINTED_BYTES: usize = 64 * 1024;

impl<W: Write> Agent<W> {
    /// Does what the scenario wants at this moment of a turn.
    pub(super) fn act(&mut self, moment: Moment, turn: &mut Turn) -> Result<(), Halt> {
        for deed in self.acts.due(moment) {
            match deed {
                Deed::InTurn(deed) => self.act_in(turn, deed)?,
                Deed::Anywhere(deed) => self.act_anywhere(deed)?,
            }
        }
        Ok(())
    }

    /// Does what the scenario wants before or after all turns.
    pub(super) fn act_outside(&mut self, moment: Moment) -> Result<(), Halt> {
        for deed in self.acts.due(moment) {
            match deed {
                // A scenario with such a deed at such a moment is refused when it is read.
                Deed::InTurn(_) => {}
                Deed::Anywhere(deed) => self.act_anywhere(deed)?,
            }
        }
        Ok(())
    }

    fn act_in(&mut self, turn: &mut Turn, deed: InTurn) -> Result<(), Halt> {
        match deed {
            InTurn::Say(words) => {
                let usage = self.usage();
                self.say(&usage, Saying::Text(&words))
            }
            InTurn::Run(text) => {
                let usage = self.usage();
                let tool = Tool::Run(Script { shell: "sh", text });
                self.call(turn, &usage, &tool).map(|_outcome| ())
            }
            InTurn::Fail { status, resets_in_s } => Err(self.fail(status, resets_in_s)?),
        }
    }

    fn act_anywhere(&mut self, deed: Anywhere) -> Result<(), Halt> {
        match deed {
            Anywhere::Exit(code) => return Err(Halt::Left(code)),
            Anywhere::Die(signal) => die(signal),
            Anywhere::Hang => hang(),
            Anywhere::IgnoreSignals => unix::ignore_requests(),
            Anywhere::IgnoreMessages => self.deaf = true,
            Anywhere::Fill(tokens) => self.talk.window.fill(tokens),
            Anywhere::Print(print) => self.print(&print)?,
            Anywhere::LeaveOut(names) => self.revise(|revision| revision.left_out.extend(names)),
            Anywhere::Edit(edit) => self.revise(|revision| revision.edits.push(edit)),
            Anywhere::Behave => {
                self.deaf = false;
                self.revise(|revision| *revision = Revision::default());
            }
        }
        Ok(())
    }

    fn revise(&mut self, change: impl FnOnce(&mut Revision)) {
        if let Some(revision) = self.mind.revision() {
            change(revision);
        }
    }

    /// Tells of the limit, if it is one; the failure that ends the turn.
    fn fail(&mut self, status: u16, resets_in_s: Option<i64>) -> Result<Halt, Halt> {
        if status == TOO_MANY_REQUESTS {
            let info = RateLimitInfo {
                status: RateLimitStatus::Rejected,
                resets_at: resets_in_s.map(|secs| now_secs().saturating_add_signed(secs)),
                kind: LimitKind::FiveHour,
                overage: false,
            };
            let line = self.talk.writer.rate_limit(&info);
            self.talk.send(&line)?;
        }
        Ok(Halt::Failed { status })
    }

    fn print(&mut self, print: &Print) -> Result<(), Halt> {
        let pause = Duration::from_millis(print.pause_ms);
        let at_once =
            if pause.is_zero() { (PRINTED_BYTES / print.text.len().max(1)).max(1) as u64 } else { 1 };
        let mut left = print.times;
        while left > 0 {
            let times = left.min(at_once);
            let text = print.text.repeat(usize::try_from(times).unwrap_or(1));
            if print.stderr {
                io::stderr().write_all(text.as_bytes()).map_err(Halt::Broken)?;
            } else {
                self.talk.send(&text)?;
            }
            left -= times;
            thread::sleep(pause);
        }
        Ok(())
    }
}

fn die(signal: i32) {
    // A number that is no signal, or one that is ignored, changes nothing.
    if let Some(signal) = Signal::from_named_raw(signal) {
        let _ = kill_process(getpid(), signal);
    }
}

/// For ever: whoever waits for this agent has to end it.
fn hang() {
    loop {
        thread::park();
    }
}

#[expect(clippy::disallowed_methods, reason = "this process plays a service that names the time of a reset")]
fn now_secs() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
