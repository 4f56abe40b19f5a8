//! What the client tells its status line: the only place where a client in its own interface names its
//! window and its cost.

use std::path::PathBuf;

use serde::Deserialize;

/// The figures that are used here.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct StatusInput {
    /// The conversation.
    pub session_id: String,
    /// The model.
    pub model: StatusModel,
    /// The context window.
    pub context_window: StatusWindow,
    /// What the process cost so far.
    pub cost: StatusCost,
    /// Where the client keeps the conversation.
    pub transcript_path: PathBuf,
    /// Where it works.
    pub cwd: PathBuf,
    /// The directories that it knows.
    pub workspace: StatusWorkspace,
}

/// The directories.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct StatusWorkspace {
    /// Where the client was started.
    pub project_dir: PathBuf,
}

/// The model.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct StatusModel {
    /// Its id.
    pub id: String,
}

/// The context window.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct StatusWindow {
    /// The model's whole window, in tokens.
    pub context_window_size: Option<u64>,
    /// The context in use, in tokens; none before the first response.
    pub total_input_tokens: Option<u64>,
}

/// The cost.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct StatusCost {
    /// In US dollars, subagents included.
    pub total_cost_usd: f64,
}

impl StatusInput {
    /// Reads it. What cannot be read says nothing.
    #[must_use]
    pub fn parse(json: &str) -> Self {
        serde_json::from_str(json).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: MON-001, MON-06
    #[test]
    fn the_window_and_the_cost_are_read() {
        let input = StatusInput::parse(
            r#"{"session_id":"s","model":{"id":"claude-opus-5-5","display_name":"Opus"},"version":"2.1.329",
                "context_window":{"context_window_size":1000000,"used_percentage":null},
                "cost":{"total_cost_usd":0.25,"total_duration_ms":5}}"#,
        );
        assert_eq!(input.context_window.context_window_size, Some(1_000_000));
        assert_eq!((input.model.id.as_str(), input.cost.total_cost_usd), ("claude-opus-5-5", 0.25));
    }

    #[test]
    fn rubbish_says_nothing() {
        for rubbish in ["", "[]", "{", r#"{"model":3}"#] {
            assert_eq!(StatusInput::parse(rubbish), StatusInput::default(), "{rubbish}");
        }
    }
}
