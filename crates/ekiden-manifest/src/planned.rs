//! A manifest that a model wrote: an answer from a stranger, checked before anybody sees it.
//!
//! A planner says what to do and how to tell that it is done. The user decides which agent does it, with
//! which model and within which limits. So the schema of an answer does not have those fields, and they are
//! faults if they come anyway. The kept text is made from the fields that were read, so the user approves the
//! same bytes that every later reader sees.

use ekiden_core::limits::MANIFEST_FAULTS_TOLD_MAX;
use serde_json::{Map, Value, json};

use crate::document::{Defaults, Document, TextAlone};
use crate::fault::{Fault, Faults, quoted};
use crate::own::schema;
use crate::read::read;
use crate::syntax::Syntax;

/// Fields of a plan that only the user sets.
const USERS: [&str; 3] = ["$schema", "architecture", "jobs"];
/// Fields of a stage that only the user sets.
const USERS_OF_STAGE: [&str; 13] = [
    "prompt_file",
    "retries",
    "sessions_max",
    "turns_max",
    "session_tokens",
    "session_budget_usd",
    "model",
    "agent",
    "marker",
    "runs_on",
    "review",
    "review_model",
    "knowledge_apart",
];
/// Keywords of our schema that readers of schemas treat differently.
const HEAD: [&str; 3] = ["$schema", "title", "description"];

/// An answer that is not a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The lines of the faults are those of this text.
    pub text: String,
    pub faults: Faults,
}

impl Refused {
    /// The faults for the model, which did not see the text in these lines.
    pub fn without_lines(&self) -> Vec<String> {
        let without_line = |fault: &Fault| match &fault.hint {
            Some(hint) => format!("{}: {hint}", fault.text),
            None => fault.text.clone(),
        };
        self.faults.shown.iter().map(without_line).collect()
    }
}

/// The schema for a planner's answer: ours without the user's fields.
pub fn planned_schema() -> Value {
    let mut schema = schema();
    remove(&mut schema, &HEAD);
    remove(&mut schema["properties"], &USERS);
    let stage = &mut schema["properties"]["stage"]["items"];
    remove(stage, &["oneOf"]);
    remove(&mut stage["properties"], &USERS_OF_STAGE);
    stage["required"] = json!(["id", "name", "prompt"]);
    schema
}

