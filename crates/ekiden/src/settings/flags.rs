//! Flags on the command line, made from the table.

use std::marker::PhantomData;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

use super::given::Flags;
use super::table::{self, Group, Row, TABLE, Takes};

/// The flags that were typed, from those that the commands of `C` take.
#[derive(Debug, Clone)]
pub struct Typed<C> {
    flags: Flags,
    commands: PhantomData<C>,
}

/// Some commands, by the flags that they take.
pub trait Takers {
    const GROUPS: &'static [Group];
    /// Settings whose flags are refused with a hint, so that help does not list them.
    const HIDDEN: &'static [&'static str] = &[];
}

macro_rules! takers {
    ($($(#[$doc:meta])* $name:ident: $($group:ident)+ $(, hides $($hidden:literal)+)?;)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub enum $name {}

        impl Takers for $name {
            const GROUPS: &'static [Group] = &[$(Group::$group),+];
            $(const HIDDEN: &'static [&'static str] = &[$($hidden),+];)?
        }
    )+};
}

takers! {
    /// Commands that start a run.
    Starting: All Show State Agent Fallback Permission Budget Relay Guided Result Run;
    /// Commands that start a plan.
    Executing: All Show State Agent Fallback Permission Budget Relay Guided Result Run,
        hides "tui" "guided" "branch" "verify";
    /// Commands that start runs in the background, each with its own branch.
    Dispatching: All Show State Agent Fallback Permission Budget Relay Guided Result Run,
        hides "tui" "guided" "branch";
    /// Commands that continue a run.
    Resuming: All Show State Permission Budget Relay Guided;
    /// Commands that change the limits of a run.
    Changing: All Budget Relay;
    /// Commands that only ask.
    Asking: All;
    /// Commands that ask, and may run a session.
    Reporting: All State;
    /// Commands that only plan.
    Planning: All Show State Agent Permission Budget;
}

impl<C> Typed<C> {
    pub fn flags(&self) -> Flags {
        self.flags.clone()
    }
}

