//! A look at the work tree through git: what a program can know, a program writes.
//!
//! Nothing is written, neither index nor objects, and no lock is taken, so a survey can run beside a
//! person who uses git. The fingerprint is a hash of the commit, the status and the content of every
//! changed file that git does not ignore; `.ekiden/` stays out.

use ekiden_core::event::Survey;
use ekiden_core::hash::sha256_hex;
use ekiden_core::limits;

use crate::git::{Git, GitError};

/// Changed files whose content is hashed; more are told apart by their names alone.
const HASHED_FILES_MAX: usize = 2000;
const STATUS: &[&str] = &[
    "--no-optional-locks",
    "status",
    "--porcelain=v1",
    "-z",
    "--untracked-files=all",
    "--",
    ".",
    ":(exclude).ekiden",
];
const DIFF_STAT: &[&str] = &["diff", "--stat", "--no-color", "--no-ext-diff", "HEAD", "--", "."];
/// Files hashed by one command, below every platform's limit of arguments.
const HASHED_AT_ONCE: usize = 200;

/// Looks at the work tree. Commits are told since `since`.
///
/// # Errors
///
/// If git cannot be run or fails; then the run goes on without a survey.
pub(crate) async fn survey(git: &Git, since: Option<&str>) -> Result<Survey, GitError> {
    let head = git.run(&["rev-parse", "--verify", "--quiet", "HEAD"]).await;
    let head = head.ok().map(|id| id.trim().to_owned());
    let entries = changed(git).await?;
    let tree = fingerprint(git, head.as_deref(), &entries).await?;
    let commits = match (since, &head) {
        (Some(since), Some(head)) if since != head => commits(git, since).await?,
        (Some(_) | None, Some(_) | None) => Vec::new(),
    };
    let diff_stat = match &head {
        Some(_) => bounded(&git.run(DIFF_STAT).await?),
        None => Vec::new(),
    };
    let status =
        entries.iter().take(limits::SURVEY_LINES_MAX).map(|(code, path)| format!("{code} {path}")).collect();
    Ok(Survey { head, tree, commits, status, diff_stat })
}

async fn commits(git: &Git, since: &str) -> Result<Vec<String>, GitError> {
    let range = format!("{since}..HEAD");
    let text = git.run(&["log", "--oneline", "--no-decorate", "--no-color", "-n", "40", &range]).await;
    // A rebase may have removed the old commit; then nothing can be said of what is new.
    Ok(text.map(|text| bounded(&text)).unwrap_or_default())
}

fn bounded(text: &str) -> Vec<String> {
    text.lines().take(limits::SURVEY_LINES_MAX).map(str::to_owned).collect()
}

/// Changed and untracked files with their two-letter status.
async fn changed(git: &Git) -> Result<Vec<(String, String)>, GitError> {
    Ok(entries(&git.run(STATUS).await?))
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

async fn fingerprint(
    git: &Git,
    head: Option<&str>,
    entries: &[(String, String)],
) -> Result<String, GitError> {
    let mut text = String::from(head.unwrap_or("no commit"));
    for (code, path) in entries {
        text.push_str(&format!("\n{code} {path}"));
    }
    // Paths from `status` are relative to the repository's root, and so must be those to hash.
    let root = git.run(&["rev-parse", "--show-cdup"]).await?;
    let present: Vec<String> = entries
        .iter()
        .filter(|(code, _)| !code.contains('D'))
        .take(HASHED_FILES_MAX)
        .map(|(_, path)| format!("{}{path}", root.trim()))
        .filter(|path| !path.ends_with('/'))
        .collect();
    for some in present.chunks(HASHED_AT_ONCE) {
        text.push_str(&hashes(git, some).await);
    }
    Ok(sha256_hex(text.as_bytes()))
}

/// The files' hashes. One that cannot be hashed, such as a link to a directory or a file that
/// vanished meanwhile, makes the whole command fail; then each is hashed by itself, and the name of
/// that one must do.
async fn hashes(git: &Git, paths: &[String]) -> String {
    if let Ok(text) = hash(git, paths).await {
        return text;
    }
    let mut text = String::new();
    for path in paths {
        text.push_str(&hash(git, std::slice::from_ref(path)).await.unwrap_or_default());
    }
    text
}

async fn hash(git: &Git, paths: &[String]) -> Result<String, GitError> {
    let mut args = vec!["hash-object", "--"];
    args.extend(paths.iter().map(String::as_str));
    git.run(&args).await
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
