//! Which crate may know which. Readers can rely on what a crate does not know only if that cannot change
//! unnoticed.

use super::{Fault, SourceFile, Tree};

/// Which of our crates a crate may depend on. Tests may know more: their dependencies are free.
const ARROWS: &[(&str, &[&str])] = &[
    ("ekiden-core", &[]),
    ("ekiden-manifest", &["ekiden-core"]),
    ("ekiden-wire", &["ekiden-core"]),
    ("ekiden-store", &["ekiden-core"]),
    ("ekiden-report", &["ekiden-core", "ekiden-wire"]),
    ("ekiden-agent", &["ekiden-core", "ekiden-wire"]),
    (
        "ekiden-engine",
        &["ekiden-core", "ekiden-wire", "ekiden-store", "ekiden-agent"],
    ),
    ("ekiden-memory", &["ekiden-core", "ekiden-store"]),
    (
        "ekiden-otel",
        &["ekiden-core", "ekiden-engine", "ekiden-report"],
    ),
    (
        "ekiden-tracker",
        &["ekiden-core", "ekiden-store", "ekiden-engine"],
    ),
    (
        "ekiden-fleet",
        &["ekiden-core", "ekiden-agent", "ekiden-engine"],
    ),
    (
        "ekiden",
        &[
            "ekiden-core",
            "ekiden-wire",
            "ekiden-store",
            "ekiden-agent",
            "ekiden-engine",
            "ekiden-manifest",
            "ekiden-memory",
            "ekiden-otel",
            "ekiden-report",
            "ekiden-tracker",
        ],
    ),
];
/// Crates that only help to build and test: they may know any, and none may know them.
pub(crate) const NEVER_SHIPPED: &[&str] = &["ekiden-sim", "ekiden-testkit", "xtask"];
/// Where a runtime may be known. Everything else is ordinary Rust that can be called without one.
const ASYNC_CRATES: &[&str] = &[
    "ekiden-agent",
    "ekiden-engine",
    "ekiden-fleet",
    "ekiden",
    "ekiden-testkit",
];
/// Crates that decide or translate: no library that reaches for files, processes or the network.
const PURE_CRATES: &[&str] = &[
    "ekiden-core",
    "ekiden-manifest",
    "ekiden-report",
    "ekiden-wire",
];
/// Libraries that do.
const WORLDLY: &[&str] = &[
    "ignore",
    "libc",
    "rustix",
    "signal-hook",
    "tempfile",
    "tokio",
];

pub(super) fn check(tree: &Tree) -> Vec<Fault> {
    let manifests = tree
        .ending("/Cargo.toml")
        .filter(|file| file.crate_name().is_some());
    manifests.flat_map(check_manifest).collect()
}

fn check_manifest(file: &SourceFile) -> Vec<Fault> {
    let name = file.crate_name().unwrap_or_default();
    let manifest = match file.text.parse::<toml::Table>() {
        Ok(manifest) => manifest,
        Err(error) => return vec![Fault::of(&file.path, error.message())],
    };
    let known = ARROWS.iter().any(|(known, _)| *known == name) || NEVER_SHIPPED.contains(&name);
    let unknown =
        (!known).then(|| Fault::of(&file.path, "no arrows are written down for this crate"));
    let refused = dependencies(&manifest)
        .into_iter()
        .filter_map(|dependency| refusal(name, &dependency));
    unknown
        .into_iter()
        .chain(refused.map(|what| Fault::of(&file.path, what)))
        .collect()
}

/// The names under `[dependencies]` and `[build-dependencies]`, including those for single platforms.
fn dependencies(manifest: &toml::Table) -> Vec<String> {
    let platforms = manifest.get("target").and_then(toml::Value::as_table);
    let platforms = platforms
        .into_iter()
        .flat_map(toml::Table::values)
        .filter_map(toml::Value::as_table);
    let tables = std::iter::once(manifest).chain(platforms);
    let sections =
        tables.flat_map(|table| [table.get("dependencies"), table.get("build-dependencies")]);
    let names = sections
        .flatten()
        .filter_map(toml::Value::as_table)
        .flat_map(toml::Table::keys);
    names.cloned().collect()
}

/// Why a crate may not depend on another.
fn refusal(name: &str, dependency: &str) -> Option<String> {
    let ours = dependency.starts_with("ekiden") || dependency == "xtask";
    let allowed = ARROWS
        .iter()
        .find(|(from, _)| *from == name)
        .map(|(_, to)| *to);
    if let Some(allowed) = allowed.filter(|_| ours)
        && !allowed.contains(&dependency)
    {
        return Some(format!("{name} must not know {dependency}"));
    }
    if dependency == "tokio" && !ASYNC_CRATES.contains(&name) {
        return Some(format!("{name} must not know a runtime"));
    }
    let worldly = WORLDLY.contains(&dependency) && PURE_CRATES.contains(&name);
    worldly.then(|| format!("{name} is pure: {dependency} reaches for the system"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(name: &str, manifest: &str) -> Vec<String> {
        let path = format!("crates/{name}/Cargo.toml");
        check(&Tree::of(&[(&path, manifest)]))
            .into_iter()
            .map(|fault| fault.what)
            .collect()
    }

    #[test]
    fn an_arrow_that_is_not_drawn_is_a_fault() {
        let faults = |name| {
            faults(
                name,
                "[dependencies]\nekiden-store.workspace = true\nserde = \"1\"\n",
            )
        };
        assert_eq!(
            faults("ekiden-wire"),
            ["ekiden-wire must not know ekiden-store"]
        );
        assert_eq!(faults("ekiden-engine"), [""; 0]);
        assert_eq!(faults("xtask"), [""; 0]);
        assert_eq!(
            faults("ekiden-novel"),
            ["no arrows are written down for this crate"]
        );
    }

    #[test]
    fn pure_crates_know_no_system_and_only_some_a_runtime() {
        let faults = |name| {
            faults(
                name,
                "[target.'cfg(unix)'.dependencies]\ntokio = \"1\"\nrustix = \"1\"\n",
            )
        };
        assert_eq!(
            faults("ekiden-core"),
            [
                "ekiden-core is pure: rustix reaches for the system",
                "ekiden-core must not know a runtime"
            ]
        );
        assert_eq!(
            faults("ekiden-store"),
            ["ekiden-store must not know a runtime"]
        );
        assert_eq!(faults("ekiden-agent"), [""; 0]);
    }

    #[test]
    fn tests_may_know_more() {
        assert_eq!(
            faults(
                "ekiden-core",
                "[dev-dependencies]\nekiden-testkit.workspace = true\n"
            ),
            [""; 0]
        );
    }
}
