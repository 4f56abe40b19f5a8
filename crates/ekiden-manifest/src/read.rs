//! Reads the text of a file into a document.

use crate::check::Reader;
use crate::document::{Defaults, Document, Format, Surroundings};
use crate::draft::Draft;
use crate::fault::{Fault, Faults};
use crate::syntax::{Syntax, parse};
use crate::tree::{Node, Value};
use crate::{casm, cleave, own};

/// Reads a manifest in any of the three formats, and asks for every file and agent that it names.
pub fn read(
    text: &str,
    syntax: Syntax,
    defaults: &Defaults,
    around: &mut dyn Surroundings,
) -> Result<Document, Faults> {
    let root = parse(text, syntax)?;
    if !matches!(root.value, Value::Map(_)) {
        let text = format!("a manifest is a table, this is {}", root.value.name());
        return Err(Fault::new(root.line, &text).into());
    }
    let format = format_of(&root, syntax);
    let mut reader = Reader {
        is_open: format != Format::Ekiden,
        ..Reader::default()
    };
    let top = match format {
        Format::Ekiden => own::read(&root, &mut reader, defaults)?,
        Format::Casm => casm::read(&root, &mut reader),
        Format::Cleave => cleave::read(&root, &mut reader),
    };
    // It may be large.
    drop(root);
    let draft = Draft {
        format,
        top,
        stages: reader.stages,
        findings: reader.findings,
    };
    draft.into_document(defaults, around)
}

/// Whether a file is one, by its ending and its keys at the top. It may have any number of faults.
pub fn looks_like_manifest(file: &str, text: &str) -> bool {
    let endings = [".toml", ".json", ".yaml", ".yml"];
    endings.iter().any(|ending| file.ends_with(ending))
        && parse(text, Syntax::of(file, text)).is_ok_and(|root| {
            let keys = ["stage", "sessions", "stages"];
            keys.iter().any(|key| root.has(key))
        })
}

/// The format, by the keys at the top: CASM has `sessions`, a cleave pipeline `stages`. Everything else
/// counts as ours, as does any file with a list of `stage` or in TOML, which the others do not use. Other
/// keys say nothing: those formats are open. A key counts even if its value is null.
pub(crate) fn format_of(root: &Node, syntax: Syntax) -> Format {
    let is_list = |node: &Node| matches!(node.value, Value::List(_));
    if syntax == Syntax::Toml || root.get("stage").is_some_and(is_list) {
        Format::Ekiden
    } else if root.has("sessions") {
        Format::Casm
    } else if root.has("stages") {
        Format::Cleave
    } else {
        Format::Ekiden
    }
}
