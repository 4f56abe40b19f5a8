//! `ekiden config`: shows every setting, its value and its origin, and approves a project's own file.

use clap::{Args, Subcommand};
use ekiden_core::agent::AgentKind;
use ekiden_core::text::shell_word;

use super::{Invocation, end_leftovers};
use crate::exit::Exit;
use crate::failure::{Failure, OrFail as _};
use crate::output::json::{Fields, fields};
use crate::output::line::{Line, Tone, one_line};
use crate::output::{Output, phrase};
use crate::settings::agents::{self, AgentRow};
use crate::settings::approval::{self, Approvals};
use crate::settings::environment::Environment;
use crate::settings::file::{self, SettingsFile};
use crate::settings::flags::{Asking, Starting, Typed};
use crate::settings::form;
use crate::settings::given::{Flags, Given, project_file};
use crate::settings::table::{self, Row, TABLE, Takes};

/// A longer value moves its place to the right.
const VALUE_COLUMNS_MAX: usize = 40;

/// Show settings and where they come from, set one, or approve a project's own
#[derive(Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Subcommand)]
enum ConfigCommand {
    Show(ShowArgs),
    Set(SetArgs),
    Approve(ApproveArgs),
}

/// Print every setting, its value, and where it comes from
///
/// The first of these that sets a value counts: a flag, an `EKIDEN_*` variable, the project's `.ekiden/config.toml`, your
/// own `~/.config/ekiden/config.toml`, the default. If the project's file would raise a limit, that has no effect until you
/// approve the file.
#[derive(Args)]
struct ShowArgs {
    #[command(flatten)]
    typed: Typed<Starting>,
}

/// Set a setting in your own `config.toml`, or in this project's
///
/// The rest of the file stays as it is. To unset a setting, delete its line. Settings that decide which commands run or what
/// is permitted go into your own file; `--project` does not take them.
#[derive(Args)]
struct SetArgs {
    /// The key, as `ekiden config show` lists it
    #[arg(value_name = "KEY")]
    key: String,
    /// The value; several for a list
    #[arg(value_name = "VALUE", required = true)]
    values: Vec<String>,
    /// In the project's `.ekiden/config.toml`
    #[arg(long)]
    project: bool,
    #[command(flatten)]
    typed: Typed<Asking>,
}

/// Approve the commands, agents, permissions and higher limits in this project's own `config.toml`
///
/// Without an approval the file may not set them, since it would decide what runs on the machine of everybody who clones the
/// project, and it cannot raise your limits of sessions, time, tokens or money. The approval applies to the file as it is
/// now; after a change other than by `ekiden config set` it needs a new one. ekiden does not check what the commands do.
#[derive(Args)]
struct ApproveArgs {
    /// Only list what that would allow
    #[arg(long, conflicts_with = "remove")]
    dry_run: bool,
    #[command(flatten)]
    typed: Typed<Asking>,
    /// Withdraw all approvals of this project: of its settings, of plans, and that the agent may do everything
    #[arg(long)]
    remove: bool,
}

pub fn config(args: &ConfigArgs, output: &mut Output) -> Result<Exit, Failure> {
    match &args.command {
        ConfigCommand::Show(args) => show(args, output),
        ConfigCommand::Set(args) => set(args, output),
        ConfigCommand::Approve(args) => approve(args, output),
    }
}

/// No session changes settings, and what runs have left ends.
fn before_a_change(flags: Flags, output: &mut Output) -> Result<Environment, Failure> {
    let environment = Environment::of_process();
    environment.refuse_a_session("change or approve settings")?;
    let workspace = Invocation::of_runs(flags).and_then(|invocation| invocation.workspace());
    if let Ok(workspace) = workspace {
        end_leftovers(&workspace, output);
    }
    Ok(environment)
}

