//! A fake Linear: it executes the selection set that is sent, so what is not asked for is not there.

use graphql_parser::query::{self, Definition, OperationDefinition, Selection, SelectionSet};
use serde_json::{Map, Value, json};

use super::{Answered, Asked, Service};

/// The team that everything belongs to.
const TEAM: &str = "team-1";
const STATES: [(&str, &str, &str); 5] = [
    ("state-1", "Todo", "unstarted"),
    ("state-2", "In Progress", "started"),
    ("state-3", "Done", "completed"),
    ("state-4", "Canceled", "canceled"),
    ("state-5", "Duplicate", "duplicate"),
];
/// Where the whole list of a connection is, before its page is taken.
const ALL: &str = "__all";

#[derive(Debug, Clone, Default)]
pub struct FakeLinear {
    pub issues: Vec<LinearIssue>,
    /// Id and name.
    pub labels: Vec<(String, String)>,
    /// The id of a label that only groups others.
    pub label_group: Option<String>,
    /// The keys of teams to which nothing belongs.
    pub other_teams: Vec<String>,
    /// What keys may do nothing.
    pub refused_key: Option<String>,
    /// Comments are not this key's own, so they can be read but not changed.
    pub refuses_comments: bool,
}

#[derive(Debug, Clone, Default)]
pub struct LinearIssue {
    pub id: String,
    pub identifier: String,
    /// By which it is still found, since it was moved to another team.
    pub former: Vec<String>,
    pub is_trashed: bool,
    pub title: String,
    pub description: String,
    /// Its place in the team's states.
    pub state: usize,
    /// Ids.
    pub labels: Vec<String>,
    /// 1 is the most urgent, 0 none.
    pub priority: u8,
    /// Ids of issues that block it.
    pub blocked_by: Vec<String>,
    /// The id of its parent.
    pub parent: Option<String>,
    pub comments: Vec<LinearComment>,
}

#[derive(Debug, Clone, Default)]
pub struct LinearComment {
    pub id: String,
    pub body: String,
    pub author: String,
    /// `2026-11-24T10:00:00Z`
    pub at: String,
    /// How often it was written.
    pub versions: u32,
}

