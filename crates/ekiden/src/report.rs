//! The report of a run, made from its log and event streams and written beside the log.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use ekiden_core::ids::{RunId, SessionNumber};
use ekiden_core::outcome::Outcome;
use ekiden_core::run::Run;
use ekiden_core::text::{in_full, shell_word};
use ekiden_engine::session_archive::{Part, SessionArchive};
use ekiden_engine::workspace::Workspace;
use ekiden_engine::{EngineError, history};
use ekiden_report::page::{Heading, Text, Tone as PageTone};
use ekiden_report::{Page, Streams, Timeline, render};
use ekiden_store::disk::Disk as _;
use ekiden_store::layout::RunLayout;
use ekiden_store::replace::replace_at_once;
use jiff::tz::TimeZone;

use crate::output::ending::{Ended, Ending};
use crate::output::line::Tone;
use crate::output::phrase;
use crate::output::shown_work_dir::ShownWorkDir;

/// How much of the event streams is read, newest first, in bytes: a run's end waits for it.
const STREAMS_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// How often to check for the report of a run that ends elsewhere, and the pause in between.
const LOOKS: u32 = 40;
const LOOK_PAUSE: Duration = Duration::from_millis(50);

pub struct Report {
    pub markdown: PathBuf,
    pub html: PathBuf,
    /// Which part of the log is unreadable, and why.
    pub left_out: Option<String>,
}

/// Makes the report of a run again from its log, as far as that is readable. `ids` are the runs that its
/// short id must differ from.
pub fn write(workspace: &Workspace, run: &RunId, ids: &[RunId]) -> Result<Report, EngineError> {
    let id = phrase::short_id(run, ids);
    let (timeline, heading) = read(workspace, run, &id)?;
    let streams = streams(workspace, &timeline);
    let page = Page::new(&timeline, &streams, &heading, &TimeZone::system());
    let layout = layout(workspace, run);
    let disk = workspace.disk();
    let (markdown, html) = match heading.left_out {
        None => (layout.report_markdown(), layout.report_html()),
        Some(_) => (layout.partial_markdown(), layout.partial_html()),
    };
    // The engine of a run and `ekiden report` may write at the same time: the file that is put in place last counts,
    // and it is complete.
    replace_at_once(&disk, &markdown, render::markdown(&page).as_bytes())?;
    replace_at_once(&disk, &html, render::html(&page).as_bytes())?;
    let dir = shown_dir(workspace, run);
    let shown = |path: &Path| dir.join(path.file_name().unwrap_or_default());
    Ok(Report {
        markdown: shown(&markdown),
        html: shown(&html),
        left_out: heading.left_out,
    })
}

/// Where the report of a run that ended is. It appears a moment after the run's last record.
pub fn wait_for(workspace: &Workspace, run: &RunId) -> Option<PathBuf> {
    let disk = workspace.disk();
    let path = layout(workspace, run).report_html();
    let is_there = || disk.stat(&path).is_ok_and(|stat| stat.is_some());
    for _ in 0..LOOKS {
        let is_written = is_there();
        if is_written
            || history::holder(workspace)
                .and_then(|holder| holder.run)
                .as_ref()
                != Some(run)
        {
            break;
        }
        thread::sleep(LOOK_PAUSE);
    }
    is_there().then(|| shown_dir(workspace, run).join("report.html"))
}

fn layout(workspace: &Workspace, run: &RunId) -> RunLayout {
    workspace.layout().run(run)
}

/// The run's directory as people know it: by the link in `.ekiden/`, if that exists.
fn shown_dir(workspace: &Workspace, run: &RunId) -> PathBuf {
    let by_link = workspace.published().dir().join("runs").join(run.as_str());
    match by_link.exists() {
        true => by_link,
        false => layout(workspace, run).dir().to_owned(),
    }
}

fn read(workspace: &Workspace, run: &RunId, id: &str) -> Result<(Timeline, Heading), EngineError> {
    let (mut timeline, mut last) = (None, 0);
    let read = history::read(workspace, run, |record, run| {
        last = record.seq;
        timeline
            .get_or_insert_with(|| Timeline::new(run))
            .take(record, run);
    });
    let Some(mut timeline) = timeline else {
        return Err(read.err().unwrap_or(EngineError::NoRuns));
    };
    let is_at_work = history::holder(workspace)
        .and_then(|holder| holder.run)
        .as_ref()
        == Some(run);
    let heading = match read {
        Ok(summary) => {
            timeline.settle(&summary.run);
            if !is_at_work {
                timeline.cut_off();
            }
            tell(&timeline, &summary.run, id, is_at_work, None)
        }
        Err(fault) => {
            // Again, for the state of the run after the last readable record.
            let _ = history::read(workspace, run, |record, run| {
                if record.seq == last {
                    timeline.settle(run);
                }
            });
            let headline = format!("its log can be read only up to record {last}");
            // No command could read more of the run, so none is next.
            Heading {
                id: id.to_owned(),
                tone: PageTone::Failed,
                headline: Text::own(headline),
                left_out: Some(format!("after record {last}: {}", in_full(&fault))),
                ..Heading::default()
            }
        }
    };
    Ok((timeline, heading))
}

/// The project as commands name it to a reader who may be elsewhere.
pub fn seen_from_elsewhere(project: Option<&Path>) -> ShownWorkDir {
    ShownWorkDir {
        dir: project.map(Path::to_owned).unwrap_or_default(),
        typed: project.map(|dir| shell_word(&dir.to_string_lossy())),
    }
}

