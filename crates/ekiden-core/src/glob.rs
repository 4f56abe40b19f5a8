//! Patterns for names and paths: `*`, `?` and `[a-z]` stay within a name, `**` does not, `{a,b}` is either.
//!
//! They come from manifests and from a project's ignore rules, so they may be hostile. A match goes through the
//! path once, with the set of all places in the pattern that the path so far may have led to; nothing is
//! tried twice, so it costs at most the one's length times the other's, for each choice of braces. All choices
//! of a pattern together are bounded too.

use crate::limits::PATH_BYTES_MAX;

/// Braces in a pattern.
const BRACES_MAX: usize = 16;
/// What they may make of it.
const CHOICES_MAX: usize = 256;
/// Parts of all choices together.
const PARTS_MAX: usize = 4 * PATH_BYTES_MAX;
const TOO_MANY: &str = "stands for too many patterns";
/// What makes a pattern of a text.
const SPECIAL: [char; 4] = ['*', '?', '[', '{'];

/// It may mean more than one path.
#[must_use]
pub fn is_pattern(text: &str) -> bool {
    text.contains(SPECIAL)
}

/// What every path that it means begins with.
#[must_use]
pub fn beginning(pattern: &str) -> &str {
    pattern.find(SPECIAL).map_or(pattern, |at| &pattern[..at])
}

/// A pattern for paths.
#[derive(Debug, Clone)]
pub struct Glob {
    text: String,
    /// None, if it means one path only.
    choices: Vec<Pattern>,
}

impl Glob {
    /// The pattern as it would be used.
    ///
    /// # Errors
    ///
    /// Why it is no pattern.
    pub fn new(text: &str) -> Result<Self, String> {
        let choices = if is_pattern(text) { choices(text)? } else { Vec::new() };
        Ok(Self { text: text.to_owned(), choices })
    }

    /// Whether a path from the work dir is meant. A path that reads just like the pattern is, always:
    /// some frameworks have names like `[id].tsx`.
    #[must_use]
    pub fn matches(&self, path: &str) -> bool {
        self.text == path || self.choices.iter().any(|choice| choice.matches(path))
    }

    /// What a match costs, for each letter of the path.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.choices.iter().map(|choice| choice.parts.len()).sum()
    }

    /// The directory that all its paths are in, or the path itself if it is no pattern.
    #[must_use]
    pub fn base(&self) -> &str {
        if self.choices.is_empty() {
            return &self.text;
        }
        beginning(&self.text).rsplit_once('/').map_or("", |(base, _)| base)
    }
}

/// A pattern without choices, as git reads it: `\` takes its meaning from what follows, and `[[:digit:]]` is a
/// class with a name.
#[derive(Debug, Clone)]
pub struct Pattern {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// This one.
    Char(char),
    /// `?`
    One,
    /// `[a-z]`, `[!a-z]`
    Class { is_negated: bool, ranges: Vec<(char, char)> },
    /// `*`
    Some,
    /// `**/`: any directories, or none.
    Dirs,
    /// `**` at the end: everything below.
    All,
}

impl Pattern {
    /// The pattern as it would be used.
    ///
    /// # Errors
    ///
    /// Why it is no pattern.
    pub fn new(text: &str) -> Result<Self, String> {
        Self::of(&text.chars().collect::<Vec<_>>())
    }

    fn of(chars: &[char]) -> Result<Self, String> {
        let (mut parts, mut at) = (Vec::new(), 0);
        while let Some(char) = chars.get(at) {
            let (part, len) = match char {
                '*' => stars(chars, at),
                '?' => (Part::One, 1),
                '[' => class(&chars[at..])?,
                '\\' => (Part::Char(*chars.get(at + 1).ok_or("ends with a `\\`")?), 2),
                char => (Part::Char(*char), 1),
            };
            parts.push(part);
            at += len;
        }
        Ok(Self { parts })
    }

