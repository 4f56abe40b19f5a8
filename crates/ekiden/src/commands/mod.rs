//! The commands, one file each: manual page, arguments, what it does.

pub mod answer;
pub mod attach;
pub mod build;
mod check_command;
pub mod checkpoint;
pub mod completions;
pub mod config;
pub mod continue_run;
pub mod dash;
mod debrief;
pub mod diff;
pub mod dispatch;
pub mod doctor;
mod draft;
mod editor;
pub mod estimate;
mod everywhere;
pub mod execute;
pub mod fleet;
mod follow;
mod going_back;
mod guide;
pub mod handoff;
pub mod hook;
pub mod import;
mod imported;
pub mod init;
pub mod issue;
pub mod knowledge;
mod launch;
pub mod log;
pub mod man;
pub mod mcp;
pub mod memory;
mod offer;
pub mod orient;
mod pager;
pub mod plan;
pub mod ralph;
pub mod report;
mod repository;
pub mod resume;
pub mod run;
mod run_status;
pub mod sessions;
pub mod setup;
pub mod shard;
pub mod show;
pub mod split;
pub mod start;
pub mod stats;
pub mod status;
pub mod steer;
pub mod task;
pub mod tracker;
mod unenforced;
mod watch;

use ekiden_core::text::{in_full, shell_word};
use std::path::{Path, PathBuf};

use clap::Args;
use ekiden_core::ids::{RunId, StageId};
use ekiden_core::outcome::Outcome;
use ekiden_core::run::Run;
use ekiden_engine::clock::{Clock as _, SystemClock};
use ekiden_engine::notify::FleetNotices;
use ekiden_engine::observer::Observer as _;
use ekiden_engine::runner::Driving;
use ekiden_engine::workspace::Workspace;
use ekiden_engine::{EngineError, history, leftovers, registry, state_trust};
use ekiden_otel::Telemetry;
use ekiden_store::place::ProjectPlace;

use crate::client::transcript;
use crate::exit::Exit;
use crate::failure::{Failure, current_dir};
use crate::guard::began_in;
use crate::memory::observer::Recorder;
use crate::output::json::Fields;
use crate::output::live::{Live, Reports};
use crate::output::sessions::{Session, Sessions};
use crate::output::shown_work_dir::ShownWorkDir;
use crate::output::{Output, can_ask, phrase};
use crate::settings::environment::Environment;
use crate::settings::flags::{Asking, Typed};
use crate::settings::given::{Flags, Given, Origin};
use crate::settings::{chosen, table};
use crate::tracker::Trackers;

/// What a command may want of the command line as a whole.
#[derive(Clone, Copy)]
pub struct CommandLine {
    pub definition: fn() -> clap::Command,
    /// Runs these words as if they had been typed.
    pub run: fn(&[String], &mut Output) -> Result<Exit, Failure>,
}

/// What every command starts from: the current directory, the settings, the environment.
struct Invocation {
    here: PathBuf,
    /// Where the runs are that the command is about, if the command looked for them.
    runs_in: Option<PathBuf>,
    /// Every setting that somebody set.
    given: Given,
    environment: Environment,
}

impl Invocation {
    fn new(flags: Flags) -> Result<Self, Failure> {
        Self::strict(None, flags)
    }

    /// The same for a command about runs. They and their project's settings may be in a directory above this one.
    fn of_runs(flags: Flags) -> Result<Self, Failure> {
        let runs_in = chosen::dir_of_runs(&flags, &Environment::of_process())?;
        Self::strict(runs_in, flags)
    }

    fn strict(runs_in: Option<PathBuf>, flags: Flags) -> Result<Self, Failure> {
        let environment = Environment::of_process();
        let given = Given::gather(runs_in.as_deref(), flags, &environment)?;
        environment.refuse_misspelt()?;
        Self::of(runs_in, given, environment)
    }

    /// The same for a command that looks or steers: a settings file with a fault does not keep it from that.
    fn looking(flags: Flags, output: &mut Output) -> Result<Self, Failure> {
        let environment = Environment::of_process();
        let runs_in = chosen::dir_of_runs(&flags, &environment)?;
        let given = match Given::gather(runs_in.as_deref(), flags.clone(), &environment) {
            Ok(given) => given,
            Err(fault) => {
                let mut given = Given::without_files(flags, &environment)?;
                given.unused = Some(fault.error().to_owned());
                output.warn(&format!("{}; no settings file is used", fault.error()));
                given
            }
        };
        if let Err(misspelt) = environment.refuse_misspelt() {
            output.warn(&format!("{}; it is not used", misspelt.error()));
        }
        Self::of(runs_in, given, environment)
    }

