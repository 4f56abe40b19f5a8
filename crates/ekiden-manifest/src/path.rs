//! Paths that a manifest may name: within the project, on every platform, judged by their text alone.
//!
//! A model may have written the manifest, or it came with a cloned project. ekiden reads the files that it names into
//! prompts, copies them and writes them, so nothing in it may lead out of the work dir. Code that opens the files
//! must refuse links that lead out.

use ekiden_core::limits::PATH_BYTES_MAX;
use ekiden_core::text::clean;
use globset::{GlobBuilder, GlobSet};

/// Directories that belong to git and to ekiden.
const RESERVED: [&str; 2] = [".git", ".ekiden"];
/// Characters that make a path a pattern.
pub(crate) const SPECIAL: [char; 4] = ['*', '?', '[', '{'];

/// A path from the work dir without `.` and empty names.
pub(crate) fn inside(text: &str) -> Result<String, String> {
    if let Some(why) = refusal(text) {
        return Err(why.to_owned());
    }
    let parts: Vec<&str> = text
        .split('/')
        .filter(|part| !matches!(*part, "" | "."))
        .collect();
    Ok(parts.join("/"))
}

/// A path or a pattern. A directory means everything in it.
pub(crate) fn pattern(text: &str) -> Result<String, String> {
    let mut plain = inside(text)?;
    if plain.contains(SPECIAL) {
        plain = within_names(&plain)?;
        glob(&plain)?;
    }
    if text.ends_with('/') {
        plain.push_str(if plain.is_empty() { "**" } else { "/**" });
    }
    if plain.is_empty() {
        Err("is the project itself".to_owned())
    } else {
        Ok(plain)
    }
}

/// A pattern for files to be written.
pub(crate) fn writable(text: &str) -> Result<String, String> {
    let plain = pattern(text)?;
    let is_reserved = |word: &str| RESERVED.iter().any(|name| word.eq_ignore_ascii_case(name));
    if words(&plain).any(is_reserved) {
        Err("belongs to git or to ekiden".to_owned())
    } else {
        Ok(plain)
    }
}

/// A pattern, compiled as it will be for finding files. The library bounds time and memory.
pub(crate) fn glob(pattern: &str) -> Result<GlobSet, String> {
    let refused = |error: globset::Error| format!("is not a valid glob: {}", error.kind());
    let glob = GlobBuilder::new(pattern)
        .literal_separator(true)
        .empty_alternates(true)
        .build()
        .map_err(refused)?;
    GlobSet::builder().add(glob).build().map_err(refused)
}

/// A pattern without a class that matches `/`. The library lets `[!a]` match it, and treats letters beyond
/// ASCII as their single bytes.
fn within_names(pattern: &str) -> Result<String, String> {
    let (mut kept, mut rest) = (String::new(), pattern);
    while let Some(start) = rest.find('[') {
        kept.push_str(&rest[..start]);
        let body = &rest[start + 1..];
        let letters = body.strip_prefix(['!', '^']).unwrap_or(body);
        // A `]` at the beginning is one of the letters.
        let mut others = letters.char_indices().skip(1);
        let Some((end, _)) = others.find(|(_, c)| *c == ']') else {
            // It has no end, so the library refuses it.
            return Ok(kept + &rest[start..]);
        };
        let after = &letters[end + 1..];
        let letters = &letters[..end];
        let mut class = rest[start..rest.len() - after.len()].to_owned();
        let is_negated = letters.len() + 2 < class.len();
        if is_negated && !letters.starts_with(']') && glob(&class)?.is_match("/") {
            class.insert(2, '/');
        }
        if !class.is_ascii() || glob(&class)?.is_match("/") {
            let why = "is not a valid glob: `[...]` stands for one ASCII letter of a name, never for `/`; write \
                `{ä,ö}` for others";
            return Err(why.to_owned());
        }
        kept.push_str(&class);
        rest = after;
    }
    Ok(kept + rest)
}

fn refusal(text: &str) -> Option<&'static str> {
    let drive = text.as_bytes().get(1) == Some(&b':')
        && text.starts_with(|c: char| c.is_ascii_alphabetic());
    if text.trim().is_empty() {
        Some("is empty")
    } else if text.len() > PATH_BYTES_MAX {
        Some("is too long for a path")
    } else if clean(text).text != text || text.contains(['\n', '\t']) {
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

/// The names in a path, and in the alternatives of a pattern.
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
        for good in [
            "a",
            "a b/c.rs",
            "...",
            "a..b",
            "src/**/*.rs",
            "app/[id]/page.tsx",
            "..a/b",
            "größe.md",
        ] {
            assert_eq!(pattern(good).as_deref(), Ok(good));
        }
    }

    // shows: PLN-06, SEC-01
    #[test]
    fn outputs_stay_out_of_what_belongs_to_git_and_to_ekiden() {
        for bad in [
            ".git/hooks/pre-commit",
            "a/.GIT/config",
            ".ekiden/",
            "./.ekiden/config.toml",
            "{.git,a}/x",
        ] {
            assert!(writable(bad).is_err(), "{bad:?}");
        }
        assert_eq!(
            writable(".github/workflows/"),
            Ok(".github/workflows/**".to_owned())
        );
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

    #[test]
    fn a_class_stays_within_a_name_and_within_ascii() {
        for (text, plain) in [
            ("[!a]x", "[!/a]x"),
            ("[^a-c]/[b]", "[^/a-c]/[b]"),
            ("[!-]x", "[!/-]x"),
            ("[!a-]x", "[!/a-]x"),
            ("[!+--]x", "[!/+--]x"),
            ("[!a/]x", "[!a/]x"),
            ("[!]/]x", "[!]/]x"),
            ("[!+-9]x", "[!+-9]x"),
            ("{[!a],b}", "{[!/a],b}"),
            ("[]a]", "[]a]"),
            ("[a-]", "[a-]"),
        ] {
            assert_eq!(pattern(text).as_deref(), Ok(plain), "{text}");
            assert_eq!(pattern(plain).as_deref(), Ok(plain), "{text}");
            assert!(!glob(plain).unwrap().is_match("/x"), "{text}");
        }
        assert!(
            glob(&pattern("src[!a]b").unwrap())
                .unwrap()
                .is_match("srcxb")
        );
        for bad in ["[ä]", "[!a-ö]x", "{[ß],b}", "[+-9]x", "[a/]x", "[!]]x"] {
            let why = pattern(bad).unwrap_err();
            assert!(
                why.starts_with("is not a valid glob: `[...]`"),
                "{bad}: {why}"
            );
        }
        assert_eq!(pattern("ä[a]{ä,ö}").as_deref(), Ok("ä[a]{ä,ö}"));
    }
}
