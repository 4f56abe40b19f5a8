//! The reference documents that are made from our tables, and the check that they are.
//!
//! `UPDATE_EXPECT=1 cargo test -p ekiden docs` writes them anew.

use std::fmt::Write as _;

use clap::Command;
use expect_test::expect_file;

use crate::cli;
use crate::exit;
use crate::settings::table::{Row, TABLE, Takes};

/// How wide the help is laid out in the documents.
const HELP_COLUMNS: usize = 100;

const SETTINGS_INTRO: &str = "\
# Settings

This page is generated from `crates/ekiden/src/settings/table.rs`; a test checks it.

A flag wins over its variable, that over the project's `.ekiden/config.toml` in the work dir, that over the user's
`~/.config/ekiden/config.toml` (`$XDG_CONFIG_HOME/ekiden/config.toml`), and that over the default. `ekiden config show` prints each
value and who set it. `run` freezes them in the run's log, and `resume` takes only what is typed. These are read again at each
resume: where notifications go and of which kinds, the tracker, `commit_subject`, `on_hangup`, `otel.endpoint`, `memory.record` and
`memory.exclude`.

- Inside a session that ekiden runs (`EKIDEN_RUN` is set), ekiden does not read the variables below.
- An empty variable counts as not set. A list has one entry per line.
- A switch is `true` or `false`; `--no-NAME` switches it off on the command line.
- Settings marked *user only* decide which commands run or what is permitted. A project's own file cannot set them until you
  approve it with `ekiden config approve`: anyone who clones the project would run them.
- For settings marked *a project may only make it stricter*, the stricter of the project's value and yours applies until you
  approve the project's file with `ekiden config approve`.

";

const AGENTS: &str = "
## Agents

`--agent NAME` names a built-in agent (`claude`, `rehearsal`, `codex`, `opencode`, `qwen`, `gemini`, `copilot`) or one of the user's own:

```toml
[agents.nightly]
kind = \"claude\"               # claude, rehearsal, acp, codex or exec
command = \"/opt/claude/claude\" # or an array of words
account = \"~/.claude-work\"    # a settings directory of the client: another account
budget = 20                    # US dollars for this agent in a run; `tokens` for tokens

[agents.local]
kind = \"exec\"                 # the prompt on standard input, the handoff by files
command = [\"my-agent\", \"--quiet\"]
```

A row with the name of a built-in agent changes only the fields that it has. `--agent-command` replaces the command of the agent
named beside it; alone it makes an agent of kind `exec`. A path is relative to the current directory; a name is looked up on `PATH`.
";

#[test]
fn settings() {
    let mut text = SETTINGS_INTRO.to_owned();
    text.push_str("| key | flag | variable | default | |\n| --- | --- | --- | --- | --- |\n");
    for row in TABLE {
        push_row(&mut text, row);
    }
    text.push_str(AGENTS);
    expect_file!["../../../../docs/settings.md"].assert_eq(&text);
}

// shows: RUN-06
#[test]
fn exit_codes() {
    let mut text = "# Exit codes\n\nThis page is generated from `crates/ekiden/src/exit.rs`; a test checks it. Codes from 65 \
                    up are those of `sysexits.h`.\n\n| code | meaning |\n| --- | --- |\n"
        .to_owned();
    for (code, meaning) in exit::rows() {
        let _ = writeln!(text, "| {code} | {meaning} |");
    }
    text.push_str(
        "\nWhere an unfinished run is in the way of `ekiden run`, the code tells whose it is: 3 if it has the same task (by hash), so \
         that `ekiden\nresume` does just what was asked for; 1 if it has another, or for `ekiden execute` the same plan from a \
         manifest that has changed since; 5 if that plan is done, and its work is not on your branch.\n",
    );
    expect_file!["../../../../docs/exit-codes.md"].assert_eq(&text);
}

/// The whole of `--help` of every command, a page for each, so that nothing of it changes unseen.
// shows: UIX-07
#[test]
fn commands() {
    let mut definition = cli::definition();
    definition.build();
    let mut index =
        "# Commands\n\nThis page is generated from the program's command line; a test checks it \
                     (`UPDATE_EXPECT=1 cargo test -p ekiden docs` renews it).\n\n"
            .to_owned();
    for command in definition.get_subcommands() {
        let (name, about) = (
            command.get_name(),
            command.get_about().map(ToString::to_string),
        );
        let _ = writeln!(
            index,
            "- [`ekiden {name}`]({name}.md): {}",
            about.unwrap_or_default()
        );
        let file = format!(
            "{}/../../docs/commands/{name}.md",
            env!("CARGO_MANIFEST_DIR")
        );
        expect_file![file].assert_eq(&help_page(command));
    }
    index.push_str(&format!(
        "\n{}",
        help_page(&definition).replacen("# ", "## ", 1)
    ));
    expect_file!["../../../../docs/commands/README.md"].assert_eq(&index);
}

/// The long help of a command and of what is below it.
fn help_page(command: &Command) -> String {
    let name = command.get_bin_name().unwrap_or("ekiden");
    let help = command
        .clone()
        .term_width(HELP_COLUMNS)
        .render_long_help()
        .to_string();
    let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    let mut page = format!("# `{name}`\n\n```text\n{}\n```\n", lines.join("\n"));
    if command.get_name() != "ekiden" {
        command
            .get_subcommands()
            .for_each(|below| page.push_str(&format!("\n{}", help_page(below))));
    }
    page
}

fn push_row(text: &mut String, row: &Row) {
    let quoted = |text: &str| format!("`{text}`");
    let key = if row.in_files {
        quoted(row.name)
    } else {
        String::new()
    };
    let short = row.short.map(|short| format!("`-{short}` "));
    let flag = row
        .long()
        .map(|long| format!("{}`--{long}`", short.unwrap_or_default()));
    let default = row.default.map(quoted).unwrap_or_default();
    let form = match row.takes {
        Takes::Lines(_) => " A list.",
        Takes::Commas(_) | Takes::Words(_) => " May be an array in a file.",
        Takes::Switch | Takes::One(_) | Takes::Maybe(_) => "",
    };
    let trust = match (row.user_only, row.raises) {
        (true, _) => " *User only.*",
        (false, Some(_)) => " *A project may only make it stricter.*",
        (false, None) => "",
    };
    let _ = writeln!(
        text,
        "| {key} | {} | `{}` | {default} | {}.{form}{trust} |",
        flag.unwrap_or_default(),
        row.env(),
        row.doc
    );
}
