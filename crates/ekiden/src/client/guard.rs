//! Where the guard is installed: which settings files of the client call `ekiden hook`.
//!
//! The plugin's hook calls [`is_in_settings`] every time, so it must be very cheap: it reads at most four
//! small files and stops at the first that says yes.

use std::path::{Path, PathBuf};

use ekiden_wire::client_settings::{Position, Survey, load_fault};

use super::settings::{MANAGED, config_dir, read_file};
use crate::settings::environment::Environment;

/// The settings files of the client that may hold hooks, an administrator's last: each takes precedence over those
/// before it.
fn settings_files(environment: &Environment, project: &Path) -> Vec<PathBuf> {
    let user = config_dir(environment).map(|dir| dir.join("settings.json"));
    let project =
        ["settings.json", "settings.local.json"].map(|name| project.join(".claude").join(name));
    user.into_iter()
        .chain(project)
        .chain([PathBuf::from(MANAGED)])
        .collect()
}

/// A settings file that the client reads in this project has one of our hooks for this event, and its
/// program exists. Then the plugin's hook has nothing to do, so that everything fires once.
///
/// It cannot see whether the client was told to ignore some settings (`--setting-sources`).
pub fn is_in_settings(event: &str, environment: &Environment, project: &Path) -> bool {
    settings_files(environment, project)
        .iter()
        .filter_map(|path| survey(path))
        .any(|survey| survey.programs_at(event).any(is_there))
}

/// A settings file that contains some of the guard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardedFile {
    pub path: PathBuf,
    /// What the client sees in it.
    pub survey: Survey,
}

/// A settings file that the client ignores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IgnoredFile {
    pub path: PathBuf,
    /// Where the client stops reading.
    pub at: Position,
}

/// Every file that contains some of the guard, and those that the client ignores.
pub fn look(environment: &Environment, project: &Path) -> (Vec<GuardedFile>, Vec<IgnoredFile>) {
    let (mut files, mut ignored) = (Vec::new(), Vec::new());
    for path in settings_files(environment, project) {
        match survey(&path) {
            Some(survey) => files.push(GuardedFile { path, survey }),
            None => {
                let text = read_file(&path).unwrap_or_default();
                let text = String::from_utf8_lossy(&text);
                ignored.extend(load_fault(&text).map(|at| IgnoredFile { path, at }));
            }
        }
    }
    files.retain(|file| !file.survey.programs().is_empty() || file.survey.plugin);
    (files, ignored)
}

/// The status line that the client shows in this project is ours. It shows the one of the last file that sets any.
pub fn shows_status_line(environment: &Environment, project: &Path) -> bool {
    let files = settings_files(environment, project).into_iter().rev();
    let mut lines = files.filter_map(|path| survey(&path).filter(|survey| survey.has_status_line));
    lines
        .next()
        .is_some_and(|survey| survey.status_line.is_some())
}

/// The program of a command exists. A bare name is assumed to exist: the client's shell looks for it on the
/// same PATH where it found the calling program.
pub fn is_there(program: &str) -> bool {
    let program = Path::new(program);
    program.is_relative() || program.is_file()
}

fn survey(path: &Path) -> Option<Survey> {
    Survey::read(&read_file(path)?)
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "a test writes the files that it reads"
)]
mod tests {
    use ekiden_wire::client_settings::install;

    use super::*;

    struct Home(tempfile::TempDir);

    impl Home {
        fn new() -> Self {
            let home = Self(tempfile::tempdir().unwrap());
            home.write("bin/ekiden", "");
            home
        }

        fn path(&self, name: &str) -> String {
            self.0.path().join(name).to_str().unwrap().to_owned()
        }

        fn write(&self, name: &str, text: &str) {
            let path = self.0.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        fn stands(&self, event: &str) -> bool {
            let home = self.path("");
            let environment = Environment::of([("HOME", home.as_str())]);
            is_in_settings(event, &environment, &self.0.path().join("work"))
        }
    }

    // shows: OPS-02
    #[test]
    fn the_plugin_stands_aside_for_every_layer_in_which_the_guard_stands() {
        for file in [
            ".claude/settings.json",
            "work/.claude/settings.json",
            "work/.claude/settings.local.json",
        ] {
            let home = Home::new();
            assert!(!home.stands("Stop"));
            home.write(file, &install("", &home.path("bin/ekiden")).unwrap().text);
            assert!(home.stands("Stop") && home.stands("PreCompact"), "{file}");
            assert!(!home.stands("PostToolUse"), "{file}");
        }
    }

    // shows: OPS-02
    #[test]
    fn the_plugin_does_the_work_where_the_guard_in_the_settings_cannot() {
        let home = Home::new();
        home.write(
            ".claude/settings.json",
            &install("", &home.path("bin/gone/ekiden")).unwrap().text,
        );
        assert!(!home.stands("Stop"), "the program is gone");
        let commented = install("// why\n{}", &home.path("bin/ekiden"))
            .unwrap()
            .text;
        home.write(".claude/settings.json", &commented);
        assert!(!home.stands("Stop"), "the client leaves the file out");
        home.write(
            ".claude/settings.json",
            &install("", "ekiden").unwrap().text,
        );
        assert!(home.stands("Stop"), "found on PATH");
    }

    // shows: AGT-18, UIX-06
    #[test]
    fn the_status_line_that_is_shown_is_that_of_the_last_file_that_sets_any() {
        let home = Home::new();
        let path = home.path("");
        let environment = Environment::of([("HOME", path.as_str())]);
        let is_shown = || shows_status_line(&environment, &home.0.path().join("work"));
        assert!(!is_shown());
        let ours = install("", &home.path("bin/ekiden")).unwrap().text;
        home.write(".claude/settings.json", &ours);
        assert!(is_shown());
        let settings = "work/.claude/settings.json";
        home.write(settings, r#"{"model": "opus"}"#);
        assert!(is_shown());
        let other = r#"{"statusLine": {"type": "command", "command": "date"}}"#;
        home.write(settings, other);
        assert!(!is_shown(), "the project's own hides it");
        home.write("work/.claude/settings.local.json", &ours);
        assert!(is_shown());
    }
}
