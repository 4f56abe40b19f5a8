//! Common mistakes on the command line, and what was probably meant. `clap` knows flags; this module knows
//! habits.

use std::ffi::OsString;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use ekiden_core::text::shell_word;

use super::{definition, names};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::phrase;

/// Other programs' names for our commands.
const HABITS: [(&str, &str); 12] = [
    ("ls", "status"),
    ("list", "status --all"),
    ("ps", "status"),
    ("logs", "log"),
    ("exec", "execute"),
    ("pipeline", "execute"),
    ("kill", "stop --now"),
    ("cancel", "stop"),
    ("abort", "stop --now"),
    ("settings", "config show"),
    ("reply", "answer"),
    ("install", "setup"),
];

/// The commands that continue a run, which keeps its agent.
const OF_A_RUN: [&str; 3] = ["ekiden resume", "ekiden continue", "ekiden answer"];

/// The programs before ekiden: a request for help on them is one for help with moving from them.
const BEFORE_US: [&str; 5] = ["cleave", "casm", "ccs", "anvil", "migrating"];

/// The command that was probably meant.
pub fn command_meant(word: &str) -> Option<String> {
    let habit = HABITS.iter().find(|(habit, _)| *habit == word);
    let habit = habit.map(|(_, command)| (*command).to_owned());
    habit.or_else(|| phrase::nearest(word, names().iter().map(String::as_str)).map(str::to_owned))
}

