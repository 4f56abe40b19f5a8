//! From text to a tree, in any of the three syntaxes.
//!
//! The libraries know the grammars; what stands here keeps the lines and the bounds. A fault of syntax is
//! told alone: what follows it would be guesses.

mod json;
mod toml;
mod yaml;

use super::fault::Fault;
use super::node::Node;
use crate::limits::MANIFEST_BYTES_MAX;

/// How a manifest is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// TOML.
    Toml,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

impl Syntax {
    /// By the file's ending; of another by its first character.
    #[must_use]
    pub fn of(file: &str, text: &str) -> Self {
        let ending = file.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
        match ending.as_deref() {
            Some("toml") => Self::Toml,
            Some("json") => Self::Json,
            Some("yaml" | "yml") => Self::Yaml,
            Some(_) | None => Self::of_text(text),
        }
    }

    fn of_text(text: &str) -> Self {
        let mut lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
        let first = lines.find(|line| !line.is_empty() && !line.starts_with('#')).unwrap_or_default();
        let key = first.trim_start_matches(|c: char| c.is_alphanumeric() || "_-\"'.".contains(c));
        match first.chars().next() {
            Some('{') => Self::Json,
            Some('[') => Self::Toml,
            Some('-') => Self::Yaml,
            Some(_) if key.starts_with(':') => Self::Yaml,
            Some(_) | None => Self::Toml,
        }
    }
}

/// The tree of a text.
pub(super) fn tree(text: &str, syntax: Syntax) -> Result<Node, Fault> {
    if text.len() > MANIFEST_BYTES_MAX {
        let (size, most) = (text.len().div_ceil(1 << 20), MANIFEST_BYTES_MAX >> 20);
        return Err(Fault::new(None, &format!("{size} MB, at most {most} MB are read")));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match syntax {
        Syntax::Toml => toml::tree(text),
        Syntax::Json => json::tree(text),
        Syntax::Yaml => yaml::tree(text),
    }
}
