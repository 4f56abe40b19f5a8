//! Flags on the command line, made from the table.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

use super::given::Flags;
use super::table::{self, Row, TABLE, Takes, UsedBy};

/// The flags that were typed, of those that the commands of `C` take.
#[derive(Debug, Clone)]
pub struct Typed<C> {
    flags: Flags,
    commands: PhantomData<C>,
}

/// Some commands, by the flags that they take.
pub trait Takers {
    /// Whether they take a setting's flag.
    fn take(row: &Row) -> bool;
}

/// Commands that start a run.
#[derive(Debug, Clone)]
pub enum Starting {}

/// Commands that carry a run on.
#[derive(Debug, Clone)]
pub enum Resuming {}

/// Commands that change the limits of a run.
#[derive(Debug, Clone)]
pub enum Changing {}

/// Commands that only ask.
#[derive(Debug, Clone)]
pub enum Asking {}

/// Commands that only plan.
#[derive(Debug, Clone)]
pub enum Planning {}

/// What a planning session goes by: the agent, what it may do, what it may use.
static PLANNING: [&Row; 18] = [
    &table::WORK_DIR.row,
    &table::AGENT.row,
    &table::AGENT_COMMAND.row,
    &table::MODEL.row,
    &table::PERMISSION_MODE.row,
    &table::SKIP_PERMISSIONS.row,
    &table::ALLOWED_TOOL.row,
    &table::SAFE_MODE.row,
    &table::ISOLATED.row,
    &table::SESSION_TIMEOUT.row,
    &table::MAX_TURNS.row,
    &table::SESSION_BUDGET.row,
    &table::RUN_BUDGET.row,
    &table::SESSION_TOKENS.row,
    &table::RUN_TOKENS.row,
    &table::VERBOSE.row,
    &table::JSON.row,
    &table::STATE_DIR.row,
];

impl Takers for Planning {
    fn take(row: &Row) -> bool {
        PLANNING.iter().any(|taken| taken.name == row.name)
    }
}

impl Takers for Starting {
    fn take(row: &Row) -> bool {
        match row.used_by {
            UsedBy::Run | UsedBy::Watching | UsedBy::RunAndResume | UsedBy::All => true,
            UsedBy::None => false,
        }
    }
}

impl Takers for Resuming {
    fn take(row: &Row) -> bool {
        match row.used_by {
            UsedBy::Watching | UsedBy::RunAndResume | UsedBy::All => true,
            UsedBy::Run | UsedBy::None => false,
        }
    }
}

impl Takers for Changing {
    fn take(row: &Row) -> bool {
        match row.used_by {
            UsedBy::RunAndResume | UsedBy::All => true,
            UsedBy::Run | UsedBy::Watching | UsedBy::None => false,
        }
    }
}

impl Takers for Asking {
    fn take(row: &Row) -> bool {
        match row.used_by {
            UsedBy::All => true,
            UsedBy::Run | UsedBy::Watching | UsedBy::RunAndResume | UsedBy::None => false,
        }
    }
}

impl<C> Typed<C> {
    /// What was typed.
    #[must_use]
    pub fn flags(&self) -> Flags {
        self.flags.clone()
    }
}

