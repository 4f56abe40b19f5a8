//! The socket on which a running run is steered. The engine listens, so it can check who asks: the system
//! identifies the process at the other end, and a process cannot choose its ancestors.
//!
//! ```text
//! ekiden pause ──{"message":…,"steering":…}──► serve ── from a session? ──► refused
//!              ◄──────{"kind":"recorded"}───────┘  └──► Input::Steered ──► Engine ──► log
//! ```
//!
//! The engine answers when the message is on the disk. A caller that got no answer may send the message again:
//! the engine recognizes its id.

use std::path::PathBuf;

use ekiden_agent::address::{Socket, question};
use ekiden_agent::lineage::{self, Origin};
use ekiden_core::steering::{Asker, Steered, Steering};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};

use crate::effect_runner::Input;

const MESSAGE_BYTES_MAX: u64 = 1024 * 1024;

/// What the engine answers to a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Reply {
    Recorded,
    Refused {
        why: Refusal,
    },
    /// This version does not know such a message.
    Unknown {
        why: String,
    },
}

/// Why somebody may not steer a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    OwnSession,
    OtherSession,
    SpeaksAsUser,
    UnknownOrigin,
}

impl Refusal {
    pub(crate) fn in_words(self) -> &'static str {
        match self {
            Self::OwnSession => "this command comes from inside the run's own session",
            Self::OtherSession => "this command comes from a session of another run",
            Self::SpeaksAsUser => "only a person may send words to its next session",
            Self::UnknownOrigin => "the engine cannot see where this command comes from",
        }
    }
}

/// The socket of a run that begins; the listener holds the run's lock. If no socket can be made, the run
/// continues: its own terminal stops it.
pub(crate) fn of_run(path: PathBuf, inputs: &mpsc::Sender<Input>) -> Option<Socket> {
    let warn = |error| {
        let text = format!("other terminals cannot stop or pause this run: {error}");
        // The channel is new, so there is room.
        let _ = inputs.try_send(Input::Warning(text));
    };
    let sender = inputs.clone();
    let serve = move |caller: UnixStream| {
        // Before anything is read: a process that is gone cannot be looked up.
        let asker = asker(&caller);
        serve(caller, asker, sender.clone())
    };
    Socket::listen(path, serve).map_err(warn).ok()
}

fn asker(caller: &UnixStream) -> Result<Asker, Refusal> {
    let pid = caller.peer_cred().ok().and_then(|peer| peer.pid());
    let pid = pid.ok_or(Refusal::UnknownOrigin)?;
    match lineage::origin(pid) {
        Origin::Engine => Ok(Asker::Terminal),
        Origin::Outside => Ok(Asker::Command { pid }),
        Origin::StartingSession => Ok(Asker::Session { pid }),
        Origin::OwnSession => Err(Refusal::OwnSession),
        Origin::OtherSession => Err(Refusal::OtherSession),
        Origin::Unknown => Err(Refusal::UnknownOrigin),
    }
}

/// A session may not send a text that the next session reads as the user's.
fn may_say(asker: Asker, steering: &Steering) -> Result<(), Refusal> {
    match (asker, steering) {
        (Asker::Session { .. }, Steering::Instruct { .. } | Steering::Answer { .. }) => {
            Err(Refusal::SpeaksAsUser)
        }
        (Asker::Session { .. } | Asker::Terminal | Asker::Command { .. }, _) => Ok(()),
    }
}

/// The message, unless this version does not know part of it.
fn message(bytes: &[u8]) -> serde_json::Result<Steered> {
    let sent: Value = serde_json::from_slice(bytes)?;
    let message = Steered::deserialize(&sent)?;
    match is_known(&sent, &serde_json::to_value(&message)?) {
        true => Ok(message),
        false => Err(serde::de::Error::custom("a field is unknown")),
    }
}

