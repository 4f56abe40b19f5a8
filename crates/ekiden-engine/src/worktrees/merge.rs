//! Merges a stage into the integration branch: merge, validate, and only then take the result.
//!
//! ```text
//! commit what the stage left ─► merge-tree ─┬─► commit-tree ─► validate ─► update-ref
//!                                           └─► conflicts: committed as they are onto the stage's branch
//! ```
//!
//! Git merges without a work tree here, so an interrupted merge leaves nothing to undo. Both labels in a conflict
//! marker are names of our own branches, so no file has a reason to contain such a marker: a stage has resolved
//! its conflicts when its changes contain none. Where git leaves no marker (one side deleted the file, or it is
//! binary), ekiden asks the stage about the file once and keeps its version.

use std::path::{Path, PathBuf};

use ekiden_core::event::{Check, CheckOutcome, Merge};
use ekiden_core::manifest::{Stage, Verification};
use ekiden_core::prompt::result_head;
use ekiden_core::text::{in_full, one_line};

use super::deliver::fast_forward;
use super::merged::{merged, seen};
use super::trees::Branch;
use super::{StageJob, Worktrees};
use crate::git::branch::{elsewhere, full_name};
use crate::git::commit::{
    REFUSES_MESSAGE, commit_all, find_effect, refusal, refuses_message, return_to, trailer,
};
use crate::git::flood::{is_in, stays_out};
use crate::git::status::{Entry, MOVING_HEAD, Scope, Status, in_dir};
use crate::git::{Git, GitError};
use crate::globs;
use crate::run_files::TEXT_BYTES_MAX;
use crate::verification;

const SUBJECT_CHARS_MAX: usize = 72;
const MERGE_TREE: &str = "merge-tree --write-tree -z --name-only --no-messages";
const CHANGED: &str = "diff-tree -r -z --name-only --no-renames --ignore-submodules=none";

/// Merges a stage, unless that is already done.
pub(super) async fn merge(trees: &Worktrees, job: &StageJob) -> Merge {
    let merged = match StageMerge::new(trees, job) {
        Ok(work) => work.merge().await,
        Err(error) => Err(error),
    };
    match merged {
        Ok(merge) => merge,
        Err(_) if trees.is_cancelled() => Merge::Cancelled,
        Err(error) => Merge::Failed {
            error: in_full(&error),
        },
    }
}

/// Checks the user's claim that a stage was done before: its validation passes on the integration branch.
pub(super) async fn confirm(trees: &Worktrees, job: &StageJob) -> Result<String, String> {
    let Some(verification) = &job.stage.verification else {
        return Err(
            "it has neither validation nor outputs, so nothing shows that it was done".to_owned(),
        );
    };
    let (check, not_set_up) = match trees.paths.trees {
        None => {
            let dir = &trees.paths.workspace.dir;
            let check = validate(trees, job, dir, verification).await;
            (check, None)
        }
        Some(_) => validate_integrated(trees, job, verification)
            .await
            .map_err(|error| in_full(&error))?,
    };
    if check.passed() {
        return Ok(earlier_result(trees, &job.stage));
    }
    let told = check.with_output(check.tail.lines().last().unwrap_or_default());
    let setup = not_set_up.map(|why| format!("; {why}"));
    let setup = setup.unwrap_or_default();
    Err(format!("its validation {told}{setup}"))
}

/// What the stage left in an earlier run, if that is still there. In the same place is the diagnosis of one that failed,
/// and what another plan's stage of this id left.
fn earlier_result(trees: &Worktrees, stage: &Stage) -> String {
    let result = trees.paths.shown_result(&stage.id);
    let text = trees.disk.read(&result, TEXT_BYTES_MAX);
    let text = String::from_utf8(text.unwrap_or_default()).unwrap_or_default();
    match text.starts_with(&result_head(&stage.id, &stage.task_name)) {
        true => text,
        false => String::new(),
    }
}

/// Validates everything that is merged, as [`validate_commit`] does.
async fn validate_integrated(
    trees: &Worktrees,
    job: &StageJob,
    verification: &Verification,
) -> Result<(Check, Option<String>), GitError> {
    let [tip] = trees.branches([&trees.paths.integration_branch()]).await?;
    let known = job.integrated.as_deref();
    let tip = trees.integration_tip(tip, known).await?;
    validate_commit(trees, job, &tip.commit, verification).await
}

