//! Usage limits that sessions met, for all runs of this user on this machine.
//!
//! ```text
//! <user's state home>/ekiden/limits/<hash of agent and account>
//! ```
//!
//! A run that meets a limit notes when it is lifted. ekiden reads the note before each start. A session that
//! would meet that limit ends before it begins, with [`EndCause::LimitKnown`] in its run's log. The run that met
//! the limit ignores its own note: its log has the limit, and a person who resumes the run wants it tried. If its
//! session then works, the note is removed.
//!
//! A note is only a hint. One that is lost, damaged, expired or implausibly far ahead is ignored.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ekiden_agent::login::login;
use ekiden_core::agent::AgentSpec;
use ekiden_core::ends::{EndCause, LimitKind};
use ekiden_core::event::AttemptEnded;
use ekiden_core::hash::sha256_hex;
use ekiden_core::ids::RunId;
use ekiden_core::limits::LIMIT_AHEAD_MAX;
use ekiden_core::time::Timestamp;
use ekiden_store::archive::ensure_dir;
use ekiden_store::disk::{Disk, DiskResult, RealDisk};
use ekiden_store::limits::SMALL_FILE_BYTES_MAX;
use ekiden_store::replace::replace_at_once;
use serde::{Deserialize, Serialize};

use crate::workspace::Workspace;

/// The version that this program writes, and the newest that it reads.
const VERSION: u32 = 1;

/// The notes as one run sees them.
#[derive(Debug, Clone)]
pub(crate) struct KnownLimits {
    disk: Arc<dyn Disk>,
    /// None without a home.
    dir: Option<PathBuf>,
    /// None where there is no run, as in planning.
    run: Option<RunId>,
}

/// The limit that prevents a run by any of these agents from beginning here: the first one to be lifted.
pub fn held<'a>(
    workspace: &Workspace,
    agents: impl IntoIterator<Item = &'a AgentSpec>,
    now: Timestamp,
) -> Option<EndCause> {
    let disk = Arc::new(workspace.disk());
    let known = KnownLimits::of(workspace, disk, None);
    let agents = agents.into_iter();
    let held: Option<Vec<EndCause>> = agents
        .map(|agent| known.met(agent, now, |_| true))
        .collect();
    held?.into_iter().min_by_key(EndCause::resets_at)
}

#[derive(Debug, Serialize, Deserialize)]
struct Note {
    version: u32,
    #[serde(flatten)]
    limit: Limit,
    /// Who met it; none if it was planning, or on another machine.
    run: Option<RunId>,
}

/// A usage limit that has not been lifted yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// Whose account met it.
    pub agent: AgentSpec,
    pub resets_at: Timestamp,
    pub kind: LimitKind,
}

/// The limits noted in this directory that a run met.
pub fn met(dir: &Path, run: &RunId, now: Timestamp) -> Vec<Limit> {
    let known = KnownLimits::at(dir, None);
    let notes = known.disk.list(dir).unwrap_or_default();
    let notes = notes.into_iter();
    let notes = notes.filter_map(|entry| known.read(&dir.join(entry), now));
    let of_run = notes.filter(|note| note.run.as_ref() == Some(run));
    of_run.map(|note| note.limit).collect()
}

/// Notes a limit that a session on another machine met with an account that this machine also uses.
pub fn note(dir: &Path, limit: &Limit, now: Timestamp) -> DiskResult<()> {
    KnownLimits::at(dir, None).keep(limit, now)
}

impl KnownLimits {
    pub(crate) fn of(workspace: &Workspace, disk: Arc<dyn Disk>, run: Option<RunId>) -> Self {
        let dir = workspace.limits_dir.clone();
        Self { disk, dir, run }
    }

    fn at(dir: &Path, run: Option<RunId>) -> Self {
        Self {
            disk: Arc::new(RealDisk::new()),
            dir: Some(dir.to_owned()),
            run,
        }
    }

    /// The limit that another run met and that has not been lifted yet.
    pub(crate) fn met_elsewhere(&self, agent: &AgentSpec, now: Timestamp) -> Option<EndCause> {
        self.met(agent, now, |note| note.run != self.run)
    }

