//! The parts of the client's settings files that decide whether a run can work.

use std::path::{Path, PathBuf};

use ekiden_core::agent::Interface;
use ekiden_store::disk::{Disk as _, RealDisk};
use ekiden_wire::client_settings::{self, TOOLS_RULE};
use serde_json::Value;

use super::denial::{self, Roots};
use crate::output::phrase;
use crate::settings::environment::Environment;

/// An administrator's settings for everybody.
pub const MANAGED: &str = if cfg!(target_os = "macos") {
    "/Library/Application Support/ClaudeCode/managed-settings.json"
} else {
    "/etc/claude-code/managed-settings.json"
};

/// The largest file of the client that is read, in bytes: its own state grows with each project.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The settings that the client would use in a work dir.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ClientSettings {
    layers: Vec<Layer>,
    dir: PathBuf,
    home: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq)]
struct Layer {
    path: PathBuf,
    value: Value,
    /// What it allows counts. The client ignores what an untrusted project allows, and obeys what it denies (measured
    /// with 2.1.329).
    trusted: bool,
}

/// Why no session could write its handoff, and what to do.
#[derive(Debug, Clone, PartialEq)]
pub struct NoHandoffs {
    pub why: String,
    pub remedy: String,
}

impl NoHandoffs {
    fn by_rule(why: String, place: &str) -> Self {
        Self {
            why,
            remedy: format!("remove that from {place}; rules such as `Edit(./src/**)` may stay"),
        }
    }
}

impl ClientSettings {
    /// Reads the files, highest first. `isolated` ignores all but an administrator's.
    pub fn read(environment: &Environment, dir: &Path, isolated: bool) -> Self {
        let mut settings = Self {
            layers: Vec::new(),
            dir: dir.to_owned(),
            home: environment.variable("HOME").map(PathBuf::from),
        };
        settings.add(Path::new(MANAGED), true);
        if isolated {
            return settings;
        }
        settings.add(&dir.join(".claude/settings.local.json"), true);
        settings.add(
            &dir.join(".claude/settings.json"),
            is_trusted(environment, dir),
        );
        if let Some(home) = config_dir(environment) {
            settings.add(&home.join("settings.json"), true);
        }
        settings
    }

    /// With only an administrator's file.
    #[cfg(test)]
    pub fn managed(value: Value) -> Self {
        let layer = Layer {
            path: MANAGED.into(),
            value,
            trusted: true,
        };
        Self {
            layers: vec![layer],
            ..Self::default()
        }
    }

    /// A permission mode or a rule that allows something is in force.
    pub fn choose_permissions(&self) -> bool {
        self.layers
            .iter()
            .filter(|layer| layer.trusted)
            .any(|layer| {
                let permissions = &layer.value["permissions"];
                // Our own rule, from `ekiden setup`, is nobody's choice.
                let mut rules = permissions["allow"].as_array().into_iter().flatten();
                let allows = rules.any(|rule| *rule != TOOLS_RULE);
                allows || permissions["defaultMode"].is_string()
            })
    }

    /// The permission mode of the highest file that sets one. An untrusted project can set only some (measured with
    /// 2.1.329).
    pub fn default_mode(&self) -> Option<&str> {
        self.layers.iter().find_map(|layer| {
            let mode = layer.value["permissions"]["defaultMode"].as_str();
            mode.filter(|mode| layer.trusted || matches!(*mode, "plan" | "acceptEdits"))
        })
    }

    /// A variable that the client sets for itself before it starts: not from the project's files (measured with 2.1.329).
    pub fn variable(&self, name: &str) -> Option<&str> {
        let of_project = self.dir.join(".claude");
        let layers = self.layers.iter();
        layers
            .filter(|layer| !layer.path.starts_with(&of_project))
            .find_map(|layer| layer.value["env"][name].as_str())
    }

    /// What keeps every session from writing its handoff.
    pub fn denies_handoffs(&self, command: &[String], interface: Interface) -> Option<NoHandoffs> {
        let roots = |slash| Roots {
            dir: &self.dir,
            home: self.home.clone(),
            slash,
        };
        if let Some(rule) = denial::in_command(command, &roots(Some(&self.dir))) {
            let place = "`--disallowedTools` in the agent's command";
            return Some(NoHandoffs::by_rule(format!("`{rule}` is denied"), place));
        }
        if let Some(tools) = denial::tools_without_write(command) {
            return Some(NoHandoffs {
                why: format!("`{tools}` leaves `Write` out"),
                remedy: "add `Write` to that in the agent's command".to_owned(),
            });
        }
        self.layers.iter().find_map(|layer| {
            let of_project = layer.path.starts_with(self.dir.join(".claude"));
            let roots = roots(of_project.then_some(&*self.dir));
            let file = phrase::path(&layer.path);
            let rules = |list: &str| {
                let rules = layer.value["permissions"][list].as_array();
                rules.into_iter().flatten().filter_map(Value::as_str)
            };
            if let Some(rule) = rules("deny").find(|rule| roots.deny(rule)) {
                let why = format!("`{rule}` is denied");
                let place = format!("`permissions.deny` in {file}");
                return Some(NoHandoffs::by_rule(why, &place));
            }
            let unattended = interface == Interface::Headless;
            let rule = rules("ask").find(|rule| unattended && roots.ask(rule))?;
            let why = format!("the client asks before `{rule}`, and nobody answers");
            let place = format!("`permissions.ask` in {file}");
            Some(NoHandoffs::by_rule(why, &place))
        })
    }