impl<C: Takers> Args for Typed<C> {
    fn augment_args(command: Command) -> Command {
        rows::<C>().fold(command, |command, (row, long)| command.args(args_of(row, long)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<C: Takers> FromArgMatches for Typed<C> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let typed = |row: &Row| text_of(row, matches).map(|text| (row.name, text));
        let flags: BTreeMap<_, _> = rows::<C>().filter_map(|(row, _)| typed(row)).collect();
        Ok(Self { flags, commands: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn rows<C: Takers>() -> impl Iterator<Item = (&'static Row, &'static str)> {
    let rows = TABLE.iter().map(|setting| setting.row()).filter(|row| C::take(row));
    rows.filter_map(|row| row.long.map(|long| (row, long)))
}

fn args_of(row: &'static Row, long: &'static str) -> Vec<Arg> {
    let arg = Arg::new(row.name).long(long).help(help_of(row));
    let arg = match row.short {
        Some(short) => arg.short(short),
        None => arg,
    };
    match row.takes {
        Takes::One(value) => vec![arg.value_name(value).allow_hyphen_values(true)],
        Takes::Many(value) => vec![arg.value_name(value).action(ArgAction::Append).allow_hyphen_values(true)],
        Takes::Nothing { off } => {
            let opposite = Arg::new(off).long(off).action(ArgAction::SetTrue).hide(true);
            vec![arg.action(ArgAction::SetTrue).overrides_with(off), opposite.overrides_with(row.name)]
        }
    }
}

fn help_of(row: &Row) -> String {
    match (row.takes, row.default) {
        (Takes::One(_) | Takes::Many(_), Some(default)) => format!("{} [default: {default}]", row.doc),
        (Takes::One(_) | Takes::Many(_), None) | (Takes::Nothing { .. }, _) => row.doc.to_owned(),
    }
}

/// What was typed for a setting. The form is checked with the other sources.
fn text_of(row: &Row, matches: &ArgMatches) -> Option<String> {
    let typed = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    match row.takes {
        Takes::One(_) => matches.get_one(row.name).cloned(),
        Takes::Many(_) => {
            let values: Vec<String> = matches.get_many(row.name)?.cloned().collect();
            Some(values.join("\n"))
        }
        Takes::Nothing { .. } if typed(row.name) => Some("true".to_owned()),
        Takes::Nothing { off } => typed(off).then(|| "false".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed<C: Takers>(words: &[&str]) -> Result<Vec<(&'static str, String)>, clap::error::ErrorKind> {
        let command = Typed::<C>::augment_args(Command::new("ekiden"));
        let matches = command.try_get_matches_from([&["ekiden"], words].concat()).map_err(|e| e.kind())?;
        Ok(Typed::<C>::from_arg_matches(&matches).unwrap().flags().into_iter().collect())
    }

    // shows: RUN-03
    #[test]
    fn every_flag_of_the_table_is_understood() {
        for setting in TABLE {
            let row = setting.row();
            let Some(long) = row.long else { continue };
            let (words, text) = match row.takes {
                Takes::One(_) | Takes::Many(_) => (vec![format!("--{long}"), "-x".to_owned()], "-x"),
                Takes::Nothing { .. } => (vec![format!("--{long}")], "true"),
            };
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            assert_eq!(typed::<Starting>(&words), Ok(vec![(row.name, text.to_owned())]));
        }
    }

    #[test]
    fn what_was_not_typed_was_not_said() {
        assert_eq!(typed::<Starting>(&[]), Ok(vec![]));
    }

    #[test]
    fn lists_add_up_and_switches_can_be_switched_off() {
        let rules = typed::<Starting>(&["--allowed-tool", "Read", "--allowed-tool", "Bash(a b)"]).unwrap();
        assert_eq!(rules, [("allowed_tool", "Read\nBash(a b)".to_owned())]);
        assert_eq!(typed::<Asking>(&["--no-json"]).unwrap(), [("json", "false".to_owned())]);
        assert_eq!(typed::<Asking>(&["--no-json", "--json"]).unwrap(), [("json", "true".to_owned())]);
    }

    #[test]
    fn each_command_takes_only_its_own_flags() {
        assert!(typed::<Resuming>(&["-m", "3"]).is_ok());
        assert!(typed::<Resuming>(&["--verify", "x"]).is_err());
        assert!(typed::<Asking>(&["-m", "3"]).is_err());
        assert!(typed::<Changing>(&["-m", "3"]).is_ok());
        assert!(typed::<Changing>(&["--guided"]).is_err());
        assert!(typed::<Changing>(&["--skip-permissions"]).is_err(), "that is no limit");
    }
}
