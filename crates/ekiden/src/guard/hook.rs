//! `ekiden hook EVENT`: one event of a session.

use std::io::Write as _;
use std::time::Duration;

use ekiden_agent::leads_to::leads_to;
use ekiden_core::guard::alert::{self, AlertTexts};
use ekiden_core::guard::estimate::named_files;
use ekiden_core::guard::watch::{
    Alert, Batch, Decision, Phase, Source, Trigger, Watch, WatchEvent, WatchRecord, judge_batch,
};
use ekiden_core::guard::{
    Denial, GuardView, HookInput, Level, Profile, Reading, Ruling, ToolUse, ruling,
};
use ekiden_core::{limits, observation};
use ekiden_wire::hook_output;
use ekiden_wire::hooks::{HookCall, HookEvent};
use ekiden_wire::tools::runs_guard;
use serde_json::Value;

use super::{Watched, checkpoint, handoff, ralph};
use crate::client::guard::is_in_settings;
use crate::client::transcript;
use crate::settings::environment::Environment;
use crate::specs::large_spec;

/// How long a call waits for another one that decides about the same session.
const LOCK_PATIENCE: Duration = Duration::from_millis(5);
/// The same where a decision that is not made now is lost, or where nobody waits for the answer.
const LONG_LOCK_PATIENCE: Duration = Duration::from_secs(1);
/// How much of the memory a session reads at its start: about 1,000 tokens.
const CONTEXT_CHARS_MAX: usize = 3_000;
/// How prompts begin that no person wrote: the client reports on background tasks, and the mod names the document.
const OWN_PROMPTS: [&str; 3] = [
    "<task-notification>",
    "<system-reminder>",
    "The guard's handoff document of this session",
];

