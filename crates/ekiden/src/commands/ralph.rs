//! `ekiden ralph`: works through a list of items, one per session.

mod next;

use std::path::Path;

use clap::{Args, Subcommand};
use ekiden_core::handoff::{OpenItems, open_items};
use ekiden_core::limits::SESSIONS_MAX_MAX;
use ekiden_core::outcome::Outcome;
use ekiden_core::ralph::{PROGRESS_FILE, PROMPT_FILE, RalphState, level_text};
use ekiden_core::relay::{ITEMS_FILE, ItemList, ItemState, list_task};
use ekiden_engine::workspace::Workspace;
use ekiden_engine::{check_now, history};
use ekiden_store::disk::{Disk, Reach};
use ekiden_store::ralph;

use super::checkpoint::CheckpointCommand;
use super::run::{self, Begin};
use super::task::Task;
use super::{Invocation, end_leftovers};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::guard::Watched;
use crate::output::json::Fields;
use crate::output::line::{Line, Tone, one_line};
use crate::output::{Output, phrase};
use crate::settings::flags::{Asking, Starting, Typed};
use crate::settings::given::Origin;
use crate::settings::{chosen, table};

/// What each of the files begins with.
const FILES: [(&str, &str); 3] = [
    (PROMPT_FILE, include_str!("ralph/PROMPT.md")),
    (ITEMS_FILE, include_str!("ralph/fix_plan.md")),
    (PROGRESS_FILE, ""),
];
/// Sessions for each open item, if nobody says how many: some items take more than one.
const SESSIONS_AN_ITEM: u32 = 3;

/// Work through a list of items, one a session, until all are done
///
/// A Ralph loop: `PROMPT.md` says what the goal is and how to work, `fix_plan.md` lists the items (`- [ ] text`), and
/// `progress.txt` gets a line for each finished item. `ekiden ralph run` gives each session the next open item and nothing else.
///
/// ekiden can also watch your own loop: `while ekiden ralph next; [ $? = 1 ]; do claude -p < PROMPT.md; done`.
#[derive(Args)]
pub struct RalphArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Write `PROMPT.md`, `fix_plan.md` and `progress.txt`
    ///
    /// ekiden never overwrites an existing file. Where the guard is installed, this also begins a loop: each session in this
    /// project is then an iteration, until you delete `.ekiden/ralph-state.json`.
    Init {
        #[command(flatten)]
        typed: Typed<Asking>,
    },
    /// Run the list as a relay
    ///
    /// A tick counts unless the verification contradicts it. A deleted item stays open, and ekiden says so. If three sessions do
    /// not finish an item, ekiden sets it aside, continues with the others, and asks you at the end. Agents may add up to 100
    /// items. ekiden reads `PROMPT.md` and the list at the start. If everything is ticked already, only the verification runs.
    /// Everything else is as in `ekiden run`: limits, budgets, `ekiden resume`, `ekiden stop`, the report.
    #[command(mut_arg("max_sessions", |arg| {
        arg.help("How many sessions may begin, counted from here; 1 to 10000 [default: 3 for each open item]")
    }))]
    Run {
        /// Start a new run even if one is unfinished here; ekiden keeps the old one
        #[arg(long)]
        new: bool,
        /// Run in the background: print the run's id and return once it works
        #[arg(long)]
        detach: bool,
        #[command(flatten)]
        typed: Typed<Starting>,
    },
    /// Show the progress of the list
    Status {
        #[command(flatten)]
        typed: Typed<Asking>,
    },
    /// Show how full this session and earlier iterations were
    Context {
        #[command(flatten)]
        typed: Typed<Asking>,
    },
    /// Checkpoint the current iteration, so that the next one resumes from it
    ///
    /// Like `ekiden checkpoint`; `ralph-state.json` and `PROMPT.md` then say where the next iteration resumes.
    Checkpoint {
        #[command(flatten)]
        typed: Typed<Asking>,
    },
    /// Tell a loop whether to continue, by exit code: 1 while items are open, 0 when all are done
    ///
    /// If an item was open at the last call and has disappeared without a tick, ekiden puts it back. If `verify` is set, it runs
    /// when all items are ticked; if it fails, ekiden adds an item for that, three times at most.
    Next {
        #[command(flatten)]
        typed: Typed<Asking>,
    },
}

pub fn ralph(args: &RalphArgs, output: &mut Output) -> Result<Exit, Failure> {
    match &args.what {
        What::Init { typed } => init(&Invocation::new(typed.flags())?, output),
        What::Run { new, detach, typed } => {
            run(&Invocation::new(typed.flags())?, *new, *detach, output)
        }
        What::Status { typed } => status(&Invocation::looking(typed.flags(), output)?, output),
        What::Context { typed } => context(&Invocation::looking(typed.flags(), output)?, output),
        What::Checkpoint { typed } => checkpoint(&Invocation::new(typed.flags())?, output),
        What::Next { typed } => next::next(&Invocation::new(typed.flags())?, output),
    }
}

