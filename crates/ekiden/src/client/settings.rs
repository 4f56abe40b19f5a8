//! The client's settings files, as far as they decide whether a run can work.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::settings::environment::Environment;

/// Where an administrator puts settings that hold for everybody.
pub const MANAGED: &str = if cfg!(target_os = "macos") {
    "/Library/Application Support/ClaudeCode/managed-settings.json"
} else {
    "/etc/claude-code/managed-settings.json"
};

/// The settings that the client would use in a work dir.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ClientSettings {
    layers: Vec<Layer>,
}

/// One settings file.
#[derive(Debug, Clone, PartialEq)]
struct Layer {
    path: PathBuf,
    value: Value,
    /// The client heeds its permissions: those of a project that nobody trusted it ignores.
    trusted: bool,
}

impl ClientSettings {
    /// Reads the files, highest first. `isolated` leaves out all but those of an administrator.
    #[must_use]
    pub fn read(environment: &Environment, dir: &Path, isolated: bool) -> Self {
        let mut settings = Self::default();
        settings.add(Path::new(MANAGED), true);
        if isolated {
            return settings;
        }
        settings.add(&dir.join(".claude/settings.local.json"), true);
        settings.add(&dir.join(".claude/settings.json"), is_trusted(environment, dir));
        if let Some(home) = config_dir(environment) {
            settings.add(&home.join("settings.json"), true);
        }
        settings
    }

    /// A permission mode or a rule that allows something is in force.
    #[must_use]
    pub fn choose_permissions(&self) -> bool {
        self.layers.iter().filter(|layer| layer.trusted).any(|layer| {
            let permissions = &layer.value["permissions"];
            let allows = permissions["allow"].as_array().is_some_and(|rules| !rules.is_empty());
            allows || permissions["defaultMode"].is_string()
        })
    }

    /// The file that switches all hook processes off, if one does. The highest that says anything
    /// decides.
    #[must_use]
    pub fn hooks_are_off(&self) -> Option<&Path> {
        let says = |layer: &&Layer| layer.value["disableAllHooks"].is_boolean();
        let layer = self.layers.iter().find(says)?;
        (layer.value["disableAllHooks"] == true).then_some(&layer.path)
    }

    fn add(&mut self, path: &Path, trusted: bool) {
        if let Some(value) = json_of(path) {
            self.layers.push(Layer { path: path.to_owned(), value, trusted });
        }
    }
}

/// Where the client keeps the user's settings.
#[must_use]
pub fn config_dir(environment: &Environment) -> Option<PathBuf> {
    let named = environment.variable("CLAUDE_CONFIG_DIR").map(PathBuf::from);
    named.or_else(|| Some(Path::new(environment.variable("HOME")?).join(".claude")))
}

/// Somebody told the client to trust this directory, or one that it lies in.
fn is_trusted(environment: &Environment, dir: &Path) -> bool {
    let beside = environment.variable("CLAUDE_CONFIG_DIR").or_else(|| environment.variable("HOME"));
    let state = beside.and_then(|dir| json_of(&Path::new(dir).join(".claude.json")));
    let Some(state) = state else { return false };
    dir.ancestors()
        .filter_map(Path::to_str)
        .any(|dir| state["projects"][dir]["hasTrustDialogAccepted"] == true)
}

fn json_of(path: &Path) -> Option<Value> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test writes the files that it reads")]
mod tests {
    use super::*;

    struct Place(tempfile::TempDir);

    impl Place {
        fn with(files: &[(&str, &str)]) -> Self {
            let place = Self(tempfile::tempdir().unwrap());
            for (name, text) in files {
                let path = place.0.path().join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text.replace("DIR", place.dir().to_str().unwrap())).unwrap();
            }
            place
        }

        fn dir(&self) -> PathBuf {
            self.0.path().join("work")
        }

        fn settings(&self, isolated: bool) -> ClientSettings {
            let environment = Environment::of([("HOME", self.0.path().to_str().unwrap())]);
            ClientSettings::read(&environment, &self.dir(), isolated)
        }
    }

    const ALLOW: &str = r#"{"permissions":{"allow":["Edit"]}}"#;

    // shows: AGT-13
    #[test]
    fn an_untrusted_projects_rules_are_no_choice() {
        let chosen = |files: &[(&str, &str)]| Place::with(files).settings(false).choose_permissions();
        assert!(!chosen(&[]));
        assert!(!chosen(&[("work/.claude/settings.json", ALLOW)]));
        assert!(chosen(&[("work/.claude/settings.local.json", ALLOW)]));
        assert!(chosen(&[(".claude/settings.json", ALLOW)]));
        assert!(chosen(&[(".claude/settings.json", r#"{"permissions":{"defaultMode":"acceptEdits"}}"#)]));
        assert!(!chosen(&[(".claude/settings.json", r#"{"permissions":{"allow":[],"deny":["Read"]}}"#)]));
        assert!(!chosen(&[(".claude/settings.json", "{ broken")]));
        let trust = r#"{"projects":{"DIR":{"hasTrustDialogAccepted":true}}}"#;
        assert!(chosen(&[("work/.claude/settings.json", ALLOW), (".claude.json", trust)]));
    }

    // shows: AGT-11
    #[test]
    fn an_isolated_run_has_no_settings_of_the_user() {
        let place = Place::with(&[(".claude/settings.json", ALLOW)]);
        assert!(place.settings(false).choose_permissions());
        assert!(!place.settings(true).choose_permissions());
    }

    #[test]
    fn the_highest_layer_that_says_so_switches_hooks_off() {
        let (off, on) = (r#"{"disableAllHooks":true}"#, r#"{"disableAllHooks":false}"#);
        let place = Place::with(&[(".claude/settings.json", off)]);
        assert!(place.settings(false).hooks_are_off().is_some());
        let place = Place::with(&[(".claude/settings.json", off), ("work/.claude/settings.local.json", on)]);
        assert_eq!(place.settings(false).hooks_are_off(), None);
    }
}
