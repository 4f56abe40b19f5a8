//! What the memory leaves out: by the user's rules, and by a project's `.ekidenignore`.

use std::path::{Path, PathBuf};

use ekiden_store::place::ProjectPlace;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::settings::environment::Environment;

const FILE: &str = ".ekidenignore";

/// The rules for one project that may be recorded.
#[derive(Debug)]
pub(super) struct Ignored {
    dir: PathBuf,
    rules: Vec<Gitignore>,
}

impl Ignored {
    /// `None` if the whole project is left out. Unreadable rules leave everything out.
    pub(super) fn of(
        environment: &Environment,
        place: &ProjectPlace,
        exclude: &[String],
    ) -> Option<Self> {
        let mut rules = Vec::new();
        if !exclude.is_empty() {
            let mut of_user = GitignoreBuilder::new("/");
            let home = environment.variable("HOME").unwrap_or("~");
            for rule in exclude {
                let rule = match rule.strip_prefix("~/") {
                    Some(rest) => format!("{home}/{rest}"),
                    None => rule.clone(),
                };
                of_user.add_line(None, &rule).ok()?;
            }
            rules.push(of_user.build().ok()?);
        }
        let mut dirs = vec![place.project()];
        dirs.extend((place.dir != place.project()).then_some(&*place.dir));
        for dir in dirs.into_iter().filter(|dir| dir.join(FILE).exists()) {
            let mut of_project = GitignoreBuilder::new(dir);
            if of_project.add(dir.join(FILE)).is_some() {
                return None;
            }
            rules.push(of_project.build().ok()?);
        }
        let ignored = Self {
            dir: place.dir.clone(),
            rules,
        };
        // Rules that leave out everything in the directory mean the directory.
        let whole = [place.project(), &place.dir];
        let is_out = |dir: &Path| ignored.names(dir, true) || ignored.names(&dir.join(FILE), false);
        (!whole.into_iter().any(is_out)).then_some(ignored)
    }

    pub(super) fn has(&self, file: &str) -> bool {
        !self.rules.is_empty() && self.names(&self.dir.join(file), false)
    }

    fn names(&self, path: &Path, is_dir: bool) -> bool {
        let mut rules = self.rules.iter();
        rules.any(|rules| {
            path != rules.path()
                && path.starts_with(rules.path())
                && rules.matched_path_or_any_parents(path, is_dir).is_ignore()
        })
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test lays out a project")]
mod tests {
    use super::*;

    // shows: MEM-07
    #[test]
    fn projects_directories_and_files_are_left_out_by_gitignore_rules() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().canonicalize().unwrap();
        std::fs::create_dir_all(dir.join("work/secret")).unwrap();
        let environment = Environment::of([("HOME", dir.to_str().unwrap())]);
        let of = |name: &str, exclude: &[&str]| {
            let place = ProjectPlace::find(&dir.join(name), None).unwrap();
            let exclude: Vec<String> = exclude.iter().map(|rule| (*rule).to_owned()).collect();
            Ignored::of(&environment, &place, &exclude)
        };
        assert!(of("work", &[]).is_some_and(|rules| !rules.has("a.rs")));
        assert!(of("work", &["~/work"]).is_none());
        assert!(
            of("work/secret", &["~/work"]).is_none(),
            "and what is below"
        );
        assert!(of("work", &["~/other"]).is_some());
        std::fs::write(
            dir.join("work/.ekidenignore"),
            "secret/\n*.key\n!open.key\n",
        )
        .unwrap();
        let rules = of("work", &[]).unwrap();
        let has = ["secret/a.rs", "b.key", "open.key", "src/a.rs"].map(|file| rules.has(file));
        assert_eq!(has, [true, true, false, false]);
        assert!(rules.has(dir.join("work/secret/x").to_str().unwrap()));
        std::fs::write(dir.join("work/.ekidenignore"), "*\n").unwrap();
        assert!(of("work", &[]).is_none());
    }
}
