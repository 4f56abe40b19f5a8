//! Issues as files in the project, one each, which people edit and git may track. `docs/trackers.md` shows one.
//!
//! Only the lines that must change do: everything else that a person wrote stays as it is.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ekiden_core::issue::{Child, Comment, Issue, is_file_name};
use ekiden_core::text::{in_full, one_line, slug};
use ekiden_core::time::Timestamp;
use ekiden_store::archive::ensure_dir;
use ekiden_store::beneath::{self, NotInside};
use ekiden_store::disk::{Disk, DiskError, Kind};
use ekiden_store::outbox::name_of;
use ekiden_store::replace::{create_whole, replace_in_project};

use crate::block::{START, block, line_end, with_block};
use crate::tracker::{LivingComment, NewIssue, PullRequest, Tracker};
use crate::{Fault, Markup, NewState};

/// The largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 2 * 1024 * 1024;
/// How many files are read for a list.
const FILES_MAX: usize = 2_000;
const CLOSED: [&str; 5] = ["closed", "done", "completed", "canceled", "cancelled"];
const PULL_REQUEST: &str = "<!-- ekiden:pull-request -->";

/// What to do about a file that no id names.
const NO_NAME: &str = "rename it, since up to 64 letters, digits, `-` and `_` name an issue's file";

pub struct Local {
    disk: Arc<dyn Disk>,
    project: PathBuf,
    dir: PathBuf,
}

impl Local {
    pub fn new(disk: Arc<dyn Disk>, project: &Path, dir: &Path) -> Self {
        let (project, dir) = (project.to_owned(), dir.to_owned());
        Self { disk, project, dir }
    }

    /// An issue of this name exists.
    pub fn has(&self, id: &str) -> bool {
        let found = self.disk.stat(&self.path(id));
        found.is_ok_and(|found| found.is_some_and(|found| found.kind == Kind::File))
    }

    fn path(&self, id: &str) -> PathBuf {
        self.dir.join(format!("{id}.md"))
    }

    /// Where a path leads, if it is there. A link may not lead out of the project (SEC-09).
    fn resolved(&self, path: &Path) -> Result<Option<PathBuf>, Fault> {
        let name = path.strip_prefix(&self.project).unwrap_or(path);
        match beneath::open(&self.project, name) {
            Ok(found) => Ok(Some(found.path)),
            Err(NotInside::Absent) => Ok(None),
            Err(why) => Err(Fault::refused(&format!("{} {why}", name.display()))),
        }
    }

    fn read(&self, id: &str) -> Result<File, Fault> {
        let path = self.resolved(&self.path(id))?;
        let path = path.ok_or_else(|| Fault::Missing(id.to_owned()))?;
        let bytes = self.disk.read(&path, FILE_BYTES_MAX);
        let bytes = bytes.map_err(|error| failed(&error))?;
        let text =
            String::from_utf8(bytes).map_err(|_| Fault::garbage("the file is not UTF-8 text"))?;
        Ok(File(text))
    }

    /// Replaces a changed file and keeps its permissions. A link leads elsewhere, and is left alone.
    fn write(&self, id: &str, file: &File) -> Result<(), Fault> {
        match self.has(id) {
            true => replace_in_project(&*self.disk, &self.path(id), file.0.as_bytes())
                .map_err(|error| failed(&error)),
            false => Err(Fault::refused("it is not a file")),
        }
    }

    /// The files that are left out of everything else, since nothing can name or read them, and those that say what
    /// nobody can read, each with the reason.
    pub fn unusable(&self) -> Result<Vec<(String, String)>, Fault> {
        let all = self.outlines()?;
        let unusable = self.ids()?.into_iter().filter_map(|id| {
            let why = match is_file_name(&id).then(|| self.read(&id)) {
                None => format!("is left out: {NO_NAME}"),
                Some(Ok(file)) => file.unclear(&id, &all)?,
                Some(Err(Fault::Garbage(why) | Fault::Refused(why))) => {
                    format!("is left out: {why}")
                }
                Some(Err(fault)) => format!("is left out: {fault}"),
            };
            Some((format!("{id}.md"), why))
        });
        Ok(unusable.collect())
    }

