//! Ignore rules: the lines of `.gitignore` and `.ignore`, which count before git's in the same directory.
//!
//! Git's own reading of them, where there is no git to ask: the last line that fits decides, a deeper file's
//! before a higher one's; a name without a `/` counts at every depth; what lies in a directory that is left
//! out cannot be taken in again. But for one corner: to git, `ab**/c` is `ab` before `**/c`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use ekiden_core::glob::Pattern;
use walkdir::DirEntry;

/// The files that hold rules, the one that decides last.
const FILES: [&str; 2] = [".gitignore", ".ignore"];
/// The most that is read of one.
const FILE_BYTES_MAX: usize = 256 * 1024;
/// A longer line is no rule.
const LINE_BYTES_MAX: usize = 4 * 1024;

/// The rules on the way down to an entry of a walk, which must come in order: a directory, then what is
/// in it.
#[derive(Debug, Default)]
pub(super) struct Ignored {
    /// By depth.
    above: Vec<Rules>,
}

impl Ignored {
    /// Whether rules leave it out. A directory that they do not has its own rules read.
    pub(super) fn leaves_out(&mut self, entry: &DirEntry) -> bool {
        let is_dir = entry.file_type().is_dir();
        self.above.truncate(entry.depth());
        if self.decide(entry.path(), is_dir).unwrap_or(false) {
            return true;
        }
        if is_dir {
            self.above.push(Rules::of(entry.path()));
        }
        false
    }

    /// Whether it is left out, by the nearest rule that says anything.
    fn decide(&self, path: &Path, is_dir: bool) -> Option<bool> {
        let names = path.iter().rev().take(self.above.len()).map(|name| name.to_string_lossy());
        let mut below = String::new();
        for (rules, name) in self.above.iter().rev().zip(names) {
            let separator = if below.is_empty() { "" } else { "/" };
            below = format!("{name}{separator}{below}");
            let decision = rules.decide(&below, is_dir);
            if decision.is_some() {
                return decision;
            }
        }
        None
    }
}

/// The rules of one directory.
#[derive(Debug, Default)]
struct Rules(Vec<Rule>);

impl Rules {
    /// A file that cannot be read has no rules.
    fn of(dir: &Path) -> Self {
        let texts = FILES.iter().filter_map(|name| read(&dir.join(name)));
        Self(texts.flat_map(|text| text.lines().filter_map(Rule::parse).collect::<Vec<_>>()).collect())
    }

    /// About a path from that directory.
    fn decide(&self, path: &str, is_dir: bool) -> Option<bool> {
        self.0.iter().rev().find(|rule| rule.fits(path, is_dir)).map(|rule| rule.leaves_out)
    }
}

#[derive(Debug)]
struct Rule {
    leaves_out: bool,
    /// It is about directories only.
    of_dirs: bool,
    /// It is about names at every depth, not about paths.
    of_names: bool,
    pattern: Pattern,
}

impl Rule {
    /// A line, unless it says nothing or is no pattern.
    fn parse(line: &str) -> Option<Self> {
        let line = Some(without_blanks(line)).filter(|line| line.len() <= LINE_BYTES_MAX)?;
        let (leaves_out, line) = match line.strip_prefix('!') {
            Some(line) => (false, line),
            None => (true, line),
        };
        let (of_dirs, line) = match line.strip_suffix('/') {
            Some(line) => (true, line),
            None => (false, line),
        };
        if line.is_empty() || line.starts_with('#') && leaves_out {
            return None;
        }
        let of_names = !line.contains('/');
        let pattern = Pattern::new(line.strip_prefix('/').unwrap_or(line)).ok()?;
        Some(Self { leaves_out, of_dirs, of_names, pattern })
    }

    fn fits(&self, path: &str, is_dir: bool) -> bool {
        let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
        (is_dir || !self.of_dirs) && self.pattern.matches(if self.of_names { name } else { path })
    }
}

/// Blanks at a line's end say nothing, but for one behind a `\`.
fn without_blanks(line: &str) -> &str {
    let (mut end, mut chars) = (0, line.char_indices());
    while let Some((at, char)) = chars.next() {
        end = match char {
            ' ' => end,
            '\\' => chars.next().map_or(line.len(), |(at, char)| at + char.len_utf8()),
            char => at + char.len_utf8(),
        };
    }
    &line[..end]
}

