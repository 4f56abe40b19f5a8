//! What is sent to GitHub, and what is read of its answers, against its published description. `npm ci` in `github-api/` installs that;
//! without it the test says so and is left out.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;

use ekiden_testkit::trackers::{Asked, FakeGitHub};
use ekiden_tracker::{HEADS, LivingComment, NewIssue, NewState, PullRequest, Tracker as _};
use serde_json::Value;

use crate::{AT, GITHUB, Near, github};

const DESCRIPTION: &str = "github-api/node_modules/@octokit/openapi/generated/api.github.com.json";

/// What is read of an answer, by its operation.
const READ: [(&str, &[&str]); 6] = [
    (
        "/repos/{owner}/{repo}/issues/{issue_number}",
        &[
            "id",
            "number",
            "title",
            "body",
            "state",
            "labels",
            "comments",
            "html_url",
            "parent_issue_url",
            "issue_dependencies_summary",
            "pull_request",
        ],
    ),
    (
        "/repos/{owner}/{repo}/issues/comments/{comment_id}",
        &["id", "body", "created_at", "user"],
    ),
    (
        "/repos/{owner}/{repo}",
        &["full_name", "permissions", "default_branch"],
    ),
    (
        "/repos/{owner}/{repo}/pulls/{pull_number}",
        &["number", "state", "body", "title", "head"],
    ),
    (
        "/repos/{owner}/{repo}/pulls/comments/{comment_id}",
        &["user", "path", "line", "body", "created_at"],
    ),
    ("/users/{username}", &["login", "type"]),
];

fn description() -> Option<Value> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2)?;
    let text = std::fs::read(root.join(DESCRIPTION)).ok();
    if text.is_none() {
        let why = "left out: GitHub's description (needs `npm ci` in github-api/)\n";
        assert!(
            std::env::var_os("EKIDEN_NEED_GITHUB_API").is_none(),
            "{why}"
        );
        let _ = std::io::stderr().write_all(why.as_bytes());
    }
    Some(serde_json::from_slice(&text?).unwrap())
}

/// Does everything that a tracker can, and returns what was sent.
fn everything() -> Vec<Asked> {
    let mut fake = FakeGitHub::with("me/app", &["Accounts", "Login"]);
    fake.address = GITHUB.to_owned();
    let near = Near::new(fake);
    let tracker = github(&near);
    let living = LivingComment {
        key: "7f3a",
        body: HEADS[0].to_owned(),
        since: AT,
        is_there: false,
    };
    let new = NewIssue {
        key: "sub",
        title: "Part",
        text: "what",
        parent: Some("1"),
        since: AT,
    };
    let label = "context-checkpointed";
    tracker.check().unwrap();
    tracker.issue("1").unwrap();
    tracker.comments("1").unwrap();
    tracker.find(Some(label), Some("leo")).unwrap();
    tracker.put_comment("1", &living).unwrap();
    let twice = near.0.lock().unwrap().service.issues[0].comments[0].clone();
    near.0
        .lock()
        .unwrap()
        .service
        .comment(1, "mia", &twice.body);
    tracker.put_comment("1", &living).unwrap();
    tracker.create(&new).unwrap();
    tracker.set_label("1", label, true).unwrap();
    tracker.set_label("1", label, false).unwrap();
    tracker.set_state("1", &NewState::Done).unwrap();
    let pull = PullRequest {
        key: "pull",
        branch: "feat/x",
        title: "Login",
        body: "report",
    };
    tracker.put_pull_request(&pull, &|| Ok(())).unwrap();
    tracker.put_pull_request(&pull, &|| Ok(())).unwrap();
    tracker.review("feat/x").unwrap();
    near.0.lock().unwrap().asked.clone()
}

/// The operation of a request, and its path with placeholders.
fn operation<'a>(description: &'a Value, asked: &Asked) -> Option<(&'a str, &'a Value)> {
    let path = asked.path.split('?').next()?;
    let fits = |template: &str| {
        let (known, given) = (template.split('/'), path.split('/'));
        known.clone().count() == given.clone().count()
            && known
                .zip(given)
                .all(|(known, given)| known.starts_with('{') || known == given)
    };
    let paths = description["paths"].as_object()?.iter();
    let mut found: Vec<_> = paths.filter(|(template, _)| fits(template)).collect();
    // The one with the fewest placeholders is meant.
    found.sort_by_key(|(template, _)| template.matches('{').count());
    let (template, operations) = found.first()?;
    Some((template, operations.get(asked.method.to_lowercase())?))
}

/// What is behind references.
fn resolved<'a>(description: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"]
        .as_str()
        .and_then(|name| name.strip_prefix('#'))
    {
        Some(pointer) => resolved(description, description.pointer(pointer).unwrap()),
        None => value,
    }
}

fn check(description: &Value, asked: &Asked) -> Result<(), String> {
    let place = format!("{} {}", asked.method, asked.path);
    let (_, operation) =
        operation(description, asked).ok_or(format!("{place}: no such operation"))?;
    let known = operation["parameters"].as_array().into_iter().flatten();
    let known = known.map(|parameter| resolved(description, parameter));
    let known: BTreeSet<&str> = known
        .filter_map(|parameter| parameter["name"].as_str())
        .collect();
    let query = asked.path.split_once('?').map_or("", |(_, query)| query);
    let names = query.split('&').filter_map(|pair| pair.split_once('='));
    for (name, _) in names {
        if !known.contains(name) {
            return Err(format!("{place}: no parameter {name}"));
        }
    }
    let body = &operation["requestBody"]["content"]["application/json"]["schema"];
    if asked.body.is_null() {
        return Ok(());
    }
    let fields = body["properties"].as_object();
    let unknown = asked.body.as_object().unwrap().keys();
    let unknown = unknown.filter(|name| fields.is_some_and(|fields| !fields.contains_key(*name)));
    if let Some(name) = unknown.into_iter().next() {
        return Err(format!("{place}: no field {name}"));
    }
    let validator = jsonschema::validator_for(body).map_err(|error| error.to_string())?;
    validator
        .validate(&asked.body)
        .map_err(|error| format!("{place}: {error}"))
}

// shows: TRK-08
#[test]
fn everything_that_github_is_asked_is_in_its_description() {
    let Some(description) = description() else {
        return;
    };
    let all = everything();
    assert!(all.len() > 12, "{}", all.len());
    for asked in &all {
        check(&description, asked).unwrap();
    }
    let mut renamed = all
        .iter()
        .find(|asked| asked.method == "PATCH")
        .unwrap()
        .clone();
    renamed.body = serde_json::json!({ "text": "x" });
    check(&description, &renamed).unwrap_err();
    for (path, fields) in READ {
        let answers = &description["paths"][path]["get"]["responses"]["200"]["content"];
        let schema = resolved(&description, &answers["application/json"]["schema"]);
        let parts = schema["oneOf"].as_array().or(schema["anyOf"].as_array());
        let schema = parts.map_or(schema, |parts| resolved(&description, &parts[0]));
        for field in fields {
            assert!(
                !schema["properties"][*field].is_null(),
                "{path} has no {field}"
            );
        }
    }
}
