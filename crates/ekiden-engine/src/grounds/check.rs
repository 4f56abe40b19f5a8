//! What a plan in worktrees needs of the repository, looked at before anything is created: hours later it
//! would fail each stage.

use ekiden_core::manifest::Ground;

use super::Grounds;
use super::tree::COPIES_MAX;
use crate::error::EngineError;
use crate::globs;

impl Grounds {
    /// Git can commit what stages do, and nothing that is only lent to them.
    pub(crate) async fn check(&self) -> Result<(), EngineError> {
        let Ground::Worktrees { copy, .. } = &self.ground else { return Ok(()) };
        let git = self.users_git();
        if git.run(&["var", "GIT_COMMITTER_IDENT"]).await.is_err() {
            return Err(EngineError::NoIdentity);
        }
        // What cannot be found is told when it is to be copied.
        let found = globs::find(&self.places.workspace().dir, copy, COPIES_MAX);
        let Some(found) = found.ok().filter(|found| !found.files.is_empty()) else { return Ok(()) };
        let mut args = vec!["--literal-pathspecs", "ls-files", "--others", "--exclude-standard", "-z", "--"];
        args.extend(found.files.iter().map(String::as_str));
        let seen = git.run(&args).await.unwrap_or_default();
        match seen.split('\0').find(|file| !file.is_empty()) {
            Some(file) => Err(EngineError::NotIgnored { file: file.to_owned() }),
            None => Ok(()),
        }
    }
}
