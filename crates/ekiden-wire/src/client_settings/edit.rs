//! Putting the guard into a settings file, and taking it out.
//!
//! Both go through the concrete syntax, in which every blank and comment is a node. What is taken out
//! takes with it only what it leaves empty.

use jsonc_parser::cst::{
    CstArray, CstInputValue, CstNode, CstObject, CstObjectProp, CstRootNode, CstStringLit,
};
use jsonc_parser::json;

use super::BYTE_ORDER_MARK;
use super::commands::{GUARD_HOOKS, GuardCommand, GuardHook};
use super::shape::{SettingsFault, check, options};

/// How often a client that has nothing to tell asks for the status line, in seconds.
const REFRESH_SECS: u32 = 5;

/// A settings file with the guard in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// The text.
    pub text: String,
    /// What became of the status line.
    pub status_line: StatusLineFate,
}

/// What becomes of a status line when the guard comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusLineFate {
    /// Ours alone.
    Ours,
    /// Ours, with the one that was there inside.
    Wrapped,
    /// There is one of a form that is not known; it stays as it is, and ours is not shown.
    Kept,
}

/// The text with the hooks and the status line of `program` in it, each exactly once. What ekiden
/// installed there before, from wherever it ran, is brought up to date; a `timeout` that a person
/// changed stays. The text that comes out goes in and out again unchanged.
///
/// # Errors
///
/// The text is no settings file that can be edited without guessing.
pub fn install(text: &str, program: &str) -> Result<Installed, SettingsFault> {
    let (mark, body) = split_mark(text);
    let root = parse(if body.trim().is_empty() { "{}\n" } else { body })?;
    let settings = root.object_value_or_set();
    install_hooks(&settings.object_value_or_set("hooks"), program);
    let status_line = install_status_line(&settings, program);
    Ok(Installed { text: format!("{mark}{root}"), status_line })
}

/// The text without anything of ours: no hook, no status line; the one that ours was put around is
/// back in its place.
///
/// # Errors
///
/// The text is no settings file that can be edited without guessing.
pub fn remove(text: &str) -> Result<String, SettingsFault> {
    let (mark, body) = split_mark(text);
    let root = parse(body)?;
    let Some(settings) = root.object_value() else { return Ok(text.to_owned()) };
    remove_hooks(&settings);
    remove_status_line(&settings);
    Ok(format!("{mark}{root}"))
}

fn split_mark(text: &str) -> (&str, &str) {
    let body = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    text.split_at(text.len() - body.len())
}

fn parse(body: &str) -> Result<CstRootNode, SettingsFault> {
    check(body)?;
    Ok(CstRootNode::parse(body, &options()).expect("the same parser has just read the same text"))
}

// ── Hooks ──────────────────────────────────────────────────────────────────────────────────────

fn install_hooks(hooks: &CstObject, program: &str) {
    for event in events(hooks) {
        let known = GUARD_HOOKS.iter().any(|hook| hook.event == event);
        let mut kept = false;
        take_out(hooks, &event, |named| {
            let keep = known && !kept && named == event;
            kept |= keep;
            !keep
        });
    }
    for hook in GUARD_HOOKS {
        install_hook(&hooks.array_value_or_set(hook.event), hook, program);
    }
}

fn install_hook(groups: &CstArray, hook: GuardHook, program: &str) {
    let wanted = GuardCommand::Hook { program: program.to_owned(), event: hook.event.to_owned() };
    match groups.elements().iter().flat_map(entries).find_map(|entry| ours(&entry)) {
        Some((command, found)) if found != wanted => write(&command, &wanted),
        Some(_) => {}
        None => {
            let timeout = CstInputValue::Number(hook.timeout_secs.to_string());
            let entry = json!({ "type": "command", "command": (text(&wanted)), "timeout": (timeout) });
            groups.append(json!({ "hooks": [(entry)] }));
        }
    }
}

fn remove_hooks(settings: &CstObject) {
    let Some(hooks) = settings.object_value("hooks") else { return };
    let mut took = false;
    for event in events(&hooks) {
        took |= take_out(&hooks, &event, |_| true);
    }
    if took && hooks.properties().is_empty() {
        settings.get("hooks").into_iter().for_each(CstObjectProp::remove);
    }
}

/// Takes out the hooks of ours at an event for which `spare` says so; it is told what event each names.
/// What that leaves empty goes too. Whether there was any.
fn take_out(hooks: &CstObject, event: &str, mut spare: impl FnMut(&str) -> bool) -> bool {
    let Some(groups) = hooks.array_value(event) else { return false };
    let mut took = false;
    for group in groups.elements() {
        let spares = entries(&group).into_iter().filter(|entry| match ours(entry) {
            Some((_, GuardCommand::Hook { event, .. })) => spare(&event),
            Some((_, GuardCommand::StatusLine { .. })) | None => false,
        });
        let spares: Vec<CstObject> = spares.collect();
        took |= !spares.is_empty();
        if !spares.is_empty() && spares.len() == all_entries(&group) {
            group.remove();
        } else {
            spares.into_iter().for_each(CstObject::remove);
        }
    }
    if took && groups.elements().is_empty() {
        hooks.get(event).into_iter().for_each(CstObjectProp::remove);
    }
    took
}

