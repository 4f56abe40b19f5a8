//! Issues where people keep them: in Linear, in GitHub, in files of the project.
//!
//! ```text
//! Tracker ── Linear (GraphQL) ─┐
//!         ── GitHub (REST) ────┼─ Web ── ureq, or a test
//!         ── Local (files) ────┘
//!
//! Queued ──► Outbox (store) ──► Sender ──► Tracker
//! ```
//!
//! A write is data ([`Write`]) that describes the wanted state, so sending it twice leaves the same issue:
//! `docs/design/trackers.md`.
//!
//! Invariants:
//! - *Foreign text stays foreign.* Agents' text reaches a tracker quoted, bounded, masked, and without
//!   anything that notifies, links or closes. Text from a tracker is bounded before it is used.
//! - *A credential goes to one address*, the one that the settings name: no redirect is followed, and no
//!   link to another host.
//! - *A failure is a fault with a reason*, never an empty answer.
//!
//! This crate must not know about settings files, the terminal, or where credentials come from.

mod block;
mod fault;
mod github;
mod known;
mod linear;
mod local;
mod sender;
mod tracker;
mod web;
mod words;
mod write;

pub use fault::Fault;
pub use github::GitHub;
pub use known::Known;
pub use linear::{DOCUMENTS, Linear};
pub use local::Local;
pub use sender::{KEPT, Open, Push, Sender, Sent, Standing, Waiting, is_limited, standing};
pub use tracker::{LivingComment, NewIssue, PullRequest, Tracker};
pub use web::{Answer, RealWeb, Web};
pub use words::{Document, Entry, HEADS, Markup, comment, defused, of_people, pull_request};
pub use write::{NewState, Queued, Write};
