//! `ekiden plan`: an idea becomes an architecture document and a manifest.

use std::path::{Path, PathBuf};

use clap::Args;
use ekiden_core::ids::SessionNumber;
use ekiden_core::settings::{AgentSpec, Settings};
use ekiden_core::time::Millis;
use ekiden_engine::planning::Planner;
use ekiden_engine::workspace::Workspace;
use serde::Serialize;

use super::Scene;
use super::run::{check_agent, new_id, settle_permissions};
use super::task::Task;
use crate::client::settings::ClientSettings;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::line::{Line, Tone};
use crate::output::{Output, phrase};
use crate::plan::author::{self, Author, Voice};
use crate::plan::resolve::{self, Around};
use crate::plan::{ground, read, show};
use crate::settings::flags::{Planning, Typed};
use crate::settings::{chosen, table};

const EXAMPLES: &str = "\
Examples:
  ekiden plan idea.md                      architecture.md and plan.json, in the work dir
  ekiden plan 'A shop for tea, in Django' --planning-model opus
  ekiden plan idea.md -o plans/tea.json --session-budget 5
  ekiden plan idea.md --agent rehearsal    try it for free, without a model
";

/// The architecture document, from the work dir.
pub(super) const DOCUMENT: &str = "architecture.md";
/// The manifest, unless another name is given.
const MANIFEST: &str = "plan.json";
/// The version of the JSON form.
const JSON_VERSION: u32 = 1;

/// Plan: make an architecture document and a manifest of an idea
///
/// One session writes `architecture.md` in the work dir, which begins with a summary; a second one splits
/// it into stages, and `plan.json` beside it holds them. No command of the plan runs before you have approved
/// it: `ekiden execute` shows it and asks. Nothing that exists is written over without `--force`.
///
/// The agent may read the project and write that one document; what else it may do is as with `ekiden run`.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub struct PlanArgs {
    /// A file, `-` for standard input, or the idea itself in quotes
    #[arg(value_name = "IDEA")]
    idea: String,
    #[command(flatten)]
    writing: Writing,
    #[command(flatten)]
    typed: Typed<Planning>,
}

/// What all commands that plan take.
#[derive(Args)]
pub struct Writing {
    /// Where the manifest goes: a file, or a directory for `plan.json` in it [default: the work dir]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Write over files that exist
    #[arg(long)]
    force: bool,
    /// The model that plans, in place of `--model`
    #[arg(long, value_name = "NAME")]
    planning_model: Option<String>,
}

/// Runs the command.
///
/// # Errors
///
/// If something is missing or wrong, before anything is created; or if planning does not come to its end.
pub fn plan(args: &PlanArgs, output: &mut Output) -> Result<Exit, Failure> {
    let scene = Scene::set(args.typed.flags())?;
    let workspace = scene.workspace()?;
    let idea = Task::read_as("idea", &args.idea, output)?;
    let mut settings = chosen::settings(&scene.given, &scene.here)?;
    let desk = Desk { scene: &scene, workspace: &workspace, writing: &args.writing };
    let written = desk.plan_idea(&idea, &mut settings, output)?;
    desk.tell(&written, settings, output)?;
    Ok(Exit::Done)
}

/// Where a plan is made.
pub(super) struct Desk<'a> {
    pub(super) scene: &'a Scene,
    pub(super) workspace: &'a Workspace,
    pub(super) writing: &'a Writing,
}

/// What was written.
pub(super) struct Written {
    pub(super) document: PathBuf,
    pub(super) manifest: PathBuf,
}

/// The answer for programs.
#[derive(Serialize)]
struct PlannedAnswer<'a> {
    v: u32,
    architecture: &'a Path,
    manifest: &'a Path,
    plan: show::PlanAnswer<'a>,
}

