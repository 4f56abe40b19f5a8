//! One question on the terminal. Esc and ctrl-c leave the whole wizard.

use inquire::error::InquireError;
use inquire::validator::Validation;
use inquire::{Select, Text};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::settings::form::Read;

/// Answers that are shown at a time.
const ROWS_MAX: usize = 9;

/// Why the wizard ends without its answers.
#[derive(Debug)]
pub(super) enum Stop {
    Left,
    Failed(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<InquireError> for Stop {
    fn from(error: InquireError) -> Self {
        match error {
            InquireError::OperationCanceled | InquireError::OperationInterrupted => Self::Left,
            InquireError::NotTTY
            | InquireError::InvalidConfiguration(_)
            | InquireError::IO(_)
            | InquireError::Custom(_) => {
                let failure = Failure::caused(Exit::State, "cannot ask on this terminal", &error);
                Self::Failed(failure.hint("`ekiden run task.md` asks nothing"))
            }
        }
    }
}

/// One of several; the first is the one that enter takes.
pub(super) fn choose<T, S: Into<String>>(
    question: &str,
    answers: impl IntoIterator<Item = (S, T)>,
) -> Result<T, Stop> {
    let answers = answers.into_iter();
    let (shown, mut values): (Vec<String>, Vec<T>) =
        answers.map(|(text, value)| (text.into(), value)).unzip();
    let chosen = Select::new(question, shown)
        .with_page_size(ROWS_MAX)
        .without_filtering()
        .with_help_message("up and down to move, enter to take it, esc to leave")
        .raw_prompt()?;
    Ok(values.swap_remove(chosen.index))
}

/// A line that `check` accepts; enter alone takes the default.
pub(super) fn line(
    question: &str,
    default: Option<&str>,
    help: &str,
    check: impl Fn(&str) -> Read<()> + Clone,
) -> Result<String, Stop> {
    let judge = move |text: &str| {
        Ok(match check(text.trim()) {
            Ok(()) => Validation::Valid,
            Err(wanted) => Validation::Invalid(format!("it must be {wanted}").into()),
        })
    };
    let mut text = Text::new(question)
        .with_help_message(help)
        .with_validator(judge);
    text.default = default;
    Ok(text.prompt()?.trim().to_owned())
}
