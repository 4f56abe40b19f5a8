//! The MCP server in the client's state file, and the rule that lets its tools run.
//!
//! The client writes that file often, and it can hold keys. So an edit changes only our entry and keeps no copy
//! of the file.

use jsonc_parser::cst::{CstObject, CstRootNode};
use jsonc_parser::json;
use serde_json::Value;

use super::commands::is_ekiden;
use super::edit::{
    SettingsFault, object, options, remove_property, split_mark, string, syntax, unique,
};

/// Its name among the client's servers.
const NAME: &str = "ekiden";
pub const TOOLS_RULE: &str = "mcp__ekiden";
const LIST: &str = "mcpServers";
/// The marketplace of the mod that setup installs, and the mod's full name.
const MARKETPLACE: &str = "ekiden-setup";
const MOD: &str = "ekiden-mod@ekiden-setup";

/// A state file with our server in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    pub text: String,
    /// How many objects around the entry were missing.
    pub made: usize,
    /// A server of the same name belongs to somebody else, and stays.
    pub taken: bool,
}

/// The text with our server, for all sessions or those in one project.
pub fn register(
    text: &str,
    project: Option<&str>,
    program: &str,
) -> Result<Registered, SettingsFault> {
    let (mark, body) = split_mark(text);
    let body = if body.trim().is_empty() { "{}\n" } else { body };
    let (root, mut around) = parse(body)?;
    let mut made = 0;
    for name in path(project) {
        unique(&around, &[name])?;
        if around.get(name).is_none() {
            around.append(name, json!({}));
            made += 1;
        }
        around = object(around.get(name).and_then(|found| found.value()), name)?;
    }
    unique(&around, &[NAME])?;
    let taken = match around.get(NAME) {
        None => {
            around.append(NAME, json!({ "command": program, "args": ["mcp"] }));
            false
        }
        Some(entry) => match own(&around) {
            Some(same) if same == program => false,
            Some(_) => {
                entry.set_value(json!({ "command": program, "args": ["mcp"] }));
                false
            }
            None => true,
        },
    };
    Ok(Registered {
        text: format!("{mark}{}", as_dense_as(body, root.to_string())),
        made,
        taken,
    })
}

/// The text without it, and without the objects that were made around it and are now empty.
pub fn unregister(text: &str, project: Option<&str>, made: usize) -> Result<String, SettingsFault> {
    let (mark, body) = split_mark(text);
    if body.trim().is_empty() {
        return Ok(text.to_owned());
    }
    let (root, top) = parse(body)?;
    let names = path(project);
    let mut around = vec![top];
    for name in &names {
        let last = &around[around.len() - 1];
        unique(last, &[name])?;
        let Some(next) = last.object_value(name) else {
            return Ok(text.to_owned());
        };
        around.push(next);
    }
    let list = &around[names.len()];
    unique(list, &[NAME])?;
    if own(list).is_none() {
        return Ok(text.to_owned());
    }
    remove_property(list, NAME);
    for (depth, name) in names.iter().enumerate().rev() {
        if !around[depth + 1].properties().is_empty() {
            break;
        }
        if names.len() - depth <= made {
            remove_property(&around[depth], name);
        } else if let Some(property) = around[depth].get(name) {
            property.set_value(json!({}));
            break;
        }
    }
    Ok(format!("{mark}{}", as_dense_as(body, root.to_string())))
}

/// A file without white space keeps that form; otherwise an edit would spread objects over lines.
fn as_dense_as(before: &str, after: String) -> String {
    let (text, end) = before.split_at(before.trim_end().len());
    // An empty object shows no preference.
    if text != "{}" && dense(text) == text {
        dense(&after) + end
    } else {
        after
    }
}

/// Without white space outside strings.
fn dense(text: &str) -> String {
    let (mut in_string, mut escaped) = (false, false);
    let is_kept = |c: &char| {
        in_string ^= *c == '"' && !escaped;
        escaped = in_string && *c == '\\' && !escaped;
        in_string || !c.is_ascii_whitespace()
    };
    text.chars().filter(is_kept).collect()
}

/// The program of our server in a state file, for all sessions or those in one project.
pub fn registered(bytes: &[u8], project: Option<&str>) -> Option<String> {
    let state: Value = serde_json::from_slice(bytes).ok()?;
    let list = path(project)
        .into_iter()
        .fold(&state, |around, name| &around[name]);
    program_of(&list[NAME])
}

