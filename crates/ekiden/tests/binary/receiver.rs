//! Somebody to whom notifications and telemetry are posted, on this machine.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Posted {
    pub(crate) line: String,
    pub(crate) headers: Vec<String>,
    /// The body as text; what is none is in `bytes`.
    pub(crate) body: String,
    pub(crate) bytes: Vec<u8>,
}

impl Posted {
    /// The value of a header, whose name is in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let named = |line: &&String| line.to_ascii_lowercase().starts_with(&format!("{name}:"));
        let line = self.headers.iter().find(named)?;
        Some(line.split_once(':')?.1.trim())
    }
}

/// What answers the next request after those, with a status line.
type Answer = Box<dyn Fn(&[Posted], &Posted) -> &'static str + Send>;

/// Answers requests, and keeps them.
pub(crate) struct Receiver {
    address: String,
    posted: Arc<Mutex<Vec<Posted>>>,
}

impl Receiver {
    /// Answers each request with the next of some status lines, and with the last of them from then on.
    pub(crate) fn answering(answers: &'static [&'static str]) -> Self {
        Self::by(Box::new(|before, _| {
            answers.get(before.len()).or(answers.last()).unwrap()
        }))
    }

    pub(crate) fn by(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let posted = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&posted);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let Some(request) = read(&stream) else {
                    continue;
                };
                let mut kept = kept.lock().unwrap();
                let answer = answer(&kept, &request);
                kept.push(request);
                let head =
                    format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                let _ = (&stream).write_all(head.as_bytes());
            }
        });
        Self { address, posted }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.address)
    }

    pub(crate) fn posted(&self) -> Vec<Posted> {
        self.posted.lock().unwrap().clone()
    }

    /// The same once there are so many.
    pub(crate) fn wait_for(&self, count: usize) -> Vec<Posted> {
        let started = Instant::now();
        while self.posted().len() < count && started.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.posted()
    }
}

fn read(stream: &TcpStream) -> Option<Posted> {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let mut posted = Posted {
        line: lines.first()?.clone(),
        headers: lines,
        body: String::new(),
        bytes: Vec::new(),
    };
    let length = posted.header("content-length")?.parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    posted.body = String::from_utf8_lossy(&body).into_owned();
    posted.bytes = body;
    Some(posted)
}