/// What only the command line knows about a run. A report can be old, so each command names the run.
pub fn tell(
    timeline: &Timeline,
    run: &Run,
    id: &str,
    is_at_work: bool,
    project: Option<&Path>,
) -> Heading {
    let named = format!("{id}{}", seen_from_elsewhere(project).flag());
    let shows = |what: &str, command: String| (what.to_owned(), command);
    let mut next = Vec::new();
    let (tone, headline, details) = match run.outcome() {
        Some(outcome) => {
            let ending = Ending::of(&Ended {
                outcome,
                run,
                timeline,
                id,
                which: &format!(" {id}"),
                there: &seen_from_elsewhere(project),
                zone: &TimeZone::system(),
            });
            if outcome.is_complete() || !outcome.is_final() {
                next.push(shows(does(outcome), ending.command));
            }
            // The page quotes the questions itself.
            (tone(ending.tone), ending.head, ending.said.details)
        }
        None => {
            let (tone, headline, what, command) = unfinished(run, timeline, is_at_work);
            next.push(shows(what, format!("ekiden {command} {named}")));
            (tone, Text::own(headline), Vec::new())
        }
    };
    let is_plan = run.header().is_plan();
    let stage = if is_plan { " --stage ID" } else { "" };
    for (what, command) in [
        ("lists its sessions", "sessions"),
        ("shows what session N saw, said and left", "show N"),
        ("shows what session N changed", "diff N"),
    ] {
        next.push(shows(what, format!("ekiden {command} {named}{stage}")));
    }
    Heading {
        id: id.to_owned(),
        tone,
        headline,
        details,
        next,
        left_out: None,
    }
}

/// How a run without an outcome stands, and the command for it with what that does.
fn unfinished(
    run: &Run,
    timeline: &Timeline,
    is_at_work: bool,
) -> (PageTone, String, &'static str, &'static str) {
    // A person may want a pause while a session still works.
    let is_paused = run.is_paused() && run.live().all(|(_, relay)| relay.is_idle());
    let waits_until = run.waits_until();
    if !is_at_work {
        let doing = match waits_until {
            _ if is_paused => "the run was paused",
            Some(_) => "it waited",
            None => "it worked",
        };
        let headline = format!("ekiden was killed while {doing}");
        return (PageTone::Failed, headline, "continues it", "resume");
    }
    let (last, zone) = (timeline.last, TimeZone::system());
    // What a session at work has used since is in no record yet.
    let at = phrase::clock(last, timeline.started, &zone);
    let written = format!("when this was written; the figures are as of {at}");
    if is_paused {
        let headline = format!("paused {written}");
        return (PageTone::Attention, headline, "lets it continue", "unpause");
    }
    let doing = match waits_until {
        Some(until) => {
            let until = phrase::future(until, last, &zone);
            format!("waiting until {until}")
        }
        None => "still at work".to_owned(),
    };
    let headline = format!("{doing} {written}");
    (PageTone::Working, headline, "watches it", "attach")
}

fn does(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Complete { .. } => "shows what it left",
        Outcome::Undelivered { .. } => "brings the result",
        Outcome::Blocked { .. } => "answers it, in your editor",
        Outcome::SessionLimit
        | Outcome::Stopped { .. }
        | Outcome::LimitTooFar { .. }
        | Outcome::RateLimited { .. }
        | Outcome::BudgetSpent { .. }
        | Outcome::WindowTooFull { .. }
        | Outcome::NoCheck { .. }
        | Outcome::AgentFailed { .. }
        | Outcome::Stuck { .. }
        | Outcome::Stalled { .. }
        | Outcome::Denied { .. }
        | Outcome::TooManyCrashes { .. }
        | Outcome::NoWorktree { .. }
        | Outcome::NotMerged { .. }
        | Outcome::Unmerged { .. }
        | Outcome::NotDone { .. }
        | Outcome::StagesFailed { .. } => "continues it",
    }
}

pub fn tone(tone: Tone) -> PageTone {
    match tone {
        Tone::Done => PageTone::Done,
        Tone::Attention => PageTone::Attention,
        Tone::Failed => PageTone::Failed,
        Tone::Plain | Tone::Quiet => PageTone::Working,
    }
}

/// The event streams of the newest sessions. Unreadable ones are left out: curves are only shown.
pub fn streams(workspace: &Workspace, timeline: &Timeline) -> Streams {
    let mut streams = Streams::default();
    let mut left = STREAMS_BYTES_MAX;
    let mut sessions: Vec<_> = timeline
        .stages
        .iter()
        .enumerate()
        .flat_map(|(place, stage)| stage.sessions.iter().map(move |session| (place, session)))
        .collect();
    sessions.sort_by_key(|(_, session)| std::cmp::Reverse(session.began));
    for (place, session) in sessions {
        let stage = timeline.is_plan.then(|| timeline.stages[place].id.clone());
        let Ok(number) = SessionNumber::try_from(session.number) else {
            continue;
        };
        let archive = SessionArchive::of(workspace, &timeline.run, stage.as_ref(), number);
        let events = archive.name(Part::Events, ekiden_core::ids::AttemptNumber::FIRST);
        let files = archive.files().unwrap_or_default();
        let bytes = files
            .iter()
            .find(|(name, _)| *name == events)
            .map(|(_, bytes)| *bytes);
        let stream = bytes
            .filter(|bytes| session.is_heard() && *bytes <= left)
            .and_then(|_| {
                archive
                    .reader(Part::Events, ekiden_core::ids::AttemptNumber::FIRST, 0)
                    .ok()?
            });
        match stream {
            Some(stream) => {
                left -= bytes.unwrap_or_default();
                let _ = streams.read(place, session.number, stream);
            }
            None => streams.left_out += usize::from(session.is_heard()),
        }
    }
    streams
}