    /// The compaction window of the highest file that sets one.
    pub fn compaction_window(&self) -> Option<u64> {
        self.layers
            .iter()
            .find_map(|layer| layer.value["autoCompactWindow"].as_u64())
    }

    /// The setting and the file that switch off the hook processes of users and projects: an
    /// administrator's, or the highest file that sets it.
    pub fn hooks_are_off(&self) -> Option<(&'static str, &Path)> {
        let managed = |layer: &&Layer| {
            layer.path == Path::new(MANAGED) && layer.value["allowManagedHooksOnly"] == true
        };
        if let Some(layer) = self.layers.iter().find(managed) {
            return Some(("allowManagedHooksOnly", &layer.path));
        }
        let says = |layer: &&Layer| layer.value["disableAllHooks"].is_boolean();
        let layer = self.layers.iter().find(says)?;
        (layer.value["disableAllHooks"] == true).then_some(("disableAllHooks", &layer.path))
    }

    fn add(&mut self, path: &Path, trusted: bool) {
        if let Some(value) = json_of(path) {
            self.layers.push(Layer {
                path: path.to_owned(),
                value,
                trusted,
            });
        }
    }
}

pub fn config_dir(environment: &Environment) -> Option<PathBuf> {
    let named = environment.variable("CLAUDE_CONFIG_DIR").map(PathBuf::from);
    named.or_else(|| Some(Path::new(environment.variable("HOME")?).join(".claude")))
}

/// The client's own state: which projects are trusted, which MCP servers exist.
pub fn state_file(environment: &Environment) -> Option<PathBuf> {
    let named = environment.variable("CLAUDE_CONFIG_DIR");
    let dir = named.or_else(|| environment.variable("HOME"))?;
    Some(Path::new(dir).join(".claude.json"))
}

/// Somebody told the client to trust this directory, or one above it.
fn is_trusted(environment: &Environment, dir: &Path) -> bool {
    let state = state_file(environment).and_then(|path| json_of(&path));
    let Some(state) = state else { return false };
    dir.ancestors()
        .filter_map(Path::to_str)
        .any(|dir| state["projects"][dir]["hasTrustDialogAccepted"] == true)
}

fn json_of(path: &Path) -> Option<Value> {
    client_settings::read(&read_file(path)?)
}

/// A file of the client, if it is a regular file: a project may have a link to a device in its place.
pub fn read_file(path: &Path) -> Option<Vec<u8>> {
    RealDisk::new().read(path, FILE_BYTES_MAX).ok()
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "a test writes the files that it reads"
)]
mod tests {
    use super::*;

    #[test]
    fn a_device_in_place_of_a_file_is_not_read() {
        let place = tempfile::tempdir().unwrap();
        let link = place.path().join("settings.json");
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        assert_eq!(read_file(&link), None);
    }

    struct Fixture(tempfile::TempDir);

