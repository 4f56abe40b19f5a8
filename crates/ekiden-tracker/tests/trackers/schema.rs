//! What is sent to Linear, against its published schema, as the crate `linear-schema` ships it: every field, argument and variable of the
//! documents, and every value that goes with them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use ekiden_testkit::trackers::FakeLinear;
use ekiden_tracker::{LivingComment, NewIssue, NewState, Tracker as _};
use graphql_parser::query::{
    self, Definition, OperationDefinition, Selection, SelectionSet, VariableDefinition,
};
use graphql_parser::schema::{self, InputValue, Type, TypeDefinition};
use serde_json::Value;

use crate::{AT, Near, linear};

/// Cargo knows where it unpacked the crate; nothing of it is built.
#[expect(
    clippy::disallowed_methods,
    reason = "a test asks cargo where a crate lies"
)]
fn published() -> String {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .args(["--features", "ekiden-testkit/linear-schema"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let metadata: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{said}"));
    let mut packages = metadata["packages"].as_array().unwrap().iter();
    let package = packages.find(|package| package["name"] == "linear-schema");
    let manifest = PathBuf::from(package.unwrap()["manifest_path"].as_str().unwrap());
    std::fs::read_to_string(manifest.with_file_name("linear.graphql")).unwrap()
}

/// What a field takes and gives.
type Field<'a> = (&'a [InputValue<'a, String>], &'a str);

struct Schema<'a> {
    /// Fields of objects.
    fields: BTreeMap<&'a str, BTreeMap<&'a str, Field<'a>>>,
    /// Fields of inputs.
    inputs: BTreeMap<&'a str, &'a [InputValue<'a, String>]>,
}

impl<'a> Schema<'a> {
    fn of(document: &'a schema::Document<'a, String>) -> Self {
        let (mut fields, mut inputs) = (BTreeMap::new(), BTreeMap::new());
        for definition in &document.definitions {
            let schema::Definition::TypeDefinition(known) = definition else {
                continue;
            };
            if let TypeDefinition::Object(object) = known {
                let of_it = object.fields.iter().map(|field| {
                    let gives = named(&field.field_type);
                    (field.name.as_str(), (field.arguments.as_slice(), gives))
                });
                fields.insert(object.name.as_str(), of_it.collect());
            } else if let TypeDefinition::InputObject(input) = known {
                inputs.insert(input.name.as_str(), input.fields.as_slice());
            }
        }
        Self { fields, inputs }
    }

    fn check(&self, document: &str) -> Result<(), String> {
        let document = graphql_parser::parse_query::<String>(document).unwrap();
        let (root, variables, selection) = operation(&document);
        let variables = variables.iter();
        let variables = variables.map(|one| (one.name.as_str(), one.var_type.to_string()));
        self.check_selection(root, selection, &variables.collect())
    }

    fn check_selection(
        &self,
        of: &str,
        selection: &SelectionSet<'_, String>,
        variables: &BTreeMap<&str, String>,
    ) -> Result<(), String> {
        for item in &selection.items {
            let Selection::Field(field) = item else {
                return Err("a fragment".to_owned());
            };
            let place = format!("{of}.{}", field.name);
            let known = self
                .fields
                .get(of)
                .and_then(|fields| fields.get(field.name.as_str()));
            let (takes, gives) = known.ok_or(format!("no field {place}"))?;
            for (name, value) in &field.arguments {
                let argument = takes.iter().find(|known| known.name == *name);
                let argument = argument.ok_or(format!("no argument {name} of {place}"))?;
                self.check_argument(argument, value, variables, &place)?;
            }
            let missing = takes.iter().find(|known| {
                let is_given = field.arguments.iter().any(|(name, _)| *name == known.name);
                matches!(known.value_type, Type::NonNullType(_)) && !is_given
            });
            if let Some(missing) = missing {
                return Err(format!("{place} needs {}", missing.name));
            }
            let is_object = self.fields.contains_key(gives);
            if is_object == field.selection_set.items.is_empty() {
                return Err(format!("{place} is {gives}"));
            }
            self.check_selection(gives, &field.selection_set, variables)?;
        }
        Ok(())
    }

    fn check_argument(
        &self,
        argument: &InputValue<'_, String>,
        value: &query::Value<'_, String>,
        variables: &BTreeMap<&str, String>,
        place: &str,
    ) -> Result<(), String> {
        if let query::Value::Variable(name) = value {
            let given = &variables[name.as_str()];
            let wanted = argument.value_type.to_string();
            // What may not be null can stand where null may.
            let fits = given.trim_end_matches('!') == wanted.trim_end_matches('!')
                && (given.ends_with('!') || !wanted.ends_with('!'));
            return match fits {
                true => Ok(()),
                false => Err(format!("${name} is {given}, {place} takes {wanted}")),
            };
        }
        let query::Value::Object(fields) = value else {
            return Ok(());
        };
        let known = self.inputs[named(&argument.value_type)];
        fields.iter().try_for_each(|(name, value)| {
            let field = known.iter().find(|known| known.name == *name);
            let field = field.ok_or(format!("no field {name} in {place}"))?;
            self.check_argument(field, value, variables, place)
        })
    }

    /// The values of a request, by the types of its variables.
    fn check_values(&self, body: &Value) -> Result<(), String> {
        let text = body["query"].as_str().unwrap();
        let document = graphql_parser::parse_query::<String>(text).unwrap();
        let (_, variables, _) = operation(&document);
        for variable in variables {
            let value = &body["variables"][&variable.name];
            self.check_value(&variable.var_type, value)
                .map_err(|why| format!("{}: {why}", variable.name))?;
        }
        Ok(())
    }

    fn check_value(&self, of: &Type<'_, String>, value: &Value) -> Result<(), String> {
        match (of, value) {
            (Type::NonNullType(_), Value::Null) => Err("null".to_owned()),
            (_, Value::Null) => Ok(()),
            (Type::NonNullType(inner), value) => self.check_value(inner, value),
            (Type::ListType(inner), Value::Array(items)) => items
                .iter()
                .try_for_each(|item| self.check_value(inner, item)),
            (Type::NamedType(name), Value::Object(fields)) => {
                let known = self
                    .inputs
                    .get(name.as_str())
                    .ok_or(format!("{name} is no input"))?;
                fields.iter().try_for_each(|(field, value)| {
                    let found = known.iter().find(|known| known.name == *field);
                    let found = found.ok_or(format!("no field {field} in {name}"))?;
                    self.check_value(&found.value_type, value)
                })
            }
            (Type::NamedType(name), Value::String(_)) if *name == "String" => Ok(()),
            (wanted, value) => Err(format!("{value} is no {wanted}")),
        }
    }
}

/// The only operation of a document: its root type, what it takes, what it asks for.
fn operation<'d, 'q>(
    document: &'d query::Document<'q, String>,
) -> (
    &'static str,
    &'d [VariableDefinition<'q, String>],
    &'d SelectionSet<'q, String>,
) {
    let [Definition::Operation(operation)] = document.definitions.as_slice() else {
        panic!("not one operation");
    };
    if let OperationDefinition::Query(query) = operation {
        return ("Query", &query.variable_definitions, &query.selection_set);
    }
    let OperationDefinition::Mutation(mutation) = operation else {
        panic!("another kind of operation");
    };
    (
        "Mutation",
        &mutation.variable_definitions,
        &mutation.selection_set,
    )
}

fn named<'r>(of: &'r Type<'_, String>) -> &'r str {
    match of {
        Type::NamedType(name) => name,
        Type::ListType(inner) | Type::NonNullType(inner) => named(inner),
    }
}

/// Does everything that a tracker can, and returns the bodies that were sent.
fn everything() -> Vec<Value> {
    let near = Near::new(FakeLinear::with(&["Accounts"]));
    let tracker = linear(&near);
    let new = |parent| NewIssue {
        key: "sub",
        title: "Part",
        text: "what",
        parent,
        since: AT,
    };
    for is_there in [false, true] {
        let living = LivingComment {
            key: "7f3a",
            body: "x".to_owned(),
            since: AT,
            is_there,
        };
        tracker.put_comment("ANV-1", &living).unwrap();
    }
    tracker.check().unwrap();
    tracker.issue("ANV-1").unwrap();
    tracker.comments("ANV-1").unwrap();
    tracker.find(Some("bug"), Some("leo@example.org")).unwrap();
    tracker.create(&new(Some("ANV-1"))).unwrap();
    tracker.create(&new(None)).unwrap();
    tracker.set_label("ANV-1", "bug", true).unwrap();
    tracker.set_label("ANV-1", "bug", false).unwrap();
    tracker.set_state("ANV-1", &NewState::Done).unwrap();
    let fake = near.0.lock().unwrap();
    fake.asked.iter().map(|asked| asked.body.clone()).collect()
}

// shows: TRK-08
#[test]
fn everything_that_linear_is_asked_is_in_its_schema() {
    let text = published();
    let document = graphql_parser::parse_schema::<String>(&text).unwrap();
    let schema = Schema::of(&document);
    let sent = everything();
    for document in ekiden_tracker::DOCUMENTS {
        schema.check(document).unwrap();
        assert!(
            sent.iter().any(|body| body["query"] == document),
            "not tried: {document}"
        );
    }
    for body in &sent {
        schema.check_values(body).unwrap();
    }
    for (known, renamed) in [
        ("identifier", "identifierOf"),
        ("String!", "Int!"),
        ("(id: $id)", ""),
    ] {
        let renamed = ekiden_tracker::DOCUMENTS[1].replace(known, renamed);
        schema.check(&renamed).unwrap_err();
    }
    let mut wrong = sent
        .iter()
        .find(|body| !body["variables"]["input"].is_null())
        .unwrap()
        .clone();
    wrong["variables"]["input"]["text"] = "x".into();
    schema.check_values(&wrong).unwrap_err();
}
