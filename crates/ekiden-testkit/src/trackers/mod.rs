//! Fake trackers: Linear by its selection sets, GitHub by its paths. They refuse and fail as the real ones do.
//!
//! Each is a value that takes a request and gives an answer, so that a test without a network can hold it; [`TrackerServer`] puts one behind an
//! address on loopback.

mod github;
mod linear;

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

pub use github::{FakeGitHub, GitHubPull};
pub use linear::{FakeLinear, LinearComment};

/// A request as it reached the service.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    pub method: String,
    /// With the query.
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Value,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

#[derive(Debug, Clone)]
pub struct Answered {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answered {
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: body.to_string().into_bytes(),
        }
    }
}

/// What goes wrong with the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceFault {
    /// It never arrives.
    NoAnswer,
    /// It is done, and the answer is lost.
    Lost,
    /// It is done, and half of the answer arrives.
    Half,
    /// 429 and its kind, with seconds to wait.
    Limited(u64),
    /// Another status, without a body.
    Status(u16),
    /// No JSON.
    Garbage,
}

/// A service that does what is asked.
pub trait Service {
    fn serve(&mut self, asked: &Asked) -> Answered;
    fn limited(&self, secs: u64) -> Answered;
}

/// A service, what will go wrong, and what it was asked.
#[derive(Debug, Default)]
pub struct Fake<S> {
    pub service: S,
    pub fault: VecDeque<ServiceFault>,
    /// What goes wrong with a later request, by its place from 0.
    later: Option<(std::ops::Range<usize>, ServiceFault)>,
    pub asked: Vec<Asked>,
}

impl<S: Service> Fake<S> {
    pub fn new(service: S) -> Self {
        Self {
            service,
            fault: VecDeque::new(),
            later: None,
            asked: Vec::new(),
        }
    }

    /// One request goes wrong: the one that has so many before it.
    pub fn fault_at(&mut self, place: usize, fault: ServiceFault) {
        self.later = Some((place..place + 1, fault));
    }

    /// Every request goes wrong from here on.
    pub fn fault_from(&mut self, place: usize, fault: ServiceFault) {
        self.later = Some((place..usize::MAX, fault));
    }

    /// The answer, if one arrives.
    pub fn answer(&mut self, asked: Asked) -> Option<Answered> {
        let place = self.asked.len();
        let later = self.later.as_ref().filter(|(at, _)| at.contains(&place));
        let later = later.map(|(_, fault)| *fault);
        let fault = self.fault.pop_front().or(later);
        let mut done = || self.service.serve(&asked);
        let answered = match fault {
            None => Some(done()),
            Some(ServiceFault::NoAnswer) => None,
            Some(ServiceFault::Lost) => {
                done();
                None
            }
            Some(ServiceFault::Half) => {
                let mut answered = done();
                answered.body.truncate(answered.body.len() / 2);
                Some(answered)
            }
            Some(ServiceFault::Limited(secs)) => Some(self.service.limited(secs)),
            Some(ServiceFault::Status(status)) => Some(Answered::json(status, &json!({}))),
            Some(ServiceFault::Garbage) => Some(Answered {
                body: b"<html>".to_vec(),
                ..Answered::json(200, &Value::Null)
            }),
        };
        self.asked.push(asked);
        answered
    }
}

/// A fake tracker on loopback, until the process ends.
#[derive(Debug)]
pub struct TrackerServer<S> {
    address: String,
    fake: Arc<Mutex<Fake<S>>>,
}

impl<S: Service + Send + 'static> TrackerServer<S> {
    /// # Panics
    ///
    /// If loopback cannot be listened on.
    pub fn start(service: S) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback can be listened on");
        let address = listener.local_addr().expect("a listener has an address");
        let fake = Arc::new(Mutex::new(Fake::new(service)));
        let shared = Arc::clone(&fake);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = serve(&stream, &shared);
            }
        });
        Self {
            address: format!("http://{address}"),
            fake,
        }
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.address)
    }

    pub fn fake(&self) -> MutexGuard<'_, Fake<S>> {
        self.fake.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn serve<S: Service>(stream: &TcpStream, fake: &Mutex<Fake<S>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let mut asked = Asked {
        method: words.next().unwrap_or_default(),
        path: words.next().unwrap_or_default(),
        ..Asked::default()
    };
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        asked
            .headers
            .push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let length = asked
        .header("content-length")
        .and_then(|text| text.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    asked.body = serde_json::from_slice(&body).unwrap_or_default();
    let answered = fake
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .answer(asked);
    // Without an answer the connection just ends.
    let Some(answered) = answered else {
        return Ok(());
    };
    let mut head = format!(
        "HTTP/1.1 {} x\r\nconnection: close\r\ncontent-length: {}\r\n",
        answered.status,
        answered.body.len()
    );
    for (name, value) in &answered.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let mut stream = stream;
    stream.write_all(format!("{head}\r\n").as_bytes())?;
    stream.write_all(&answered.body)
}
