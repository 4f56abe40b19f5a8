//! Where the stages of a plan work: worktrees where there is git, else the work dir.

use std::path::PathBuf;

use ekiden_core::manifest::{Document, Ground};
use ekiden_engine::branch;
use ekiden_engine::workspace::Workspace;
use ekiden_store::place::project_name;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::line::one_line;
use crate::output::phrase;
use crate::settings::environment::Environment;

/// Files that are named of many.
const FILES_SHOWN: usize = 5;

/// The ground of a plan, and what the person should know of it.
///
/// # Errors
///
/// If there are changes that stages would not see, or there is no place for worktrees.
pub fn ground(
    document: &Document,
    workspace: &Workspace,
    environment: &Environment,
    state_dir: Option<PathBuf>,
) -> Result<(Ground, Option<String>), Failure> {
    if workspace.git.is_none() {
        let note =
            "the work dir lies in no git repository: stages work in it one at a time, and nothing is merged";
        return Ok((Ground::InPlace, Some(note.to_owned())));
    }
    let Some(base) = branch::base(workspace) else {
        let note = "the repository has no commit yet: stages work in the work dir one at a time; a first commit \
                    (`git commit --allow-empty -m start`) lets them work side by side";
        return Ok((Ground::InPlace, Some(note.to_owned())));
    };
    if !base.changed.is_empty() {
        return Err(changed(&base.changed));
    }
    let home = state_dir.or_else(|| Some(environment.state_home()?.join("ekiden")));
    let Some(home) = home else {
        let text = "there is no place for worktrees without a home directory";
        return Err(
            Failure::new(Exit::Settings, text).hint("`--state-dir DIR` names one outside the project")
        );
    };
    let dir = home.join("worktrees").join(project_name(&workspace.dir.to_string_lossy()));
    // Git tells paths with links resolved; what exists of ours must read the same.
    let dir = resolved(&dir);
    if dir.starts_with(&workspace.dir) {
        let text = format!("worktrees may not lie in the project, as {} would", phrase::path(&dir));
        return Err(Failure::new(Exit::Settings, text)
            .hint("a parent's CLAUDE.md or node_modules would leak into them; name another `--state-dir`"));
    }
    let ground = Ground::Worktrees {
        dir: dir.to_string_lossy().into_owned(),
        base: base.commit,
        branch: branch::head(workspace).branch,
        copy: document.worktree.copy.clone(),
        setup: document.worktree.setup.clone(),
    };
    Ok((ground, None))
}

/// The ground of a plan as far as it is shown, whatever stands in its way today.
#[must_use]
pub fn shown(document: &Document, workspace: &Workspace) -> Ground {
    if workspace.git.is_none() || branch::base(workspace).is_none() {
        return Ground::InPlace;
    }
    Ground::Worktrees {
        dir: String::new(),
        base: String::new(),
        branch: None,
        copy: document.worktree.copy.clone(),
        setup: document.worktree.setup.clone(),
    }
}

/// Changes that stages would not see.
///
/// # Errors
///
/// If there are any.
pub fn refuse_changes(workspace: &Workspace) -> Result<(), Failure> {
    let base = workspace.git.as_ref().and_then(|_| branch::base(workspace));
    match base.filter(|base| !base.changed.is_empty()) {
        Some(base) => Err(changed(&base.changed)),
        None => Ok(()),
    }
}

fn changed(files: &[String]) -> Failure {
    let shown: Vec<String> = files.iter().take(FILES_SHOWN).map(|file| one_line(file)).collect();
    let more = files.len().saturating_sub(FILES_SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let text = format!("there are changes that are not committed: {}{more}", shown.join(", "));
    Failure::new(Exit::Settings, text)
        .hint("stages work from the last commit and would not see them")
        .hint("`git commit` or `git stash` them first")
}

/// The path with links resolved as far as it exists.
fn resolved(path: &std::path::Path) -> PathBuf {
    if let Ok(resolved) = path.canonicalize() {
        return resolved;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => resolved(parent).join(name),
        (Some(_) | None, _) => path.to_owned(),
    }
}
