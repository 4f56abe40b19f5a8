//! What the tasks need from the system: other programs, files, the clock, the terminal.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "the project's own tasks run programs, write files and print; nothing of this is shipped"
)]

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime};

/// The workspace's directory. Cargo passes it when it runs this program. The place where it was built says
/// less, since several checkouts may share a build directory.
pub(crate) fn root() -> &'static Path {
    static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
        let own = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let own = own.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
        own.ancestors()
            .nth(2)
            .expect("this crate lies two directories below the root")
            .to_owned()
    });
    &ROOT
}

/// Prints a line of the answer.
pub(crate) fn say(line: &str) {
    println!("{line}");
}

/// Prints a line for people, separate from the answer.
pub(crate) fn complain(line: &str) {
    eprintln!("{line}");
}

/// How long something took, and its result.
pub(crate) fn timed<T>(act: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = act();
    (result, start.elapsed())
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> f64 {
    SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap_or_default()
        .as_secs_f64()
        * 1e3
}

/// The whole text of a file.
pub(crate) fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// Writes a file from scratch, and its directory if needed.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
    let written = path
        .parent()
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| std::fs::write(path, text));
    written.map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// Makes an empty directory, replacing any directory that is there.
pub(crate) fn clear(directory: &Path) -> Result<(), String> {
    let removed = if directory.exists() {
        std::fs::remove_dir_all(directory)
    } else {
        Ok(())
    };
    let made = removed.and_then(|()| std::fs::create_dir_all(directory));
    made.map_err(|error| format!("cannot empty {}: {error}", directory.display()))
}

/// Removes a directory and everything in it.
pub(crate) fn remove(directory: &Path) -> Result<(), String> {
    std::fs::remove_dir_all(directory)
        .map_err(|error| format!("cannot remove {}: {error}", directory.display()))
}

/// Another program, about to run, in the workspace's directory unless another is named.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    program: OsString,
    arguments: Vec<OsString>,
    variables: Vec<(&'static str, OsString)>,
    input: Option<PathBuf>,
    dir: PathBuf,
}

impl Program {
    /// A program by its name or path.
    pub(crate) fn new(program: impl AsRef<OsStr>, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(OsString::from).collect();
        Self {
            program: program.as_ref().to_owned(),
            arguments,
            variables: Vec::new(),
            input: None,
            dir: root().to_owned(),
        }
    }

    /// The cargo that runs this task.
    pub(crate) fn cargo(arguments: &[&str]) -> Self {
        let mut cargo = Self::new("cargo", arguments);
        if let Some(own) = std::env::var_os("CARGO") {
            cargo.program = own;
        }
        cargo
    }

    /// With one more variable in its environment.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    /// In a directory other than the workspace's.
    pub(crate) fn within(mut self, dir: &Path) -> Self {
        dir.clone_into(&mut self.dir);
        self
    }

    /// With this file on its standard input.
    pub(crate) fn fed(mut self, input: &Path) -> Self {
        self.input = Some(input.to_owned());
        self
    }

    /// With one more argument.
    pub(crate) fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// The same on a terminal of 120 columns and 40 rows, by `script` of util-linux.
    pub(crate) fn on_terminal(self) -> Self {
        let words = std::iter::once(&self.program).chain(&self.arguments);
        let words: Vec<String> = words.map(|word| quoted(word)).collect();
        let command = format!("stty cols 120 rows 40; exec {}", words.join(" "));
        Self {
            program: "script".into(),
            arguments: ["-qfec".into(), command.into(), "/dev/null".into()].into(),
            variables: self.variables,
            input: None,
            dir: self.dir,
        }
        .with("TERM", "xterm")
    }

    /// Runs it in view. Any exit code but 0 is an error.
    pub(crate) fn run(&self) -> Result<(), String> {
        let status = self.command().status();
        self.judge(status.map_err(|error| self.not_started(&error))?)
    }

    /// The same with the lowest priority.
    pub(crate) fn nice(mut self) -> Self {
        let program = std::mem::replace(&mut self.program, "nice".into());
        let words = ["-n".into(), "19".into(), program];
        self.arguments.splice(..0, words);
        self
    }

