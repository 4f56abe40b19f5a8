//! Reading a manifest's file, and telling its faults.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ekiden_core::hash::sha256_hex;
use ekiden_core::limits;
use ekiden_core::manifest::{self, Document, Faults, Syntax};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::phrase;

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

/// Reads a manifest.
///
/// # Errors
///
/// If it is not there, too large, no text, or at fault; then with every fault at once.
pub fn read(path: &Path) -> Result<ManifestFile, Failure> {
    let bytes = std::fs::read(path).map_err(|error| {
        let exit = if error.kind() == ErrorKind::NotFound { Exit::MissingInput } else { Exit::InvalidInput };
        Failure::caused(exit, &format!("cannot read the manifest {}", phrase::path(path)), &error)
    })?;
    if bytes.len() > limits::MANIFEST_BYTES_MAX {
        let most = limits::MANIFEST_BYTES_MAX / 1_000_000;
        let text = format!("the manifest {} is larger than {most} MB", phrase::path(path));
        return Err(Failure::new(Exit::InvalidInput, text));
    }
    let hash = sha256_hex(&bytes);
    let text = String::from_utf8(bytes).map_err(|error| {
        let line = 1 + error.as_bytes()[..error.utf8_error().valid_up_to()]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        Failure::new(
            Exit::InvalidInput,
            format!("the manifest {} is not UTF-8 text: line {line}", phrase::path(path)),
        )
    })?;
    let name = path.to_string_lossy();
    let document = manifest::read(&text, Syntax::of(&name, &text)).map_err(|faults| faulty(path, &faults))?;
    Ok(ManifestFile { path: path.to_owned(), hash, document })
}

/// A manifest with faults: each on a line of its own.
#[must_use]
pub fn faulty(path: &Path, faults: &Faults) -> Failure {
    let name = phrase::path(path);
    let failure = Failure::new(Exit::InvalidInput, format!("{name} has {}", faults.title()));
    failure.details(faults.to_string().lines().map(str::to_owned))
}
