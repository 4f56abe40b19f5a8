//! `ekiden memory`: searches what sessions left, and deletes from it.

use clap::{Args, Subcommand};
use ekiden_core::guard::without_dots;
use ekiden_core::observation::{Observation, ObservationKind};
use ekiden_core::text::in_full;
use ekiden_core::time::{Millis, Timestamp};
use ekiden_engine::clock::{Clock as _, SystemClock};
use ekiden_memory::{Filter, Forget, Here, Memory, MemoryError, Query, Stats, ask};
use ekiden_store::memory::MemoryFiles;
use ekiden_store::place::ProjectPlace;
use jiff::tz::TimeZone;

use super::Invocation;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::memory::{self, midnight, shown};
use crate::output::json::{Fields, fields};
use crate::output::line::{Line, Tone};
use crate::output::{Output, phrase};
use crate::settings::flags::{Asking, Typed};

/// Search what earlier sessions left
///
/// Sessions leave observations: prompts, checkpoints, handoffs and their facts, decisions, failures, verifications,
/// commits. Nothing leaves this machine except what a session reads of it (`memory.context`, `mcp`).
/// `memory.record = false` stops recording; `memory.exclude` and a project's `.ekidenignore` leave out projects and files;
/// ekiden never records `<private>` spans of prompts.
#[derive(Args)]
pub struct MemoryArgs {
    #[command(subcommand)]
    command: MemoryCommand,
}

#[derive(Subcommand)]
enum MemoryCommand {
    /// Find observations, the best first
    Search(SearchArgs),
    /// Show what came before and after an observation
    Timeline(TimelineArgs),
    /// Show observations in full
    Get(GetArgs),
    /// Show the newest observations
    Recent(RecentArgs),
    /// Show what is kept, and how much
    Stats(Plain),
    /// Build the index again from the recorded files
    Rebuild(Plain),
    /// Delete what was recorded
    ///
    /// A session that is still open, or is resumed, records its prompts again when it ends.
    Forget(ForgetArgs),
}

#[derive(Args)]
struct SearchArgs {
    /// Words, "phrases", prefixes*
    #[arg(value_name = "QUERY", required = true)]
    query: Vec<String>,
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    typed: Typed<Asking>,
}

#[derive(Args)]
struct RecentArgs {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    typed: Typed<Asking>,
}

/// What an observation must be.
#[derive(Args)]
struct Which {
    /// Only this type: change, handoff, decision, discovery, failure, verification, commit, prompt, summary
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<ObservationKind>,
    /// Not before this date or time, such as 2026-11-01, or 7d for seven days
    #[arg(long, value_name = "WHEN", value_parser = time)]
    since: Option<Timestamp>,
    /// Before this date or time
    #[arg(long, value_name = "WHEN", value_parser = time)]
    until: Option<Timestamp>,
    /// Only with this concept, such as checkpoint; may be repeated
    #[arg(long, value_name = "NAME")]
    concept: Vec<String>,
    /// Only about this file or directory; may be repeated
    #[arg(long, value_name = "PATH")]
    file: Vec<String>,
    /// In another project, by its directory
    #[arg(long, value_name = "DIR", conflicts_with = "all_projects")]
    project: Option<String>,
    /// In all projects
    #[arg(long)]
    all_projects: bool,
    /// How many to show
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=200))]
    limit: u16,
}

#[derive(Args)]
struct TimelineArgs {
    /// The observation's id, or the beginning of it
    #[arg(value_name = "ID")]
    id: String,
    /// How many to show before and after it
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    limit: u16,
    #[command(flatten)]
    typed: Typed<Asking>,
}

#[derive(Args)]
struct GetArgs {
    /// Ids, or the beginnings of ids
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
    #[command(flatten)]
    typed: Typed<Asking>,
}

#[derive(Args)]
struct Plain {
    #[command(flatten)]
    typed: Typed<Asking>,
}

#[derive(Args)]
struct ForgetArgs {
    /// Ids, or the beginnings of ids
    #[arg(value_name = "ID", required_unless_present_any = ["before", "project"])]
    ids: Vec<String>,
    /// Everything before this date or time, in all projects
    #[arg(long, value_name = "WHEN", value_parser = time, conflicts_with_all = ["ids", "project"])]
    before: Option<Timestamp>,
    /// Everything of a project [default: this one]
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = ".", conflicts_with = "ids")]
    project: Option<String>,
    #[command(flatten)]
    typed: Typed<Asking>,
}

/// The memory, and where it is asked from.
struct MemoryQuery<'a> {
    files: MemoryFiles,
    invocation: &'a Invocation,
    json: bool,
}