/// Validates a commit in the spare worktree, and says why the setup failed there, if it did. What the setup made for an
/// earlier commit need not fit this one: a check that fails on it runs again after a setup for this commit.
async fn validate_commit(
    trees: &Worktrees,
    job: &StageJob,
    commit: &str,
    verification: &Verification,
) -> Result<(Check, Option<String>), GitError> {
    let mut earlier_setup = trees.earlier_setup();
    loop {
        let (dir, not_set_up) = trees.check_out(commit, &job.mark).await?;
        let check = validate(trees, job, &dir, verification).await;
        let is_final = check.passed() || check.outcome == CheckOutcome::Cancelled;
        match earlier_setup.take().filter(|_| !is_final) {
            Some(is_set_up) => trees.disk.remove(&is_set_up)?,
            None => return Ok((check, not_set_up)),
        }
    }
}

async fn validate(
    trees: &Worktrees,
    job: &StageJob,
    dir: &Path,
    verification: &Verification,
) -> Check {
    let sh = |command: &str| trees.sh(command, dir, &job.mark);
    let (check, _) = verification::run(sh, dir, verification, trees.cancelled.clone()).await;
    check
}

struct StageMerge<'a> {
    trees: &'a Worktrees,
    job: &'a StageJob,
    integration: String,
    /// The stage's branch, and where it is checked out.
    branch: String,
    tree: PathBuf,
    git: Git,
}

/// The result of a merge: a tree, in which conflicts are marked.
struct Merged {
    tree: String,
    /// The files in conflict, from the repository's root.
    conflicts: Vec<String>,
}

impl<'a> StageMerge<'a> {
    fn new(trees: &'a Worktrees, job: &'a StageJob) -> Result<Self, GitError> {
        let (paths, id) = (&trees.paths, &job.stage.id);
        let tree = paths.tree(id).ok_or_else(super::no_worktrees)?;
        Ok(Self {
            trees,
            job,
            integration: paths.integration_branch(),
            branch: paths.branch(id),
            git: trees.git(&tree).marked(&job.mark),
            tree,
        })
    }

    async fn merge(&self) -> Result<Merge, GitError> {
        self.trees.keep_stage_tree(self.job).await?;
        if self.job.is_repeated {
            let mark = &self.job.mark;
            if let Some(made) = find_effect(&self.git, mark, &full_name(&self.integration)).await? {
                let changed = self.changed(&format!("{made}^1"), &made, &[]).await?;
                return self.done(made, &changed);
            }
            if let Some(given) = find_effect(&self.git, mark, &full_name(&self.branch)).await? {
                let sides = [format!("{given}^1"), format!("{given}^2")];
                let merged = self.merge_tree([&sides[0], &sides[1]]).await?;
                if !merged.conflicts.is_empty() {
                    return Ok(self.conflict(&merged.conflicts));
                }
            }
        }
        if let Some(not_committed) = self.commit_stage().await? {
            return Ok(not_committed);
        }
        let [integration, stage] = self
            .trees
            .branches([&self.integration, &self.branch])
            .await?;
        let known = self.job.integrated.as_deref();
        let tip = self.trees.integration_tip(integration, known).await?;
        let stage = stage.ok_or_else(|| {
            GitError::Refused(format!("the stage deleted its branch {}", self.branch))
        })?;
        let sides = [&self.branch, &self.integration].map(|branch| full_name(branch));
        let merged = self.merge_tree([&sides[0], &sides[1]]).await?;
        if !merged.conflicts.is_empty() {
            let subject = "ekiden: changes of other stages, with conflicts";
            self.give(&merged.tree, &stage, &tip, subject).await?;
            return Ok(self.conflict(&merged.conflicts));
        }
        let changed = self.changed(&tip.tree, &merged.tree, &[]).await?;
        let left = self.left_conflicts(&tip, &merged.tree, &changed).await?;
        if !left.is_empty() {
            return Ok(self.conflict(&left));
        }
        let commit = self.commit_merge(&merged.tree, &stage, &tip).await?;
        if let Some(verification) = &self.job.stage.verification {
            let (mut check, not_set_up) =
                validate_commit(self.trees, self.job, &commit, verification).await?;
            if check.outcome == CheckOutcome::Cancelled {
                return Ok(Merge::Cancelled);
            }
            if !check.passed() {
                if let Some(why) = not_set_up {
                    check.tail = format!("{why}\n{}", check.tail);
                }
                let ignored = self.ignored(&verification.files).await;
                check.tail.push_str(&ignored);
                let subject = "ekiden: changes of other stages";
                self.give(&merged.tree, &stage, &tip, subject).await?;
                return Ok(Merge::Broken { check });
            }
        }
        if commit != tip.commit {
            self.take(&commit, &tip).await?;
        }
        self.done(commit, &changed)
    }

