//! A checkpoint that a hook or a command starts, and how its end gets into the session's log.
//!
//! A session writes one at a time. After a crash the log still says *writing*, and after
//! [`limits::CHECKPOINT_PATIENCE`] the next hook records that it failed.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ekiden_agent::detached;
use ekiden_core::guard::Reading;
use ekiden_core::guard::checkpoint::CheckpointReason;
use ekiden_core::guard::document::Filled;
use ekiden_core::guard::watch::{LastCheckpoint, Taken, Trigger, Watch, WatchEvent, WatchRecord};
use ekiden_core::limits;
use ekiden_core::observation::watched::session_end;
use ekiden_core::observation::{self, Observation, Origin};
use ekiden_core::text::in_full;
use ekiden_core::time::Timestamp;
use ekiden_engine::checkpoint::{self, CheckpointError, Request};
use ekiden_engine::clock::{Clock as _, SystemClock};
use ekiden_otel::{Endpoints, WatchedCheckpoint};
use ekiden_store::disk::RealDisk;
use ekiden_store::guard::GuardFiles;
use ekiden_store::place::ProjectPlace;
use ekiden_wire::recall::Recall;

use super::hook::settle;
use super::watched::given;
use super::{Watched, part};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::settings::chosen;
use crate::settings::environment::Environment;
use crate::tracker::{Trackers, tell_checkpoint};

/// The first argument of the process that writes a checkpoint.
pub(super) const ROLE: &str = "__checkpoint";
/// The first argument of the process that judges the end of a turn once its last response is in the transcript. In almost
/// every second turn the client calls a Stop hook before it has written the response.
pub(super) const TURN_ROLE: &str = "__turn";
/// The first argument of the process that sends a checkpoint by OTLP.
pub(super) const TELL_ROLE: &str = "__telemetry";
/// The first argument of the process that remembers a session after its end, and indexes the memory.
pub(super) const END_ROLE: &str = "__remember";
/// How often [`run_turn`] looks for the turn's last response, and its pause in between. The client writes its transcript
/// in batches, about every 100 ms.
const TURN_LOOKS: u32 = 100;
const TURN_PAUSE: Duration = Duration::from_millis(100);

impl From<CheckpointError> for Failure {
    fn from(error: CheckpointError) -> Self {
        match error {
            CheckpointError::Workspace(error) => error.into(),
            CheckpointError::Disk(error) => error.into(),
            CheckpointError::Busy => {
                Self::caused(Exit::State, "cannot checkpoint this session", &error)
            }
        }
    }
}

impl Watched {
    pub fn checkpoint(&self, reason: CheckpointReason, reading: Option<&Reading>) -> Request {
        Request {
            project_dir: self.place.dir.clone(),
            state_dir: self.state_dir.clone(),
            session_id: Some(self.session.clone()).filter(|session| !session.is_empty()),
            transcript: Some(self.transcript.clone()).filter(|path| path.is_file()),
            reason,
            percent: reading.map(Reading::percent),
            remaining_tokens: reading.map(Reading::remaining_tokens),
            used_tokens: reading.map_or(0, |reading| reading.used_tokens),
            issue: self.issue.clone(),
            tracker: Vec::new(),
            next_part: None,
            wip: self.wip,
            subject: self.loop_subject(reason, reading.map(Reading::percent)),
            now: self.now,
        }
    }
}

/// Starts a checkpoint in a separate process, which outlives this one and the client.
pub fn begin(request: &Request) -> io::Result<()> {
    let text = serde_json::to_string(request)?;
    start(&[ROLE.into(), text.into()], &request.project_dir)
}

/// Starts a process with one of the other roles.
pub(super) fn start_for(role: &str, watched: &Watched) -> io::Result<()> {
    let words = [
        role.as_ref(),
        watched.session.as_ref(),
        watched.transcript.as_os_str(),
    ];
    start(&words.map(OsString::from), &watched.place.dir)
}

fn start(words: &[OsString], dir: &Path) -> io::Result<()> {
    let started = ekiden_agent::keeper::path_of_executable()
        .and_then(|own| detached::start(&own, words, dir));
    started
        .map(drop)
        .map_err(|error| io::Error::other(format!("start a process of ekiden: {error}")))
}

