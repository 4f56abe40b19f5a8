//! The sections of a document.

use super::facts::{ChangedFile, Facts, GitTree, TodoState, TranscriptFacts, Tree, WipState};
use super::page::Section;
use crate::prompt::FailedCommand;
use crate::text::{clean, grouped, last, one_line};

pub(super) const REASON: &str = "Checkpoint Reason";
pub(super) const RELOAD: &str = "Context to Reload";
pub(super) const BUDGET: &str = "Remaining Context Budget";
pub(super) const GIT: &str = "Git Status";
pub(super) const DONE: &str = "Done";
pub(super) const DECISIONS: &str = "Decisions";
pub(super) const BLOCKERS: &str = "Blockers";
pub(super) const SEEN: &str = "What the Transcript Shows";
pub(super) const ISSUE: &str = "Issue State";
pub(super) const NEXT: &str = "Next Steps";
pub(super) const RESUME: &str = "Resume";

/// The beginning of a place that the agent fills in.
pub(super) const EMPTY: &str = "_Empty:";
const DONE_EMPTY: &str =
    "the agent fills in what is done, each item with the command that showed it and its result._";
const DECISIONS_EMPTY: &str =
    "the agent fills in what was decided, on which facts, and what comes next._";
const BLOCKERS_EMPTY: &str = "the agent fills in what failed or is in the way, or \"none\"._";
/// The beginning of a decision that comes from the transcript: the agent did not write it.
pub(super) const SHOWN: &str = "(transcript) ";
/// The beginning of the task's line.
pub(super) const TASK: &str = "Task: ";
/// The beginning of the line of the first task, from which other sessions continued.
pub(super) const BEGAN: &str = "The work began with: ";
pub(super) const SPEC: &str = "**Active Spec**: ";

/// One name, command or item, in characters.
const LINE_CHARS_MAX: usize = 160;
const TITLE_CHARS_MAX: usize = 70;
/// A prompt of the person, in characters.
const TASK_CHARS_MAX: usize = 400;
/// The agent's last words, in characters.
const WORDS_CHARS_MAX: usize = 700;
/// Files of a list. Git lists all of them.
const FILES_MAX: usize = 20;
/// Files that a step names.
const FILES_NAMED_MAX: usize = 3;
/// Headings of a file of instructions.
const HEADINGS_MAX: usize = 10;
const COMMANDS_MAX: usize = 5;
/// Items of the agent's list that become steps.
const STEPS_MAX: usize = 8;
const TRACKER_LINES_MAX: usize = 6;
/// Lines that an agent wrote, of each section.
const FILLED_LINES_MAX: usize = 12;

/// Issue and task, as far as they are known.
pub(super) fn title(facts: &Facts) -> String {
    let title = |text: &str| one_line(text, TITLE_CHARS_MAX);
    let first_line = |task: &String| {
        let line = task.trim_start().lines().next().unwrap_or_default();
        title(line.trim_start_matches('#'))
    };
    let known: Vec<String> = [
        facts.issue.as_deref().map(title),
        facts.told.task.as_ref().map(first_line),
    ]
    .into_iter()
    .flatten()
    .collect();
    match (&facts.tree, known.is_empty()) {
        (_, false) => known.join(" "),
        (Tree::Git(git), true) => title(git.branch.as_deref().unwrap_or(&facts.at.date)),
        (Tree::NoRepository | Tree::Unknown { .. }, true) => title(&facts.at.date),
    }
}

pub(super) fn all(facts: &Facts) -> [Section<'_>; 11] {
    let before = facts.previous.as_deref().or(facts.continued.as_deref());
    let before = before.unwrap_or("the document before this one");
    let filled = &facts.filled;
    [
        (REASON, "the transcript", reason(facts)),
        (RELOAD, "the files themselves", reload(facts)),
        (BUDGET, "the transcript", budget(facts)),
        (GIT, "`git status`", git(facts)),
        (DONE, before, filled_in(&filled.done, DONE_EMPTY)),
        (DECISIONS, before, decisions(facts)),
        (
            BLOCKERS,
            before,
            filled_in(&filled.blockers, BLOCKERS_EMPTY),
        ),
        (SEEN, "the transcript", seen(&facts.told)),
        (ISSUE, "the issue", issue(facts)),
        (NEXT, "the sections above", next_steps(facts)),
        (RESUME, "", RESUMING.to_owned()),
    ]
}

