//! Limits and rules that the user wants, but ekiden cannot enforce.

use std::collections::BTreeSet;

use ekiden_core::agent::{AgentKind, AgentSpec, Interface};
use ekiden_core::bounds::{Bounds, BoundsChange};
use ekiden_core::budget::Budget;
use ekiden_core::run::Run;
use ekiden_core::settings::RunStarted;

use crate::output::Output;
use crate::output::line::one_line;
use crate::settings::given::{Given, Origin};
use crate::settings::table;

/// Warns of each limit that a command sets in vain.
pub(super) fn warn(given: &Given, run: &Run, change: &BoundsChange, output: &mut Output) {
    let mut bounds = Bounds::default();
    bounds.change(change);
    let warnings = of(given, run.header(), &bounds);
    warnings.iter().for_each(|warning| output.warn(warning));
}

/// What ekiden cannot enforce on the agents of a run.
pub(super) fn of(given: &Given, header: &RunStarted, bounds: &Bounds) -> BTreeSet<String> {
    let of = |agent| not_enforced(given, agent, bounds);
    header.agents().flat_map(of).collect()
}

/// What the user wants, but ekiden cannot enforce on a program that reports little or nothing.
fn not_enforced(given: &Given, agent: &AgentSpec, bounds: &Bounds) -> Vec<String> {
    let of_agent = bounds.agents.get(&agent.name).copied();
    let budgets = [bounds.run, bounds.session, of_agent.unwrap_or_default()];
    if agent.interface == Interface::Terminal {
        let is_limited = bounds.turns_max.is_some() || budgets.iter().any(|of| of.tokens.is_some());
        let text = "with `--tui` the agent reports neither tokens nor turns, so no limit of them ends its work; `--session-timeout` and budgets in dollars do";
        return Vec::from_iter(is_limited.then(|| text.to_owned()));
    }
    if agent.kind != AgentKind::Exec {
        return Vec::new();
    }
    let name = one_line(&agent.name);
    let mut told = Vec::new();
    if bounds.turns_max.is_some() || budgets != [Budget::default(); 3] {
        told.push(format!(
            "`{name}` reports neither cost, tokens nor turns, so no limit of them ends its work; `-m` and `--session-timeout` do"
        ));
    }
    let rules = [&table::PERMISSION_MODE.row, &table::ALLOWED_TOOL.row];
    if rules.iter().any(|row| given.origin(row) == Origin::Flag) {
        told.push(format!(
            "`{name}` asks nobody, so `--permission-mode` and `--allowed-tool` change nothing"
        ));
    }
    told
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::settings::chosen;

    // shows: REL-22, AGT-02
    #[test]
    fn limits_that_the_agents_own_interface_cannot_be_held_to_are_told() {
        let told = |limit: (&'static str, &str)| {
            let given = chosen::tests::given(&[("tui", "true"), limit], &[]);
            let settings = chosen::settings(&given, Path::new("/p")).unwrap();
            not_enforced(&given, &settings.agent, &settings.bounds)
        };
        for limit in ["run_tokens", "session_tokens", "max_turns"] {
            let told = told((limit, "9000"));
            assert!(told[0].contains("neither tokens nor turns"), "{told:?}");
        }
        assert_eq!(told(("run_budget", "5")), [""; 0]);
    }
}
