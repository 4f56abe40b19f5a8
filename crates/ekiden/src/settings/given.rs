//! Every setting's text with its origin: flag > environment > project's file > user's file > default.
//!
//! A value of the right type comes out only through [`Given::get`], which reads the text as the setting's
//! row says. Unreadable text is an error as soon as it is gathered, whether the command needs it or not.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::agents::AgentRow;
use super::approval::{self, Approvals};
use super::environment::Environment;
use super::file::{FileValue, SettingsFile, settings_file};
use super::table::{self, Row, Setting, TABLE, WORK_DIR};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::phrase;

/// The flags that were typed: the setting's name and the text.
pub type Flags = BTreeMap<&'static str, String>;

/// What the five sources say together.
#[derive(Debug, Clone, Default)]
pub struct Given {
    values: BTreeMap<&'static str, Value>,
    /// What the project's file sets and may not, since nobody approved it. The values without it apply.
    held_back: BTreeMap<&'static str, Value>,
    /// The command that approves the project's file.
    pub approve: String,
    /// Why a settings file is not used, in a process that goes on without it.
    pub unused: Option<String>,
    /// The agents of the settings files, the user's first.
    pub agents: Vec<AgentRow>,
}

/// A setting's text, and where it comes from.
#[derive(Debug, Clone)]
pub struct Value {
    pub text: String,
    pub origin: Origin,
    /// The flag, the variable, or the file with the line.
    pub place: String,
}

/// Where a value comes from; a later one wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    Default,
    User,
    Project,
    Environment,
    Flag,
}

impl Given {
    /// The project is in `dir`; without it, where flags and the environment say.
    pub fn gather(
        dir: Option<&Path>,
        flags: Flags,
        environment: &Environment,
    ) -> Result<Self, Failure> {
        let mut given = Self::of_user(environment)?;
        let file = dir.map_or_else(|| project_file(&flags, environment), settings_file);
        if let Some(file) = SettingsFile::of_project(&file)? {
            approval::check(&file, environment)?;
            let is_approved = Approvals::read(environment)?.has_settings(&file);
            given.put_project(file, is_approved);
        }
        given.with_process(flags, environment)
    }

    /// The same for a process that no person started. What a project's file may not set without an approval
    /// is held back, since any clone may have such a file. An unreadable one is not used.
    pub fn gather_unasked(dir: &Path, environment: &Environment) -> Result<Self, Failure> {
        let flags = Flags::from([(WORK_DIR.row.name, dir.to_string_lossy().into_owned())]);
        let mut given = Self::of_user(environment)?;
        match SettingsFile::of_project(&project_file(&flags, environment)) {
            Ok(Some(file)) => {
                let approvals = Approvals::read(environment);
                let is_approved = approvals.is_ok_and(|approvals| approvals.has_settings(&file));
                given.put_project(file, is_approved);
            }
            Ok(None) => {}
            Err(fault) => given.unused = Some(fault.error().to_owned()),
        }
        given.with_process(flags, environment)
    }

    /// What applies without any project.
    pub fn of_user(environment: &Environment) -> Result<Self, Failure> {
        let mut given = Self::built_in();
        let user = environment.user_file().as_deref().map(SettingsFile::read);
        if let Some(file) = user.transpose()?.flatten() {
            given.put_file(file, Origin::User);
        }
        Ok(given)
    }

    pub fn without_files(flags: Flags, environment: &Environment) -> Result<Self, Failure> {
        Self::built_in().with_process(flags, environment)
    }

    fn built_in() -> Self {
        let mut given = Self::default();
        for row in TABLE {
            if let Some(text) = row.default {
                given.put(row.name, text, Origin::Default, "default".to_owned());
            }
        }
        given
    }

    /// With what the environment and the command line say.
    fn with_process(mut self, flags: Flags, environment: &Environment) -> Result<Self, Failure> {
        for row in TABLE {
            let name = row.env();
            if let Some(text) = environment.setting(&name) {
                check(row, text, &name, Exit::Settings)?;
                self.put(row.name, text, Origin::Environment, name);
            }
        }
        for (name, text) in flags {
            if let Some(row) = table::find(name) {
                let flag = row.flag(&text).unwrap_or_default();
                check(row, &text, &format!("`{flag}`"), Exit::Usage)?;
                self.put(name, &text, Origin::Flag, flag);
            }
        }
        Ok(self)
    }

    /// Only what flags say, without defaults.
    pub fn typed(&self) -> Self {
        let mut typed = self.clone();
        typed.values.retain(|_, value| value.origin == Origin::Flag);
        typed
    }

    pub fn get<T>(&self, setting: &Setting<T>) -> Result<Option<T>, Failure> {
        let value = self.value(&setting.row).map(|value| &*value.text);
        value.map(setting.read).transpose().map_err(|wanted| {
            let text = format!("`{}` must be {wanted}", setting.row.name);
            Failure::new(Exit::Bug, text)
        })
    }

    /// The value of a setting that has a default.
    pub fn need<T>(&self, setting: &Setting<T>) -> Result<T, Failure> {
        let missing = || format!("setting `{}` has no value", setting.row.name);
        self.get(setting)?
            .ok_or_else(|| Failure::new(Exit::Bug, missing()))
    }

