//! Paths that a manifest may name: within the project, on every platform, as text alone.
//!
//! A manifest may be written by a model or come with a cloned project. What it names is read into prompts,
//! copied, and expected to be written, so nothing in it may lead out of the work dir. Links are the
//! business of whoever opens files.

use crate::glob::{Glob, is_pattern};
use crate::limits::PATH_BYTES_MAX;
use crate::text::clean;

/// Directories that belong to git and to ekiden.
const KEPT: [&str; 2] = [".git", ".ekiden"];

/// A path from the work dir in its plain form.
pub(super) fn inside(text: &str) -> Result<String, String> {
    if let Some(why) = refusal(text) {
        return Err(why.to_owned());
    }
    let parts: Vec<&str> = text.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    Ok(parts.join("/"))
}

/// A path or a pattern in its plain form. A directory stands for all that is in it.
pub(super) fn pattern(text: &str) -> Result<String, String> {
    let mut plain = inside(text)?;
    if is_pattern(&plain) {
        Glob::new(&plain)?;
    }
    if text.ends_with('/') {
        plain.push_str(if plain.is_empty() { "**" } else { "/**" });
    }
    if plain.is_empty() { Err("is the project itself".to_owned()) } else { Ok(plain) }
}

/// A pattern of what is to be written.
pub(super) fn writable(text: &str) -> Result<String, String> {
    let plain = pattern(text)?;
    let kept = words(&plain).any(|word| KEPT.iter().any(|kept| word.eq_ignore_ascii_case(kept)));
    if kept { Err("belongs to git or to ekiden".to_owned()) } else { Ok(plain) }
}

fn refusal(text: &str) -> Option<&'static str> {
    let cleaned = clean(text);
    let drive = text.as_bytes().get(1) == Some(&b':') && text.starts_with(|c: char| c.is_ascii_alphabetic());
    if text.trim().is_empty() {
        Some("is empty")
    } else if text.len() > PATH_BYTES_MAX {
        Some("is too long for a path")
    } else if cleaned.text != text || text.contains(['\n', '\t']) {
        Some("holds characters that hide or break a line")
    } else if text.starts_with('/') || drive {
        Some("is not a path from the project's directory")
    } else if text.starts_with('~') {
        Some("begins in a home directory")
    } else if text.contains('\\') {
        Some("holds a `\\`; names are separated by `/`")
    } else if words(text).any(|word| word == "..") {
        Some("leads out of the project")
    } else {
        None
    }
}

/// The names in a path, and in the choices of a pattern.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(['/', '{', '}', ','])
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: PLN-06, SEC-01
    #[test]
    fn nothing_leads_out_of_the_project() {
        for bad in [
            "",
            " ",
            "/etc/passwd",
            "..",
            "../x",
            "a/../../x",
            "a/..",
            "~/x",
            "~root/x",
            "C:/x",
            "c:x",
            "a\\..\\b",
            "{..,a}/x",
            "{a,../b}",
            "a\0b",
            "a\u{1b}[2Jb",
            "a\nb",
            "a\u{202e}b",
            "\\\\host\\x",
        ] {
            assert!(pattern(bad).is_err(), "{bad:?}");
        }
        for good in ["a", "a b/c.rs", "...", "a..b", "src/**/*.rs", "app/[id]/page.tsx", "..a/b", "größe.md"]
        {
            assert_eq!(pattern(good).as_deref(), Ok(good));
        }
    }

    // shows: PLN-06, SEC-01
    #[test]
    fn outputs_stay_out_of_what_belongs_to_git_and_to_ekiden() {
        for bad in
            [".git/hooks/pre-commit", "a/.GIT/config", ".ekiden/", "./.ekiden/config.toml", "{.git,a}/x"]
        {
            assert!(writable(bad).is_err(), "{bad:?}");
        }
        assert_eq!(writable(".github/workflows/"), Ok(".github/workflows/**".to_owned()));
        assert_eq!(writable(".gitignore"), Ok(".gitignore".to_owned()));
    }

    #[test]
    fn a_path_has_one_form() {
        assert_eq!(inside("./a//b/./c"), Ok("a/b/c".to_owned()));
        assert_eq!(pattern("src/"), Ok("src/**".to_owned()));
        assert!(pattern(".").is_err());
        for bad in ["a[", "a{b", "[z-a]"] {
            assert!(pattern(bad).is_err(), "{bad}");
        }
    }
}
