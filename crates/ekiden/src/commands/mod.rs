//! The commands, one file each: manual page, arguments, what it does.

pub mod build;
pub mod checkpoint;
pub mod completions;
pub mod config;
pub mod continue_run;
pub mod diff;
pub mod doctor;
mod documents;
pub mod execute;
mod going_back;
mod guide;
pub mod handoff;
pub mod hook;
pub mod init;
pub mod knowledge;
pub mod limits;
pub mod log;
pub mod man;
pub mod orient;
pub mod pause;
pub mod plan;
mod repository;
pub mod resume;
pub mod run;
pub mod sessions;
pub mod setup;
pub mod show;
pub mod split;
pub mod status;
mod steer;
pub mod stop;
pub mod task;
pub mod unpause;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;

use ekiden_core::ids::{RunId, StageId};
use ekiden_core::run::Run;
use ekiden_engine::history;
use ekiden_engine::workspace::Workspace;
use ekiden_store::disk::RealDisk;
use ekiden_store::layout::StateLayout;
use ekiden_store::state::StateDir;

use crate::exit::Exit;
use crate::failure::{self, Failure};
use crate::output::account::{Account, Session};
use crate::output::live::Live;
use crate::output::{Output, phrase};
use crate::settings::environment::Environment;
use crate::settings::given::{Flags, Given};
use crate::settings::{chosen, table};

/// What every command begins with: where the person stands, and what was said.
struct Scene {
    /// The current directory.
    here: PathBuf,
    /// Every setting that somebody set.
    given: Given,
    /// The variables.
    environment: Environment,
}

impl Scene {
    fn set(flags: Flags) -> Result<Self, Failure> {
        let here = std::env::current_dir().map_err(|error| {
            Failure::caused(Exit::MissingInput, "cannot tell the current directory", &error)
        })?;
        let environment = Environment::of_process();
        Ok(Self { here, given: Given::gather(flags, &environment)?, environment })
    }

    /// The work dir and its surroundings; nothing is created.
    fn workspace(&self) -> Result<Workspace, Failure> {
        let state_dir = chosen::state_dir(&self.given, &self.here)?;
        Ok(Workspace::find(&chosen::work_dir(&self.given)?, state_dir.as_deref())?)
    }

    /// The view of a run that begins or goes on.
    fn live<'a>(&self, output: &'a mut Output, workspace: &Workspace) -> Result<Live<'a>, Failure> {
        let live = Live::new(output, self.json()?, run_ids(workspace)?);
        Ok(live.aloud(self.given.need(&table::VERBOSE)?))
    }

    /// Output is for programs.
    fn json(&self) -> Result<bool, Failure> {
        self.given.need(&table::JSON)
    }
}

/// The run that a question is about: the one whose id begins so, or the newest. A newer one that cannot
/// be read is told and passed over.
fn asked_run(workspace: &Workspace, prefix: Option<&str>, output: &mut Output) -> Result<RunId, Failure> {
    let (run, passed_over) = history::find(workspace, prefix)?;
    for newer in passed_over {
        let why = newer.unreadable.as_ref().map(|error| failure::chain(error)).unwrap_or_default();
        output.warn(&format!("run {} is newer, but cannot be told of: cannot {why}", newer.run));
    }
    Ok(run)
}

/// A run, read whole, with what there is to tell of its sessions.
struct Told {
    /// The run's state after its newest record.
    run: Run,
    /// Its id, as short as it can be.
    id: String,
    /// The stage that was asked for; nothing in a run of a single relay.
    stage: Option<StageId>,
    account: Account,
}

impl Told {
    fn read(workspace: &Workspace, run: &RunId, stage: Option<&str>) -> Result<Self, Failure> {
        let asked = stage.and_then(|stage| StageId::try_from(stage.to_owned()).ok());
        let mut account = Account::of(asked.clone());
        let summary = history::read(workspace, run, |record, run| account.take(record, run))?;
        let id = phrase::short_id(run, &run_ids(workspace)?);
        check_stage(&summary.run, &id, stage, asked.as_ref())?;
        let stage = asked.filter(|_| summary.run.header().manifest.plan.is_some());
        Ok(Self { run: summary.run, id, stage, account })
    }

    fn session(&self, number: u32) -> Result<&Session, Failure> {
        self.account.session(number).ok_or_else(|| {
            let begun = phrase::count(self.account.sessions().len() as u64, "session");
            let text = format!("run {} has no session {number}: {begun} began", self.id);
            Failure::new(Exit::MissingInput, text).hint(format!("`ekiden sessions {}` lists them", self.id))
        })
    }

    /// Run and stage for the next command to type: the run is named there if it was named here.
    fn named(&self, asked: Option<&str>) -> String {
        let run = asked.map(|_| format!(" {}", self.id)).unwrap_or_default();
        let stage = self.stage.as_ref().map(|stage| format!(" --stage {stage}")).unwrap_or_default();
        run + &stage
    }
}

/// A run that is one relay: what is asked for has no meaning for many.
fn refuse_plan(run: &Run, what: &str) -> Result<(), Failure> {
    if run.header().manifest.plan.is_none() {
        return Ok(());
    }
    let text = format!("cannot {what}: run {} is a plan", run.header().run);
    Err(Failure::new(Exit::Usage, text)
        .hint("`ekiden resume` alone goes on with it; `ekiden execute` begins another"))
}

/// The stage is one of the run's; in a plan one has to be named.
fn check_stage(run: &Run, id: &str, stage: Option<&str>, known: Option<&StageId>) -> Result<(), Failure> {
    let is_plan = run.header().manifest.plan.is_some();
    let names = || run.plan().states().map(|(stage, _)| stage.as_str());
    let (text, near) = match stage {
        None if is_plan => (format!("run {id} is a plan: say which stage, with `--stage ID`"), None),
        None => return Ok(()),
        Some(_) if known.is_some_and(|stage| run.plan().state(stage).is_some()) => return Ok(()),
        Some(stage) => (format!("run {id} has no stage `{stage}`"), phrase::nearest(stage, names())),
    };
    let failure = Failure::new(Exit::MissingInput, text);
    Err(match near {
        Some(near) => failure.hint(format!("did you mean `{near}`?")),
        None => failure.hint("`ekiden status` lists its stages"),
    })
}

/// The ids of all runs, by which an id can be made short.
fn run_ids(workspace: &Workspace) -> Result<Vec<RunId>, Failure> {
    let disk = Arc::new(RealDisk::fenced(&workspace.dir));
    let state = StateDir::open(disk, StateLayout::new(&workspace.state_dir));
    match state.map_err(ekiden_engine::EngineError::from)? {
        Some(state) => Ok(state.runs().map_err(ekiden_engine::EngineError::from)?),
        None => Ok(Vec::new()),
    }
}
