//! A scenario: what goes wrong in a session, and when. The format is `docs/rehearsal.md`.
//!
//! A scenario is a list of acts. Each names the sessions and attempts it applies to, the moment, and what happens
//! then. Moments of each kind are counted through an attempt, so `call 2` is the second call.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use ekiden_core::ends::LimitKind;
use ekiden_wire::agent_side::Saying;
use ekiden_wire::stream::{RateLimitInfo, RateLimitStatus};
use rustix::process::{Signal, getpid, kill_process};
use serde::Deserialize;

use super::Error;
use super::checklist::Script;
use super::host::Halt;
use super::tool::Tool;
use super::turn::{Agent, Turn};
use crate::unix;

/// The status of a usage limit.
const TOO_MANY_REQUESTS: u16 = 429;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Acts {
    acts: Vec<Act>,
    seen: BTreeMap<ScenarioPoint, u32>,
}

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
    moment: ScenarioPoint,
    number: Option<u32>,
}

/// A moment in an agent's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ScenarioPoint {
    /// The process runs and has received nothing.
    Start,
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

/// What an agent, a client or a service does and should not.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Deed {
    Say(String),
    /// Runs a command through its tool, so the host is asked first.
    Run(String),
    /// Runs a command outside the wire, with its output as the agent's own.
    Sh(String),
    /// The service fails with this HTTP status, which ends the turn.
    Fail(u16),
    /// The service's usage limit is reached. It resets in this many seconds.
    Limit(i64),
    /// Asks the user this, in its handoff.
    Question(String),
    /// Answers with this from now on, if a schema is asked for.
    Answer(String),
    /// Leaves with this exit code.
    Exit(i32),
    /// Is killed by this signal.
    Die(i32),
    Hang,
    /// Fills the window with this many tokens.
    Fill(u64),
    /// Ignores SIGTERM and its kin from now on.
    IgnoreSignals,
    IgnoreMessages,
    /// Leaves these files out of every handoff from now on.
    LeaveOut(Vec<String>),
    /// Changes a file of every handoff from now on.
    Edit(Edit),
    /// Undoes changes of the handoff, and no longer ignores messages.
    Behave,
}

/// A change to a file of the handoff.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Edit {
    file: String,
    /// What to replace, everywhere; the whole file if nothing is named.
    find: Option<String>,
    put: String,
}

/// How a scenario changes the handoff.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Revision {
    left_out: Vec<String>,
    edits: Vec<Edit>,
    pub(super) question: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    #[serde(default)]
    act: Vec<Act>,
}

impl Acts {
    pub(super) fn parse(text: &str, session: u32, attempt: u32) -> Result<Self, toml::de::Error> {
        let mut acts = toml::from_str::<Scenario>(text)?.act;
        if let Some(wrong) = acts.iter().find_map(Act::wrong_moment) {
            return Err(serde::de::Error::custom(wrong));
        }
        let includes = |numbers: &Option<Numbers>, number| match numbers {
            None => true,
            Some(Numbers::One(one)) => *one == number,
            Some(Numbers::Some(some)) => some.contains(&number),
        };
        acts.retain(|act| includes(&act.session, session) && includes(&act.attempt, attempt));
        Ok(Self {
            acts,
            seen: BTreeMap::new(),
        })
    }

    /// What to do now that this moment has come, in the order of the scenario.
    fn due(&mut self, moment: ScenarioPoint) -> Vec<Deed> {
        let seen = self.seen.entry(moment).or_default();
        *seen += 1;
        let is_due =
            |when: When| when.moment == moment && when.number.is_none_or(|number| number == *seen);
        let due = self.acts.iter().filter(|act| is_due(act.at));
        due.map(|act| act.deed.clone()).collect()
    }
}

