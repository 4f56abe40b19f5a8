//! Something that happened in a run, in both forms: the JSON line for programs and the lines for people.
//! One place makes both, so `--json` says everything that the lines say.

use ekiden_core::ids::{RunId, StageId};
use ekiden_core::time::Timestamp;
use serde::Serialize;

use super::json::{Fields, fields};
use super::line::Line;
use super::phrase::utc;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub stage: Option<StageId>,
    pub session: Option<u32>,
    /// For people. `None` if only programs want to know.
    pub lines: Vec<Line>,
    fields: Fields,
}

impl Entry {
    pub fn new(event: &str) -> Self {
        Self {
            stage: None,
            session: None,
            lines: Vec::new(),
            fields: fields! { "event": event },
        }
    }

    pub fn of_session(event: &str, session: u32) -> Self {
        Self {
            session: Some(session),
            ..Self::new(event).fields(fields! { "session": session })
        }
    }

    pub fn fields(self, object: impl Serialize) -> Self {
        let fields = self.fields.and(object);
        Self { fields, ..self }
    }

    pub fn line(self, line: Line) -> Self {
        self.lines([line])
    }

    pub fn lines(mut self, lines: impl IntoIterator<Item = Line>) -> Self {
        self.lines.extend(lines);
        self
    }

    /// The line for programs.
    pub fn json(&self, at: Timestamp, run: &RunId) -> Fields {
        let stage = self.stage.as_ref().map(|stage| fields! { "stage": stage });
        Fields::versioned()
            .and(fields! { "time": utc(at), "run": run })
            .and(stage)
            .and(&self.fields)
    }

    /// The same without run and stage, for a caller that has named them already.
    pub fn json_of_session(&self, at: Timestamp) -> Fields {
        fields! { "time": utc(at) }.and(&self.fields)
    }
}
