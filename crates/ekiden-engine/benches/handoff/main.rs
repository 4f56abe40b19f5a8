//! What lies between the exit of one agent and the start of the next: `cargo bench -p ekiden-engine`.
//!
//! Prints one line of JSON, which `cargo xtask bench` reads. A relay runs here as it does in the
//! program, on the real disk, outside git and without a verification or a pause. This program is its
//! agent as well: it tells its first and its last moment, and times `/bin/true` in between, so that
//! baseline and measure come in turns. It rests before it goes, so that the engine has done all that
//! it does after a start.
//!
//! - **Syncs** are those that the disk counts from the moment at which the engine hears of the exit to
//!   the one at which it hears that the next agent runs.
//! - **CPU** is the process's own, all threads, in the kernel too, from the agent's last moment, in which
//!   it asks the kernel for it, to the one at which the engine hears that the next agent runs. Beside it
//!   stands what the same files cost with the same syncs by bare calls: on some file systems that is most.
//!   Linux only.
//! - **Time** runs from the agent's last moment to the first moment of the next.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a measure makes its own place, spawns its baseline and prints; nothing of this is shipped"
)]

mod agent;
mod watch;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ekiden_core::agent::{AgentKind, AgentSpec, Interface, Permissions};
use ekiden_core::bounds::Bounds;
use ekiden_core::budget::Prices;
use ekiden_core::guard::Levels;
use ekiden_core::handoff::Marker;
use ekiden_core::ids::{RunId, StageId};
use ekiden_core::limits;
use ekiden_core::manifest::{Manifest, Part, Stage};
use ekiden_core::outcome::Outcome;
use ekiden_core::settings::{RunStarted, Settings};
use ekiden_core::time::Millis;
use ekiden_engine::runner::{self, Driving};
use ekiden_engine::workspace::Workspace;
use ekiden_store::disk::Disk;

use watch::Watch;

/// In less than ten seconds.
const SESSIONS: u32 = 75;
/// Names a directory to work in. In memory, what is left is the engine's own cost.
const PLACE: &str = "EKIDEN_BENCH_DIR";

fn main() -> Result<(), Box<dyn Error>> {
    ekiden_agent::keeper::run_if_asked();
    agent::run_if_asked();
    // Usually on the disk that cargo builds on, since elsewhere a sync may cost nothing.
    let place = std::env::var_os(PLACE).unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into());
    let dir = tempfile::tempdir_in(place)?;
    let workspace = workspace(&dir.path().canonicalize()?);
    let disk: Arc<dyn Disk> = Arc::new(workspace.disk());
    let mut watch = Watch::new(
        Arc::clone(&disk),
        workspace.dir.join("bare"),
        life(&workspace),
    )?;
    let outcome = runner::start_on(
        disk,
        &workspace,
        header(&workspace)?,
        false,
        Driving::alone(),
        &mut watch,
    )?;
    assert_eq!(outcome, Outcome::SessionLimit, "all sessions were used");
    println!("{}", watch.figures(SESSIONS));
    Ok(())
}

/// A place without git, whatever lies around it.
fn workspace(dir: &Path) -> Workspace {
    Workspace::at(dir.to_owned(), None, dir.join(".ekiden/state"))
}

fn header(workspace: &Workspace) -> Result<RunStarted, Box<dyn Error>> {
    let stage = Stage {
        id: StageId::only(),
        task: "Hand off for ever.".to_owned(),
        task_name: "task.md".to_owned(),
        verification: None,
        claim_needed: false,
        sessions_max: SESSIONS,
        part: Part::default(),
    };
    Ok(RunStarted {
        run: RunId::from_bits(std::process::id()),
        from: None,
        imported: None,
        issue: None,
        issue_read: None,
        sub_issues: false,
        pull_request: None,
        fleet: None,
        before: None,
        in_session: false,
        ekiden: env!("CARGO_PKG_VERSION").to_owned(),
        place: workspace.place(),
        manifest: Manifest::single(stage),
        settings: Settings {
            marker: Marker::default(),
            levels: Levels::try_from([50, 60, 70])?,
            cap_tokens: None,
            pause: Millis(0),
            wait_max: limits::WAIT_MAX_DEFAULT,
            judging: None,
            reviewer: None,
            no_review: false,
            agent: agent(workspace)?,
            commit: None,
            notify: false,
            notify_text: false,
            subagents: false,
            guided: false,
            memory: ekiden_core::memory::MemoryUse::default(),
            fallback: ekiden_core::fallback::Fallback::default(),
            bounds: Bounds::default(),
        },
        prices: Prices::default(),
        handoff_spend: Default::default(),
    })
}

/// Where each agent tells of its life, one after the other.
fn life(workspace: &Workspace) -> PathBuf {
    workspace.dir.join("life")
}

fn agent(workspace: &Workspace) -> Result<AgentSpec, Box<dyn Error>> {
    let text = |path: PathBuf| {
        path.into_os_string()
            .into_string()
            .map_err(|_| "a path of text")
    };
    let (program, life) = (text(std::env::current_exe()?)?, text(life(workspace))?);
    Ok(AgentSpec {
        name: "handoff".to_owned(),
        kind: AgentKind::Exec,
        command: vec![
            program,
            agent::ROLE.to_owned(),
            std::process::id().to_string(),
            life,
        ],
        model: None,
        account: None,
        permissions: Permissions::default(),
        interface: Interface::Headless,
    })
}