impl Act {
    /// Why this cannot happen then.
    fn wrong_moment(&self) -> Option<&'static str> {
        use ScenarioPoint::{End, File, Start, Stop};
        let needs_turn = matches!(
            self.deed,
            Deed::Say(_) | Deed::Run(_) | Deed::Fail(_) | Deed::Limit(_)
        );
        let moment = self.at.moment;
        if needs_turn && matches!(moment, Start | End) {
            Some(
                "`say`, `run`, `fail` and `limit` need a conversation, so not at `start` and `end`",
            )
        } else if matches!(self.deed, Deed::Question(_)) && matches!(moment, File | Stop | End) {
            Some(
                "`question` goes into the handoff, so it must come before `file`, `stop` and `end`",
            )
        } else {
            None
        }
    }
}

impl Revision {
    /// The files as they are written.
    pub(super) fn apply(&self, files: &mut Vec<(String, String)>) {
        files.retain(|(name, _)| !self.left_out.contains(name));
        for edit in &self.edits {
            for (_, text) in files.iter_mut().filter(|(name, _)| *name == edit.file) {
                *text = match &edit.find {
                    Some(found) => text.replace(found, &edit.put),
                    None => edit.put.clone(),
                };
            }
        }
    }
}

impl TryFrom<String> for When {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (moment, number) = text
            .split_once(' ')
            .map_or((text.as_str(), None), |(moment, number)| {
                (moment, Some(number))
            });
        let number = number.map(|number| {
            let not_a_number = |_| format!("`{number}` is not the number of a moment");
            number.parse().map_err(not_a_number)
        });
        let named = serde::de::value::StrDeserializer::<serde::de::value::Error>::new(moment);
        Ok(Self {
            moment: ScenarioPoint::deserialize(named).map_err(|error| error.to_string())?,
            number: number.transpose()?,
        })
    }
}

impl<W: Write> Agent<W> {
    pub(super) async fn act(&mut self, moment: ScenarioPoint, turn: &mut Turn) -> Result<(), Halt> {
        for deed in self.setup.acts.due(moment) {
            match deed {
                Deed::Say(words) => {
                    let usage = self.usage();
                    self.say(&usage, Saying::Text(&words))?;
                }
                Deed::Run(text) => {
                    let usage = self.usage();
                    let tool = Tool::Run(Script { shell: "sh", text });
                    self.call(turn, &usage, &tool).await?;
                }
                Deed::Sh(text) => sh(&text)?,
                Deed::Fail(status) => return Err(self.fail(status, None)?),
                Deed::Limit(resets_in_s) => {
                    return Err(self.fail(TOO_MANY_REQUESTS, Some(resets_in_s))?);
                }
                Deed::Question(question) => self.revise(|of| of.question = Some(question)),
                Deed::Answer(text) => self.answer = Some(text),
                Deed::Exit(code) => std::process::exit(code),
                Deed::Die(signal) => {
                    // A number that is not a signal changes nothing.
                    if let Some(signal) = Signal::from_named_raw(signal) {
                        let _ = kill_process(getpid(), signal);
                    }
                }
                Deed::Hang => loop {
                    std::thread::park();
                },
                Deed::Fill(tokens) => self.host.window.fill(tokens),
                Deed::IgnoreSignals => unix::ignore_requests(),
                Deed::IgnoreMessages => self.is_deaf = true,
                Deed::LeaveOut(files) => self.revise(|of| of.left_out.extend(files)),
                Deed::Edit(edit) => self.revise(|of| of.edits.push(edit)),
                Deed::Behave => {
                    self.is_deaf = false;
                    self.revise(|of| *of = Revision::default());
                }
            }
        }
        Ok(())
    }

    fn revise(&mut self, change: impl FnOnce(&mut Revision)) {
        if let Some(revision) = self.mind.revision() {
            change(revision);
        }
    }

