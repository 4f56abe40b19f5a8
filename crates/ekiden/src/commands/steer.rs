//! `ekiden stop`, `next`, `pause`, `unpause` and `limits`: find the run, send it a message, report the
//! result.

use clap::Args;
use ekiden_core::agent::AgentKind;
use ekiden_core::limits;
use ekiden_core::settings::LimitsChanged;
use ekiden_core::steering::{Steered, Steering, StopRequest};
use ekiden_core::time::Millis;
use ekiden_engine::steering::{RunningRun, Waited};
use ekiden_engine::workspace::Workspace;
use ekiden_engine::{history, leftovers};
use uuid::Uuid;

use super::run_status::RunStatus;
use super::{Invocation, fleet, run_ids, unenforced};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::line::{Line, Tone};
use crate::output::shown_work_dir::ShownWorkDir;
use crate::output::{Output, phrase, steering};
use crate::settings::flags::{Asking, Changing, Takers, Typed};
use crate::settings::{agents, chosen, form};

#[derive(Args)]
struct SteerArgs<C: Takers = Asking> {
    /// The beginning of the run's id [default: the running run here]
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// How long to wait for it, such as 30s, 5m; 0s to return at once
    #[arg(long, value_name = "DURATION", value_parser = form::duration)]
    wait: Option<Millis>,
    #[command(flatten)]
    typed: Typed<C>,
}

/// Stop a running run, from another terminal
///
/// Does what ctrl-c does in the run's own terminal: the current session hands off, then the run ends.
/// `--now` stops at once, like a second ctrl-c. `ekiden resume` continues the run. The command waits until the run
/// has ended, 5 minutes at most unless `--wait` says otherwise, and prints its status.
#[derive(Args)]
pub struct StopArgs {
    /// Stop at once; `ekiden resume` starts the session again or continues its conversation
    #[arg(long)]
    now: bool,
    #[command(flatten)]
    steer: SteerArgs,
}

/// Have the current session hand off now; the next one continues
///
/// The session gets the same order as when its context is full: it finishes the current step and writes its handoff,
/// and a fresh session continues from it. In a plan, all running sessions get the order. In the client's own interface
/// (`--tui`), the session reads the order with its next tool call. If ekiden is killed before the handoff is written,
/// `ekiden resume` continues the session; ask again then. If no session is at work, the command fails.
#[derive(Args)]
pub struct NextArgs {
    #[command(flatten)]
    steer: SteerArgs,
}

/// Pause a running run after the current session
///
/// The session works until it hands off, and ekiden verifies what it left. After that no agent starts, not even to
/// retry, until `ekiden unpause`. The pause survives a crash of ekiden. If the run ended in the meantime,
/// `ekiden resume` also ends the pause.
#[derive(Args)]
pub struct PauseArgs {
    #[command(flatten)]
    steer: SteerArgs,
}

/// Let a paused run continue
///
/// What the pause held back begins at once. A pause that has not begun yet is cancelled.
#[derive(Args)]
pub struct UnpauseArgs {
    #[command(flatten)]
    steer: SteerArgs,
}

/// Change the limits of a running run
///
/// The new limits apply at once, to the current session and to later ones. Limits that you do not name stay the same.
/// If no engine works on the run, give the same flags to `ekiden resume`.
#[derive(Args)]
pub struct LimitsArgs {
    #[command(flatten)]
    steer: SteerArgs<Changing>,
}

pub fn stop(args: &StopArgs, output: &mut Output) -> Result<Exit, Failure> {
    let stop = Steering::Stop { now: args.now };
    let sent = args
        .steer
        .send(limits::STOP_PATIENCE, |_, _, _| Ok(stop), output)?;
    if sent.patience > Millis(0) {
        let (run, waits) = (sent.run()?, phrase::duration(sent.patience));
        let what = sent.asked_to_stop();
        output.message(&format!("run {run} {what}; waiting up to {waits}\n"));
    }
    sent.wait_until_ended()?;
    sent.print(output)
}

