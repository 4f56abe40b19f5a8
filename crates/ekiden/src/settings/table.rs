//! The settings, each once: what it does, key, value, flag, how its text is read, default, who may set it.
//!
//! The command line, the environment, the settings files, `ekiden config show` and
//! `docs/settings.md` are all made from [`TABLE`]; nothing about a setting is said anywhere else.

use std::collections::BTreeMap;

use ekiden_core::bounds::OnRateLimit;
use ekiden_core::fallback::Returns;
use ekiden_core::guard::checkpoint::Wip;
use ekiden_core::guard::{Levels, LineFormat};
use ekiden_core::handoff::Marker;
use ekiden_core::issue::TrackerKind;
use ekiden_core::limits::{JOBS_MAX, RETRIES_MAX, SESSIONS_MAX_MAX, TURNS_MAX_MAX};
use ekiden_core::notice::NoticeKind;
use ekiden_core::quiet::QuietHours;
use ekiden_core::time::Millis;
use ekiden_engine::runner::OnHangup;

use super::form::{self, Read};
use crate::output::phrase;
use Group::{
    Agent, All, Budget, Fallback, Guided, NoFlag, Permission, Relay, Result, Run, Show, State,
};
use Takes::{Commas, Lines, Maybe, One, Switch, Words};

/// A setting whose values are of type `T`.
#[derive(Debug)]
pub struct Setting<T> {
    /// What is known about it whatever its type.
    pub row: Row,
    /// Reads a value, or says what would be right.
    pub read: fn(&str) -> Read<T>,
}

#[derive(Debug)]
pub struct Row {
    /// The key in settings files, with a dot after a table's name. The flag and the variable follow from it.
    pub name: &'static str,
    pub takes: Takes,
    pub group: Group,
    /// What it does, for help.
    pub doc: &'static str,
    pub short: Option<char>,
    pub default: Option<&'static str>,
    pub in_files: bool,
    /// Only the user may set it: it decides which commands run or what is permitted, and a project that was
    /// merely cloned must not.
    pub user_only: bool,
    /// It is a limit: whether a project's value would allow more than the user's own. Such a value needs an
    /// approval, since it is the user who pays.
    pub raises: Option<fn(&str, &str) -> bool>,
    /// Whether a text is a value of it; if not, what would be right.
    pub check: fn(&str) -> Read<()>,
}

