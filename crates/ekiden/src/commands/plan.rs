//! `ekiden plan`: an idea becomes an architecture document and a manifest.

use std::path::{Path, PathBuf};

use clap::Args;
use ekiden_core::agent::{AgentSpec, Interface, Permissions};
use ekiden_core::budget::Prices;
use ekiden_core::prompt::Question;
use ekiden_core::settings::Settings;
use ekiden_core::text::shell_word;
use ekiden_core::time::Millis;
use ekiden_engine::leftovers;
use ekiden_engine::planning;
use ekiden_engine::workspace::Workspace;
use ekiden_store::disk::parent;

use super::Invocation;
use super::launch::new_id;
use super::run::{check_agents, settle_permissions};
use super::task::Task;
use crate::client::settings::ClientSettings;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::json::Fields;
use crate::output::line::{Line, Tone};
use crate::output::{Output, phrase};
use crate::plan::author::{self, Author, Voice};
use crate::plan::{isolation, read, show};
use crate::settings::flags::{Planning, Typed};
use crate::settings::given::Flags;
use crate::settings::{chosen, table};

/// The architecture document, from the work dir.
pub(super) const DOCUMENT: &str = "architecture.md";
/// The manifest, unless another name is given.
const MANIFEST: &str = "plan.json";

/// Turn an idea into an architecture document and a plan
///
/// One session writes `architecture.md` in the work dir, which begins with a summary. A second one splits it into stages,
/// which go into `plan.json` beside it. No command of the plan runs before you have approved it: `ekiden execute` shows
/// it and asks. ekiden overwrites existing files only with `--force`.
///
/// The agent may read the project and write that one document. Its other permissions are those of `ekiden run`.
#[derive(Args)]
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
#[derive(Args, Default)]
pub struct Writing {
    /// Where the manifest goes: a file, or a directory for `plan.json` in it [default: the work dir]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Overwrite existing files
    #[arg(long)]
    force: bool,
    /// The model that plans, instead of `models.plan` and `--model`
    #[arg(long, value_name = "NAME")]
    planning_model: Option<String>,
}

pub fn plan(args: &PlanArgs, output: &mut Output) -> Result<Exit, Failure> {
    let mut planner = Planner::new(args.typed.flags(), &args.writing)?;
    let idea = Task::read_as("idea", &args.idea, output)?;
    let written = planner.plan_idea(&idea, output)?;
    planner.show(&written, output)
}

/// What the agent of these settings asks about a task, in one session that may write nothing.
pub(super) fn questions(
    flags: Flags,
    task: &str,
    output: &mut Output,
) -> Result<Vec<Question>, Failure> {
    let writing = Writing::default();
    let mut planner = Planner::new(flags, &writing)?;
    // The client's mode that asks before every change, when nobody is there to say yes.
    planner.settings.agent.permissions = Permissions {
        mode: Some("default".to_owned()),
        isolated: planner.settings.agent.permissions.isolated,
        ..Permissions::default()
    };
    let file = planner.workspace.dir.join("task.md");
    planner.author(output)?.questions(task, &file)
}

/// What all commands that plan do.
pub(super) struct Planner<'a> {
    pub(super) invocation: Invocation,
    pub(super) workspace: Workspace,
    pub(super) settings: Settings,
    /// The model that plans.
    pub(super) model: Option<String>,
    /// What planning taught.
    pub(super) prices: Option<Prices>,
    writing: &'a Writing,
}

pub(super) struct Written {
    pub(super) document: PathBuf,
    pub(super) manifest: PathBuf,
}

impl<'a> Planner<'a> {
    pub(super) fn new(flags: Flags, writing: &'a Writing) -> Result<Self, Failure> {
        let invocation = Invocation::new(flags)?;
        let mut settings = chosen::settings(&invocation.given, &invocation.here)?;
        // The setting `tui` is for runs.
        settings.agent.interface = Interface::Headless;
        Ok(Self {
            workspace: invocation.workspace_here()?,
            settings,
            model: match &writing.planning_model {
                Some(typed) => Some(typed.clone()),
                None => chosen::model(&invocation.given, &table::MODELS_PLAN)?,
            },
            prices: None,
            invocation,
            writing,
        })
    }

