//! `ekiden shard`: turns a document that is too large for one session into a plan, without a model.

use std::path::{Path, PathBuf};

use clap::Args;
use ekiden_core::guard::Window;
use ekiden_core::hash::sha256_hex;
use ekiden_core::issue::{IssueRef, TrackerKind};
use ekiden_core::limits::SHARDS_MAX;
use ekiden_core::secrets::mask;
use ekiden_core::shard::{MAX_PERCENT, Shard, Shards, Spec, Split};
use ekiden_core::text::shell_word;
use ekiden_core::time::{Millis, Timestamp};
use ekiden_engine::clock::{Clock as _, SystemClock};
use ekiden_manifest::{ShardPlan, shard_plan};
use ekiden_store::disk::{Disk as _, RealDisk};
use ekiden_tracker::{NewIssue, Tracker};

use super::Invocation;
use super::plan::{Planner, Writing};
use super::task::Task;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::guard::{Compaction, WINDOW_UNKNOWN};
use crate::output::json::Fields;
use crate::output::line::{Line, Tone, one_line};
use crate::output::{Output, phrase};
use crate::plan::author;
use crate::settings::flags::{Planning, Typed};
use crate::specs::file_bytes;
use crate::tracker::failure;

/// Sub-issues that were made within this time are found again, and not made twice.
const MADE_WITHIN: Millis = Millis::from_secs(90 * 24 * 60 * 60);
/// The longest text of an issue on GitHub, in characters. It takes 65,536 with the mark that ekiden adds.
const TEXT_CHARS_MAX: usize = 65_000;

/// Split a long document into parts that fit a session each
///
/// ekiden cuts at headings or between list items, never inside a code block, table or item. Every part gets the text before
/// the first section. ekiden finds which part needs which in the text: references to sections, common files, words such as
/// `then`. It asks no model, and the same text gives the same parts, except with `--with-model`.
#[derive(Args)]
pub struct ShardArgs {
    /// The document: a file, `-` for standard input, or the document itself in quotes
    #[arg(value_name = "SPEC")]
    spec: String,
    /// Split it into this many parts
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=SHARDS_MAX as u64))]
    into: Option<u64>,
    /// The largest share of the usable window that a part may take
    #[arg(long, value_name = "PERCENT", default_value = "30%", value_parser = percent, conflicts_with = "into")]
    max: u64,
    /// Have a model name the parts and say what each needs; the cuts stay
    #[arg(long)]
    with_model: bool,
    /// Write a manifest there: a file, or a directory for `plan.toml` in it
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Overwrite existing files
    #[arg(long, requires = "output")]
    force: bool,
    /// Create a sub-issue of this issue for each part, after asking once
    #[arg(long, value_name = "ISSUE")]
    issues: Option<String>,
    /// Create them without asking
    #[arg(long, requires = "issues")]
    yes: bool,
    #[command(flatten)]
    typed: Typed<Planning>,
}

fn percent(text: &str) -> Result<u64, String> {
    let number = text.trim_end_matches('%').parse().ok();
    let number = number.filter(|number| (1..=100).contains(number));
    number.ok_or_else(|| format!("not a share from 1% to 100%, such as {MAX_PERCENT}%"))
}

pub fn shard(args: &ShardArgs, output: &mut Output) -> Result<Exit, Failure> {
    let invocation = Invocation::new(args.typed.flags())?;
    let dir = invocation.workspace_here()?.dir;
    let mut spec = Task::read_as("document", &args.spec, output)?;
    if spec.name == "-" {
        "the document".clone_into(&mut spec.name);
    }
    let window = Compaction::here(&invocation.environment, &dir).window(WINDOW_UNKNOWN);
    let split = match args.into {
        Some(parts) => Split::Into(usize::try_from(parts).unwrap_or(SHARDS_MAX)),
        None => Split::Max(args.max),
    };
    let mut shards = split_here(&dir, &spec.text, &window, split);
    let place = args.output.as_ref();
    let place = place.map(|path| OutputPaths::of(&invocation.here.join(path), &dir));
    let place = place.transpose()?;
    if let Some(place) = &place {
        place.refuse_existing(&shards, &spec, args.force)?;
    }
    // Whoever does not agree gets no plan either, so the same command can be repeated.
    let split = |max| split_here(&dir, &spec.text, &window, Split::Max(max));
    let issues = SubIssues::agreed(args, &invocation, (&shards, &spec), split, output)?;
    if args.with_model {
        let writing = Writing::default();
        let mut planner = Planner::new(args.typed.flags(), &writing)?;
        let file = dir.join(&args.spec);
        let fault = planner
            .author(output)?
            .shards(&mut shards, &spec.text, &file)?;
        fault.iter().for_each(|fault| {
            let fault = one_line(fault);
            output.warn(&format!("the parts stay as they were: {fault}"));
        });
    }
    // The plan comes last: if it exists, the same command is refused.
    let issues = match issues {
        Some(issues) => issues.make(&shards, &spec)?,
        None => Vec::new(),
    };
    let written = place.map(|place| place.write(&shards, &spec, args.force));
    let written = written.transpose()?;
    if invocation.json()? {
        let answer = Fields::versioned().with("spec", &spec.name);
        return output.answer_json(
            &answer
                .with("manifest", written)
                .with("issues", issues)
                .and(&shards),
        );
    }
    print(&shards, &spec.name, output);
    for issue in &issues {
        output.line(Line::labelled("issue", Tone::Plain, one_line(issue)));
    }
    if written.is_none() && !issues.is_empty() {
        return Ok(Exit::Done);
    }
    output.line(Line::default());
    let next = args.next(&invocation, &dir, written.as_deref(), shards.shards.len());
    output.line(Line::next(next));
    Ok(Exit::Done)
}

