//! A manifest that a model wrote: an answer from a stranger, held against the format before anybody sees it.
//!
//! A planner says what is to be done and how it is told. Which agent does it, with which model and within
//! which limits is the user's to say, so those fields are no part of what it is asked for, and faults when
//! they come nevertheless. The text that is kept is made of what was read, so that the user approves the
//! same bytes that every later reader sees.

use serde_json::{Map, Value, json};

use super::fault::quoted;
use super::{Document, Fault, Faults, Syntax, Validation, read, schema};

/// What the user alone says of a plan.
const USERS: [&str; 3] = ["$schema", "architecture", "jobs"];
/// What the user alone says of a stage.
const USERS_OF_STAGE: [&str; 10] = [
    "prompt_file",
    "retries",
    "sessions_max",
    "turns_max",
    "session_tokens",
    "session_budget_usd",
    "model",
    "agent",
    "marker",
    "knowledge_apart",
];
/// Keywords of our schema that readers of schemas take in different ways.
const HEAD: [&str; 3] = ["$schema", "title", "description"];

/// A manifest that can be shown and approved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// Its text, in JSON.
    pub text: String,
    /// What it says.
    pub document: Document,
}

/// An answer that is no manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// What the faults are told of: their lines are those of this text.
    pub text: String,
    /// Everything that is wrong.
    pub faults: Faults,
}

impl Refused {
    /// The faults without lines, for whoever wrote the answer and did not see it so.
    #[must_use]
    pub fn told(&self) -> Vec<String> {
        let told = |fault: &Fault| Fault { line: None, ..fault.clone() }.to_string();
        self.faults.told.iter().map(told).collect()
    }
}

/// The schema that a planner's answer is held to: ours without what is the user's to say.
#[must_use]
pub fn planned_schema() -> Value {
    let mut schema = schema();
    if let Value::Object(schema) = &mut schema {
        HEAD.iter().for_each(|key| drop(schema.remove(*key)));
    }
    leave_out(&mut schema, &USERS);
    let stage = &mut schema["properties"]["stage"]["items"];
    leave_out(stage, &USERS_OF_STAGE);
    if let Value::Object(object) = &mut *stage {
        object.remove("oneOf");
    }
    if let Some(Value::Array(needed)) = stage.get_mut("required") {
        needed.push(json!("prompt"));
    }
    schema
}

fn leave_out(object: &mut Value, fields: &[&str]) {
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        fields.iter().for_each(|field| drop(properties.remove(*field)));
    }
}

/// Reads a planner's answer; `architecture` is the document that the plan follows, from the work dir, if its
/// stages can be shown it.
///
/// # Errors
///
/// Everything that is wrong with it.
pub fn planned(answer: &str, architecture: Option<&str>) -> Result<Planned, Refused> {
    let refused = |text: &str, faults: Faults| Refused { text: text.to_owned(), faults };
    let Ok(mut object) = serde_json::from_str::<Map<String, Value>>(answer) else {
        // The reader of files knows better what is wrong with it, and where.
        let faults = read(answer, Syntax::Json).err();
        let none = || Fault::new(None, "the answer is no JSON object").into();
        return Err(refused(answer, faults.unwrap_or_else(none)));
    };
    let mut faults = users_fields(&object);
    object.remove("architecture");
    object.entry("format").or_insert_with(|| json!(1));
    if let Some(architecture) = architecture {
        object.insert("architecture".to_owned(), json!(architecture));
    }
    // A map of strings and values is always written.
    let text = serde_json::to_string_pretty(&object).unwrap_or_default() + "\n";
    match read(&text, Syntax::Json) {
        Ok(document) => {
            faults.extend(unchecked(&document));
            if faults.is_empty() {
                return Ok(Planned { text, document });
            }
            Err(refused(&text, Faults { told: faults, more: 0 }))
        }
        Err(found) => {
            faults.extend(found.told);
            Err(refused(&text, Faults { told: faults, more: found.more }))
        }
    }
}

