//! Tool calls as spans. The log does not hold them, so the process that saw a call reports it, once.

use std::collections::BTreeMap;

use ekiden_core::effect::{Effect, RelayEffect};
use ekiden_core::ids::StageId;
use ekiden_core::record::Record;
use ekiden_core::run::Run;
use ekiden_core::time::Timestamp;
use ekiden_engine::observer::Activity;
use opentelemetry::trace::SpanId;
use opentelemetry_sdk::trace::SpanData;

use crate::ids::Ids;
use crate::open::{Open, cleaned, name, word};

/// How many calls under way are tracked.
const OPEN_CALLS_MAX: usize = 1_000;

pub(crate) struct Calls {
    ids: Ids,
    attempts: BTreeMap<StageId, SpanId>,
    /// By stage and the agent's id of the call.
    open: BTreeMap<(StageId, String), OpenCall>,
}

struct OpenCall {
    tool: String,
    began: Timestamp,
}

impl Calls {
    pub(crate) fn new(run: &Run) -> Self {
        Self {
            ids: Ids::new(&run.header().run, run.started_at()),
            attempts: BTreeMap::new(),
            open: BTreeMap::new(),
        }
    }

    /// Notes which attempts start.
    pub(crate) fn recorded(&mut self, record: &Record) {
        for effect in &record.effects {
            if let Effect::Stage {
                stage,
                effect: RelayEffect::StartAttempt(_),
            } = effect
            {
                let span = self.ids.attempt(record.seq, stage);
                self.attempts.insert(stage.clone(), span);
                self.open.retain(|(of, _), _| of != stage);
            }
        }
    }

    pub(crate) fn take(
        &mut self,
        stage: &StageId,
        activity: &Activity,
        now: Timestamp,
    ) -> Option<SpanData> {
        match activity {
            Activity::Tool { call, name, .. } => {
                if self.open.len() < OPEN_CALLS_MAX {
                    let (tool, began) = (name.clone(), now);
                    let key = (stage.clone(), call.clone());
                    self.open.insert(key, OpenCall { tool, began });
                }
                None
            }
            Activity::ToolEnded { call, is_error } => {
                let parent = *self.attempts.get(stage)?;
                let OpenCall { tool, began } = self.open.remove(&(stage.clone(), call.clone()))?;
                let open = Open {
                    span: self
                        .ids
                        .span("execute_tool", 0, &format!("{parent}/{call}")),
                    parent,
                    from: began,
                };
                let attributes = vec![
                    word("gen_ai.operation.name", "execute_tool"),
                    name("gen_ai.tool.name", &tool),
                    name("gen_ai.tool.call.id", call),
                ];
                let title = format!("execute_tool {}", cleaned(&tool));
                let error = is_error.then(|| "tool_error".to_owned());
                Some(open.close(self.ids.trace(), title, now, attributes, error))
            }
            Activity::Words(_)
            | Activity::Retry { .. }
            | Activity::Subagents(_)
            | Activity::Warning(_) => None,
        }
    }
}