fn set(args: &SetArgs, output: &mut Output) -> Result<Exit, Failure> {
    let environment = before_a_change(args.typed.flags(), output)?;
    let key = &args.key;
    let wrong = |text: String| Failure::new(Exit::Usage, text);
    let Some(row) = table::find(key).filter(|row| row.in_files) else {
        let meant = table::meant(key).filter(|row| row.in_files);
        let hint = file::hint_of_unknown(key, meant.map(|row| row.name));
        let all = match key.starts_with("agents.") {
            true => "an agent is a table of a settings file: write it there",
            false => "`ekiden config show` lists all settings",
        };
        let hint = hint.unwrap_or_else(|| all.to_owned());
        return Err(wrong(format!("there is no setting `{key}`")).hint(hint));
    };
    let file = match args.project {
        true if row.user_only => {
            let text = format!("a project's own file may not set `{key}`");
            return Err(wrong(text).hint("without `--project` it goes into your own"));
        }
        true => std::path::absolute(project_file(&args.typed.flags(), &environment))
            .or_fail(Exit::State, "cannot find the project")?,
        false => environment
            .user_file()
            .ok_or_else(|| Failure::no_home("your settings"))?,
    };
    let value = written(row, &args.values)?;
    if args.project {
        let hashes = file::set_in_project(&file, row, &value)?;
        Approvals::read(&environment)?.renew(&file, &hashes)?;
    } else {
        // A file with a mistake is not made worse.
        SettingsFile::read(&file)?;
        file::set(&file, row, &value)?;
    }
    let is_held_back = args.project
        && Given::gather(None, args.typed.flags(), &environment)
            .is_ok_and(|given| given.held_back(row).is_some());
    if is_held_back {
        output.warn("this raises your own limit, so it has no effect until you approve the file");
    }
    if is_json(&args.typed.flags()) {
        let answer = Fields::versioned().with("key", key).with("value", value);
        return output.answer_json(&answer.with("file", file.display().to_string()));
    }
    let line = Line::new(Tone::Plain, format!("{key} = {}  ", one_line(&value)));
    output.line(line.with(Tone::Quiet, phrase::path(&file)));
    let next_command = if is_held_back { "approve" } else { "show" };
    next(next_command, &args.typed.flags(), output);
    Ok(Exit::Done)
}

/// Does not read the files: they may be what the person is repairing.
fn is_json(flags: &Flags) -> bool {
    flags
        .get(table::JSON.row.name)
        .is_some_and(|json| json == "true")
}

/// The values as a settings file holds them.
pub(super) fn written(row: &Row, values: &[String]) -> Result<String, Failure> {
    let key = row.name;
    let joined = [values.join(",")];
    let values = match row.takes {
        Takes::Commas(_) => &joined[..],
        Takes::Switch | Takes::One(_) | Takes::Maybe(_) | Takes::Words(_) | Takes::Lines(_) => {
            values
        }
    };
    if values.len() > 1 && !matches!(row.takes, Takes::Lines(_)) {
        let text = format!("`{key}` takes one value, not {}", values.len());
        return Err(Failure::new(Exit::Usage, text).hint("put a value with spaces in quotes"));
    }
    (row.check)(&values.join("\n")).map_err(|wanted| {
        let text = format!("`{key}` must be {wanted}, not `{}`", values.join(" "));
        Failure::new(Exit::Usage, text)
    })?;
    let quoted = |text: &String| toml::Value::from(text.as_str()).to_string();
    let texts: Vec<String> = values.iter().map(quoted).collect();
    Ok(match (row.takes, values) {
        (Takes::Switch, [text, ..]) => form::switch(text).unwrap_or_default().to_string(),
        (Takes::One(_), [text]) if is_toml_number(text) => text.clone(),
        (Takes::Lines(_), _) => format!("[{}]", texts.join(", ")),
        (
            Takes::Switch | Takes::One(_) | Takes::Maybe(_) | Takes::Commas(_) | Takes::Words(_),
            _,
        ) => texts.concat(),
    })
}