/// `help run` and `version` as flags. They name no task, since a single word is a file. `man` reports a
/// command that does not exist.
pub fn as_flags(mut words: Vec<OsString>) -> Vec<OsString> {
    let is_known = |word: &OsString| names().iter().any(|name| word == name.as_str());
    let is_before_us = |word: &OsString| BEFORE_US.iter().any(|before| word == before);
    match words.get(1).and_then(|word| word.to_str()) {
        Some("help") if words.get(2).is_some_and(is_before_us) => {
            words.splice(1.., ["import".into(), "--help".into()]);
        }
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

type Explain = fn(&clap::Error, &[OsString]) -> Option<Failure>;

const OF_KIND: [(ErrorKind, Explain); 5] = [
    (ErrorKind::MissingRequiredArgument, missing),
    (ErrorKind::ValueValidation, no_session),
    (ErrorKind::InvalidUtf8, |_, words| not_text(words)),
    (ErrorKind::TooManyValues, |_, words| unquoted_answer(words)),
    (ErrorKind::InvalidSubcommand, |error, words| {
        no_single_setting(words).or_else(|| no_subcommand(error, words))
    }),
];

/// A wrong command line about which we can say more than which word is superfluous.
pub fn explained(error: &clap::Error, words: &[OsString]) -> Option<Failure> {
    let kind = error.kind();
    if let Some((_, explain)) = OF_KIND.iter().find(|(known, _)| *known == kind) {
        return explain(error, words);
    }
    let kinds = [ErrorKind::UnknownArgument, ErrorKind::ArgumentConflict];
    let mut wrong = [ContextKind::InvalidArg, ContextKind::InvalidSubcommand]
        .into_iter()
        .filter_map(|kind| error.get(kind));
    let Some(ContextValue::String(wrong)) = wrong.next().filter(|_| kinds.contains(&kind)) else {
        return None;
    };
    let failed = |text: String| Failure::new(Exit::Usage, text);
    let is_flag = wrong.starts_with('-') && kind == ErrorKind::UnknownArgument;
    let no_flag = is_flag.then(|| no_flag(wrong, words)).flatten();
    let words: Vec<String> = words
        .iter()
        .map(|word| word.to_string_lossy().into())
        .collect();
    let Some(first) = words.get(1).filter(|first| !first.starts_with('-')) else {
        return no_flag;
    };
    let is_known = names().contains(first);
    let plain = |word: &&String| !word.starts_with('-');
    // A sentence starts with a word that may look like a command's name.
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
    if no_flag.is_some() {
        return no_flag;
    }
    let takes_words = ["run", "plan", "build", "continue", "answer"].contains(&first.as_str());
    let (command, task) = match is_known {
        _ if wrong.starts_with('-') => return None,
        true if first == "status" => return Some(no_run(wrong)),
        true if takes_words && error.kind() == ErrorKind::UnknownArgument => {
            (first.as_str(), &words[2..])
        }
        true => return None,
        false => ("run", &words[1..]),
    };
    if let Some(value) = reviewer(&words) {
        let hint = format!("`--review` takes its value after an equals sign: `--review={value}`");
        return Some(failed(format!("unexpected `{wrong}`")).hint(hint));
    }
    let task: Vec<&str> = task.iter().take_while(plain).map(String::as_str).collect();
    let failure = failed(format!(
        "unexpected `{wrong}`: the task must be one argument"
    ));
    Some(match &*task {
        [file, _, ..] if Path::new(file).is_file() => failure.hint(format!(
            "the task is the file `{file}`: leave out `{wrong}`"
        )),
        [_, _, ..] => {
            let quoted = shlex::try_quote(&task.join(" ")).ok()?.into_owned();
            failure.hint(format!("put it in quotes: `ekiden {command} {quoted}`"))
        }
        // Flags come first, and we do not know here which words are their values.
        _ => failure.hint(format!("put it in quotes: `ekiden {command} 'WHAT TO DO'`")),
    })
}

/// What follows `--review` as a word of its own, which `clap` takes for the task.
fn reviewer(words: &[String]) -> Option<&str> {
    let mut pairs = words.windows(2);
    let pair = pairs.find(|pair| pair[0] == "--review" && !pair[1].starts_with('-'))?;
    Some(&pair[1])
}

/// A flag that the command does not have. `clap` would suggest the longer name of another flag, or to pass it as a value.
fn no_flag(wrong: &str, words: &[OsString]) -> Option<Failure> {
    let is_flag = |word: &OsString| {
        let rest = word.to_str().and_then(|word| word.strip_prefix(wrong));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    };
    let (command, mut name) = named(words);
    if name == "ekiden" {
        name.push_str(" run");
    }
    // An item of a list, such as `- [ ] Add tests`.
    if wrong == "- " {
        let text = "a text that begins with a dash looks like a flag";
        let hint = format!("put `--` before it, after all flags: `{name} -- 'TEXT'`");
        return Some(Failure::new(Exit::Usage, text).hint(hint));
    }
    // Other texts that begin with a dash can be passed as a value, and nothing after `--` is a flag.
    let mut before = words.iter().take_while(|word| *word != "--");
    before.find(|word| is_flag(word))?;
    let keeps_its_agent = wrong == "--agent" && OF_A_RUN.contains(&name.as_str());
    let flags = command.get_arguments().filter_map(clap::Arg::get_long);
    let hint = match (
        instead_of(wrong),
        phrase::nearest(wrong.trim_start_matches('-'), flags),
    ) {
        (Some(ours), _) => ours.to_owned(),
        (None, _) if keeps_its_agent => {
            "a run keeps its agent; `ekiden run TASK --agent NAME` starts another run".to_owned()
        }
        (None, Some(near)) => format!("did you mean `--{near}`?"),
        (None, None) => format!("`{name} --help` lists its flags"),
    };
    Some(Failure::new(Exit::Usage, format!("`{name}` has no flag `{wrong}`")).hint(hint))
}

/// Ours for the purpose of a flag of earlier programs, or of other commands.
fn instead_of(flag: &str) -> Option<&'static str> {
    Some(match flag {
        "--dangerously-skip-permissions" => {
            "`--skip-permissions` lets the agent do everything without asking, where nothing can be lost"
        }
        "--resume-stage" => {
            "`ekiden resume` continues a plan; `ekiden execute MANIFEST --from ID` starts with a stage"
        }
        "--skip-stage" => "`ekiden execute MANIFEST --skip ID` leaves a stage out",
        "--mode" => "sessions are headless; `--tui` shows the agent's own interface",
        "--headless" => "sessions are headless unless `--tui` is given",
        "--auto" => "sessions follow one another unless `--guided` is given",
        "--handoff-threshold" => "`--levels 50,60,70` orders the handoff at 60%",
        "--budget" | "-b" => {
            "`--session-budget USD` is for each session, `--run-budget USD` for all"
        }
        "-s" => "`-m NUMBER` sets how many sessions may begin",
        "--file" => "the task is an argument: `ekiden run FILE`",
        "--install-hooks" => "`ekiden setup` installs the guard's hooks",
        "--uninstall" => "`ekiden setup --remove` removes the guard's hooks",
        "--allowed-tools" => "`--allowed-tool RULE` allows one, and may be repeated",
        "--interactive-first" => "`ekiden start` lets the agent ask about the task first",
        "--timeout" => {
            "`--session-timeout 45m` is for each session, `--verify-timeout SECONDS` for the verification"
        }
        _ => return None,
    })
}

/// `ekiden status 7f3a`.
fn no_run(run: &str) -> Failure {
    let text = format!("unexpected `{run}`: `ekiden status` takes no run");
    Failure::new(Exit::Usage, text).hint(format!(
        "`ekiden log {run}` shows one run, `ekiden attach {run}` watches it"
    ))
}

/// A file's name may be any bytes, and a command line is text.
fn not_text(words: &[OsString]) -> Option<Failure> {
    let word = words.iter().find(|word| word.to_str().is_none())?;
    let text = format!("`{}` is not UTF-8 text", word.to_string_lossy());
    let failure = Failure::new(Exit::Usage, text);
    Some(failure.hint("rename the file, or pass it on: `ekiden run - < FILE`"))
}

/// `ekiden answer keep the column`.
fn unquoted_answer(words: &[OsString]) -> Option<Failure> {
    let words: Option<Vec<&str>> = words.iter().map(|word| word.to_str()).collect();
    let words = words?;
    let ["answer", words @ ..] = words.get(1..)? else {
        return None;
    };
    let plain = words.iter().take_while(|word| !word.starts_with('-'));
    Some(unquoted(&plain.copied().collect::<Vec<_>>()))
}

/// The failure of an answer that was typed without quotes.
pub fn unquoted(words: &[&str]) -> Failure {
    let (run, rest) = match words {
        [run, rest @ ..] if phrase::is_like_id(run) => (format!("{run} "), rest),
        _ => (String::new(), words),
    };
    let answer = match rest {
        [] => "'TEXT'".to_owned(),
        [_, ..] => shell_word(&rest.join(" ")),
    };
    let failure = Failure::new(Exit::Usage, "the answer is one argument");
    failure.hint(format!("put it in quotes: `ekiden answer {run}{answer}`"))
}

/// `ekiden config get KEY`.
fn no_single_setting(words: &[OsString]) -> Option<Failure> {
    let reads = ["get", "list", "ls"];
    let [_, config, word, ..] = words else {
        return None;
    };
    if config != "config" || !reads.iter().any(|reads| word == reads) {
        return None;
    }
    let failure = Failure::new(Exit::Usage, "`ekiden config` shows all settings or none");
    Some(failure.hint("`ekiden config show` prints them"))
}

/// `ekiden memory serch`.
fn no_subcommand(error: &clap::Error, words: &[OsString]) -> Option<Failure> {
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let (command, name) = named(words);
    let below = command.get_subcommands().map(clap::Command::get_name);
    let lists = format!("`{name} --help` lists its commands");
    let failure = Failure::new(Exit::Usage, format!("`{name}` has no command `{wrong}`"));
    Some(failure.suggest(wrong, below, &lists))
}

/// A run's id where a session's number belongs.
fn no_session(error: &clap::Error, words: &[OsString]) -> Option<Failure> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text),
        Some(_) | None => None,
    };
    let value = text(ContextKind::InvalidValue)?;
    text(ContextKind::InvalidArg).filter(|arg| *arg == "[N]")?;
    let command = words.get(1)?.to_str()?;
    let failure = Failure::new(Exit::Usage, format!("`{value}` is not a session number"));
    let hint = match value.parse::<u64>() {
        Ok(_) => "sessions are numbered from 1".to_owned(),
        Err(_) => format!("the number comes first, then the run: `ekiden {command} 3 {value}`"),
    };
    Some(failure.hint(hint))
}