const RESUMING: &str = "Start a fresh session in this project and run `ekiden orient`.\n";

fn reason(facts: &Facts) -> String {
    let asked = |text: &String| one_line(text, TASK_CHARS_MAX);
    let items = [
        item(TASK, facts.told.task.as_ref().map(asked)),
        item("Asked last: ", facts.told.asked_last.as_ref().map(asked)),
        item(BEGAN, facts.began.as_ref().map(asked)),
        item(
            "The document that this session continued from: ",
            facts.continued.as_deref().map(line),
        ),
        item(
            "The document before it of this session: ",
            facts.previous.as_deref().map(line),
        ),
    ]
    .concat();
    let gap = if items.is_empty() { "" } else { "\n" };
    let told = &facts.told;
    let item = todos(told, TodoState::Now).next();
    let asked = told.asked_last.as_ref().or(told.task.as_ref());
    let in_hand = item.or_else(|| Some(line(asked?.trim().lines().next()?)));
    let reason = facts.reason.sentence(facts.percent, in_hand.as_deref());
    format!("{reason}\n{gap}{items}")
}

fn reload(facts: &Facts) -> String {
    let mut text = String::new();
    for file in &facts.instructions {
        let mut names: Vec<String> = file
            .sections
            .iter()
            .map(|name| one_line(name, 50))
            .collect();
        if names.len() > HEADINGS_MAX {
            let more = names.len() - HEADINGS_MAX;
            names.truncate(HEADINGS_MAX);
            names.push(format!("{more} more"));
        }
        let label = if names.is_empty() { "" } else { ": Sections " };
        text.push_str(&format!(
            "- **{}**{label}{}\n",
            line(&file.path),
            names.join("; ")
        ));
    }
    text.push_str(&item(SPEC, facts.spec.as_deref().map(line)));
    or_else(text, "No CLAUDE.md, AGENTS.md or spec was found.\n")
}

fn budget(facts: &Facts) -> String {
    let percent = facts.percent.map(|percent| 100u64.saturating_sub(percent));
    let left = match (percent, facts.remaining_tokens.map(grouped)) {
        (Some(percent), Some(tokens)) => format!("{percent}% (~{tokens} tokens)"),
        (Some(percent), None) => format!("{percent}%"),
        (None, Some(tokens)) => format!("~{tokens} tokens"),
        (None, None) => return "Unknown: the usage of the original session is not known.\n".into(),
    };
    format!("Estimated {left} remaining in original session.\n")
}

fn git(facts: &Facts) -> String {
    let edited = || list("Edited in this session", &facts.told.edited, FILES_MAX);
    match &facts.tree {
        Tree::NoRepository => format!("No git repository.\n{}", edited()),
        Tree::Unknown { why } => {
            format!("Git could not be asked.\n\n- {}\n{}", line(why), edited())
        }
        Tree::Git(tree) => git_tree(tree, &facts.told),
    }
}

fn git_tree(tree: &GitTree, told: &TranscriptFacts) -> String {
    let branch = tree.branch.as_deref().unwrap_or("none (detached HEAD)");
    let head = tree.head.as_deref().unwrap_or("none yet");
    let files: Vec<String> = tree
        .changed
        .iter()
        .map(|file| {
            let is_ours = told
                .edited
                .iter()
                .any(|edited| edited.ends_with(&file.path));
            let ours = if is_ours {
                " (edited in this session)"
            } else {
                ""
            };
            format!("`{}` {}{ours}", file.code, line(&file.path))
        })
        .collect();
    let files = list(
        &format!("Modified files ({})", files.len()),
        &files,
        FILES_MAX,
    );
    [
        item("Branch: ", Some(line(branch))),
        item("Last commit: ", Some(line(head))),
        item("Under way: ", tree.under_way.as_deref().map(line)),
        wip(&tree.wip),
        or_else(files, "\nNo uncommitted changes.\n"),
    ]
    .concat()
}

