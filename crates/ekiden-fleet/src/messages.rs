//! What people tell the stages of a plan while it runs: to hand off, new limits, text for the next session.
//!
//! ```text
//! ekiden next, limits ──► signal ──► workflow: Messages ──query──► attempt ──standard input──► engine ──► the stage's log
//! ```
//!
//! The engine records each message that it takes, so a message counts once, even if another worker
//! continues. But others may write to the remote, where that log is. So an attempt continues a log only if
//! the workflow knows each message in it, in that order. No message changes permissions or removes a
//! review: those belong to the approved plan.

use std::collections::{BTreeMap, BTreeSet};

use ekiden_core::agent::PermissionsChange;
use ekiden_core::budget::Budget;
use ekiden_core::hash::sha256_hex;
use ekiden_core::limits::OPERATOR_CHARS_MAX;
use ekiden_core::settings::LimitsChanged;
use ekiden_core::steering::{Steered, Steering};
use ekiden_core::text;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How many messages are kept. A stage whose log holds an older one cannot continue on another worker.
const MESSAGES_MAX: usize = 100;
/// The total size of the messages as JSON: they go from one history of the plan to the next.
const BYTES_MAX: usize = 24 * 1024;
const DIGITS: usize = 32;

/// Oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Messages(Vec<Known>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    /// Finds the message again in a stage's log.
    hash: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_words: bool,
    /// `None` once it means nothing to stages that begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<Steered>,
}

impl Messages {
    /// Takes in a message, if it is for stages.
    pub(crate) fn take(&mut self, steered: Steered) {
        let Some(steering) = for_stages(steered.steering) else {
            return;
        };
        let message = Steered {
            message: steered.message,
            from: None,
            steering,
        };
        if message.steering == Steering::HandOff {
            // Two orders are as good as one.
            self.0.retain(|known| !known.is_hand_off());
        }
        self.0.push(Known {
            hash: hash(&message),
            is_words: matches!(message.steering, Steering::Instruct { .. }),
            message: Some(message),
        });
        self.forget();
    }

    /// The messages for stages, oldest first. Somebody who steers the workflow without ekiden can put
    /// anything there, so messages that are not for stages are left out here, too.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Steered> {
        let all = self.0.iter().filter_map(|known| known.message.as_ref());
        all.filter(|message| is_for_stages(&message.steering))
    }

    /// Everything except text.
    pub(crate) fn without_words(mut self) -> Self {
        self.0.retain(|known| !known.is_words);
        self
    }

    /// Forgets limits that a later message replaced, and the oldest text that a session has no room for.
    fn forget(&mut self) {
        let (mut named, mut chars) = (BTreeSet::new(), 0);
        for known in self.0.iter_mut().rev() {
            let Some(message) = &known.message else {
                continue;
            };
            let holds = match &message.steering {
                Steering::ChangeLimits(limits) => {
                    let before = named.len();
                    named.extend(leaves(limits).into_keys());
                    named.len() > before
                }
                Steering::Instruct { words } => {
                    chars += words.chars().count() + 1;
                    chars <= OPERATOR_CHARS_MAX + 1
                }
                Steering::HandOff
                | Steering::Stop { .. }
                | Steering::Pause
                | Steering::Unpause
                | Steering::Answer { .. } => true,
            };
            known.message.take_if(|_| !holds);
        }
        while self.0.len() > MESSAGES_MAX {
            let replaced = self.0.iter().position(|known| known.message.is_none());
            self.0.remove(replaced.unwrap_or(0));
        }
        while serde_json::to_vec(self).is_ok_and(|json| json.len() > BYTES_MAX) {
            let Some(first) = self.0.iter_mut().find(|known| known.message.is_some()) else {
                return;
            };
            first.message = None;
        }
    }
}

impl Known {
    fn is_hand_off(&self) -> bool {
        let message = self.message.as_ref();
        message.is_some_and(|message| message.steering == Steering::HandOff)
    }
}

/// The messages of a log that somebody else may have written.
pub(crate) struct Vouching<'a> {
    known: std::slice::Iter<'a, Known>,
}

impl<'a> Vouching<'a> {
    pub(crate) fn new(messages: &'a Messages) -> Self {
        let known = messages.0.iter();
        Self { known }
    }

    /// Whether the workflow knows this next message of the log. An order to hand off permits nothing, so it
    /// may come from anybody.
    pub(crate) fn knows(&mut self, steered: &Steered) -> bool {
        let hash = hash(steered);
        steered.steering == Steering::HandOff
            || (is_for_stages(&steered.steering) && self.known.any(|known| known.hash == hash))
    }
}

/// The part of a message for a stage's own engine: without what the plan decides, and without what only the
/// person who approves a plan may change.
fn for_stages(steering: Steering) -> Option<Steering> {
    match steering {
        Steering::HandOff => Some(Steering::HandOff),
        Steering::Instruct { words } => {
            let words = text::clean(&words).text;
            let words: String = words.trim().chars().take(OPERATOR_CHARS_MAX).collect();
            let words = words.trim_end().to_owned();
            (!words.is_empty()).then_some(Steering::Instruct { words })
        }
        Steering::ChangeLimits(mut limits) => {
            limits.permissions = PermissionsChange::default();
            limits.no_review = false;
            // Nobody sits at a worker.
            limits.guided = None;
            // These are reserved for each stage.
            limits.bounds.run = Budget::default();
            limits.bounds.agents.clear();
            (*limits != LimitsChanged::default()).then_some(Steering::ChangeLimits(limits))
        }
        Steering::Stop { .. } | Steering::Pause | Steering::Unpause | Steering::Answer { .. } => {
            None
        }
    }
}