pub fn next(args: &NextArgs, output: &mut Output) -> Result<Exit, Failure> {
    let hand_off = |_: &Invocation, running: &RunningRun, _: &mut Output| {
        let run = &running.summary.run;
        let mut kinds = steering::working(run).map(|relay| relay.agent().kind);
        match kinds.next() {
            // The sessions of a fleet work elsewhere.
            None if run.header().fleet.is_none() => {
                let failure = Failure::new(Exit::Unfinished, steering::NONE_AT_WORK);
                Err(failure.hint("`ekiden status` shows what the run waits for"))
            }
            Some(kind) if !kind.takes_messages() && !kinds.any(AgentKind::takes_messages) => {
                let text = format!("an agent of kind {} takes no messages", kind.name());
                let failure = Failure::new(Exit::Unfinished, text);
                Err(failure.hint("it hands off when it ends; `ekiden stop` ends its session"))
            }
            Some(_) | None => Ok(Steering::HandOff),
        }
    };
    args.steer.steer(hand_off, output)
}

pub fn pause(args: &PauseArgs, output: &mut Output) -> Result<Exit, Failure> {
    args.steer.steer(|_, _, _| Ok(Steering::Pause), output)
}

pub fn unpause(args: &UnpauseArgs, output: &mut Output) -> Result<Exit, Failure> {
    args.steer.steer(|_, _, _| Ok(Steering::Unpause), output)
}

pub fn limits(args: &LimitsArgs, output: &mut Output) -> Result<Exit, Failure> {
    let limits = |invocation: &Invocation, running: &RunningRun, output: &mut Output| {
        let limits = chosen::limits_typed(&invocation.given)?;
        if limits == LimitsChanged::default() {
            let failure = Failure::new(Exit::Usage, "no limit is named");
            let hint = "such as `ekiden limits -m 20`; `ekiden limits --help` lists them";
            return Err(failure.hint(hint));
        }
        let (given, run) = (&invocation.given, &running.summary.run);
        let is_of_run = |name: &str| run.header().has_agent(name);
        agents::check_budgets(given, &limits.bounds.agents, is_of_run)?;
        unenforced::warn(given, run, &limits.bounds, output);
        Ok(Steering::ChangeLimits(Box::new(limits)))
    };
    args.steer.steer(limits, output)
}

/// Answers a stage of a running plan, while its other stages continue.
pub(super) fn answer_running(
    invocation: &Invocation,
    workspace: Workspace,
    running: RunningRun,
    answer: Steering,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let sent = Sent::to(
        invocation,
        workspace,
        running,
        Steered::new(Uuid::new_v4(), answer),
        limits::STEER_PATIENCE,
    )?;
    sent.check_recorded()?;
    sent.print(output)
}

impl<C: Takers> SteerArgs<C> {
    /// Sends the message and waits until the run has it in its log.
    fn steer(
        &self,
        steering: impl FnOnce(&Invocation, &RunningRun, &mut Output) -> Result<Steering, Failure>,
        output: &mut Output,
    ) -> Result<Exit, Failure> {
        let sent = self.send(limits::STEER_PATIENCE, steering, output)?;
        sent.check_recorded()?;
        sent.print(output)
    }

    /// Finds the run, sends the message and waits for the answer. If the run ends first, the caller reports that.
    fn send(
        &self,
        patience: Millis,
        steering: impl FnOnce(&Invocation, &RunningRun, &mut Output) -> Result<Steering, Failure>,
        output: &mut Output,
    ) -> Result<Sent, Failure> {
        // An agent may have written a settings file that cannot be read; a person can stop it all the same.
        let invocation = Invocation::looking(self.typed.flags(), output)?;
        let workspace = invocation.workspace()?;
        let running = RunningRun::find(&workspace, self.run.as_deref());
        let running = running.map_err(|error| fleet::or_not_followed(&workspace, error))?;
        let message = Steered::new(Uuid::new_v4(), steering(&invocation, &running, output)?);
        fleet::takes(&running.summary.run, &message.steering)?;
        let patience = self.wait.unwrap_or(patience);
        Sent::to(&invocation, workspace, running, message, patience)
    }
}

/// A message that was sent to a run.
struct Sent {
    workspace: Workspace,
    there: ShownWorkDir,
    json: bool,
    running: RunningRun,
    message: Steered,
    answered: Waited,
    /// How long this command waits.
    patience: Millis,
}

impl Sent {
    /// Sends a message and waits for the engine's answer.
    fn to(
        invocation: &Invocation,
        workspace: Workspace,
        running: RunningRun,
        message: Steered,
        patience: Millis,
    ) -> Result<Self, Failure> {
        let waits = patience.clamp(limits::STEER_PATIENCE_MIN, limits::STEER_PATIENCE);
        let answered = running.send(&workspace, &message, waits)?;
        let sent = Self {
            there: invocation.shown_work_dir(&workspace)?,
            workspace,
            json: invocation.json()?,
            running,
            message,
            answered,
            patience,
        };
        let hint = match sent.running.summary.run.header().fleet.is_some() {
            true => {
                "the fleet's server or its workers may be away; `ekiden status` shows whether they hear this later"
            }
            false => "it may be suspended: continue it (`fg`), then repeat the command",
        };
        sent.check(answered, waits, "answered", hint)?;
        Ok(sent)
    }

