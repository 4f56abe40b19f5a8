//! A review by the real client: what it is given, what it may do, how it answers.

use ekiden_testkit::messages_api::{Message, Reply, Request};
use serde_json::{Value, json};

use crate::acting::finish;
use crate::looks::count;
use crate::stage::Stage;

fn is_reviewer(request: &Request) -> bool {
    request.tools().contains(&"StructuredOutput")
}

fn verdict(word: &str, findings: &Value) -> Reply {
    let answer = json!({"verdict": word, "findings": findings});
    Message::call("StructuredOutput", answer).into()
}

/// The worker claims that all is done; the reviewer finds something once, and tries to write.
fn model() -> impl FnMut(&Request, &str) -> Reply + Send + 'static {
    let mut reviews = 0;
    move |request, dir| {
        if !is_reviewer(request) {
            return finish(request, dir);
        }
        let results = request.tool_results();
        match (reviews, results.len()) {
            (0, 0) => {
                let input = json!({"file_path": "planted.txt", "content": "by the reviewer"});
                Message::call("Write", input).into()
            }
            (0, 1) => {
                reviews += 1;
                let finding = json!([{"place": "item.txt:1", "reason": "it is missing", "seen": "looked for it"}]);
                verdict("findings", &finding)
            }
            (1, 0) => {
                reviews += 1;
                verdict("pass", &json!([]))
            }
            _ => Message::text("That is my verdict.").into(),
        }
    }
}

// shows: REL-38, AGT-12
#[test]
fn findings_of_a_real_reviewer_reach_the_next_session_and_it_writes_nothing() {
    let Some(stage) = Stage::set("a review", model()) else {
        return;
    };
    let told = stage
        .start(&["run", "Make one item.", "--review"])
        .expect_exit(0);
    assert_eq!(count(&told, "session_started"), 4, "{told:#?}");
    assert!(!stage.project.path().join("planted.txt").exists());
    let requests = stage.api().main_requests();
    let reviewer = requests
        .iter()
        .find(|request| is_reviewer(request))
        .unwrap();
    for writing in ["Write", "Edit", "Bash"] {
        assert!(!reviewer.tools().contains(&writing), "{writing}");
    }
    assert!(!reviewer.system().contains("# Working in a relay"));
    let worker = |request: &&Request| !is_reviewer(request);
    let read = requests.iter().rfind(worker).unwrap().text();
    assert!(read.contains("it is missing"), "{read}");
}