fn wip(wip: &WipState) -> String {
    match wip {
        WipState::Off => "- Work in progress is not committed, as the settings say.\n".to_owned(),
        WipState::Clean => String::new(),
        WipState::Failed { why } => {
            item("Work in progress could not be committed: ", Some(line(why)))
        }
        WipState::Saved {
            commit,
            name,
            note,
            left_out,
        } => {
            let id = commit.get(..12).unwrap_or(commit);
            let place = name.as_ref().map_or("on the branch".to_owned(), |name| {
                format!(
                    "under {name}\n\
                     - See it: `git show {name}`; bring it back: `git checkout --no-overlay {name} -- :/` \
                     (undoes later changes of tracked files)"
                )
            });
            let left_out: Vec<String> = left_out
                .iter()
                .map(|path| format!("Not in it: {}", line(path)))
                .collect();
            format!(
                "- Work in progress: commit {id} {place}\n{}{}",
                item("", note.as_deref().map(line)),
                items(&left_out, COMMANDS_MAX)
            )
        }
    }
}

/// The last lines that the agent wrote into the document before, and below them the empty place for new ones.
fn filled_in(lines: &[String], empty: &str) -> String {
    let lines = last(lines, FILLED_LINES_MAX).iter();
    let lines: Vec<String> = lines.map(|text| one_line(text, 300)).collect();
    let gap = if lines.is_empty() { "" } else { "\n" };
    format!("{}{gap}{EMPTY} {empty}\n", items(&lines, FILLED_LINES_MAX))
}

/// The agent's own decisions; until it writes some, the person's decisions from the transcript.
fn decisions(facts: &Facts) -> String {
    let empty = filled_in(&facts.filled.decisions, DECISIONS_EMPTY);
    if facts.told.decided.is_empty() || !facts.filled.decisions.is_empty() {
        return empty;
    }
    let shown = last(&facts.told.decided, COMMANDS_MAX).iter();
    let shown: Vec<String> = shown
        .map(|text| format!("{SHOWN}{}", one_line(text, 250)))
        .collect();
    format!("{}\n{empty}", items(&shown, COMMANDS_MAX))
}

fn seen(told: &TranscriptFacts) -> String {
    let done: Vec<String> = todos(told, TodoState::Done).collect();
    let failed: Vec<String> = told.failed.iter().map(failed_line).collect();
    let test = told.test.as_ref().map(|test| {
        let how = if test.passed { "passed" } else { "failed" };
        format!("{how}: {}", with_output(&test.command, &test.last_line))
    });
    let compacted = "The conversation was summarised on the way.\n";
    let words = told
        .last_words
        .as_deref()
        .map(|words| format!("\nThe agent's last words:\n\n{}", quoted(words)));
    let text = [
        if told.compacted { compacted } else { "" },
        &item("Last test run ", test),
        &list("Ticked in the agent's list", &done, STEPS_MAX),
        &list(
            "Commands that succeeded",
            last(&told.succeeded, COMMANDS_MAX),
            COMMANDS_MAX,
        ),
        &list(
            "Commands that failed",
            last(&failed, COMMANDS_MAX),
            COMMANDS_MAX,
        ),
        words.as_deref().unwrap_or_default(),
    ];
    or_else(text.concat(), "Nothing: there was no transcript to read.\n")
}

/// The end of these words as a quotation.
fn quoted(words: &str) -> String {
    let words = clean(words).text;
    let surplus = words.chars().count().saturating_sub(WORDS_CHARS_MAX);
    let kept: String = words.chars().skip(surplus).collect();
    let cut = if surplus > 0 { "… " } else { "" };
    let lines = format!("{cut}{kept}");
    let lines = lines.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| format!("> {}\n", one_line(line, 500)))
        .collect()
}

fn issue(facts: &Facts) -> String {
    let issue = facts.issue.as_deref().unwrap_or("none named");
    let mut text = format!("- Issue: {}\n", line(issue));
    let told = facts.tracker.iter().take(TRACKER_LINES_MAX);
    text.extend(told.map(|told| format!("- {}\n", line(told))));
    text
}

