//! The environment as settings see it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ekiden_agent::lineage;

use super::file::FILE_NAME;
use super::table::{self, TABLE};
use crate::exit::Exit;
use crate::failure::Failure;

/// Set in the environment of every session that ekiden runs.
pub const RUN_VARIABLE: &str = "EKIDEN_RUN";

/// The variables that settings come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    vars: BTreeMap<String, String>,
}

impl Environment {
    pub fn of_process() -> Self {
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        Self {
            vars: std::env::vars_os()
                .map(|(name, value)| (text(name), text(value)))
                .collect(),
        }
    }

    /// An environment of these variables.
    #[cfg(test)]
    pub fn of<'a>(vars: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        Self {
            vars: vars.into_iter().map(owned).collect(),
        }
    }

    /// The text of a setting's variable. An empty one counts as unset. Inside a session of ekiden none is
    /// read: settings for the outer run must not reach an inner one.
    pub fn setting(&self, name: &str) -> Option<&str> {
        if self.vars.contains_key(RUN_VARIABLE) {
            None
        } else {
            self.variable(name)
        }
    }

    /// Whether the variables say that this process belongs to a session of a run. Cheap; use it where no
    /// permission depends on it.
    pub fn has_run(&self) -> bool {
        self.vars.contains_key(RUN_VARIABLE)
    }

    /// Whether this process belongs to a session of a run. The variable alone is enough; without it, the
    /// ancestors decide, since a process can unset a variable.
    pub fn is_inside_a_session(&self) -> bool {
        self.variable(RUN_VARIABLE).is_some() || lineage::is_inside_a_session()
    }

    /// Refuses what only a person may do: an agent must not decide what agents may do. `what` reads well
    /// after "can".
    pub fn refuse_a_session(&self, what: &str) -> Result<(), Failure> {
        if !self.is_inside_a_session() {
            return Ok(());
        }
        let text = format!("only a person can {what}, and this is a session of ekiden");
        Err(Failure::new(Exit::NotPermitted, text).hint("ask the person who runs it"))
    }

    /// Refuses a variable that looks like a setting but is none: a typo must not look like a choice.
    pub fn refuse_misspelt(&self) -> Result<(), Failure> {
        if self.vars.contains_key(RUN_VARIABLE) {
            return Ok(());
        }
        for name in self.vars.keys() {
            let key = name.strip_prefix("EKIDEN_").map(str::to_lowercase);
            let meant = key.and_then(|key| table::meant(&key));
            if let Some(row) = meant.filter(|_| TABLE.iter().all(|row| row.env() != *name)) {
                let text = format!("there is no setting `{name}` in the environment");
                let hint = format!("did you mean `{}`? `unset {name}` removes it", row.env());
                return Err(Failure::new(Exit::Settings, text).hint(hint));
            }
        }
        Ok(())
    }

    /// The user's settings file, if the user has a home.
    pub fn user_file(&self) -> Option<PathBuf> {
        let config = self.user_dir("XDG_CONFIG_HOME", ".config")?;
        Some(config.join("ekiden").join(FILE_NAME))
    }

    /// Where programs keep their state, if the user has a home.
    pub fn state_home(&self) -> Option<PathBuf> {
        self.user_dir("XDG_STATE_HOME", ".local/state")
    }

    fn user_dir(&self, variable: &str, in_home: &str) -> Option<PathBuf> {
        let named = self.variable(variable).map(PathBuf::from);
        let home = || Some(PathBuf::from(self.variable("HOME")?).join(in_home));
        named.filter(|path| path.is_absolute()).or_else(home)
    }

    /// Every variable with this prefix, in order. Empty ones count as unset.
    pub fn with_prefix(&self, prefix: &str) -> impl Iterator<Item = (&str, &str)> {
        let vars = self.vars.iter();
        let vars = vars.filter(move |(name, value)| name.starts_with(prefix) && !value.is_empty());
        vars.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// A variable that is not one of our settings. An empty one counts as unset.
    pub fn variable(&self, name: &str) -> Option<&str> {
        let text = self.vars.get(name).map(String::as_str);
        text.filter(|text| !text.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: RUN-03
    #[test]
    fn a_misspelt_variable_is_not_ignored() {
        let said = |vars: &[(&str, &str)]| Environment::of(vars.iter().copied()).refuse_misspelt();
        let failure = said(&[("EKIDEN_MAX_SESION", "3")]).unwrap_err();
        expect_test::expect![[r"
            error: there is no setting `EKIDEN_MAX_SESION` in the environment
            hint: did you mean `EKIDEN_MAX_SESSIONS`? `unset EKIDEN_MAX_SESION` removes it"]]
        .assert_eq(&failure.to_string());
        assert!(said(&[("EKIDEN_CAP_TOKENS", "3")]).is_err());
        said(&[
            ("EKIDEN_MAX_SESSIONS", "3"),
            ("EKIDEN_REHEARSAL_STEP_MS", "1"),
        ])
        .unwrap();
        said(&[("EKIDEN_RUN", "7f3a"), ("EKIDEN_MAX_SESION", "3")]).unwrap();
    }

    #[test]
    fn the_users_file_is_where_the_user_keeps_settings() {
        let file = |vars: &[(&str, &str)]| Environment::of(vars.iter().copied()).user_file();
        assert_eq!(
            file(&[("HOME", "/h")]),
            Some(PathBuf::from("/h/.config/ekiden/config.toml"))
        );
        let both = [("HOME", "/h"), ("XDG_CONFIG_HOME", "/c")];
        assert_eq!(file(&both), Some(PathBuf::from("/c/ekiden/config.toml")));
        let relative = [("HOME", "/h"), ("XDG_CONFIG_HOME", "c")];
        assert_eq!(
            file(&relative),
            Some(PathBuf::from("/h/.config/ekiden/config.toml"))
        );
        assert_eq!(file(&[]), None);
    }
}
