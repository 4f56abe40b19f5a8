//! The work tree as git sees it: what changed, what was committed, which tests check less. It leaves `.ekiden/` out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ekiden_core::event::Survey;
use ekiden_core::judge::{WeakenedTest, is_test_file, may_hold_tests, weakened_tests};
use ekiden_core::limits;
use ekiden_core::text::in_full;

use super::content::READ_BYTES_MAX;
use super::fingerprint::fingerprints;
use super::walk;
use crate::git::status::{Entry, Scope, Status};
use crate::git::{Git, GitError};
use crate::survey::{OwnOutput, Since};
use crate::workspace::Workspace;

const LOG: &str = "log --no-show-signature --oneline --no-decorate --no-color -n 40";
const DIFF_STAT: &str =
    "-c core.quotepath=off diff --stat=200,160 --no-renames --no-color --no-ext-diff --relative";
const NAMES: &str =
    "-c core.quotepath=off diff --name-status --no-renames --no-color --no-ext-diff --relative";
/// Its form does not depend on the user's settings for `diff`; each call says how much context it wants.
const DIFF: &str = "-c core.quotepath=off diff --no-color --no-ext-diff --no-textconv --relative \
                    --src-prefix=a/ --dst-prefix=b/ --find-renames";
/// Without context, and of test files also what an attribute calls binary.
const OF_TESTS: [&str; 2] = ["--unified=0", "--text"];
/// The names of the files in it.
const CHANGED_NAMES: &str = "diff --name-only -z --no-renames --no-ext-diff --relative";
/// How many changed files that may hold tests are compared by name; if there are more, all files are compared.
const TESTS_NAMED_MAX: usize = 500;
/// How many new files with tests are read, since tests that moved there are not gone.
const NEW_TESTS_MAX: usize = 100;

/// Looks at the work tree of a workspace.
pub(super) async fn survey(
    git: &Git,
    workspace: &Workspace,
    since: &Since,
) -> Result<Survey, GitError> {
    let prefix = workspace.prefix();
    let mut changed = Changed::find(git, prefix).await?;
    let (dir, own) = (&workspace.dir, OwnOutput::find());
    let entries = &mut changed.status.entries;
    entries.retain(|entry| {
        let path = from_dir(prefix, entry);
        !own.is(&dir.join(&path)) && since.issue.as_ref() != Some(&path)
    });
    // Git may ignore all that is in it.
    let is_blank = changed.tree.is_none() && changed.status.entries.is_empty();
    let walked = match is_blank {
        true => walk::survey(workspace.clone(), since).await.ok(),
        false => None,
    };
    let (tree, substance) = match walked {
        Some(seen) => (seen.tree.clone(), seen.substance().to_owned()),
        None => fingerprints(git, dir, &changed).await,
    };
    let (stashes, commits, dropped, committed, diff_stat, weakened, diff) = tokio::join!(
        stashes(git, &changed.status),
        commits(git, since, &changed),
        dropped(git, since, &changed),
        committed(git, since, &changed),
        diff_stat(git, since, &changed),
        weakened(git, dir, since, &changed),
        diff(git, dir, since, &changed),
    );
    let (weakened, tests_unread) = match weakened {
        Ok(weakened) => (weakened, None),
        Err(error) => (Vec::new(), Some(in_full(&error))),
    };
    let entries = changed.status.entries.iter().take(limits::SURVEY_LINES_MAX);
    Ok(Survey {
        status: entries
            .map(|entry| format!("{} {}", entry.code, changed.seen_from_dir(entry)))
            .collect(),
        head: changed.status.head.clone(),
        commits,
        committed,
        diff_stat: diff_stat?,
        substance: (substance != tree).then_some(substance),
        tree,
        weakened,
        dropped,
        stashes,
        tests_unread,
        items: None,
        item_files: BTreeMap::new(),
        diff,
    })
}

/// What differs from the last commit in the work dir.
pub(super) struct Changed {
    pub(super) status: Status,
    /// The work dir's tree in the last commit, if it has one.
    pub(super) tree: Option<String>,
    /// The work dir's path from the root.
    prefix: String,
}

