//! Linear, through its GraphQL API.
//!
//! Everything that is created carries an id derived from the write's key, so a second try is refused
//! because the thing exists. Errors come with status 200 too, and are recognized by their code. Each query
//! asks only for what is used: Linear counts its complexity.

use ekiden_core::hash::sha256_hex;
use ekiden_core::issue::{Child, Comment, Issue};
use ekiden_core::time::Millis;
use serde_json::{Value, json};
use uuid::{Builder, Uuid};

use crate::tracker::{LivingComment, NewIssue, Tracker};
use crate::web::{self, Web, text};
use crate::{Fault, Markup, NewState};

/// How many pages of a list are read, 50 entries each.
const PAGES_MAX: usize = 10;
/// The types of states that end an issue.
const CLOSED: [&str; 3] = ["completed", "canceled", "duplicate"];

const API: &str = "Linear's API at the address in `tracker.linear.url`";
const VIEWER: &str = "query Viewer { viewer { name } }";
const ISSUE: &str = "query Issue($id: String!) { issue(id: $id) { identifier title description url trashed priority state { name type } \
    parent { identifier } labels(first: 50) { nodes { name } } \
    children(first: 250) { nodes { identifier title state { type } } } \
    inverseRelations(first: 20) { nodes { type issue { state { type } } } } } }";
const COMMENTS: &str = "query Comments($id: String!, $after: String) { issue(id: $id) { comments(first: 50, after: $after) { \
    nodes { body createdAt user { email } } pageInfo { hasNextPage endCursor } } } }";
const FIND: &str = "query Find($filter: IssueFilter, $after: String) { issues(first: 50, filter: $filter, after: $after) { \
    nodes { identifier previousIdentifiers title url priority state { name type } labels(first: 20) { nodes { name } } \
    inverseRelations(first: 20) { nodes { type issue { state { type } } } } } pageInfo { hasNextPage endCursor } } }";
const PLACE: &str = "query Place($id: String!) { issue(id: $id) { id team { id states(first: 100) { nodes { id name type position } } } } }";
const TEAM: &str = "query Team { teams(first: 10) { nodes { id key } } }";
const LABELS: &str = "query Labels($name: String!) { issueLabels(first: 50, filter: { name: { eqIgnoreCase: $name } }) { \
    nodes { id team { id } } } }";
const MADE_ISSUE: &str = "query MadeIssue($id: String!) { issue(id: $id) { identifier trashed } }";
const COMMENT_CREATE: &str = "mutation CommentCreate($input: CommentCreateInput!) { commentCreate(input: $input) { success } }";
const COMMENT_UPDATE: &str = "mutation CommentUpdate($id: String!, $input: CommentUpdateInput!) { commentUpdate(id: $id, input: $input) { success } }";
const ISSUE_UPDATE: &str = "mutation IssueUpdate($id: String!, $input: IssueUpdateInput!) { issueUpdate(id: $id, input: $input) { success } }";
const ISSUE_CREATE: &str = "mutation IssueCreate($input: IssueCreateInput!) { issueCreate(input: $input) { success issue { identifier } } }";
const LABEL_CREATE: &str = "mutation LabelCreate($input: IssueLabelCreateInput!) { issueLabelCreate(input: $input) { success } }";
const LABEL_ADD: &str = "mutation LabelAdd($id: String!, $labelId: String!) { issueAddLabel(id: $id, labelId: $labelId) { success } }";
const LABEL_REMOVE: &str = "mutation LabelRemove($id: String!, $labelId: String!) { issueRemoveLabel(id: $id, labelId: $labelId) { success } }";
/// Everything that is sent, for the test that checks it against the published schema.
pub const DOCUMENTS: [&str; 15] = [
    VIEWER,
    ISSUE,
    COMMENTS,
    FIND,
    PLACE,
    TEAM,
    LABELS,
    MADE_ISSUE,
    COMMENT_CREATE,
    COMMENT_UPDATE,
    ISSUE_UPDATE,
    ISSUE_CREATE,
    LABEL_CREATE,
    LABEL_ADD,
    LABEL_REMOVE,
];

