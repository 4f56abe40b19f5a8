//! What the tools do. Their names and arguments, in `tools.json`, are those of claude-mem where it has
//! them, so agents find what they know.

use std::cell::Cell;
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};

use ekiden_core::guard::checkpoint::CheckpointReason;
use ekiden_core::guard::document::Filled;
use ekiden_core::guard::watch::{WatchEvent, WatchRecord};
use ekiden_core::handoff::HandoffFile;
use ekiden_core::limits::HANDOFF_FILE_BYTES_MAX;
use ekiden_core::observation::{Observation, ObservationKind};
use ekiden_core::text::{in_full, one_line};
use ekiden_core::time::{Millis, Timestamp};
use ekiden_engine::clock::{Clock as _, SystemClock};
use ekiden_memory::{Filter, Here, Memory, MemoryError, Query, ask};
use ekiden_store::disk::RealDisk;
use ekiden_store::guard::session_of_client;
use ekiden_store::place::ProjectPlace;
use ekiden_store::replace::{Durability, replace};
use ekiden_wire::client_settings;
use ekiden_wire::transcript::Recent;
use jiff::tz::TimeZone;
use serde_json::Value;

use super::history;
use crate::client::guard::is_there;
use crate::client::settings::state_file;
use crate::client::transcript;
use crate::guard::{Watched, take_checkpoint};
use crate::memory::shown::{ANSWER_BYTES_MAX, detail, index_line, marked};
use crate::memory::{files, midnight};
use crate::settings::environment::Environment;
use crate::settings::given::{Flags, Given};
use crate::settings::table;

/// Longer texts are not questions.
const QUERY_CHARS_MAX: usize = 1_000;
const LIMIT_MAX: u64 = 50;
const LIMIT_DEFAULT: u64 = 10;
const DAY: Millis = Millis::from_secs(24 * 60 * 60);

type Answer = Result<String, String>;

/// The tools, for the process's session.
pub(super) struct Tools {
    environment: Environment,
    here: PathBuf,
    started: Timestamp,
    /// What the memory said beside its last answers.
    beside: Cell<Option<String>>,
    /// Whether the session sees the tools.
    pub offered: bool,
}

impl Tools {
    pub(super) fn of_process(plugin: bool, run: bool) -> Self {
        let environment = Environment::of_process();
        let project = environment
            .variable("CLAUDE_PROJECT_DIR")
            .map(PathBuf::from);
        let here = project.or_else(|| std::env::current_dir().ok());
        let here = here.unwrap_or_default();
        let wanted = || {
            let given = Given::gather(None, Flags::new(), &environment);
            let wanted = given.and_then(|given| given.need(&table::MCP));
            wanted.unwrap_or(true) && !(plugin && registered(&environment, &here))
        };
        // A run has decided for its sessions whether they have a server.
        let in_run = environment.has_run();
        Self {
            offered: if in_run { run } else { wanted() },
            here,
            started: SystemClock.now(),
            beside: Cell::default(),
            environment,
        }
    }

    /// `None` if there is no such tool.
    pub(super) fn call(&self, name: &str, arguments: &Value) -> Option<Answer> {
        let arguments = Arguments(arguments);
        let answer = match name {
            "search" => self.search(&arguments),
            "timeline" => self.timeline(&arguments),
            "get_observation" => arguments.need("id").and_then(|id| self.get(&[id])),
            "get_batch_observations" => match arguments.list("ids").as_slice() {
                [] => Err("ids is missing".to_owned()),
                ids => self.get(ids),
            },
            "get_recent_context" => self.recent(&arguments),
            "session_history" => history::answer(
                &self.environment,
                arguments.number("session", 0),
                arguments.text("part").as_deref() == Some("prompt"),
                arguments.number("page", 1),
            ),
            "context_usage" => self.usage(),
            "write_handoff" => self.write_handoff(&arguments),
            _ => return None,
        };
        let beside = self.beside.take();
        let beside = beside.map(|beside| format!("\n\n{beside}"));
        Some(answer.map(|text| text + &beside.unwrap_or_default()))
    }

