//! Rust files: documents, sizes, and where exceptions are.

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::{Fault, SourceFile, Tree};

/// Lines of production code in a file. Half of ours are below 150; above this nobody can read a file in one
/// sitting.
const FILE_LINES_MAX: usize = 500;
/// Lines of a function. Half of ours are below ten; one that is longer than a screen hides its branches.
const FUNCTION_LINES_MAX: usize = 70;
/// File names that say nothing about what is in the file.
const EMPTY_NAMES: &[&str] = &["common.rs", "helpers.rs", "imp.rs", "misc.rs", "utils.rs"];
/// The crate that may hold `unsafe`.
const UNSAFE_CRATE: &str = "ekiden-agent";
/// The only other place: a terminal for tests, which is given to a process between fork and exec.
const UNSAFE_TEST_SUPPORT: &str = "crates/ekiden-testkit/src/pty.rs";
/// The text that asks for it, in two halves so that this file does not contain it.
const UNSAFE_EXCEPTION: [&str; 2] = ["expect(unsafe", "_code"];
/// Crates that are pure: no exception from the lints that keep the world out.
const PURE_CRATES: &[&str] = &["ekiden-core", "ekiden-wire"];
const BOUNDARY_LINTS: &[&str] = &["clippy::disallowed_methods", "clippy::disallowed_macros"];

pub(super) fn check(tree: &Tree) -> Vec<Fault> {
    tree.ending(".rs").flat_map(check_file).collect()
}

fn check_file(file: &SourceFile) -> Vec<Fault> {
    let syntax = match syn::parse_file(&file.text) {
        Ok(syntax) => syntax,
        Err(error) => {
            return vec![Fault::at(
                &file.path,
                error.span().start().line,
                format!("{error}"),
            )];
        }
    };
    let mut faults = check_exceptions(file);
    let name = file.path.rsplit('/').next().unwrap_or_default();
    if EMPTY_NAMES.contains(&name) {
        faults.push(Fault::of(
            &file.path,
            "named after nothing; name it after the noun that it holds",
        ));
    }
    if file.is_production() {
        faults.extend(check_production(file, &syntax));
    }
    faults
}

fn check_production(file: &SourceFile, syntax: &syn::File) -> Vec<Fault> {
    let mut faults = Vec::new();
    if !syntax
        .attrs
        .iter()
        .any(|attribute| attribute.path().is_ident("doc"))
    {
        faults.push(Fault::of(&file.path, "no `//!` document at the top"));
    }
    let mut lengths = Lengths {
        path: &file.path,
        test_lines: 0,
        faults: Vec::new(),
    };
    lengths.visit_file(syntax);
    let lines = file.text.lines().count() - lengths.test_lines;
    if lines > FILE_LINES_MAX {
        let what = format!("{lines} lines of production code, at most {FILE_LINES_MAX}");
        faults.push(Fault::of(&file.path, what));
    }
    faults.extend(lengths.faults);
    faults
}

/// Exceptions from the lints that hold the arrows of the architecture.
fn check_exceptions(file: &SourceFile) -> Vec<Fault> {
    let name = file.crate_name().unwrap_or_default();
    let unsafe_exception = UNSAFE_EXCEPTION.concat();
    let attributes = file
        .lines()
        .filter(|(_, line)| !line.trim_start().starts_with("//"));
    let mut faults = Vec::new();
    for (number, line) in attributes {
        let may = name == UNSAFE_CRATE || file.path.ends_with(UNSAFE_TEST_SUPPORT);
        if !may && line.contains(&unsafe_exception) {
            faults.push(Fault::at(
                &file.path,
                number,
                format!("`unsafe` belongs in {UNSAFE_CRATE}"),
            ));
        }
        let excepted = BOUNDARY_LINTS.iter().any(|lint| line.contains(lint));
        if PURE_CRATES.contains(&name) && excepted && file.is_production() {
            faults.push(Fault::at(
                &file.path,
                number,
                format!("{name} is pure: no exception here"),
            ));
        }
    }
    faults
}

/// Measures functions, and finds the lines that belong to tests.
struct Lengths<'a> {
    path: &'a str,
    test_lines: usize,
    faults: Vec<Fault>,
}

