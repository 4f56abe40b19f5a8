//! GitHub Issues, by its REST interface.
//!
//! GitHub takes no id of ours. So what is created ends with a marker that nobody sees, and before anything is created the marker is
//! looked for. States are open and closed only; a state by another name, and a link, are left out.

use ekiden_core::issue::{Child, Comment, Issue};
use ekiden_core::time::{Millis, Timestamp};
use serde_json::{Value, json};

use crate::tracker::{LivingComment, NewIssue, Query, Tracker};
use crate::web::{Answer, Method, Request, Web};
use crate::{Fault, Markup, NewState};

/// Pages that are read of one list: of 100 each.
const PAGES_MAX: usize = 20;
/// Looking for a marker begins this much before the write was ordered: clocks differ.
const SLACK: Millis = Millis::from_secs(24 * 60 * 60);

pub struct GitHub<W> {
    web: W,
    /// Without a slash at its end.
    url: String,
    repo: String,
    authorization: String,
}

impl<W: Web> GitHub<W> {
    pub fn new(web: W, url: &str, repo: String, token: &str) -> Self {
        Self {
            web,
            url: url.trim_end_matches('/').to_owned(),
            repo,
            authorization: format!("Bearer {token}"),
        }
    }

    fn send(
        &self,
        method: Method,
        url: String,
        body: Option<Value>,
        what: &str,
    ) -> Result<Answer, Fault> {
        let headers = [
            ("authorization", self.authorization.as_str()),
            ("accept", "application/vnd.github+json"),
            ("x-github-api-version", "2022-11-28"),
        ];
        let answer = self.web.send(&Request {
            method,
            url,
            headers: headers
                .map(|(name, value)| (name, value.to_owned()))
                .to_vec(),
            body,
        });
        let answer = answer.map_err(Fault::Unreachable)?;
        let is_spent = answer.header("x-ratelimit-remaining") == Some("0")
            || answer.header("retry-after").is_some();
        if answer.status == 429 || (answer.status == 403 && is_spent) {
            let wait = answer.wait("x-ratelimit-reset", Millis::from_secs(1));
            return Err(Fault::Limited { wait });
        }
        let said = || answer.json().ok()?["message"].as_str().map(str::to_owned);
        let said = match answer.status {
            400.. => said().unwrap_or_default(),
            _ => String::new(),
        };
        answer.check_status(what, &said)?;
        Ok(answer)
    }

    fn get(&self, path: &str, what: &str) -> Result<Answer, Fault> {
        self.send(Method::Get, self.of_repo(path), None, what)
    }

    fn of_repo(&self, path: &str) -> String {
        format!("{}/repos/{}{path}", self.url, self.repo)
    }

    fn of_issue(&self, id: &str, rest: &str) -> String {
        self.of_repo(&format!("/issues/{id}{rest}"))
    }

    /// Goes through a list page by page until `take` has what it wants.
    fn pages<T>(
        &self,
        first: String,
        what: &str,
        mut take: impl FnMut(&Value) -> Option<T>,
    ) -> Result<Option<T>, Fault> {
        let mut next = Some(first);
        for _ in 0..PAGES_MAX {
            let Some(url) = next.take() else { break };
            let answer = self.send(Method::Get, url, None, what)?;
            let page = answer.json()?;
            let page = page
                .as_array()
                .ok_or_else(|| Fault::garbage("it is no list"))?;
            if let Some(found) = page.iter().find_map(&mut take) {
                return Ok(Some(found));
            }
            // The key goes to the address in the settings and to no other.
            next = answer.header("link").and_then(next_page);
            next = next.filter(|url| url.starts_with(&format!("{}/", self.url)));
        }
        Ok(None)
    }

    /// Sub-issues, where GitHub has them: old servers do not.
    fn children(&self, id: &str) -> Result<Vec<Child>, Fault> {
        let mut all = Vec::new();
        let listed = self.pages(self.of_issue(id, "/sub_issues?per_page=100"), id, |child| {
            all.push(Child {
                name: format!("#{}", child["number"]),
                title: text(&child["title"]),
                is_closed: child["state"] == "closed",
            });
            None::<()>
        });
        match listed {
            Err(Fault::Missing(_)) => Ok(Vec::new()),
            listed => listed.map(|_| all),
        }
    }

    fn outline(&self, found: &Value) -> Issue {
        let labels = found["labels"].as_array();
        let labels = labels.into_iter().flatten();
        Issue {
            name: format!("{}#{}", self.repo, found["number"]),
            title: text(&found["title"]),
            state: text(&found["state"]),
            is_closed: found["state"] == "closed",
            labels: labels.map(|label| text(&label["name"])).collect(),
            url: text(&found["html_url"]),
            ..Issue::default()
        }
    }
}

impl<W: Web> Tracker for GitHub<W> {
    fn markup(&self) -> Markup {
        Markup::Html
    }

    fn issue(&self, id: &str) -> Result<Issue, Fault> {
        let found = self
            .get(&format!("/issues/{id}"), &format!("{}#{id}", self.repo))?
            .json()?;
        if found["number"].as_u64().is_none() {
            return Err(Fault::garbage("it has no issue"));
        }
        let parent = found["parent_issue_url"].as_str();
        Ok(Issue {
            text: text(&found["body"]),
            parent: parent.and_then(|url| Some(format!("#{}", url.rsplit('/').next()?))),
            children: self.children(id)?,
            ..self.outline(&found)
        })
    }