fn init(invocation: &Invocation, output: &mut Output) -> Result<Exit, Failure> {
    let workspace = invocation.workspace_here()?;
    end_leftovers(&workspace, output);
    let disk = workspace.disk();
    workspace.prepare()?;
    let mut written = Vec::new();
    for (name, text) in FILES {
        match disk.create_file(&workspace.dir.join(name), text.as_bytes(), Reach::Disk) {
            Ok(()) => written.push(name),
            Err(error) if error.is_already_there() => {}
            Err(error) => return Err(error.into()),
        }
    }
    let published = workspace.published();
    ralph::change(&disk, &published, |_| {})?;
    if invocation.json()? {
        return output.answer_json(&Fields::versioned().with("written", &written));
    }
    for (name, _) in FILES {
        let (tone, what) = match written.contains(&name) {
            true => (Tone::Plain, "wrote"),
            false => (Tone::Quiet, "kept, it was there"),
        };
        output.line(Line::new(tone, format!("{what}: {name}")));
    }
    let there = invocation.in_work_dir(&workspace.dir);
    let next = format!("fill them in, then  ekiden ralph run{there} --verify 'COMMAND'");
    output.line(Line::next(next));
    Ok(Exit::Done)
}

fn run(
    invocation: &Invocation,
    new: bool,
    detach: bool,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let workspace = invocation.workspace_here()?;
    let (prompt, list) = (
        read(&workspace, PROMPT_FILE, output)?,
        read(&workspace, ITEMS_FILE, output)?,
    );
    let items = items_of(&list)?;
    let task = Task {
        text: list_task(&prompt.text, &list.text),
        name: PROMPT_FILE.to_owned(),
    };
    let mut header = run::header(invocation, &workspace, task)?;
    for stage in &mut header.manifest.stages {
        stage.part.items = true;
    }
    if items.open.is_empty() {
        if !new {
            history::check_unfinished(&workspace, Some(&header.manifest))?;
        }
        return verified(invocation, &workspace, &items, output);
    }
    for stage in &mut header.manifest.stages {
        if invocation.given.origin(&table::MAX_SESSIONS.row) == Origin::Default {
            let open = u32::try_from(items.open.len()).unwrap_or(u32::MAX);
            stage.sessions_max = open.saturating_mul(SESSIONS_AN_ITEM).min(SESSIONS_MAX_MAX);
        }
    }
    let begin = Begin {
        new,
        detach,
        ..Begin::default()
    };
    run::go(invocation, workspace, header, begin, output)
}

/// Nothing is open, so the verification alone decides, if there is one.
fn verified(
    invocation: &Invocation,
    workspace: &Workspace,
    items: &OpenItems,
    output: &mut Output,
) -> Result<Exit, Failure> {
    if let Some(verification) = chosen::verification(&invocation.given)? {
        let check = check_now(&workspace.dir, &verification)?;
        if !check.passed() {
            let (done, command) = (done(items), verification.in_one_line());
            let text = format!("{done}, but `{command}` {check}");
            return Err(Failure::new(Exit::Unfinished, text)
                .details(check.tail.lines().map(one_line))
                .hint("add an item that says what is left to do"));
        }
        next::note_passed(workspace)?;
    }
    output.message(&format!("{}\n", done(items)));
    Ok(Exit::Done)
}

fn status(invocation: &Invocation, output: &mut Output) -> Result<Exit, Failure> {
    let workspace = invocation.workspace_here()?;
    let mut items = items_of(&read(&workspace, ITEMS_FILE, output)?)?;
    let mut aside = Vec::new();
    let of_run = unfinished(&workspace, &items);
    if let Some(list) = &of_run {
        let all = |state| list.texts(state).map(str::to_owned).collect();
        (items.open, items.done) = (all(ItemState::Open), all(ItemState::Done));
        aside = all(ItemState::SetAside);
    }
    let state = loop_state(&workspace)?.unwrap_or_default();
    if invocation.json()? {
        let answer = Fields::versioned()
            .with("done", &items.done)
            .with("open", &items.open)
            .with("set_aside", aside)
            .with("context_checkpoint", &state.context_checkpoint)
            .with("context_history", &state.context_history);
        return output.answer_json(&answer);
    }
    let (ticked, open) = items.counts();
    let all = ticked + open + aside.len();
    let text = format!("{ticked} of {all} items done");
    output.line(Line::labelled("list", Tone::Plain, text));
    for item in &aside {
        let text = format!("set aside: {}", one_line(item));
        output.line(Line::attention(text));
    }
    let (label, text) = match (items.open.first(), aside.is_empty()) {
        (Some(item), _) => ("item", one_line(item)),
        (None, true) if of_run.is_some() => {
            let text = "all are ticked, but the run is not complete; `ekiden status` says why";
            ("next", text.to_owned())
        }
        (None, true) => ("next", done(&items)),
        (None, false) => (
            "next",
            "`ekiden resume` tries again what was set aside".to_owned(),
        ),
    };
    output.line(Line::labelled(label, Tone::Plain, text));
    tell_context(&state, output);
    Ok(Exit::Done)
}

