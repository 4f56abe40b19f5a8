//! The task as it was named: a file, standard input, or the words themselves.

use std::fs;
use std::io::{self, IsTerminal, Read};
use std::path::Path;

use crate::cli;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, phrase};

/// The largest task that is read, in bytes: it stands in every prompt.
const BYTES_MAX: u64 = 1024 * 1024;
/// The most that is shown of a task given in words, in characters.
const NAME_CHARS_MAX: usize = 40;

/// A task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Its text.
    pub text: String,
    /// What it is called.
    pub name: String,
}

impl Task {
    /// Reads the task that an argument names.
    ///
    /// # Errors
    ///
    /// If there is no such file, it cannot be read, or says nothing.
    pub fn read(argument: &str, output: &mut Output) -> Result<Self, Failure> {
        Self::read_as("task", argument, output)
    }

    /// The same of something that is told by another word, such as an idea.
    ///
    /// # Errors
    ///
    /// As [`Task::read`].
    pub fn read_as(word: &str, argument: &str, output: &mut Output) -> Result<Self, Failure> {
        let task = match argument {
            "-" => Self { text: read_stdin(word, output)?, name: "-".to_owned() },
            _ if Path::new(argument).exists() => {
                Self { text: read_file(word, argument)?, name: argument.to_owned() }
            }
            _ if argument.trim().contains(char::is_whitespace) => Self {
                text: argument.to_owned(),
                name: ekiden_core::text::short(&crate::output::line::one_line(argument), NAME_CHARS_MAX),
            },
            _ => return Err(no_file(word, argument)),
        };
        match task.text.trim() {
            "" => {
                Err(Failure::new(Exit::InvalidInput, format!("the {word} is empty: {}", shown(&task.name)))
                    .hint("write down what to do and how to see that it is done"))
            }
            _ => Ok(task),
        }
    }
}

fn read_file(word: &str, name: &str) -> Result<String, Failure> {
    let path = Path::new(name);
    let what = format!("cannot read the {word} {}", phrase::path(path));
    let failed = |error: io::Error| Failure::caused(exit_of(&error), &what, &error);
    let meta = fs::metadata(path).map_err(failed)?;
    if meta.is_dir() {
        return Err(Failure::new(Exit::MissingInput, format!("{what}: it is a directory"))
            .hint("name a file; `--work-dir DIR` says where the agent works"));
    }
    if meta.len() > BYTES_MAX {
        return Err(too_large(word, name));
    }
    fs::read_to_string(path).map_err(failed)
}

fn read_stdin(word: &str, output: &mut Output) -> Result<String, Failure> {
    if io::stdin().is_terminal() {
        output.talk(&format!("reading the {word} from standard input; ctrl-d ends it\n"));
    }
    let mut text = String::new();
    let read = io::stdin().take(BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| {
        Failure::caused(exit_of(&error), &format!("cannot read the {word} from standard input"), &error)
    })?;
    if read as u64 > BYTES_MAX { Err(too_large(word, "-")) } else { Ok(text) }
}

fn too_large(word: &str, name: &str) -> Failure {
    Failure::new(Exit::InvalidInput, format!("the {word} is too large (over 1 MiB): {}", shown(name)))
        .hint("it stands in every session's prompt; put what is long into files that it names")
}

fn no_file(word: &str, argument: &str) -> Failure {
    let names: Vec<String> = cli::command_names().collect();
    let failure = Failure::new(Exit::MissingInput, format!("there is no file `{argument}`"));
    let failure = match phrase::nearest(argument, names.iter().map(String::as_str)) {
        Some(near) => failure.hint(format!("did you mean `ekiden {near}`?")),
        None => failure,
    };
    let article = if word.starts_with('i') { "an" } else { "a" };
    failure.hint(format!(
        "{article} {word} is a file, `-` for standard input, or words in quotes (more than one)"
    ))
}

fn exit_of(error: &io::Error) -> Exit {
    if error.kind() == io::ErrorKind::InvalidData { Exit::InvalidInput } else { Exit::MissingInput }
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
        assert_eq!(read(name).unwrap(), Task { text: "# Port it\n".to_owned(), name: name.to_owned() });
        let words = "Port the parser to Rust, with all of its tests and documents";
        let task = read(words).unwrap();
        assert_eq!(
            (task.text.as_str(), task.name.as_str()),
            (words, "Port the parser to Rust, with all of it\u{2026}")
        );
    }

    // shows: RUN-01
    #[test]
    fn a_single_word_that_is_no_file_is_an_error_that_says_so() {
        expect_test::expect![[r"
            error: there is no file `port-it`
            hint: a task is a file, `-` for standard input, or words in quotes (more than one)"]]
        .assert_eq(&read("port-it").unwrap_err().to_string());
        let typing_error = read("statsu").unwrap_err();
        assert_eq!(typing_error.hints()[0], "did you mean `ekiden status`?");
        assert_eq!(typing_error.exit(), Exit::MissingInput);
    }

    // shows: RUN-07
    #[test]
    fn a_task_that_says_nothing_is_refused() {
        for (text, exit) in [(&b" \n"[..], Exit::InvalidInput), (b"\xff\xfe", Exit::InvalidInput)] {
            assert_eq!(read(file(text).path().to_str().unwrap()).unwrap_err().exit(), exit);
        }
        assert_eq!(read("/").unwrap_err().exit(), Exit::MissingInput);
        assert_eq!(read("").unwrap_err().exit(), Exit::MissingInput);
    }
}
