//! The pages around what `ekiden-report` draws. The templates escape everything except that.

use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, Value, context};

use super::runs::{Index, Shown};
use super::steer::SteerForm;

pub(super) const STYLE: &str = include_str!("templates/dash.css");
pub(super) const SCRIPT: &str = include_str!("templates/dash.js");

pub(super) fn index(index: &Index) -> String {
    rendered(
        "index.html",
        context! { index => Value::from(Serde(index)) },
    )
}

/// A run's page, with a link to its steering if there is one.
pub(super) fn run(run: &Shown, steer: bool) -> String {
    let main = Value::from_safe_string(run.main.clone());
    rendered(
        "run.html",
        context! { run => Value::from(Serde(run)), main, steer },
    )
}

pub(super) fn steering(run: &Shown, token: &str) -> String {
    rendered(
        "steer.html",
        context! { run => Value::from(Serde(run)), token },
    )
}

pub(super) fn confirmation(
    run: &Shown,
    asked: &SteerForm,
    question: Option<&str>,
    command: &str,
    token: &str,
) -> String {
    let (title, asked) = (asked.title(), Value::from(Serde(asked)));
    let run = Value::from(Serde(run));
    rendered(
        "confirm.html",
        context! { run, title, asked, question, command, token },
    )
}

/// Why something that was asked for did not happen.
pub(super) fn failure(run: &Shown, why: &str) -> String {
    rendered(
        "failure.html",
        context! { run => Value::from(Serde(run)), why },
    )
}

pub(super) fn message(text: &str) -> String {
    rendered("message.html", context! { text })
}

fn rendered(name: &str, context: Value) -> String {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    for (name, template) in [
        ("base.html", include_str!("templates/base.html")),
        ("index.html", include_str!("templates/index.html")),
        ("run.html", include_str!("templates/run.html")),
        ("steer.html", include_str!("templates/steer.html")),
        ("confirm.html", include_str!("templates/confirm.html")),
        ("failure.html", include_str!("templates/failure.html")),
        ("message.html", include_str!("templates/message.html")),
    ] {
        let added = environment.add_template(name, template);
        added.expect("the templates are part of the program");
    }
    let page = environment
        .get_template(name)
        .and_then(|page| page.render(context));
    page.unwrap_or_else(|error| panic!("the template {name} is part of the program: {error}"))
}
