//! What a table of a manifest may hold: one table of fields that the readers, the schema and the
//! documents share.
//!
//! Each format is a few [`Shape`]s. [`View::of`] holds a tree against one and tells everything that does
//! not fit; what does not fit is then as if it were not there, so that one fault does not make others.

pub(super) use super::document::Spot;
use super::fault::{Fault, Findings, quoted};
use super::hint;
use super::node::{Entry, Node, Value};
use super::path;
use crate::limits::{COMMAND_BYTES_MAX, STAGE_DOLLARS_MAX};
use crate::text::clean;

/// A table: its fields.
pub(super) struct Shape {
    pub(super) fields: &'static [Field],
    /// Other fields are no fault: the format is another program's.
    pub(super) open: bool,
}

/// A field of a table.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) needed: bool,
    pub(super) doc: &'static str,
}

/// What a field holds.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// Text on one line, not empty, without characters that hide.
    Line,
    /// Any text.
    Prose,
    /// Text that says something.
    Words,
    /// A command for `sh -c`.
    Command,
    /// A path within the project.
    Path,
    /// Paths or globs within the project.
    Globs,
    /// The same, of what is written.
    Outputs,
    /// Texts, each on one line.
    Lines,
    /// A whole number within bounds.
    Whole(i64, i64),
    /// US dollars, above 0.
    Dollars,
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A table.
    Table(&'static Shape),
    /// A list of tables.
    Tables(&'static Shape),
    /// A list whose entries are text or tables with that text.
    LinesOr(&'static Shape),
}

/// A table whose fields fit their shape.
pub(super) struct View<'a> {
    pub(super) line: u32,
    /// Whose table it is, for faults; empty for the file's own.
    pub(super) who: String,
    found: Vec<(&'static str, &'a Node)>,
    /// Fields that are there and do not fit, which was told.
    misfits: Vec<&'static str>,
}

impl Field {
    pub(super) const fn new(name: &'static str, kind: Kind, doc: &'static str) -> Self {
        Self { name, kind, needed: false, doc }
    }

    pub(super) const fn needed(name: &'static str, kind: Kind, doc: &'static str) -> Self {
        Self { name, kind, needed: true, doc }
    }
}

impl<'a> View<'a> {
    /// Holds a table against its shape.
    pub(super) fn of(node: &'a Node, shape: &Shape, who: &str, findings: &mut Findings) -> Self {
        let mut view = Self { line: node.line, who: who.to_owned(), found: Vec::new(), misfits: Vec::new() };
        for entry in node.entries().iter().filter(|entry| entry.node.value != Value::Null) {
            match shape.fields.iter().find(|field| field.name == entry.key) {
                Some(field) if view.fits(field, &entry.node, findings) => {
                    view.found.push((field.name, &entry.node));
                }
                Some(field) => view.misfits.push(field.name),
                None if !shape.open => view.unknown(entry, shape, findings),
                None => view.passed_over(entry, node, shape, findings),
            }
        }
        for field in shape.fields.iter().filter(|field| field.needed && node.get(field.name).is_none()) {
            let text = view.told(&format!("{} is missing", quoted(field.name)));
            let fault = Fault::new(view.line, &text);
            let is_chosen = matches!(field.kind, Kind::Choice(_) | Kind::Whole(..));
            let hint = format!("it is {}", field.kind.told());
            findings.add(if is_chosen { fault.hint(&hint) } else { fault });
        }
        view
    }

    fn unknown(&self, entry: &Entry, shape: &Shape, findings: &mut Findings) {
        let text = self.told(&format!("there is no field {}", quoted(&entry.key)));
        let near = hint::field(&entry.key, shape, findings);
        findings.add(Fault::new(entry.line, &text).hint_if(near));
    }

    /// In an open format any field may be there. One that reads like another, which is not there, is told:
    /// a validation that nobody runs for a slip of the pen should not pass in silence.
    fn passed_over(&self, entry: &Entry, node: &Node, shape: &Shape, findings: &mut Findings) {
        let absent = |name: &str| !node.has(name);
        if let Some(near) = hint::field_of(&entry.key, shape, absent, findings) {
            let text = self.told(&format!("{} is no field there and is passed over", quoted(&entry.key)));
            findings.add_slip(Fault::new(entry.line, &text).hint(&near));
        }
    }

    /// A text about this table.
    pub(super) fn told(&self, what: &str) -> String {
        if self.who.is_empty() { what.to_owned() } else { format!("{}: {what}", self.who) }
    }

    /// A fault in one of its fields.
    pub(super) fn wrong(&self, line: u32, field: &str, what: &str, findings: &mut Findings) {
        findings.say(line, &self.told(&format!("{field} {what}")));
    }

    fn fits(&self, field: &Field, node: &Node, findings: &mut Findings) -> bool {
        let fits = match (field.kind, &node.value) {
            (
                Kind::Globs | Kind::Outputs | Kind::Lines | Kind::Tables(_) | Kind::LinesOr(_),
                Value::List(_),
            )
            | (Kind::Table(_), Value::Map(_))
            | (Kind::Flag, Value::Bool(_))
            | (Kind::Prose, Value::Text(_)) => Ok(()),
            (Kind::Line | Kind::Words | Kind::Command | Kind::Path, Value::Text(text)) => {
                return self.says(field, text, node.line, findings);
            }
            (Kind::Whole(least, most), Value::Whole(number)) if (least..=most).contains(number) => Ok(()),
            (Kind::Dollars, Value::Whole(_) | Value::Fraction(_)) if micro_dollars(node).is_some() => Ok(()),
            (Kind::Choice(words), Value::Text(text)) if words.contains(&text.as_str()) => Ok(()),
            (kind, Value::Text(text)) if matches!(kind, Kind::Choice(_)) => {
                Err(format!("is {}, but must be {}", quoted(text), kind.told()))
            }
            (kind, Value::Whole(number)) if matches!(kind, Kind::Whole(..) | Kind::Dollars) => {
                Err(format!("is {number}, but must be {}", kind.told()))
            }
            (kind, value) => Err(format!("must be {}, but is {}", kind.told(), value.told())),
        };
        if let Err(what) = &fits {
            let text = self.told(&format!("{} {what}", field.name));
            let near = hint::value(field, &node.value, findings);
            findings.add(Fault::new(node.line, &text).hint_if(near));
        }
        fits.is_ok()
    }

    /// Text holds what a text of its kind may hold.
    fn says(&self, field: &Field, text: &str, line: u32, findings: &mut Findings) -> bool {
        let fault = match field.kind {
            Kind::Path => path::inside(text).err().map(|why| format!("{} {why}", quoted(text))),
            Kind::Command => command_fault(text).map(str::to_owned),
            Kind::Line => line_fault(text).map(str::to_owned),
            Kind::Words if text.trim().is_empty() => Some("is empty".to_owned()),
            Kind::Words
            | Kind::Prose
            | Kind::Globs
            | Kind::Outputs
            | Kind::Lines
            | Kind::Whole(..)
            | Kind::Dollars
            | Kind::Flag
            | Kind::Choice(_)
            | Kind::Table(_)
            | Kind::Tables(_)
            | Kind::LinesOr(_) => None,
        };
        if let Some(what) = &fault {
            self.wrong(line, field.name, what, findings);
        }
        fault.is_none()
    }

    /// The field is there, but does not fit.
    pub(super) fn misfit(&self, name: &str) -> bool {
        self.misfits.contains(&name)
    }

    pub(super) fn node(&self, name: &str) -> Option<&'a Node> {
        self.found.iter().find(|(found, _)| *found == name).map(|(_, node)| *node)
    }

    pub(super) fn spot(&self, name: &str) -> Option<Spot<&'a str>> {
        let node = self.node(name)?;
        Some(Spot { line: node.line, value: node.text()? })
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.spot(name).map(|spot| spot.value.to_owned())
    }

    /// Text of any kind without what hides; empty if there is none.
    pub(super) fn prose(&self, name: &str) -> String {
        self.spot(name).map(|spot| clean(spot.value).text.trim_end().to_owned()).unwrap_or_default()
    }

    pub(super) fn text_spot(&self, name: &str) -> Option<Spot<String>> {
        self.spot(name).map(Spot::owned)
    }

    pub(super) fn path(&self, name: &str) -> Option<Spot<String>> {
        let spot = self.spot(name)?;
        Some(Spot { line: spot.line, value: path::inside(spot.value).ok()? })
    }

    pub(super) fn whole<T: TryFrom<i64>>(&self, name: &str) -> Option<T> {
        match self.node(name)?.value {
            Value::Whole(number) => T::try_from(number).ok(),
            Value::Null
            | Value::Bool(_)
            | Value::Fraction(_)
            | Value::Date
            | Value::Text(_)
            | Value::List(_)
            | Value::Map(_) => None,
        }
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        self.node(name).is_some_and(|node| node.value == Value::Bool(true))
    }

    pub(super) fn dollars(&self, name: &str) -> Option<u64> {
        micro_dollars(self.node(name)?)
    }

    pub(super) fn nodes(&self, name: &str) -> &'a [Node] {
        self.node(name).and_then(Node::list).unwrap_or_default()
    }

    /// The paths or globs of a list, in their plain form.
    pub(super) fn globs(
        &self,
        name: &str,
        plain: fn(&str) -> Result<String, String>,
        findings: &mut Findings,
    ) -> Vec<Spot<String>> {
        let mut globs = Vec::new();
        for node in self.nodes(name) {
            let (line, text) = (node.line, node.text());
            match text.map(plain) {
                Some(Ok(value)) => globs.push(Spot { line, value }),
                Some(Err(why)) => {
                    let text = format!("{} {why}", quoted(text.unwrap_or_default()));
                    self.wrong(line, name, &text, findings);
                }
                None => self.wrong(line, name, &format!("holds {}, not text", node.value.told()), findings),
            }
        }
        globs
    }
}