pub struct Linear<W> {
    web: W,
    url: String,
    authorization: String,
}

impl<W: Web> Linear<W> {
    /// A personal key is sent as it is; an OAuth token as a bearer token.
    pub fn new(web: W, url: String, key: &str) -> Self {
        let authorization = match key.starts_with("lin_oauth_") {
            true => format!("Bearer {key}"),
            false => key.to_owned(),
        };
        Self {
            web,
            url,
            authorization,
        }
    }

    /// Sends a query and returns the data. `what` names what would be missing.
    fn ask(&self, document: &str, variables: &Value, what: &str) -> Result<Value, Fault> {
        let body = json!({ "query": document, "variables": variables });
        let headers = [("authorization", self.authorization.as_str())];
        let request = web::request("POST", &self.url, &headers, Some(&body))?;
        let answer = self.web.send(request).map_err(Fault::Unreachable)?;
        // Linear limits the number of requests and also their complexity.
        let reset = match web::header(&answer, "x-ratelimit-complexity-remaining") {
            Some("0") => "x-ratelimit-complexity-reset",
            Some(_) | None => "x-ratelimit-requests-reset",
        };
        let limited = || web::limited(&answer, reset, Millis(1));
        if answer.status() == 429 {
            return Err(limited());
        }
        // A service error may have no readable body; a query error always has one, whatever the status.
        let mut body = match web::json(&answer) {
            Ok(body) => body,
            Err(garbage) => return web::check(&answer, API, "").and(Err(garbage)),
        };
        if let Some(error) = body["errors"].get(0) {
            let message = error["message"].as_str().unwrap_or_default();
            let said = error["extensions"]["userPresentableMessage"].as_str();
            let said = said.unwrap_or(message);
            return Err(match error["extensions"]["code"].as_str() {
                Some("RATELIMITED") => limited(),
                Some("AUTHENTICATION_ERROR" | "FORBIDDEN") => Fault::not_permitted(said),
                Some(code @ "INTERNAL_SERVER_ERROR") => Fault::Failing(code.to_owned()),
                _ if message.to_lowercase().contains("not found") => {
                    Fault::Missing(what.to_owned())
                }
                _ => Fault::refused(said),
            });
        }
        web::check(&answer, API, "")?;
        match body["data"].is_object() {
            true => Ok(body["data"].take()),
            false => Err(Fault::garbage("it has no data")),
        }
    }

    /// The same for a mutation: the answer must say that it succeeded.
    fn change(&self, document: &str, variables: &Value, what: &str) -> Result<Value, Fault> {
        let data = self.ask(document, variables, what)?;
        let done = data.as_object().and_then(|data| data.values().next());
        match done {
            Some(done) if done["success"] == true => Ok(done.clone()),
            Some(_) | None => Err(Fault::refused("it did not confirm the change")),
        }
    }

    /// Creates something. If Linear refuses because an earlier try arrived, checks whether `made` finds it.
    fn once(
        &self,
        create: Result<Value, Fault>,
        made: impl FnOnce() -> Result<Value, Fault>,
    ) -> Result<Value, Fault> {
        match create {
            Err(refused @ (Fault::Refused(_) | Fault::Missing(_))) => made().map_err(|_| refused),
            created => created,
        }
    }

    fn place(&self, id: &str) -> Result<Value, Fault> {
        let mut data = self.ask(PLACE, &json!({ "id": id }), id)?;
        Ok(data["issue"].take())
    }

    /// The label's id, if the team or the workspace has it.
    fn label(&self, name: &str, team: &Value) -> Result<Option<String>, Fault> {
        let data = self.ask(LABELS, &json!({ "name": name }), name)?;
        let labels = nodes(&data["issueLabels"]);
        let of_team = |label: &&Value| label["team"].is_null() || label["team"]["id"] == *team;
        let found = labels.iter().find(of_team);
        Ok(found
            .and_then(|label| label["id"].as_str())
            .map(str::to_owned))
    }
}

impl<W: Web> Tracker for Linear<W> {
    fn markup(&self) -> Markup {
        Markup::Linear
    }

