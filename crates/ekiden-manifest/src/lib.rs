//! Reads manifests in three formats into the model that runs use.
//!
//! ```text
//! text ── syntax, yaml ──► tree ── check ──► our own fields ── draft ──► Document
//!         TOML JSON YAML   with    by the    casm and cleave   names, files and
//!                          lines   fields    convert theirs    agents looked up
//! ```
//!
//! The reader finds everything that is wrong at once, with lines: [`Faults`]. A manifest may come from a
//! model or from a stranger's repository, so its size, depth and patterns are bounded, and nothing in it may
//! lead out of the project. This crate opens no files: it asks its caller, see [`Surroundings`].

mod casm;
mod check;
mod cleave;
mod document;
mod draft;
mod fault;
mod fields;
mod order;
mod overlap;
mod own;
mod path;
mod planned;
mod read;
mod shards;
mod syntax;
#[cfg(test)]
mod tests;
mod tree;
mod yaml;

pub use document::{Architecture, Defaults, Document, Format, FoundText, Surroundings, TextAlone};
pub use draft::made_id;
pub use fault::{Fault, Faults};
pub use own::{VERSION, schema};
pub use planned::{Refused, planned, planned_schema};
pub use read::{looks_like_manifest, read};
pub use shards::{ShardPlan, shard_plan};
pub use syntax::Syntax;
