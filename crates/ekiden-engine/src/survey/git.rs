//! The work tree as git tells it.
//!
//! What changed, what was committed, which tests say less. `.ekiden/` stays out.

use std::path::{Path, PathBuf};

use ekiden_core::event::Survey;
use ekiden_core::judge::{WeakenedTest, is_test_file, weakened_tests};
use ekiden_core::limits;

use super::content::READ_BYTES_MAX;
use super::fingerprint::fingerprints;
use crate::git::{Git, GitError};
use crate::hands::Since;

const STATUS: &[&str] = &[
    "--no-optional-locks",
    "status",
    "--porcelain=v1",
    "-z",
    "--untracked-files=all",
    "--ignore-submodules=none",
    "--",
    ".",
    ":(exclude).ekiden",
];
const DIFF_STAT: &[&str] = &["diff", "--stat", "--no-color", "--no-ext-diff", "HEAD", "--", "."];
/// New files with tests that are read, since tests that moved there are not gone.
const NEW_TESTS_MAX: usize = 100;

/// Looks at the work tree in `dir`.
///
/// # Errors
///
/// If git cannot be run or fails.
pub(super) async fn survey(git: &Git, dir: &Path, since: &Since) -> Result<Survey, GitError> {
    let files = Changed::find(git).await?;
    let (tree, substance) = fingerprints(git, dir, &files).await;
    let (commits, diff_stat, weakened) =
        tokio::join!(commits(git, since, &files), diff_stat(git, &files), weakened(git, dir, since, &files),);
    let status = files
        .entries
        .iter()
        .take(limits::SURVEY_LINES_MAX)
        .map(|(code, path)| format!("{code} {path}"))
        .collect();
    let substance = (substance != tree).then_some(substance);
    Ok(Survey { head: files.head, tree, commits, status, diff_stat: diff_stat?, substance, weakened })
}

/// The id of an object, if there is one.
async fn id(git: &Git, name: &str) -> Option<String> {
    let id = git.run(&["rev-parse", "--verify", "--quiet", name]).await;
    id.ok().map(|id| id.trim().to_owned())
}

/// What was committed since the look before.
async fn commits(git: &Git, since: &Since, files: &Changed) -> Vec<String> {
    let Some(last) = since.last.as_ref().filter(|last| files.head.as_ref().is_some_and(|head| head != *last))
    else {
        return Vec::new();
    };
    let range = format!("{last}..HEAD");
    let args = ["log", "--no-show-signature", "--oneline", "--no-decorate", "--no-color", "-n", "40", &range];
    // A rebase may have removed the old commit; then nothing can be said of what is new.
    git.run(&args).await.map(|text| bounded(&text)).unwrap_or_default()
}

async fn diff_stat(git: &Git, files: &Changed) -> Result<Vec<String>, GitError> {
    if files.head.is_none() || !files.has_tracked() {
        return Ok(Vec::new());
    }
    Ok(bounded(&git.run(DIFF_STAT).await?))
}

fn bounded(text: &str) -> Vec<String> {
    text.lines().take(limits::SURVEY_LINES_MAX).map(str::to_owned).collect()
}

/// Changed and untracked files, and from what they differ.
pub(super) struct Changed {
    /// Each with its two-letter status, by its path from the repository's root.
    pub(super) entries: Vec<(String, String)>,
    /// The work dir's tree in the commit, if it is there.
    pub(super) tree: Option<String>,
    /// The commit, if there is one.
    head: Option<String>,
    /// The way from the work dir to the root.
    to_root: String,
}