/// Fields that are not the planner's.
fn users_fields(object: &Map<String, Value>) -> Vec<Fault> {
    let fault = |who: &str, field: &str| {
        Fault::new(None, &format!("{who}{} is the user's to say", quoted(field))).hint("leave it out")
    };
    let top = USERS.iter().filter(|field| object.contains_key(**field)).map(|field| fault("", field));
    let stages = object.get("stage").and_then(Value::as_array).into_iter().flatten();
    let within = stages.filter_map(Value::as_object).flat_map(|stage| {
        let id = stage.get("id").and_then(Value::as_str).unwrap_or_default();
        let who = format!("stage {}: ", quoted(id));
        let found = USERS_OF_STAGE.iter().filter(|field| stage.contains_key(**field));
        found.map(|field| fault(&who, field)).collect::<Vec<_>>()
    });
    top.chain(within).take(crate::limits::MANIFEST_FAULTS_TOLD_MAX).collect()
}

/// Stages of which nothing tells that they are done, and nobody said why.
fn unchecked(document: &Document) -> Vec<Fault> {
    let bare = document
        .stages
        .iter()
        .filter(|stage| stage.validation == Validation::None && stage.description.trim().is_empty());
    let told = bare.map(|stage| {
        let text = format!("stage {} has no validation, and no reason why", quoted(stage.id.as_str()));
        Fault::new(stage.line, &text).hint("give it one, or the reason in its description")
    });
    told.take(crate::limits::MANIFEST_FAULTS_TOLD_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"project": "shop", "stage": [
        {"id": "S01", "name": "Tea", "prompt": "Brew.\n", "outputs": ["tea.txt"],
         "validation": {"kind": "command", "command": "test -s tea.txt"}},
        {"id": "S02", "name": "Look", "prompt": "Look.", "needs": ["S01"], "description": "nothing to run"}
    ]}"#;

    fn faults(answer: &str) -> Vec<String> {
        planned(answer, Some("architecture.md")).unwrap_err().told()
    }

    // shows: PLN-07
    #[test]
    fn a_good_answer_is_kept_as_it_was_read() {
        let planned = planned(GOOD, Some("docs/architecture.md")).unwrap();
        assert_eq!(
            planned.document.architecture.as_ref().map(|spot| spot.value.as_str()),
            Some("docs/architecture.md")
        );
        assert_eq!(planned.document.stages.len(), 2);
        assert_eq!(read(&planned.text, Syntax::Json).unwrap(), planned.document);
    }

    // shows: PLN-07, PLN-23
    #[test]
    fn every_fault_is_told_to_whoever_wrote_it() {
        let wrong = GOOD.replace("\"S01\"]", "\"S9\"]").replace("nothing to run", "");
        let told = faults(&wrong);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("stage \"S02\" needs \"S9\", which does not exist"), "{told:?}");
        let told = faults(&GOOD.replace("nothing to run", ""));
        assert!(told[0].contains("has no validation, and no reason why"), "{told:?}");
        let meet = GOOD.replace("\"needs\": [\"S01\"]", "\"outputs\": [\"*.txt\"]");
        assert_eq!(faults(&meet).len(), 1, "outputs of parallel stages meet");
        for text in ["", "[]", "{", "no", "{\"stage\": 1}", "3"] {
            assert!(!faults(text).is_empty(), "{text}");
        }
    }

    // shows: SEC-01
    #[test]
    fn agents_limits_and_files_are_not_the_planners_to_say() {
        for field in USERS_OF_STAGE {
            let answer = GOOD.replacen("\"name\"", &format!("\"{field}\": 1, \"name\""), 1);
            let told = faults(&answer);
            assert!(told[0].contains(&format!("\"{field}\" is the user's to say")), "{told:?}");
        }
        let told = faults(&GOOD.replacen('{', "{\"architecture\": \"../secret\", \"jobs\": 64,", 1));
        assert_eq!(told.len(), 2, "{told:?}");
    }

    // shows: PLN-07
    #[test]
    fn the_schema_asks_for_what_is_read_and_nothing_else() {
        let schema = planned_schema();
        let stage = &schema["properties"]["stage"]["items"];
        let fields: Vec<&String> = stage["properties"].as_object().unwrap().keys().collect();
        assert!(fields.iter().all(|field| !USERS_OF_STAGE.contains(&field.as_str())), "{fields:?}");
        assert_eq!(stage["required"], json!(["id", "name", "prompt"]));
        let text = schema.to_string();
        assert!(!text.contains("oneOf") && !text.contains("$schema"), "{text}");
    }
}