    fn ask<T>(
        &self,
        question: impl Fn(&mut Memory) -> Result<T, MemoryError>,
    ) -> Result<T, String> {
        let files = files(&self.environment).ok_or("there is no memory: HOME is not set")?;
        let answer = ask(&files, question).map_err(|error| format!("cannot {}", in_full(&error)));
        answer.map(|(answer, beside)| {
            if beside.is_some() {
                self.beside.set(beside);
            }
            answer
        })
    }

    fn search(&self, arguments: &Arguments<'_>) -> Answer {
        let kind = arguments
            .text("type")
            .or_else(|| arguments.text("obs_type"));
        let kind = kind.filter(|kind| kind != "observations");
        let kind = kind.map(|kind| kind.parse::<ObservationKind>());
        let (since, until) = arguments.dates()?;
        let place = ProjectPlace::find(&self.here, None);
        let query = Query {
            text: arguments
                .need("query")?
                .chars()
                .take(QUERY_CHARS_MAX)
                .collect(),
            filter: Filter {
                kind: kind
                    .transpose()
                    .map_err(|error| format!("type must be {error}"))?,
                concepts: arguments.list("concepts"),
                since,
                until,
                ..self.of_project()
            }
            .about(&arguments.list("files")),
            here: Here::default(),
            limit: arguments.limit(),
            now: SystemClock.now(),
        };
        let branch = place.and_then(|place| place.branch());
        let found = self.ask(|memory| memory.search_near(&query, branch.clone()));
        Ok(listed(&found?))
    }

    fn timeline(&self, arguments: &Arguments<'_>) -> Answer {
        let id = arguments.need("anchor").or_else(|_| arguments.need("id"))?;
        self.one(&id)?;
        let depth = |name| usize::try_from(arguments.number(name, 5).min(LIMIT_MAX)).unwrap_or(0);
        let (before, after) = (depth("depth_before"), depth("depth_after"));
        let found = self.ask(|memory| memory.timeline(&id, before, after))?;
        Ok(listed(&found))
    }

    /// An id that names nothing does not hide the others.
    fn get(&self, ids: &[String]) -> Answer {
        let found: Vec<Answer> = ids
            .iter()
            .map(|id| self.one(id).map(|found| detail(&found)))
            .collect();
        let texts: Vec<String> = match found.iter().any(Result::is_ok) {
            true => found
                .into_iter()
                .map(|text| text.unwrap_or_else(|why| why))
                .collect(),
            false => found.into_iter().collect::<Result<_, _>>()?,
        };
        Ok(marked(&texts.join("\n\n"), ANSWER_BYTES_MAX))
    }

    fn recent(&self, arguments: &Arguments<'_>) -> Answer {
        let limit = arguments.limit();
        let all = self.of_project();
        let sessions = Filter {
            kind: Some(ObservationKind::Summary),
            ..all.clone()
        };
        let (sessions, newest) = self.ask(|memory| {
            Ok((
                memory.recent(&sessions, limit)?,
                memory.recent(&all, limit)?,
            ))
        })?;
        Ok(format!(
            "Sessions:\n{}\nObservations:\n{}",
            listed(&sessions),
            listed(&newest)
        ))
    }

    /// An observation of this project. A session in one project does not read what those of another left.
    fn one(&self, id: &str) -> Result<Observation, String> {
        let found = self.ask(|memory| memory.get(id))?;
        match self.of_project().project {
            Some(project) if project != found.from.project => {
                Err(format!("observation {id} is of another project"))
            }
            Some(_) | None => Ok(found),
        }
    }

    fn of_project(&self) -> Filter {
        let place = ProjectPlace::find(&self.here, None);
        Filter {
            project: place.map(|place| place.project().display().to_string()),
            ..Filter::default()
        }
    }