impl Kind {
    /// What is expected, for people.
    pub(super) fn told(self) -> String {
        match self {
            Self::Line | Self::Prose | Self::Words | Self::Command | Self::Path => "text".to_owned(),
            Self::Globs | Self::Outputs | Self::Lines | Self::LinesOr(_) => "a list of texts".to_owned(),
            Self::Whole(least, i64::MAX) => format!("a whole number, {least} or more"),
            Self::Whole(least, most) if least == most => format!("the number {least}"),
            Self::Whole(least, most) => format!("a whole number from {least} to {most}"),
            Self::Dollars => format!("dollars above 0, {STAGE_DOLLARS_MAX} at most"),
            Self::Flag => "true or false".to_owned(),
            Self::Choice(words) => {
                let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
                format!("one of {}", words.join(", "))
            }
            Self::Table(_) => "a table".to_owned(),
            Self::Tables(_) => "a list of tables".to_owned(),
        }
    }
}

/// What is wrong with text on one line.
pub(super) fn line_fault(text: &str) -> Option<&'static str> {
    if text.trim().is_empty() {
        return Some("is empty");
    }
    let plain = clean(text).text == text && !text.contains(['\n', '\t']);
    (!plain).then_some("holds characters that hide or break a line")
}

/// What is wrong with a command. Somebody approves what they see, so nothing in it may hide.
pub(super) fn command_fault(text: &str) -> Option<&'static str> {
    if text.trim().is_empty() {
        Some("is empty")
    } else if text.len() > COMMAND_BYTES_MAX {
        Some("is too long for a command; make a script of it")
    } else if clean(text).text != text.replace("\r\n", "\n") {
        Some("holds characters that hide")
    } else {
        None
    }
}

/// Millionths of a dollar.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "bounded before"
)]
fn micro_dollars(node: &Node) -> Option<u64> {
    let dollars = match node.value {
        Value::Whole(number) => number as f64,
        Value::Fraction(number) => number,
        Value::Null | Value::Bool(_) | Value::Date | Value::Text(_) | Value::List(_) | Value::Map(_) => {
            return None;
        }
    };
    let fits = dollars > 0.0 && dollars <= f64::from(STAGE_DOLLARS_MAX);
    fits.then(|| (dollars * 1e6).round() as u64).filter(|micro| *micro > 0)
}
