//! The task: a file, standard input, or the text itself.

use std::fs;
use std::io::{self, IsTerminal, Read};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use ekiden_core::ralph::without_resume;
use ekiden_core::renewal::NewTask;
use ekiden_core::text::short;
use ekiden_manifest::looks_like_manifest;

use super::init;
use crate::cli::mistakes;
use crate::exit::Exit;
use crate::failure::{Failure, current_dir};
use crate::output::line::one_line;
use crate::output::{Output, phrase};

/// The largest task that is read, in bytes: it is part of every prompt.
const BYTES_MAX: u64 = 1024 * 1024;
/// The most that is shown of a task given in words, in characters.
const NAME_CHARS_MAX: usize = 40;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Task {
    pub text: String,
    pub name: String,
}

impl Task {
    pub fn replacement(self) -> NewTask {
        NewTask {
            text: self.text,
            name: self.name,
        }
    }

    pub fn read(argument: &str, output: &mut Output) -> Result<Self, Failure> {
        Self::read_as("task", argument, output)
    }

    /// The same for a run in this work dir: a file is named from there, where it is looked for when the task is offered again.
    pub fn of_run(argument: &str, dir: &Path, output: &mut Output) -> Result<Self, Failure> {
        let mut task = Self::read(argument, output)?;
        if argument != "-" && Path::new(argument).exists() {
            task.name = named_from(dir, &current_dir()?, argument);
            if looks_like_manifest(argument, &task.text) {
                let text = format!("{} is a manifest, not a task", shown(argument));
                let hint = format!("`ekiden execute {argument}` carries it out");
                return Err(Failure::new(Exit::Usage, text).hint(hint));
            }
        }
        Ok(task)
    }

    /// The same for something with another name, such as an idea.
    pub fn read_as(word: &str, argument: &str, output: &mut Output) -> Result<Self, Failure> {
        let task = match argument {
            "-" => Self {
                text: read_stdin(word, output)?,
                name: "-".to_owned(),
            },
            _ if Path::new(argument).exists() => Self {
                text: read_file(word, argument)?,
                name: argument.to_owned(),
            },
            // A path may have blanks, too.
            _ if file_meant(argument).is_some_and(|file| file.contains(char::is_whitespace)) => {
                return Err(no_file(word, argument));
            }
            _ if argument.trim().contains(char::is_whitespace) || argument.trim().is_empty() => {
                Self {
                    text: argument.to_owned(),
                    name: short(&one_line(argument), NAME_CHARS_MAX),
                }
            }
            _ => return Err(no_file(word, argument)),
        };
        match task.text.trim() {
            "" => {
                let text = match task.name.trim() {
                    "" => format!("the {word} is empty"),
                    name => format!("the {word} is empty: {}", shown(name)),
                };
                let failure = Failure::new(Exit::InvalidInput, text);
                Err(match word {
                    "task" | "idea" => {
                        failure.hint("write down what to do and how to check that it is done")
                    }
                    _ => failure,
                })
            }
            text if text.contains(init::UNFILLED) => {
                let text = format!("the {word} is still the template: {}", shown(&task.name));
                let failure = Failure::new(Exit::InvalidInput, text);
                Err(failure.hint("replace everything in angle brackets by what you want"))
            }
            _ => Ok(task),
        }
    }
}

/// A file's name from the work dir: as it was typed if that is here, and its whole path if it lies elsewhere. `-` is no
/// file.
pub fn named_from(dir: &Path, here: &Path, typed: &str) -> String {
    let path = here.join(typed);
    let parent = path.parent().and_then(|parent| parent.canonicalize().ok());
    let is_elsewhere =
        Path::new(typed).is_absolute() || here.canonicalize().is_ok_and(|here| here != dir);
    match parent.zip(path.file_name()) {
        Some((parent, name)) if typed != "-" && is_elsewhere => {
            let path = parent.join(name);
            let named = path.strip_prefix(dir).unwrap_or(&path);
            named.to_string_lossy().into_owned()
        }
        Some(_) | None => typed.to_owned(),
    }
}