    pub fn value(&self, row: &Row) -> Option<&Value> {
        self.values.get(row.name)
    }

    pub fn origin(&self, row: &Row) -> Origin {
        self.value(row)
            .map_or(Origin::Default, |value| value.origin)
    }

    /// The value in the project's file, if it has no effect before an approval.
    pub fn held_back(&self, row: &Row) -> Option<&Value> {
        // A flag or a variable is the user's own word.
        let is_typed = self.origin(row) > Origin::Project;
        self.held_back.get(row.name).filter(|_| !is_typed)
    }

    /// What to say about limits that a run does not raise.
    pub fn held_back_told(&self) -> Vec<String> {
        let told = |row: &&&Row| {
            let held = self.held_back(row)?;
            let own = self.value(row).map_or("none", |value| &value.text);
            Some(format!(
                "{} would loosen `{}` from {own} to {}, which needs your approval: `{}`",
                held.place, row.name, held.text, self.approve
            ))
        };
        TABLE.iter().filter_map(|row| told(&row)).collect()
    }

    /// The project's value allows more than the one that applies without it.
    pub fn is_raised_by(&self, row: &Row, text: &str) -> bool {
        let own = self.value(row);
        row.raises
            .zip(own)
            .is_some_and(|(raises, own)| raises(text, &own.text))
    }

    fn put_project(&mut self, mut file: SettingsFile, is_approved: bool) {
        if !is_approved {
            self.approve = approval::command(&file);
            file.agents.clear();
            let needs = |value: &mut FileValue| {
                table::find(value.name)
                    .is_some_and(|row| row.user_only || self.is_raised_by(row, &value.text))
            };
            let held: Vec<FileValue> = file.values.extract_if(.., needs).collect();
            for value in held {
                let held = Value {
                    place: format!("{}:{}", phrase::path(&file.path), value.line),
                    text: value.text,
                    origin: Origin::Project,
                };
                self.held_back.insert(value.name, held);
            }
        }
        self.put_file(file, Origin::Project);
    }

    fn put_file(&mut self, file: SettingsFile, origin: Origin) {
        for value in file.values {
            let place = format!("{}:{}", phrase::path(&file.path), value.line);
            self.put(value.name, &value.text, origin, place);
        }
        self.agents.extend(file.agents);
    }

    fn put(&mut self, name: &'static str, text: &str, origin: Origin, place: String) {
        let text = text.to_owned();
        let value = Value {
            text,
            origin,
            place,
        };
        self.values.insert(name, value);
    }
}

/// Where the project's own settings file would be. Only a flag and a variable can say which project it is.
pub fn project_file(flags: &Flags, environment: &Environment) -> PathBuf {
    let variable = WORK_DIR.row.env();
    let typed = flags.get(WORK_DIR.row.name).map(String::as_str);
    let dir = typed.or_else(|| environment.setting(&variable));
    settings_file(Path::new(dir.unwrap_or(".")))
}

