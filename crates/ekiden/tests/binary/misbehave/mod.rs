//! Agents that misbehave: a scenario each, and its expected course as the event lines of the run.
//!
//! Whatever the agent does, a run ends with the right exit code, no item that was done is lost,
//! nothing stays alive, and nothing that the agent wrote reaches the terminal as more than text.
//! `docs/design/testing.md` says how to write one.

mod bounds;
mod claims;
mod course;
mod handoffs;
mod noise;
mod processes;
mod reviewers;
mod service;
mod verbose;
