//! Whether a loop must continue.

use ekiden_core::event::Check;
use ekiden_core::handoff::{OpenItems, open_items, vanished};
use ekiden_core::limits::ITEM_TRIES_MAX as TRIES;
use ekiden_core::ralph::{RalphState, with_items};
use ekiden_core::relay::ITEMS_FILE;
use ekiden_engine::error::EngineError;
use ekiden_engine::workspace::Workspace;
use ekiden_engine::{check_now, history};
use ekiden_store::ralph;
use ekiden_store::replace::replace_in_project;

use super::{Invocation, done, items_of, loop_state, read};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::output::json::Fields;
use crate::output::line::one_line;
use crate::settings::chosen;

pub(super) fn next(invocation: &Invocation, output: &mut Output) -> Result<Exit, Failure> {
    let workspace = invocation.workspace_here()?;
    if let Some(holder) = history::holder(&workspace) {
        let holder = Some(Box::new(holder));
        return Err(EngineError::Held { holder }.into());
    }
    let (_, mut items) = look(&workspace, output)?;
    if items.open.is_empty() {
        let failed = verify(invocation, &workspace)?;
        // That may have taken hours, and somebody may have changed the list meanwhile.
        let (list, now) = look(&workspace, output)?;
        items = now;
        if items.open.is_empty()
            && let Some((command, check)) = failed
        {
            items.open = try_again(&workspace, &list, &command, &check)?;
        }
    }
    let first = items.open.first();
    if invocation.json()? {
        output.json(
            &Fields::versioned()
                .with("open", items.open.len())
                .with("item", first),
        );
    } else {
        let text = first.map_or_else(|| done(&items), |item| one_line(item));
        output.answer(&format!("{text}\n"));
    }
    Ok(match first {
        Some(_) => Exit::Unfinished,
        None => Exit::Done,
    })
}

/// The list as it is now, and its items.
fn look(workspace: &Workspace, output: &mut Output) -> Result<(String, OpenItems), Failure> {
    let list = read(workspace, ITEMS_FILE, output)?;
    let mut items = open_items(&list.text);
    items.open = put_back(workspace, &list.text, &items, output)?;
    if items.open.is_empty() {
        items_of(&list)?;
    }
    Ok((list.text, items))
}

/// Puts items back that are gone without a tick since the last look: deleting them does not end a loop. Gives what is open then.
fn put_back(
    workspace: &Workspace,
    list: &str,
    items: &OpenItems,
    output: &mut Output,
) -> Result<Vec<String>, Failure> {
    let open = items.open.clone();
    let Some(state) = loop_state(workspace)? else {
        return Ok(open);
    };
    let before = OpenItems {
        open: state.open_items,
        done: Vec::new(),
    };
    let gone = vanished(Some(&before), Some(items));
    if gone.is_empty() {
        note(workspace, |state| state.open_items.clone_from(&open))?;
        return Ok(open);
    }
    let open = add(workspace, list, &gone)?;
    for item in &gone {
        let item = one_line(item);
        output.warn(&format!("put back, it was gone without a tick: {item}"));
    }
    Ok(open)
}

/// Changes the recorded state of the loop.
fn note(workspace: &Workspace, change: impl FnOnce(&mut RalphState)) -> Result<(), Failure> {
    let disk = workspace.disk();
    workspace.prepare()?;
    ralph::change(&disk, &workspace.published(), change)?;
    Ok(())
}

/// The verification passes: forgets how often it failed before.
pub(super) fn note_passed(workspace: &Workspace) -> Result<(), Failure> {
    if loop_state(workspace)?.is_some() {
        note(workspace, |state| state.unverified = None)?;
    }
    Ok(())
}

/// The command of a verification that fails now, and how it does.
fn verify(
    invocation: &Invocation,
    workspace: &Workspace,
) -> Result<Option<(String, Check)>, Failure> {
    let Some(verification) = chosen::verification(&invocation.given)? else {
        return Ok(None);
    };
    let check = check_now(&workspace.dir, &verification)?;
    if check.passed() {
        note_passed(workspace)?;
        return Ok(None);
    }
    Ok(Some((one_line(&verification.in_one_line()), check)))
}

/// All are ticked and the verification fails: that becomes an item. After some tries a person is needed.
fn try_again(
    workspace: &Workspace,
    list: &str,
    command: &str,
    check: &Check,
) -> Result<Vec<String>, Failure> {
    let item = format!("`{command}` fails: find out why, and fix that");
    let mut is_added = false;
    note(workspace, |state| {
        is_added = state.add_unverified(&item, TRIES);
    })?;
    if !is_added {
        let text = format!("all items are ticked, but `{command}` {check}");
        let hint = "fix it, or add an item that says how; then start the loop again";
        return Err(Failure::new(Exit::Blocked, text).hint(hint));
    }
    add(workspace, list, &[item])
}

/// Adds items to the list, and returns what is open in it then. Notes that first, since an agent may delete the items,
/// and as the list reads it: long items and Markdown read differently.
fn add(workspace: &Workspace, list: &str, items: &[String]) -> Result<Vec<String>, Failure> {
    let text = with_items(list, items);
    let open = open_items(&text).open;
    note(workspace, |state| state.open_items.clone_from(&open))?;
    let disk = workspace.disk();
    let path = workspace.dir.join(ITEMS_FILE);
    replace_in_project(&disk, &path, text.as_bytes())?;
    Ok(open)
}
