//! A fake GitHub: the paths of one repository's issues.

use serde_json::{Value, json};

use super::{Answered, Asked, Service};

#[derive(Debug, Clone, Default)]
pub struct FakeGitHub {
    /// `owner/name`
    pub repo: String,
    pub issues: Vec<GitHubIssue>,
    /// Entries on a page, whatever is asked for.
    pub page: usize,
    /// A token that may do nothing.
    pub refused_token: Option<String>,
    /// An old server, without sub-issues.
    pub is_old: bool,
    /// Its own address, which links to pages begin with.
    pub address: String,
    made: u64,
}

#[derive(Debug, Clone, Default)]
pub struct GitHubIssue {
    pub title: String,
    pub body: String,
    pub is_closed: bool,
    pub labels: Vec<String>,
    pub comments: Vec<GitHubComment>,
    /// Numbers.
    pub children: Vec<usize>,
}

#[derive(Debug, Clone, Default)]
pub struct GitHubComment {
    pub id: u64,
    pub body: String,
    pub author: String,
    pub at: String,
    /// How often it was written.
    pub versions: u32,
}

impl FakeGitHub {
    /// A repository with these issues: 1, 2, ...
    pub fn with(repo: &str, titles: &[&str]) -> Self {
        let issues = titles.iter().map(|title| GitHubIssue {
            title: (*title).to_owned(),
            ..GitHubIssue::default()
        });
        Self {
            repo: repo.to_owned(),
            issues: issues.collect(),
            page: 100,
            ..Self::default()
        }
    }

    /// A person says something.
    pub fn comment(&mut self, number: usize, author: &str, body: &str) {
        self.made += 1;
        self.issues[number - 1].comments.push(GitHubComment {
            id: self.made,
            body: body.to_owned(),
            author: author.to_owned(),
            at: "2026-11-24T10:00:00Z".to_owned(),
            versions: 1,
        });
    }

    fn shown(&self, number: usize) -> Value {
        let issue = &self.issues[number - 1];
        let labels: Vec<Value> = issue
            .labels
            .iter()
            .map(|name| json!({ "name": name }))
            .collect();
        json!({
            "id": 1000 + number,
            "number": number,
            "title": issue.title,
            "body": issue.body,
            "state": if issue.is_closed { "closed" } else { "open" },
            "labels": labels,
            "html_url": format!("https://github.com/{}/issues/{number}", self.repo),
            "comments": issue.comments.len(),
        })
    }

    /// A page of a list, with the link to the next one.
    fn paged(&self, path: &str, all: &[Value]) -> Answered {
        let asked = param(path, "per_page")
            .and_then(|text| text.parse().ok())
            .unwrap_or(30);
        let (size, page) = (
            self.page.min(asked),
            param(path, "page")
                .and_then(|text| text.parse().ok())
                .unwrap_or(1_usize),
        );
        let from = ((page - 1) * size).min(all.len());
        let until = (from + size).min(all.len());
        let mut answered = Answered::json(200, &json!(all[from..until]));
        if until < all.len() {
            let bare = path.split("&page=").next().unwrap_or(path);
            let link = format!("<{}{bare}&page={}>; rel=\"next\"", self.address, page + 1);
            answered.headers.push(("link".to_owned(), link));
        }
        answered
    }

