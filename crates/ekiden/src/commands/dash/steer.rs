//! What `--steer` lets a page ask for.
//!
//! ```text
//! form ──► "really?", with the command line ──► ekiden pause 7f3a… ──► the run's socket
//! ```
//!
//! A page runs the command that a person would type, so both can do the same and pass the same checks.

use std::ffi::OsString;
use std::path::Path;

use ekiden_agent::detached;
use serde::{Deserialize, Serialize};

use super::runs::Question;

/// The most that a form may hold, with room for an answer of the greatest length.
pub(super) const FORM_BYTES_MAX: usize = 256 * 1024;

/// A form, as it was sent: first to be confirmed, then again with `confirmed`.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct SteerForm {
    #[serde(skip_serializing)]
    pub(super) token: String,
    wish: Wish,
    #[serde(default)]
    stage: String,
    /// The question that the page showed, by its id.
    #[serde(default)]
    question: String,
    #[serde(default)]
    words: String,
    #[serde(default)]
    max_sessions: String,
    #[serde(default)]
    run_budget: String,
    #[serde(default)]
    session_timeout: String,
    #[serde(default, skip_serializing)]
    pub(super) confirmed: bool,
}

#[derive(Debug, Clone, Copy, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Wish {
    Pause,
    Unpause,
    Stop,
    StopNow,
    Limits,
    Answer,
}

impl SteerForm {
    pub(super) fn title(&self) -> &'static str {
        match self.wish {
            Wish::Pause => "Pause after the session at work?",
            Wish::Unpause => "Let it go on?",
            Wish::Stop => "Stop it, with a handoff first?",
            Wish::StopNow => "Stop it at once, without a handoff?",
            Wish::Limits => "Change its limits?",
            Wish::Answer => "Send this answer?",
        }
    }

    /// The text of the question that is answered, or why it cannot be.
    pub(super) fn question<'a>(
        &self,
        asked: &'a [Question],
    ) -> Result<Option<&'a str>, &'static str> {
        let Wish::Answer = self.wish else {
            return Ok(None);
        };
        let mut asked = asked.iter().filter(|asked| asked.stage == self.stage);
        let same = asked.find(|asked| asked.id == self.question);
        let same = same.map(|asked| Some(asked.text.as_str()));
        same.ok_or("the question has changed, or it is answered: go back and see what is asked now")
    }

    /// The command line without the program's name.
    pub(super) fn words(&self, run: &str, dir: &Path) -> Vec<OsString> {
        let words: &[&str] = match self.wish {
            Wish::Pause => &["pause"],
            Wish::Unpause => &["unpause"],
            Wish::Stop => &["stop", "--wait=0s"],
            Wish::StopNow => &["stop", "--now", "--wait=0s"],
            Wish::Limits => &["limits"],
            Wish::Answer => &["answer", "--detach"],
        };
        let mut words: Vec<OsString> = words.iter().map(OsString::from).collect();
        words.extend(["--work-dir".into(), dir.into()]);
        for (flag, value) in [
            ("stage", &self.stage),
            ("max-sessions", &self.max_sessions),
            ("run-budget", &self.run_budget),
            ("session-timeout", &self.session_timeout),
        ] {
            let value = value.trim();
            words.extend((!value.is_empty()).then(|| format!("--{flag}={value}").into()));
        }
        if let Wish::Answer = self.wish {
            let answer = self.words.replace("\r\n", "\n");
            words.extend(["--".into(), run.into(), answer.into()]);
        } else {
            words.push(run.into());
        }
        words
    }
}

/// The command as a person would type it.
pub(super) fn in_words(words: &[OsString]) -> String {
    let words = words.iter().map(|word| word.to_string_lossy());
    let words: Vec<_> = std::iter::once("ekiden".into()).chain(words).collect();
    let joined = shlex::try_join(words.iter().map(AsRef::as_ref));
    joined.unwrap_or_else(|_| words.join(" "))
}

/// Has the command run to its end, or says why it failed.
pub(super) fn carry_out(words: &[OsString]) -> Result<(), String> {
    let ran = ekiden_agent::keeper::path_of_executable().and_then(|own| detached::run(&own, words));
    match ran {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => Err(format!("error: cannot start ekiden: {error}")),
    }
}
