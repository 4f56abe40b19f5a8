//! Keys of trackers: from the environment, from a program of the user's choice, from `gh`.
//!
//! A key is fetched when a request is made, lives only in this process, and appears in no file, log,
//! argument or message.

use ekiden_agent::child::ChildEnd;
use ekiden_agent::task::run_quick;
use ekiden_core::issue::TrackerKind;
use ekiden_core::time::Millis;
use ekiden_tracker::Fault;

use super::Trackers;
use crate::settings::table;

/// How long a program may take: a keyring may ask its owner.
const PATIENCE: Millis = Millis::from_secs(30);

impl Trackers {
    /// The key for a tracker.
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
        let set = set.map(str::to_owned).or_else(|| self.by_command(kind));
        set.or_else(|| self.by_gh(kind))
            .ok_or(Fault::NoKey(missing))
    }

    fn by_command(&self, kind: TrackerKind) -> Option<String> {
        let words = self.get(&table::TRACKER_CREDENTIAL_COMMAND)?;
        let words = words
            .iter()
            .map(|word| word.replace("{tracker}", kind.name()));
        let words: Vec<String> = words.collect();
        let (program, args) = words.split_first()?;
        self.printed(program, args)
    }

    fn by_gh(&self, kind: TrackerKind) -> Option<String> {
        if kind != TrackerKind::Github {
            return None;
        }
        let args = ["auth", "token", "--hostname", &self.github_host()];
        self.printed("gh", &args.map(str::to_owned))
    }

    /// The first line of a program's output, if it exits successfully.
    fn printed(&self, program: &str, args: &[String]) -> Option<String> {
        let output = run_quick(program, args, &self.dir, PATIENCE).ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        let line = text.lines().next().unwrap_or_default().trim();
        (output.end == ChildEnd::Exited(0) && !line.is_empty()).then(|| line.to_owned())
    }
}
