//! What a guard call reads: the project, the session's files, its settings, its context.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ekiden_core::guard::alert::CommandNames;
use ekiden_core::guard::checkpoint::{Wip, issue_of_branch};
use ekiden_core::guard::estimate::Estimate;
use ekiden_core::guard::watch::{
    Decision, Trigger, Watch, WatchEvent, WatchRecord, WatchSettings, decide,
};
use ekiden_core::guard::{CheckpointState, Level, LineFormat, Profile, Reading, Window};
use ekiden_core::observation::{Observation, Origin};
use ekiden_core::text::in_full;
use ekiden_core::time::{Millis, Timestamp};
use ekiden_engine::clock::{Clock as _, SystemClock};
use ekiden_memory::{Filter, MemoryError};
use ekiden_store::disk::{Disk as _, RealDisk};
use ekiden_store::guard::{Figure, GuardFiles, sweep, watched_sessions};
use ekiden_store::layout::Published;
use ekiden_store::limits::SMALL_FILE_BYTES_MAX;
use ekiden_store::place::ProjectPlace;
use ekiden_store::published::prepare_project;
use ekiden_store::replace::replace_at_once;
use ekiden_wire::transcript::{LastResponse, Recent};

use super::ralph::ENTRYPOINT;
use super::window::{Compaction, WINDOW_UNKNOWN, client_words, window_of};
use crate::client::settings::config_dir;
use crate::client::transcript;
use crate::exit::Exit;
use crate::failure::{Failure, current_dir};
use crate::memory::{self, Capture, has_claude_mem};
use crate::settings::environment::Environment;
use crate::settings::given::Given;
use crate::settings::table::{self, Setting};
use crate::specs::file_bytes;
use crate::tracker::{Trackers, tell_continued};

/// The client's process id, for its hooks.
const CLIENT_VARIABLE: &str = "CLAUDE_PID";
/// How many of the newest observations since a session began are searched for those that it left itself.
const KNOWN: usize = 10_000;
/// How long observations about a session are kept.
const KEPT_FOR: Millis = Millis::from_secs(60 * 24 * 60 * 60);

/// A watched session and what surrounds it.
#[derive(Debug)]
pub struct Watched {
    pub place: ProjectPlace,
    pub files: GuardFiles,
    /// The client's id of the session.
    pub session: String,
    /// Where the client keeps the conversation.
    pub transcript: PathBuf,
    /// How the person wants to be watched.
    pub settings: WatchSettings,
    pub issue: Option<String>,
    /// Where uncommitted work goes at a checkpoint.
    pub wip: Wip,
    /// Where state is kept, if not in its usual place.
    pub state_dir: Option<PathBuf>,
    pub now: Timestamp,
    line_format: Option<LineFormat>,
    pub(super) environment: Environment,
    /// What may be remembered; `None` if nothing may.
    pub(super) memory: Option<Vec<String>>,
    memory_context: bool,
}

