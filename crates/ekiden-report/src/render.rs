//! A page as Markdown and as one HTML file.
//!
//! Words that ekiden did not write are code or quotations in Markdown, where nothing in them is markup, and escaped in HTML,
//! where the templates escape everything but our own drawings. Neither has a script, a link or a part from elsewhere.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment};

use serde::Serialize;

use crate::page::Page;

const MARKDOWN: &str = include_str!("../templates/report.md");
const HTML: &str = include_str!("../templates/report.html");

/// The report as Markdown.
pub fn markdown(page: &Page) -> String {
    let text = rendered("report.md", MARKDOWN, page, || AutoEscape::None);
    // Blocks that may be missing leave empty lines.
    let mut lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.dedup_by(|next, line| next.is_empty() && line.is_empty());
    lines.join("\n").trim().to_owned() + "\n"
}

/// The report as one HTML file.
pub fn html(page: &Page) -> String {
    rendered("report.html", HTML, page, || AutoEscape::Html)
}

#[derive(Serialize)]
struct Context<'a> {
    page: &'a Page,
}

fn rendered(
    name: &'static str,
    template: &'static str,
    page: &Page,
    escape: fn() -> AutoEscape,
) -> String {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(move |_| escape());
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build();
    environment.set_syntax(syntax.expect("the delimiters are the usual ones"));
    environment.add_filter("code", |words: String| code(&words));
    environment.add_filter("fenced", |text: String| fenced(&text));
    environment.add_filter("drawing", |svg: String| Value::from_safe_string(svg));
    let made = environment.add_template(name, template).and_then(|()| {
        environment
            .get_template(name)?
            .render(Serde(Context { page }))
    });
    made.unwrap_or_else(|error| panic!("the template {name} is part of the program: {error}"))
}

/// Words as a code span that ends where they end.
fn code(words: &str) -> String {
    let fence = "`".repeat(longest_run(words) + 1);
    // Half of a table's row would be a cell.
    let words = words.replace('|', "\\|");
    let pad = if words.starts_with('`') || words.ends_with('`') {
        " "
    } else {
        ""
    };
    format!("{fence}{pad}{words}{pad}{fence}")
}

/// A text as a fenced block that ends where it ends.
fn fenced(text: &str) -> String {
    let fence = "`".repeat((longest_run(text) + 1).max(3));
    format!("{fence}text\n{text}\n{fence}")
}

fn longest_run(text: &str) -> usize {
    let runs = text.split(|c| c != '`');
    runs.map(str::len).max().unwrap_or(0)
}
