//! Fake services of other agents' models on a loopback port: Responses, Chat Completions and Gemini, behind one scripted
//! model.
//!
//! The model sees what every format has in common and answers in words, or with a command for the agent's shell. Which of
//! the agent's tools that is, and what its input is called, is told from the request. Requests without such a tool are the
//! agent's own (titles, summaries) and never reach the model.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{Response, StatusCode, Uri};
use serde_json::{Value, json};
use tokio::sync::oneshot;

/// The shells of the agents that are known, with the field of their input that takes the command.
const SHELLS: [(&str, &str); 5] = [
    ("exec_command", "cmd"),
    ("shell_command", "command"),
    ("shell", "command"),
    ("run_shell_command", "command"),
    ("bash", "command"),
];

/// What an agent asked.
#[derive(Debug, Clone)]
pub struct Asked {
    pub service: Service,
    /// All text of the conversation.
    pub text: String,
    /// How many results of tools are in it.
    pub results: usize,
}

/// What the model answers, with the context that the service counts.
#[derive(Debug, Clone)]
pub enum Answer {
    Shell { command: String, tokens: u64 },
    Words { text: String, tokens: u64 },
    Failure { status: u16, body: Value },
}

/// A service, by its wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    Responses,
    Chat,
    Gemini,
}

type Model = Box<dyn FnMut(&Asked) -> Answer + Send>;

struct Shared {
    model: Mutex<Model>,
    asked: Mutex<Vec<Asked>>,
}