/// Every field that was sent is also in what was understood. A field that is null, false or empty asks for nothing.
fn is_known(sent: &Value, understood: &Value) -> bool {
    match (sent, understood) {
        (Value::Null | Value::Bool(false), _) => true,
        (Value::Array(all), Value::Null) => all.is_empty(),
        (Value::Object(fields), _) => fields
            .iter()
            .all(|(name, value)| is_known(value, &understood[name])),
        (_, understood) => !understood.is_null(),
    }
}

/// Answers one caller. A caller that goes away gets no answer, but its message counts.
async fn serve(mut caller: UnixStream, asker: Result<Asker, Refusal>, inputs: mpsc::Sender<Input>) {
    let Some(bytes) = question(&mut caller, MESSAGE_BYTES_MAX).await else {
        return;
    };
    let message = message(&bytes);
    let reply = match asker.map(|asker| (asker, message)) {
        Err(why) => Reply::Refused { why },
        Ok((_, Err(error))) => Reply::Unknown {
            why: error.to_string(),
        },
        Ok((asker, Ok(message))) => match may_say(asker, &message.steering) {
            Err(why) => Reply::Refused { why },
            Ok(()) => {
                let from = Some(asker);
                let steered = Steered { from, ..message };
                let (recorded, is_recorded) = oneshot::channel();
                let sent = inputs.send(Input::Steered { steered, recorded }).await;
                if sent.is_err() || is_recorded.await.is_err() {
                    return;
                }
                Reply::Recorded
            }
        },
    };
    if let Ok(json) = serde_json::to_vec(&reply) {
        let _ = caller.write_all(&json).await;
    }
}

#[cfg(test)]
mod tests {
    use ekiden_core::settings::LimitsChanged;
    use serde_json::json;
    use tokio::io::AsyncReadExt as _;

    use super::*;

    /// What the engine answers to this message.
    fn reply(message: &Value) -> Reply {
        let runtime = crate::runtime::runtime().unwrap();
        runtime.block_on(async {
            let (caller, mut ours) = UnixStream::pair().unwrap();
            let (inputs, mut taken) = mpsc::channel(1);
            ours.write_all(message.to_string().as_bytes())
                .await
                .unwrap();
            ours.shutdown().await.unwrap();
            let engine = async {
                if let Some(Input::Steered { recorded, .. }) = taken.recv().await {
                    recorded.send(()).unwrap();
                }
            };
            tokio::join!(serve(caller, Ok(Asker::Terminal), inputs), engine);
            let mut text = String::new();
            ours.read_to_string(&mut text).await.unwrap();
            serde_json::from_str(&text).unwrap()
        })
    }

    /// The command may be newer than the engine.
    // shows: REL-25, DUR-05
    #[test]
    fn limits_that_an_engine_does_not_know_are_not_confirmed() {
        let limits = serde_json::to_value(LimitsChanged {
            sessions_max: Some(7),
            ..LimitsChanged::default()
        });
        let known = json!({ "kind": "change_limits" });
        let with = |field: &str, value: Value| {
            let mut steering = known.clone();
            let fields = steering.as_object_mut().unwrap();
            fields.extend(limits.as_ref().unwrap().as_object().unwrap().clone());
            match field {
                "bounds" => steering["bounds"]["more"] = value,
                field => steering[field] = value,
            }
            reply(&json!({ "message": "m-1", "steering": steering }))
        };
        let said = json!({ "kind": "instruct", "words": "go" });
        let said = reply(&json!({ "message": "m-2", "steering": said }));
        assert_eq!(said, Reply::Recorded);
        assert_eq!(with("guided", json!(true)), Reply::Recorded);
        for nothing in [json!(null), json!(false), json!([]), json!({ "a": null })] {
            assert_eq!(with("more", nothing), Reply::Recorded);
        }
        for field in ["more", "bounds"] {
            for value in [json!(4), json!(true), json!({ "a": 1 })] {
                let said = with(field, value);
                assert!(matches!(said, Reply::Unknown { .. }), "{said:?}");
            }
        }
    }
}