/// What a setting's flag takes, named as in help. Some values may be an array in a settings file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// Nothing. `--no-NAME` says the opposite.
    Switch,
    One(&'static str),
    /// One value behind `=`, or none, which means [`Takes::UNSAID`].
    Maybe(&'static str),
    /// One value; an array is joined by commas.
    Commas(&'static str),
    /// One value; an array holds the words of a command.
    Words(&'static str),
    /// Several values, one a line; the flag may be given more than once.
    Lines(&'static str),
}

impl Takes {
    /// The value that a flag means if it was given none.
    pub const UNSAID: &str = "own";
}

/// The settings whose flags the same commands take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Of every command.
    All,
    Agent,
    /// What takes over from the agent: not in planning sessions.
    Fallback,
    /// What the agent may do.
    Permission,
    /// How much of the agent's work is shown.
    Show,
    /// Whether the state that earlier runs left is trusted: of every command that starts sessions.
    State,
    /// What the agent may use: of every command that starts sessions or changes their limits.
    Budget,
    /// How long a relay goes on.
    Relay,
    /// What a person at the terminal can do between sessions.
    Guided,
    /// How a new run is done, and what is kept of it.
    Result,
    /// How the sessions of a new run work.
    Run,
    NoFlag,
}

impl Group {
    /// The heading of these flags in help.
    pub fn heading(self) -> Option<&'static str> {
        match self {
            All | Show | State | NoFlag => None,
            Agent | Fallback => Some("Agent"),
            Permission => Some("What the agent may do"),
            Budget | Relay => Some("Limits"),
            Result => Some("Completion and commits"),
            Guided | Run => Some("Sessions"),
        }
    }
}

impl Row {
    const fn new(name: &'static str, takes: Takes, group: Group, doc: &'static str) -> Self {
        Self {
            name,
            takes,
            group,
            doc: doc.trim_ascii(),
            short: None,
            default: match takes {
                Switch => Some("false"),
                One(_) | Maybe(_) | Commas(_) | Words(_) | Lines(_) => None,
            },
            in_files: true,
            user_only: false,
            raises: None,
            check: |_| Ok(()),
        }
    }

    /// Its flag without the dashes, if it has one.
    pub fn long(&self) -> Option<String> {
        (self.group != NoFlag).then(|| self.name.replace(['.', '_'], "-"))
    }

    /// The flag that sets this value, if there is one.
    pub fn flag(&self, text: &str) -> Option<String> {
        let no = match self.takes == Switch && text == "false" {
            true => "no-",
            false => "",
        };
        Some(format!("--{no}{}", self.long()?))
    }

    pub fn env(&self) -> String {
        format!("EKIDEN_{}", self.name.replace('.', "_").to_uppercase())
    }
}

/// `new` is more than `own`. What cannot be read is more than anything.
fn is_more<T: Into<u64>>(setting: &Setting<T>, new: &str, own: &str) -> bool {
    let amount = |text| (setting.read)(text).map_or(u64::MAX, Into::into);
    amount(new) > amount(own)
}

/// The same of a setting whose zero stands for no limit.
fn is_more_or_none<T: Into<u64>>(setting: &Setting<T>, new: &str, own: &str) -> bool {
    let amount = |text| match (setting.read)(text).map(Into::into) {
        Ok(0) | Err(_) => u64::MAX,
        Ok(amount) => amount,
    };
    amount(new) > amount(own)
}

pub fn find(name: &str) -> Option<&'static Row> {
    TABLE.iter().copied().find(|row| row.name == name)
}

/// The setting that was probably meant by an unknown name, or by the last part of one.
pub fn meant(name: &str) -> Option<&'static Row> {
    let last = |row: &&&Row| row.name.rsplit('.').next() == Some(name);
    let near = || find(phrase::nearest(name, TABLE.iter().map(|row| row.name))?);
    TABLE.iter().find(last).copied().or_else(near)
}

/// `NAME: TYPE = "key", what its flag takes, group, how it is read; FIELD: VALUE, ...;`
macro_rules! settings {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ty = $key:literal, $takes:expr, $group:expr, $read:expr
        $(; $($field:ident: $value:expr),+)?;)+) => {
        $(pub static $name: Setting<$type> = Setting {
            row: Row {
                check: |text| ($name.read)(text).map(|_| ()),
                $($($field: $value,)+)?
                ..Row::new($key, $takes, $group, concat!($($doc),+))
            },
            read: $read,
        };)+

        /// All settings, in the order of help and of `ekiden config show`.
        pub static TABLE: &[&Row] = &[$(&$name.row),+];
    };
}

