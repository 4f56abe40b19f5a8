//! What stands in each section of a document.

use super::facts::{Facts, GitTree, IssueState, TodoState, Told, Tree, WipState};
use super::page::Page;
use crate::prompt::FailedCommand;
use crate::text::{clean, one_line};

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

/// How a place begins that the agent fills in.
pub(super) const EMPTY: &str = "_Empty:";
const DONE_EMPTY: &str =
    "_Empty: the agent fills in what is done, each item with the command that showed it and its result._";
const DECISIONS_EMPTY: &str =
    "_Empty: the agent fills in what was decided, and the facts that each decision rests on._";
const BLOCKERS_EMPTY: &str = "_Empty: the agent fills in what is in the way, or \"none\"._";
/// What begins the line of the task.
pub(super) const TASK: &str = "Task: ";

/// One name, command or item, in characters.
const LINE_CHARS_MAX: usize = 160;
/// A title, in characters.
const TITLE_CHARS_MAX: usize = 70;
/// What the person asked, in characters.
const TASK_CHARS_MAX: usize = 400;
/// What the agent said last, in characters.
const WORDS_CHARS_MAX: usize = 700;
/// Files of a list. More tell no more: git lists them all.
const FILES_MAX: usize = 20;
/// Headings of a file of instructions.
const HEADINGS_MAX: usize = 10;
/// Commands of a list.
const COMMANDS_MAX: usize = 5;
/// Items of the agent's list that become steps.
const STEPS_MAX: usize = 8;
/// Lines that an agent wrote, of each section.
const FILLED_LINES_MAX: usize = 12;

/// What the document is called: issue and task, or what is known.
pub(super) fn title(facts: &Facts) -> String {
    let task = facts.told.task.as_deref().map(|task| one_line(first_line(task), TITLE_CHARS_MAX));
    let branch = match &facts.tree {
        Tree::Git(git) => git.branch.as_deref(),
        Tree::NoRepository | Tree::Unknown { .. } => None,
    };
    let issue = facts.issue.as_deref().map(|issue| one_line(issue, TITLE_CHARS_MAX));
    match (issue, task) {
        (Some(issue), Some(task)) => format!("{issue} {task}"),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => one_line(branch.unwrap_or(&facts.at.date), TITLE_CHARS_MAX),
    }
}

/// All sections, in order.
pub(super) fn write(facts: &Facts, page: &mut Page) {
    let told = &facts.told;
    page.section(REASON, "the transcript", reason(facts));
    page.section(RELOAD, "the files themselves", reload(facts));
    page.section(BUDGET, "the transcript", budget(facts));
    page.section(GIT, "`git status`", git(facts));
    let whole = facts.previous.as_deref().unwrap_or("the document before this one");
    page.section(DONE, whole, filled(&facts.filled.done, DONE_EMPTY));
    page.section(DECISIONS, whole, filled(&facts.filled.decisions, DECISIONS_EMPTY));
    page.section(BLOCKERS, whole, filled(&facts.filled.blockers, BLOCKERS_EMPTY));
    page.section(SEEN, "the transcript", seen(told));
    page.section(ISSUE, "the tracker", issue(facts));
    page.section(NEXT, "the sections above", numbered(&next_steps(facts)));
    page.section(RESUME, "", resume());
}

fn reason(facts: &Facts) -> String {
    let mut text = format!("{}\n", facts.reason.sentence(facts.percent));
    if let Some(task) = &facts.told.task {
        text.push_str(&format!("\n- {TASK}{}\n", one_line(task, TASK_CHARS_MAX)));
    }
    if let Some(asked) = &facts.told.asked_last {
        text.push_str(&format!("- Asked last: {}\n", one_line(asked, TASK_CHARS_MAX)));
    }
    if let Some(previous) = &facts.previous {
        text.push_str(&format!("- The document before it of this session: {}\n", line(previous)));
    }
    text
}

fn reload(facts: &Facts) -> String {
    let mut text = String::new();
    for file in &facts.instructions {
        text.push_str(&format!("- **{}**{}\n", line(&file.path), headings(&file.sections)));
    }
    if let Some(spec) = &facts.spec {
        text.push_str(&format!("- **Active Spec**: {}\n", line(spec)));
    }
    if text.is_empty() { "No CLAUDE.md, AGENTS.md or spec was found.\n".to_owned() } else { text }
}

fn headings(sections: &[String]) -> String {
    if sections.is_empty() {
        return String::new();
    }
    let named: Vec<String> = sections.iter().take(HEADINGS_MAX).map(|name| one_line(name, 50)).collect();
    let more = sections.len().saturating_sub(HEADINGS_MAX);
    let more = if more > 0 { format!("; {more} more") } else { String::new() };
    format!(": Sections {}{more}", named.join("; "))
}