    fn met(
        &self,
        agent: &AgentSpec,
        now: Timestamp,
        counts: impl Fn(&Note) -> bool,
    ) -> Option<EndCause> {
        let of_model = |is_model: bool| self.read(&self.path(agent, is_model)?, now);
        let found = [of_model(false), of_model(true)].into_iter().flatten();
        let found = found.filter(counts);
        let last = found.map(|note| note.limit);
        let last = last.max_by_key(|limit| limit.resets_at)?;
        Some(EndCause::LimitKnown {
            resets_at: last.resets_at,
            kind: last.kind,
        })
    }

    /// Learns from the end of a session what it says about its account's limits.
    pub(crate) fn learn(
        &self,
        agent: &AgentSpec,
        ended: &AttemptEnded,
        now: Timestamp,
    ) -> DiskResult<()> {
        let EndCause::RateLimited { resets_at, kind } = ended.cause else {
            return self.lifted(agent, ended, now);
        };
        let Some(resets_at) = resets_at else {
            return Ok(());
        };
        let limit = Limit {
            agent: agent.clone(),
            resets_at,
            kind,
        };
        self.keep(&limit, now)
    }

    fn keep(&self, limit: &Limit, now: Timestamp) -> DiskResult<()> {
        let is_model = limit.kind == LimitKind::SevenDayModel;
        let Some(path) = self.path(&limit.agent, is_model) else {
            return Ok(());
        };
        let known = self.read(&path, now);
        if known.is_some_and(|known| known.limit.resets_at >= limit.resets_at) {
            return Ok(());
        }
        let note = Note {
            version: VERSION,
            limit: limit.clone(),
            run: self.run.clone(),
        };
        if let Some(dir) = &self.dir {
            ensure_dir(&*self.disk, dir)?;
        }
        let bytes = serde_json::to_vec(&note).unwrap_or_default();
        replace_at_once(&*self.disk, &path, &bytes)
    }

    /// The service answered the run that met a limit: it was lifted early.
    fn lifted(&self, agent: &AgentSpec, ended: &AttemptEnded, now: Timestamp) -> DiskResult<()> {
        let paths = [self.path(agent, false), self.path(agent, true)];
        for path in paths.into_iter().flatten() {
            let note = self.read(&path, now);
            if note.is_some_and(|note| note.run == self.run && ended.counters.turns > 0) {
                self.disk.remove(&path)?;
            }
        }
        Ok(())
    }

    /// A note that still applies; nothing else counts.
    fn read(&self, path: &Path, now: Timestamp) -> Option<Note> {
        let bytes = self.disk.read(path, SMALL_FILE_BYTES_MAX).ok()?;
        let note: Note = serde_json::from_slice(&bytes).ok()?;
        let resets_at = note.limit.resets_at;
        let is_ahead = resets_at > now && resets_at.since(now) <= LIMIT_AHEAD_MAX;
        (is_ahead && note.version <= VERSION).then_some(note)
    }

    /// Where an account's limits are noted, or those that it has for one model.
    fn path(&self, agent: &AgentSpec, is_model: bool) -> Option<PathBuf> {
        let model = is_model.then_some(agent.model.as_ref());
        let name = format!("{} {model:?}", login(agent));
        let name = &sha256_hex(name.as_bytes())[..32];
        Some(self.dir.as_ref()?.join(name))
    }
}

#[cfg(test)]
mod tests {
    use ekiden_core::agent::{AgentKind, Interface, Permissions};
    use ekiden_sim::SimDisk;

    use super::*;

    const NOW: Timestamp = Timestamp(1_792_000_000_000);
    const LATER: Timestamp = Timestamp(NOW.0 + 3_600_000);

    fn agent(model: Option<&str>) -> AgentSpec {
        AgentSpec {
            name: "claude".to_owned(),
            kind: AgentKind::Claude,
            command: vec!["claude".to_owned()],
            model: model.map(str::to_owned),
            account: None,
            permissions: Permissions::default(),
            interface: Interface::Headless,
        }
    }

    fn ended(cause: EndCause, turns: u32) -> AttemptEnded {
        let mut ended = AttemptEnded::bare(cause);
        ended.counters.turns = turns;
        ended
    }

    fn limit(resets_at: Timestamp, kind: LimitKind) -> AttemptEnded {
        let resets_at = Some(resets_at);
        ended(EndCause::RateLimited { resets_at, kind }, 0)
    }

