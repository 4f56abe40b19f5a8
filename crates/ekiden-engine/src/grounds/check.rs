//! What a plan in worktrees needs of the repository, looked at before anything is created: hours later it
//! would fail each stage.

use ekiden_core::manifest::Ground;

use super::Grounds;
use super::furnish::{COPIES_MAX, Lender};
use crate::error::EngineError;
use crate::globs;

impl Grounds {
    /// Git can make branches, and commit what stages do and nothing that is only lent to them.
    pub(crate) async fn check(&self) -> Result<(), EngineError> {
        let Ground::Worktrees { copy, .. } = &self.ground else { return Ok(()) };
        let git = self.users_git();
        if git.run(&["var", "GIT_COMMITTER_IDENT"]).await.is_err() {
            return Err(EngineError::NoIdentity);
        }
        let whole = self.places.whole_branch();
        let above = whole.split_once('/').map_or(whole.as_str(), |(above, _)| above);
        if git.run(&["show-ref", "--verify", "--quiet", &format!("refs/heads/{above}")]).await.is_ok() {
            return Err(EngineError::BranchInTheWay { branch: above.to_owned() });
        }
        // What cannot be found is told when it is to be copied.
        let found = globs::find(&self.places.workspace().dir, copy, COPIES_MAX);
        let Some(found) = found.ok().filter(|found| !found.files.is_empty()) else { return Ok(()) };
        let lender = Lender::new(self).map_err(|why| EngineError::NotLent { why })?;
        for file in &found.files {
            lender.find(file).map_err(|why| EngineError::NotLent { why })?;
        }
        let mut args = vec!["--literal-pathspecs", "ls-files", "--others", "--exclude-standard", "-z", "--"];
        args.extend(found.files.iter().map(String::as_str));
        let seen = git.run(&args).await.unwrap_or_default();
        match seen.split('\0').find(|file| !file.is_empty()) {
            Some(file) => Err(EngineError::NotIgnored { file: file.to_owned() }),
            None => Ok(()),
        }
    }
}
