//! The words of a text, as they are indexed and searched.
//!
//! A word is a run of letters and digits in lower case, without a plural's `s`. `handoff_dir` becomes two
//! adjacent words, so it is a phrase. `WorkDirLock` is one word, whose parts are indexed after the text,
//! like those of `sha256`. Words that appear in every text are left out on both sides: they would make up
//! half of the index.

use ekiden_core::observation::Observation;

/// The longest word, in bytes: longer ones differ at the beginning anyway.
const WORD_BYTES_MAX: usize = 40;
/// A word with more parts is a hash, and gets none.
const PARTS_MAX: usize = 6;

/// The longest part, in bytes.
const SILENT_BYTES_MAX: usize = 5;
/// Words that say nothing about a text. Sorted.
const SILENT: [&str; 44] = [
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "can", "do", "does", "for", "from",
    "had", "has", "have", "how", "if", "in", "into", "is", "it", "its", "no", "not", "of", "on",
    "or", "so", "that", "the", "their", "then", "there", "this", "to", "was", "what", "when",
    "which", "why", "with", "you",
];

/// Calls `each` with the words of a text in order, each with the run that it was made from.
pub(crate) fn each_word(text: &str, mut each: impl FnMut(&str, &str)) {
    let mut word = String::new();
    for run in text.split(|c: char| !c.is_alphanumeric()) {
        if normal(run, &mut word) {
            each(&word, run);
        }
    }
}

/// Puts the run's word into `word`; false if there is none.
fn normal(run: &str, word: &mut String) -> bool {
    word.clear();
    if run.is_ascii() {
        word.push_str(run);
        word.make_ascii_lowercase();
    } else {
        word.extend(run.chars().flat_map(char::to_lowercase));
    }
    word.truncate(word.floor_char_boundary(WORD_BYTES_MAX));
    if word.len() <= SILENT_BYTES_MAX && SILENT.binary_search(&&**word).is_ok() {
        return false;
    }
    if word.len() > 3 && word.ends_with('s') && !word.ends_with("ss") {
        word.pop();
    }
    !word.is_empty()
}

/// Calls `each` with the parts of an identifier; not at all if it has only one.
pub(crate) fn each_part(run: &str, mut each: impl FnMut(&str)) {
    // Most words have none, and this runs for every word.
    if run.bytes().skip(1).all(|byte| byte.is_ascii_lowercase()) {
        return;
    }
    let chars: Vec<(usize, char)> = run.char_indices().collect();
    let begins = |at: usize| {
        let (before, here) = (chars[at - 1].1, chars[at].1);
        let next = chars.get(at + 1).is_some_and(|(_, c)| c.is_lowercase());
        before.is_numeric() != here.is_numeric()
            || here.is_uppercase() && (before.is_lowercase() || before.is_uppercase() && next)
    };
    let starts = (1..chars.len()).filter(|at| begins(*at));
    let starts: Vec<usize> = starts.map(|at| chars[at].0).take(PARTS_MAX).collect();
    if starts.is_empty() || starts.len() >= PARTS_MAX {
        return;
    }
    let ends = starts.iter().copied().chain([run.len()]);
    let mut from = 0;
    let mut word = String::new();
    for end in ends {
        if normal(&run[from..end], &mut word) {
            each(&word);
        }
        from = end;
    }
}

/// Calls `add` with the words that find an observation, some more than once: those of its texts, the parts
/// of identifiers and paths, and the keys that filters ask for.
pub(crate) fn each_indexed(observation: &Observation, project: i64, mut add: impl FnMut(&str)) {
    let files = observation.files.iter();
    for text in [&observation.title, &observation.text]
        .into_iter()
        .chain(files)
    {
        each_word(text, |word, run| {
            add(word);
            each_part(run, &mut add);
        });
    }
    add(&project_key(project));
    add(&key('k', observation.kind.name()));
    for concept in &observation.concepts {
        add(&key('c', concept));
    }
    for piece in observation.files.iter().flat_map(|file| file.split('/')) {
        add(&key('f', piece));
    }
}

pub(crate) fn project_key(project: i64) -> String {
    format!("zzp{project}")
}

/// A word that appears in no text: `zz`, its subject, and a name's letters and digits.
pub(crate) fn key(about: char, name: &str) -> String {
    let plain = name.chars().filter(|c| c.is_alphanumeric());
    let mut word = format!("zz{about}");
    word.extend(plain.flat_map(char::to_lowercase));
    word.truncate(word.floor_char_boundary(WORD_BYTES_MAX));
    word
}

pub(crate) fn is_key(word: &str) -> bool {
    word.strip_prefix("zz")
        .is_some_and(|rest| rest.starts_with(['p', 'k', 'c', 'f']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut words = Vec::new();
        each_word(text, |word, _| words.push(word.to_owned()));
        words
    }

    fn parts(run: &str) -> Vec<String> {
        let mut parts = Vec::new();
        each_part(run, |part| parts.push(part.to_owned()));
        parts
    }

    // shows: MEM-08
    #[test]
    fn identifiers_paths_and_numbers_have_parts() {
        assert!(SILENT.is_sorted());
        assert!(SILENT.iter().all(|word| word.len() <= SILENT_BYTES_MAX));
        assert_eq!(
            words("The keeper holds `handoff_dir`"),
            ["keeper", "hold", "handoff", "dir"]
        );
        assert_eq!(
            words("crates/core/src/lock.rs:42"),
            ["crate", "core", "src", "lock", "rs", "42"]
        );
        assert_eq!(parts("WorkDirLock"), ["work", "dir", "lock"]);
        assert_eq!(parts("sha256"), ["sha", "256"]);
        assert_eq!(parts("HTTPServer2"), ["http", "server", "2"]);
        assert_eq!(parts("plain"), [""; 0]);
        assert_eq!(parts("a1b2c3d4e5f6"), [""; 0]);
        assert_eq!(words("Ünïcode ß"), ["ünïcode", "ß"]);
    }
}
