//! Another task in a relay that has worked already, and a relay that begins from another's handoff.
//!
//! A new task is told to the first session that begins with it, in a conversation of its own. What a
//! session left that worked on the old task is kept as notes, but neither its claim nor a pass of
//! the verification ends the run, and its question to a person is not asked again.

use crate::effect::{RelayEffect, StartMode};
use crate::handoff::Status;
use crate::ids::{AttemptId, SessionNumber};
use crate::knowledge::Knowledge;
use crate::outcome::Outcome;
use crate::prompt::{self, ContinuationFacts, Notes, Slot};
use crate::relay::{Baseline, LastSession, NextAttempt, Relay};
use crate::renewal::{Continued, NewTask, StartingPoint};
use crate::time::Timestamp;

impl Relay {
    /// A complete relay goes on with follow-up work: numbers and knowledge go on, sessions count from
    /// here, and whether the verification passes already is looked at again.
    pub fn continue_with(&mut self, at: Timestamp, continued: &Continued) -> Vec<RelayEffect> {
        let Some(Outcome::Complete { verified }) = self.outcome() else { return Vec::new() };
        let (progress, next_prompt) = prompt::continuation(&ContinuationFacts {
            task: &continued.task.text,
            before: &self.stage.task,
            session: self.newest(),
            verified: *verified,
            notes: self.last.as_ref().map(|last| &last.notes),
        });
        let notes = Notes::Continuation { progress, next_prompt };
        let (session, vanished) = (self.newest(), Vec::new());
        self.last = Some(LastSession { session, notes, open_items: None, vanished });
        self.next_prompt = None;
        self.stop = None;
        self.paused = false;
        self.baseline = Baseline::Unknown;
        self.check = None;
        self.slots = vec![Slot::NewTask];
        self.set_task(&continued.task);
        self.change_limits(&continued.limits, true);
        self.prepare(at)
    }

    /// Where another run can begin that goes on from here.
    #[must_use]
    pub fn starting_point(&self) -> Option<StartingPoint> {
        Some(StartingPoint {
            run: self.run.clone(),
            last: self.last.clone()?,
            next_prompt: self.next_prompt.clone(),
            knowledge: self.knowledge.render(),
            overtaken: false,
            task_changed: false,
        })
    }

    /// A relay that has not begun goes on from another's session.
    pub(super) fn begin_from(&mut self, from: &StartingPoint) {
        let number = from.last.session.get();
        self.quota.from = number;
        self.quota.over = number;
        self.knowledge = Knowledge::parse(&from.knowledge);
        self.last = Some(from.last.clone());
        self.next_prompt.clone_from(&from.next_prompt);
        if from.task_changed {
            self.slots.push(Slot::TaskChanged);
            self.forget_items();
        }
        self.slots.extend(from.overtaken.then_some(Slot::GoneBack));
    }

    /// The user has edited the task. The same words again change nothing.
    pub(super) fn edit_task(&mut self, task: &NewTask) {
        if self.stage.task != task.text {
            self.set_task(task);
            self.task_edited = true;
            self.forget_items();
        }
    }

    /// The attempt that comes next, with what it must be told of an edited task: a conversation about
    /// the old one does not go on.
    pub(super) fn renewed(&mut self, next: NextAttempt) -> NextAttempt {
        if !std::mem::take(&mut self.task_edited) {
            return next;
        }
        if next.id != AttemptId::first(SessionNumber::FIRST) {
            self.slots.push(Slot::TaskChanged);
        }
        let conversation = self.conversation_of(next.id);
        NextAttempt { mode: StartMode::Fresh, conversation, ..next }
    }

    /// What counts of a session's end: nothing, if it worked on a task that was edited since.
    pub(super) fn of_this_task(
        &self,
        passed: Option<bool>,
        status: Option<Status>,
    ) -> (Option<bool>, Option<Status>) {
        if self.task_edited { (passed.map(|_| false), None) } else { (passed, status) }
    }

    /// The number of the next session that was never begun.
    pub(super) fn unused(&self) -> SessionNumber {
        match self.quota.over {
            0 => SessionNumber::FIRST,
            _ => self.newest().next(),
        }
    }

    /// Open items of another task may go without a tick: the user has taken them away.
    fn forget_items(&mut self) {
        if let Some(last) = &mut self.last {
            last.open_items = None;
            last.vanished.clear();
        }
    }

    fn newest(&self) -> SessionNumber {
        SessionNumber::try_from(self.quota.over).unwrap_or(SessionNumber::FIRST)
    }

    fn set_task(&mut self, task: &NewTask) {
        self.stage.task.clone_from(&task.text);
        self.stage.task_name.clone_from(&task.name);
        if let Some(bench) = &mut self.bench {
            bench.renew(&task.text, self.survey.as_ref());
        }
    }
}
