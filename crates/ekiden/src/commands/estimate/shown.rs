//! Prints an estimate for people.

use ekiden_core::estimate::{Kind, Learned, Outlook, Past, Range, Session, Sessions, Unit};
use ekiden_core::guard::estimate::Estimate;

use super::Subject;
use crate::output::line::{Line, Tone, one_line};
use crate::output::phrase;
use crate::output::table::{self, Cell, Column, Side};

/// Past work of about this size that is shown.
const SIMILAR: usize = 3;

pub(in crate::commands) fn parts(counted: &Estimate) -> String {
    let named = phrase::files(usize::try_from(counted.files).unwrap_or(usize::MAX));
    let [text, files] = [counted.text_tokens, counted.file_tokens].map(phrase::tokens);
    let files = match counted.files {
        0 => String::new(),
        _ => format!("{files} for {named} that it names, "),
    };
    let items = phrase::count(counted.items, "open item");
    format!("{text} for the text, {files}{items}, and what any task takes")
}

impl Subject {
    pub(super) fn lines(&self) -> Vec<Line> {
        let learned = Learned::of(&self.past, self.kind);
        let outlook = self.outlook(&learned);
        let share = outlook
            .context_tokens
            .map(|tokens| tokens.saturating_mul(100).div_ceil(self.window_tokens));
        let share = phrase::range(share, |percent| format!("{percent}%"));
        let tokens = |range: Range| phrase::range(range, phrase::tokens) + " tokens";
        let sessions = phrase::range(outlook.sessions, |count| count.to_string());
        let read = outlook.read_tokens.map(tokens);
        let rows = [
            ("context", Some(tokens(outlook.context_tokens))),
            ("sessions", Some(sessions)),
            ("read", read.map(|read| read + ", uncached")),
            ("written", outlook.written_tokens.map(tokens)),
            ("time", outlook.duration_ms.map(phrase::durations)),
            ("cost", outlook.micro_usd.map(phrase::costs)),
        ];
        let share = format!(" · {share} of the usable window");
        let head = Line::new(Tone::Plain, self.name.clone()).with(Tone::Quiet, share);
        let rows = rows
            .into_iter()
            .filter_map(|(name, figure)| Some(row(name, figure?)));
        let mut lines: Vec<Line> = std::iter::once(head).chain(rows).collect();
        lines.push(row("why", self.reasons()));
        lines.push(row("learned", self.learned(&learned, &outlook)));
        if self.parts > 1 {
            lines.push(row(
                "advice",
                format!("shard it, into {} parts", self.parts),
            ));
        }
        lines
    }

    fn reasons(&self) -> String {
        if !self.stated.is_empty() && self.stated.iter().all(|stated| *stated > 0) {
            return "the manifest states it".to_owned();
        }
        let tokens = phrase::tokens(self.counted.tokens);
        format!("counted {tokens}: {}", parts(&self.counted))
    }

    fn learned(&self, learned: &Learned, outlook: &Outlook) -> String {
        let what = match self.kind {
            Kind::Run => "run",
            Kind::Stage => "stage",
            Kind::Item => "item",
            Kind::Session => "session",
        };
        if learned.samples == 0 {
            // Work of another kind may have told the time all the same.
            let so = match outlook.duration_ms.is_none() {
                true => "the ranges are wide, and time and cost are unknown",
                false => "other work stands in for it",
            };
            return format!("no {what} with an estimate has finished here: {so}");
        }
        let distance = |past: &&Past| past.estimated.abs_diff(self.counted.tokens);
        let mut similar: Vec<&Past> = self
            .past
            .iter()
            .filter(|past| past.kind == self.kind && past.took.context_tokens > 0)
            .collect();
        similar.sort_by_key(distance);
        let similar = similar
            .iter()
            .take(SIMILAR)
            .map(|past| phrase::tokens(past.took.context_tokens));
        let similar = similar.collect::<Vec<_>>().join(", ");
        let errors = learned.errors.map_or(String::new(), |errors| {
            format!(
                "; the middle was off by {:.0}% (MAPE), and p90 held {:.0}%",
                errors.p50_off_percent, errors.p90_held_percent
            )
        });
        let count = phrase::count(learned.samples as u64, what);
        format!("from {count} here; the most similar took {similar} tokens{errors}")
    }

    pub(super) fn item_lines(&self, wide: Option<usize>) -> Vec<Line> {
        let columns = [
            Column::new("item", Side::Left, 0),
            Column::new("context", Side::Right, 0),
            Column::new("time", Side::Right, 1),
            Column::new("cost", Side::Right, 2),
        ];
        let row = |(unit, outlook): (&Unit, Outlook)| -> Vec<Cell> {
            let cells = [
                one_line(&unit.title),
                phrase::range(outlook.context_tokens, phrase::tokens),
                outlook
                    .duration_ms
                    .map(phrase::durations)
                    .unwrap_or_default(),
                outlook.micro_usd.map(phrase::costs).unwrap_or_default(),
            ];
            cells.map(|text| (Tone::Plain, text)).into()
        };
        let rows: Vec<Vec<Cell>> = self.units.iter().zip(self.outlooks()).map(row).collect();
        table::lines(&columns, &rows, wide)
    }

    pub(super) fn session_lines(&self, sessions: &Sessions, wide: Option<usize>) -> Vec<Line> {
        let columns = [
            Column::new("session", Side::Left, 0),
            Column::new("context", Side::Right, 0),
            Column::new("needs", Side::Left, 1),
            Column::new("items", Side::Left, 0),
        ];
        let row = |session: &Session| -> Vec<Cell> {
            let tone = if session.is_over {
                Tone::Attention
            } else {
                Tone::Plain
            };
            vec![
                (Tone::Plain, session.id.clone()),
                (tone, phrase::range(session.tokens, phrase::tokens)),
                (Tone::Quiet, session.needs.join(", ")),
                (Tone::Plain, one_line(&session.units.join(", "))),
            ]
        };
        let rows: Vec<Vec<Cell>> = sessions.sessions.iter().map(row).collect();
        let mut lines = table::lines(&columns, &rows, wide);
        if sessions.sessions.iter().any(|session| session.is_over) {
            let text =
                "A single item may take more than the usable window: its session will hand off.";
            lines.push(Line::new(Tone::Quiet, text));
        }
        lines
    }
}

fn row(name: &str, figure: String) -> Line {
    Line::labelled(name, Tone::Plain, figure)
}
