//! Documents for people: links lead somewhere, the README opens as it should, every library has its reason,
//! and a reader who starts at the code map reaches the files that answer common questions.

use std::path::{Component, Path, PathBuf};

use super::{Fault, SourceFile, Tree};
use crate::shell;

/// The two commands of the README, each alone in a block: see it work, see it tested.
const COMMANDS: [&str; 2] = [
    "cargo run -- run examples/first-relay/task.md --agent rehearsal --verify \"sh examples/first-relay/check.sh\"",
    "cargo xtask ci",
];

/// Where the reason for each library is.
const DEPENDENCIES: &str = "docs/design/dependencies.md";
/// The way into the code, and the questions whose answers it leads to.
const CODE_MAP: &str = "ARCHITECTURE.md";
const QUESTIONS: &str = "docs/design/reading.md";

pub(super) fn check(tree: &Tree) -> Vec<Fault> {
    let mut faults: Vec<Fault> = tree
        .ending(".md")
        .flat_map(|file| dead_links(file, |path| shell::root().join(path).exists()))
        .collect();
    if let Some(readme) = tree.get("README.md") {
        faults.extend(check_commands(&readme.text));
    }
    faults.extend(
        unexplained(tree)
            .map(|name| Fault::of(DEPENDENCIES, format!("no reason given for `{name}`"))),
    );
    faults.extend(off_the_map(tree).map(|file| {
        let what = format!(
            "`{}` answers a question of {QUESTIONS}, and nothing here leads to it",
            file.display()
        );
        Fault::of(CODE_MAP, what)
    }));
    faults
}

/// Files that answer a question and are more than two steps away from the code map. The first step is a
/// link in the map. The second is from a folder's module to a file in it, or to a file that the module
/// document names.
fn off_the_map(tree: &Tree) -> impl Iterator<Item = PathBuf> {
    let linked: Vec<PathBuf> = linked_code(tree, CODE_MAP).collect();
    linked_code(tree, QUESTIONS).filter(move |answer| {
        let folder = answer.parent().unwrap_or(Path::new(""));
        let first = [
            answer.clone(),
            folder.join("mod.rs"),
            folder.with_extension("rs"),
        ];
        let is_linked = first.iter().any(|path| linked.contains(path));
        !is_linked && !linked.iter().any(|path| names(tree, path, answer))
    })
}

/// The Rust files to which a document links.
fn linked_code(tree: &Tree, document: &'static str) -> impl Iterator<Item = PathBuf> {
    let lines = tree.get(document).into_iter().flat_map(SourceFile::lines);
    let links = lines.flat_map(|(_, line)| links(line));
    links
        .filter(|link| link.ends_with(".rs"))
        .map(|link| from(document, link))
}

/// Whether the module document of `path` names the file `answer` of the same crate.
fn names(tree: &Tree, path: &Path, answer: &Path) -> bool {
    let same_crate = path.iter().take(2).eq(answer.iter().take(2));
    let stem = answer.file_stem().unwrap_or_default().to_string_lossy();
    let text = path.to_str().and_then(|path| tree.get(path));
    let mut document = text
        .into_iter()
        .flat_map(SourceFile::lines)
        .map(|(_, line)| line);
    same_crate
        && document.any(|line| {
            line.starts_with("//!")
                && (line.contains(&format!("`{stem}`")) || line.contains(&format!("`{stem}.rs`")))
        })
}

/// Libraries in the workspace's manifest that the page of reasons does not name.
fn unexplained(tree: &Tree) -> impl Iterator<Item = String> {
    let text = |path| {
        tree.get(path)
            .map(|file| file.text.as_str())
            .unwrap_or_default()
    };
    let manifest: toml::Table = text("Cargo.toml").parse().unwrap_or_default();
    let dependencies = manifest
        .get("workspace")
        .and_then(|workspace| workspace.get("dependencies")?.as_table());
    let names: Vec<String> = dependencies
        .into_iter()
        .flat_map(toml::Table::keys)
        .cloned()
        .collect();
    let reasons = text(DEPENDENCIES);
    names
        .into_iter()
        .filter(move |name| !name.starts_with("ekiden") && !reasons.contains(&format!("`{name}`")))
}

