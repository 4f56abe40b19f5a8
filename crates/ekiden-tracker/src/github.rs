//! GitHub Issues, through its REST API.
//!
//! GitHub accepts no ids from us. So everything we create ends with an invisible marker, and before we
//! create anything we look for that marker. The only states are open and closed; other state names are left
//! out.

use ekiden_core::issue::{Child, Comment, Issue};
use ekiden_core::time::{Millis, Timestamp};
use ekiden_store::outbox::name_of;
use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::block::{START, with_block};
use crate::tracker::{LivingComment, NewIssue, PullRequest, Tracker};
use crate::web::{self, Answer, Web, text};
use crate::words::is_living;
use crate::{Fault, Markup, NewState};

/// How many pages of a list are read, 100 entries each.
const PAGES_MAX: usize = 20;
/// How checks end that keep a pull request from being merged.
const FAILED: [&str; 6] = [
    "failure",
    "error",
    "timed_out",
    "cancelled",
    "action_required",
    "startup_failure",
];
/// How long before the order of a write the search for its marker starts: clocks differ.
const SLACK: Millis = Millis::from_secs(24 * 60 * 60);

pub struct GitHub<W> {
    web: W,
    /// Without a trailing slash.
    url: String,
    repo: String,
    /// Who owns the repository that branches are pushed to: a fork has another owner.
    pushed_to: String,
    authorization: String,
}

impl<W: Web> GitHub<W> {
    pub fn new(web: W, url: &str, repo: String, token: &str) -> Self {
        Self {
            web,
            url: url.trim_end_matches('/').to_owned(),
            pushed_to: owner(&repo),
            repo,
            authorization: format!("Bearer {token}"),
        }
    }

    /// The same, with branches in a repository that may be a fork.
    #[must_use]
    pub fn pushed_to(self, fork: &str) -> Self {
        let pushed_to = owner(fork);
        Self { pushed_to, ..self }
    }

    fn send(&self, method: &str, url: &str, body: Option<&Value>) -> Result<Answer, Fault> {
        let headers = [
            ("authorization", self.authorization.as_str()),
            ("accept", "application/vnd.github+json"),
            ("x-github-api-version", "2022-11-28"),
        ];
        let request = web::request(method, url, &headers, body)?;
        let answer = self.web.send(request).map_err(Fault::Unreachable)?;
        let said = web::json(&answer).map(|body| said(&body));
        let said = said.unwrap_or_default();
        // A secondary limit may say so in words alone.
        let is_spent = web::header(&answer, "x-ratelimit-remaining") == Some("0")
            || web::header(&answer, "retry-after").is_some()
            || said.to_lowercase().contains("rate limit");
        if answer.status() == 429 || (answer.status() == 403 && is_spent) {
            return Err(web::limited(&answer, "x-ratelimit-reset", Millis(1_000)));
        }
        let what = url.strip_prefix(&self.of_repo("")).unwrap_or(url);
        let what = format!(
            "{}{}",
            self.repo,
            what.split('?').next().unwrap_or_default()
        );
        // In a repository that was renamed, lists redirect too.
        if answer.status() == 301 && method == "GET" && what.contains("/issues/") {
            return Err(Fault::Missing(format!(
                "{what} was transferred or its repository renamed, so it"
            )));
        }
        web::check(&answer, &what, &said)?;
        Ok(answer)
    }

    fn get(&self, path: &str) -> Result<Value, Fault> {
        web::json(&self.send("GET", &self.of_repo(path), None)?)
    }

    fn change(&self, method: &str, path: &str, body: &Value) -> Result<Answer, Fault> {
        self.send(method, &self.of_repo(path), Some(body))
    }

    fn of_repo(&self, path: &str) -> String {
        format!("{}/repos/{}{path}", self.url, self.repo)
    }

    /// A list, page by page.
    fn all(&self, path: &str) -> Result<Vec<Value>, Fault> {
        self.all_at(path, "")
    }

