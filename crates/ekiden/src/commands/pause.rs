//! `ekiden pause`: lets nothing begin in a running run.

use clap::Args;
use ekiden_core::limits;
use ekiden_core::steering::Steering;

use super::steer::{Steer, SteerArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  ekiden pause               the run here: nothing begins after the session at work
  ekiden unpause             go on
";

/// Pause a running run after the session at work
///
/// The session goes on to its own end and hands off, and what it left is verified. After that no agent
/// starts, for another attempt neither, until `ekiden unpause`. The pause outlasts a crash of ekiden;
/// it ends when somebody resumes a run that was ended meanwhile.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub struct PauseArgs {
    #[command(flatten)]
    steer: SteerArgs,
}

/// Runs the command.
///
/// # Errors
///
/// If nothing works on the run, or it does not answer.
pub fn pause(args: &PauseArgs, output: &mut Output) -> Result<Exit, Failure> {
    let steer = Steer::send(&args.steer, Steering::Pause, limits::STEER_PATIENCE)?;
    steer.wait_until_taken()?;
    steer.tell(output)
}
