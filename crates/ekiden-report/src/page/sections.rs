//! The sections after the first screen.

use std::collections::{BTreeMap, BTreeSet};

use ekiden_core::budget::Spend;
use ekiden_core::event::{Check, Delivery, Merge};
use ekiden_core::time::Millis;

use super::{Block, Section, Text, View, ends};
use crate::graph;
use crate::phrase;
use crate::svg;
use crate::timeline::{Left, Session, Stage, State, Words, check_word};

/// Stages whose task and lessons are shown.
const STAGES_SHOWN_MAX: usize = 40;
pub(super) const ROWS_MAX: usize = 120;
/// Facts, files and commits that are listed.
const LINES_MAX: usize = 60;
/// Curves of a plan's stages.
const CURVES_MAX: usize = 24;

impl View<'_> {
    pub(super) fn sections(&self) -> Vec<Section> {
        [
            Section::new("Stages", self.stages()),
            Section::new("What was asked", self.tasks()),
            Section::new("Context", self.curves()),
            Section::new("Sessions", self.sessions()),
            Section::new("Session by session", self.session_words()),
            Section::new("Verification", self.checks()),
            Section::new("Commits and files", self.changed()),
            Section::new("Cost", self.costs()),
            Section::new("Waits", self.waits()),
            Section::new("Problems", self.problems()),
            Section::new("Tools and skills", self.tools()),
            Section::new("What worked, and what to avoid", self.lessons()),
            Section::new("Knowledge as it grew", self.knowledge()),
            Section::new("What people asked of the run", self.asked()),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn tasks(&self) -> Vec<Block> {
        let stages = self.timeline.stages.iter().take(STAGES_SHOWN_MAX);
        let quotes = stages.flat_map(|stage| {
            stage
                .tasks
                .iter()
                .enumerate()
                .filter_map(|(index, (at, task))| {
                    let later = format!("a later wording, of {}", self.clock(*at));
                    let head = match (index, self.timeline.is_plan) {
                        (0, true) => Text::own(format!("{} ", stage.id)).and_said(&stage.name),
                        (0, false) => Text::said(&stage.name),
                        (_, _) => Text::own(later),
                    };
                    Block::quote(head, task)
                })
        });
        quotes.collect()
    }

    fn stages(&self) -> Vec<Block> {
        let timeline = self.timeline;
        if !timeline.is_plan {
            return Vec::new();
        }
        let rows = timeline.stages.iter().map(|stage| {
            let spend = stage
                .sessions
                .iter()
                .fold(Spend::default(), |sum, one| sum.plus(one.spend()));
            let subscription = stage.sessions.iter().any(Session::has_subscription);
            let merged = stage
                .merges
                .iter()
                .rev()
                .find_map(|(_, merge)| match merge {
                    Merge::Done { commit, .. } => Some(phrase::commit(commit)),
                    Merge::Conflict { .. }
                    | Merge::Broken { .. }
                    | Merge::Refused { .. }
                    | Merge::Failed { .. }
                    | Merge::Cancelled => None,
                });
            let running = Millis(stage.sessions.iter().map(|one| one.duration().0).sum());
            vec![
                Text::own(stage.id.as_str()),
                Text::said(&stage.name),
                Text::own(state_word(stage.state))
                    .and(" ")
                    .and_said(&stage.why),
                Text::own(stage.sessions.len().to_string()),
                took(running),
                Text::own(cost(spend, subscription)),
                Text::said(&merged.unwrap_or_default()),
            ]
        });
        let head = vec![
            "stage", "what", "state", "sessions", "took", "cost", "merged",
        ];
        let graph = match graph::graph(timeline) {
            Some(svg) => figure("The plan, by state", svg),
            None => Block::line(format!(
                "The graph of more than {} stages is not drawn.",
                graph::STAGES_MAX
            )),
        };
        let delivery = timeline.delivery.as_ref().map(delivered);
        [graph]
            .into_iter()
            .chain(Block::table(head, rows.collect(), ROWS_MAX))
            .chain(delivery)
            .collect()
    }

    fn curves(&self) -> Vec<Block> {
        let timeline = self.timeline;
        let stages = (0..timeline.stages.len()).filter_map(|place| {
            let points = self.streams.curve(timeline, place);
            let svg = svg::context(timeline, place, &points, self.zone)?;
            let stage = &timeline.stages[place];
            let of = if timeline.is_plan {
                format!(" of {}", stage.id)
            } else {
                String::new()
            };
            Some(figure(&format!("Context{of} in tokens over time"), svg))
        });
        let figures: Vec<Block> = stages.take(CURVES_MAX).collect();
        let left_out = self.streams.left_out;
        let note = (left_out > 0 && !figures.is_empty()).then(|| {
            Block::line(format!(
                "The event streams of {} were not read: the curve there has only what the log knows.",
                phrase::count(left_out as u64, "session")
            ))
        });
        figures.into_iter().chain(note).collect()
    }

    fn sessions(&self) -> Vec<Block> {
        let all = self.timeline.sessions().collect();
        let head = vec![
            "session",
            "began",
            "took",
            "context",
            "calls",
            "cost",
            "tokens",
            "verification",
            "ended",
        ];
        Block::table_of(head, all, ROWS_MAX, |(stage, session)| {
            self.session_row(stage, session)
        })
    }

    fn session_row(&self, stage: &Stage, session: &Session) -> Vec<Text> {
        let usage = session
            .usage()
            .map(|(tokens, percent)| phrase::usage(tokens, percent));
        let attempts = match session.attempts.len() {
            0 | 1 => String::new(),
            attempts => format!(" in {attempts} attempts"),
        };
        let check = session.check.as_ref();
        // Nothing is known yet of an attempt at work.
        let figure = |figure: String| match session.ends().next() {
            Some(_) => Text::own(figure),
            None => Text::default(),
        };
        vec![
            match &session.agent {
                Some(agent) => Text::own(self.session(stage, session.number))
                    .and(" · ")
                    .and_said(agent),
                None => Text::own(self.session(stage, session.number)),
            },
            Text::own(self.clock(session.began)),
            took(session.duration()),
            Text::own(usage.unwrap_or_default()),
            figure(session.tool_calls().to_string()),
            Text::own(cost(session.spend(), session.has_subscription())),
            figure(phrase::spent_tokens(session.spend())),
            Text::own(check.map_or("", |check| check_word(&check.outcome))),
            ended(session).and(attempts),
        ]
    }

    fn checks(&self) -> Vec<Block> {
        let mut rows = Vec::new();
        let mut tail = None;
        for stage in &self.timeline.stages {
            let mut row = |when: String, check: &Check| {
                let (word, took) = (check_word(&check.outcome), phrase::duration(check.duration));
                let last_line = check
                    .tail
                    .lines()
                    .rev()
                    .find(|line| !line.trim().is_empty());
                rows.push(vec![
                    Text::own(when),
                    Text::own(format!("{word} in {took}")),
                    Text::said(last_line.unwrap_or_default()),
                ]);
            };
            let before = if self.timeline.is_plan {
                format!("{} · before", stage.id)
            } else {
                "before the run".to_owned()
            };
            if let Some(check) = &stage.baseline {
                row(before, check);
            }
            for session in &stage.sessions {
                if let Some(check) = &session.check {
                    row(
                        format!("after {}", self.session(stage, session.number)),
                        check,
                    );
                    tail = Some(check).filter(|check| !check.passed());
                }
            }
        }
        let commands = self
            .timeline
            .stages
            .iter()
            .filter_map(|stage| stage.verification.as_deref());
        let command = commands.take(1).filter(|_| !self.timeline.is_plan);
        let command = command.map(|command| Block::Line {
            text: Text::said(command),
        });
        let tail = tail
            .and_then(|check| Block::quote(Text::own("The end of the last output"), &check.tail));
        let table = Block::table(vec!["when", "result", "last line"], rows, ROWS_MAX);
        command.chain(table).chain(tail).collect()
    }

    /// The commits of all sessions, each once: those of a stage also see what was merged into it.
    pub(super) fn commits(&self) -> Vec<&str> {
        let mut seen = BTreeSet::new();
        let sessions = self.timeline.sessions();
        let commits = sessions.flat_map(|(_, session)| session.commits.iter().rev());
        let commits = commits.map(String::as_str);
        commits.filter(|line| seen.insert(*line)).collect()
    }

    fn changed(&self) -> Vec<Block> {
        let mut files: BTreeMap<&str, &str> = BTreeMap::new();
        for (_, session) in self.timeline.sessions() {
            for line in &session.files {
                let (letters, path) = line.trim_start().split_once(' ').unwrap_or(("", line));
                files.insert(path.trim(), letters);
            }
        }
        let commits = self.commits().into_iter().map(|line| ("", line)).collect();
        let list = |items: Vec<(&str, &str)>, what: &str| {
            let head = Block::line(format!("{}:", phrase::count(items.len() as u64, what)));
            let (items, left_out) = ends(items, LINES_MAX);
            let more =
                (left_out > 0).then(|| Block::line(format!("Left out in the middle: {left_out}.")));
            let items: Vec<Text> = items
                .into_iter()
                .map(|(own, said)| Text::own(own).and_said(said))
                .collect();
            let list = (!items.is_empty()).then_some([head, Block::List { items }]);
            list.into_iter().flatten().chain(more)
        };
        let letters: Vec<(String, &str)> = files
            .into_iter()
            .map(|(path, letters)| (format!("{letters} "), path))
            .collect();
        let files = letters
            .iter()
            .map(|(letters, path)| (letters.as_str(), *path));
        let files = files.collect();
        list(commits, "commit").chain(list(files, "file")).collect()
    }

    /// From each stage's newest handoff that says something: the agent repeats the lessons that still hold.
    fn lessons(&self) -> Vec<Block> {
        let stages = self.timeline.stages.iter().take(STAGES_SHOWN_MAX);
        let lessons = stages.flat_map(|stage| {
            let newest = |part: fn(&Words) -> Option<&String>, what: &str| {
                let mut sessions = stage.sessions.iter().rev();
                let found = sessions.find_map(|one| Some((one.number, part(one.words.as_ref()?)?)));
                let (number, said) = found?;
                let head = format!("{what}, by {}", self.session(stage, number));
                Block::quote(Text::own(head), said)
            };
            [
                newest(|words| words.works.as_ref(), "What worked"),
                newest(|words| words.avoid.as_ref(), "What to avoid"),
            ]
        });
        lessons.flatten().collect()
    }

    /// What each session added; other facts were known before, or a person wrote them.
    fn knowledge(&self) -> Vec<Block> {
        let timeline = self.timeline;
        let known: BTreeSet<&str> = timeline.standing.facts.iter().map(String::as_str).collect();
        let learned: BTreeSet<&str> = timeline
            .learned
            .iter()
            .map(|one| one.fact.as_str())
            .collect();
        let given = known.difference(&learned);
        let given = given.map(|fact| (Text::own("given"), *fact));
        let learned = timeline.learned.iter().map(|one| {
            let session = self.session(&timeline.stages[one.stage], one.session);
            let gone = if timeline.is_plan || known.contains(one.fact.as_str()) {
                ""
            } else {
                ", no longer held"
            };
            (Text::own(session + gone), one.fact.as_str())
        });
        let facts = given.chain(learned).collect();
        let row = |(by, fact): (Text, &str)| vec![by, Text::said(fact)];
        let table = Block::table_of(vec!["learned by", "fact"], facts, LINES_MAX, row);
        let now = format!("{} now.", phrase::count(known.len() as u64, "fact"));
        let now = (!table.is_empty()).then(|| Block::line(now));
        now.into_iter().chain(table).collect()
    }

    fn asked(&self) -> Vec<Block> {
        let rows = self.timeline.asked.iter().map(|asked| {
            vec![
                Text::own(self.clock(asked.at)),
                Text::own(asked.what),
                Text::said(&asked.words),
            ]
        });
        Block::table(vec!["when", "what", "words"], rows.collect(), ROWS_MAX)
    }
}

/// Empty while the first attempt works: its duration is known only at its end.
fn took(duration: Millis) -> Text {
    match duration {
        Millis(0) => Text::own(""),
        duration => Text::own(phrase::duration(duration)),
    }
}

fn ended(session: &Session) -> Text {
    let (Some(left), Some(end)) = (session.left, session.end()) else {
        return Text::own("has not ended");
    };
    match left {
        Left::Handoff => Text::own("handed off"),
        Left::Completion => Text::own("said that all is done"),
        Left::Question => Text::own("asked something"),
        Left::Passed => Text::own("reviewed the work and passed it"),
        Left::Findings => Text::own("reviewed the work and found faults"),
        Left::Nothing if session.is_review => {
            Text::own("came to no verdict: ").and_said(&end.cause.to_string())
        }
        Left::Nothing => Text::own("left no handoff: ").and_said(&end.cause.to_string()),
    }
}

pub(super) fn figure(title: &str, svg: String) -> Block {
    Block::Figure {
        title: title.to_owned(),
        svg,
    }
}

pub(super) fn cost(spend: Spend, subscription: bool) -> String {
    match spend.micro_usd {
        0 => String::new(),
        cost => phrase::cost(cost, spend.estimated, subscription),
    }
}

fn delivered(delivery: &Delivery) -> Block {
    let text = match delivery {
        Delivery::Given { branch, commit } => Text::own("Delivered: ")
            .and_said(branch.as_deref().unwrap_or("the checkout"))
            .and(" is at ")
            .and_said(&phrase::commit(commit)),
        Delivery::Kept { branch, why, .. } => Text::own("Not delivered: ")
            .and_said(why)
            .and(". It lies on ")
            .and_said(branch),
    };
    Block::Line { text }
}

pub(crate) fn state_word(state: State) -> &'static str {
    match state {
        State::Waiting => "waiting",
        State::Working => "working",
        State::Interrupted => "interrupted",
        State::Done => "done",
        State::Asks => "asks",
        State::Failed => "failed",
        State::Skipped => "skipped",
        State::LeftOut => "left out",
        State::Blocked => "blocked",
    }
}
