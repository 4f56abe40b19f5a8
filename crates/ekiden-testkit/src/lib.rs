//! Test support: fake Messages API, simulated world, command-line environment. Never shipped.