    fn comments(&self, id: &str) -> Result<Vec<Comment>, Fault> {
        let found = self.get(&format!("/issues/{id}"), id)?.json()?;
        let last = found["comments"]
            .as_u64()
            .unwrap_or_default()
            .div_ceil(100)
            .max(1);
        let mut all = Vec::new();
        for page in last.saturating_sub(1).max(1)..=last {
            let answer = self.get(
                &format!("/issues/{id}/comments?per_page=100&page={page}"),
                id,
            )?;
            let found = answer.json()?;
            all.extend(
                found
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(|comment| Comment {
                        author: text(&comment["user"]["login"]),
                        at: text(&comment["created_at"]),
                        text: text(&comment["body"]),
                    }),
            );
        }
        Ok(all)
    }

    fn find(&self, query: &Query) -> Result<Vec<Issue>, Fault> {
        let label = query
            .label
            .as_deref()
            .map(|label| format!("&labels={}", escaped(label)));
        let path = format!(
            "/issues?state=open&per_page=50{}",
            label.unwrap_or_default()
        );
        let found = self.get(&path, &self.repo)?.json()?;
        let found = found
            .as_array()
            .ok_or_else(|| Fault::garbage("it is no list"))?;
        // Pull requests are issues here, too.
        let issues = found.iter().filter(|found| found["pull_request"].is_null());
        Ok(issues.map(|found| self.outline(found)).collect())
    }

    fn put_comment(&self, id: &str, comment: &LivingComment<'_>) -> Result<(), Fault> {
        let marker = marker(comment.key);
        let first = self.of_issue(
            id,
            &format!("/comments?per_page=100&since={}", from(comment.since)),
        );
        let found = self.pages(first, id, |found| {
            let is_it = text(&found["body"]).contains(&marker);
            is_it.then(|| found["id"].as_u64())?
        })?;
        let body = Some(json!({ "body": format!("{}\n{marker}\n", comment.body) }));
        match found {
            Some(found) => {
                let url = self.of_repo(&format!("/issues/comments/{found}"));
                self.send(Method::Patch, url, body, "the comment").map(drop)
            }
            None => self
                .send(Method::Post, self.of_issue(id, "/comments"), body, id)
                .map(drop),
        }
    }

    fn set_label(&self, id: &str, label: &str, is_set: bool) -> Result<(), Fault> {
        if is_set {
            let body = Some(json!({ "labels": [label] }));
            return self
                .send(Method::Post, self.of_issue(id, "/labels"), body, id)
                .map(drop);
        }
        let url = self.of_issue(id, &format!("/labels/{}", escaped(label)));
        match self.send(Method::Delete, url, None, label) {
            Err(Fault::Missing(_)) => Ok(()),
            done => done.map(drop),
        }
    }

    fn set_state(&self, id: &str, state: &NewState) -> Result<(), Fault> {
        let state = match state {
            NewState::Done => "closed",
            NewState::Named(name) if name.eq_ignore_ascii_case("closed") => "closed",
            NewState::Named(name) if name.eq_ignore_ascii_case("open") => "open",
            NewState::Named(_) => return Ok(()),
        };
        let body = Some(json!({ "state": state }));
        self.send(Method::Patch, self.of_issue(id, ""), body, id)
            .map(drop)
    }

    fn link(&self, _: &str, _: &str, _: &str, _: &str) -> Result<(), Fault> {
        Ok(())
    }

    fn create(&self, new: &NewIssue<'_>) -> Result<String, Fault> {
        let marker = marker(new.key);
        let first = self.of_repo(&format!(
            "/issues?state=all&per_page=100&since={}",
            from(new.since)
        ));
        let found = self.pages(first, &self.repo, |found| {
            text(&found["body"])
                .contains(&marker)
                .then(|| found.clone())
        })?;
        let made = match found {
            Some(found) => found,
            None => {
                let body =
                    json!({ "title": new.title, "body": format!("{}\n{marker}\n", new.text) });
                let url = self.of_repo("/issues");
                self.send(Method::Post, url, Some(body), &self.repo)?
                    .json()?
            }
        };
        let number = made["number"]
            .as_u64()
            .ok_or_else(|| Fault::garbage("it has no number"))?;
        if let Some(parent) = new.parent {
            let body = Some(json!({ "sub_issue_id": made["id"] }));
            match self.send(
                Method::Post,
                self.of_issue(parent, "/sub_issues"),
                body,
                parent,
            ) {
                // It is one already, or this server has no sub-issues: the text names the parent.
                Err(Fault::Refused(_) | Fault::Missing(_)) | Ok(_) => {}
                Err(fault) => return Err(fault),
            }
        }
        Ok(number.to_string())
    }

    fn check(&self) -> Result<String, Fault> {
        let url = format!("{}/repos/{}", self.url, self.repo);
        let found = self.send(Method::Get, url, None, &self.repo)?.json()?;
        let may = &found["permissions"];
        match may["push"] == true || may["triage"] == true || may.is_null() {
            true => Ok(text(&found["full_name"])),
            false => Err(Fault::not_permitted(
                "the token may not set labels in this repository",
            )),
        }
    }
}

fn marker(key: &str) -> String {
    format!("<!-- ekiden:{} -->", ekiden_store::outbox::name_of(key))
}

/// From when on a marker is looked for.
fn from(since: Timestamp) -> String {
    (since - SLACK).rfc3339()
}

/// `<https://...&page=2>; rel="next", <...>; rel="last"`
fn next_page(link: &str) -> Option<String> {
    link.split(',').find_map(|part| {
        let (url, rel) = part.split_once(';')?;
        let url = url.trim().strip_prefix('<')?.strip_suffix('>')?;
        rel.contains("rel=\"next\"").then(|| url.to_owned())
    })
}

/// A name as a part of a path.
fn escaped(name: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    name.bytes().map(escape).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