    /// Moves the integration branch to a merge. If a person has it checked out, their checkout moves too; otherwise
    /// the merged changes would look reverted there.
    async fn take(&self, commit: &str, tip: &Branch) -> Result<(), GitError> {
        let name = full_name(&self.integration);
        let trees = self.git.run("worktree list --porcelain", &[]).await?;
        // Git also lists a worktree whose directory is gone.
        let dir = elsewhere(&trees, &name).filter(|dir| Path::new(dir).exists());
        let Some(dir) = dir else {
            let reason = "ekiden: a stage is merged";
            let args = [reason, &name, commit, &tip.commit];
            return self.long("update-ref -m", &args).await;
        };
        let git = self.trees.git(Path::new(dir)).marked(&self.job.mark);
        let moved = fast_forward(&git, commit, Some(&self.integration)).await;
        moved.or_else(|error| {
            GitError::refused(format!(
                "switch to another branch in {dir}, where {} is checked out and cannot move forward: {}",
                self.integration,
                in_full(&error)
            ))
        })
    }

    /// Names the files that the stage has and the merge lacks because git ignores them, each on a line.
    async fn ignored(&self, names: &[String]) -> String {
        let paths = &self.trees.paths;
        let Some(merged) = paths.integration_tree().map(|tree| paths.within(&tree)) else {
            return String::new();
        };
        let dir = paths.within(&self.tree);
        let (git, names) = (self.git.within(dir.clone()), names.to_vec());
        let made = tokio::task::spawn_blocking(move || {
            let missing = globs::unmatched(&merged, &names).unwrap_or_default();
            let first = |name| globs::find(&dir, &[name], 1).ok()?.files.pop();
            missing
                .into_iter()
                .filter_map(first)
                .collect::<Vec<String>>()
        });
        let made = made.await.unwrap_or_default();
        let made: Vec<&str> = made.iter().map(String::as_str).collect();
        let told = |(file, rule)| {
            format!(
                "\n{file} is in the stage's worktree, but git ignores it ({rule}), so it is not merged; \
                 change the rule, or `git add --force` it"
            )
        };
        git.ignored(&made).await.into_iter().map(told).collect()
    }

    /// Commits what the stage left, on its branch. Returns none, or what the stage's agent has to fix first: a merge
    /// that it left unfinished, or what a hook refuses.
    async fn commit_stage(&self) -> Result<Option<Merge>, GitError> {
        let git_dir = self.trees.git_dir(&self.tree);
        let git_dir =
            git_dir.ok_or_else(|| GitError::Refused("its worktree is gone".to_owned()))?;
        let place = self.tree.display();
        if let Some(what) = in_dir(&git_dir, &MOVING_HEAD) {
            // Whatever is committed now would become a part of it.
            return GitError::refused(format!(
                "the stage left {what} unfinished in {place}; finish it there"
            ));
        }
        let status = Status::read(&self.git, Scope::Everything).await?;
        let unmerged = status.entries.iter().filter(|entry| entry.is_unmerged);
        let unmerged: Vec<String> = unmerged.map(Entry::shown).collect();
        if !unmerged.is_empty() {
            return Ok(Some(self.conflict(&unmerged)));
        }
        if let Some(nested) = status.entries.iter().find(|entry| entry.is_repository()) {
            return GitError::refused(format!(
                "`{}` is a separate git repository, and none of its files would be merged; \
                 remove its `.git`, or make it a submodule, in {place}",
                nested.shown()
            ));
        }
        let declared = self.trees.paths.declared(&self.job.stage.part.outputs);
        let lent = self.trees.lent();
        let out = stays_out(&self.git, &status.entries, &declared, &lent, &self.tree);
        let stays_out = out.await?;
        let mut entries = status.entries.iter();
        let is_clean = entries.all(|entry| entry.is_only_inside || is_in(entry, &stays_out));
        let is_merging = git_dir.join("MERGE_HEAD").exists();
        if status.branch.as_ref() != Some(&self.branch)
            && !return_to(&self.git, &self.branch).await?
        {
            return GitError::refused(format!(
                "the stage left its branch {}, and the commit in {place} does not contain that branch; \
                 merge the two there",
                self.branch
            ));
        }
        if !is_clean || is_merging {
            let subject = self.subject();
            let (message, before) = (["-m", &subject[..]], self.git.message_written());
            let done = commit_all(&self.git, &message, &stays_out).await;
            // Git may commit none of the differences, such as what a submodule ignores, or a mode.
            let is_nothing = !is_merging
                && done.is_err()
                && self.git.run("diff --cached --quiet", &[]).await.is_ok();
            if let Err(error) = done
                && !is_nothing
            {
                let refused = refusal(&self.git, &error, before).await;
                if refused.is_none() && refuses_message(&self.git, &error, before).await {
                    return GitError::refused(format!("{REFUSES_MESSAGE}; {}", in_full(&error)));
                }
                return refused.map_or(Err(error), |tail| Ok(Some(Merge::Refused { tail })));
            }
        }
        Ok(None)
    }

