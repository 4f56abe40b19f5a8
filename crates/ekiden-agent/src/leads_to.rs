//! Where a path leads, for code that must judge it before using it.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// As many links as the kernel follows.
const LINKS_MAX: usize = 40;
/// No kernel opens a longer path.
const PATH_BYTES_MAX: usize = 4096;

pub fn leads_to(path: &Path) -> PathBuf {
    let link = |path: &Path| path.read_link().ok();
    leads_to_by(path, &|path| path.canonicalize().ok(), &link)
}

/// The same, with functions that resolve an existing path and read a link.
///
/// A file that would be created keeps its name. A link to something that does not exist is followed too, since
/// a file written through it is created at its target. A circle of links gives the root, where nobody works.
pub fn leads_to_by(
    path: &Path,
    real: &dyn Fn(&Path) -> Option<PathBuf>,
    link: &dyn Fn(&Path) -> Option<PathBuf>,
) -> PathBuf {
    if let Some(real) = real(path) {
        return real;
    }
    let exists = path.as_os_str().len() <= PATH_BYTES_MAX;
    let (mut at, mut rest, mut links) = (PathBuf::new(), parts(path), LINKS_MAX);
    while let Some(part) = rest.pop() {
        if part == ".." {
            at.pop();
            continue;
        }
        at.push(part);
        if !exists {
            continue;
        }
        if let Some(real) = real(&at) {
            at = real;
        } else if let Some(to) = link(&at) {
            if links == 0 {
                return PathBuf::from("/");
            }
            links -= 1;
            at.pop();
            rest.extend(parts(&to));
        }
    }
    at
}

/// The parts of a path, the last one first.
fn parts(path: &Path) -> Vec<OsString> {
    let named = |part: &Component<'_>| *part != Component::CurDir;
    let parts = path.components().filter(named).rev();
    parts.map(|part| part.as_os_str().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    // shows: SEC-02
    #[test]
    fn links_are_followed_and_new_files_keep_their_names() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        symlink("/etc", top.join("link")).unwrap();
        symlink("/no/such/place", top.join("out")).unwrap();
        symlink("link/new", top.join("through")).unwrap();
        symlink("../none/./x", top.join("up")).unwrap();
        symlink("circle", top.join("circle")).unwrap();
        let above = top.parent().unwrap();
        for (path, leads) in [
            ("link/new", PathBuf::from("/etc/new")),
            ("new/file", top.join("new/file")),
            ("out", PathBuf::from("/no/such/place")),
            ("out/file", PathBuf::from("/no/such/place/file")),
            ("through", PathBuf::from("/etc/new")),
            ("up", above.join("none/x")),
            ("none/../../x", above.join("x")),
            ("circle", PathBuf::from("/")),
        ] {
            assert_eq!(leads_to(&top.join(path)), leads, "{path}");
        }
        let long = "a/../".repeat(20_000);
        assert_eq!(leads_to(&top.join(long + "b")), top.join("b"));
    }
}
