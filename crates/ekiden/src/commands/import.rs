//! `ekiden import`: takes over what other programs left in a project.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use clap::Args;
use ekiden_core::handoff::Marker;
use ekiden_core::renewal::StartingPoint;
use ekiden_core::settings::Imported;
use ekiden_engine::history;
use ekiden_engine::workspace::Workspace;

use super::execute::{How, carry_out, without_what_needs_one_place};
use super::run::Begin;
use super::task::Task;
use super::{Invocation, config, end_leftovers, run};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::import::settings::{self, Foreign, Wish};
use crate::import::source::Source;
use crate::import::{Became, Conversion, cleave, handoffs, plan, ralph, sessions};
use crate::output::json::Fields;
use crate::output::line::{Line, Tone, one_line};
use crate::output::{Output, phrase};
use crate::plan::read::{self, ManifestFile};
use crate::settings::approval::Approvals;
use crate::settings::chosen;
use crate::settings::file::{self, SettingsFile};
use crate::settings::flags::{Starting, Typed};
use crate::settings::given::{Given, Origin};
use crate::settings::table::{self, Row};

/// A longer name moves its place to the right.
const NAME_COLUMNS_MAX: usize = 44;

/// Take over what cleave, CASM or CCS left in a project
///
/// Settings (`.casmrc.json`, `CLEAVE_*`, `.cleave/config`) become keys of the project's `.ekiden/config.toml`. The
/// handoff and the knowledge in `.cleave/`, or a partly finished plan (`.casm/`, or a pipeline of cleave), become a run
/// that `ekiden resume` continues. Documents in `.claude/handoffs/` become handoffs that `ekiden orient` finds. ekiden
/// lists what became of each. It changes and deletes nothing of the other program, and a second import repeats
/// nothing. It never imports the permission to do everything without asking.
///
/// `docs/migrating.md` says what their commands, flags, files and exit codes are called here.
#[derive(Args)]
pub struct ImportArgs {
    /// The project with their files, or one of their directories to import alone [default: the work dir]
    #[arg(value_name = "PATH")]
    path: Option<PathBuf>,
    /// Only show what the import would do
    #[arg(long)]
    dry_run: bool,
    /// The task of the relay, if ekiden cannot find it: a file, `-`, or the task itself in quotes
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
    /// Make a run even if one is unfinished or was imported here; ekiden keeps the old one
    #[arg(long)]
    new: bool,
    /// Accept a plan's commands without asking
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    typed: Typed<Starting>,
}

/// The work that goes on here.
enum UnfinishedWork {
    Plan(Box<plan::Begun>),
    Relay(Box<cleave::Left>),
}

pub fn import(args: &ImportArgs, output: &mut Output) -> Result<Exit, Failure> {
    let invocation = Invocation::new(args.typed.flags())?;
    let environment = &invocation.environment;
    environment.refuse_a_session("import settings and runs")?;
    let workspace = invocation.workspace_here()?;
    let source = Source::of(args.path.as_ref().unwrap_or(&workspace.dir))?;
    // Everything is read before anything is written.
    let foreign = settings::foreign(&source, environment)?;
    let (documents, not_documents) = handoffs::documents(&source)?;
    let marker = marker_of(&foreign);
    let marker = marker.map_or_else(|| invocation.given.need(&table::COMPLETION_MARKER), Ok)?;
    let (plans, halves) = plan::begun(&source)?;
    let relay = cleave::left(&source, &marker)?;
    let earlier = relay.as_ref();
    let earlier = earlier.map(|left| (left.hash.clone(), Rc::clone(&left.earlier)));
    let (work, found) = work(plans, relay, args, (&invocation, &workspace))?;
    let mut task = None;
    if !args.dry_run {
        if let Some(UnfinishedWork::Relay(left)) = &work {
            task = Some(task_of(left, args, &workspace, output)?);
        }
        if work.is_some() {
            let settings = chosen::settings(&invocation.given, &invocation.here)?;
            run::check_agents(settings.agents(), &invocation, &workspace.dir)?;
        }
        end_leftovers(&workspace, output);
    }
    let file = file::settings_file(&workspace.dir);
    let (mut conversions, has_users) = take_settings(foreign, &file, &invocation, args.dry_run)?;
    conversions.extend(take_documents(documents, &workspace, args.dry_run)?);
    conversions.extend(not_documents);
    conversions.extend(ralph::take(&source, &workspace, args.dry_run)?);
    conversions.extend(halves);
    conversions.extend(found);
    let readable = if let (Some(UnfinishedWork::Plan(begun)), true) = (&work, args.dry_run) {
        read_plan(begun, &invocation, &workspace).map(drop)
    } else {
        Ok(())
    };
    if invocation.json()? {
        let answer = Fields::versioned().with("dry_run", args.dry_run);
        output.json(&answer.with("conversions", conversions));
    } else {
        let is_next = args.dry_run && readable.is_ok();
        show(&conversions, &source, is_next, output);
    }
    if args.dry_run {
        return readable.map(|()| Exit::Done);
    }
    // The imported settings apply to the run.
    let invocation = Invocation::new(args.typed.flags())?;
    if let Some(work) = work {
        let exit = take(work, task, args, (&invocation, &workspace), output)?;
        if exit != Exit::Done {
            return Ok(exit);
        }
        if has_users {
            output.message(
                "the run keeps the settings that it began with: set what was not taken over, then `ekiden import --new`\n",
            );
        }
    }
    // Includes those of an import that was interrupted here.
    if let Some((hash, earlier)) = earlier
        && let Some(run) = history::imported(&workspace, &hash)?
    {
        sessions::keep(&earlier, &workspace, &run)?;
    }
    Ok(Exit::Done)
}

