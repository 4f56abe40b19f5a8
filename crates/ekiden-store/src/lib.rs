//! Durable state: log, inbox, locks, archives, published files.