/// Prints the parts.
fn print(shards: &Shards, name: &str, output: &mut Output) {
    let [tokens, parts] = [
        phrase::tokens(shards.whole.tokens),
        phrase::count(shards.shards.len() as u64, "part"),
    ];
    let whole = format!(
        " · about {tokens} tokens, {}% of the usable window · {parts}",
        shards.whole.percent
    );
    output.line(Line::new(Tone::Plain, one_line(name)).with(Tone::Quiet, whole));
    let rows = shards.table().into_iter();
    rows.for_each(|row| output.line(Line::new(Tone::Plain, format!("  {row}")).hanging(7)));
}

impl ShardArgs {
    /// The command that does what was shown.
    fn next(
        &self,
        invocation: &Invocation,
        dir: &Path,
        written: Option<&Path>,
        parts: usize,
    ) -> String {
        let there = invocation.in_work_dir(dir);
        let spec = shell_word(&self.spec);
        if let Some(manifest) = written {
            return format!("ekiden execute {}{there}", invocation.word(manifest));
        }
        if parts == 1 {
            return format!("ekiden run {spec}{there}");
        }
        let split = match (self.into, self.max) {
            (Some(parts), _) => format!(" --into {parts}"),
            (None, MAX_PERCENT) => String::new(),
            (None, max) => format!(" --max {max}%"),
        };
        let model = if self.with_model { " --with-model" } else { "" };
        let output = invocation.word(&dir.join("plan.toml"));
        format!("ekiden shard {spec}{split}{model} -o {output}{there}")
    }
}

/// Where sub-issues are made.
struct SubIssues {
    tracker: Box<dyn Tracker>,
    parent: IssueRef,
}

impl SubIssues {
    /// Asks whether to make them, if they are wanted, and finds their parent.
    fn agreed(
        args: &ShardArgs,
        invocation: &Invocation,
        (shards, spec): (&Shards, &Task),
        split: impl Fn(u64) -> Shards,
        output: &mut Output,
    ) -> Result<Option<Self>, Failure> {
        let Some(parent) = &args.issues else {
            return Ok(None);
        };
        let trackers = invocation.trackers(&invocation.workspace_here()?);
        let parent = trackers.named(parent)?;
        if parent.tracker == TrackerKind::Github {
            refuse_long(shards, spec, args.max, split)?;
        }
        if parent.tracker != TrackerKind::Local {
            invocation.environment.refuse_a_session("make sub-issues")?;
        }
        let count = phrase::count(shards.shards.len() as u64, "sub-issue");
        let question = format!("Make {count} of {parent}? [y/N] ");
        let agreed = args.yes || (invocation.can_ask()? && output.confirm(&question));
        if !agreed {
            let text = format!("no sub-issue of {parent} was made: nobody agreed");
            return Err(
                Failure::new(Exit::Settings, text).hint("answer yes on a terminal, or add `--yes`")
            );
        }
        let failed = |fault| failure("make the sub-issues", parent.tracker, &fault);
        let tracker = trackers.open(&parent).map_err(failed)?;
        // GitHub and files would take any parent.
        tracker.issue(&parent.id).map_err(failed)?;
        Ok(Some(Self { tracker, parent }))
    }

    /// Makes them, only once for the same parts of the same issue.
    fn make(&self, shards: &Shards, spec: &Task) -> Result<Vec<String>, Failure> {
        let failed = |fault| failure("make the sub-issues", self.parent.tracker, &fault);
        let since = Timestamp(SystemClock.now().0.saturating_sub(MADE_WITHIN.0));
        let make = |shard: &Shard| {
            let title = format!("{} {}", shard.id, shard.title);
            let text = text_of(shard, spec);
            // Title, size and needs may differ the next time.
            let part = &spec.text[shard.range.clone()];
            let key = format!("{}\n{}\n{part}", self.parent, shard.id);
            let new = NewIssue {
                key: &sha256_hex(key.as_bytes()),
                title: &mask(&title),
                text: &mask(&text),
                parent: Some(&self.parent.id),
                since,
            };
            self.tracker.create(&new).map_err(failed)
        };
        shards.shards.iter().map(make).collect()
    }
}

