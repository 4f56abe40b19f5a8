//! `ekiden report --debrief`: a last session writes for people how the run went.

use std::path::PathBuf;

use ekiden_core::agent::{AgentSpec, Interface};
use ekiden_core::budget::Budget;
use ekiden_core::prompt::debrief_prompt;
use ekiden_core::run::Run;
use ekiden_engine::workspace::Workspace;

use super::plan::{Planner, Writing};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::plan::author::check_planner;
use crate::settings::given::Flags;

/// The document, in the work dir.
const DOCUMENT: &str = "DEBRIEF.md";
/// What the session may cost unless the user says otherwise, in millionths of a US dollar.
const MICRO_USD: u64 = 1_000_000;

/// Has the run's agent write the document, with the permissions that it had.
pub(super) fn write(
    flags: Flags,
    workspace: &Workspace,
    run: &Run,
    report: &str,
    output: &mut Output,
) -> Result<PathBuf, Failure> {
    let writing = Writing::default();
    let mut planner = Planner::new(flags, &writing)?;
    let environment = &planner.invocation.environment;
    environment.refuse_a_session("run a session that writes a debrief")?;
    planner.workspace = workspace.clone();
    let agent = run.header().settings.agent.clone();
    if check_planner(&agent).is_err() {
        let text = format!("agent `{}` cannot write a debrief", agent.name);
        let hint = "only Claude Code and `rehearsal` can; the report itself is written";
        return Err(Failure::new(Exit::Settings, text).hint(hint));
    }
    planner.model.clone_from(&agent.model);
    planner.settings.agent = AgentSpec {
        interface: Interface::Headless,
        ..agent
    };
    let bounds = &mut planner.settings.bounds;
    let most = bounds.session.micro_usd.unwrap_or(MICRO_USD);
    bounds.session = Budget {
        micro_usd: Some(most),
        ..bounds.session
    };
    let path = planner.workspace.dir.join(DOCUMENT);
    if path.symlink_metadata().is_ok() {
        let text = format!("{DOCUMENT} exists already");
        return Err(Failure::new(Exit::State, text).hint("it was left as it is; move it away"));
    }
    let tasks = run.header().manifest.stages.iter();
    let tasks: Vec<&str> = tasks.map(|stage| stage.task.as_str()).collect();
    let prompt = debrief_prompt(&tasks.join("\n\n"), report, DOCUMENT);
    planner.author(output)?.document(prompt, DOCUMENT, &path)?;
    Ok(path)
}