impl<C: Takers> Args for Typed<C> {
    fn augment_args(command: Command) -> Command {
        // A command that takes no agent is about a run, which keeps the settings that it was started with.
        let is_new = C::GROUPS.contains(&Group::Agent);
        rows::<C>().fold(command, |command, row| {
            let is_hidden = C::HIDDEN.contains(&row.name);
            let default = row.default.filter(|_| is_new || row.group == Group::All);
            let args = args_of(row, default).into_iter();
            command.args(args.map(|arg| match is_hidden {
                true => arg.hide(true),
                false => arg,
            }))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<C: Takers> FromArgMatches for Typed<C> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let typed = rows::<C>().filter_map(|row| Some((row.name, text_of(row, matches)?)));
        Ok(Self {
            flags: typed.collect(),
            commands: PhantomData,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn rows<C: Takers>() -> impl Iterator<Item = &'static Row> {
    let rows = TABLE.iter().copied();
    rows.filter(|row| C::GROUPS.contains(&row.group))
}

/// How these flags would be typed.
pub fn words(flags: &Flags) -> Vec<String> {
    let mut words = Vec::new();
    for (name, text) in flags {
        let Some((row, flag)) = table::find(name).and_then(|row| Some((row, row.flag(text)?)))
        else {
            continue;
        };
        match row.takes {
            Takes::Switch => words.push(flag),
            Takes::Maybe(_) => words.push(format!("{flag}={text}")),
            Takes::One(_) | Takes::Commas(_) | Takes::Words(_) => {
                words.extend([flag, text.clone()]);
            }
            Takes::Lines(_) => {
                let lines = text.lines();
                words.extend(lines.flat_map(|line| [flag.clone(), line.to_owned()]));
            }
        }
    }
    words
}

fn args_of(row: &'static Row, default: Option<&str>) -> Vec<Arg> {
    let mut arg = Arg::new(row.name).long(row.long().unwrap_or_default());
    arg = arg
        .help(row.doc)
        .short(row.short)
        .help_heading(row.group.heading());
    let (value, action) = match row.takes {
        Takes::Switch => {
            let off = off(row);
            let opposite = Arg::new(&off).long(&off).hide(true);
            return vec![
                arg.action(ArgAction::SetTrue).overrides_with(off),
                opposite.action(ArgAction::SetTrue).overrides_with(row.name),
            ];
        }
        Takes::Maybe(value) => {
            arg = arg
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value(Takes::UNSAID);
            (value, ArgAction::Set)
        }
        Takes::One(value) | Takes::Commas(value) | Takes::Words(value) => (value, ArgAction::Set),
        Takes::Lines(value) => (value, ArgAction::Append),
    };
    if let Some(default) = default {
        arg = arg.help(format!("{} [default: {default}]", row.doc));
    }
    let arg = arg.value_name(value).action(action);
    vec![arg.allow_hyphen_values(true)]
}

/// The flag that turns a switch off, without the dashes.
fn off(row: &Row) -> String {
    let flag = row.flag("false").unwrap_or_default();
    flag.trim_start_matches('-').to_owned()
}

/// What was typed for a setting. The form is checked with the other sources.
fn text_of(row: &Row, matches: &ArgMatches) -> Option<String> {
    let typed = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    match row.takes {
        Takes::Switch if typed(row.name) => Some("true".to_owned()),
        Takes::Switch => typed(&off(row)).then(|| "false".to_owned()),
        Takes::One(_) | Takes::Maybe(_) | Takes::Commas(_) | Takes::Words(_) | Takes::Lines(_) => {
            let values: Vec<String> = matches.get_many(row.name)?.cloned().collect();
            Some(values.join("\n"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed<C: Takers>(
        words: &[&str],
    ) -> Result<Vec<(&'static str, String)>, clap::error::ErrorKind> {
        let command = Typed::<C>::augment_args(Command::new("ekiden"));
        let matches = command
            .try_get_matches_from([&["ekiden"], words].concat())
            .map_err(|e| e.kind())?;
        Ok(Typed::<C>::from_arg_matches(&matches)
            .unwrap()
            .flags()
            .into_iter()
            .collect())
    }

    // shows: RUN-03
    #[test]
    fn every_flag_of_the_table_is_understood() {
        for row in TABLE {
            let Some(long) = row.long() else { continue };
            let (words, text) = if matches!(row.takes, Takes::Maybe(_)) {
                let bare = [format!("--{long}")];
                let bare: Vec<&str> = bare.iter().map(String::as_str).collect();
                let unsaid = vec![(row.name, Takes::UNSAID.to_owned())];
                assert_eq!(typed::<Starting>(&bare), Ok(unsaid));
                (vec![format!("--{long}=-x")], "-x")
            } else if row.takes == Takes::Switch {
                (vec![format!("--{long}")], "true")
            } else {
                (vec![format!("--{long}"), "-x".to_owned()], "-x")
            };
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            assert_eq!(
                typed::<Starting>(&words),
                Ok(vec![(row.name, text.to_owned())])
            );
        }
    }

    // shows: REL-26
    #[test]
    fn flags_become_the_words_that_say_the_same() {
        let line = [
            "--allowed-tool",
            "Read",
            "--allowed-tool",
            "Bash(a b)",
            "--max-sessions",
            "3",
            "--no-notify",
            "--tui",
            "--verify",
            "-x",
        ];
        let flags: Flags = typed::<Starting>(&line).unwrap().into_iter().collect();
        assert_eq!(words(&flags), line);
    }

    // shows: UIX-07, RUN-11
    #[test]
    fn a_command_about_a_run_names_no_default_beside_what_the_run_was_started_with() {
        let help = |mut command: Command| command.render_long_help().to_string();
        let resume = help(Typed::<Resuming>::augment_args(Command::new("resume")));
        assert_eq!(resume.matches("[default: ").count(), 1, "{resume}");
        assert!(resume.contains("[default: .]"), "{resume}");
        let run = help(Typed::<Starting>::augment_args(Command::new("run")));
        assert!(run.contains("[default: 10]"), "{run}");
    }

    #[test]
    fn what_was_not_typed_was_not_said() {
        assert_eq!(typed::<Starting>(&[]), Ok(vec![]));
    }

    #[test]
    fn lists_add_up_and_switches_can_be_switched_off() {
        let rules =
            typed::<Starting>(&["--allowed-tool", "Read", "--allowed-tool", "Bash(a b)"]).unwrap();
        assert_eq!(rules, [("allowed_tool", "Read\nBash(a b)".to_owned())]);
        assert_eq!(
            typed::<Asking>(&["--no-json"]).unwrap(),
            [("json", "false".to_owned())]
        );
        assert_eq!(
            typed::<Asking>(&["--no-json", "--json"]).unwrap(),
            [("json", "true".to_owned())]
        );
    }

    #[test]
    fn each_command_takes_only_its_own_flags() {
        assert!(typed::<Resuming>(&["-m", "3"]).is_ok());
        assert!(typed::<Resuming>(&["--verify", "x"]).is_err());
        assert!(typed::<Asking>(&["-m", "3"]).is_err());
        assert!(typed::<Planning>(&["--fallback", "codex"]).is_err());
        assert!(typed::<Changing>(&["-m", "3"]).is_ok());
        assert!(typed::<Changing>(&["--guided"]).is_err());
        assert!(
            typed::<Changing>(&["--skip-permissions"]).is_err(),
            "that is no limit"
        );
    }
}
