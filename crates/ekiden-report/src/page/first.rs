//! The first screen: how the run ended and why, cost, time, what is done, what is open, what to type next.

use ekiden_core::text::{one_line, short};

use super::{Block, Text, View, masked};
use crate::phrase;
use crate::timeline::State;
use crate::timeline::check_word;

/// A command may name rules and paths.
const COMMAND_CHARS_MAX: usize = 2_000;
/// Open items that are named at once.
const ITEMS_SHOWN: usize = 8;
/// The part of a session's own words that is shown at once, in characters.
const WORDS_CHARS_MAX: usize = 700;

impl View<'_> {
    pub(super) fn facts(&self) -> Vec<(&'static str, Text)> {
        let facts = [
            ("when", Text::own(self.when())),
            ("cost", Text::own(self.cost())),
            ("agent", self.agent()),
            ("done", Text::own(self.done())),
            ("verification", self.verification()),
            ("changes", Text::own(self.changes())),
            ("problems", Text::own(self.problems_in_short())),
        ];
        facts
            .into_iter()
            .filter(|(_, text)| !text.is_empty())
            .collect()
    }

    pub(super) fn first(&self) -> Vec<Block> {
        let timeline = self.timeline;
        let left_out = self.heading.left_out.as_ref();
        let left_out = left_out.map(|left_out| Block::Line {
            text: Text::own("Not all of the log could be read: ").and_said(left_out),
        });
        let details = self
            .heading
            .details
            .iter()
            .map(|line| Text::said(line))
            .collect::<Vec<_>>();
        let details = (!details.is_empty()).then_some(Block::List { items: details });
        let questions = timeline.stages.iter().filter_map(|stage| {
            let head = format!(
                "{} asks",
                self.session(stage, stage.sessions.last()?.number)
            );
            Block::quote(Text::own(head), stage.question.as_deref()?)
        });
        let next = self.heading.next.iter();
        let commands: Vec<_> = next
            .map(|(what, command)| (what.clone(), one_line(&masked(command), COMMAND_CHARS_MAX)))
            .collect();
        let commands = (!commands.is_empty()).then_some(Block::Commands { commands });
        left_out
            .into_iter()
            .chain(details)
            .chain(questions)
            .chain(self.last_words())
            .chain(self.open())
            .chain(commands)
            .collect()
    }

    fn when(&self) -> String {
        let timeline = self.timeline;
        let began = phrase::day_and_time(timeline.started, self.zone);
        let until = match timeline.ended {
            Some(ended) => format!(" to {}", self.clock(ended)),
            None => format!(", last record at {}", self.clock(timeline.last)),
        };
        let worked = phrase::duration(timeline.worked);
        let waited = match timeline.waited.as_secs() {
            0 => String::new(),
            _ => format!(", of which {} waiting", phrase::duration(timeline.waited)),
        };
        format!("{began}{until} · {worked}{waited}")
    }

    /// `$7.36 of $10.00 · 640k tokens`
    fn cost(&self) -> String {
        let (totals, budget) = (
            &self.timeline.standing.totals,
            self.timeline.standing.budget,
        );
        let spend = totals.spend;
        let cost = phrase::cost(spend.micro_usd, spend.estimated, totals.subscription);
        let of_money = budget.micro_usd.map(phrase::money);
        let of_tokens = budget.tokens.map(phrase::tokens);
        let of =
            |limit: Option<String>| limit.map_or(String::new(), |limit| format!(" of {limit}"));
        let money = (spend.micro_usd > 0).then(|| cost + &of(of_money));
        let tokens = (spend.tokens > 0)
            .then(|| format!("{}{} tokens", phrase::spent_tokens(spend), of(of_tokens)));
        let parts: Vec<String> = money.into_iter().chain(tokens).collect();
        parts.join(" · ")
    }

    fn agent(&self) -> Text {
        let timeline = self.timeline;
        let count = phrase::count(timeline.begun(), "session");
        let of = match timeline.is_plan {
            true => format!("{count} · "),
            false => format!("{count} of at most {} · ", timeline.standing.sessions_max),
        };
        let mut agents = Vec::new();
        for (_, session) in timeline.sessions() {
            let name = session.agent.as_ref().unwrap_or(&timeline.agent).as_str();
            agents.extend((!agents.contains(&name)).then_some(name));
        }
        let agent = Text::own(of);
        match &timeline.model {
            _ if agents.iter().any(|name| *name != timeline.agent) => {
                agent.and_said(&agents.join(", "))
            }
            Some(model) => agent.and_said(&timeline.agent).and(" ").and_said(model),
            None => agent.and_said(&timeline.agent),
        }
    }

    fn done(&self) -> String {
        let stages = &self.timeline.stages;
        if !self.timeline.is_plan {
            let items = stages.first().and_then(|stage| stage.items.as_ref());
            return items.map_or(String::new(), |items| {
                let (done, open) = items.counts();
                let all = done + open;
                format!("{done} of {all} items, as the agent ticked them")
            });
        }
        let count = |states: &[State]| {
            let in_state = stages.iter().filter(|stage| states.contains(&stage.state));
            in_state.count()
        };
        let all = phrase::count(stages.len() as u64, "stage");
        let mut text = format!("{} of {all}", count(&[State::Done]));
        for (states, what) in [
            (&[State::Working][..], "at work"),
            (&[State::Asks], "waiting for your answer"),
            (&[State::Failed], "failed"),
            (&[State::Blocked], "blocked"),
            (&[State::Skipped], "skipped"),
            (&[State::LeftOut], "left out"),
            (&[State::Interrupted, State::Waiting], "not finished"),
        ] {
            match count(states) {
                0 => {}
                number => text.push_str(&format!(", {number} {what}")),
            }
        }
        text
    }

    fn verification(&self) -> Text {
        let [stage] = self.timeline.stages.as_slice() else {
            return Text::default();
        };
        let Some(command) = &stage.verification else {
            return Text::own("none: only the agent says that it is done");
        };
        let last = stage
            .sessions
            .iter()
            .rev()
            .find_map(|session| session.check.as_ref());
        let word = |check: Option<&ekiden_core::event::Check>| {
            check.map_or("not run", |check| check_word(&check.outcome))
        };
        let (before, after) = (word(stage.baseline.as_ref()), word(last));
        Text::said(command).and(format!(": {before} before the run, {after} after it"))
    }

    fn changes(&self) -> String {
        let commits = self.commits().len();
        let open = self.timeline.standing.files_open.filter(|open| *open > 0);
        let open = open.map(|open| format!("{} not committed", phrase::files(open)));
        let commits = (commits > 0).then(|| phrase::count(commits as u64, "commit"));
        commits
            .into_iter()
            .chain(open)
            .collect::<Vec<_>>()
            .join(", ")
    }

    fn problems_in_short(&self) -> String {
        let mut kinds: Vec<_> = self.timeline.problems.iter().map(|one| one.kind).collect();
        kinds.sort_unstable();
        let counted = kinds.chunk_by(|one, next| one == next);
        counted
            .map(|of_kind| of_kind[0].count(of_kind.len()))
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// What the newest session said about its work, in its own words.
    fn last_words(&self) -> Vec<Block> {
        let [stage] = self.timeline.stages.as_slice() else {
            return Vec::new();
        };
        let last = stage
            .sessions
            .iter()
            .rev()
            .find_map(|session| Some((session, session.words.as_ref()?)));
        let Some((session, words)) = last else {
            return Vec::new();
        };
        let head = |what: &str| {
            Text::own(format!(
                "{what}, in the words of session {}",
                session.number
            ))
        };
        let part = |what: &str, said: Option<&String>| {
            Block::quote(head(what), &short(said?, WORDS_CHARS_MAX))
        };
        let done = part("What is done", words.done.as_ref());
        let stopped = part("Where it stopped", words.stopped_at.as_ref());
        done.into_iter().chain(stopped).collect()
    }

    fn open(&self) -> Vec<Block> {
        let stages = self.timeline.stages.iter();
        let items = stages.filter_map(|stage| stage.items.as_ref());
        let items: Vec<&String> = items.flat_map(|items| &items.open).collect();
        let more = items.len().saturating_sub(ITEMS_SHOWN);
        let mut shown: Vec<Text> = items
            .iter()
            .take(ITEMS_SHOWN)
            .map(|item| Text::said(item))
            .collect();
        if shown.is_empty() {
            return Vec::new();
        }
        shown.extend((more > 0).then(|| Text::own(format!("and {more} more"))));
        vec![Block::line("Still open:"), Block::List { items: shown }]
    }
}
