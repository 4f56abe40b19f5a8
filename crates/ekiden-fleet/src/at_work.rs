//! What a stage at work sends the server with each heartbeat: its spending, for the plan, and its session's
//! activity, for followers.
//!
//! ```text
//! engine ──line──► attempt ──heartbeat──► server ──► follower: at-work.json ──► status, attach, dash
//! ```
//!
//! Heartbeats are not part of the history, so they cost the plan nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::successors;

use ekiden_core::ids::StageId;
use ekiden_core::secrets::mask;
use ekiden_core::text::one_line;
use ekiden_engine::observer::Activity;
use ekiden_engine::remote_run::AtWork;
use serde::{Deserialize, Serialize};
use temporalio_common::protos::temporal::api::enums::v1::PendingActivityState;
use temporalio_common::protos::temporal::api::failure::v1::Failure;
use temporalio_common::protos::temporal::api::failure::v1::failure::FailureInfo;
use temporalio_common::protos::temporal::api::workflowservice::v1::DescribeWorkflowExecutionResponse;

use crate::shares::Spent;

/// The longest report of what a session does.
const DOING_CHARS_MAX: usize = 120;
const STAGE: &str = "stage/";

/// What the server keeps of a stage until it is over, including for its next attempt.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Heartbeat {
    #[serde(flatten)]
    pub(crate) spent: Spent,
    /// How often a worker without a free slot gave it back. These do not count as tries.
    #[serde(default)]
    pub(crate) given_back: u32,
    /// How often the remote was unreachable, or the worker's agent could not work. For some hours, these do
    /// not count as tries either.
    #[serde(default)]
    pub(crate) away: u32,
    /// The workers whose agents cannot do it, by identity, and the accounts.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) unable: BTreeSet<String>,
    /// `None` while no session works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) now: Option<AtWork>,
}

pub(crate) fn activity(stage: &StageId, round: u32) -> String {
    format!("{STAGE}{stage}/{round}")
}

/// What the sessions of all stages do, as last reported by their workers.
pub(crate) fn sessions(told: &DescribeWorkflowExecutionResponse) -> BTreeMap<StageId, AtWork> {
    let started = i32::from(PendingActivityState::Started);
    let at_work = told.pending_activities.iter();
    let at_work = at_work.filter(|activity| activity.state == started);
    let seen = at_work.filter_map(|activity| {
        let (stage, _round) = activity.activity_id.strip_prefix(STAGE)?.rsplit_once('/')?;
        let told = activity.heartbeat_details.as_ref()?.payloads.first()?;
        let beat: Heartbeat = serde_json::from_slice(&told.data).ok()?;
        Some((StageId::try_from(stage.to_owned()).ok()?, beat.now?))
    });
    seen.collect()
}

/// Why the last try failed, for each stage and merge that is to be tried again.
pub(crate) fn failures(
    told: &DescribeWorkflowExecutionResponse,
) -> impl Iterator<Item = (&str, &str)> {
    told.pending_activities.iter().filter_map(|activity| {
        let failure = activity.last_failure.as_ref()?;
        let is_silent = matches!(
            failure.failure_info,
            Some(FailureInfo::TimeoutFailureInfo(_))
        );
        let why = match is_silent {
            true => "the worker fell silent",
            false => failure.message.as_str(),
        };
        Some((activity.activity_id.as_str(), why))
    })
}

/// What a worker had spent at its last report, if it fell silent.
pub(crate) fn last_beat(failure: &Failure) -> Option<Spent> {
    let failures = successors(Some(failure), |failure| failure.cause.as_deref());
    let beats = failures.filter_map(|failure| {
        let Some(FailureInfo::TimeoutFailureInfo(timeout)) = &failure.failure_info else {
            return None;
        };
        timeout.last_heartbeat_details.as_ref()
    });
    let told = beats.flat_map(|beat| &beat.payloads).next()?;
    let beat: Heartbeat = serde_json::from_slice(&told.data).ok()?;
    Some(beat.spent)
}

