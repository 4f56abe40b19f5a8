//! What a stage did becomes part of the whole: merged, validated, and only then taken over.
//!
//! What does not go together goes back to the stage: the whole is merged into the stage's own branch and
//! committed there as it is, conflicts included, so that nothing is under way that a crash could break off.
//! The next merge is tried when its relay has put that right.

use std::path::{Path, PathBuf};

use ekiden_core::event::{Check, CheckOutcome, Merge};
use ekiden_core::manifest::{Ground, Verification};
use ekiden_core::text::one_line;
use ekiden_store::disk::Reach;

use super::{Cancelled, GroundJob, Grounds, patiently};
use crate::error::in_full;
use crate::git::Git;
use crate::globs;
use crate::verification;

/// By which a merge is found again.
const TRAILER: &str = "Ekiden-Effect";
/// By which a file is found again that had conflicts.
const CONFLICT: &str = "Ekiden-Conflict";
/// Where a worktree's own git directory says that the whole is being merged into the stage, and from where.
const MINGLING: &str = "EKIDEN_MINGLING";
const NOTE_BYTES_MAX: u64 = 128;
/// The most characters of a subject.
const SUBJECT_CHARS_MAX: usize = 72;

/// Merges a stage, unless that is done already.
pub(super) async fn merge(grounds: &Grounds, job: &GroundJob, cancelled: Cancelled) -> Merge {
    match Work::new(grounds, job, &cancelled) {
        Ok(work) => match work.merge().await {
            Ok(merge) => merge,
            Err(_) if cancelled.has_changed().unwrap_or(true) => Merge::Cancelled,
            Err(error) => Merge::Failed { error },
        },
        Err(error) => Merge::Failed { error: error.to_owned() },
    }
}

/// Looks whether a stage was done before, as the user says: its validation passes on the whole.
pub(super) async fn confirm(
    grounds: &Grounds,
    job: &GroundJob,
    cancelled: Cancelled,
) -> Result<String, String> {
    let Some(verification) = &job.stage.verification else {
        return Err("it has neither validation nor outputs, so nothing tells that it was done".to_owned());
    };
    let dir = match grounds.places.whole_tree() {
        Some(tree) => {
            grounds.whole_tree(job.whole.as_deref(), &job.mark, cancelled.clone()).await?;
            grounds.places.within(&tree)
        }
        None => grounds.places.workspace().dir.clone(),
    };
    let check = validate(grounds, job, &dir, verification, &cancelled).await;
    if check.passed() {
        return Ok(grounds.places.kept_result(&*grounds.disk, &job.stage.id).unwrap_or_default());
    }
    let tail = one_line(check.tail.lines().last().unwrap_or_default(), 200);
    let tail = if tail.is_empty() { tail } else { format!(": {tail}") };
    Err(format!("its validation {check}{tail}"))
}

async fn validate(
    grounds: &Grounds,
    job: &GroundJob,
    dir: &Path,
    verification: &Verification,
    cancelled: &Cancelled,
) -> Check {
    verification::run(|command| grounds.sh(command, dir, &job.mark), dir, verification, cancelled.clone())
        .await
        .0
}

struct Work<'a> {
    grounds: &'a Grounds,
    job: &'a GroundJob,
    cancelled: &'a Cancelled,
    /// The worktree of the whole, and of the stage.
    whole_tree: PathBuf,
    tree: PathBuf,
    whole: Git,
    stage: Git,
    whole_branch: String,
    branch: String,
}

