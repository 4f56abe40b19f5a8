//! The machine of the measurement.

use crate::shell::Program;

/// One line: commit, processor, system.
pub(super) fn describe() -> Result<String, String> {
    let commit = Program::new("git", &["describe", "--always", "--dirty"]).output()?;
    let system = Program::new("uname", &["-sm"]).output()?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (commit, system) = (commit.trim(), system.trim());
    Ok(format!(
        "Commit {commit}, {system}, {threads} hardware threads, {}.",
        processor()
    ))
}

/// The processor's name, if the system reports it.
fn processor() -> String {
    let told = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = told.lines().find(|line| line.starts_with("model name"));
    let name = name.and_then(|line| line.split(": ").nth(1));
    name.map_or_else(|| "processor not told".to_owned(), str::to_owned)
}
