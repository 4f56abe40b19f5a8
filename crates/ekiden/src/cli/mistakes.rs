//! Slips on the command line, and what was probably meant. `clap` knows flags; this knows habits.

use std::ffi::OsString;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::names;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::phrase;

/// What other programs call our commands.
const HABITS: [(&str, &str); 11] = [
    ("ls", "status"),
    ("list", "status --all"),
    ("ps", "status"),
    ("logs", "log"),
    ("exec", "execute"),
    ("kill", "stop --now"),
    ("cancel", "stop"),
    ("abort", "stop --now"),
    ("settings", "config show"),
    ("reply", "answer"),
    ("install", "setup"),
];

/// The command that was probably meant.
pub fn command_meant(word: &str) -> Option<String> {
    let habit = HABITS.iter().find(|(habit, _)| *habit == word);
    let habit = habit.map(|(_, command)| (*command).to_owned());
    habit.or_else(|| phrase::nearest(word, names().iter().map(String::as_str)).map(str::to_owned))
}

/// `help run` and `version` as flags. They name no task, since a single word is a file. `man` says which
/// command there is not.
pub fn as_flags(mut words: Vec<OsString>) -> Vec<OsString> {
    let is_known = |word: &OsString| names().iter().any(|name| word == name.as_str());
    match words.get(1).and_then(|word| word.to_str()) {
        Some("help") if words.get(2).is_some_and(|word| !is_known(word)) => words[1] = "man".into(),
        Some("help") => {
            words.remove(1);
            words.push("--help".into());
        }
        Some("version") if words.len() == 2 => words[1] = "--version".into(),
        Some(_) | None => {}
    }
    words
}

/// A wrong command line of which more can be said than which word is one too many.
pub fn explained(error: &clap::Error, words: &[OsString]) -> Option<Failure> {
    let kinds = [ErrorKind::UnknownArgument, ErrorKind::ArgumentConflict];
    let mut wrong = [ContextKind::InvalidArg, ContextKind::InvalidSubcommand]
        .into_iter()
        .filter_map(|kind| error.get(kind));
    let Some(ContextValue::String(wrong)) = wrong.next().filter(|_| kinds.contains(&error.kind()))
    else {
        return None;
    };
    let failed = |text: String| Failure::new(Exit::Usage, text);
    if wrong == "--dangerously-skip-permissions" {
        return Some(failed(format!("there is no flag `{wrong}`")).hint(
            "`--skip-permissions` lets the agent do everything without asking, where nothing can be lost",
        ));
    }
    let words: Vec<String> = words
        .iter()
        .map(|word| word.to_string_lossy().into())
        .collect();
    let first = words.get(1).filter(|first| !first.starts_with('-'))?;
    let is_known = names().contains(first);
    let plain = |word: &&String| !word.starts_with('-');
    // A sentence begins with a word that may look like a command's.
    let is_sentence = words[1..].iter().take_while(plain).count() > 2;
    let is_slip = |meant: &String| strsim::damerau_levenshtein(first, meant) <= 1;
    if !is_known
        && !Path::new(first).exists()
        && let Some(meant) = command_meant(first)
        && (!is_sentence || is_slip(&meant))
    {
        let failure = failed(format!("there is no command `{first}`"));
        return Some(failure.hint(format!("did you mean `ekiden {meant}`?")));
    }
    let takes_words = ["run", "plan", "build", "continue", "answer"].contains(&first.as_str());
    let (command, task) = match is_known {
        _ if wrong.starts_with('-') => return None,
        true if takes_words && error.kind() == ErrorKind::UnknownArgument => {
            (first.as_str(), &words[2..])
        }
        true => return None,
        false => ("run", &words[1..]),
    };
    let task: Vec<&str> = task.iter().take_while(plain).map(String::as_str).collect();
    let failure = failed(format!("unexpected `{wrong}`: what to do is one argument"));
    Some(match &*task {
        [file, _, ..] if Path::new(file).is_file() => failure.hint(format!(
            "the task is the file `{file}`: leave out `{wrong}`"
        )),
        [_, _, ..] => {
            let quoted = shlex::try_quote(&task.join(" ")).ok()?.into_owned();
            failure.hint(format!("put it in quotes: `ekiden {command} {quoted}`"))
        }
        // Flags come first, and which words are their values is not known here.
        _ => failure.hint(format!("put it in quotes: `ekiden {command} 'WHAT TO DO'`")),
    })
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    fn said(line: &str) -> String {
        let words = as_flags(line.split(' ').map(OsString::from).collect());
        match parse(words.iter().cloned()) {
            Ok(_) => "parsed".to_owned(),
            Err(error) => match explained(&error, &words) {
                Some(failure) => failure.to_string(),
                None => error.kind().to_string(),
            },
        }
    }

    // shows: RUN-07
    #[test]
    fn a_slip_is_told_with_what_was_meant() {
        let lines = [
            "ekiden rnu task.md",
            "ekiden ls -x",
            "ekiden kill 7f3a",
            "ekiden run port the parser -m 3",
            "ekiden port the parser",
            "ekiden run --agent rehearsal port the parser",
            "ekiden run Cargo.toml too",
            "ekiden run task.md --dangerously-skip-permissions",
            "ekiden run task.md --verifi x",
        ];
        let said = lines.map(|line| format!("{line}\n{}\n", said(line)));
        expect_test::expect![[r#"
            ekiden rnu task.md
            error: there is no command `rnu`
            hint: did you mean `ekiden run`?

            ekiden ls -x
            error: there is no command `ls`
            hint: did you mean `ekiden status`?

            ekiden kill 7f3a
            error: there is no command `kill`
            hint: did you mean `ekiden stop --now`?

            ekiden run port the parser -m 3
            error: unexpected `the`: what to do is one argument
            hint: put it in quotes: `ekiden run 'port the parser'`

            ekiden port the parser
            error: unexpected `the`: what to do is one argument
            hint: put it in quotes: `ekiden run 'port the parser'`

            ekiden run --agent rehearsal port the parser
            error: unexpected `the`: what to do is one argument
            hint: put it in quotes: `ekiden run 'WHAT TO DO'`

            ekiden run Cargo.toml too
            error: unexpected `too`: what to do is one argument
            hint: the task is the file `Cargo.toml`: leave out `too`

            ekiden run task.md --dangerously-skip-permissions
            error: there is no flag `--dangerously-skip-permissions`
            hint: `--skip-permissions` lets the agent do everything without asking, where nothing can be lost

            ekiden run task.md --verifi x
            unexpected argument found
        "#]]
        .assert_eq(&said.join("\n"));
    }

    #[test]
    fn help_and_version_are_words_too() {
        let flags = |line: &str| {
            let words = as_flags(line.split(' ').map(OsString::from).collect());
            words.join(" ".as_ref()).into_string().unwrap()
        };
        assert_eq!(flags("ekiden help"), "ekiden --help");
        assert_eq!(flags("ekiden help config set"), "ekiden config set --help");
        assert_eq!(flags("ekiden help rnu"), "ekiden man rnu");
        assert_eq!(flags("ekiden version"), "ekiden --version");
        assert_eq!(flags("ekiden status help"), "ekiden status help");
    }
}
