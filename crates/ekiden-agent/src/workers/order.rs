//! What is said to a worker and what it answers: a line of JSON, and behind it what may be any bytes.

use std::ffi::OsString;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::child::ChildEnd;

/// To run a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) program: PathBuf,
    pub(super) args: Vec<OsString>,
    pub(super) dir: PathBuf,
    pub(super) env: Vec<(OsString, OsString)>,
    /// How much follows that is for its standard input.
    pub(super) input_len: usize,
    /// How much of each stream is kept.
    pub(super) bytes_max: usize,
}

impl Order {
    pub(super) fn message(&self, input: &[u8]) -> Vec<u8> {
        message(self, &[input])
    }
}

/// How it went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) end: ChildEnd,
    /// One of the streams lacks its rest.
    pub(super) cut: bool,
    /// The command left something running, so the worker goes, and its keeper ends the rest.
    pub(super) leaves: bool,
    /// How much follows of its standard output.
    pub(super) stdout_len: usize,
    /// And behind that of its standard error.
    pub(super) stderr_len: usize,
}

impl Answer {
    pub(super) fn message(&self, stdout: &[u8], stderr: &[u8]) -> Vec<u8> {
        message(self, &[stdout, stderr])
    }
}

fn message(head: &impl Serialize, bodies: &[&[u8]]) -> Vec<u8> {
    let mut message = serde_json::to_vec(head).expect("plain data has a JSON form");
    message.push(b'\n');
    bodies.iter().for_each(|body| message.extend_from_slice(body));
    message
}
