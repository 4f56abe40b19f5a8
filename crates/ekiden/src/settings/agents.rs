//! The agents that a user can name: built-in ones, and rows of settings files, which may change the
//! built-in ones.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ekiden_core::agent::AgentKind;
use ekiden_core::budget::Budget;

use super::form::Read;
use super::given::Given;
use super::table;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::phrase;

/// An agent's row in a settings file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRow {
    pub name: String,
    /// Which adapter drives it; by default that of the built-in agent of this name.
    pub kind: Option<AgentKind>,
    /// The program and its first arguments.
    pub command: Option<Vec<String>>,
    /// Where it keeps the login and settings of its account.
    pub account: Option<String>,
    /// The budget for all its sessions of a run together.
    pub budget: Budget,
    pub path: PathBuf,
    /// The line that it begins on, from 1.
    pub line: usize,
}

impl AgentRow {
    /// Every field that it has.
    pub fn in_words(&self) -> String {
        // No word has a NUL character, which alone could not be quoted.
        let words = |command: &Vec<String>| {
            shlex::try_join(command.iter().map(String::as_str)).unwrap_or_default()
        };
        let fields = [
            ("kind", self.kind.map(|kind| kind.name().to_owned())),
            ("command", self.command.as_ref().map(words)),
            ("account", self.account.clone()),
            ("budget", self.budget.micro_usd.map(dollars)),
            (
                "tokens",
                self.budget.tokens.map(|tokens| tokens.to_string()),
            ),
        ];
        let fields = fields.into_iter();
        let said = fields.filter_map(|(name, value)| Some(format!("{name} = {}", value?)));
        said.collect::<Vec<_>>().join(", ")
    }

