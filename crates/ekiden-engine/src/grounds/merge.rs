//! What a stage did becomes part of the whole: merged, validated, and only then taken over.
//!
//! What does not go together goes back to the stage: the whole is merged into the stage's own branch and
//! committed there as it is, conflicts included, so that nothing is under way that a crash could break off.
//! The next merge is tried when its relay has put that right.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ekiden_core::event::{Check, CheckOutcome, Merge};
use ekiden_core::manifest::{Ground, Verification};
use ekiden_core::text::one_line;
use ekiden_store::disk::Reach;

use super::conflicts::ConflictFile;
use super::{Cancelled, GroundJob, Grounds, patiently};
use crate::commit::{TRAILER, UNDER_WAY};
use crate::error::in_full;
use crate::git::Git;
use crate::globs;
use crate::verification;

/// Where a worktree's own git directory says that the whole is being merged into the stage, and from where.
const MINGLING: &str = "EKIDEN_MINGLING";
const NOTE_BYTES_MAX: u64 = 128;
const HEAD_BYTES_MAX: u64 = 4096;
/// What git leaves in a worktree's own git directory while it is in the middle of something that moves `HEAD`.
const UNFINISHED: [&str; 3] = ["rebase-merge", "rebase-apply", "BISECT_LOG"];
/// The shortest id of a commit.
const ID_CHARS_MIN: usize = 40;
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
            return Ok(Merge::Conflict { files: self.told(&open) });
        }
        if let Some(files) = self.try_merge().await? {
            let files = self.mingle(Some(files)).await?;
            return Ok(Merge::Conflict { files: self.told(&files) });
        }
        let after = self.whole_head().await?;
        if let Some(check) = self.broken().await {
            if check.outcome == CheckOutcome::Cancelled {
                return Ok(Merge::Cancelled);
            }
            self.mingle(None).await?;
            return Ok(Merge::Broken { check });
        }
        if after == before {
            return self.done(after, Vec::new());
        }
        let name = format!("refs/heads/{}", self.whole_branch);
        let move_branch = ["update-ref", "-m", "ekiden: a stage is merged", &name, &after, &before];
        let (moved, merged) = tokio::join!(self.git_in_whole(&move_branch), self.merged_at(&after));
        moved?;
        self.done(after, merged?.1)
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

    /// Commits what the stage left, on its branch. The files that it was to put right and did not.
    async fn committed(&self) -> Result<Vec<Vec<u8>>, String> {
        self.take_back().await?;
        // Whatever is committed now would become a part of it.
        if let Some(what) = UNFINISHED.iter().find(|name| self.has(&self.tree, name)) {
            let tree = self.tree.display();
            return Err(format!(
                "the stage left git in the middle of something ({what}) in {tree}; end it there"
            ));
        }
        self.commit_rest().await?;
        if !self.is_on_branch().await {
            self.return_to_branch().await?;
        }
        self.conflicts().open().await
    }

    /// Mostly a look into a file; git is asked where it keeps that elsewhere.
    async fn is_on_branch(&self) -> bool {
        let branch = format!("refs/heads/{}", self.branch);
        if self.head(&self.tree).is_some_and(|head| head == format!("ref: {branch}")) {
            return true;
        }
        self.stage.line(&["symbolic-ref", "--quiet", "HEAD"]).await.is_ok_and(|head| head == branch)
    }

    /// Where the whole's worktree stands. Nothing but a merge of ours moves it.
    async fn whole_head(&self) -> Result<String, String> {
        let is_id = |head: &String| head.len() >= ID_CHARS_MIN && head.bytes().all(|c| c.is_ascii_hexdigit());
        match self.head(&self.whole_tree).filter(is_id) {
            Some(id) => Ok(id),
            None => self.whole.line(&["rev-parse", "HEAD"]).await.map_err(|error| in_full(&error)),
        }
    }

    /// What a worktree's `HEAD` says: an id, or `ref: ` and the name of a branch.
    fn head(&self, tree: &Path) -> Option<String> {
        let file = self.grounds.git_dir(tree)?.join("HEAD");
        let head = self.grounds.disk.read(&file, HEAD_BYTES_MAX).ok()?;
        Some(String::from_utf8(head).ok()?.trim_end().to_owned())
    }

    /// A stage that works elsewhere than on its branch, on one of its own or on none, brings what it did there.
    async fn return_to_branch(&self) -> Result<(), String> {
        let (tree, branch) = (self.tree.display(), format!("refs/heads/{}", self.branch));
        let head = self.ask(&["rev-parse", "HEAD"]).await?;
        let [tip] = self.grounds.tips([&self.branch]).await?;
        if let Some(tip) = &tip
            && !self.grounds.is_ancestor(tip, &head).await
        {
            return Err(format!(
                "the stage left its branch {}: {tree} is at {head}, which lacks what is on the branch; \
                 merge the two there",
                self.branch
            ));
        }
        let reason = "ekiden: the stage worked elsewhere";
        let args = ["update-ref", "-m", reason, &branch, &head];
        patiently(&self.stage, &args, self.cancelled.clone()).await?;
        patiently(&self.stage, &["symbolic-ref", "-m", reason, "HEAD", &branch], self.cancelled.clone())
            .await?;
        Ok(())
    }

    fn conflicts(&self) -> ConflictFile<'_> {
        let path = self.grounds.places.relay(&self.job.stage.id).conflicts();
        ConflictFile { disk: &*self.grounds.disk, path, git: &self.stage, whole: &self.whole_branch }
    }

    /// Paths as the stage's agent sees them, from its work dir.
    fn told(&self, files: &[Vec<u8>]) -> Vec<String> {
        let prefix = self.grounds.places.within(Path::new(""));
        let told = |file: &Vec<u8>| {
            let file = Path::new(OsStr::from_bytes(file));
            match file.strip_prefix(&prefix) {
                Ok(within) => within.to_string_lossy().into_owned(),
                Err(_) => prefix
                    .components()
                    .map(|_| "..")
                    .collect::<PathBuf>()
                    .join(file)
                    .to_string_lossy()
                    .into_owned(),
            }
        };
        files.iter().map(told).collect()
    }

    /// Takes a mingling back that was broken off: half of it must not pass for the stage's work.
    async fn take_back(&self) -> Result<(), String> {
        let (note, disk) = (self.note()?, &*self.grounds.disk);
        if !matches!(disk.stat(&note), Ok(Some(_))) {
            return Ok(());
        }
        let began = disk.read(&note, NOTE_BYTES_MAX).map_err(|error| in_full(&error))?;
        let head = self.ask(&["rev-parse", "HEAD"]).await?;
        if began == head.as_bytes() {
            // All of the stage's own work was committed before; what a person did since must not get lost.
            self.save().await?;
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

    /// Keeps the stage's tree as it is now in a commit that nothing else leads to.
    async fn save(&self) -> Result<(), String> {
        self.add_all().await?;
        let tree = self.ask(&["write-tree"]).await?;
        let place = self.tree.display();
        let subject = format!("ekiden: found in {place} after a merge was broken off");
        let commit = self.ask(&["commit-tree", "-p", "HEAD", "-m", &subject, &tree]).await?;
        // Each its own, so that a second one does not hide the first.
        let name = format!("refs/ekiden/saved/{commit}");
        self.ask(&["update-ref", &name, &commit]).await?;
        self.grounds.note(format!("what stood in {place} when a merge was broken off is kept as {name}"));
        Ok(())
    }

    async fn ask(&self, args: &[&str]) -> Result<String, String> {
        self.stage.line(args).await.map_err(|error| in_full(&error))
    }

    /// Whatever the stage left uncommitted is its work too. Files in conflict are none that it resolved.
    async fn commit_rest(&self) -> Result<(), String> {
        let args = ["status", "--porcelain", "-z", "--untracked-files=all"];
        let status = self.stage.run(&args).await.map_err(|error| in_full(&error))?;
        if status.is_empty() {
            return Ok(());
        }
        let nested =
            status.split('\0').find_map(|entry| entry.strip_prefix("?? ").filter(|path| path.ends_with('/')));
        if let Some(nested) = nested {
            return Err(format!(
                "`{nested}` is a git repository of its own, of which nothing would be merged; \
                 remove its `.git`, or make it a submodule, in {}",
                self.tree.display()
            ));
        }
        let (subject, open) = (self.subject(), unmerged(&self.stage).await?);
        if !open.is_empty() {
            return self.commit_conflicts(&subject, open).await;
        }
        self.add_all().await?;
        // What differed was no content, such as what a submodule ignores, or a mode.
        if !self.merges_already() && self.stage.run(&["diff", "--cached", "--quiet"]).await.is_ok() {
            return Ok(());
        }
        patiently(&self.stage, &["commit", "--quiet", "-m", &subject], self.cancelled.clone())
            .await
            .map(|_| ())
    }

    /// All of it, also where only a part of the repository is checked out.
    async fn add_all(&self) -> Result<(), String> {
        let is_sparse = self.has(&self.tree, "info/sparse-checkout");
        let args: &[&str] = if is_sparse { &["add", "--all", "--sparse"] } else { &["add", "--all"] };
        patiently(&self.stage, args, self.cancelled.clone()).await.map(|_| ())
    }

    fn merges_already(&self) -> bool {
        self.has(&self.tree, "MERGE_HEAD")
    }

    /// A worktree has this in its own git directory.
    fn has(&self, tree: &Path, name: &str) -> bool {
        let git_dir = self.grounds.git_dir(tree);
        git_dir.is_some_and(|dir| matches!(self.grounds.disk.stat(&dir.join(name)), Ok(Some(_))))
    }

    /// Commits the stage's tree as it is, and keeps which files are to be put right.
    async fn commit_conflicts(&self, subject: &str, files: Vec<Vec<u8>>) -> Result<(), String> {
        self.conflicts().keep(files).await?;
        self.add_all().await?;
        // Hooks would refuse what is there to be put right; they see what the stage makes of it.
        let args = ["commit", "--quiet", "--no-verify", "-m", subject];
        patiently(&self.stage, &args, self.cancelled.clone()).await.map(|_| ())
    }

    /// Leaves nothing of a merge that was broken off, and nothing that a validation changed.
    async fn start_over(&self, at: &str) -> Result<(), String> {
        if self.stands_clean(at).await {
            return Ok(());
        }
        if let Err(refused) = self.git_in_whole(&["checkout", "--quiet", "--force", "--detach", at]).await {
            // A hook that fails behind the checkout fails the command, not the checkout.
            let head = self.whole.line(&["rev-parse", "HEAD"]).await.map_err(|error| in_full(&error))?;
            if head != at || self.whole.run(&["diff-index", "--quiet", "HEAD"]).await.is_err() {
                return Err(refused);
            }
        }
        self.git_in_whole(&["clean", "--quiet", "-ffd"]).await
    }

    /// The whole's worktree is at this commit and no other, as the last merge left it.
    async fn stands_clean(&self, at: &str) -> bool {
        let mut traces = UNDER_WAY.iter().map(|(name, _)| name).chain(&UNFINISHED);
        if traces.any(|name| self.has(&self.whole_tree, name))
            || self.head(&self.whole_tree).is_none_or(|head| head != at)
        {
            return false;
        }
        let args = ["--no-optional-locks", "status", "--porcelain", "-z", "--untracked-files=all"];
        self.whole.run(&args).await.is_ok_and(|status| status.is_empty())
    }

    /// Merges on a detached head. The files in conflict, if there are any; then nothing of it is left.
    async fn try_merge(&self) -> Result<Option<Vec<Vec<u8>>>, String> {
        let (subject, trailer) = (self.subject(), format!("{TRAILER}: {}", self.job.mark));
        let how = ["merge", "--quiet", "--no-ff", "--no-verify-signatures"];
        let args = [&how[..], &["-m", &subject, "-m", &trailer, &self.branch]].concat();
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

    /// Merges the whole into the stage's own branch, and commits that as it is. The files in conflict: as they
    /// are called there, where git names a side's file otherwise than in the whole.
    async fn mingle(&self, conflicts: Option<Vec<Vec<u8>>>) -> Result<Vec<Vec<u8>>, String> {
        let (note, disk) = (self.note()?, &*self.grounds.disk);
        let head = self.ask(&["rev-parse", "HEAD"]).await?;
        disk.create_file(&note, head.as_bytes(), Reach::Disk).map_err(|error| in_full(&error))?;
        let files = match self.mingled(conflicts.is_some()).await {
            Ok(files) => files,
            Err(error) => {
                // A person who repairs this by hand must not find it taken back by the next merge. A stop
                // leaves it to that one.
                if !self.cancelled.has_changed().unwrap_or(true) {
                    self.take_back().await?;
                }
                return Err(error);
            }
        };
        disk.remove(&note).map_err(|error| in_full(&error))?;
        Ok(if files.is_empty() { conflicts.unwrap_or_default() } else { files })
    }

    async fn mingled(&self, conflicts: bool) -> Result<Vec<Vec<u8>>, String> {
        let how = ["merge", "--quiet", "--no-ff", "--no-commit", "--no-verify-signatures"];
        let args = [&how[..], &[&self.whole_branch]].concat();
        let merged = patiently(&self.stage, &args, self.cancelled.clone()).await;
        let files = unmerged(&self.stage).await?;
        if files.is_empty() {
            merged?;
        }
        if !self.merges_already() {
            self.conflicts().forget()?;
            return Ok(files);
        }
        let subject = if conflicts {
            "ekiden: changes of other stages, with conflicts"
        } else {
            "ekiden: changes of other stages"
        };
        self.commit_conflicts(subject, files.clone()).await?;
        Ok(files)
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

/// The files that git could not merge, from the repository's root.
async fn unmerged(git: &Git) -> Result<Vec<Vec<u8>>, String> {
    let args = ["diff", "--name-only", "--no-relative", "--diff-filter=U", "-z"];
    let files = git.whole(&args).await.map_err(|error| in_full(&error))?;
    Ok(files.split(|byte| *byte == 0).filter(|file| !file.is_empty()).map(<[u8]>::to_vec).collect())
}
