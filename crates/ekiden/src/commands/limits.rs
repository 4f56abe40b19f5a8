//! `ekiden limits`: changes the limits of a running run.

use clap::Args;
use ekiden_core::event::LimitsChanged;
use ekiden_core::limits;
use ekiden_core::steering::Steering;
use ekiden_core::time::Millis;

use super::resume;
use super::steer::Steer;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::settings::flags::{Changing, Typed};
use crate::settings::form;

const EXAMPLES: &str = "\
Examples:
  ekiden limits -m 20                    20 sessions from here, the one at work included
  ekiden limits --run-budget 15          for all that the run spent before as well
  ekiden limits --session-timeout 1h     for the session at work, too
";

/// Change the limits of a running run
///
/// They hold at once, for the session at work too, and stay for those after it. What is not named stays
/// as it is. For a run that nothing works on, `ekiden resume` takes the same flags.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub struct LimitsArgs {
    /// The beginning of the run's id [default: the run that works here]
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// How long to wait until the run has heard it, such as 30s, 5m; 0s to leave the message and go
    #[arg(long, value_name = "DURATION", value_parser = form::duration)]
    wait: Option<Millis>,
    #[command(flatten)]
    typed: Typed<Changing>,
}

/// Runs the command.
///
/// # Errors
///
/// If no limit is named, nothing works on the run, or it does not answer.
pub fn limits(args: &LimitsArgs, output: &mut Output) -> Result<Exit, Failure> {
    let patience = args.wait.unwrap_or(limits::STEER_PATIENCE);
    let steer = Steer::send_to(args.typed.flags(), args.run.as_deref(), patience, |scene| {
        match resume::limits(&scene.given)? {
            nothing if nothing == LimitsChanged::default() => {
                let failure = Failure::new(Exit::Usage, "no limit is named".to_owned());
                Err(failure.hint("such as `ekiden limits -m 20`; `ekiden limits --help` lists them"))
            }
            limits => Ok(Steering::ChangeLimits(Box::new(limits))),
        }
    })?;
    steer.wait_until_taken()?;
    steer.tell(output)
}
