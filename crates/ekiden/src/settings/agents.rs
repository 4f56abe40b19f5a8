//! The agents that can be named, as rows of differences: built-in ones and those of settings files.

use std::path::{Path, PathBuf};

use ekiden_core::settings::AgentKind;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::phrase;

/// An agent's row in a settings file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRow {
    /// What the user calls it.
    pub name: String,
    /// Which adapter drives it; that of the built-in agent of this name if not said.
    pub kind: Option<AgentKind>,
    /// The program and its first arguments.
    pub command: Option<Vec<String>>,
    /// The file that the row is in.
    pub path: PathBuf,
    /// The line that it begins on, from 1.
    pub line: usize,
}

/// An agent as it can be named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// What the user calls it.
    pub name: String,
    /// Which adapter drives it.
    pub kind: AgentKind,
    /// The program and its first arguments; nothing for the one that is built in.
    pub command: Vec<String>,
}

impl AgentRow {
    /// A row that says nothing yet.
    #[must_use]
    pub fn new(name: &str, path: &Path, line: usize) -> Self {
        Self { name: name.to_owned(), kind: None, command: None, path: path.to_owned(), line }
    }
}

/// The agent of this name. The last row of a name wins.
///
/// # Errors
///
/// If there is none, or its row does not say enough.
pub fn find(rows: &[AgentRow], name: &str) -> Result<Agent, Failure> {
    let built_in = built_in(name);
    let row = rows.iter().rev().find(|row| row.name == name);
    let Some(kind) = row.and_then(|row| row.kind).or(built_in.as_ref().map(|agent| agent.kind)) else {
        return Err(match row {
            Some(row) => incomplete(row, "kind = \"claude\" or kind = \"exec\""),
            None => unknown(rows, name),
        });
    };
    let command = row
        .and_then(|row| row.command.clone())
        .or(built_in.map(|agent| agent.command))
        .or_else(|| (kind == AgentKind::Rehearsal).then(Vec::new));
    match (command, row) {
        (Some(command), _) => Ok(Agent { name: name.to_owned(), kind, command }),
        (None, Some(row)) => Err(incomplete(row, "command = \"...\"")),
        (None, None) => Err(unknown(rows, name)),
    }
}

/// The kind of this name, as settings files call it.
#[must_use]
pub fn kind_named(name: &str) -> Option<AgentKind> {
    [AgentKind::Claude, AgentKind::Rehearsal, AgentKind::Exec].into_iter().find(|kind| kind.name() == name)
}

fn built_in(name: &str) -> Option<Agent> {
    let (kind, command) = match name {
        "claude" => (AgentKind::Claude, vec!["claude".to_owned()]),
        "rehearsal" => (AgentKind::Rehearsal, Vec::new()),
        _ => return None,
    };
    Some(Agent { name: name.to_owned(), kind, command })
}

fn incomplete(row: &AgentRow, missing: &str) -> Failure {
    let place = format!("{}:{}", phrase::path(&row.path), row.line);
    Failure::new(Exit::Settings, format!("{place}: agent `{}` needs {missing}", row.name))
}

fn unknown(rows: &[AgentRow], name: &str) -> Failure {
    let mut names = vec!["claude", "rehearsal"];
    names.extend(rows.iter().map(|row| row.name.as_str()));
    let failure = Failure::new(Exit::Settings, format!("there is no agent `{name}`"))
        .hint(format!("there are: {}", names.join(", ")));
    failure.hint("any other program works for one run with `--agent-command 'PROGRAM ARGUMENTS'`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, kind: Option<AgentKind>, command: Option<&str>) -> AgentRow {
        let command = command.map(|program| vec![program.to_owned()]);
        AgentRow { kind, command, ..AgentRow::new(name, Path::new("config.toml"), 4) }
    }

    #[test]
    fn built_in_agents_need_no_row() {
        assert_eq!(find(&[], "claude").unwrap().command, ["claude"]);
        assert_eq!(find(&[], "rehearsal").unwrap().kind, AgentKind::Rehearsal);
    }

    #[test]
    fn a_row_changes_what_it_says_and_the_last_one_wins() {
        let rows = [row("claude", None, Some("one")), row("claude", None, Some("two"))];
        let agent = find(&rows, "claude").unwrap();
        assert_eq!((agent.kind, agent.command), (AgentKind::Claude, vec!["two".to_owned()]));
    }

    #[test]
    fn what_is_missing_is_said() {
        let text = |rows: &[AgentRow], name| find(rows, name).unwrap_err().to_string();
        expect_test::expect![[r"
            error: there is no agent `codex`
            hint: there are: claude, rehearsal, mine
            hint: any other program works for one run with `--agent-command 'PROGRAM ARGUMENTS'`"]]
        .assert_eq(&text(&[row("mine", None, None)], "codex"));
        expect_test::expect![[r#"error: config.toml:4: agent `mine` needs command = "...""#]]
            .assert_eq(&text(&[row("mine", Some(AgentKind::Exec), None)], "mine"));
        expect_test::expect![[
            r#"error: config.toml:4: agent `mine` needs kind = "claude" or kind = "exec""#
        ]]
        .assert_eq(&text(&[row("mine", None, Some("x"))], "mine"));
    }
}
