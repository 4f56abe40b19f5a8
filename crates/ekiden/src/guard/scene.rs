//! All that a call of the guard finds: the project, the session's files, its settings, its context.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ekiden_core::guard::alert::CommandNames;
use ekiden_core::guard::checkpoint::{Wip, issue_of_branch};
use ekiden_core::guard::estimate::{Estimate, named_files};
use ekiden_core::guard::watch::{Watch, WatchSettings};
use ekiden_core::guard::{CheckpointState, Level, Profile, Reading, StateOf, Window};
use ekiden_core::time::{Millis, Timestamp};
use ekiden_engine::clock::{Clock as _, SystemClock};
use ekiden_store::archive::ensure_dir;
use ekiden_store::disk::{DiskResult, RealDisk};
use ekiden_store::guard::{Figure, GuardFiles, replace_at_once, sweep, watched_sessions};
use ekiden_store::layout::{Published, StateLayout};
use ekiden_store::place::ProjectPlace;
use ekiden_store::published::{exclude_from_git, prepare_published};
use ekiden_store::state::create_state_root;
use ekiden_wire::transcript::LastResponse;

use super::window::{Compaction, client_args};
use crate::client::settings::ClientSettings;
use crate::client::transcript;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::settings::environment::Environment;
use crate::settings::given::{Flags, Given};
use crate::settings::table;

/// How long what was seen of a session is kept.
const KEPT_FOR: Millis = Millis::from_secs(60 * 24 * 60 * 60);

/// A watched session and what surrounds it.
#[derive(Debug)]
pub struct Scene {
    /// The project.
    pub place: ProjectPlace,
    /// The session's files.
    pub files: GuardFiles,
    /// The client's id of the session.
    pub session: String,
    /// Where the client keeps the conversation.
    pub transcript: PathBuf,
    /// How the person wants to be watched.
    pub settings: WatchSettings,
    /// The issue that the settings name.
    pub issue: Option<String>,
    /// Where uncommitted work goes at a checkpoint.
    pub wip: Wip,
    /// Where state lies, if not at its usual place.
    pub state_dir: Option<PathBuf>,
    /// When this call was made.
    pub now: Timestamp,
    environment: Environment,
}

impl Scene {
    /// The session as a call names it. None where nothing is to be watched: in a session of ekiden, and
    /// where the project is gone.
    ///
    /// Settings that cannot be read are as if nobody had set anything: `ekiden config show` tells what is
    /// wrong with them, and a session must not fail by them.
    #[must_use]
    pub fn of(session: &str, transcript: PathBuf, cwd: &Path) -> Option<Self> {
        let environment = Environment::of_process();
        if environment.variable(crate::settings::environment::RUN_VARIABLE).is_some() {
            return None;
        }
        let project = environment.variable("CLAUDE_PROJECT_DIR").map_or(cwd, Path::new);
        let state_dir = environment.variable(table::STATE_DIR.row.env).map(PathBuf::from);
        let place = ProjectPlace::find(project, state_dir.as_deref())?;
        let disk = Arc::new(RealDisk::fenced(&place.dir));
        let files = GuardFiles::new(disk, &place.state_dir, session);
        let given = given(&place.dir, &environment);
        let levels = given.as_ref().and_then(|given| given.need(&table::GUARD_LEVELS).ok());
        let reminder = given.as_ref().and_then(|given| given.need(&table::GUARD_REMINDER).ok());
        let issue = given.as_ref().and_then(|given| given.get(&table::GUARD_ISSUE).ok().flatten());
        let wip = given.as_ref().and_then(|given| given.need(&table::GUARD_WIP).ok()).unwrap_or_default();
        let settings = WatchSettings {
            levels: levels.unwrap_or_else(|| Profile::Watch.levels()),
            reminder: reminder.unwrap_or(true),
        };
        let now = SystemClock.now();
        super::report::at(&place.state_dir, now);
        let session = session.to_owned();
        Some(Self { place, files, session, transcript, settings, issue, wip, state_dir, now, environment })
    }

    /// Forgets sessions that are long over.
    pub(super) fn sweep(&self) {
        let before = Timestamp(self.now.0.saturating_sub(KEPT_FOR.0));
        sweep(&RealDisk::fenced(&self.place.dir), &self.place.state_dir, before);
    }

    /// The session that a command is about: the one that it names, else the one that it is called from,
    /// else the one that was watched last here.
    ///
    /// # Errors
    ///
    /// In a session of ekiden, which its own engine watches, and where the directory is gone.
    pub fn for_command(named: Option<&str>) -> Result<Self, Failure> {
        let environment = Environment::of_process();
        let here = std::env::current_dir().map_err(|error| {
            Failure::caused(Exit::MissingInput, "cannot tell the current directory", &error)
        })?;
        let refused = || {
            Failure::new(Exit::InvalidInput, "cannot watch this session: it is one of a run of ekiden")
                .hint("its run hands it over by itself; `ekiden status` shows how far it is")
        };
        let own = || environment.variable(transcript::SESSION_VARIABLE);
        let mut scene = Self::of("", PathBuf::new(), &here).ok_or_else(refused)?;
        let last = || watched_sessions(&scene.place.state_dir).into_iter().next();
        let session = named.or_else(own).map(str::to_owned).or_else(last).unwrap_or_default();
        scene.transcript = transcript::find(&environment, &session).unwrap_or_default();
        let disk = Arc::new(RealDisk::fenced(&scene.place.dir));
        scene.files = GuardFiles::new(disk, &scene.place.state_dir, &session);
        scene.session = session;
        Ok(scene)
    }

