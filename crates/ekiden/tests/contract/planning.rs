//! Planning with the real client: its structured output, its permissions, and our questions in the same
//! conversation.

use std::path::Path;

use ekiden_testkit::messages_api::{Message, Reply, Request, Status};
use serde_json::{Value, json};

use crate::stage::Stage;

const DOCUMENT: &str = "## Summary\n\nA shop for tea.\n\n## Data\n\nA table of teas.\n";
const ASKED: &str = "ekiden: the answer has faults";

/// What the model answers in one round of the manifest session.
#[derive(Clone)]
enum Round {
    /// By the client's tool.
    Structured(Value),
    /// In words.
    Words(String),
}

/// A model that writes the document, then answers a round each time it is asked.
fn planner(rounds: Vec<Round>) -> impl FnMut(&Request, &str) -> Reply + Send + 'static {
    move |request, dir| {
        if request.text().contains("Write the document named under") {
            return write_document(request, dir);
        }
        let asked = request.text().matches(ASKED).count().min(rounds.len() - 1);
        let calls = rounds[..=asked]
            .iter()
            .filter(|round| matches!(round, Round::Structured(_)))
            .count();
        match &rounds[asked] {
            Round::Structured(answer) if request.tool_results().len() < calls => {
                Message::call("StructuredOutput", answer.clone()).into()
            }
            Round::Structured(_) => Message::text("That is the plan.").into(),
            Round::Words(words) => Message::text(words).into(),
        }
    }
}

fn write_document(request: &Request, dir: &str) -> Reply {
    let path = Path::new(dir)
        .ancestors()
        .nth(2)
        .unwrap()
        .join("architecture.md");
    match request.tool_results().len() {
        0 => Message::call("Write", json!({"file_path": path, "content": DOCUMENT})).into(),
        _ => Message::text("The document is written.").into(),
    }
}

fn manifest(need: &str) -> Value {
    json!({"format": 1, "project": "tea", "stage": [
        {"id": "S01", "name": "Table", "prompt": "Write teas.csv.", "outputs": ["teas.csv"],
         "validation": {"kind": "command", "command": "test -s teas.csv"}},
        {"id": "S02", "name": "Look", "prompt": "Read it.", "needs": [need],
         "validation": {"kind": "files", "files": ["seen.txt"]}},
    ]})
}

fn written(stage: &Stage) -> Value {
    serde_json::from_str(&stage.project.read("plan.json")).unwrap()
}

/// Everything that the program said, and its exit code.
fn run(stage: &Stage, args: &[&str]) -> (String, Option<i32>) {
    let said = stage.ekiden().args(args).arg("--verbose").output().unwrap();
    let all = [said.stdout, said.stderr].concat();
    (
        String::from_utf8_lossy(&all).into_owned(),
        said.status.code(),
    )
}

// shows: PLN-01, PLN-07
#[test]
fn a_structured_answer_becomes_the_manifest() {
    let Some(stage) = Stage::set(
        "planning",
        planner(vec![Round::Structured(manifest("S01"))]),
    ) else {
        return;
    };
    let (said, code) = run(&stage, &["plan", "A shop for tea."]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(stage.project.read("architecture.md"), DOCUMENT);
    assert_eq!(written(&stage)["architecture"], "architecture.md");
    assert_eq!(written(&stage)["stage"][1]["needs"], json!(["S01"]));
    let requests = stage.api().main_requests();
    let with_tool = |request: &&Request| request.tools().contains(&"StructuredOutput");
    let first = requests.iter().find(with_tool).unwrap();
    assert!(
        first.text().contains("\u{a6} ## Summary"),
        "the document is data: {}",
        first.text()
    );
    assert!(
        !requests[0].tools().contains(&"StructuredOutput"),
        "the document is no answer"
    );
    assert!(
        !requests[0].system().contains("# Working in a relay"),
        "planning is no relay"
    );
}

// shows: PLN-07
#[test]
fn an_answer_in_a_fence_is_read() {
    let words = format!("Here it is:\n\n```json\n{:#}\n```\n", manifest("S01"));
    let Some(stage) = Stage::set("an answer in words", planner(vec![Round::Words(words)])) else {
        return;
    };
    let (said, code) = run(&stage, &["plan", "A shop for tea."]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(written(&stage)["project"], "tea");
}

// shows: PLN-07
#[test]
fn an_answer_with_faults_is_sent_back_twice() {
    let rounds = vec![
        Round::Structured(manifest("S9")),
        Round::Words("I cannot make JSON today.".to_owned()),
        Round::Structured(manifest("S01")),
    ];
    let Some(stage) = Stage::set("an answer with faults", planner(rounds)) else {
        return;
    };
    stage.project.write("architecture.md", DOCUMENT);
    let (said, code) = run(&stage, &["split", "architecture.md"]);
    assert_eq!(code, Some(0), "{said}");
    let last = stage.api().main_requests().last().unwrap().text();
    assert!(
        last.contains("\u{a6} - stage \"S02\" needs \"S9\", which does not exist"),
        "{last}"
    );
    assert!(
        last.contains("\u{a6} - there is no JSON object in the answer"),
        "{last}"
    );
    assert_eq!(last.matches(ASKED).count(), 2, "{last}");
}

// shows: PLN-07, SEC-01
#[test]
fn after_the_third_answer_with_faults_they_are_told() {
    let mut hostile = manifest("S01");
    hostile["stage"][0]["outputs"] = json!([".git/hooks/pre-commit"]);
    let words = Round::Words(hostile.to_string());
    let Some(stage) = Stage::set("an answer that stays wrong", planner(vec![words])) else {
        return;
    };
    stage.project.write("architecture.md", DOCUMENT);
    let (said, code) = run(&stage, &["split", "architecture.md"]);
    assert_eq!(code, Some(65), "{said}");
    assert!(
        said.contains("refused.json has 1 fault") && said.contains(".git/hooks/pre-commit"),
        "{said}"
    );
    assert!(
        !stage.project.path().join("plan.json").exists(),
        "nothing is written"
    );
    let requests = stage.api().main_requests();
    assert_eq!(requests.last().unwrap().text().matches(ASKED).count(), 2);
}

// shows: PLN-01
#[test]
fn what_stops_the_service_stops_planning_with_its_name() {
    let refuse =
        |_: &Request, _: &str| -> Reply { Status::error(401, "authentication_error", "no").into() };
    let Some(stage) = Stage::set("planning without a login", refuse) else {
        return;
    };
    let (said, code) = run(&stage, &["plan", "A shop for tea."]);
    assert_eq!(code, Some(69), "{said}");
    assert!(
        said.contains("the session stopped: the login is not accepted"),
        "{said}"
    );
}

/// The agent may write the document, whatever its permissions say of other files.
// shows: PLN-01
#[test]
fn a_document_that_is_missing_is_asked_for_once() {
    let model = |request: &Request, dir: &str| -> Reply {
        match request.text().contains("ekiden: the document is not there") {
            true if request.text().contains("Elsewhere") => write_document(request, dir),
            true => Message::text("Elsewhere").into(),
            false => Message::text("I would rather not.").into(),
        }
    };
    let Some(stage) = Stage::set("a document that is missing", model) else {
        return;
    };
    let (said, code) = run(&stage, &["plan", "A shop for tea."]);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("the document architecture.md is not there"),
        "{said}"
    );
}