fn is_for_stages(steering: &Steering) -> bool {
    for_stages(steering.clone()).as_ref() == Some(steering)
}

/// Unset fields do not count: a message has the same hash in a log, and in a version that has more limits.
fn hash(steered: &Steered) -> String {
    let told = (&steered.message, leaves(&steered.steering));
    let json = serde_json::to_vec(&told).unwrap_or_default();
    let mut hash = sha256_hex(&json);
    hash.truncate(DIGITS);
    hash
}

/// All values in it, by the paths of their fields.
fn leaves(told: &impl Serialize) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    gather(
        String::new(),
        serde_json::to_value(told).unwrap_or_default(),
        &mut found,
    );
    found
}

fn gather(path: String, value: Value, found: &mut BTreeMap<String, Value>) {
    match value {
        Value::Null => {}
        Value::Object(fields) => {
            for (name, value) in fields {
                gather(format!("{path}/{name}"), value, found);
            }
        }
        value @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            found.insert(path, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use ekiden_core::ids::MessageId;
    use ekiden_core::steering::Asker;
    use ekiden_core::time::Millis;

    use super::*;

    fn message(id: usize, steering: Steering) -> Steered {
        Steered {
            message: MessageId::try_from(format!("m{id}")).unwrap(),
            from: None,
            steering,
        }
    }

    fn limits(change: impl FnOnce(&mut LimitsChanged)) -> Steering {
        let mut limits = LimitsChanged::default();
        change(&mut limits);
        Steering::ChangeLimits(Box::new(limits))
    }

    fn sessions(max: u32) -> Steering {
        limits(|limits| limits.sessions_max = Some(max))
    }

    fn words(words: &str) -> Steering {
        let words = words.to_owned();
        Steering::Instruct { words }
    }

    fn messages(all: impl IntoIterator<Item = Steering>) -> Messages {
        let mut messages = Messages::default();
        for (id, steering) in all.into_iter().enumerate() {
            messages.take(message(id, steering));
        }
        messages
    }

    fn told(messages: &Messages) -> Vec<Steering> {
        let all = messages.all();
        all.map(|message| message.steering.clone()).collect()
    }

    // shows: FLT-03
    #[test]
    fn stages_that_begin_later_hear_what_still_counts() {
        let timeout = limits(|limits| {
            limits.sessions_max = Some(3);
            limits.bounds.session_timeout = Some(Millis(5));
        });
        let (next, said) = (Steering::HandOff, words("Use tabs."));
        let all = [
            sessions(2),
            next.clone(),
            timeout.clone(),
            said.clone(),
            Steering::Pause,
            sessions(4),
            next.clone(),
        ];
        let heard = told(&messages(all));
        assert_eq!(heard, [timeout, said, sessions(4), next]);
    }

    #[test]
    fn of_too_many_words_the_newest_are_kept() {
        let long = |word: &str| words(&word.repeat(OPERATOR_CHARS_MAX / 2));
        let heard = told(&messages([long("a"), long("b"), words("c")]));
        assert_eq!(heard, [long("b"), words("c")]);
        let alone = words(&"d".repeat(OPERATOR_CHARS_MAX));
        assert_eq!(told(&messages([long("a"), alone.clone()])), [alone]);
    }

    #[test]
    fn however_many_there_are_they_are_small() {
        let all = (0..1_000).flat_map(|n| [sessions(n), words(&"\u{1F4A5}".repeat(40))]);
        let all = messages(all);
        assert!(all.0.len() <= MESSAGES_MAX);
        assert!(serde_json::to_vec(&all).unwrap().len() <= BYTES_MAX);
        assert!(told(&all).contains(&sessions(999)));
    }

    // shows: FLT-05
    #[test]
    fn no_message_changes_what_was_approved() {
        let wider = limits(|limits| {
            limits.permissions.skip = Some(true);
            limits.permissions.allowed_tools = vec!["Bash".to_owned()];
            limits.no_review = true;
            limits.guided = Some(true);
            limits.bounds.run.tokens = Some(9);
        });
        assert_eq!(told(&messages([wider.clone()])), []);
        // As by somebody who decides what the workflow answers.
        let forged = Messages(vec![Known {
            hash: hash(&message(0, wider.clone())),
            is_words: false,
            message: Some(message(0, wider.clone())),
        }]);
        assert_eq!(told(&forged), []);
        assert!(!Vouching::new(&forged).knows(&message(0, wider)));
    }

    // shows: FLT-05
    #[test]
    fn a_log_holds_only_messages_that_the_workflow_knows_in_their_order() {
        let all = [sessions(50), words("Use tabs."), sessions(5)];
        let known = messages(all.clone());
        let log = |log: &[(usize, &Steering)]| {
            let mut vouching = Vouching::new(&known);
            log.iter().all(|(id, steering)| {
                vouching.knows(&Steered {
                    from: Some(Asker::Terminal),
                    ..message(*id, (*steering).clone())
                })
            })
        };
        let [fifty, tabs, five] = &all;
        assert!(log(&[(0, fifty), (1, tabs), (2, five)]) && log(&[(2, five)]));
        assert!(log(&[(7, &Steering::HandOff), (1, tabs)]));
        assert!(!log(&[(2, five), (0, fifty)]), "the wider one again");
        assert!(!log(&[(0, fifty), (0, fifty)]));
        assert!(!log(&[(2, &sessions(6))]) && !log(&[(3, five)]));
        assert!(!log(&[(1, &words("Use spaces."))]));
        assert!(!log(&[(4, &Steering::Pause)]));
        let signed = known.clone().without_words();
        assert!(!Vouching::new(&signed).knows(&message(1, tabs.clone())));
        assert_eq!(told(&signed), std::slice::from_ref(five));
    }
}