fn check_commands(readme: &str) -> impl Iterator<Item = Fault> {
    let blocks = shell_blocks(readme);
    let missing = COMMANDS
        .into_iter()
        .filter(move |command| !blocks.iter().any(|block| block == command));
    missing.map(|command| Fault::of("README.md", format!("no `sh` block holds just `{command}`")))
}

/// The contents of the blocks fenced as `sh`.
fn shell_blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    for after in text.split("\n```sh\n").skip(1) {
        blocks.extend(after.split_once("\n```").map(|(block, _)| block.to_owned()));
    }
    blocks
}

fn dead_links(file: &SourceFile, exists: impl Fn(&Path) -> bool) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (number, line) in file.lines() {
        for link in links(line) {
            let path = link.split('#').next().unwrap_or_default();
            let inside = !path.is_empty() && !path.contains("://") && !path.starts_with("mailto:");
            if inside && !exists(&from(&file.path, path)) {
                faults.push(Fault::at(
                    &file.path,
                    number,
                    format!("the link to `{link}` leads nowhere"),
                ));
            }
        }
    }
    faults
}

/// What is in `](...)`, outside code.
fn links(line: &str) -> Vec<&str> {
    let prose = line.split('`').step_by(2);
    let after = prose.flat_map(|part| part.split("](").skip(1));
    after
        .filter_map(|rest| rest.split_once(')').map(|(link, _)| link))
        .collect()
}

/// A link's path from the root of the workspace.
fn from(file: &str, link: &str) -> PathBuf {
    let mut path = Path::new(file).parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(name) => path.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_from_their_file() {
        let text = "See [a](b.md#c), [d](../README.md) and [e](https://example.com/).\n[f](gone.md), `[g](code.md)`\n";
        let file = SourceFile {
            path: "docs/design/x.md".to_owned(),
            text: text.to_owned(),
        };
        let there = [Path::new("docs/design/b.md"), Path::new("docs/README.md")];
        let faults = dead_links(&file, |path| there.contains(&path));
        assert_eq!(
            faults,
            [Fault::at(
                "docs/design/x.md",
                2,
                "the link to `gone.md` leads nowhere"
            )]
        );
    }

    #[test]
    fn every_library_has_its_reason() {
        let manifest =
            "[workspace.dependencies]\nekiden-core = \"1\"\nserde = \"1\"\nnovel = \"1\"\n";
        let tree = Tree::of(&[
            ("Cargo.toml", manifest),
            (DEPENDENCIES, "| `serde` | the log |"),
        ]);
        assert_eq!(unexplained(&tree).collect::<Vec<_>>(), ["novel"]);
    }

    #[test]
    fn an_answer_is_at_most_two_steps_from_the_code_map() {
        let map = "[a](crates/c/src/a.rs) and [b](crates/c/src/b/mod.rs)";
        let answers = ["a", "b/in", "named", "far"]
            .map(|file| format!("[x](../../crates/c/src/{file}.rs)\n"));
        let tree = Tree::of(&[
            (CODE_MAP, map),
            (QUESTIONS, &answers.concat()),
            ("crates/c/src/a.rs", "//! See `named.rs`.\n// Not `far`.\n"),
        ]);
        assert_eq!(
            off_the_map(&tree).collect::<Vec<_>>(),
            [Path::new("crates/c/src/far.rs")]
        );
    }

    // shows: OPS-01
    #[test]
    fn the_readme_opens_with_one_command_to_see_it_work_and_one_to_test_it() {
        let readme = shell::read(&shell::root().join("README.md")).unwrap();
        assert_eq!(check_commands(&readme).count(), 0);
        let task = COMMANDS[0]
            .split(' ')
            .find(|word| word.ends_with(".md"))
            .unwrap();
        assert!(shell::root().join(task).is_file(), "{task}");
        assert_eq!(
            check_commands("# ekiden\n\n```sh\ncargo xtask ci\n```\n").count(),
            1
        );
    }
}
