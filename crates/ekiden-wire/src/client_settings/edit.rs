//! Puts the guard into a settings file, and takes it out.
//!
//! Both edit the concrete syntax tree, in which every blank and comment is a node. Besides our entries they
//! remove only what becomes empty.

use jsonc_parser::cst::{
    CstArray, CstInputValue, CstNode, CstObject, CstObjectProp, CstRootNode, CstStringLit,
};
use jsonc_parser::errors::ParseError;
use jsonc_parser::{ParseOptions, json};
use serde_json::Value;

use super::BYTE_ORDER_MARK;
use super::commands::{GUARD_HOOKS, GuardCommand, GuardHook};
use super::server::use_mod;
use super::survey::{Position, read};

/// How often an idle client asks for the status line, in seconds.
const REFRESH_SECS: u32 = 5;

/// A settings file with the guard in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    pub text: String,
    pub status_line: StatusLineFate,
}

/// What happens to a status line when the guard is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusLineFate {
    Ours,
    /// Ours, with the previous one inside.
    Wrapped,
    /// Its form is unknown; it stays as it is, and ours is not shown.
    Kept,
}

/// The text with the hooks and the status line of `program` in it, each exactly once. Entries that ekiden
/// installed before are updated, wherever ekiden was then; a `timeout` that a person changed stays. Installing
/// again changes nothing.
pub fn install(text: &str, program: &str) -> Result<Installed, SettingsFault> {
    let (mark, body) = split_mark(text);
    let root = parse(if body.trim().is_empty() { "{}\n" } else { body })?;
    let settings = root.object_value_or_set();
    install_hooks(&settings.object_value_or_set("hooks"), program);
    let status_line = install_status_line(&settings, program);
    Ok(Installed {
        text: format!("{mark}{root}"),
        status_line,
    })
}

/// The text without our hooks, status line and mod; the same text if it has none. A status line that ours wraps is
/// restored. The rule of [`allow_tools`](super::allow_tools) stays, since it may be the user's. So does an empty `hooks`
/// that the `original` had.
pub fn remove(text: &str, original: Option<&str>) -> Result<String, SettingsFault> {
    let (mark, body) = split_mark(text);
    let root = parse(body)?;
    let Some(settings) = root.object_value() else {
        return Ok(text.to_owned());
    };
    let had_hooks = |original| {
        let settings = parse(split_mark(original).1).ok()?.object_value()?;
        settings.get("hooks")
    };
    remove_hooks(&settings, original.and_then(had_hooks).is_some());
    remove_status_line(&settings);
    use_mod(&format!("{mark}{root}"), None)
}

/// The status line of a settings file; in place of ours what it wraps, if anything.
pub fn own_status_line(text: &str) -> Option<Value> {
    let mut line = read(text.as_bytes())?.get_mut("statusLine")?.take();
    let command = line["command"]
        .as_str()
        .filter(|_| line["type"] == "command")?;
    if let Some(GuardCommand::StatusLine { wrapped, .. }) = GuardCommand::parse(command) {
        line["command"] = wrapped?.into();
    }
    Some(line)
}

/// The text with this status line of another file, if it has none.
pub fn add_status_line(text: &str, line: &Value) -> Result<String, SettingsFault> {
    let (mark, body) = split_mark(text);
    let root = parse(if body.trim().is_empty() { "{}\n" } else { body })?;
    let settings = root.object_value_or_set();
    if settings.get("statusLine").is_none() {
        let command = line["command"].as_str().unwrap_or_default();
        let added = settings.object_value_or_set("statusLine");
        added.append("type", json!("command"));
        added.append("command", json!(command));
        for name in ["padding", "refreshInterval"] {
            if let Some(number) = line[name].as_number() {
                added.append(name, CstInputValue::Number(number.to_string()));
            }
        }
    }
    Ok(format!("{mark}{root}"))
}

/// The text without this status line of another file.
pub fn drop_status_line(text: &str, line: &Value) -> Result<String, SettingsFault> {
    let (mark, body) = split_mark(text);
    let root = parse(body)?;
    if let Some(settings) = root.object_value()
        && status_line(&settings).is_some_and(|(_, _, command)| line["command"] == command)
    {
        remove_property(&settings, "statusLine");
    }
    Ok(format!("{mark}{root}"))
}

