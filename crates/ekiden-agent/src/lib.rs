//! Child processes of every kind: keeper, spawn, stop, and one module per agent.
