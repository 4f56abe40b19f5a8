//! `ekiden unpause`: lets a paused run go on.

use clap::Args;
use ekiden_core::limits;
use ekiden_core::steering::Steering;

use super::steer::{Steer, SteerArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  ekiden unpause             the run here goes on
  ekiden unpause 7f3a        the run whose id begins so
";

/// Let a paused run go on
///
/// What the pause held back begins at once. A pause that has not begun yet is taken back.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub struct UnpauseArgs {
    #[command(flatten)]
    steer: SteerArgs,
}

/// Runs the command.
///
/// # Errors
///
/// If nothing works on the run, or it does not answer.
pub fn unpause(args: &UnpauseArgs, output: &mut Output) -> Result<Exit, Failure> {
    let steer = Steer::send(&args.steer, Steering::Unpause, limits::STEER_PATIENCE)?;
    steer.wait_until_taken()?;
    steer.tell(output)
}