    /// A range that ends before it begins is its first letter to git; in a manifest it is a mistake.
    fn check_ranges(&self) -> Result<(), String> {
        for part in &self.parts {
            if let Part::Class { ranges, .. } = part
                && let Some((from, to)) = ranges.iter().find(|(from, to)| to < from)
            {
                return Err(format!("has a range that ends before it begins, `{from}-{to}`"));
            }
        }
        Ok(())
    }

    /// Whether this is such a path.
    #[must_use]
    pub fn matches(&self, path: &str) -> bool {
        // Mostly it ends here.
        if matches!(self.parts.first(), Some(Part::Char(first)) if !path.starts_with(*first))
            || matches!(self.parts.last(), Some(Part::Char(last)) if !path.ends_with(*last))
        {
            return false;
        }
        let mut places = vec![false; self.parts.len() + 1];
        let mut next = places.clone();
        self.enter(0, &mut places);
        for char in path.chars() {
            next.fill(false);
            for at in (0..self.parts.len()).filter(|at| places[*at]) {
                self.step(at, char, &mut next);
            }
            std::mem::swap(&mut places, &mut next);
            if !places.contains(&true) {
                return false;
            }
        }
        places[self.parts.len()]
    }

    /// Arrives at a place, and at those behind it if nothing may be there.
    fn enter(&self, mut at: usize, places: &mut [bool]) {
        while !std::mem::replace(&mut places[at], true)
            && matches!(self.parts.get(at), Some(Part::Some | Part::Dirs | Part::All))
        {
            at += 1;
        }
    }

    fn step(&self, at: usize, char: char, next: &mut [bool]) {
        let is_of_name = char != '/';
        match &self.parts[at] {
            Part::Char(this) if *this == char => self.enter(at + 1, next),
            Part::One if is_of_name => self.enter(at + 1, next),
            Part::Class { is_negated, ranges } if is_of_name && is_in(ranges, char) != *is_negated => {
                self.enter(at + 1, next);
            }
            Part::Some if is_of_name => self.enter(at, next),
            Part::All => self.enter(at, next),
            // Behind it a name begins.
            Part::Dirs if is_of_name => next[at] = true,
            Part::Dirs => self.enter(at, next),
            Part::Char(_) | Part::One | Part::Class { .. } | Part::Some => {}
        }
    }
}

/// Git looks at a range's first letter before it knows that it is one.
fn is_in(ranges: &[(char, char)], char: char) -> bool {
    ranges.iter().any(|(from, to)| char == *from || (from..=to).contains(&&char))
}

/// Stars stand for directories only where they are a whole name; elsewhere two are as good as one.
fn stars(chars: &[char], at: usize) -> (Part, usize) {
    let len = chars[at..].iter().take_while(|char| **char == '*').count();
    let is_name = len >= 2 && (at == 0 || chars[at - 1] == '/');
    match chars.get(at + len) {
        None if is_name => (Part::All, len),
        Some('/') if is_name => (Part::Dirs, len + 1),
        Some(_) | None => (Part::Some, len),
    }
}

/// A class at the beginning of these, and how long it is.
fn class(chars: &[char]) -> Result<(Part, usize), String> {
    let is_negated = matches!(chars.get(1), Some('!' | '^'));
    let first = if is_negated { 2 } else { 1 };
    let (mut ranges, mut at) = (Vec::new(), first);
    while chars.get(at) != Some(&']') || at == first {
        if let Some((named, len)) = named(&chars[at.min(chars.len())..]) {
            ranges.extend(named);
            at += len;
            continue;
        }
        let (from, len) = member(chars, at)?;
        at += len;
        let mut to = from;
        if chars.get(at) == Some(&'-') && !matches!(chars.get(at + 1), Some(']')) {
            let (end, len) = member(chars, at + 1)?;
            to = end;
            at += len + 1;
        }
        ranges.push((from, to));
    }
    Ok((Part::Class { is_negated, ranges }, at + 1))
}

