//! Manifests in every format, good and bad.

mod foreign;
mod formats;
mod hostile;
mod resolving;
mod sizes;

use super::*;

/// A manifest of ours around these stages.
fn own(stages: &str) -> String {
    format!("format = 1\nproject = \"p\"\n{stages}")
}

/// A stage of ours with more lines.
fn stage(id: &str, more: &str) -> String {
    format!("[[stage]]\nid = \"{id}\"\nname = \"n\"\nprompt = \"p\"\n{more}\n")
}

fn faults(text: &str, syntax: Syntax) -> String {
    match read(text, syntax) {
        Ok(_) => "none\n".to_owned(),
        Err(faults) => faults.to_string(),
    }
}