impl Changed {
    /// Asks git.
    ///
    /// # Errors
    ///
    /// If git cannot be run or fails.
    pub(super) async fn find(git: &Git) -> Result<Self, GitError> {
        let question = ["rev-parse", "--show-cdup", "HEAD", "HEAD:./"];
        let (place, status) = tokio::join!(git.run(&question), git.run(STATUS));
        let entries = entries(&status?);
        if let Ok(place) = place
            && let [to_root, head, tree] = place.lines().collect::<Vec<_>>()[..]
        {
            let (head, tree) = (Some(head.to_owned()), Some(tree.to_owned()));
            return Ok(Self { entries, tree, head, to_root: to_root.to_owned() });
        }
        // There is no commit, or nothing of the work dir is in it.
        let to_root = git.line(&["rev-parse", "--show-cdup"]).await?;
        Ok(Self { entries, tree: id(git, "HEAD:./").await, head: id(git, "HEAD").await, to_root })
    }

    /// Something differs that git knows.
    fn has_tracked(&self) -> bool {
        self.entries.iter().any(|(code, _)| code != "??")
    }

    /// Those that are there, by their path from the work dir.
    pub(super) fn present(&self) -> Vec<String> {
        self.entries
            .iter()
            .filter(|(code, _)| !code.contains('D'))
            .map(|(_, path)| format!("{}{path}", self.to_root))
            .collect()
    }

    /// New files with tests.
    fn new_tests(&self) -> impl Iterator<Item = String> {
        let new = self.entries.iter().filter(|(code, path)| code == "??" && is_test_file(path));
        new.take(NEW_TESTS_MAX).map(|(_, path)| format!("{}{path}", self.to_root))
    }
}

/// `XY path NUL`, and for renames one more `old path NUL`.
fn entries(text: &str) -> Vec<(String, String)> {
    let mut entries = Vec::new();
    let mut fields = text.split('\0');
    while let Some(field) = fields.next() {
        let Some((code, path)) = field.split_at_checked(2) else { continue };
        if code.starts_with(['R', 'C']) {
            fields.next();
        }
        entries.push((code.to_owned(), path.strip_prefix(' ').unwrap_or(path).to_owned()));
    }
    entries
}

/// Tests that say less than at a commit. Where git cannot tell, nothing is known of any.
async fn weakened(git: &Git, dir: &Path, since: &Since, files: &Changed) -> Vec<WeakenedTest> {
    let Some(first) = &since.first else { return Vec::new() };
    let is_first = since.first == files.head;
    if is_first && !files.has_tracked() && files.new_tests().next().is_none() {
        return Vec::new();
    }
    let args = [
        "-c",
        "core.quotepath=off",
        "diff",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
        "--relative",
        // Whatever the user has set for `diff`.
        "--src-prefix=a/",
        "--dst-prefix=b/",
        "--unified=0",
        "--find-renames",
        first,
        "--",
        ".",
        ":(exclude).ekiden",
    ];
    let Ok(mut diff) = git.run(&args).await else { return Vec::new() };
    let new: Vec<(String, PathBuf)> = files.new_tests().map(|path| (path.clone(), dir.join(path))).collect();
    let read = move || new.iter().map(|(name, path)| as_added(name, path)).collect::<String>();
    diff.push_str(&tokio::task::spawn_blocking(read).await.unwrap_or_default());
    weakened_tests(&diff)
}

/// A new file as a difference would tell it.
fn as_added(name: &str, path: &Path) -> String {
    let small = path.symlink_metadata().is_ok_and(|file| file.is_file() && file.len() <= READ_BYTES_MAX);
    let text = if small { std::fs::read_to_string(path).unwrap_or_default() } else { String::new() };
    let lines: String = text.lines().map(|line| format!("+{line}\n")).collect();
    format!("diff --git a/{name} b/{name}\n@@ -0,0 +1 @@\n{lines}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_with_renames_and_odd_names() {
        let text = " M src/a b.rs\0R  new.rs\0old.rs\0?? x\u{a0}y\0";
        let expected = [(" M", "src/a b.rs"), ("R ", "new.rs"), ("??", "x\u{a0}y")];
        let entries = entries(text);
        let found: Vec<(&str, &str)> = entries.iter().map(|(c, p)| (c.as_str(), p.as_str())).collect();
        assert_eq!(found, expected);
    }
}
