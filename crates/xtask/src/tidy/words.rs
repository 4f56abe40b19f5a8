//! Words that should not appear in the project: leftovers, words that the glossary replaces, and places
//! that exist on one machine only.

use super::{Fault, SourceFile, Tree};

/// Marks of unfinished work, in two halves so that this file does not contain them.
const LEFTOVERS: &[(&str, &str)] = &[("TO", "DO"), ("FIX", "ME"), ("X", "XX")];
/// Temporary code, the same way.
const MOMENTARY: &[(&str, &str)] = &[
    ("to", "do!("),
    ("unimplement", "ed!("),
    ("db", "g!("),
    ("#[ign", "ore"),
];
/// What comes before the name of a type or module.
const DEFINITIONS: [&str; 5] = ["struct", "enum", "trait", "type", "mod"];
/// Directories in which people wrote this project. Nobody else has them.
const WORKPLACES: &[(&str, &str)] = &[
    ("/work", "/main"),
    ("/work", "/shared"),
    ("/work", "/.library"),
];
/// The authority on words.
const GLOSSARY: &str = "docs/glossary.md";
/// The heading of its table of replaced words. A word in backticks may be used in text, but no type or
/// module has that name.
const REPLACED: &str = "## Not used";

pub(super) fn check(tree: &Tree) -> Vec<Fault> {
    let replaced = tree
        .get(GLOSSARY)
        .map(|file| replaced_words(&file.text))
        .unwrap_or_default();
    tree.files
        .iter()
        .flat_map(|file| check_file(file, &replaced))
        .collect()
}

fn check_file(file: &SourceFile, replaced: &[(String, String)]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (number, line) in file.lines() {
        let mut fault = |what: String| faults.push(Fault::at(&file.path, number, what));
        for left in LEFTOVERS
            .iter()
            .map(joined)
            .filter(|left| has_word(line, left))
        {
            fault(format!("`{left}`: do it, or write an issue"));
        }
        for place in WORKPLACES
            .iter()
            .map(joined)
            .filter(|place| has_path(line, place))
        {
            fault(format!("`{place}` exists on one machine only"));
        }
        if !file.path.ends_with(".rs") {
            continue;
        }
        for left in MOMENTARY
            .iter()
            .map(joined)
            .filter(|left| line.contains(left))
        {
            fault(format!("`{left}` is a leftover"));
        }
        let line = line.to_lowercase();
        for (word, instead) in replaced.iter().filter(|(word, _)| is_used(&line, word)) {
            fault(format!("`{word}`: the glossary says {instead}"));
        }
    }
    faults
}

fn joined((first, second): &(&str, &str)) -> String {
    format!("{first}{second}")
}

/// The rows `| word | instead |` of the glossary's table of replaced words.
fn replaced_words(glossary: &str) -> Vec<(String, String)> {
    let table = glossary.split_once(REPLACED).map_or("", |(_, rest)| rest);
    let table = table.split("\n## ").next().unwrap_or_default();
    let rows = table.lines().filter(|line| line.starts_with('|')).skip(2);
    let cells = rows.map(|row| {
        row.trim_matches('|')
            .split('|')
            .map(str::trim)
            .collect::<Vec<_>>()
    });
    let mut words = Vec::new();
    for cells in cells {
        if let [names, instead, ..] = cells.as_slice() {
            words.extend(
                names
                    .split(", ")
                    .map(|name| (name.to_lowercase(), (*instead).to_owned())),
            );
        }
    }
    words
}

/// The line, in lower case, has the word of the glossary's table; if it is in backticks, as the name of a type or module.
fn is_used(line: &str, word: &str) -> bool {
    let Some(name) = word.strip_prefix('`') else {
        return has_word(line, word);
    };
    let name = name.trim_end_matches('`');
    let is_defined = |keyword: &&str| has_word(line, &format!("{keyword} {name}"));
    line.contains(name) && DEFINITIONS.iter().any(is_defined)
}

/// The word appears in the line, not as a part of another.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let in_word = |c: char| c.is_alphanumeric() || c == '_';
        !line[..at].ends_with(in_word) && !line[at + word.len()..].starts_with(in_word)
    })
}

/// The directory appears in the line as an absolute path, not as the end of another path.
fn has_path(line: &str, directory: &str) -> bool {
    let goes_on = |c: char| c.is_alphanumeric() || "_-.~}*".contains(c);
    line.match_indices(directory)
        .any(|(at, _)| !line[..at].ends_with(goes_on))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(line: &str) -> usize {
        let glossary = "# Words\n\n## Not used\n\n| not | but |\n|---|---|\n| blimp, dirigible | airship |\n| `zeppelin` | airship |\n\n## More\n\n| a | b |\n";
        check(&Tree::of(&[
            (GLOSSARY, glossary),
            ("crates/a/src/b.rs", line),
        ]))
        .len()
    }

    #[test]
    fn leftovers_are_found_as_words() {
        for left in LEFTOVERS.iter().chain(MOMENTARY).map(joined) {
            assert_eq!(faults(&format!("    {left} later)")), 1, "{left}");
        }
        assert_eq!(
            faults(&format!("{}S is another word", joined(&LEFTOVERS[0]))),
            0
        );
    }

    #[test]
    fn replaced_words_are_found_in_any_case() {
        assert_eq!(faults("/// The Blimp goes on."), 1);
        assert_eq!(faults("let dirigible = 1;"), 1);
        assert_eq!(faults("let blimps = a | b;"), 0);
        assert_eq!(faults("pub struct Zeppelin {"), 1);
        assert_eq!(faults("mod zeppelin;"), 1);
        assert_eq!(faults("/// A zeppelin of this type: Zeppelins."), 0);
    }

    #[test]
    fn places_of_one_machine_are_found() {
        let place = joined(&WORKPLACES[0]);
        assert_eq!(faults(&format!("in `{place}main`")), 1);
        assert_eq!(faults(&format!("in `/home/dev{place}main`")), 0);
    }
}
