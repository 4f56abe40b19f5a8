//! `ekiden man`: the manual, a page for each command.
//!
//! The pages are made on demand, so they always fit this version of the program.

use std::io;

use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::exit::Exit;
use crate::failure::{Failure, OrFail as _};
use crate::output::Output;

/// Print a page of the manual
#[derive(Args)]
pub struct ManArgs {
    /// The command, such as `run` or `config show` [default: ekiden itself]
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
}

pub fn man(
    args: &ManArgs,
    definition: fn() -> Command,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let mut definition = definition();
    definition.build();
    let mut names = args.command.iter();
    let command = names.try_fold(&definition, |above, name| below(above, name))?;
    output.answer(&page(command).or_fail(Exit::Bug, "cannot make the page")?);
    Ok(Exit::Done)
}

fn below<'a>(above: &'a Command, name: &str) -> Result<&'a Command, Failure> {
    above.find_subcommand(name).ok_or_else(|| {
        let known = above.get_subcommands().map(Command::get_name);
        Failure::new(Exit::Usage, format!("there is no command `{name}`")).suggest(
            name,
            known,
            "`ekiden --help` lists the commands",
        )
    })
}

/// The page as roff: examples right after what it is.
fn page(command: &Command) -> io::Result<String> {
    let version = concat!("ekiden ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).source(version);
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    examples(command).to_writer(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    if command.get_after_help().is_some() {
        man.render_extra_section(&mut page)?;
    }
    Ok(String::from_utf8_lossy(&page).into_owned())
}

fn examples(command: &Command) -> Roff {
    let text = command
        .get_before_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    let mut roff = Roff::new();
    roff.control("SH", ["EXAMPLES"]).control("nf", []);
    for line in text.lines().skip(1) {
        roff.text([roman(line.trim_start())]);
    }
    roff.control("fi", []);
    roff
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli;

    // shows: UIX-07
    #[test]
    fn every_command_has_a_page_with_its_examples() {
        let mut definition = cli::definition();
        definition.build();
        for command in definition.get_subcommands().chain([&definition]) {
            let page = page(command).unwrap();
            let of = command.get_name();
            let head = page.lines().find(|line| line.starts_with(".TH"));
            assert!(
                head.is_some_and(|head| head.contains("\"ekiden ")),
                "{page}"
            );
            assert!(
                page.contains(".SH EXAMPLES\n.nf\n") && page.contains(".SH SYNOPSIS"),
                "{of}: {page}"
            );
        }
    }

    #[test]
    fn an_unknown_command_is_told_with_the_nearest() {
        let failure = below(&cli::definition(), "statsu").unwrap_err();
        assert_eq!(
            failure.to_string(),
            "error: there is no command `statsu`\nhint: did you mean `status`?"
        );
    }
}
