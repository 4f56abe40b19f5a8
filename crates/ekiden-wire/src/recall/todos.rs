//! The agent's own list of things to do.
//!
//! Clients have two forms of it: a tool that is given the whole list each time, and tools that create
//! and change one item each, whose ids come in the answer. The newest state of either counts.

use std::collections::VecDeque;

use ekiden_core::guard::document::{Todo, TodoState};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::limits;

/// The list as far as it has been heard.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Todos {
    items: VecDeque<Item>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Item {
    /// The id of the call that made it, until the answer names another.
    id: String,
    text: String,
    state: TodoState,
}

/// The inputs of all these tools in one.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Input {
    todos: Option<Vec<Listed>>,
    plan: Option<Vec<Listed>>,
    subject: Option<String>,
    #[serde(rename = "taskId")]
    task_id: Option<String>,
    status: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Listed {
    #[serde(alias = "step", alias = "text")]
    content: String,
    status: String,
}

impl Todos {
    /// A call of a tool, which may be of these.
    pub(super) fn call(&mut self, call: &str, tool: &str, input: &RawValue) {
        if !matches!(tool, "TodoWrite" | "TaskCreate" | "TaskUpdate" | "update_plan") {
            return;
        }
        let input: Input = serde_json::from_str(input.get()).unwrap_or_default();
        if let Some(list) = input.todos.or(input.plan) {
            self.items =
                list.into_iter().take(limits::TODOS_KEPT).map(|listed| item(call, &listed)).collect();
        } else if let Some(id) = input.task_id {
            self.update(&id, input.subject, input.status.as_deref());
        } else if let Some(subject) = input.subject {
            let new = Item { id: call.to_owned(), text: cut(&subject), state: TodoState::Open };
            super::keep(&mut self.items, new, limits::TODOS_KEPT);
        }
    }

    /// The answer of a tool: it tells the id of the item that a call created, as in
    /// `Task #3 created successfully`.
    pub(super) fn answer(&mut self, call: &str, text: &str) {
        let Some(made) = self.items.iter_mut().find(|item| item.id == call) else { return };
        let Some((_, behind)) = text.split_once('#') else { return };
        let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            made.id = behind[..digits].to_owned();
        }
    }

    fn update(&mut self, id: &str, subject: Option<String>, status: Option<&str>) {
        if status == Some("deleted") {
            self.items.retain(|item| item.id != id);
        }
        let Some(item) = self.items.iter_mut().find(|item| item.id == id) else { return };
        if let Some(subject) = subject {
            item.text = cut(&subject);
        }
        if let Some(status) = status {
            item.state = state(status);
        }
    }

    pub(super) fn into_list(self) -> Vec<Todo> {
        self.items.into_iter().map(|item| Todo { text: item.text, state: item.state }).collect()
    }
}

fn item(call: &str, listed: &Listed) -> Item {
    Item { id: call.to_owned(), state: state(&listed.status), text: cut(&listed.content) }
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