    /// Runs it, and passes each line of its standard output to `see` as it comes.
    pub(crate) fn run_seen(&self, mut see: impl FnMut(&str)) -> Result<(), String> {
        let child = self.command().stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| self.not_started(&error))?;
        let output = child.stdout.take().expect("standard output is a pipe");
        for line in BufReader::new(output).split(b'\n') {
            let line = line.map_err(|error| format!("cannot read what `{self}` says: {error}"))?;
            see(&String::from_utf8_lossy(&line));
        }
        self.judge(
            child
                .wait()
                .map_err(|error| format!("cannot wait for `{self}`: {error}"))?,
        )
    }

    /// Runs it out of view and returns its standard output.
    pub(crate) fn output(&self) -> Result<String, String> {
        let output = self.command().stderr(Stdio::inherit()).output();
        let output = output.map_err(|error| self.not_started(&error))?;
        self.judge(output.status)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs it without a reader for its output, and without input unless it is fed, and returns how long it
    /// took.
    pub(crate) fn time(&self) -> Result<Duration, String> {
        let mut command = self.command();
        let input = match &self.input {
            Some(path) => File::open(path)
                .map_err(|error| format!("cannot read {}: {error}", path.display()))?
                .into(),
            None => Stdio::null(),
        };
        command
            .stdin(input)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let (status, took) = timed(|| command.status());
        self.judge(status.map_err(|error| self.not_started(&error))?)?;
        Ok(took)
    }

    /// Runs it out of view until it ends with this exit code. Meanwhile calls `look` with its process id
    /// over and over.
    pub(crate) fn watch(
        &self,
        code: i32,
        every: Duration,
        mut look: impl FnMut(u32),
    ) -> Result<(), String> {
        let mut command = self.command();
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = command.spawn().map_err(|error| self.not_started(&error))?;
        loop {
            look(child.id());
            let ended = child
                .try_wait()
                .map_err(|error| format!("cannot wait for `{self}`: {error}"))?;
            match ended {
                Some(status) if status.code() == Some(code) => return Ok(()),
                Some(status) => {
                    return Err(format!(
                        "`{self}` ended otherwise than with {code} ({status})"
                    ));
                }
                None => std::thread::sleep(every),
            }
        }
    }

    /// Starts it; the caller gets its output.
    pub(crate) fn started(&self) -> Result<Child, String> {
        let mut command = self.command();
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.spawn().map_err(|error| self.not_started(&error))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.current_dir(&self.dir);
        command
    }

    fn judge(&self, status: ExitStatus) -> Result<(), String> {
        if status.success() {
            Ok(())
        } else {
            Err(format!("`{self}` failed ({status})"))
        }
    }

    fn not_started(&self, error: &std::io::Error) -> String {
        format!("cannot start `{}`: {error}", self.program.display())
    }
}

/// As a person would type it.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.variables {
            write!(f, "{name}={} ", quoted(value))?;
        }
        let name = Path::new(&self.program)
            .file_name()
            .unwrap_or(&self.program);
        f.write_str(&quoted(name))?;
        self.arguments
            .iter()
            .try_for_each(|argument| write!(f, " {}", quoted(argument)))
    }
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{word}'")
    }
}

/// Where cargo puts what it builds.
pub(crate) fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), |dir| root().join(dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_shown_as_one_would_type_it() {
        let program = Program::new("/usr/bin/cargo", &["doc", "--workspace"])
            .with("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(
            program.to_string(),
            "RUSTDOCFLAGS='-D warnings' cargo doc --workspace"
        );
    }

    #[test]
    fn a_failing_program_is_an_error_that_names_it() {
        assert_eq!(Program::new("true", &[]).run(), Ok(()));
        let failure = Program::new("false", &["now"]).run().unwrap_err();
        assert!(
            failure.starts_with("`false now` failed (exit status: 1"),
            "{failure}"
        );
        let failure = Program::new("/nonexistent/program", &[])
            .output()
            .unwrap_err();
        assert!(
            failure.starts_with("cannot start `/nonexistent/program`: "),
            "{failure}"
        );
    }

    #[test]
    fn a_program_is_looked_at_until_it_ends() {
        let mut looks = 0;
        let program = Program::new("sh", &["-c", "exit 3"]);
        program
            .watch(3, Duration::from_millis(1), |_| looks += 1)
            .unwrap();
        assert!(looks > 0);
        let failure = program
            .watch(0, Duration::from_millis(1), |_| {})
            .unwrap_err();
        assert_eq!(
            failure,
            "`sh -c 'exit 3'` ended otherwise than with 0 (exit status: 3)"
        );
    }

    #[test]
    fn lines_are_seen_as_they_come() {
        let mut seen = Vec::new();
        Program::new("printf", &["one\\ntwo"])
            .run_seen(|line| seen.push(line.to_owned()))
            .unwrap();
        assert_eq!(seen, ["one", "two"]);
    }
}
