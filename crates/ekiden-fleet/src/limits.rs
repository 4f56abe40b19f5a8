//! What an attempt passes on while its engine works. A usage limit that one worker hits stops everyone who
//! shares the account, and people's messages to the stages reach each engine.
//!
//! ```text
//! a session meets a limit ──► note in the attempt's place ──► signal ──► workflow
//! other attempts: query the workflow ──► notes in their places ──► their engines begin no session
//!                                   └──► messages ──► their engines
//! ```

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use ekiden_core::ids::{MessageId, RunId};
use ekiden_core::steering::{Steered, Steering};
use ekiden_engine::clock::{Clock as _, SystemClock};
use ekiden_engine::known_limits::{self, Limit};
use temporalio_client::{Client, WorkflowHandle, WorkflowQueryOptions, WorkflowSignalOptions};
use tokio::sync::mpsc;

use crate::messages::Messages;
use crate::order::{Limited, PlanSignal, workflow};
use crate::worker_context::WorkerContext;
use crate::workflow::FleetPlan;

/// How often something is passed on.
const LOOK: Duration = Duration::from_secs(5);
/// The time limit for the workflow's answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// What one attempt passes on, and what it lets its engine know.
pub(crate) struct Sharing<'a> {
    base: &'a WorkerContext,
    handle: WorkflowHandle<Client, FleetPlan>,
    run: RunId,
    /// Where the attempt's engine notes limits and looks for them.
    dir: PathBuf,
    passed_on: Vec<Limit>,
    /// Messages that the engine has got or should not get; `None` before the first answer.
    known: Option<BTreeSet<MessageId>>,
}

impl<'a> Sharing<'a> {
    pub(crate) fn new(base: &'a WorkerContext, run: &RunId, dir: PathBuf) -> Self {
        Self {
            base,
            handle: base.client.get_workflow_handle::<FleetPlan>(workflow(run)),
            run: run.clone(),
            dir,
            passed_on: Vec::new(),
            known: None,
        }
    }

    /// Polls as long as somebody is waiting, and yields messages as they come.
    pub(crate) async fn go_on(mut self, engine: mpsc::Sender<Steered>) -> Infallible {
        loop {
            tokio::time::sleep(LOOK).await;
            let Some(messages) = self.look().await else {
                continue;
            };
            for message in self.unheard(&messages) {
                // An engine that has exited reads nothing more.
                let _ = engine.send(message).await;
            }
        }
    }

    /// The same before an engine starts, which then gets all of it.
    pub(crate) async fn begin(&mut self) -> Option<Messages> {
        let messages = self.look().await?;
        self.unheard(&messages);
        Some(messages)
    }

    /// What the engine has not been given. An order to hand off that existed before the first answer was
    /// not for any of its sessions.
    fn unheard(&mut self, messages: &Messages) -> Vec<Steered> {
        let is_first = self.known.is_none();
        let known = self.known.get_or_insert_default();
        let new = messages.all().filter(|message| {
            let is_late = is_first && message.steering == Steering::HandOff;
            known.insert(message.message.clone()) && !is_late
        });
        new.cloned().collect()
    }

    /// Passes on the limits that the attempt hit, notes those that others hit, and returns the messages for
    /// stages. Without an answer it notes nothing: an agent that hits the limit itself is refused by its
    /// service.
    async fn look(&mut self) -> Option<Messages> {
        let now = SystemClock.now();
        for limit in known_limits::met(&self.dir, &self.run, now) {
            if self.passed_on.contains(&limit) {
                continue;
            }
            let limited = Limited {
                account: self.base.account.clone(),
                limit: limit.clone(),
            };
            let signal = PlanSignal::Limited { limit: limited };
            let options = WorkflowSignalOptions::default();
            let told = self.handle.signal(FleetPlan::tell, signal, options).await;
            if told.is_ok() {
                self.passed_on.push(limit);
            }
        }
        let options = WorkflowQueryOptions::default();
        let asked = self.handle.query(FleetPlan::for_attempts, (), options);
        let answered = tokio::time::timeout(PATIENCE, asked).await.ok()?;
        let known = answered.ok()?;
        let is_ours = |limited: &Limited| limited.account == self.base.account;
        let ours = known.limits.into_iter().filter(is_ours);
        for limited in ours.filter(|limited| !self.passed_on.contains(&limited.limit)) {
            if let Err(error) = known_limits::note(&self.dir, &limited.limit, now) {
                crate::say(&format!("a usage limit is not noted: {error}"));
            }
        }
        // Text would make an agent do what nobody has signed.
        Some(match self.base.trusted_keys {
            Some(_) => known.messages.without_words(),
            None => known.messages,
        })
    }
}
