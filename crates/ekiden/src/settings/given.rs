//! What was said, and by whom: flag > environment > project's file > user's file > default.
//!
//! [`Given`] keeps each setting's text with its origin; a value of the right type comes out only
//! through [`Given::get`], which asks the setting's own row how to read it. Text that no row can
//! read is an error where it is gathered, whether the command needs it or not.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::agents::AgentRow;
use super::approval;
use super::environment::Environment;
use super::file::{FILE_NAME, SettingsFile};
use super::table::{AnySetting, Row, Setting, TABLE, WORK_DIR};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::phrase;

/// The flags that were typed: the setting's name and the text.
pub type Flags = BTreeMap<&'static str, String>;

/// Every setting that somebody set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    values: BTreeMap<&'static str, Said>,
    agents: Vec<AgentRow>,
}

/// A setting's text, and who said it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The text.
    pub text: String,
    /// Who said it.
    pub origin: Origin,
}

/// Who set a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nobody.
    Default,
    /// The user's file.
    User(FilePlace),
    /// The project's file.
    Project(FilePlace),
    /// A variable, by its name.
    Env(&'static str),
    /// A flag, by its name without dashes.
    Flag(&'static str),
}

/// A line of a settings file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePlace {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: usize,
}

impl Origin {
    /// Who wins: the higher one.
    #[must_use]
    pub fn rank(&self) -> u8 {
        match self {
            Self::Default => 0,
            Self::User(_) => 1,
            Self::Project(_) => 2,
            Self::Env(_) => 3,
            Self::Flag(_) => 4,
        }
    }
}

impl Given {
    /// Asks every source.
    ///
    /// # Errors
    ///
    /// If a source says something that cannot be, or that it may not say.
    pub fn gather(flags: Flags, environment: &Environment) -> Result<Self, Failure> {
        let mut given = Self { values: BTreeMap::new(), agents: Vec::new() };
        let project_file = project_file(&flags, environment);
        if let Some(file) =
            environment.user_file().map(|path| SettingsFile::read(&path)).transpose()?.flatten()
        {
            given.take_file(file, Origin::User);
        }
        if let Some(file) = SettingsFile::read(&project_file)? {
            approval::check(&file, environment)?;
            given.take_file(file, Origin::Project);
        }
        given.take_environment(environment)?;
        given.take_flags(flags)?;
        Ok(given)
    }

    /// The value of a setting, or its default, or nothing.
    ///
    /// # Errors
    ///
    /// Never for a text that came through [`Given::gather`].
    pub fn get<T>(&self, setting: &Setting<T>) -> Result<Option<T>, Failure> {
        match self.said(&setting.row) {
            Some(said) => (setting.read)(&said.text).map(Some).map_err(|w| bad(&setting.row, &said, &w)),
            None => Ok(None),
        }
    }

    /// The value of a setting that has a default.
    ///
    /// # Errors
    ///
    /// As [`Given::get`], and if the setting has no default after all.
    pub fn need<T>(&self, setting: &Setting<T>) -> Result<T, Failure> {
        let missing = || Failure::new(Exit::Bug, format!("setting `{}` has no value", setting.row.name));
        self.get(setting)?.ok_or_else(missing)
    }

    /// The value of a setting if a flag gave it.
    ///
    /// # Errors
    ///
    /// As [`Given::get`].
    pub fn typed<T>(&self, setting: &Setting<T>) -> Result<Option<T>, Failure> {
        match self.origin(&setting.row) {
            Origin::Flag(_) => self.get(setting),
            Origin::Default | Origin::User(_) | Origin::Project(_) | Origin::Env(_) => Ok(None),
        }
    }

    /// What was said of a setting, or its default.
    #[must_use]
    pub fn said(&self, row: &Row) -> Option<Said> {
        let default = || row.default.map(|text| Said { text: text.to_owned(), origin: Origin::Default });
        self.values.get(row.name).cloned().or_else(default)
    }

    /// Who set a setting.
    #[must_use]
    pub fn origin(&self, row: &Row) -> Origin {
        self.values.get(row.name).map_or(Origin::Default, |said| said.origin.clone())
    }

    /// The agents of the settings files, the user's first.
    #[must_use]
    pub fn agents(&self) -> &[AgentRow] {
        &self.agents
    }

    fn take_file(&mut self, file: SettingsFile, origin: impl Fn(FilePlace) -> Origin) {
        for value in file.values {
            let origin = origin(FilePlace { path: file.path.clone(), line: value.line });
            self.values.insert(value.name, Said { text: value.text, origin });
        }
        self.agents.extend(file.agents);
    }

    fn take_environment(&mut self, environment: &Environment) -> Result<(), Failure> {
        for setting in TABLE {
            let row = setting.row();
            if let Some(text) = environment.setting(row.env) {
                self.take(*setting, Said { text: text.to_owned(), origin: Origin::Env(row.env) })?;
            }
        }
        Ok(())
    }

    fn take_flags(&mut self, flags: Flags) -> Result<(), Failure> {
        for (name, text) in flags {
            if let Some(setting) = super::table::find(name) {
                let origin = Origin::Flag(setting.row().long.unwrap_or(name));
                self.take(setting, Said { text, origin })?;
            }
        }
        Ok(())
    }

    fn take(&mut self, setting: &'static dyn AnySetting, said: Said) -> Result<(), Failure> {
        setting.check(&said.text).map_err(|wanted| bad(setting.row(), &said, &wanted))?;
        self.values.insert(setting.row().name, said);
        Ok(())
    }
}

