//! The server itself: routes, the log of requests, and the one call of the model at a time.

use std::fmt;
use std::net::TcpListener;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{Response, StatusCode, Uri};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::reply::{Ending, Message, Reply, Status};
use super::request::{Request, Thread};
use super::stream::{self, Envelope};

type Model = Box<dyn FnMut(&Request) -> Reply + Send>;

/// What the server's thread and the test both see.
pub(super) struct Shared {
    log: Mutex<Vec<Request>>,
    grown: Condvar,
    model: Mutex<Model>,
}

impl Shared {
    pub(super) fn new(model: Model) -> Self {
        Self {
            log: Mutex::default(),
            grown: Condvar::new(),
            model: Mutex::new(model),
        }
    }

    pub(super) fn requests(&self) -> Vec<Request> {
        lock(&self.log).clone()
    }

    pub(super) fn wait_for(
        &self,
        deadline: Duration,
        wanted: impl Fn(&Request) -> bool,
    ) -> Option<Request> {
        let none_yet = |log: &mut Vec<Request>| !log.iter().any(&wanted);
        let waited = self
            .grown
            .wait_timeout_while(lock(&self.log), deadline, none_yet);
        let (log, _) = waited.unwrap_or_else(PoisonError::into_inner);
        log.iter().find(|request| wanted(request)).cloned()
    }

    /// Keeps the request and returns its number, from 0.
    fn record(&self, request: &Request) -> usize {
        let mut log = lock(&self.log);
        log.push(request.clone());
        self.grown.notify_all();
        log.len() - 1
    }

    fn decide(&self, request: &Request) -> Reply {
        match request.thread() {
            Thread::Main | Thread::Subagent => lock(&self.model)(request),
            Thread::Side => Message::text("Answered by the fake API.").into(),
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("log", &self.log)
            .finish_non_exhaustive()
    }
}

/// Serves until `stopped` resolves, then cuts off what is still open.
pub(super) fn run(listener: TcpListener, shared: Arc<Shared>, stopped: oneshot::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime of one thread can be built");
    runtime.block_on(async {
        listener.set_nonblocking(true).expect("a listener can be made non-blocking");
        let listener = tokio::net::TcpListener::from_std(listener).expect("a listener can be watched");
        let routes = Router::new()
            .route("/v1/messages", axum::routing::post(answer))
            .route("/v1/messages/count_tokens", axum::routing::post(count))
            .fallback(harmless)
            .with_state(shared);
        tokio::select! {
            served = async { axum::serve(listener, routes).await } => served.expect("the server goes on until it is stopped"),
            _ = stopped => {}
        }
    });
}

async fn answer(State(shared): State<Arc<Shared>>, body: Bytes) -> Response<Body> {
    let Ok(body) = serde_json::from_slice(&body) else {
        return json_answer(
            400,
            &[],
            &json!({ "type": "error", "error": { "type": "invalid_request_error" } }),
        );
    };
    let request = Request { body };
    let number = shared.record(&request);
    match shared.decide(&request) {
        Reply::Message(message) => say(message, &request, number).await,
        Reply::Status(status) => json_answer(status.code, &status.headers, &status.body),
        Reply::Stall => std::future::pending().await,
        Reply::Drop => Response::new(stream::broken()),
    }
}

async fn say(message: Message, request: &Request, number: usize) -> Response<Body> {
    let envelope = Envelope {
        number,
        model: request.model().to_owned(),
    };
    if request.wants_stream() {
        let headers = message.headers.clone();
        respond(
            200,
            "text/event-stream",
            &headers,
            stream::streamed(message, envelope),
        )
    } else {
        say_at_once(&message, &envelope).await
    }
}

/// The message as one body; one that a stream would not end is not answered either.
async fn say_at_once(message: &Message, envelope: &Envelope) -> Response<Body> {
    match message.ending {
        Ending::Complete | Ending::Because(_) => {
            json_answer(200, &message.headers, &stream::whole(message, envelope))
        }
        Ending::Stall => std::future::pending().await,
        Ending::Drop => Response::new(stream::broken()),
        Ending::Error(kind) => {
            let Status { code, body, .. } = Status::error(500, kind, "said by the fake API");
            json_answer(code, &[], &body)
        }
    }
}

/// A stand-in for counting: four bytes a token.
async fn count(body: Bytes) -> Response<Body> {
    json_answer(200, &[], &json!({ "input_tokens": body.len() / 4 }))
}

/// Whatever else the client asks for: it gets an empty object and goes on.
async fn harmless(_: Uri) -> Response<Body> {
    json_answer(200, &[], &json!({}))
}

fn json_answer(code: u16, headers: &[(String, String)], body: &Value) -> Response<Body> {
    respond(
        code,
        "application/json",
        headers,
        Body::from(body.to_string()),
    )
}

fn respond(code: u16, content: &str, headers: &[(String, String)], body: Body) -> Response<Body> {
    let code = StatusCode::from_u16(code).expect("the test gives a status that HTTP knows");
    let mut response = Response::builder()
        .status(code)
        .header("content-type", content);
    for (name, value) in headers {
        response = response.header(name, value);
    }
    response
        .body(body)
        .expect("the test gives headers that HTTP allows")
}

/// A test that panicked while it held the lock has failed already; the others go on.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