impl Lengths<'_> {
    fn function(&mut self, name: &syn::Ident, from: Span, to: Span) {
        let lines = to.end().line + 1 - from.start().line;
        if lines > FUNCTION_LINES_MAX {
            let what = format!("fn {name} has {lines} lines, at most {FUNCTION_LINES_MAX}");
            self.faults
                .push(Fault::at(self.path, from.start().line, what));
        }
    }
}

impl<'ast> Visit<'ast> for Lengths<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if attributes(item).iter().any(is_test_only) {
            let span = item.span();
            self.test_lines += span.end().line + 1 - span.start().line;
        } else {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig.ident, item.sig.span(), item.block.span());
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig.ident, item.sig.span(), item.block.span());
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig.ident, item.sig.span(), block.span());
        }
        visit::visit_trait_item_fn(self, item);
    }
}

/// The attributes of the items that tests consist of.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "syn has many more items and may get others"
)]
fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// `#[cfg(test)]`.
pub(super) fn is_test_only(attribute: &syn::Attribute) -> bool {
    let list = attribute.meta.require_list();
    attribute.path().is_ident("cfg") && list.is_ok_and(|list| list.tokens.to_string() == "test")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)]))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_module_without_documents_is_a_fault_but_not_in_tests() {
        assert_eq!(
            faults("crates/a/src/b.rs", "fn main() {}\n"),
            ["crates/a/src/b.rs: no `//!` document at the top"]
        );
        assert!(faults("crates/a/src/b.rs", "//! What it is.\nfn main() {}\n").is_empty());
        assert!(faults("crates/a/tests/b.rs", "fn main() {}\n").is_empty());
    }

    #[test]
    fn long_functions_are_faults_wherever_they_hide() {
        let body = "    let _ = 1;\n".repeat(FUNCTION_LINES_MAX);
        let text = format!("//! D.\nimpl A {{\n    fn long() {{\n{body}    }}\n}}\n");
        assert_eq!(
            faults("crates/a/src/b.rs", &text),
            ["crates/a/src/b.rs:3: fn long has 72 lines, at most 70"]
        );
        let text =
            format!("//! D.\n#[cfg(test)]\nmod tests {{\n    fn long() {{\n{body}    }}\n}}\n");
        assert!(faults("crates/a/src/b.rs", &text).is_empty());
    }

    #[test]
    fn a_file_is_measured_without_its_tests() {
        let code = "const A: u8 = 1;\n".repeat(FILE_LINES_MAX - 1);
        let tests = "#[cfg(test)]\nmod tests {\n    use super::*;\n}\n";
        assert!(faults("crates/a/src/b.rs", &format!("//! D.\n{code}{tests}")).is_empty());
        assert_eq!(
            faults(
                "crates/a/src/b.rs",
                &format!("//! D.\n{code}const B: u8 = 1;\n{tests}")
            ),
            ["crates/a/src/b.rs: 501 lines of production code, at most 500"]
        );
    }

    #[test]
    fn exceptions_stand_where_they_may() {
        let text = &format!(
            "//! D.\n#![{}, reason = \"r\")]\n",
            UNSAFE_EXCEPTION.concat()
        );
        assert_eq!(
            faults("crates/ekiden/src/a.rs", text),
            ["crates/ekiden/src/a.rs:2: `unsafe` belongs in ekiden-agent"]
        );
        assert!(faults("crates/ekiden-agent/src/a.rs", text).is_empty());
        let text = "//! D.\n#![expect(clippy::disallowed_methods, reason = \"r\")]\n";
        assert_eq!(faults("crates/ekiden-core/src/a.rs", text).len(), 1);
        assert!(faults("crates/ekiden-store/src/a.rs", text).is_empty());
    }

    #[test]
    fn names_that_say_nothing_and_text_that_is_no_rust_are_faults() {
        assert_eq!(faults("crates/a/src/utils.rs", "//! D.\n").len(), 1);
        assert_eq!(faults("crates/a/tests/b.rs", "fn {").len(), 1);
    }
}
