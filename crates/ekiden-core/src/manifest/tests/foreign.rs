//! What manifests of CASM and cleave mean without saying it.

use serde_json::json;

use super::*;

fn good(text: &str, syntax: Syntax) -> Document {
    read(text, syntax).unwrap_or_else(|faults| panic!("{faults}"))
}

/// What each stage needs, in the order of the file; `?` marks what it needs only optionally.
fn needs(document: &Document) -> Vec<String> {
    let told = |need: &Need| format!("{}{}", need.stage, if need.optional { "?" } else { "" });
    let of_stage = |stage: &DocumentStage| stage.needs.iter().map(told).collect::<Vec<_>>().join(" ");
    document.stages.iter().map(of_stage).collect()
}

/// A manifest of CASM whose sessions are called S1 and so on.
fn casm(sessions: &[serde_json::Value]) -> serde_json::Value {
    let session = |(more, number): (&serde_json::Value, usize)| {
        let mut session = json!({ "id": format!("S{number}"), "name": "n", "prompt": "p", "depends_on": [],
            "validation": { "type": "none" } });
        session.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
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
        let stage = &document.stages[at];
        let Prompt::File(file) = &stage.prompt else { panic!() };
        (file.value.as_str(), stage.on_fail, stage.sessions_max, stage.validation.clone())
    };
    let test = || Validation::Command { command: "make test".to_owned(), exit_code: 0 };
    assert_eq!(told(0), ("own.md", OnFail::Skip, None, test()));
    assert_eq!(told(1), ("base.md", OnFail::Stop, Some(2), test()));
    assert_eq!(told(2), ("base.md", OnFail::Stop, Some(3), test()));
    assert_eq!(needs(&document), ["", "a?", ""]);
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
    let validations: Vec<_> = document.stages.into_iter().map(|stage| stage.validation).collect();
    let files = |files: &[&str]| Validation::Files(files.iter().map(|file| (*file).to_owned()).collect());
    assert_eq!(validations, [files(&["a.ts", "b.ts"]), files(&["c.ts"]), Validation::None]);
}

// shows: PLN-05, PLN-23
#[test]
fn sessions_of_casm_that_write_the_same_file_work_one_after_the_other() {
    let writes = |files: &[&str], needs: &[&str]| json!({ "output_files": files, "depends_on": needs });
    let document = read_casm(&[
        writes(&["index.ts"], &["S4"]),
        writes(&["index.ts", "a.ts"], &[]),
        writes(&["src/**"], &["S2"]),
        writes(&["src/x.ts", "index.ts"], &[]),
    ]);
    assert_eq!(needs(&document), ["S4", "", "S2 S4?", "S2?"]);
}

// shows: PLN-05
#[test]
fn stages_of_cleave_work_in_the_order_of_the_file_unless_they_say_what_they_require() {
    let stages = |stages: &[(&str, &str)]| {
        let line = |(name, more): &(&str, &str)| format!("  - {{name: {name}, prompt: p.md{more}}}\n");
        format!("stages:\n{}", stages.iter().map(line).collect::<String>())
    };
    let text = stages(&[("a", ""), ("b", ""), ("c", ", requires: [a]"), ("d", ", requires: []"), ("e", "")]);
    assert_eq!(needs(&good(&text, Syntax::Yaml)), ["", "a?", "a", "", "d?"]);
    let forward = stages(&[("a", ""), ("b", ", requires: [c]"), ("c", ""), ("d", "")]);
    assert_eq!(needs(&good(&forward, Syntax::Yaml)), ["", "c", "a?", "b?"]);
}

// shows: PLN-05, PLN-06
#[test]
fn a_field_that_may_be_a_slip_is_told_and_others_are_passed_over() {
    let slips =
        |document: &Document| -> Vec<String> { document.slips.iter().map(ToString::to_string).collect() };
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
    assert_eq!(yaml.stages[0].validation, Validation::None);
    assert_eq!(
        slips(&yaml),
        [
            "line 5  stage \"a\": \"Verifiy\" is no field there and is passed over       did you mean \"verify\"?",
            "line 11  stage \"b\": \"max_sessions\" is no field there and is passed over       did you mean \"maxSessions\"?",
        ]
    );
    let session = json!({ "depends_on": [], "needs": [], "contextFiles": ["a"], "author": "me" });
    let json = read_casm(&[session]);
    assert_eq!(
        slips(&json),
        [
            "line 1  stage \"S1\": \"contextFiles\" is no field there and is passed over       did you mean \"context_files\"?"
        ]
    );
}

// shows: PLN-05
#[test]
fn whole_numbers_are_whole_however_they_are_written() {
    let text = casm(&[json!({ "estimated_tokens": 45_000.0, "max_turns": 7.0 })]).to_string();
    let text = text.replace("7.0", "4.5e1").replace("\"project\"", "\"total_sessions\":1.0,\"project\"");
    let stage = &good(&text, Syntax::Json).stages[0];
    assert_eq!((stage.estimate_tokens, stage.turns_max), (Some(45_000), Some(45)));
    let yaml = "stages:\n  - {name: a, prompt: p.md, maxSessions: 5.0, onFail: retry, retryMax: 2e0}\n";
    let stage = &good(yaml, Syntax::Yaml).stages[0];
    assert_eq!((stage.sessions_max, stage.retries), (Some(5), Some(2)));
}

// shows: PLN-05
#[test]
fn a_format_is_told_by_the_lists_that_are_its_own() {
    let of = |text: &str, syntax| format::of(&syntax::tree(text, syntax).unwrap(), syntax);
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
    assert_eq!(of("[[stages]]\nid = \"a\"\n", Syntax::Toml), Format::Ekiden, "the others know no TOML");
    let extra = "stage: prod\nformat: 2\nstages:\n  - {name: a, prompt: p.md}\n";
    assert_eq!(good(extra, Syntax::Yaml).stages.len(), 1);
}
