//! Reading a manifest's file, and telling its faults.

use std::fs::File;
use std::io::{ErrorKind, Read as _, stdin};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use ekiden_core::hash::sha256_hex;
use ekiden_core::limits::MANIFEST_BYTES_MAX;
use ekiden_core::manifest::{self, Document, Faults, Syntax};
use ekiden_engine::workspace::Workspace;

use super::resolve::Asked;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::phrase;
use crate::settings::chosen;
use crate::settings::given::Given;

/// Stands for standard input.
const STANDARD_INPUT: &str = "-";

/// A manifest as its file says it.
#[derive(Debug)]
pub struct ManifestFile {
    /// Where it lies.
    pub path: PathBuf,
    /// SHA-256 of its bytes.
    pub hash: String,
    /// What it says.
    pub document: Document,
}

/// Reads a manifest, and asks for every file and agent that it names.
///
/// # Errors
///
/// If it is not there, too large, no text, or at fault; then with every fault at once. If a setting is wrong.
pub fn read(path: &Path, given: &Given, here: &Path, workspace: &Workspace) -> Result<ManifestFile, Failure> {
    let bytes = bytes(path)?;
    let hash = sha256_hex(&bytes);
    let text = text(path, bytes)?;
    let agent = chosen::settings(given, here)?.agent;
    let mut asked = Asked { given, agent: &agent, manifest: path, workspace };
    let syntax = Syntax::of(&path.to_string_lossy(), &text);
    let document = manifest::read_among(&text, syntax, &mut asked).map_err(|faults| faulty(path, &faults))?;
    Ok(ManifestFile { path: path.to_owned(), hash, document })
}

/// A manifest with faults: each on a line of its own.
#[must_use]
pub fn faulty(path: &Path, faults: &Faults) -> Failure {
    let name = name(path);
    let failure = Failure::new(Exit::InvalidInput, format!("{name} has {}", faults.title()));
    failure.details(faults.to_string().lines().map(str::to_owned))
}

/// How a manifest is called, for people.
#[must_use]
pub fn name(path: &Path) -> String {
    if path == Path::new(STANDARD_INPUT) { "standard input".to_owned() } else { phrase::path(path) }
}

/// The directory that a manifest lies in; of one that was handed over, the current one.
#[must_use]
pub fn dir_of(path: &Path) -> PathBuf {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty() && !was_handed_over(path));
    dir.unwrap_or(Path::new(".")).to_owned()
}

/// A shell hands over standard input, and what a command in `<(...)` writes.
fn was_handed_over(path: &Path) -> bool {
    let of_a_process = path.starts_with("/proc") && path.parent().is_some_and(|dir| dir.ends_with("fd"));
    [STANDARD_INPUT, "/dev/stdin"].iter().any(|name| path == Path::new(name))
        || path.starts_with("/dev/fd")
        || of_a_process
}

/// What the file holds. Not more of it is read than a manifest may have.
fn bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    let unread = |error: &std::io::Error| {
        let exit = if error.kind() == ErrorKind::NotFound { Exit::MissingInput } else { Exit::InvalidInput };
        Failure::caused(exit, &format!("cannot read the manifest {}", name(path)), error)
    };
    let mut bytes = Vec::new();
    let most = MANIFEST_BYTES_MAX as u64 + 1;
    let read = if path == Path::new(STANDARD_INPUT) {
        stdin().lock().take(most).read_to_end(&mut bytes)
    } else {
        refuse_endless(path)?;
        File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes))
    };
    read.map_err(|error| unread(&error))?;
    if bytes.len() > MANIFEST_BYTES_MAX {
        let text = format!("the manifest {} is larger than {} MB", name(path), MANIFEST_BYTES_MAX >> 20);
        return Err(Failure::new(Exit::InvalidInput, text));
    }
    Ok(bytes)
}

/// Opening a pipe waits for somebody who writes, which is meant only where a shell handed it over.
fn refuse_endless(path: &Path) -> Result<(), Failure> {
    let Ok(found) = path.metadata() else { return Ok(()) };
    let kind = found.file_type();
    let what = if kind.is_dir() {
        "a directory"
    } else if was_handed_over(path) || kind.is_file() {
        return Ok(());
    } else if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    let text = format!("cannot read the manifest {}: it is {what}", name(path));
    let failure = Failure::new(Exit::InvalidInput, text);
    Err(if kind.is_fifo() { failure.hint("`ekiden execute -` reads from standard input") } else { failure })
}

fn text(path: &Path, bytes: Vec<u8>) -> Result<String, Failure> {
    String::from_utf8(bytes).map_err(|error| {
        let read = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + read.iter().filter(|byte| **byte == b'\n').count();
        let text = format!("the manifest {} is not UTF-8 text: line {line}", name(path));
        Failure::new(Exit::InvalidInput, text)
    })
}
