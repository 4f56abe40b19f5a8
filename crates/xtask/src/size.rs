//! `cargo xtask size`: lines of Rust by crate and folder, as rustfmt's defaults lay them out.
//!
//! *Product* is the shipped code: `src` without test files and without items under `#[cfg(test)]`, blank
//! lines and comments included. *Tests* is all other Rust of the shipped crates. Code that is never shipped
//! is listed separately.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;

use syn::spanned::Spanned;

use crate::shell;
use crate::tidy::{NEVER_SHIPPED, SourceFile, Tree};

const PAGE: &str = "docs/design/size.md";
/// [`write()`] writes everything between these lines of the page.
const BEGIN: &str = "<!-- `cargo xtask size --write` writes what follows -->\n";
const END: &str = "<!-- end of the table -->\n";

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Lines {
    product: usize,
    tests: usize,
    /// Of the product's lines.
    comments: usize,
}

impl AddAssign for Lines {
    fn add_assign(&mut self, other: Self) {
        self.product += other.product;
        self.tests += other.tests;
        self.comments += other.comments;
    }
}

/// Lines by crate and folder.
struct Sizes {
    parts: BTreeMap<Part, Lines>,
}

/// A crate, and a folder below its `src`; an empty name is `src` itself.
type Part = (String, String);

pub(crate) fn print() -> Result<(), String> {
    shell::say(
        Sizes::of(&Tree::read(shell::root())?)
            .to_string()
            .trim_end(),
    );
    Ok(())
}

/// Writes the table into the page that keeps it beside the earlier figures.
pub(crate) fn write() -> Result<(), String> {
    let path = shell::root().join(PAGE);
    let text = shell::read(&path)?;
    let parts = text.split_once(BEGIN).zip(text.split_once(END));
    let Some(((before, _), (_, after))) = parts else {
        return Err(format!("{PAGE} has lost its marks: {BEGIN}{END}"));
    };
    let table = Sizes::of(&Tree::read(shell::root())?);
    shell::write(&path, &format!("{before}{BEGIN}\n{table}\n{END}{after}"))
}

impl Sizes {
    fn of(tree: &Tree) -> Self {
        let mut parts: BTreeMap<Part, Lines> = BTreeMap::new();
        for file in tree.ending(".rs") {
            if let Some(part) = part(file) {
                *parts.entry(part).or_default() += lines(file);
            }
        }
        Self { parts }
    }

    fn of_crate(&self, name: &str) -> Lines {
        let mut sum = Lines::default();
        for (_, lines) in self.parts.iter().filter(|((of, _), _)| of == name) {
            sum += *lines;
        }
        sum
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| part | product | of it comments | tests |")?;
        writeln!(f, "|---|---:|---:|---:|")?;
        let mut row = |name: &str, lines: Lines| {
            let Lines {
                product,
                tests,
                comments,
            } = lines;
            writeln!(f, "| {name} | {product} | {comments} | {tests} |")
        };
        let mut shipped = Lines::default();
        let mut last = "";
        for ((name, folder), lines) in &self.parts {
            if name != last {
                last = name;
                row(&format!("**{name}**"), self.of_crate(name))?;
            }
            if self.of_crate(name) != *lines {
                row(&format!("{name}/{folder}"), *lines)?;
            }
            if !NEVER_SHIPPED.contains(&name.as_str()) {
                shipped += *lines;
            }
        }
        row("**all that is shipped**", shipped)
    }
}

fn part(file: &SourceFile) -> Option<Part> {
    let inside = file.path.strip_prefix("crates/")?;
    let (name, inside) = inside.split_once('/')?;
    let folder = inside
        .strip_prefix("src/")
        .and_then(|path| path.split_once('/'));
    let folder = match folder {
        Some((folder, _)) if !NEVER_SHIPPED.contains(&name) => folder,
        Some(_) | None => "",
    };
    Some((name.to_owned(), folder.to_owned()))
}

fn lines(file: &SourceFile) -> Lines {
    let all = file.text.lines().count();
    let shipped = file
        .crate_name()
        .is_some_and(|name| !NEVER_SHIPPED.contains(&name));
    if !shipped || !file.is_production() {
        return Lines {
            tests: all,
            ..Lines::default()
        };
    }
    let tests = test_lines(&file.text);
    let is_comment = |(number, line): &(usize, &str)| {
        line.trim_start().starts_with("//") && !tests.iter().any(|range| range.contains(number))
    };
    let in_tests: usize = tests.iter().map(|range| range.clone().count()).sum();
    Lines {
        product: all - in_tests,
        tests: in_tests,
        comments: file.lines().filter(is_comment).count(),
    }
}

/// The lines of items that only tests see.
fn test_lines(text: &str) -> Vec<std::ops::RangeInclusive<usize>> {
    let Ok(syntax) = syn::parse_file(text) else {
        return Vec::new();
    };
    let is_test = |item: &&syn::Item| attributes(item).iter().any(is_test_only);
    let range = |item: &syn::Item| item.span().start().line..=item.span().end().line;
    syntax.items.iter().filter(is_test).map(range).collect()
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "no other kind stands under `#[cfg(test)]` here"
)]
fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// `#[cfg(test)]`.
pub(crate) fn is_test_only(attribute: &syn::Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute
            .parse_args::<syn::Ident>()
            .is_ok_and(|condition| condition == "test")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn product_tests_and_comments_are_told_apart() {
        let own = "//! Head.\n\nfn a() {}\n\n#[cfg(test)]\nmod tests {\n    // Not counted.\n}\n";
        let tree = Tree::of(&[
            ("crates/ekiden-a/src/lib.rs", own),
            ("crates/ekiden-a/src/b/mod.rs", "fn b() {}\n"),
            ("crates/ekiden-a/src/b/tests.rs", "fn c() {}\n"),
            ("crates/ekiden-a/tests/d.rs", "fn d() {}\n"),
            ("crates/xtask/src/main.rs", "fn e() {}\n"),
        ]);
        expect_test::expect![[r"
            | part | product | of it comments | tests |
            |---|---:|---:|---:|
            | **ekiden-a** | 5 | 1 | 6 |
            | ekiden-a/ | 4 | 1 | 5 |
            | ekiden-a/b | 1 | 0 | 1 |
            | **xtask** | 0 | 0 | 1 |
            | **all that is shipped** | 5 | 1 | 6 |
        "]]
        .assert_eq(&Sizes::of(&tree).to_string());
    }
}
