//! What a setting is: the row of the table that says everything about it, and how its text is read.

use super::form::Read;

/// A setting whose values are of type `T`.
#[derive(Debug)]
pub struct Setting<T> {
    /// What is known of it without its type.
    pub row: Row,
    /// Reads a value, or says what would be right.
    pub read: fn(&str) -> Read<T>,
}

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Its name: the key in settings files, with dots between tables.
    pub name: &'static str,
    /// Its flag, without the dashes.
    pub long: Option<&'static str>,
    /// The flag's single letter.
    pub short: Option<char>,
    /// Its variable.
    pub env: &'static str,
    /// It has a key in settings files.
    pub in_files: bool,
    /// What is used if nobody says anything.
    pub default: Option<&'static str>,
    /// What the flag takes, for help.
    pub takes: Takes,
    /// How an array in a settings file becomes text.
    pub joins: Joins,
    /// Which commands take the flag.
    pub used_by: UsedBy,
    /// Who may set it.
    pub trust: Trust,
    /// What it does, for help.
    pub doc: &'static str,
}

/// What a flag takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// One value, called so in help.
    One(&'static str),
    /// A value; the flag can be given more than once.
    Many(&'static str),
    /// Nothing. Another flag of this name says the opposite.
    Nothing {
        /// The opposite, without the dashes.
        off: &'static str,
    },
}

/// How an array in a settings file becomes text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joins {
    /// An array is no value of this setting.
    No,
    /// One entry a line.
    Lines,
    /// With commas between.
    Commas,
    /// As words of a command.
    Words,
}

/// Which commands take a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsedBy {
    /// Those that start a run.
    Run,
    /// Those that start a run or carry one on, but not those that only change its limits.
    Watching,
    /// Those that start a run, carry one on or change its limits.
    RunAndResume,
    /// All.
    All,
    /// None: it has no flag.
    None,
}

/// Who may set a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// Anybody, a project's own file too.
    Anybody,
    /// Only the user: it decides which commands run and what is permitted, and a project that was
    /// merely cloned must not.
    User,
}

/// A setting without the type of its values.
pub trait AnySetting: Sync {
    /// Its row.
    fn row(&self) -> &Row;
    /// Whether a text is a value of it; if not, what would be right.
    fn check(&self, text: &str) -> Read<()>;
}

impl<T> AnySetting for Setting<T> {
    fn row(&self) -> &Row {
        &self.row
    }

    fn check(&self, text: &str) -> Read<()> {
        (self.read)(text).map(|_| ())
    }
}

impl Row {
    /// A setting that `run` takes, anybody may set, and that has no default.
    pub(super) const fn flag(name: &'static str, long: &'static str, env: &'static str) -> Self {
        Self {
            name,
            long: Some(long),
            short: None,
            env,
            in_files: true,
            default: None,
            takes: Takes::One("VALUE"),
            joins: Joins::No,
            used_by: UsedBy::Run,
            trust: Trust::Anybody,
            doc: "",
        }
    }
}