fn check(row: &Row, text: &str, place: &str, exit: Exit) -> Result<(), Failure> {
    (row.check)(text)
        .map_err(|wanted| Failure::new(exit, format!("{place} must be {wanted}, not `{text}`")))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::table::{GIT_COMMIT, MAX_SESSIONS, PAUSE, Takes, VERIFY};
    use super::*;

    struct Home(tempfile::TempDir);

    impl Home {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        #[expect(
            clippy::disallowed_methods,
            reason = "a test lays out the files that are read"
        )]
        fn file(&self, path: &str, text: &str) -> &Self {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
            self
        }

        fn gather(
            &self,
            flags: &[(&'static str, &str)],
            env: &[(&str, &str)],
        ) -> Result<Given, Failure> {
            let config = self.0.path().join("home").to_string_lossy().into_owned();
            let project = self.0.path().join("project").to_string_lossy().into_owned();
            let mut vars = vec![
                ("XDG_CONFIG_HOME", config.as_str()),
                ("EKIDEN_WORK_DIR", &project),
            ];
            vars.extend(env);
            let mut flags: Flags = flags
                .iter()
                .map(|(name, text)| (*name, (*text).to_owned()))
                .collect();
            if env.iter().any(|(name, _)| *name == "EKIDEN_RUN") {
                flags.insert("work_dir", project.clone());
            }
            Given::gather(None, flags, &Environment::of(vars))
        }
    }

    fn sessions(given: &Given) -> (u32, Origin) {
        (
            given.need(&MAX_SESSIONS).unwrap(),
            given.origin(&MAX_SESSIONS.row),
        )
    }

    // shows: RUN-03
    #[test]
    fn each_source_wins_over_those_below() {
        let home = Home::new();
        assert_eq!(
            sessions(&home.gather(&[], &[]).unwrap()),
            (10, Origin::Default)
        );
        home.file("home/ekiden/config.toml", "max_sessions = 3");
        assert_eq!(sessions(&home.gather(&[], &[]).unwrap()), (3, Origin::User));
        home.file("project/.ekiden/config.toml", "max_sessions = 2");
        assert_eq!(
            sessions(&home.gather(&[], &[]).unwrap()),
            (2, Origin::Project)
        );
        let env = [("EKIDEN_MAX_SESSIONS", "4")];
        assert_eq!(
            sessions(&home.gather(&[], &env).unwrap()),
            (4, Origin::Environment)
        );
        assert_eq!(
            sessions(&home.gather(&[("max_sessions", "5")], &env).unwrap()),
            (5, Origin::Flag)
        );
    }

    // shows: RUN-03
    #[test]
    fn inside_a_session_no_variable_is_inherited() {
        let env = [("EKIDEN_RUN", "7f3a0b1c"), ("EKIDEN_MAX_SESSIONS", "4")];
        assert_eq!(
            sessions(&Home::new().gather(&[], &env).unwrap()),
            (10, Origin::Default)
        );
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

    #[test]
    fn a_switch_that_is_off_names_the_flag_that_was_typed() {
        let home = Home::new();
        let given = home.gather(&[("git_commit", "false")], &[]).unwrap();
        let value = given.value(&GIT_COMMIT.row).unwrap();
        assert_eq!(value.place, "--no-git-commit");
    }

    /// A value that the setting takes.
    fn some_value(row: &Row) -> &'static str {
        let some = [
            "true",
            "10",
            "30m",
            "10,20,30",
            "22:00-06:00",
            "acceptEdits",
            "needs_you",
            "wait",
            "continue",
            "ref",
            "context",
            "refuse",
            "https://localhost/x",
            "advise",
            "local",
            "comment",
            "me/app",
            "never",
            "/etc/keys",
            "a",
            "claude=5",
            "chore: {subject}",
        ];
        let fits = |text: &&str| (row.check)(text).is_ok();
        some.into_iter()
            .find(fits)
            .unwrap_or_else(|| panic!("{}", row.name))
    }

    /// A line of a settings file.
    fn as_line(row: &Row, text: &str) -> String {
        match row.takes == Takes::Switch {
            true => format!("{} = {text}", row.name),
            false => format!("{} = '{text}'", row.name),
        }
    }

    /// Whatever has a flag has the others, and each is heard.
    // shows: RUN-03
    #[test]
    fn every_setting_is_a_variable_and_a_key() {
        let mut flags_alone = Vec::new();
        for row in TABLE {
            let text = some_value(row);
            let given = Home::new().gather(&[], &[(&row.env(), text)]).unwrap();
            let heard = given.value(row).map(|value| (&*value.text, value.origin));
            if row.name != WORK_DIR.row.name {
                assert_eq!(heard, Some((text, Origin::Environment)), "{}", row.name);
            }
            if !row.in_files {
                flags_alone.push(row.name);
                continue;
            }
            let home = Home::new();
            home.file("home/ekiden/config.toml", &as_line(row, text));
            let given = home.gather(&[], &[]).unwrap();
            let heard = given.value(row).map(|value| (&*value.text, value.origin));
            assert_eq!(heard, Some((text, Origin::User)), "{}", row.name);
        }
        expect_test::expect!["work_dir agent_budget agent_tokens notify trust_state state_dir"]
            .assert_eq(&flags_alone.join(" "));
    }

    /// Every setting was looked at: what is listed here decides neither what runs nor who is told what.
    // shows: SEC-06
    #[test]
    fn what_a_project_may_set_is_listed_and_the_rest_is_refused() {
        let mut free = Vec::new();
        for row in TABLE.iter().filter(|row| row.in_files) {
            let home = Home::new();
            let text = some_value(row);
            home.file("project/.ekiden/config.toml", &as_line(row, text));
            match home.gather(&[], &[]) {
                Ok(_) => free.push(row.name),
                Err(failure) => assert!(
                    failure.error().contains("a project's own file may not set"),
                    "{failure}"
                ),
            }
        }
        expect_test::expect![[r#"
            max_sessions
            pause
            completion_marker
            verify_timeout
            git_commit
            commit_subject
            branch
            fallback_return
            model
            models.work
            models.plan
            models.review
            subagents
            levels
            context.cap_tokens
            session_timeout
            max_turns
            session_budget
            run_budget
            session_tokens
            run_tokens
            max_wait
            on_rate_limit
            quiet_hours
            stall_sessions
            research
            plan.jobs
            plan.retries
            tracker.label
            tracker.branch
            memory.record
            memory.context
            verbose
            json
            guard.levels
            guard.reminder
            guard.l3
            guard.line"#]]
        .assert_eq(&free.join("\n"));
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
            assert!(
                failure
                    .error()
                    .contains("config.toml:1: a project's own file may not set"),
                "{failure}"
            );
        }
    }

    #[test]
    fn the_users_own_file_may_say_what_runs() {
        let home = Home::new();
        home.file("home/ekiden/config.toml", "verify = 'make test'\npause = 3");
        let given = home.gather(&[], &[]).unwrap();
        assert_eq!(given.get(&VERIFY).unwrap().as_deref(), Some("make test"));
        assert_eq!(given.typed().get(&PAUSE).unwrap(), None);
    }
}
