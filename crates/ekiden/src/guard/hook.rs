//! `ekiden hook EVENT`: one moment of a session.

use std::io::Write as _;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use ekiden_core::guard::alert::{self, Said};
use ekiden_core::guard::estimate::Estimate;
use ekiden_core::guard::watch::{
    Alert, Batch, BatchCall, Decision, Moment, Refusal, Source, Watch, WatchEvent, WatchRecord, decide,
    judge_batch,
};
use ekiden_core::guard::{Denial, GuardView, HookInput, Profile, Reading, ToolUse, Verdict, verdict};
use ekiden_wire::done::DoneCall;
use ekiden_wire::hook_output;
use ekiden_wire::hooks::{HookCall, HookEvent};
use serde_json::Value;

use super::checkpoint::{self, Checkpoint};
use super::{Scene, handoff};
use crate::client::guard::stands_in_settings;
use crate::settings::environment::Environment;

/// How long a call waits for another that decides about the same session.
const LOCK_PATIENCE: Duration = Duration::from_millis(5);
/// How the client's own prompts begin: what a background task has to say.
const OWN_PROMPTS: [&str; 2] = ["<task-notification>", "<system-reminder>"];

/// Does what the event asks for, and answers.
pub(super) fn run(plugin: bool) {
    let call = HookCall::parse(&super::input());
    if call.agent_id.is_some() {
        return;
    }
    let Some(scene) = Scene::of(&call.session_id, call.transcript.clone(), &call.cwd) else { return };
    if plugin && stands_in_settings(call.event.name(), &Environment::of_process(), &scene.place.dir) {
        return;
    }
    let answer = Hook { scene: &scene, call: &call, plugin }.answer();
    if let Some(answer) = answer.filter(|answer| *answer != hook_output::pass()) {
        let mut out = std::io::stdout().lock();
        if let Err(error) = writeln!(out, "{answer}").and_then(|()| out.flush()) {
            scene.complain(&error);
        }
    }
}

/// A call, with the session that it is about.
struct Hook<'a> {
    scene: &'a Scene,
    call: &'a HookCall,
    plugin: bool,
}

