//! The client as a caller: its requests, its answers to ours.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::ClientEvent;
use super::system::text;
use crate::excerpt;
use crate::hooks::HookCall;
use crate::limits;
use crate::tools::{Call, ToolInput, ToolKind};

/// The client asks whether a tool may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permission {
    /// The call.
    pub call: Call,
    /// Its whole input as JSON text, which an answer that allows it must give back.
    pub input: String,
}

#[derive(Deserialize)]
struct RequestLine<'a> {
    request_id: String,
    #[serde(borrow, default)]
    request: Option<&'a RawValue>,
}

/// The fields of all requests that we know.
#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow, default)]
    subtype: Option<&'a RawValue>,
    #[serde(borrow, default)]
    callback_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_use_id: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ResponseLine<'a> {
    #[serde(borrow)]
    response: Response<'a>,
}

#[derive(Deserialize)]
struct Response<'a> {
    request_id: String,
    #[serde(default)]
    subtype: Option<String>,
    #[serde(borrow, default)]
    response: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct CancelLine {
    request_id: String,
}

pub(super) fn parse(line: &[u8]) -> Option<ClientEvent> {
    let RequestLine { request_id, request } = serde_json::from_slice(line).ok()?;
    let request: Option<Request<'_>> = request.and_then(|raw| serde_json::from_str(raw.get()).ok());
    let Some(request) = request else {
        return Some(ClientEvent::UnknownRequest { request_id, subtype: String::new() });
    };
    Some(match text(request.subtype).as_str() {
        "hook_callback" => ClientEvent::HookCallback {
            request_id,
            callback_id: text(request.callback_id),
            call: Box::new(request.input.map(|raw| HookCall::parse(raw.get())).unwrap_or_default()),
        },
        "can_use_tool" => ClientEvent::CanUseTool { request_id, permission: Box::new(permission(&request)) },
        subtype => ClientEvent::UnknownRequest { request_id, subtype: subtype.to_owned() },
    })
}

fn permission(request: &Request<'_>) -> Permission {
    let input = request.input.map_or("{}", RawValue::get);
    let target = serde_json::from_str::<ToolInput<'_>>(input).unwrap_or_default().target();
    let name = text(request.tool_name);
    Permission {
        call: Call { id: text(request.tool_use_id), kind: ToolKind::of(&name), name, target },
        input: input.to_owned(),
    }
}

pub(super) fn parse_response(line: &[u8]) -> Option<ClientEvent> {
    let ResponseLine { response } = serde_json::from_slice(line).ok()?;
    let answer = match response.subtype.as_deref() {
        Some("success") => Ok(response.response.map_or("{}", RawValue::get).to_owned()),
        Some(_) | None => {
            Err(response.error.map(|error| excerpt::of_json(error, limits::ERROR)).unwrap_or_default())
        }
    };
    Some(ClientEvent::ControlResponse { request_id: response.request_id, answer })
}

pub(super) fn parse_cancel(line: &[u8]) -> Option<ClientEvent> {
    let CancelLine { request_id } = serde_json::from_slice(line).ok()?;
    Some(ClientEvent::ControlCancel { request_id })
}
