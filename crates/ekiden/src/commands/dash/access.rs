//! Who may see the pages (SEC-03).
//!
//! - The token is only in the printed address and in this process. The first request with it gets a cookie
//!   and a redirect to an address without it.
//! - Cookies ignore ports: the browser would send the cookie to another server on this machine too. So the
//!   cookie is bound to a path, which is also random.
//! - A foreign `Host` is refused, so that a name that is later pointed here (DNS rebinding) gets nothing. A
//!   request that a page of another origin caused is refused too, whatever it carries.
//! - A request that changes a run must come from one of our forms, and never from a session of ekiden.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::http::header::{COOKIE, HOST, ORIGIN};
use axum::http::{HeaderMap, StatusCode};
use subtle::ConstantTimeEq as _;

const COOKIE_NAME: &str = "ekiden";

#[derive(Debug)]
pub(super) struct Access {
    at: SocketAddr,
    token: String,
    /// Replaces the token once: other users can read the command line of the program that opens a browser.
    ticket: Mutex<Option<String>>,
    cookie: String,
    /// Every form has it, so that ekiden can tell our forms from requests that other pages make up.
    pub(super) form: String,
    /// The first part of every path, without slashes.
    pub(super) base: String,
}

impl Access {
    pub(super) fn new(at: SocketAddr) -> Self {
        Self {
            at,
            token: random(),
            ticket: Mutex::new(None),
            cookie: random(),
            form: random(),
            base: random(),
        }
    }

    /// What the person opens.
    pub(super) fn address(&self) -> String {
        format!("http://{}/?t={}", self.at, self.token)
    }

    /// The address with which a browser is started; it works once.
    pub(super) fn address_for_once(&self) -> String {
        let ticket = random();
        let address = format!("http://{}/?t={ticket}", self.at);
        *self.ticket() = Some(ticket);
        address
    }

    pub(super) fn is_token(&self, given: &str) -> bool {
        let is_ticket = |ticket: &mut String| is_same(given, ticket);
        is_same(given, &self.token) || self.ticket().take_if(is_ticket).is_some()
    }

    fn ticket(&self) -> MutexGuard<'_, Option<String>> {
        self.ticket.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_cookie(&self) -> String {
        let Self { cookie, base, .. } = self;
        format!("{COOKIE_NAME}={cookie}; Path=/{base}/; HttpOnly; SameSite=Strict")
    }

    /// Refuses requests to another name or from another page.
    pub(super) fn check_origin(&self, headers: &HeaderMap) -> Result<(), StatusCode> {
        let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        let host = text(HOST.as_str()).unwrap_or_default();
        let is_here = self.is_our_host(host) && headers.get_all(HOST).iter().count() == 1;
        let is_own = text(ORIGIN.as_str()).is_none_or(|origin| origin == format!("http://{host}"));
        let site = text("sec-fetch-site");
        let is_same_site = site.is_none_or(|site| matches!(site, "same-origin" | "none"));
        match is_here && is_own && is_same_site {
            true => Ok(()),
            false => Err(StatusCode::FORBIDDEN),
        }
    }

    /// Refuses what no form of our own pages sent: a browser names the origin of every form.
    pub(super) fn check_form(&self, headers: &HeaderMap, token: &str) -> Result<(), StatusCode> {
        match headers.contains_key(ORIGIN) && is_same(token, &self.form) {
            true => Ok(()),
            false => Err(StatusCode::FORBIDDEN),
        }
    }

    /// Somebody can make a name lead here, but not an address.
    fn is_our_host(&self, host: &str) -> bool {
        let port = self.at.port();
        // A browser leaves out the port of HTTP.
        let with_port = format!("{host}:80");
        let host = match port == 80 && !host.ends_with(":80") {
            true => &with_port,
            false => host,
        };
        let named = host == format!("localhost:{port}");
        let address = host.parse::<SocketAddr>().ok();
        let is_ours = |address: SocketAddr| {
            let ip = address.ip();
            let is_ip = ip == self.at.ip() || ip.is_loopback() || self.at.ip().is_unspecified();
            is_ip && address.port() == port
        };
        named || address.is_some_and(is_ours)
    }