/// What to do first, starting with the most certain steps.
fn next_steps(facts: &Facts) -> String {
    let told = &facts.told;
    let git = match &facts.tree {
        Tree::Git(git) => Some(git),
        Tree::NoRepository | Tree::Unknown { .. } => None,
    };
    let under_way = git.and_then(|git| git.under_way.as_deref());
    let under_way =
        under_way.map(|what| format!("Finish {}, which git has in progress.", line(what)));
    let failing = told.test.as_ref().filter(|test| !test.passed);
    let failing = failing.map(|test| {
        let place = test.place.as_deref().map(line);
        let place = place.map_or(String::new(), |place| format!(", at {place}"));
        let test = with_output(&test.command, &test.last_line);
        format!("Fix the failing test: {test}{place}")
    });
    let place = told.last_edit.as_deref().map(line);
    let mut now: Vec<String> = todos(told, TodoState::Now)
        .map(|text| format!("Continue: {text}"))
        .collect();
    match (now.first_mut(), place) {
        (Some(first), Some(place)) => first.push_str(&format!(", last edited: {place}")),
        (None, Some(place)) => now.push(format!("Continue at the last edit: {place}")),
        (_, None) => {}
    }
    let planned = now.into_iter().chain(todos(told, TodoState::Open));
    let mut steps: Vec<String> = under_way
        .into_iter()
        .chain(failing)
        .chain(planned)
        .collect();
    if steps.len() > STEPS_MAX {
        let more = steps.len() - STEPS_MAX;
        steps.truncate(STEPS_MAX);
        steps.push(format!(
            "See the transcript for {more} more of the agent's list."
        ));
    }
    if let Some(WipState::Saved {
        commit, name: None, ..
    }) = git.map(|git| &git.wip)
    {
        let id = commit.get(..12).unwrap_or(commit);
        steps.push(format!(
            "Continue from the commit of work in progress: `git show {id}`."
        ));
    }
    if let Some(changed) = git.map(|git| &git.changed).filter(|all| !all.is_empty()) {
        steps.push(format!(
            "Review the uncommitted changes in {}: `git status`.",
            some_files(changed)
        ));
    }
    if told.last_words.is_some() {
        steps.push(
            "Read the agent's last words in the document and continue from there.".to_owned(),
        );
    }
    steps.extend(facts.next_part.as_deref().map(|part| one_line(part, 400)));
    if steps.is_empty() {
        steps.push("No step is recorded: do what Decisions says comes next, or ask.".to_owned());
    }
    let steps = (1..).zip(steps);
    steps
        .map(|(number, step)| format!("{number}. {step}\n"))
        .collect()
}

/// The first of these files by name, and how many more there are.
fn some_files(changed: &[ChangedFile]) -> String {
    let named = changed.iter().take(FILES_NAMED_MAX);
    let mut names: Vec<String> = named.map(|file| line(&file.path)).collect();
    let more = changed.len() - names.len();
    if more > 0 {
        names.push(format!("{more} more"));
    }
    names.join(", ")
}

fn todos(told: &TranscriptFacts, state: TodoState) -> impl Iterator<Item = String> {
    let todos = told.todos.iter().filter(move |todo| todo.state == state);
    todos.map(|todo| line(&todo.text))
}

fn item(label: &str, text: Option<String>) -> String {
    text.map_or_else(String::new, |text| format!("- {label}{text}\n"))
}

/// One item per line, and how many more there are.
fn items(items: &[String], most: usize) -> String {
    let more = items.len().saturating_sub(most);
    let more = if more > 0 {
        item("", Some(format!("[{more} more]")))
    } else {
        String::new()
    };
    let shown = items
        .iter()
        .take(most)
        .map(|text| item("", Some(text.clone())));
    shown.collect::<String>() + &more
}

/// A label and its items, or nothing if there are none.
fn list(label: &str, texts: &[String], most: usize) -> String {
    let lines: Vec<String> = texts.iter().map(|text| line(text)).collect();
    let items = items(&lines, most);
    if items.is_empty() {
        items
    } else {
        format!("\n{label}:\n\n{items}")
    }
}

fn or_else(text: String, otherwise: &str) -> String {
    if text.is_empty() {
        otherwise.to_owned()
    } else {
        text
    }
}

fn failed_line(failed: &FailedCommand) -> String {
    let code = failed.code.map_or("no exit code".to_owned(), |code| {
        format!("exit code {code}")
    });
    format!(
        "{} ({code})",
        with_output(&failed.command, &failed.last_line)
    )
}

fn with_output(command: &str, last_line: &str) -> String {
    let command = one_line(command, 90);
    match one_line(last_line, 90).as_str() {
        "" => command,
        last_line => format!("{command} — {last_line}"),
    }
}

fn line(text: &str) -> String {
    one_line(text, LINE_CHARS_MAX)
}