    fn ids(&self) -> Result<Vec<String>, Fault> {
        let Some(dir) = self.resolved(&self.dir)? else {
            return Ok(Vec::new());
        };
        let names = self.disk.list(&dir).map_err(|error| failed(&error))?;
        let ids = names
            .iter()
            .filter_map(|name| name.to_str()?.strip_suffix(".md"));
        let ids = ids.filter(|id| !id.starts_with('.'));
        Ok(ids.map(str::to_owned).collect())
    }

    fn outlines(&self) -> Result<Vec<(File, Issue)>, Fault> {
        let ids = self.ids()?.into_iter();
        let ids = ids.filter(|id| is_file_name(id)).take(FILES_MAX);
        // An unreadable file does not keep the others from being listed.
        Ok(ids
            .filter_map(|id| {
                let file = self.read(&id).ok()?;
                let outline = Self::outline(&id, &file);
                Some((file, outline))
            })
            .collect())
    }

    fn outline(id: &str, file: &File) -> Issue {
        let state = file.word("state").unwrap_or_else(|| "open".to_owned());
        Issue {
            name: id.to_owned(),
            title: file.value("title").unwrap_or_else(|| id.to_owned()),
            is_closed: CLOSED.contains(&state.to_ascii_lowercase().as_str()),
            state,
            labels: file.list("labels"),
            priority: file.word("priority").and_then(|value| value.parse().ok()),
            parent: file.value("parent"),
            ..Issue::default()
        }
    }
}

impl Tracker for Local {
    fn markup(&self) -> Markup {
        Markup::Html
    }

    fn issue(&self, id: &str) -> Result<Issue, Fault> {
        let (file, all) = (self.read(id)?, self.outlines()?);
        let is_blocked = file.is_blocked(&all);
        let children = all.into_iter().map(|(_, child)| child);
        let children = children.filter(|child| child.parent.as_deref() == Some(id));
        let children = children.map(|child| Child {
            name: child.name,
            title: child.title,
            is_closed: child.is_closed,
        });
        Ok(Issue {
            text: file.by_people(),
            children: children.collect(),
            is_blocked,
            ..Self::outline(id, &file)
        })
    }

    /// They are in the file, so its text contains them.
    fn comments(&self, _: &str) -> Result<Vec<Comment>, Fault> {
        Ok(Vec::new())
    }

    fn find(&self, label: Option<&str>, assignee: Option<&str>) -> Result<Vec<Issue>, Fault> {
        let is_theirs = |file: &File| {
            assignee.is_none_or(|login| file.value("assignee").as_deref() == Some(login))
        };
        let all = self.outlines()?;
        let theirs = all.iter().filter(|(file, _)| is_theirs(file));
        let theirs = theirs.map(|(file, issue)| Issue {
            is_blocked: file.is_blocked(&all),
            ..issue.clone()
        });
        let wanted = |issue: &Issue| {
            let is_it =
                |known: &String| label.is_none_or(|label| known.eq_ignore_ascii_case(label));
            !issue.is_closed && (label.is_none() || issue.labels.iter().any(is_it))
        };
        Ok(theirs.filter(wanted).collect())
    }

    fn put_comment(&self, id: &str, comment: &LivingComment<'_>) -> Result<(), Fault> {
        let mut file = self.read(id)?;
        let mark = format!("{START}{} -->", name_of(comment.key));
        file.0 = with_block(&file.0, &mark, &mark, &comment.body);
        self.write(id, &file)
    }

    fn set_label(&self, id: &str, label: &str, is_set: bool) -> Result<(), Fault> {
        let mut file = self.read(id)?;
        let mut labels = file.list("labels");
        if labels.iter().any(|known| known.eq_ignore_ascii_case(label)) == is_set {
            return Ok(());
        }
        labels.retain(|known| !known.eq_ignore_ascii_case(label));
        labels.extend(is_set.then(|| label.to_owned()));
        file.set("labels", &labels.join(", "));
        self.write(id, &file)
    }

    fn set_state(&self, id: &str, state: &NewState) -> Result<(), Fault> {
        let mut file = self.read(id)?;
        match state {
            NewState::Named(name) => file.set("state", name),
            NewState::Done => file.set("state", "done"),
        }
        self.write(id, &file)
    }

