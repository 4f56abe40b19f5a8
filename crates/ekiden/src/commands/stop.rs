//! `ekiden stop`: ends a run from another terminal.

use clap::Args;
use ekiden_core::limits;
use ekiden_core::steering::Steering;
use ekiden_core::time::Millis;

use super::steer::{Steer, SteerArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, phrase};

const EXAMPLES: &str = "\
Examples:
  ekiden stop                the run here: its session hands off first
  ekiden stop --now          at once, without a handoff
  ekiden stop 7f3a --wait 0s ask the run whose id begins so, and do not wait
";

/// Stop a running run, from another terminal
///
/// As ctrl-c where it runs: the session at work is asked to hand off, then the run ends, and `ekiden
/// resume` carries it on. With `--now` as ctrl-c twice. Waits until the run has ended, for 5 minutes
/// unless told otherwise, and says how it stands.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub struct StopArgs {
    /// Stop at once; a resume begins the session again or goes on with its conversation
    #[arg(long)]
    now: bool,
    #[command(flatten)]
    steer: SteerArgs,
}

/// Runs the command.
///
/// # Errors
///
/// If nothing works on the run, or it does not end in time.
pub fn stop(args: &StopArgs, output: &mut Output) -> Result<Exit, Failure> {
    let steer = Steer::send(&args.steer, Steering::Stop { now: args.now }, limits::STOP_PATIENCE)?;
    if steer.patience() > Millis(0) {
        let (run, waits) = (steer.run()?, phrase::duration(steer.patience()));
        output.talk(&format!("run {run} is asked to stop; waiting up to {waits}\n"));
    }
    steer.wait_until_ended()?;
    steer.tell(output)
}
