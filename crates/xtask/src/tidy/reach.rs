//! Files that cargo never compiles: a forgotten `mod`, a test in a directory without a root.
//!
//! The check follows every `mod name;` from the roots that cargo finds or a manifest names. A file that it
//! does not reach is forgotten.

use std::collections::BTreeSet;

use super::{Fault, SourceFile, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Fault> {
    let mut reached = BTreeSet::new();
    for root in tree.ending(".rs").filter(|file| is_root(tree, file)) {
        follow(tree, root, directory(&root.path), &mut reached);
    }
    let forgotten = tree
        .ending(".rs")
        .filter(|file| !reached.contains(file.path.as_str()));
    forgotten
        .map(|file| Fault::of(&file.path, "no part of any target: nothing compiles it"))
        .collect()
}

/// Cargo starts to compile here.
fn is_root(tree: &Tree, file: &SourceFile) -> bool {
    let Some(name) = file.crate_name() else {
        return false;
    };
    let inside = file
        .path
        .strip_prefix(&format!("crates/{name}/"))
        .unwrap_or_default();
    let parts: Vec<&str> = inside.split('/').collect();
    let found = matches!(
        parts.as_slice(),
        ["build.rs"]
            | ["src", "lib.rs" | "main.rs"]
            | ["src", "bin", _]
            | ["src", "bin", _, "main.rs"]
            | ["tests" | "benches" | "examples", _]
            | ["tests" | "benches" | "examples", _, "main.rs"]
    );
    found || named_targets(tree, name).iter().any(|path| path == inside)
}

/// The `path` of each target that the manifest names.
fn named_targets(tree: &Tree, name: &str) -> Vec<String> {
    let manifest = tree.get(&format!("crates/{name}/Cargo.toml"));
    let Some(Ok(manifest)) = manifest.map(|file| file.text.parse::<toml::Table>()) else {
        return Vec::new();
    };
    let targets = ["bin", "test", "bench", "example"]
        .iter()
        .filter_map(|kind| manifest.get(*kind)?.as_array());
    targets
        .flatten()
        .filter_map(|target| Some(target.get("path")?.as_str()?.to_owned()))
        .collect()
}

fn follow<'a>(
    tree: &'a Tree,
    file: &'a SourceFile,
    children: &str,
    reached: &mut BTreeSet<&'a str>,
) {
    if !reached.insert(&file.path) {
        return;
    }
    let Ok(syntax) = syn::parse_file(&file.text) else {
        return;
    };
    follow_items(tree, &file.path, &syntax.items, children, reached);
}

fn follow_items<'a>(
    tree: &'a Tree,
    path: &str,
    items: &[syn::Item],
    children: &str,
    reached: &mut BTreeSet<&'a str>,
) {
    for item in items {
        let syn::Item::Mod(module) = item else {
            continue;
        };
        let name = module.ident.to_string();
        let inner = format!("{children}/{name}");
        if let Some((_, items)) = &module.content {
            follow_items(tree, path, items, &inner, reached);
        } else if let Some(named) = named_path(module) {
            let at = format!("{}/{named}", directory(path));
            let file = tree.get(&at);
            file.into_iter()
                .for_each(|file| follow(tree, file, directory(&at), reached));
        } else {
            let places = [format!("{inner}.rs"), format!("{inner}/mod.rs")];
            let file = places.iter().find_map(|place| tree.get(place));
            file.into_iter()
                .for_each(|file| follow(tree, file, &inner, reached));
        }
    }
}

/// `#[path = "..."]`.
fn named_path(module: &syn::ItemMod) -> Option<String> {
    module.attrs.iter().find_map(|attribute| {
        let value = attribute
            .meta
            .require_name_value()
            .ok()
            .filter(|value| value.path.is_ident("path"))?;
        if let syn::Expr::Lit(syn::ExprLit {
            lit: syn::Lit::Str(path),
            ..
        }) = &value.value
        {
            return Some(path.value());
        }
        None
    })
}

fn directory(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forgotten(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files))
            .into_iter()
            .map(|fault| fault.path)
            .collect()
    }

    #[test]
    fn modules_are_followed_into_their_files() {
        let files = [
            (
                "crates/a/src/lib.rs",
                "mod b;\nmod c { mod d; }\n#[cfg(test)]\nmod tests;",
            ),
            ("crates/a/src/b/mod.rs", "mod e;"),
            ("crates/a/src/b/e.rs", "#[path = \"odd.rs\"]\nmod f;"),
            ("crates/a/src/b/odd.rs", ""),
            ("crates/a/src/c/d.rs", ""),
            ("crates/a/src/tests.rs", ""),
            ("crates/a/src/lost.rs", ""),
        ];
        assert_eq!(forgotten(&files), ["crates/a/src/lost.rs"]);
    }

    #[test]
    fn a_test_in_a_directory_needs_a_root() {
        let files = [
            (
                "crates/a/Cargo.toml",
                "[[bin]]\nname = \"x\"\npath = \"tests/actor/actor.rs\"",
            ),
            ("crates/a/tests/actor/actor.rs", ""),
            ("crates/a/tests/one.rs", ""),
            ("crates/a/tests/two/main.rs", "mod part;"),
            ("crates/a/tests/two/part.rs", ""),
            ("crates/a/tests/three/case.rs", ""),
        ];
        assert_eq!(forgotten(&files), ["crates/a/tests/three/case.rs"]);
    }
}