/// Why a field has no value: the code and the message of Linear's error.
type Refusal = (&'static str, String);

impl FakeLinear {
    /// One with these issues: `ANV-1`, `ANV-2`, ...
    pub fn with(titles: &[&str]) -> Self {
        let issues = titles.iter().zip(1..).map(|(title, number)| LinearIssue {
            id: format!("issue-{number}"),
            identifier: format!("ANV-{number}"),
            title: (*title).to_owned(),
            ..LinearIssue::default()
        });
        Self {
            issues: issues.collect(),
            ..Self::default()
        }
    }

    /// The issue by its name.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn issue(&self, identifier: &str) -> &LinearIssue {
        let found = self
            .issues
            .iter()
            .find(|issue| issue.identifier == identifier);
        found.expect("the issue exists")
    }

    /// The names of an issue's labels.
    pub fn labels_of(&self, identifier: &str) -> Vec<&str> {
        let ids = &self.issue(identifier).labels;
        let labels = self.labels.iter().filter(|(id, _)| ids.contains(id));
        labels.map(|(_, name)| name.as_str()).collect()
    }

    fn find(&self, id: &Value) -> Result<usize, Refusal> {
        let place = self.issues.iter().position(|issue| {
            let mut names = issue.former.iter().chain([&issue.id, &issue.identifier]);
            names.any(|name| id == name)
        });
        place.ok_or_else(not_found)
    }

    fn root(&mut self, field: &str, args: &Map<String, Value>) -> Result<Value, Refusal> {
        let arg = |name: &str| args.get(name).cloned().unwrap_or_default();
        let input = arg("input");
        match field {
            "viewer" => Ok(json!({ "name": "Mia" })),
            "teams" => {
                let others = self.other_teams.iter();
                let others = others.map(|key| json!({ "id": key, "key": key }));
                let own = json!({ "id": TEAM, "key": "ANV" });
                Ok(all([own].into_iter().chain(others)))
            }
            "issue" => Ok(self.shown(self.find(&arg("id"))?)),
            "issues" => Ok(all(self.listed(&arg("filter")))),
            "issueLabels" => Ok(all(self.labels_named(&arg("filter")))),
            "commentCreate" => self.comment_create(&input),
            "commentUpdate" => self.comment_update(&arg("id"), &input),
            "issueUpdate" => {
                let at = self.find(&arg("id"))?;
                let state = STATES.iter().position(|(id, ..)| input["stateId"] == *id);
                self.issues[at].state = state.ok_or_else(not_found)?;
                Ok(json!({ "success": true }))
            }
            "issueCreate" => self.issue_create(&input),
            "issueLabelCreate" => {
                self.labels.push((
                    unused(&self.labels, &input, |label| &label.0)?,
                    text(&input["name"]),
                ));
                Ok(json!({ "success": true }))
            }
            "issueAddLabel" | "issueRemoveLabel" => {
                let at = self.find(&arg("id"))?;
                let label = text(&arg("labelId"));
                if self.label_group.as_ref() == Some(&label) {
                    let why = "a label group cannot be added".to_owned();
                    return Err(("INPUT_ERROR", why));
                }
                let labels = &mut self.issues[at].labels;
                labels.retain(|known| *known != label);
                labels.extend((field == "issueAddLabel").then_some(label));
                Ok(json!({ "success": true }))
            }
            _ => Err((
                "GRAPHQL_VALIDATION_FAILED",
                format!("Cannot query field \"{field}\""),
            )),
        }
    }

    fn may_comment(&self) -> Result<(), Refusal> {
        match self.refuses_comments {
            true => Err((
                "FORBIDDEN",
                "you can only edit your own comments".to_owned(),
            )),
            false => Ok(()),
        }
    }

    fn comment_create(&mut self, input: &Value) -> Result<Value, Refusal> {
        let at = self.find(&input["issueId"])?;
        self.may_comment()?;
        let all: Vec<String> = self
            .issues
            .iter()
            .flat_map(|issue| &issue.comments)
            .map(|comment| comment.id.clone())
            .collect();
        let id = unused(&all, input, |id| id)?;
        self.issues[at].comments.push(LinearComment {
            id,
            body: text(&input["body"]),
            author: "mia@example.org".to_owned(),
            at: "2026-11-24T10:00:00Z".to_owned(),
            versions: 1,
        });
        Ok(json!({ "success": true }))
    }

    fn comment_update(&mut self, id: &Value, input: &Value) -> Result<Value, Refusal> {
        self.may_comment()?;
        let mut all = self.issues.iter_mut().flat_map(|issue| &mut issue.comments);
        let comment = all
            .find(|comment| *id == comment.id)
            .ok_or_else(not_found)?;
        comment.body = text(&input["body"]);
        comment.versions += 1;
        Ok(json!({ "success": true }))
    }

    fn issue_create(&mut self, input: &Value) -> Result<Value, Refusal> {
        let id = unused(&self.issues, input, |issue| &issue.id)?;
        let identifier = format!("ANV-{}", self.issues.len() + 1);
        self.issues.push(LinearIssue {
            id,
            identifier: identifier.clone(),
            title: text(&input["title"]),
            description: text(&input["description"]),
            parent: input["parentId"].as_str().map(str::to_owned),
            ..LinearIssue::default()
        });
        Ok(json!({ "success": true, "issue": { "identifier": identifier } }))
    }

    fn labels_named(&self, filter: &Value) -> Vec<Value> {
        let name = text(&filter["name"]["eqIgnoreCase"]);
        let labels = self
            .labels
            .iter()
            .filter(|(_, known)| known.eq_ignore_ascii_case(&name));
        labels
            .map(|(id, _)| json!({ "id": id, "team": { "id": TEAM } }))
            .collect()
    }

    fn listed(&self, filter: &Value) -> Vec<Value> {
        let label = filter["labels"]["some"]["name"]["eqIgnoreCase"].as_str();
        let without = filter["state"]["type"]["nin"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let wanted = |at: &usize| {
            let issue = &self.issues[*at];
            let has = |label: &str| {
                self.labels_of(&issue.identifier)
                    .iter()
                    .any(|known| known.eq_ignore_ascii_case(label))
            };
            !issue.is_trashed
                && label.is_none_or(has)
                && !without.contains(&json!(STATES[issue.state].2))
        };
        (0..self.issues.len())
            .filter(wanted)
            .map(|at| self.shown(at))
            .collect()
    }

    /// All of an issue that can be asked for.
    fn shown(&self, at: usize) -> Value {
        let issue = &self.issues[at];
        let short = |issue: &LinearIssue| json!({ "identifier": issue.identifier, "title": issue.title, "state": state(issue.state) });
        let parent = self
            .issues
            .iter()
            .find(|other| issue.parent.as_ref() == Some(&other.id));
        let children = self
            .issues
            .iter()
            .filter(|other| other.parent.as_ref() == Some(&issue.id) && !other.is_trashed);
        let blockers = self
            .issues
            .iter()
            .filter(|other| issue.blocked_by.contains(&other.id));
        let states = (0..STATES.len()).map(state);
        let labels = self.labels_of(&issue.identifier).into_iter();
        let comment = |comment: &LinearComment| json!({ "body": comment.body, "createdAt": comment.at, "user": { "email": comment.author } });
        json!({
            "id": issue.id,
            "identifier": issue.identifier,
            "previousIdentifiers": issue.former,
            "trashed": issue.is_trashed.then_some(true),
            "title": issue.title,
            "description": issue.description,
            "url": format!("https://linear.app/acme/issue/{}", issue.identifier),
            "priority": issue.priority,
            "inverseRelations": all(blockers.map(|other| json!({ "type": "blocks", "issue": short(other) }))),
            "state": state(issue.state),
            "team": { "id": TEAM, "states": all(states) },
            "parent": parent.map(short),
            "labels": all(labels.map(|name| json!({ "name": name }))),
            "children": all(children.map(short)),
            "comments": all(issue.comments.iter().map(comment)),
        })
    }
}

impl Service for FakeLinear {
    fn serve(&mut self, asked: &Asked) -> Answered {
        let key = asked.header("authorization").unwrap_or_default();
        if key.is_empty() || self.refused_key.as_deref() == Some(key) {
            return error(
                401,
                "AUTHENTICATION_ERROR",
                "Authentication required, not authenticated",
            );
        }
        let text = asked.body["query"].as_str().unwrap_or_default();
        let Ok(document) = graphql_parser::parse_query::<String>(text) else {
            return error(400, "GRAPHQL_PARSE_FAILED", "Syntax Error");
        };
        let (mut data, variables) = (Map::new(), &asked.body["variables"]);
        for selection in &operation(&document).items {
            let Selection::Field(field) = selection else {
                continue;
            };
            let args = args(&field.arguments, variables);
            let found = self.root(&field.name, &args);
            let found =
                found.and_then(|found| select(&found, &field.selection_set, &args, variables));
            match found {
                Ok(found) => data.insert(field.name.clone(), found),
                // Linear says so with status 200.
                Err((code, message)) => return error(200, code, &message),
            };
        }
        Answered::json(200, &json!({ "data": data }))
    }

    fn limited(&self, secs: u64) -> Answered {
        let mut answered = error(400, "RATELIMITED", "Rate limit exceeded");
        answered
            .headers
            .push(("retry-after".to_owned(), secs.to_string()));
        answered
    }
}

fn operation<'a, 'q>(document: &'a query::Document<'q, String>) -> &'a SelectionSet<'q, String> {
    let found = document
        .definitions
        .iter()
        .find_map(|definition| match definition {
            Definition::Operation(OperationDefinition::Query(query)) => Some(&query.selection_set),
            Definition::Operation(OperationDefinition::Mutation(mutation)) => {
                Some(&mutation.selection_set)
            }
            Definition::Operation(_) | Definition::Fragment(_) => None,
        });
    found.expect("a document has an operation")
}

/// What the selection asks for of a value; a field that is not there is an error, as in Linear.
fn select(
    value: &Value,
    selection: &SelectionSet<'_, String>,
    args: &Map<String, Value>,
    variables: &Value,
) -> Result<Value, Refusal> {
    if let Value::Array(items) = value {
        let items = items
            .iter()
            .map(|item| select(item, selection, args, variables));
        return items.collect::<Result<Vec<_>, _>>().map(Value::Array);
    }
    let value = &page(value, args);
    if selection.items.is_empty() || value.is_null() {
        return Ok(value.clone());
    }
    let mut selected = Map::new();
    for item in &selection.items {
        let Selection::Field(field) = item else {
            continue;
        };
        let found = value.get(&field.name);
        let found = found.ok_or_else(|| {
            (
                "GRAPHQL_VALIDATION_FAILED",
                format!("Cannot query field \"{}\"", field.name),
            )
        })?;
        let args = self::args(&field.arguments, variables);
        selected.insert(
            field.name.clone(),
            select(found, &field.selection_set, &args, variables)?,
        );
    }
    Ok(Value::Object(selected))
}

/// A page of a connection; anything else as it is.
fn page(value: &Value, args: &Map<String, Value>) -> Value {
    let Some(all) = value.get(ALL).and_then(Value::as_array) else {
        return value.clone();
    };
    let first = args.get("first").and_then(Value::as_u64).unwrap_or(50) as usize;
    let after = args
        .get("after")
        .and_then(Value::as_str)
        .and_then(|after| after.parse().ok());
    let from = after.unwrap_or(0).min(all.len());
    let until = (from + first).min(all.len());
    json!({
        "nodes": all[from..until],
        "pageInfo": { "hasNextPage": until < all.len(), "endCursor": until.to_string() },
    })
}

fn args(given: &[(String, query::Value<'_, String>)], variables: &Value) -> Map<String, Value> {
    given
        .iter()
        .map(|(name, value)| (name.clone(), valued(value, variables)))
        .collect()
}

fn valued(value: &query::Value<'_, String>, variables: &Value) -> Value {
    match value {
        query::Value::Variable(name) => variables[name].clone(),
        query::Value::Int(number) => json!(number.as_i64()),
        query::Value::String(text) => json!(text),
        query::Value::Boolean(is) => json!(is),
        query::Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), valued(value, variables)))
            .collect(),
        query::Value::List(items) => items.iter().map(|item| valued(item, variables)).collect(),
        query::Value::Enum(_) | query::Value::Float(_) | query::Value::Null => Value::Null,
    }
}