/// Removes keys from an object, and returns those that were there.
fn remove<'k>(object: &mut Value, keys: &'k [&'k str]) -> Vec<&'k str> {
    let there = |key: &&&str| {
        let object = object.as_object_mut();
        object.is_some_and(|object| object.remove(**key).is_some())
    };
    keys.iter().filter(there).copied().collect()
}

/// Reads a planner's answer into the text of a manifest. `architecture` is the document that the plan
/// follows, from the work dir, if stages can get it.
pub fn planned(answer: &str, architecture: Option<&str>) -> Result<String, Refused> {
    let refused = |text: &str, shown: Vec<Fault>, more| Refused {
        text: text.to_owned(),
        faults: Faults { shown, more },
    };
    let Ok(object) = serde_json::from_str::<Map<String, Value>>(answer) else {
        // The reader of files knows better what is wrong with it, and where.
        let fault = Fault::new(None, "the answer is not a JSON object");
        let found = read_text(answer).err().unwrap_or_else(|| fault.into());
        return Err(refused(answer, found.shown, found.more));
    };
    let mut manifest = Value::Object(object);
    let mut faults = checked(&mut manifest);
    if manifest.get("format").is_none() {
        manifest["format"] = json!(1);
    }
    if let Some(architecture) = architecture {
        manifest["architecture"] = json!(architecture);
    }
    let text = format!("{manifest:#}\n");
    let found = read_text(&text).err();
    let more = found.as_ref().map_or(0, |found| found.more);
    faults.extend(found.into_iter().flat_map(|found| found.shown));
    if faults.is_empty() {
        Ok(text)
    } else {
        Err(refused(&text, faults, more))
    }
}

fn read_text(text: &str) -> Result<Document, Faults> {
    read(text, Syntax::Json, &Defaults::default(), &mut TextAlone)
}

/// Removes the fields that only the user sets, and finds stages with neither a validation nor a reason for
/// its absence.
fn checked(manifest: &mut Value) -> Vec<Fault> {
    let of_user = |who: &str, field: &str| {
        let text = format!("{who}{} is for the user to set", quoted(field));
        Fault::new(None, &text).hint("leave it out".to_owned())
    };
    let top = remove(manifest, &USERS).into_iter();
    let mut faults: Vec<Fault> = top.map(|field| of_user("", field)).collect();
    let stages = manifest.get_mut("stage").and_then(Value::as_array_mut);
    for stage in stages.into_iter().flatten() {
        let text = |value: &Value| value.as_str().unwrap_or_default().trim().to_owned();
        let who = format!("stage {}", quoted(&text(&stage["id"])));
        let found = remove(stage, &USERS_OF_STAGE).into_iter();
        faults.extend(found.map(|field| of_user(&format!("{who}: "), field)));
        let kind = text(&stage["validation"]["kind"]);
        if matches!(kind.as_str(), "" | "none") && text(&stage["description"]).is_empty() {
            let what = format!("{who} has no validation, and no reason why");
            let hint = "give it one, or the reason in its description".to_owned();
            faults.push(Fault::new(None, &what).hint(hint));
        }
    }
    faults.truncate(MANIFEST_FAULTS_TOLD_MAX);
    faults
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
        planned(answer, Some("architecture.md"))
            .unwrap_err()
            .without_lines()
    }

    // shows: PLN-07
    #[test]
    fn a_fault_and_its_remedy_stand_apart() {
        let told = faults(&GOOD.replace("[\"S01\"]", "[\"S0\"]"));
        assert_eq!(
            told,
            ["stage \"S02\" needs \"S0\", which does not exist: did you mean \"S01\"?"]
        );
    }

    // shows: PLN-07
    #[test]
    fn a_good_answer_is_kept_as_it_was_read() {
        let planned = planned(GOOD, Some("docs/architecture.md")).unwrap();
        let document = read_text(&planned).unwrap();
        assert_eq!(
            document
                .architecture
                .map(|document| document.name)
                .as_deref(),
            Some("docs/architecture.md")
        );
        assert_eq!(document.stages.len(), 2);
    }

    // shows: PLN-07, PLN-23
    #[test]
    fn every_fault_is_told_to_whoever_wrote_it() {
        let wrong = GOOD.replace("\"S01\"]", "\"S9\"]");
        let told = faults(&wrong);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].starts_with("stage \"S02\" needs \"S9\", which does not exist"),
            "{told:?}"
        );
        let told = faults(&GOOD.replace("nothing to run", ""));
        assert!(
            told[0].contains("has no validation, and no reason why"),
            "{told:?}"
        );
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
            assert!(
                told[0].contains(&format!("\"{field}\" is for the user to set")),
                "{told:?}"
            );
        }
        let told =
            faults(&GOOD.replacen('{', "{\"architecture\": \"../secret\", \"jobs\": 64,", 1));
        assert_eq!(told.len(), 2, "{told:?}");
    }

    // shows: PLN-07
    #[test]
    fn the_schema_asks_for_what_is_read_and_nothing_else() {
        let schema = planned_schema();
        let stage = &schema["properties"]["stage"]["items"];
        let fields: Vec<&String> = stage["properties"].as_object().unwrap().keys().collect();
        assert!(
            fields
                .iter()
                .all(|field| !USERS_OF_STAGE.contains(&field.as_str())),
            "{fields:?}"
        );
        assert_eq!(stage["required"], json!(["id", "name", "prompt"]));
        let text = schema.to_string();
        assert!(
            !text.contains("oneOf") && !text.contains("$schema"),
            "{text}"
        );
    }
}