    fn create(&self, new: &NewIssue<'_>) -> Result<String, Fault> {
        let key = name_of(new.key);
        let mut all = self.outlines()?.into_iter();
        if let Some((_, made)) = all.find(|(file, _)| file.value("key").as_ref() == Some(&key)) {
            return Ok(made.name);
        }
        ensure_dir(&*self.disk, &self.dir).map_err(|error| failed(&error))?;
        let words = file_name(new.title);
        let parent = new
            .parent
            .map(|parent| format!("parent: {parent}\n"))
            .unwrap_or_default();
        let title = one_line(new.title, 200);
        let (mut id, mut number) = (words.clone(), 1);
        loop {
            let text = format!(
                "---\nid: {id}\ntitle: {title}\nstate: open\nlabels:\n{parent}key: {key}\n---\n{}\n",
                new.text.trim_end()
            );
            // Another process may take the same name at the same time.
            match create_whole(&*self.disk, &self.path(&id), text.as_bytes()) {
                Ok(()) => return Ok(id),
                Err(error) if error.is_already_there() => {
                    number += 1;
                    id = format!("{words}-{number}");
                }
                Err(error) => return Err(failed(&error)),
            }
        }
    }

    /// A rehearsal: writes a file with the body, and pushes nothing.
    fn put_pull_request(
        &self,
        pull: &PullRequest<'_>,
        _: &dyn Fn() -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let new = NewIssue {
            key: &of_branch(pull.branch),
            title: pull.title,
            text: "",
            parent: None,
            since: Timestamp::default(),
        };
        let id = self.create(&new)?;
        let mut file = self.read(&id)?;
        file.set("branch", pull.branch);
        file.0 = with_block(&file.0, PULL_REQUEST, PULL_REQUEST, pull.body);
        self.write(&id, &file)
    }

    /// What a person wrote into the file.
    fn review(&self, branch: &str) -> Result<Issue, Fault> {
        let mut all = self.outlines()?.into_iter();
        let found = all.find(|(file, _)| file.value("branch").as_deref() == Some(branch));
        let missing = || Fault::Missing(format!("a pull request of {branch}"));
        let (file, outline) = found.ok_or_else(missing)?;
        Ok(Issue {
            text: file.by_people(),
            ..outline
        })
    }

    fn check(&self) -> Result<String, Fault> {
        Ok(self.dir.display().to_string())
    }
}

fn is_named(issue: &Issue, name: &str) -> bool {
    issue.name.eq_ignore_ascii_case(name)
}

fn of_branch(branch: &str) -> String {
    format!("pull-request/{branch}")
}

fn failed(error: &DiskError) -> Fault {
    Fault::refused(&format!("cannot {}", in_full(error)))
}

fn file_name(title: &str) -> String {
    let words = slug(title);
    let words: Vec<&str> = words.split('-').take(6).collect();
    let name: String = words.join("-").chars().take(48).collect();
    match name.trim_end_matches('-') {
        "" => "issue".to_owned(),
        name => name.to_owned(),
    }
}

/// An issue's file, with its front matter.
struct File(String);

impl File {
    /// Where the lines of the front matter are, and where the rest begins; `None` without front matter.
    fn front(&self) -> Option<(usize, usize, usize)> {
        let start = self.0.find('\n')? + 1;
        // Some editors write a mark before the first line, or end each line with two characters.
        let first = self.0[..start].trim_start_matches('\u{feff}').trim_end();
        let rest = (first == "---").then_some(&self.0[start..])?;
        let end = match rest.starts_with("---") {
            true => 0,
            false => rest.find("\n---")? + 1,
        };
        let behind = rest[end..].find('\n').map_or(rest.len(), |at| end + at + 1);
        Some((start, start + end, start + behind))
    }

    fn body(&self) -> &str {
        self.front()
            .map_or(&*self.0, |(_, _, behind)| &self.0[behind..])
    }

    /// The text without the blocks that ekiden keeps up to date.
    fn by_people(&self) -> String {
        let mut text = self.body().to_owned();
        while let Some(block) = block(&text, START) {
            text.replace_range(block, "");
        }
        text.trim().to_owned()
    }

