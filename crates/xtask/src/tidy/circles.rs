//! Circles of files: `a` uses `b`, `b` uses `c`, `c` uses `a`. To read one of them you have to read all.
//!
//! An arrow is a `use` between two files of a crate, without tests, and points to the file that defines the
//! deepest module of its path: `use crate::a::X`, `use super::sibling::X`, and the `use child::X` with
//! which a module re-exports its contents. A child's `use super::X` is no arrow: a folder whose files each
//! hold a part of one type is read as one.

use std::collections::{BTreeMap, BTreeSet};

use super::{Fault, SourceFile, Tree};
use crate::size::is_test_only;

/// Files in a circle. Nobody can keep more than this in mind.
const FILES_MAX: usize = 6;

/// Files by their module path, `relay::phase`; the crate's root is the empty path.
type Modules<'a> = BTreeMap<String, &'a SourceFile>;

pub(super) fn check(tree: &Tree) -> Vec<Fault> {
    let circles = circles(tree);
    let large = circles.iter().filter(|files| files.len() > FILES_MAX);
    large
        .map(|files| {
            let names: Vec<&str> = files.iter().map(|path| short(path)).collect();
            let what = format!(
                "a circle of {} files, at most {FILES_MAX}: {}",
                files.len(),
                names.join(", ")
            );
            Fault::of(&files[0], what)
        })
        .collect()
}

fn short(path: &str) -> &str {
    path.split_once("/src/").map_or(path, |(_, inside)| inside)
}

/// All circles of two files or more, each with its files in order.
pub(crate) fn circles(tree: &Tree) -> Vec<Vec<String>> {
    let mut crates: BTreeMap<&str, Modules<'_>> = BTreeMap::new();
    for file in tree.ending(".rs").filter(|file| file.is_production()) {
        if let Some((name, module)) = file.crate_name().zip(module_path(file)) {
            crates.entry(name).or_default().insert(module, file);
        }
    }
    crates.values().flat_map(circles_of).collect()
}

fn module_path(file: &SourceFile) -> Option<String> {
    let (_, inside) = file.path.split_once("/src/")?;
    let inside = inside.strip_suffix(".rs")?;
    let inside = inside.strip_suffix("/mod").unwrap_or(inside);
    Some(match inside {
        "lib" | "main" => String::new(),
        inside => inside.replace('/', "::"),
    })
}

fn circles_of(modules: &Modules<'_>) -> Vec<Vec<String>> {
    let names: Vec<&String> = modules.keys().collect();
    let place = |name: &str| names.binary_search_by(|one| one.as_str().cmp(name)).ok();
    let arrows: Vec<BTreeSet<usize>> = modules
        .iter()
        .map(|(module, file)| arrows_of(modules, module, &file.text))
        .map(|targets| targets.iter().filter_map(|target| place(target)).collect())
        .collect();
    let reach: Vec<BTreeSet<usize>> = (0..names.len())
        .map(|from| reached(&arrows, from))
        .collect();
    let mut seen = BTreeSet::new();
    let mut circles = Vec::new();
    for from in 0..names.len() {
        let back = |to: &usize| reach[from].contains(to) && reach[*to].contains(&from);
        let circle: Vec<usize> = (0..names.len()).filter(back).collect();
        if circle.len() > 1 && circle.iter().all(|file| seen.insert(*file)) {
            let path = |file: &usize| modules[names[*file]].path.clone();
            circles.push(circle.iter().map(path).collect());
        }
    }
    circles
}

/// The modules that a file uses.
fn arrows_of(modules: &Modules<'_>, module: &str, text: &str) -> BTreeSet<String> {
    let mut targets = BTreeSet::new();
    for path in uses(text) {
        let Some(target) = from_root(modules, module, &path).and_then(|at| defining(modules, &at))
        else {
            continue;
        };
        let to_parent = path[0] == "super" && is_inside(module, &target);
        if target != module && !target.is_empty() && !to_parent {
            targets.insert(target);
        }
    }
    targets
}

fn is_inside(inner: &str, outer: &str) -> bool {
    inner.starts_with(&format!("{outer}::"))
}

fn reached(arrows: &[BTreeSet<usize>], from: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from];
    while let Some(at) = next.pop() {
        next.extend(arrows[at].iter().filter(|to| reached.insert(**to)));
    }
    reached
}