    fn usage(&self) -> Answer {
        let unknown = || "the context use of this session is not known yet".to_owned();
        if let Some(session) = self.environment.variable("EKIDEN_SESSION_ID") {
            let transcript = transcript::find(&self.environment, session).ok_or_else(unknown)?;
            let mut file = std::fs::File::open(transcript).map_err(|_| unknown())?;
            let recent = Recent::of(&mut file).map_err(|_| unknown())?;
            let last = recent.responses.last().ok_or_else(unknown)?;
            return Ok(format!("{} tokens are used", last.context_tokens));
        }
        let watched = self.watched()?;
        let reading = watched.reading().ok_or_else(unknown)?;
        Ok(format!(
            "{} of {} tokens are used",
            reading.used_tokens,
            reading.window.usable_tokens()
        ))
    }

    /// In a run, into the handoff directory; in a session that a person started, into its document.
    fn write_handoff(&self, arguments: &Arguments<'_>) -> Answer {
        let failed = |error: &dyn std::error::Error| format!("cannot {}", in_full(error));
        if let Some(dir) = self.environment.variable("EKIDEN_HANDOFF") {
            let mut written = Vec::new();
            for (file, name) in [
                (HandoffFile::Knowledge, "knowledge"),
                (HandoffFile::NextPrompt, "next_prompt"),
                (HandoffFile::Progress, "progress"),
            ] {
                let Some(text) = arguments.part(name)? else {
                    continue;
                };
                let path = PathBuf::from(dir).join(file.name());
                replace(
                    &RealDisk::new(),
                    &path,
                    text.as_bytes(),
                    Durability::Derived,
                )
                .map_err(|error| failed(&error))?;
                written.push(file.name());
            }
            return match written.as_slice() {
                [] => Err("name at least one of progress, next_prompt, knowledge".to_owned()),
                written => Ok(format!(
                    "Written: {}. It is judged when your turn ends.",
                    written.join(", ")
                )),
            };
        }
        write_document(&self.watched()?, arguments)
    }

    /// The session that the client shows. After `/clear` or `/resume` it is another one than this server was started in.
    fn watched(&self) -> Result<Watched, String> {
        let of = |session: Option<&str>| {
            Watched::for_command(session).map_err(|failure| failure.error().to_owned())
        };
        let watched = of(None)?;
        let state_dir = &watched.place.state_dir;
        // npm's `ekiden` is a process in between.
        let mut clients = [Some(parent_id()), parent_of(parent_id())]
            .into_iter()
            .flatten();
        let session = clients.find_map(|client| session_of_client(state_dir, client, self.started));
        let watched = session.map_or(Ok(watched), |session| of(Some(&session)));
        watched.map(Watched::where_its_agent_is)
    }
}

/// The handoff of a session that a person started.
fn write_document(watched: &Watched, arguments: &Arguments<'_>) -> Answer {
    let failed = |error: &dyn std::error::Error| format!("cannot {}", in_full(error));
    let lines = |name: &str| -> Result<Vec<String>, String> {
        let text = arguments.part(name)?.unwrap_or_default();
        let item = |line: &str| {
            let line = line.trim();
            let bullet = line.strip_prefix("- ").or_else(|| line.strip_prefix("* "));
            one_line(bullet.unwrap_or(line), 300)
        };
        let lines = text.lines().map(item);
        Ok(lines.filter(|line| !line.is_empty()).collect())
    };
    let filled = Filled {
        done: lines("done")?,
        decisions: lines("decisions")?,
        blockers: lines("blockers")?,
    };
    if filled == Filled::default() {
        return Err("name at least one of done, decisions, blockers".to_owned());
    }
    let reading = watched.reading();
    let path = match watched.waiting_document() {
        Some(path) => path,
        None => {
            let request = watched.checkpoint(CheckpointReason::Manual, reading.as_ref());
            let taken = take_checkpoint(&request).map_err(|error| failed(&error))?;
            taken.document
        }
    };
    let document = std::fs::read_to_string(&path).map_err(|error| failed(&error))?;
    let disk = RealDisk::fenced(&watched.place.dir);
    let (text, full) = filled.fill(&document);
    replace(&disk, &path, text.as_bytes(), Durability::Full).map_err(|error| failed(&error))?;
    if !watched.session.is_empty() && text != document {
        let used_tokens = reading.map_or(0, |reading| reading.used_tokens);
        let event = WatchEvent::Filled { used_tokens };
        let record = WatchRecord {
            time: SystemClock.now(),
            event,
        };
        let recorded = watched.files.append(&[record]);
        recorded.map_err(|error| failed(&error))?;
    }
    let shown = watched.shown(&path);
    match full.is_empty() {
        true => Ok(format!("Written: {shown}")),
        false => Err(format!(
            "{shown} has something under {} already: change it there; all else is written",
            full.join(", ")
        )),
    }
}