settings! {
    /// How many sessions may run from here, one at work included (in a plan, for each try of a stage); 1 to 10000
    MAX_SESSIONS: u32 = "max_sessions", One("N"), Relay, |text| form::number(text, 1..=SESSIONS_MAX_MAX);
        raises: Some(|new, own| is_more(&MAX_SESSIONS, new, own)),
        short: Some('m'), default: Some("10");
    /// Where the agent works
    WORK_DIR: String = "work_dir", One("DIR"), All, form::text;
        short: Some('d'), default: Some("."), in_files: false;
    /// Delay between two sessions, in seconds; 0 to 3600
    PAUSE: Millis = "pause", One("SECONDS"), Relay, |text| form::seconds(text, 0..=3600);
        short: Some('p'), default: Some("0");
    /// The STATUS word with which the agent says that all is done
    COMPLETION_MARKER: Marker = "completion_marker", One("WORD"), Result, form::marker;
        short: Some('c'), default: Some("ALL_COMPLETE");
    /// Shell command whose exit code 0 means done; it may run more than once
    VERIFY: String = "verify", One("COMMAND"), Result, form::text;
        user_only: true;
    /// How long the verification may take, in seconds; 1 to 86400
    VERIFY_TIMEOUT: Millis = "verify_timeout", One("SECONDS"), Result, |text| form::seconds(text, 1..=86_400);
        raises: Some(|new, own| is_more(&VERIFY_TIMEOUT, new, own)),
        default: Some("120");
    /// Have a fresh read-only session review each claim that all is done: with this agent, or this model of
    /// the run's agent; own: the run's own agent and model; off: no review
    REVIEW: String = "review", Maybe("AGENT|MODEL"), Result, form::text;
        default: Some("off"), user_only: true;
    /// Commit what each session changed; the repository's hooks run
    GIT_COMMIT: bool = "git_commit", Switch, Result, form::switch;
        short: Some('g');
    /// The subject line of ekiden's commits, such as 'chore: {subject}': {subject} is ekiden's own, {issue} is the run's issue
    COMMIT_SUBJECT: String = "commit_subject", One("TEXT"), NoFlag, form::subject;
        default: Some("{subject}");
    /// Work on this branch; ekiden creates it from where you are if it does not exist
    BRANCH: String = "branch", One("NAME"), Result, form::text;
    /// The agent: claude, rehearsal (free, no model), codex, opencode, qwen, gemini, copilot, or your own [agents.NAME]
    AGENT: String = "agent", One("NAME"), Agent, form::text;
        default: Some("claude"), user_only: true;
    /// The agent's program and arguments; without --agent, any program that reads a prompt on its
    /// standard input
    AGENT_COMMAND: Vec<String> = "agent_command", Words("COMMAND"), Agent, form::command;
        user_only: true;
    /// Agents that take over when the agent is at a usage limit, unavailable, not logged in, or over its budget; each may have a
    /// model or another account after a colon, such as claude:work,codex,claude:haiku; none for no fallback
    FALLBACK: Vec<String> = "fallback", Commas("AGENTS"), Fallback, form::agents;
        user_only: true;
    /// When ekiden uses an agent again that was unavailable: next-session (the first that begins after its reset) or never
    FALLBACK_RETURN: Returns = "fallback_return", One("WHEN"), NoFlag, form::returns;
        default: Some("next-session");
    /// The model, by the agent's own name for it
    MODEL: String = "model", One("MODEL"), Agent, form::text;
    /// The model of sessions that work on a task or a stage [default: `model`]
    MODELS_WORK: String = "models.work", One("MODEL"), NoFlag, form::text;
    /// The model that plans, like `--planning-model` [default: `model`]
    MODELS_PLAN: String = "models.plan", One("MODEL"), NoFlag, form::text;
    /// The model that judges claims, if the run's own agent does that [default: the model of the work]
    MODELS_REVIEW: String = "models.review", One("MODEL"), NoFlag, form::text;
    /// The agent's permission mode, by its own name, such as acceptEdits
    PERMISSION_MODE: String = "permission_mode", One("MODE"), Permission, form::text;
        user_only: true;
    /// Let the agent do everything without asking
    SKIP_PERMISSIONS: bool = "skip_permissions", Switch, Permission, form::switch;
        user_only: true;
    /// A tool that may run without asking, such as 'Bash(git:*)'; may be repeated
    ALLOWED_TOOL: Vec<String> = "allowed_tool", Lines("RULE"), Permission, form::lines;
        user_only: true;
    /// Let the agent do only what its own rules and --allowed-tool allow, whatever mode is configured
    SAFE_MODE: bool = "safe_mode", Switch, Permission, form::switch;
        user_only: true;
    /// Run the agent without its settings, hooks, plugins and MCP servers, yours and the project's
    ISOLATED: bool = "isolated", Switch, Agent, form::switch;
        user_only: true;
    /// Show the agent in its own interface, where you can type at any time (Claude Code on a terminal)
    TUI: bool = "tui", Switch, Run, form::switch;
        user_only: true;
    /// Ask each session to give bulky work to subagents
    SUBAGENTS: bool = "subagents", Switch, Run, form::switch;
    /// Percentages of the usable window at which ekiden warns, orders the handoff, and forces it
    LEVELS: Levels = "levels", Commas("A,B,C"), Run, form::levels;
        default: Some("50,60,70");
    /// Use at most this much of a large context window, in tokens; 0 for all of it
    CAP_TOKENS: u64 = "context.cap_tokens", One("TOKENS"), Run, form::tokens_or_none;
        raises: Some(|new, own| is_more_or_none(&CAP_TOKENS, new, own)),
        default: Some("200000");
    /// How long a session works before ekiden asks it to hand off, such as 45m, 2h; 0 for no limit
    SESSION_TIMEOUT: Millis = "session_timeout", One("DURATION"), Budget, form::duration_or_none;
        raises: Some(|new, own| is_more_or_none(&SESSION_TIMEOUT, new, own)),
        default: Some("30m");
    /// Responses of the model before ekiden asks a session to hand off; 0 for no limit
    MAX_TURNS: u32 = "max_turns", One("N"), Budget, |text| form::number(text, 0..=TURNS_MAX_MAX);
        raises: Some(|new, own| is_more_or_none(&MAX_TURNS, new, own));
    /// What one session may cost, in US dollars; ekiden asks it to hand off at 90%
    SESSION_BUDGET: u64 = "session_budget", One("USD"), Budget, form::dollars;
        raises: Some(|new, own| is_more(&SESSION_BUDGET, new, own));
    /// What all sessions of a run may cost, in US dollars, including before a resume
    RUN_BUDGET: u64 = "run_budget", One("USD"), Budget, form::dollars;
        raises: Some(|new, own| is_more(&RUN_BUDGET, new, own));
    /// Tokens that one session may use, without cache reads, such as 400k, 2M; for subscriptions
    SESSION_TOKENS: u64 = "session_tokens", One("TOKENS"), Budget, form::tokens;
        raises: Some(|new, own| is_more(&SESSION_TOKENS, new, own));
    /// Tokens that all sessions of a run may use, without cache reads
    RUN_TOKENS: u64 = "run_tokens", One("TOKENS"), Budget, form::tokens;
        raises: Some(|new, own| is_more(&RUN_TOKENS, new, own));
    /// What the sessions of one agent may cost, such as claude=5,codex=2; then other agents of --fallback take over. In
    /// settings files this is `budget` in [agents.NAME]
    AGENT_BUDGET: BTreeMap<String, u64> = "agent_budget", One("AGENT=USD"), Relay, form::dollars_by_agent;
        in_files: false;
    /// Tokens that the sessions of one agent may use, such as claude=2M. In settings files this is `tokens` in [agents.NAME]
    AGENT_TOKENS: BTreeMap<String, u64> = "agent_tokens", One("AGENT=TOKENS"), Relay, form::tokens_by_agent;
        in_files: false;
    /// How long a session may wait for usage limits and a failing service without any work in between, such as 90s, 5m, 6h; 0s to stop at once
    MAX_WAIT: Millis = "max_wait", One("DURATION"), Budget, form::duration;
        raises: Some(|new, own| is_more(&MAX_WAIT, new, own)),
        default: Some("6h");
    /// What to do at a usage limit: wait until it resets, or stop the run
    ON_RATE_LIMIT: OnRateLimit = "on_rate_limit", One("WHAT"), Budget, form::on_rate_limit;
        raises: Some(|new, own| new.trim() != own.trim() && own.trim() == "stop"),
        default: Some("wait");
    /// Local times in which no session starts, such as 22:00-07:00; none to start at any time
    QUIET_HOURS: QuietHours = "quiet_hours", Commas("HOURS"), Relay, form::quiet_hours;
        // Different hours are neither more nor less, so the user's own hold.
        raises: Some(|new, own| new != own && own.trim() != "none");
    /// How many sessions in a row without progress end the run; 0 for no limit
    STALL_SESSIONS: u32 = "stall_sessions", One("N"), Relay, |text| form::number(text, 0..=SESSIONS_MAX_MAX);
        raises: Some(|new, own| is_more_or_none(&STALL_SESSIONS, new, own)),
        default: Some("3");
    /// The task is research: a session that changes no files is not a stall
    RESEARCH: bool = "research", Switch, Relay, form::switch;
        // It removes the limit on sessions without progress.
        raises: Some(|new, own| form::switch(new) != Ok(false) && form::switch(own) == Ok(false));
    /// How many stages of a plan may work at the same time, unless its manifest or `--jobs` sets this
    PLAN_JOBS: u32 = "plan.jobs", One("N"), NoFlag, |text| form::number(text, 1..=JOBS_MAX);
        raises: Some(|new, own| is_more(&PLAN_JOBS, new, own)),
        default: Some("3");
    /// How many times ekiden tries a failed stage again, unless the manifest sets this
    PLAN_RETRIES: u32 = "plan.retries", One("N"), NoFlag, |text| form::number(text, 0..=RETRIES_MAX);
        raises: Some(|new, own| is_more(&PLAN_RETRIES, new, own)),
        default: Some("2");
    /// Who may decide what a fleet's worker runs: a file of allowed signers for ssh-keygen(1) [default: anyone who submits]
    FLEET_TRUSTED_KEYS: String = "fleet.trusted_keys", One("FILE"), NoFlag, form::user_path;
        user_only: true;
    /// The SSH key that signs plans for a fleet
    FLEET_SIGN_KEY: String = "fleet.sign_key", One("FILE"), NoFlag, form::user_path;
        user_only: true;
    /// Command that checks the types after every stage of a plan, unless its manifest has one
    VALIDATION_TYPE_CHECK: String = "validation.type_check", One("COMMAND"), NoFlag, form::text;
        user_only: true;
    /// Command that runs the linter after every stage of a plan, unless its manifest has one
    VALIDATION_LINT: String = "validation.lint", One("COMMAND"), NoFlag, form::text;
        user_only: true;
    /// Command that runs the tests after every stage of a plan, unless its manifest has one
    VALIDATION_TEST: String = "validation.test", One("COMMAND"), NoFlag, form::text;
        user_only: true;
    /// Notifications when the run ends, needs you, waits for a limit or repeats itself; --no-notify for none
    NOTIFY: bool = "notify", Switch, Run, form::switch;
        // In files it is the table of the others.
        default: Some("true"), in_files: false;
    /// Kinds of notifications: needs_you, limit, loop, done, failed; each way may have its own list
    NOTIFY_KINDS: Vec<NoticeKind> = "notify.kinds", Commas("KINDS"), NoFlag, form::notice_kinds;
        default: Some("needs_you,limit,loop,done,failed"), user_only: true;
    /// Include a run's question in its notification, where a lock screen may show it
    NOTIFY_TEXT: bool = "notify.text", Switch, Run, form::switch;
        user_only: true;
    /// Notify on the desktop
    NOTIFY_DESKTOP: bool = "notify.desktop", Switch, NoFlag, form::switch;
        default: Some("true"), user_only: true;
    /// Kinds of notifications on the desktop [default: `notify.kinds`]
    NOTIFY_DESKTOP_KINDS: Vec<NoticeKind> = "notify.desktop_kinds", Commas("KINDS"), NoFlag, form::notice_kinds;
        user_only: true;
    /// A program that gets each notification as JSON on its standard input
    NOTIFY_COMMAND: Vec<String> = "notify.command", Words("COMMAND"), NoFlag, form::command;
        user_only: true;
    /// Kinds of notifications for the program [default: `notify.kinds`]
    NOTIFY_COMMAND_KINDS: Vec<NoticeKind> = "notify.command_kinds", Commas("KINDS"), NoFlag, form::notice_kinds;
        user_only: true;
    /// An address to which each notification is posted as JSON
    NOTIFY_WEBHOOK: String = "notify.webhook", One("URL"), NoFlag, form::address;
        user_only: true;
    /// Kinds of notifications for the address [default: `notify.kinds`]
    NOTIFY_WEBHOOK_KINDS: Vec<NoticeKind> = "notify.webhook_kinds", Commas("KINDS"), NoFlag, form::notice_kinds;
        user_only: true;
    /// A topic of an ntfy server to which each notification is posted as text, such as https://ntfy.sh/my-topic
    NOTIFY_NTFY: String = "notify.ntfy", One("URL"), NoFlag, form::address;
        user_only: true;
    /// Kinds of notifications for the topic [default: `notify.kinds`]
    NOTIFY_NTFY_KINDS: Vec<NoticeKind> = "notify.ntfy_kinds", Commas("KINDS"), NoFlag, form::notice_kinds;
        user_only: true;
    /// The OTLP endpoint for a run's spans and metrics, such as http://localhost:4318; none overrides `OTEL_*`
    /// [default: from the variables of OpenTelemetry]
    OTEL_ENDPOINT: String = "otel.endpoint", One("URL"), NoFlag, form::address_or_none;
        user_only: true;
    /// Where this project's issues are: linear, github, local, or none. Unless it is set, ekiden writes only to issues
    /// that you name [default: none, except with `--issue`]
    TRACKER_KIND: Option<TrackerKind> = "tracker.kind", One("KIND"), NoFlag, form::tracker_kind;
        user_only: true;
    /// The address of Linear's API
    TRACKER_LINEAR_URL: String = "tracker.linear.url", One("URL"), NoFlag, form::address;
        default: Some("https://api.linear.app/graphql"), user_only: true;
    /// The address of GitHub's API; for GitHub Enterprise https://HOST/api/v3
    TRACKER_GITHUB_URL: String = "tracker.github.url", One("URL"), NoFlag, form::address;
        default: Some("https://api.github.com"), user_only: true;
    /// The repository that has the issues [default: that of the remote `origin`]
    TRACKER_GITHUB_REPO: String = "tracker.github.repo", One("OWNER/NAME"), NoFlag, form::repo;
        user_only: true;
    /// The directory of issues in files, relative to the work dir
    TRACKER_LOCAL_DIR: String = "tracker.local.dir", One("DIR"), NoFlag, form::dir_inside;
        default: Some(".issues"), user_only: true;
    /// A program that prints a tracker's key, for example from a keyring; {tracker} in it stands for linear or github
    /// [default: LINEAR_API_KEY, GITHUB_TOKEN or GH_TOKEN, and `gh auth token`]
    TRACKER_CREDENTIAL_COMMAND: Vec<String> = "tracker.credential_command", Words("COMMAND"), NoFlag, form::command;
        user_only: true;
    /// The label of an issue that has a handoff to continue from; none for no label
    TRACKER_LABEL: String = "tracker.label", One("NAME"), NoFlag, form::text;
        default: Some("context-checkpointed");
    /// The state to which an issue moves at its first checkpoint or handoff
    TRACKER_STATE: String = "tracker.state", One("NAME"), NoFlag, form::text;
        user_only: true;
    /// The branch that a run on an issue creates and works on, such as feat/{issue}-{title} [default: none]
    TRACKER_BRANCH: String = "tracker.branch", One("NAME"), NoFlag, form::branch;
    /// What to do with the issue when a run is complete and verified: close, or comment only
    TRACKER_ON_COMPLETE: bool = "tracker.on_complete", One("WHAT"), NoFlag, form::on_complete;
        default: Some("comment"), user_only: true;
    /// The web address of a handoff document; {name} in it stands for the document's name
    /// [default: the comment contains the handoff]
    TRACKER_DOCUMENT_URL: String = "tracker.document_url", One("URL"), NoFlag, form::address;
        user_only: true;
    /// Who may give orders in comments on an issue, by login or address; other comments are data
    TRACKER_TRUST: Vec<String> = "tracker.trust", Lines("LOGIN"), NoFlag, form::lines;
        user_only: true;
    /// What to do when the terminal goes away: continue, or stop; with --tui the run always stops
    ON_HANGUP: OnHangup = "on_hangup", One("WHAT"), Run, form::on_hangup;
        default: Some("continue"), user_only: true;
    /// Where a watched session's uncommitted work goes at a checkpoint: ref (refs/ekiden/wip/), branch, or off
    // A project that was merely cloned must not have commits made on a branch.
    GUARD_WIP: Wip = "guard.wip", One("PLACE"), NoFlag, form::wip;
        default: Some("ref"), user_only: true;
    /// The issue that watched sessions work on, such as ANV-123 [default: from the branch's name]
    // It may name somebody else's repository, and reports on the session would appear there.
    GUARD_ISSUE: String = "guard.issue", One("ISSUE"), NoFlag, form::text;
        user_only: true;
    /// Remember what sessions leave, for `ekiden memory` and later sessions
    MEMORY_RECORD: bool = "memory.record", Switch, NoFlag, form::switch;
        raises: Some(|new, own| form::switch(new) != Ok(false) && form::switch(own) == Ok(false)),
        default: Some("true");
    /// Projects and directories to leave out of the memory, by the rules of .gitignore, such as ~/private
    MEMORY_EXCLUDE: Vec<String> = "memory.exclude", Lines("RULES"), NoFlag, form::lines;
        user_only: true;
    /// Give sessions recent context from the memory: watched sessions beside a handoff, and the first session of a run or stage
    MEMORY_CONTEXT: bool = "memory.context", Switch, NoFlag, form::switch;
        default: Some("true");
    /// Give Claude Code in a run ekiden's MCP server: memory, earlier sessions of the run, context use
    MCP: bool = "mcp", Switch, NoFlag, form::switch;
        default: Some("true"), user_only: true;
    /// Count down 10 s between sessions: press enter to pause, then tell the next session something,
    /// change limits or quit; needs a terminal
    GUIDED: bool = "guided", Switch, Guided, form::switch;
        user_only: true;
    /// Also show what the agent says and which tools it calls; not in --json
    VERBOSE: bool = "verbose", Switch, Show, form::switch;
        short: Some('v');
    /// Print versioned JSON instead of lines for people
    JSON: bool = "json", Switch, All, form::switch;
    /// Trust the state here even if it was moved, unpacked from an archive, or made by another user
    TRUST_STATE: bool = "trust_state", Switch, State, form::switch;
        in_files: false;
    /// Where ekiden keeps runs, instead of in the repository's git directory or .ekiden/state
    STATE_DIR: String = "state_dir", One("DIR"), NoFlag, form::text;
        in_files: false;
    /// Percentages of a watched session's usable window at which the guard warns, begins the handoff, and forces it
    GUARD_LEVELS: Levels = "guard.levels", Commas("A,B,C"), NoFlag, form::levels;
        default: Some("70,85,95");
    /// Remind once when a watched session stops with more than half of its window used and no handoff
    GUARD_REMINDER: bool = "guard.reminder", Switch, NoFlag, form::switch;
        default: Some("true");
    /// What the guard does at L3 in a watched session: refuse (one call, with the reason), or advise
    GUARD_L3: bool = "guard.l3", One("HOW"), NoFlag, form::at_l3;
        default: Some("refuse");
    /// The status line's parts in order: context, next (time to the next level), checkpoint, issue, phase, model, branch, trend, cost, time,
    /// limits, wrapped (another program's line), and colour
    GUARD_LINE: LineFormat = "guard.line", One("PARTS"), NoFlag, form::line_format;
        default: Some("context next issue phase checkpoint");
}

