//! Manifests in every format, good and bad.

mod foreign;
mod formats;
mod hostile;
mod resolving;
mod sizes;

use ekiden_core::agent::{AgentKind, AgentSpec, Interface, Permissions};
use ekiden_core::manifest::{Need, OnFail, Stage, Verification};

use crate::fault::Faults;
use crate::{Defaults, Document, Format, FoundText, Surroundings, Syntax};

/// A manifest of ours around these stages.
fn own(stages: &str) -> String {
    format!("format = 1\nproject = \"p\"\n{stages}")
}

/// A stage of ours with more lines.
fn stage(id: &str, more: &str) -> String {
    format!("[[stage]]\nid = \"{id}\"\nname = \"n\"\nprompt = \"p\"\n{more}\n")
}

fn read(text: &str, syntax: Syntax) -> Result<Document, Faults> {
    crate::read(text, syntax, &Defaults::default(), &mut Around)
}

fn good(text: &str, syntax: Syntax) -> Document {
    read(text, syntax).unwrap_or_else(|faults| panic!("{faults}"))
}

fn faults(text: &str, syntax: Syntax) -> String {
    match read(text, syntax) {
        Ok(_) => "none\n".to_owned(),
        Err(faults) => faults.to_string(),
    }
}

/// What a stage needs; `?` marks what it needs only optionally.
fn needs(stage: &Stage) -> String {
    let told = |need: &Need| format!("{}{}", need.stage, if need.optional { "?" } else { "" });
    let needs = stage.part.needs.iter().map(told);
    needs.collect::<Vec<_>>().join(" ")
}

/// All that a stage's verification checks, on one line.
fn checks(stage: &Stage) -> String {
    let verification = stage.verification.as_ref();
    verification.map_or("nothing".to_owned(), Verification::in_one_line)
}

/// Files and agents that are there, and some that are not.
struct Around;

impl Surroundings for Around {
    fn prompt(&mut self, _: Format, file: &str) -> Result<String, String> {
        match file {
            "gone.md" => Err("does not exist".to_owned()),
            "empty.md" => Ok(" \n".to_owned()),
            "long.md" => Ok("x".repeat(6_001)),
            file => Ok(format!("Do as {file}\u{200b} says.\r\n")),
        }
    }

    fn architecture(&mut self, file: &str) -> Result<Option<FoundText>, String> {
        let text = match file {
            "architecture.md" | "docs/architecture.md" => format!("As {file} says."),
            "odd.md" => return Err("is not a file".to_owned()),
            "gone.md" | "ARCHITECTURE.md" => return Ok(None),
            other => format!("{other} is the plan."),
        };
        let name = file.to_owned();
        Ok(Some(FoundText { name, text }))
    }

    fn stays_inside(&mut self, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn agent(&mut self, name: Option<&str>, model: Option<&str>) -> Result<AgentSpec, String> {
        let name = name.unwrap_or("claude");
        if name == "nobody" {
            return Err("there is no agent \"nobody\"".to_owned());
        }
        Ok(AgentSpec {
            name: name.to_owned(),
            kind: AgentKind::Claude,
            command: vec!["claude".to_owned()],
            model: model.map(str::to_owned),
            account: None,
            permissions: Permissions::default(),
            interface: Interface::Headless,
        })
    }
}