    /// Refuses requests without a cookie of ours.
    pub(super) fn check_cookie(&self, headers: &HeaderMap) -> Result<(), StatusCode> {
        let lines = headers.get_all(COOKIE).iter();
        let mut cookies = lines
            .filter_map(|line| line.to_str().ok())
            .flat_map(|line| line.split(';'))
            .filter_map(|cookie| cookie.trim().split_once('='));
        match cookies.any(|(name, value)| name == COOKIE_NAME && is_same(value, &self.cookie)) {
            true => Ok(()),
            false => Err(StatusCode::UNAUTHORIZED),
        }
    }
}

/// Compares in a time that does not reveal where they differ.
fn is_same(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

/// 128 random bits in hexadecimal digits.
fn random() -> String {
    let bits = || uuid::Uuid::new_v4().as_u128();
    // Six bits of a v4 UUID are fixed; rotated by 32 they meet random bits of the other one.
    format!("{:032x}", bits() ^ bits().rotate_left(32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(access: &Access, headers: &[(&'static str, &str)]) -> bool {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        access.check_origin(&headers.collect()).is_ok()
    }

    // shows: SEC-03
    #[test]
    fn foreign_hosts_and_origins_are_refused() {
        let access = Access::new("127.0.0.1:7717".parse().unwrap());
        let ours = ("host", "127.0.0.1:7717");
        for host in ["127.0.0.1:7717", "localhost:7717", "[::1]:7717"] {
            assert!(asked(&access, &[("host", host)]), "{host}");
        }
        for host in [
            "",
            "evil.example:7717",
            "localhost.evil.example:7717",
            "127.0.0.1:80",
            "127.0.0.1",
            "192.168.1.5:7717",
        ] {
            assert!(!asked(&access, &[("host", host)]), "{host}");
        }
        assert!(!asked(&access, &[]));
        let access_80 = Access::new("127.0.0.1:80".parse().unwrap());
        for (host, is_allowed) in [
            ("127.0.0.1", true),
            ("localhost", true),
            ("[::1]", true),
            ("127.0.0.1:80", true),
            ("evil.example", false),
        ] {
            let origin = format!("http://{host}");
            let headers = [("host", host), ("origin", origin.as_str())];
            assert_eq!(asked(&access_80, &headers), is_allowed, "{host}");
        }
        assert!(asked(&access, &[ours, ("origin", "http://127.0.0.1:7717")]));
        for origin in ["null", "http://127.0.0.1:3000", "https://127.0.0.1:7717"] {
            assert!(!asked(&access, &[ours, ("origin", origin)]), "{origin}");
        }
        for (site, is_allowed) in [
            ("none", true),
            ("same-origin", true),
            ("same-site", false),
            ("cross-site", false),
        ] {
            assert_eq!(
                asked(&access, &[ours, ("sec-fetch-site", site)]),
                is_allowed
            );
        }
    }

    // shows: SEC-03
    #[test]
    fn what_a_browser_is_started_with_opens_once() {
        let access = Access::new("127.0.0.1:7717".parse().unwrap());
        let address = access.address_for_once();
        let (_, ticket) = address.split_once("?t=").unwrap();
        assert!(!access.is_token("") && access.is_token(ticket));
        assert!(!access.is_token(ticket), "a second time");
        assert!(access.is_token(&access.token) && access.is_token(&access.token));
    }

    // shows: SEC-03
    #[test]
    fn tokens_are_128_bits_and_no_two_are_alike() {
        let (one, other) = (random(), random());
        assert_eq!(one.len(), 32);
        assert_ne!(one, other);
        let seen = (0..200).fold((0, u128::MAX), |(any, all), _| {
            let bits = u128::from_str_radix(&random(), 16).unwrap();
            (any | bits, all & bits)
        });
        assert_eq!(seen, (u128::MAX, 0), "some bits never change");
    }
}
