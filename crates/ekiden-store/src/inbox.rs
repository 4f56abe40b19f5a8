//! Messages to a running engine, one file each, from commands and hooks.
//!
//! The sender writes under a hidden name and renames into place, so the engine never sees half a
//! message and nobody waits for a lock. Names begin with the time, so name order is time order.
//!
//! The engine takes messages in three steps: [`Inbox::scan`], then its log holds what they ask for
//! with their ids, then [`Inbox::remove`]. A crash in between shows the message again, and its id
//! tells that it is known. So a message acts at most once, and a synced one ([`Reach::Disk`]) at
//! least once.
//!
//! A message that cannot be read is moved to `bad/` and reported. It never blocks the others.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use ekiden_core::ids::MessageId;
use ekiden_core::time::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::disk::{Disk, DiskError, DiskResult, Reach};
use crate::limits::MESSAGE_BYTES_MAX;
use crate::replace::{Durability, replace_by};

const SUFFIX: &str = ".json";

/// A message: `{"id":...,"time":...}` and the fields of what it asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message<T> {
    /// By which it is known again.
    pub id: MessageId,
    /// When it was sent.
    pub time: Timestamp,
    /// What it asks for.
    #[serde(flatten)]
    pub body: T,
}

/// A message that lies in the inbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received<T> {
    /// The message.
    pub message: Message<T>,
    path: PathBuf,
}

/// A file in the inbox that is no message.
#[derive(Debug)]
pub struct BadMessage {
    /// Its name.
    pub name: String,
    /// What is wrong with it.
    pub fault: MessageFault,
    /// Why it could not be moved aside; then it will be reported again.
    pub not_moved: Option<DiskError>,
}