/// A letter of a class, and how long it is.
fn member(chars: &[char], at: usize) -> Result<(char, usize), String> {
    let escaped = usize::from(chars.get(at) == Some(&'\\'));
    let char = chars.get(at + escaped).ok_or("has a `[` without its `]`")?;
    Ok((*char, 1 + escaped))
}

/// A class with a name at the beginning of these, and how long it is.
fn named(chars: &[char]) -> Option<(&'static [(char, char)], usize)> {
    let names: [(&str, &'static [(char, char)]); 12] = [
        ("[:digit:]", &[('0', '9')]),
        ("[:lower:]", &[('a', 'z')]),
        ("[:upper:]", &[('A', 'Z')]),
        ("[:alpha:]", &[('a', 'z'), ('A', 'Z')]),
        ("[:alnum:]", &[('a', 'z'), ('A', 'Z'), ('0', '9')]),
        ("[:xdigit:]", &[('a', 'f'), ('A', 'F'), ('0', '9')]),
        ("[:space:]", &[(' ', ' '), ('\t', '\r')]),
        ("[:blank:]", &[(' ', ' '), ('\t', '\t')]),
        ("[:punct:]", &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')]),
        ("[:graph:]", &[('!', '~')]),
        ("[:print:]", &[(' ', '~')]),
        ("[:cntrl:]", &[('\0', '\x1f'), ('\x7f', '\x7f')]),
    ];
    let begins =
        |name: &str| chars.len() >= name.len() && name.chars().eq(chars[..name.len()].iter().copied());
    names.into_iter().find(|(name, _)| begins(name)).map(|(name, ranges)| (ranges, name.len()))
}

/// What braces make of a pattern.
fn choices(text: &str) -> Result<Vec<Pattern>, String> {
    if text.len() > PATH_BYTES_MAX || text.matches('{').count() > BRACES_MAX {
        return Err("is too long or has too many braces for a pattern".to_owned());
    }
    let (mut open, mut done, mut parts) = (vec![text.chars().collect::<Vec<_>>()], Vec::new(), 0);
    while let Some(chars) = open.pop() {
        let Some((start, ends)) = braces(&chars)? else {
            let choice = Pattern::of(&chars)?;
            choice.check_ranges()?;
            parts += choice.parts.len();
            if parts > PARTS_MAX {
                return Err(TOO_MANY.to_owned());
            }
            done.push(choice);
            continue;
        };
        let (before, after) = (&chars[..start], &chars[ends.last().copied().unwrap_or(start) + 1..]);
        let mut from = start + 1;
        for end in ends {
            open.push([before, &chars[from..end], after].concat());
            from = end + 1;
        }
        if open.len() + done.len() > CHOICES_MAX {
            return Err(TOO_MANY.to_owned());
        }
    }
    Ok(done)
}

/// Where the first braces begin, and where each of their choices ends: the last one with the braces.
fn braces(chars: &[char]) -> Result<Option<(usize, Vec<usize>)>, String> {
    let (mut depth, mut start, mut ends, mut at) = (0_usize, 0, Vec::new(), 0);
    while let Some(char) = chars.get(at) {
        match char {
            '\\' => at += 1,
            '[' => at += class(&chars[at..])?.1 - 1,
            '{' => {
                start = if depth == 0 { at } else { start };
                depth += 1;
            }
            ',' if depth == 1 => ends.push(at),
            '}' if depth == 0 => return Err("has a `}` without its `{`".to_owned()),
            '}' => {
                depth -= 1;
                if depth == 0 {
                    ends.push(at);
                    return Ok(Some((start, ends)));
                }
            }
            _ => {}
        }
        at += 1;
    }
    if depth == 0 { Ok(None) } else { Err("has a `{` without its `}`".to_owned()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // shows: PLN-11
    #[test]
    fn patterns_match_as_shells_do_and_names_match_themselves() {
        let matches = |pattern: &str, path: &str| Glob::new(pattern).unwrap().matches(path);
        for (pattern, path) in [
            ("src/*.rs", "src/a.rs"),
            ("src/**/*.rs", "src/a.rs"),
            ("src/**/*.rs", "src/a/b/c.rs"),
            ("src/**", "src/b/a.rs"),
            ("**", "a/b"),
            ("**/b", "b"),
            ("**/b", "a/c/b"),
            ("***/b", "a/c/b"),
            ("a**b", "axxb"),
            ("a/{b,c}.rs", "a/c.rs"),
            ("{a,b/{c,d}}/e", "b/d/e"),
            ("{,a}b", "b"),
            ("[{]a[}]", "{a}"),
            ("app/[id].tsx", "app/[id].tsx"),
            ("app/[id].tsx", "app/d.tsx"),
            ("[]-]", "]"),
            ("[a-]", "-"),
            ("[^a-cx]?", "dü"),
            ("gr?ße[!é]md", "größe.md"),
            ("\\*", "*"),
        ] {
            assert!(matches(pattern, path), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("src/*.rs", "src/b/a.rs"),
            ("src/**", "src"),
            ("src/**", "srcs/a"),
            ("**/b", "ab"),
            ("**/b", "a/bc"),
            ("a/**/b", "ab"),
            ("a/**/b", "a/xb"),
            ("a**b", "a/b"),
            ("a/?.rs", "a/.x/rs"),
            ("a?b", "a/b"),
            ("a[!x]b", "a/b"),
            ("{a,b}", "c"),
            ("\\*", "a"),
        ] {
            assert!(!matches(pattern, path), "{pattern} {path}");
        }
    }

    #[test]
    fn all_its_paths_are_in_its_base() {
        assert_eq!(Glob::new("src/a*/b").unwrap().base(), "src");
        assert_eq!(Glob::new("src/a").unwrap().base(), "src/a");
        assert_eq!(Glob::new("*").unwrap().base(), "");
    }

    #[test]
    fn what_is_no_pattern_is_said_to_be_none() {
        let fault = |text: &str| Glob::new(text).unwrap_err();
        assert_eq!(fault("a["), "has a `[` without its `]`");
        assert_eq!(fault("[!]"), "has a `[` without its `]`");
        assert_eq!(fault("[z-a]"), "has a range that ends before it begins, `z-a`");
        assert_eq!(fault("{a"), "has a `{` without its `}`");
        assert_eq!(fault("*}"), "has a `}` without its `{`");
        assert_eq!(fault("*\\"), "ends with a `\\`");
        assert_eq!(fault(&"{a,b}".repeat(9)), TOO_MANY);
        assert_eq!(fault(&format!("{}{}", "{a,b}".repeat(5), "x".repeat(900))), TOO_MANY);
        assert_eq!(fault(&format!("{{{}}}{}", "a,".repeat(200), "x".repeat(500))), TOO_MANY);
    }

    // shows: SEC-01
    #[test]
    fn patterns_that_would_take_too_much_are_refused() {
        assert!(Glob::new(&format!("{}a{}", "{".repeat(300), "}".repeat(300))).is_err());
        assert!(Glob::new(&"?".repeat(2_000)).is_err());
        for most in ["?", "*", "*a", "**/", "**/*a", "[!a-z]", "é?", "[^é]"] {
            let pattern = most.repeat(PATH_BYTES_MAX / most.len());
            assert!(Glob::new(&pattern).map(|glob| glob.matches(&"/a".repeat(500))).is_ok(), "{most}");
        }
        let nested = format!("{}?{}", "{[!a],".repeat(BRACES_MAX), "}".repeat(BRACES_MAX));
        assert!(Glob::new(&nested).is_ok());
    }

    proptest! {
        // shows: SEC-01
        #[test]
        fn no_pattern_panics(pattern in "[a{}\\[\\]\\\\!^,*?/.-]{0,60}", path in "[a/.]{0,20}") {
            let _ = Glob::new(&pattern).map(|glob| glob.matches(&path));
        }
    }
}
