//! What `stop`, `pause`, `unpause` and `limits` have in common: find the run, leave a message, say what came of it.

use clap::Args;
use ekiden_core::ids::MessageId;
use ekiden_core::steering::Steering;
use ekiden_core::time::Millis;
use ekiden_engine::clock::{Clock as _, SystemClock};
use ekiden_engine::history;
use ekiden_engine::steering::{RunningRun, Waited};
use ekiden_engine::workspace::Workspace;
use ekiden_store::inbox::Message;

use super::{Scene, run_ids, status};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::output::line::{Line, Tone};
use crate::output::phrase;
use crate::settings::flags::{Asking, Typed};
use crate::settings::form;
use crate::settings::given::Flags;

/// The arguments of every command that steers a run.
#[derive(Args)]
pub struct SteerArgs {
    /// The beginning of the run's id [default: the run that works here]
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// How long to wait until it has happened, such as 30s, 5m; 0s to leave the message and go
    #[arg(long, value_name = "DURATION", value_parser = form::duration)]
    wait: Option<Millis>,
    #[command(flatten)]
    typed: Typed<Asking>,
}

/// A message on its way.
pub struct Steer {
    workspace: Workspace,
    json: bool,
    running: RunningRun,
    message: Message<Steering>,
    patience: Millis,
}

impl Steer {
    /// Finds the run and leaves the message.
    ///
    /// # Errors
    ///
    /// If there is no such run, nothing works on it, or the message cannot be written.
    pub fn send(args: &SteerArgs, steering: Steering, patience: Millis) -> Result<Self, Failure> {
        let patience = args.wait.unwrap_or(patience);
        Self::send_to(args.typed.flags(), args.run.as_deref(), patience, |_| Ok(steering))
    }

    /// The same for a command with flags of its own, from which the message follows.
    ///
    /// # Errors
    ///
    /// As [`Steer::send`], and if there is no message.
    pub fn send_to(
        flags: Flags,
        run: Option<&str>,
        patience: Millis,
        steering: impl FnOnce(&Scene) -> Result<Steering, Failure>,
    ) -> Result<Self, Failure> {
        let scene = Scene::set(flags)?;
        let workspace = scene.workspace()?;
        let steering = steering(&scene)?;
        let running = RunningRun::find(&workspace, run)?;
        let message = Message { id: new_id()?, time: SystemClock.now(), body: steering };
        running.send(&message)?;
        Ok(Self { workspace, json: scene.json()?, running, message, patience })
    }

    /// The run's id, as short as it can be.
    ///
    /// # Errors
    ///
    /// If the runs cannot be listed.
    pub fn run(&self) -> Result<String, Failure> {
        Ok(phrase::short_id(self.running.summary.id(), &run_ids(&self.workspace)?))
    }

    /// How long this command waits.
    #[must_use]
    pub fn patience(&self) -> Millis {
        self.patience
    }

    /// Waits until the engine has the message in its log.
    ///
    /// # Errors
    ///
    /// If the engine ended before, or does not answer in time.
    pub fn wait_until_taken(&self) -> Result<(), Failure> {
        match self.running.wait_until_taken(&self.message, self.patience)? {
            Waited::Done => Ok(()),
            Waited::NotYet if self.patience == Millis(0) => Ok(()),
            Waited::NotYet => {
                let (run, waited) = (self.run()?, phrase::duration(self.patience));
                Err(Failure::new(Exit::Unfinished, format!("run {run} has not answered within {waited}"))
                    .hint("the message stays, and counts as soon as it is read"))
            }
            Waited::EngineGone => {
                let text = format!("run {} ended before it could be told", self.run()?);
                Err(Failure::new(Exit::Unfinished, text).hint("`ekiden status` shows how"))
            }
        }
    }

    /// Waits until the engine has ended.
    ///
    /// # Errors
    ///
    /// If it does not end in time.
    pub fn wait_until_ended(&self) -> Result<(), Failure> {
        match self.running.wait_until_ended(self.patience)? {
            Waited::Done | Waited::EngineGone => Ok(()),
            Waited::NotYet if self.patience == Millis(0) => Ok(()),
            Waited::NotYet => {
                let (run, waited) = (self.run()?, phrase::duration(self.patience));
                Err(Failure::new(Exit::Unfinished, format!("run {run} has not ended within {waited}"))
                    .hint("it ends as soon as it can; `ekiden stop --now` ends it at once"))
            }
        }
    }

    /// Says how the run stands now; for people who did not wait for it, that it was told.
    ///
    /// # Errors
    ///
    /// If its log cannot be read.
    pub fn tell(&self, output: &mut Output) -> Result<Exit, Failure> {
        if self.patience == Millis(0) && !self.json {
            let what = match &self.message.body {
                Steering::Stop { .. } => "stop",
                Steering::Pause => "pause",
                Steering::Unpause => "go on",
                Steering::Instruct { .. } => "tell its next session",
                Steering::ChangeLimits(_) => "change its limits",
            };
            let text = format!("run {} is asked to {what}", self.run()?);
            output.line(
                &Line::new(Tone::Plain, text).with(Tone::Quiet, "; `ekiden status` shows when it does"),
            );
            return Ok(Exit::Done);
        }
        let now = history::read(&self.workspace, self.running.summary.id(), |_, _| {})?;
        status::tell_one(&self.workspace, &now, self.json, output)?;
        Ok(Exit::Done)
    }
}

/// The id of a new message.
///
/// # Errors
///
/// None that can be met.
pub fn new_id() -> Result<MessageId, Failure> {
    let text = uuid::Uuid::new_v4().to_string();
    MessageId::try_from(text).map_err(|error| Failure::caused(Exit::Bug, "cannot make a message", &error))
}
