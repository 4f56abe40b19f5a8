//! What a stage of a plan starts with: the summary of the whole, files, results of earlier stages.
//!
//! [`StageContext::of`] makes it once, when the stage starts, and the log records it. So all sessions of the
//! stage see the same bytes, whatever happens to the files. It holds marked lines within the budget of each
//! part. If a session has less room than all of them need, [`StageContext::within`] cuts harder: files first,
//! since the agent can read them, then the summary, then the results.

use serde::{Deserialize, Serialize};

use super::budget::tokens;
use super::excerpt::{Excerpt, Excerpts, Sharing};
use crate::handoff::FileText;
use crate::ids::StageId;
use crate::limits::{self, BYTES_PER_TOKEN};
use crate::text;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContextInput {
    /// The summary of the architecture document; empty if there is none.
    pub architecture: String,
    pub document: String,
    /// The files that the stage names, in its order.
    pub files: Vec<FileInput>,
    /// The results of the stages that this one needs, the nearest first.
    pub results: Vec<ResultInput>,
    /// Why the worktree's setup failed; empty if it did not.
    pub not_set_up: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileInput {
    /// Its path from the work dir.
    pub path: String,
    pub content: FileText,
}

/// The result of a finished stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultInput {
    pub stage: StageId,
    pub name: String,
    /// Its result, as [`super::stage_result`] made it.
    pub text: String,
    pub place: String,
}

/// What a stage's sessions get to know about the project; it stays the same for all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StageContext {
    pub architecture: Option<Excerpt>,
    /// Files, in the plan's order.
    pub files: Excerpts,
    pub results: Excerpts,
    /// Why the worktree's setup failed, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_set_up: Option<String>,
    /// Why the stage's own result was not merged, if it is done again for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_merged: Option<String>,
}

/// Heading and introduction of a part, and the stage's name.
pub(super) const LABELS_TOKENS_MAX: usize = 150;
/// The least that is kept of a part, however small the room is.
const FLOOR_TOKENS: usize = 500;
/// Why the worktree's setup failed, in characters.
pub(super) const NOT_SET_UP_CHARS_MAX: usize = 600;

pub(super) const MISSING: &str = "there is no such file yet";
pub(super) const NOT_TEXT: &str = "not text";
pub(super) const TOO_LARGE: &str = "too large to be shown";

impl StageContext {
    /// The context within its budgets.
    pub fn of(input: &ContextInput) -> Self {
        let architecture = input.architecture.trim_end();
        let architecture = (!architecture.is_empty())
            .then(|| Excerpt::of("Summary of the plan", &input.document, architecture))
            .map(|excerpt| excerpt.within(body(limits::STAGE_ARCHITECTURE_TOKENS_MAX)));
        let files = Excerpts::of(input.files.iter().map(file).collect());
        let results = Excerpts::of(input.results.iter().map(result).collect());
        Self {
            architecture,
            files: files.within(body(limits::STAGE_FILES_TOKENS_MAX), Sharing::Level),
            results: results.within(body(limits::STAGE_RESULTS_TOKENS_MAX), Sharing::InOrder),
            not_set_up: Some(text::one_line(&input.not_set_up, NOT_SET_UP_CHARS_MAX))
                .filter(|why| !why.is_empty()),
            not_merged: None,
        }
    }

    /// The same, cut so that its three parts have at most this many tokens together, not counting labels.
    pub(super) fn within(&self, tokens_max: usize) -> Self {
        let floor = FLOOR_TOKENS.min(tokens_max / 4);
        let architecture = self
            .architecture
            .as_ref()
            .map_or(0, |text| tokens(&text.print()));
        let results = tokens(&self.results.print());
        let files = tokens(&self.files.print())
            .min(tokens_max.saturating_sub(architecture + results).max(floor));
        let architecture = architecture.min(tokens_max.saturating_sub(files + results).max(floor));
        let results = results.min(tokens_max.saturating_sub(files + architecture));
        let excerpt = |text: &Excerpt| text.within(architecture * BYTES_PER_TOKEN);
        Self {
            architecture: self.architecture.as_ref().map(excerpt),
            files: self.files.within(files * BYTES_PER_TOKEN, Sharing::Level),
            results: self
                .results
                .within(results * BYTES_PER_TOKEN, Sharing::InOrder),
            not_set_up: self.not_set_up.clone(),
            not_merged: self.not_merged.clone(),
        }
    }
}

/// The bytes of a part without its labels.
fn body(tokens_max: usize) -> usize {
    (tokens_max - LABELS_TOKENS_MAX) * BYTES_PER_TOKEN
}

fn file(file: &FileInput) -> Excerpt {
    match &file.content {
        FileText::Text(text) => Excerpt::of(&file.path, &file.path, text),
        FileText::Absent => Excerpt::remark(&file.path, MISSING),
        FileText::NotText(_) => Excerpt::remark(&file.path, NOT_TEXT),
        FileText::TooLarge { bytes } => {
            Excerpt::remark(&file.path, &format!("{TOO_LARGE}: {bytes} bytes"))
        }
    }
}

fn result(result: &ResultInput) -> Excerpt {
    Excerpt::of(
        &format!("{}: {}", result.stage, result.name),
        &result.place,
        &result.text,
    )
}
