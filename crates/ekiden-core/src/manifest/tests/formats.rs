//! The three formats, read into the same model.

use expect_test::{expect, expect_file};

use super::*;
use crate::handoff::Marker;
use crate::manifest::document::Stage as Read;
use crate::manifest::shape::Kind;

fn good(text: &str, syntax: Syntax) -> Document {
    read(text, syntax).unwrap_or_else(|faults| panic!("{faults}"))
}

/// What matters of a stage, in a line.
fn told(stage: &Read) -> String {
    let needs: Vec<String> = stage
        .needs
        .iter()
        .map(|need| format!("{}{}", need.stage, if need.optional { "?" } else { "" }))
        .collect();
    format!(
        "{} {:?} line {} needs {needs:?} {:?} {:?} retries {:?} sessions {:?} turns {:?} marker {:?} apart {}",
        stage.id,
        stage.name,
        stage.line,
        stage.validation,
        stage.on_fail,
        stage.retries,
        stage.sessions_max,
        stage.turns_max,
        stage.marker.as_ref().map(Marker::as_str),
        stage.knowledge_apart,
    )
}

fn all(document: &Document) -> String {
    document.stages.iter().map(told).collect::<Vec<_>>().join("\n")
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
        store "Store" line 6 needs [] Command { command: "cargo test store", exit_code: 0 } Block retries None sessions None turns None marker None apart false
        search "Search" line 8 needs ["store"] None Block retries None sessions None turns None marker None apart false"#]].assert_eq(&all(&document));
}