impl Hook<'_> {
    fn answer(&self) -> Option<Value> {
        let watch = self.scene.watch();
        if self.call.event == HookEvent::PreToolUse {
            return self.before_tool(&watch);
        }
        let moment = self.moment(&watch)?;
        if matches!(moment, Moment::Begins(_)) {
            self.scene.sweep();
        }
        let reading = self.scene.reading();
        let (watch, decision) = self.settle(watch, &moment, reading.as_ref());
        let reading_now = reading.as_ref();
        let mut alerts = decision.alerts.clone();
        alerts.extend(reading_now.and_then(|reading| self.too_large(&moment, reading)).map(Alert::Large));
        if let Some(reason) = decision.begin {
            self.begin(&Checkpoint::of(self.scene, reason, reading_now), moment == Moment::Compacts);
        }
        if let Some(reading) = reading_now {
            self.scene.publish(&watch, reading);
        }
        let loaded = if decision.load { self.load(&moment) } else { None };
        Some(self.tell(&alerts, loaded.as_deref()))
    }

    /// What happens right now; none if it is nothing to the guard.
    fn moment(&self, watch: &Watch) -> Option<Moment> {
        match self.call.event {
            HookEvent::SessionStart => Some(Moment::Begins(match self.call.source.as_str() {
                "clear" => Source::Clear,
                "compact" => Source::Compact,
                "resume" | "fork" => Source::Resume,
                _ => Source::Startup,
            })),
            HookEvent::UserPromptSubmit => {
                let own = OWN_PROMPTS.iter().any(|own| self.call.prompt.trim_start().starts_with(own));
                (!own).then_some(Moment::Prompt)
            }
            HookEvent::PostToolBatch => Some(Moment::AfterBatch(batch(&self.call.calls, watch))),
            // For clients that do not tell of a batch: each tool is one.
            HookEvent::PostToolUse => Some(Moment::AfterBatch(Batch::default())),
            HookEvent::Stop => Some(Moment::Stops { background: self.call.background_tasks > 0 }),
            HookEvent::PreCompact => Some(Moment::Compacts),
            HookEvent::SessionEnd => Some(Moment::Ends),
            HookEvent::PreToolUse | HookEvent::StopFailure | HookEvent::Other => None,
        }
    }

    /// Decides, and records what was decided. Two calls at the same time decide one after the other;
    /// one that waited in vain only says what it saw, so that nothing is told or begun twice.
    fn settle(&self, watch: Watch, moment: &Moment, reading: Option<&Reading>) -> (Watch, Decision) {
        let decide = |watch: &Watch| decide(watch, self.scene.settings, moment, reading, self.scene.now);
        let first = decide(&watch);
        if first.events.is_empty() {
            return (watch, first);
        }
        let lock = self.scene.files.lock(LOCK_PATIENCE).unwrap_or_else(|error| {
            self.scene.complain(&error);
            None
        });
        let (mut watch, decision) = match lock {
            Some(_) => {
                let watch = self.scene.watch();
                let decision = decide(&watch);
                (watch, decision)
            }
            None => (watch, seen_only(first)),
        };
        let records: Vec<WatchRecord> = decision
            .events
            .iter()
            .map(|event| WatchRecord { time: self.scene.now, event: event.clone() })
            .collect();
        if let Err(error) = self.scene.files.append(&records) {
            self.scene.complain(&error);
            return (watch, Decision { refuse: decision.refuse, load: decision.load, ..Decision::default() });
        }
        records.iter().for_each(|record| watch.apply(record));
        (watch, decision)
    }

    /// A tool is about to run: the same verdict that a relay's session gets, by a person's rules.
    fn before_tool(&self, watch: &Watch) -> Option<Value> {
        let HookInput::PreTool { tool, subagent } = &self.call.input else { return None };
        let documents = self.scene.documents_dir();
        let view = GuardView {
            profile: Profile::Watch,
            level: watch.refusing_level(),
            handoff_dir: documents.clone(),
            engine_dirs: vec![self.scene.place.state_dir.clone()],
            missing: String::new(),
        };
        let directory = self.within_project(&documents);
        match verdict(&view, &HookInput::PreTool { tool: resolved(tool), subagent: *subagent }) {
            Verdict::Pass | Verdict::Block => None,
            Verdict::Allow => Some(hook_output::permission(true, "a handoff document")),
            Verdict::Deny(Denial::HandingOver { .. }) => {
                let (_, decision) = self.settle(watch.clone(), &Moment::Refuses, None);
                let refusal = decision.refuse.unwrap_or(Refusal::Call);
                let stop = alert::turn_ended(refusal, &self.scene.names(self.plugin));
                Some(hook_output::refusal(&alert::refused(&directory), stop.as_deref()))
            }
            Verdict::Deny(denial) => {
                Some(hook_output::permission(false, &ekiden_core::prompt::refusal(&denial, &directory)))
            }
        }
    }

    /// The estimate of what a prompt asks for, by the files that it names, if it may not fit.
    fn too_large(&self, moment: &Moment, reading: &Reading) -> Option<Estimate> {
        if *moment != Moment::Prompt {
            return None;
        }
        let estimate = self.scene.estimate(&self.call.prompt, &reading.window, Some(reading.used_tokens));
        (estimate.files > 0 && estimate.fits == Some(false)).then_some(estimate)
    }

    /// Begins a checkpoint: apart from the session, unless the client is about to summarise it, which
    /// waits.
    fn begin(&self, checkpoint: &Checkpoint, wait: bool) {
        let begun =
            if wait { checkpoint::take(checkpoint).map(|_| ()) } else { checkpoint::begin(checkpoint) };
        if let Err(error) = begun {
            self.scene.complain(&error);
        }
    }

    fn load(&self, moment: &Moment) -> Option<String> {
        let own = *moment == Moment::Begins(Source::Compact);
        match handoff::load(self.scene, own) {
            Ok(loaded) => {
                let (document, text) = loaded?;
                let event = WatchEvent::Loaded { document };
                if let Err(error) = self.scene.files.append(&[WatchRecord { time: self.scene.now, event }]) {
                    self.scene.complain(&error);
                }
                Some(text)
            }
            Err(error) => {
                self.scene.complain(&error);
                None
            }
        }
    }

    /// The answer: to the person on the screen, and to the agent beside what it reads next. At the end
    /// of a turn nothing is said to the agent, since that would begin another.
    fn tell(&self, alerts: &[Alert], loaded: Option<&str>) -> Value {
        let directory = self.within_project(&self.scene.documents_dir());
        let names = self.scene.names(self.plugin);
        let said: Vec<Said> =
            alerts.iter().map(|alert| alert::said(alert, &names, None, &directory)).collect();
        let person: Vec<&str> = said.iter().map(|said| said.person.as_str()).collect();
        let agent = said.iter().map(|said| said.agent.as_str()).chain(loaded);
        let agent: Vec<&str> = agent.filter(|text| !text.is_empty()).collect();
        let heard = match self.call.event {
            HookEvent::SessionStart
            | HookEvent::UserPromptSubmit
            | HookEvent::PostToolUse
            | HookEvent::PostToolBatch => agent.join("\n\n"),
            HookEvent::PreToolUse
            | HookEvent::Stop
            | HookEvent::PreCompact
            | HookEvent::SessionEnd
            | HookEvent::StopFailure
            | HookEvent::Other => String::new(),
        };
        hook_output::told(self.call.event, &person.join("\n"), &heard)
    }

    fn within_project(&self, path: &Path) -> String {
        path.strip_prefix(&self.scene.place.dir).unwrap_or(path).display().to_string()
    }
}

/// Of a decision that may not be made, what was seen.
fn seen_only(decision: Decision) -> Decision {
    let seen = |event: &WatchEvent| {
        matches!(
            event,
            WatchEvent::Tested { .. } | WatchEvent::Filled | WatchEvent::Refused | WatchEvent::Ended
        )
    };
    let events = decision.events.into_iter().filter(seen).collect();
    Decision { events, refuse: decision.refuse, load: decision.load, ..Decision::default() }
}

fn batch(calls: &[DoneCall], watch: &Watch) -> Batch {
    let calls: Vec<BatchCall<'_>> = calls
        .iter()
        .map(|call| BatchCall {
            command: &call.command,
            written: &call.written,
            failed: call.failed,
            closed_item: call.closed_item,
        })
        .collect();
    judge_batch(&calls, watch.last.as_ref().map(|last| last.document.as_str()))
}

/// The same call with the links in its path followed as far as the path exists.
fn resolved(tool: &ToolUse) -> ToolUse {
    match tool {
        ToolUse::Read(path) => ToolUse::Read(real(path)),
        ToolUse::Write(path) => ToolUse::Write(real(path)),
        ToolUse::Shell(_) | ToolUse::Schedule | ToolUse::Handoff | ToolUse::Other => tool.clone(),
    }
}

fn real(path: &Path) -> PathBuf {
    let known = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    let Some((above, resolved)) = known else { return path.to_owned() };
    let rest = path.strip_prefix(above).unwrap_or(Path::new(""));
    rest.components()
        .filter(|part| matches!(part, Component::Normal(_)))
        .fold(resolved, |at, part| at.join(part))
}