/// Does what the event asks for, and answers.
pub(super) fn run(called: Called) {
    let call = HookCall::parse(&super::input());
    // Of a subagent's events only its calls concern the guard, for what they write.
    if call.agent_id.is_some() && call.event != HookEvent::PreToolUse {
        return;
    }
    let Some(mut watched) = Watched::of(
        &call.session_id,
        call.transcript.clone(),
        &call.cwd,
        &call.cwd,
    ) else {
        return;
    };
    if watched.transcript.as_os_str().is_empty() {
        let found = transcript::find(&watched.environment, &call.session_id);
        watched.transcript = found.unwrap_or_default();
    }
    let project = &watched.place.dir;
    let event = if called.by_mod {
        HookEvent::PostToolBatch
    } else {
        call.event
    };
    if called.by_plugin && is_in_settings(event.name(), &Environment::of_process(), project) {
        return;
    }
    let hook = Hook {
        watched: &watched,
        call: &call,
        called,
    };
    let mod_watches = !called.by_mod && watched.files.is_mod_alive();
    let answer = match (&call.input, call.event) {
        _ if called.by_mod => Some(hook.for_mod()),
        (HookInput::PreTool { tool, .. }, _) => hook.before_tool(tool, mod_watches),
        (_, HookEvent::PostToolBatch) if mod_watches => {
            // The mod may not ask about this batch, and a later checkpoint waits while tests fail.
            let tested = watched.watch().tested(hook.batch());
            tested.into_iter().for_each(|event| watched.note(event));
            None
        }
        (_, HookEvent::PostToolUse | HookEvent::Stop) if mod_watches => None,
        _ => hook.answer(),
    };
    if let Some(answer) = answer.filter(|answer| *answer != hook_output::pass()) {
        let mut out = std::io::stdout().lock();
        watched.or_complain(writeln!(out, "{answer}").and_then(|()| out.flush()));
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Called {
    /// The plugin, which does nothing where the settings have the same hooks.
    pub by_plugin: bool,
    /// The mod, not a hook.
    pub by_mod: bool,
}

/// A call and the session that it is about.
pub(super) struct Hook<'a> {
    pub(super) watched: &'a Watched,
    pub(super) call: &'a HookCall,
    pub(super) called: Called,
}

impl Hook<'_> {
    pub(super) fn answer(&self) -> Option<Value> {
        self.answer_to(&self.trigger()?)
    }

    pub(super) fn answer_to(&self, trigger: &Trigger) -> Option<Value> {
        let mut cleared = None;
        if let Trigger::Begins(source) = trigger {
            self.watched.sweep();
            let before = self.watched.tell_servers();
            cleared = before.filter(|_| *source == Source::Clear);
        }
        if *trigger == Trigger::Prompt {
            self.note_prompt();
        }
        if *trigger == Trigger::Ends {
            let started = checkpoint::start_for(checkpoint::END_ROLE, self.watched);
            self.watched.or_complain(started);
        }
        if *trigger == Trigger::Compacts {
            self.await_writer();
        }
        // Before the reading: the client may write the response in between.
        let is_stop = self.call.event == HookEvent::Stop && !self.called.by_mod;
        if is_stop && !self.watched.recent().settled {
            let started = checkpoint::start_for(checkpoint::TURN_ROLE, self.watched);
            self.watched.or_complain(started);
        }
        let reading = self.watched.reading();
        let (watch, decision) = settle(self.watched, trigger, reading.as_ref());
        let mut alerts = decision.alerts;
        if *trigger == Trigger::Prompt
            && let Some(reading) = &reading
        {
            alerts.extend(self.large(reading));
        }
        if let Some(reason) = decision.begin {
            let request = self.watched.checkpoint(reason, reading.as_ref());
            // The client waits with its summary, or with the session after `/clear`, until this is done.
            if *trigger == Trigger::Compacts || self.call.source == "clear" {
                self.watched.or_complain(checkpoint::take(&request));
            } else {
                self.watched.or_complain(checkpoint::begin(&request));
            }
        }
        if let Some(reading) = &reading {
            self.watched.publish(&watch, reading, true);
        }
        let ends = self.watched.follow_loop(trigger, &watch, reading.as_ref());
        let own = *trigger == Trigger::Begins(Source::Compact);
        if let Some(document) = &decision.consume {
            let consumed = handoff::consume(self.watched, document);
            if self.watched.or_complain(consumed) == Some(true) {
                self.watched.tell_continued();
            }
        }
        let orient = self.watched.names(self.called.by_plugin).orient;
        let loaded = (decision.load && !self.watched.is_nested())
            .then(|| handoff::load(self.watched, own, cleared.as_deref(), &orient));
        let loaded = loaded
            .and_then(|loaded| self.watched.or_complain(loaded))
            .flatten();
        let recent = self.recent(trigger, loaded.as_deref().unwrap_or_default());
        let both: Vec<String> = loaded.into_iter().chain(recent).collect();
        let told = self.tell(&alerts, Some(&both.join("\n\n")));
        Some(match ends {
            true => hook_output::ending(told, ralph::ENDED),
            false => told,
        })
    }

    /// What the memory holds, for a session that starts fresh: in the space that the handoff leaves.
    fn recent(&self, trigger: &Trigger, handoff: &str) -> Option<String> {
        let anew = [Source::Startup, Source::Clear].map(Trigger::Begins);
        let used = handoff.encode_utf16().count() + 2;
        let room = limits::DOCUMENT_CHARS_MAX.saturating_sub(used);
        let room = room.min(CONTEXT_CHARS_MAX);
        anew.contains(trigger)
            .then(|| self.watched.recent_context(room))?
    }

    /// Remembers the prompt, makes the session known to shell commands, and shows plan mode as its phase while that lasts.
    fn note_prompt(&self) {
        let watch = self.watched.watch();
        let word = match (self.call.mode.as_str(), &*watch.phase_word) {
            ("plan", "plan") | ("", _) => None,
            ("plan", _) => Some("plan"),
            (_, "plan") => Some(""),
            (_, _) => None,
        };
        let record = |word: &str| WatchRecord {
            time: self.watched.now,
            event: WatchEvent::PhaseNamed {
                word: word.to_owned(),
            },
        };
        if word.is_some() || watch.since.is_none() {
            let records: Vec<WatchRecord> = word.map(record).into_iter().collect();
            self.watched
                .or_complain(self.watched.files.append(&records));
        }
        let (now, prompt) = (self.watched.now, &self.call.prompt);
        self.watched.remember(|from| {
            let made = observation::watched::prompt(from, now, prompt);
            made.into_iter().collect()
        });
    }

    /// Waits for a checkpoint that is being written. One that its process left behind is recorded as failed, so another
    /// begins.
    fn await_writer(&self) {
        let is_writing = || matches!(self.watched.watch().phase, Phase::Writing { .. });
        if !is_writing() {
            return;
        }
        let free = (self.watched.files).lock_writing(limits::CHECKPOINT_WAIT.into());
        let free = self.watched.or_complain(free).flatten();
        if free.is_some() && is_writing() {
            let why = "its process ended without an answer".to_owned();
            self.watched.note(WatchEvent::Failed { why });
        }
    }

    /// What is happening now; `None` if it does not concern the guard.
    fn trigger(&self) -> Option<Trigger> {
        match self.call.event {
            HookEvent::SessionStart => Some(Trigger::Begins(match self.call.source.as_str() {
                "clear" => Source::Clear,
                "compact" => Source::Compact,
                "resume" | "fork" => Source::Resume,
                _ => Source::Startup,
            })),
            HookEvent::UserPromptSubmit => {
                let prompt = self.call.prompt.trim_start();
                let own = OWN_PROMPTS.iter().any(|own| prompt.starts_with(own));
                (!own).then_some(Trigger::Prompt)
            }
            HookEvent::PostToolBatch => Some(Trigger::AfterBatch(self.batch())),
            // For clients that report no batches: each tool is one.
            HookEvent::PostToolUse => Some(Trigger::AfterBatch(Batch::default())),
            HookEvent::Stop => {
                // Without the last response there is only an older figure. The mod has the client's own.
                let is_early = !self.called.by_mod && !self.watched.recent().settled;
                Some(Trigger::Stops {
                    background: self.call.background_tasks > 0 || is_early,
                })
            }
            HookEvent::PreCompact => Some(Trigger::Compacts),
            HookEvent::SessionEnd => Some(Trigger::Ends),
            HookEvent::PreToolUse | HookEvent::StopFailure | HookEvent::Idle | HookEvent::Other => {
                None
            }
        }
    }

    fn batch(&self) -> Batch {
        let last = self.watched.watch().last;
        judge_batch(
            &self.call.calls,
            last.as_ref().map(|last| last.taken.document.as_str()),
        )
    }

    /// A tool is about to run: the same ruling that a relay's session gets, by a person's rules. If the
    /// mod is watching, the level is left to it.
    pub(super) fn before_tool(&self, tool: &ToolUse, mod_watches: bool) -> Option<Value> {
        let watch = self.watched.watch();
        let refuses = !mod_watches && watch.refuses(self.watched.settings);
        let documents = self.watched.documents_dir();
        let view = GuardView {
            profile: Profile::Watch,
            level: if refuses { Level::L3 } else { Level::L0 },
            handoff_dir: documents.clone(),
            engine_dirs: vec![self.watched.place.state_dir.clone()],
            missing: String::new(),
        };
        let input = HookInput::PreTool {
            tool: resolved(tool),
            subagent: self.call.agent_id.is_some(),
        };
        match ruling(&view, &input) {
            Ruling::Pass | Ruling::Block => None,
            Ruling::Allow => Some(hook_output::permission(true, "a handoff document")),
            Ruling::Deny(Denial::HandingOff { .. }) => {
                let (_, decision) = settle(self.watched, &Trigger::Refuses, None);
                let said = self.said(decision.alerts.first().filter(|_| decision.refuse)?);
                Some(hook_output::refusal(&said.agent, &said.person))
            }
            Ruling::Deny(denial) => {
                let directory = self.watched.shown(&documents);
                let reason = ekiden_core::prompt::refusal(&denial, &directory);
                Some(hook_output::permission(false, &reason))
            }
        }
    }

    /// A list that the prompt names and that should be sharded first; otherwise the estimate of the
    /// requested work.
    fn large(&self, reading: &Reading) -> Option<Alert> {
        let dir = &self.watched.place.dir;
        let documents = named_files(&self.call.prompt).into_iter();
        let mut documents = documents.filter(|name| name.ends_with(".md"));
        let large = documents.find_map(|name| large_spec(dir, name, &reading.window, true));
        large.map(Alert::Shard).or_else(|| self.too_large(reading))
    }

    /// The estimate of a prompt's work, by the files that it names, if it may not fit.
    fn too_large(&self, reading: &Reading) -> Option<Alert> {
        let used = Some(reading.used_tokens);
        let estimate = self
            .watched
            .estimate(&self.call.prompt, &reading.window, used);
        (estimate.files > 0 && estimate.fits == Some(false)).then_some(Alert::Large(estimate))
    }

    pub(super) fn said(&self, alert: &Alert) -> AlertTexts {
        let directory = self.watched.shown(&self.watched.documents_dir());
        let is_level = matches!(alert, Alert::Level { .. });
        let issue = is_level.then(|| self.watched.told_issue()).flatten();
        alert::said(
            alert,
            &self.watched.names(self.called.by_plugin),
            &directory,
            issue.as_deref(),
        )
    }

    /// The answer: to the person on the screen, and to the agent with what it reads next. At the end of a
    /// turn the agent gets nothing, since that would begin another turn.
    fn tell(&self, alerts: &[Alert], loaded: Option<&str>) -> Value {
        let said: Vec<AlertTexts> = alerts.iter().map(|alert| self.said(alert)).collect();
        let person: Vec<&str> = said.iter().map(|said| said.person.as_str()).collect();
        let agent = said.iter().map(|said| said.agent.as_str()).chain(loaded);
        let agent: Vec<&str> = agent.filter(|text| !text.is_empty()).collect();
        let listens = matches!(
            self.call.event,
            HookEvent::SessionStart
                | HookEvent::UserPromptSubmit
                | HookEvent::PostToolUse
                | HookEvent::PostToolBatch
                | HookEvent::PreToolUse
                | HookEvent::Idle
        );
        let agent = if listens {
            agent.join("\n\n")
        } else {
            String::new()
        };
        hook_output::messages(self.call.event, &person.join("\n"), &agent)
    }
}

