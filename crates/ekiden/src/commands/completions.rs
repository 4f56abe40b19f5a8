//! `ekiden completions`: what a shell needs to complete commands and flags.

use clap::Args;
use clap_complete::{Shell, generate};

use crate::cli;
use crate::exit::Exit;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  ekiden completions bash > ~/.local/share/bash-completion/completions/ekiden
  ekiden completions zsh > ~/.zfunc/_ekiden          a directory of $fpath
  ekiden completions fish > ~/.config/fish/completions/ekiden.fish
";

/// Print what a shell needs to complete commands and flags
///
/// Begin a new shell afterwards. Print it again after an update of ekiden.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Runs the command.
pub fn completions(args: &CompletionsArgs, output: &mut Output) -> Exit {
    let mut script = Vec::new();
    generate(args.shell, &mut cli::definition(), "ekiden", &mut script);
    output.answer(&String::from_utf8_lossy(&script));
    Exit::Done
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    // shows: UIX-07
    #[test]
    fn every_shell_gets_every_command() {
        for shell in Shell::value_variants() {
            let mut script = Vec::new();
            generate(*shell, &mut cli::definition(), "ekiden", &mut script);
            let script = String::from_utf8(script).unwrap();
            for name in cli::command_names() {
                assert!(script.contains(&name), "{shell} does not complete `{name}`");
            }
        }
    }
}