/// What is wrong with a message.
#[derive(Debug, thiserror::Error)]
pub enum MessageFault {
    /// It cannot be read.
    #[error("it cannot be read")]
    Disk(#[from] DiskError),
    /// It is no message.
    #[error("it is no message")]
    Json(#[from] serde_json::Error),
}

/// What lies in the inbox.
#[derive(Debug)]
pub struct Scan<T> {
    /// New messages, in the order of their names.
    pub messages: Vec<Received<T>>,
    /// What is no message.
    pub bad: Vec<BadMessage>,
}

/// A message cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The disk refuses.
    #[error("leave a message")]
    Disk(#[from] DiskError),
    /// It has no JSON form.
    #[error("write the message as JSON")]
    Encode(#[from] serde_json::Error),
}

/// The inbox of a run.
#[derive(Debug, Clone)]
pub struct Inbox {
    dir: PathBuf,
}

impl Inbox {
    /// The inbox in this directory, which is made with the run.
    #[must_use]
    pub fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Leaves a message. With [`Reach::Disk`] it survives a power cut once the call returned (two
    /// syncs); with [`Reach::Cache`] only the death of the sender (no sync).
    pub fn send<T: Serialize>(
        &self,
        disk: &dyn Disk,
        message: &Message<T>,
        reach: Reach,
    ) -> Result<(), SendError> {
        let name = name_of(message);
        let bytes = serde_json::to_vec(message)?;
        let durability = match reach {
            Reach::Cache => Durability::Derived,
            Reach::Disk => Durability::Full,
        };
        let hidden = self.dir.join(format!(".{name}.new"));
        Ok(replace_by(disk, &hidden, &self.dir.join(name), &bytes, durability)?)
    }

    /// The message lies there still: nobody has taken it.
    pub fn holds<T>(&self, disk: &dyn Disk, message: &Message<T>) -> DiskResult<bool> {
        Ok(disk.stat(&self.dir.join(name_of(message)))?.is_some())
    }

    /// Takes a message back. Says whether it lay there still; if not, it has acted or will.
    pub fn withdraw<T>(&self, disk: &dyn Disk, message: &Message<T>) -> DiskResult<bool> {
        match disk.remove(&self.dir.join(name_of(message))) {
            Ok(()) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Looks for messages. Those whose id `is_known` are removed, the unreadable moved aside.
    pub fn scan<T: DeserializeOwned>(
        &self,
        disk: &dyn Disk,
        is_known: impl Fn(&MessageId) -> bool,
    ) -> DiskResult<Scan<T>> {
        let mut scan = Scan { messages: Vec::new(), bad: Vec::new() };
        let mut seen = BTreeSet::new();
        for name in disk.list(&self.dir)?.iter().filter(|name| is_message_name(name)) {
            let path = self.dir.join(name);
            match read_message::<T>(disk, &path) {
                Ok(message) if is_known(&message.id) || !seen.insert(message.id.clone()) => {
                    disk.remove(&path)?;
                }
                Ok(message) => scan.messages.push(Received { message, path }),
                Err(fault) => scan.bad.push(self.move_aside(disk, name, fault)),
            }
        }
        Ok(scan)
    }

    /// Removes a message whose request is in the log. If a power cut undoes that, the message comes
    /// again and is known.
    pub fn remove<T>(&self, disk: &dyn Disk, received: &Received<T>) -> DiskResult<()> {
        disk.remove(&received.path)
    }

    fn move_aside(&self, disk: &dyn Disk, name: &OsStr, fault: MessageFault) -> BadMessage {
        let bad = self.dir.join("bad");
        let moved = match disk.create_dir(&bad) {
            Err(error) if !error.is_already_there() => Err(error),
            Ok(()) | Err(_) => disk.rename(&self.dir.join(name), &bad.join(name)),
        };
        BadMessage { name: name.to_string_lossy().into_owned(), fault, not_moved: moved.err() }
    }
}

fn name_of<T>(message: &Message<T>) -> String {
    format!("{:013}-{}{SUFFIX}", message.time.0, message.id)
}

/// Hidden files are being written; `bad` is ours.
fn is_message_name(name: &OsStr) -> bool {
    name.to_str().is_none_or(|name| !name.starts_with('.') && name != "bad")
}

fn read_message<T: DeserializeOwned>(disk: &dyn Disk, path: &Path) -> Result<Message<T>, MessageFault> {
    let bytes = disk.read(path, MESSAGE_BYTES_MAX)?;
    Ok(serde_json::from_slice(&bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{SimDisk, every_crash};

    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(tag = "kind", rename_all = "snake_case")]
    enum Ask {
        Stop { gently: bool },
        Pause,
    }

    fn message(id: &str, time: u64, body: Ask) -> Message<Ask> {
        Message { id: id.to_owned().try_into().unwrap(), time: Timestamp(time), body }
    }

    fn stop() -> Message<Ask> {
        message("a-1", 1_780_000_000_000, Ask::Stop { gently: true })
    }

    fn inbox() -> (SimDisk, Inbox) {
        let disk = SimDisk::new();
        disk.plant_dir(Path::new("/run/inbox"));
        (disk, Inbox::new("/run/inbox".into()))
    }

    fn scan(disk: &SimDisk, inbox: &Inbox) -> Vec<Message<Ask>> {
        let scan = inbox.scan(disk, |_| false).unwrap();
        assert!(scan.bad.is_empty(), "{:?}", scan.bad);
        scan.messages.into_iter().map(|received| received.message).collect()
    }

    #[test]
    fn a_message_is_a_file_that_a_person_can_read() {
        let (disk, inbox) = inbox();
        inbox.send(&disk, &stop(), Reach::Cache).unwrap();
        let path = Path::new("/run/inbox/1780000000000-a-1.json");
        let text = String::from_utf8(disk.read(path, 1000).unwrap()).unwrap();
        expect_test::expect![[r#"{"id":"a-1","time":1780000000000,"kind":"stop","gently":true}"#]]
            .assert_eq(&text);
        assert_eq!(disk.syncs(), 0, "hooks do not sync");
    }

    #[test]
    fn messages_come_in_the_order_of_their_time() {
        let (disk, inbox) = inbox();
        let (first, second) = (message("b", 999, Ask::Pause), message("a", 1000, Ask::Pause));
        inbox.send(&disk, &second, Reach::Cache).unwrap();
        inbox.send(&disk, &first, Reach::Cache).unwrap();
        assert_eq!(scan(&disk, &inbox), [first, second]);
    }

    // shows: DUR-02
    #[test]
    fn a_synced_message_is_never_lost_and_never_torn() {
        let (disk, inbox) = inbox();
        let explored = every_crash(
            &disk,
            |disk| inbox.send(&**disk, &stop(), Reach::Disk).is_ok(),
            |disk, sent, at| {
                let found = scan(disk, &inbox);
                assert!(found == [stop()] || (found.is_empty() && !sent), "{found:?} at {at:?}");
            },
        );
        assert!(explored.worlds > 20, "{explored:?}");
    }

    // shows: DUR-01
    #[test]
    fn a_message_stays_until_it_is_removed_and_then_is_known_if_it_comes_back() {
        let (disk, inbox) = inbox();
        inbox.send(&disk, &stop(), Reach::Disk).unwrap();
        let received = inbox.scan::<Ask>(&disk, |_| false).unwrap().messages.remove(0);
        inbox.remove(&disk, &received).unwrap();
        let mut came_back = 0;
        for left in disk.survivors() {
            came_back += scan(&left, &inbox).len();
            let known = inbox.scan::<Ask>(&left, |id| *id == stop().id).unwrap();
            assert!(known.messages.is_empty());
            assert!(left.list(Path::new("/run/inbox")).unwrap().is_empty());
        }
        assert_eq!(came_back, 1);
    }

    #[test]
    fn the_same_id_twice_is_one_message() {
        let (disk, inbox) = inbox();
        inbox.send(&disk, &message("a", 1, Ask::Pause), Reach::Cache).unwrap();
        inbox.send(&disk, &message("a", 2, Ask::Pause), Reach::Cache).unwrap();
        assert_eq!(scan(&disk, &inbox), [message("a", 1, Ask::Pause)]);
    }

    // shows: DUR-04
    #[test]
    fn bad_messages_are_moved_aside_and_block_nothing() {
        let (disk, inbox) = inbox();
        disk.plant_file(Path::new("/run/inbox/0-torn.json"), b"{\"id\":\"a");
        disk.plant_file(Path::new("/run/inbox/1-other"), b"{\"id\":\"../x\",\"time\":1,\"kind\":\"pause\"}");
        disk.plant_file(Path::new("/run/inbox/.2-being-written.json.new"), b"");
        inbox.send(&disk, &stop(), Reach::Cache).unwrap();
        let first = inbox.scan::<Ask>(&disk, |_| false).unwrap();
        let bad: Vec<_> = first.bad.iter().map(|bad| (bad.name.as_str(), bad.not_moved.is_none())).collect();
        assert_eq!(bad, [("0-torn.json", true), ("1-other", true)]);
        assert_eq!(first.messages.len(), 1);
        assert_eq!(disk.list(Path::new("/run/inbox/bad")).unwrap(), ["0-torn.json", "1-other"]);
        assert_eq!(scan(&disk, &inbox), [stop()]);
    }

    #[test]
    fn a_message_that_nobody_took_can_be_taken_back() {
        let (disk, inbox) = inbox();
        inbox.send(&disk, &stop(), Reach::Disk).unwrap();
        assert!(inbox.holds(&disk, &stop()).unwrap());
        assert!(inbox.withdraw(&disk, &stop()).unwrap());
        assert!(!inbox.holds(&disk, &stop()).unwrap());
        assert!(!inbox.withdraw(&disk, &stop()).unwrap());
        assert_eq!(scan(&disk, &inbox), []);
    }
}
