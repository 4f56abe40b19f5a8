//! Closes the spans of what is over, with their attributes.

use ekiden_core::budget::TokenCounts;
use ekiden_core::ends::EndClass;
use ekiden_core::event::AttemptEnded;
use ekiden_core::ids::StageId;
use ekiden_core::relay::Relay;
use ekiden_core::run::Run;
use ekiden_core::time::Timestamp;
use ekiden_report::timeline::Left;
use opentelemetry::KeyValue;

use super::{Trace, attempt_of};
use crate::metrics::Measure;
use crate::open::{
    Checkpoint, Open, OpenAttempt, OpenSession, OpenStage, Part, cleaned, count, name, spent,
    usage, variant, word,
};

impl Trace {
    pub(super) fn close_attempt(
        &mut self,
        id: &StageId,
        session: &mut OpenSession,
        at: Timestamp,
        ended: &AttemptEnded,
    ) {
        let Some(attempt) = session.attempt.take() else {
            return;
        };
        let known = attempt_of(&self.timeline, id, attempt.id);
        let model = known.and_then(|known| known.model.clone());
        let window = known.and_then(|known| known.window);
        let left = self.left(id, session.number);
        let counters = &ended.counters;
        let context = (counters.usage_tokens > 0).then(|| {
            let percent = window.map(|window| window.percent(counters.usage_tokens));
            (counters.usage_tokens, percent)
        });
        session.ended = at;
        session.model = model.or(session.model.take());
        session.spend = session.spend.plus(counters.spend);
        let kinds = [session.kinds, counters.kinds].into_iter().flatten();
        session.kinds = kinds.reduce(TokenCounts::plus);
        session.tool_calls = session.tool_calls.saturating_add(counters.tool_calls);
        session.context = context.or(session.context);
        session.left = left;
        let models = counters.spend_by_model(session.model.as_deref());
        let measures = models.into_iter().map(|(model, spend)| Measure::Spend {
            agent: session.agent.clone(),
            model: model.map(str::to_owned),
            spend,
        });
        self.measures.extend(measures);
        self.close_checkpoint(&attempt, at);
        let cause = variant(&ended.cause);
        let fine = matches!(ended.cause.class(), EndClass::Fine | EndClass::Left);
        let mut attributes = vec![
            word("ekiden.stage.id", id.as_str().to_owned()),
            count("ekiden.session.number", session.number),
            count("ekiden.attempt.number", attempt.id.attempt.get()),
            word("ekiden.attempt.end", cause.clone()),
            count("ekiden.attempt.turns", counters.turns),
            count("ekiden.tool_calls", counters.tool_calls),
        ];
        attributes.extend(context_attributes(context));
        let error = (!fine).then_some(cause);
        self.close(attempt.open, "attempt", at, attributes, error);
    }

    pub(super) fn close_checkpoint(&mut self, attempt: &OpenAttempt, until: Timestamp) {
        let Checkpoint::Ordered {
            at,
            reason,
            level,
            percent,
        } = &attempt.checkpoint
        else {
            return;
        };
        let mut attributes = vec![
            word("ekiden.checkpoint.reason", *reason),
            word("ekiden.checkpoint.level", level.clone()),
        ];
        attributes.extend(percent.map(|percent| count("ekiden.checkpoint.percent", percent)));
        let parent = attempt.open.span;
        let open = Open {
            span: self.ids.span("checkpoint", 0, &parent.to_string()),
            parent,
            from: *at,
        };
        self.close(open, "checkpoint", until, attributes, None);
    }

    pub(super) fn close_session(&mut self, id: &StageId, session: &OpenSession) {
        self.measures.push(Measure::Session {
            agent: session.agent.clone(),
            left: session.left,
            context_tokens: session.context.map(|(tokens, _)| tokens),
        });
        self.end_session(id, session);
    }

