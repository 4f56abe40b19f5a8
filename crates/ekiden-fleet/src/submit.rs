//! Submits a plan and follows one until it ends and its result is fetched.

use std::collections::BTreeSet;
use std::path::Path;

use ekiden_core::event::RunResumed;
use ekiden_core::ids::RunId;
use ekiden_core::manifest::{Isolation, Manifest};
use ekiden_core::record::Record;
use ekiden_core::run::Run;
use ekiden_core::settings::{FleetPlace, Place};
use ekiden_core::text::in_full;
use ekiden_core::time::{Millis, Timestamp};
use ekiden_engine::clock::{Clock as _, SystemClock};
use ekiden_engine::remote_run::{RemoteRun, TakenWorkDir};
use ekiden_engine::workspace::Workspace;
use ekiden_engine::{EngineError, globs, history};
use temporalio_client::errors::WorkflowInteractionError;
use temporalio_client::{Client, WorkflowHandle, WorkflowStartOptions};

use crate::approved::{PLAN_FILE, subject};
use crate::fault::Fault;
use crate::follow::{Following, Known, Seen};
use crate::git::{Git, Move};
use crate::order::{
    Followed, Here, PAYLOAD_BYTES_MAX, PlanOrder, PlanSignal, Submission, Wanted, refs, workflow,
};
use crate::outline::{outline, too_large};
use crate::worker::connect;
use crate::workflow::FleetPlan;
use crate::{Failure, matching, runtime, unless_alone};

/// The largest outline that travels with the order, in addition to what later histories carry.
const OUTLINE_BYTES_MAX: usize = PAYLOAD_BYTES_MAX / 2;
/// The minimum and maximum length of a history. The server ends a plan at about 50,000 events.
const EVENTS_MAX: (u32, u32) = (8_000, 40_000);
/// Enough for about 20 stages.
const EVENTS_PER_JOB: u32 = 240;
/// The length, for tests.
const EVENTS_MAX_ENV: &str = "EKIDEN_FLEET_EVENTS_MAX";

/// Submits a plan to the fleet, and follows it if somebody waits for it.
pub(crate) fn submit(mut wanted: Wanted) -> Result<u8, Failure> {
    let base = where_it_begins(&wanted.submission)?;
    matching::with_agents(&mut wanted.submission.header);
    let (theirs, ours) = (&wanted.submission.header.ekiden, env!("CARGO_PKG_VERSION"));
    if theirs != ours {
        let text = format!(
            "`ekiden` is {theirs}, and `ekiden-fleet` beside it {ours}; they must be of one version"
        );
        return Err(Failure::settings(text));
    }
    let place = wanted.submission.header.fleet.clone();
    let place = place.ok_or_else(|| Failure::bug("the plan names no fleet".to_owned()))?;
    let workspace = wanted.here.workspace()?;
    let work_dir = TakenWorkDir::take(&workspace).map_err(|error| Failure::state(&error))?;
    let (run, is_shown) = (wanted.submission.header.run.clone(), !wanted.detach);
    let work = async {
        let client = connect(None).await?;
        let git = Git::at(&workspace.dir);
        let header = wanted.submission.header.clone();
        refuse_unknown(&git, &workspace.dir, &header.manifest).await?;
        let order = order(&client, &git, &wanted, &place, &base).await?;
        // Before the fleet has it, since after a crash nobody would know of it.
        let opened = RemoteRun::open(work_dir, SystemClock.now(), header, wanted.new);
        let opened = opened.map_err(|error| Failure::state(&error))?;
        let options = WorkflowStartOptions::new(place.queue, workflow(&run)).build();
        let started = client.start_workflow(FleetPlan::run, order, options).await;
        started.map_err(Failure::unreachable)?;
        if wanted.detach {
            crate::say(&format!(
                "run {run} is with the fleet; `ekiden fleet follow {run}` shows it, from any machine"
            ));
            return Ok(0);
        }
        crate::say(&format!("run {run} is with the fleet; ctrl-c stops it"));
        crate::can_be_read(&run);
        Following {
            handle: handle(&client, &run),
            run: opened,
            known: Known::default(),
            git,
            remote: place.remote,
            submission: wanted.submission,
            stops: true,
            seen: Seen::default(),
        }
        .follow()
        .await
    };
    runtime()?.block_on(unless_alone(is_shown, work))
}