impl Watched {
    /// The session that a call names. `None` if there is nothing to watch: in a session of ekiden, and if
    /// the project is gone.
    ///
    /// Unreadable settings count as unset: a session must not fail because of them. A line in
    /// `guard/errors.log` says what is wrong.
    pub fn of(session: &str, transcript: PathBuf, project: &Path, cwd: &Path) -> Option<Self> {
        let environment = Environment::of_process();
        if environment
            .variable(crate::settings::environment::RUN_VARIABLE)
            .is_some()
        {
            return None;
        }
        let project = environment
            .variable("CLAUDE_PROJECT_DIR")
            .map_or(project, Path::new);
        let state_dir = environment
            .variable(&table::STATE_DIR.row.env())
            .map(PathBuf::from);
        let place = place_of(project, cwd, state_dir.as_deref())?;
        let disk = Arc::new(RealDisk::fenced(&place.dir));
        let files = GuardFiles::new(disk, &place.state_dir, session);
        let now = SystemClock.now();
        super::report::at(&place.state_dir, now);
        let given = given(&place.dir, &environment);
        let given = given.as_ref();
        let settings = WatchSettings {
            levels: setting(given, &table::GUARD_LEVELS).unwrap_or(Profile::Watch.levels()),
            reminder: setting(given, &table::GUARD_REMINDER).unwrap_or(true),
            refuse: setting(given, &table::GUARD_L3).unwrap_or(true),
        };
        let issue = setting(given, &table::GUARD_ISSUE);
        let wip = setting(given, &table::GUARD_WIP).unwrap_or_default();
        let line_format = setting(given, &table::GUARD_LINE);
        let memory = given.and_then(memory::allowed);
        let memory_context = setting(given, &table::MEMORY_CONTEXT).unwrap_or(false);
        // A pipe in its place would block whoever opens it.
        let is_special = transcript.metadata().is_ok_and(|found| !found.is_file());
        let transcript = Some(transcript).filter(|_| !is_special).unwrap_or_default();
        let session = session.to_owned();
        Some(Self {
            place,
            files,
            session,
            transcript,
            settings,
            issue,
            wip,
            state_dir,
            now,
            line_format,
            environment,
            memory,
            memory_context,
        })
    }

    pub(super) fn line_format(&self) -> LineFormat {
        self.line_format.clone().unwrap_or_default()
    }

    /// Remembers what `observed` makes from the session's origin, unless this project is left out.
    pub(super) fn remember(&self, observed: impl FnOnce(&Origin) -> Vec<Observation>) {
        let Some(exclude) = &self.memory else { return };
        if let Some(capture) = Capture::of(&self.environment, &self.place, exclude) {
            let from = Origin {
                session: (!self.session.is_empty()).then(|| self.session.clone()),
                issue: self.issue_name(),
                ..capture.origin.clone()
            };
            self.or_complain(capture.keep(observed(&from)));
        }
    }

    /// Indexes the memory, and returns what was left here since the session began. Slow: never call it in a hook.
    pub(super) fn index_memory(&self) -> Result<Vec<Observation>, MemoryError> {
        let project = Some(self.place.project().display().to_string());
        let here = Filter {
            project,
            since: self.watch().since,
            ..Filter::default()
        };
        match memory::files(&self.environment).filter(|_| self.memory.is_some()) {
            Some(files) => Ok(ekiden_memory::ask(&files, |memory| memory.recent(&here, KNOWN))?.0),
            None => Ok(Vec::new()),
        }
    }

    /// What sessions recently left here, if the person wants to see it and claude-mem does not show it
    /// already. At most this many characters.
    pub(super) fn recent_context(&self, chars_max: usize) -> Option<String> {
        let wanted = self.memory_context && !has_claude_mem(&self.environment);
        let files = memory::files(&self.environment).filter(|_| wanted)?;
        let project = self.place.project().display().to_string();
        let branch = self.place.branch();
        let found = files.newest_of(&project, branch.as_deref(), memory::CONTEXT_LINES);
        memory::shown::recent_context(&found, chars_max)
    }

    /// Lets the MCP servers of this client know its session. Returns the one that it showed before.
    pub(super) fn tell_servers(&self) -> Option<String> {
        let client = self.environment.variable(CLIENT_VARIABLE)?;
        let noted = (self.files).note_client(client.parse().ok()?, &self.session);
        self.or_complain(noted).flatten()
    }

    /// Forgets sessions that ended long ago.
    pub(super) fn sweep(&self) {
        let before = Timestamp(self.now.0.saturating_sub(KEPT_FOR.0));
        let disk = RealDisk::fenced(&self.place.dir);
        let published = Published::new(&self.place.dir);
        sweep(&disk, &self.place.state_dir, published.dir(), before);
    }

