//! The window of the model that answers, as the client reports it.

use ekiden_core::limits;
use ekiden_wire::context_usage::ContextUsage;
use ekiden_wire::stream::TurnResult;
use serde_json::Value;

use crate::attempt::Report;

/// What the client said about the window. The same is not reported twice.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// Zero until it has answered.
    tokens: u64,
    /// The model that answers instead of the chosen one.
    pub(super) fallback: Option<String>,
    /// The last report: the model's window, and the compaction window.
    reported: Option<(u64, Option<u64>)>,
}

impl Window {
    pub(super) fn answered(&mut self, answer: &Value, model: Option<String>) -> Option<Report> {
        let usage = ContextUsage::of(answer)?;
        self.tokens = usage.window_tokens;
        if self.fallback.is_some() {
            return None;
        }
        let model = usage.model.or(model);
        self.report(usage.window_tokens, None, model, usage.categories)
    }

    /// An agent reports it by itself.
    pub(super) fn reported(&mut self, tokens: u64, model: Option<String>) -> Option<Report> {
        self.report(tokens, None, model, Vec::new())
    }

    /// Another model answers for the rest of the turn. The client still names the first one's window, and the
    /// true one only with the turn's result; until then we assume a small one.
    pub(super) fn fell_back(&mut self, to: &str) -> Option<Report> {
        self.fallback = Some(to.to_owned());
        let model_tokens = self.tokens.min(limits::WINDOW_TOKENS_DEFAULT);
        let is_known = self.tokens > 0;
        is_known.then(|| self.report(model_tokens, None, Some(to.to_owned()), Vec::new()))?
    }

    /// A result has the true window of each model. What the client itself reports is its compaction
    /// window, if one is set.
    pub(super) fn of_result(&mut self, result: &TurnResult, model: String) -> Option<Report> {
        // 2.1.197 lists a window of a million by the model's name with `[1m]` behind it.
        let names = [model.clone(), format!("{model}[1m]")];
        let used = names.iter().filter_map(|name| result.model_usage.get(name));
        let size = used.map(|usage| usage.context_window).max().unwrap_or(0);
        if size == 0 {
            return None;
        }
        let has_lower = self.fallback.is_none() && (1..size).contains(&self.tokens);
        let lower = has_lower.then_some(self.tokens);
        self.report(size, lower, Some(model), Vec::new())
    }

    fn report(
        &mut self,
        model_tokens: u64,
        compaction_tokens: Option<u64>,
        model: Option<String>,
        filled_by: Vec<(String, u64)>,
    ) -> Option<Report> {
        let reported = (model_tokens, compaction_tokens);
        let is_new = self.reported.replace(reported) != Some(reported);
        is_new.then_some(Report::Window {
            model_tokens,
            compaction_tokens,
            model,
            filled_by,
        })
    }
}
