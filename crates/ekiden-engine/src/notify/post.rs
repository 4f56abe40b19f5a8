//! A notification by HTTP: a POST that is tried again where nobody answers, for a bounded time.
//!
//! Requests block, so each has a thread of its own that nobody waits for: it goes with the process. No redirect is followed,
//! since a notification goes where the user said. A proxy is used where the environment names one, as by `curl`, but never for
//! this machine itself.

use std::net::IpAddr;
use std::thread;
use std::time::Duration;

use ekiden_core::limits;
use tokio::sync::oneshot;
use ureq::http::{HeaderValue, StatusCode, Uri};
use ureq::{Agent, Error};

/// What is sent, and where to.
#[derive(Debug)]
pub(super) struct Post {
    pub(super) url: String,
    /// The header in which ntfy takes it, with a plain text; without it the body is JSON.
    pub(super) title: Option<String>,
    pub(super) body: String,
}

/// Why a try failed.
enum Failed {
    /// Another try may work.
    ForNow(String),
    ForGood(String),
}

/// It is an address that a notification can be posted to.
pub fn is_address(text: &str) -> bool {
    let Ok(uri) = text.parse::<Uri>() else {
        return false;
    };
    let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
    is_web && uri.host().is_some_and(|host| !host.is_empty())
}

/// Sends it, with some tries. If the future is dropped, what is on its way may still arrive.
pub(super) async fn send(post: Post) -> Result<(), String> {
    let (sender, told) = oneshot::channel();
    let work = move || {
        // Nobody may wait for it any more.
        let _ = sender.send(deliver(&post, &limits::NOTIFY_PAUSES.map(Duration::from)));
    };
    let thread = thread::Builder::new().name("notify".to_owned()).spawn(work);
    thread.map_err(|error| format!("start a thread: {error}"))?;
    let lost = || Err("the request ended without a result".to_owned());
    told.await.unwrap_or_else(|_| lost())
}

fn deliver(post: &Post, pauses: &[Duration]) -> Result<(), String> {
    let agent = http_agent(&post.url);
    let mut pauses = pauses.iter();
    loop {
        let why = match try_once(&agent, post) {
            Ok(()) => return Ok(()),
            Err(Failed::ForGood(why)) => return Err(why),
            Err(Failed::ForNow(why)) => why,
        };
        match pauses.next() {
            Some(pause) => thread::sleep(*pause),
            None => return Err(why),
        }
    }
}

/// A client for one address: bounded in time, without redirects, and without a proxy for this machine itself.
pub fn http_agent(url: &str) -> Agent {
    let config = Agent::config_builder()
        .timeout_global(Some(limits::NOTIFY_TIMEOUT.into()))
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .user_agent(concat!("ekiden/", env!("CARGO_PKG_VERSION")));
    match is_here(url) {
        true => config.proxy(None).build().new_agent(),
        false => config.build().new_agent(),
    }
}

/// The address is this machine's own.
fn is_here(url: &str) -> bool {
    let uri = url.parse::<Uri>().ok();
    let host = uri.as_ref().and_then(Uri::host).unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    is_loopback || bare == "localhost"
}

fn try_once(agent: &Agent, post: &Post) -> Result<(), Failed> {
    let content_type = match post.title {
        Some(_) => "text/plain; charset=utf-8",
        None => "application/json",
    };
    let mut request = agent.post(&post.url).header("Content-Type", content_type);
    // Whatever cannot stand in a header is left out of it; the text is whole.
    let title = post.title.as_ref();
    if let Some(title) = title.and_then(|title| HeaderValue::from_bytes(title.as_bytes()).ok()) {
        request = request.header("Title", title);
    }
    let answer = request.send(&post.body).map_err(|error| failed(&error))?;
    judge(answer.status())
}

fn judge(status: StatusCode) -> Result<(), Failed> {
    let why = format!("it answers {status}");
    if status.is_success() {
        Ok(())
    } else if status.is_redirection() {
        Err(Failed::ForGood(format!(
            "{why}, a redirect: name the address that it leads to"
        )))
    } else if status.is_server_error()
        || status == StatusCode::TOO_MANY_REQUESTS
        || status == StatusCode::REQUEST_TIMEOUT
    {
        Err(Failed::ForNow(why))
    } else {
        Err(Failed::ForGood(why))
    }
}

/// Never with the address, which may be a secret.
fn failed(error: &Error) -> Failed {
    if matches!(error, Error::BadUri(_) | Error::Http(_)) {
        return Failed::ForGood("it is not a valid address".to_owned());
    }
    if matches!(error, Error::Timeout(_)) {
        let patience = limits::NOTIFY_TIMEOUT;
        return Failed::ForNow(format!("no answer within {patience}"));
    }
    Failed::ForNow(error.to_string())
}