pub fn memory(args: &MemoryArgs, output: &mut Output) -> Result<Exit, Failure> {
    let typed = match &args.command {
        MemoryCommand::Search(SearchArgs { typed, .. })
        | MemoryCommand::Timeline(TimelineArgs { typed, .. })
        | MemoryCommand::Get(GetArgs { typed, .. })
        | MemoryCommand::Recent(RecentArgs { typed, .. })
        | MemoryCommand::Stats(Plain { typed })
        | MemoryCommand::Rebuild(Plain { typed })
        | MemoryCommand::Forget(ForgetArgs { typed, .. }) => typed,
    };
    let invocation = Invocation::looking(typed.flags(), output)?;
    let files =
        memory::files(&invocation.environment).ok_or_else(|| Failure::no_home("the memory"))?;
    let asked = MemoryQuery {
        files,
        json: invocation.json()?,
        invocation: &invocation,
    };
    match &args.command {
        MemoryCommand::Search(search) => asked.search(search, output)?,
        MemoryCommand::Recent(recent) => {
            let (filter, limit) = (asked.filter(&recent.which)?, recent.which.limit.into());
            let found = asked.ask(output, |memory| memory.recent(&filter, limit))?;
            asked.tell(&found, recent.which.all_projects, output);
        }
        MemoryCommand::Timeline(of) => {
            let limit = of.limit.into();
            let found = asked.ask(output, |memory| memory.timeline(&of.id, limit, limit))?;
            asked.tell(&found, false, output);
        }
        MemoryCommand::Get(get) => asked.get(get, output)?,
        MemoryCommand::Stats(_) => {
            let stats = asked.ask(output, Memory::stats)?;
            asked.stats(&stats, output);
        }
        MemoryCommand::Rebuild(_) => {
            let stats = Memory::rebuild(&asked.files).and_then(|mut memory| memory.stats());
            asked.stats(&stats?, output);
        }
        MemoryCommand::Forget(forget) => asked.forget(forget, output)?,
    }
    Ok(Exit::Done)
}

impl MemoryQuery<'_> {
    fn ask<T>(
        &self,
        output: &mut Output,
        question: impl Fn(&mut Memory) -> Result<T, MemoryError>,
    ) -> Result<T, Failure> {
        let (answer, told) = ask(&self.files, question)?;
        told.iter().for_each(|told| output.warn(told));
        Ok(answer)
    }

    fn search(&self, args: &SearchArgs, output: &mut Output) -> Result<(), Failure> {
        let query = Query {
            text: args.query.join(" "),
            filter: self.filter(&args.which)?,
            here: Here::default(),
            limit: args.which.limit.into(),
            now: SystemClock.now(),
        };
        let branch = ProjectPlace::find(&self.invocation.here, None);
        let branch = branch.and_then(|place| place.branch());
        let found = self.ask(output, |memory| memory.search_near(&query, branch.clone()))?;
        self.tell(&found, args.which.all_projects, output);
        Ok(())
    }

    fn get(&self, args: &GetArgs, output: &mut Output) -> Result<(), Failure> {
        let found = self.ask(output, |memory| {
            args.ids
                .iter()
                .map(|id| memory.get(id))
                .collect::<Result<Vec<_>, _>>()
        })?;
        if self.json {
            self.tell(&found, false, output);
            return Ok(());
        }
        for (nth, found) in found.iter().enumerate() {
            if nth > 0 {
                output.line(Line::default());
            }
            output.answer(&format!("{}\n", shown::detail(found).trim_end()));
        }
        Ok(())
    }

    fn forget(&self, args: &ForgetArgs, output: &mut Output) -> Result<(), Failure> {
        self.invocation
            .environment
            .refuse_a_session("delete what was recorded")?;
        let what = match (args.before, &args.project) {
            (Some(before), _) => Forget::Before(before),
            (None, Some(dir)) => Forget::Project(self.project(dir)?),
            (None, None) => Forget::These(args.ids.clone()),
        };
        let count = self.ask(output, |memory| memory.forget(&what))?;
        if self.json {
            output.json(&Fields::versioned().with("forgotten", count));
        } else {
            let text = format!("forgotten: {}", phrase::count(count as u64, "observation"));
            output.line(text);
        }
        Ok(())
    }

    fn filter(&self, which: &Which) -> Result<Filter, Failure> {
        let project = match &which.project {
            _ if which.all_projects => None,
            dir => Some(self.project(dir.as_deref().unwrap_or("."))?),
        };
        let filter = Filter {
            project,
            kind: which.kind,
            concepts: which.concept.clone(),
            since: which.since,
            until: which.until,
            ..Filter::default()
        };
        Ok(filter.about(&which.file))
    }

    /// The project of a directory; for a directory that is gone, its path by the text.
    fn project(&self, dir: &str) -> Result<String, Failure> {
        let dir = match dir {
            "." => self.invocation.workspace_here()?.dir,
            dir => self.invocation.here.join(dir),
        };
        let place = ProjectPlace::find(&dir, None);
        let project = place.map_or(without_dots(&dir), |place| place.project().to_owned());
        Ok(project.display().to_string())
    }

    fn tell(&self, found: &[Observation], everywhere: bool, output: &mut Output) {
        if self.json {
            return output.json(&Fields::versioned().with("observations", found));
        }
        for found in found {
            let line = shown::index_line(found, everywhere);
            output.line(Line::new(Tone::Plain, line).hanging(4));
        }
        output.line(match found.first() {
            Some(first) => Line::next(format!("ekiden memory get {}", &first.id.to_string()[..8])),
            None if everywhere => Line::new(Tone::Quiet, "nothing found"),
            None => Line::new(
                Tone::Quiet,
                "nothing found here; `--all-projects` looks everywhere",
            ),
        });
    }

    fn stats(&self, stats: &Stats, output: &mut Output) {
        let dir = self.files.dir();
        if self.json {
            let fields = Fields::versioned().and(fields! { "dir": dir }).and(stats);
            return output.json(&fields);
        }
        let mut line = |label: &str, text: String| {
            output.line(Line::labelled(label, Tone::Plain, text));
        };
        let listed = |all: &[(String, u64)]| {
            let shown: Vec<String> = all
                .iter()
                .take(10)
                .map(|(name, count)| format!("{name} {count}"))
                .collect();
            shown.join(", ")
        };
        line("kept", phrase::count(stats.observations, "observation"));
        if let (Some(first), Some(last)) = (stats.first, stats.last) {
            let [first, last] =
                [first, last].map(|at| phrase::zoned(at, &TimeZone::system()).date());
            line("from", format!("{first} to {last}"));
            line("types", listed(&stats.types));
            line("projects", listed(&stats.projects));
        }
        let kib = |bytes: u64| format!("{} KiB", ekiden_core::text::grouped(bytes.div_ceil(1024)));
        line(
            "size",
            format!(
                "{}, and {} of index",
                kib(stats.text_bytes),
                kib(stats.index_bytes)
            ),
        );
        if stats.skipped_lines > 0 {
            let skipped = phrase::count(stats.skipped_lines, "line");
            line("skipped", format!("{skipped} without an observation"));
        }
        if let Some(aside) = &stats.set_aside {
            line(
                "aside",
                format!("{aside}: an index that could not be used; it may be removed"),
            );
        }
        line("in", phrase::path(dir));
    }
}