    fn runs() -> [KnownLimits; 2] {
        let disk = SimDisk::new();
        disk.plant_dir("/home".as_ref());
        let disk: Arc<dyn Disk> = Arc::new(disk);
        [1, 2].map(|run| KnownLimits {
            disk: Arc::clone(&disk),
            dir: Some(PathBuf::from("/home/limits")),
            run: Some(RunId::from_bits(run)),
        })
    }

    // shows: AGT-14
    #[test]
    fn a_limit_holds_the_others_until_it_is_lifted() {
        let [one, other] = runs();
        let agent = agent(None);
        assert_eq!(other.met_elsewhere(&agent, NOW), None);
        let met = limit(LATER, LimitKind::FiveHour);
        one.learn(&agent, &met, NOW).unwrap();
        let known = EndCause::LimitKnown {
            resets_at: LATER,
            kind: LimitKind::FiveHour,
        };
        assert_eq!(other.met_elsewhere(&agent, NOW), Some(known.clone()));
        assert_eq!(one.met_elsewhere(&agent, NOW), None, "its own");
        assert_eq!(other.met_elsewhere(&agent, LATER), None, "over");
        // A shorter one that is met meanwhile shortens nothing, nor does a session of the other.
        let sooner = limit(Timestamp(LATER.0 - 1), LimitKind::FiveHour);
        other.learn(&agent, &sooner, NOW).unwrap();
        other
            .learn(&agent, &ended(EndCause::Completed, 3), NOW)
            .unwrap();
        assert_eq!(other.met_elsewhere(&agent, NOW), Some(known));
        // The one that met it is answered again: somebody has paid.
        one.learn(&agent, &ended(EndCause::Completed, 0), NOW)
            .unwrap();
        assert!(other.met_elsewhere(&agent, NOW).is_some());
        one.learn(&agent, &ended(EndCause::Completed, 1), NOW)
            .unwrap();
        assert_eq!(other.met_elsewhere(&agent, NOW), None);
    }

    // shows: AGT-14
    #[test]
    fn a_models_limit_holds_that_model_only() {
        let [one, other] = runs();
        let met = limit(LATER, LimitKind::SevenDayModel);
        one.learn(&agent(Some("opus")), &met, NOW).unwrap();
        let holds = |model| other.met_elsewhere(&agent(model), NOW).is_some();
        assert_eq!(
            [Some("opus"), Some("sonnet"), None].map(holds),
            [true, false, false]
        );
    }

    /// Nothing in a note blocks anybody for good.
    // shows: AGT-14
    #[test]
    fn what_cannot_be_a_limit_holds_nobody() {
        let [one, other] = runs();
        let agent = agent(None);
        let path = one.path(&agent, false).unwrap();
        let far = Timestamp(NOW.0 + LIMIT_AHEAD_MAX.0 + 1);
        one.learn(&agent, &limit(far, LimitKind::SevenDay), NOW)
            .unwrap();
        assert_eq!(other.met_elsewhere(&agent, NOW), None, "too far ahead");
        let note = |version: u32, resets_at: u64| {
            let agent = serde_json::to_string(&agent).unwrap();
            let text = format!(
                r#"{{"version":{version},"agent":{agent},"resets_at":{resets_at},"kind":"five_hour","run":"00000001"}}"#
            );
            text.into_bytes()
        };
        for damaged in [
            Vec::new(),
            b"{".to_vec(),
            b"\xff".to_vec(),
            b"[]".to_vec(),
            br#"{"version":1,"resets_at":1792003600000,"kind":"five_hour"}"#.to_vec(),
            note(2, 1_792_003_600_000),
            note(1, u64::MAX),
            note(1, 0),
        ] {
            replace_at_once(&*one.disk, &path, &damaged).unwrap();
            assert_eq!(other.met_elsewhere(&agent, NOW), None, "{damaged:?}");
        }
        replace_at_once(&*one.disk, &path, &note(1, 1_792_003_600_000)).unwrap();
        assert!(other.met_elsewhere(&agent, NOW).is_some());
        let homeless = KnownLimits { dir: None, ..one };
        homeless
            .learn(&agent, &limit(LATER, LimitKind::FiveHour), NOW)
            .unwrap();
    }
}