fn read(path: &Path) -> Option<String> {
    // A pipe would be waited for, and a link may lead anywhere.
    if !path.symlink_metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(FILE_BYTES_MAX as u64).read_to_end(&mut bytes).ok()?;
    if bytes.len() == FILE_BYTES_MAX {
        // Half a line may say anything.
        bytes.truncate(bytes.iter().rposition(|byte| *byte == b'\n').unwrap_or(0));
    }
    Some(String::from_utf8_lossy(&bytes).trim_start_matches('\u{feff}').to_owned())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests make the project that is looked at, and ask git")]

    use std::fs;
    use std::process::Command;

    use proptest::prelude::*;
    use walkdir::WalkDir;

    use super::*;

    const PLACES: [&str; 12] =
        ["a", "b", "ab", "a.b", "#a", "!b", "d/a", "d/b", "d/e/a", "d/e/b", "e/d/a", "d/d/e"];

    /// A project with rules at its top and in `d/`.
    fn project(top: &str, below: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (place, text) in
            PLACES.iter().map(|place| (*place, "")).chain([(".gitignore", top), ("d/.gitignore", below)])
        {
            let path = dir.path().join(place);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    /// Two stars behind a letter, and a `/`.
    fn is_corner(line: &str) -> bool {
        let stars = line.find("**").filter(|_| line.contains('/'));
        stars.is_some_and(|at| !matches!(line[..at].chars().next_back(), None | Some('/' | '!')))
    }

    #[test]
    fn half_a_line_and_an_endless_one_are_no_rules() {
        let rest = "#".repeat(FILE_BYTES_MAX - 3);
        assert!(left_in(project(&format!("{rest}\n**.log\n"), "").path()).contains(&"a".to_owned()));
        assert!(left_in(project(&"*".repeat(LINE_BYTES_MAX + 1), "").path()).contains(&"a".to_owned()));
    }

    fn left_in(dir: &Path) -> Vec<String> {
        let mut ignored = Ignored::default();
        let entries = WalkDir::new(dir).sort_by_file_name().into_iter();
        let ours = |entry: &DirEntry| entry.file_name() != ".git" && !ignored.leaves_out(entry);
        let files = entries.filter_entry(ours).flatten().filter(|entry| entry.file_type().is_file());
        let name = |entry: &DirEntry| entry.path().strip_prefix(dir).unwrap().to_str().unwrap().to_owned();
        let mut names: Vec<_> = files.map(|entry| name(&entry)).collect();
        names.sort();
        names
    }

    fn left_in_by_git(dir: &Path) -> Vec<String> {
        let git = |words: &[&str]| {
            let mut command = Command::new("git");
            command.current_dir(dir).env("GIT_CONFIG_GLOBAL", "/dev/null").args(words);
            String::from_utf8(command.output().unwrap().stdout).unwrap()
        };
        git(&["init", "--quiet"]);
        let found = git(&["-c", "core.quotePath=false", "ls-files", "-z", "--others", "--exclude-standard"]);
        let mut names: Vec<_> = found.split_terminator('\0').map(str::to_owned).collect();
        names.sort();
        names
    }

    // shows: REL-14
    #[test]
    fn rules_mean_what_they_mean_to_git() {
        for (top, below) in [
            ("a\n", "!a\n"),
            ("/a\nd/e/\n", "!e/\n"),
            ("*\n!d/\n!d/e/\n!b\n", "a\n"),
            ("d/**\n!d/e\n", ""),
            ("**/e/a\n\\#a\n\\!b\n# b\n", ""),
            ("a  \r\nab\\ \n", "b/\n[!b]\n"),
            ("d/*/a\n[\n[z-a]\n", "**/b\n"),
            ("\u{feff}a\n[!b-a]b\n", "[[:upper:][:digit:]]\n[[:alpha:]]\n![a-\\b]\n"),
            ("[[:punct:]]?\n?[^[:graph:]]\n", ""),
            ("a\\\\  \n[b-a]\n", "\\a \n"),
        ] {
            let dir = project(top, below);
            assert_eq!(left_in(dir.path()), left_in_by_git(dir.path()), "{top:?} {below:?}");
        }
    }

    proptest! {
        // shows: REL-14
        #[test]
        fn whatever_the_rules_git_says_the_same(
            top in prop::collection::vec("!?/?[abde*?#!\\[\\]/.\\\\ -]{0,6}/?", 0..4),
            below in prop::collection::vec("!?[abe*]{1,2}/?[abe*/]{0,3}", 0..3),
        ) {
            // Git's own corner.
            prop_assume!(top.iter().chain(&below).all(|line| !is_corner(line)));
            let dir = project(&top.join("\n"), &below.join("\n"));
            prop_assert_eq!(left_in(dir.path()), left_in_by_git(dir.path()));
        }
    }

    #[test]
    fn what_stands_in_ignore_files_counts_before_gits() {
        let dir = project("a\nb\n", "");
        fs::write(dir.path().join(".ignore"), "!a\n").unwrap();
        let left = left_in(dir.path());
        assert!(left.contains(&"a".to_owned()) && !left.contains(&"b".to_owned()), "{left:?}");
    }
}
