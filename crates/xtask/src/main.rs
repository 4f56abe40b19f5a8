//! The project's own tasks: ci, tidy, requirements, bench, real-client.

fn main() {}