    /// The run's id, as short as it can be.
    fn run(&self) -> Result<String, Failure> {
        let ids = run_ids(&self.workspace)?;
        Ok(phrase::short_id(self.running.summary.id(), &ids))
    }

    /// The run has the message in its log.
    fn check_recorded(&self) -> Result<(), Failure> {
        if self.answered == Waited::EngineGone {
            let text = format!("run {} ended before it got the message", self.run()?);
            return Err(Failure::new(Exit::Unfinished, text).hint("`ekiden status` shows how"));
        }
        Ok(())
    }

    /// How a person is told of the stop: the run may have been asked before, and only `--now` can add to that.
    fn asked_to_stop(&self) -> String {
        let mut relays = self.running.summary.run.relays();
        let stop = self.message.steering.stop();
        let adds = |before| stop.is_some_and(|stop| stop.outweighs(before));
        match relays.any(|(_, relay)| relay.wishes.stop.is_some_and(|before| !adds(before))) {
            false => "is asked to stop".to_owned(),
            true if stop == Some(StopRequest::Gently) => format!(
                "was already asked to stop; `ekiden stop --now{}` stops at once",
                self.there.flag()
            ),
            true => "was already asked to stop".to_owned(),
        }
    }

    fn wait_until_ended(&self) -> Result<(), Failure> {
        let waited = self.running.wait_until_ended(self.patience);
        let hint = match self.running.summary.run.header().fleet.is_some() {
            true => "its workers push what they have first, and may be waiting for the remote",
            false => "it ends as soon as it can; `ekiden stop --now` ends it at once",
        };
        match self.patience {
            Millis(0) => Ok(()),
            patience => self.check(waited, patience, "ended", hint),
        }
    }

    fn check(
        &self,
        waited: Waited,
        patience: Millis,
        done: &str,
        hint: &str,
    ) -> Result<(), Failure> {
        if waited != Waited::NotYet {
            return Ok(());
        }
        let (run, waited) = (self.run()?, phrase::duration(patience));
        let text = format!("run {run} has not {done} within {waited}");
        Err(Failure::new(Exit::Unfinished, text).hint(hint))
    }

    /// Prints the run's state now; for a person who did not wait for it, only that the run was asked.
    fn print(&self, output: &mut Output) -> Result<Exit, Failure> {
        let told = leftovers::message(self.running.ended);
        told.iter().for_each(|told| output.warn(told));
        if self.patience == Millis(0) && !self.json {
            let asked = self.asked_to_stop();
            let what = match &self.message.steering {
                Steering::Stop { .. } => asked.as_str(),
                Steering::HandOff => "is asked to have its sessions hand off",
                Steering::Pause => "is asked to pause",
                Steering::Unpause => "is asked to continue",
                Steering::Instruct { .. } => "is asked to tell its next session",
                Steering::Answer { .. } => "is asked to take the answer",
                Steering::ChangeLimits(_) => "is asked to change its limits",
            };
            let text = format!("run {} {what}", self.run()?);
            let rest = format!("; `ekiden status{}` shows when it does", self.there.flag());
            output.line(Line::new(Tone::Plain, text).with(Tone::Quiet, rest));
            return Ok(Exit::Done);
        }
        let holder = history::holder(&self.workspace);
        let mut now = RunStatus::read(&self.workspace, self.running.summary.id(), holder)?;
        now.look_at_work(&self.workspace);
        // The status does not show all of them.
        let is_told = match self.message.steering {
            Steering::ChangeLimits(_) | Steering::Answer { .. } => !self.json,
            Steering::Stop { .. }
            | Steering::HandOff
            | Steering::Pause
            | Steering::Unpause
            | Steering::Instruct { .. } => false,
        };
        let told = steering::steered(&self.message, &now.summary.run, false, "", &self.there);
        let told = told.filter(|_| is_told);
        let lines = told.iter().flat_map(|entry| &entry.lines);
        lines.for_each(|line| output.line(line));
        now.print(&self.workspace, &self.there, self.json, output)?;
        Ok(Exit::Done)
    }
}
