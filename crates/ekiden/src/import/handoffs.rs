//! Handoff documents of CCS.

use std::time::SystemTime;

use ekiden_store::documents::minute_of;
use serde_json::Value;

use super::source::Source;
use super::{Became, Conversion};
use crate::failure::Failure;

const DIR: &str = ".claude/handoffs";
/// The state of a watched session.
const CHECKPOINT_STATE: &str = ".claude/checkpoint-state.json";

/// A document, named by its minute.
#[derive(Debug)]
pub struct Document {
    pub name: String,
    /// As `2026-01-07-1045`.
    pub minute: String,
    pub text: String,
    pub modified: Option<SystemTime>,
}

/// The documents of a project, oldest first, and what cannot be imported.
pub fn documents(source: &Source) -> Result<(Vec<Document>, Vec<Conversion>), Failure> {
    let (mut documents, mut conversions) = (Vec::new(), Vec::new());
    for name in source.names(DIR)? {
        let name = format!("{DIR}/{name}");
        let Some(minute) = name.rsplit('/').next().and_then(minute_of) else {
            let why = "its name is not a time such as 2026-01-07-1045.md";
            conversions.push(Conversion::new(name, Became::Nothing(why.to_owned())));
            continue;
        };
        if let Some(text) = source.text(&name)? {
            let minute = minute.to_owned();
            documents.push(Document {
                modified: source.modified(&name),
                name,
                minute,
                text,
            });
        }
    }
    if let Some(state) = source.object(CHECKPOINT_STATE)? {
        let issue = state.get("linearIssue").and_then(Value::as_str);
        let issue = issue.and_then(|issue| shlex::try_quote(issue).ok());
        let issue = issue.map(|issue| {
            format!("; unless the branch names its issue: `ekiden config set guard.issue {issue}`")
        });
        let why = "context use is measured anew, and the handoff that it names is listed above";
        let why = format!("{why}{}", issue.unwrap_or_default());
        conversions.push(Conversion::new(CHECKPOINT_STATE, Became::Nothing(why)));
    }
    Ok((documents, conversions))
}