    fn of(
        runs_in: Option<PathBuf>,
        given: Given,
        environment: Environment,
    ) -> Result<Self, Failure> {
        Ok(Self {
            here: current_dir()?,
            runs_in,
            given,
            environment,
        })
    }

    /// The work dir of a new run, and where its state is; nothing is created.
    fn workspace_here(&self) -> Result<Workspace, Failure> {
        let state_dir = chosen::state_dir(&self.given, &self.here)?;
        let dir = PathBuf::from(self.given.need(&table::WORK_DIR)?);
        let workspace = self.of_user(Workspace::find(&dir, state_dir.as_deref())?);
        if workspace.dir.parent().is_none() {
            let text = "the work dir cannot be the root of the file system";
            return Err(Failure::new(Exit::Settings, text)
                .hint("name the project's directory with `--work-dir`"));
        }
        Ok(workspace)
    }

    /// The work dir of the runs that the command is about.
    fn workspace(&self) -> Result<Workspace, Failure> {
        let state_dir = chosen::state_dir(&self.given, &self.here)?;
        let workspace = match &self.runs_in {
            Some(dir) => self.of_user(Workspace::find(dir, state_dir.as_deref())?),
            None => self.workspace_here()?,
        };
        // A session looks around in worktrees of stages, which are not the user's projects.
        if !self.environment.has_run() {
            let _ = registry::note(&workspace, SystemClock.now());
        }
        Ok(workspace)
    }

    /// The work dir of the session that asks, if it is watched here; otherwise another.
    fn workspace_of_session(
        &self,
        other: fn(&Self) -> Result<Workspace, Failure>,
    ) -> Result<Workspace, Failure> {
        let is_named = self.given.origin(&table::WORK_DIR.row) != Origin::Default;
        let session = self.environment.variable(transcript::SESSION_VARIABLE);
        let began = session.and_then(|session| began_in(&self.environment, session, &self.here));
        let Some(dir) = began.filter(|_| !is_named) else {
            return other(self);
        };
        let state_dir = chosen::state_dir(&self.given, &self.here)?;
        Ok(self.of_user(Workspace::find(&dir, state_dir.as_deref())?))
    }

    fn of_user(&self, workspace: Workspace) -> Workspace {
        state_trust::from_before_git(workspace.of_user(self.environment.state_home()))
    }