    /// Makes the document and the manifest from an idea.
    pub(super) fn plan_idea(
        &mut self,
        idea: &Task,
        output: &mut Output,
    ) -> Result<Written, Failure> {
        let [document, manifest] = self.files()?;
        let force = self.writing.force;
        author::refuse_existing_manifest(&[&manifest], force)?;
        // Such as when planning was killed between its two sessions.
        let split = format!("{} continues from the document", self.split(&document));
        author::refuse_existing(&[&document], force).map_err(|failure| failure.hint(&split))?;
        let mut author = self.author(output)?;
        author.architecture(&idea.text, DOCUMENT, &document)?;
        let planned = author
            .manifest(&document, Some(DOCUMENT))
            .map_err(|failure| failure.hint(format!("{split}, which is complete")))?;
        author::write(&self.workspace.dir, &manifest, &planned)?;
        self.settings.bounds.run = author.planner.budget().after(author.planner.spent().0);
        self.prices = Some(author.planner.prices.clone());
        Ok(Written { document, manifest })
    }

    /// The document and the manifest that an idea becomes.
    fn files(&self) -> Result<[PathBuf; 2], Failure> {
        let document = self.workspace.dir.join(DOCUMENT);
        let manifest = self.manifest_beside(&document)?;
        Ok([document, manifest])
    }

    /// Refuses to overwrite files that git tracks: stages would not see the new ones.
    pub(super) fn refuse_tracked(&self) -> Result<(), Failure> {
        let [document, manifest] = self.files()?;
        let instead = format!(
            "`ekiden plan IDEA --force{}{}`, `git commit`, then `{}`",
            self.flag_of_output(),
            self.flags_of_next(),
            self.next(&manifest)
        );
        isolation::refuse_tracked(&self.workspace, &[&document, &manifest], &instead)
    }

    /// The command that makes the manifest from the document, in backticks.
    fn split(&self, document: &Path) -> String {
        let document = self.invocation.word(document);
        let (to, rest) = (self.flag_of_output(), self.flags_of_next());
        let force = if self.writing.force { " --force" } else { "" };
        format!("`ekiden split {document}{to}{force}{rest}`")
    }

    fn flag_of_output(&self) -> String {
        let output = self.writing.output.as_ref();
        output.map_or(String::new(), |path| {
            format!(" -o {}", self.invocation.word(path))
        })
    }

    /// Makes a manifest from a document.
    pub(super) fn split_document(
        &mut self,
        document: &Path,
        output: &mut Output,
    ) -> Result<Written, Failure> {
        let manifest = self.manifest_beside(document)?;
        author::refuse_existing_manifest(&[&manifest], self.writing.force)?;
        let resolved = document
            .canonicalize()
            .unwrap_or_else(|_| document.to_owned());
        let named = resolved
            .strip_prefix(&self.workspace.dir)
            .ok()
            .and_then(Path::to_str);
        // Before anything is created.
        author::document(document)?;
        if named.is_none() {
            output.warn(
                "the document lies outside of the work dir, so stages will not see its summary",
            );
        }
        let planned = self.author(output)?.manifest(&resolved, named)?;
        author::write(&self.workspace.dir, &manifest, &planned)?;
        Ok(Written {
            document: resolved.clone(),
            manifest,
        })
    }

    /// Where the manifest of a document goes.
    fn manifest_beside(&self, document: &Path) -> Result<PathBuf, Failure> {
        let manifest = self.manifest()?;
        let place = |file: &Path| {
            let new = || Some(parent(file).canonicalize().ok()?.join(file.file_name()?));
            file.canonicalize().ok().or_else(new)
        };
        if place(&manifest).is_some_and(|manifest| Some(manifest) == place(document)) {
            let shown = phrase::path(&manifest);
            let text = format!("the manifest would be written over the document, {shown}");
            return Err(Failure::new(Exit::Usage, text).hint("name another `--output`"));
        }
        Ok(manifest)
    }