pub(super) fn split_mark(text: &str) -> (&str, &str) {
    let body = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    text.split_at(text.len() - body.len())
}

/// Why a settings file is not edited. Reads well after "cannot change `FILE`: ".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsFault {
    /// It is not JSON, not even with comments and trailing commas.
    #[error("{at}: {what}")]
    Syntax { at: Position, what: String },
    #[error("{what} is not {wanted}")]
    Form { what: String, wanted: &'static str },
    /// The client uses the last one, a person sees the first.
    #[error("`{name}` appears twice")]
    Twice { name: String },
}

/// Parses a text, and checks that everything an edit relies on has the form of the client's settings.
fn parse(body: &str) -> Result<CstRootNode, SettingsFault> {
    let root = CstRootNode::parse(body, &options()).map_err(|error| syntax(&error))?;
    let Some(settings) = root.value() else {
        return Ok(root);
    };
    let settings = object(Some(settings), "the file")?;
    unique(&settings, &["hooks", "statusLine"])?;
    if let Some(line) = settings.object_value("statusLine") {
        unique(&line, &["type", "command"])?;
    }
    if let Some(hooks) = settings.get("hooks") {
        let hooks = object(hooks.value(), "`hooks`")?;
        let events = GUARD_HOOKS.map(|hook| hook.event);
        unique(&hooks, &events)?;
        for event in events {
            if hooks.get(event).is_some() && hooks.array_value(event).is_none() {
                return Err(SettingsFault::Form {
                    what: format!("`hooks.{event}`"),
                    wanted: "an array",
                });
            }
        }
    }
    Ok(root)
}

/// What is understood beyond JSON: people write comments and trailing commas into settings. Nothing else that
/// the parser might accept.
pub(super) fn options() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

pub(super) fn syntax(error: &ParseError) -> SettingsFault {
    let what = error.kind().to_string();
    let (first, rest) = what.split_at(what.len().min(1));
    SettingsFault::Syntax {
        at: Position {
            line: error.line_display(),
            column: error.column_display(),
        },
        what: first.to_lowercase() + rest,
    }
}

pub(super) fn object(value: Option<CstNode>, what: &str) -> Result<CstObject, SettingsFault> {
    let wrong = || SettingsFault::Form {
        what: what.to_owned(),
        wanted: "an object",
    };
    value.and_then(|value| value.as_object()).ok_or_else(wrong)
}

/// None of these properties appears twice.
pub(super) fn unique(object: &CstObject, counts: &[&str]) -> Result<(), SettingsFault> {
    let mut names = names(object);
    names.sort();
    let twice = |pair: &&[String]| pair[0] == pair[1] && counts.contains(&pair[0].as_str());
    names.windows(2).find(twice).map_or(Ok(()), |pair| {
        Err(SettingsFault::Twice {
            name: pair[0].clone(),
        })
    })
}

fn names(object: &CstObject) -> Vec<String> {
    let properties = object.properties();
    properties
        .iter()
        .filter_map(CstObjectProp::decoded_name)
        .collect()
}