    /// A later row of the same name changes only the fields that it has.
    fn changed_by(self, later: Self) -> Self {
        Self {
            kind: later.kind.or(self.kind),
            command: later.command.or(self.command),
            account: later.account.or(self.account),
            budget: self.budget.replaced(later.budget),
            ..later
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    pub name: String,
    pub kind: AgentKind,
    /// The program and its first arguments; `None` for the built-in one.
    pub command: Vec<String>,
    /// Where it keeps the login and settings of its account, if that is not its usual place.
    pub account: Option<String>,
}

/// The agents that need no row, with their commands.
const BUILT_IN: [(&str, AgentKind, &[&str]); 7] = [
    ("claude", AgentKind::Claude, &["claude"]),
    ("rehearsal", AgentKind::Rehearsal, &[]),
    ("codex", AgentKind::Codex, &["codex", "app-server"]),
    ("opencode", AgentKind::Acp, &["opencode", "acp"]),
    ("qwen", AgentKind::Acp, &["qwen", "--acp"]),
    ("gemini", AgentKind::Acp, &["gemini", "--acp"]),
    ("copilot", AgentKind::Acp, &["copilot", "--acp"]),
];

pub fn find(rows: &[AgentRow], name: &str) -> Result<Agent, Failure> {
    let of_name = rows.iter().filter(|row| row.name == name);
    let row = of_name.cloned().reduce(AgentRow::changed_by);
    let built_in = BUILT_IN.iter().find(|(known, ..)| *known == name);
    let built_in = built_in.map(|(_, kind, command)| {
        let words = command.iter().map(|word| (*word).to_owned());
        (*kind, words.collect::<Vec<_>>())
    });
    let kind = row.as_ref().and_then(|row| row.kind);
    let kind = kind.or(built_in.as_ref().map(|built_in| built_in.0));
    let command = row.as_ref().and_then(|row| row.command.clone());
    let command = command
        .or(built_in.map(|built_in| built_in.1))
        .or(kind.and_then(usual_command));
    let account = row.as_ref().and_then(|row| row.account.clone());
    let missing = match (kind, command) {
        (Some(kind), Some(command)) => {
            let name = name.to_owned();
            return Ok(Agent {
                name,
                kind,
                command,
                account,
            });
        }
        (None, _) => "kind = \"acp\" or kind = \"exec\"",
        (Some(_), None) => "command = \"...\"",
    };
    let Some(row) = row else {
        return Err(unknown(rows, name));
    };
    let place = format!("{}:{}", phrase::path(&row.path), row.line);
    let text = format!("{place}: agent `{name}` needs {missing}");
    Err(Failure::new(Exit::Settings, text))
}

/// Where Claude Code keeps the accounts that rows name for it.
pub fn claude_accounts(rows: &[AgentRow]) -> Vec<PathBuf> {
    let named = rows.iter().filter_map(|row| find(rows, &row.name).ok());
    let of_claude = named.filter(|agent| agent.kind == AgentKind::Claude);
    let accounts = of_claude.filter_map(|agent| agent.account);
    accounts.map(PathBuf::from).collect()
}

/// The budgets in agents' rows. A later row replaces only what it names.
pub fn budgets(rows: &[AgentRow]) -> BTreeMap<String, Budget> {
    let mut budgets: BTreeMap<String, Budget> = BTreeMap::new();
    for row in rows.iter().filter(|row| !row.budget.is_unlimited()) {
        let budget = budgets.entry(row.name.clone()).or_default();
        *budget = budget.replaced(row.budget);
    }
    budgets
}

/// The budgets from flags and variables.
pub fn budgets_set(given: &Given) -> Result<BTreeMap<String, Budget>, Failure> {
    let mut budgets: BTreeMap<String, Budget> = BTreeMap::new();
    for (agent, micro_usd) in given.get(&table::AGENT_BUDGET)?.unwrap_or_default() {
        budgets.entry(agent).or_default().micro_usd = Some(micro_usd);
    }
    for (agent, tokens) in given.get(&table::AGENT_TOKENS)?.unwrap_or_default() {
        budgets.entry(agent).or_default().tokens = Some(tokens);
    }
    Ok(budgets)
}

/// Budgets as `--agent-budget` and `--agent-tokens` take them.
pub fn as_flags(budgets: &BTreeMap<String, Budget>) -> [Option<String>; 2] {
    let joined = |of: fn(&Budget) -> Option<String>| {
        let each = budgets.iter();
        let each = each.filter_map(|(agent, budget)| Some(format!("{agent}={}", of(budget)?)));
        let each: Vec<String> = each.collect();
        (!each.is_empty()).then(|| each.join(","))
    };
    [
        joined(|budget| budget.micro_usd.map(dollars)),
        joined(|budget| budget.tokens.map(|tokens| tokens.to_string())),
    ]
}

/// US dollars as settings have them.
pub fn dollars(micro_usd: u64) -> String {
    let text = format!("{}.{:06}", micro_usd / 1_000_000, micro_usd % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Refuses a budget for an agent that neither works in a run nor can be named.
pub fn check_budgets(
    given: &Given,
    budgets: &BTreeMap<String, Budget>,
    is_of_run: impl Fn(&str) -> bool,
) -> Result<(), Failure> {
    let others = budgets.keys().filter(|name| !is_of_run(name));
    let mut others = others.map(|name| find(&given.agents, name));
    others.try_for_each(|found| found.map(drop))
}

/// The usual command of an agent of this kind, for a row that names none.
fn usual_command(kind: AgentKind) -> Option<Vec<String>> {
    let is_its = |(_, of, _): &&(_, AgentKind, _)| *of == kind && kind != AgentKind::Acp;
    let (_, _, command) = BUILT_IN.iter().find(is_its)?;
    Some(command.iter().map(|word| (*word).to_owned()).collect())
}

/// The kind of this name, as settings files call it.
pub fn kind(name: &str) -> Read<AgentKind> {
    use AgentKind::{Acp, Claude, Codex, Exec, Rehearsal};
    let mut kinds = [Claude, Rehearsal, Acp, Codex, Exec].into_iter();
    let kind = kinds.find(|kind| kind.name() == name);
    kind.ok_or_else(|| "claude, rehearsal, acp, codex or exec".to_owned())
}

/// The names that can be used, those of the settings files last.
pub fn names(rows: &[AgentRow]) -> Vec<String> {
    let known = BUILT_IN.iter().map(|(name, ..)| *name);
    let names = known.chain(rows.iter().map(|row| row.name.as_str()));
    names.map(str::to_owned).collect()
}

fn unknown(rows: &[AgentRow], name: &str) -> Failure {
    let names = names(rows).join(", ");
    Failure::new(Exit::Settings, format!("there is no agent `{name}`"))
        .hint(format!("there are: {names}"))
        .hint("any other program works for one run with `--agent-command 'PROGRAM ARGUMENTS'`, without `--agent`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, kind: Option<AgentKind>, command: Option<&str>) -> AgentRow {
        let command = command.map(|program| vec![program.to_owned()]);
        AgentRow {
            name: name.to_owned(),
            kind,
            command,
            account: None,
            budget: Budget::default(),
            path: PathBuf::from("config.toml"),
            line: 4,
        }
    }

    #[test]
    fn built_in_agents_need_no_row() {
        assert_eq!(find(&[], "claude").unwrap().command, ["claude"]);
        assert_eq!(find(&[], "rehearsal").unwrap().kind, AgentKind::Rehearsal);
    }

    #[test]
    fn a_row_changes_what_it_says_and_the_last_one_wins() {
        let rows = [
            row("claude", None, Some("one")),
            row("claude", None, Some("two")),
        ];
        let agent = find(&rows, "claude").unwrap();
        assert_eq!(
            (agent.kind, agent.command),
            (AgentKind::Claude, vec!["two".to_owned()])
        );
    }

    // shows: RUN-03
    #[test]
    fn a_later_row_keeps_the_fields_that_it_does_not_have() {
        let first = AgentRow {
            account: Some("/home/me/work".to_owned()),
            ..row("nightly", Some(AgentKind::Claude), Some("one"))
        };
        let later = AgentRow {
            budget: Budget {
                micro_usd: Some(5_000_000),
                tokens: None,
            },
            ..row("nightly", None, None)
        };
        let agent = find(&[first, later.clone()], "nightly").unwrap();
        assert_eq!(
            (agent.kind, agent.command, agent.account.as_deref()),
            (
                AgentKind::Claude,
                vec!["one".to_owned()],
                Some("/home/me/work")
            )
        );
        assert_eq!(later.in_words(), "budget = 5");
    }

    #[test]
    fn a_budget_is_for_an_agent_of_the_run_or_one_that_can_be_named() {
        let given = super::super::chosen::tests::given(&[], &[]);
        let check = |name: &str| {
            let budgets = BTreeMap::from([(name.to_owned(), Budget::default())]);
            check_budgets(&given, &budgets, |name| name == "frozen")
        };
        assert!(check("frozen").is_ok() && check("codex").is_ok());
        let refused = check("codx").unwrap_err().to_string();
        assert!(refused.contains("there is no agent `codx`"), "{refused}");
    }

    #[test]
    fn budgets_become_the_flags_that_say_the_same() {
        let budget = |micro_usd, tokens| Budget { micro_usd, tokens };
        let budgets = [
            ("claude", budget(Some(5_000_001), None)),
            ("codex", budget(Some(20_000), Some(400_000))),
        ];
        let budgets = BTreeMap::from(budgets.map(|(name, budget)| (name.to_owned(), budget)));
        let flags = as_flags(&budgets).map(Option::unwrap);
        let flags = [
            ("agent_budget", flags[0].as_str()),
            ("agent_tokens", flags[1].as_str()),
        ];
        let given = super::super::chosen::tests::given(&flags, &[]);
        assert_eq!(budgets_set(&given).unwrap(), budgets);
        assert_eq!(as_flags(&BTreeMap::new()), [None, None]);
    }

    #[test]
    fn what_is_missing_is_said() {
        let text = |rows: &[AgentRow], name| find(rows, name).unwrap_err().to_string();
        expect_test::expect![[r"
            error: there is no agent `goose`
            hint: there are: claude, rehearsal, codex, opencode, qwen, gemini, copilot, mine
            hint: any other program works for one run with `--agent-command 'PROGRAM ARGUMENTS'`, without `--agent`"]]
        .assert_eq(&text(&[row("mine", None, None)], "goose"));
        expect_test::expect![[r#"error: config.toml:4: agent `mine` needs command = "...""#]]
            .assert_eq(&text(&[row("mine", Some(AgentKind::Exec), None)], "mine"));
        expect_test::expect![[
            r#"error: config.toml:4: agent `mine` needs kind = "acp" or kind = "exec""#
        ]]
        .assert_eq(&text(&[row("mine", None, Some("x"))], "mine"));
    }
}