/// The process that writes a checkpoint.
pub(super) fn run(args: &[OsString]) {
    let text = args
        .first()
        .and_then(|arg| arg.to_str())
        .unwrap_or_default();
    if let Ok(request) = serde_json::from_str(text) {
        // The session's log has the error, and the next hook reports it.
        let _ = take(&request);
    }
}

/// The process that waits for a turn's last response. It leaves alerts to the next event, which has a
/// person to read them.
pub(super) fn run_turn(args: &[OsString]) {
    let Some(mut watched) = watched_of(args) else {
        return;
    };
    for _ in 0..TURN_LOOKS {
        if watched.recent().settled {
            break;
        }
        std::thread::sleep(TURN_PAUSE);
    }
    watched.now = SystemClock.now();
    let reading = watched.reading();
    let trigger = Trigger::Stops { background: true };
    let begins = watched
        .decide(&watched.watch(), &trigger, reading.as_ref())
        .begin;
    if begins.is_some()
        && let Some(reason) = settle(&watched, &trigger, reading.as_ref()).1.begin
    {
        watched.or_complain(take(&watched.checkpoint(reason, reading.as_ref())));
    } else if let Some(reading) = &reading {
        watched.publish(&watched.watch(), reading, true);
    }
}

/// The process that remembers a session after its end.
pub(super) fn run_end(args: &[OsString]) {
    let Some(watched) = watched_of(args) else {
        return;
    };
    let recall = File::open(&watched.transcript).ok();
    let recall = recall.and_then(|mut file| Recall::of(&mut file).ok());
    let told = recall.unwrap_or_default().into_told();
    let document = watched.watch().last.map(|last| last.taken.document);
    let document = document.and_then(|name| fs::read_to_string(watched.place.dir.join(name)).ok());
    let filled = Filled::of(&document.unwrap_or_default());
    // A session that was resumed ends more than once.
    let known = watched.or_complain(watched.index_memory());
    let known = known.unwrap_or_default();
    watched.remember(|from| {
        let mut all = session_end(from, watched.now, &told, &filled);
        all.retain(|made| !known.iter().any(|known| made.repeats(known)));
        all
    });
    watched.or_complain(watched.index_memory());
}

fn watched_of(args: &[OsString]) -> Option<Watched> {
    let ([session, transcript], Ok(dir)) = (args, std::env::current_dir()) else {
        return None;
    };
    Watched::of(&session.to_string_lossy(), transcript.into(), &dir, &dir)
}

/// Has a separate process send the checkpoint by OTLP, if an endpoint is set: neither a hook nor a person waits
/// for an endpoint.
fn tell(request: &Request, dir: &Path, is_taken: bool) -> io::Result<()> {
    if endpoints(dir).is_none() {
        return Ok(());
    }
    let told = (request, SystemClock.now(), is_taken);
    start(
        &[TELL_ROLE.into(), serde_json::to_string(&told)?.into()],
        dir,
    )
}

/// The process that sends a checkpoint by OTLP.
pub(super) fn run_tell(args: &[OsString]) {
    let text = args.first().and_then(|arg| arg.to_str());
    let told = text.and_then(|text| serde_json::from_str::<(Request, Timestamp, bool)>(text).ok());
    if let Some((request, until, is_taken)) = told
        && let Some(endpoints) = endpoints(&request.project_dir)
    {
        let checkpoint = WatchedCheckpoint {
            session: request.session_id.as_deref().unwrap_or_default(),
            reason: request.reason,
            percent: request.percent,
            from: request.now,
            until,
            is_taken,
        };
        if let Err(why) = checkpoint.send(&endpoints) {
            super::report::note(&format!("a checkpoint is not sent by OTLP: {why}"));
        }
    }
}

fn endpoints(dir: &Path) -> Option<Endpoints> {
    let environment = Environment::of_process();
    let given = given(dir, &environment)?;
    chosen::telemetry(&given, &environment).ok()?.ok()?
}

/// What the issue's tracker says about it, or why it does not answer; empty if no tracker is set.
fn ask_tracker(request: &Request, place: &ProjectPlace) -> Vec<String> {
    let Ok(trackers) = Trackers::of_project(&place.dir) else {
        return Vec::new();
    };
    let issue = match &request.issue {
        Some(name) => trackers.of_name(name),
        None => place
            .branch()
            .and_then(|branch| trackers.of_branch(&branch)),
    };
    let Some(issue) = issue else {
        return Vec::new();
    };
    trackers.ask(&issue).map_or_else(
        |why| vec![format!("Tracker: {why}")],
        |issue| issue.summary_lines(),
    )
}

