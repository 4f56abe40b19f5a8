//! Runs long tasks on coding agents as a relay of fresh sessions.

fn main() {}