impl<'a> Work<'a> {
    fn new(grounds: &'a Grounds, job: &'a GroundJob, cancelled: &'a Cancelled) -> Result<Self, &'static str> {
        let places = &grounds.places;
        let (Some(whole_tree), Some(tree)) = (places.whole_tree(), places.tree(&job.stage.id)) else {
            return Err("there are no worktrees to merge");
        };
        let git = |dir: &Path| grounds.git(dir).marked(job.mark.clone());
        let (whole, stage) = (git(&whole_tree), git(&tree));
        let (whole_branch, branch) = (places.whole_branch(), places.branch(&job.stage.id));
        Ok(Self { grounds, job, cancelled, whole_tree, tree, whole, stage, whole_branch, branch })
    }

    async fn merge(&self) -> Result<Merge, String> {
        let before = self.ready().await?;
        if let Some(made) = self.made().await? {
            let (_, files) = self.merged_at(&made).await?;
            return self.done(made, files);
        }
        let (open, cleared) = tokio::join!(self.committed(), self.start_over(&before));
        let (open, ()) = (open?, cleared?);
        if !open.is_empty() {
            return Ok(Merge::Conflict { files: open });
        }
        if let Some(files) = self.try_merge().await? {
            self.mingle(&files).await?;
            return Ok(Merge::Conflict { files });
        }
        let (after, files) = self.merged_at("HEAD").await?;
        if after == before {
            return self.done(after, Vec::new());
        }
        if let Some(check) = self.broken().await {
            if check.outcome == CheckOutcome::Cancelled {
                return Ok(Merge::Cancelled);
            }
            self.mingle(&[]).await?;
            return Ok(Merge::Broken { check });
        }
        let name = format!("refs/heads/{}", self.whole_branch);
        self.git_in_whole(&["update-ref", "-m", "ekiden: a stage is merged", &name, &after, &before]).await?;
        self.done(after, files)
    }

    /// Makes sure of both worktrees, and tells where the whole stands. Nobody else works in them now.
    async fn ready(&self) -> Result<String, String> {
        let (known, mark) = (self.job.whole.as_deref(), &self.job.mark);
        if self.grounds.git_dir(&self.tree).is_none() {
            self.grounds.stage_tree(&self.job.stage.id, known, mark, self.cancelled.clone()).await?;
        }
        let tip = self.grounds.whole_tree(known, mark, self.cancelled.clone()).await?;
        self.grounds.unlock(&self.whole_tree)?;
        self.grounds.unlock(&self.tree)?;
        Ok(tip)
    }

    /// The merge with our trailer, if it was made in an earlier life.
    async fn made(&self) -> Result<Option<String>, String> {
        let Ground::Worktrees { base, .. } = &self.grounds.ground else { return Ok(None) };
        if !self.job.is_repeated {
            return Ok(None);
        }
        let grep = format!("--grep=^{TRAILER}: {}$", self.job.mark);
        let range = format!("{base}..{}", self.whole_branch);
        let args = ["log", "-n", "1", "--no-show-signature", "--format=%H", &grep, &range];
        let found = self.whole.line(&args).await.map_err(|error| in_full(&error))?;
        Ok(Some(found).filter(|found| !found.is_empty()))
    }

    /// Commits what the stage left. The files that it was to put right and did not.
    async fn committed(&self) -> Result<Vec<String>, String> {
        self.take_back().await?;
        let (rest, open) = tokio::join!(self.commit_rest(), self.open_conflicts());
        if rest? { self.open_conflicts().await } else { open }
    }

    /// Takes a mingling back that was broken off: half of it must not pass for the stage's work.
    async fn take_back(&self) -> Result<(), String> {
        let (note, disk) = (self.note()?, &*self.grounds.disk);
        if !matches!(disk.stat(&note), Ok(Some(_))) {
            return Ok(());
        }
        let began = disk.read(&note, NOTE_BYTES_MAX).map_err(|error| in_full(&error))?;
        let head = self.stage.line(&["rev-parse", "HEAD"]).await.map_err(|error| in_full(&error))?;
        if began == head.as_bytes() {
            // All of the stage's own work was committed before.
            patiently(&self.stage, &["reset", "--quiet", "--hard"], self.cancelled.clone()).await?;
            patiently(&self.stage, &["clean", "--quiet", "-ffd"], self.cancelled.clone()).await?;
        }
        disk.remove(&note).map_err(|error| in_full(&error))
    }

    /// Where it is noted that the whole is being merged into the stage.
    fn note(&self) -> Result<PathBuf, String> {
        let git_dir = self.grounds.git_dir(&self.tree);
        git_dir.map(|dir| dir.join(MINGLING)).ok_or_else(|| "its worktree is gone".to_owned())
    }

    /// Whatever the stage left uncommitted is its work too. Files in conflict are none that it resolved.
    /// Whether there was anything.
    async fn commit_rest(&self) -> Result<bool, String> {
        let status =
            self.stage.run(&["status", "--porcelain", "-z"]).await.map_err(|error| in_full(&error))?;
        if status.is_empty() {
            return Ok(false);
        }
        let (subject, open) = (self.subject(), unmerged(&self.stage).await?);
        if !open.is_empty() {
            self.commit_conflicts(&subject, &open).await?;
            return Ok(true);
        }
        patiently(&self.stage, &["add", "--all"], self.cancelled.clone()).await?;
        patiently(&self.stage, &["commit", "--quiet", "-m", &subject], self.cancelled.clone()).await?;
        Ok(true)
    }

    /// Commits the stage's tree as it is, and names the files that are to be put right.
    async fn commit_conflicts(&self, subject: &str, files: &[String]) -> Result<(), String> {
        let trailers: Vec<String> = files.iter().map(|file| format!("{CONFLICT}: {file}")).collect();
        let trailers = trailers.join("\n");
        patiently(&self.stage, &["add", "--all"], self.cancelled.clone()).await?;
        // Hooks would refuse what is there to be put right; they see what the stage makes of it.
        let args = ["commit", "--quiet", "--no-verify", "-m", subject, "-m", &trailers];
        patiently(&self.stage, &args, self.cancelled.clone()).await.map(|_| ())
    }

    /// Files that had conflicts and still have the marks of one.
    async fn open_conflicts(&self) -> Result<Vec<String>, String> {
        let range = format!("{}..{}", self.whole_branch, self.branch);
        let format = format!("--format=%(trailers:key={CONFLICT},valueonly)");
        let known = self
            .stage
            .run(&["log", "--no-show-signature", &format, &range])
            .await
            .map_err(|error| in_full(&error))?;
        let mut open = Vec::new();
        for file in known.lines().map(str::trim).filter(|file| !file.is_empty()) {
            let content = self.stage.run(&["show", &format!("HEAD:{file}")]).await.unwrap_or_default();
            let marked = content.lines().any(|line| line.starts_with("<<<<<<< "));
            if marked && !open.iter().any(|known| known == file) {
                open.push(file.to_owned());
            }
        }
        Ok(open)
    }

    /// Leaves nothing of a merge that was broken off.
    async fn start_over(&self, at: &str) -> Result<(), String> {
        self.git_in_whole(&["checkout", "--quiet", "--force", "--detach", at]).await?;
        self.git_in_whole(&["clean", "--quiet", "-ffd"]).await
    }

    /// Merges on a detached head. The files in conflict, if there are any; then nothing of it is left.
    async fn try_merge(&self) -> Result<Option<Vec<String>>, String> {
        let (subject, trailer) = (self.subject(), format!("{TRAILER}: {}", self.job.mark));
        let args = ["merge", "--quiet", "--no-ff", "-m", &subject, "-m", &trailer, &self.branch];
        let Err(refused) = self.git_in_whole(&args).await else { return Ok(None) };
        let files = unmerged(&self.whole).await?;
        if files.is_empty() {
            return Err(refused);
        }
        self.git_in_whole(&["merge", "--abort"]).await?;
        Ok(Some(files))
    }

    /// What says that the whole is not valid with this stage.
    async fn broken(&self) -> Option<Check> {
        let verification = self.job.stage.verification.as_ref()?;
        let dir = self.grounds.places.within(&self.whole_tree);
        let check = validate(self.grounds, self.job, &dir, verification, self.cancelled).await;
        (!check.passed()).then_some(check)
    }

    /// Merges the whole into the stage's own branch, and commits that as it is.
    async fn mingle(&self, files: &[String]) -> Result<(), String> {
        let (note, disk) = (self.note()?, &*self.grounds.disk);
        let head = self.stage.line(&["rev-parse", "HEAD"]).await.map_err(|error| in_full(&error))?;
        disk.create_file(&note, head.as_bytes(), Reach::Disk).map_err(|error| in_full(&error))?;
        if let Err(error) = self.mingled(files).await {
            // A person who repairs this by hand must not find it taken back by the next merge. A stop
            // leaves it to that one.
            if !self.cancelled.has_changed().unwrap_or(true) {
                self.take_back().await?;
            }
            return Err(error);
        }
        disk.remove(&note).map_err(|error| in_full(&error))
    }

    async fn mingled(&self, files: &[String]) -> Result<(), String> {
        let args = ["merge", "--quiet", "--no-ff", "--no-commit", &self.whole_branch];
        if let Err(refused) = patiently(&self.stage, &args, self.cancelled.clone()).await
            && unmerged(&self.stage).await?.is_empty()
        {
            return Err(refused);
        }
        if self.stage.run(&["rev-parse", "--quiet", "--verify", "MERGE_HEAD"]).await.is_err() {
            return Ok(());
        }
        let subject = match files {
            [] => "ekiden: changes of other stages",
            [..] => "ekiden: changes of other stages, with conflicts",
        };
        self.commit_conflicts(subject, files).await
    }

    /// A merge's id, and what came into the whole by it. Of what is no merge, nothing did.
    async fn merged_at(&self, merge: &str) -> Result<(String, Vec<String>), String> {
        let args = [
            "log",
            "-n",
            "1",
            "-m",
            "--first-parent",
            "--no-show-signature",
            "--name-only",
            "--relative",
            "-z",
            "--format=%H%x00",
            merge,
        ];
        let within = self.whole.within(self.grounds.places.within(&self.whole_tree));
        let said = within.run(&args).await.map_err(|error| in_full(&error))?;
        let mut fields = said.split('\0').map(|field| field.trim_start_matches('\n'));
        let id = fields.next().unwrap_or_default().to_owned();
        Ok((id, fields.filter(|file| !file.is_empty()).map(str::to_owned).collect()))
    }

    fn done(&self, after: String, files: Vec<String>) -> Result<Merge, String> {
        let declared = &self.job.stage.part.outputs;
        // Who declares nothing has nothing to keep to.
        let undeclared = match declared.as_slice() {
            [] => Vec::new(),
            [..] => globs::beside(&files, declared)?,
        };
        Ok(Merge::Done { commit: after, files, undeclared })
    }

    async fn git_in_whole(&self, args: &[&str]) -> Result<(), String> {
        patiently(&self.whole, args, self.cancelled.clone()).await.map(|_| ())
    }

    fn subject(&self) -> String {
        let stage = &self.job.stage;
        one_line(&format!("ekiden: {} {}", stage.id, stage.task_name), SUBJECT_CHARS_MAX)
    }
}

/// The files that git could not merge.
async fn unmerged(git: &Git) -> Result<Vec<String>, String> {
    let args = ["diff", "--name-only", "--diff-filter=U", "-z"];
    let files = git.run(&args).await.map_err(|error| in_full(&error))?;
    Ok(files.split('\0').filter(|file| !file.is_empty()).map(str::to_owned).collect())
}
