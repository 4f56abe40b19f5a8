//! The memory in the binary: what records, what is left out, and how an agent sees what was found.
//!
//! ```text
//! hook, checkpoint, observer of a run ──► Capture ──► store::memory      appended, never indexed here
//! `ekiden memory`, `ekiden mcp` ──► ekiden_memory::ask ──► shown
//! ```

mod ignored;
pub mod mcp;
pub mod observer;
pub mod shown;

use std::path::Path;

use ekiden_core::agent::{AgentKind, AgentSpec};
use ekiden_core::memory::{MemoryTools, MemoryUse};
use ekiden_core::observation::{Observation, Origin};
use ekiden_core::secrets::mask;
use ekiden_core::time::Timestamp;
use ekiden_store::disk::DiskResult;
use ekiden_store::memory::MemoryFiles;
use ekiden_store::place::ProjectPlace;
use ekiden_wire::client_settings;

use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::client::settings::{config_dir, read_file};
use crate::settings::environment::Environment;
use crate::settings::given::Given;
use crate::settings::table;
use ignored::Ignored;

/// How many observations a session reads at its start.
pub const CONTEXT_LINES: usize = 15;

/// Records for one project.
#[derive(Debug)]
pub struct Capture {
    files: MemoryFiles,
    /// Goes into every observation from here.
    pub origin: Origin,
    ignored: Ignored,
}

/// The rules of what is left out; `None` if nothing should be recorded.
pub fn allowed(given: &Given) -> Option<Vec<String>> {
    let records = given.get(&table::MEMORY_RECORD).ok()??;
    let exclude = given.get(&table::MEMORY_EXCLUDE).ok()?;
    records.then(|| exclude.unwrap_or_default())
}

/// When a day such as `2026-11-01` begins where the user is.
pub fn midnight(date: &str, zone: TimeZone) -> Option<Timestamp> {
    let date = Date::strptime("%Y-%m-%d", date).ok()?;
    let begins = date.to_zoned(zone).ok()?.timestamp();
    begins.as_millisecond().try_into().ok().map(Timestamp)
}

/// Where a user's memory is; `None` without a home.
pub fn files(environment: &Environment) -> Option<MemoryFiles> {
    let home = environment.state_home()?.join("ekiden");
    Some(MemoryFiles::of(&home))
}

/// Whether the user has claude-mem, which gives sessions its own context and tools: then nothing is given
/// twice.
pub fn has_claude_mem(environment: &Environment) -> bool {
    let Some(dir) = config_dir(environment) else {
        return false;
    };
    let settings = read_file(&dir.join("settings.json")).unwrap_or_default();
    let settings = client_settings::read(&settings).unwrap_or_default();
    let mut plugins = settings["enabledPlugins"].as_object().into_iter().flatten();
    plugins.any(|(name, on)| name.starts_with("claude-mem@") && *on == true)
}

pub fn of_run(
    given: &Given,
    environment: &Environment,
    dir: &Path,
    agent: &AgentSpec,
) -> MemoryUse {
    let claude_mem = agent.kind == AgentKind::Claude
        && !agent.permissions.isolated
        && has_claude_mem(environment);
    let own = agent.permissions.mcp.then_some(MemoryTools::Own);
    let wanted = given.need(&table::MEMORY_CONTEXT).unwrap_or(false) && !claude_mem;
    let recent = || {
        let place = ProjectPlace::find(dir, None)?;
        let (project, branch) = (place.project().display().to_string(), place.branch());
        let files = files(environment)?;
        let found = files.newest_of(&project, branch.as_deref(), CONTEXT_LINES);
        let lines: Vec<String> = found
            .iter()
            .map(|found| shown::index_line(found, false))
            .collect();
        Some(mask(&lines.join("\n")).into_owned())
    };
    MemoryUse {
        tools: if claude_mem {
            Some(MemoryTools::ClaudeMem)
        } else {
            own
        },
        recent: wanted.then(recent).flatten().unwrap_or_default(),
    }
}

impl Capture {
    /// `None` if the project is left out, or there is no home to record in.
    pub fn of(environment: &Environment, place: &ProjectPlace, exclude: &[String]) -> Option<Self> {
        let ignored = Ignored::of(environment, place, exclude)?;
        Some(Self {
            files: files(environment)?,
            origin: Origin {
                project: place.project().display().to_string(),
                branch: place.branch(),
                ..Origin::default()
            },
            ignored,
        })
    }

    /// Records everything that is not left out.
    pub fn keep(&self, observations: Vec<Observation>) -> DiskResult<()> {
        let kept = observations
            .into_iter()
            .filter_map(|observation| observation.without(|file| self.ignored.has(file)));
        let kept: Vec<Observation> = kept.collect();
        self.files.append(&kept)
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test lays out a home")]
mod tests {
    use ekiden_core::agent::{Interface, Permissions};
    use ekiden_core::observation::watched;
    use ekiden_core::time::Timestamp;

    use super::*;
    use crate::settings::given::Flags;

    // shows: MEM-004, MEM-11
    #[test]
    fn a_run_is_told_of_the_memory_that_its_user_has() {
        let home = tempfile::tempdir().unwrap();
        let work = home.path().join("work");
        std::fs::create_dir_all(&work).unwrap();
        std::fs::create_dir(home.path().join(".claude")).unwrap();
        let path = home.path().to_str().unwrap();
        let agent = |isolated| AgentSpec {
            name: "claude".to_owned(),
            kind: AgentKind::Claude,
            command: Vec::new(),
            model: None,
            account: None,
            permissions: Permissions {
                isolated,
                mcp: true,
                ..Permissions::default()
            },
            interface: Interface::Headless,
        };
        let of = |more: &[(&str, &str)], isolated| {
            let environment = Environment::of([&[("HOME", path)], more].concat());
            let given = Given::without_files(Flags::new(), &environment).unwrap();
            of_run(&given, &environment, &work, &agent(isolated))
        };
        let environment = Environment::of([("HOME", path)]);
        let place = ProjectPlace::find(&work, None).unwrap();
        let capture = Capture::of(&environment, &place, &[]).unwrap();
        let token = ["ghp_", "x8K2mQ7vT4nZ9cW1rB6yH3jL5pD0sF8gA2eU"].concat();
        let prompt = format!("Keep the {token} out");
        let left = watched::prompt(&capture.origin, Timestamp(0), &prompt).unwrap();
        capture.keep(vec![left]).unwrap();

        let own = of(&[], false);
        assert_eq!(own.tools, Some(MemoryTools::Own));
        assert!(own.recent.contains("prompt  Keep the"), "{own:?}");
        assert!(!own.recent.contains(&token), "{own:?}");
        assert_eq!(of(&[("EKIDEN_MEMORY_CONTEXT", "false")], false).recent, "");

        let plugins = "\u{feff}{\"enabledPlugins\": {\"claude-mem@thedotmack\": true}}";
        std::fs::write(home.path().join(".claude/settings.json"), plugins).unwrap();
        let theirs = of(&[], false);
        assert_eq!(theirs.tools, Some(MemoryTools::ClaudeMem));
        assert_eq!(theirs.recent, "", "claude-mem tells the session itself");
        assert_eq!(of(&[], true), own, "an isolated run has no plugins");
        let pipe = home.path().join(".claude/settings.json");
        std::fs::remove_file(&pipe).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, pipe, rustix::fs::Mode::RWXU).unwrap();
        assert!(!has_claude_mem(&environment), "it waits for no pipe");
    }
}