/// Such as 10, and not 010 or +10.
fn is_toml_number(text: &str) -> bool {
    text.parse::<i64>()
        .is_ok_and(|number| number.to_string() == text)
}

fn approve(args: &ApproveArgs, output: &mut Output) -> Result<Exit, Failure> {
    let environment = before_a_change(args.typed.flags(), output)?;
    let flags = args.typed.flags();
    let path = project_file(&flags, &environment);
    let shown = phrase::path(&path);
    let mut say = |text: String| {
        output.line(text);
        Ok(Exit::Done)
    };
    let approvals = Approvals::read(&environment)?;
    if args.remove {
        let withdrawn = approvals.withdraw(&file::project_of(&path))?;
        if is_json(&flags) {
            return output.answer_json(&Fields::versioned().with("withdrawn", withdrawn));
        }
        return say(match withdrawn.is_empty() {
            true => "nothing was approved for this project".to_owned(),
            false => format!("no longer approved: {}", withdrawn.join(", ")),
        });
    }
    let Some(file) = SettingsFile::of_project(&path)? else {
        let text = format!("there is no {shown}");
        return Err(Failure::new(Exit::MissingInput, text)
            .hint("there is nothing to approve; `ekiden config show` lists what is set"));
    };
    let own = Given::of_user(&environment)?;
    let raises = |row: &Row, text: &str| own.is_raised_by(row, text);
    let approved = approval::needing(&file, &environment, raises);
    let is_json = is_json(&flags);
    match approved.is_empty() {
        true if !is_json => {
            return say(format!("{shown} sets nothing that needs an approval"));
        }
        false if !args.dry_run => approvals.approve(&file)?,
        true | false => {}
    }
    if is_json {
        let path = std::path::absolute(&path).unwrap_or(path);
        let answer = Fields::versioned().with("file", path.display().to_string());
        let answer = answer.with("dry_run", args.dry_run);
        return output.answer_json(&answer.with("approved", approved));
    }
    for one in approved {
        let line = Line::new(Tone::Quiet, format!("{shown}:{}  ", one.line));
        let value = format!("{} {}", visible(&one.what), visible(&one.value));
        output.line(line.with(Tone::Plain, value));
    }
    if args.dry_run {
        next("approve", &flags, output);
        return Ok(Exit::Done);
    }
    output.line(Line::new(Tone::Done, "approved until the file changes"));
    next("show", &flags, output);
    Ok(Exit::Done)
}

fn next(command: &str, flags: &Flags, output: &mut Output) {
    let there = there(flags);
    output.message(&format!("next  ekiden config {command}{there}\n"));
}

/// The flag for the directory that was typed, since the files may not be readable.
fn there(flags: &Flags) -> String {
    let typed = flags.get(table::WORK_DIR.row.name);
    typed.map_or(String::new(), |dir| format!(" -d {}", shell_word(dir)))
}

/// Escapes what a terminal would not show, so that nothing is approved unseen.
fn visible(text: &str) -> String {
    let plain = |c: char| c == ' ' || c.is_ascii_graphic() || c.is_alphanumeric();
    let mut shown = String::new();
    for c in text.chars() {
        if plain(c) {
            shown.push(c);
        } else {
            shown.extend(c.escape_debug());
        }
    }
    shown
}

