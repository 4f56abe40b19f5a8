//! `ekiden mcp`: the MCP server, on standard input and output.

use clap::Args;

use crate::exit::Exit;
use crate::failure::{Failure, OrFail as _};
use crate::memory::mcp;
use crate::output::Output;

/// Serve the memory to an agent over MCP
///
/// Its tools search what earlier sessions left, read what earlier sessions of the same run saw and said, show how full the
/// context is, and write a handoff. The server reads and writes only ekiden's own files and uses no network. With
/// `mcp = false` it has no tools.
#[derive(Args)]
pub struct McpArgs {
    /// Called by the plugin: has no tools if `ekiden setup` is installed too
    #[arg(long, hide = true)]
    plugin: bool,
    /// Called for a run; any other server has no tools in its sessions
    #[arg(long, hide = true)]
    run: bool,
}

pub fn mcp(args: &McpArgs, _output: &mut Output) -> Result<Exit, Failure> {
    mcp::serve(args.plugin, args.run).or_fail(Exit::Unfinished, "cannot serve MCP")?;
    Ok(Exit::Done)
}