/// Decides, and records the decision. Two calls at the same time decide one after the other. A call that
/// does not get the lock records only what it saw. Such a call, like one that cannot record, does nothing that
/// must not be done twice.
pub(super) fn settle(
    watched: &Watched,
    trigger: &Trigger,
    reading: Option<&Reading>,
) -> (Watch, Decision) {
    let watch = watched.watch();
    let first = watched.decide(&watch, trigger, reading);
    if first.events.is_empty() {
        return (watch, first);
    }
    // Without its checkpoint, a compaction loses what was not written down; and a turn's end is judged once.
    let is_last_chance = matches!(
        trigger,
        Trigger::Compacts | Trigger::Stops { background: true }
    );
    let patience = if is_last_chance {
        LONG_LOCK_PATIENCE
    } else {
        LOCK_PATIENCE
    };
    // Held until the records are appended: a temporary in the condition below would be dropped too early.
    let lock = watched.or_complain(watched.files.lock(patience)).flatten();
    let mut watch = watched.watch();
    let decision = watched.decide(&watch, trigger, reading);
    let is_seen = |event: &&WatchEvent| {
        matches!(event, WatchEvent::Tested { .. } | WatchEvent::Filled { .. })
    };
    let records: Vec<WatchRecord> = decision
        .events
        .iter()
        .filter(|event| lock.is_some() || is_seen(event))
        .map(|event| WatchRecord {
            time: watched.now,
            event: event.clone(),
        })
        .collect();
    let recorded = records.is_empty()
        || watched
            .or_complain(watched.files.append(&records))
            .is_some();
    if recorded && lock.is_some() {
        records.iter().for_each(|record| watch.apply(record));
        return (watch, decision);
    }
    let load = decision.load;
    (
        watch,
        Decision {
            load,
            ..Decision::default()
        },
    )
}

/// The same call with the links in its path followed, and with the guard's own commands recognized as such.
fn resolved(tool: &ToolUse) -> ToolUse {
    match tool {
        ToolUse::Read(path) => ToolUse::Read(leads_to(path)),
        ToolUse::Write(path) => ToolUse::Write(leads_to(path)),
        ToolUse::Shell(line) if runs_guard(line) => ToolUse::Handoff,
        ToolUse::Shell(_)
        | ToolUse::Schedule
        | ToolUse::Handoff
        | ToolUse::Own { .. }
        | ToolUse::Other => tool.clone(),
    }
}