/// The module whose file the path points into.
fn defining(modules: &Modules<'_>, path: &str) -> Option<String> {
    let mut path = path;
    loop {
        if modules.contains_key(path) {
            return Some(path.to_owned());
        }
        path = path.rsplit_once("::").map_or("", |(outer, _)| outer);
        if path.is_empty() {
            return modules.contains_key(path).then(String::new);
        }
    }
}

/// The paths that a file uses, as written.
fn uses(text: &str) -> Vec<Vec<String>> {
    let Ok(syntax) = syn::parse_file(text) else {
        return Vec::new();
    };
    let mut paths = Vec::new();
    for item in &syntax.items {
        if let syn::Item::Use(item) = item
            && !item.attrs.iter().any(is_test_only)
        {
            leaves(&item.tree, Vec::new(), &mut paths);
        }
    }
    paths
}

fn leaves(tree: &syn::UseTree, mut path: Vec<String>, paths: &mut Vec<Vec<String>>) {
    match tree {
        syn::UseTree::Path(part) => {
            path.push(part.ident.to_string());
            leaves(&part.tree, path, paths);
        }
        syn::UseTree::Name(name) => {
            path.push(name.ident.to_string());
            paths.push(path);
        }
        syn::UseTree::Rename(rename) => {
            path.push(rename.ident.to_string());
            paths.push(path);
        }
        syn::UseTree::Glob(_) => paths.push(path),
        syn::UseTree::Group(group) => {
            for tree in &group.items {
                leaves(tree, path.clone(), paths);
            }
        }
    }
}

/// The same path from the crate's root; `None` if it points into another crate.
fn from_root(modules: &Modules<'_>, module: &str, path: &[String]) -> Option<String> {
    let mut at: Vec<&str> = module.split("::").filter(|part| !part.is_empty()).collect();
    match path.first()?.as_str() {
        "crate" => at.clear(),
        "self" | "super" => {}
        child => {
            at.push(child);
            if !modules.contains_key(&at.join("::")) {
                return None;
            }
            at.pop();
        }
    }
    for part in path {
        match part.as_str() {
            "crate" | "self" => {}
            "super" => {
                at.pop();
            }
            part => at.push(part),
        }
    }
    Some(at.join("::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles_in(files: &[(&str, &str)]) -> Vec<String> {
        let circles = circles(&Tree::of(files));
        let joined = |files: &Vec<String>| {
            files
                .iter()
                .map(|path| short(path))
                .collect::<Vec<_>>()
                .join(" ")
        };
        circles.iter().map(joined).collect()
    }

    #[test]
    fn a_circle_is_found_over_any_form_of_use() {
        let files = [
            ("crates/a/src/lib.rs", "mod b; mod c; mod d; mod e;"),
            ("crates/a/src/b.rs", "use crate::{c::X, e};"),
            ("crates/a/src/c/mod.rs", "use super::d::{self, Y as Z};"),
            ("crates/a/src/d.rs", "use crate::b::*;"),
            ("crates/a/src/e.rs", "use std::fmt;"),
        ];
        assert_eq!(circles_in(&files), ["b.rs c/mod.rs d.rs"]);
    }

    #[test]
    fn a_child_that_uses_its_parent_is_no_circle_and_tests_do_not_count() {
        let files = [
            ("crates/a/src/b/mod.rs", "mod c; mod d; use c::X;"),
            ("crates/a/src/b/c.rs", "use super::Y; use super::d::Z;"),
            ("crates/a/src/b/d.rs", "#[cfg(test)]\nuse super::c::X;"),
        ];
        assert_eq!(circles_in(&files), [""; 0]);
        let by_crate = [
            ("crates/a/src/b/mod.rs", "mod c; pub use c::X;"),
            ("crates/a/src/b/c.rs", "use crate::b::Y;"),
        ];
        assert_eq!(circles_in(&by_crate), ["b/mod.rs b/c.rs"]);
    }

    #[test]
    fn only_large_circles_are_faults() {
        let ring = |files: usize| -> Vec<(String, String)> {
            (0..files)
                .map(|n| {
                    let next = (n + 1) % files;
                    (
                        format!("crates/a/src/m{n}.rs"),
                        format!("use crate::m{next}::X;"),
                    )
                })
                .collect()
        };
        let faults = |files: usize| {
            let ring = ring(files);
            let ring: Vec<(&str, &str)> = ring.iter().map(|(a, b)| (&**a, &**b)).collect();
            check(&Tree::of(&ring)).len()
        };
        assert_eq!((faults(6), faults(7)), (0, 1));
    }
}
