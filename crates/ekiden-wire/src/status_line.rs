//! The input of the client's status line: the only place where a client in its own interface names its
//! window and its cost.

use std::path::PathBuf;

use crate::json;

/// The figures that we use. Missing or odd ones say nothing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StatusInput {
    pub session_id: String,
    pub model: String,
    /// The model's name for people.
    pub model_name: String,
    /// The model's whole window.
    pub window_tokens: Option<u64>,
    /// The context in use; none before the first response.
    pub used_tokens: Option<u64>,
    /// What the process cost so far, in US dollars, subagents included.
    pub cost_usd: f64,
    pub duration_ms: u64,
    /// How much of a subscription's limits is used.
    pub five_hour_percent: Option<f64>,
    pub seven_day_percent: Option<f64>,
    /// Where the client keeps the conversation.
    pub transcript: PathBuf,
    pub cwd: PathBuf,
    /// Where the client was started.
    pub project_dir: PathBuf,
}

impl StatusInput {
    pub fn parse(input: &str) -> Self {
        let input = json::parse(input.as_bytes()).unwrap_or_default();
        let (model, window, cost) = (&input["model"], &input["context_window"], &input["cost"]);
        let used = |limit: &str| json::field(&input["rate_limits"][limit]["used_percentage"]);
        Self {
            session_id: json::text(&input["session_id"]),
            model: json::text(&model["id"]),
            model_name: json::text(&model["display_name"]),
            window_tokens: json::field::<Option<u64>>(&window["context_window_size"])
                .filter(|tokens| *tokens > 0),
            used_tokens: json::field(&window["total_input_tokens"]),
            cost_usd: json::field(&cost["total_cost_usd"]),
            duration_ms: json::field(&cost["total_duration_ms"]),
            five_hour_percent: used("five_hour"),
            seven_day_percent: used("seven_day"),
            transcript: json::field(&input["transcript_path"]),
            cwd: json::field(&input["cwd"]),
            project_dir: json::field(&input["workspace"]["project_dir"]),
        }
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
        assert_eq!(input.window_tokens, Some(1_000_000));
        assert_eq!(
            (input.model.as_str(), input.cost_usd),
            ("claude-opus-5-5", 0.25)
        );
    }

    /// With a window of 0, any use would be L3.
    // shows: MON-06
    #[test]
    fn rubbish_says_nothing() {
        let no_size = r#"{"context_window":{"context_window_size":0}}"#;
        for rubbish in ["", "[]", "{", r#"{"model":3}"#, no_size] {
            assert_eq!(
                StatusInput::parse(rubbish),
                StatusInput::default(),
                "{rubbish}"
            );
        }
    }
}
