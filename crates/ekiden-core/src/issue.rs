//! An issue of any tracker, and how people name one.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::guard::checkpoint::is_key;
use crate::names::names;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrackerKind {
    Linear,
    Github,
    /// Files in a directory of the project.
    Local,
}

names!(TrackerKind {
    Linear: "linear",
    Github: "github",
    Local: "local",
});

/// The permanent identity of an issue: a run's log contains it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct IssueRef {
    pub tracker: TrackerKind,
    /// The repository of a GitHub issue, `owner/name`; the directory of a file, if it differs from the project's
    /// setting.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub repo: String,
    /// `ANV-123` in Linear, `12` in GitHub, the file's name without its extension in a local tracker.
    pub id: String,
}

/// As people write it: `ANV-123`, `owner/name#12`.
impl fmt::Display for IssueRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tracker {
            TrackerKind::Github => write!(f, "{}#{}", self.repo, self.id),
            TrackerKind::Linear | TrackerKind::Local => f.write_str(&self.id),
        }
    }
}

/// The context that decides which tracker a short name means.
#[derive(Debug, Clone, Copy, Default)]
pub struct Naming<'a> {
    /// The project's tracker, if the user set one.
    pub tracker: Option<TrackerKind>,
    /// The project's repository on GitHub.
    pub repo: Option<&'a str>,
    /// Where GitHub's pages are, such as `github.com`.
    pub github_host: &'a str,
}

impl IssueRef {
    /// Reads a name or an address of an issue. The error says what is missing or should be written differently, as the
    /// continuation of "`X` names no issue: ".
    pub fn read(text: &str, naming: Naming<'_>) -> Result<Self, String> {
        let text = text.trim();
        if let Some(file) = of_path(text) {
            return Ok(file);
        }
        if let Some((_, rest)) = text.split_once("://") {
            return of_address(rest, naming.github_host).ok_or_else(|| {
                format!(
                    "it is not the address of an issue in Linear or on {}",
                    naming.github_host
                )
            });
        }
        if let Some((repo, number)) = text.split_once('#')
            && is_number(number)
            && naming.tracker != Some(TrackerKind::Local)
        {
            let repo = match repo.is_empty() {
                true => naming.repo.unwrap_or_default(),
                false => repo,
            };
            return github(repo, number);
        }
        // Linear's own names of branches have them in lower case.
        let key = text.to_ascii_uppercase();
        if naming.tracker == Some(TrackerKind::Linear) && is_key(&key) {
            return Ok(Self::plain(TrackerKind::Linear, &key));
        }
        match (naming.tracker, is_key(text)) {
            (Some(TrackerKind::Github), _) => match is_number(text) {
                true => github(naming.repo.unwrap_or_default(), text),
                false => Err("an issue on GitHub is a number such as #12".to_owned()),
            },
            (None, true) => Ok(Self::plain(TrackerKind::Linear, text)),
            (Some(TrackerKind::Linear), _) => {
                Err("an issue in Linear is a key such as ANV-123".to_owned())
            }
            (Some(TrackerKind::Local), _) | (None, false) => {
                match is_file_name(text.trim_start_matches('#')) {
                    true => Ok(Self::plain(
                        TrackerKind::Local,
                        text.trim_start_matches('#'),
                    )),
                    false => {
                        Err("up to 64 letters, digits, `-` and `_` name an issue's file".to_owned())
                    }
                }
            }
        }
    }

    pub fn plain(tracker: TrackerKind, id: &str) -> Self {
        Self {
            tracker,
            repo: String::new(),
            id: id.to_owned(),
        }
    }
}

fn github(repo: &str, number: &str) -> Result<IssueRef, String> {
    match is_repo(repo) {
        true => Ok(IssueRef {
            tracker: TrackerKind::Github,
            repo: repo.to_owned(),
            id: number.to_owned(),
        }),
        false => Err(
            "no repository is known; write owner/name#12, or set `tracker.github.repo`".to_owned(),
        ),
    }
}

/// `/home/me/app/.issues/login.md`, `.issues/login.md`, `login.md`
fn of_path(text: &str) -> Option<IssueRef> {
    let path = text.strip_suffix(".md")?;
    let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
    (!dir.contains("://") && is_file_name(name)).then(|| IssueRef {
        tracker: TrackerKind::Local,
        repo: dir.to_owned(),
        id: name.to_owned(),
    })
}

fn of_address(rest: &str, github_host: &str) -> Option<IssueRef> {
    let path = rest.split(['?', '#']).next()?;
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        ["linear.app", _, "issue", key, ..] if is_key(key) => {
            Some(IssueRef::plain(TrackerKind::Linear, key))
        }
        [host, owner, name, "issues" | "pull", number, ..]
            if *host == github_host && is_number(number) =>
        {
            github(&format!("{owner}/{name}"), number).ok()
        }
        _ => None,
    }
}

/// `owner/name`, with nothing that could lead elsewhere in a path.
pub fn is_repo(text: &str) -> bool {
    let is_part = |part: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        !part.is_empty() && !matches!(part, "." | "..") && part.chars().all(plain)
    };
    text.split_once('/')
        .is_some_and(|(owner, name)| is_part(owner) && is_part(name))
}

fn is_number(text: &str) -> bool {
    (1..=10).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// What may name an issue's file, without its extension.
pub fn is_file_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    (1..=64).contains(&text.len()) && text.chars().all(plain)
}

