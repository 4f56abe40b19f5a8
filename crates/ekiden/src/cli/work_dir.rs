//! Hints, warnings and messages name the work dir that the person typed with `-d`: without it, their commands would be
//! about another one.
//!
//! Most of the code that writes them does not know the command line, so one place adds the work dir: where they are
//! printed.

use std::ffi::OsString;

use ekiden_core::text::shell_word;

use super::definition;

/// The text, whose commands name this work dir.
pub fn name_in(text: &str, dir: &str) -> String {
    if !text.contains("`ekiden ") {
        return text.to_owned();
    }
    let whole = definition();
    // Every second part stands between backticks.
    let told = |(index, part): (usize, &str)| {
        let is_command = index % 2 == 1 && takes_work_dir(&whole, part) && !part.contains(" -d ");
        match part.split_once(" -- ") {
            _ if !is_command => part.to_owned(),
            Some((flags, rest)) => format!("{flags} -d {dir} -- {rest}"),
            None => format!("{part} -d {dir}"),
        }
    };
    let parts = text.split('`').enumerate().map(told);
    parts.collect::<Vec<_>>().join("`")
}

/// The work dir as it was typed, as a word for the shell.
pub fn typed_work_dir(words: &[OsString]) -> Option<String> {
    let words = words.iter().filter_map(|word| word.to_str());
    let mut words = words.take_while(|word| *word != "--");
    while let Some(word) = words.next() {
        let joined = || {
            let dir = word.strip_prefix("--work-dir=");
            dir.or_else(|| word.strip_prefix("-d"))
        };
        let dir = match word {
            "-d" | "--work-dir" => words.next(),
            _ => joined(),
        };
        if let Some(dir) = dir {
            return Some(shell_word(dir));
        }
    }
    None
}

/// This is a command line of ours that can name a work dir.
fn takes_work_dir(whole: &clap::Command, line: &str) -> bool {
    let mut words = line.split(' ');
    let mut command = whole;
    let is_ours = words.next() == Some("ekiden");
    while let Some(below) = words.next().and_then(|word| command.find_subcommand(word)) {
        command = below;
    }
    let has_flag = |arg: &clap::Arg| arg.get_long() == Some("work-dir");
    is_ours && command.get_arguments().any(has_flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: RUN-07
    #[test]
    fn hints_name_the_work_dir_that_was_typed() {
        let typed = |line: &[&str]| {
            let words: Vec<OsString> = line.iter().map(OsString::from).collect();
            typed_work_dir(&words)
        };
        for line in [
            &["ekiden", "stop", "-d", "a b"][..],
            &["ekiden", "stop", "-da b"],
            &["ekiden", "stop", "--work-dir=a b"],
        ] {
            assert_eq!(typed(line).as_deref(), Some("'a b'"), "{line:?}");
        }
        assert_eq!(typed(&["ekiden", "stop"]), None);
        assert_eq!(typed(&["ekiden", "run", "--", "-d", "x"]), None);
        for (hint, there) in [
            (
                "`ekiden status --all` lists them, see `ekiden man run`; or add `--new`",
                "`ekiden status --all -d b` lists them, see `ekiden man run`; or add `--new`",
            ),
            ("`ekiden run -- 'TEXT'`", "`ekiden run -d b -- 'TEXT'`"),
            ("`ekiden stop -d c` ends it", "`ekiden stop -d c` ends it"),
        ] {
            assert_eq!(name_in(hint, "b"), there);
        }
    }
}