/// GitHub refuses an issue with a longer text.
fn refuse_long(
    shards: &Shards,
    spec: &Task,
    max: u64,
    split: impl Fn(u64) -> Shards,
) -> Result<(), Failure> {
    let is_long = |shard: &&Shard| text_of(shard, spec).chars().count() > TEXT_CHARS_MAX;
    let Some(long) = shards.shards.iter().find(is_long) else {
        return Ok(());
    };
    let text = format!(
        "cannot make the sub-issues: {} is longer than the 65,536 characters that GitHub takes",
        long.id
    );
    let fits = |max: &u64| !split(*max).shards.iter().any(|shard| is_long(&shard));
    let hint = match (1..max).rev().find(fits) {
        Some(max) => format!("`--max {max}%` makes parts that fit"),
        None => "no `--max` makes parts that fit: split what is one long list or block".to_owned(),
    };
    Err(Failure::new(Exit::InvalidInput, text).hint(hint))
}

/// The part whole, with its size and what it needs.
fn text_of(shard: &Shard, spec: &Task) -> String {
    let part = spec.text[shard.range.clone()].trim_end();
    let (first, last) = shard.lines;
    let needs = shard.needs_in_words();
    let needs = if needs.is_empty() {
        needs
    } else {
        format!("; {needs}")
    };
    format!(
        "{part}\n\nLines {first}-{last} of {}, about {}% of a session's usable window{needs}.\n",
        spec.name, shard.estimate.percent,
    )
}

/// Splits a text that names files of this directory.
pub(super) fn split_here(dir: &Path, text: &str, window: &Window, split: Split) -> Shards {
    let spec = Spec {
        text,
        file_bytes: &file_bytes(dir, text),
        window_tokens: window.usable_tokens(),
    };
    Shards::of(&spec, split)
}

/// Where a manifest and its parts go.
pub(super) struct OutputPaths {
    work_dir: PathBuf,
    manifest: PathBuf,
    /// The directory of the parts, from the work dir.
    parts: String,
}

impl OutputPaths {
    pub(super) fn of(output: &Path, work_dir: &Path) -> Result<Self, Failure> {
        let is_dir = output.is_dir() || output.to_string_lossy().ends_with('/');
        let manifest = match is_dir {
            true => output.join("plan.toml"),
            false => output.to_owned(),
        };
        author::refuse_ending(&manifest, &["json", "yaml", "yml"], "toml")?;
        let refused = |what: &str| {
            let text = format!("cannot write {}: {what}", phrase::path(&manifest));
            Failure::new(Exit::MissingInput, text).hint("name another `--output`")
        };
        let dir = manifest.parent().and_then(|dir| dir.canonicalize().ok());
        let dir = dir.ok_or_else(|| refused("there is no directory for it"))?;
        let inside = dir.strip_prefix(work_dir).ok().and_then(Path::to_str);
        let inside = inside
            .ok_or_else(|| refused("it lies outside of the work dir, and its parts would too"))?;
        let name = manifest.file_stem().unwrap_or_default().to_string_lossy();
        let parts = Path::new(inside).join(format!("{name}.parts"));
        Ok(Self {
            work_dir: work_dir.to_owned(),
            parts: parts.to_string_lossy().into_owned(),
            manifest: dir.join(manifest.file_name().unwrap_or_default()),
        })
    }

    /// Returns what would be written. Refuses if something is there already.
    fn refuse_existing(
        &self,
        shards: &Shards,
        spec: &Task,
        force: bool,
    ) -> Result<ShardPlan, Failure> {
        let plan = shard_plan(shards, &spec.text, &spec.name, &self.parts);
        let parts = self.work_dir.join(&self.parts);
        let mut new = vec![&self.manifest];
        let goes_into = force && parts.is_dir() && !parts.is_symlink();
        new.extend((!plan.files.is_empty() && !goes_into).then_some(&parts));
        author::refuse_existing_manifest(&new, force)?;
        Ok(plan)
    }

    pub(super) fn write(
        &self,
        shards: &Shards,
        spec: &Task,
        force: bool,
    ) -> Result<PathBuf, Failure> {
        let ShardPlan { manifest, files } = self.refuse_existing(shards, spec, force)?;
        let parts = self.work_dir.join(&self.parts);
        if !files.is_empty() && !parts.is_dir() {
            let disk = RealDisk::fenced(&self.work_dir);
            disk.create_dir(&parts)?;
        }
        // The manifest comes last: it names the others.
        for (path, text) in &files {
            author::write(&self.work_dir, &self.work_dir.join(path), text)?;
        }
        author::write(&self.work_dir, &self.manifest, &manifest)?;
        Ok(self.manifest.clone())
    }
}
