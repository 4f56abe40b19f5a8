//! The sessions of a cleave relay, kept as archives of the run that continues it.

use ekiden_core::ids::{RunId, SessionNumber};
use ekiden_engine::workspace::Workspace;
use ekiden_store::archive::{archive_dir, ensure_dir};
use ekiden_store::disk::parent;

use super::cleave::known;
use super::source::Source;
use crate::failure::Failure;

/// How much is kept of all sessions together, in bytes; the newest take precedence.
const BYTES_MAX: usize = 64 * 1024 * 1024;
const KNOWLEDGE: &str = "knowledge.md";
/// The files of a session, which have the same names in its archive here.
const FILES: [&str; 4] = ["prompt.md", "progress.md", "next_prompt.md", KNOWLEDGE];

/// A session of another program.
#[derive(Debug)]
pub struct Earlier {
    pub number: SessionNumber,
    /// Names and texts.
    files: Vec<(String, String)>,
}

/// The sessions that cleave kept anything of, oldest first.
pub fn earlier(source: &Source) -> Result<Vec<Earlier>, Failure> {
    let mut numbers: Vec<SessionNumber> = source
        .names(".cleave/logs")?
        .iter()
        .filter_map(|name| name.strip_prefix("session_")?.split_once('_'))
        .filter_map(|(number, _)| SessionNumber::try_from(number.parse::<u32>().ok()?).ok())
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    let (mut sessions, mut bytes) = (Vec::new(), 0);
    for number in numbers.into_iter().rev() {
        let mut files = Vec::new();
        for name in FILES {
            let Some(text) = source.text(&format!(".cleave/logs/session_{number}_{name}"))? else {
                continue;
            };
            let text = match name {
                KNOWLEDGE => known(&text, number.get()).render(),
                _ => text,
            };
            bytes += text.len();
            files.push((name.to_owned(), text));
        }
        if bytes > BYTES_MAX {
            break;
        }
        if !files.is_empty() {
            sessions.push(Earlier { number, files });
        }
    }
    sessions.reverse();
    Ok(sessions)
}

/// Keeps them in the run's archive. If they are there already, nothing changes.
pub fn keep(sessions: &[Earlier], workspace: &Workspace, run: &RunId) -> Result<(), Failure> {
    let disk = workspace.disk();
    let relay = workspace.layout().run(run).relay(None);
    for session in sessions {
        let layout = relay.session(session.number);
        ensure_dir(&disk, parent(layout.dir()))?;
        archive_dir(&disk, layout.dir(), &session.files)?;
    }
    Ok(())
}