    /// The session that a command is about: the one that it names, otherwise the one that it is called
    /// from, otherwise the one that was last watched here.
    pub fn for_command(named: Option<&str>) -> Result<Self, Failure> {
        let environment = Environment::of_process();
        let here = current_dir()?;
        let own = named.or_else(|| environment.variable(transcript::SESSION_VARIABLE));
        let began = own.and_then(|session| began_in(&environment, session, &here));
        let here = began.unwrap_or(here);
        let mut watched = Self::of("", PathBuf::new(), &here, &here).ok_or_else(Self::refused)?;
        // Worktrees share a state directory.
        let is_elsewhere = |session: &String| {
            let mut file = File::open(transcript::find(&environment, session)?).ok()?;
            let last = Recent::of(&mut file).ok()?.responses.pop()?;
            let (place, here) = (ProjectPlace::find(&last.cwd, None)?, &watched.place);
            Some(place.common_dir == here.common_dir && place.git_dir != here.git_dir)
        };
        let last = || {
            let mut sessions = watched_sessions(&watched.place.state_dir).into_iter();
            sessions.find(|session| is_elsewhere(session) != Some(true))
        };
        let session = own.map(str::to_owned).or_else(last).unwrap_or_default();
        watched.transcript = transcript::find(&environment, &session).unwrap_or_default();
        let disk = Arc::new(RealDisk::fenced(&watched.place.dir));
        watched.files = GuardFiles::new(disk, &watched.place.state_dir, &session);
        watched.session = session;
        Ok(watched)
    }

    /// The same session in the worktree that its agent entered, by the transcript.
    pub fn where_its_agent_is(self) -> Self {
        let last = self.recent().responses.pop();
        let entered = last.and_then(|last| {
            let transcript = self.transcript.clone();
            Self::of(&self.session, transcript, &self.place.dir, &last.cwd)
        });
        entered.unwrap_or(self)
    }

    /// Why a session of a run is not watched.
    pub fn refused() -> Failure {
        let text = "cannot watch this session: it is one of a run of ekiden";
        Failure::new(Exit::InvalidInput, text)
            .hint("its run hands it off by itself; `ekiden status` shows how far it is")
    }

    /// Refuses what needs a session if none was watched here.
    pub fn refuse_none(&self) -> Result<(), Failure> {
        if !self.session.is_empty() {
            return Ok(());
        }
        let text = "no session was watched here yet";
        let hint = "`ekiden setup` installs the guard; sessions of a run hand off by themselves";
        Err(Failure::new(Exit::MissingInput, text).hint(hint))
    }

    /// The size of a task: its text, and the files of the project that it names.
    pub fn estimate(&self, task: &str, window: &Window, used_tokens: Option<u64>) -> Estimate {
        let files: Vec<u64> = file_bytes(&self.place.dir, task).into_values().collect();
        Estimate::of(task, &files, window.usable_tokens(), used_tokens)
    }

