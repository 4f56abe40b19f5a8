//! What is sent to Linear, against its published schema, as the crate `linear-schema` ships it.

use std::path::PathBuf;
use std::process::Command;

use apollo_compiler::{ExecutableDocument, Schema};
use serde_json::Value;

/// Cargo knows where it unpacked the crate; nothing of it is built.
#[expect(
    clippy::disallowed_methods,
    reason = "a test asks cargo where a crate lies"
)]
fn published() -> String {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--features",
            "ekiden-testkit/linear-schema",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let metadata: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{said}"));
    let mut packages = metadata["packages"].as_array().unwrap().iter();
    let package = packages
        .find(|package| package["name"] == "linear-schema")
        .unwrap();
    let manifest = PathBuf::from(package["manifest_path"].as_str().unwrap());
    std::fs::read_to_string(manifest.with_file_name("linear.graphql")).unwrap()
}

// shows: TRK-08
#[test]
fn everything_that_linear_is_asked_is_in_its_schema() {
    let schema = Schema::parse_and_validate(published(), "linear.graphql").unwrap();
    for document in ekiden_tracker::DOCUMENTS {
        if let Err(faults) = ExecutableDocument::parse_and_validate(&schema, document, "ours") {
            panic!("{document}\n{}", faults.errors);
        }
    }
    let renamed = ekiden_tracker::DOCUMENTS[1].replace("identifier", "identifierOf");
    ExecutableDocument::parse_and_validate(&schema, renamed, "ours").unwrap_err();
}
