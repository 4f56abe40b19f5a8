//! The answer to `get_context_usage`: what fills the window.
//!
//! Once a compaction window is set, `rawMaxTokens` is that window and not the model's; only a result has the
//! model's then. With compaction off there is no threshold.

use serde_json::{Value, json};

use crate::json;

/// What fills the window, in tokens.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContextUsage {
    /// The current context. Before the first response, an estimate without messages.
    pub total_tokens: u64,
    /// The model's window, or the compaction window if one is set.
    pub window_tokens: u64,
    pub model: Option<String>,
    /// What is used, by name, largest first, without the reserve for a summary and deferred tools.
    pub categories: Vec<(String, u64)>,
}

impl ContextUsage {
    /// Reads an answer; none if it lacks the window, which we do not guess.
    pub fn of(answer: &Value) -> Option<Self> {
        let used = json::elements(&answer["categories"])
            .iter()
            .filter(|category| category["kind"] == "used");
        let mut categories: Vec<(String, u64)> = used
            .map(|used| (json::text(&used["name"]), json::field(&used["tokens"])))
            .collect();
        categories.sort_by_key(|(_, tokens)| std::cmp::Reverse(*tokens));
        Some(Self {
            total_tokens: answer["totalTokens"].as_u64()?,
            window_tokens: answer["rawMaxTokens"].as_u64()?,
            model: json::field(&answer["model"]),
            categories,
        })
    }

    /// The answer as an agent writes it.
    pub fn to_json(&self) -> Value {
        let categories = self
            .categories
            .iter()
            .map(|(name, tokens)| json!({"name": name, "tokens": tokens, "kind": "used"}));
        json!({
            "categories": categories.collect::<Vec<_>>(),
            "totalTokens": self.total_tokens,
            "maxTokens": self.window_tokens,
            "rawMaxTokens": self.window_tokens,
            "model": self.model,
        })
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    // shows: MON-06
    #[test]
    fn the_reserve_and_deferred_tools_do_not_count() {
        let answer = serde_json::from_str(include_str!("../fixtures/context-usage.json")).unwrap();
        expect![[r#"
            Some(
                ContextUsage {
                    total_tokens: 62000,
                    window_tokens: 1000000,
                    model: Some(
                        "claude-opus-5-5",
                    ),
                    categories: [
                        (
                            "Messages",
                            47374,
                        ),
                        (
                            "System tools",
                            10222,
                        ),
                        (
                            "System prompt",
                            2337,
                        ),
                        (
                            "Skills",
                            2067,
                        ),
                    ],
                },
            )
        "#]]
        .assert_debug_eq(&ContextUsage::of(&answer));
    }

    #[test]
    fn both_ends_agree() {
        let usage = ContextUsage {
            model: Some("rehearsal".to_owned()),
            total_tokens: 30,
            window_tokens: 100,
            categories: vec![("Messages".to_owned(), 20), ("System".to_owned(), 10)],
        };
        assert_eq!(ContextUsage::of(&usage.to_json()), Some(usage));
    }

    #[test]
    fn a_window_is_not_guessed() {
        for odd in [
            json!(null),
            json!({}),
            json!({"categories": [], "totalTokens": "many"}),
        ] {
            assert_eq!(ContextUsage::of(&odd), None);
        }
    }
}
