//! The HTTP server. Each connection serves one request and lives a minute at most, so that slow and silent
//! clients cannot pile up. A page that watches reconnects.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::sse::{Event, Sse};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Form, Router};
use ekiden_agent::lineage;
use futures_util::{Stream, stream};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::access::Access;
use super::pages;
use super::runs::{Runs, Shown};
use super::steer::{self, FORM_BYTES_MAX, SteerForm};

const CONNECTIONS_MAX: usize = 64;
/// How long a connection may last.
const CONNECTION_MAX: Duration = Duration::from_secs(60);
/// How long a page is told of changes before it has to ask again: less than a connection lasts.
const WATCH_MAX: Duration = Duration::from_secs(50);
/// How long a request's head may take.
const HEAD_MAX: Duration = Duration::from_secs(5);
const HEAD_BYTES_MAX: usize = 16 * 1024;
const HEADERS_MAX: usize = 64;

/// On every answer: only our own style and script, nothing cached, nothing revealed to other sites.
const HEADERS: [(header::HeaderName, &str); 4] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    ),
    // Without any, a browser would not name a form's origin.
    (header::REFERRER_POLICY, "same-origin"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::CACHE_CONTROL, "no-store"),
];

pub(super) struct Site {
    pub(super) access: Access,
    pub(super) runs: Runs,
    pub(super) steer: bool,
}

/// The two ends of a connection, as this process sees them.
#[derive(Clone, Copy)]
struct Ends {
    client: SocketAddr,
    ours: SocketAddr,
}

/// Serves until ctrl-c or SIGTERM.
pub(super) fn serve(listener: TcpListener, site: Site) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let router = router(Arc::new(site));
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = interrupt.recv() => return Ok(()),
                _ = terminate.recv() => return Ok(()),
            };
            let ends = accepted.and_then(|(stream, client)| {
                let ours = stream.local_addr()?;
                Ok((stream, Ends { client, ours }))
            });
            let Ok((stream, ends)) = ends else {
                // Such as too many open files: others may be closed by then.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            // If there are too many, the connection is closed.
            if let Ok(place) = Arc::clone(&room).try_acquire_owned() {
                let router = router.clone().layer(Extension(ends));
                tokio::spawn(async move {
                    let _ = timeout(CONNECTION_MAX, converse(stream, router)).await;
                    drop(place);
                });
            }
        }
    })
}