    /// The same for a list at a place in each page, as a JSON pointer.
    fn all_at(&self, path: &str, place: &str) -> Result<Vec<Value>, Fault> {
        let (mut next, mut all) = (Some(self.of_repo(path)), Vec::new());
        let mut seen = BTreeSet::new();
        for _ in 0..PAGES_MAX {
            let Some(url) = next else { break };
            let answer = self.send("GET", &url, None)?;
            let mut page = web::json(&answer)?;
            let list = page.pointer_mut(place).map(Value::take);
            // What is opened meanwhile moves the others, so that the next page begins with one of this page.
            let new = |entry: &Value| entry["id"].is_null() || seen.insert(entry["id"].to_string());
            all.extend(listed(list.unwrap_or_default())?.into_iter().filter(new));
            // The key goes only to the address in the settings.
            next = web::header(&answer, "link").and_then(next_page);
            next = next.filter(|url| url.starts_with(&format!("{}/", self.url)));
        }
        Ok(all)
    }

    /// The pull requests of a branch, newest first, whatever their state.
    fn pulls(&self, branch: &str) -> Result<Vec<Value>, Fault> {
        let head = escaped(&self.head(branch));
        self.all(&format!("/pulls?state=all&head={head}&per_page=100"))
    }

    fn head(&self, branch: &str) -> String {
        format!("{}:{branch}", self.pushed_to)
    }

    /// What failed at a commit, one paragraph each.
    fn failures(&self, commit: &str) -> Result<String, Fault> {
        let path = format!("/commits/{commit}");
        let checks = format!("{path}/check-runs?filter=latest&per_page=100");
        let checks = self.all_at(&checks, "/check_runs")?.into_iter();
        let checks = checks.filter(|check| {
            let conclusion = text(&check["conclusion"]);
            FAILED.contains(&conclusion.as_str())
        });
        let checks = checks.map(|check| {
            let (output, name) = (&check["output"], text(&check["name"]));
            let (title, summary) = (text(&output["title"]), text(&output["summary"]));
            format!("check {name}: {title}\n{summary}\n\n")
        });
        let statuses = self.all_at(&format!("{path}/status?per_page=100"), "/statuses")?;
        let statuses = statuses.iter().filter(|status| {
            let state = text(&status["state"]);
            FAILED.contains(&state.as_str())
        });
        let statuses = statuses.map(|status| {
            let (name, said) = (text(&status["context"]), text(&status["description"]));
            format!("check {name}: {said}\n\n")
        });
        Ok(checks.chain(statuses).collect())
    }

    /// The author of our own comments, by a field of theirs. Anybody can write our marker into an older comment.
    fn us(&self) -> Result<(&'static str, Value), Fault> {
        match self.send("GET", &format!("{}/user", self.url), None) {
            Ok(answer) => Ok(("login", web::json(&answer)?["login"].take())),
            // The key of an installation is no user's, and writes as a bot.
            Err(Fault::NotPermitted(why)) if why.contains("not accessible by integration") => {
                Ok(("type", "Bot".into()))
            }
            Err(fault) => Err(fault),
        }
    }

    /// `#12`, or `owner/name#12` in another repository.
    fn name_of(&self, url: &str) -> String {
        let (place, number) = url.rsplit_once("/issues/").unwrap_or_default();
        let repo = place.rsplit_once("/repos/").map_or("", |(_, repo)| repo);
        match repo.eq_ignore_ascii_case(&self.repo) {
            true => format!("#{number}"),
            false => format!("{repo}#{number}"),
        }
    }

