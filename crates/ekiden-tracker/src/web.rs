//! What carries requests (`ureq` or a test), and what an answer says beside its body.

use ekiden_core::limits;
use ekiden_core::time::{Millis, Timestamp};
use ekiden_engine::notify::http_agent;
use serde_json::Value;
use ureq::http::{Request, Response};

use crate::Fault;

/// How much of an answer is read, in bytes: a description may have 1 MB.
const ANSWER_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// How long nothing is sent if a limit does not say when it ends.
const LIMIT_UNKNOWN: Millis = Millis::from_secs(5 * 60);
/// However far away the end of a limit is, the service is asked again after this.
const LIMIT_MAX: Millis = Millis::from_secs(60 * 60);

pub type Answer = Response<Vec<u8>>;

/// Carries requests.
pub trait Web {
    /// Sends a request and waits, with a time limit. Follows no redirect. The error says why there is no answer; the
    /// request may have arrived all the same.
    fn send(&self, request: Request<Vec<u8>>) -> Result<Answer, String>;
}

#[derive(Debug, Clone, Copy, Default)]
pub struct RealWeb;

impl Web for RealWeb {
    fn send(&self, request: Request<Vec<u8>>) -> Result<Answer, String> {
        let agent = http_agent(&request.uri().to_string());
        let mut answer = agent.run(request).map_err(|error| why(&error))?;
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        let body = body.read_to_vec().map_err(|error| why(&error))?;
        Ok(answer.map(|_| body))
    }
}

/// Never contains the address.
fn why(error: &ureq::Error) -> String {
    if matches!(error, ureq::Error::Timeout(_)) {
        return format!("nothing within {}", limits::NOTIFY_TIMEOUT);
    }
    let ureq::Error::Io(cause) = error else {
        return error.to_string();
    };
    // The system's resolver has no kind of its own.
    match cause.to_string().starts_with("failed to lookup") {
        true => "its host name cannot be looked up".to_owned(),
        false => cause.kind().to_string(),
    }
}

/// A request with these headers, and an optional body. Its error never contains what is wrong, which may be
/// a key.
pub(crate) fn request(
    method: &str,
    url: &str,
    headers: &[(&str, &str)],
    body: Option<&Value>,
) -> Result<Request<Vec<u8>>, Fault> {
    let mut built = Request::builder().method(method).uri(url);
    for (name, value) in headers {
        built = built.header(*name, *value);
    }
    if body.is_some() {
        built = built.header("content-type", "application/json");
    }
    let body = body.map_or(Vec::new(), |body| body.to_string().into_bytes());
    let unusable = |_| Fault::refused("the address or the key cannot be used in a request");
    built.body(body).map_err(unusable)
}

pub(crate) fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    answer.headers().get(name)?.to_str().ok()
}

pub(crate) fn json(answer: &Answer) -> Result<Value, Fault> {
    serde_json::from_slice(answer.body()).map_err(|error| Fault::garbage(&error.to_string()))
}

/// How long the service accepts nothing more: by `retry-after`, or by the header with the time of the
/// reset.
///
/// The reset is compared with the server's clock, since ours may be wrong.
pub(crate) fn limited(answer: &Answer, reset: &str, unit: Millis) -> Fault {
    let number = |name| header(answer, name)?.trim().parse::<u64>().ok();
    let until = || {
        let there = Timestamp::parse_rfc2822(header(answer, "date")?)?;
        Some(Timestamp(number(reset)?.saturating_mul(unit.0)).since(there))
    };
    let wait = number("retry-after").map(Millis::from_secs).or_else(until);
    let wait = wait.unwrap_or(LIMIT_UNKNOWN).0.clamp(1_000, LIMIT_MAX.0);
    Fault::Limited { wait: Millis(wait) }
}

/// What a status means if the body does not say more. `what` names what would be missing.
pub(crate) fn check(answer: &Answer, what: &str, said: &str) -> Result<(), Fault> {
    match answer.status().as_u16() {
        200..=299 => Ok(()),
        300..=399 => Err(Fault::refused(
            "it redirects: its address, or on GitHub the repository's name, has changed",
        )),
        401 | 403 => Err(Fault::not_permitted(said)),
        404 | 410 => Err(Fault::Missing(what.to_owned())),
        status @ (408 | 500..) => Err(Fault::Failing(format!("status {status}"))),
        status => Err(Fault::refused(&format!("{status} {said}"))),
    }
}

/// A text from an answer; empty if there is another value.
pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: TRK-06
    #[test]
    fn a_service_that_hangs_is_told_in_plain_words() {
        let late = ureq::Error::Timeout(ureq::Timeout::Global);
        assert_eq!(why(&late), "nothing within 10s");
    }

    // shows: TRK-06
    #[test]
    fn a_wait_is_told_by_the_servers_clock_and_bounded() {
        let date = ("date", "Tue, 24 Nov 2026 11:02:43 GMT");
        let at = Timestamp::parse_rfc3339("2026-11-24T11:02:43Z").unwrap().0 / 1000;
        let wait = |headers: &[(&str, &str)]| {
            let add = |built: ureq::http::response::Builder, (name, value): &(&str, &str)| {
                built.header(*name, *value)
            };
            let answer = headers.iter().fold(Response::builder(), add);
            let fault = limited(&answer.body(Vec::new()).unwrap(), "reset", Millis(1_000));
            let Fault::Limited { wait } = fault else {
                panic!("{fault}")
            };
            wait.as_secs()
        };
        assert_eq!(wait(&[("retry-after", "7")]), 7);
        assert_eq!(wait(&[date, ("reset", &(at + 90).to_string())]), 90);
        assert_eq!(wait(&[date, ("reset", "1")]), 1);
        assert_eq!(wait(&[date, ("reset", "99999999999999")]), 3600);
        assert_eq!(wait(&[("reset", &(at + 90).to_string())]), 300);
        assert_eq!(wait(&[("retry-after", "soon")]), 300);
    }
}
