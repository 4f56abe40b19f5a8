//! Usage limits that one worker meets hold all that share the account.
//!
//! ```text
//! a session meets one ──► note in the attempt's place ──► signal ──► workflow
//! other attempts: query the workflow ──► notes in their places ──► their engines begin no session
//! ```

use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use ekiden_core::ids::RunId;
use ekiden_engine::clock::{Clock as _, SystemClock};
use ekiden_engine::known_limits::{self, Limit};
use temporalio_client::{Client, WorkflowHandle, WorkflowQueryOptions, WorkflowSignalOptions};

use crate::base::Base;
use crate::order::{Limited, PlanSignal, workflow};
use crate::workflow::FleetPlan;

/// How often limits are passed on.
const LOOK: Duration = Duration::from_secs(5);
/// What the workflow has to answer within.
const PATIENCE: Duration = Duration::from_secs(10);

/// What one attempt passes on, and what it lets its engine know.
pub(crate) struct Sharing<'a> {
    base: &'a Base,
    handle: WorkflowHandle<Client, FleetPlan>,
    run: RunId,
    /// Where the attempt's engine notes limits and looks for them.
    dir: PathBuf,
    passed_on: Vec<Limit>,
}

impl<'a> Sharing<'a> {
    pub(crate) fn new(base: &'a Base, run: &RunId, dir: PathBuf) -> Self {
        Self {
            base,
            handle: base.client.get_workflow_handle::<FleetPlan>(workflow(run)),
            run: run.clone(),
            dir,
            passed_on: Vec::new(),
        }
    }

    /// Looks for as long as anybody waits.
    pub(crate) async fn go_on(mut self) -> Infallible {
        loop {
            tokio::time::sleep(LOOK).await;
            self.look().await;
        }
    }

    /// Passes on what the attempt met, and notes what others met. Without an answer nothing is noted: an agent that meets
    /// the limit itself is refused by its service.
    pub(crate) async fn look(&mut self) {
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
        let asked = self.handle.query(FleetPlan::limits, (), options);
        let Ok(Ok(known)) = tokio::time::timeout(PATIENCE, asked).await else {
            return;
        };
        let ours = known
            .into_iter()
            .filter(|limited| limited.account == self.base.account);
        for limited in ours.filter(|limited| !self.passed_on.contains(&limited.limit)) {
            if let Err(error) = known_limits::note(&self.dir, &limited.limit, now) {
                crate::say(&format!("a usage limit is not noted: {error}"));
            }
        }
    }
}