impl Changed {
    pub(super) async fn find(git: &Git, prefix: &str) -> Result<Self, GitError> {
        let (status, tree) = tokio::join!(
            Status::read(git, Scope::Dir),
            git.line("rev-parse --verify --quiet HEAD:./", &[]),
        );
        Ok(Self {
            status: status?,
            // None without a commit, or if nothing of the work dir is in it.
            tree: tree.ok(),
            prefix: prefix.to_owned(),
        })
    }

    /// The files that are there, by their path from the work dir.
    pub(super) fn present(&self) -> Vec<String> {
        let entries = self.status.entries.iter();
        entries
            .filter(|entry| !entry.code.contains('D'))
            .map(|entry| self.seen_from_dir(entry))
            .collect()
    }

    fn new_tests(&self) -> impl Iterator<Item = String> {
        let entries = self.status.entries.iter();
        entries
            .filter(|entry| entry.is_untracked() && is_test_file(&entry.shown()))
            .take(NEW_TESTS_MAX)
            .map(|entry| self.seen_from_dir(entry))
    }

    fn seen_from_dir(&self, entry: &Entry) -> String {
        from_dir(&self.prefix, entry)
    }
}

/// An entry's path from the work dir, which has this path from the root.
fn from_dir(prefix: &str, entry: &Entry) -> String {
    let shown = entry.shown();
    let path = shown.strip_prefix(prefix).unwrap_or(&shown);
    path.trim_start_matches('/').to_owned()
}

/// A pathspec that leaves out what ekiden writes in the work dir, besides `.ekiden/`.
fn own(since: &Since) -> String {
    format!(
        ":(exclude,literal){}",
        since.issue.as_deref().unwrap_or(".ekiden")
    )
}

/// Arguments that compare commits in the work dir, without ekiden's own files.
fn of_dir<'a>(commits: &[&'a str], own: &'a str) -> Vec<&'a str> {
    [commits, &["--", ".", ":(exclude).ekiden", own]].concat()
}

pub(super) fn line(entry: &Entry) -> String {
    format!("{} {}", entry.code, entry.shown())
}

/// An earlier commit, if another is checked out now.
fn earlier<'a>(commit: &'a Option<String>, changed: &Changed) -> Option<&'a str> {
    let head = changed.status.head.as_ref()?;
    commit.as_deref().filter(|commit| head != commit)
}

// A rebase may have removed the earlier commit; then we do not know what is new.

/// What was committed since the previous survey.
async fn commits(git: &Git, since: &Since, changed: &Changed) -> Vec<String> {
    let Some(last) = earlier(&since.last, changed) else {
        return Vec::new();
    };
    let range = match last {
        "" => "HEAD".to_owned(),
        last => format!("{last}..HEAD"),
    };
    let log = git.run(LOG, &[&range]).await;
    log.map(|text| bounded(&text)).unwrap_or_default()
}

/// What an agent lost that reset or rewrote the branch, or switched to another.
async fn dropped(git: &Git, since: &Since, changed: &Changed) -> Option<u32> {
    let last = earlier(&since.last, changed)?;
    let range = format!("HEAD..{last}");
    let count = git.line("rev-list --count", &[&range]).await;
    count.ok()?.parse().ok().filter(|count| *count > 0)
}

/// The entries of the stash. All worktrees share it, so on a branch of ours only those that were made there count.
async fn stashes(git: &Git, status: &Status) -> u32 {
    let branch = status.branch.as_ref();
    let ours = branch.filter(|branch| branch.starts_with("ekiden/") && status.stashes > 0);
    let Some(branch) = ours else {
        return status.stashes;
    };
    let list = git.run("stash list --format=%gs", &[]).await;
    let (list, place) = (list.unwrap_or_default(), format!("n {branch}: "));
    list.lines()
        .map(|line| u32::from(line.contains(&place)))
        .sum()
}

async fn committed(git: &Git, since: &Since, changed: &Changed) -> Vec<String> {
    let Some(last) = earlier(&since.last, changed) else {
        return Vec::new();
    };
    let own = own(since);
    let names = git.run(NAMES, &of_dir(&[last, "HEAD"], &own)).await;
    names
        .map(|text| bounded(&text.replace('\t', " ")))
        .unwrap_or_default()
}

