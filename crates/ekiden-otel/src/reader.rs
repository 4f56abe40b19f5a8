//! The thread that reads the log and sends its spans and metrics.
//!
//! The log is the queue: a nudge carries no data, so nothing is lost on the way, and a nudge that finds
//! another one waiting is dropped. Unsent spans are kept, up to [`SPANS_MAX`], and retried.

use std::collections::VecDeque;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use ekiden_core::ids::{RunId, StageId};
use ekiden_core::record::Record;
use ekiden_core::run::Run;
use ekiden_core::text::in_full;
use ekiden_engine::clock::{Clock as _, SystemClock};
use ekiden_engine::history;
use ekiden_engine::observer::Activity;
use ekiden_engine::workspace::Workspace;
use ekiden_report::phrase::count;
use opentelemetry_sdk::trace::SpanData;

use crate::calls::Calls;
use crate::export::{Client, Endpoints, Exporters};
use crate::spans::Trace;

/// How long a finished run waits for what is not sent.
pub const AT_END: Duration = Duration::from_secs(2);
/// How many spans are kept while nobody accepts them; older ones are dropped.
const SPANS_MAX: usize = 20_000;
/// Spans in one request.
const BATCH_MAX: usize = 512;
/// How many spans of calls may wait for the thread.
const CALLS_MAX: usize = 1_000;
/// When to retry what could not be sent, if nothing happens.
const RETRY: Duration = Duration::from_secs(10);

/// Sends the spans and metrics of a run while it works. Dropped without [`Telemetry::finish`], it sends
/// what the thread still can.
pub struct Telemetry {
    endpoints: Endpoints,
    workspace: Workspace,
    work: Option<ExportThread>,
}

struct ExportThread {
    nudges: SyncSender<()>,
    calls: Calls,
    /// Spans of calls. If the thread does not keep up, they are dropped.
    over: SyncSender<SpanData>,
    /// Closed when the thread is done.
    done: Receiver<()>,
    client: Client,
    unsent: Arc<Mutex<Unsent>>,
}

#[derive(Debug, Default)]
struct Unsent {
    spans: usize,
    why: Option<String>,
}

impl Telemetry {
    pub fn new(endpoints: Endpoints, workspace: Workspace) -> Self {
        Self {
            endpoints,
            workspace,
            work: None,
        }
    }

    /// A record is on disk. Returns at once.
    pub fn recorded(&mut self, record: &Record, run: &Run) {
        if self.work.is_none() {
            self.work = self.start(record.seq, run);
        }
        if let Some(work) = &mut self.work {
            work.calls.recorded(record);
            let _ = work.nudges.try_send(());
        }
    }

    /// Something happens in a session. Returns at once.
    pub fn activity(&mut self, stage: &StageId, activity: &Activity) {
        if let Some(work) = &mut self.work
            && let Some(span) = work.calls.take(stage, activity, SystemClock.now())
        {
            let _ = work.over.try_send(span);
        }
    }

    /// Waits up to [`AT_END`] for what is not sent, and reports the rest.
    pub fn finish(self) -> Option<String> {
        let work = self.work?;
        drop(work.nudges);
        let is_done = work.done.recv_timeout(AT_END) != Err(RecvTimeoutError::Timeout);
        let unsent = work.unsent.lock().unwrap_or_else(PoisonError::into_inner);
        let why = unsent.why.clone().unwrap_or_else(|| work.client.why());
        match (is_done, unsent.spans) {
            (true, 0) if unsent.why.is_none() => None,
            (true, 0) => Some(format!("telemetry is not sent: {why}")),
            (true, spans) => {
                let spans = count(spans as u64, "span");
                Some(format!("telemetry: {spans} not sent: {why}"))
            }
            (false, _) => Some(format!("telemetry: not everything is sent: {why}")),
        }
    }

    /// Counts in metrics what is recorded from `first` on; another process counted what came before.
    fn start(&self, first: u64, run: &Run) -> Option<ExportThread> {
        let (nudges, nudged) = mpsc::sync_channel(1);
        let (over, calls) = mpsc::sync_channel(CALLS_MAX);
        let (ending, done) = mpsc::channel();
        let (client, unsent) = (Client::default(), Arc::new(Mutex::new(Unsent::default())));
        let reader = Reader {
            endpoints: self.endpoints.clone(),
            workspace: self.workspace.clone(),
            run: run.header().run.clone(),
            calls,
            first,
            client: client.clone(),
            unsent: Arc::clone(&unsent),
        };
        let work = move || {
            if let Err(why) = reader.work(&nudged) {
                reader.tell(0, Some(why));
            }
            drop(ending);
        };
        let thread = thread::Builder::new().name("telemetry".to_owned());
        thread.spawn(work).ok()?;
        Some(ExportThread {
            nudges,
            calls: Calls::new(run),
            over,
            done,
            client,
            unsent,
        })
    }
}

