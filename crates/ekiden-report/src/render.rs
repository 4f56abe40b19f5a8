//! A page as Markdown and as one HTML file, and the drawings in it.
//!
//! Text that ekiden did not write is code or a quotation in Markdown, where nothing in it is markup. In HTML and
//! drawings it is escaped: the templates escape everything except a finished drawing. Neither form has a script, a
//! link or a part from elsewhere.

use std::sync::LazyLock;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment, context};

use crate::page::Page;

/// How the HTML looks: light and dark, from a phone's width on.
pub const STYLE: &str = include_str!("../templates/report.css");

const TEMPLATES: [(&str, &str); 9] = [
    ("report.md", include_str!("../templates/report.md")),
    ("report.html", include_str!("../templates/report.html")),
    ("main.html", include_str!("../templates/main.html")),
    ("report.css", STYLE),
    ("drawing.svg", include_str!("../templates/drawing.svg")),
    ("context.svg", include_str!("../templates/context.svg")),
    ("costs.svg", include_str!("../templates/costs.svg")),
    ("budget.svg", include_str!("../templates/budget.svg")),
    ("graph.svg", include_str!("../templates/graph.svg")),
];

static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    environment().unwrap_or_else(|error| panic!("the templates are part of the program: {error}"))
});

pub fn markdown(page: &Page) -> String {
    let text = rendered("report.md", context! { page => Serde(page) });
    // Blocks that may be missing leave empty lines.
    let mut lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.dedup_by(|next, line| next.is_empty() && line.is_empty());
    lines.join("\n").trim().to_owned() + "\n"
}

/// The report as one HTML file.
pub fn html(page: &Page) -> String {
    rendered("report.html", context! { page => Serde(page) })
}

/// The content of `<main>` of a page about the run. It has neither scripts nor styles inside, so a page whose content
/// security policy allows only [`STYLE`] shows it whole.
pub fn main(page: &Page) -> String {
    rendered("main.html", context! { page => Serde(page) })
}

/// A page or a drawing.
pub(crate) fn rendered(name: &str, parts: Value) -> String {
    let template = ENVIRONMENT.get_template(name);
    let rendered = template.and_then(|template| template.render(parts));
    rendered.unwrap_or_else(|error| panic!("the template {name} is part of the program: {error}"))
}

fn environment() -> Result<Environment<'static>, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|name| match name.ends_with(".md") {
        true => AutoEscape::None,
        false => AutoEscape::Html,
    });
    let mut syntax = SyntaxConfig::builder();
    environment.set_syntax(syntax.trim_blocks(true).lstrip_blocks(true).build()?);
    environment.add_filter("code", |words: String| code(&words));
    // Half of a table's row would be a cell.
    environment.add_filter("cell", |text: String| text.replace('|', "\\|"));
    environment.add_filter("fenced", |text: String| fenced(&text));
    environment.add_filter("drawing", |svg: String| Value::from_safe_string(svg));
    for (name, template) in TEMPLATES {
        environment.add_template(name, template)?;
    }
    Ok(environment)
}

/// A code span that no word in it can end.
fn code(words: &str) -> String {
    let fence = "`".repeat(longest_run(words) + 1);
    let pad = if words.starts_with('`') || words.ends_with('`') {
        " "
    } else {
        ""
    };
    format!("{fence}{pad}{words}{pad}{fence}")
}

/// A fenced block that no line in it can end.
fn fenced(text: &str) -> String {
    let fence = "`".repeat((longest_run(text) + 1).max(3));
    format!("{fence}text\n{text}\n{fence}")
}

fn longest_run(text: &str) -> usize {
    let runs = text.split(|c| c != '`');
    runs.map(str::len).max().unwrap_or(0)
}
