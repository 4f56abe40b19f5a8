//! How a project would verify a task, guessed from its files.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// The most that is read of a file, in bytes.
const BYTES_MAX: u64 = 256 * 1024;
/// What runs the scripts of a `package.json`, by the file that it leaves beside it.
const RUNNERS: [(&str, &str); 3] = [
    ("pnpm-lock.yaml", "pnpm test"),
    ("yarn.lock", "yarn test"),
    ("bun.lock", "bun run test"),
];
const OF_PYTEST: [&str; 4] = ["pytest.ini", "conftest.py", "tests/conftest.py", "tox.ini"];

/// The commands, the likeliest first: what a project says itself comes before what its language has.
pub(super) fn suggested(dir: &Path) -> Vec<String> {
    let has = |name: &str| dir.join(name).is_file();
    let mut found = Vec::new();
    let recipes = |names: &[&str], program: &str| {
        let text = names.iter().find_map(|name| read(&dir.join(name)))?;
        let target = ["check", "test"]
            .into_iter()
            .rfind(|name| has_target(&text, name))?;
        Some(format!("{program} {target}"))
    };
    found.extend(recipes(&["justfile", "Justfile", ".justfile"], "just"));
    found.extend(recipes(&["GNUmakefile", "makefile", "Makefile"], "make"));
    found.extend(has("Cargo.toml").then(|| "cargo test".to_owned()));
    found.extend(has("go.mod").then(|| "go test ./...".to_owned()));
    let package = read(&dir.join("package.json"));
    if package.is_some_and(|text| has_test_script(&text)) {
        let runner = RUNNERS.iter().find(|(lock, _)| has(lock));
        found.push(runner.map_or("npm test", |(_, command)| command).to_owned());
    }
    let python = read(&dir.join("pyproject.toml"));
    if OF_PYTEST.iter().any(|name| has(name)) || python.is_some_and(|text| text.contains("pytest"))
    {
        found.push("pytest -q".to_owned());
    }
    found
}

fn read(path: &Path) -> Option<String> {
    let mut text = String::new();
    let file = File::open(path).ok()?;
    file.take(BYTES_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

/// A target of a makefile or a recipe of a justfile, which may take arguments.
fn has_target(text: &str, name: &str) -> bool {
    text.lines().any(|line| {
        let rest = line.strip_prefix(name).unwrap_or_default();
        let is_name = rest.starts_with([':', ' ']) && !rest.contains(":=");
        is_name && rest.contains(':')
    })
}

/// npm writes a script that only fails into every new project.
fn has_test_script(text: &str) -> bool {
    let package: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    let script = package["scripts"]["test"].as_str();
    script.is_some_and(|script| !script.contains("no test specified"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&str, &str)]) -> String {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let mut file = tempfile::NamedTempFile::new_in(dir.path()).unwrap();
            std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
            file.persist(dir.path().join(name)).unwrap();
        }
        suggested(dir.path()).join(" | ")
    }

    // shows: REL-26
    #[test]
    fn a_project_says_how_it_is_tested() {
        assert_eq!(of(&[]), "");
        assert_eq!(of(&[("Cargo.toml", "")]), "cargo test");
        let make = "test := x\n.PHONY: test\ncheck: build\n\ttrue\n";
        assert_eq!(of(&[("Makefile", make)]), "make check");
        assert_eq!(
            of(&[("Makefile", "test:\n"), ("go.mod", "")]),
            "make test | go test ./..."
        );
        assert_eq!(
            of(&[("justfile", "testing:\n\ntest *args:\n")]),
            "just test"
        );
        let package = r#"{"scripts": {"test": "vitest"}}"#;
        assert_eq!(of(&[("package.json", package)]), "npm test");
        assert_eq!(
            of(&[("package.json", package), ("yarn.lock", "")]),
            "yarn test"
        );
        let fresh = r#"{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}"#;
        assert_eq!(of(&[("package.json", fresh)]), "");
        assert_eq!(
            of(&[("pyproject.toml", "[tool.pytest.ini_options]\n")]),
            "pytest -q"
        );
    }
}
