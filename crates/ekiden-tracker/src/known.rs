//! Answers that a service need not send again.
//!
//! A client that asks for the same list every few minutes gets a tag with each answer, and sends it with
//! the next request. If nothing has changed, the answer has no body, and GitHub does not count it against
//! the rate limit.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use ureq::http::header::{AUTHORIZATION, ETAG, IF_NONE_MATCH};
use ureq::http::{HeaderValue, Method, Request, StatusCode};

use crate::{Answer, Web};

/// How many answers are kept. More come from polling something large; then all are forgotten.
const KEPT_MAX: usize = 200;

/// A service and its previous answers. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Known<W> {
    web: W,
    answers: Arc<Mutex<BTreeMap<Asked, (HeaderValue, Answer)>>>,
}

/// An address, and the key used to ask it.
type Asked = (String, Option<Vec<u8>>);

impl<W> Known<W> {
    pub fn new(web: W) -> Self {
        Self {
            web,
            answers: Arc::default(),
        }
    }
}

impl<W: Web> Web for Known<W> {
    fn send(&self, mut request: Request<Vec<u8>>) -> Result<Answer, String> {
        if request.method() != Method::GET {
            return self.web.send(request);
        }
        let key = request.headers().get(AUTHORIZATION);
        let key = key.map(|key| key.as_bytes().to_vec());
        let asked = (request.uri().to_string(), key);
        let lock = || self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().get(&asked).cloned();
        if let Some((tag, _)) = &known {
            request.headers_mut().insert(IF_NONE_MATCH, tag.clone());
        }
        let answer = self.web.send(request)?;
        if let Some((_, known)) = known.filter(|_| answer.status() == StatusCode::NOT_MODIFIED) {
            return Ok(known);
        }
        if let Some(tag) = answer
            .headers()
            .get(ETAG)
            .filter(|_| answer.status() == 200)
        {
            let mut answers = lock();
            if answers.len() >= KEPT_MAX {
                answers.clear();
            }
            answers.insert(asked, (tag.clone(), answer.clone()));
        }
        Ok(answer)
    }
}