/// A date, a time, or how long ago: `7d`, `12h`.
fn time(text: &str) -> Result<Timestamp, String> {
    let ago = text.split_at_checked(text.len().saturating_sub(1));
    let ago = ago.and_then(|(count, unit)| {
        let secs = match unit {
            "d" => 24 * 60 * 60,
            "h" => 60 * 60,
            _ => return None,
        };
        Some(Millis::from_secs(
            count.parse::<u64>().ok()?.checked_mul(secs)?,
        ))
    });
    let at = ago.map(|ago| SystemClock.now() - ago);
    let at = at.or_else(|| Timestamp::parse_rfc3339(text));
    at.or_else(|| midnight(text, TimeZone::system()))
        .ok_or_else(|| {
            "a date such as 2026-11-01, a time in RFC 3339, or how long ago, such as 7d".to_owned()
        })
}

impl From<MemoryError> for Failure {
    fn from(error: MemoryError) -> Self {
        let text = format!("cannot {}", in_full(&error));
        let takes_nothing = error.takes_nothing();
        match error {
            MemoryError::Unknown(_) | MemoryError::Ambiguous { .. } => {
                Self::new(Exit::MissingInput, text).hint("`ekiden memory recent` shows ids")
            }
            MemoryError::Disk(error) => error.into(),
            MemoryError::Busy => Self::new(Exit::State, text).hint("try again in a minute"),
            // A new index would not fit either.
            MemoryError::Index(_) if takes_nothing => Self::new(Exit::State, text),
            MemoryError::Index(_) => Self::new(Exit::State, text)
                .hint("`ekiden memory rebuild` rebuilds the index; what was recorded stays"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: MEM-006
    #[test]
    fn a_date_begins_where_the_user_is() {
        let zone = || TimeZone::posix("EST5").unwrap();
        let begins = midnight("2026-11-01", zone()).unwrap();
        assert_eq!(begins.rfc3339(), "2026-11-01T05:00:00Z");
        for text in ["2026-11-01T10:00", "2026-13-01", "soon"] {
            assert_eq!(midnight(text, zone()), None, "{text}");
        }
    }
}
