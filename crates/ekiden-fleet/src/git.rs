//! Git commands of a worker: each under a keeper, and with a time limit.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ekiden_agent::child::{ChildEnd, ChildSpec};
use ekiden_agent::{keeper, task};
use ekiden_core::text::one_line;

use crate::fault::Fault;

const TIMEOUT: Duration = Duration::from_secs(600);
/// The longest output of a command: far more than the log of a stage, or a plan with 10,000 of them.
const BYTES_MAX: usize = 256 * 1024 * 1024;
/// The most repositories that a work tree may leave out.
const NESTED_MAX: usize = 100;
/// The longest quote of git's output in a message.
const SAID_CHARS: usize = 400;

#[derive(Debug, Clone)]
pub(crate) struct Git {
    dir: PathBuf,
    env: Vec<(OsString, OsString)>,
}

/// The result of a command that may fail.
pub(crate) struct Ended {
    pub(crate) ok: bool,
    pub(crate) stdout: String,
    pub(crate) said: String,
}

impl Git {
    pub(crate) fn at(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            // We read its messages, so they must be in English.
            env: vec![
                ("GIT_TERMINAL_PROMPT".into(), "0".into()),
                ("LC_ALL".into(), "C".into()),
            ],
        }
    }

    /// The same with a separate index, for files below another directory.
    pub(crate) fn indexing(&self, index: &Path, tree: &Path) -> Self {
        Self::of(&self.dir.join(".git"), index, tree)
    }

    pub(crate) fn of(git_dir: &Path, index: &Path, tree: &Path) -> Self {
        let mut git = Self::at(tree);
        git.env.push(("GIT_INDEX_FILE".into(), index.into()));
        git.env.push(("GIT_DIR".into(), git_dir.into()));
        git.env.push(("GIT_WORK_TREE".into(), tree.into()));
        git
    }

    /// Runs a command whose failure is an answer.
    pub(crate) async fn ended(&self, args: &[&str], input: &[u8]) -> Result<Ended, Fault> {
        let keeper = keeper::executable().map_err(Fault::io("find this program"))?;
        let quiet = ["-c", "gc.auto=0", "-c", "maintenance.auto=false"];
        let spec = ChildSpec {
            args: quiet.iter().chain(args).map(OsString::from).collect(),
            env_set: self.env.clone(),
            ..ChildSpec::new(keeper, "git", &self.dir)
        };
        let output = task::run_output(spec, input, tokio::time::sleep(TIMEOUT), BYTES_MAX).await?;
        let fault = match (output.cut, output.timed_out) {
            (true, _) => Some(format!("it said more than {BYTES_MAX} bytes")),
            (_, true) => Some(format!("it did not end within {} s", TIMEOUT.as_secs())),
            (false, false) => None,
        };
        if let Some(said) = fault {
            let command = args.join(" ");
            return Err(Fault::Git { command, said });
        }
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        Ok(Ended {
            ok: output.end == ChildEnd::Exited(0),
            stdout: text(&output.stdout),
            said: text(&output.stderr),
        })
    }

    /// Runs a command and returns its output, trimmed.
    pub(crate) async fn line(&self, args: &[&str]) -> Result<String, Fault> {
        self.fed(args, b"").await
    }

    pub(crate) async fn fed(&self, args: &[&str], input: &[u8]) -> Result<String, Fault> {
        let ended = self.ended(args, input).await?;
        match ended.ok {
            true => Ok(ended.stdout.trim().to_owned()),
            false => Err(failed(args, &ended)),
        }
    }

    /// Fetches into refs of the user's repository, whose `FETCH_HEAD` stays as it is.
    pub(crate) async fn fetch(&self, remote: &str, specs: &[&str]) -> Result<(), Fault> {
        let fetch = ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head"];
        let args = [&fetch[..], &["--", remote], specs].concat();
        let fetched = self.line(&args).await;
        fetched
            .map(drop)
            .map_err(|fault| fault.of_remote("fetch from"))
    }

    pub(crate) async fn object(&self, name: &str) -> Result<Option<String>, Fault> {
        let ended = self
            .ended(&["rev-parse", "--quiet", "--verify", name], b"")
            .await?;
        Ok(ended.ok.then(|| ended.stdout.trim().to_owned()))
    }

    /// The files that a commit changed since its first parent, from the repository's root.
    pub(crate) async fn changed(&self, commit: &str) -> Result<Vec<String>, Fault> {
        let before = format!("{commit}^1");
        let diff = ["diff-tree", "-r", "-z", "--name-only", "--no-renames"];
        let names = self.line(&[&diff[..], &[&before, commit]].concat()).await?;
        Ok(names.split_terminator('\0').map(str::to_owned).collect())
    }

    /// Moves branches or refs at the remote, each only from where we know it to be: all of them or none.
    pub(crate) async fn push(&self, remote: &str, moves: &[Move]) -> Result<(), Fault> {
        let mut args: Vec<String> = ["push", "--quiet", "--porcelain", "--no-verify", "--atomic"]
            .map(str::to_owned)
            .to_vec();
        args.extend(moves.iter().map(|Move { name, from, .. }| {
            let from = from.as_deref().unwrap_or_default();
            format!("--force-with-lease={name}:{from}")
        }));
        args.extend(["--".to_owned(), remote.to_owned()]);
        args.extend(
            moves
                .iter()
                .map(|Move { name, to, .. }| format!("{to}:{name}")),
        );
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let ended = self.ended(&args, b"").await?;
        if ended.ok {
            return Ok(());
        }
        if ended.stdout.contains("stale info") || ended.said.contains("stale info") {
            return Err(Fault::Taken);
        }
        let said = one_line(&format!("{} {}", ended.said, ended.stdout), SAID_CHARS);
        // Such as a file that is too large for it, or a token in one.
        if is_refused(&ended.stdout) {
            return Err(Fault::Kept(format!("the remote refuses it: {said}")));
        }
        let command = "push".to_owned();
        Err(Fault::Git { command, said }.of_remote("push to"))
    }

    /// Adds everything in the work tree. Returns the repositories in it that are left out.
    pub(crate) async fn add_all(&self) -> Result<Vec<String>, Fault> {
        let mut left_out: Vec<String> = Vec::new();
        loop {
            let excluded = left_out
                .iter()
                .map(|dir| format!(":(exclude,literal){dir}"));
            let excluded: Vec<String> = excluded.collect();
            let add = ["add", "--all", "--", "."].into_iter();
            let add: Vec<&str> = add.chain(excluded.iter().map(String::as_str)).collect();
            let ended = self.ended(&add, b"").await?;
            let found: Vec<String> = nested(&ended.said).map(str::to_owned).collect();
            if found.is_empty() {
                return match ended.ok {
                    true => Ok(left_out),
                    false => Err(failed(&add, &ended)),
                };
            }
            if ended.ok {
                // Otherwise they are not found again.
                let forget = ["update-index", "--force-remove", "--"].into_iter();
                let forget: Vec<&str> = forget.chain(found.iter().map(String::as_str)).collect();
                self.line(&forget).await?;
            }
            left_out.extend(found);
            if left_out.len() > NESTED_MAX {
                return Err(failed(&add, &ended));
            }
        }
    }
}

