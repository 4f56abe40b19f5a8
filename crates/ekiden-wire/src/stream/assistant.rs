//! What the model says, and the tools it calls.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ClientEvent;
use super::system::{self, RateLimitInfo};
use crate::tools::Call;
use crate::usage::Usage;
use crate::{excerpt, json, limits};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Assistant {
    /// The response; its lines share this.
    pub message_id: String,
    pub model: String,
    /// The usage when the response began.
    pub usage: Usage,
    /// From the main thread, not a subagent.
    pub main_thread: bool,
    /// The client speaks in the model's place, for example about an error.
    pub synthetic: bool,
    pub blocks: Vec<Block>,
    pub error: Option<ApiError>,
    /// The usage limit that the error is about.
    pub limit: Option<RateLimitInfo>,
    /// The size of what was said and called in this line, in bytes.
    pub content_bytes: u64,
}

/// One piece of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    Text(String),
    Call(Call),
}

/// A failure of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ApiError {
    pub kind: ApiErrorKind,
    /// The HTTP status of the answer, if there was one.
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
    /// Our name: for the client it is `max_output_tokens`, cut by the context window.
    #[serde(skip)]
    ContextFull,
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
            ApiErrorKind::ContextFull => "the context is full",
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

pub(super) fn parse(line: &Value) -> Option<ClientEvent> {
    let message = line["message"].as_object().map(|_| &line["message"])?;
    let content = &message["content"];
    if !content.is_null() && !content.is_array() {
        return None;
    }
    let usage = &message["usage"];
    let usage = if usage.is_null() {
        Usage::default()
    } else {
        Usage::of(usage)?
    };
    let model = json::text(&message["model"]);
    let params = &line["api_error_params"];
    let mut error =
        (!line["error"].is_null()).then(|| api_error(&line["error"], &line["api_error_status"]));
    if let Some(error) = &mut error
        && error.kind == ApiErrorKind::MaxOutputTokens
        && params["cut"] == "context_window"
    {
        error.kind = ApiErrorKind::ContextFull;
    }
    Some(ClientEvent::Assistant(Box::new(Assistant {
        message_id: json::text(&message["id"]),
        synthetic: model == SYNTHETIC,
        model,
        usage,
        main_thread: line["parent_tool_use_id"].is_null(),
        content_bytes: content.to_string().len() as u64,
        blocks: json::elements(content).iter().filter_map(block).collect(),
        error,
        limit: system::rate_limit(params),
    })))
}

fn block(block: &Value) -> Option<Block> {
    if let (Some(id), Some(name)) = (block["id"].as_str(), block["name"].as_str()) {
        let call = Call::new(id.to_owned(), name.to_owned(), &block["input"]);
        return Some(Block::Call(call));
    }
    let text = block["text"].as_str()?;
    Some(Block::Text(excerpt::of_text(text, limits::WORDS)))
}

/// A failure from its kind and status, either of which may be missing or odd.
pub(super) fn api_error(kind: &Value, status: &Value) -> ApiError {
    ApiError {
        kind: json::field(kind),
        status: json::field(status),
    }
}
