//! The guard in the client's settings: where it stands, whether its program is there, what it lacks.

use std::path::Path;

use ekiden_wire::client_settings::GUARD_HOOKS;

use super::Check;
use crate::client::guard::{LeftOut, Place, is_there, look, stands_in_settings};
use crate::output::line::one_line;
use crate::settings::environment::Environment;

const NAME: &str = "guard";
const SETUP: &str = "`ekiden setup` puts it right (`--project` for the project's settings)";

/// What there is to say of the guard. It is for sessions that a person starts; a run does without it,
/// so nothing here is a failure.
pub(super) fn checks(environment: &Environment, dir: &Path) -> Vec<Check> {
    let (places, left_out) = look(environment, dir);
    let stands = |event: &str| stands_in_settings(event, environment, dir);
    let mut checks: Vec<Check> = left_out.iter().map(left_out_check).collect();
    checks.extend(places.iter().filter_map(missing_program));
    let programs: Vec<&str> = places.iter().flat_map(|place| place.survey.programs()).collect();
    checks.extend(several(&programs));
    let plugin = places.iter().any(|place| place.survey.plugin);
    if !programs.is_empty() && !plugin {
        let missing: Vec<&str> = GUARD_HOOKS.iter().map(|hook| hook.event).filter(|e| !stands(e)).collect();
        checks.extend(incomplete(&missing, checks.is_empty()));
    }
    if checks.is_empty() {
        checks.push(Check::ok(NAME, found(&places, plugin)));
    }
    checks
}

fn left_out_check(file: &LeftOut) -> Check {
    let found = format!("the agent leaves out all of {}: no plain JSON at {}", file.path.display(), file.at);
    Check::warning(NAME, found, "mend the file; comments and trailing commas count as mistakes there")
}

fn missing_program(place: &Place) -> Option<Check> {
    let gone = place.survey.programs().into_iter().find(|program| !is_there(program))?;
    let found = format!("{} calls `{}`, which is not there", place.path.display(), one_line(gone));
    Some(Check::warning(NAME, found, SETUP))
}

/// The client runs the same command once, wherever it stands; commands that differ all run.
fn several(programs: &[&str]) -> Option<Check> {
    let other = programs.iter().find(|program| **program != programs[0])?;
    let found = format!("two programs are called: `{}` and `{}`", one_line(programs[0]), one_line(other));
    Some(Check::warning(NAME, found, "`ekiden setup` where the wrong one stands, or `--remove`"))
}

fn incomplete(missing: &[&str], alone: bool) -> Option<Check> {
    (alone && !missing.is_empty())
        .then(|| Check::warning(NAME, format!("hooks are missing: {}", missing.join(", ")), SETUP))
}

fn found(places: &[Place], plugin: bool) -> String {
    let files: Vec<String> = places
        .iter()
        .filter(|place| !place.survey.programs().is_empty())
        .map(|place| place.path.display().to_string())
        .collect();
    match (files.is_empty(), plugin) {
        (true, false) => "not installed; `ekiden setup` has it watch the sessions that you start".to_owned(),
        (true, true) => "installed as a plugin".to_owned(),
        (false, false) => format!("installed in {}", files.join(", ")),
        (false, true) => {
            format!("installed in {}, and as a plugin, whose hooks stand aside", files.join(", "))
        }
    }
}