/// Another try would be refused the same way: by a hook of the remote, or by its rules.
fn is_refused(told: &str) -> bool {
    ["declined", "deny updating a hidden ref"]
        .iter()
        .any(|why| told.contains(why))
}

/// The repositories in a work tree that made `git add` fail.
fn nested(said: &str) -> impl Iterator<Item = &str> {
    said.lines().filter_map(|line| {
        let embedded = line.strip_prefix("warning: adding embedded git repository: ");
        let empty = || {
            let named = line.strip_prefix("error: '")?;
            named.strip_suffix("/' does not have a commit checked out")
        };
        embedded.or_else(empty)
    })
}

fn failed(args: &[&str], ended: &Ended) -> Fault {
    Fault::Git {
        command: args.join(" "),
        said: one_line(&ended.said, SAID_CHARS),
    }
}

/// A branch or ref at the remote that is to move.
pub(crate) struct Move {
    pub(crate) name: String,
    /// Its commit, as far as we know; `None` if it must not exist yet.
    pub(crate) from: Option<String>,
    pub(crate) to: String,
}

/// A clone without files, in `place`.
pub(crate) async fn clone(mirror: &Path, place: &Path) -> Result<Git, Fault> {
    let tree = place.join("tree");
    let (from, to) = (mirror.to_string_lossy(), tree.to_string_lossy());
    let args = ["clone", "--quiet", "--shared", "--no-checkout", &from, &to];
    Git::at(place).line(&args).await?;
    Ok(Git::at(&tree))
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: FLT-02
    #[test]
    fn a_push_that_the_remote_refuses_is_told_from_one_that_it_cannot_take_now() {
        let of = |why: &str| format!("!\tHEAD:refs/x\t[remote rejected] ({why})\nDone\n");
        for why in [
            "pre-receive hook declined",
            "push declined due to repository rule violations",
            "deny updating a hidden ref",
        ] {
            assert!(is_refused(&of(why)), "{why}");
        }
        assert!(!is_refused(&of("failed to update ref")));
    }

    // shows: FLT-02
    #[test]
    fn a_repository_in_a_work_tree_is_found_in_what_git_says() {
        let with_commits = "warning: adding embedded git repository: made/app\nhint: You've added another git repository\n";
        assert_eq!(nested(with_commits).collect::<Vec<_>>(), ["made/app"]);
        let empty =
            "error: 'my app/' does not have a commit checked out\nfatal: adding files failed\n";
        assert_eq!(nested(empty).collect::<Vec<_>>(), ["my app"]);
        assert_eq!(nested("warning: LF will be replaced by CRLF\n").count(), 0);
    }
}