    /// Where a key and its value are, including list items on separate lines.
    fn field(&self, key: &str) -> Option<Range<usize>> {
        let (start, end, _) = self.front()?;
        let is_it = |line: &str| {
            let (name, rest) = line.split_at_checked(key.len()).unwrap_or_default();
            name.eq_ignore_ascii_case(key) && rest.starts_with(':')
        };
        let lines = || self.0[start..end].split_inclusive('\n');
        let before = lines().take_while(|line| !is_it(line));
        let at = start + before.map(str::len).sum::<usize>();
        let mut lines = lines().skip_while(|line| !is_it(line));
        let first = lines.next()?;
        let items = lines.take_while(|line| line.starts_with([' ', '\t', '-']));
        Some(at..at + first.len() + items.map(str::len).sum::<usize>())
    }

    /// A value of a single word, without a comment behind it. In a title, ` #12` may be another issue.
    fn word(&self, key: &str) -> Option<String> {
        let value = self.value(key)?;
        let word = uncommented(&value).trim();
        (!word.is_empty()).then(|| word.to_owned())
    }

    fn value(&self, key: &str) -> Option<String> {
        let line = self.0[self.field(key)?].lines().next()?;
        let (_, value) = line.split_once(':')?;
        let value = value.trim();
        let inner = ['"', '\''].into_iter().find_map(|quote| {
            let inner = value.strip_prefix(quote)?.strip_suffix(quote)?;
            // Quotes around words within it are part of it.
            (!inner.contains(quote)).then_some(inner)
        });
        let value = inner.unwrap_or(value);
        (!value.is_empty()).then(|| value.to_owned())
    }

    /// An open issue must be done before this one.
    fn is_blocked(&self, all: &[(Self, Issue)]) -> bool {
        let blockers = self.blockers();
        let blocks = |issue: &Issue| blockers.iter().any(|name| is_named(issue, name));
        all.iter()
            .any(|(_, issue)| !issue.is_closed && blocks(issue))
    }

    /// What an open issue says about its place among all that nobody can read.
    fn unclear(&self, id: &str, all: &[(Self, Issue)]) -> Option<String> {
        let is_known = |name: &String| all.iter().any(|(_, issue)| is_named(issue, name));
        if Local::outline(id, self).is_closed {
            return None;
        }
        if let Some(name) = self.blockers().iter().find(|name| !is_known(name)) {
            return Some(format!("is blocked by `{name}`, which does not exist"));
        }
        let priority = self.word("priority")?;
        let is_number = priority.parse::<u8>().is_ok();
        (!is_number).then(|| format!("has the priority `{priority}`, which is no number"))
    }

    /// The names of its blockers, which may be written as files.
    fn blockers(&self) -> Vec<String> {
        let all = self.list("blocked-by").into_iter();
        let name = |path: String| Path::new(&path).file_stem()?.to_str().map(str::to_owned);
        all.filter_map(name).collect()
    }

    fn list(&self, key: &str) -> Vec<String> {
        let field = self.field(key).map(|field| &self.0[field]);
        let (_, items) = field
            .and_then(|field| field.split_once(':'))
            .unwrap_or_default();
        let items: String = items
            .lines()
            .map(|line| format!("{}\n", uncommented(line)))
            .collect();
        let items = items.trim().trim_matches(['[', ']']).split([',', '\n']);
        let items = items.map(|item| item.trim().trim_start_matches("- "));
        let items = items.map(|item| item.trim_matches(['"', '\'']));
        items
            .filter(|item| !item.is_empty())
            .map(str::to_owned)
            .collect()
    }

    /// Changes the front matter's value of a key, or adds it.
    fn set(&mut self, key: &str, value: &str) {
        // Not cut: a person's labels are in it.
        let line = format!("{key}: {}", one_line(value, usize::MAX));
        let line = format!("{}{}", line.trim_end(), line_end(&self.0));
        match (self.field(key), self.front()) {
            (Some(field), _) => self.0.replace_range(field, &line),
            (None, Some((_, end, _))) => self.0.insert_str(end, &line),
            (None, None) => self.0 = format!("---\n{line}---\n{}", self.0),
        }
    }
}

/// What stands before a comment, as in YAML.
fn uncommented(line: &str) -> &str {
    let before = line.find(" #").or_else(|| line.find("\t#"));
    line[..before.unwrap_or(line.len())].trim_end()
}