fn install_hooks(hooks: &CstObject, program: &str) {
    for event in names(hooks) {
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
    let wanted = GuardCommand::Hook {
        program: program.to_owned(),
        event: hook.event.to_owned(),
    };
    let entries = groups.elements();
    let mut entries = entries.iter().flat_map(self::entries);
    match entries.find_map(|entry| ours(&entry.as_object()?)) {
        Some((command, found)) if found != wanted => command.set_raw_value(quoted(&text(&wanted))),
        Some(_) => {}
        None => {
            let timeout = CstInputValue::Number(hook.timeout_secs.to_string());
            let entry =
                json!({ "type": "command", "command": (text(&wanted)), "timeout": (timeout) });
            groups.append(json!({ "hooks": [(entry)] }));
        }
    }
}

fn remove_hooks(settings: &CstObject, keeps_empty: bool) {
    let Some(hooks) = settings.object_value("hooks") else {
        return;
    };
    let mut took = false;
    for event in names(&hooks) {
        took |= take_out(&hooks, &event, |_| true);
    }
    if took && hooks.properties().is_empty() && !keeps_empty {
        remove_property(settings, "hooks");
    }
}

/// Removes our hooks at the events for which `is_spare` is true, and whatever that empties. Returns whether there
/// were any.
fn take_out(hooks: &CstObject, event: &str, mut is_spare: impl FnMut(&str) -> bool) -> bool {
    let Some(groups) = hooks.array_value(event) else {
        return false;
    };
    let mut took = false;
    for group in groups.elements() {
        let entries = entries(&group);
        let mut spare = entries.clone();
        spare.retain(|entry| match entry.as_object().as_ref().and_then(ours) {
            Some((_, GuardCommand::Hook { event, .. })) => is_spare(&event),
            Some((_, GuardCommand::StatusLine { .. })) | None => false,
        });
        took |= !spare.is_empty();
        if !spare.is_empty() && spare.len() == entries.len() {
            group.remove();
        } else {
            spare.into_iter().for_each(CstNode::remove);
        }
    }
    if took && groups.elements().is_empty() {
        remove_property(hooks, event);
    }
    took
}

/// The hooks of a group, whatever their form.
fn entries(group: &CstNode) -> Vec<CstNode> {
    let group = group.as_object();
    let entries = group.and_then(|group| group.array_value("hooks"));
    entries
        .map(|entries| entries.elements())
        .unwrap_or_default()
}

pub(super) fn remove_property(object: &CstObject, name: &str) {
    if let Some(property) = object.get(name) {
        property.remove();
    }
}

fn install_status_line(settings: &CstObject, program: &str) -> StatusLineFate {
    let wrapping = |wrapped: Option<String>| GuardCommand::StatusLine {
        program: program.to_owned(),
        wrapped,
    };
    if settings.get("statusLine").is_none() {
        let (command, every) = (text(&wrapping(None)), refresh_secs());
        settings.append(
            "statusLine",
            json!({ "type": "command", "command": (command), "refreshInterval": (every) }),
        );
        return StatusLineFate::Ours;
    }
    let Some((line, command, found)) = status_line(settings) else {
        return StatusLineFate::Kept;
    };
    let wrapped = match GuardCommand::parse(&found) {
        Some(GuardCommand::StatusLine { wrapped, .. }) => wrapped,
        Some(GuardCommand::Hook { .. }) | None => Some(found.clone()),
    };
    let is_wrapped = wrapped.is_some();
    // A shell accepts no command with a NUL, so the client cannot run it either.
    let Some(wanted) = wrapping(wrapped).text() else {
        return StatusLineFate::Kept;
    };
    if wanted != found {
        command.set_raw_value(quoted(&wanted));
    }
    if is_wrapped {
        return StatusLineFate::Wrapped;
    }
    // Without it, changes beside a session are shown late. A previous status line is asked as often as its owner
    // wanted.
    if line.get("refreshInterval").is_none() {
        line.append("refreshInterval", refresh_secs());
    }
    StatusLineFate::Ours
}

fn refresh_secs() -> CstInputValue {
    CstInputValue::Number(REFRESH_SECS.to_string())
}

fn remove_status_line(settings: &CstObject) {
    let Some((_, command, found)) = status_line(settings) else {
        return;
    };
    match GuardCommand::parse(&found) {
        Some(GuardCommand::StatusLine {
            wrapped: Some(wrapped),
            ..
        }) => {
            command.set_raw_value(quoted(&wrapped));
        }
        Some(GuardCommand::StatusLine { wrapped: None, .. }) => {
            remove_property(settings, "statusLine");
        }
        Some(GuardCommand::Hook { .. }) | None => {}
    }
}

/// A status line of a known form, and its command.
fn status_line(settings: &CstObject) -> Option<(CstObject, CstStringLit, String)> {
    let line = settings.object_value("statusLine")?;
    let (_, kind) = string(&line, "type")?;
    let (literal, command) = string(&line, "command")?;
    (kind == "command").then_some((line, literal, command))
}

/// The command of an entry and what it is, if it is ours.
fn ours(entry: &CstObject) -> Option<(CstStringLit, GuardCommand)> {
    let (literal, command) = string(entry, "command")?;
    Some((literal, GuardCommand::parse(&command)?))
}

pub(super) fn string(object: &CstObject, name: &str) -> Option<(CstStringLit, String)> {
    let literal = object.get(name)?.value()?.as_string_lit()?;
    let value = literal.decoded_value().ok()?;
    Some((literal, value))
}

fn text(command: &GuardCommand) -> String {
    command
        .text()
        .expect("the path of a program has no NUL in it")
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