    fn issue(&self, id: &str) -> Result<Issue, Fault> {
        let data = self.ask(ISSUE, &json!({ "id": id }), id)?;
        let found = &data["issue"];
        if found["identifier"].is_null() {
            return Err(Fault::garbage("it has no issue"));
        }
        // A deleted issue stays in the trash bin for a while.
        if found["trashed"] == true {
            return Err(Fault::Missing(id.to_owned()));
        }
        let child = |child: &Value| Child {
            name: text(&child["identifier"]),
            title: text(&child["title"]),
            is_closed: is_closed(&child["state"]),
        };
        Ok(Issue {
            text: text(&found["description"]),
            parent: found["parent"]["identifier"].as_str().map(str::to_owned),
            children: nodes(&found["children"]).iter().map(child).collect(),
            ..outline(found)
        })
    }

    fn comments(&self, id: &str) -> Result<Vec<Comment>, Fault> {
        let page = |after| {
            let mut data = self.ask(COMMENTS, &json!({ "id": id, "after": after }), id)?;
            Ok(data["issue"]["comments"].take())
        };
        let comment = |comment: &Value| Comment {
            author: text(&comment["user"]["email"]),
            at: text(&comment["createdAt"]),
            text: text(&comment["body"]),
        };
        let mut all: Vec<Comment> = pages(page)?.iter().map(comment).collect();
        all.sort_by(|one, other| one.at.cmp(&other.at));
        Ok(all)
    }

    fn find(&self, label: Option<&str>, assignee: Option<&str>) -> Result<Vec<Issue>, Fault> {
        let mut filter = json!({ "state": { "type": { "nin": CLOSED } } });
        if let Some(label) = label {
            filter["labels"] = json!({ "some": { "name": { "eqIgnoreCase": label } } });
        }
        if let Some(assignee) = assignee {
            filter["assignee"] = json!({ "email": { "eqIgnoreCase": assignee } });
        }
        let page = |after| {
            let variables = json!({ "filter": filter, "after": after });
            Ok(self.ask(FIND, &variables, "this list")?["issues"].take())
        };
        Ok(pages(page)?.iter().map(outline).collect())
    }

    fn put_comment(&self, id: &str, comment: &LivingComment<'_>) -> Result<(), Fault> {
        let made = uuid_of(comment.key);
        let update = || {
            let variables = json!({ "id": made, "input": { "body": comment.body } });
            self.change(COMMENT_UPDATE, &variables, "the comment")
        };
        let create = || {
            let input = json!({ "id": made, "issueId": id, "body": comment.body });
            self.change(COMMENT_CREATE, &json!({ "input": input }), id)
        };
        // A person may have deleted the earlier one.
        let done = match comment.is_there {
            true => self.once(update(), create),
            false => self.once(create(), update),
        };
        done.map(drop)
    }

    fn set_label(&self, id: &str, label: &str, is_set: bool) -> Result<(), Fault> {
        let place = self.place(id)?;
        let (issue, team) = (text(&place["id"]), &place["team"]["id"]);
        let found = self.label(label, team)?;
        let (document, label) = match (found, is_set) {
            (None, false) => return Ok(()),
            (Some(label), false) => (LABEL_REMOVE, label),
            (Some(label), true) => (LABEL_ADD, label),
            (None, true) => {
                let made = uuid_of(&format!("label {team} {label}")).to_string();
                let input = json!({ "id": made, "name": label, "teamId": team });
                self.change(LABEL_CREATE, &json!({ "input": input }), label)?;
                (LABEL_ADD, made)
            }
        };
        let variables = json!({ "id": issue, "labelId": label });
        match self.change(document, &variables, id) {
            // It is already gone from the issue.
            Err(Fault::Refused(_)) if !is_set => Ok(()),
            done => done.map(drop),
        }
    }