/// The id that the client gave, if it is of the right form and nobody has it.
fn unused<T>(known: &[T], input: &Value, id_of: impl Fn(&T) -> &String) -> Result<String, Refusal> {
    let id = text(&input["id"]);
    let is_v4 = id.len() == 36
        && id.as_bytes()[14] == b'4'
        && matches!(id.as_bytes()[19], b'8' | b'9' | b'a' | b'b');
    match (is_v4, known.iter().any(|known| *id_of(known) == id)) {
        (false, _) => Err(("INVALID_INPUT", "id must be a UUID".to_owned())),
        (true, true) => Err(("INPUT_ERROR", "conflict on insert".to_owned())),
        (true, false) => Ok(id),
    }
}

fn state(at: usize) -> Value {
    let (id, name, kind) = STATES[at];
    json!({ "id": id, "name": name, "type": kind, "position": at })
}

fn all(nodes: impl IntoIterator<Item = Value>) -> Value {
    let nodes: Vec<Value> = nodes.into_iter().collect();
    json!({ ALL: nodes })
}

fn not_found() -> Refusal {
    ("INPUT_ERROR", "Entity not found".to_owned())
}

fn error(status: u16, code: &str, message: &str) -> Answered {
    let shown = match message {
        "Entity not found" => "Could not find referenced Issue.",
        message => message,
    };
    let error = json!({ "message": message, "extensions": { "code": code, "userPresentableMessage": shown } });
    Answered::json(status, &json!({ "errors": [error] }))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
