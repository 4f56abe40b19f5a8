//! A scenario: what goes wrong in a session, and when. Pure; the format is `docs/rehearsal.md`.
//!
//! A scenario is a list of acts. Each names the sessions and attempts that it is for, the moment, and
//! the deed. Moments of a kind are counted through an attempt, so that `call 2` is the second call.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::Deserialize;

/// The acts of one attempt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Acts {
    acts: Vec<Act>,
    seen: BTreeMap<Moment, u32>,
}

/// What happens, when, and in which attempts.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Act {
    session: Option<Numbers>,
    attempt: Option<Numbers>,
    at: When,
    #[serde(rename = "do")]
    deed: Deed,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
enum Numbers {
    One(u32),
    Some(Vec<u32>),
}

/// A kind of moment, and which one of them if not all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct When {
    moment: Moment,
    number: Option<u32>,
}

/// A moment in the life of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Moment {
    /// The process runs and has heard nothing.
    Start,
    /// The prompt has come.
    Prompt,
    /// Another message has come, or the reason why its turn may not end.
    Message,
    /// It is about to work on an item.
    Call,
    /// It is about to write a file of its handoff.
    File,
    /// It is about to end its turn.
    Stop,
    /// Its host has said that no message will come.
    End,
}

/// What an agent does that it should not.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "no deed; `docs/rehearsal.md` lists them with what they take")]
pub(super) enum Deed {
    /// Something that needs a turn.
    InTurn(InTurn),
    /// Something that can be done at every moment.
    Anywhere(Anywhere),
}

/// What is done in a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum InTurn {
    /// Says something.
    Say(String),
    /// Runs a command by its tool.
    Run(String),
    /// The service fails, which ends the turn.
    Fail {
        /// The HTTP status; 429 is a usage limit.
        status: u16,
        /// When the limit is lifted, in seconds from now.
        resets_in_s: Option<i64>,
    },
}

/// What a process does by itself, or does differently from now on.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Anywhere {
    /// Leaves with this exit code.
    Exit(i32),
    /// Is killed by this signal.
    Die(i32),
    /// Does nothing any more.
    Hang,
    /// Is deaf to SIGTERM and its kin from now on.
    IgnoreSignals,
    /// Is deaf to messages from now on.
    IgnoreMessages,
    /// Fills the window with so many tokens.
    Fill(u64),
    /// Writes raw text.
    Print(Print),
    /// Leaves these files out of every handoff from now on.
    LeaveOut(Vec<String>),
    /// Changes a file of every handoff from now on.
    Edit(Edit),
    /// Takes back all that was said with "from now on", but for signals.
    Behave,
}

/// Raw text for the host, which may be no line of the wire.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Print {
    pub(super) text: String,
    #[serde(default = "once")]
    pub(super) times: u64,
    /// A pause after each time.
    #[serde(default)]
    pub(super) pause_ms: u64,
    /// Goes to standard error.
    #[serde(default)]
    pub(super) stderr: bool,
}

/// A change of a file of the handoff.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Edit {
    pub(super) file: String,
    /// What is replaced, everywhere; the whole file if nothing is named.
    pub(super) find: Option<String>,
    pub(super) put: String,
}

/// How the handoff differs from what it should be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Revision {
    pub(super) left_out: Vec<String>,
    pub(super) edits: Vec<Edit>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    #[serde(default)]
    act: Vec<Act>,
}

fn once() -> u64 {
    1
}

impl Acts {
    /// The acts of this attempt at this session.
    ///
    /// # Errors
    ///
    /// If the text is no scenario; with what is wrong and where.
    pub(super) fn parse(text: &str, session: u32, attempt: u32) -> Result<Self, toml::de::Error> {
        let mut acts = toml::from_str::<Scenario>(text)?.act;
        if acts.iter().any(|act| act.at.moment.is_outside() && matches!(act.deed, Deed::InTurn(_))) {
            let why = "nothing can be said, run or fail at `start` and `end`: there is no conversation";
            return Err(serde::de::Error::custom(why));
        }
        let includes = |numbers: &Option<Numbers>, number| match numbers {
            None => true,
            Some(Numbers::One(one)) => *one == number,
            Some(Numbers::Some(some)) => some.contains(&number),
        };
        acts.retain(|act| includes(&act.session, session) && includes(&act.attempt, attempt));
        Ok(Self { acts, seen: BTreeMap::new() })
    }

    /// What is to be done now that this moment has come, in the order of the scenario.
    pub(super) fn due(&mut self, moment: Moment) -> Vec<Deed> {
        let seen = self.seen.entry(moment).or_default();
        *seen += 1;
        let is_due = |when: When| when.moment == moment && when.number.is_none_or(|number| number == *seen);
        self.acts.iter().filter(|act| is_due(act.at)).map(|act| act.deed.clone()).collect()
    }
}

