//! A fake GitHub: the paths of one repository's issues.

use serde_json::{Value, json};

use super::{Answered, Asked, Service};

const BODY_CHARS_MAX: usize = 65_536;

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
    /// The key is an installation's, which is no user's: `mia` is a bot.
    pub is_installation: bool,
    /// Nothing was committed on any branch.
    pub is_without_commits: bool,
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
    /// How many open issues block it.
    pub blocked_by: usize,
    /// It is a pull request.
    pub pull: Option<GitHubPull>,
}

#[derive(Debug, Clone, Default)]
pub struct GitHubPull {
    pub branch: String,
    pub base: String,
    /// Checks: name, conclusion, summary.
    pub checks: Vec<(String, String, String)>,
    /// Comments at lines: author, path, text.
    pub remarks: Vec<(String, String, String)>,
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
            "url": format!("https://api.github.com/repos/{}/issues/{number}", self.repo),
            "html_url": format!("https://github.com/{}/issues/{number}", self.repo),
            "comments": issue.comments.len(),
            "issue_dependencies_summary": { "blocked_by": issue.blocked_by },
            "parent_issue_url": self.parent_of(number),
            "pull_request": issue.pull.as_ref().map(|_| json!({})),
        })
    }

    fn parent_of(&self, number: usize) -> Option<String> {
        let mut parents = (1..).zip(&self.issues);
        let (parent, _) = parents.find(|(_, issue)| issue.children.contains(&number))?;
        Some(format!(
            "{}/repos/{}/issues/{parent}",
            self.address, self.repo
        ))
    }

    fn shown_pull(&self, number: usize) -> Value {
        let mut shown = self.shown(number);
        let pull = self.issues[number - 1].pull.clone().unwrap_or_default();
        shown["head"] = json!({ "ref": pull.branch, "sha": format!("sha{number}") });
        shown["base"] = json!({ "ref": pull.base });
        shown
    }

    /// The numbers of a branch's pull requests, newest first.
    fn pulls(&self, branch: &str) -> Vec<usize> {
        let is_it = |number: &usize| {
            let pull = self.issues[number - 1].pull.as_ref();
            pull.is_some_and(|pull| pull.branch == branch)
        };
        (1..=self.issues.len()).rev().filter(is_it).collect()
    }

    fn of_pulls(&mut self, asked: &Asked, rest: &[&str]) -> Answered {
        let said = |name: &str| asked.body[name].as_str().unwrap_or_default().to_owned();
        if let ("GET", []) = (asked.method.as_str(), rest) {
            let head = param(&asked.path, "head").unwrap_or_default();
            let head = head.replace("%3A", ":").replace("%2F", "/");
            let branch = head.split_once(':').map_or("", |(_, branch)| branch);
            let pulls = self.pulls(branch).into_iter();
            let pulls: Vec<Value> = pulls.map(|number| self.shown_pull(number)).collect();
            return self.paged(&asked.path, &pulls);
        }
        if let ("POST", []) = (asked.method.as_str(), rest) {
            let head = said("head");
            let head = head.rsplit(':').next().unwrap_or_default().to_owned();
            let mut known = self.pulls(&head).into_iter();
            if known.any(|number| !self.issues[number - 1].is_closed) {
                return invalid("A pull request already exists");
            }
            if self.is_without_commits {
                return invalid(&format!("No commits between main and {head}"));
            }
            self.issues.push(GitHubIssue {
                title: said("title"),
                body: said("body"),
                pull: Some(GitHubPull {
                    branch: head,
                    base: said("base"),
                    ..GitHubPull::default()
                }),
                ..GitHubIssue::default()
            });
            return Answered::json(201, &self.shown_pull(self.issues.len()));
        }
        let number = rest.first().and_then(|number| number.parse::<usize>().ok());
        let Some(number) = number.filter(|number| (1..=self.issues.len()).contains(number)) else {
            return not_found();
        };
        match (asked.method.as_str(), &rest[1..]) {
            ("PATCH", []) => {
                self.issues[number - 1].body = said("body");
                Answered::json(200, &self.shown_pull(number))
            }
            ("GET", ["comments"]) => {
                let pull = self.issues[number - 1].pull.clone().unwrap_or_default();
                let remark = |(author, path, text): &(String, String, String)| {
                    json!({
                        "user": { "login": author }, "path": path, "line": 7, "body": text,
                        "created_at": "2026-11-24T11:00:00Z",
                    })
                };
                let remarks: Vec<Value> = pull.remarks.iter().map(remark).collect();
                self.paged(&asked.path, &remarks)
            }
            ("GET", ["reviews"]) => self.paged(&asked.path, &[]),
            _ => not_found(),
        }
    }

    fn of_commit(&self, path: &str, sha: &str, rest: &[&str]) -> Answered {
        let number = sha
            .strip_prefix("sha")
            .and_then(|number| number.parse::<usize>().ok());
        let pull = number.and_then(|number| self.issues.get(number - 1)?.pull.as_ref());
        let Some(pull) = pull else { return not_found() };
        match rest {
            ["check-runs"] => {
                let check = |(name, conclusion, summary): &(String, String, String)| json!({ "name": name, "conclusion": conclusion, "output": { "title": null, "summary": summary } });
                let checks: Vec<Value> = pull.checks.iter().map(check).collect();
                let mut answered = self.paged(path, &checks);
                let page: Value = serde_json::from_slice(&answered.body).unwrap_or_default();
                let page = json!({ "total_count": checks.len(), "check_runs": page });
                answered.body = page.to_string().into_bytes();
                answered
            }
            ["status"] => Answered::json(200, &json!({ "state": "success", "statuses": [] })),
            _ => not_found(),
        }
    }

    fn new_issue(&mut self, asked: &Asked) -> Answered {
        let said = |name: &str| asked.body[name].as_str().unwrap_or_default().to_owned();
        let (title, body) = (said("title"), said("body"));
        if body.chars().count() > BODY_CHARS_MAX {
            return invalid("body is too long (maximum is 65536 characters)");
        }
        self.issues.push(GitHubIssue {
            title,
            body,
            ..GitHubIssue::default()
        });
        Answered::json(201, &self.shown(self.issues.len()))
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
                let is_bot = |author: &str| self.is_installation && author == "mia";
                let comments =
                    comments.map(|comment| shown_comment(comment, is_bot(&comment.author)));
                let comments: Vec<Value> = comments.collect();
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
                    return invalid("it is one already");
                }
                children.push(child);
                Answered::json(201, &json!({}))
            }
            _ => not_found(),
        }
    }
}

