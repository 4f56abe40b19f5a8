//! `ekiden hook` and `ekiden statusline`, which Claude Code calls. Usually both are answered before the
//! command line is parsed, since they have only milliseconds. This file holds their help.

use std::ffi::OsString;

use clap::Args;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::guard::{self, Called};
use crate::output::Output;

/// Answer a hook of Claude Code
///
/// `ekiden setup` installs it. It reads the hook's input from standard input, answers on standard output, and never makes
/// a session fail: if anything goes wrong, Claude Code continues by its own rules.
#[derive(Args)]
pub struct HookArgs {
    /// Claude Code's name of the event; the input on standard input decides
    #[arg(value_name = "EVENT")]
    _event: String,
    /// Called by the plugin: does nothing if `ekiden setup` is installed too
    #[arg(long)]
    plugin: bool,
    /// Called by the mod, the guard's function inside Claude Code: also says until when it need not call again
    #[arg(long = "mod")]
    by_mod: bool,
}

/// Print the status line of Claude Code
///
/// `ekiden setup` installs it.
#[derive(Args)]
pub struct StatuslineArgs {
    /// Show this command's status line below
    #[arg(long, value_name = "COMMAND")]
    wrap: Option<OsString>,
}

pub fn hook(args: &HookArgs, _output: &mut Output) -> Result<Exit, Failure> {
    Ok(guard::hook(Called {
        by_plugin: args.plugin,
        by_mod: args.by_mod,
    }))
}

pub fn statusline(args: &StatuslineArgs, _output: &mut Output) -> Result<Exit, Failure> {
    Ok(guard::statusline(args.wrap.as_deref()))
}