fn show(args: &ShowArgs, output: &mut Output) -> Result<Exit, Failure> {
    let invocation = Invocation::new(args.typed.flags())?;
    let given = &invocation.given;
    let approvals = Approvals::read(&invocation.environment)?;
    let everything = approvals.has_everything(&invocation.workspace_here()?.dir);
    if invocation.json()? {
        let settings: Vec<Fields> = TABLE.iter().map(|row| setting(row, given)).collect();
        let agents: Vec<Fields> = given.agents.iter().map(agent).collect();
        let answer = Fields::versioned().with("settings", settings);
        let answer = answer.with("everything_approved", everything);
        return output.answer_json(&answer.with("agents", agents));
    }
    let text = |row: &Row| match given.value(row) {
        None => "-".to_owned(),
        Some(value) => one_line(&value.text.replace('\n', "  ")),
    };
    let names = TABLE.iter().map(|row| row.name.len()).max().unwrap_or(0);
    let values = TABLE.iter().map(|row| text(row).chars().count()).max();
    let values = values.unwrap_or(0).min(VALUE_COLUMNS_MAX);
    for row in TABLE {
        let (key, value) = (row.name, text(row));
        let line = Line::new(Tone::Plain, format!("{key:<names$}  {value:<values$}"));
        let held = given.held_back(row).map(|held| {
            let text = one_line(&held.text);
            format!(
                " (not {text} of {}: it needs `{}`)",
                held.place, given.approve
            )
        });
        let place = format!("  {}{}", place(row, given), held.unwrap_or_default());
        output.line(line.with(Tone::Quiet, place));
    }
    if let Some(file) = approvals.path.as_deref().filter(|_| everything) {
        let text = "the agent may do everything in this project";
        let place = format!(
            "  {}; to withdraw it: {}{}",
            phrase::path(file),
            approval::WITHDRAW,
            there(&args.typed.flags())
        );
        output.line(Line::new(Tone::Plain, text).with(Tone::Quiet, place));
    }
    for agent in &given.agents {
        let text = format!("[agents.{}]  {}", agent.name, one_line(&agent.in_words()));
        let line = Line::new(Tone::Plain, text);
        let place = format!("  {}:{}", phrase::path(&agent.path), agent.line);
        output.line(line.with(Tone::Quiet, place));
    }
    Ok(Exit::Done)
}

/// The flag or variable that set it, or file and line.
fn place<'a>(row: &Row, given: &'a Given) -> &'a str {
    given.value(row).map_or("default", |value| &value.place)
}

fn setting(row: &Row, given: &Given) -> Fields {
    let text = given.value(row).map(|value| value.text.as_str());
    let value = match row.takes {
        Takes::Lines(_) => fields! { "value": text.and_then(|text| form::lines(text).ok()) },
        Takes::Switch | Takes::One(_) | Takes::Maybe(_) | Takes::Commas(_) | Takes::Words(_) => {
            fields! { "value": text }
        }
    };
    let held = given.held_back(row).map_or(fields! {}, |held| {
        let held = fields! { "value": held.text, "place": held.place };
        fields! { "not_approved": held }
    });
    fields! { "key": row.name }
        .and(value)
        .and(fields! { "origin": given.origin(row), "place": place(row, given) })
        .and(held)
}

fn agent(row: &AgentRow) -> Fields {
    fields! {
        "name": row.name,
        "kind": row.kind.map(AgentKind::name),
        "command": row.command,
        "account": row.account,
        "budget": row.budget.micro_usd.map(agents::dollars),
        "tokens": row.budget.tokens,
        "file": row.path.display().to_string(),
        "line": row.line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: RUN-03
    #[test]
    fn a_list_is_shown_as_it_counts() {
        let environment = Environment::of([("EKIDEN_ALLOWED_TOOL", "a\n\nb")]);
        let given = Given::without_files(Flags::default(), &environment).unwrap();
        let shown = setting(&table::ALLOWED_TOOL.row, &given);
        let shown = serde_json::to_string(&shown).unwrap();
        assert!(shown.contains(r#""value":["a","b"]"#), "{shown}");
    }

    // shows: RUN-03
    #[test]
    fn a_number_is_written_as_toml_reads_it() {
        let row = table::find("max_sessions").unwrap();
        for (typed, wanted) in [("10", "10"), ("010", "\"010\""), ("+10", "\"+10\"")] {
            assert_eq!(written(row, &[typed.to_owned()]).unwrap(), wanted);
            assert!(toml::from_str::<toml::Table>(&format!("a = {wanted}")).is_ok());
        }
    }
}
