//! The loop of one run: events to core, records through store, effects performed.
