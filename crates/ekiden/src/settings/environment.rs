//! The environment as settings see it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::file::FILE_NAME;

/// Set in the environment of every session that ekiden runs.
pub const RUN_VARIABLE: &str = "EKIDEN_RUN";

/// The variables that settings come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    vars: BTreeMap<String, String>,
}

impl Environment {
    /// The process's own.
    #[must_use]
    pub fn of_process() -> Self {
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        Self { vars: std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect() }
    }

    /// An environment of these variables.
    #[cfg(test)]
    pub fn of<'a>(vars: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        Self { vars: vars.into_iter().map(owned).collect() }
    }

    /// The text of a setting's variable. An empty one counts as not set. Inside a session of ekiden
    /// there are none: what was meant for the outer run must not reach an inner one.
    #[must_use]
    pub fn setting(&self, name: &str) -> Option<&str> {
        if self.vars.contains_key(RUN_VARIABLE) { None } else { self.var(name) }
    }

    /// Where the user's settings file lies, if the user has a home.
    #[must_use]
    pub fn user_file(&self) -> Option<PathBuf> {
        let config = self.var("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let home = || self.var("HOME").map(|home| PathBuf::from(home).join(".config"));
        config.or_else(home).map(|config| config.join("ekiden").join(FILE_NAME))
    }

    /// Where programs keep what is theirs and outlives a restart, if the user has a home.
    #[must_use]
    pub fn state_home(&self) -> Option<PathBuf> {
        let state = self.var("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        state.or_else(|| self.var("HOME").map(|home| PathBuf::from(home).join(".local").join("state")))
    }

    /// A variable that is no setting of ours. An empty one counts as not set.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.var(name)
    }

    fn var(&self, name: &str) -> Option<&str> {
        self.vars.get(name).map(String::as_str).filter(|text| !text.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_file_is_where_the_user_keeps_settings() {
        let file = |vars: &[(&str, &str)]| Environment::of(vars.iter().copied()).user_file();
        assert_eq!(file(&[("HOME", "/h")]), Some(PathBuf::from("/h/.config/ekiden/config.toml")));
        let both = [("HOME", "/h"), ("XDG_CONFIG_HOME", "/c")];
        assert_eq!(file(&both), Some(PathBuf::from("/c/ekiden/config.toml")));
        let relative = [("HOME", "/h"), ("XDG_CONFIG_HOME", "c")];
        assert_eq!(file(&relative), Some(PathBuf::from("/h/.config/ekiden/config.toml")));
        assert_eq!(file(&[]), None);
    }
}
