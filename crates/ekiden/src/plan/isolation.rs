//! Where the stages of a plan work: in worktrees if there is git, otherwise in the work dir.

use std::path::{Path, PathBuf};

use ekiden_core::ids::StageId;
use ekiden_core::manifest::{Isolation, Manifest, PlanRules, Stage, Take};
use ekiden_engine::git::branch;
use ekiden_engine::globs::certain_part;
use ekiden_engine::workspace::Workspace;
use ekiden_engine::worktrees::check::check_any;
use ekiden_manifest::Document;
use ekiden_store::place::project_name;

use super::select::left_out;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::line::one_line;
use crate::output::phrase;
use crate::settings::environment::Environment;

/// How many changed files are named.
const FILES_SHOWN: usize = 5;

/// Where the stages of a plan work, and what the person should know about it.
pub fn isolation(
    document: &Document,
    workspace: &Workspace,
    environment: &Environment,
    state_dir: Option<PathBuf>,
) -> Result<(Isolation, Vec<String>), Failure> {
    if workspace.git.is_none() {
        let note = "the work dir is not in a git repository: stages work in it one at a time, and nothing is merged";
        return Ok((Isolation::InPlace, vec![note.to_owned()]));
    }
    let Some(base) = branch::base(workspace)? else {
        let note = "the repository has no commit yet: stages work in the work dir one at a time; a first commit \
                    (`git commit --allow-empty -m start`) lets them work side by side";
        return Ok((Isolation::InPlace, vec![note.to_owned()]));
    };
    if !base.changed.is_empty() {
        return Err(changed(&base.changed));
    }
    let dir = place("worktrees", workspace, environment, state_dir)?;
    let isolation = Isolation::Worktrees {
        dir: dir.to_string_lossy().into_owned(),
        base: base.commit,
        branch: branch::current(workspace),
        copy: document.copy.clone(),
        setup: document.setup.clone(),
    };
    Ok((isolation, Vec::new()))
}

/// A directory outside the project for worktrees of one kind.
pub fn place(
    kind: &str,
    workspace: &Workspace,
    environment: &Environment,
    state_dir: Option<PathBuf>,
) -> Result<PathBuf, Failure> {
    let home = state_dir.or_else(|| Some(environment.state_home()?.join("ekiden")));
    let Some(home) = home else {
        let text = "there is no place for worktrees without a home directory";
        return Err(Failure::new(Exit::Settings, text)
            .hint("name one outside the project with EKIDEN_STATE_DIR"));
    };
    let dir = home
        .join(kind)
        .join(project_name(&workspace.dir.to_string_lossy()));
    // Git reports paths with links resolved; ours must read the same as far as they exist.
    let dir = resolved(&dir);
    if dir.starts_with(&workspace.dir) {
        let dir = phrase::path(&dir);
        let text = format!("worktrees may not be inside the project, but {dir} is");
        return Err(Failure::new(Exit::Settings, text).hint(
            "a parent's CLAUDE.md or node_modules would leak into them; name a place outside the project with EKIDEN_STATE_DIR",
        ));
    }
    Ok(dir)
}

/// The same as far as it is shown, even if the plan could not start today.
pub fn shown(document: &Document, workspace: &Workspace) -> Isolation {
    if matches!(branch::base(workspace), Ok(None)) {
        return Isolation::InPlace;
    }
    Isolation::Worktrees {
        dir: String::new(),
        base: String::new(),
        branch: None,
        copy: document.copy.clone(),
        setup: document.setup.clone(),
    }
}

/// Outputs that would not be merged as the project is now. A stage may change that, so the plan may begin.
pub fn ignored(manifest: &Manifest, workspace: &Workspace) -> Vec<String> {
    let in_place = |rules: &PlanRules| rules.isolation == Isolation::InPlace;
    if manifest.plan.as_deref().is_none_or(in_place) {
        return Vec::new();
    }
    let left_out = left_out(manifest);
    let runs = |stage: &&Stage| stage.part.take == Take::Run && !left_out.contains(&stage.id);
    let runs = manifest.stages.iter().filter(runs);
    let outputs = runs.flat_map(|stage| {
        let outputs = stage.part.outputs.iter();
        outputs.map(|output| (&stage.id, certain_part(output)))
    });
    let outputs: Vec<(&StageId, &str)> = outputs.collect();
    let paths: Vec<&str> = outputs
        .iter()
        .map(|(_, path)| *path)
        .filter(|path| !path.is_empty())
        .collect();
    let rules = ekiden_engine::ignored(&workspace.dir, &paths).unwrap_or_default();
    let told = |(stage, path): (&StageId, &str)| {
        let (rule, path) = (rules.get(path)?, one_line(path));
        Some(format!(
            "{stage}: git ignores its output `{path}` ({rule}), so it would not reach your branch; change the \
             rule, or take it out of `outputs`"
        ))
    };
    outputs
        .into_iter()
        .filter_map(told)
        .take(FILES_SHOWN)
        .collect()
}

/// Refuses a repository in which no plan could begin: it has changes that stages would not see, or git cannot
/// commit.
pub fn refuse_unready(workspace: &Workspace) -> Result<(), Failure> {
    match branch::base(workspace)? {
        Some(base) if !base.changed.is_empty() => Err(changed(&base.changed)),
        Some(_) => Ok(check_any(workspace)?),
        None => Ok(()),
    }
}

/// Refuses files that git tracks and that are about to be written: these would be such changes. `instead`
/// names the commands that do the same with a commit in between.
pub fn refuse_tracked(
    workspace: &Workspace,
    files: &[&Path],
    instead: &str,
) -> Result<(), Failure> {
    let tracked = branch::tracked(workspace, files)?;
    if tracked.is_empty() || branch::base(workspace)?.is_none() {
        return Ok(());
    }
    let names: Vec<String> = tracked.into_iter().map(phrase::path).collect();
    let text = format!(
        "git tracks {}, so a new plan would be an uncommitted change",
        names.join(", ")
    );
    Err(Failure::new(Exit::Settings, text)
        .hint("stages work from the last commit and would not see it")
        .hint(instead))
}

fn changed(files: &[String]) -> Failure {
    let names = files.iter().take(FILES_SHOWN).map(|file| one_line(file));
    let mut shown = names.collect::<Vec<_>>().join(", ");
    if let Some(more) = files.len().checked_sub(FILES_SHOWN + 1) {
        shown.push_str(&format!(" and {} more", more + 1));
    }
    let text = format!("there are changes that are not committed: {shown}");
    Failure::new(Exit::Settings, text)
        .hint("stages work from the last commit and would not see them")
        .hint("`git commit` or `git stash` them first")
}

/// The path with links resolved as far as it exists.
pub fn resolved(path: &Path) -> PathBuf {
    if let Ok(resolved) = path.canonicalize() {
        return resolved;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => resolved(parent).join(name),
        (Some(_) | None, _) => path.to_owned(),
    }
}