async fn converse(stream: TcpStream, router: Router) {
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .header_read_timeout(HEAD_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    // A client that disconnects or sends nonsense does not concern us.
    let _ = served.await;
}

fn router(site: Arc<Site>) -> Router {
    let below = |path: &str| format!("/{}/{path}", site.access.base);
    let pages = Router::new()
        .route(&below(""), get(index))
        .route(&below("run/{run}"), get(run))
        .route(&below("events"), get(events))
        .route(&below("style.css"), get(style))
        .route(&below("script.js"), get(script));
    let steering = Router::new()
        .route(&below("run/{run}/steer"), get(steering).post(steered))
        .route_layer(middleware::from_fn(from_no_session))
        .layer(DefaultBodyLimit::max(FORM_BYTES_MAX));
    let pages = match site.steer {
        true => pages.merge(steering),
        false => pages,
    };
    let pages = pages.route_layer(middleware::from_fn_with_state(site.clone(), with_cookie));
    Router::new()
        .route("/", get(enter))
        .merge(pages)
        .fallback(|| async { refusal(StatusCode::UNAUTHORIZED) })
        .layer(middleware::from_fn_with_state(site.clone(), from_here))
        .with_state(site)
}

/// Before everything else: the request comes from no other page, and the answer goes nowhere else.
async fn from_here(State(site): State<Arc<Site>>, request: Request, next: Next) -> Response {
    let mut response = match site.access.check_origin(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(status) => refusal(status),
    };
    for (name, value) in HEADERS {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

async fn with_cookie(State(site): State<Arc<Site>>, request: Request, next: Next) -> Response {
    match site.access.check_cookie(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(status) => refusal(status),
    }
}

/// Refuses a session of ekiden, before anything of what it sent is read.
async fn from_no_session(
    Extension(ends): Extension<Ends>,
    request: Request,
    next: Next,
) -> Response {
    let looked = spawn_blocking(move || lineage::may_be_kept(ends.client, ends.ours)).await;
    match looked {
        Ok(false) => next.run(request).await,
        Ok(true) | Err(_) => {
            let text =
                "Refused: the request comes from a session of ekiden, or its origin is unknown.";
            (StatusCode::FORBIDDEN, Html(pages::message(text))).into_response()
        }
    }
}

fn refusal(status: StatusCode) -> Response {
    let text = match status {
        StatusCode::UNAUTHORIZED => {
            "Open the address that `ekiden dash` printed: only that address lets you in, and each start makes a new one."
        }
        _ => {
            "Refused: this request came from another page, used another host name, or had an invalid token."
        }
    };
    (status, Html(pages::message(text))).into_response()
}

#[derive(Deserialize)]
struct Entry {
    t: Option<String>,
}

/// The printed address: moves the token into a cookie.
async fn enter(State(site): State<Arc<Site>>, Query(entry): Query<Entry>) -> Response {
    let access = &site.access;
    match entry.t {
        Some(token) if access.is_token(&token) => {
            let headers = [
                (header::SET_COOKIE, access.set_cookie()),
                (header::LOCATION, format!("/{}/", access.base)),
            ];
            (StatusCode::SEE_OTHER, headers).into_response()
        }
        Some(_) => refusal(StatusCode::FORBIDDEN),
        None => refusal(StatusCode::UNAUTHORIZED),
    }
}

async fn index(State(site): State<Arc<Site>>) -> Response {
    match site.runs.index().await {
        Some(index) => Html(pages::index(&index)).into_response(),
        None => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn run(State(site): State<Arc<Site>>, Path(run): Path<String>) -> Response {
    match site.runs.run(run).await {
        Some(Ok(shown)) => Html(pages::run(&shown, site.steer)).into_response(),
        other => no_run(other),
    }
}

fn no_run(shown: Option<Result<Shown, String>>) -> Response {
    match shown {
        Some(Err(why)) => (StatusCode::NOT_FOUND, Html(pages::message(&why))).into_response(),
        _ => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn steering(State(site): State<Arc<Site>>, Path(run): Path<String>) -> Response {
    match site.runs.run(run).await {
        Some(Ok(shown)) => Html(pages::steering(&shown, &site.access.form)).into_response(),
        other => no_run(other),
    }
}

/// Handles a form: asks for a confirmation, or carries it out.
async fn steered(
    State(site): State<Arc<Site>>,
    Path(run): Path<String>,
    headers: HeaderMap,
    Form(asked): Form<SteerForm>,
) -> Response {
    let access = &site.access;
    if let Err(status) = access.check_form(&headers, &asked.token) {
        return refusal(status);
    }
    let shown = match site.runs.run(run).await {
        Some(Ok(shown)) => shown,
        other => return no_run(other),
    };
    let refused =
        |why: &str| (StatusCode::CONFLICT, Html(pages::failure(&shown, why))).into_response();
    let question = match asked.question(&shown.questions) {
        Ok(question) => question,
        Err(why) => return refused(why),
    };
    let words = asked.words(&shown.run, &shown.dir);
    if !asked.confirmed {
        let command = steer::in_words(&words);
        let page = pages::confirmation(&shown, &asked, question, &command, &access.form);
        return Html(page).into_response();
    }
    let done = spawn_blocking(move || steer::carry_out(&words)).await;
    match done.unwrap_or_else(|error| Err(error.to_string())) {
        Ok(()) => {
            let run = format!("/{}/run/{}", access.base, shown.address);
            (StatusCode::SEE_OTHER, [(header::LOCATION, run)]).into_response()
        }
        Err(why) => refused(&why),
    }
}

#[derive(Deserialize)]
struct Watched {
    #[serde(default)]
    run: String,
}

/// Tells a page whenever its run, or the index, changed.
async fn events(
    State(site): State<Arc<Site>>,
    Query(watched): Query<Watched>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let versions = site.runs.watch();
    let seen = versions.borrow().get(&watched.run).copied();
    let changes = stream::unfold((versions, seen), move |(mut versions, seen)| {
        let run = watched.run.clone();
        async move {
            let version = loop {
                versions.changed().await.ok()?;
                let version = versions.borrow_and_update().get(&run).copied();
                if version != seen {
                    break version;
                }
            };
            // A browser drops an event without data.
            let event = Event::default().event("changed").data("again");
            Some((Ok(event), (versions, version)))
        }
    });
    let until = Box::pin(tokio::time::sleep(WATCH_MAX));
    Sse::new(futures_util::StreamExt::take_until(changes, until))
}

async fn style() -> Response {
    let text = [ekiden_report::render::STYLE, pages::STYLE].concat();
    typed("text/css; charset=utf-8", text)
}

async fn script() -> Response {
    typed("text/javascript; charset=utf-8", pages::SCRIPT.to_owned())
}

fn typed(kind: &'static str, text: String) -> Response {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    (headers, text).into_response()
}
