//! The agent's own list of things to do.
//!
//! Clients have two forms of it: a tool that gets the whole list each time, and tools that create and change
//! one item each, whose ids come in the answer. The newest state of either counts.

use ekiden_core::guard::document::{Todo, TodoState};
use serde_json::Value;

use crate::trace::keep;
use crate::{json, limits};

/// The list as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Todos {
    items: Vec<Item>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Item {
    /// The id of the call that created it, until the answer names another.
    id: String,
    text: String,
    state: TodoState,
}

impl Todos {
    /// A block of a response, which may call one of these tools.
    pub(super) fn call(&mut self, block: &Value) {
        let tools = ["TodoWrite", "TaskCreate", "TaskUpdate", "update_plan"];
        if !tools.iter().any(|tool| block["name"] == *tool) {
            return;
        }
        let (call, input) = (json::text(&block["id"]), &block["input"]);
        let subject = input["subject"].as_str();
        if let Some(list) = input["todos"].as_array().or(input["plan"].as_array()) {
            let items = list.iter().take(limits::TODOS_KEPT);
            self.items = items.map(|listed| item(&call, listed)).collect();
        } else if let Some(id) = input["taskId"].as_str() {
            self.update(id, subject, input["status"].as_str());
        } else if let Some(subject) = subject {
            let new = Item {
                id: call,
                text: cut(subject),
                state: TodoState::Open,
            };
            keep(&mut self.items, new, limits::TODOS_KEPT);
        }
    }

    /// The result of a call: it names the id of the item that a call created, as in
    /// `Task #3 created successfully`.
    pub(super) fn answer(&mut self, call: &str, text: &str) {
        let Some(made) = self.items.iter_mut().find(|item| item.id == call) else {
            return;
        };
        let Some((_, behind)) = text.split_once('#') else {
            return;
        };
        let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            made.id = behind[..digits].to_owned();
        }
    }

    fn update(&mut self, id: &str, subject: Option<&str>, status: Option<&str>) {
        if status == Some("deleted") {
            self.items.retain(|item| item.id != id);
        }
        let Some(item) = self.items.iter_mut().find(|item| item.id == id) else {
            return;
        };
        if let Some(subject) = subject {
            item.text = cut(subject);
        }
        if let Some(status) = status {
            item.state = state(status);
        }
    }

    pub(super) fn into_list(self) -> Vec<Todo> {
        self.items
            .into_iter()
            .map(|item| Todo {
                text: item.text,
                state: item.state,
            })
            .collect()
    }
}

fn item(call: &str, listed: &Value) -> Item {
    let texts = ["content", "step", "text"];
    let text = texts.iter().find_map(|member| listed[*member].as_str());
    Item {
        id: call.to_owned(),
        text: cut(text.unwrap_or_default()),
        state: state(listed["status"].as_str().unwrap_or_default()),
    }
}

fn state(status: &str) -> TodoState {
    match status {
        "completed" | "done" => TodoState::Done,
        "in_progress" => TodoState::Now,
        _ => TodoState::Open,
    }
}

fn cut(text: &str) -> String {
    crate::excerpt::of_text(text, limits::TARGET)
}
