//! `checkpoint-state.json`: a watched session for other programs.
//!
//! The field names are those of the Context Checkpoint System's document, followed by ekiden's additions.
//! Percentages are of the usable window.

use serde::Serialize;
use serde_json::{Map, Value};

use super::watch::Watch;
use super::{Direction, Level, Levels, Reading};
use crate::time::Timestamp;

/// The version of the file's fields.
const VERSION: &str = "1.0.0";

/// What other programs can read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointState {
    version: &'static str,
    session_id: String,
    started_at: Option<String>,
    current_level: Level,
    context_percent: u64,
    context_tokens: u64,
    window_tokens: u64,
    usable_tokens: u64,
    context_trend: Direction,
    tokens_per_minute: Option<i64>,
    estimated_time_to_l1: Option<String>,
    estimated_time_to_l2: Option<String>,
    estimated_time_to_l3: Option<String>,
    checkpoint: &'static str,
    linear_issue: Option<String>,
    last_checkpoint: Option<LastCheckpointState>,
    uncommitted_changes: Option<bool>,
    modified_files: Vec<String>,
    updated_at: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct LastCheckpointState {
    timestamp: String,
    handoff_file: String,
    reason: &'static str,
}

impl CheckpointState {
    /// `session_id` is the client's id; `issue` the one that the work belongs to.
    pub fn new(
        session_id: &str,
        watch: &Watch,
        reading: &Reading,
        levels: Levels,
        issue: Option<String>,
        now: Timestamp,
    ) -> Self {
        let trend = reading.trend();
        let last = watch.last.as_ref();
        let time_to = |level| reading.time_to(levels, level).map(|time| time.to_string());
        Self {
            version: VERSION,
            session_id: session_id.to_owned(),
            started_at: watch.since.map(Timestamp::rfc3339),
            current_level: reading.level(levels),
            context_percent: reading.percent(),
            context_tokens: reading.used_tokens,
            window_tokens: reading.window.model_tokens,
            usable_tokens: reading.window.usable_tokens(),
            context_trend: trend.direction,
            tokens_per_minute: trend.tokens_per_minute,
            estimated_time_to_l1: time_to(Level::L1),
            estimated_time_to_l2: time_to(Level::L2),
            estimated_time_to_l3: time_to(Level::L3),
            checkpoint: watch.word(),
            linear_issue: issue.or_else(|| last?.taken.issue.clone()),
            last_checkpoint: last.map(|last| LastCheckpointState {
                timestamp: last.at.rfc3339(),
                handoff_file: last.taken.document.clone(),
                reason: last.taken.reason.name(),
            }),
            uncommitted_changes: last.map(|last| !last.taken.modified_files.is_empty()),
            modified_files: last
                .map(|last| last.taken.modified_files.clone())
                .unwrap_or_default(),
            updated_at: now.rfc3339(),
        }
    }

    /// Whether the file can stay: only its time would change, or it is about another session and this one is not active.
    pub fn is_current_in(&self, file: &[u8], is_active: bool) -> bool {
        let mut before: Map<String, Value> = serde_json::from_slice(file).unwrap_or_default();
        let Ok(Value::Object(state)) = serde_json::to_value(self) else {
            return false;
        };
        let session = before.get("sessionId");
        let is_of_other = session.is_some() && session != state.get("sessionId");
        before.insert("updatedAt".to_owned(), state["updatedAt"].clone());
        before == state || is_of_other && !is_active
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::checkpoint::CheckpointReason;
    use crate::guard::watch::{Taken, WatchEvent, WatchRecord};
    use crate::guard::{Profile, Sample, Window};

    // shows: CHK-13, MON-003
    #[test]
    fn every_field_of_the_spec_is_there() {
        let at = |secs: u64| Timestamp(1_780_000_000_000 + secs * 1000);
        let taken = Taken {
            reason: CheckpointReason::Manual,
            document: ".ekiden/handoffs/2026-11-21-1045.md".to_owned(),
            used_tokens: 120_150,
            commit: None,
            modified_files: vec!["src/api.rs".to_owned()],
            issue: Some("ANV-123".to_owned()),
        };
        let records = [WatchEvent::Waited, WatchEvent::Taken(taken)]
            .map(|event| WatchRecord { time: at(0), event });
        let sample = |secs, used_tokens| Sample {
            at: at(secs),
            used_tokens,
        };
        let window = Window {
            model_tokens: 200_000,
            compaction_tokens: None,
            reserve_tokens: 33_000,
            cap_tokens: None,
        };
        let reading = Reading {
            used_tokens: 121_000,
            window,
            samples: vec![sample(0, 120_150), sample(60, 121_000)],
        };
        let (watch, levels) = (Watch::fold(&records), Profile::Watch.levels());
        let state = CheckpointState::new("abc123", &watch, &reading, levels, None, at(60));
        expect_test::expect![[r#"
            {
              "version": "1.0.0",
              "sessionId": "abc123",
              "startedAt": "2026-05-28T20:26:40Z",
              "currentLevel": "L1",
              "contextPercent": 72,
              "contextTokens": 121000,
              "windowTokens": 200000,
              "usableTokens": 167000,
              "contextTrend": "stable",
              "tokensPerMinute": 850,
              "estimatedTimeToL1": null,
              "estimatedTimeToL2": "25m",
              "estimatedTimeToL3": "44m",
              "checkpoint": "Done",
              "linearIssue": "ANV-123",
              "lastCheckpoint": {
                "timestamp": "2026-05-28T20:26:40Z",
                "handoffFile": ".ekiden/handoffs/2026-11-21-1045.md",
                "reason": "manual"
              },
              "uncommittedChanges": true,
              "modifiedFiles": [
                "src/api.rs"
              ],
              "updatedAt": "2026-05-28T20:27:40Z"
            }"#]]
        .assert_eq(&serde_json::to_string_pretty(&state).expect("it serialises"));
        check_current(&state);
    }

    fn check_current(state: &CheckpointState) {
        let text = serde_json::to_string(state).expect("it serialises");
        let later = text.replace("20:27:40", "20:27:45");
        assert!(state.is_current_in(later.as_bytes(), true));
        let full = text.replace("72", "73");
        assert!(!state.is_current_in(full.as_bytes(), false));
        let of_other = text.replace("abc123", "def456");
        assert!(!state.is_current_in(of_other.as_bytes(), true));
        assert!(state.is_current_in(of_other.as_bytes(), false));
        for odd in ["", "[]", "7", "{}", "{\"sessionId\":7"] {
            assert!(!state.is_current_in(odd.as_bytes(), false), "{odd}");
        }
    }
}