/// The tracker's data on an issue. All of it is foreign text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issue {
    /// Its name for people.
    pub name: String,
    /// The names that it had before it was moved, as far as its tracker gives it a new one.
    #[serde(skip)]
    pub former_names: Vec<String>,
    pub title: String,
    pub text: String,
    pub state: String,
    /// The tracker counts the state as an end.
    pub is_closed: bool,
    pub labels: Vec<String>,
    /// 1 is the most urgent.
    pub priority: Option<u8>,
    /// An open issue must be done before it.
    pub is_blocked: bool,
    pub url: String,
    pub parent: Option<String>,
    pub children: Vec<Child>,
    /// The newest, oldest first.
    pub comments: Vec<Comment>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Child {
    pub name: String,
    pub title: String,
    pub is_closed: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comment {
    /// The tracker's permanent name for an account: a login, an address.
    pub author: String,
    /// Date and time as RFC 3339.
    pub at: String,
    pub text: String,
}

/// Whether an issue is a shard, by its title: `S01 Small letters`.
pub fn is_shard(title: &str) -> bool {
    let id = title.split(' ').next().unwrap_or_default();
    let number = id.strip_prefix('S').unwrap_or_default();
    number.len() >= 2 && is_number(number)
}

impl Issue {
    /// `2 of 3 shards done`, if it has shards.
    pub fn shards_done(&self) -> Option<String> {
        let shards = self.children.iter().filter(|child| is_shard(&child.title));
        let (done, all) = (
            shards.clone().filter(|shard| shard.is_closed).count(),
            shards.count(),
        );
        (all > 0).then(|| format!("{done} of {all} shards done"))
    }

    /// State, labels and sub-issues, one line each, for people and handoffs.
    pub fn summary_lines(&self) -> Vec<String> {
        let done = self.children.iter().filter(|child| child.is_closed).count();
        let open = self.children.iter().filter(|child| !child.is_closed);
        let open: Vec<&str> = open.map(|child| child.name.as_str()).collect();
        let mut lines = vec![
            format!("{}: {}", self.name, self.title),
            format!("State: {}", self.state),
        ];
        if !self.labels.is_empty() {
            lines.push(format!("Labels: {}", self.labels.join(", ")));
        }
        if !self.children.is_empty() {
            let all = self.children.len();
            let open = match open.is_empty() {
                true => String::new(),
                false => format!("; open: {}", open.join(", ")),
            };
            lines.push(format!("Sub-issues: {done} of {all} done{open}"));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, tracker: Option<TrackerKind>) -> String {
        let naming = Naming {
            tracker,
            repo: Some("me/app"),
            github_host: "github.com",
        };
        match IssueRef::read(text, naming) {
            Ok(issue) => format!("{} {issue}", issue.tracker.name()),
            Err(why) => format!("no: {why}"),
        }
    }

    // shows: TRK-07
    #[test]
    fn an_issue_is_a_key_a_number_an_address_or_a_file() {
        let known = [
            ("ANV-123", None, "linear ANV-123"),
            (
                "https://linear.app/acme/issue/ANV-9/a-title",
                None,
                "linear ANV-9",
            ),
            ("anv-123", Some(TrackerKind::Linear), "linear ANV-123"),
            ("NODE-12", Some(TrackerKind::Linear), "linear NODE-12"),
            ("anv-123", None, "local anv-123"),
            ("#12", None, "github me/app#12"),
            ("you/lib#7", None, "github you/lib#7"),
            ("12", Some(TrackerKind::Github), "github me/app#12"),
            (
                "https://github.com/a/b/issues/3#issuecomment-1",
                None,
                "github a/b#3",
            ),
            ("ANV-123", Some(TrackerKind::Local), "local ANV-123"),
            ("#12", Some(TrackerKind::Local), "local 12"),
            ("login-form", None, "local login-form"),
            (
                "/p/.issues/login-form.md",
                Some(TrackerKind::Linear),
                "local login-form",
            ),
            (
                "./.issues/login-form.md",
                Some(TrackerKind::Github),
                "local login-form",
            ),
            ("login-form.md", None, "local login-form"),
        ];
        for (text, tracker, meant) in known {
            assert_eq!(read(text, tracker), meant, "{text}");
        }
        for text in [
            "https://evil.example/a/b/issues/3",
            "https://evil.example/a.md",
            "../x",
            "a b",
            "",
            "../..#1",
        ] {
            assert!(read(text, None).starts_with("no: "), "{text}");
        }
        assert!(read("login", Some(TrackerKind::Linear)).starts_with("no: "));
    }

    // shows: HND-003
    #[test]
    fn an_issue_is_told_with_its_labels_and_how_far_its_parts_are() {
        let child = |name: &str, is_closed| Child {
            name: name.to_owned(),
            title: String::new(),
            is_closed,
        };
        let issue = Issue {
            name: "ANV-1".to_owned(),
            title: "Login".to_owned(),
            state: "In Progress".to_owned(),
            labels: vec!["bug".to_owned()],
            children: vec![child("ANV-2", true), child("ANV-3", false)],
            ..Issue::default()
        };
        assert_eq!(
            issue.summary_lines(),
            [
                "ANV-1: Login",
                "State: In Progress",
                "Labels: bug",
                "Sub-issues: 1 of 2 done; open: ANV-3"
            ]
        );
    }
}