    /// A path as the person would name it.
    pub fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.place.dir)
            .unwrap_or(path)
            .display()
            .to_string()
    }

    /// What the session's log says. An unreadable log says nothing.
    pub fn watch(&self) -> Watch {
        Watch::fold(&self.files.records().unwrap_or_default())
    }

    /// Records what happened. If that fails, `guard/errors.log` says why.
    pub(super) fn note(&self, event: WatchEvent) {
        let time = self.now;
        self.or_complain(self.files.append(&[WatchRecord { time, event }]));
    }

    /// The document that waits to be filled in. Another one in its place would not end a loop's session.
    pub fn waiting_document(&self) -> Option<PathBuf> {
        let waits = self.watch().last;
        let waits = waits.filter(|last| last.filled.is_none() && !last.outdated);
        let path = self.place.dir.join(waits?.taken.document);
        path.is_file().then_some(path)
    }

    pub(super) fn decide(
        &self,
        watch: &Watch,
        trigger: &Trigger,
        reading: Option<&Reading>,
    ) -> Decision {
        decide(watch, self.settings, trigger, reading, self.now)
    }

    /// The session's context now: from the end of the transcript, or from the status line if that reported
    /// later. `None` before the first response.
    pub fn reading(&self) -> Option<Reading> {
        let recent = self.recent();
        let last = recent.responses.last();
        // A client without an interface calls no status line when its model changes.
        let is_outdated = |figure: &Figure, last: &LastResponse| {
            self.is_headless() && last.at > Some(figure.at) && last.model != figure.model
        };
        let figure = self.files.figure();
        let figure = figure.filter(|figure| !last.is_some_and(|last| is_outdated(figure, last)));
        let of_model = last.map_or(WINDOW_UNKNOWN, |last| window_of(&last.model, &last.client));
        let window = self.window(figure.as_ref(), of_model);
        let samples: Vec<_> = recent
            .responses
            .iter()
            .filter_map(LastResponse::sample)
            .collect();
        let summarised = recent.summarised.unwrap_or_default();
        let written = samples.last().map(|sample| sample.at).max(summarised.at);
        let told = figure.filter(|figure| written < Some(figure.at));
        let used_tokens = told
            .and_then(|figure| figure.used_tokens)
            .or_else(|| last.map(|last| last.context_tokens))
            .or(summarised.context_tokens)?;
        Some(Reading {
            used_tokens,
            window,
            samples,
        })
    }

    /// The transcript's end; empty if there is none.
    pub(super) fn recent(&self) -> Recent {
        let file = File::open(&self.transcript);
        file.and_then(|mut file| Recent::of(&mut file))
            .unwrap_or_default()
    }

    /// How this person calls the guard's commands, for a command that cannot tell who calls it.
    pub fn names_here(&self) -> CommandNames {
        self.names(self.is_by_plugin())
    }

    /// How this person calls the guard's commands.
    pub(super) fn names(&self, plugin: bool) -> CommandNames {
        if plugin {
            return CommandNames::with_prefix("ekiden:");
        }
        let dirs = [
            Some(self.place.dir.join(".claude")),
            config_dir(&self.environment),
        ];
        let name = |own: &str| {
            let prefixed = format!("ekiden-{own}");
            let ours = |dir: &PathBuf| dir.join("skills").join(&prefixed).join("SKILL.md").exists();
            match dirs.iter().flatten().any(ours) {
                true => format!("/{prefixed}"),
                false => format!("/{own}"),
            }
        };
        CommandNames {
            handoff: name("handoff"),
            orient: name("orient"),
        }
    }

    /// The issue that the work belongs to: from the settings, otherwise from the branch's name.
    pub fn issue_name(&self) -> Option<String> {
        self.issue
            .clone()
            .or_else(|| issue_of_branch(&self.place.branch()?))
    }

    /// The same, if checkpoints report to it what was done.
    pub(super) fn told_issue(&self) -> Option<String> {
        let trackers = Trackers::of_project(&self.place.dir).ok()?;
        trackers.outbox()?;
        self.issue_name().filter(|name| trackers.takes_name(name))
    }

    /// The issue no longer needs to say that a handoff waits.
    pub(super) fn tell_continued(&self) {
        if let Some(issue) = self.told_issue()
            && let Err(why) = tell_continued(&self.place.dir, &issue, &self.session, self.now)
        {
            super::report::note(&format!("the issue is not updated: {why}"));
        }
    }

    /// Where handoff documents are, as the agent would name the directory.
    pub fn documents_dir(&self) -> PathBuf {
        Published::new(&self.place.dir).handoffs()
    }

    /// Writes `checkpoint-state.json` once a level was reached, or if `.ekiden/` already exists: nothing is
    /// written into a project in which nothing ever happened. A session that is not active just now leaves another
    /// one's file alone.
    pub fn publish(&self, watch: &Watch, reading: &Reading, is_active: bool) {
        let published = Published::new(&self.place.dir);
        if !published.dir().is_dir() && watch.armed.level == Level::L0 {
            return;
        }
        // A clone may have the directory for its settings, but it never has the file that keeps the rest
        // out of git.
        if !published.gitignore().is_file() {
            let (place, disk) = (&self.place, RealDisk::fenced(&self.place.dir));
            let git = place.common_dir.as_deref();
            let prepared = prepare_project(&disk, &place.dir, &place.state_dir, git);
            if self.or_complain(prepared).is_none() {
                return;
            }
        }
        let (state, path) = (self.state(watch, reading), published.checkpoint_state());
        let disk = RealDisk::fenced(&self.place.dir);
        let before = disk.read(&path, SMALL_FILE_BYTES_MAX).unwrap_or_default();
        if state.is_current_in(&before, is_active) {
            return;
        }
        let text = serde_json::to_vec_pretty(&state).unwrap_or_default();
        self.or_complain(replace_at_once(&disk, &path, &text));
    }

    /// What other programs can read of it.
    pub fn state(&self, watch: &Watch, reading: &Reading) -> CheckpointState {
        let (levels, issue) = (self.settings.levels, self.issue_name());
        CheckpointState::new(&self.session, watch, reading, levels, issue, self.now)
    }

    /// The client has no interface.
    fn is_headless(&self) -> bool {
        let entrypoint = self.environment.variable(ENTRYPOINT);
        entrypoint.is_some_and(|name| name.starts_with("sdk"))
    }

    /// An agent started this client for a question of its own, so the handoff is meant for another session.
    pub fn is_nested(&self) -> bool {
        let is_of_agent = |word: &String| word.starts_with(transcript::IN_AGENT_VARIABLE);
        self.is_headless()
            && !self.is_loop()
            && client_words(&self.environment, "environ")
                .iter()
                .any(is_of_agent)
    }

    /// The window before the first response.
    pub fn window_at_start(&self) -> Window {
        self.window(self.files.figure().as_ref(), WINDOW_UNKNOWN)
    }

    /// The model's window, given how the client was started and what its status line reported.
    fn window(&self, figure: Option<&Figure>, model_tokens: u64) -> Window {
        let compaction = Compaction::here(&self.environment, &self.place.dir);
        compaction.window(figure.map_or(model_tokens, |figure| figure.window_tokens))
    }

    /// Writes to `guard/errors.log` what went wrong: nobody reads a hook's standard error.
    pub fn or_complain<T, E: std::error::Error>(&self, result: Result<T, E>) -> Option<T> {
        result
            .map_err(|error| super::report::note(&in_full(&error)))
            .ok()
    }
}

