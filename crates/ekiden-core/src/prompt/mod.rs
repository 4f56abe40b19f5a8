//! The texts that agents read: a catalogue, one module for each text.
//!
//! ```text
//! protocol            fixed instructions, the same bytes all run: what a relay is, how to hand off
//! session_prompt      the first message: task and facts, then notes, then one request of ours
//! order               a message into the running turn: hand off now
//! refusal             the reason of a denied call
//! go_on, ask_again    a turn ended too early; a handoff has faults
//! rescue              notes that a program writes when the agent left none
//! continuation        notes that a program writes when a complete run gets a new task
//! resume_note         a conversation goes on after an interruption
//! loaded_handoff      at a watched session's start: the document that the one before it left
//! stage_prompt        the same for a stage of a plan: with the whole, files and earlier results
//! architecture_prompt, split_prompt, mend_document, mend_manifest    an idea becomes a document, then stages
//! review_prompt, mend_verdict, answer_now    a fresh session judges a claim of completion
//! issue_task          a task from a tracker: the user's sentence, then the issue as data
//! skills              commands inside a session: checkpoint, handoff, orient
//! read_prompt         where the prompt lies, for a client in its own interface
//! ```
//!
//! Invariants, each held by a test in `tests`:
//! - Every line that came from an agent, a file, a tool or a tracker begins with [`quote::MARK`]. The lines
//!   without it are the same for every content of a handoff.
//! - The last block of a session's prompt holds only our own text: the client attaches the files that the
//!   last block names, even in marked lines.
//! - The prompts of two sessions in a row share their bytes up to the first new fact.
//! - Each text keeps its budget for any input. A mark shows what is left out. The task is never cut.
//! - A stage's whole prompt keeps its size for every plan. Parts that the agent can read elsewhere are cut
//!   first.
//! - No percentages, no remaining budgets, no capitals for force. `tests/catalogue.rs` lists every wording,
//!   and a lint reads it.

pub mod budget;
mod context;
mod continuation;
mod excerpt;
mod fill;
mod issue;
mod loaded;
mod measured;
mod messages;
mod notes;
mod now;
pub mod own_lines;
mod page;
mod planning;
mod protocol;
pub mod quote;
mod reply;
mod rescue;
mod result;
mod review;
mod session;
mod setback;
mod skills;
mod stage;
mod summary;

pub use context::{ContextInput, FileInput, ResultInput, StageContext};
pub use continuation::{ContinuationFacts, continuation};
pub use excerpt::{Excerpt, Excerpts};
pub(crate) use issue::is_of_stranger;
pub use issue::{comment_note, is_comment, issue_task, review_task};
pub use loaded::{loaded_handoff, offered_handoff, replaced_by_document};
pub use measured::Measured;
pub use messages::{
    NO_COMPACTION, OrderReason, REFUSED_IN_PLANNING, SIGNATURE, UNATTENDED, ask_again, go_on,
    order, read_prompt, refusal, resume_note,
};
pub use notes::{Author, Notes};
pub use now::PromptSection;
pub use planning::{
    DocumentFault, NO_MANIFEST, QUESTIONS_SCHEMA, Question, architecture_prompt, debrief_prompt,
    mend_document, mend_manifest, questions, questions_prompt, shards_prompt, split_prompt,
};
pub use protocol::{Ordering, ProtocolSlots, protocol};
pub use reply::extract_json;
pub use rescue::{CheckFacts, FailedCommand, RescueFacts, rescue};
pub use result::{
    FailedAttempt, FailureFacts, LastOutput, StageFacts, diagnosis, result_head, stage_result,
};
pub use review::{
    Finding, NO_TREE, REVIEW_SCHEMA, ReviewInput, answer_now, faults_left, mend_verdict,
    no_verdict, review_prompt, tree_changed, verdict,
};
pub(crate) use session::LONG_LIST;
pub use session::{PromptBlocks, SessionInput, session_prompt};
pub use setback::MergeSide;
pub use skills::{SKILL_MARK, Skill, SkillNames};
pub use stage::{StageInput, stage_prompt};
pub use summary::summary_of;

/// Where an agent writes its handoff, as the texts name it: relative to the work dir.
pub const HANDOFF_DIR: &str = ".ekiden/handoff";

#[cfg(test)]
mod tests;