fn read_file(word: &str, name: &str) -> Result<String, Failure> {
    let path = Path::new(name);
    let what = format!("cannot read the {word} {}", phrase::path(path));
    let failed = |error: io::Error| {
        let failure = Failure::caused(exit_of(&error), &what, &error);
        match error.kind() == io::ErrorKind::PermissionDenied {
            true => failure.hint("`ls -l` with its path shows who may read it"),
            false => failure,
        }
    };
    let hint = "name a file; `--work-dir DIR` says where the agent works";
    refuse_endless(&what, path, hint)?;
    let file = fs::File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    let mut most = file.take(BYTES_MAX + 1);
    most.read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(too_large(word, name));
    }
    let text = String::from_utf8(bytes).map_err(|_| {
        Failure::new(Exit::InvalidInput, format!("{what}: it is not UTF-8 text"))
            .hint(format!("name a text file that says what the {word} is"))
    })?;
    // In the prompt of a loop, ekiden may have put a section of its own.
    Ok(without_resume(text.trim_start_matches('\u{feff}')))
}

fn read_stdin(word: &str, output: &mut Output) -> Result<String, Failure> {
    if io::stdin().is_terminal() {
        output.message(&format!(
            "reading the {word} from standard input; ctrl-d ends it\n"
        ));
    }
    let mut text = String::new();
    let what = format!("cannot read the {word} from standard input");
    let failed = |error: io::Error| Failure::caused(exit_of(&error), &what, &error);
    let mut most = io::stdin().take(BYTES_MAX + 1);
    match most.read_to_string(&mut text).map_err(failed)? {
        read if read as u64 > BYTES_MAX => Err(too_large(word, "-")),
        _ => Ok(text),
    }
}

fn too_large(word: &str, name: &str) -> Failure {
    Failure::new(
        Exit::InvalidInput,
        format!("the {word} is too large (over 1 MiB): {}", shown(name)),
    )
    .hint(match word {
        "task" => {
            "it is part of every session's prompt; put long material into files that it names"
        }
        _ => "split it, or name the file with the part that counts",
    })
}

fn no_file(word: &str, argument: &str) -> Failure {
    let failure = Failure::new(Exit::MissingInput, format!("there is no file `{argument}`"));
    let failure = match file_meant(argument) {
        Some(file) => failure.hint(format!("did you mean `{file}`?")),
        None => match mistakes::command_meant(argument) {
            Some(command) => failure.hint(format!("did you mean `ekiden {command}`?")),
            None => failure,
        },
    };
    failure.hint(format!(
        "name the {word} by a file, `-` for standard input, or more than one word in quotes"
    ))
}

/// A file beside it whose name is nearly the same, or the same but for its end.
pub fn file_meant(argument: &str) -> Option<String> {
    let path = Path::new(argument);
    let (dir, name) = (path.parent()?, path.file_name()?.to_str()?);
    let here = if dir.as_os_str().is_empty() {
        Path::new(".")
    } else {
        dir
    };
    let entries = fs::read_dir(here).ok()?.filter_map(Result::ok);
    let files = entries.filter(|entry| entry.path().is_file());
    let names: Vec<String> = files
        .filter_map(|file| file.file_name().into_string().ok())
        .collect();
    let stem = |file: &&String| file.split_once('.').is_some_and(|(stem, _)| stem == name);
    let same = names.iter().find(stem).map(String::as_str);
    let meant = same.or_else(|| phrase::nearest(name, names.iter().map(String::as_str)));
    Some(dir.join(meant?).to_string_lossy().into_owned())
}

/// A shell passes on standard input, and what a command in `<(...)` writes.
pub fn is_passed_on(path: &Path) -> bool {
    let of_a_process =
        path.starts_with("/proc") && path.parent().is_some_and(|dir| dir.ends_with("fd"));
    ["-", "/dev/stdin"]
        .iter()
        .any(|name| path == Path::new(name))
        || path.starts_with("/dev/fd")
        || of_a_process
}