    impl Fixture {
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
    fn a_rule_that_denies_every_handoff_is_found() {
        let denied = |rules: &str| {
            let text = format!(r#"{{"permissions":{{"deny":{rules}}}}}"#);
            let place = Fixture::with(&[(".claude/settings.json", &text)]);
            let settings = place.settings(false);
            let found = settings.denies_handoffs(&[], Interface::Headless);
            found.map(|found| found.why)
        };
        assert_eq!(
            denied(r#"["Bash(rm:*)","Write"]"#).as_deref(),
            Some("`Write` is denied")
        );
        assert_eq!(denied(r#"["Edit(./src/**)","Bash"]"#), None);
        let asks = r#"{"permissions":{"ask":["Read","Edit(.ekiden/**)"]}}"#;
        let settings = Fixture::with(&[(".claude/settings.json", asks)]).settings(false);
        let in_interface = |interface| settings.denies_handoffs(&[], interface);
        let found = in_interface(Interface::Headless).unwrap();
        assert_eq!(
            found.why,
            "the client asks before `Edit(.ekiden/**)`, and nobody answers"
        );
        assert!(found.remedy.contains("`permissions.ask` in "));
        assert_eq!(in_interface(Interface::Terminal), None, "a person answers");
        let project = r#"{"permissions":{"deny":["Edit(/.ekiden/**)"]}}"#;
        let found = |name| {
            let place = Fixture::with(&[(name, project)]);
            let settings = place.settings(false);
            settings.denies_handoffs(&[], Interface::Headless).is_some()
        };
        assert!(found("work/.claude/settings.local.json"));
        assert!(found("work/.claude/settings.json"), "trusted or not");
        assert!(!found(".claude/settings.json"), "`/` is not the project");
    }

    // shows: AGT-13
    #[test]
    fn the_client_starts_without_a_projects_variables() {
        let env = r#"{"env":{"IS_SANDBOX":"1"}}"#;
        let is_set = |name| {
            let place = Fixture::with(&[(name, env)]);
            place.settings(false).variable("IS_SANDBOX").is_some()
        };
        assert!(is_set(".claude/settings.json"));
        assert!(!is_set("work/.claude/settings.json"));
        assert!(!is_set("work/.claude/settings.local.json"));
    }

    // shows: AGT-13
    #[test]
    fn an_untrusted_projects_rules_are_no_choice() {
        let chosen =
            |files: &[(&str, &str)]| Fixture::with(files).settings(false).choose_permissions();
        assert!(!chosen(&[]));
        assert!(!chosen(&[("work/.claude/settings.json", ALLOW)]));
        assert!(chosen(&[("work/.claude/settings.local.json", ALLOW)]));
        assert!(chosen(&[(".claude/settings.json", ALLOW)]));
        assert!(chosen(&[(
            ".claude/settings.json",
            r#"{"permissions":{"defaultMode":"acceptEdits"}}"#
        )]));
        assert!(!chosen(&[(
            ".claude/settings.json",
            r#"{"permissions":{"allow":[],"deny":["Read"]}}"#
        )]));
        assert!(!chosen(&[(".claude/settings.json", "{ broken")]));
        let ours = r#"{"permissions":{"allow":["mcp__ekiden"]}}"#;
        assert!(!chosen(&[(".claude/settings.json", ours)]), "by setup");
        let trust = r#"{"projects":{"DIR":{"hasTrustDialogAccepted":true}}}"#;
        assert!(chosen(&[
            ("work/.claude/settings.json", ALLOW),
            (".claude.json", trust)
        ]));
    }

    // shows: AGT-13
    #[test]
    fn a_file_that_begins_with_a_byte_order_mark_counts() {
        let text = "\u{feff}{\"permissions\":{\"deny\":[\"Write\"],\"defaultMode\":\"plan\"}}";
        let settings = Fixture::with(&[(".claude/settings.json", text)]).settings(false);
        let found = settings.denies_handoffs(&[], Interface::Headless);
        assert!(found.is_some());
        assert_eq!(settings.default_mode(), Some("plan"));
    }

    // shows: MON-06
    #[test]
    fn the_highest_layer_that_names_a_window_decides() {
        let place = Fixture::with(&[
            (".claude/settings.json", r#"{"autoCompactWindow":150000}"#),
            (
                "work/.claude/settings.local.json",
                r#"{"autoCompactWindow":120000}"#,
            ),
        ]);
        assert_eq!(place.settings(false).compaction_window(), Some(120_000));
        assert_eq!(place.settings(true).compaction_window(), None);
    }

    // shows: AGT-11
    #[test]
    fn an_isolated_run_has_no_settings_of_the_user() {
        let place = Fixture::with(&[(".claude/settings.json", ALLOW)]);
        assert!(place.settings(false).choose_permissions());
        assert!(!place.settings(true).choose_permissions());
    }

    #[test]
    fn the_highest_layer_that_says_so_switches_hooks_off() {
        let (off, on) = (
            r#"{"disableAllHooks":true}"#,
            r#"{"disableAllHooks":false}"#,
        );
        let place = Fixture::with(&[(".claude/settings.json", off)]);
        assert!(place.settings(false).hooks_are_off().is_some());
        let place = Fixture::with(&[
            (".claude/settings.json", off),
            ("work/.claude/settings.local.json", on),
        ]);
        assert_eq!(place.settings(false).hooks_are_off(), None);
    }

    #[test]
    fn an_administrator_may_allow_only_hooks_of_his_own() {
        let only_managed = serde_json::json!({"allowManagedHooksOnly": true});
        let mut settings = ClientSettings::managed(only_managed);
        let off = settings.hooks_are_off();
        assert_eq!(off, Some(("allowManagedHooksOnly", Path::new(MANAGED))));
        settings.layers[0].path = "/home/dev/.claude/settings.json".into();
        assert_eq!(settings.hooks_are_off(), None, "only an administrator can");
    }
}
