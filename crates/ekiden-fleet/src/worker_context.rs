//! What a worker has: its directory with the mirror of the remote, its client, and whether it is leaving.

use std::path::PathBuf;
use std::sync::PoisonError;
use std::time::Duration;

use ekiden_core::text::in_full;
use tempfile::TempDir;
use temporalio_client::Client;
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use crate::fault::Fault;
use crate::git::{Git, Move};

pub(crate) const MIRROR: &str = "mirror.git";
/// How long a worker rests after a fault on its side.
pub(crate) const REST: Duration = Duration::from_secs(20);
/// The same if its agent cannot work because nobody is logged in or a usage limit is reached.
pub(crate) const AGENT_REST: Duration = Duration::from_secs(600);

/// What all attempts of a worker share.
#[derive(Debug)]
pub(crate) struct WorkerContext {
    /// Where it keeps its repository and its work.
    pub(crate) dir: PathBuf,
    pub(crate) remote: String,
    /// Who may decide what runs here, as allowed signers of ssh-keygen(1). If it names nobody, anybody who
    /// submits may.
    pub(crate) trusted_keys: Option<PathBuf>,
    /// Held while something is fetched into the mirror.
    pub(crate) fetching: Mutex<()>,
    pub(crate) client: Client,
    /// The account whose usage limits the agents here count against, as the user of the fleet names it.
    pub(crate) account: String,
    /// The worker takes no stage before this time.
    pub(crate) rests_until: std::sync::Mutex<Instant>,
    pub(crate) leaving: watch::Receiver<Option<Instant>>,
}

impl WorkerContext {
    /// Leaves the next stages to others for a while: a machine whose disk is full fails quickly, and would
    /// take every stage.
    pub(crate) fn rest(&self, pause: Duration) {
        let mut until = self
            .rests_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *until = (*until).max(Instant::now() + pause);
    }

    pub(crate) async fn rested(&self) {
        let until = *self
            .rests_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        tokio::time::sleep_until(until).await;
    }

    /// Resolves once the worker leaves.
    pub(crate) async fn left(&self) {
        let mut leaving = self.leaving.clone();
        let _ = leaving.wait_for(Option::is_some).await;
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.borrow().is_some()
    }

    /// The bare repository that the clones here borrow objects from.
    pub(crate) async fn mirror(&self) -> Result<PathBuf, Fault> {
        let mirror = self.dir.join(MIRROR);
        if !mirror.join("HEAD").is_file() {
            let _alone = self.fetching.lock().await;
            let path = mirror.to_string_lossy();
            let init = ["init", "--quiet", "--bare", &path];
            Git::at(&self.dir).line(&init).await?;
        }
        Ok(mirror)
    }

    /// Waits until stages can be pushed, and reports why as long as they cannot. A worker that took stages
    /// before that would hold each of them for hours.
    pub(crate) async fn remote_takes_pushes(&self) {
        let mut said = String::new();
        while let Err(fault) = self.try_push().await {
            let why = in_full(&fault);
            if why != said {
                crate::say(&format!(
                    "{why}\nthis worker takes no stage until that works"
                ));
                said = why;
            }
            tokio::time::sleep(REST).await;
        }
    }

    /// Merges an empty commit with itself, which git can do since 2.38, pushes it, and deletes it again: a
    /// smaller test would not cover permissions for files, hooks and atomic pushes.
    async fn try_push(&self) -> Result<(), Fault> {
        let mirror = Git::at(&self.mirror().await?);
        let tree = ["hash-object", "-w", "-t", "tree", "--stdin"];
        let tree = mirror.line(&tree).await?;
        let text = "ekiden: a worker tries whether it can push";
        let commit = mirror.line(&["commit-tree", &tree, "-m", text]).await?;
        let merge = ["merge-tree", "--write-tree", &commit, &commit];
        let merged = mirror.line(&merge).await;
        merged.map_err(|fault| {
            Fault::Refused(format!("git has to be 2.38 or newer to merge: {fault}"))
        })?;
        let name = format!("refs/ekiden/probe/{}", uuid::Uuid::new_v4());
        let probe = |from: Option<&str>, to: &str| Move {
            name: name.clone(),
            from: from.map(str::to_owned),
            to: to.to_owned(),
        };
        mirror.push(&self.remote, &[probe(None, &commit)]).await?;
        // Some remotes never delete anything; stages delete nothing there.
        let _ = mirror.push(&self.remote, &[probe(Some(&commit), "")]).await;
        Ok(())
    }

    /// Fetches refs into the mirror, under their own names.
    pub(crate) async fn fetch(&self, names: &[String]) -> Result<(), Fault> {
        let mirror = self.mirror().await?;
        let _alone = self.fetching.lock().await;
        let specs: Vec<String> = names.iter().map(|name| format!("+{name}:{name}")).collect();
        let fetch = ["fetch", "--quiet", "--no-tags", "--prune", "--"];
        let mut args = fetch.to_vec();
        args.push(&self.remote);
        args.extend(specs.iter().map(String::as_str));
        let fetched = Git::at(&mirror).line(&args).await;
        fetched.map_err(|fault| fault.of_remote("fetch from"))?;
        Ok(())
    }

    /// A directory that is removed when its handle is dropped.
    pub(crate) fn place(&self, name: &str) -> Result<TempDir, Fault> {
        let made = tempfile::Builder::new().prefix(name).tempdir_in(&self.dir);
        made.map_err(Fault::io("make a directory for a stage"))
    }
}
