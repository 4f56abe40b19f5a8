//! What manifests of CASM and cleave mean without saying it.

use std::collections::HashSet;

use serde_json::json;

use super::*;

/// What each stage needs, in the order of the file.
fn all_needs(document: &Document) -> Vec<String> {
    document.stages.iter().map(needs).collect()
}

/// A manifest of CASM whose sessions are called S1 and so on.
fn casm(sessions: &[serde_json::Value]) -> serde_json::Value {
    let session = |(more, number): (&serde_json::Value, usize)| {
        let mut session = json!({ "id": format!("S{number}"), "name": "n", "prompt": "p", "depends_on": [],
            "validation": { "type": "none" } });
        session
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        session
    };
    let sessions: Vec<_> = sessions.iter().zip(1..).map(session).collect();
    json!({ "project": "p", "sessions": sessions })
}

fn read_casm(sessions: &[serde_json::Value]) -> Document {
    good(&casm(sessions).to_string(), Syntax::Json)
}

// shows: PLN-05
#[test]
fn what_is_merged_into_a_table_of_yaml_is_there() {
    let text = "\
base: &base {prompt: base.md, verify: make test, onFail: skip}
more: &more
  <<: *base
  onFail: stop
  maxSessions: 3
stages:
  - {name: a, <<: *base, prompt: own.md}
  - name: b
    requires: [a]
    <<: [{maxSessions: 2}, *more]
  - {<<: *more, name: c, requires: []}
";
    let document = good(text, Syntax::Yaml);
    let told = |at: usize| {
        let stage: &Stage = &document.stages[at];
        let (task, checks) = (stage.task.as_str(), checks(stage));
        (task, stage.part.on_fail, stage.sessions_max, checks)
    };
    let test = || "make test".to_owned();
    let (own, base) = ("Do as own.md says.", "Do as base.md says.");
    assert_eq!(told(0), (own, OnFail::Skip, 10, test()));
    assert_eq!(told(1), (base, OnFail::Stop, 2, test()));
    assert_eq!(told(2), (base, OnFail::Stop, 3, test()));
    assert_eq!(all_needs(&document), ["", "a?", ""]);
}

// shows: PLN-05, PLN-11
#[test]
fn files_that_must_exist_are_the_outputs_where_casm_does_not_name_them() {
    let exist = json!({ "type": "file_exists" });
    let document = read_casm(&[
        json!({ "validation": exist, "output_files": ["a.ts", "b.ts"] }),
        json!({ "validation": { "type": "file_exists", "files": [] }, "output_files": ["c.ts"] }),
        json!({ "validation": exist }),
    ]);
    let files = document.stages.iter().map(checks).collect::<Vec<_>>();
    assert_eq!(
        files,
        [
            "these files exist: a.ts, b.ts",
            "these files exist: c.ts",
            "nothing"
        ]
    );
}

// shows: PLN-05
#[test]
fn what_a_validation_of_casm_does_not_use_may_hold_anything() {
    let document = read_casm(&[
        json!({ "validation": { "type": "none", "command": "", "files": ["/abs"] } }),
        json!({ "validation": { "type": "file_exists", "command": "", "files": ["a"] } }),
        json!({ "validation": { "type": "test", "command": " ", "files": ["/abs", ""] } }),
        json!({ "validation": { "type": "type_check", "files": ["a["] } }),
        json!({ "validation": { "type": "command", "command": "make", "files": ["../x"] } }),
    ]);
    assert_eq!(
        document.stages.iter().map(checks).collect::<Vec<_>>(),
        [
            "nothing",
            "these files exist: a",
            "npm test",
            "npx tsc --noEmit",
            "make",
        ]
    );
}

// shows: PLN-05, PLN-06
#[test]
fn what_a_validation_of_casm_uses_is_checked_with_its_line() {
    let validations = [
        json!({ "type": "command", "command": " " }),
        json!({ "type": "command", "command": "true \u{202e}" }),
        json!({ "type": "file_exists", "files": ["a", "/abs", "b["] }),
        json!({ "type": "none", "command": 1, "files": [2] }),
    ];
    let sessions = validations.map(|validation| json!({ "validation": validation }));
    let text = casm(&sessions).to_string();
    let text = text.replace("\"validation\"", "\n\"validation\"");
    let faults = faults(&text, Syntax::Json);
    assert_eq!(
        faults.lines().map(str::trim).collect::<Vec<_>>(),
        [
            "line 2  stage \"S1\": validation: command is empty",
            "line 3  stage \"S2\": validation: command holds characters that hide",
            "line 4  stage \"S3\": validation: files \"/abs\" is not a path from the project's directory",
            "line 4  stage \"S3\": validation: files \"b[\" is not a valid glob: unclosed character class; missing ']'",
            "line 5  stage \"S4\": validation: command must be text, but is a number",
            "line 5  stage \"S4\": validation: files holds a number, not text",
        ]
    );
}

// shows: PLN-05
#[test]
fn an_id_of_casm_is_found_as_it_is_written() {
    let document = read_casm(&[
        json!({ "id": "S1 " }),
        json!({ "id": "S1\u{200b}" }),
        json!({ "depends_on": ["S1 ", "S1\u{200b}"] }),
    ]);
    let ids = document.stages.iter().map(|stage| stage.id.to_string());
    assert_eq!(ids.collect::<Vec<_>>(), ["S1", "S1-2", "S3"]);
    assert_eq!(all_needs(&document), ["", "", "S1 S1-2"]);
    let blank = casm(&[json!({ "id": " " })]).to_string();
    assert_eq!(
        faults(&blank, Syntax::Json),
        "  line 1  stage \"n\": id is empty\n"
    );
}

