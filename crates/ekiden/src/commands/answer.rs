//! `ekiden answer`: answers a blocked run's question and continues the run.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use clap::Args;
use ekiden_core::event::{Answer, RunResumed};
use ekiden_core::ids::{RunId, StageId};
use ekiden_core::limits::OPERATOR_CHARS_MAX;
use ekiden_core::run::Run;
use ekiden_core::settings::LimitsChanged;
use ekiden_core::steering::Steering;
use ekiden_core::text::clean;
use ekiden_engine::history::{self, Listed};
use ekiden_engine::log_check::ChangedLog;
use ekiden_engine::steering::RunningRun;
use ekiden_engine::workspace::Workspace;
use ekiden_store::disk::Disk as _;
use ekiden_store::replace::{Durability, replace};

use super::launch::{Continuing, With};
use super::task::Task;
use super::{Invocation, editor, launch, run_ids, steer};
use crate::cli::mistakes;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, phrase};
use crate::settings::chosen;
use crate::settings::flags::{Resuming, Typed};

/// What begins each line of the question in the editor.
const QUOTE: &str = "> ";
const KEPT: &str = "`ekiden answer` opens the same text again";
/// What is read of an answer from the editor; far more than a prompt has room for.
const DRAFT_BYTES_MAX: u64 = 1 << 20;

/// Answer what a blocked run asks, and continue it
///
/// The next session reads the answer as yours. The run continues as with `ekiden resume`, with the same options.
/// In a plan, each stage keeps its question until you answer it; `--stage` names one of several. You can answer while
/// other stages work.
#[derive(Args)]
pub struct AnswerArgs {
    /// The answer in quotes; before it, the beginning of the run's id [default: the newest run here]
    #[arg(value_name = "[RUN] TEXT", num_args = 0..=2)]
    words: Vec<String>,
    /// A file with the answer; `-` for standard input
    #[arg(short, long, value_name = "FILE")]
    file: Option<String>,
    /// The stage whose question this answers, if several ask
    #[arg(long, value_name = "ID")]
    stage: Option<String>,
    /// Continue in the background: print the run's id and return once it works
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    typed: Typed<Resuming>,
}

/// A question that nobody has answered.
struct Question<'a> {
    stage: &'a StageId,
    text: &'a str,
}

pub fn answer(args: &AnswerArgs, output: &mut Output) -> Result<Exit, Failure> {
    let invocation = Invocation::of_runs(args.typed.flags())?;
    let workspace = invocation.workspace()?;
    let (run, text) = run_and_text(&run_ids(&workspace)?, &args.words)?;
    let as_text = |failure: Failure| match (run, &args.words[..]) {
        (Some(run), [_]) if failure.exit() != Exit::Unfinished => failure.hint(format!(
            "`{run}` begins a run's id; if it is the answer, type `ekiden answer RUN {run}`"
        )),
        (Some(_), _) | (None, _) => failure,
    };
    let (id, _) = history::find(&workspace, run).map_err(|error| as_text(error.into()))?;
    let summary = history::read(&workspace, &id, |_, _| {})?;
    let holder = history::holder(&workspace).and_then(|holder| holder.run);
    let is_held = holder.as_ref() == Some(&id);
    let question = question(&summary.run, args.stage.as_deref(), is_held);
    let question = question.map_err(|failure| match run {
        None => asked_elsewhere(&workspace)
            .into_iter()
            .fold(failure, Failure::hint),
        Some(_) => failure,
    })?;
    let mut draft = None;
    let text = match (text, &args.file) {
        (Some(_), Some(_)) => {
            let text = "the answer is given twice: as text and as a file";
            return Err(Failure::new(Exit::Usage, text).hint("leave out one of them"));
        }
        (Some(text), None) => text.to_owned(),
        (None, Some(file)) => Task::read_as("answer", file, output)?.text,
        (None, None) => {
            let file = draft.insert(draft_of(&workspace, &id, question.stage));
            let text = edited(&invocation, &workspace, file, &question).map_err(as_text)?;
            let run = history::read(&workspace, &id, |_, _| {})?.run;
            let asked = (question.stage, question.text);
            if !run.questions().any(|question| question == asked) {
                let file = phrase::path(file);
                let text = "this question was answered, or has changed, while the editor was open";
                return Err(Failure::new(Exit::MissingInput, text).hint(format!(
                    "what you wrote is in {file} until the next `ekiden answer`"
                )));
            }
            text
        }
    };
    let answer = Answer {
        stage: question.stage.clone(),
        words: text,
    };
    let is_running = summary.run.outcome().is_none();
    let done = go_on(
        args,
        &invocation,
        &workspace,
        (&id, is_running),
        answer,
        output,
    );
    match (done, draft) {
        (done, None) => done,
        (Err(failure), Some(_)) => Err(failure.hint(KEPT)),
        (Ok(exit), Some(draft)) => {
            match workspace.disk().remove(&draft) {
                // The run is in another process, which also got here.
                Err(error) if error.is_not_found() => {}
                removed => removed?,
            }
            Ok(exit)
        }
    }
}