    /// Where the manifest goes.
    fn manifest(&self) -> Result<PathBuf, Failure> {
        let Some(named) = &self.writing.output else {
            return Ok(self.workspace.dir.join(MANIFEST));
        };
        let path = self.invocation.here.join(named);
        let is_dir = path.is_dir() || named.to_string_lossy().ends_with('/');
        let path = if is_dir { path.join(MANIFEST) } else { path };
        // JSON is YAML too.
        author::refuse_ending(&path, &["toml"], "json")?;
        // It is written below its real directory, whatever `..` or link leads there.
        let dir = path.parent().and_then(|dir| dir.canonicalize().ok());
        match dir.filter(|dir| dir.is_dir()).zip(path.file_name()) {
            Some((dir, name)) => Ok(dir.join(name)),
            None => {
                let text = format!("there is no directory for {}", phrase::path(&path));
                Err(Failure::new(Exit::MissingInput, text)
                    .hint("create it, or name another `--output`"))
            }
        }
    }

    pub(super) fn author<'o>(&mut self, output: &'o mut Output) -> Result<Author<'o>, Failure> {
        let (invocation, agent) = (&self.invocation, &mut self.settings.agent);
        author::check_planner(agent)?;
        check_agents([&*agent], invocation, &self.workspace.dir)?;
        invocation.warn_of_held_back(output);
        let isolated = agent.permissions.isolated;
        let client = ClientSettings::read(&invocation.environment, &self.workspace.dir, isolated);
        let workers = [agent.clone()];
        settle_permissions(
            invocation,
            &client,
            &workers,
            &mut agent.permissions,
            output,
        )?;
        let agent = AgentSpec {
            model: self.model.clone(),
            ..agent.clone()
        };
        let bounds = self.settings.bounds.clone();
        let on_rate_limit = bounds.on_rate_limit;
        invocation.settle_state(&mut self.workspace, None, output)?;
        let planner = planning::Planner::take(&self.workspace, new_id(), agent, bounds)?;
        if let Some(told) = leftovers::message(planner.left_behind()) {
            output.warn(&told);
        }
        Ok(Author {
            on_rate_limit,
            planner,
            voice: Voice {
                output,
                verbose: invocation.given.need(&table::VERBOSE)?,
                json: invocation.json()?,
            },
            wait_max: self.settings.wait_max,
            waited: Millis(0),
        })
    }

    /// Prints what was written, and what it would do.
    pub(super) fn show(&self, written: &Written, output: &mut Output) -> Result<Exit, Failure> {
        let given = &self.invocation.given;
        let file = read::read(&written.manifest, given, &self.settings, &self.workspace)?;
        let isolation = isolation::shown(&file.document, &self.workspace);
        let manifest = file.into_manifest(None, isolation);
        if self.invocation.json()? {
            let answer = Fields::versioned()
                .with("architecture", &written.document)
                .with("manifest", &written.manifest);
            return output.answer_json(&answer.with("plan", show::answer(&manifest)));
        }
        let path = phrase::path(&written.manifest);
        output.line(Line::labelled("written", Tone::Plain, path));
        output.line(Line::default());
        let lines = show::lines(&manifest);
        lines.iter().for_each(|line| output.line(line));
        output.line(Line::default());
        let next = self.next(&written.manifest);
        output.line(Line::next(next));
        Ok(Exit::Done)
    }

    /// The command that executes the plan.
    pub(super) fn next(&self, manifest: &Path) -> String {
        let manifest = self.invocation.word(manifest);
        format!("ekiden execute {manifest}{}", self.flags_of_next())
    }

    /// What the next command needs to plan or work with the same agent in the same place.
    fn flags_of_next(&self) -> String {
        let agent = self.invocation.given.typed();
        let agent = agent.value(&table::AGENT.row);
        let agent = agent.map(|agent| format!(" --agent {}", shell_word(&agent.text)));
        let there = self.invocation.in_work_dir(&self.workspace.dir);
        agent.unwrap_or_default() + &there
    }
}
