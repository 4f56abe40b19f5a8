//! Manifests as large as they come.

use std::fmt::Write as _;

use ekiden_core::limits;

use super::*;

/// Stages in rows of a hundred; each needs three of the row before. Every tenth writes a directory.
fn large(stages: usize) -> String {
    let mut text = own("");
    for at in 0..stages {
        let above = |by: usize| format!("\"S{:05}\"", (at / 100 - 1) * 100 + (at + by) % 100);
        let needs = if at < 100 {
            String::new()
        } else {
            [above(0), above(1), above(7)].join(", ")
        };
        let output = if at % 10 == 0 {
            format!("src/m{at:05}/")
        } else {
            format!("src/m{at:05}.rs")
        };
        let _ = write!(
            text,
            "[[stage]]\nid = \"S{at:05}\"\nname = \"Stage {at}\"\nprompt = \"{}\"\nneeds = [{needs}]\n\
             outputs = [\"{output}\"]\nvalidation = {{ kind = \"command\", command = \"make m{at}\" }}\n",
            "Write the module with its tests. ".repeat(10),
        );
    }
    text
}

// shows: PLN-20
#[test]
fn ten_thousand_stages_are_read_in_every_syntax() {
    let text = large(10_000);
    let toml = read(&text, Syntax::Toml).unwrap();
    assert_eq!(toml.stages.len(), 10_000);
    let table: toml::Table = text.parse().unwrap();
    let json = serde_json::to_string_pretty(&table).unwrap();
    for syntax in [Syntax::Json, Syntax::Yaml] {
        let other = read(&json, syntax).unwrap();
        assert_eq!(
            other.stages[9_999].part.needs,
            toml.stages[9_999].part.needs
        );
    }
}

// shows: PLN-20, PLN-23
#[test]
fn ten_thousand_stages_that_write_the_same_are_told_fast() {
    let all = |more: &str| {
        own(&(0..10_000)
            .map(|at| stage(&format!("S{at}"), more))
            .collect::<String>())
    };
    let faults = read(&all("outputs = [\"a.rs\"]\nneeds = [\"X\"]"), Syntax::Toml).unwrap_err();
    assert_eq!(
        (faults.shown.len(), faults.count()),
        (limits::MANIFEST_FAULTS_TOLD_MAX, 10_000 + 9_999)
    );
    let chain: String = (0..10_000)
        .map(|at| {
            let needs = if at == 0 {
                String::new()
            } else {
                format!("needs = [\"S{}\"]\n", at - 1)
            };
            stage(
                &format!("S{at}"),
                &format!("{needs}outputs = [\"**/{at}\", \"src/{at}\", \"**\"]"),
            )
        })
        .collect();
    let told = read(&own(&chain), Syntax::Toml).unwrap_err();
    assert_eq!(told.to_string().lines().count(), 1);
}

// shows: PLN-20, SEC-01
#[test]
fn more_stages_than_anybody_reads_are_a_fault() {
    let entry = "{\"id\":\"a\"},";
    let text = format!(
        "{{\"format\":1,\"project\":\"p\",\"stage\":[{}{{}}]}}",
        entry.repeat(limits::STAGES_MAX)
    );
    let faults = read(&text, Syntax::Json).unwrap_err();
    assert!(faults.count() > limits::STAGES_MAX, "{}", faults.count());
    let text = " ".repeat(limits::MANIFEST_BYTES_MAX + 1);
    assert_eq!(
        read(&text, Syntax::Json).unwrap_err().to_string(),
        "  33 MB, at most 32 MB are read\n"
    );
    let text = format!("[{}1]", "1,".repeat(limits::MANIFEST_NODES_MAX));
    assert_eq!(
        read(&text, Syntax::Json).unwrap_err().to_string(),
        "  more than 4000000 values\n"
    );
}
