//! Checks whether a notification would reach somebody.

use std::path::Path;

use ekiden_agent::child::find_on_path;
use ekiden_engine::EngineError;
use ekiden_engine::notify::{Endpoint, Way, try_out};

use super::Check;

const NAME: &str = "notify";

/// What is known without sending anything.
pub(super) fn check(endpoints: &[Endpoint]) -> Check {
    let missing = endpoints.iter().find_map(|endpoint| match &endpoint.way {
        Way::Command(words) => words
            .first()
            .filter(|program| find_on_path(program).is_none()),
        Way::Desktop | Way::Webhook(_) | Way::Ntfy(_) => None,
    });
    if let Some(program) = missing {
        let found = format!("`notify.command`: there is no program `{program}`");
        return Check::warning(
            NAME,
            found,
            "name another: `ekiden config set notify.command 'PROGRAM ARGUMENTS'`",
        );
    }
    let names: Vec<&str> = endpoints.iter().map(|one| one.way.name()).collect();
    match names.is_empty() {
        true => Check::ok(NAME, "switched off"),
        false => Check::ok(
            NAME,
            format!("{}; --try-notify sends one", names.join(", ")),
        ),
    }
}

/// Sends a notification by each way, and reports the results.
pub(super) fn try_each(dir: &Path, endpoints: &[Endpoint]) -> Result<Vec<Check>, EngineError> {
    let told = try_out(dir, endpoints)?;
    let told = told.into_iter().map(|(way, failed)| match failed {
        None => Check::ok(NAME, format!("{way}: sent")),
        Some(why) => {
            // The desktop is the one way that is on without a setting.
            let remedy = match way == Way::Desktop.name() {
                true => "switch it off: `ekiden config set notify.desktop false`",
                false => "see docs/notifications.md, or leave this way out of your settings",
            };
            Check::warning(NAME, format!("{way}: {why}"), remedy)
        }
    });
    Ok(told.collect())
}