    /// The view of a run that starts or continues.
    fn live<'a>(&self, output: &'a mut Output, workspace: &Workspace) -> Result<Live<'a>, Failure> {
        let verbose = self.given.need(&table::VERBOSE)?;
        let mut live = Live::new(output, self.json()?, verbose, run_ids(workspace)?);
        live.is_in(self.shown_work_dir(workspace)?);
        live.reports = Reports::WriteIn(workspace.clone());
        match chosen::telemetry(&self.given, &self.environment)? {
            Ok(endpoints) => {
                let telemetry = |endpoints| Telemetry::new(endpoints, workspace.clone());
                live.telemetry = endpoints.map(telemetry);
            }
            Err(fault) => live.warn(&format!("no telemetry is sent: {fault}")),
        }
        live.memory = crate::memory::allowed(&self.given).and_then(|exclude| {
            let place = ProjectPlace::find(&workspace.dir, None)?;
            let capture = crate::memory::Capture::of(&self.environment, &place, &exclude)?;
            Some(Recorder::new(capture))
        });
        Ok(live)
    }

    /// Asks whether to trust a state that was moved or unpacked, or a log of which nothing is known, before
    /// anything continues from it.
    fn settle_state(
        &self,
        workspace: &mut Workspace,
        run: Option<&RunId>,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let Some(why) = state_trust::doubt(workspace, run)? else {
            return Ok(());
        };
        let dir = workspace.state_dir.clone();
        if self.given.need(&table::TRUST_STATE)? {
            self.environment.refuse_a_session("trust a state")?;
            workspace.is_trusted = true;
        } else if self.can_ask()? {
            workspace.is_trusted = output.confirm(&format!(
                "The state in {} was not made here: {why}. A run would execute the commands that it names. Trust it? [y/N] ",
                phrase::path(&dir)
            ));
        }
        match workspace.is_trusted {
            true => Ok(()),
            false => Err(EngineError::StateDoubted { dir, why }.into()),
        }
    }

    /// Refuses to continue a person's run from inside a session: no engine is there that could check who asks.
    fn refuse_a_persons_run(&self, run: &Run) -> Result<(), Failure> {
        match run.header().in_session {
            true => Ok(()),
            false => self.environment.refuse_a_session("continue this run"),
        }
    }

    /// Whether a person is here who can decide something. An agent can open a terminal, too.
    fn can_ask(&self) -> Result<bool, Failure> {
        Ok(can_ask() && !self.json()? && !self.environment.is_inside_a_session())
    }

    /// A path as a word of a command line that is typed here; it is never read as a flag.
    fn word(&self, path: &Path) -> String {
        let path = path.strip_prefix(&self.here).unwrap_or(path);
        let path = path.to_string_lossy();
        let dot = if path.starts_with('-') { "./" } else { "" };
        shell_word(&format!("{dot}{path}"))
    }

    /// How the next commands and paths name this work dir.
    fn shown_work_dir(&self, workspace: &Workspace) -> Result<ShownWorkDir, Failure> {
        let is_typed = self.given.origin(&table::WORK_DIR.row) == Origin::Flag;
        let is_here = self.in_work_dir(&workspace.dir).is_empty();
        let typed = (is_typed && !is_here).then(|| self.given.need(&table::WORK_DIR));
        let typed = typed.transpose()?;
        Ok(ShownWorkDir {
            dir: workspace.dir.clone(),
            typed: typed.map(|dir| shell_word(&dir)),
        })
    }

    /// The flag that names this work dir, if it is not the current directory.
    fn in_work_dir(&self, dir: &Path) -> String {
        match self.here.canonicalize().is_ok_and(|here| here == dir) {
            true => String::new(),
            false => format!(" -d {}", self.word(dir)),
        }
    }

    /// Says which limits in the project's file have no effect.
    fn warn_of_held_back(&self, output: &mut Output) {
        let told = self.given.held_back_told();
        told.iter().for_each(|told| output.warn(told));
    }

    fn trackers(&self, workspace: &Workspace) -> Trackers {
        Trackers::new(&self.given, &self.environment, &workspace.dir)
    }

    /// Sends notices about a fleet's run that this process shows to people elsewhere.
    fn notices(&self, workspace: &Workspace) -> Result<FleetNotices, Failure> {
        let endpoints = self.driving()?.endpoints;
        Ok(FleetNotices::new(workspace, endpoints)?)
    }

    fn driving(&self) -> Result<Driving, Failure> {
        // If the project's file names the program, its path is relative to the project.
        let is_projects = self.given.origin(&table::NOTIFY_COMMAND.row) == Origin::Project;
        let runs_in = self.runs_in.as_ref().filter(|_| is_projects);
        chosen::driving(&self.given, runs_in.unwrap_or(&self.here))
    }

    fn json(&self) -> Result<bool, Failure> {
        self.given.need(&table::JSON)
    }
}

/// Ends what an earlier run left behind here: for commands that change something and start no run.
fn end_leftovers(workspace: &Workspace, output: &mut Output) {
    let told = leftovers::message(leftovers::end_here(workspace));
    told.iter().for_each(|told| output.warn(told));
}

/// The run with this id prefix, or the newest. Warns about newer runs that cannot be read.
fn asked_run(
    workspace: &Workspace,
    prefix: Option<&str>,
    output: &mut Output,
) -> Result<RunId, Failure> {
    let (run, passed_over) = history::find(workspace, prefix)?;
    for newer in passed_over {
        let why = newer.unreadable.as_ref();
        let why = why.map(|error| in_full(error)).unwrap_or_default();
        output.warn(&format!(
            "run {} is newer, but cannot be read: cannot {why}",
            newer.run
        ));
    }
    Ok(run)
}

/// Which run is asked about, and which of its relays.
#[derive(Args)]
struct RunArgs {
    /// The beginning of the run's id [default: the newest run here]
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// The stage, if the run is a plan
    #[arg(long, value_name = "ID")]
    stage: Option<String>,
    #[command(flatten)]
    typed: Typed<Asking>,
}

/// A run, read whole, with the sessions of one relay.
struct ReadRun {
    workspace: Workspace,
    /// The answer is for programs.
    json: bool,
    /// The run's state after its newest record.
    run: Run,
    /// Its id, as short as it can be.
    id: String,
    /// The stage that was asked for; nothing in a run of a single relay.
    stage: Option<StageId>,
    sessions: Sessions,
    /// Run and stage for the next command to type: the run is named there if it was named here.
    named: String,
}

