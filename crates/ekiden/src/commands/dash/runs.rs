//! What the pages show. One thread reads it: no page waits for another page's log, and no engine waits for
//! a page.
//!
//! The thread looks only while somebody asks or watches. It folds a run once, if it is at work or was
//! requested, and from then on reads only what is new. Of all other runs it keeps only a row, and makes
//! that again when their log has grown.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use ekiden_core::hash::sha256_hex;
use ekiden_core::ids::StageId;
use ekiden_core::secrets::masked;
use ekiden_core::text::in_full;
use ekiden_core::time::{Millis, Timestamp};
use ekiden_engine::clock::{Clock as _, SystemClock};
use ekiden_engine::{history, registry};
use ekiden_report::page::Tone;
use ekiden_report::{Page, Streams, Timeline, render};
use jiff::tz::TimeZone;
use serde::Serialize;
use tokio::sync::{oneshot, watch};

use super::super::everywhere::{Everywhere, Found};
use super::super::follow::Follow;
use super::super::run_status::RunStatus;
use crate::failure::Failure;
use crate::output::board::Board;
use crate::output::line::{Line, one_line};
use crate::output::phrase;
use crate::output::summary::Summary;
use crate::output::view::{self, Frame};
use crate::report;

/// How often to look while somebody watches.
const PAUSE: Duration = Duration::from_millis(250);
/// How often to look for runs that are new.
const SEARCH_EVERY: Millis = Millis::from_secs(3);
/// How long a run that is over is kept in memory after somebody asked for it.
const KEPT_FOR: Millis = Millis::from_secs(60);
/// Digits of the hash that tells projects apart.
const PROJECT_DIGITS: usize = 16;
/// The rows of the index, beside those of runs at work.
const ROWS_MAX: usize = 100;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Index {
    rows: Vec<Row>,
    left_out: usize,
    unread: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Row {
    address: String,
    id: String,
    project: String,
    tone: Tone,
    state: String,
    task: String,
    rest: String,
    now: Vec<String>,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct Shown {
    pub(super) run: String,
    /// Its name in the addresses of its pages.
    pub(super) address: String,
    pub(super) id: String,
    /// The command to type next.
    next: Option<String>,
    pub(super) project: String,
    #[serde(skip)]
    pub(super) dir: PathBuf,
    /// An engine works on it.
    pub(super) is_held: bool,
    is_plan: bool,
    pub(super) questions: Vec<Question>,
    pub(super) now: Vec<String>,
    /// What `ekiden-report` drew.
    #[serde(skip)]
    pub(super) main: String,
}

/// What a stage asks while it waits for an answer.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Question {
    pub(super) stage: String,
    pub(super) text: String,
    /// Tells it from a later question of this stage.
    pub(super) id: String,
}

enum Ask {
    Index(oneshot::Sender<Index>),
    Run(String, oneshot::Sender<Result<Shown, String>>),
    /// Somebody watches from now on, or will ask soon.
    Watch,
}

/// How often each run has changed since the program began, by its address; the index is the empty name.
type Versions = Arc<BTreeMap<String, u64>>;

/// The thread, as the server sees it. It ends when this is dropped.
#[derive(Debug, Clone)]
pub(super) struct Runs {
    asks: Sender<Ask>,
    versions: watch::Receiver<Versions>,
}

impl Runs {
    pub(super) fn start(user_dir: PathBuf) -> io::Result<Self> {
        let (asks, asked) = mpsc::channel();
        let (publish, versions) = watch::channel(Versions::default());
        let reader = Reader {
            user_dir,
            publish,
            searched: Timestamp(0),
            everywhere: Everywhere::of(Vec::new()),
            index: Index::default(),
            fault: None,
            rows: BTreeMap::new(),
            followed: BTreeMap::new(),
        };
        let thread = thread::Builder::new().name("dash-runs".to_owned());
        thread.spawn(move || reader.answer(&asked))?;
        // By the first page, the logs have been read.
        let _ = asks.send(Ask::Watch);
        Ok(Self { asks, versions })
    }

    pub(super) async fn index(&self) -> Option<Index> {
        let (answer, answered) = oneshot::channel();
        self.asks.send(Ask::Index(answer)).ok()?;
        answered.await.ok()
    }

    /// A run's page, or why there is none.
    pub(super) async fn run(&self, run: String) -> Option<Result<Shown, String>> {
        let (answer, answered) = oneshot::channel();
        self.asks.send(Ask::Run(run, answer)).ok()?;
        answered.await.ok()
    }

    /// How often things changed. While somebody holds this, the thread looks by itself.
    pub(super) fn watch(&self) -> watch::Receiver<Versions> {
        let watching = self.versions.clone();
        // If the thread is gone, nothing changes any more.
        let _ = self.asks.send(Ask::Watch);
        watching
    }
}

struct Reader {
    user_dir: PathBuf,
    publish: watch::Sender<Versions>,
    searched: Timestamp,
    everywhere: Everywhere,
    index: Index,
    /// The registry cannot be read.
    fault: Option<String>,
    /// Rows of runs that are over, each with the length of its log, by their addresses.
    rows: BTreeMap<String, (u64, Row)>,
    followed: BTreeMap<String, Followed>,
}

struct Followed {
    follow: Follow,
    timeline: Timeline,
    streams: Streams,
    /// How many sessions there were when the streams were read.
    sessions: usize,
    asked: Timestamp,
    /// The lines about now and the last record, when they were last looked at.
    seen: (Vec<String>, u64),
    drawn: Option<((u64, bool), String)>,
}

impl Reader {
    fn answer(mut self, asked: &Receiver<Ask>) {
        loop {
            // The server holds one of the receivers.
            let is_watched = self.publish.receiver_count() > 1;
            let ask = match is_watched {
                true => asked.recv_timeout(PAUSE),
                false => asked.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match ask {
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) | Ok(Ask::Watch) => self.look(),
                Ok(Ask::Index(answer)) => {
                    self.look();
                    let _ = answer.send(self.index.clone());
                }
                Ok(Ask::Run(run, answer)) => {
                    let _ = answer.send(self.show(&run));
                }
            }
        }
    }

    /// Looks at what may have changed, and tells who watches.
    fn look(&mut self) {
        let now = SystemClock.now();
        if now.since(self.searched) >= SEARCH_EVERY {
            self.searched = now;
            // Earlier finds are still there.
            match registry::projects(&self.user_dir, |_| true) {
                Ok(projects) => {
                    self.everywhere = Everywhere::of(projects);
                    self.fault = None;
                }
                Err(error) => self.fault = Some(format!("cannot {}", in_full(&error))),
            }
        }
        let mut versions = BTreeMap::clone(&self.publish.borrow());
        for (address, followed) in &mut self.followed {
            if followed.look() {
                *versions.entry(address.clone()).or_default() += 1;
            }
        }
        self.followed.retain(|_, followed| {
            followed.follow.status.is_held() || now.since(followed.asked) < KEPT_FOR
        });
        let index = self.indexed();
        if index != self.index {
            self.index = index;
            *versions.entry(String::new()).or_default() += 1;
        }
        if versions != **self.publish.borrow() {
            self.publish.send_replace(Arc::new(versions));
        }
    }

    fn indexed(&mut self) -> Index {
        let found = std::mem::take(&mut self.everywhere.runs);
        let held = found.iter().filter(|found| found.is_held()).count();
        let shown = found.iter().take(held + ROWS_MAX);
        let rows = shown.map(|found| self.row(found)).collect();
        let unread = self.everywhere.unread.iter().map(|project| {
            let why = project.found.as_ref().err().map(|why| in_full(why));
            let why = why.unwrap_or_default();
            format!("{} {why}", phrase::project(&project.dir))
        });
        let index = Index {
            rows,
            left_out: found.len().saturating_sub(held + ROWS_MAX),
            unread: self.fault.iter().cloned().chain(unread).collect(),
        };
        self.everywhere.runs = found;
        index
    }

    fn row(&mut self, found: &Found) -> Row {
        let address = address(found);
        if found.is_held()
            && let Ok(followed) = self.followed(found)
        {
            return Row {
                now: followed.in_short(),
                ..row(found, &followed.follow.status)
            };
        }
        let run = &found.listed.run;
        let bytes = history::log_bytes(&found.workspace, run).unwrap_or_default();
        if let Some((_, row)) = self.rows.get(&address).filter(|(at, _)| *at == bytes) {
            return row.clone();
        }
        let read = RunStatus::read(&found.workspace, run, found.holder.clone());
        let row = match read {
            Ok(status) => row(found, &status),
            Err(_) => unreadable(found, "unreadable".to_owned()),
        };
        self.rows.insert(address, (bytes, row.clone()));
        row
    }

    fn followed(&mut self, found: &Found) -> Result<&mut Followed, Failure> {
        Ok(match self.followed.entry(address(found)) {
            Entry::Occupied(followed) => followed.into_mut(),
            Entry::Vacant(place) => place.insert(Followed::begin(found)?),
        })
    }

    fn show(&mut self, asked: &str) -> Result<Shown, String> {
        self.look();
        let found = std::mem::take(&mut self.everywhere.runs);
        let shown = match found.iter().find(|found| address(found) == asked) {
            None => Err("There is no such run.".to_owned()),
            Some(found) => match self.followed(found) {
                Ok(followed) => Ok(followed.show(found)),
                Err(failure) => Err(failure.error().to_owned()),
            },
        };
        self.everywhere.runs = found;
        shown
    }
}

impl Followed {
    fn begin(found: &Found) -> Result<Self, Failure> {
        let mut timeline = None;
        let follow = Follow::begin(&found.workspace, &found.listed.run, |record, run| {
            timeline
                .get_or_insert_with(|| Timeline::new(run))
                .take(record, run);
        })?;
        let timeline = timeline.unwrap_or_else(|| Timeline::new(&follow.status.summary.run));
        Ok(Self {
            follow,
            timeline,
            streams: Streams::default(),
            sessions: 0,
            asked: SystemClock.now(),
            seen: (Vec::new(), 0),
            drawn: None,
        })
    }

    /// Reads on, and returns whether there is something new to see. A log that cannot be read on stays as it was.
    fn look(&mut self) -> bool {
        let timeline = &mut self.timeline;
        let _ = self.follow.look(|record, run| timeline.take(record, run));
        let seen = (self.now(), self.follow.status.summary.last.seq);
        let is_new = seen != self.seen;
        self.seen = seen;
        is_new
    }

    fn now(&self) -> Vec<String> {
        // For a plan they have the first question.
        let asked = |summary: &Summary| usize::from(summary.plan.is_some());
        self.lines_at_work(|board, frame| view::lines(board, None, frame), asked)
    }

    fn in_short(&self) -> Vec<String> {
        self.lines_at_work(
            |board, frame| view::line(board, frame).into_iter().collect(),
            |_| 0,
        )
    }

    /// Lines about a run at work, and its questions except the first ones, whose number `shown` gives.
    fn lines_at_work(
        &self,
        lines: impl FnOnce(&Board, Frame<'_>) -> Vec<Line>,
        shown: impl FnOnce(&Summary) -> usize,
    ) -> Vec<String> {
        let status = &self.follow.status;
        let Some(summary) = status.board.summary.as_ref().filter(|_| status.is_held()) else {
            return Vec::new();
        };
        let frame = Frame {
            now: SystemClock.now(),
            zone: &TimeZone::system(),
            columns: 200,
            rows: 60,
        };
        let asked = summary.asked.iter().skip(shown(summary));
        let asked = asked.map(|(stage, asked)| Line::attention(format!("{stage} asks: {asked}")));
        let lines = lines(&status.board, frame).into_iter().chain(asked);
        lines.map(|line| line.masked().plain()).collect()
    }

    fn questions(&self) -> Vec<Question> {
        let asked = self.follow.status.summary.run.questions();
        let question = |(stage, text): (&StageId, &str)| Question {
            stage: stage.to_string(),
            text: masked(text),
            id: sha256_hex(text.as_bytes()),
        };
        asked.map(question).collect()
    }

    fn show(&mut self, found: &Found) -> Shown {
        self.asked = SystemClock.now();
        let id = phrase::short_id(&found.listed.run, &found.ids);
        let (seq, is_held) = (
            self.follow.status.summary.last.seq,
            self.follow.status.is_held(),
        );
        if self.drawn.as_ref().map(|(of, _)| *of) != Some((seq, is_held)) {
            let main = self.draw(found, &id, is_held);
            self.drawn = Some(((seq, is_held), main));
        }
        let main = self.drawn.as_ref().map(|(_, main)| main.clone());
        let there = report::seen_from_elsewhere(Some(&found.workspace.dir));
        Shown {
            run: found.listed.run.to_string(),
            address: address(found),
            next: self.follow.status.next(&found.ids, &there),
            id,
            project: phrase::project(&found.workspace.dir),
            dir: found.workspace.dir.clone(),
            is_held,
            is_plan: self.timeline.is_plan,
            questions: self.questions(),
            now: self.now(),
            main: main.unwrap_or_default(),
        }
    }

    fn draw(&mut self, found: &Found, id: &str, is_held: bool) -> String {
        let run = &self.follow.status.summary.run;
        self.timeline.settle(run);
        if !is_held {
            self.timeline.cut_off();
        }
        let sessions = self.timeline.sessions().count();
        if sessions != self.sessions || !is_held {
            self.sessions = sessions;
            self.streams = report::streams(&found.workspace, &self.timeline);
        }
        let told = report::tell(&self.timeline, run, id, is_held, Some(&found.workspace.dir));
        let zone = TimeZone::system();
        render::main(&Page::new(&self.timeline, &self.streams, &told, &zone))
    }
}

/// What a run is called in the addresses of its pages: its id, and which project it is in, since a copied project has the
/// same runs.
fn address(found: &Found) -> String {
    let project = sha256_hex(found.workspace.dir.as_os_str().as_encoded_bytes());
    format!("{}-{}", found.listed.run, &project[..PROJECT_DIGITS])
}

fn row(found: &Found, status: &RunStatus) -> Row {
    let run = &status.summary.run;
    let (tone, state) = status.word();
    Row {
        tone: report::tone(tone),
        task: one_line(&run.task_names()),
        ..unreadable(found, state.to_owned())
    }
}

/// The row of a run of which only its beginning is known.
fn unreadable(found: &Found, state: String) -> Row {
    let started = found.listed.started;
    let zone = TimeZone::system();
    Row {
        address: address(found),
        id: phrase::short_id(&found.listed.run, &found.ids),
        project: phrase::project(&found.workspace.dir),
        tone: Tone::Failed,
        state,
        task: String::new(),
        rest: started.map_or(String::new(), |at| phrase::day_and_time(at, &zone)),
        now: Vec::new(),
    }
}
