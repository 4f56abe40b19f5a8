//! Settings of other programs, and their names in ekiden.

use serde_json::{Map, Value};

use super::source::Source;
use crate::failure::Failure;
use crate::settings::environment::Environment;
use To::{Check, Duration, Key, Never, Nothing, Threshold};

/// Percent of the window between the warning, the handoff and its end.
const LEVELS_APART: u8 = 10;

#[derive(Debug)]
pub struct Foreign {
    /// As written there: `CLEAVE_PAUSE=10`.
    pub was: String,
    pub wish: Wish,
}

#[derive(Debug)]
pub enum Wish {
    /// The setting of this name, with this value.
    Set(&'static str, String),
    /// It has no setting: why, and what to do instead.
    Nothing(String),
}

/// How one of their keys is read.
#[derive(Debug, Clone, Copy)]
enum To {
    Key(&'static str),
    /// The same for a number of seconds.
    Duration(&'static str),
    /// One percentage, at which the handoff is ordered.
    Threshold,
    /// The setting for a switch of a check with this command, or for a command itself.
    Check(&'static str, &'static str),
    /// It would take every question away from the user.
    Never,
    Nothing(&'static str),
}

const SESSION_ONLY: &str =
    "it was set for sessions, which find EKIDEN_RUN, EKIDEN_SESSION and their work dir here";

/// cleave's variables, without `CLEAVE_` and in lower case. Its flags have the same names.
const CLEAVE: &[(&str, To)] = &[
    ("max_sessions", Key("max_sessions")),
    ("pause", Key("pause")),
    ("completion_marker", Key("completion_marker")),
    ("handoff_threshold", Threshold),
    ("verify", Key("verify")),
    ("verify_timeout", Key("verify_timeout")),
    ("git_commit", Key("git_commit")),
    ("model", Key("model")),
    ("session_timeout", Duration("session_timeout")),
    ("session_budget", Key("session_budget")),
    ("budget", Key("session_budget")),
    ("subagents", Key("subagents")),
    ("verbose", Key("verbose")),
    ("safe_mode", Key("safe_mode")),
    ("dangerously_skip_permissions", Never),
    ("skip_permissions", Never),
    (
        "no_notify",
        Nothing("give `--no-notify`, or set `notify.kinds`"),
    ),
    (
        "mode",
        Nothing("sessions are headless; `--tui` shows the agent's own interface"),
    ),
    ("session", Nothing(SESSION_ONLY)),
    ("work_dir", Nothing(SESSION_ONLY)),
    ("active_stage", Nothing(SESSION_ONLY)),
];

/// The keys of `.casmrc.json`.
const CASM: &[(&str, To)] = &[
    ("model", Key("model")),
    ("planningModel", Key("models.plan")),
    ("maxRetriesPerSession", Key("plan.retries")),
    ("maxTurnsPerSession", Key("max_turns")),
    ("tokenBudgetPerSession", Key("session_tokens")),
    (
        "validation.typeCheck",
        Check("validation.type_check", "npx tsc --noEmit"),
    ),
    ("validation.lint", Check("validation.lint", "npm run lint")),
    ("validation.test", Check("validation.test", "npm test")),
    (
        "output.logsDir",
        Nothing("a run's log and archives are in its state; `ekiden log` and `show` read them"),
    ),
    (
        "output.handoffsDir",
        Nothing("handoffs are in `.ekiden/` and in the run's archive"),
    ),
    ("output.verbose", Key("verbose")),
];

/// Every setting of other programs that is found, in order of precedence.
pub fn foreign(source: &Source, environment: &Environment) -> Result<Vec<Foreign>, Failure> {
    let mut all: Vec<Foreign> = environment
        .with_prefix("CLEAVE_")
        .map(|(name, value)| of_cleave(name, value, format!("{name}={value}")))
        .collect();
    if let Some(text) = source.text(".cleave/config")? {
        let pairs = text.lines().filter_map(|line| {
            let line = line.trim().trim_start_matches("export ");
            line.split_once('=').filter(|_| !line.starts_with('#'))
        });
        all.extend(pairs.map(|(name, value)| {
            let (name, value) = (name.trim(), of_shell(value.trim()));
            of_cleave(name, &value, format!(".cleave/config: {name}={value}"))
        }));
    }
    let status = source.object(".cleave/status.json")?.unwrap_or_default();
    for key in ["max_sessions", "completion_marker"] {
        if let Some(value) = status.get(key) {
            let value = plain(value);
            all.push(of_cleave(
                key,
                &value,
                format!(".cleave/status.json: {key}={value}"),
            ));
        }
    }
    for key in ["max_sessions", "session_budget"] {
        if let Some(text) = source.text(&format!(".cleave/.{key}"))? {
            let value = text.trim();
            all.push(of_cleave(key, value, format!(".cleave/.{key}: {value}")));
        }
    }
    let relay = ".cleave/.active_relay";
    if source.text(relay)?.is_some() {
        let why = "cleave's hooks block sessions here while it exists; delete it, and run cleave's `setup.sh --uninstall`";
        let wish = Wish::Nothing(why.to_owned());
        let was = relay.to_owned();
        all.push(Foreign { was, wish });
    }
    let casm = source.object(".casmrc.json")?.unwrap_or_default();
    all.extend(
        flat("", &casm)
            .into_iter()
            .map(|(key, value)| of_casm(&key, &value)),
    );
    Ok(all)
}

/// A value as a shell reads it: without quotes and a comment after it. Several words stay as they are.
fn of_shell(value: &str) -> String {
    match shlex::split(value).as_deref() {
        Some([word]) => word.clone(),
        _ => value.to_owned(),
    }
}

fn of_cleave(name: &str, value: &str, was: String) -> Foreign {
    let key = name.strip_prefix("CLEAVE_").unwrap_or(name).to_lowercase();
    let wish = wish(CLEAVE, &key, value);
    Foreign { was, wish }
}

fn of_casm(key: &str, value: &str) -> Foreign {
    let was = format!(".casmrc.json: {key}={value}");
    let wish = match (key, value) {
        ("permissionMode", "bypassPermissions") => wish(CLEAVE, "skip_permissions", value),
        ("permissionMode", mode) => Wish::Set("permission_mode", mode.to_owned()),
        (key, value) => wish(CASM, key, value),
    };
    Foreign { was, wish }
}

fn wish(keys: &[(&str, To)], key: &str, value: &str) -> Wish {
    let known = keys.iter().find(|(known, _)| *known == key);
    let nothing = |why: &str| Wish::Nothing(why.to_owned());
    match known.map(|(_, to)| *to) {
        Some(Key(name)) => Wish::Set(name, value.to_owned()),
        Some(Duration(name)) => Wish::Set(name, format!("{value}s")),
        Some(Threshold) => match levels(value) {
            Some(levels) => Wish::Set("levels", levels),
            None => nothing("it is not a percentage from 11 to 89"),
        },
        Some(Check(..)) if value == "false" => nothing("it is off"),
        Some(Check(name, command)) if value == "true" => Wish::Set(name, command.to_owned()),
        Some(Check(name, _)) => Wish::Set(name, value.to_owned()),
        Some(Never) => nothing(
            "a permission bypass is never imported; you are asked when a run starts, or give `--skip-permissions` then",
        ),
        Some(Nothing(why)) => nothing(why),
        None => nothing("it has no counterpart"),
    }
}

/// The levels around the percentage at which cleave ordered the handoff.
fn levels(value: &str) -> Option<String> {
    let at: u8 = value.trim_end_matches('%').parse().ok()?;
    let (below, above) = (at.checked_sub(LEVELS_APART)?, at.checked_add(LEVELS_APART)?);
    (below > 0 && above < 100).then(|| format!("{below},{at},{above}"))
}

/// An object's keys and values as text, without those that are null. Keys of nested objects are joined with a dot.
fn flat(above: &str, object: &Map<String, Value>) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (key, value) in object.iter().filter(|(_, value)| !value.is_null()) {
        let key = format!("{above}{key}");
        match value.as_object() {
            Some(object) if above.is_empty() => all.extend(flat(&format!("{key}."), object)),
            Some(_) | None => all.push((key, plain(value))),
        }
    }
    all
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}
