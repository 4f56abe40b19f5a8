//! Licences and sources of all libraries, checked against `deny.toml` without `cargo deny`.
//!
//! Where `cargo deny` is installed, it does the check. This is for machines that lack it: it reads the same
//! `deny.toml` and the packages of `Cargo.lock`, and knows no advisories.

use std::path::PathBuf;

use serde::Deserialize;

use crate::shell::{self, Program};

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    /// An SPDX expression. Older packages write `/` for `OR`.
    license: Option<String>,
    /// Its licence's text, from the manifest's directory, if the package has that instead of the
    /// expression.
    license_file: Option<String>,
    manifest_path: PathBuf,
    /// `None` for our own crates.
    source: Option<String>,
}

/// Checks with the program that is available, and returns which it was.
pub(crate) fn check() -> Result<String, String> {
    let deny = Program::cargo(&["deny", "--version"]);
    if deny.output().is_ok() {
        let all = &["deny", "--locked", "check", "bans", "licenses", "sources"];
        Program::cargo(all).run()?;
        return Ok("by cargo deny".to_owned());
    }
    let allowed = allowed(&shell::read(&shell::root().join("deny.toml"))?)?;
    let metadata = Program::cargo(&["metadata", "--locked", "--format-version", "1"]).output()?;
    let metadata: Metadata = serde_json::from_str(&metadata)
        .map_err(|error| format!("cannot read what cargo says of its packages: {error}"))?;
    let faults: Vec<String> = metadata
        .packages
        .iter()
        .filter_map(|package| fault(package, &allowed.of(&package.name)))
        .collect();
    if faults.is_empty() {
        return Ok("without cargo deny, which is not installed".to_owned());
    }
    Err(faults.join("\n"))
}

#[derive(Deserialize)]
struct Deny {
    licenses: Allowed,
}

/// `[licenses]` of `deny.toml`.
#[derive(Deserialize)]
struct Allowed {
    allow: Vec<String>,
    #[serde(default)]
    exceptions: Vec<Exception>,
}

#[derive(Deserialize)]
struct Exception {
    #[serde(rename = "crate")]
    name: String,
    allow: Vec<String>,
}

impl Allowed {
    /// The licences that a package may have.
    fn of(&self, package: &str) -> Vec<String> {
        let own = self.exceptions.iter().filter(|one| one.name == package);
        let own = own.flat_map(|one| &one.allow);
        self.allow.iter().chain(own).cloned().collect()
    }
}

fn allowed(deny: &str) -> Result<Allowed, String> {
    let deny: Deny =
        toml::from_str(deny).map_err(|error| format!("cannot read deny.toml: {error}"))?;
    Ok(deny.licenses)
}

impl Package {
    /// The expression, or the licence that its text is recognized as.
    fn terms(&self) -> Option<String> {
        self.license.clone().or_else(|| {
            let path = self
                .manifest_path
                .with_file_name(self.license_file.as_ref()?);
            let text = shell::read(&path).ok()?;
            let begin =
                "Permission is hereby granted, free of charge, to any person obtaining a copy";
            text.contains(begin).then(|| "MIT".to_owned())
        })
    }
}

fn fault(package: &Package, allowed: &[String]) -> Option<String> {
    let source = package.source.as_ref()?;
    let named = format!("{} {}", package.name, package.version);
    if source != REGISTRY {
        return Some(format!("{named} comes from {source}, not from crates.io"));
    }
    match package.terms() {
        Some(license) if permits(&license, allowed) => None,
        Some(license) => Some(format!(
            "{named} is under {license}, which deny.toml does not allow"
        )),
        None => Some(format!("{named} names no licence")),
    }
}

/// One of the alternatives needs only allowed licences. Parentheses only enclose alternatives,
/// `(MIT OR Apache-2.0) AND Unicode-3.0`, so each part of an `AND` is judged by itself.
fn permits(license: &str, allowed: &[String]) -> bool {
    let is_allowed = |name: &str| allowed.iter().any(|one| one == name.trim());
    if license.contains('(') {
        let parts = license.split(" AND ");
        return parts
            .map(|part| part.trim().trim_matches(['(', ')']))
            .all(|part| permits(part, allowed));
    }
    let license = license.replace('/', " OR ");
    let mut choices = license.split(" OR ");
    choices.any(|choice| choice.split(" AND ").all(is_allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_libraries_are_allowed() {
        check().unwrap();
    }

    #[test]
    fn a_licence_or_source_that_nobody_allowed_is_a_fault() {
        let allowed = ["MIT".to_owned(), "Unicode-3.0".to_owned()];
        let fault = |license: Option<&str>, source: &str| {
            let package = Package {
                name: "a".to_owned(),
                version: "1.0.0".to_owned(),
                license: license.map(ToOwned::to_owned),
                source: Some(source.to_owned()),
                license_file: None,
                manifest_path: PathBuf::new(),
            };
            super::fault(&package, &allowed)
        };
        for fine in ["MIT", "GPL-3.0/MIT", "(MIT OR Zlib) AND Unicode-3.0"] {
            assert_eq!(fault(Some(fine), REGISTRY), None, "{fine}");
        }
        assert_eq!(
            fault(Some("MIT AND Zlib"), REGISTRY).unwrap(),
            "a 1.0.0 is under MIT AND Zlib, which deny.toml does not allow"
        );
        assert_eq!(fault(None, REGISTRY).unwrap(), "a 1.0.0 names no licence");
        let elsewhere = fault(Some("MIT"), "git+https://example.invalid/a").unwrap();
        assert!(elsewhere.ends_with("not from crates.io"), "{elsewhere}");
    }
}
