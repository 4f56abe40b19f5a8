//! `ekiden estimate`: how much work will take, as ranges with their reasons, and how it fits into sessions.

pub(super) mod shown;

use std::path::{Path, PathBuf};

use clap::Args;
use ekiden_core::estimate::{Kind, Learned, Outlook, Past, Sessions, Unit, Windows};
use ekiden_core::guard::Level;
use ekiden_core::guard::estimate::Estimate;
use ekiden_core::manifest::Stage;
use ekiden_core::shard::{MAX_PERCENT, Shards, Spec, Split};
use ekiden_core::text::shell_word;

use super::Invocation;
use super::issue::OfIssue;
use super::shard::OutputPaths;
use super::task::{Task, file_meant};
use crate::client::settings::ClientSettings;
use crate::client::window;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::output::json::{Fields, fields};
use crate::output::line::{Line, one_line};
use crate::past;
use crate::plan::read;
use crate::settings::chosen;
use crate::settings::flags::{Asking, Typed};
use crate::specs::file_bytes;

/// Estimate what work will take, from its text and from past work here
///
/// Each figure is a range: half of such work takes no more than the first number, nine of ten pieces no more than the
/// second. ekiden learns from the logs of this project's runs; until ten pieces of a kind have finished, the ranges are wide.
/// Time and money appear once a run that recorded them has finished.
#[derive(Args)]
pub struct EstimateArgs {
    /// A file, the task itself in quotes, a plan's manifest, or an issue; several count as one list
    #[arg(value_name = "TASK|PLAN|ISSUE", required = true)]
    subjects: Vec<String>,
    /// Show each item, stage or issue
    #[arg(long)]
    items: bool,
    /// Group open items into sessions, by their needs and common files
    #[arg(long)]
    sessions: bool,
    /// Write the sessions as a manifest: a file, or a directory for `plan.toml` in it
    #[arg(short, long, value_name = "PATH", requires = "sessions")]
    output: Option<PathBuf>,
    /// Overwrite existing files
    #[arg(long, requires = "output")]
    force: bool,
    #[command(flatten)]
    typed: Typed<Asking>,
}

pub fn estimate(args: &EstimateArgs, output: &mut Output) -> Result<Exit, Failure> {
    let invocation = Invocation::new(args.typed.flags())?;
    let work = Subject::read(&args.subjects, &invocation, output)?;
    let sessions = args.sessions.then(|| work.sessions());
    let manifest = match args.output.as_ref().zip(sessions.as_ref()) {
        Some((path, sessions)) => Some(work.write(path, sessions, args.force, &invocation)?),
        None => None,
    };
    if invocation.json()? {
        let answer = Fields::versioned().and(work.json());
        let answer = answer.and(args.items.then(|| fields! { "items": work.items_json() }));
        return output.answer_json(
            &answer
                .and(sessions.as_ref())
                .and(manifest.map(|path| fields! { "manifest": path })),
        );
    }
    let mut lines = work.lines();
    if args.items {
        lines.push(Line::default());
        lines.extend(work.item_lines(output.columns()));
    }
    if let Some(sessions) = &sessions {
        lines.push(Line::default());
        lines.extend(work.session_lines(sessions, output.columns()));
    }
    lines.push(Line::default());
    let dir = invocation.workspace_here()?.dir;
    let next = match manifest {
        Some(manifest) => format!("ekiden execute {}", invocation.word(&manifest)),
        None => work.next(args, &invocation.word(&dir.join("plan.toml"))),
    };
    lines.push(Line::next(next + &invocation.in_work_dir(&dir)));
    lines.iter().for_each(|line| output.line(line));
    Ok(Exit::Done)
}

/// What is asked about, and what is known of such work.
struct Subject {
    name: String,
    /// What all of it is.
    kind: Kind,
    /// One document, a plan, or a list of issues.
    is_document: bool,
    head: String,
    units: Vec<Unit>,
    /// The estimates that the manifest itself gives for its stages; 0 where it gives none.
    stated: Vec<u64>,
    /// What was counted in all of it.
    counted: Estimate,
    /// How many parts `ekiden shard` makes of it.
    parts: usize,
    /// The usable window, and the context at which a session hands off.
    window_tokens: u64,
    session_tokens: u64,
    past: Vec<Past>,
}