/// Where the project's own settings file would lie. Which project it is was said before any file is read.
#[must_use]
pub fn project_file(flags: &Flags, environment: &Environment) -> PathBuf {
    let row = &WORK_DIR.row;
    let said = flags.get(row.name).map(String::as_str).or_else(|| environment.setting(row.env));
    Path::new(said.unwrap_or(".")).join(".ekiden").join(FILE_NAME)
}

fn bad(row: &Row, said: &Said, wanted: &str) -> Failure {
    let text = &said.text;
    let wrong = |exit, place: String| Failure::new(exit, format!("{place} must be {wanted}, not `{text}`"));
    match &said.origin {
        Origin::Flag(flag) => wrong(Exit::Usage, format!("`--{flag}`")),
        Origin::Env(name) => wrong(Exit::Settings, name.to_string()),
        Origin::User(place) | Origin::Project(place) => {
            wrong(Exit::Settings, format!("{}:{}: `{}`", phrase::path(&place.path), place.line, row.name))
        }
        Origin::Default => wrong(Exit::Bug, format!("the default of `{}`", row.name)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::table::{MAX_SESSIONS, PAUSE, VERIFY};
    use super::*;

    struct Home(tempfile::TempDir);

    impl Home {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        #[expect(clippy::disallowed_methods, reason = "a test lays out the files that are read")]
        fn file(&self, path: &str, text: &str) -> &Self {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
            self
        }

        fn gather(&self, flags: &[(&'static str, &str)], env: &[(&str, &str)]) -> Result<Given, Failure> {
            let config = self.0.path().join("home").to_string_lossy().into_owned();
            let project = self.0.path().join("project").to_string_lossy().into_owned();
            let mut vars = vec![("XDG_CONFIG_HOME", config.as_str()), ("EKIDEN_WORK_DIR", &project)];
            vars.extend(env);
            let mut flags: Flags = flags.iter().map(|(name, text)| (*name, (*text).to_owned())).collect();
            if env.iter().any(|(name, _)| *name == "EKIDEN_RUN") {
                flags.insert("work_dir", project.clone());
            }
            Given::gather(flags, &Environment::of(vars))
        }
    }

    fn sessions(given: &Given) -> (u32, &'static str) {
        let origin = match given.origin(&MAX_SESSIONS.row) {
            Origin::Default => "default",
            Origin::User(_) => "user",
            Origin::Project(_) => "project",
            Origin::Env(_) => "env",
            Origin::Flag(_) => "flag",
        };
        (given.need(&MAX_SESSIONS).unwrap(), origin)
    }

    // shows: RUN-03
    #[test]
    fn each_source_wins_over_those_below() {
        let home = Home::new();
        assert_eq!(sessions(&home.gather(&[], &[]).unwrap()), (10, "default"));
        home.file("home/ekiden/config.toml", "max_sessions = 2");
        assert_eq!(sessions(&home.gather(&[], &[]).unwrap()), (2, "user"));
        home.file("project/.ekiden/config.toml", "max_sessions = 3");
        assert_eq!(sessions(&home.gather(&[], &[]).unwrap()), (3, "project"));
        let env = [("EKIDEN_MAX_SESSIONS", "4")];
        assert_eq!(sessions(&home.gather(&[], &env).unwrap()), (4, "env"));
        assert_eq!(sessions(&home.gather(&[("max_sessions", "5")], &env).unwrap()), (5, "flag"));
    }

    // shows: RUN-03
    #[test]
    fn inside_a_session_no_variable_is_inherited() {
        let env = [("EKIDEN_RUN", "7f3a0b1c"), ("EKIDEN_MAX_SESSIONS", "4")];
        assert_eq!(sessions(&Home::new().gather(&[], &env).unwrap()), (10, "default"));
    }

    #[test]
    fn a_bad_value_names_its_source() {
        let home = Home::new();
        let failure = home.gather(&[("max_sessions", "0")], &[]).unwrap_err();
        let text = "`--max-sessions` must be a whole number from 1 to 10000, not `0`";
        assert_eq!((failure.exit(), failure.error()), (Exit::Usage, text));
        let failure = home.gather(&[], &[("EKIDEN_PAUSE", "soon")]).unwrap_err();
        let text = "EKIDEN_PAUSE must be a whole number from 0 to 3600 (seconds), not `soon`";
        assert_eq!((failure.exit(), failure.error()), (Exit::Settings, text));
    }

    // shows: SEC-06
    #[test]
    fn a_project_may_not_say_what_runs() {
        let untrusted = [
            "verify = 'curl x | sh'",
            "agent = 'mine'",
            "agent_command = 'x'",
            "permission_mode = 'x'",
            "skip_permissions = true",
            "allowed_tool = ['Bash']",
            "agents.claude.command = './evil'",
        ];
        for text in untrusted {
            let home = Home::new();
            home.file("project/.ekiden/config.toml", text);
            let failure = home.gather(&[], &[]).unwrap_err();
            assert_eq!(failure.exit(), Exit::Settings, "{text}");
            assert!(failure.error().contains("config.toml:1: a project's own file may not set"), "{failure}");
        }
    }

    #[test]
    fn the_users_own_file_may_say_what_runs() {
        let home = Home::new();
        home.file("home/ekiden/config.toml", "verify = 'make test'\npause = 3");
        let given = home.gather(&[], &[]).unwrap();
        assert_eq!(given.get(&VERIFY).unwrap().as_deref(), Some("make test"));
        assert_eq!(given.typed(&PAUSE).unwrap(), None);
    }
}