/// Refuses a pipe that no shell passed on: opening it would wait for a writer. `what` names what is then not done.
pub fn refuse_endless(what: &str, path: &Path, hint: &str) -> Result<(), Failure> {
    let Ok(found) = path.metadata() else {
        return Ok(());
    };
    let kind = found.file_type();
    let is = match () {
        () if kind.is_dir() => "a directory",
        () if is_passed_on(path) || kind.is_file() => return Ok(()),
        () if kind.is_fifo() => "a pipe",
        () if kind.is_socket() => "a socket",
        () => "a device",
    };
    Err(Failure::new(Exit::InvalidInput, format!("{what}: it is {is}")).hint(hint))
}

fn exit_of(error: &io::Error) -> Exit {
    if error.kind() == io::ErrorKind::InvalidData {
        Exit::InvalidInput
    } else {
        Exit::MissingInput
    }
}

fn shown(name: &str) -> &str {
    if name == "-" { "standard input" } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(argument: &str) -> Result<Task, Failure> {
        Task::read(argument, &mut Output::nowhere())
    }

    fn file(text: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        io::Write::write_all(&mut file, text).unwrap();
        file
    }

    // shows: RUN-01
    #[test]
    fn a_task_is_a_file_or_words() {
        let task = file(b"# Port it\n");
        let name = task.path().to_str().unwrap();
        assert_eq!(
            read(name).unwrap(),
            Task {
                text: "# Port it\n".to_owned(),
                name: name.to_owned()
            }
        );
        let words = "Port the parser to Rust, with all of its tests and documents";
        let task = read(words).unwrap();
        assert_eq!(
            (task.text.as_str(), task.name.as_str()),
            (words, "Port the parser to Rust, with all of it\u{2026}")
        );
    }

    // shows: RUN-01
    #[test]
    fn a_file_is_named_from_the_work_dir() {
        let home = tempfile::tempdir().unwrap();
        let home = &*home.path().canonicalize().unwrap();
        let project = tempfile::tempdir_in(home).unwrap();
        let dir = project.path();
        let [inside, outside] = [dir, home].map(|dir| dir.join("task.md").display().to_string());
        for (here, typed, named) in [
            (dir, "./task.md", "./task.md"),
            (dir, "../task.md", "../task.md"),
            (home, &inside, "task.md"),
            (home, "./task.md", &outside),
        ] {
            assert_eq!(named_from(dir, here, typed), named, "{typed}");
        }
    }

    // shows: RUN-01
    #[test]
    fn a_single_word_that_is_no_file_is_an_error_that_says_so() {
        expect_test::expect![[r"
            error: there is no file `port-it`
            hint: name the task by a file, `-` for standard input, or more than one word in quotes"]]
        .assert_eq(&read("port-it").unwrap_err().to_string());
        let typing_error = read("statsu").unwrap_err();
        assert_eq!(typing_error.hints()[0], "did you mean `ekiden status`?");
        assert_eq!(typing_error.exit(), Exit::MissingInput);
    }

    // shows: RUN-07
    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "a test lays out the files that are read"
    )]
    fn a_misspelt_path_with_blanks_is_no_task() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("my task.md"), "# Port it\n").unwrap();
        fs::write(dir.path().join("run-tests"), "").unwrap();
        let typed = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let failure = read(&typed("my tsk.md")).unwrap_err();
        assert_eq!(failure.exit(), Exit::MissingInput);
        let meant = format!("did you mean `{}`?", typed("my task.md"));
        assert_eq!(failure.hints()[0], meant);
        // Words that only resemble a file's name are a task.
        assert!(read(&typed("run tests")).is_ok());
    }

    // shows: RUN-07
    #[test]
    fn a_task_that_says_nothing_is_refused() {
        for (text, exit) in [
            (&b" \n"[..], Exit::InvalidInput),
            (b"\xff\xfe", Exit::InvalidInput),
        ] {
            assert_eq!(
                read(file(text).path().to_str().unwrap())
                    .unwrap_err()
                    .exit(),
                exit
            );
        }
        assert_eq!(read("/").unwrap_err().exit(), Exit::InvalidInput);
        assert_eq!(read("").unwrap_err().exit(), Exit::InvalidInput);
    }
}