impl Subject {
    fn read(
        subjects: &[String],
        invocation: &Invocation,
        output: &mut Output,
    ) -> Result<Self, Failure> {
        let workspace = invocation.workspace_here()?;
        let mut settings = chosen::settings(&invocation.given, &invocation.here)?;
        let isolated = settings.agent.permissions.isolated;
        window::lower(
            &mut settings,
            &ClientSettings::read(&invocation.environment, &workspace.dir, isolated),
        );
        let window = settings.window();
        let mut work = Self {
            name: one_line(&subjects.join(", ")),
            kind: Kind::Run,
            is_document: false,
            head: String::new(),
            units: Vec::new(),
            stated: Vec::new(),
            counted: Estimate::of("", &[], window.usable_tokens(), None),
            parts: 1,
            window_tokens: window.usable_tokens(),
            session_tokens: window.tokens_of(settings.levels, Level::L2),
            past: past::of_project(&workspace, settings.agent.kind),
        };
        match subjects {
            [plan] if is_manifest(plan) => {
                let file = read::read(Path::new(plan), &invocation.given, &settings, &workspace)?;
                work.kind = Kind::Stage;
                work.take_stages(&file.document.stages, &workspace.dir);
            }
            [one] => {
                let task = read_task(one, invocation, output)?;
                work.name = one_line(&task.name);
                work.is_document = true;
                work.take_document(&task.text, &workspace.dir);
            }
            several => {
                for one in several {
                    let task = read_task(one, invocation, output)?;
                    let sizes = file_bytes(&workspace.dir, &task.text);
                    work.units.push(Unit::new(
                        &task.name,
                        &format!("## {}\n\n{}", task.name, task.text),
                        &sizes,
                    ));
                }
            }
        }
        work.stated.resize(work.units.len(), 0);
        if !work.is_document {
            let learned = Learned::of(&work.past, work.kind);
            work.counted = work.windows(&learned).estimate(&work.units);
        }
        Ok(work)
    }

    fn take_document(&mut self, text: &str, dir: &Path) {
        let file_bytes = file_bytes(dir, text);
        let spec = Spec {
            text,
            file_bytes: &file_bytes,
            window_tokens: self.window_tokens,
        };
        (self.head, self.units) = Unit::of_document(&spec);
        self.parts = Shards::of(&spec, Split::Max(MAX_PERCENT)).shards.len();
        let sizes: Vec<u64> = file_bytes.values().copied().collect();
        self.counted = Estimate::of(text, &sizes, self.window_tokens, None);
    }

    fn take_stages(&mut self, stages: &[Stage], dir: &Path) {
        for stage in stages {
            let title = format!("{} {}", stage.id, stage.task_name);
            let place = |id| stages.iter().position(|other| other.id == id);
            let needs = stage.part.needs.iter().map(|need| need.stage.clone());
            self.units.push(Unit {
                needs: needs.filter_map(place).collect(),
                ..Unit::new(&title, &stage.task, &file_bytes(dir, &stage.task))
            });
            self.stated.push(stage.part.estimate_tokens);
        }
    }

    fn windows<'a>(&'a self, learned: &'a Learned) -> Windows<'a> {
        Windows {
            head: &self.head,
            window_tokens: self.window_tokens,
            model: &learned.context,
        }
    }

    fn sessions(&self) -> Sessions {
        self.windows(&Learned::of(&self.past, self.kind))
            .sessions(&self.units)
    }

    /// Each unit, as a piece of work of its own.
    fn outlooks(&self) -> Vec<Outlook> {
        let kind = if self.is_document {
            Kind::Item
        } else {
            self.kind
        };
        let learned = Learned::of(&self.past, kind);
        let of = |(unit, stated): (&Unit, &u64)| {
            let counted = self.windows(&learned).estimate([unit]).tokens;
            let estimated = if *stated > 0 { *stated } else { counted };
            learned.outlook(estimated, self.session_tokens)
        };
        self.units.iter().zip(&self.stated).map(of).collect()
    }

