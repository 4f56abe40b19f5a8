//! `ekiden hook` and `ekiden statusline`: what Claude Code calls. Usually both are done before
//! a command line is read whole, since they have milliseconds; what stands here is their help.

use std::ffi::OsString;

use clap::Args;

use crate::exit::Exit;
use crate::guard;

const HOOK_EXAMPLES: &str = "\
Examples:
  ekiden hook PostToolBatch < input.json     as Claude Code calls it
  ekiden hook SessionStart --plugin          as ekiden's plugin calls it
";

const STATUSLINE_EXAMPLES: &str = "\
Examples:
  ekiden statusline < input.json                 as Claude Code calls it
  ekiden statusline --wrap ~/bin/my-statusline   the guard's line, and below it another program's
";

/// What Claude Code calls at each moment of a session
///
/// `ekiden setup` installs it. It reads what the client says on standard input, answers on standard
/// output, and never fails a session: whatever is wrong, the client goes on by its own rules.
#[derive(Args)]
#[command(before_help = HOOK_EXAMPLES)]
pub struct HookArgs {
    /// The client's name of the moment; what it says on standard input decides
    #[arg(value_name = "EVENT")]
    _event: String,
    /// Called by the plugin: stands aside where `ekiden setup` is installed too
    #[arg(long)]
    plugin: bool,
}

/// The line that Claude Code shows below its prompt
///
/// `ekiden setup` installs it.
#[derive(Args)]
#[command(before_help = STATUSLINE_EXAMPLES)]
pub struct StatuslineArgs {
    /// Another program's line, shown below
    #[arg(long, value_name = "COMMAND")]
    wrap: Option<OsString>,
}

/// One call of a hook.
pub fn hook(args: &HookArgs) -> Exit {
    guard::hook(args.plugin)
}

/// One call of the status line.
pub fn statusline(args: &StatuslineArgs) -> Exit {
    guard::statusline(args.wrap.as_deref())
}