/// The settings with the rule that allows the server's tools, once, or without it.
pub fn allow_tools(text: &str, allowed: bool) -> Result<String, SettingsFault> {
    let (mark, body) = split_mark(text);
    let (root, settings) = parse(body)?;
    unique(&settings, &["permissions"])?;
    if let Some(permissions) = settings.get("permissions") {
        let permissions = object(permissions.value(), "`permissions`")?;
        unique(&permissions, &["allow"])?;
        if permissions.get("allow").is_some() && permissions.array_value("allow").is_none() {
            return Err(SettingsFault::Form {
                what: "`permissions.allow`".to_owned(),
                wanted: "an array",
            });
        }
    }
    let list = || settings.object_value("permissions")?.array_value("allow");
    let rules = list().map(|list| list.elements()).unwrap_or_default();
    let mut rules = rules.into_iter();
    let found = rules.find(|rule| {
        let rule = rule.as_string_lit().map(|rule| rule.decoded_value());
        rule.is_some_and(|rule| rule.is_ok_and(|rule| rule == TOOLS_RULE))
    });
    match (found, allowed) {
        (None, true) => {
            let permissions = settings.object_value_or_set("permissions");
            let list = permissions.array_value_or_set("allow");
            list.append(json!(TOOLS_RULE));
        }
        (Some(rule), false) => {
            rule.remove();
            let permissions = settings.object_value("permissions");
            if let Some(permissions) =
                permissions.filter(|_| list().is_some_and(|list| list.elements().is_empty()))
            {
                remove_property(&permissions, "allow");
                if permissions.properties().is_empty() {
                    remove_property(&settings, "permissions");
                }
            }
        }
        (Some(_), true) | (None, false) => {}
    }
    Ok(format!("{mark}{root}"))
}

/// Whether the settings have the rule that allows the server's tools.
pub fn allows_tools(text: &str) -> bool {
    allow_tools(text, true).is_ok_and(|allowing| allowing == text)
}

/// The settings with the marketplace in `dir` and its mod switched on, or without both. What somebody set there stays,
/// even if they switched the mod off.
pub fn use_mod(text: &str, dir: Option<&str>) -> Result<String, SettingsFault> {
    let (mark, body) = split_mark(text);
    let (root, settings) = parse(body)?;
    let markets = ("extraKnownMarketplaces", MARKETPLACE);
    let plugins = ("enabledPlugins", MOD);
    unique(&settings, &[markets.0, plugins.0])?;
    for (list, entry) in [markets, plugins] {
        if let Some(found) = settings.get(list) {
            unique(&object(found.value(), &format!("`{list}`"))?, &[entry])?;
        }
    }
    if let Some(dir) = dir {
        let list = settings.object_value_or_set(markets.0);
        let wanted = json!({ "source": { "source": "directory", "path": dir } });
        match list.get(markets.1) {
            Some(found) if directory_of(&list).as_deref() != Some(dir) => found.set_value(wanted),
            Some(_) => {}
            None => {
                list.append(markets.1, wanted);
            }
        }
        let list = settings.object_value_or_set(plugins.0);
        if list.get(plugins.1).is_none() {
            list.append(plugins.1, json!(true));
        }
    } else {
        for (list, entry) in [markets, plugins] {
            let Some(list_of) = settings.object_value(list) else {
                continue;
            };
            let was_there = list_of.get(entry).is_some();
            remove_property(&list_of, entry);
            if was_there && list_of.properties().is_empty() {
                remove_property(&settings, list);
            }
        }
    }
    Ok(format!("{mark}{root}"))
}

fn directory_of(list: &CstObject) -> Option<String> {
    let source = list.object_value(MARKETPLACE)?.object_value("source")?;
    let path = source.get("path")?.value()?.as_string_lit()?;
    path.decoded_value().ok()
}

/// The objects around the entry.
fn path(project: Option<&str>) -> Vec<&str> {
    let of_project = project.map(|project| ["projects", project]);
    of_project.into_iter().flatten().chain([LIST]).collect()
}

fn parse(body: &str) -> Result<(CstRootNode, CstObject), SettingsFault> {
    let root = CstRootNode::parse(body, &options()).map_err(|error| syntax(&error))?;
    let top = object(root.value(), "the file")?;
    Ok((root, top))
}

/// The entry's program, if the entry is ours. It need not be plain JSON: ours gets a comma after its end where the file
/// has such commas.
fn own(list: &CstObject) -> Option<String> {
    let entry = list.object_value(NAME)?;
    let (_, program) = string(&entry, "command")?;
    let args = entry.array_value("args")?.elements().into_iter();
    let args: Option<Vec<_>> = args
        .map(|arg| arg.as_string_lit()?.decoded_value().ok())
        .collect();
    (is_ekiden(&program) && args? == ["mcp"]).then_some(program)
}

fn program_of(entry: &Value) -> Option<String> {
    let program = entry["command"].as_str()?;
    let is_ours = is_ekiden(program) && entry["args"] == serde_json::json!(["mcp"]);
    is_ours.then(|| program.to_owned())
}