/// Follows a plan, no matter from which machine it was submitted.
pub(crate) fn follow(wanted: Followed) -> Result<u8, Failure> {
    let workspace = wanted.here.workspace()?;
    let (mut submission, at) = runtime()?.block_on(published(&workspace, &wanted))?;
    let branch = submission.header.place.branch.take();
    submission.header.place = Place {
        branch,
        ..workspace.place()
    };
    // The remote that its user named, not the one that the plan names.
    let place = submission.header.fleet.as_mut();
    let place = place.ok_or_else(|| Failure::settings("it is not a fleet's plan".to_owned()))?;
    place.remote.clone_from(&wanted.remote);
    let work_dir = TakenWorkDir::take(&workspace).map_err(|error| Failure::state(&error))?;
    let id = submission.header.run.clone();
    let (known, set_aside) = known(&workspace, &id)?;
    let is_shown = !wanted.detach;
    let work = async {
        let git = Git::at(&workspace.dir);
        let client = connect(None).await?;
        let opened = RemoteRun::open(work_dir, at, submission.header.clone(), set_aside);
        let following = Following {
            handle: handle(&client, &id),
            run: opened.map_err(|error| Failure::state(&error))?,
            known,
            git,
            remote: wanted.remote,
            submission,
            stops: wanted.resumed.is_some(),
            seen: Seen::default(),
        };
        crate::say(&match wanted.resumed {
            None => format!("run {id} is with the fleet; ctrl-c leaves it alone"),
            Some(resumed) => match following.resume(resumed).await? {
                true if wanted.detach => return Ok(0),
                true => format!("run {id} goes on with the fleet; ctrl-c stops it"),
                // What follows shows how it ended.
                false => {
                    format!("the server takes nothing more for run {id}: it is over, or forgotten")
                }
            },
        });
        crate::can_be_read(&id);
        following.follow().await
    };
    runtime()?.block_on(unless_alone(is_shown, work))
}

impl Following {
    /// Resumes a plan that has ended. False if it has ended for good, or if the server has forgotten it.
    async fn resume(&self, resumed: RunResumed) -> Result<bool, Failure> {
        let resumed = Box::new(resumed);
        match self.tell(PlanSignal::Resumed { resumed }).await {
            Ok(()) => Ok(true),
            Err(WorkflowInteractionError::NotFound(_)) => Ok(false),
            Err(error) => Err(Failure::unreachable(error)),
        }
    }
}

impl Here {
    fn workspace(&self) -> Result<Workspace, Failure> {
        let found = Workspace::find(&self.work_dir, None);
        let found = found.map_err(|error| Failure::state(&EngineError::from(error)))?;
        Ok(Workspace {
            state_dir: self.state_dir.clone(),
            user_dir: self.user_dir.clone(),
            ..found
        })
    }
}

fn handle(client: &Client, run: &RunId) -> WorkflowHandle<Client, FleetPlan> {
    client.get_workflow_handle(workflow(run))
}

/// What this work dir's log already has of the run, and whether an unfinished run may be in the way.
fn known(workspace: &Workspace, run: &RunId) -> Result<(Known, bool), Failure> {
    let failed = |error: EngineError| Failure::state(&error);
    let mut known = Known::default();
    let listed = history::list(workspace).map_err(failed)?;
    if listed.iter().any(|listed| listed.run == *run) {
        let note = |record: &Record, _: &Run| known.note(record.seq, &record.event);
        history::read(workspace, run, note).map_err(failed)?;
    }
    // A fleet goes on with its run, whatever is followed here.
    let is_elsewhere =
        history::newest_run(workspace).is_some_and(|newest| newest.header().fleet.is_some());
    Ok((known, is_elsewhere))
}

/// The plan of a run, as stored at the remote, and when it was published.
async fn published(
    workspace: &Workspace,
    wanted: &Followed,
) -> Result<(Submission, Timestamp), Failure> {
    let git = Git::at(&workspace.dir);
    let unreachable = |fault: Fault| Failure::unreachable_remote(in_full(&fault));
    let pattern = format!("refs/ekiden/{}*/plan", wanted.run);
    let listed = git
        .line(&["ls-remote", "--", &wanted.remote, &pattern])
        .await;
    let listed = listed.map_err(unreachable)?;
    let mut names = listed.lines().filter_map(|line| line.split_once('\t'));
    let (Some((commit, name)), None) = (names.next(), names.next()) else {
        let what = if listed.is_empty() {
            "no plan"
        } else {
            "several plans"
        };
        let (run, remote) = (&wanted.run, &wanted.remote);
        return Err(Failure::missing(format!(
            "{what} of a run `{run}` at {remote}"
        )));
    };
    let fetched = git.fetch(&wanted.remote, &[name]).await;
    fetched.map_err(unreachable)?;
    let file = format!("{commit}:{PLAN_FILE}");
    let text = git
        .line(&["cat-file", "blob", &file])
        .await
        .map_err(unreachable)?;
    let submission: Submission = serde_json::from_str(&text).map_err(|error| {
        Failure::settings(format!("the plan is of another version of ekiden: {error}"))
    })?;
    if name != refs::plan(&submission.header.run) {
        let text = format!("the plan at {name} is that of another run");
        return Err(Failure::settings(text));
    }
    let at = git.line(&["show", "-s", "--format=%ct", commit]).await;
    let secs: u32 = at.map_err(unreachable)?.parse().unwrap_or_default();
    Ok((
        submission,
        Timestamp::default() + Millis::from_secs(secs.into()),
    ))
}

