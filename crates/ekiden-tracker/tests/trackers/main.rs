//! Trackers against services that answer as the real ones do, and the outbox across crashes.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod crashes;
mod github;
mod linear;
mod local;
mod openapi;
mod schema;
mod sending;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use ekiden_core::issue::{IssueRef, TrackerKind};
use ekiden_core::time::Timestamp;
use ekiden_sim::SimDisk;
use ekiden_testkit::trackers::{Asked, Fake, FakeGitHub, FakeLinear, Service};
use ekiden_tracker::{Answer, Document, Entry, GitHub, Linear, Queued, Web, Write};
use ureq::http::{Request, Response};

pub(crate) const AT: Timestamp = Timestamp(1_792_000_000_000);
pub(crate) const LINEAR: &str = "http://linear.test/graphql";
pub(crate) const GITHUB: &str = "http://github.test";

/// A fake service without a network.
#[derive(Debug)]
pub(crate) struct Near<S>(pub(crate) Arc<Mutex<Fake<S>>>);

impl<S> Clone for Near<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: Service> Near<S> {
    pub(crate) fn new(service: S) -> Self {
        Self(Arc::new(Mutex::new(Fake::new(service))))
    }
}

impl<S: Service> Web for Near<S> {
    fn send(&self, request: Request<Vec<u8>>) -> Result<Answer, String> {
        let path = request.uri().path_and_query().unwrap().to_string();
        let headers = request.headers().iter();
        let headers =
            headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
        let asked = Asked {
            method: request.method().to_string(),
            path,
            headers: headers.collect(),
            body: serde_json::from_slice(request.body()).unwrap_or_default(),
        };
        let answered = self.0.lock().unwrap().answer(asked).ok_or("it is gone")?;
        let mut answer = Response::builder().status(answered.status);
        for (name, value) in &answered.headers {
            answer = answer.header(name, value);
        }
        Ok(answer.body(answered.body).unwrap())
    }
}

pub(crate) fn linear(near: &Near<FakeLinear>) -> Linear<Near<FakeLinear>> {
    Linear::new(near.clone(), LINEAR.to_owned(), "lin_api_key")
}

pub(crate) fn github(near: &Near<FakeGitHub>) -> GitHub<Near<FakeGitHub>> {
    GitHub::new(near.clone(), GITHUB, "me/app".to_owned(), "token")
}

pub(crate) fn anv(number: u32) -> IssueRef {
    IssueRef {
        tracker: TrackerKind::Linear,
        repo: String::new(),
        id: format!("ANV-{number}"),
    }
}

/// An entry of the living comment of a run.
pub(crate) fn entry(issue: IssueRef, order: u64) -> Queued {
    let entry = Entry {
        head: format!("Session {order} · L2 at 86%"),
        at: AT,
        facts: Vec::new(),
        done: vec![format!("item {order}")],
        next: Vec::new(),
        asks: Vec::new(),
        document: Document::None,
    };
    Queued {
        v: Queued::VERSION,
        key: format!("7f3a/{order}/entry"),
        at: Timestamp(AT.0 + order),
        order,
        dir: PathBuf::from("/p"),
        issue,
        write: Write::Entry {
            comment: "7f3a".to_owned(),
            head: "ekiden works on this, run 7f3a.".to_owned(),
            entry: Box::new(entry),
        },
    }
}

/// Something else that is written in the same run.
pub(crate) fn other(issue: IssueRef, order: u64, write: Write) -> Queued {
    Queued {
        key: format!("7f3a/{order}/other"),
        write,
        ..entry(issue, order)
    }
}

/// A machine with a home directory.
pub(crate) fn planted() -> SimDisk {
    let disk = SimDisk::new();
    disk.plant_dir("/home".as_ref());
    disk
}
