//! What the client asked, and the questions that tests have about it.

use std::collections::{HashMap, VecDeque};

use serde_json::Value;

use super::reply::{Reply, Status};

/// How the client begins the request for a summary of the conversation.
const SUMMARY_REQUEST: &str = "CRITICAL: Respond with TEXT ONLY";
/// What stands in the first system block of a subagent's requests.
const SUBAGENT_MARK: &str = "cc_is_subagent=true";

/// One request to `/v1/messages`.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The whole body, as the client sent it.
    pub body: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thread {
    /// The conversation that the test drives.
    Main,
    /// A subagent that the conversation started.
    Subagent,
    /// The client's own business: a title, a probe, a summary for compaction. The server answers
    /// these itself.
    Side,
}

/// The outcome of a tool call, as the client reports it to the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    pub text: String,
    /// The call failed or was refused.
    pub is_error: bool,
}

/// A model that answers each conversation from a list: the first conversation from the first list,
/// in order. Subagents are answered from a conversation's list too, as their requests come.
///
/// A request beyond its list gets an error that the client does not retry, so that the test fails
/// at once and says why.
pub fn script(
    conversations: impl IntoIterator<Item = Vec<Reply>>,
) -> impl FnMut(&Request) -> Reply + Send {
    let mut unopened: VecDeque<Vec<Reply>> = conversations.into_iter().collect();
    let mut open: HashMap<String, VecDeque<Reply>> = HashMap::new();
    move |request| {
        let replies = open
            .entry(request.conversation())
            .or_insert_with(|| unopened.pop_front().unwrap_or_default().into());
        replies.pop_front().unwrap_or_else(|| {
            Status::error(
                400,
                "invalid_request_error",
                "the script of this conversation has ended",
            )
            .into()
        })
    }
}

impl Request {
    pub fn thread(&self) -> Thread {
        if self.first_system_block().contains(SUBAGENT_MARK) {
            Thread::Subagent
        } else if self.tools().is_empty() || self.asks_for_summary() {
            Thread::Side
        } else {
            Thread::Main
        }
    }

    /// The client's id of the conversation; empty if it names none. A subagent's is its parent's.
    pub fn conversation(&self) -> String {
        let user = self.body["metadata"]["user_id"]
            .as_str()
            .unwrap_or_default();
        let user: Value = serde_json::from_str(user).unwrap_or_default();
        user["session_id"].as_str().unwrap_or_default().to_owned()
    }

    /// The model that is asked for.
    pub fn model(&self) -> &str {
        self.body["model"].as_str().unwrap_or_default()
    }

    /// The client wants the answer as a stream of events.
    pub fn wants_stream(&self) -> bool {
        self.body["stream"] == true
    }

    /// How often the model has spoken in this conversation: 0 in its first request.
    pub fn answers(&self) -> usize {
        self.messages()
            .iter()
            .filter(|message| message["role"] == "assistant")
            .count()
    }

    /// All text of the conversation, wherever the client put it: messages of every role, results
    /// of tools. One piece a line; the system prompt is not among it.
    pub fn text(&self) -> String {
        let mut pieces = Vec::new();
        for message in self.messages() {
            gather(&message["content"], &mut pieces);
        }
        pieces.join("\n")
    }

    /// The text of the conversation's last message that is not the model's.
    pub fn last_text(&self) -> String {
        let mut pieces = Vec::new();
        if let Some(message) = self
            .messages()
            .iter()
            .rfind(|message| message["role"] != "assistant")
        {
            gather(&message["content"], &mut pieces);
        }
        pieces.join("\n")
    }

    pub fn system(&self) -> String {
        let mut pieces = Vec::new();
        gather(&self.body["system"], &mut pieces);
        pieces.join("\n")
    }

    /// The names of the tools that the model may call.
    pub fn tools(&self) -> Vec<&str> {
        let tools = self.body["tools"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        tools
            .iter()
            .filter_map(|tool| tool["name"].as_str())
            .collect()
    }

    /// The results of all tool calls, oldest first.
    pub fn tool_results(&self) -> Vec<ToolResult> {
        let blocks = self
            .messages()
            .iter()
            .filter_map(|message| message["content"].as_array())
            .flatten();
        blocks
            .filter(|block| block["type"] == "tool_result")
            .map(tool_result)
            .collect()
    }

    /// How many cache markers the request carries. The real API takes four at most.
    pub fn cache_markers(&self) -> usize {
        count_key(&self.body, "cache_control")
    }

    fn messages(&self) -> &[Value] {
        self.body["messages"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    fn first_system_block(&self) -> &str {
        self.body["system"][0]["text"].as_str().unwrap_or_default()
    }

    fn asks_for_summary(&self) -> bool {
        let last = self
            .messages()
            .last()
            .and_then(|message| message["content"].as_array());
        let texts = last
            .into_iter()
            .flatten()
            .filter_map(|block| block["text"].as_str());
        texts
            .into_iter()
            .any(|text| text.starts_with(SUMMARY_REQUEST))
    }
}

fn tool_result(block: &Value) -> ToolResult {
    let mut pieces = Vec::new();
    gather(&block["content"], &mut pieces);
    ToolResult {
        text: pieces.join("\n"),
        is_error: block["is_error"] == true,
    }
}

/// Adds the text of `content`: a string, a list of blocks, or a block that holds more content.
fn gather<'a>(content: &'a Value, pieces: &mut Vec<&'a str>) {
    if let Some(text) = content.as_str() {
        pieces.push(text);
    }
    for block in content.as_array().into_iter().flatten() {
        pieces.extend(block["text"].as_str());
        gather(&block["content"], pieces);
    }
}

fn count_key(value: &Value, key: &str) -> usize {
    let here = usize::from(value.get(key).is_some());
    let fields = value
        .as_object()
        .into_iter()
        .flat_map(|object| object.values());
    let items = value.as_array().into_iter().flatten();
    here + fields
        .chain(items)
        .map(|inner| count_key(inner, key))
        .sum::<usize>()
}
