//! A session that another program held before ekiden took its relay over: only its texts are known.

use std::collections::BTreeMap;

use ekiden_core::ids::{AttemptNumber, SessionNumber};
use ekiden_engine::session_archive::{Part, SessionArchive};

use super::{ReadRun, show};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::json::{Fields, fields};
use crate::output::line::{Line, Tone};
use crate::output::table::Cell;
use crate::output::{Output, phrase};

/// The numbers of these sessions, and the other program's directory.
pub(super) fn of(read: &ReadRun) -> (&[SessionNumber], &str) {
    let imported = read.run.header().imported.as_ref();
    imported.map_or((&[], ""), |all| (&all.sessions, &all.from))
}

/// A row of the table of sessions.
pub(super) fn cells(number: SessionNumber, from: &str, columns: usize) -> Vec<Cell> {
    let mut cells = vec![(Tone::Plain, String::new()); columns];
    cells[0].1 = number.to_string();
    cells[columns - 1] = (Tone::Quiet, format!("imported from {from}"));
    cells
}

/// The same for programs.
pub(super) fn json(number: SessionNumber, from: &str) -> Fields {
    fields! { "session": number, "state": "imported", "imported": from }
}

/// Shows the session with this number, or the newest if the run had none yet; nothing if it is not such a session.
pub(super) fn show(
    read: &ReadRun,
    asked: Option<u32>,
    parts: &[Part],
    output: &mut Output,
) -> Result<Option<Exit>, Failure> {
    let (numbers, from) = of(read);
    let has_own = read.sessions.all().next().is_some();
    let number = match asked {
        Some(asked) => numbers.iter().find(|number| number.get() == asked),
        None => numbers.last().filter(|_| !has_own),
    };
    let Some(number) = number.filter(|number| read.sessions.get(number.get()).is_none()) else {
        return Ok(None);
    };
    let run = &read.run.header().run;
    let archive = SessionArchive::of(&read.workspace, run, None, *number);
    let files = archive.files()?;
    let text = |part: Part| -> Result<Vec<u8>, Failure> {
        let text = archive.read(part, AttemptNumber::FIRST);
        text?.ok_or_else(|| {
            let name = archive.name(part, AttemptNumber::FIRST);
            let what = format!("{from} kept no {name} of session {number}");
            Failure::new(Exit::MissingInput, what)
                .hint(format!("`ekiden show {number}` shows what there is"))
        })
    };
    if read.json {
        let name = |part: &Part| archive.name(*part, AttemptNumber::FIRST);
        let texts = parts.iter().map(|part| {
            let text = text(*part).ok();
            (
                name(part),
                text.map(|text| String::from_utf8_lossy(&text).into_owned()),
            )
        });
        let texts: BTreeMap<String, Option<String>> = texts.collect();
        let files = files.into_iter();
        let files: Vec<Fields> = files
            .map(|(name, bytes)| fields! { "name": name, "bytes": bytes })
            .collect();
        let answer = read.json().and(json(*number, from));
        output.json(&answer.and(fields! { "files": files, "texts": texts }));
        return Ok(Some(Exit::Done));
    }
    for part in parts {
        output.foreign(&text(*part)?);
    }
    if parts.is_empty() {
        let head = format!("session {number} of run {}", read.id);
        let of = format!(" · imported from {from}, which kept its texts");
        output.line(Line::new(Tone::Plain, head).with(Tone::Quiet, of));
        let sized = |(name, bytes): &(String, u64)| format!("{name} {}", phrase::bytes(*bytes));
        let kept: Vec<String> = files.iter().map(sized).collect();
        output.line(Line::labelled("kept", Tone::Plain, kept.join(", ")));
        let dir = phrase::path(archive.dir());
        output.line(Line::labelled("in", Tone::Quiet, dir));
        let name = |part| archive.name(part, AttemptNumber::FIRST);
        let parts = show::flags(|part| files.iter().any(|(file, _)| *file == name(part)));
        let more = format!("ekiden show {number}{} {parts}", read.named);
        output.line(Line::labelled("more", Tone::Quiet, more));
    }
    Ok(Some(Exit::Done))
}