/// Publishes the plan, and returns the workflow's order.
async fn order(
    client: &Client,
    git: &Git,
    wanted: &Wanted,
    place: &FleetPlace,
    base: &str,
) -> Result<PlanOrder, Failure> {
    let header = &wanted.submission.header;
    let outline = outline(&header.manifest);
    if let Some(why) = too_large(&outline) {
        return Err(Failure::settings(why));
    }
    matching::check(client, &place.queue, &header.manifest).await?;
    let published = publish(git, wanted, &place.remote, base).await;
    let jobs = outline.plan.as_ref().map_or(1, |rules| rules.jobs);
    let bytes = serde_json::to_vec(&outline).map_or(0, |bytes| bytes.len());
    Ok(PlanOrder {
        ekiden: header.ekiden.clone(),
        run: header.run.clone(),
        outline: Some(outline).filter(|_| bytes <= OUTLINE_BYTES_MAX),
        base: base.to_owned(),
        plan: published.map_err(|fault| {
            if let Fault::Untrusted(why) = fault {
                return Failure::settings(why);
            }
            Failure::unreachable_remote(in_full(&fault))
        })?,
        lease_secs: place.lease_secs,
        budget: header.settings.bounds.run,
        agents: header.settings.bounds.agents.clone(),
        events_max: events_max(jobs),
        carried: None,
    })
}

/// The more stages work in parallel, the longer a history gets, since all of them wait for the last one at
/// its end.
pub(crate) fn events_max(jobs: u32) -> u32 {
    let wanted = std::env::var(EVENTS_MAX_ENV).ok();
    let wanted = wanted.and_then(|text| text.parse().ok());
    let (least, most) = EVENTS_MAX;
    wanted.unwrap_or_else(|| jobs.saturating_mul(EVENTS_PER_JOB).clamp(least, most))
}

/// The commit from which the plan starts.
fn where_it_begins(submission: &Submission) -> Result<String, Failure> {
    let rules = submission.header.manifest.plan.as_deref();
    match rules.map(|rules| &rules.isolation) {
        Some(Isolation::Worktrees { base, copy, .. }) => {
            if !copy.is_empty() {
                let text = "a fleet does not copy untracked files: everyone with access to the remote could read them";
                return Err(Failure::settings(text.to_owned()));
            }
            Ok(base.clone())
        }
        Some(Isolation::InPlace) | None => {
            let text = "a fleet moves work by git: the project needs a repository with a commit";
            Err(Failure::settings(text.to_owned()))
        }
    }
}

/// Workers have only what git knows.
async fn refuse_unknown(git: &Git, dir: &Path, manifest: &Manifest) -> Result<(), Failure> {
    let known = git.line(&["ls-files", "-z"]).await;
    let known = known.map_err(|fault| Failure::bug(in_full(&fault)))?;
    let known: BTreeSet<&str> = known.split_terminator('\0').collect();
    for stage in &manifest.stages {
        // A name that leads out of the project is reported when the stage starts.
        let files = globs::all_of(dir, &stage.part.context).unwrap_or_default();
        if let Some(file) = files.iter().find(|file| !known.contains(file.as_str())) {
            return Err(Failure::settings(format!(
                "the context of stage {} is `{file}`, which git does not track, so no worker has it; commit it",
                stage.id
            )));
        }
    }
    Ok(())
}

/// Pushes what workers start from. Returns the commit that holds the plan.
async fn publish(git: &Git, wanted: &Wanted, remote: &str, base: &str) -> Result<String, Fault> {
    let run = &wanted.submission.header.run;
    let mut submission = wanted.submission.clone();
    // Its address may contain a key, and everybody who reads the plan knows where it is.
    if let Some(place) = &mut submission.header.fleet {
        place.remote.clear();
    }
    let text = serde_json::to_vec(&submission)?;
    let blob = git.fed(&["hash-object", "-w", "--stdin"], &text).await?;
    let listed = format!("100644 blob {blob}\t{PLAN_FILE}\n");
    let tree = git.fed(&["mktree"], listed.as_bytes()).await?;
    let subject = subject(run);
    let key = wanted.sign_key.as_deref();
    let key = key.map(|key| format!("user.signingKey={}", key.display()));
    let mut args = Vec::new();
    if let Some(key) = &key {
        args.extend(["-c", "gpg.format=ssh", "-c", key]);
    }
    args.extend(["commit-tree", &tree, "-m", &subject]);
    args.extend(key.as_ref().map(|_| "-S"));
    let plan = git.line(&args).await;
    let plan = plan.map_err(|fault| match (fault, &wanted.sign_key) {
        (Fault::Git { said, .. }, Some(key)) => Fault::Untrusted(format!(
            "`fleet.sign_key` {} cannot sign the plan: {said}",
            key.display()
        )),
        (fault, _) => fault,
    })?;
    let new = |name, to: &str| Move {
        name,
        from: None,
        to: to.to_owned(),
    };
    let moves = [new(refs::plan(run), &plan), new(refs::merged(run), base)];
    git.push(remote, &moves).await?;
    Ok(plan)
}