fn budget(facts: &Facts) -> String {
    let left = facts.percent.map(|percent| 100u64.saturating_sub(percent));
    let tokens = facts.remaining_tokens.map(thousands);
    match (left, tokens) {
        (Some(left), Some(tokens)) => {
            format!("Estimated {left}% (~{tokens} tokens) remaining in original session.\n")
        }
        (Some(left), None) => format!("Estimated {left}% remaining in original session.\n"),
        (None, Some(tokens)) => format!("Estimated ~{tokens} tokens remaining in original session.\n"),
        (None, None) => "Unknown: nothing told the usage of the original session.\n".to_owned(),
    }
}

fn git(facts: &Facts) -> String {
    match &facts.tree {
        Tree::NoRepository => {
            let files = bullets("Edited in this session", "", &facts.told.edited, FILES_MAX);
            format!("No git repository.\n{files}")
        }
        Tree::Unknown { why } => {
            let files = bullets("Edited in this session", "", &facts.told.edited, FILES_MAX);
            format!("Git could not be asked.\n\n- {}\n{files}", line(why))
        }
        Tree::Git(tree) => git_tree(tree, &facts.told),
    }
}

fn git_tree(tree: &GitTree, told: &Told) -> String {
    let branch = tree.branch.as_deref().map_or("none (detached HEAD)".to_owned(), line);
    let head = tree.head.as_deref().map_or("none yet".to_owned(), line);
    let mut text = format!("- Branch: {branch}\n- Last commit: {head}\n");
    if let Some(what) = &tree.under_way {
        text.push_str(&format!("- Under way: {}\n", line(what)));
    }
    text.push_str(&wip(&tree.wip));
    let is_edited = |path: &str| told.edited.iter().any(|edited| edited.ends_with(path));
    let files: Vec<String> = tree
        .changed
        .iter()
        .map(|file| {
            let ours = if is_edited(&file.path) { " (edited in this session)" } else { "" };
            format!("`{}` {}{ours}", file.code, one_line(&file.path, LINE_CHARS_MAX))
        })
        .collect();
    match files.len() {
        0 => text.push_str("\nNo uncommitted changes.\n"),
        count => text.push_str(&bullets("Modified files", &format!(" ({count})"), &files, FILES_MAX)),
    }
    text
}

fn wip(wip: &WipState) -> String {
    match wip {
        WipState::Off => "- Work in progress is not committed, as the settings say.\n".to_owned(),
        WipState::Clean => String::new(),
        WipState::Failed { why } => format!("- Work in progress could not be committed: {}\n", line(why)),
        WipState::Saved { commit, name, note, left_out } => {
            let id = commit.get(..12).unwrap_or(commit);
            let mut text = match name {
                None => format!("- Work in progress: commit {id} on the branch\n"),
                Some(name) => format!(
                    "- Work in progress: commit {id} under {name}\n\
                     - See it: `git diff HEAD {name}`; bring it back: `git checkout {name} -- .`\n"
                ),
            };
            text.extend(note.iter().map(|note| format!("- {}\n", line(note))));
            text.extend(
                left_out.iter().take(COMMANDS_MAX).map(|path| format!("- Not in it: {}\n", line(path))),
            );
            let more = left_out.len().saturating_sub(COMMANDS_MAX);
            text.push_str(&if more > 0 { format!("- Not in it: {more} more\n") } else { String::new() });
            text
        }
    }
}

/// What the agent wrote, line by line, or the marked empty place.
fn filled(lines: &[String], empty: &str) -> String {
    if lines.is_empty() {
        return format!("{empty}\n");
    }
    let more = lines.len().saturating_sub(FILLED_LINES_MAX);
    let shown = lines.iter().take(FILLED_LINES_MAX).map(|text| format!("- {}\n", one_line(text, 300)));
    let more = if more > 0 { format!("- [{more} more lines]\n") } else { String::new() };
    shown.collect::<String>() + &more
}

fn seen(told: &Told) -> String {
    let mut text = String::new();
    if told.compacted {
        text.push_str("The conversation was summarised on the way.\n");
    }
    if let Some(test) = &told.test {
        let how = if test.passed { "passed" } else { "failed" };
        text.push_str(&format!("- Last test run {how}: {}\n", told_command(&test.command, &test.last_line)));
    }
    let done: Vec<String> = todos(told, TodoState::Done).map(str::to_owned).collect();
    text.push_str(&bullets("Ticked in the agent's list", "", &done, STEPS_MAX));
    text.push_str(&bullets("Commands that succeeded", "", last(&told.succeeded, COMMANDS_MAX), COMMANDS_MAX));
    let failed: Vec<String> = told.failed.iter().map(failed_line).collect();
    text.push_str(&bullets("Commands that failed", "", last(&failed, COMMANDS_MAX), COMMANDS_MAX));
    if let Some(words) = &told.last_words {
        text.push_str(&format!("\nThe agent's last words:\n\n{}", quoted(words)));
    }
    if text.is_empty() { "Nothing: there was no transcript to read.\n".to_owned() } else { text }
}