/// The project, or the worktree of it that the agent entered: the client still names the project then. A loop
/// stays where its files are.
fn place_of(project: &Path, cwd: &Path, state_dir: Option<&Path>) -> Option<ProjectPlace> {
    let place = ProjectPlace::find(project, state_dir)?;
    if cwd == project || Published::new(&place.dir).ralph_state().is_file() {
        return Some(place);
    }
    // Worktrees share a state directory.
    let mut above = cwd
        .ancestors()
        .filter_map(|dir| ProjectPlace::find(dir, state_dir));
    let entered = above.find(|entered| entered.state_dir == place.state_dir);
    Some(entered.unwrap_or(place))
}

/// The directory, from here upwards, in which a session is watched. Its agent may have changed the directory.
pub fn began_in(environment: &Environment, session: &str, here: &Path) -> Option<PathBuf> {
    let state_dir = environment.variable(&table::STATE_DIR.row.env());
    let knows = |dir: &&Path| {
        let place = ProjectPlace::find(dir, state_dir.map(Path::new));
        place.is_some_and(|place| {
            let disk = Arc::new(RealDisk::fenced(&place.dir));
            GuardFiles::new(disk, &place.state_dir, session).is_known()
        })
    };
    here.ancestors().find(knows).map(Path::to_owned)
}

/// A setting's value; `None` if it is unset and has no default, or is unreadable.
fn setting<T>(given: Option<&Given>, setting: &Setting<T>) -> Option<T> {
    given?.get(setting).ok().flatten()
}

pub(super) fn given(dir: &Path, environment: &Environment) -> Option<Given> {
    let given = Given::gather_unasked(dir, environment);
    let fault = match &given {
        Ok(given) => given.unused.as_deref(),
        Err(failure) => Some(failure.error()),
    };
    if let Some(fault) = fault {
        super::report::note_once(&format!("settings are not used: {fault}"));
    }
    given.ok()
}