#[cfg(test)]
mod tests {
    use ekiden_core::limits;

    use super::*;

    // shows: RUN-03
    #[test]
    fn every_default_is_a_value() {
        for row in TABLE {
            if let Some(default) = row.default {
                assert_eq!((row.check)(default), Ok(()), "{}", row.name);
            }
        }
    }

    // shows: RUN-03
    #[test]
    fn flags_and_variables_follow_from_the_name() {
        let row = &CAP_TOKENS.row;
        assert_eq!(row.env(), "EKIDEN_CONTEXT_CAP_TOKENS");
        assert_eq!(row.long().as_deref(), Some("context-cap-tokens"));
        for row in TABLE {
            let sentence = !row.doc.is_empty() && !row.doc.ends_with('.');
            assert!(sentence, "{}", row.name);
        }
    }

    fn default<T>(setting: &Setting<T>) -> T {
        (setting.read)(setting.row.default.unwrap()).unwrap()
    }

    #[test]
    fn defaults_are_those_of_the_model() {
        assert_eq!(default(&MAX_SESSIONS), limits::SESSIONS_MAX_DEFAULT);
        assert_eq!(default(&VERIFY_TIMEOUT), limits::VERIFY_TIMEOUT_DEFAULT);
        assert_eq!(default(&MAX_WAIT), limits::WAIT_MAX_DEFAULT);
        assert_eq!(default(&STALL_SESSIONS), limits::STALL_SESSIONS_DEFAULT);
        assert_eq!(default(&SESSION_TIMEOUT), limits::SESSION_TIMEOUT_DEFAULT);
        assert_eq!(default(&ON_RATE_LIMIT), OnRateLimit::default());
        assert_eq!(default(&CAP_TOKENS), limits::RELAY_CAP_TOKENS);
        assert_eq!(
            default(&LEVELS),
            ekiden_core::guard::Profile::Relay.levels()
        );
        assert_eq!(default(&COMPLETION_MARKER), Marker::default());
    }
}
