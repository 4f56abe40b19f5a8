//! `ekiden mcp`: the MCP server, on standard input and output.

use clap::Args;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::memory::mcp;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  ekiden mcp                                    as an MCP client starts it
  claude mcp add ekiden -- ekiden mcp           for sessions that you start yourself
";

/// Serve the memory to an agent by MCP
///
/// Its tools search what earlier sessions left, read what the sessions before in the same run saw and said, tell how
/// full the context is, and write a handoff. It reads and writes nothing but ekiden's own files, and goes to no
/// network. `mcp = false` keeps it out of runs.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub struct McpArgs {}

pub fn mcp(_args: &McpArgs, _output: &mut Output) -> Result<Exit, Failure> {
    mcp::serve().map_err(|error| Failure::caused(Exit::Unfinished, "cannot serve MCP", &error))?;
    Ok(Exit::Done)
}
