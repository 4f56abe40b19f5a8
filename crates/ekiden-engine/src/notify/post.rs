//! Sends a notification by HTTP: a POST that is retried for a bounded time if nobody answers.
//!
//! An event for a webhook is first kept in an outbox for that address. It leaves the outbox when it has arrived
//! or was refused for good. Until then, for a day at most, it is sent along with the next event.
//!
//! Requests block, so each has its own thread that nobody waits for; it ends with the process. Redirects are not
//! followed, since a notification goes where the user said. A proxy is used if the environment names one, as
//! `curl` does, but never for this machine itself.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use ekiden_core::limits;
use ekiden_core::text::in_full;
use ekiden_core::time::{Millis, Timestamp};
use ekiden_store::disk::{DiskResult, RealDisk};
use ekiden_store::outbox::{Outbox, name_of};
use serde_json::Value;
use tokio::sync::oneshot;
use ureq::http::{HeaderValue, StatusCode, Uri};
use ureq::{Agent, Error};

/// How long an event is kept for a webhook that does not answer.
const KEPT: Millis = Millis::from_secs(24 * 60 * 60);

/// What to send, and where.
#[derive(Debug, Clone)]
pub(super) struct Post {
    pub(super) url: String,
    /// The header in which ntfy takes the title, with a plain text; without it the body is JSON.
    pub(super) title: Option<String>,
    pub(super) body: String,
}

enum Failed {
    /// Nobody answers; another try may work.
    NoAnswer(String),
    /// Another try may work, or another event.
    ForNow(String),
    ForGood(String),
}

impl Failed {
    fn why(self) -> String {
        match self {
            Self::NoAnswer(why) | Self::ForNow(why) | Self::ForGood(why) => why,
        }
    }
}

pub fn is_address(text: &str) -> bool {
    let Ok(uri) = text.parse::<Uri>() else {
        return false;
    };
    let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
    is_web && uri.host().is_some_and(|host| !host.is_empty())
}

/// Where the events for an address wait, and the time before which one is too old.
pub(super) struct Queue {
    outbox: Outbox,
    since: Timestamp,
}

impl Queue {
    /// Each address has its own queue, so an event goes only where it was meant to.
    pub(super) fn of(dir: &Path, url: &str, now: Timestamp) -> Self {
        let since = now - KEPT;
        let outbox = Outbox::of(Arc::new(RealDisk::new()), &dir.join(name_of(url)));
        Self { outbox, since }
    }

    /// Sends what waits, with some retries.
    fn send_all(&self, post: &Post) -> DiskResult<Result<(), Failed>> {
        self.outbox.queue(&post.body, post.body.as_bytes())?;
        let Some(_lock) = self.outbox.lock(limits::NOTIFY_TIMEOUT.into())? else {
            let why = "others wait to be sent there".to_owned();
            return Ok(Err(Failed::ForGood(why)));
        };
        let agent = http_agent(&post.url);
        Ok(patiently(|| {
            let tried = self.try_all(&agent, post);
            tried.unwrap_or_else(|error| Err(Failed::ForGood(in_full(&error))))
        }))
    }

    /// Tries what waits, oldest first, until nobody answers. After one that fails for now, only the call's own event is
    /// tried: maybe it is that one event that the receiver cannot take.
    fn try_all(&self, agent: &Agent, post: &Post) -> DiskResult<Result<(), Failed>> {
        let waiting = self.outbox.waiting()?.into_iter();
        let mut waiting: Vec<_> = waiting.map(|kept| (sent_at(&kept.bytes), kept)).collect();
        waiting.sort_by_key(|(at, _)| *at);
        let (mut result, mut is_stuck) = (Ok(()), false);
        for (at, kept) in waiting {
            let body = String::from_utf8(kept.bytes).unwrap_or_default();
            let is_own = body == post.body;
            if is_stuck && !is_own {
                continue;
            }
            if at >= self.since {
                let post = Post {
                    body,
                    ..post.clone()
                };
                match try_once(agent, &post) {
                    Ok(()) => {}
                    Err(Failed::ForGood(why)) => result = Err(Failed::ForGood(why)),
                    Err(Failed::ForNow(why)) if !is_own => {
                        (result, is_stuck) = (Err(Failed::ForGood(why)), true);
                        continue;
                    }
                    Err(failed) => return Ok(Err(failed)),
                }
            }
            self.outbox.forget(&kept.name)?;
        }
        Ok(result)
    }
}

/// The time in an event; if it cannot be read, one long ago.
fn sent_at(event: &[u8]) -> Timestamp {
    let event: Value = serde_json::from_slice(event).unwrap_or_default();
    let at = event["time"].as_str().and_then(Timestamp::parse_rfc3339);
    at.unwrap_or_default()
}

/// Sends it, with some retries. If the future is dropped, a request that is on its way may still arrive.
pub(super) async fn send(post: Post, queue: Option<Queue>) -> Result<(), String> {
    let (sender, told) = oneshot::channel();
    let work = move || {
        // One that cannot be kept, such as on a full disk, is sent all the same.
        let sent = queue.and_then(|queue| queue.send_all(&post).ok());
        let sent = sent.unwrap_or_else(|| {
            let agent = http_agent(&post.url);
            patiently(|| try_once(&agent, &post))
        });
        // Maybe nobody waits for it any more.
        let _ = sender.send(sent.map_err(Failed::why));
    };
    let thread = thread::Builder::new().name("notify".to_owned()).spawn(work);
    thread.map_err(|error| format!("start a thread: {error}"))?;
    let lost = || Err("the request ended without a result".to_owned());
    told.await.unwrap_or_else(|_| lost())
}

/// Tries it until it is done or failed for good, a bounded number of times.
fn patiently(mut attempt: impl FnMut() -> Result<(), Failed>) -> Result<(), Failed> {
    let mut pauses = limits::NOTIFY_PAUSES.iter();
    loop {
        match (attempt(), pauses.next()) {
            (Err(Failed::ForNow(_) | Failed::NoAnswer(_)), Some(pause)) => {
                thread::sleep((*pause).into());
            }
            (tried, _) => return tried,
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

/// The address belongs to this machine itself.
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
    // Characters that a header cannot hold are left out of it; the text is whole.
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
        return Failed::NoAnswer(format!("no answer within {patience}"));
    }
    Failed::NoAnswer(error.to_string())
}