async fn diff_stat(git: &Git, since: &Since, changed: &Changed) -> Result<Vec<String>, GitError> {
    let own = own(since);
    if let Some(base) = earlier(&since.base, changed)
        && let Ok(text) = git.run(DIFF_STAT, &of_dir(&[base], &own)).await
    {
        return Ok(bounded(&text));
    }
    if changed.status.head.is_none() || !changed.status.has_tracked() {
        return Ok(Vec::new());
    }
    let text = git.run(DIFF_STAT, &of_dir(&["HEAD"], &own)).await;
    Ok(bounded(&text?))
}

fn bounded(text: &str) -> Vec<String> {
    let lines = text.lines().take(limits::SURVEY_LINES_MAX);
    lines.map(str::to_owned).collect()
}

/// Tests that check less than at the first commit.
async fn weakened(
    git: &Git,
    dir: &Path,
    since: &Since,
    changed: &Changed,
) -> Result<Vec<WeakenedTest>, GitError> {
    let Some(first) = &since.first else {
        return Ok(Vec::new());
    };
    let new: Vec<(String, PathBuf)> = changed
        .new_tests()
        .map(|path| (path.clone(), dir.join(path)))
        .collect();
    let is_first = since.first == changed.status.head;
    if is_first && !changed.status.has_tracked() && new.is_empty() {
        return Ok(Vec::new());
    }
    let own = own(since);
    let all = of_dir(&[first], &own);
    let names = git.run(CHANGED_NAMES, &all).await?;
    let names = names.split_terminator('\0');
    let tests = names.filter(|path| may_hold_tests(path));
    let tests: Vec<String> = tests.map(|path| format!(":(literal){path}")).collect();
    let mut diff = match tests.len() {
        0 => String::new(),
        // The difference of all files may be too large to read.
        1..=TESTS_NAMED_MAX => {
            let tests = tests.iter().map(String::as_str);
            let args = OF_TESTS.into_iter().chain([first.as_str(), "--"]);
            git.run(DIFF, &args.chain(tests).collect::<Vec<_>>())
                .await?
        }
        _ => git.run(DIFF, &[&OF_TESTS[..], &all].concat()).await?,
    };
    diff.push_str(&all_added(new).await);
    Ok(weakened_tests(&diff))
}

/// All changes since the first commit, as much as a reviewer gets: the names of the files, then the differences, new
/// files last. If git cannot tell, there are none.
async fn diff(git: &Git, dir: &Path, since: &Since, changed: &Changed) -> String {
    if !since.diff {
        return String::new();
    }
    let base = since.base.as_deref().or(changed.status.head.as_deref());
    let (mut all, mut diff) = (String::new(), String::new());
    if let Some(base) = base {
        let own = own(since);
        let paths = of_dir(&[base], &own);
        let names = git.run(NAMES, &paths).await.unwrap_or_default();
        all = names.replace('\t', " ");
        let with_context = [&["--unified=3"][..], &paths].concat();
        diff = git.beginning(DIFF, &with_context).await.unwrap_or_default();
    }
    let new = changed.status.entries.iter().filter(|it| it.is_untracked());
    let new: Vec<String> = new.map(|entry| changed.seen_from_dir(entry)).collect();
    new.iter()
        .for_each(|name| all.push_str(&format!("?? {name}\n")));
    all.push_str(&diff);
    let new = new.into_iter().take(limits::SURVEY_LINES_MAX);
    let new = new.map(|name| (name.clone(), dir.join(name)));
    all.push_str(&all_added(new.collect()).await);
    all.truncate(all.floor_char_boundary(limits::REVIEW_DIFF_BYTES_MAX));
    all
}

/// New files as a difference would show them.
async fn all_added(new: Vec<(String, PathBuf)>) -> String {
    let read = move || {
        let added = new.iter().map(|(name, path)| as_added(name, path));
        added.collect()
    };
    tokio::task::spawn_blocking(read).await.unwrap_or_default()
}

fn as_added(name: &str, path: &Path) -> String {
    let small = path
        .symlink_metadata()
        .is_ok_and(|file| file.is_file() && file.len() <= READ_BYTES_MAX);
    let text = small.then(|| std::fs::read_to_string(path).unwrap_or_default());
    let text = text.unwrap_or_default();
    let lines: String = text.lines().map(|line| format!("+{line}\n")).collect();
    let count = text.lines().count();
    format!("diff --git a/{name} b/{name}\n@@ -0,0 +1,{count} @@\n{lines}")
}
