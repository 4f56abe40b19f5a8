//! `ekiden run` without a task: a person at the terminal chooses one.

use ekiden_engine::history;
use ekiden_engine::workspace::Workspace;
use ekiden_store::disk::{Disk as _, Reach};

use super::Invocation;
use super::draft::Draft;
use super::task::Task;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, can_ask};

/// What a person chooses who named no task.
pub(super) enum Offered {
    Task(Task),
    /// To be asked for everything.
    Questions,
    /// It was shown.
    Help,
}

/// The task that the person chooses, or what comes in its place.
pub(super) fn task(
    invocation: &Invocation,
    workspace: &Workspace,
    definition: fn() -> clap::Command,
    output: &mut Output,
) -> Result<Offered, Failure> {
    let none = || {
        Failure::new(Exit::Usage, "no task is named")
            .hint("`ekiden run task.md`, or the task itself in quotes")
            .hint("`ekiden init` writes a template to fill in")
    };
    if invocation.json()? || !can_ask() {
        return Err(none());
    }
    let last = last(workspace);
    let new = new_name(workspace);
    let mut choices = Vec::new();
    choices.extend(
        last.as_ref()
            .map(|last| format!("the last task again: {}", last.name)),
    );
    choices.push(format!("a new task in your editor: {new}"));
    choices.push("be asked step by step, as by `ekiden start`".to_owned());
    choices.push("help".to_owned());
    let mut question = "No task is named.\n\n".to_owned();
    for (number, choice) in (1..).zip(&choices) {
        question.push_str(&format!("  {number}  {choice}\n"));
    }
    let count = choices.len();
    question.push_str(&format!("\n1 to {count}, or enter to start nothing: "));
    let line = output.ask(&question).unwrap_or_default();
    // Counted from the end, since there may be no last task.
    let chosen = line.trim().parse::<usize>().ok();
    match chosen.and_then(|chosen| count.checked_sub(chosen)) {
        Some(0) => {
            let mut definition = definition();
            definition.build();
            if let Some(run) = definition.find_subcommand_mut("run") {
                output.answer(&run.render_help().ansi().to_string());
            }
            Ok(Offered::Help)
        }
        Some(1) => Ok(Offered::Questions),
        Some(2) => write_new(workspace, new, output).map(Offered::Task),
        Some(3) if chosen > Some(0) => last.map(Offered::Task).ok_or_else(none),
        Some(_) | None => Err(none()),
    }
}

/// The task of the newest run here, as its file is now if it has one. A list does not count: `ekiden ralph run` works
/// through it.
fn last(workspace: &Workspace) -> Option<Task> {
    let (run, _) = history::find(workspace, None).ok()?;
    let summary = history::read(workspace, &run, |_, _| {}).ok()?;
    let manifest = &summary.run.header().manifest;
    let (_, relay) = summary
        .run
        .relays()
        .next()
        .filter(|(_, relay)| manifest.plan.is_none() && !relay.stage.part.items)?;
    let stage = &relay.stage;
    let file = workspace.dir.join(&stage.task_name);
    let now = file
        .is_file()
        .then(|| std::fs::read_to_string(&file).ok())
        .flatten();
    Some(Task {
        text: now.unwrap_or_else(|| stage.task.clone()),
        name: stage.task_name.clone(),
    })
}

/// `task.md`, or the first of `task-2.md` and so on that does not exist.
pub(super) fn new_name(workspace: &Workspace) -> String {
    let names = std::iter::once("task.md".to_owned())
        .chain((2..1000).map(|number| format!("task-{number}.md")));
    let mut names = names.filter(|name| !workspace.dir.join(name).exists());
    names.next().unwrap_or_else(|| "task.md".to_owned())
}

fn write_new(workspace: &Workspace, name: String, output: &mut Output) -> Result<Task, Failure> {
    let mut draft = Draft::default();
    let written = draft.write(workspace, &name, output);
    let text = written.map_err(|failure| draft.kept().into_iter().fold(failure, Failure::hint))?;
    let path = workspace.dir.join(&name);
    workspace
        .disk()
        .create_file(&path, text.as_bytes(), Reach::Disk)?;
    draft.remove();
    Ok(Task { text, name })
}