/// A process's parent, if the system reports it.
fn parent_of(process: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    parent.trim().parse().ok()
}

/// `ekiden setup` has given this server to sessions here.
fn registered(environment: &Environment, project: &Path) -> bool {
    let state = state_file(environment).and_then(|path| std::fs::read(path).ok());
    let state = state.unwrap_or_default();
    let of = |project| client_settings::registered(&state, project);
    let found = [None, project.to_str()].map(of);
    found.iter().flatten().any(|program| is_there(program))
}

fn listed(found: &[Observation]) -> String {
    if found.is_empty() {
        return "nothing found".to_owned();
    }
    let lines = found.iter().map(|found| index_line(found, false));
    let lines: Vec<String> = lines.collect();
    marked(&lines.join("\n"), ANSWER_BYTES_MAX)
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The arguments of a call, in whatever form the agent gave them.
struct Arguments<'a>(&'a Value);

impl Arguments<'_> {
    fn text(&self, name: &str) -> Option<String> {
        text_of(&self.0[name]).filter(|text| !text.trim().is_empty())
    }

    fn need(&self, name: &str) -> Answer {
        self.text(name).ok_or_else(|| format!("{name} is missing"))
    }

    /// A part of a handoff, which is no longer than one of its files may be.
    fn part(&self, name: &str) -> Result<Option<String>, String> {
        match self.text(name) {
            Some(text) if text.len() > HANDOFF_FILE_BYTES_MAX => {
                Err(format!("{name} is too long; about a page is enough"))
            }
            text => Ok(text),
        }
    }

    /// A list, or one text with commas.
    fn list(&self, name: &str) -> Vec<String> {
        let value = &self.0[name];
        let texts: Vec<String> = match value.as_array() {
            Some(texts) => texts.iter().filter_map(text_of).collect(),
            None => {
                let text = text_of(value).unwrap_or_default();
                text.split(',').map(str::to_owned).collect()
            }
        };
        let texts = texts.iter().map(|text| text.trim().to_owned());
        texts.filter(|text| !text.is_empty()).take(50).collect()
    }

    fn number(&self, name: &str, default: u64) -> u64 {
        self.text(name)
            .and_then(|text| text.parse().ok())
            .unwrap_or(default)
    }

    fn limit(&self) -> usize {
        let limit = self.number("limit", LIMIT_DEFAULT).clamp(1, LIMIT_MAX);
        usize::try_from(limit).unwrap_or(1)
    }

    /// From and up to.
    fn dates(&self) -> Result<(Option<Timestamp>, Option<Timestamp>), String> {
        let wrong = || "a date must be like 2026-11-01".to_owned();
        // A day ends later than it begins.
        let at = |text: &str, length: Millis| {
            let day = || Some(midnight(text.trim(), TimeZone::system())? + length);
            Timestamp::parse_rfc3339(text)
                .or_else(day)
                .ok_or_else(wrong)
        };
        let date = self.text("date");
        let (first, last) = match date
            .as_deref()
            .map(|date| date.split_once("..").unwrap_or((date, date)))
        {
            Some((first, last)) => (Some(first.to_owned()), Some(last.to_owned())),
            None => (self.text("dateStart"), self.text("dateEnd")),
        };
        let first = first.map(|first| at(&first, Millis(0))).transpose()?;
        let last = last.map(|last| at(&last, DAY)).transpose()?;
        Ok((first, last))
    }
}
