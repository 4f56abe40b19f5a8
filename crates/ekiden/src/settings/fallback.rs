//! What takes over when the run's agent is out: agents, accounts and models, in order.

use ekiden_core::agent::{AgentKind, AgentSpec, Interface};
use ekiden_core::fallback::Fallback;

use super::given::Given;
use super::{agents, chosen, table};
use crate::exit::Exit;
use crate::failure::Failure;

/// Those that come after the run's agent. Refuses any that cannot keep to its permissions.
pub fn fallback(given: &Given, of_run: &AgentSpec) -> Result<Fallback, Failure> {
    let names = given.get(&table::FALLBACK)?.unwrap_or_default();
    let agents = names.iter().map(|name| {
        let agent = named(given, name, of_run)?;
        match agent.cannot_hold(&of_run.permissions) {
            None => Ok(agent),
            Some(why) => {
                let text = format!("`{name}` cannot take over from `{}`: {why}", of_run.name);
                Err(Failure::new(Exit::Settings, text)
                    .hint("leave it out of `fallback`, or choose other permissions for this run"))
            }
        }
    });
    Ok(Fallback {
        agents: agents.collect::<Result<_, _>>()?,
        returns: given.need(&table::FALLBACK_RETURN)?,
    })
}

/// `codex`; `claude:haiku` with a model; `claude:work` for the account of the agent `work`, which is of the
/// same kind.
fn named(given: &Given, name: &str, of_run: &AgentSpec) -> Result<AgentSpec, Failure> {
    let (agent, behind) = match name.split_once(':') {
        Some((agent, behind)) => (agent, Some(behind)),
        None => (name, None),
    };
    let mut found = chosen::agent_named(given, agent, of_run)?;
    if let Some(behind) = behind {
        let account = agents::find(&given.agents, behind).ok();
        match account.filter(|other| other.kind == found.kind) {
            Some(_) => found = chosen::agent_named(given, behind, of_run)?,
            None => found.model = Some(behind.to_owned()),
        }
    }
    if found.kind != AgentKind::Claude {
        found.interface = Interface::Headless;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use ekiden_core::budget::Budget;

    use super::*;
    use crate::settings::agents::AgentRow;

    fn row(name: &str, kind: AgentKind, account: Option<&str>) -> AgentRow {
        AgentRow {
            name: name.to_owned(),
            kind: Some(kind),
            command: Some(vec![name.to_owned()]),
            account: account.map(str::to_owned),
            budget: Budget::default(),
            path: PathBuf::from("config.toml"),
            line: 1,
        }
    }

    fn read(words: &str, typed: &[(&'static str, &str)]) -> Result<Vec<String>, String> {
        let given = [&[("fallback", words)], typed].concat();
        let mut given = chosen::tests::given(&given, &[]);
        given.agents = vec![
            row("work", AgentKind::Claude, Some("/home/me/.claude-work")),
            row("script", AgentKind::Exec, None),
        ];
        let settings = chosen::settings(&given, std::path::Path::new("/p"));
        let settings = settings.map_err(|failure| failure.error().to_owned())?;
        let told = |agent: &AgentSpec| match &agent.account {
            Some(account) => format!("{} at {account}", agent.label()),
            None => agent.label(),
        };
        Ok(settings.fallback.agents.iter().map(told).collect())
    }

    // shows: REL-39
    #[test]
    fn a_row_names_agents_accounts_and_models() {
        let found = read("claude:work, codex,claude:haiku", &[("model", "opus")]).unwrap();
        assert_eq!(
            found,
            [
                "work:opus at /home/me/.claude-work",
                "codex",
                "claude:haiku"
            ]
        );
        let of_opencode = [("agent", "opencode"), ("model", "a/big")];
        assert_eq!(
            read("qwen,opencode:b/big", &of_opencode).unwrap(),
            ["qwen", "opencode:b/big"]
        );
        assert_eq!(read("none", &[]), Ok(Vec::new()));
        assert_eq!(
            read("codec", &[]),
            Err("there is no agent `codec`".to_owned())
        );
    }

    // shows: REL-39
    #[test]
    fn who_cannot_keep_to_the_permissions_is_refused_with_the_reason() {
        expect_test::expect![[r#"Err("`script` cannot take over from `claude`: an agent of kind `exec` asks nobody, so it cannot be held to permissions")"#]]
        .assert_eq(&format!("{:?}", read("script", &[])));
        assert!(read("script", &[("skip_permissions", "true")]).is_ok());
        expect_test::expect![[r#"Err("`codex` cannot take over from `claude`: it cannot leave out your own settings of it (`isolated`)")"#]]
        .assert_eq(&format!("{:?}", read("codex", &[("isolated", "true")])));
    }
}