    /// What a task may take: its text, and the files of the project that it names.
    #[must_use]
    pub fn estimate(&self, task: &str, window: &Window, used_tokens: Option<u64>) -> Estimate {
        let files: Vec<u64> = named_files(task)
            .into_iter()
            .filter_map(|file| self.place.dir.join(file).metadata().ok())
            .filter(std::fs::Metadata::is_file)
            .map(|metadata| metadata.len())
            .collect();
        Estimate::of(task, &files, window.usable_tokens(), used_tokens)
    }

    /// A path as the person would name it.
    #[must_use]
    pub fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.place.dir).unwrap_or(path).display().to_string()
    }

    /// What the session's log tells. One that cannot be read tells nothing.
    #[must_use]
    pub fn watch(&self) -> Watch {
        Watch::fold(&self.files.records().unwrap_or_default())
    }

    /// The session's context now: from the transcript's end, or from the status line if that was told
    /// later. None before the first response.
    #[must_use]
    pub fn reading(&self) -> Option<Reading> {
        let responses = std::fs::File::open(&self.transcript)
            .and_then(|mut file| LastResponse::recent(&mut file))
            .unwrap_or_default();
        let figure = self.files.figure();
        let last = responses.last();
        let window = self.window(figure, last.map_or("", |last| last.model.as_str()));
        let samples: Vec<_> = responses.iter().filter_map(LastResponse::sample).collect();
        let told = figure.and_then(|figure| Some((figure.at, figure.used_tokens?)));
        let newer = told.filter(|(at, _)| samples.last().is_none_or(|sample| sample.at < *at));
        let used_tokens = newer.map(|(_, used)| used).or_else(|| last.map(|last| last.context_tokens))?;
        Some(Reading { used_tokens, window, samples })
    }

    /// How the guard's commands are called for this person.
    #[must_use]
    pub fn names(&self, plugin: bool) -> CommandNames {
        if plugin {
            return CommandNames::with_prefix("ekiden:");
        }
        let home = self.environment.variable("CLAUDE_CONFIG_DIR").map(PathBuf::from);
        let home = home.or_else(|| Some(Path::new(self.environment.variable("HOME")?).join(".claude")));
        let dirs = [Some(self.place.dir.join(".claude")), home];
        let ours = |dir: PathBuf| dir.join("skills/ekiden-handoff/SKILL.md").exists();
        CommandNames::with_prefix(if dirs.into_iter().flatten().any(ours) { "ekiden-" } else { "" })
    }

    /// The issue that the work belongs to: as set, else as the branch is named.
    #[must_use]
    pub fn issue_name(&self) -> Option<String> {
        self.issue.clone().or_else(|| issue_of_branch(&self.place.branch()?))
    }

    /// Where handoff documents lie, as the agent would name the directory.
    #[must_use]
    pub fn documents_dir(&self) -> PathBuf {
        Published::new(&self.place.dir).handoffs()
    }

    /// Writes `checkpoint-state.json`, once a level was reached or where `.ekiden/` is already: a project
    /// in which nothing ever happened is not written into.
    pub fn publish(&self, watch: &Watch, reading: &Reading) {
        let published = Published::new(&self.place.dir);
        if !published.dir().is_dir() {
            if watch.level == Level::L0 {
                return;
            }
            if let Err(error) = self.prepare(&published) {
                return self.complain(&error);
            }
        }
        let of = StateOf {
            session_id: &self.session,
            watch,
            reading,
            levels: self.settings.levels,
            issue: self.issue_name(),
            now: self.now,
        };
        let text = serde_json::to_vec_pretty(&CheckpointState::new(&of)).unwrap_or_default();
        let disk = RealDisk::fenced(&self.place.dir);
        if let Err(error) = replace_at_once(&disk, &published.checkpoint_state(), &text) {
            self.complain(&error);
        }
    }

    /// Makes `.ekiden/` as a run makes it, hidden from git.
    fn prepare(&self, published: &Published) -> DiskResult<()> {
        let disk = RealDisk::fenced(&self.place.dir);
        let state = StateLayout::new(&self.place.state_dir);
        if self.place.state_dir.starts_with(published.dir()) {
            ensure_dir(&disk, &published.dir())?;
        }
        create_state_root(&disk, &state)?;
        prepare_published(&disk, published, &state)?;
        match &self.place.common_dir {
            Some(git) => exclude_from_git(&disk, &git.join("info").join("exclude")).map(|_| ()),
            None => Ok(()),
        }
    }

    /// The model's window as the client was started, with what its status line told.
    #[must_use]
    pub fn window(&self, figure: Option<Figure>, model: &str) -> Window {
        let settings = ClientSettings::read(&self.environment, &self.place.dir, false);
        let compaction = Compaction::of(&self.environment, &client_args(&self.environment), &settings);
        compaction.window(figure.map(|figure| figure.window_tokens), model)
    }

    /// Says in `guard/errors.log` what went wrong: nobody reads a hook's standard error.
    pub fn complain(&self, error: &dyn std::error::Error) {
        super::report::complain(error);
    }
}

fn given(dir: &Path, environment: &Environment) -> Option<Given> {
    let flags = Flags::from([(table::WORK_DIR.row.name, dir.to_string_lossy().into_owned())]);
    Given::gather(flags, environment).ok()
}