// shows: PLN-05
#[test]
fn ids_of_casm_at_full_length_are_told_apart() {
    let ids = [
        format!("{}-3", "A".repeat(62)),
        "A".repeat(64),
        "A".repeat(65),
    ];
    let sessions = ids.map(|id| json!({ "id": id }));
    let document = read_casm(&sessions);
    let ids: Vec<&str> = document
        .stages
        .iter()
        .map(|stage| stage.id.as_str())
        .collect();
    let told: HashSet<&str> = ids.iter().copied().collect();
    assert_eq!(told.len(), 3, "{ids:?}");
}

// shows: PLN-05, PLN-23
#[test]
fn sessions_of_casm_that_write_the_same_file_work_one_after_the_other() {
    let writes =
        |files: &[&str], needs: &[&str]| json!({ "output_files": files, "depends_on": needs });
    let document = read_casm(&[
        writes(&["index.ts"], &["S4"]),
        writes(&["index.ts", "a.ts"], &[]),
        writes(&["src/**"], &["S2"]),
        writes(&["src/x.ts", "index.ts"], &[]),
    ]);
    assert_eq!(all_needs(&document), ["S4", "", "S2 S4?", "S2?"]);
}

// shows: PLN-05
#[test]
fn stages_of_cleave_work_in_the_order_of_the_file_unless_they_say_what_they_require() {
    let stages = |stages: &[(&str, &str)]| {
        let line =
            |(name, more): &(&str, &str)| format!("  - {{name: {name}, prompt: p.md{more}}}\n");
        format!("stages:\n{}", stages.iter().map(line).collect::<String>())
    };
    let text = stages(&[
        ("a", ""),
        ("b", ""),
        ("c", ", requires: [a]"),
        ("d", ", requires: []"),
        ("e", ""),
    ]);
    assert_eq!(
        all_needs(&good(&text, Syntax::Yaml)),
        ["", "a?", "a", "", "d?"]
    );
    let forward = stages(&[("a", ""), ("b", ", requires: [c]"), ("c", ""), ("d", "")]);
    assert_eq!(
        all_needs(&good(&forward, Syntax::Yaml)),
        ["", "c", "a?", "b?"]
    );
}

// shows: PLN-05, PLN-06
#[test]
fn a_field_that_may_be_a_slip_is_a_warning_and_others_are_ignored() {
    let slips = |document: &Document| -> Vec<String> {
        document.slips.iter().map(ToString::to_string).collect()
    };
    let text = "\
owner: me
stages:
  - name: a
    prompt: p.md
    Verifiy: make test
    notes: many
  - name: b
    prompt: p.md
    depends_on: [a]
    requires: [a]
    max_sessions: 3
";
    let yaml = good(text, Syntax::Yaml);
    assert_eq!(yaml.stages[0].verification, None);
    assert_eq!(
        slips(&yaml),
        [
            "line 5  stage \"a\": \"Verifiy\" is not a field and is ignored       did you mean \"verify\"?",
            "line 11  stage \"b\": \"max_sessions\" is not a field and is ignored       did you mean \"maxSessions\"?",
        ]
    );
    let session = json!({ "depends_on": [], "needs": [], "contextFiles": ["a"], "author": "me" });
    let json = read_casm(&[session]);
    assert_eq!(
        slips(&json),
        [
            "line 1  stage \"S1\": \"contextFiles\" is not a field and is ignored       did you mean \"context_files\"?"
        ]
    );
}

// shows: PLN-05
#[test]
fn whole_numbers_are_whole_however_they_are_written() {
    let text = casm(&[json!({ "estimated_tokens": 45_000.0, "max_turns": 7.0 })]).to_string();
    let text = text
        .replace("7.0", "4.5e1")
        .replace("\"project\"", "\"total_sessions\":1.0,\"project\"");
    let stage = &good(&text, Syntax::Json).stages[0];
    assert_eq!(
        (stage.part.estimate_tokens, stage.part.turns_max),
        (45_000, Some(45))
    );
    let yaml =
        "stages:\n  - {name: a, prompt: p.md, maxSessions: 5.0, onFail: retry, retryMax: 2e0}\n";
    let stage = &good(yaml, Syntax::Yaml).stages[0];
    assert_eq!((stage.sessions_max, stage.part.retries), (5, 2));
}

// shows: PLN-05
#[test]
fn a_format_is_told_by_the_lists_that_are_its_own() {
    let of = |text: &str, syntax| {
        crate::read::format_of(&crate::syntax::parse(text, syntax).unwrap(), syntax)
    };
    for (text, format) in [
        ("stages:\n", Format::Cleave),
        ("stages: []\nstage: prod\nformat: 2\n", Format::Cleave),
        ("sessions: ~\n", Format::Casm),
        ("stages: []\nstage: []\n", Format::Ekiden),
        ("stage: prod\n", Format::Ekiden),
        ("name: x\n", Format::Ekiden),
    ] {
        assert_eq!(of(text, Syntax::Yaml), format, "{text}");
    }
    assert_eq!(of("{\"sessions\": null}", Syntax::Json), Format::Casm);
    assert_eq!(
        of("[[stages]]\nid = \"a\"\n", Syntax::Toml),
        Format::Ekiden,
        "the others know no TOML"
    );
    let extra = "stage: prod\nformat: 2\nstages:\n  - {name: a, prompt: p.md}\n";
    assert_eq!(good(extra, Syntax::Yaml).stages.len(), 1);
}
