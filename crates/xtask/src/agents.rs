//! `cargo xtask agents`: checks ekiden's assumptions about other agents against the pinned agents
//! themselves. It installs each into a separate folder, 1.1 GB in all, so it is not part of CI, except for
//! Qwen, which takes 55 MB.
//!
//! The conformance suite of `crates/ekiden/tests/conformance` then runs the same scenarios with each of
//! them.
//!
//! Codex generates the schema of its app-server on demand. A fixture keeps the names in it that ekiden
//! uses, and the tests of `ekiden-wire` check each message against it. This command makes the fixture
//! again: if a new version renames something, the difference shows.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::shell::{self, Program};

const FIXTURE: &str = "crates/ekiden-wire/fixtures/agents/codex-names.json";
/// What ekiden requests from it.
const REQUESTS: &[&str] = &[
    "initialize",
    "thread/start",
    "thread/resume",
    "turn/start",
    "turn/steer",
    "turn/interrupt",
];
/// The notifications that it sends.
const NOTICES: &[&str] = &[
    "turn/started",
    "turn/completed",
    "item/started",
    "item/completed",
    "thread/tokenUsage/updated",
    "thread/compacted",
    "account/rateLimits/updated",
    "error",
];
/// The requests that it makes.
const QUESTIONS: &[&str] = &[
    "item/commandExecution/requestApproval",
    "item/fileChange/requestApproval",
];
/// Enumerations of which ekiden sends or expects some values, and objects inside others.
const TYPES: &[&str] = &[
    "AskForApproval",
    "SandboxMode",
    "TurnStatus",
    "CodexErrorInfo",
    "ThreadTokenUsage",
    "TokenUsageBreakdown",
    "RateLimitSnapshot",
    "RateLimitWindow",
];

/// The folders of the agents.
const AGENTS: [&str; 5] = ["codex", "opencode", "qwen", "gemini", "copilot"];

/// Installs all, checks Codex's names against the fixture or writes it, and runs the suite.
pub(crate) fn run(is_written: bool) -> Result<(), String> {
    for agent in AGENTS {
        let directory = shell::root().join("agents").join(agent);
        let install = Program::new("npm", &["ci", "--no-audit", "--no-fund", "--silent"]);
        install.within(&directory).run()?;
    }
    hold_names(is_written)?;
    let suite = Program::cargo(&["test", "--locked", "-p", "ekiden", "--test", "conformance"]);
    suite.with("EKIDEN_NEED_AGENTS", AGENTS.join(",")).run()
}

fn hold_names(is_written: bool) -> Result<(), String> {
    let directory = shell::root().join("agents/codex");
    let out = shell::target_dir().join("codex-schema");
    shell::clear(&out)?;
    let codex = directory.join("node_modules/.bin/codex");
    let generate = ["app-server", "generate-json-schema", "--out"];
    let generate = Program::new(&codex, &generate).arg(&out);
    generate.with("CODEX_HOME", out.join("home")).output()?;
    let version = Program::new(&codex, &["--version"]).output()?;
    let read = |name: &str| -> Result<Value, String> {
        serde_json::from_str(&shell::read(&out.join(name))?)
            .map_err(|error| format!("cannot understand {name}: {error}"))
    };
    let names = names(
        version.trim(),
        &read("ClientRequest.json")?,
        &read("ServerNotification.json")?,
        &read("ServerRequest.json")?,
    )?;
    let text = format!("{names:#}\n");
    let fixture = shell::root().join(FIXTURE);
    if is_written {
        return shell::write(&fixture, &text);
    }
    compare(&shell::read(&fixture)?, &text, &fixture)
}

fn compare(kept: &str, made: &str, fixture: &Path) -> Result<(), String> {
    let differ = kept
        .lines()
        .zip(made.lines())
        .find(|(kept, made)| kept != made);
    match differ {
        None if kept == made => Ok(()),
        differ => {
            let (kept, made) = differ.unwrap_or_default();
            Err(format!(
                "{} does not fit: `{}` is now `{}`; `cargo xtask agents --write` renews it",
                fixture.display(),
                kept.trim(),
                made.trim()
            ))
        }
    }
}

fn names(
    version: &str,
    requests: &Value,
    notices: &Value,
    questions: &Value,
) -> Result<Value, String> {
    let types: Result<Map<String, Value>, String> = TYPES
        .iter()
        .map(|name| {
            let places = [requests, notices].map(|schema| &schema["definitions"][*name]);
            let found = places.into_iter().find(|found| found.is_object());
            let found = found.ok_or_else(|| format!("Codex knows no type {name} any more"))?;
            Ok(((*name).to_owned(), words_or_fields(found)))
        })
        .collect();
    Ok(json!({
        "version": version,
        "requests": methods(requests, REQUESTS)?,
        "notices": methods(notices, NOTICES)?,
        "questions": methods(questions, QUESTIONS)?,
        "types": types?,
    }))
}

/// The parameters of each method, the required ones first.
fn methods(schema: &Value, wanted: &[&str]) -> Result<Value, String> {
    let all = schema["oneOf"].as_array().map_or(&[][..], Vec::as_slice);
    let of = |method: &&str| -> Result<(String, Value), String> {
        let is_it = |one: &&Value| one["properties"]["method"]["enum"][0] == **method;
        let found = all.iter().find(is_it);
        let params = found.and_then(|one| one["properties"]["params"]["$ref"].as_str());
        let name = params.and_then(|name| name.rsplit('/').next());
        let name = name.ok_or_else(|| format!("Codex knows no method {method} any more"))?;
        let params = &schema["definitions"][name];
        let required = &params["required"];
        let required = if required.is_array() {
            required.clone()
        } else {
            json!([])
        };
        let told = json!({ "required": required, "fields": fields(params) });
        Ok(((*method).to_owned(), told))
    };
    let found: Result<Map<String, Value>, String> = wanted.iter().map(of).collect();
    found.map(Value::Object)
}

fn fields(schema: &Value) -> Value {
    let names = schema["properties"].as_object();
    names.map_or_else(|| json!([]), |names| names.keys().cloned().collect())
}

/// The values of an enumeration, otherwise the fields of a type.
fn words_or_fields(schema: &Value) -> Value {
    let variants = [&schema["oneOf"], &schema["anyOf"]].into_iter();
    let variants = variants.filter_map(Value::as_array).flatten();
    let words = variants
        .chain([schema])
        .filter_map(|one| one["enum"].as_array());
    let words: Vec<Value> = words.flatten().cloned().collect();
    match words.is_empty() {
        true => fields(schema),
        false => Value::Array(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_newer_version_calls_otherwise_is_told() {
        let path = Path::new("names.json");
        assert_eq!(compare("a\nb\n", "a\nb\n", path), Ok(()));
        let told = compare("a\n  \"b\"\n", "a\n  \"c\"\n", path).unwrap_err();
        assert!(
            told.starts_with("names.json does not fit: `\"b\"` is now `\"c\"`"),
            "{told}"
        );
        assert!(compare("a\n", "a\nb\n", path).is_err());
        let gone = methods(&json!({"oneOf": []}), &["turn/start"]);
        assert_eq!(
            gone,
            Err("Codex knows no method turn/start any more".to_owned())
        );
    }

    #[test]
    fn words_and_fields_are_found() {
        let words = json!({"oneOf": [{"enum": ["a", "b"]}, {"properties": {"c": {}}}]});
        assert_eq!(words_or_fields(&words), json!(["a", "b"]));
        let fields = json!({"properties": {"x": {}, "y": {}}});
        assert_eq!(words_or_fields(&fields), json!(["x", "y"]));
    }
}