impl ReadRun {
    fn of(args: &RunArgs, output: &mut Output) -> Result<Self, Failure> {
        let invocation = Invocation::looking(args.typed.flags(), output)?;
        let (workspace, json) = (invocation.workspace()?, invocation.json()?);
        let run = asked_run(&workspace, args.run.as_deref(), output)?;
        let asked = args.stage.as_ref();
        let stage = asked.and_then(|stage| StageId::try_from(stage.clone()).ok());
        let ids = run_ids(&workspace)?;
        let id = phrase::short_id(&run, &ids);
        let there = invocation.shown_work_dir(&workspace)?;
        let mut sessions = Sessions::new(ids, stage.clone());
        let summary = history::read(&workspace, &run, |record, run| sessions.take(record, run))?;
        check_stage(&summary.run, &id, args.stage.as_deref(), stage.as_ref())?;
        let stage = stage.filter(|_| summary.run.header().is_plan());
        let of_run = args.run.as_ref().map(|_| format!(" {id}"));
        let of_stage = stage.as_ref().map(|stage| format!(" --stage {stage}"));
        let named = of_run.into_iter().chain(of_stage);
        Ok(Self {
            workspace,
            json,
            run: summary.run,
            id,
            stage,
            sessions,
            named: named.chain([there.flag()]).collect(),
        })
    }

    /// The beginning of an answer for programs.
    fn json(&self) -> Fields {
        Fields::versioned().with("run", &self.run.header().run)
    }

    /// The session with this number, or the newest.
    fn session(&self, number: Option<u32>) -> Result<Session<'_>, Failure> {
        let Some(number) = number else {
            return self.sessions.all().next_back().ok_or_else(|| {
                let text = format!("run {}: no session has begun yet", self.id);
                Failure::new(Exit::MissingInput, text)
            });
        };
        self.sessions.get(number).ok_or_else(|| {
            let (earlier, from) = imported::of(self);
            if earlier.iter().any(|earlier| earlier.get() == number) {
                let text = format!("{from} does not say what session {number} changed");
                let hint = format!("`ekiden show {number}{}` shows its texts", self.named);
                return Failure::new(Exit::MissingInput, text).hint(hint);
            }
            let begun = phrase::count(self.sessions.all().count() as u64, "session");
            let text = format!("run {} has no session {number}: {begun} began", self.id);
            let failure = Failure::new(Exit::MissingInput, text);
            // An id may be all digits.
            let ids = &self.sessions.reporter.ids;
            let run = ids.iter().map(|run| phrase::short_id(run, ids));
            let failure = match run.into_iter().find(|run| *run == number.to_string()) {
                Some(run) => failure.hint(format!(
                    "to name run {run}, put the session's number before it: `1 {run}`"
                )),
                None => failure,
            };
            failure.hint(format!("`ekiden sessions{}` lists them", self.named))
        })
    }
}

/// The run is not a plan: what is asked for works only for a single relay.
fn refuse_plan(run: &Run, what: &str) -> Result<(), Failure> {
    if run.header().manifest.plan.is_none() {
        return Ok(());
    }
    let text = format!("cannot {what}: run {} is a plan", run.header().run);
    let is_final = run.outcome().is_some_and(Outcome::is_final);
    Err(Failure::new(Exit::Usage, text).hint(match is_final {
        true => "`ekiden execute` starts another",
        false => "`ekiden resume` alone continues the plan; `ekiden execute` starts another",
    }))
}

/// The stage exists in the run; in a plan one has to be named.
fn check_stage(
    run: &Run,
    id: &str,
    stage: Option<&str>,
    known: Option<&StageId>,
) -> Result<(), Failure> {
    let is_plan = run.header().is_plan();
    let lists = "`ekiden status` lists its stages";
    match stage {
        None if is_plan => {
            let text = format!("run {id} is a plan: name the stage with `--stage ID`");
            Err(Failure::new(Exit::Usage, text).hint(lists))
        }
        None => Ok(()),
        Some(_) if known.is_some_and(|stage| run.plan().state(stage).is_some()) => Ok(()),
        Some(_) if !is_plan => {
            let text = format!("run {id} is not a plan, so it has no stages");
            Err(Failure::new(Exit::Usage, text).hint("leave out `--stage`"))
        }
        Some(stage) => {
            let names = run.plan().states().map(|(stage, _)| stage.as_str());
            let text = format!("run {id} has no stage `{stage}`");
            Err(Failure::new(Exit::MissingInput, text).suggest(stage, names, lists))
        }
    }
}

/// The ids of all runs, by which an id can be shortened. The last is the newest run here.
fn run_ids(workspace: &Workspace) -> Result<Vec<RunId>, Failure> {
    let Some(state) = history::open(workspace)? else {
        return Ok(Vec::new());
    };
    let mut ids = state.runs()?;
    if let Ok((newest, _)) = history::find(workspace, None) {
        ids.sort_by_key(|id| *id == newest);
    }
    Ok(ids)
}