/// A running server. Dropping it ends it.
pub struct ModelApis {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ModelApis {
    /// Starts a server whose answers `model` decides.
    ///
    /// # Panics
    ///
    /// If no loopback port can be opened: then no test that needs one can run.
    pub fn start(model: impl FnMut(&Asked) -> Answer + Send + 'static) -> Self {
        let listener =
            std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a loopback port can be opened");
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        let shared = Arc::new(Shared {
            model: Mutex::new(Box::new(model)),
            asked: Mutex::default(),
        });
        let (stop, stopped) = oneshot::channel();
        let served = Arc::clone(&shared);
        let thread = std::thread::spawn(move || serve(listener, served, stopped));
        Self {
            address,
            shared,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What reached the model so far.
    pub fn asked(&self) -> Vec<Asked> {
        let asked = self.shared.asked.lock();
        asked.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for ModelApis {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the server's thread was printed there.
            let _ = thread.join();
        }
    }
}

fn serve(listener: std::net::TcpListener, shared: Arc<Shared>, stopped: oneshot::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime of one thread can be built");
    runtime.block_on(async {
        listener
            .set_nonblocking(true)
            .expect("a listener can be made non-blocking");
        let listener =
            tokio::net::TcpListener::from_std(listener).expect("a listener can be watched");
        let routes = Router::new().fallback(answer).with_state(shared);
        tokio::select! {
            served = async { axum::serve(listener, routes).await } => served.expect("the server goes on until it is stopped"),
            _ = stopped => {}
        }
    });
}

async fn answer(State(shared): State<Arc<Shared>>, uri: Uri, body: Bytes) -> Response<Body> {
    let path = uri.path();
    let service = match path {
        _ if path.ends_with("/responses") => Service::Responses,
        _ if path.ends_with("/chat/completions") => Service::Chat,
        _ if path.contains("enerateContent") => Service::Gemini,
        _ => return respond(200, "application/json", "{}".to_owned()),
    };
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let shell = shell(&request["tools"]);
    let asked = Asked {
        service,
        text: text_of(&request),
        results: results(&request),
    };
    let said = match &shell {
        Some(_) => {
            let mut all = shared.asked.lock().unwrap_or_else(PoisonError::into_inner);
            all.push(asked.clone());
            drop(all);
            let mut model = shared.model.lock().unwrap_or_else(PoisonError::into_inner);
            model(&asked)
        }
        None => Answer::Words {
            text: "A title".to_owned(),
            tokens: 100,
        },
    };
    let streams = request["stream"] == true || path.contains("stream");
    match said {
        Answer::Failure { status, body } => respond(status, "application/json", body.to_string()),
        Answer::Shell { command, tokens } => {
            let (name, field) = shell.unwrap_or(("bash", "command"));
            let words = ["bash", "-lc", &command];
            let mut input = json!({ field: command, "description": "a step" });
            if name == "shell" {
                input = json!({ "command": words });
            }
            say(service, streams, &Said::Call(name, input), tokens)
        }
        Answer::Words { text, tokens } => say(service, streams, &Said::Text(text), tokens),
    }
}

enum Said {
    Call(&'static str, Value),
    Text(String),
}

fn say(service: Service, streams: bool, said: &Said, tokens: u64) -> Response<Body> {
    let events = match service {
        Service::Responses => responses(said, tokens),
        Service::Chat => chat(said, tokens, streams),
        Service::Gemini => vec![gemini(said, tokens)],
    };
    if !streams {
        return respond(200, "application/json", events[0].to_string());
    }
    let event = |event: &Value| {
        let name = event["type"].as_str().map_or_else(String::new, |name| {
            if service == Service::Responses {
                format!("event: {name}\n")
            } else {
                String::new()
            }
        });
        format!("{name}data: {event}\n\n")
    };
    let mut text: String = events.iter().map(event).collect();
    if service == Service::Chat {
        text.push_str("data: [DONE]\n\n");
    }
    respond(200, "text/event-stream", text)
}

fn responses(said: &Said, tokens: u64) -> Vec<Value> {
    let id = format!("id_{tokens}");
    let item = match said {
        Said::Call(name, input) => {
            json!({"type": "function_call", "id": id, "call_id": format!("call_{tokens}"),
            "name": name, "arguments": input.to_string()})
        }
        Said::Text(text) => json!({"type": "message", "id": id, "role": "assistant",
            "content": [{"type": "output_text", "text": text}]}),
    };
    let usage = json!({"input_tokens": tokens, "input_tokens_details": {"cached_tokens": tokens / 2},
        "output_tokens": 10, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": tokens + 10});
    vec![
        json!({"type": "response.created", "response": {"id": "r"}}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        json!({"type": "response.completed", "response": {"id": "r", "usage": usage}}),
    ]
}

fn chat(said: &Said, tokens: u64, streams: bool) -> Vec<Value> {
    let call = |name: &str, input: &Value| {
        json!([{"index": 0, "id": format!("call_{tokens}"), "type": "function",
            "function": {"name": name, "arguments": input.to_string()}}])
    };
    let (message, reason) = match said {
        Said::Call(name, input) => (
            json!({"role": "assistant", "content": null, "tool_calls": call(name, input)}),
            "tool_calls",
        ),
        Said::Text(text) => (json!({"role": "assistant", "content": text}), "stop"),
    };
    let usage = json!({"prompt_tokens": tokens, "completion_tokens": 10, "total_tokens": tokens + 10,
        "prompt_tokens_details": {"cached_tokens": tokens / 2}});
    let one = |kind: &str, choices: Value, usage: Option<&Value>| json!({"id": "c", "object": kind, "created": 1, "model": "fake-model", "choices": choices, "usage": usage});
    if !streams {
        let choices = json!([{"index": 0, "message": message, "finish_reason": reason}]);
        return vec![one("chat.completion", choices, Some(&usage))];
    }
    let kind = "chat.completion.chunk";
    vec![
        one(
            kind,
            json!([{"index": 0, "delta": message, "finish_reason": null}]),
            None,
        ),
        one(
            kind,
            json!([{"index": 0, "delta": {}, "finish_reason": reason}]),
            None,
        ),
        one(kind, json!([]), Some(&usage)),
    ]
}

fn gemini(said: &Said, tokens: u64) -> Value {
    let part = match said {
        Said::Call(name, input) => json!({"functionCall": {"name": name, "args": input}}),
        Said::Text(text) => json!({ "text": text }),
    };
    json!({
        "candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": tokens, "candidatesTokenCount": 10, "totalTokenCount": tokens + 10,
            "cachedContentTokenCount": tokens / 2},
    })
}

/// The agent's shell among the tools that it offers.
fn shell(tools: &Value) -> Option<(&'static str, &'static str)> {
    let mut names = Vec::new();
    names_in(tools, &mut names);
    SHELLS
        .into_iter()
        .find(|(shell, _)| names.iter().any(|name| name == shell))
}

fn names_in(tools: &Value, names: &mut Vec<String>) {
    match tools {
        Value::Array(all) => all.iter().for_each(|one| names_in(one, names)),
        Value::Object(one) => {
            if let Some(Value::String(name)) = one.get("name") {
                names.push(name.clone());
            }
            for inner in ["function", "functionDeclarations"] {
                one.get(inner)
                    .into_iter()
                    .for_each(|inner| names_in(inner, names));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// All text of the conversation, wherever it is.
fn text_of(request: &Value) -> String {
    let mut pieces = Vec::new();
    for place in ["input", "messages", "contents"] {
        gather(&request[place], &mut pieces);
    }
    pieces.join("\n")
}

fn gather(value: &Value, pieces: &mut Vec<String>) {
    match value {
        Value::String(text) => pieces.push(text.clone()),
        Value::Array(all) => all.iter().for_each(|one| gather(one, pieces)),
        Value::Object(fields) => fields.values().for_each(|one| gather(one, pieces)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn results(request: &Value) -> usize {
    let array = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let of_items = array(&request["input"])
        .iter()
        .filter(|item| item["type"] == "function_call_output")
        .count();
    let of_messages = array(&request["messages"])
        .iter()
        .filter(|message| message["role"] == "tool")
        .count();
    let of_parts = array(&request["contents"])
        .iter()
        .flat_map(|content| array(&content["parts"]))
        .filter(|part| part["functionResponse"].is_object())
        .count();
    of_items + of_messages + of_parts
}

fn respond(code: u16, content: &str, body: String) -> Response<Body> {
    let code = StatusCode::from_u16(code).expect("the test gives a status that HTTP knows");
    let response = Response::builder()
        .status(code)
        .header("content-type", content)
        // Of an agent that tries again: when.
        .header("retry-after", "3600")
        .body(Body::from(body));
    response.expect("a response of known parts")
}