/// Gives the answer to the run that asked: to its engine, or as the first record of what comes next.
fn go_on(
    args: &AnswerArgs,
    invocation: &Invocation,
    workspace: &Workspace,
    (id, is_running): (&RunId, bool),
    answer: Answer,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let Answer { stage, words } = answer;
    let words = clean(&words).text.trim().to_owned();
    let length = words.chars().count();
    if words.is_empty() || length > OPERATOR_CHARS_MAX {
        let (text, hint) = match length {
            0 => (
                "the answer is empty, so nothing was started".to_owned(),
                "`ekiden answer 'TEXT'`, or `ekiden answer -f FILE`",
            ),
            long => (
                format!("the answer has {long} characters; at most {OPERATOR_CHARS_MAX} fit"),
                "put long material into a file of the project, and name it in the answer",
            ),
        };
        return Err(Failure::new(Exit::InvalidInput, text).hint(hint));
    }
    let limits = chosen::limits_typed(&invocation.given)?;
    if is_running && let Ok(running) = RunningRun::find(workspace, Some(id.as_str())) {
        if limits != LimitsChanged::default() {
            let text = "the run is at work, so an answer cannot change its limits";
            return Err(Failure::new(Exit::Usage, text)
                .hint("leave out these flags; `ekiden limits` changes them"));
        }
        let answer = Steering::Answer { stage, words };
        return steer::answer_running(invocation, workspace.clone(), running, answer, output);
    }
    let resumed = RunResumed {
        answer: Some(Answer { stage, words }),
        ..launch::resumed(limits)
    };
    let asked = Continuing {
        prefix: Some(id.as_str()),
        not_in_plans: None,
        detach: args.detach,
        with: With::Resume(resumed, ChangedLog::Refuse),
    };
    launch::continue_with(invocation, workspace.clone(), asked, output)
}

/// How to answer the newest run here that has a question, if the newest of all has none.
fn asked_elsewhere(workspace: &Workspace) -> Option<String> {
    let runs = history::list(workspace).ok()?;
    let read = |listed: &Listed| history::read(workspace, &listed.run, |_, _| {}).ok();
    let mut older = runs.iter().rev().skip(1).filter_map(read);
    let asks = older.find(|older| older.run.questions().next().is_some())?;
    let run = asks.id();
    Some(format!(
        "run {run} has one: `ekiden answer {run} 'TEXT'` answers it"
    ))
}

/// What the words mean: a single word that begins a run's id, and is as long as a shown id, names that run.
fn run_and_text<'a>(
    runs: &[RunId],
    words: &'a [String],
) -> Result<(Option<&'a str>, Option<&'a str>), Failure> {
    let is_run =
        |word: &str| !word.is_empty() && runs.iter().any(|run| run.as_str().starts_with(word));
    match words {
        [] => Ok((None, None)),
        [run] if is_run(run) && run.len() >= phrase::ID_CHARS_MIN => Ok((Some(run), None)),
        [text] => Ok((None, Some(text))),
        [run, text] if is_run(run) || phrase::is_like_id(run) => Ok((Some(run), Some(text))),
        _ => Err(mistakes::unquoted(
            &words.iter().map(String::as_str).collect::<Vec<_>>(),
        )),
    }
}

