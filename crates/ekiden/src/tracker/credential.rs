//! Keys of trackers: from the environment, from a program of the user's choice, from `gh`.
//!
//! A key is fetched when a request is made, lives only in this process, and appears in no file, log,
//! argument or message.

use ekiden_agent::child::{ChildEnd, SpawnError};
use ekiden_agent::task::run_quick;
use ekiden_core::issue::TrackerKind;
use ekiden_core::text::in_full;
use ekiden_core::time::Millis;
use ekiden_tracker::Fault;

use super::Trackers;
use crate::settings::table;

/// How long a program may take: a keyring may ask its owner.
const PATIENCE: Millis = Millis::from_secs(30);

impl Trackers {
    pub(super) fn key(&self, kind: TrackerKind) -> Result<String, Fault> {
        let (variables, missing): (&[&str], _) = match kind {
            TrackerKind::Linear => (&["LINEAR_API_KEY"], "set LINEAR_API_KEY"),
            TrackerKind::Github => (
                &["GITHUB_TOKEN", "GH_TOKEN"],
                "set GITHUB_TOKEN, or `gh auth login`",
            ),
            TrackerKind::Local => return Ok(String::new()),
        };
        let set = variables
            .iter()
            .find_map(|name| self.environment.variable(name));
        if let Some(set) = set {
            return Ok(set.to_owned());
        }
        let by_command = self.by_command(kind);
        if let Some(Ok(key)) = by_command {
            return Ok(key);
        }
        let why = by_command.and_then(Result::err);
        let missing = why.map_or(Fault::NoKey(missing), Fault::KeyCommand);
        self.by_gh(kind).ok_or(missing)
    }

    /// What the user's program printed, or why it printed no key; `None` if there is no such program.
    fn by_command(&self, kind: TrackerKind) -> Option<Result<String, String>> {
        let words = self.get(&table::TRACKER_CREDENTIAL_COMMAND)?;
        let words = words
            .iter()
            .map(|word| word.replace("{tracker}", kind.name()));
        let words: Vec<String> = words.collect();
        let (program, args) = words.split_first()?;
        let printed = self.printed(program, args);
        Some(printed.map_err(|why| format!("`{program}` {why}")))
    }

    fn by_gh(&self, kind: TrackerKind) -> Option<String> {
        if kind != TrackerKind::Github {
            return None;
        }
        let args = ["auth", "token", "--hostname", &self.github_host()];
        self.printed("gh", &args.map(str::to_owned)).ok()
    }

    /// The first line of a program's output, if it exits successfully; otherwise what became of the program.
    fn printed(&self, program: &str, args: &[String]) -> Result<String, String> {
        let told = |error: SpawnError| match matches!(error, SpawnError::NoProgram { .. }) {
            true => "is not on PATH".to_owned(),
            false => format!("did not start: cannot {}", in_full(&error)),
        };
        let output = run_quick(program, args, &self.dir, PATIENCE).map_err(told)?;
        let text = String::from_utf8_lossy(&output.stdout);
        let line = text.lines().next().unwrap_or_default().trim();
        match output.end {
            _ if output.timed_out => Err(format!("gave no answer in {PATIENCE}")),
            ChildEnd::Exited(0) if line.is_empty() => Err("printed nothing".to_owned()),
            ChildEnd::Exited(0) => Ok(line.to_owned()),
            ChildEnd::Exited(code) => Err(format!("exited with {code}")),
            ChildEnd::Signaled(signal) => Err(format!("ended by signal {signal}")),
            ChildEnd::NotStarted(why) => Err(format!("did not start: {why}")),
            ChildEnd::KeeperLost => Err("ended, as its keeper was killed".to_owned()),
        }
    }
}