/// The word with which the other program's relay ends.
fn marker_of(foreign: &[Foreign]) -> Option<Marker> {
    foreign.iter().find_map(|foreign| match &foreign.wish {
        Wish::Set("completion_marker", word) => Marker::try_from(word.clone()).ok(),
        Wish::Set(..) | Wish::Nothing(_) => None,
    })
}

/// Makes the run that goes on with the work. On a terminal another process makes it, and says what went wrong: here only
/// its exit code is known.
fn take(
    work: UnfinishedWork,
    task: Option<Task>,
    args: &ImportArgs,
    (invocation, workspace): (&Invocation, &Workspace),
    output: &mut Output,
) -> Result<Exit, Failure> {
    let hash = match &work {
        UnfinishedWork::Plan(begun) => begun.done.imported.hash.clone(),
        UnfinishedWork::Relay(left) => left.hash.clone(),
    };
    let before = history::imported(workspace, &hash)?;
    let exit = match (work, task) {
        (UnfinishedWork::Plan(begun), _) => take_plan(&begun, args, invocation, workspace, output)?,
        (UnfinishedWork::Relay(left), Some(task)) => {
            take_relay(*left, task, args, invocation, workspace, output)?
        }
        (UnfinishedWork::Relay(_), None) => Exit::Done,
    };
    let is_made = history::imported(workspace, &hash)? != before;
    Ok(if is_made { Exit::Done } else { exit })
}

/// Which work goes on here, of what there is.
fn work(
    plans: Vec<plan::Begun>,
    relay: Option<cleave::Left>,
    args: &ImportArgs,
    (invocation, workspace): (&Invocation, &Workspace),
) -> Result<(Option<UnfinishedWork>, Vec<Conversion>), Failure> {
    if args.task.is_some() && relay.is_none() {
        let text = "cannot import with `--task`: no relay of cleave left anything there";
        return Err(Failure::new(Exit::MissingInput, text)
            .hint("`ekiden run TASK` starts work that continues nothing"));
    }
    let (mut work, mut conversions) = (None, Vec::new());
    let known = |hash: &str| match args.new {
        true => Ok(None),
        false => history::imported(workspace, hash),
    };
    let later = |dir: &str| {
        let why = format!("the plan comes first; `ekiden import {dir} --new` takes this");
        Became::Nothing(why)
    };
    for plan in plans {
        let (of, done) = (&plan.done.imported, plan.done.stages.len());
        // Its state may not name every stage. What is wrong with its manifest ends the import.
        let read = read_plan(&plan, invocation, workspace);
        let all = read
            .as_ref()
            .map_or(plan.stages, |read| read.document.stages.len());
        let all_told = phrase::count(all as u64, "stage");
        let was = format!("{}: {done} of {all_told} done", of.from);
        let became = match known(&of.hash)? {
            Some(run) => Became::Known(format!("run {run}")),
            None if done >= all && read.is_ok() => {
                Became::Nothing("nothing of it is left to do".to_owned())
            }
            None if work.is_some() => later(&of.from),
            None => Became::New("a run; what is done counts if its validation passes".to_owned()),
        };
        if matches!(became, Became::New(_)) {
            work = Some(UnfinishedWork::Plan(Box::new(plan)));
        }
        conversions.push(Conversion::new(was, became));
    }
    if let Some(left) = relay {
        let number = left.last.session.get();
        let was = format!(".cleave: {}", phrase::count(number.into(), "session"));
        let became = match known(&left.hash)? {
            Some(run) if args.task.is_some() => Became::Nothing(format!(
                "run {run} was made of it; `--new` makes another one with that task"
            )),
            Some(run) => Became::Known(format!("run {run}")),
            None if left.is_complete && args.task.is_none() => Became::Nothing(
                "its task is complete; `ekiden import --task TASK` starts other work from what it knows".to_owned(),
            ),
            None if !left.is_begun && args.task.is_none() => Became::Nothing(
                "no session handed off; `ekiden import --task TASK` starts work from what it knows".to_owned(),
            ),
            None if work.is_some() => later(".cleave"),
            None => Became::New(format!("a run whose first session is {}", number + 1)),
        };
        if matches!(became, Became::New(_)) {
            work = Some(UnfinishedWork::Relay(Box::new(left)));
        }
        conversions.push(Conversion::new(was, became));
    }
    Ok((work, conversions))
}

