//! `ekiden config`: every setting, its value, and who set it; and the approval of a project's own file.

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::Value;

use super::Scene;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::line::{Line, Tone, one_line};
use crate::output::{Output, phrase};
use crate::settings::approval::{self, Approvals, Restricted};
use crate::settings::environment::{Environment, RUN_VARIABLE};
use crate::settings::file::SettingsFile;
use crate::settings::flags::{Asking, Starting, Typed};
use crate::settings::given::{FilePlace, Given, Origin, project_file};
use crate::settings::table::{self, Row, TABLE, Takes};

const EXAMPLES: &str = "\
Examples:
  ekiden config show
  ekiden config show -m 3 --verify 'make test'   what `run` would use with these flags
  ekiden config show --json
  ekiden config approve                          what this project's own config.toml may not say by itself
";

/// The version of the JSON form.
const JSON_VERSION: u32 = 1;

/// Show settings and where they come from, approve a project's own
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Subcommand)]
enum ConfigCommand {
    Show(ShowArgs),
    Approve(ApproveArgs),
}

/// Print every setting, its value, and who set it
///
/// A flag wins over an `EKIDEN_*` variable, that over the project's `.ekiden/config.toml`, that over
/// the user's `~/.config/ekiden/config.toml`, and that over the default.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
struct ShowArgs {
    #[command(flatten)]
    typed: Typed<Starting>,
}

const APPROVE_EXAMPLES: &str = "\
Examples:
  ekiden config approve             show what it says, and approve it as it is now
  ekiden config approve --remove    withdraw the approval
";

/// Approve what this project's own `config.toml` says of commands, agents and permissions
///
/// By itself it may not: it would decide what runs on the machine of everybody who clones the project.
/// The approval holds for the file as it is now; when it changes, it has to be approved again. What the
/// commands named there do is not looked at.
#[derive(Args)]
#[command(before_help = APPROVE_EXAMPLES)]
struct ApproveArgs {
    #[command(flatten)]
    typed: Typed<Asking>,
    /// Withdraw the approval
    #[arg(long)]
    remove: bool,
}

/// Runs the command.
///
/// # Errors
///
/// If a setting is wrong.
pub fn config(args: &ConfigArgs, output: &mut Output) -> Result<Exit, Failure> {
    match &args.command {
        ConfigCommand::Show(args) => show(args, output),
        ConfigCommand::Approve(args) => approve(args, output),
    }
}

fn approve(args: &ApproveArgs, output: &mut Output) -> Result<Exit, Failure> {
    let environment = Environment::of_process();
    if environment.variable(RUN_VARIABLE).is_some() {
        let text = "an approval is a person's, and this is a session of ekiden";
        return Err(Failure::new(Exit::Settings, text).hint("run it yourself, outside of the session"));
    }
    let path = project_file(&args.typed.flags(), &environment);
    let shown = phrase::path(&path);
    let approvals = Approvals::read(&environment)?;
    if args.remove {
        let had = approvals.withdraw(&path)?;
        let text = if had { "is not approved any more" } else { "was not approved" };
        output.line(&Line::new(Tone::Plain, format!("{shown} {text}")));
        return Ok(Exit::Done);
    }
    let Some(file) = SettingsFile::read(&path)? else {
        return Err(Failure::new(Exit::MissingInput, format!("there is no {shown}")));
    };
    let restricted = approval::restricted(&file, &environment);
    if restricted.is_empty() {
        output.line(&Line::new(Tone::Plain, format!("{shown} says nothing that needs an approval")));
        return Ok(Exit::Done);
    }
    approvals.approve(&file)?;
    if args.typed.flags().get(table::JSON.row.name).is_some_and(|json| json == "true") {
        output.json(&Approval { v: JSON_VERSION, file: shown, approved: restricted });
        return Ok(Exit::Done);
    }
    for one in restricted {
        let line = Line::new(Tone::Quiet, format!("{shown}:{}  ", one.line));
        output.line(&line.with(Tone::Plain, one_line(&format!("{} {}", one.what, visible(&one.value)))));
    }
    output.line(&Line::new(Tone::Done, "approved, until the file changes"));
    output.talk("next: ekiden config show\n");
    Ok(Exit::Done)
}