/// Words in a quotation, their end if they are long.
fn quoted(words: &str) -> String {
    let words = clean(words).text;
    let surplus = words.chars().count().saturating_sub(WORDS_CHARS_MAX);
    let kept: String = words.chars().skip(surplus).collect();
    let kept = if surplus > 0 { format!("… {kept}") } else { kept };
    kept.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| format!("> {}\n", one_line(line, 500)))
        .collect()
}

fn issue(facts: &Facts) -> String {
    let issue = facts.issue.as_deref().map_or("none named".to_owned(), line);
    let state = match &facts.issue_state {
        IssueState::NoTracker => "- Tracker: none\n".to_owned(),
        IssueState::Known { title, status } => format!("- {}\n- State: {}\n", line(title), line(status)),
        IssueState::Unknown { why } => format!("- Tracker: no answer ({})\n", line(why)),
    };
    format!("- Issue: {issue}\n{state}")
}

/// What to do first, most certain first.
fn next_steps(facts: &Facts) -> Vec<String> {
    let told = &facts.told;
    let mut steps = Vec::new();
    if let Tree::Git(git) = &facts.tree {
        steps.extend(
            git.under_way.iter().map(|what| format!("Finish {} that is under way in git.", line(what))),
        );
    }
    if let Some(test) = told.test.as_ref().filter(|test| !test.passed) {
        steps.push(format!("Mend the failing test: {}", told_command(&test.command, &test.last_line)));
    }
    let now = todos(told, TodoState::Now).map(|text| format!("Go on with: {}", line(text)));
    steps.extend(now.chain(todos(told, TodoState::Open).map(line)));
    let more = steps.len().saturating_sub(STEPS_MAX);
    steps.truncate(STEPS_MAX);
    if more > 0 {
        steps.push(format!("{more} more items of the agent's list stand in the transcript."));
    }
    if let Tree::Git(git) = &facts.tree
        && !git.changed.is_empty()
    {
        let files = if git.changed.len() == 1 { "file" } else { "files" };
        steps.push(format!(
            "Look over the uncommitted changes ({} {files}): `git status`.",
            git.changed.len()
        ));
    }
    if told.last_words.is_some() {
        steps.push("Read the agent's last words in the document and go on from there.".to_owned());
    }
    if steps.is_empty() {
        steps.push("Nothing is recorded as open: ask what comes next.".to_owned());
    }
    steps
}

fn resume() -> String {
    "Start a fresh session in this project and type `/orient` (in a shell: `ekiden orient`).\n".to_owned()
}

fn todos(told: &Told, state: TodoState) -> impl Iterator<Item = &str> {
    told.todos.iter().filter(move |todo| todo.state == state).map(|todo| todo.text.as_str())
}

fn numbered(steps: &[String]) -> String {
    steps.iter().enumerate().map(|(index, step)| format!("{}. {step}\n", index + 1)).collect()
}

/// A label and its items, or nothing if there are none.
fn bullets(label: &str, behind: &str, items: &[String], most: usize) -> String {
    if items.is_empty() {
        return String::new();
    }
    let shown: String = items.iter().take(most).map(|item| format!("- {}\n", line(item))).collect();
    let more = items.len().saturating_sub(most);
    let more = if more > 0 { format!("- [{more} more]\n") } else { String::new() };
    format!("\n{label}{behind}:\n\n{shown}{more}")
}

fn failed_line(failed: &FailedCommand) -> String {
    let code = failed.code.map_or("no exit code".to_owned(), |code| format!("exit code {code}"));
    format!("{} ({code})", told_command(&failed.command, &failed.last_line))
}

fn told_command(command: &str, last_line: &str) -> String {
    let command = one_line(command, 90);
    match one_line(last_line, 90).as_str() {
        "" => command,
        last_line => format!("{command} — {last_line}"),
    }
}

fn line(text: &str) -> String {
    one_line(text, LINE_CHARS_MAX)
}

fn first_line(text: &str) -> &str {
    text.trim_start().lines().next().unwrap_or_default().trim_start_matches('#')
}

fn last<T>(all: &[T], max: usize) -> &[T] {
    &all[all.len().saturating_sub(max)..]
}

fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