struct Reader {
    endpoints: Endpoints,
    workspace: Workspace,
    run: RunId,
    calls: Receiver<SpanData>,
    first: u64,
    client: Client,
    unsent: Arc<Mutex<Unsent>>,
}

impl Reader {
    fn work(&self, nudged: &Receiver<()>) -> Result<(), String> {
        let exporters = self.endpoints.exporters(self.run.as_str(), &self.client);
        let exporters = exporters.map_err(|fault| fault.to_string())?;
        let mut fold = Fold {
            first: self.first,
            exporters,
            trace: None,
            queue: Queue::default(),
        };
        let cannot = |error| format!("cannot {}", in_full(&error));
        let read = history::follow(&self.workspace, &self.run, |record, run| {
            fold.take(record, run);
        });
        let (mut summary, mut follower) = read.map_err(cannot)?;
        loop {
            let is_over = nudged.recv_timeout(RETRY) == Err(RecvTimeoutError::Disconnected);
            let read = follower.read_on(&mut summary, |record, run| fold.take(record, run));
            read.map_err(cannot)?;
            fold.queue.add(self.calls.try_iter().collect());
            self.send(&mut fold);
            if is_over {
                let flushed = fold.exporters.flush();
                // The reason why spans failed is reported already.
                return flushed.or_else(|why| match fold.queue.unsent() {
                    0 => Err(why),
                    _ => Ok(()),
                });
            }
        }
    }

    fn send(&self, fold: &mut Fold) {
        self.tell(fold.queue.unsent(), fold.queue.refused.clone());
        while !fold.queue.spans.is_empty() {
            let sent = fold.exporters.send(fold.queue.batch());
            match sent {
                Err(why) if self.client.refuses() => fold.queue.lose(BATCH_MAX, why),
                Err(why) => return self.tell(fold.queue.unsent(), Some(why)),
                Ok(()) => match self.client.rejected() {
                    0 => {}
                    spans => fold
                        .queue
                        .lose(spans, "the endpoint rejects them".to_owned()),
                },
            }
            fold.queue.drop_batch();
            self.tell(fold.queue.unsent(), fold.queue.refused.clone());
        }
    }

    fn tell(&self, spans: usize, why: Option<String>) {
        let mut unsent = self.unsent.lock().unwrap_or_else(PoisonError::into_inner);
        *unsent = Unsent { spans, why };
    }
}

/// The spans and metrics of the log so far.
struct Fold {
    first: u64,
    exporters: Exporters,
    trace: Option<Trace>,
    queue: Queue,
}

impl Fold {
    fn take(&mut self, record: &Record, run: &Run) {
        let trace = self.trace.get_or_insert_with(|| Trace::new(run));
        trace.take(record, run);
        let measures = std::mem::take(&mut trace.measures);
        if record.seq >= self.first {
            let exporters = &self.exporters;
            measures
                .iter()
                .for_each(|measure| exporters.record(measure));
        }
        self.queue.add(trace.spans());
    }
}

#[derive(Default)]
struct Queue {
    spans: VecDeque<SpanData>,
    dropped: usize,
    /// Why the endpoint will never have some of them.
    refused: Option<String>,
}

impl Queue {
    fn add(&mut self, spans: Vec<SpanData>) {
        self.spans.extend(spans);
        let over = self.spans.len().saturating_sub(SPANS_MAX);
        self.spans.drain(..over);
        self.dropped += over;
    }

    fn batch(&self) -> Vec<SpanData> {
        self.spans.iter().take(BATCH_MAX).cloned().collect()
    }

    fn drop_batch(&mut self) {
        self.spans.drain(..self.spans.len().min(BATCH_MAX));
    }

    /// So many of the next spans are not tried again.
    fn lose(&mut self, spans: usize, why: String) {
        self.dropped += self.spans.len().min(spans);
        self.refused = Some(why);
    }

    fn unsent(&self) -> usize {
        self.spans.len() + self.dropped
    }
}
