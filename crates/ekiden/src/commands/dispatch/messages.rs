//! What the dispatcher prints.

use super::Dispatcher;
use super::place::{IssueWorktree, Standing};
use crate::output::json::Fields;
use crate::output::line::{Line, Tone, one_line};
use crate::output::phrase;

impl Dispatcher<'_> {
    pub(super) fn say_standing(&mut self, place: &IssueWorktree, before: Option<&Standing>) {
        let (what, why) = match &place.standing {
            // This was reported when it was taken.
            Standing::Empty | Standing::Begins | Standing::Stops(_) => return,
            Standing::Works(_) if before.is_some() => return,
            Standing::Works(work) => (format!("run {} works", work.run), None),
            Standing::CutOff(work) => (format!("run {} is not finished", work.run), None),
            Standing::Over(work, outcome) if outcome.is_complete() => {
                (format!("run {} ended: {outcome}", work.run), None)
            }
            Standing::Over(work, outcome) => {
                let dir = phrase::path(&place.workspace.dir);
                let why = format!("{outcome}; `ekiden status -d {dir}`");
                (format!("run {} ended", work.run), Some(why))
            }
            Standing::Unreadable(why) => ("is left alone".to_owned(), Some(why.clone())),
        };
        self.say(&place.issue, &what, why.as_deref());
    }

    /// Says why nothing begins, once.
    pub(super) fn say_obstacle(&mut self, obstacle: Option<String>) {
        if let Some(text) = obstacle.as_ref().filter(|_| self.obstacle != obstacle) {
            if self.json {
                let fields = Fields::versioned().with("what", "nothing begins");
                self.output.json(&fields.with("why", text));
            } else {
                self.output.line(Line::attention(one_line(text)));
            }
        }
        self.obstacle = obstacle;
    }

    /// Says which issues wait for another one, once each: they may wait for each other.
    pub(super) fn say_blocked(&mut self) {
        for issue in self.blocked.clone() {
            if !self.blocked_shown.contains(&issue) {
                self.say(&issue, "waits for another open issue", None);
            }
        }
        self.blocked_shown.clone_from(&self.blocked);
    }

    pub(super) fn say(&mut self, issue: &str, what: &str, why: Option<&str>) {
        if self.json {
            let fields = Fields::versioned().with("issue", issue).with("what", what);
            self.output.json(&fields.with("why", why));
            return;
        }
        let line = Line::new(Tone::Plain, format!("{}  ", one_line(issue)));
        let line = line.with(Tone::Plain, one_line(what));
        let why = why.map(|why| format!(": {}", one_line(why)));
        self.output
            .line(line.with(Tone::Attention, why.unwrap_or_default()));
    }
}
