//! Paths that a manifest may name: within the project, on every platform, as text alone.
//!
//! A manifest may be written by a model or come with a cloned project. What it names is read into prompts,
//! copied, and expected to be written, so nothing in it may lead out of the work dir. Links are the
//! business of whoever opens files.

use globset::{GlobBuilder, GlobMatcher};

use crate::limits::PATH_BYTES_MAX;
use crate::text::clean;

/// Characters that make a pattern of a path.
const SPECIAL: [char; 4] = ['*', '?', '[', '{'];
/// Choices in a pattern.
const BRACES_MAX: usize = 16;
/// Directories that belong to git and to ekiden.
const KEPT: [&str; 2] = [".git", ".ekiden"];

/// A pattern for paths: `*`, `?` and `[a-z]` stay within a name, `**` does not, `{a,b}` is either.
#[derive(Debug, Clone)]
pub struct Glob {
    pattern: String,
    matcher: Option<GlobMatcher>,
}

impl Glob {
    /// The pattern as it would be used.
    ///
    /// # Errors
    ///
    /// Why it is no pattern.
    pub fn new(pattern: &str) -> Result<Self, String> {
        let matcher = match is_pattern(pattern) {
            true => Some(built(pattern)?.compile_matcher()),
            false => None,
        };
        Ok(Self { pattern: pattern.to_owned(), matcher })
    }

    /// Whether a path from the work dir is meant. A path that reads just like the pattern is, always:
    /// some frameworks have names like `[id].tsx`.
    #[must_use]
    pub fn matches(&self, path: &str) -> bool {
        self.pattern == path || self.matcher.as_ref().is_some_and(|matcher| matcher.is_match(path))
    }

    /// The directory that all its paths are in, or the path itself if it is no pattern.
    #[must_use]
    pub fn base(&self) -> &str {
        match self.matcher {
            Some(_) => beginning(&self.pattern).rsplit_once('/').map_or("", |(base, _)| base),
            None => &self.pattern,
        }
    }
}

/// It may mean more than one path.
#[must_use]
pub fn is_pattern(text: &str) -> bool {
    text.contains(SPECIAL)
}

/// What every path that it means begins with.
pub(super) fn beginning(pattern: &str) -> &str {
    pattern.find(SPECIAL).map_or(pattern, |at| &pattern[..at])
}

/// What is wrong with a pattern, without the work of making it ready.
fn built(pattern: &str) -> Result<globset::Glob, String> {
    // What is made of deeper braces, or of more of them, is refused by the library with a panic.
    if pattern.len() > PATH_BYTES_MAX || pattern.matches('{').count() > BRACES_MAX {
        return Err("is too long or has too many braces for a pattern".to_owned());
    }
    let mut builder = GlobBuilder::new(pattern);
    builder.literal_separator(true).backslash_escape(false);
    builder.build().map_err(|error| error.kind().to_string())
}

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
        built(&plain)?;
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
    use proptest::prelude::*;

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

    // shows: SEC-01
    #[test]
    fn patterns_that_would_take_too_much_are_refused() {
        assert!(Glob::new(&format!("{}a{}", "{".repeat(300), "}".repeat(300))).is_err());
        assert!(Glob::new(&"?".repeat(2_000)).is_err());
        for most in ["?", "*", "**/", "[!a-z]", "é?", "[^é]"] {
            let pattern = most.repeat(PATH_BYTES_MAX / most.len());
            assert!(Glob::new(&pattern).map(|glob| glob.matches(&"/a".repeat(500))).is_ok(), "{most}");
        }
        let nested = format!("{}?{}", "{[!a],".repeat(BRACES_MAX), "}".repeat(BRACES_MAX));
        assert!(Glob::new(&nested).is_ok());
    }

    proptest! {
        // shows: SEC-01
        #[test]
        fn no_pattern_panics(pattern in "[a{}\\[\\]!^,*?/.-]{0,60}", path in "[a/.]{0,20}") {
            let _ = Glob::new(&pattern).map(|glob| glob.matches(&path));
        }
    }

    #[test]
    fn patterns_match_as_shells_do_and_names_match_themselves() {
        let matches = |pattern: &str, path: &str| Glob::new(pattern).unwrap().matches(path);
        assert!(matches("src/*.rs", "src/a.rs") && !matches("src/*.rs", "src/b/a.rs"));
        assert!(matches("src/**/*.rs", "src/a.rs") && matches("src/**", "src/b/a.rs"));
        assert!(matches("a/{b,c}.rs", "a/c.rs") && !matches("a/?.rs", "a/.x/rs"));
        assert!(matches("app/[id].tsx", "app/[id].tsx") && matches("app/[id].tsx", "app/d.tsx"));
        assert_eq!(Glob::new("src/a*/b").unwrap().base(), "src");
        assert_eq!(Glob::new("src/a").unwrap().base(), "src/a");
    }
}