/// Keeps their handoff documents beside ours.
fn take_documents(
    theirs: Vec<handoffs::Document>,
    workspace: &Workspace,
    dry_run: bool,
) -> Result<Vec<Conversion>, Failure> {
    let kept = workspace.documents();
    let mut conversions = Vec::new();
    for document in theirs {
        let mut same = None;
        for name in kept.names()? {
            let is_of = name.starts_with(&document.minute);
            let text = kept.read(&name)?.filter(|_| is_of);
            if text.is_some_and(|text| document.text.starts_with(&text)) {
                same = Some(name);
            }
        }
        let became = match same {
            Some(name) => Became::Known(format!(".ekiden/handoffs/{name}")),
            None if dry_run => Became::New(format!(".ekiden/handoffs/{}.md", document.minute)),
            None => {
                workspace.prepare()?;
                let path = kept.add(None, &document.minute, &document.text)?;
                if let Some(modified) = document.modified {
                    // Otherwise it would count as new.
                    let _ = kept.date(&path, modified);
                }
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                Became::New(format!(".ekiden/handoffs/{name}"))
            }
        };
        conversions.push(Conversion::new(document.name, became));
    }
    Ok(conversions)
}

/// Finds the faults in a manifest that would make the import fail at its end.
fn read_plan(
    begun: &plan::Begun,
    invocation: &Invocation,
    workspace: &Workspace,
) -> Result<ManifestFile, Failure> {
    let settings = chosen::settings(&invocation.given, &invocation.here)?;
    read::read(&begun.manifest, &invocation.given, &settings, workspace)
}

fn take_plan(
    begun: &plan::Begun,
    args: &ImportArgs,
    invocation: &Invocation,
    workspace: &Workspace,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let mut settings = chosen::settings(&invocation.given, &invocation.here)?;
    without_what_needs_one_place(&mut settings, invocation, output)?;
    let how = How {
        yes: args.yes,
        new: args.new,
        done: Some(&begun.done),
        ..How::default()
    };
    carry_out(
        invocation,
        workspace,
        settings,
        &begun.manifest,
        &how,
        output,
    )
}

/// The task of their relay: the one that was given, or the one that is found there.
fn task_of(
    left: &cleave::Left,
    args: &ImportArgs,
    workspace: &Workspace,
    output: &mut Output,
) -> Result<Task, Failure> {
    if let Some(given) = &args.task {
        return Task::of_run(given, &workspace.dir, output);
    }
    let notes = &left.last.notes.next_prompt;
    let (text, name) = match &left.task {
        Some((text, name)) => (text, name.as_str()),
        None if !notes.is_empty() => (notes, ".cleave/NEXT_PROMPT.md"),
        None => {
            let text = "the task of the relay is not in .cleave/";
            return Err(
                Failure::new(Exit::MissingInput, text).hint("name it: `ekiden import --task FILE`")
            );
        }
    };
    output.message(&format!("the task is taken from {name}\n"));
    Ok(Task {
        text: text.clone(),
        name: name.to_owned(),
    })
}

fn take_relay(
    left: cleave::Left,
    task: Task,
    args: &ImportArgs,
    invocation: &Invocation,
    workspace: &Workspace,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let was = left.task.as_ref().map(|(text, _)| text);
    let task_changed = args.task.is_some() && was != Some(&task.text);
    let mut header = run::header(invocation, workspace, task)?;
    header.imported = Some(Imported {
        from: ".cleave".to_owned(),
        hash: left.hash,
        sessions: left.earlier.iter().map(|session| session.number).collect(),
        stages: BTreeMap::new(),
    });
    header.from = Some(Box::new(StartingPoint {
        run: header.run.clone(),
        last: left.last,
        knowledge: left.knowledge,
        overtaken: false,
        task_changed,
    }));
    let begin = Begin {
        new: args.new,
        ..Begin::default()
    };
    run::go(invocation, workspace.clone(), header, begin, output)
}

