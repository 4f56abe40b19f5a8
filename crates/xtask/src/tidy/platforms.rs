//! What one platform offers, the other offers too: a `linux.rs` and a `macos.rs` in the same folder have
//! the same functions with the same arguments and results. Nobody here compiles for both.

use super::{Fault, SourceFile, Tree};
use std::collections::BTreeSet;

pub(super) fn check(tree: &Tree) -> Vec<Fault> {
    tree.ending("/linux.rs")
        .flat_map(|linux| pair(tree, linux))
        .collect()
}

fn pair(tree: &Tree, linux: &SourceFile) -> Vec<Fault> {
    let path = linux.path.replace("/linux.rs", "/macos.rs");
    let Some(macos) = tree.get(&path) else {
        return vec![Fault::of(&linux.path, "has no `macos.rs` beside it")];
    };
    let (here, there) = (offered(&linux.text), offered(&macos.text));
    let lacks = |path: &str, name: &String| Fault::of(path, format!("lacks `{name}`"));
    let in_macos = here.difference(&there).map(|name| lacks(&macos.path, name));
    let in_linux = there.difference(&here).map(|name| lacks(&linux.path, name));
    in_macos.chain(in_linux).collect()
}

/// The signatures that other files can call, without argument names.
fn offered(text: &str) -> BTreeSet<String> {
    let Ok(syntax) = syn::parse_file(text) else {
        return BTreeSet::new();
    };
    let functions = syntax.items.into_iter().filter_map(|item| {
        let syn::Item::Fn(function) = item else {
            return None;
        };
        let is_offered = !matches!(function.vis, syn::Visibility::Inherited);
        is_offered.then_some(function.sig)
    });
    functions.map(|signature| shown(&signature)).collect()
}

fn shown(signature: &syn::Signature) -> String {
    let argument = |argument: &syn::FnArg| match argument {
        syn::FnArg::Typed(typed) => text_of(&typed.ty),
        syn::FnArg::Receiver(_) => "self".to_owned(),
    };
    let arguments: Vec<String> = signature.inputs.iter().map(argument).collect();
    let result = match &signature.output {
        syn::ReturnType::Default => String::new(),
        syn::ReturnType::Type(_, result) => format!(" -> {}", text_of(result)),
    };
    format!("{}({}){result}", signature.ident, arguments.join(", "))
}

/// A type as written in the source, without white space.
fn text_of(shown: &syn::Type) -> String {
    use syn::spanned::Spanned;
    shown
        .span()
        .source_text()
        .unwrap_or_default()
        .split_whitespace()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_one_platform_lacks_is_a_fault() {
        let faults = |linux, macos| -> Vec<String> {
            let files = [
                ("crates/a/src/linux.rs", linux),
                ("crates/a/src/macos.rs", macos),
            ];
            check(&Tree::of(&files))
                .iter()
                .map(ToString::to_string)
                .collect()
        };
        let both = "pub fn a(x: u32) -> bool { true }";
        let same = "fn own() {} pub fn a(y: u32) -> bool { false }";
        assert_eq!(faults(both, same), [""; 0]);
        let other = [
            "crates/a/src/linux.rs: lacks `a(u64) -> bool`",
            "crates/a/src/macos.rs: lacks `a(u32) -> bool`",
        ];
        let mut found = faults(both, "pub fn a(x: u64) -> bool { true }");
        found.sort();
        assert_eq!(found, other);
    }
}