    fn outline(&self, found: &Value) -> Issue {
        let labels = found["labels"].as_array().into_iter().flatten();
        Issue {
            name: format!("{}#{}", self.repo, found["number"]),
            title: text(&found["title"]),
            state: text(&found["state"]),
            is_closed: found["state"] == "closed",
            labels: labels.map(|label| text(&label["name"])).collect(),
            is_blocked: found["issue_dependencies_summary"]["blocked_by"]
                .as_u64()
                .is_some_and(|open| open > 0),
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
        let found = self.get(&format!("/issues/{id}"))?;
        if found["number"].as_u64().is_none() {
            return Err(Fault::garbage("it has no issue"));
        }
        let children = match self.all(&format!("/issues/{id}/sub_issues?per_page=100")) {
            // Old servers have none.
            Err(Fault::Missing(_)) => Vec::new(),
            children => children?,
        };
        let child = |child: &Value| Child {
            name: self.name_of(&text(&child["url"])),
            title: text(&child["title"]),
            is_closed: child["state"] == "closed",
        };
        let parent = found["parent_issue_url"].as_str();
        Ok(Issue {
            text: text(&found["body"]),
            parent: parent.map(|url| self.name_of(url)),
            children: children.iter().map(child).collect(),
            ..self.outline(&found)
        })
    }

    fn comments(&self, id: &str) -> Result<Vec<Comment>, Fault> {
        let count = self.get(&format!("/issues/{id}"))?["comments"].as_u64();
        let last = count.unwrap_or_default().div_ceil(100).max(1);
        let mut all = Vec::new();
        for page in last.saturating_sub(1).max(1)..=last {
            all.extend(listed(self.get(&format!(
                "/issues/{id}/comments?per_page=100&page={page}"
            ))?)?);
        }
        let comment = |comment: &Value| Comment {
            author: text(&comment["user"]["login"]),
            at: text(&comment["created_at"]),
            text: text(&comment["body"]),
        };
        Ok(all.iter().map(comment).collect())
    }

    fn find(&self, label: Option<&str>, assignee: Option<&str>) -> Result<Vec<Issue>, Fault> {
        let mut path = "/issues?state=open&per_page=100".to_owned();
        for (name, value) in [("labels", label), ("assignee", assignee)] {
            let value = value.map(|value| format!("&{name}={}", escaped(value)));
            path.extend(value);
        }
        let found = self.all(&path)?;
        // Pull requests are also issues here.
        let issues = found.iter().filter(|found| found["pull_request"].is_null());
        Ok(issues.map(|found| self.outline(found)).collect())
    }

    fn put_comment(&self, id: &str, comment: &LivingComment<'_>) -> Result<(), Fault> {
        let (marker, path) = (marker(comment.key), format!("/issues/{id}/comments"));
        let all = self.all(&format!(
            "{path}?per_page=100&since={}",
            from(comment.since)
        ))?;
        let (field, us) = self.us()?;
        let is_ours = |found: &&Value| {
            let body = text(&found["body"]);
            found["user"][field] == us && is_living(&body) && body.contains(&marker)
        };
        let mut ours = all.iter().filter(is_ours);
        let body = json!({ "body": format!("{}\n{marker}\n", comment.body) });
        let Some(first) = ours.next() else {
            return self.change("POST", &path, &body).map(drop);
        };
        let place = |found: &Value| format!("/issues/comments/{}", found["id"]);
        self.change("PATCH", &place(first), &body)?;
        // The request of a killed sender may have arrived after the next sender had looked. Somebody who
        // quotes us writes something after the marker.
        let is_whole = |found: &&Value| {
            let body = text(&found["body"]);
            body.trim_end().lines().next_back() == Some(&*marker)
        };
        for second in ours.filter(is_whole) {
            self.send("DELETE", &self.of_repo(&place(second)), None)?;
        }
        Ok(())
    }

    fn set_label(&self, id: &str, label: &str, is_set: bool) -> Result<(), Fault> {
        let path = format!("/issues/{id}/labels");
        if is_set {
            let body = json!({ "labels": [label] });
            return self.change("POST", &path, &body).map(drop);
        }
        let url = self.of_repo(&format!("{path}/{}", escaped(label)));
        match self.send("DELETE", &url, None) {
            Err(Fault::Missing(_)) => Ok(()),
            done => done.map(drop),
        }
    }

    fn set_state(&self, id: &str, state: &NewState) -> Result<(), Fault> {
        let state = match state {
            NewState::Done => "closed".to_owned(),
            NewState::Named(name) => name.to_lowercase(),
        };
        if !matches!(state.as_str(), "open" | "closed") {
            return Ok(());
        }
        let body = json!({ "state": state });
        self.change("PATCH", &format!("/issues/{id}"), &body)
            .map(drop)
    }

    fn create(&self, new: &NewIssue<'_>) -> Result<String, Fault> {
        let marker = marker(new.key);
        let all = format!("/issues?state=all&per_page=100&since={}", from(new.since));
        let mut all = self.all(&all)?.into_iter();
        let made = match all.find(|found| text(&found["body"]).contains(&marker)) {
            Some(made) => made,
            None => {
                let text = format!("{}\n{marker}\n", new.text);
                let body = json!({ "title": new.title, "body": text });
                web::json(&self.change("POST", "/issues", &body)?)?
            }
        };
        let number = made["number"].as_u64();
        let number = number.ok_or_else(|| Fault::garbage("it has no number"))?;
        if let Some(parent) = new.parent {
            let body = json!({ "sub_issue_id": made["id"] });
            match self.change("POST", &format!("/issues/{parent}/sub_issues"), &body) {
                // It is a sub-issue already, or this server has none.
                Err(Fault::Refused(_) | Fault::Missing(_)) | Ok(_) => {}
                Err(fault) => return Err(fault),
            }
        }
        Ok(number.to_string())
    }

    fn put_pull_request(
        &self,
        pull: &PullRequest<'_>,
        push: &dyn Fn() -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let default = text(&self.get("")?["default_branch"]);
        if default.is_empty() || default == pull.branch {
            return Err(Fault::refused("this is its default branch"));
        }
        let (marker, pulls) = (marker(pull.key), self.pulls(pull.branch)?);
        let is_open = |found: &&Value| found["state"] == "open";
        let is_done = |found: &Value| text(&found["body"]).contains(&marker);
        let open = pulls.iter().find(is_open);
        if open.is_none() && pulls.iter().any(is_done) {
            // This very write opened it, and somebody has merged or closed it since.
            return Ok(());
        }
        push()?;
        let before = open.map(|open| text(&open["body"])).unwrap_or_default();
        let body = with_block(&before, START, &marker, pull.body);
        if let Some(open) = open {
            let path = format!("/pulls/{}", open["number"]);
            return self
                .change("PATCH", &path, &json!({ "body": body }))
                .map(drop);
        }
        let head = self.head(pull.branch);
        let new = json!({ "title": pull.title, "head": head, "base": default, "body": body });
        self.change("POST", "/pulls", &new).map(drop)
    }

    fn review(&self, branch: &str) -> Result<Issue, Fault> {
        let pulls = self.pulls(branch)?;
        let open = pulls.iter().find(|found| found["state"] == "open");
        let missing = || Fault::Missing(format!("an open pull request of {branch}"));
        let open = open.ok_or_else(missing)?;
        let number = &open["number"];
        let mut comments = self.comments(&number.to_string())?;
        for found in self.all(&format!("/pulls/{number}/reviews?per_page=100"))? {
            comments.push(Comment {
                author: text(&found["user"]["login"]),
                at: text(&found["submitted_at"]),
                text: text(&found["body"]),
            });
        }
        for found in self.all(&format!("/pulls/{number}/comments?per_page=100"))? {
            let (path, line) = (text(&found["path"]), &found["line"]);
            comments.push(Comment {
                author: text(&found["user"]["login"]),
                at: text(&found["created_at"]),
                text: format!("{path}:{line}: {}", text(&found["body"])),
            });
        }
        comments.retain(|comment| !comment.text.trim().is_empty());
        comments.sort_by(|one, other| one.at.cmp(&other.at));
        Ok(Issue {
            text: self.failures(&text(&open["head"]["sha"]))?,
            comments,
            ..self.outline(open)
        })
    }

    fn check(&self) -> Result<String, Fault> {
        let found = self.get("")?;
        let may = &found["permissions"];
        match may["push"] == true || may["triage"] == true || may.is_null() {
            true => Ok(text(&found["full_name"])),
            false => Err(Fault::not_permitted("the token may not set labels here")),
        }
    }
}

/// What is wrong and why: `Validation Failed: No commits between main and feat/x`.
fn said(body: &Value) -> String {
    let errors = body["errors"].as_array().into_iter().flatten();
    let reasons = errors.map(|error| match text(&error["message"]) {
        // Most errors have only a word for it.
        message if message.is_empty() => {
            format!("{} {}", text(&error["field"]), text(&error["code"]))
        }
        message => message,
    });
    let said: Vec<String> = [text(&body["message"])]
        .into_iter()
        .chain(reasons)
        .collect();
    said.join(": ")
}

fn owner(repo: &str) -> String {
    repo.split('/').next().unwrap_or_default().to_owned()
}

fn listed(found: Value) -> Result<Vec<Value>, Fault> {
    serde_json::from_value(found).map_err(|_| Fault::garbage("it is not a list"))
}

fn marker(key: &str) -> String {
    format!("{START}{} -->", name_of(key))
}

/// The time from which a marker is searched.
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

/// A name as part of a path.
fn escaped(name: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    name.bytes().map(escape).collect()
}