    /// Closes a session that was cut off when ekiden was killed. It is counted unless another attempt follows.
    pub(super) fn close_lost_session(&mut self, id: &StageId, session: &OpenSession, run: &Run) {
        let goes_on =
            |relay: &Relay| relay.outcome().is_none() && relay.session().get() == session.number;
        let left_nothing = session.left.is_none_or(|left| left == Left::Nothing);
        match left_nothing && run.relay(id).is_some_and(goes_on) {
            true => self.end_session(id, session),
            false => self.close_session(id, session),
        }
    }

    fn end_session(&mut self, id: &StageId, session: &OpenSession) {
        let left = session.left.map(|left| variant(&left)).unwrap_or_default();
        let mut attributes = vec![
            word("gen_ai.operation.name", "invoke_agent"),
            word("gen_ai.provider.name", session.provider()),
            name("gen_ai.agent.name", &session.agent),
            word("gen_ai.conversation.id", session.conversation.to_string()),
            word("ekiden.stage.id", id.as_str().to_owned()),
            count("ekiden.session.number", session.number),
            count("ekiden.tool_calls", session.tool_calls),
            word("ekiden.session.left", left),
        ];
        attributes.extend(
            session
                .model
                .as_ref()
                .map(|model| name("gen_ai.request.model", model)),
        );
        attributes.extend(spent(session.spend));
        attributes.extend(session.kinds.into_iter().flat_map(usage));
        attributes.extend(context_attributes(session.context));
        let has_left = session.left.is_some_and(|left| left != Left::Nothing);
        let error = match session.lost {
            true => Some("engine_lost"),
            false => (!has_left).then_some("no_handoff"),
        };
        let error = error.map(str::to_owned);
        let title = format!("invoke_agent {}", cleaned(&session.agent));
        self.close(session.open, title, session.ended, attributes, error);
    }

    pub(super) fn close_wait(&mut self, place: usize, until: Timestamp) {
        let (Some(part), Some(wait)) = (&self.part, self.timeline.waits.get(place)) else {
            return;
        };
        let stage = &self.timeline.stages[wait.stage].id;
        let of_stage = self.stages.get(stage).map(|stage| stage.open.span);
        let open = Open {
            span: self.ids.span("wait", part.seq, &place.to_string()),
            parent: of_stage.unwrap_or(part.open.span),
            from: wait.from.max(part.open.from),
        };
        let attributes = vec![
            word("ekiden.stage.id", stage.as_str().to_owned()),
            word("ekiden.wait.cause", variant(&wait.cause)),
            word("ekiden.wait.until", wait.until.rfc3339()),
            count("ekiden.session.number", wait.session),
        ];
        self.close(open, "wait", until, attributes, None);
    }

    pub(super) fn close_stage(
        &mut self,
        id: &StageId,
        stage: &OpenStage,
        until: Timestamp,
        state: &'static str,
        is_error: bool,
    ) {
        let attributes = vec![
            word("ekiden.stage.id", id.as_str().to_owned()),
            word("ekiden.stage.state", state),
        ];
        let error = is_error.then(|| state.to_owned());
        self.close(stage.open, "stage", until, attributes, error);
    }

    pub(super) fn close_workflow(
        &mut self,
        part: &Part,
        until: Timestamp,
        outcome: String,
        is_error: bool,
    ) {
        let kind = if self.timeline.is_plan {
            "plan"
        } else {
            "relay"
        };
        let mut attributes = vec![
            word("gen_ai.operation.name", "invoke_workflow"),
            word("gen_ai.agent.name", kind),
            word("ekiden.run.id", self.timeline.run.to_string()),
            word("ekiden.run.outcome", outcome.clone()),
        ];
        attributes.extend(spent(part.spend));
        let title = format!("invoke_workflow {kind}");
        let error = is_error.then_some(outcome);
        self.close(part.open, title, until, attributes, error);
    }
}

fn context_attributes(context: Option<(u64, Option<u64>)>) -> Vec<KeyValue> {
    let Some((tokens, percent)) = context else {
        return Vec::new();
    };
    let percent = percent.map(|percent| count("ekiden.context.percent", percent));
    let tokens = count("ekiden.context.tokens", tokens);
    std::iter::once(tokens).chain(percent).collect()
}
