//! `ekiden knowledge`: what later sessions will know; to read, to edit, to measure.

use std::ffi::OsString;
use std::path::Path;

use clap::{Args, Subcommand};
use ekiden_core::ids::RunId;
use ekiden_core::knowledge::{Knowledge, lost_lines};
use ekiden_core::limits;
use ekiden_engine::knowledge_file::{Closed, EditError, KnowledgeFile};
use serde::Serialize;

use super::{Scene, asked_run, run_ids};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::line::{Line, Tone};
use crate::output::{Output, phrase};
use crate::settings::flags::{Asking, Typed};

const EXAMPLES: &str = "\
Examples:
  ekiden knowledge show
  ekiden knowledge edit      in $VISUAL or $EDITOR, while no session runs
  ekiden knowledge stats     how much of it fits into a prompt
";

const SHOW_EXAMPLES: &str = "\
Examples:
  ekiden knowledge show
  ekiden knowledge show 7f3a > notes.md
";

const EDIT_EXAMPLES: &str = "\
Examples:
  ekiden knowledge edit
  VISUAL='code --wait' ekiden knowledge edit
";

const STATS_EXAMPLES: &str = "\
Examples:
  ekiden knowledge stats
  ekiden knowledge stats --json | jq .left_out
";

/// The version of the JSON form.
const JSON_VERSION: u32 = 1;

/// Read, edit or measure what later sessions will know
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub struct KnowledgeArgs {
    #[command(subcommand)]
    command: KnowledgeCommand,
}

#[derive(Subcommand)]
enum KnowledgeCommand {
    Show(ShowArgs),
    Edit(EditArgs),
    Stats(StatsArgs),
}

/// Print KNOWLEDGE.md
#[derive(Args)]
#[command(before_help = SHOW_EXAMPLES)]
struct ShowArgs {
    #[command(flatten)]
    of: Of,
}

/// Edit KNOWLEDGE.md; your words stand
///
/// Each list item under "Core Knowledge" is a fact. One that begins with `pinned:` is left out of a
/// prompt only when nothing else is left to leave out. While a session runs nobody may edit, since its
/// own knowledge is still to be added; wait for its end, or stop the run. The next session knows what
/// you wrote.
#[derive(Args)]
#[command(before_help = EDIT_EXAMPLES)]
struct EditArgs {
    #[command(flatten)]
    of: Of,
}

/// Count the facts, and how many fit into a prompt
#[derive(Args)]
#[command(before_help = STATS_EXAMPLES)]
struct StatsArgs {
    #[command(flatten)]
    of: Of,
}

/// Whose knowledge.
#[derive(Args)]
struct Of {
    /// The beginning of the run's id [default: the newest run here]
    #[arg(value_name = "RUN")]
    run: Option<String>,
    #[command(flatten)]
    typed: Typed<Asking>,
}

/// Runs the command.
///
/// # Errors
///
/// If there is no such run, it cannot be read, or it cannot be edited now.
pub fn knowledge(args: &KnowledgeArgs, output: &mut Output) -> Result<Exit, Failure> {
    match &args.command {
        KnowledgeCommand::Show(args) => show(&args.of, output),
        KnowledgeCommand::Edit(args) => edit(&args.of, output),
        KnowledgeCommand::Stats(args) => stats(&args.of, output),
    }
}

fn open(of: &Of, scene: &Scene, output: &mut Output) -> Result<KnowledgeFile, Failure> {
    let workspace = scene.workspace()?;
    let run = asked_run(&workspace, of.run.as_deref(), output)?;
    Ok(KnowledgeFile::open(&workspace, &run)?)
}

fn show(of: &Of, output: &mut Output) -> Result<Exit, Failure> {
    let scene = Scene::set(of.typed.flags())?;
    let file = open(of, &scene, output)?;
    if scene.json()? {
        output.json(&Shown { v: JSON_VERSION, run: &file.run, text: &file.text });
    } else {
        output.answer(&file.text);
    }
    Ok(Exit::Done)
}

/// The answer of `show` for programs.
#[derive(Serialize)]
struct Shown<'a> {
    v: u32,
    run: &'a RunId,
    text: &'a str,
}

fn edit(of: &Of, output: &mut Output) -> Result<Exit, Failure> {
    let scene = Scene::set(of.typed.flags())?;
    let file = open(of, &scene, output)?;
    if let Some(closed) = file.closed {
        return Err(refusal(closed));
    }
    let (copy, left) = file.copy().map_err(failed)?;
    if left {
        output.warn("goes on with an edit that was not taken over");
    }
    run_editor(&copy)?;
    let text = file.edited().map_err(failed)?;
    if text == file.text {
        file.discard().map_err(failed)?;
        output.line(&Line::new(Tone::Plain, "nothing changed"));
        return Ok(Exit::Done);
    }
    check(&text, &copy)?;
    // A session may have begun while the editor was open.
    let now = open(of, &scene, output)?;
    if let Some(closed) = now.closed {
        return Err(refusal(closed).hint(kept(&copy)));
    }
    file.put(&text).map_err(|error| failed(error).hint(kept(&copy)))?;
    let facts = phrase::count(Knowledge::parse(&text).core.len() as u64, "fact");
    output.line(&Line::new(
        Tone::Plain,
        format!("{facts} in .ekiden/KNOWLEDGE.md; the next session knows them"),
    ));
    Ok(Exit::Done)
}

