//! The answer to `get_context_usage`: what fills the window.
//!
//! Once a compaction window is set, `rawMaxTokens` is that and not the model's window; only a result
//! has the latter then. With compaction off there is no threshold.

use serde::{Deserialize, Serialize};

/// What fills the window, in tokens.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContextUsage {
    /// The context now. Before the first response an estimate without messages.
    pub total_tokens: u64,
    /// The window that the client works with.
    pub max_tokens: u64,
    /// The model's window, or the compaction window if one is set.
    pub raw_max_tokens: u64,
    /// Where the client would summarise; none if it does not.
    pub auto_compact_threshold: Option<u64>,
    /// What the client keeps free for a summary.
    pub reserve_tokens: u64,
    /// The model whose window it is.
    pub model: Option<String>,
    /// What is used, by name, largest first.
    pub categories: Vec<(String, u64)>,
}

/// An answer to `get_context_usage` is not what it should be.
#[derive(Debug, thiserror::Error)]
#[error("read the agent's context usage")]
pub struct ContextUsageError(#[from] serde_json::Error);

/// The answer's own form, for both ends of the wire.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    categories: Vec<Category>,
    total_tokens: u64,
    max_tokens: u64,
    raw_max_tokens: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    auto_compact_threshold: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Category {
    name: String,
    #[serde(default)]
    tokens: u64,
    #[serde(default)]
    kind: String,
}

impl ContextUsage {
    /// Reads the answer.
    ///
    /// # Errors
    ///
    /// If figures are missing: a window that is not known must not be guessed.
    pub fn parse(json: &str) -> Result<Self, ContextUsageError> {
        let answer: Answer = serde_json::from_str(json)?;
        let of_kind = |kind: &'static str| move |category: &&Category| category.kind == kind;
        let used = answer.categories.iter().filter(of_kind("used"));
        let mut categories: Vec<_> = used.map(|used| (used.name.clone(), used.tokens)).collect();
        categories.sort_by(|(_, one), (_, other)| other.cmp(one));
        Ok(Self {
            total_tokens: answer.total_tokens,
            max_tokens: answer.max_tokens,
            raw_max_tokens: answer.raw_max_tokens,
            auto_compact_threshold: answer.auto_compact_threshold,
            reserve_tokens: answer.categories.iter().filter(of_kind("buffer")).map(|c| c.tokens).sum(),
            model: answer.model,
            categories,
        })
    }

    /// The answer as an agent writes it.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        let used = self.categories.iter().map(|(name, tokens)| category(name, *tokens, "used"));
        let reserve = (self.reserve_tokens > 0).then(|| category("Buffer", self.reserve_tokens, "buffer"));
        let answer = Answer {
            categories: used.chain(reserve).collect(),
            total_tokens: self.total_tokens,
            max_tokens: self.max_tokens,
            raw_max_tokens: self.raw_max_tokens,
            auto_compact_threshold: self.auto_compact_threshold,
            model: self.model.clone(),
        };
        serde_json::json!(answer)
    }
}

fn category(name: &str, tokens: u64, kind: &str) -> Category {
    Category { name: name.to_owned(), tokens, kind: kind.to_owned() }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    // shows: MON-06
    #[test]
    fn the_reserve_is_the_buffer_and_deferred_tools_do_not_count() {
        let usage = ContextUsage::parse(include_str!("../fixtures/context-usage.json")).unwrap();
        expect![[r#"
            ContextUsage {
                total_tokens: 62000,
                max_tokens: 1000000,
                raw_max_tokens: 1000000,
                auto_compact_threshold: Some(
                    967000,
                ),
                reserve_tokens: 33000,
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
            }
        "#]]
        .assert_debug_eq(&usage);
    }

    #[test]
    fn both_ends_agree() {
        let usage = ContextUsage {
            model: Some("rehearsal".to_owned()),
            total_tokens: 30,
            max_tokens: 100,
            raw_max_tokens: 100,
            auto_compact_threshold: None,
            reserve_tokens: 10,
            categories: vec![("Messages".to_owned(), 20), ("System".to_owned(), 10)],
        };
        assert_eq!(ContextUsage::parse(&usage.to_json().to_string()).unwrap(), usage);
    }

    #[test]
    fn a_window_is_not_guessed() {
        for odd in ["", "{}", r#"{"categories":[],"totalTokens":"many"}"#] {
            assert!(ContextUsage::parse(odd).is_err());
        }
    }
}
