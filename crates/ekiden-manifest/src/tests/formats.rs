//! The three formats, read into the same model.

use ekiden_core::handoff::Marker;
use expect_test::{expect, expect_file};
use serde_json::Value;

use super::*;

/// What matters of a stage, in a line.
fn told(stage: &Stage) -> String {
    let part = &stage.part;
    let marker = part.marker.as_ref().map(Marker::as_str);
    format!(
        "{} {:?} needs [{}] checks [{}] {:?} retries {} sessions {} turns {:?} marker {marker:?} apart {}",
        stage.id,
        stage.task_name,
        needs(stage),
        checks(stage),
        part.on_fail,
        part.retries,
        stage.sessions_max,
        part.turns_max,
        part.knowledge_apart,
    )
}

fn all(document: &Document) -> String {
    document
        .stages
        .iter()
        .map(told)
        .collect::<Vec<_>>()
        .join("\n")
}

// shows: PLN-05, PLN-11, PLN-22
#[test]
fn our_own_format_in_toml() {
    let document = good(include_str!("../fixtures/own.toml"), Syntax::Toml);
    assert_eq!(document.format, Format::Ekiden);
    expect_file!["own.txt"].assert_eq(&format!("{document:#?}\n"));
}

// shows: PLN-05
#[test]
fn our_own_format_in_json() {
    let document = good(include_str!("../fixtures/own.json"), Syntax::Json);
    expect![[r#"
        store "Store" needs [] checks [cargo test store; these files exist: src/store.rs] Block retries 2 sessions 10 turns Some(50) marker None apart false
        search "Search" needs [store] checks [these files exist: src/search.rs] Block retries 2 sessions 10 turns Some(50) marker None apart false"#]].assert_eq(&all(&document));
}

// shows: PLN-05, PLN-06, PLN-11
#[test]
fn a_manifest_of_casm() {
    let document = good(include_str!("../fixtures/casm.json"), Syntax::Json);
    assert_eq!(
        (document.format, document.project.as_str()),
        (Format::Casm, "taskflow")
    );
    let architecture = document.architecture.as_ref().unwrap();
    assert_eq!(architecture.name, "architecture.md");
    assert_eq!(document.stages[3].part.outputs, ["src/routes/tasks.ts"]);
    assert_eq!(document.stages[3].part.estimate_tokens, 55_000);
    expect![[r#"
        S01 "Project scaffolding" needs [] checks [npm install && npx tsc --noEmit; these files exist: package.json, tsconfig.json, src/index.ts] Block retries 2 sessions 10 turns Some(30) marker None apart false
        S02 "Database schema" needs [S01] checks [npx prisma validate; these files exist: prisma/schema.prisma, src/db.ts] Block retries 2 sessions 10 turns Some(30) marker None apart false
        S03 "Authentication" needs [S02] checks [npx tsc --noEmit; these files exist: src/auth/jwt.ts, src/auth/middleware.ts] Block retries 2 sessions 10 turns Some(50) marker None apart false
        S04 "Task API" needs [S02 S03] checks [npm test; these files exist: src/routes/tasks.ts] Block retries 2 sessions 10 turns Some(60) marker None apart false
        S05 "Project API" needs [S02 S03] checks [npm test; these files exist: src/routes/projects.ts] Block retries 2 sessions 10 turns Some(60) marker None apart false
        S06 "Web client" needs [S01] checks [these files exist: web/package.json, web/src/App.tsx] Block retries 2 sessions 10 turns Some(80) marker None apart false
        S07 "Board view" needs [S04 S05 S06] checks [npx tsc --noEmit; these files exist: web/src/Board.tsx] Block retries 2 sessions 10 turns Some(80) marker None apart false
        S08 "Documentation" needs [S07] checks [these files exist: README.md] Block retries 2 sessions 10 turns Some(20) marker None apart false"#]].assert_eq(&all(&document));
}

// shows: PLN-05
#[test]
fn a_pipeline_of_cleave() {
    let document = good(include_str!("../fixtures/pipeline.yaml"), Syntax::Yaml);
    assert_eq!(
        (document.format, document.project.as_str()),
        (Format::Cleave, "blog-rewrite")
    );
    assert_eq!(document.stages[0].task, "Do as prompts/research.md says.");
    expect![[r#"
        research "research" needs [] checks [nothing] Stop retries 0 sessions 3 turns Some(50) marker Some("RESEARCH_DONE") apart false
        Write-API "Write API" needs [research] checks [npm test -- api] Stop retries 2 sessions 8 turns Some(50) marker Some("API_DONE") apart false
        demo-data "demo data" needs [research] checks [nothing] Skip retries 0 sessions 10 turns Some(50) marker None apart true
        publish "publish" needs [Write-API demo-data?] checks [test -f dist/index.html] Stop retries 0 sessions 10 turns Some(50) marker None apart false"#]].assert_eq(&all(&document));
}

// shows: PLN-05
#[test]
fn names_of_other_formats_become_ids_that_are_told_apart() {
    let names = [
        "a b", "a-b", "A/B", "構築", "../../x", ".git", "x.lock", "-rf",
    ];
    let stages: String = names
        .iter()
        .map(|name| format!("  - {{name: \"{name}\", prompt: p.md, requires: []}}\n"))
        .collect();
    let text = format!("stages:\n{stages}  - {{name: last, prompt: p.md, requires: [\"A/B\"]}}\n");
    let document = good(&text, Syntax::Yaml);
    let ids: Vec<&str> = document
        .stages
        .iter()
        .map(|stage| stage.id.as_str())
        .collect();
    assert_eq!(
        ids,
        [
            "a-b", "a-b-2", "A-B-3", "stage-4", "x", "git", "x-lock", "rf", "last"
        ]
    );
    assert_eq!(document.stages[8].part.needs[0].stage.as_str(), "A-B-3");
}

// shows: PLN-05
#[test]
fn a_small_alias_is_read_as_what_it_names() {
    let text =
        "stages:\n  - {name: a, prompt: &p x.md}\n  - {name: b, prompt: *p, requires: [a]}\n";
    let document = good(text, Syntax::Yaml);
    assert_eq!(document.stages[1].task, "Do as x.md says.");
}

// shows: PLN-06
#[test]
fn lines_are_those_of_the_file_in_every_syntax() {
    let toml = "\u{feff}format = 1\r\nproject = \"p\"\r\n\r\n[[stage]]\r\nid = \"a\"\r\nname = \"a\"\r\nprompt = \"\"\"\r\nx\r\n\"\"\"\r\nneeds = [\r\n  \"z\",\r\n]\r\n";
    assert_eq!(
        faults(toml, Syntax::Toml),
        "  line 11  stage \"a\" needs \"z\", which does not exist\n"
    );
    let json = "{\"format\": 1,\n\"project\": \"p\", \"stage\": [\n{\"id\": \"a\", \"name\": \"a\", \"prompt\": \"x\",\n \"retries\": 11\n,\"needs\":\n[\n\"z\"\n]}]}";
    let told = faults(json, Syntax::Json);
    assert_eq!(
        told.lines().next(),
        Some(r#"  line 4  stage "a": retries is 11, but must be a whole number from 0 to 10"#)
    );
    assert_eq!(
        told.lines().nth(1),
        Some(r#"  line 7  stage "a" needs "z", which does not exist"#)
    );
    let yaml = "stages:\n- name: a\n  prompt: x\n  requires:\n  - z\n";
    assert_eq!(
        faults(yaml, Syntax::Yaml),
        "  line 5  stage \"a\" needs \"z\", which does not exist\n"
    );
}

#[test]
fn the_syntax_is_told_by_the_ending_or_else_by_the_beginning() {
    assert_eq!(Syntax::of("a/plan.YML", "{"), Syntax::Yaml);
    assert_eq!(Syntax::of("plan.json", ""), Syntax::Json);
    for (text, syntax) in [
        ("\u{feff} {\"a\": 1}", Syntax::Json),
        ("# plan\n\nformat = 1", Syntax::Toml),
        ("[validation]", Syntax::Toml),
        ("# plan\nname: x", Syntax::Yaml),
        ("---\nname: x", Syntax::Yaml),
        ("", Syntax::Toml),
    ] {
        assert_eq!(Syntax::of("plan", text), syntax, "{text}");
    }
}

#[test]
fn the_published_schema_is_that_of_the_reader() {
    let schema = serde_json::to_string_pretty(&crate::schema()).unwrap();
    expect_file!["../../../../docs/manifest.schema.json"].assert_eq(&format!("{schema}\n"));
}

// shows: PLN-05
#[test]
fn the_manual_has_every_field_and_its_example_is_read() {
    let manual = include_str!("../../../../docs/manifests.md");
    let schema = crate::schema();
    let stage = &schema["properties"]["stage"]["items"];
    for (table, part) in [
        (&schema, "At the top:"),
        (&schema["properties"]["validation"], "### `[validation]`"),
        (&schema["properties"]["worktree"], "### `[worktree]`"),
        (stage, "### `[[stage]]`"),
        (
            &stage["properties"]["needs"]["items"]["anyOf"][1],
            "An entry of `needs`",
        ),
        (
            &stage["properties"]["validation"],
            "### A stage's `validation`",
        ),
    ] {
        let rows = rows(table);
        let found = manual.split(part).nth(1).unwrap();
        let found = found
            .split("\n| field | |\n| --- | --- |\n")
            .nth(1)
            .unwrap();
        let found = found.split("\n\n").next().unwrap();
        let mut found: Vec<&str> = found.trim_end().lines().collect();
        found.sort_by_key(|row| row.replace('*', ""));
        assert_eq!(found, rows, "{part}");
    }
    let example = manual.split("```toml\n").nth(1).unwrap();
    let example = example.split("```").next().unwrap();
    assert_eq!(good(example, Syntax::Toml).stages.len(), 3);
}

/// The fields of a table as the manual has them, those that must be there in bold.
fn rows(table: &Value) -> Vec<String> {
    let needed = table["required"].as_array().cloned().unwrap_or_default();
    let row = |(name, field): (&String, &Value)| {
        let bold = if needed.iter().any(|needed| needed == name) {
            "**"
        } else {
            ""
        };
        let about = field["description"].as_str().unwrap();
        format!("| {bold}`{name}`{bold} | {about} |")
    };
    let mut rows: Vec<String> = table["properties"]
        .as_object()
        .unwrap()
        .iter()
        .map(row)
        .collect();
    rows.sort_by_key(|row| row.replace('*', ""));
    rows
}