/// A command without its operand: what that is, and an example line.
fn missing(error: &clap::Error, words: &[OsString]) -> Option<Failure> {
    let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let flag = missing.iter().find(|missing| missing.starts_with("--"));
    let missing = missing.join(" ").replace(['<', '>'], "");
    let (command, name) = named(words);
    let failure = Failure::new(Exit::Usage, format!("`{name}` needs {missing}"));
    let examples = command.get_before_help().map(ToString::to_string);
    // A help may have the examples of several commands.
    let examples = examples.as_deref().unwrap_or_default();
    let mut its = examples
        .lines()
        .filter(|line| line.trim_start().starts_with(&name));
    let has_flag = |line: &&str| flag.is_some_and(|flag| line.contains(flag.as_str()));
    let example = its.clone().find(has_flag).or_else(|| its.next());
    // The purpose of an example comes after it.
    let example = example.and_then(|line| line.trim().split("  ").next());
    let failure = match example {
        Some(example) => failure.hint(format!("for example `{example}`")),
        None => failure,
    };
    Some(failure.hint(format!("see `{name} --help`")))
}

/// The command that the first words name, and how it is called.
fn named(words: &[OsString]) -> (clap::Command, String) {
    let (mut command, mut name) = (definition(), "ekiden".to_owned());
    for word in &words[1..] {
        let Some(below) = command.find_subcommand(word).cloned() else {
            break;
        };
        name.push_str(&format!(" {}", below.get_name()));
        command = below;
    }
    (command, name)
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
    fn an_item_of_a_list_as_a_text_is_told_how_to_be_passed() {
        for command in ["run", "continue", "answer"] {
            let words = ["ekiden", command, "- [ ] Add tests"].map(OsString::from);
            let error = parse(words.iter().cloned()).err().unwrap();
            let failure = explained(&error, &words).map(|failure| failure.hints().to_owned());
            let hint = format!("put `--` before it, after all flags: `ekiden {command} -- 'TEXT'`");
            assert_eq!(failure, Some(vec![hint]));
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
            "ekiden run Cargo.toml --review codex",
            "ekiden run --review codex Cargo.toml -m 3",
            "ekiden run task.md --dangerously-skip-permissions",
            "ekiden execute pipeline.yaml --resume-stage b",
            "ekiden execute pipeline.yaml --skip-stage=b",
            "ekiden run task.md --mode tui",
            "ekiden run task.md --verifi x",
            "ekiden run task.md --timeout 5m",
            "ekiden task.md -s",
            "ekiden run --file task.md",
            "ekiden pipeline pipeline.yaml",
            "ekiden resume --agent codex",
            "ekiden estimate spec.md --agent codex",
            "ekiden config set --max-sessions 3",
            "ekiden run -x.md",
            "ekiden status 7f3a",
            "ekiden show 12ab",
            "ekiden show 0",
            "ekiden answer don't drop it",
            "ekiden answer 7f3a keep the column",
            "ekiden answer --stage S1 keep the column",
            "ekiden config get max_sessions",
            "ekiden memory serch lock",
            "ekiden issue close 3",
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
            error: unexpected `the`: the task must be one argument
            hint: put it in quotes: `ekiden run 'port the parser'`

            ekiden port the parser
            error: unexpected `the`: the task must be one argument
            hint: put it in quotes: `ekiden run 'port the parser'`

            ekiden run --agent rehearsal port the parser
            error: unexpected `the`: the task must be one argument
            hint: put it in quotes: `ekiden run 'WHAT TO DO'`

            ekiden run Cargo.toml too
            error: unexpected `too`: the task must be one argument
            hint: the task is the file `Cargo.toml`: leave out `too`

            ekiden run Cargo.toml --review codex
            error: unexpected `codex`
            hint: `--review` takes its value after an equals sign: `--review=codex`

            ekiden run --review codex Cargo.toml -m 3
            error: unexpected `Cargo.toml`
            hint: `--review` takes its value after an equals sign: `--review=codex`

            ekiden run task.md --dangerously-skip-permissions
            error: `ekiden run` has no flag `--dangerously-skip-permissions`
            hint: `--skip-permissions` lets the agent do everything without asking, where nothing can be lost

            ekiden execute pipeline.yaml --resume-stage b
            error: `ekiden execute` has no flag `--resume-stage`
            hint: `ekiden resume` continues a plan; `ekiden execute MANIFEST --from ID` starts with a stage

            ekiden execute pipeline.yaml --skip-stage=b
            error: `ekiden execute` has no flag `--skip-stage`
            hint: `ekiden execute MANIFEST --skip ID` leaves a stage out

            ekiden run task.md --mode tui
            error: `ekiden run` has no flag `--mode`
            hint: sessions are headless; `--tui` shows the agent's own interface

            ekiden run task.md --verifi x
            error: `ekiden run` has no flag `--verifi`
            hint: did you mean `--verify`?

            ekiden run task.md --timeout 5m
            error: `ekiden run` has no flag `--timeout`
            hint: `--session-timeout 45m` is for each session, `--verify-timeout SECONDS` for the verification

            ekiden task.md -s
            error: `ekiden run` has no flag `-s`
            hint: `-m NUMBER` sets how many sessions may begin

            ekiden run --file task.md
            error: `ekiden run` has no flag `--file`
            hint: the task is an argument: `ekiden run FILE`

            ekiden pipeline pipeline.yaml
            error: there is no command `pipeline`
            hint: did you mean `ekiden execute`?

            ekiden resume --agent codex
            error: `ekiden resume` has no flag `--agent`
            hint: a run keeps its agent; `ekiden run TASK --agent NAME` starts another run

            ekiden estimate spec.md --agent codex
            error: `ekiden estimate` has no flag `--agent`
            hint: `ekiden estimate --help` lists its flags

            ekiden config set --max-sessions 3
            error: `ekiden config set` has no flag `--max-sessions`
            hint: `ekiden config set --help` lists its flags

            ekiden run -x.md
            unexpected argument found

            ekiden status 7f3a
            error: unexpected `7f3a`: `ekiden status` takes no run
            hint: `ekiden log 7f3a` shows one run, `ekiden attach 7f3a` watches it

            ekiden show 12ab
            error: `12ab` is not a session number
            hint: the number comes first, then the run: `ekiden show 3 12ab`

            ekiden show 0
            error: `0` is not a session number
            hint: sessions are numbered from 1

            ekiden answer don't drop it
            error: the answer is one argument
            hint: put it in quotes: `ekiden answer 'don'\''t drop it'`

            ekiden answer 7f3a keep the column
            error: the answer is one argument
            hint: put it in quotes: `ekiden answer 7f3a 'keep the column'`

            ekiden answer --stage S1 keep the column
            error: the answer is one argument
            hint: put it in quotes: `ekiden answer 'TEXT'`

            ekiden config get max_sessions
            error: `ekiden config` shows all settings or none
            hint: `ekiden config show` prints them

            ekiden memory serch lock
            error: `ekiden memory` has no command `serch`
            hint: did you mean `search`?

            ekiden issue close 3
            error: `ekiden issue` has no command `close`
            hint: `ekiden issue --help` lists its commands
        "#]]
        .assert_eq(&said.join("\n"));
    }

    // shows: RUN-07
    #[test]
    fn a_command_without_what_it_works_on_says_what_that_is() {
        let lines = [
            "ekiden build",
            "ekiden config set",
            "ekiden config set max_sessions",
            "ekiden completions",
            "ekiden continue -m 3",
            "ekiden estimate spec.md -o plan.toml",
        ];
        let told = lines.map(|line| format!("{line}\n{}\n", said(line)));
        expect_test::expect![[r#"
            ekiden build
            error: `ekiden build` needs IDEA
            hint: for example `ekiden build idea.md`
            hint: see `ekiden build --help`

            ekiden config set
            error: `ekiden config set` needs KEY VALUE...
            hint: for example `ekiden config set max_sessions 20`
            hint: see `ekiden config set --help`

            ekiden config set max_sessions
            error: `ekiden config set` needs VALUE...
            hint: for example `ekiden config set max_sessions 20`
            hint: see `ekiden config set --help`

            ekiden completions
            error: `ekiden completions` needs SHELL
            hint: for example `ekiden completions bash > ~/.local/share/bash-completion/completions/ekiden`
            hint: see `ekiden completions --help`

            ekiden continue -m 3
            error: `ekiden continue` needs PROMPT
            hint: for example `ekiden continue 'Now add rate limiting to the API'`
            hint: see `ekiden continue --help`

            ekiden estimate spec.md -o plan.toml
            error: `ekiden estimate` needs --sessions
            hint: for example `ekiden estimate spec.md --sessions`
            hint: see `ekiden estimate --help`
        "#]]
        .assert_eq(&told.join("\n"));
        let mut whole = definition();
        whole.build();
        for command in whole.get_subcommands().flat_map(with_below) {
            let name = command.get_bin_name().unwrap_or_default().to_owned();
            let said = said(&name);
            let is_raw = said == ErrorKind::MissingRequiredArgument.to_string();
            assert!(!is_raw, "{name}");
            if said.contains("` needs ") {
                assert!(said.contains(&format!("for example `{name}")), "{said}");
            }
        }
    }

    fn with_below(command: &clap::Command) -> Vec<&clap::Command> {
        let below = command.get_subcommands().flat_map(with_below);
        std::iter::once(command).chain(below).collect()
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
        assert_eq!(flags("ekiden help casm"), "ekiden import --help");
        assert_eq!(flags("ekiden version"), "ekiden --version");
        assert_eq!(flags("ekiden status help"), "ekiden status help");
    }
}
