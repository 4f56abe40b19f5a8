//! What the model says and calls.

use std::fmt;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::ClientEvent;
use crate::excerpt;
use crate::limits;
use crate::tools::{Call, ToolInput, ToolKind};
use crate::usage::Usage;

/// Part of a response.
#[derive(Debug, Clone, PartialEq)]
pub struct Assistant {
    /// The response; its lines share this.
    pub message_id: String,
    /// The model that answered.
    pub model: String,
    /// The usage when the response began.
    pub usage: Usage,
    /// The main thread speaks, not a subagent.
    pub main_thread: bool,
    /// The client speaks in the model's place, for instance of an error.
    pub synthetic: bool,
    /// What was said and called.
    pub blocks: Vec<Block>,
    /// The service failed.
    pub error: Option<ApiError>,
    /// The size of what was said and called in this line, in bytes.
    pub content_bytes: u64,
}

/// One piece of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// Words, cut if long.
    Text(String),
    /// A call of a tool.
    Call(Call),
}

/// A failure of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ApiError {
    /// What kind of failure.
    pub kind: ApiErrorKind,
    /// The status of the HTTP answer, if there was one.
    pub status: Option<u16>,
}

/// The kinds of failure that the client names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the client's own words")]
pub enum ApiErrorKind {
    #[serde(alias = "oauth_org_not_allowed", alias = "cloud_credential_error")]
    AuthenticationFailed,
    RateLimit,
    ServerError,
    Overloaded,
    BillingError,
    #[serde(alias = "verification_required")]
    AccountOnHold,
    ModelNotFound,
    InvalidRequest,
    MaxOutputTokens,
    #[default]
    #[serde(other)]
    Unknown,
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ApiErrorKind::AuthenticationFailed => "the login is not accepted",
            ApiErrorKind::RateLimit => "a rate limit",
            ApiErrorKind::ServerError => "the service failed",
            ApiErrorKind::Overloaded => "the service is overloaded",
            ApiErrorKind::BillingError => "the account cannot pay",
            ApiErrorKind::AccountOnHold => "the account is on hold",
            ApiErrorKind::ModelNotFound => "the model is not available",
            ApiErrorKind::InvalidRequest => "the request is not accepted",
            ApiErrorKind::MaxOutputTokens => "the answer is too long",
            ApiErrorKind::Unknown => "the service could not be reached",
        };
        match self.status {
            Some(status) => write!(f, "{kind} ({status})"),
            None => f.write_str(kind),
        }
    }
}

/// The client's name for itself as a model.
pub(crate) const SYNTHETIC: &str = "<synthetic>";

#[derive(Deserialize)]
struct AssistantLine<'a> {
    #[serde(borrow)]
    message: Message<'a>,
    #[serde(default)]
    parent_tool_use_id: Option<IgnoredAny>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    api_error_status: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(default)]
    id: String,
    #[serde(default)]
    model: String,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(default)]
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(borrow, default)]
    input: Option<ToolInput<'a>>,
}

impl Content<'_> {
    fn block(self) -> Option<Block> {
        if let (Some(id), Some(name)) = (self.id, self.name) {
            let target = self.input.unwrap_or_default().target();
            return Some(Block::Call(Call { id, kind: ToolKind::of(&name), name, target }));
        }
        self.text.map(|text| Block::Text(excerpt::of_json(text, limits::WORDS)))
    }
}

pub(super) fn parse(line: &[u8]) -> Option<ClientEvent> {
    let line: AssistantLine<'_> = serde_json::from_slice(line).ok()?;
    let message = line.message;
    let content = message.content.map_or("[]", RawValue::get);
    let blocks: Vec<Content<'_>> = serde_json::from_str(content).ok()?;
    Some(ClientEvent::Assistant(Box::new(Assistant {
        synthetic: message.model == SYNTHETIC,
        message_id: message.id,
        model: message.model,
        usage: message.usage.unwrap_or_default(),
        main_thread: line.parent_tool_use_id.is_none(),
        content_bytes: content.len() as u64,
        blocks: blocks.into_iter().filter_map(Content::block).collect(),
        error: line.error.map(|kind| api_error(Some(kind), line.api_error_status)),
    })))
}

/// A failure from its kind and status, either of which may be missing or odd.
pub(super) fn api_error(kind: Option<&RawValue>, status: Option<&RawValue>) -> ApiError {
    ApiError {
        kind: kind.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default(),
        status: status.and_then(|raw| serde_json::from_str(raw.get()).ok()).flatten(),
    }
}
