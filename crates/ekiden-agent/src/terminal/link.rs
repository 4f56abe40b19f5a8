//! The task of one attempt in the client's own interface: its hooks, the engine's orders, its end.

use std::fs::File;
use std::io::{self, IsTerminal, Seek};
use std::path::PathBuf;
use std::time::Duration;

use ekiden_core::time::Millis;
use ekiden_wire::trace::Trace;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::launch;
use super::listener::{Listener, Question};
use super::talk::{Ending, Talk};
use super::unhooked::{Unhooked, last_response};
use crate::attempt::{AttemptSpec, Order, Report};
use crate::child::{Child, ChildEnd, spawn};

/// How often a session without hooks is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long the transcript may take to tell of a limit that a hook told of.
const LIMIT_PATIENCE: Duration = Duration::from_secs(3);

/// Carries an attempt out, from its start to its last report.
pub(super) async fn run(
    mut spec: AttemptSpec,
    orders: mpsc::UnboundedReceiver<Order>,
    reports: mpsc::Sender<Report>,
) {
    let unhooked = Unhooked::new(&spec.conversation.to_string());
    let last = match begin(&mut spec) {
        Ok(begun) => Link::new(&spec, unhooked, begun, orders, reports.clone()).run(spec).await,
        Err(why) => Report::unstarted(why),
    };
    // Nobody listens any more: then nobody needs it.
    let _ = reports.send(last).await;
}

fn begin(spec: &mut AttemptSpec) -> Result<(Child, Listener), String> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err("its own interface needs a terminal".to_owned());
    }
    let socket = socket(spec);
    let listener = Listener::bind(&socket)
        .map_err(|error| format!("cannot listen to hooks at {}: {error}", socket.display()))?;
    let ekiden =
        std::env::current_exe().map_err(|error| format!("cannot find the own executable: {error}"))?;
    let child = spawn(launch::child(spec, &ekiden, listener.socket())).map_err(|error| error.to_string())?;
    Ok((child, listener))
}

/// Beside the session's prompt, where only this user can reach it.
fn socket(spec: &AttemptSpec) -> PathBuf {
    spec.prompt_file.with_file_name("hooks.sock")
}

struct Link {
    child: Child,
    listener: Listener,
    orders: Option<mpsc::UnboundedReceiver<Order>>,
    reports: mpsc::Sender<Report>,
    talk: Talk,
    unhooked: Unhooked,
    started: Instant,
}

/// What the task woke for.
enum Woke {
    Asked(Question),
    Order(Option<Order>),
    Look,
    LimitUntold,
    End(ChildEnd),
}

impl Link {
    fn new(
        spec: &AttemptSpec,
        unhooked: Unhooked,
        (child, listener): (Child, Listener),
        orders: mpsc::UnboundedReceiver<Order>,
        reports: mpsc::Sender<Report>,
    ) -> Self {
        let talk = Talk::new(spec.conversation, spec.attempt.session.get(), spec.prompt_file.clone());
        let started = Instant::now();
        Self { child, listener, orders: Some(orders), reports, talk, unhooked, started }
    }

    async fn run(mut self, mut spec: AttemptSpec) -> Report {
        if let Some(pid) = self.child.started().await {
            self.tell(Report::Started { pid }).await;
        }
        let mut limit_by = None;
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let end = loop {
            while let Some(report) = self.talk.next_report() {
                self.tell(report).await;
            }
            let hooked = self.talk.is_hooked();
            let waits_for_limit = self.talk.failure().waits_for_limit();
            let untold =
                waits_for_limit.then(|| *limit_by.get_or_insert_with(|| Instant::now() + LIMIT_PATIENCE));
            limit_by = untold;
            let woke = tokio::select! {
                biased;
                order = next_order(&mut self.orders) => Woke::Order(order),
                question = self.listener.next() => Woke::Asked(question),
                end = self.child.wait() => Woke::End(end),
                _ = looks.tick(), if !hooked => Woke::Look,
                () = sleep_until(untold.unwrap_or(self.started)), if waits_for_limit => Woke::LimitUntold,
            };
            match woke {
                Woke::Asked(question) => {
                    self.talk.ask(question, last_response);
                    if waits_for_limit && self.tells_limit() {
                        self.talk.limit_is_known();
                    }
                }
                Woke::Order(order) => self.obey(order),
                Woke::Look => self.unhooked.look(&mut self.talk),
                Woke::LimitUntold => self.talk.limit_is_known(),
                Woke::End(end) => break end,
            }
        };
        let duration = Millis(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX));
        let traces = self.talk.left(&self.keep_transcript(&mut spec));
        while let Some(report) = self.talk.next_report() {
            self.tell(report).await;
        }
        self.talk.ended(end, duration, traces)
    }

    fn tells_limit(&self) -> bool {
        self.talk.transcript().is_some_and(|transcript| self.unhooked.tells_limit(transcript))
    }

    /// An engine that is gone wants nothing to live on.
    async fn tell(&mut self, report: Report) {
        if self.reports.send(report).await.is_err() {
            self.end(Ending::Stopped);
        }
    }

    fn obey(&mut self, order: Option<Order>) {
        match order {
            // It has its first message from the command line, and begins with a request to its service.
            Some(Order::Begin) => {}
            Some(Order::Say(text)) => self.talk.say(text),
            Some(Order::Answer { callback, answer }) => self.talk.answer(&callback, &answer),
            Some(Order::Close) => self.end(Ending::Done),
            // A turn cannot be ended from outside without ending the client.
            Some(Order::Interrupt | Order::Terminate) => self.end(Ending::Stopped),
            None => {
                self.orders = None;
                self.end(Ending::Stopped);
            }
        }
    }

    fn end(&mut self, how: Ending) {
        self.talk.ending(how);
        self.child.terminate();
    }

    /// The transcript is what an event stream is headless: kept, and read for what it shows. Either may
    /// fail; that costs a note, no session.
    fn keep_transcript(&self, spec: &mut AttemptSpec) -> Trace {
        let found = self.talk.transcript().or_else(|| self.unhooked.transcript());
        let Some(mut transcript) = found.and_then(|path| File::open(path).ok()) else {
            return Trace::default();
        };
        let _ = io::copy(&mut transcript, &mut spec.raw);
        let read = transcript.rewind().and_then(|()| Trace::from_transcript(transcript));
        read.unwrap_or_default()
    }
}

async fn next_order(orders: &mut Option<mpsc::UnboundedReceiver<Order>>) -> Option<Order> {
    match orders {
        Some(orders) => orders.recv().await,
        None => std::future::pending().await,
    }
}
