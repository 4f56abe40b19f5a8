//! The part of a plan that a watched session works on, and the next one.

use std::io::Read as _;
use std::path::Path;

use ekiden_core::guard::document::TranscriptFacts;
use ekiden_core::guard::estimate::named_files;
use ekiden_core::limits::MANIFEST_BYTES_MAX;
use ekiden_core::manifest::Stage;
use ekiden_manifest::{Defaults, Syntax, TextAlone};
use ekiden_store::beneath;

/// What comes after the part of a plan that the session was asked for; `None` if it names none, or the last
/// one.
pub(super) fn next(dir: &Path, told: &TranscriptFacts) -> Option<String> {
    let prompts = told.asked_last.iter().chain(&told.task);
    prompts.filter_map(|prompt| after(dir, prompt)).next()
}

fn after(dir: &Path, prompt: &str) -> Option<String> {
    let (plan, stages) = named_files(prompt)
        .into_iter()
        .find_map(|name| Some((manifest(name)?, stages(dir, &manifest(name)?)?)))?;
    let words = prompt.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'));
    let words: Vec<&str> = words.collect();
    let is_named = |stage: &Stage| words.contains(&stage.id.as_str());
    let place = stages.iter().position(is_named)?;
    let next = stages.get(place + 1)?;
    let file = next.part.context.first();
    let file = file.map_or(String::new(), |file| format!(" ({file})"));
    Some(format!(
        "When {} of {plan} is done, the next part is {}: {}{file}. A fresh session does it when asked to do {} of {plan}.",
        stages[place].id, next.id, next.task_name, next.id,
    ))
}

/// The manifest that a file is, or that is beside a part of it.
fn manifest(name: &str) -> Option<String> {
    match name.rsplit_once(".parts/") {
        Some((plan, _)) => Some(format!("{plan}.toml")),
        None => (name.ends_with(".toml") || name.ends_with(".json")).then(|| name.to_owned()),
    }
}

fn stages(dir: &Path, name: &str) -> Option<Vec<Stage>> {
    let found = beneath::open_file(dir, Path::new(name)).ok()?;
    let mut text = String::new();
    let most = MANIFEST_BYTES_MAX as u64;
    found.file.take(most).read_to_string(&mut text).ok()?;
    let syntax = Syntax::of(name, &text);
    let read = ekiden_manifest::read(&text, syntax, &Defaults::default(), &mut TextAlone);
    Some(read.ok()?.stages)
}