/// The question that is answered: of the stage that is named, or of the only one that asks.
fn question<'a>(run: &'a Run, stage: Option<&str>, is_held: bool) -> Result<Question<'a>, Failure> {
    let id = &run.header().run;
    let asked = run.questions();
    let asked = asked.map(|(stage, text)| Question { stage, text });
    let mut asked: Vec<Question<'_>> = asked.collect();
    let all: Vec<&str> = asked
        .iter()
        .map(|question| question.stage.as_str())
        .collect();
    let all = all.join(", ");
    asked.retain(|question| stage.is_none_or(|stage| question.stage.as_str() == stage));
    let failed = |text: String| Failure::new(Exit::MissingInput, text);
    match (asked.pop(), asked.len(), stage) {
        (Some(question), 0, _) => Ok(question),
        (Some(_), ..) => Err(
            failed(format!("several stages of run {id} have a question: {all}"))
                .hint("name one with `--stage ID`; `ekiden status` shows the questions"),
        ),
        (None, _, Some(stage)) if !all.is_empty() => {
            let text = format!("stage `{stage}` of run {id} has no question");
            let is_plan = run.header().is_plan();
            Err(failed(text).hint(match is_plan {
                true => format!("these have one: {all}"),
                false => "leave out `--stage`: the run is not a plan".to_owned(),
            }))
        }
        (None, ..) => Err(
            failed(format!("run {id} has no question")).hint(match run.outcome() {
                Some(outcome) if outcome.is_complete() && run.header().is_plan() => {
                    "it is complete; `ekiden execute` starts another plan"
                }
                Some(outcome) if outcome.is_complete() => {
                    "`ekiden continue 'WORK'` gives it follow-up work"
                }
                None if is_held => "`ekiden status` shows what it does; `ekiden pause` pauses it",
                Some(_) | None => "`ekiden resume` continues it",
            }),
        ),
    }
}

/// The file in which a person writes the answer to a stage. It is there until the run has it.
fn draft_of(workspace: &Workspace, run: &RunId, stage: &StageId) -> PathBuf {
    let runs = workspace.layout().runs();
    runs.join(run.as_str()).join(format!("answer-{stage}.md"))
}

/// The answer as the person writes it around the quoted question. What was written before is still there.
fn edited(
    invocation: &Invocation,
    workspace: &Workspace,
    file: &Path,
    question: &Question<'_>,
) -> Result<String, Failure> {
    if invocation.json()? || !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        let quoted = clean(question.text).text;
        let quoted = quoted.lines().map(|line| format!("  {line}"));
        return Err(
            Failure::new(Exit::Usage, "this question still needs an answer:")
                .details(quoted)
                .hint("`ekiden answer 'TEXT'`, or `ekiden answer -f FILE`"),
        );
    }
    let disk = workspace.disk();
    let quoted: String = clean(question.text)
        .text
        .lines()
        .map(|line| format!("{QUOTE}{line}\n"))
        .collect();
    let draft = format!(
        "\n{quoted}\n{QUOTE}Write your answer above. Lines that begin with `>` are left out.\n"
    );
    let before = disk.read(file, DRAFT_BYTES_MAX).unwrap_or_default();
    if !String::from_utf8_lossy(&before).contains(&quoted) {
        replace(&disk, file, draft.as_bytes(), Durability::Full)?;
    }
    editor::open(file, "answer").map_err(|failure| failure.hint(KEPT))?;
    let text = disk.read(file, DRAFT_BYTES_MAX)?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('>')).collect();
    Ok(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was written for one question is still there after another is answered.
    // shows: REL-35
    #[test]
    fn each_stage_has_its_own_draft() {
        let workspace = Workspace::at("/p".into(), None, "/s".into());
        let stages = ["A", "B"].map(|stage| StageId::try_from(stage.to_owned()).unwrap());
        let [a, b] = stages.map(|stage| draft_of(&workspace, &RunId::from_bits(7), &stage));
        assert_ne!(a, b);
    }

    // shows: REL-35
    #[test]
    fn one_word_that_begins_a_runs_id_is_that_run() {
        let runs = [RunId::from_bits(0x7f3a_0b1c)];
        let meant = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            let owned = |text: Option<&str>| text.map(str::to_owned);
            run_and_text(&runs, &words)
                .map(|(run, text)| (owned(run), owned(text)))
                .map_err(|failure| failure.to_string())
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(meant(&[]), Ok((None, None)));
        assert_eq!(meant(&["7f3a"]), Ok((some("7f3a"), None)));
        assert_eq!(meant(&["yes"]), Ok((None, some("yes"))));
        // Short answers often consist of hex digits.
        assert_eq!(meant(&["7"]), Ok((None, some("7"))));
        assert_eq!(meant(&["7f3"]), Ok((None, some("7f3"))));
        assert_eq!(meant(&["7", "yes"]), Ok((some("7"), some("yes"))));
        assert_eq!(meant(&["7f3a", "yes"]), Ok((some("7f3a"), some("yes"))));
        // It is not here, and the newest run did not ask for this answer.
        assert_eq!(meant(&["ab12", "yes"]), Ok((some("ab12"), some("yes"))));
        assert!(meant(&["added", "it"]).is_err());
        let quoted = meant(&["don't", "drop"]).unwrap_err();
        assert!(
            quoted.ends_with(r"`ekiden answer 'don'\''t drop'`"),
            "{quoted}"
        );
    }
}