/// The events of which the settings speak.
fn events(hooks: &CstObject) -> Vec<String> {
    hooks.properties().iter().filter_map(CstObjectProp::decoded_name).collect()
}

/// The hooks of a group, as far as they have the form of one.
fn entries(group: &CstNode) -> Vec<CstObject> {
    let entries = group.as_object().and_then(|group| group.array_value("hooks"));
    let entries = entries.map(|entries| entries.elements()).unwrap_or_default();
    entries.iter().filter_map(CstNode::as_object).collect()
}

/// How many hooks a group has, whatever their form.
fn all_entries(group: &CstNode) -> usize {
    let entries = group.as_object().and_then(|group| group.array_value("hooks"));
    entries.map_or(0, |entries| entries.elements().len())
}

// ── Status line ────────────────────────────────────────────────────────────────────────────────

fn install_status_line(settings: &CstObject, program: &str) -> StatusLineFate {
    let wrapping =
        |wrapped: Option<String>| GuardCommand::StatusLine { program: program.to_owned(), wrapped };
    if settings.get("statusLine").is_none() {
        let (command, every) = (text(&wrapping(None)), refresh_secs());
        settings.append(
            "statusLine",
            json!({ "type": "command", "command": (command), "refreshInterval": (every) }),
        );
        return StatusLineFate::Ours;
    }
    let Some((command, found)) = status_line(settings) else { return StatusLineFate::Kept };
    let wrapped = match GuardCommand::parse(&found) {
        Some(GuardCommand::StatusLine { wrapped, .. }) => wrapped,
        Some(GuardCommand::Hook { .. }) | None => Some(found.clone()),
    };
    let fate = if wrapped.is_some() { StatusLineFate::Wrapped } else { StatusLineFate::Ours };
    if fate == StatusLineFate::Ours {
        refresh(settings);
    }
    match wrapping(wrapped).text() {
        // A shell cannot be given it, so the client cannot run it either.
        None => StatusLineFate::Kept,
        Some(wanted) => {
            if wanted != found {
                command.set_raw_value(quoted(&wanted));
            }
            fate
        }
    }
}

/// Has the client ask again by itself. Else what changes beside a session, like a document that is
/// being written, is shown as it was until something happens in the session. A status line that was
/// there before is asked as often as its owner meant it to be.
fn refresh(settings: &CstObject) {
    let Some(line) = settings.object_value("statusLine") else { return };
    if line.get("refreshInterval").is_none() {
        line.append("refreshInterval", refresh_secs());
    }
}

fn refresh_secs() -> CstInputValue {
    CstInputValue::Number(REFRESH_SECS.to_string())
}

fn remove_status_line(settings: &CstObject) {
    let Some((command, found)) = status_line(settings) else { return };
    match GuardCommand::parse(&found) {
        Some(GuardCommand::StatusLine { wrapped: Some(wrapped), .. }) => {
            command.set_raw_value(quoted(&wrapped));
        }
        Some(GuardCommand::StatusLine { wrapped: None, .. }) => {
            settings.get("statusLine").into_iter().for_each(CstObjectProp::remove);
        }
        Some(GuardCommand::Hook { .. }) | None => {}
    }
}

/// The command of a status line that is one.
fn status_line(settings: &CstObject) -> Option<(CstStringLit, String)> {
    let line = settings.object_value("statusLine")?;
    (string(&line, "type")?.1 == "command").then(|| string(&line, "command"))?
}

// ── Commands ───────────────────────────────────────────────────────────────────────────────────

/// The command of an entry and what it is, if it is ours.
fn ours(entry: &CstObject) -> Option<(CstStringLit, GuardCommand)> {
    let (literal, command) = string(entry, "command")?;
    Some((literal, GuardCommand::parse(&command)?))
}

fn string(object: &CstObject, name: &str) -> Option<(CstStringLit, String)> {
    let literal = object.get(name)?.value()?.as_string_lit()?;
    let value = literal.decoded_value().ok()?;
    Some((literal, value))
}

fn write(literal: &CstStringLit, command: &GuardCommand) {
    literal.set_raw_value(quoted(&text(command)));
}

fn text(command: &GuardCommand) -> String {
    command.text().expect("the path of a program has no NUL in it")
}

/// As a JSON string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
