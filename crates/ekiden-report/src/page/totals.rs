//! The totals: cost, waits, problems, use.

use std::collections::BTreeMap;

use ekiden_core::budget::{AgentBudget, Spend};
use ekiden_core::outcome::WaitCause;

use super::sections::{ROWS_MAX, cost, figure};
use super::{Block, Text, View};
use crate::curve::Uses;
use crate::phrase;
use crate::svg;
use crate::timeline::{Problem, Wait};

impl View<'_> {
    pub(super) fn costs(&self) -> Vec<Block> {
        let mut models: BTreeMap<&str, (u32, Spend, bool)> = BTreeMap::new();
        for (_, session) in self.timeline.sessions() {
            for (model, spend) in session.spend_by_model() {
                let (sessions, sum, subscription) = models.entry(model).or_default();
                *sessions += 1;
                *sum = sum.plus(spend);
                *subscription |= session.has_subscription();
            }
        }
        let rows = models
            .iter()
            .map(|(model, (sessions, spend, subscription))| {
                vec![
                    Text::said(model),
                    Text::own(sessions.to_string()),
                    Text::own(phrase::spent_tokens(*spend)),
                    Text::own(cost(*spend, *subscription)),
                ]
            });
        let rows: Vec<Vec<Text>> = rows
            .filter(|_| self.timeline.standing.totals.spend.tokens > 0)
            .collect();
        let note = (!rows.is_empty()).then(|| {
            Block::line("Usage without a model name counts for the session's main model. Tokens exclude cache reads; ≈ marks an estimate.")
        });
        let standing = &self.timeline.standing;
        let what = match standing.totals.spend.micro_usd {
            0 => "Tokens of each session",
            _ => "Cost of each session",
        };
        let figure = svg::costs(self.timeline).map(|svg| figure(what, svg));
        let head = vec!["model", "sessions", "tokens", "cost"];
        let budget = svg::budget(standing.totals.spend, standing.budget);
        budget
            .map(|svg| super::sections::figure("Spent of the budget", svg))
            .into_iter()
            .chain(figure)
            .chain(Block::table(head, rows, ROWS_MAX))
            .chain(note)
            .chain(self.agent_budgets())
            .collect()
    }

    /// What single agents have spent of their own budgets.
    fn agent_budgets(&self) -> Vec<Block> {
        let row = |agent: &AgentBudget| {
            let state = if agent.is_spent { "spent" } else { "" };
            vec![
                Text::said(&agent.agent),
                Text::own(phrase::spent_of(
                    agent.spent,
                    agent.subscription,
                    agent.budget,
                )),
                Text::own(state),
            ]
        };
        let rows = self.timeline.standing.agents.iter().map(row).collect();
        Block::table(vec!["agent", "of its budget", ""], rows, ROWS_MAX)
    }

    pub(super) fn waits(&self) -> Vec<Block> {
        let row = |wait: &Wait| {
            let stage = &self.timeline.stages[wait.stage];
            let over = wait.over.unwrap_or(self.timeline.last);
            vec![
                Text::own(self.clock(wait.from)),
                Text::own(phrase::duration(over.since(wait.from))),
                Text::own(self.clock(wait.until)),
                Text::own(self.session(stage, wait.session)),
                why(wait),
            ]
        };
        let head = vec!["from", "waited", "until", "then", "why"];
        let all = self.timeline.waits.iter().collect();
        Block::table_of(head, all, ROWS_MAX, row)
    }

    pub(super) fn problems(&self) -> Vec<Block> {
        let row = |one: &Problem| {
            let stage = one.stage.map(|place| &self.timeline.stages[place]);
            let place = match (stage, one.session) {
                (Some(stage), Some(session)) => self.session(stage, session),
                (Some(stage), None) if self.timeline.is_plan => stage.id.to_string(),
                (Some(_) | None, _) => String::new(),
            };
            let what = one.kind.count(1);
            vec![
                Text::own(self.clock(one.at)),
                Text::own(place),
                Text::own(what.strip_prefix("1 ").unwrap_or(&what)),
                Text::said(&one.why),
            ]
        };
        let head = vec!["when", "where", "what", "why"];
        let all = self.timeline.problems.iter().collect();
        Block::table_of(head, all, ROWS_MAX, row)
    }

    pub(super) fn tools(&self) -> Vec<Block> {
        let table = |what: &'static str, uses: &BTreeMap<String, Uses>| {
            let mut uses: Vec<(&String, &Uses)> = uses.iter().collect();
            uses.sort_by_key(|(_, uses)| std::cmp::Reverse(uses.calls));
            let rows = uses.into_iter().map(|(name, uses)| {
                let failed = if uses.failed > 0 {
                    uses.failed.to_string()
                } else {
                    String::new()
                };
                vec![
                    Text::said(name),
                    Text::own(uses.calls.to_string()),
                    Text::own(failed),
                ]
            });
            Block::table(vec![what, "calls", "failed"], rows.collect(), ROWS_MAX)
        };
        let tools = table("tool", &self.streams.tools);
        let left_out = self.streams.left_out;
        let note = (left_out > 0).then(|| {
            Block::line(format!(
                "The event streams of {} were not read, so their calls are missing.",
                phrase::count(left_out as u64, "session")
            ))
        });
        tools
            .into_iter()
            .chain(table("skill", &self.streams.skills))
            .chain(note)
            .collect()
    }
}

fn why(wait: &Wait) -> Text {
    match wait.cause {
        WaitCause::UsageLimit | WaitCause::Failure => match &wait.ended_by {
            Some(cause) => Text::said(&cause.to_string()),
            None => Text::own("a usage limit or a failure"),
        },
        WaitCause::Pause => Text::own("the pause between sessions"),
        WaitCause::QuietHours => Text::own("quiet hours"),
        WaitCause::Guided => Text::own("the countdown of a guided run"),
        WaitCause::Budget => Text::own("other stages hold what is left of the budget"),
    }
}