    fn of_issue(&mut self, asked: &Asked, number: usize, rest: &[&str]) -> Answered {
        if number == 0 || number > self.issues.len() {
            return not_found();
        }
        match (asked.method.as_str(), rest) {
            ("GET", []) => Answered::json(200, &self.shown(number)),
            ("PATCH", []) => {
                self.issues[number - 1].is_closed = asked.body["state"] == "closed";
                Answered::json(200, &self.shown(number))
            }
            ("GET", ["comments"]) => {
                let comments = self.issues[number - 1].comments.iter();
                let comments: Vec<Value> = comments.map(shown_comment).collect();
                self.paged(&asked.path, &comments)
            }
            ("POST", ["comments"]) => {
                self.comment(
                    number,
                    "mia",
                    asked.body["body"].as_str().unwrap_or_default(),
                );
                Answered::json(201, &json!({ "id": self.made }))
            }
            ("POST", ["labels"]) => {
                let labels = asked.body["labels"].as_array().into_iter().flatten();
                for label in labels.filter_map(Value::as_str) {
                    let known = &mut self.issues[number - 1].labels;
                    known.retain(|known| known != label);
                    known.push(label.to_owned());
                }
                Answered::json(200, &json!([]))
            }
            ("DELETE", ["labels", label]) => {
                let known = &mut self.issues[number - 1].labels;
                let before = known.len();
                known.retain(|known| known != label);
                match known.len() == before {
                    true => not_found(),
                    false => Answered::json(200, &json!([])),
                }
            }
            (_, ["sub_issues"]) if self.is_old => not_found(),
            ("GET", ["sub_issues"]) => {
                let children = self.issues[number - 1].children.clone();
                let children: Vec<Value> = children
                    .into_iter()
                    .map(|child| self.shown(child))
                    .collect();
                self.paged(&asked.path, &children)
            }
            ("POST", ["sub_issues"]) => {
                let child = asked.body["sub_issue_id"].as_u64().unwrap_or_default() as usize - 1000;
                let children = &mut self.issues[number - 1].children;
                if children.contains(&child) {
                    return Answered::json(422, &json!({ "message": "it is one already" }));
                }
                children.push(child);
                Answered::json(201, &json!({}))
            }
            _ => not_found(),
        }
    }
}

impl Service for FakeGitHub {
    fn serve(&mut self, asked: &Asked) -> Answered {
        let token = asked.header("authorization").unwrap_or_default().to_owned();
        if self
            .refused_token
            .as_ref()
            .is_some_and(|refused| token == format!("Bearer {refused}"))
        {
            return Answered::json(401, &json!({ "message": "Bad credentials" }));
        }
        let path = asked.path.split('?').next().unwrap_or_default();
        let Some(rest) = path.strip_prefix(&format!("/repos/{}", self.repo)) else {
            return not_found();
        };
        let parts: Vec<&str> = rest.split('/').filter(|part| !part.is_empty()).collect();
        match (asked.method.as_str(), parts.as_slice()) {
            ("GET", []) => Answered::json(
                200,
                &json!({ "full_name": self.repo, "permissions": { "push": true } }),
            ),
            ("GET", ["issues"]) => {
                let label = param(&asked.path, "labels");
                let is_all = param(&asked.path, "state").as_deref() == Some("all");
                let wanted = |number: &usize| {
                    let issue = &self.issues[number - 1];
                    (is_all || !issue.is_closed)
                        && label
                            .as_ref()
                            .is_none_or(|label| issue.labels.contains(label))
                };
                let all: Vec<Value> = (1..=self.issues.len())
                    .filter(wanted)
                    .map(|number| self.shown(number))
                    .collect();
                self.paged(&asked.path, &all)
            }
            ("POST", ["issues"]) => {
                self.issues.push(GitHubIssue {
                    title: asked.body["title"].as_str().unwrap_or_default().to_owned(),
                    body: asked.body["body"].as_str().unwrap_or_default().to_owned(),
                    ..GitHubIssue::default()
                });
                Answered::json(201, &self.shown(self.issues.len()))
            }
            ("PATCH", ["issues", "comments", id]) => {
                let mut all = self.issues.iter_mut().flat_map(|issue| &mut issue.comments);
                let Some(comment) = all.find(|comment| comment.id.to_string() == *id) else {
                    return not_found();
                };
                comment.body = asked.body["body"].as_str().unwrap_or_default().to_owned();
                comment.versions += 1;
                Answered::json(200, &json!({}))
            }
            (_, ["issues", number, rest @ ..]) => match number.parse() {
                Ok(number) => self.of_issue(asked, number, rest),
                Err(_) => not_found(),
            },
            _ => not_found(),
        }
    }

    fn limited(&self, secs: u64) -> Answered {
        let mut answered = Answered::json(
            403,
            &json!({ "message": "You have exceeded a secondary rate limit" }),
        );
        answered
            .headers
            .push(("retry-after".to_owned(), secs.to_string()));
        answered
    }
}

fn shown_comment(comment: &GitHubComment) -> Value {
    json!({
        "id": comment.id, "body": comment.body, "created_at": comment.at, "user": { "login": comment.author },
    })
}

fn not_found() -> Answered {
    Answered::json(404, &json!({ "message": "Not Found" }))
}

fn param(path: &str, name: &str) -> Option<String> {
    let (_, query) = path.split_once('?')?;
    let found = query
        .split('&')
        .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    found.map(str::to_owned)
}