/// Writes what can be set into the project's own file. Says, too, whether something only the user can set.
fn take_settings(
    foreign: Vec<Foreign>,
    file: &Path,
    invocation: &Invocation,
    dry_run: bool,
) -> Result<(Vec<Conversion>, bool), Failure> {
    let present = SettingsFile::of_project(file)?;
    let environment = &invocation.environment;
    let own = Given::of_user(environment)?;
    let mut wanted: Vec<(&str, String, String)> = Vec::new();
    let (mut conversions, mut has_users) = (Vec::new(), false);
    for Foreign { was, wish } in foreign {
        let (row, value) = match wish {
            Wish::Set(name, value) => match table::find(name) {
                Some(row) => (row, value),
                None => continue,
            },
            Wish::Nothing(why) => {
                conversions.push(Conversion::new(was, Became::Nothing(why)));
                continue;
            }
        };
        let first = wanted.iter().find(|(name, ..)| *name == row.name);
        let became = match first {
            Some((_, taken, of)) if *taken != value && !row.user_only => {
                Became::Nothing(format!("{of} says `{taken}`"))
            }
            Some(_) | None => became(row, &value, present.as_ref(), (&own, &invocation.given)),
        };
        if matches!(became, Became::New(_)) && first.is_none() && !dry_run {
            let written = config::written(row, std::slice::from_ref(&value))?;
            let hashes = file::set_in_project(file, row, &written)?;
            if !own.is_raised_by(row, &value) {
                Approvals::read(environment)?.renew(file, &hashes)?;
            }
        }
        has_users |= row.user_only && matches!(became, Became::Nothing(_));
        wanted.push((row.name, value, was.clone()));
        conversions.push(Conversion::new(was, became));
    }
    Ok((conversions, has_users))
}

/// What becomes of a setting that a project's file may not have.
fn of_user(row: &Row, value: &str, given: &Given) -> Became {
    let name = row.name;
    if given.value(row).is_some_and(|given| given.text == value) {
        return Became::Known(format!("{name} = {value}"));
    }
    let quoted = shlex::try_quote(value).unwrap_or_default().into_owned();
    let flag = row.long().map(|flag| format!("`--{flag} {quoted}`, or "));
    Became::Nothing(format!(
        "a project's file may not set it: {}`ekiden config set {name} {quoted}`",
        flag.unwrap_or_default()
    ))
}

fn became(
    row: &Row,
    value: &str,
    present: Option<&SettingsFile>,
    (own, given): (&Given, &Given),
) -> Became {
    let name = row.name;
    if let Err(needed) = (row.check)(value) {
        return Became::Nothing(format!("`{name}` must be {needed}"));
    }
    if row.user_only {
        return of_user(row, value, given);
    }
    let there = present.and_then(|file| file.values.iter().find(|value| value.name == name));
    match there {
        Some(there) if there.text == value => Became::Known(format!("{name} = {value}")),
        Some(there) => Became::Nothing(format!(
            "`.ekiden/config.toml` has `{name}` = {} in line {}",
            there.text, there.line
        )),
        None if own.value(row).is_some_and(|own| own.text == value) => {
            let text = format!("{name} = {value}");
            match own.origin(row) == Origin::Default {
                true => Became::Default(text),
                false => Became::Known(text),
            }
        }
        None if own.is_raised_by(row, value) => Became::New(format!(
            "{name} = {value}; it is more than you allow, so it holds after `ekiden config approve`"
        )),
        None => Became::New(format!("{name} = {value}")),
    }
}

fn show(conversions: &[Conversion], source: &Source, is_next: bool, output: &mut Output) {
    if conversions.is_empty() {
        let dir = phrase::path(&source.dir);
        let text = format!("found nothing from cleave, CASM or CCS in {dir}");
        return output.line(text);
    }
    let names = conversions
        .iter()
        .map(|conversion| one_line(&conversion.was).chars().count());
    let names = names.max().unwrap_or(0).min(NAME_COLUMNS_MAX);
    for conversion in conversions {
        let was = one_line(&conversion.was);
        let (tone, text) = match &conversion.became {
            Became::New(text) => (Tone::Done, text.clone()),
            Became::Known(text) => (Tone::Quiet, format!("{text} (already there)")),
            Became::Default(text) => (Tone::Quiet, format!("{text} (the default)")),
            Became::Nothing(why) => (Tone::Attention, format!("not taken over: {why}")),
        };
        let line = Line::new(Tone::Plain, format!("{was:<names$}  "));
        output.line(line.with(tone, one_line(&text)).hanging(names + 2));
    }
    if is_next {
        let words = std::env::args_os().skip(1);
        let words = words.map(|word| word.to_string_lossy().into_owned());
        let words: Vec<String> = words.filter(|word| word != "--dry-run").collect();
        let command = shlex::try_join(words.iter().map(String::as_str)).unwrap_or_default();
        output.message(&format!("next  ekiden {command}\n"));
    }
}