fn check(text: &str, copy: &Path) -> Result<(), Failure> {
    let lost: Vec<String> = lost_lines(text).iter().map(usize::to_string).collect();
    if lost.is_empty() {
        return Ok(());
    }
    let what = format!("cannot take over the edit: nothing would keep line {}", lost.join(", "));
    let hint = "put it under `## Core Knowledge`, or under `### Session N - date` in `## Session Log`";
    Err(Failure::new(Exit::InvalidInput, what).hint(hint).hint(kept(copy)))
}

fn kept(copy: &Path) -> String {
    format!("your text is kept in {}; `ekiden knowledge edit` goes on with it", phrase::path(copy))
}

fn refusal(closed: Closed) -> Failure {
    let what = format!("cannot edit knowledge, since {closed}");
    match closed {
        Closed::Working { .. } => Failure::new(Exit::Held, what)
            .hint("`ekiden pause` pauses the run after this session; then edit, and `ekiden unpause`"),
        Closed::Interrupted { .. } => {
            Failure::new(Exit::Unfinished, what).hint("`ekiden resume` carries it on; then stop it and edit")
        }
        Closed::Plan => {
            Failure::new(Exit::Unfinished, what).hint("write what all stages should know into its manifest")
        }
        Closed::Older => Failure::new(Exit::Unfinished, what).hint("without an id the newest is edited"),
    }
}

fn failed(error: EditError) -> Failure {
    match error {
        EditError::Changed => Failure::new(Exit::Held, format!("cannot {error}")),
        EditError::NotText { .. } => Failure::new(Exit::InvalidInput, format!("cannot {error}")),
        EditError::Disk(error) => Failure::caused(Exit::State, "cannot edit knowledge", &error),
    }
}

/// The editor as other programs find it.
fn editor() -> Vec<String> {
    let set = |name| std::env::var(name).ok().and_then(|text| shlex::split(&text));
    let words = ["VISUAL", "EDITOR"].into_iter().filter_map(set).find(|words| !words.is_empty());
    words.unwrap_or_else(|| vec!["vi".to_owned()])
}

fn run_editor(copy: &Path) -> Result<(), Failure> {
    let words = editor();
    let (program, args) = words.split_first().map_or(("vi", [].as_slice()), |(p, args)| (p.as_str(), args));
    let mut args: Vec<OsString> = args.iter().map(OsString::from).collect();
    args.push(copy.into());
    let hint = "name your editor in $VISUAL or $EDITOR";
    let status = ekiden_agent::foreground::run(program.as_ref(), &args).map_err(|error| {
        Failure::caused(Exit::MissingInput, &format!("cannot start the editor `{program}`"), &error)
            .hint(hint)
    })?;
    if status.success() {
        return Ok(());
    }
    let what = format!("cannot edit knowledge: the editor `{program}` ended with {status}");
    Err(Failure::new(Exit::Unfinished, what).hint(kept(copy)))
}

fn stats(of: &Of, output: &mut Output) -> Result<Exit, Failure> {
    let scene = Scene::set(of.typed.flags())?;
    let file = open(of, &scene, output)?;
    let stats = Stats::of(&file);
    if scene.json()? {
        output.json(&stats);
        return Ok(Exit::Done);
    }
    let ids = run_ids(&scene.workspace()?)?;
    let row =
        |label: &str, text: String| Line::new(Tone::Quiet, format!("{label:<13}")).with(Tone::Plain, text);
    output.line(&row("run", phrase::short_id(&file.run, &ids)));
    let pinned = match stats.pinned {
        0 => String::new(),
        pinned => format!(", of which {pinned} pinned"),
    };
    output.line(&row("facts", format!("{}{pinned}", stats.facts)));
    output.line(&row("size", format!("{} of {} tokens", stats.tokens, stats.tokens_max)));
    let fits = match stats.left_out {
        0 => "all fit into a prompt".to_owned(),
        left_out => format!("{left_out} have no room in a prompt, the oldest that are not pinned"),
    };
    output.line(&row("next prompt", fits));
    output.line(&row("log", format!("{} kept", phrase::count(stats.log_entries as u64, "session"))));
    output.line(&row("corrected", phrase::count(stats.corrected as u64, "fact")));
    Ok(Exit::Done)
}

/// The answer of `stats` for programs.
#[derive(Serialize)]
struct Stats {
    v: u32,
    run: RunId,
    facts: usize,
    pinned: usize,
    tokens: usize,
    tokens_max: usize,
    left_out: usize,
    log_entries: usize,
    corrected: usize,
}

impl Stats {
    fn of(file: &KnowledgeFile) -> Self {
        let knowledge = Knowledge::parse(&file.text);
        Self {
            v: JSON_VERSION,
            run: file.run.clone(),
            facts: knowledge.core.len(),
            pinned: knowledge.core.iter().filter(|fact| fact.pinned).count(),
            tokens: knowledge.core_tokens(),
            tokens_max: limits::KNOWLEDGE_TOKENS_MAX - limits::KNOWLEDGE_LOG_TOKENS_MAX,
            left_out: knowledge.for_prompt(limits::KNOWLEDGE_TOKENS_MAX).left_out,
            log_entries: knowledge.log.len(),
            corrected: file.corrected,
        }
    }
}