    /// Merges the stage's side and the others'. The order says whose side is first in a conflict.
    async fn merge_tree(&self, sides: [&str; 2]) -> Result<Merged, GitError> {
        let said = match self.git.long(MERGE_TREE, &sides, b"").await {
            Err(GitError::Failed { code: 1, said, .. }) => said,
            merged => merged?,
        };
        // Everything after the last NUL is warnings.
        let mut fields = said.split('\0').map(str::to_owned);
        let tree = fields.next().unwrap_or_default();
        fields.next_back();
        Ok(Merged {
            tree,
            conflicts: fields.filter(|file| !file.is_empty()).collect(),
        })
    }

    /// The conflicts in a tree that the stage should have resolved and did not, or was never told of.
    async fn left_conflicts(
        &self,
        tip: &Branch,
        tree: &str,
        changed: &[String],
    ) -> Result<Vec<String>, GitError> {
        let marker = format!("-G^[<>]{{7,}} {}", full_name(&self.integration));
        // Git marks conflicts also in a file whose attributes say that no difference is shown.
        let mut left = self.changed(&tip.tree, tree, &["--text", &marker]).await?;
        // If a file is in a directory's place, git puts one side under a name that contains a branch.
        let name = format!("~{}", full_name(&self.integration).replace('/', "_"));
        left.extend(changed.iter().filter(|file| file.contains(&name)).cloned());
        Ok(left)
    }

    /// The commit of a merge; the integration branch's own commit if the stage has nothing to add.
    async fn commit_merge(
        &self,
        tree: &str,
        stage: &Branch,
        tip: &Branch,
    ) -> Result<String, GitError> {
        if tree == tip.tree && self.trees.is_ancestor(&stage.commit, &tip.commit).await {
            return Ok(tip.commit.clone());
        }
        self.merge_of(tree, [tip, stage], &self.subject()).await
    }

    async fn merge_of(
        &self,
        tree: &str,
        [first, second]: [&Branch; 2],
        subject: &str,
    ) -> Result<String, GitError> {
        let trailer = trailer(&self.job.mark);
        let parents = ["-p", &first.commit, "-p", &second.commit];
        let message = ["-m", subject, "-m", &trailer];
        let args = [&[tree][..], &parents, &message].concat();
        self.git.line("commit-tree", &args).await
    }

    /// Moves the stage on to a merge of the integration branch. The merge names the effect, so that settling
    /// the effect after a crash reports the conflicts again. If interrupted, this leaves files of the merge in
    /// the worktree, which merge again without a conflict.
    async fn give(
        &self,
        tree: &str,
        stage: &Branch,
        tip: &Branch,
        subject: &str,
    ) -> Result<(), GitError> {
        let subject = self.trees.subject_of(subject);
        let commit = self.merge_of(tree, [stage, tip], &subject).await?;
        self.long("reset --quiet --hard", &[&commit]).await
    }

    /// The files that differ between two trees, from the repository's root.
    async fn changed(
        &self,
        from: &str,
        to: &str,
        options: &[&str],
    ) -> Result<Vec<String>, GitError> {
        let args = [options, &[from, to]].concat();
        let names = self.git.run(CHANGED, &args).await?;
        Ok(names.split_terminator('\0').map(str::to_owned).collect())
    }

    fn conflict(&self, files: &[String]) -> Merge {
        let files = seen(files, &self.prefix());
        Merge::Conflict { files }
    }

    fn done(&self, commit: String, changed: &[String]) -> Result<Merge, GitError> {
        let declared = &self.job.stage.part.outputs;
        merged(commit, changed, &self.prefix(), declared).map_err(GitError::Refused)
    }

    fn prefix(&self) -> PathBuf {
        self.trees.paths.within(Path::new(""))
    }

    async fn long(&self, words: &str, args: &[&str]) -> Result<(), GitError> {
        self.git.long(words, args, b"").await.map(drop)
    }

    fn subject(&self) -> String {
        let stage = &self.job.stage;
        let text = format!("ekiden: {} {}", stage.id, stage.task_name);
        self.trees.subject_of(&one_line(&text, SUBJECT_CHARS_MAX))
    }
}