    fn outlook(&self, learned: &Learned) -> Outlook {
        let sum = self.outlooks().into_iter().reduce(Outlook::plus);
        let alone = || learned.outlook(self.counted.tokens, self.session_tokens);
        sum.filter(|_| !self.is_document).unwrap_or_else(alone)
    }

    fn write(
        &self,
        path: &Path,
        sessions: &Sessions,
        force: bool,
        invocation: &Invocation,
    ) -> Result<PathBuf, Failure> {
        if self.kind == Kind::Stage {
            let text = format!(
                "{} is a plan already; a new one would have nothing but the tasks of its stages",
                self.name
            );
            return Err(Failure::new(Exit::Settings, text)
                .hint("leave out `--output`, and join stages in the manifest by hand"));
        }
        if sessions.sessions.is_empty() {
            let text = format!("nothing is open in {}", self.name);
            return Err(
                Failure::new(Exit::InvalidInput, text).hint("a plan of it would have no stages")
            );
        }
        let dir = invocation.workspace_here()?.dir;
        let text = Task {
            text: sessions.text.clone(),
            name: self.name.clone(),
        };
        OutputPaths::of(&invocation.here.join(path), &dir)?.write(&sessions.shards, &text, force)
    }

    fn json(&self) -> Fields {
        let learned = Learned::of(&self.past, self.kind);
        fields! {
            "subject": self.name,
            "kind": self.kind,
            "counted": self.counted,
            "window_tokens": self.window_tokens,
            "expected": self.outlook(&learned),
            "samples": learned.samples,
            "errors": learned.errors,
            "past": self.past,
        }
    }

    fn items_json(&self) -> Vec<Fields> {
        let item = |(unit, outlook): (&Unit, Outlook)| fields! { "title": unit.title, "expected": outlook };
        self.units.iter().zip(self.outlooks()).map(item).collect()
    }

    /// The command that does what was shown; `plan` is where a manifest would go.
    fn next(&self, args: &EstimateArgs, plan: &str) -> String {
        let word = |subject: &String| match subject.starts_with('-') || subject.contains('\n') {
            // `-` has been read, a text with a dash looks like a flag, and one of several lines is no single word.
            true => "TASK".to_owned(),
            false => shell_word(subject),
        };
        let subjects = args.subjects.iter().map(word).collect::<Vec<_>>();
        let subjects = subjects.join(" ");
        if self.kind == Kind::Stage {
            format!("ekiden execute {subjects}")
        } else if args.sessions && !self.units.is_empty() {
            format!("ekiden estimate {subjects} --sessions -o {plan}")
        } else if !self.is_document {
            format!("ekiden estimate {subjects} --sessions")
        } else if self.parts > 1 {
            format!("ekiden shard {subjects}")
        } else if args.subjects.iter().all(|subject| is_task(subject)) {
            format!("ekiden run {subjects}")
        } else {
            format!("ekiden run --issue {subjects}")
        }
    }
}

fn is_manifest(name: &str) -> bool {
    let path = Path::new(name);
    let endings = ["toml", "json", "yaml", "yml"];
    path.is_file()
        && path
            .extension()
            .is_some_and(|end| endings.iter().any(|known| end == *known))
}

/// A file or words; anything else names an issue.
fn is_task(subject: &str) -> bool {
    let path = Path::new(subject);
    let is_named_as_file = path.extension().is_some_and(|ending| ending == "md");
    subject == "-" || is_named_as_file || path.exists() || subject.contains(char::is_whitespace)
}

fn read_task(subject: &str, invocation: &Invocation, output: &mut Output) -> Result<Task, Failure> {
    if is_task(subject) {
        return Task::read(subject, output);
    }
    let workspace = invocation.workspace_here()?;
    let issue = OfIssue::read(invocation, &workspace, subject, None, output);
    let issue = issue.map_err(|failure| {
        failure.hint(match file_meant(subject) {
            Some(file) => format!("did you mean the file `{file}`?"),
            None => "there is no file of that name either".to_owned(),
        })
    });
    Ok(issue?.task)
}