impl Revision {
    /// The files as they are written.
    pub(super) fn of(&self, files: Vec<(String, String)>) -> Vec<(String, String)> {
        let kept = files.into_iter().filter(|(name, _)| !self.left_out.contains(name));
        kept.map(|(name, text)| {
            let edits = self.edits.iter().filter(|edit| edit.file == name);
            let text = edits.fold(text, |text, edit| edit.apply(&text));
            (name, text)
        })
        .collect()
    }
}

impl Edit {
    fn apply(&self, text: &str) -> String {
        match &self.find {
            Some(found) => text.replace(found, &self.put),
            None => self.put.clone(),
        }
    }
}

impl Moment {
    /// It lies before or after all turns.
    fn is_outside(self) -> bool {
        matches!(self, Self::Start | Self::End)
    }
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "start" => Self::Start,
            "prompt" => Self::Prompt,
            "message" => Self::Message,
            "call" => Self::Call,
            "file" => Self::File,
            "stop" => Self::Stop,
            "end" => Self::End,
            other => {
                return Err(format!(
                    "`{other}` is no moment; there are: start, prompt, message, call, file, stop, end"
                ));
            }
        })
    }
}

impl TryFrom<String> for When {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let Some((moment, number)) = text.split_once(' ') else {
            return Ok(Self { moment: text.parse()?, number: None });
        };
        let number = number.parse().map_err(|_| format!("`{number}` is no number of a moment"))?;
        Ok(Self { moment: moment.parse()?, number: Some(number) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acts(text: &str, session: u32, attempt: u32) -> Acts {
        Acts::parse(text, session, attempt).unwrap()
    }

    const CRASH: &str = "[[act]]\nsession = [1, 3]\nattempt = 1\nat = 'call 2'\ndo = { exit = 3 }\n";

    // shows: AGT-05
    #[test]
    fn an_act_has_its_session_attempt_and_moment() {
        let due = |session, attempt| {
            let mut acts = acts(CRASH, session, attempt);
            assert_eq!(acts.due(Moment::Prompt), []);
            assert_eq!(acts.due(Moment::Call), []);
            acts.due(Moment::Call)
        };
        assert_eq!(due(1, 1), [Deed::Anywhere(Anywhere::Exit(3))]);
        assert_eq!(due(3, 1), [Deed::Anywhere(Anywhere::Exit(3))]);
        assert_eq!(due(2, 1), []);
        assert_eq!(due(1, 2), []);
    }

    // shows: AGT-05
    #[test]
    fn a_moment_without_a_number_is_each_of_its_kind() {
        let mut acts = acts("[[act]]\nat = 'stop'\ndo = { say = 'bye' }\n", 7, 2);
        assert_eq!(acts.due(Moment::Stop), [Deed::InTurn(InTurn::Say("bye".to_owned()))]);
        assert_eq!(acts.due(Moment::Stop), [Deed::InTurn(InTurn::Say("bye".to_owned()))]);
    }

    // shows: AGT-05
    #[test]
    fn the_handoff_is_revised() {
        let edit = |file: &str, find: Option<&str>, put: &str| Edit {
            file: file.to_owned(),
            find: find.map(str::to_owned),
            put: put.to_owned(),
        };
        let revision = Revision {
            left_out: vec!["a".to_owned()],
            edits: vec![edit("b", Some("x"), "y"), edit("b", Some("yy"), "z"), edit("c", None, "")],
        };
        let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let files = vec![file("a", "x"), file("b", "xxx"), file("c", "x"), file("d", "x")];
        assert_eq!(revision.of(files), [file("b", "zy"), file("c", ""), file("d", "x")]);
    }

    // shows: AGT-05
    #[test]
    fn what_is_no_scenario_is_said() {
        let wrong = |text: &str| Acts::parse(text, 1, 1).unwrap_err().message().to_owned();
        let moment = wrong("[[act]]\nat = 'lunch'\ndo = 'hang'\n");
        assert!(moment.contains("`lunch` is no moment; there are: start, prompt"), "{moment}");
        assert!(wrong("[[act]]\nat = 'call two'\ndo = 'hang'\n").contains("`two` is no number"));
        assert!(wrong("[[act]]\nat = 'call'\ndo = 'sing'\n").contains("no deed"));
        assert!(wrong("[[act]]\nat = 'call'\ndo = 'hang'\nwho = 1\n").contains("unknown field `who`"));
        assert!(wrong("[[act]]\nat = 'end'\ndo = { say = 'bye' }\n").contains("nothing can be said"));
        assert!(wrong("[[acts]]\n").contains("unknown field `acts`"));
    }
}