    /// Reports the limit, if it is one, and returns the failure that ends the turn.
    fn fail(&mut self, status: u16, resets_in_s: Option<i64>) -> Result<Halt, Error> {
        if status == TOO_MANY_REQUESTS {
            let info = RateLimitInfo {
                status: RateLimitStatus::Rejected,
                resets_at: resets_in_s.map(|secs| now_secs().saturating_add_signed(secs)),
                kind: LimitKind::FiveHour,
            };
            self.host.send(&self.host.writer.rate_limit(&info))?;
        }
        Ok(Halt::Failed { status })
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "this process plays a client that does what it should not"
)]
fn sh(text: &str) -> Result<(), Error> {
    let mut command = Command::new("sh");
    command.args(["-c", text]).stdin(Stdio::null());
    command.status().map(drop).map_err(Error::Write)
}

#[expect(
    clippy::disallowed_methods,
    reason = "this process plays a service that names the time of a reset"
)]
fn now_secs() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acts(text: &str, session: u32, attempt: u32) -> Acts {
        Acts::parse(text, session, attempt).unwrap()
    }

    const CRASH: &str = "[[act]]\nsession = [1, 3]\nattempt = 1\nat = 'call 2'\ndo = { die = 9 }\n";

    // shows: AGT-05
    #[test]
    fn an_act_has_its_session_attempt_and_moment() {
        let due = |session, attempt| {
            let mut acts = acts(CRASH, session, attempt);
            assert_eq!(acts.due(ScenarioPoint::Prompt), []);
            assert_eq!(acts.due(ScenarioPoint::Call), []);
            acts.due(ScenarioPoint::Call)
        };
        assert_eq!(due(1, 1), [Deed::Die(9)]);
        assert_eq!(due(3, 1), [Deed::Die(9)]);
        assert_eq!(due(2, 1), []);
        assert_eq!(due(1, 2), []);
    }

    // shows: AGT-05
    #[test]
    fn a_moment_without_a_number_is_each_of_its_kind() {
        let mut acts = acts("[[act]]\nat = 'stop'\ndo = { say = 'bye' }\n", 7, 2);
        let bye = [Deed::Say("bye".to_owned())];
        assert_eq!(acts.due(ScenarioPoint::Stop), bye);
        assert_eq!(acts.due(ScenarioPoint::Stop), bye);
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
            edits: vec![
                edit("b", Some("x"), "y"),
                edit("b", Some("yy"), "z"),
                edit("c", None, ""),
            ],
            question: None,
        };
        let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let mut files = vec![
            file("a", "x"),
            file("b", "xxx"),
            file("c", "x"),
            file("d", "x"),
        ];
        revision.apply(&mut files);
        assert_eq!(files, [file("b", "zy"), file("c", ""), file("d", "x")]);
    }

    // shows: AGT-05
    #[test]
    fn a_scenario_that_is_wrong_says_what_is_wrong() {
        let wrong = |text: &str| Acts::parse(text, 1, 1).unwrap_err().message().to_owned();
        let moment = wrong("[[act]]\nat = 'lunch'\ndo = 'hang'\n");
        assert!(
            moment.contains("unknown variant `lunch`, expected one of `start`, `prompt`"),
            "{moment}"
        );
        assert!(
            wrong("[[act]]\nat = 'call two'\ndo = 'hang'\n").contains("`two` is not the number")
        );
        let deed = wrong("[[act]]\nat = 'call'\ndo = 'sing'\n");
        assert!(deed.contains("unknown variant `sing`"), "{deed}");
        assert!(
            wrong("[[act]]\nat = 'call'\ndo = 'hang'\nwho = 1\n").contains("unknown field `who`")
        );
        assert!(
            wrong("[[act]]\nat = 'end'\ndo = { say = 'bye' }\n").contains("need a conversation")
        );
        let question = wrong("[[act]]\nat = 'stop'\ndo = { question = 'Which?' }\n");
        assert!(question.contains("goes into the handoff"), "{question}");
        assert!(wrong("[[acts]]\n").contains("unknown field `acts`"));
    }
}
