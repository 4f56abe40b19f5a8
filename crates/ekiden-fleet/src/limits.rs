//! Usage limits that one worker meets hold all that share the account.
//!
//! ```text
//! a session meets one ──► note in the attempt's place ──► signal ──► workflow
//! other attempts: query the workflow ──► notes in their places ──► their engines begin no session
//! ```

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use ekiden_core::ids::RunId;
use ekiden_core::time::Timestamp;
use ekiden_engine::clock::{Clock as _, SystemClock};
use ekiden_engine::known_limits::{self, Limit};
use temporalio_client::{WorkflowQueryOptions, WorkflowSignalOptions};

use crate::attempt::Base;
use crate::order::{Limited, PlanSignal, workflow};
use crate::workflow::FleetPlan;

/// How often limits are passed on.
const LOOK: Duration = Duration::from_secs(5);
/// What the workflow has to answer within.
const PATIENCE: Duration = Duration::from_secs(10);

/// The limits of all accounts, as the workflow knows them.
#[derive(Debug, Default)]
pub(crate) struct Limits(BTreeMap<String, Limited>);

impl Limits {
    /// Takes in one that was met. Those that are lifted by then go.
    pub(crate) fn note(&mut self, limited: Limited, now: Timestamp) {
        self.0.retain(|_, known| known.limit.resets_at > now);
        let Limit {
            agent,
            kind,
            resets_at,
        } = &limited.limit;
        let name = format!(
            "{} {} {:?} {kind:?}",
            limited.account, agent.name, agent.model
        );
        let known = self.0.get(&name);
        if known.is_none_or(|known| known.limit.resets_at < *resets_at) {
            self.0.insert(name, limited);
        }
    }

    pub(crate) fn all(&self) -> Vec<Limited> {
        self.0.values().cloned().collect()
    }
}

/// Passes on what an attempt meets, and lets it know what others met, for as long as anybody waits. Without an answer it
/// tries again: an agent that meets the limit itself is refused by its service.
pub(crate) async fn share(base: &Base, run: &RunId, dir: PathBuf) -> Infallible {
    let handle = base.client.get_workflow_handle::<FleetPlan>(workflow(run));
    let mut passed_on = Vec::new();
    loop {
        tokio::time::sleep(LOOK).await;
        let now = SystemClock.now();
        for limit in known_limits::met(&dir, run, now) {
            if passed_on.contains(&limit) {
                continue;
            }
            let account = base.account.clone();
            let limited = Limited {
                account,
                limit: limit.clone(),
            };
            let signal = PlanSignal::Limited { limit: limited };
            let options = WorkflowSignalOptions::default();
            if handle
                .signal(FleetPlan::tell, signal, options)
                .await
                .is_ok()
            {
                passed_on.push(limit);
            }
        }
        let options = WorkflowQueryOptions::default();
        let asked = handle.query(FleetPlan::limits, (), options);
        let Ok(Ok(known)) = tokio::time::timeout(PATIENCE, asked).await else {
            continue;
        };
        let ours = known
            .into_iter()
            .filter(|limited| limited.account == base.account);
        for limited in ours.filter(|limited| !passed_on.contains(&limited.limit)) {
            if let Err(error) = known_limits::note(&dir, &limited.limit, now) {
                crate::say(&format!("a usage limit is not noted: {error}"));
            }
        }
    }
}
