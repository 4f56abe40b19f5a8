//! Requests and answers, and who carries them: `ureq`, or a test.

use std::io::Read as _;

use ekiden_core::time::{Millis, Timestamp};
use ekiden_engine::notify::http_agent;
use serde_json::Value;
use ureq::http;

use crate::Fault;

/// The most that is read of an answer, in bytes: a description may have 1 MB.
const ANSWER_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// How long nothing is sent where a limit does not say until when.
const LIMIT_UNKNOWN: Millis = Millis::from_secs(5 * 60);
/// However far away the end of a limit is, it is asked again after this.
const LIMIT_MAX: Millis = Millis::from_secs(60 * 60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
    Patch,
    Delete,
}

#[derive(Debug, Clone)]
pub struct Request {
    pub method: Method,
    pub url: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: Option<Value>,
}

#[derive(Debug, Clone, Default)]
pub struct Answer {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// Who carries requests.
pub trait Web {
    /// Sends one and waits, bounded in time. No redirect is followed.
    ///
    /// # Errors
    ///
    /// Why there is no answer; the request may have arrived all the same.
    fn send(&self, request: &Request) -> Result<Answer, String>;
}

#[derive(Debug, Clone, Copy, Default)]
pub struct RealWeb;

impl Web for RealWeb {
    fn send(&self, request: &Request) -> Result<Answer, String> {
        let method = match request.method {
            Method::Get => http::Method::GET,
            Method::Post => http::Method::POST,
            Method::Patch => http::Method::PATCH,
            Method::Delete => http::Method::DELETE,
        };
        let mut built = http::Request::builder().method(method).uri(&request.url);
        for (name, value) in &request.headers {
            built = built.header(*name, value);
        }
        let body = request.body.as_ref().map(Value::to_string);
        if body.is_some() {
            built = built.header("content-type", "application/json");
        }
        let agent = http_agent(&request.url);
        // WHY not with the address: a wrong one may hold a key.
        let unusable = |_| "the address or the key cannot stand in a request".to_owned();
        let sent = match body {
            Some(body) => agent.run(built.body(body).map_err(unusable)?),
            None => agent.run(built.body(()).map_err(unusable)?),
        };
        let mut answer = sent.map_err(|error| error.to_string())?;
        let text =
            |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = answer.headers().iter();
        let headers = headers.map(|(name, value)| (name.as_str().to_owned(), text(value)));
        let (headers, status) = (headers.collect(), answer.status().as_u16());
        let mut body = Vec::new();
        let read = answer.body_mut().as_reader().take(ANSWER_BYTES_MAX + 1);
        let mut read = read;
        read.read_to_end(&mut body)
            .map_err(|error| error.to_string())?;
        if body.len() as u64 > ANSWER_BYTES_MAX {
            return Err(format!(
                "an answer of more than {} MB",
                ANSWER_BYTES_MAX >> 20
            ));
        }
        Ok(Answer {
            status,
            headers,
            body,
        })
    }
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Result<Value, Fault> {
        serde_json::from_slice(&self.body).map_err(|error| Fault::garbage(&error.to_string()))
    }

    /// How long to wait, if the headers say that nothing more is taken: by `retry-after`, or by a time of reset.
    ///
    /// The reset is held against the server's own clock, since ours may be wrong.
    pub(crate) fn wait(&self, reset: &str, unit: Millis) -> Millis {
        let number = |name| self.header(name)?.trim().parse::<u64>().ok();
        let after = number("retry-after").map(Millis::from_secs);
        let until = || {
            let there = Timestamp(self.server_time()?);
            Some(Timestamp(number(reset)?.saturating_mul(unit.0)).since(there))
        };
        let wait = after.or_else(until).unwrap_or(LIMIT_UNKNOWN);
        Millis(wait.0.clamp(1_000, LIMIT_MAX.0))
    }

    /// `Date: Tue, 24 Nov 2026 11:02:43 GMT`, in milliseconds.
    fn server_time(&self) -> Option<u64> {
        let mut words = self.header("date")?.split_whitespace().skip(1);
        let (day, month, year, time) = (words.next()?, words.next()?, words.next()?, words.next()?);
        const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
        let month = MONTHS.find(month)? / 3 + 1;
        let at = Timestamp::parse_rfc3339(&format!("{year}-{month:02}-{day:0>2}T{time}Z"))?;
        Some(at.0)
    }

    /// What a status says where the body does not tell more.
    pub(crate) fn check_status(&self, what: &str, said: &str) -> Result<(), Fault> {
        match self.status {
            200..=299 | 304 => Ok(()),
            300..=399 => Err(Fault::refused(
                "it sends us elsewhere: check the tracker's address",
            )),
            401 | 403 => Err(Fault::not_permitted(said)),
            404 | 410 => Err(Fault::Missing(what.to_owned())),
            408 | 500.. => Err(Fault::Unreachable(format!("it answers {}", self.status))),
            _ => Err(Fault::refused(&format!("{} {said}", self.status))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: TRK-06
    #[test]
    fn a_wait_is_told_by_the_servers_clock_and_bounded() {
        let answer = |headers: &[(&str, &str)]| Answer {
            headers: headers
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            ..Answer::default()
        };
        let date = ("date", "Tue, 24 Nov 2026 11:02:43 GMT");
        let at = Timestamp::parse_rfc3339("2026-11-24T11:02:43Z").unwrap().0 / 1000;
        let wait = |headers: &[(&str, &str)]| {
            answer(headers)
                .wait("reset", Millis::from_secs(1))
                .as_secs()
        };
        assert_eq!(wait(&[("retry-after", "7")]), 7);
        assert_eq!(wait(&[date, ("reset", &(at + 90).to_string())]), 90);
        assert_eq!(wait(&[date, ("reset", "1")]), 1);
        assert_eq!(wait(&[date, ("reset", "99999999999999")]), 3600);
        assert_eq!(wait(&[("reset", &(at + 90).to_string())]), 300);
        assert_eq!(wait(&[("retry-after", "soon")]), 300);
    }
}
