//! What every session in a project reads: its standing instructions and the active spec.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use ekiden_core::guard::document::{Instructions, TranscriptFacts, named_specs, section_names};
use ekiden_core::limits::INSTRUCTIONS_BYTES_MAX;
use ekiden_store::beneath;

/// Files of standing instructions, in the places where agents look for them.
const NAMES: [&str; 4] = [
    "CLAUDE.md",
    "CLAUDE.local.md",
    ".claude/CLAUDE.md",
    "AGENTS.md",
];

/// The files that exist, each once, with their sections.
pub(super) fn instructions(dir: &Path) -> Vec<Instructions> {
    let mut seen = Vec::new();
    let mut found = Vec::new();
    for name in NAMES {
        // One may be a link to the other.
        let Ok(real) = beneath::open_file(dir, Path::new(name)) else {
            continue;
        };
        if seen.contains(&real.path) {
            continue;
        }
        if let Some(text) = read(real.file) {
            found.push(Instructions {
                path: name.to_owned(),
                sections: section_names(&text),
            });
            seen.push(real.path);
        }
    }
    found
}

/// The spec that the session follows: one that its prompts name, or that of its issue, or the one before.
pub(super) fn spec(
    dir: &Path,
    told: &TranscriptFacts,
    issue: Option<&str>,
    before: Option<String>,
) -> Option<String> {
    let prompts = told.asked_last.iter().chain(&told.task);
    let named = prompts.flat_map(|prompt| named_specs(prompt));
    let of_issue = issue.map(|issue| format!(".claude/specs/current/SPEC-{issue}.md"));
    named.chain(of_issue).chain(before).find(|path| {
        Path::new(path).is_relative() && beneath::open_file(dir, Path::new(path)).is_ok()
    })
}

fn read(file: File) -> Option<String> {
    let mut bytes = Vec::new();
    file.take(INSTRUCTIONS_BYTES_MAX)
        .read_to_end(&mut bytes)
        .ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