/// What comes after the part of a plan that the session was asked for.
fn next_part(request: &Request, place: &ProjectPlace) -> Option<String> {
    let mut transcript = File::open(request.transcript.as_deref()?).ok()?;
    let recall = Recall::of(&mut transcript).ok()?;
    part::next(&place.dir, &recall.into_told())
}

/// Takes a checkpoint in this process, and records how that ended.
pub fn take(request: &Request) -> Result<checkpoint::Taken, CheckpointError> {
    let request = Request {
        now: SystemClock.now(),
        ..request.clone()
    };
    let session = request.session_id.clone().unwrap_or_default();
    let place = ProjectPlace::find(&request.project_dir, request.state_dir.as_deref());
    let Some(place) = place else {
        // The second lookup fails, and says why.
        return checkpoint::take(&request);
    };
    let disk = Arc::new(RealDisk::fenced(&place.dir));
    let files = GuardFiles::new(disk, &place.state_dir, &session);
    let patience = Duration::from(limits::CHECKPOINT_WAIT);
    // Held from the start on: without it a compaction takes this process for dead.
    let _writing = files.lock_writing(patience)?.ok_or(CheckpointError::Busy)?;
    let request = Request {
        tracker: ask_tracker(&request, &place),
        next_part: next_part(&request, &place),
        ..request
    };
    let before = Watch::fold(&files.records().unwrap_or_default()).last;
    let taken = checkpoint::take(&request);
    let event = match &taken {
        Ok(taken) => {
            let document = taken.document.strip_prefix(&place.dir);
            let files = taken.modified_files.iter().take(limits::STATE_FILES_MAX);
            WatchEvent::Taken(Taken {
                reason: request.reason,
                document: document.unwrap_or(&taken.document).display().to_string(),
                used_tokens: request.used_tokens,
                commit: taken.commit.clone(),
                modified_files: files.cloned().collect(),
                issue: taken.issue.clone(),
            })
        }
        Err(error) => WatchEvent::Failed {
            why: in_full(error),
        },
    };
    if !session.is_empty() {
        let time = SystemClock.now();
        files.append(&[WatchRecord { time, event }])?;
    }
    if let Err(error) = tell(&request, &place.dir, taken.is_ok()) {
        super::report::note(&in_full(&error));
    }
    let transcript = request.transcript.clone().unwrap_or_default();
    let watched = Watched::of(&session, transcript, &place.dir, &place.dir);
    let of_loop = || watched.as_ref()?.loop_in_issue();
    if let Ok(taken) = &taken
        && !taken.again
        && let Err(why) = tell_checkpoint(&request, taken, SystemClock.now(), of_loop)
    {
        super::report::note(&format!("the issue is not updated: {why}"));
    }
    if let Some(watched) = watched {
        if let Ok(taken) = &taken
            && !taken.again
        {
            watched.remember(|from| observed(from, &request, taken, before));
        }
        let reading = watched.reading();
        if let Some(reading) = &reading {
            watched.publish(&watched.watch(), reading, true);
        }
        watched.checkpoint_loop(reading.as_ref());
    }
    taken
}

/// A commit that the checkpoint `before` had is not told again.
fn observed(
    from: &Origin,
    request: &Request,
    taken: &checkpoint::Taken,
    before: Option<LastCheckpoint>,
) -> Vec<Observation> {
    let issue = taken.issue.clone().or_else(|| from.issue.clone());
    let from = Origin {
        issue,
        ..from.clone()
    };
    let known = before.and_then(|last| last.taken.commit);
    let commit = taken.commit.as_ref().filter(|_| taken.commit != known);
    let taken = observation::watched::Checkpoint {
        reason: request.reason,
        percent: request.percent,
        document: &taken.document.display().to_string(),
        commit: commit.map(String::as_str),
        wip_ref: taken.wip_ref.as_deref(),
        files: &taken.modified_files,
    };
    observation::watched::checkpoint(&from, request.now, &taken)
}