/// Takes in what happens in a session. Returns whether there is something to report.
pub(crate) fn note(at_work: &mut AtWork, activity: &Activity, dir: &str) -> bool {
    let doing = match activity {
        Activity::Tool { name, target, .. } => format!("{name} {}", target.replace(dir, "")),
        Activity::Words(words) => words.clone(),
        Activity::Retry { attempt, error } => {
            format!("asking the service again ({attempt}): {error}")
        }
        Activity::Subagents(count) => {
            at_work.subagents = *count;
            return true;
        }
        Activity::ToolEnded { .. } | Activity::Warning(_) => return false,
    };
    at_work.doing = one_line(&mask(&doing), DOING_CHARS_MAX);
    true
}

#[cfg(test)]
mod tests {
    use ekiden_core::ids::{AttemptId, SessionNumber};
    use temporalio_common::protos::temporal::api::common::v1::{Payload, Payloads};
    use temporalio_common::protos::temporal::api::failure::v1::TimeoutFailureInfo;
    use temporalio_common::protos::temporal::api::workflow::v1::PendingActivityInfo;

    use super::*;

    fn at_work() -> AtWork {
        AtWork::new(AttemptId::first(SessionNumber::FIRST), "atlas".to_owned())
    }

    fn pending(id: &str, state: PendingActivityState, beat: &Heartbeat) -> PendingActivityInfo {
        let data = serde_json::to_vec(beat).unwrap();
        let payload = Payload {
            data,
            ..Payload::default()
        };
        PendingActivityInfo {
            activity_id: id.to_owned(),
            state: state.into(),
            heartbeat_details: Some(Payloads {
                payloads: vec![payload],
            }),
            ..PendingActivityInfo::default()
        }
    }

    // shows: FLT-03
    #[test]
    fn only_sessions_at_work_are_seen() {
        let works = Heartbeat {
            now: Some(at_work()),
            ..Heartbeat::default()
        };
        let (started, waits) = (
            PendingActivityState::Started,
            PendingActivityState::Scheduled,
        );
        let told = DescribeWorkflowExecutionResponse {
            pending_activities: vec![
                pending("stage/A/1", started, &works),
                pending("stage/waits-for-its-next-attempt/2", waits, &works),
                pending("stage/has-no-session/1", started, &Heartbeat::default()),
                pending("merge/B/1", started, &works),
            ],
            ..DescribeWorkflowExecutionResponse::default()
        };
        let seen = sessions(&told);
        let stage = StageId::try_from("A".to_owned()).unwrap();
        assert_eq!(seen, BTreeMap::from([(stage, at_work())]));
    }

    // shows: FLT-02, FLT-03
    #[test]
    fn what_is_tried_again_says_why() {
        let failed = |id: &str, message: &str, failure_info| PendingActivityInfo {
            last_failure: Some(Failure {
                message: message.to_owned(),
                failure_info,
                ..Failure::default()
            }),
            ..pending(id, PendingActivityState::Scheduled, &Heartbeat::default())
        };
        let silent = FailureInfo::TimeoutFailureInfo(TimeoutFailureInfo::default());
        let told = DescribeWorkflowExecutionResponse {
            pending_activities: vec![
                failed("stage/A/1", "the disk is full", None),
                failed("merge/B/2", "activity Heartbeat timeout", Some(silent)),
                pending(
                    "stage/C/1",
                    PendingActivityState::Started,
                    &Heartbeat::default(),
                ),
            ],
            ..DescribeWorkflowExecutionResponse::default()
        };
        let failures = failures(&told).collect::<Vec<_>>();
        let silent = ("merge/B/2", "the worker fell silent");
        assert_eq!(failures, [("stage/A/1", "the disk is full"), silent]);
    }

    // shows: MEM-12
    #[test]
    fn what_is_told_is_one_short_line_without_secrets_and_without_the_place_of_the_clone() {
        let mut seen = at_work();
        let mut told = |name: &str, target: &str| {
            let activity = Activity::Tool {
                call: String::new(),
                name: name.to_owned(),
                target: target.to_owned(),
            };
            assert!(note(&mut seen, &activity, "/place/tree/"));
            seen.doing.clone()
        };
        assert_eq!(told("Edit", "/place/tree/src/a.rs"), "Edit src/a.rs");
        let secret = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
        let said = told("Bash", &format!("curl -H {secret}\n{}", "x".repeat(500)));
        assert!(!said.contains(&secret) && !said.contains('\n'), "{said}");
        assert!(said.chars().count() <= DOING_CHARS_MAX + 1, "{said}");
    }
}
