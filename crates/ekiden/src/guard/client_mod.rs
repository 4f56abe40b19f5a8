//! Calls from the mod: the guard's own function inside the client, in `plugin/hooks/guard.ts`.
//!
//! ```text
//! tool, end of a batch, end of the turn ──► mod: sign of life, exact use
//!                                            │ quiet: nothing          crossed
//!                                            ▼                            ▼
//!                                 shell hooks stand aside    `ekiden hook EVENT --mod`
//! ```
//!
//! Theory of operation: the mod holds no rule. Each answer tells it a range of use in which nothing is
//! crossed ([`QuietRange`]), and the length of the session's log. It calls again outside that range, or
//! once the log has grown, or between two turns if something waits for that. The answer is what a shell hook would say.
//!
//! Invariants:
//! - *Only one of them acts.* The mod writes its sign of life before the client calls the shell hooks of an
//!   event. They stand aside as long as the sign is fresh, except for events that no level decides: files
//!   of ekiden, prompts, test runs, the session's start and end.
//! - *Without the mod nothing is missing.* It may be absent without notice; then there is no sign of life.

use ekiden_core::guard::document::Filled;
use ekiden_core::guard::watch::{QuietRange, Trigger};
use ekiden_core::guard::{HookInput, Level, ToolUse};
use ekiden_core::prompt::replaced_by_document;
use ekiden_wire::hook_output;
use ekiden_wire::hooks::HookEvent;
use serde_json::{Value, json};

use super::hook::{Hook, settle};
use super::statusline;
use crate::client::guard::shows_status_line;

impl Hook<'_> {
    /// What to do, as a hook would say it, and how long the mod need not ask again.
    pub(super) fn for_mod(&self) -> Value {
        if let Some(context) = self.call.context {
            statusline::keep(self.watched, context.tokens, context.window);
        }
        let answer = match (&self.call.input, self.call.event) {
            (HookInput::PreTool { tool, .. }, _) => {
                let told = self.answer_to(&Trigger::BeforeTool);
                self.refusal(tool, told.as_ref()).or(told)
            }
            (_, HookEvent::Stop) => {
                let told = self.answer();
                self.hold(told.as_ref()).or(told)
            }
            (_, HookEvent::PreCompact) => self.replacement().or_else(|| self.answer()),
            (_, HookEvent::Idle) => self.answer_to(&Trigger::Idles),
            _ => self.answer(),
        };
        json!({"answer": answer, "watch": self.until()})
    }

    /// The refusal at L3, and the message for the person. Other fences belong to the shell hook.
    fn refusal(&self, tool: &ToolUse, told: Option<&Value>) -> Option<Value> {
        let mut refusal = self.before_tool(tool, false)?;
        let own = refusal["systemMessage"].as_str()?.to_owned();
        refusal["systemMessage"] = after(told, own);
        Some(refusal)
    }

    /// The end of a turn is blocked once at L3, just as a call would be refused.
    fn hold(&self, told: Option<&Value>) -> Option<Value> {
        let (_, decision) = settle(self.watched, &Trigger::Holds, None);
        let said = self.said(decision.alerts.first().filter(|_| decision.refuse)?);
        let mut answer = hook_output::block(&said.agent);
        answer["systemMessage"] = after(told, said.person);
        Some(answer)
    }

    /// What replaces the conversation without a summary: the session's document, if the agent filled it in
    /// completely. The hook at the start after a compaction shows it. A person who asks for a summary gets
    /// one.
    fn replacement(&self) -> Option<Value> {
        if self.call.source == "manual" {
            return None;
        }
        let watch = self.watched.watch();
        let reading = self.watched.reading();
        let last = watch.last.as_ref();
        let document = last.filter(|_| watch.document_stands(reading.as_ref()))?;
        let path = &document.taken.document;
        let text = std::fs::read_to_string(self.watched.place.dir.join(path)).ok()?;
        let is_whole = Filled::missing(&text).is_empty();
        is_whole.then(|| json!({"compact": replaced_by_document(path)}))
    }

    fn until(&self) -> Value {
        let watched = self.watched;
        let Some(sign) = watched.or_complain(watched.files.sign_of_mod()) else {
            return Value::Null;
        };
        let reading = watched.reading();
        let watch = watched.watch();
        let window = reading
            .as_ref()
            .map_or_else(|| watched.window_at_start(), |reading| reading.window);
        let used = reading.as_ref().map_or(0, |reading| reading.used_tokens);
        let quiet = QuietRange::around(&watch, watched.settings, &window, used);
        let levels = [Level::L1, Level::L2, Level::L3]
            .map(|level| window.tokens_of(watched.settings.levels, level));
        // An event that decides nothing about the use does not show that nothing was crossed.
        let is_decided = matches!(
            self.call.event,
            HookEvent::PreToolUse | HookEvent::PostToolBatch | HookEvent::Stop
        );
        let (log, log_bytes) = watched.files.log();
        json!({
            "sign": sign,
            "log": log,
            "logBytes": log_bytes,
            "from": is_decided.then_some(quiet.from_tokens),
            "to": quiet.to_tokens,
            "refuses": watch.refuses(watched.settings),
            "idles": watch.waits_for_idleness(watched.settings),
            "everyBatch": quiet.every_batch || watched.is_loop(),
            "usable": window.usable_tokens(),
            "levels": levels,
            "line": !shows_status_line(&watched.environment, &watched.place.dir),
        })
    }
}

/// A message for the person, after earlier messages.
fn after(told: Option<&Value>, own: String) -> Value {
    match told.and_then(|told| told["systemMessage"].as_str()) {
        Some(before) => format!("{before}\n{own}").into(),
        None => own.into(),
    }
}
