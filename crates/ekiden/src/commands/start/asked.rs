//! What the wizard asks about a run in the way, and what it adds to the task before it starts: the agent's questions
//! with their answers.

use ekiden_core::agent::AgentSpec;
use ekiden_core::ids::RunId;
use ekiden_core::prompt::Question;
use ekiden_engine::workspace::Workspace;
use ekiden_engine::{EngineError, history};

use super::super::issue::OfIssue;
use super::super::run::check_agents;
use super::super::task::Task;
use super::super::{Invocation, offer, plan};
use super::question::{Stop, choose, line};
use super::{Answers, Goal};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::plan::author;
use crate::settings::form;

impl Answers {
    /// What the agent asks about the task and what the person answers, if they want to be asked.
    pub(super) fn asked(
        &self,
        agent: &AgentSpec,
        goal: &Goal,
        workspace: &Workspace,
        output: &mut Output,
    ) -> Result<Option<String>, Stop> {
        let can_ask = author::check_planner(agent)
            .and_then(|()| check_agents([agent], &self.invocation, &workspace.dir));
        let answers = [
            ("no: the task says all", false),
            (
                "yes, up to five questions: a session that reads the task and the project",
                true,
            ),
        ];
        if can_ask.is_err() || !choose("Should the agent ask you first?", answers)? {
            return Ok(None);
        }
        let text = match goal {
            Goal::Named(task) => Task::read(task, output)?.text,
            Goal::New { text, .. } => text.clone(),
            Goal::Issue(name) => {
                let read = OfIssue::read(&self.invocation, workspace, name, None, output);
                read?.task.text
            }
        };
        let questions = match plan::questions(self.flags.clone(), &text, output) {
            Ok(questions) => questions,
            Err(failure) if matches!(failure.exit(), Exit::Signal(_)) => return Err(failure.into()),
            Err(failure) => {
                output.warn(&format!("the agent asks nothing: {}", failure.error()));
                return Ok(None);
            }
        };
        if questions.is_empty() {
            output.message("the agent asks nothing\n");
            return Ok(None);
        }
        let mut section = "## Asked before the start\n".to_owned();
        for Question { question, default } in &questions {
            let default = Some(default.as_str()).filter(|default| !default.is_empty());
            let is_answer = |text: &str| form::text(text).map(|_| ());
            let said = line(question, default, "the agent asks", is_answer)?;
            section.push_str(&format!("\n- {question}\n\n  {said}\n"));
        }
        Ok(Some(section))
    }
}

/// The unfinished run here, and the command that continues it instead of starting another.
pub(super) fn in_the_way(
    workspace: &Workspace,
) -> Result<Option<(RunId, Option<&'static str>)>, Stop> {
    let (run, asks) = match history::check_unfinished(workspace, None) {
        Ok(()) => return Ok(None),
        Err(EngineError::Unfinished { run, asks, .. }) => (run, asks),
        Err(error) => return Err(Failure::from(error).into()),
    };
    let goes_on = match asks {
        true => ("answer its question, in your editor", "answer"),
        false => ("continue it", "resume"),
    };
    let answers = [
        (goes_on.0, Some(Some(goes_on.1))),
        ("start another; ekiden keeps this one", Some(None)),
        ("nothing", None),
    ];
    let command = choose(&format!("Run {run} is unfinished here. What now?"), answers)?;
    Ok(Some((run, command.ok_or(Stop::Left)?)))
}

pub(super) fn issue(
    invocation: &Invocation,
    workspace: &Workspace,
    output: &mut Output,
) -> Result<Goal, Stop> {
    let help = "ANV-123, owner/name#12, its address, or the name of a file in .issues/";
    let check = |text: &str| form::text(text).map(|_| ());
    let name = line("Which issue?", None, help, check)?;
    OfIssue::read(invocation, workspace, &name, None, output)?;
    Ok(Goal::Issue(name))
}

/// The goal with what was answered about it, which makes it a new file.
pub(super) fn extended(
    goal: Goal,
    section: &str,
    workspace: &Workspace,
    output: &mut Output,
) -> Result<Goal, Stop> {
    let (path, text) = match goal {
        Goal::New { path, text } => (path, text),
        Goal::Named(task) => {
            let path = workspace.dir.join(offer::new_name(workspace));
            (path, Task::read(&task, output)?.text)
        }
        // The command line names the issue itself.
        Goal::Issue(_) => (
            workspace.dir.join(offer::new_name(workspace)),
            String::new(),
        ),
    };
    let text = format!("{}\n\n{}", text.trim_end(), section);
    let text = text.trim_start().to_owned();
    Ok(Goal::New { path, text })
}