impl Service for FakeGitHub {
    /// Each list and issue has a tag; who names it hears only that nothing has changed.
    fn serve(&mut self, asked: &Asked) -> Answered {
        let mut answered = self.answer(asked);
        if asked.method == "GET" && answered.status == 200 {
            let tag = format!("\"{:016x}\"", fnv(&answered.body));
            if asked.header("if-none-match") == Some(&tag) {
                answered.status = 304;
                answered.body.clear();
            }
            answered.headers.push(("etag".to_owned(), tag));
        }
        answered
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

/// FNV-1a.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl FakeGitHub {
    fn user(&self) -> Answered {
        let refused = json!({ "message": "Resource not accessible by integration" });
        match self.is_installation {
            true => Answered::json(403, &refused),
            false => Answered::json(200, &json!({ "login": "mia" })),
        }
    }

    fn answer(&mut self, asked: &Asked) -> Answered {
        let token = asked.header("authorization").unwrap_or_default().to_owned();
        if self
            .refused_token
            .as_ref()
            .is_some_and(|refused| token == format!("Bearer {refused}"))
        {
            return Answered::json(401, &json!({ "message": "Bad credentials" }));
        }
        let path = asked.path.split('?').next().unwrap_or_default();
        if path == "/user" {
            return self.user();
        }
        let Some(rest) = path.strip_prefix(&format!("/repos/{}", self.repo)) else {
            return not_found();
        };
        let parts: Vec<&str> = rest.split('/').filter(|part| !part.is_empty()).collect();
        match (asked.method.as_str(), parts.as_slice()) {
            ("GET", []) => Answered::json(
                200,
                &json!({ "full_name": self.repo, "default_branch": "main", "permissions": { "push": true } }),
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
            (_, ["pulls", rest @ ..]) => self.of_pulls(asked, rest),
            ("GET", ["commits", sha, rest @ ..]) => self.of_commit(&asked.path, sha, rest),
            ("POST", ["issues"]) => self.new_issue(asked),
            ("PATCH", ["issues", "comments", id]) => {
                let mut all = self.issues.iter_mut().flat_map(|issue| &mut issue.comments);
                let Some(comment) = all.find(|comment| comment.id.to_string() == *id) else {
                    return not_found();
                };
                comment.body = asked.body["body"].as_str().unwrap_or_default().to_owned();
                comment.versions += 1;
                Answered::json(200, &json!({}))
            }
            ("DELETE", ["issues", "comments", id]) => {
                for issue in &mut self.issues {
                    issue
                        .comments
                        .retain(|comment| comment.id.to_string() != *id);
                }
                Answered::json(204, &json!({}))
            }
            (_, ["issues", number, rest @ ..]) => match number.parse() {
                Ok(number) => self.of_issue(asked, number, rest),
                Err(_) => not_found(),
            },
            _ => not_found(),
        }
    }
}

fn shown_comment(comment: &GitHubComment, is_bot: bool) -> Value {
    let kind = if is_bot { "Bot" } else { "User" };
    json!({
        "id": comment.id, "body": comment.body, "created_at": comment.at,
        "user": { "login": comment.author, "type": kind },
    })
}

fn invalid(why: &str) -> Answered {
    let errors = json!([{ "resource": "Issue", "code": "custom", "message": why }]);
    let body = json!({ "message": "Validation Failed", "errors": errors });
    Answered::json(422, &body)
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