/// How full the contexts of the iterations were, and whether the next one resumes from a checkpoint.
fn tell_context(state: &RalphState, output: &mut Output) {
    let history = &state.context_history;
    let peak = history
        .iter()
        .filter_map(|iteration| iteration.peak_percent)
        .max();
    let checkpoints = history
        .iter()
        .filter(|iteration| iteration.checkpoint)
        .count() as u64;
    if !history.is_empty() {
        let peak = peak.map_or(String::new(), |peak| format!(" · context up to {peak}%"));
        let text = format!(
            "{} · {}{peak}",
            phrase::count(history.len() as u64, "iteration"),
            phrase::count(checkpoints, "checkpoint"),
        );
        output.line(Line::labelled("loop", Tone::Plain, text));
    }
    let checkpoint = &state.context_checkpoint;
    if let Some(file) = checkpoint
        .handoff_file
        .as_ref()
        .filter(|_| checkpoint.active)
    {
        let file = one_line(file);
        let level = level_text(checkpoint.level, checkpoint.percent_at_checkpoint);
        let text = format!("from the checkpoint ({level}), {file}");
        output.line(Line::labelled("resumes", Tone::Plain, text));
    }
}

fn loop_state(workspace: &Workspace) -> Result<Option<RalphState>, Failure> {
    let disk = workspace.disk();
    let state = ralph::state(&disk, &workspace.published());
    Ok(state?)
}

/// The list as the newest run here counts it, unless that run is complete. What a person has ticked since its last
/// session is done.
fn unfinished(workspace: &Workspace, now: &OpenItems) -> Option<ItemList> {
    let run = history::newest_run(workspace)?;
    if run.outcome().is_some_and(Outcome::is_complete) {
        return None;
    }
    let (_, relay) = run.relays().next()?;
    let mut list = relay.items.clone()?;
    if relay.takes_items() {
        list.edit(now);
    }
    // Before the first session the run has not read it yet.
    Some(list).filter(|list| !list.items.is_empty())
}

fn context(invocation: &Invocation, output: &mut Output) -> Result<Exit, Failure> {
    let state = the_loop(invocation)?;
    if invocation.json()? {
        let answer = Fields::versioned()
            .with("context_checkpoint", &state.context_checkpoint)
            .with("context_history", &state.context_history);
        return output.answer_json(&answer);
    }
    if let Ok(watched) = Watched::for_command(None) {
        CheckpointCommand::of(&watched, false).status(output);
    }
    for iteration in &state.context_history {
        let peak = iteration.peak_percent;
        let peak = peak.map_or("unknown".to_owned(), |peak| format!("{peak}%"));
        let checkpoint = if iteration.checkpoint {
            "  checkpoint"
        } else {
            ""
        };
        let text = format!("iteration {}  {peak}{checkpoint}", iteration.iteration);
        output.line(text);
    }
    Ok(Exit::Done)
}

fn checkpoint(invocation: &Invocation, output: &mut Output) -> Result<Exit, Failure> {
    the_loop(invocation)?;
    let json = invocation.json()?;
    let watched = Watched::for_command(None)?;
    watched.refuse_none()?;
    CheckpointCommand::of(&watched, json).take(output)?;
    if !json {
        let text = format!("{PROMPT_FILE} resumes from it in the next iteration");
        output.line(text);
    }
    Ok(Exit::Done)
}

/// The state of the loop in this project; without one there is nothing to ask about.
fn the_loop(invocation: &Invocation) -> Result<RalphState, Failure> {
    loop_state(&invocation.workspace_here()?)?.ok_or_else(|| {
        let text = "there is no loop here: .ekiden/ralph-state.json is missing";
        Failure::new(Exit::MissingInput, text).hint("`ekiden ralph init` begins one")
    })
}

fn done(items: &OpenItems) -> String {
    format!(
        "all {} of {ITEMS_FILE} are done",
        phrase::count(items.done.len() as u64, "item")
    )
}

fn read(workspace: &Workspace, name: &str, output: &mut Output) -> Result<Task, Failure> {
    let path = workspace.dir.join(name);
    if !Path::exists(&path) {
        let text = format!("there is no {} here", phrase::path(&path));
        return Err(Failure::new(Exit::MissingInput, text)
            .hint("`ekiden ralph init` writes one to fill in"));
    }
    Task::read_as("list", &path.to_string_lossy(), output)
}

/// The items of the list; one at least.
fn items_of(list: &Task) -> Result<OpenItems, Failure> {
    let items = open_items(&list.text);
    if items.counts() == (0, 0) {
        let text = format!("{ITEMS_FILE} lists no items");
        return Err(Failure::new(Exit::InvalidInput, text)
            .hint("write each as a line of its own: `- [ ] text`"));
    }
    Ok(items)
}