/// With all that a terminal would not show: what is approved has to be seen.
fn visible(text: &str) -> String {
    let plain = |c: char| c == ' ' || c.is_ascii_graphic() || c.is_alphanumeric();
    let shown = |c: char| if plain(c) { c.to_string() } else { c.escape_debug().to_string() };
    text.chars().map(shown).collect()
}

fn show(args: &ShowArgs, output: &mut Output) -> Result<Exit, Failure> {
    let scene = Scene::set(args.typed.flags())?;
    let rows: Vec<Shown> = TABLE.iter().map(|setting| Shown::of(setting.row(), &scene.given)).collect();
    if scene.given.need(&table::JSON)? {
        output.json(&Answer { v: JSON_VERSION, settings: rows, agents: agents(&scene.given) });
        return Ok(Exit::Done);
    }
    let names = rows.iter().map(|row| row.key.len()).max().unwrap_or(0);
    let values = rows.iter().map(|row| row.text().chars().count()).max().unwrap_or(0).min(40);
    for row in &rows {
        let (key, value) = (row.key, row.text());
        let line = Line::new(Tone::Plain, format!("{key:<names$}  {value:<values$}"));
        output.line(&line.with(Tone::Quiet, format!("  {}", row.place)));
    }
    for agent in agents(&scene.given) {
        let line = Line::new(Tone::Plain, format!("[agents.{}]", agent.name));
        output.line(&line.with(Tone::Quiet, format!("  {}:{}", agent.file, agent.line)));
    }
    Ok(Exit::Done)
}

/// What was approved, for programs.
#[derive(Serialize)]
struct Approval {
    v: u32,
    file: String,
    approved: Vec<Restricted>,
}

/// The answer for programs.
#[derive(Serialize)]
struct Answer {
    v: u32,
    settings: Vec<Shown>,
    agents: Vec<ShownAgent>,
}

/// One setting.
#[derive(Serialize)]
struct Shown {
    key: &'static str,
    /// A string, a list of strings, or nothing.
    value: Value,
    /// One of `default`, `user`, `project`, `environment`, `flag`.
    origin: &'static str,
    /// The flag or variable, or file and line.
    place: String,
}

/// An agent of a settings file.
#[derive(Serialize)]
struct ShownAgent {
    name: String,
    kind: Option<&'static str>,
    command: Option<Vec<String>>,
    file: String,
    line: usize,
}

impl Shown {
    fn of(row: &'static Row, given: &Given) -> Self {
        let said = given.said(row);
        let (origin, place) = match said.as_ref().map(|said| &said.origin) {
            None | Some(Origin::Default) => ("default", "default".to_owned()),
            Some(Origin::User(place)) => ("user", line_of(place)),
            Some(Origin::Project(place)) => ("project", line_of(place)),
            Some(Origin::Env(name)) => ("environment", (*name).to_owned()),
            Some(Origin::Flag(flag)) => ("flag", format!("--{flag}")),
        };
        let value = match (said, row.takes) {
            (None, _) => Value::Null,
            (Some(said), Takes::Many(_)) => said.text.lines().map(str::to_owned).collect(),
            (Some(said), Takes::One(_) | Takes::Nothing { .. }) => Value::String(said.text),
        };
        Self { key: row.name, value, origin, place }
    }

    fn text(&self) -> String {
        match &self.value {
            Value::Null => "-".to_owned(),
            Value::String(text) => one_line(text),
            Value::Array(values) => {
                let texts: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
                one_line(&texts.join("  "))
            }
            Value::Bool(_) | Value::Number(_) | Value::Object(_) => one_line(&self.value.to_string()),
        }
    }
}

fn agents(given: &Given) -> Vec<ShownAgent> {
    let shown = |row: &crate::settings::agents::AgentRow| ShownAgent {
        name: row.name.clone(),
        kind: row.kind.map(ekiden_core::settings::AgentKind::name),
        command: row.command.clone(),
        file: phrase::path(&row.path),
        line: row.line,
    };
    given.agents().iter().map(shown).collect()
}

fn line_of(place: &FilePlace) -> String {
    format!("{}:{}", phrase::path(&place.path), place.line)
}
