//! Giving a new task to a relay that has worked already, and starting a relay from another's handoff.
//!
//! The first session that begins with a new task is told about it, in a new conversation. If a session worked
//! on the old task, its handoff is kept as notes. But neither its claim nor a passing verification ends the
//! run, and its question to a person is not asked again.

use super::{Baseline, NextAttempt, Relay};
use crate::effect::RelayEffect;
use crate::event::{Commit, Continued};
use crate::handoff::Status;
use crate::ids::{AttemptId, SessionNumber};
use crate::knowledge::Knowledge;
use crate::outcome::Outcome;
use crate::prompt::{self, ContinuationFacts, PromptSection, is_of_stranger};
use crate::renewal::{LastSession, NewTask, StartingPoint};
use crate::time::Timestamp;

impl Relay {
    /// A complete relay continues with follow-up work. Numbers and knowledge continue, sessions count from
    /// here, and ekiden checks again whether the verification passes already.
    pub fn continue_with(&mut self, at: Timestamp, continued: &Continued) -> Vec<RelayEffect> {
        let Some(Outcome::Complete { verified }) = self.outcome() else {
            return Vec::new();
        };
        let notes = prompt::continuation(&ContinuationFacts {
            before: &self.stage.task,
            session: self.newest(),
            verified: *verified,
            notes: self.last.as_ref().map(|last| &last.notes),
        });
        let (session, vanished) = (self.newest(), Vec::new());
        self.last = Some(LastSession {
            session,
            next_prompt: Some(notes.next_prompt.clone()),
            notes,
            open_items: None,
            vanished,
        });
        // The list is done, the question and the waived review were about the old task; the new one decides what follows.
        self.items = None;
        self.answer = None;
        self.told.clear();
        self.settings.no_review = false;
        self.wishes.stop = None;
        self.wishes.paused = false;
        self.seen.forget();
        self.sections = vec![PromptSection::NewTask];
        let commit = &self.seen.commit;
        let is_made = matches!(
            commit,
            None | Some(Commit::Made { .. } | Commit::Nothing { .. })
        );
        if continued.commit.is_some() && is_made {
            self.settings.commit.clone_from(&continued.commit);
        }
        self.set_task(&continued.task);
        self.change_limits(&continued.limits, true);
        self.prepare(at)
    }

    pub fn task(&self) -> NewTask {
        NewTask {
            text: self.stage.task.clone(),
            name: self.stage.task_name.clone(),
        }
    }

    /// The point from which another run can continue.
    pub fn starting_point(&self) -> Option<StartingPoint> {
        Some(StartingPoint {
            run: self.run.clone(),
            last: self.last.clone()?,
            knowledge: self.knowledge.render(),
            overtaken: false,
            task_changed: false,
        })
    }

    /// A new relay continues from another's session.
    pub(super) fn begin_from(&mut self, from: &StartingPoint) {
        let number = from.last.session.get();
        self.session_limit.from = number;
        self.session_limit.over = number;
        self.knowledge = Knowledge::parse(&from.knowledge);
        self.last = Some(from.last.clone());
        if from.task_changed {
            self.sections.push(PromptSection::TaskChanged);
            self.forget_items();
        }
        self.sections
            .extend(from.overtaken.then_some(PromptSection::GoneBack));
    }

    /// The user has edited the task. The same words again change nothing.
    pub(super) fn edit_task(&mut self, task: &NewTask) {
        if self.stage.task != task.text {
            self.set_task(task);
            self.wishes.task_edited = true;
            self.forget_items();
            // Sessions may have made it pass since.
            self.seen.baseline = Baseline::Unknown;
        }
    }

    /// The next attempt, with the section about an edited task: a conversation about the old one does not
    /// continue.
    pub(super) fn renewed(&mut self, next: NextAttempt) -> NextAttempt {
        if !std::mem::take(&mut self.wishes.task_edited) {
            return next;
        }
        if next.id != AttemptId::first(SessionNumber::FIRST) {
            self.tell(PromptSection::TaskChanged);
        }
        self.by_another(next)
    }

    /// The part of a session's end that counts: none, if the task was edited since. If words of the user's wait, which
    /// the session has not read, only its question does.
    pub(super) fn of_this_task(
        &self,
        passed: Option<bool>,
        status: Option<Status>,
    ) -> (Option<bool>, Option<Status>) {
        let edited = self.wishes.task_edited;
        let asks = |status: &Status| !edited && matches!(status, Status::Blocked { .. });
        let mut words = self.wishes.words.iter();
        if edited || words.any(|words| !is_of_stranger(words)) {
            (passed.map(|_| false), status.filter(asks))
        } else {
            (passed, status)
        }
    }

    pub(super) fn unused(&self) -> SessionNumber {
        match self.session_limit.over {
            0 => SessionNumber::FIRST,
            _ => self.newest().next(),
        }
    }

    /// Open items of another task may disappear without a tick: the user has removed them.
    fn forget_items(&mut self) {
        if let Some(last) = &mut self.last {
            last.open_items = None;
            last.vanished.clear();
        }
    }

    pub(super) fn newest(&self) -> SessionNumber {
        SessionNumber::try_from(self.session_limit.over).unwrap_or(SessionNumber::FIRST)
    }

    fn set_task(&mut self, task: &NewTask) {
        self.stage.task.clone_from(&task.text);
        self.stage.task_name.clone_from(&task.name);
        self.seen.judge_anew(&task.text);
    }
}