// shows: PLN-05, PLN-06, PLN-11
#[test]
fn a_manifest_of_casm() {
    let document = good(include_str!("../fixtures/casm.json"), Syntax::Json);
    assert_eq!((document.format, document.project.as_str()), (Format::Casm, "taskflow"));
    assert_eq!(document.architecture.as_ref().map(|spot| spot.value.as_str()), Some("architecture.md"));
    assert_eq!(document.checks, Checks::default());
    assert_eq!(document.stages[3].outputs, ["src/routes/tasks.ts"]);
    assert_eq!(document.stages[3].estimate_tokens, Some(55_000));
    expect![[r#"
        S01 "Project scaffolding" line 9 needs [] Command { command: "npm install && npx tsc --noEmit", exit_code: 0 } Block retries None sessions None turns Some(30) marker None apart false
        S02 "Database schema" line 29 needs ["S01"] Command { command: "npx prisma validate", exit_code: 0 } Block retries None sessions None turns Some(30) marker None apart false
        S03 "Authentication" line 52 needs ["S02"] TypeCheck Block retries None sessions None turns Some(50) marker None apart false
        S04 "Task API" line 74 needs ["S02", "S03"] Test Block retries None sessions None turns Some(60) marker None apart false
        S05 "Project API" line 96 needs ["S02", "S03"] Test Block retries None sessions None turns Some(60) marker None apart false
        S06 "Web client" line 117 needs ["S01"] Files(["web/package.json", "web/src/App.tsx"]) Block retries None sessions None turns Some(80) marker None apart false
        S07 "Board view" line 142 needs ["S04", "S05", "S06"] TypeCheck Block retries None sessions None turns Some(80) marker None apart false
        S08 "Documentation" line 164 needs ["S07"] None Block retries None sessions None turns Some(20) marker None apart false"#]].assert_eq(&all(&document));
}

// shows: PLN-05
#[test]
fn a_pipeline_of_cleave() {
    let document = good(include_str!("../fixtures/pipeline.yaml"), Syntax::Yaml);
    assert_eq!((document.format, document.project.as_str()), (Format::Cleave, "blog-rewrite"));
    assert_eq!(
        document.stages[0].prompt,
        Prompt::File(Spot { line: 5, value: "prompts/research.md".to_owned() })
    );
    expect![[r#"
        research "research" line 4 needs [] None Stop retries Some(0) sessions Some(3) turns None marker Some("RESEARCH_DONE") apart false
        Write-API "Write API" line 10 needs ["research"] Command { command: "npm test -- api", exit_code: 0 } Stop retries Some(2) sessions Some(8) turns None marker Some("API_DONE") apart false
        demo-data "demo data" line 19 needs ["research"] None Skip retries Some(0) sessions None turns None marker None apart true
        publish "publish" line 26 needs ["Write-API", "demo-data?"] Command { command: "test -f dist/index.html", exit_code: 0 } Stop retries Some(0) sessions None turns None marker None apart false"#]].assert_eq(&all(&document));
}

// shows: PLN-05
#[test]
fn names_of_other_formats_become_ids_that_are_told_apart() {
    let names = ["a b", "a-b", "A/B", "構築", "../../x", ".git", "x.lock", "-rf"];
    let stages: String =
        names.iter().map(|name| format!("  - {{name: \"{name}\", prompt: p.md, requires: []}}\n")).collect();
    let text = format!("stages:\n{stages}  - {{name: last, prompt: p.md, requires: [\"A/B\"]}}\n");
    let document = good(&text, Syntax::Yaml);
    let ids: Vec<&str> = document.stages.iter().map(|stage| stage.id.as_str()).collect();
    assert_eq!(ids, ["a-b", "a-b-2", "A-B-3", "stage-4", "x", "git", "x-lock", "rf", "last"]);
    assert_eq!(document.stages[8].needs[0].stage.as_str(), "A-B-3");
}

// shows: PLN-05
#[test]
fn a_small_alias_is_read_as_what_it_names() {
    let text = "stages:\n  - {name: a, prompt: &p x.md}\n  - {name: b, prompt: *p, requires: [a]}\n";
    assert_eq!(
        good(text, Syntax::Yaml).stages[1].prompt,
        Prompt::File(Spot { line: 3, value: "x.md".to_owned() })
    );
}

// shows: PLN-06
#[test]
fn lines_are_those_of_the_file_in_every_syntax() {
    let toml = "\u{feff}format = 1\r\nproject = \"p\"\r\n\r\n[[stage]]\r\nid = \"a\"\r\nname = \"a\"\r\nprompt = \"\"\"\r\nx\r\n\"\"\"\r\nneeds = [\r\n  \"z\",\r\n]\r\n";
    assert_eq!(faults(toml, Syntax::Toml), "  line 11  stage \"a\" needs \"z\", which does not exist\n");
    let json = "{\"format\": 1,\n\"project\": \"p\", \"stage\": [\n{\"id\": \"a\", \"name\": \"a\", \"prompt\": \"x\",\n \"retries\": 11\n,\"needs\":\n[\n\"z\"\n]}]}";
    let told = faults(json, Syntax::Json);
    assert_eq!(
        told.lines().next(),
        Some(r#"  line 4  stage "a": retries is 11, but must be a whole number from 0 to 10"#)
    );
    assert_eq!(told.lines().nth(1), Some(r#"  line 7  stage "a" needs "z", which does not exist"#));
    let yaml = "stages:\n- name: a\n  prompt: x\n  requires:\n  - z\n";
    assert_eq!(faults(yaml, Syntax::Yaml), "  line 5  stage \"a\" needs \"z\", which does not exist\n");
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

// shows: PLN-05
#[test]
fn the_published_schema_is_that_of_the_reader() {
    let schema = serde_json::to_string_pretty(&schema()).unwrap();
    expect_file!["../../../../../docs/manifest.schema.json"].assert_eq(&format!("{schema}\n"));
}

// shows: PLN-05
#[test]
fn the_manual_has_every_field_and_its_example_is_read() {
    let mut manual = include_str!("../fixtures/manual.txt").to_owned();
    push_fields("top", &format::own::TOP, &mut manual);
    expect_file!["../../../../../docs/manifests.md"].assert_eq(&manual);
    let example = manual.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    assert_eq!(good(example, Syntax::Toml).stages.len(), 3);
}

/// Puts a table's fields, and those of the tables in it, where the manual wants them.
fn push_fields(place: &str, shape: &shape::Shape, manual: &mut String) {
    let mut rows = "| field | |\n| --- | --- |".to_owned();
    for field in shape.fields {
        let name = if field.needed { format!("**`{}`**", field.name) } else { format!("`{}`", field.name) };
        rows.push_str(&format!("\n| {name} | {} |", field.doc));
        if let Kind::Table(below) | Kind::Tables(below) | Kind::LinesOr(below) = field.kind {
            let place =
                if place == "top" { field.name.to_owned() } else { format!("{place} {}", field.name) };
            push_fields(place.trim_start_matches("stage needs").trim(), below, manual);
        }
    }
    let slot = format!("{{{}}}", if place.is_empty() { "needs" } else { place });
    assert!(manual.contains(&slot), "{slot}");
    *manual = manual.replace(&slot, &rows);
}
