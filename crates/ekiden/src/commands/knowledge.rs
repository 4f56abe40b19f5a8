//! `ekiden knowledge`: shows, edits and measures what later sessions will know.

use std::path::Path;
use std::thread;
use std::time::Duration;

use clap::{Args, Subcommand};
use ekiden_core::knowledge::{Knowledge, lost_lines};
use ekiden_core::limits;
use ekiden_engine::knowledge_file::{Closed, EditError, KnowledgeFile};

use super::{Invocation, asked_run, editor, end_leftovers, run_ids};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::json::{Fields, fields};
use crate::output::line::{Line, Tone, one_line};
use crate::output::{Output, phrase};
use crate::settings::flags::{Asking, Typed};

/// How many of the facts that an edit would remove are named.
const FACTS_SHOWN_MAX: usize = 10;
/// How often to look whether a run has written its knowledge, which takes it some milliseconds.
const LOOKS_MAX: u32 = 40;
const LOOK_PAUSE: Duration = Duration::from_millis(50);

/// Read, edit or measure what later sessions will know
#[derive(Args)]
pub struct KnowledgeArgs {
    #[command(subcommand)]
    command: KnowledgeCommand,
}

#[derive(Subcommand)]
enum KnowledgeCommand {
    /// Print KNOWLEDGE.md
    Show(Of),
    /// Edit KNOWLEDGE.md; the next session knows your changes
    ///
    /// Each list item under "Core Knowledge" is a fact. ekiden leaves a fact that begins with `pinned:` out of a prompt only
    /// if it has left out all others. You cannot edit while a session runs, since ekiden still has to add the session's own
    /// knowledge: wait until it ends, or stop the run.
    Edit(Of),
    /// Count the facts, and how many fit into a prompt
    Stats(Of),
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

pub fn knowledge(args: &KnowledgeArgs, output: &mut Output) -> Result<Exit, Failure> {
    match &args.command {
        KnowledgeCommand::Show(of) => show(of, output),
        KnowledgeCommand::Edit(of) => edit(of, output),
        KnowledgeCommand::Stats(of) => stats(of, output),
    }
}

fn open(of: &Of, invocation: &Invocation, output: &mut Output) -> Result<KnowledgeFile, Failure> {
    let workspace = invocation.workspace()?;
    let run = asked_run(&workspace, of.run.as_deref(), output)?;
    Ok(KnowledgeFile::open(&workspace, &run)?)
}

/// The same for an edit. Waits a moment for a run that is about to write it.
fn open_to_edit(
    of: &Of,
    invocation: &Invocation,
    output: &mut Output,
) -> Result<KnowledgeFile, Failure> {
    let mut file = open(of, invocation, output)?;
    for _ in 1..LOOKS_MAX {
        if file.closed != Some(Closed::Writing) {
            break;
        }
        thread::sleep(LOOK_PAUSE);
        file = open(of, invocation, output)?;
    }
    Ok(file)
}

fn show(of: &Of, output: &mut Output) -> Result<Exit, Failure> {
    let invocation = Invocation::looking(of.typed.flags(), output)?;
    let file = open(of, &invocation, output)?;
    if invocation.json()? {
        output.json(&Fields::versioned().and(fields! { "run": file.run, "text": file.text }));
    } else {
        output.foreign(file.text.as_bytes());
    }
    Ok(Exit::Done)
}

fn edit(of: &Of, output: &mut Output) -> Result<Exit, Failure> {
    let invocation = Invocation::of_runs(of.typed.flags())?;
    invocation.environment.refuse_a_session("edit knowledge")?;
    end_leftovers(&invocation.workspace()?, output);
    let file = open_to_edit(of, &invocation, output)?;
    if let Some(closed) = file.closed {
        return Err(refusal(closed));
    }
    editor::check_terminal("edit knowledge")?;
    let (copy, left) = file
        .copy()
        .map_err(|error| failed(error, &file.copy_path()))?;
    if left {
        output.warn("continuing with your earlier edit, which was not saved");
    }
    editor::open(&copy, "edit knowledge").map_err(|failure| failure.hint(continues(&copy)))?;
    let cannot = |error| failed(error, &copy);
    let text = file.edited().map_err(cannot)?;
    if text == file.text {
        file.discard().map_err(cannot)?;
        output.line("nothing changed");
        return Ok(Exit::Done);
    }
    if text.trim().is_empty() {
        file.discard().map_err(cannot)?;
        let what = "cannot save the edit: it is empty, so nothing was changed";
        let hint = "to remove all facts, leave the line `## Core Knowledge`";
        return Err(Failure::new(Exit::InvalidInput, what).hint(hint));
    }
    check(&text, &copy)?;
    // A session may have begun while the editor was open. It will add to the knowledge, so this edit is not
    // continued.
    let now = open_to_edit(of, &invocation, output)?;
    if let Some(closed) = now.closed {
        return Err(refusal(closed).hint(kept(&copy)));
    }
    file.put(&text).map_err(cannot)?;
    let facts = phrase::count(Knowledge::parse(&text).core.len() as u64, "fact");
    let there = invocation.shown_work_dir(&invocation.workspace()?)?;
    let file = there.published("KNOWLEDGE.md");
    output.line(format!(
        "{facts} in {file}; the next session reads the file"
    ));
    Ok(Exit::Done)
}

fn check(text: &str, copy: &Path) -> Result<(), Failure> {
    let lost: Vec<String> = lost_lines(text).iter().map(usize::to_string).collect();
    if lost.is_empty() {
        return Ok(());
    }
    let word = if lost.len() == 1 { "line" } else { "lines" };
    let what = format!(
        "cannot save the edit: it would lose {word} {}",
        lost.join(", ")
    );
    let hint =
        "put it under `## Core Knowledge`, or under `### Session N - date` in `## Session Log`";
    Err(Failure::new(Exit::InvalidInput, what)
        .hint(hint)
        .hint(continues(copy)))
}

fn kept(copy: &Path) -> String {
    format!("your text is kept in {}", phrase::path(copy))
}

fn continues(copy: &Path) -> String {
    kept(copy) + "; `ekiden knowledge edit` continues with it"
}

fn refusal(closed: Closed) -> Failure {
    let what = format!("cannot edit knowledge, since {closed}");
    match closed {
        Closed::Working { .. } => Failure::new(Exit::Held, what).hint(
            "`ekiden pause` pauses the run after this session; then edit, and `ekiden unpause`",
        ),
        Closed::Writing => Failure::new(Exit::Held, what)
            .hint("try again in a moment; if that does not help, its disk may be full"),
        Closed::Interrupted { .. } => Failure::new(Exit::Unfinished, what)
            .hint("`ekiden resume` continues it; then stop it and edit"),
        Closed::Plan => Failure::new(Exit::Unfinished, what)
            .hint("write what all stages should know into its manifest for a new run (`--new`)"),
        Closed::Older => {
            Failure::new(Exit::Unfinished, what).hint("without an id the newest is edited")
        }
    }
}

fn failed(error: EditError, copy: &Path) -> Failure {
    let what = format!("cannot {error}");
    match error {
        EditError::Changed { facts } => {
            let what = match facts.is_empty() {
                true => what,
                false => format!("{what}; it would take out:"),
            };
            let more = facts.len().saturating_sub(FACTS_SHOWN_MAX);
            let more = (more > 0).then(|| format!("  and {more} more"));
            let facts = facts.iter().take(FACTS_SHOWN_MAX);
            let facts = facts.map(|fact| format!("  - {}", one_line(fact)));
            let anew = "; move it away, and `ekiden knowledge edit` begins with what is known now";
            Failure::new(Exit::Held, what)
                .details(facts.chain(more))
                .hint(kept(copy) + anew)
        }
        EditError::NotText { .. } => Failure::new(Exit::InvalidInput, what).hint(continues(copy)),
        EditError::Disk(error) => {
            let failure = Failure::caused(Exit::State, "cannot edit knowledge", &error);
            match copy.exists() {
                true => failure.hint(continues(copy)),
                false => failure,
            }
        }
    }
}

fn stats(of: &Of, output: &mut Output) -> Result<Exit, Failure> {
    let invocation = Invocation::looking(of.typed.flags(), output)?;
    let file = open(of, &invocation, output)?;
    let knowledge = Knowledge::parse(&file.text);
    let (facts, log_entries) = (knowledge.core.len(), knowledge.log.len());
    let pinned = knowledge.core.iter().filter(|fact| fact.pinned).count();
    let tokens = knowledge.core_tokens();
    let tokens_max = limits::KNOWLEDGE_TOKENS_MAX - limits::KNOWLEDGE_LOG_TOKENS_MAX;
    let left_out = knowledge.for_prompt(limits::KNOWLEDGE_TOKENS_MAX).left_out;
    if invocation.json()? {
        return output.answer_json(&Fields::versioned().and(fields! {
            "run": file.run,
            "facts": facts,
            "pinned": pinned,
            "tokens": tokens,
            "tokens_max": tokens_max,
            "left_out": left_out,
            "log_entries": log_entries,
            "corrected": file.corrected,
        }));
    }
    let ids = run_ids(&invocation.workspace()?)?;
    let pinned = match pinned {
        0 => String::new(),
        pinned => format!(", of which {pinned} pinned"),
    };
    let fits = match left_out {
        0 => "all fit into a prompt".to_owned(),
        left_out => format!("no room in a prompt for {left_out}, the oldest that are not pinned"),
    };
    let log = phrase::count(log_entries as u64, "session");
    let corrected = phrase::count(file.corrected as u64, "fact");
    for (label, text) in [
        ("run", phrase::short_id(&file.run, &ids)),
        ("facts", format!("{facts}{pinned}")),
        ("size", format!("{tokens} of {tokens_max} tokens")),
        ("next prompt", fits),
        ("log", format!("{log} kept")),
        ("corrected", corrected),
    ] {
        let line = Line::new(Tone::Quiet, format!("{label:<13}"));
        output.line(line.with(Tone::Plain, text));
    }
    Ok(Exit::Done)
}
