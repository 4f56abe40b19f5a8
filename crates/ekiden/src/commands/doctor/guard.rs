//! Checks the guard in the client's settings: where it is installed, whether its program exists, which
//! hooks are missing.

use std::path::Path;

use ekiden_agent::child::find_on_path;
use ekiden_store::place::ProjectPlace;
use ekiden_wire::client_settings::GUARD_HOOKS;

use super::Check;
use crate::client::guard::{GuardedFile, is_in_settings, is_there, look};
use crate::client::settings::config_dir;
use crate::output::line::one_line;
use crate::settings::environment::Environment;
use crate::settings::table;
use crate::setup::mod_version;

const NAME: &str = "guard";
const SETUP: &str = "`ekiden setup` fixes it (`--project` for the project's settings)";

/// The guard is for sessions that a person starts; a run works without it, so nothing here is a failure.
pub(super) fn checks(environment: &Environment, dir: &Path) -> Vec<Check> {
    let (files, ignored) = look(environment, dir);
    let mut checks: Vec<Check> = Vec::new();
    for file in ignored {
        let (path, at) = (file.path.display(), file.at);
        checks.push(Check::warning(
            NAME,
            format!("the agent ignores all of {path}: not plain JSON at {at}"),
            "fix the file; comments and trailing commas are not accepted there",
        ));
    }
    checks.extend(files.iter().filter_map(missing_program));
    let programs: Vec<&str> = files
        .iter()
        .flat_map(|file| file.survey.programs())
        .collect();
    // The client runs the same command only once, wherever it is set; different commands all run.
    if let Some(other) = programs.iter().find(|program| **program != programs[0]) {
        let [one, other] = [programs[0], other].map(one_line);
        checks.push(Check::warning(
            NAME,
            format!("two programs are called: `{one}` and `{other}`"),
            "`ekiden setup` in the scope of the wrong one, or `--remove`",
        ));
    }
    let plugin = files.iter().any(|file| file.survey.plugin);
    if plugin && find_on_path("ekiden").is_none() {
        checks.push(Check::warning(
            NAME,
            "the plugin calls `ekiden`, which is not on PATH: it does nothing",
            "put `ekiden` on the PATH of your sessions",
        ));
    }
    if checks.is_empty() && !programs.is_empty() && !plugin {
        let events = GUARD_HOOKS.iter().map(|hook| hook.event);
        let missing: Vec<&str> = events
            .filter(|event| !is_in_settings(event, environment, dir))
            .collect();
        if !missing.is_empty() {
            let found = format!("hooks are missing: {}", missing.join(", "));
            checks.push(Check::warning(NAME, found, SETUP));
        }
    }
    checks.extend(old_mod(environment));
    if checks.is_empty() {
        checks.push(Check::ok(NAME, found(&files, plugin)));
    }
    checks.extend(last_error(environment, dir));
    checks
}

/// When hooks and capture had to leave something out, nobody was told.
fn last_error(environment: &Environment, dir: &Path) -> Option<Check> {
    let named = environment
        .variable(&table::STATE_DIR.row.env())
        .map(Path::new);
    let state_dir = ProjectPlace::find(dir, named)?.state_dir;
    let (path, last) = ekiden_store::guard::last_error(&state_dir)?;
    let found = format!("the last problem was: {}", one_line(&last));
    let remedy = format!("fix it, then delete `{}`", path.display());
    Some(Check::warning(NAME, found, remedy))
}

/// An upgrade replaces the program only.
fn old_mod(environment: &Environment) -> Option<Check> {
    let version = mod_version(&config_dir(environment)?)?;
    let own = env!("CARGO_PKG_VERSION");
    let found = format!(
        "mod and skills are from ekiden {}, this is {own}",
        one_line(&version)
    );
    (version != own).then(|| Check::warning(NAME, found, "`ekiden setup` renews them"))
}

fn missing_program(file: &GuardedFile) -> Option<Check> {
    let mut programs = file.survey.programs().into_iter();
    let gone = programs.find(|program| !is_there(program))?;
    let (path, gone) = (file.path.display(), one_line(gone));
    let found = format!("{path} calls `{gone}`, which does not exist");
    Some(Check::warning(NAME, found, SETUP))
}

fn found(files: &[GuardedFile], plugin: bool) -> String {
    let files: Vec<String> = files
        .iter()
        .filter(|file| !file.survey.programs().is_empty())
        .map(|file| file.path.display().to_string())
        .collect();
    let installed = format!("installed in {}", files.join(", "));
    match (files.is_empty(), plugin) {
        (true, false) => {
            "not installed; `ekiden setup` lets it watch the sessions that you start".to_owned()
        }
        (true, true) => "installed as a plugin".to_owned(),
        (false, false) => installed,
        (false, true) => format!("{installed}, and as a plugin, whose hooks do nothing then"),
    }
}