    fn set_state(&self, id: &str, state: &NewState) -> Result<(), Fault> {
        let place = self.place(id)?;
        let mut states = nodes(&place["team"]["states"]);
        states.sort_by_key(|state| state["position"].as_f64().unwrap_or_default() as i64);
        let is_it = |found: &&Value| match state {
            NewState::Named(name) => text(&found["name"]).eq_ignore_ascii_case(name),
            NewState::Done => found["type"] == "completed",
        };
        let Some(found) = states.iter().find(is_it) else {
            let names: Vec<String> = states.iter().map(|state| text(&state["name"])).collect();
            return Err(Fault::refused(&format!(
                "its states are {}",
                names.join(", ")
            )));
        };
        let variables = json!({ "id": place["id"], "input": { "stateId": found["id"] } });
        self.change(ISSUE_UPDATE, &variables, id).map(drop)
    }

    fn create(&self, new: &NewIssue<'_>) -> Result<String, Fault> {
        let (team, parent) = match new.parent {
            Some(parent) => {
                let place = self.place(parent)?;
                (place["team"]["id"].clone(), place["id"].clone())
            }
            None => {
                let teams = nodes(&self.ask(TEAM, &json!({}), "a team")?["teams"]);
                if teams.len() > 1 {
                    let keys: Vec<String> = teams.iter().map(|team| text(&team["key"])).collect();
                    let keys = keys.join(", ");
                    let said = format!("the key sees several teams ({keys}); name a parent issue");
                    return Err(Fault::refused(&said));
                }
                (
                    teams.first().map_or(Value::Null, |team| team["id"].clone()),
                    Value::Null,
                )
            }
        };
        let made = uuid_of(new.key);
        let input = json!({
            "id": made, "teamId": team, "parentId": parent, "title": new.title, "description": new.text,
        });
        let created = self.change(ISSUE_CREATE, &json!({ "input": input }), "the team");
        let looked = || self.ask(MADE_ISSUE, &json!({ "id": made }), "the issue");
        let made = &self.once(created, looked)?["issue"];
        let name = text(&made["identifier"]);
        match made["trashed"] == true {
            true => Err(Fault::refused(&format!("{name} is in the trash"))),
            false => Ok(name),
        }
    }

    fn check(&self) -> Result<String, Fault> {
        let data = self.ask(VIEWER, &json!({}), "the account")?;
        Ok(text(&data["viewer"]["name"]))
    }
}

/// An id in the form of version 4, since Linear accepts no other, with bits derived from the key.
fn uuid_of(key: &str) -> Uuid {
    let bits = u128::from_str_radix(&sha256_hex(key.as_bytes())[..32], 16).unwrap_or_default();
    Builder::from_random_bytes(bits.to_be_bytes()).into_uuid()
}

fn outline(found: &Value) -> Issue {
    let blocks =
        |relation: &Value| relation["type"] == "blocks" && !is_closed(&relation["issue"]["state"]);
    Issue {
        // 0 means none.
        priority: found["priority"]
            .as_f64()
            .filter(|priority| *priority >= 1.0)
            .map(|priority| priority as u8),
        is_blocked: nodes(&found["inverseRelations"]).iter().any(blocks),
        name: text(&found["identifier"]),
        former_names: found["previousIdentifiers"]
            .as_array()
            .map(|names| names.iter().map(text).collect())
            .unwrap_or_default(),
        title: text(&found["title"]),
        state: text(&found["state"]["name"]),
        is_closed: is_closed(&found["state"]),
        labels: nodes(&found["labels"])
            .iter()
            .map(|label| text(&label["name"]))
            .collect(),
        url: text(&found["url"]),
        ..Issue::default()
    }
}

fn is_closed(state: &Value) -> bool {
    CLOSED.iter().any(|closed| state["type"] == *closed)
}

fn pages(page: impl Fn(Value) -> Result<Value, Fault>) -> Result<Vec<Value>, Fault> {
    let (mut all, mut after) = (Vec::new(), Value::Null);
    for _ in 0..PAGES_MAX {
        let mut found = page(after)?;
        all.extend(nodes(&found));
        after = found["pageInfo"]["endCursor"].take();
        if found["pageInfo"]["hasNextPage"] != true {
            break;
        }
    }
    Ok(all)
}

fn nodes(connection: &Value) -> Vec<Value> {
    connection["nodes"].as_array().cloned().unwrap_or_default()
}
