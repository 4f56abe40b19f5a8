//! The store as its users see it: kept files of old versions, and long worlds of crashes.

mod budget;
mod fixtures;
mod world;
