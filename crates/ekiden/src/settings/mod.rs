//! Settings: one table, five sources, one meaning.
//!
//! ```text
//! flags ┐                                     ┌─► chosen: what a run is started with
//! env   ├─► Given: text and origin of each ───┤
//! files ┘   (table: how it is read)           └─► `ekiden config show`
//! ```
//!
//! Only [`table`] knows the settings. The text as typed ([`given`]) and its meaning ([`chosen`]) are two
//! types, so every value can say where it came from.

pub mod agents;
pub mod approval;
pub mod chosen;
pub mod environment;
mod fallback;
pub mod file;
pub mod flags;
pub mod form;
pub mod given;
pub mod table;