impl Desk<'_> {
    /// Makes both of an idea.
    pub(super) fn plan_idea(
        &self,
        idea: &Task,
        settings: &mut Settings,
        output: &mut Output,
    ) -> Result<Written, Failure> {
        let document = self.workspace.dir.join(DOCUMENT);
        let manifest = self.manifest()?;
        author::refuse_existing(&[&document, &manifest], self.writing.force)?;
        let mut author = self.author(settings, output)?;
        author.architecture(&idea.text, DOCUMENT, &document)?;
        let planned = author.manifest(&document, Some(DOCUMENT)).map_err(|failure| {
            failure.hint(format!("`ekiden split {DOCUMENT}` goes on from the document, which is written"))
        })?;
        author::write(&self.workspace.dir, &manifest, &planned.text)?;
        Ok(Written { document, manifest })
    }

    /// Makes a manifest of a document.
    pub(super) fn split_document(
        &self,
        document: &Path,
        settings: &mut Settings,
        output: &mut Output,
    ) -> Result<Written, Failure> {
        let manifest = self.manifest()?;
        author::refuse_existing(&[&manifest], self.writing.force)?;
        let resolved = document.canonicalize().unwrap_or_else(|_| document.to_owned());
        let named = resolved.strip_prefix(&self.workspace.dir).ok().and_then(Path::to_str);
        author::check_document(document)?;
        if named.is_none() {
            output.warn("the document lies outside of the work dir, so stages will not be shown its summary");
        }
        let planned = self.author(settings, output)?.manifest(&resolved, named)?;
        author::write(&self.workspace.dir, &manifest, &planned.text)?;
        Ok(Written { document: resolved.clone(), manifest })
    }

    /// Where the manifest goes.
    fn manifest(&self) -> Result<PathBuf, Failure> {
        let Some(named) = &self.writing.output else { return Ok(self.workspace.dir.join(MANIFEST)) };
        let path = self.scene.here.join(named);
        let is_dir = path.is_dir() || named.to_string_lossy().ends_with('/');
        let path = if is_dir { path.join(MANIFEST) } else { path };
        match path.parent().filter(|dir| dir.is_dir()) {
            Some(_) => Ok(path),
            None => {
                let text = format!("there is no directory for {}", phrase::path(&path));
                Err(Failure::new(Exit::MissingInput, text).hint("create it, or name another `--output`"))
            }
        }
    }

    fn author<'o>(&self, settings: &mut Settings, output: &'o mut Output) -> Result<Author<'o>, Failure> {
        let scene = self.scene;
        author::check_planner(&settings.agent)?;
        check_agent(&settings.agent)?;
        let isolated = settings.agent.permissions.isolated;
        let client = ClientSettings::read(&scene.environment, &self.workspace.dir, isolated);
        settle_permissions(scene, &client, &mut settings.agent, output)?;
        let model = self.writing.planning_model.clone().or_else(|| settings.agent.model.clone());
        let planner = Planner::take(self.workspace, new_id())?;
        let voice = Voice { output, aloud: scene.given.need(&table::VERBOSE)?, json: scene.json()? };
        Ok(Author {
            planner,
            agent: AgentSpec { model, ..settings.agent.clone() },
            bounds: settings.bounds.clone(),
            voice,
            session: SessionNumber::FIRST,
            wait_max: settings.wait_max,
            waited: Millis(0),
        })
    }

    /// Tells what was written, and what it would do.
    pub(super) fn tell(
        &self,
        written: &Written,
        settings: Settings,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let file = read::read(&written.manifest, &self.scene.given, &self.scene.here, self.workspace)?;
        let ground = ground::shown(&file.document, self.workspace);
        let around = Around { given: &self.scene.given, workspace: self.workspace, settings, jobs: None };
        let header = resolve::header(file, around, new_id(), ground)?;
        if self.scene.json()? {
            let (architecture, manifest) = (written.document.as_path(), written.manifest.as_path());
            let plan = show::answer(&header.manifest);
            output.json(&PlannedAnswer { v: JSON_VERSION, architecture, manifest, plan });
            return Ok(());
        }
        output.line(&Line::labelled("written", Tone::Plain, phrase::path(&written.manifest)));
        output.line(&Line::default());
        show::lines(&header.manifest).iter().for_each(|line| output.line(line));
        output.line(&Line::default());
        output.line(&Line::new(Tone::Quiet, "next  ").with(Tone::Plain, self.next(&written.manifest)));
        Ok(())
    }

    /// The command that carries the plan out.
    fn next(&self, manifest: &Path) -> String {
        let shown = |path: &Path| {
            let named = path.strip_prefix(&self.scene.here).unwrap_or(path).to_string_lossy().into_owned();
            shlex::try_quote(&named).map(std::borrow::Cow::into_owned).unwrap_or(named)
        };
        let here = self.scene.here.canonicalize().is_ok_and(|here| here == self.workspace.dir);
        let work_dir = if here { String::new() } else { format!(" -d {}", shown(&self.workspace.dir)) };
        format!("ekiden execute {}{work_dir}", shown(manifest))
    }
}
