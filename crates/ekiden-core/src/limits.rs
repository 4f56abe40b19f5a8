//! The limits of the model that more than one module uses, each with the reason for its size.
//!
//! A limit that users may change is a setting; its default is here too.

use crate::time::Millis;

// ── Relay ────────────────────────────────────────────────────────────────────────────────────

/// Sessions of a relay, by default.
pub const SESSIONS_MAX_DEFAULT: u32 = 10;
/// More sessions than this at once is a typing error, not a plan.
pub const SESSIONS_MAX_MAX: u32 = 10_000;
/// Attempts at one session: after three the session is given up and rescued.
pub const ATTEMPTS_MAX: u32 = 3;
/// How often a reviewer's findings go to another session. After that a person is asked.
pub const REVIEW_ROUNDS_MAX: u32 = 2;
/// How much of a reviewer's answer is kept, in characters.
pub const REVIEW_ANSWER_CHARS_MAX: usize = 24_000;
/// Faults of one review that are passed on.
pub const FINDINGS_MAX: usize = 10;
/// How much of a diff is kept for a reviewer, in bytes.
pub const REVIEW_DIFF_BYTES_MAX: usize = 64 * 1024;
/// The room for a diff in a reviewer's prompt, in tokens; the reviewer can read the rest.
pub const REVIEW_DIFF_TOKENS_MAX: usize = 12_000;
/// The room for findings in a session's prompt, in tokens.
pub const FINDINGS_TOKENS_MAX: usize = 2_500;
/// Sessions in a row that ended in a crash: beyond this, the cause is not chance.
pub const CRASHES_IN_A_ROW_MAX: u32 = 3;
/// Notes that match earlier ones by more than this say nothing new.
pub const ALIKE_PERCENT: u8 = 85;
/// Handoffs in a row that repeat while nothing moves: the next would be the same again.
pub const REPEATS_MAX: u32 = 3;
/// Sessions in a row that left no valid handoff and moved nothing end a run: a third would do the same.
pub const RESCUES_IDLE_MAX: u32 = 2;
/// Sessions in a row without progress, by default: two can be bad luck.
pub const STALL_SESSIONS_DEFAULT: u32 = 3;
/// How often a session whose turn ended early is asked to continue.
pub const GO_ON_MAX: u32 = 2;
/// A session is asked for its handoff at most this often by a message.
pub const ASKS_MAX: u32 = 2;
/// A Stop callback holds the agent at most this often (the client overrides it after eight times).
pub const STOP_BLOCKS_MAX: u32 = 3;
/// Calls refused at L3 before the turn is interrupted.
pub const REFUSALS_MAX: u32 = 3;
/// An agent that cannot get messages in mid-turn hands off after this many items.
pub const ITEMS_A_SESSION: u32 = 3;
/// Sessions that work on one item of a list before it is set aside.
pub const ITEM_TRIES_MAX: u32 = 3;
/// Items that agents may add to a list: a list that grows faster than the work never ends.
pub const ITEMS_ADDED_MAX: usize = 100;
/// A longer list of items is left out of prompts, in bytes: each session works on one item.
pub const LIST_BYTES_MAX: usize = 16 * 1024;
/// The pause between two attempts after a crash; doubled for each crash in a row.
pub const CRASH_BACKOFF: Millis = Millis::from_secs(2);
/// A session that ends sooner, without a handoff, a call or a token, did not work at all.
pub const EMPTY_SESSION_MAX: Millis = Millis::from_secs(10);
/// The longest pause after a crash.
pub const CRASH_BACKOFF_MAX: Millis = Millis::from_secs(300);

// ── Waiting ──────────────────────────────────────────────────────────────────────────────────

/// Added to a limit's reset time, since clocks differ.
pub const RESET_BUFFER: Millis = Millis::from_secs(30);
/// A reset noted by another run is believed only this far ahead: no limit of an account is longer.
pub const LIMIT_AHEAD_MAX: Millis = Millis::from_secs(7 * 24 * 3600);
/// The wait for a limit without a reset time.
pub const RESET_UNKNOWN: Millis = Millis::from_secs(300);
/// The longest wait for a limit, by default.
pub const WAIT_MAX_DEFAULT: Millis = Millis::from_secs(6 * 3600);
/// How long a session may take to hand off after the first Ctrl-C.
pub const STOP_GRACE: Millis = Millis::from_secs(120);
/// How long `ekiden stop` waits for the end: the grace to hand off, plus a verification of the usual length.
pub const STOP_PATIENCE: Millis = Millis::from_secs(300);
/// How long `ekiden pause` waits for the engine's answer.
pub const STEER_PATIENCE: Millis = Millis::from_secs(10);
/// The same with `--wait 0s`: even a caller that does not wait sees a refusal.
pub const STEER_PATIENCE_MIN: Millis = Millis(500);
/// How long a child may take to exit after its standard input was closed.
pub const CLOSE_GRACE: Millis = Millis::from_secs(10);
/// How long a child may take to exit after SIGTERM, before SIGKILL. RUN-10 promises that all is over within 5
/// s.
pub const KILL_GRACE: Millis = Millis::from_secs(3);
/// How long an agent may write nothing. A client takes 300 s to notice a dead stream, and one of its commands
/// may run for ten minutes.
pub const SILENCE_MAX: Millis = Millis::from_secs(25 * 60);
/// How long a message may wait for its turn to begin while no turn is running. A client begins it at once.
pub const UNHEARD_MAX: Millis = Millis::from_secs(60);
/// How long a guided relay counts down before it begins the next session: time to read a handoff's first
/// line and to press enter.
pub const GUIDED_COUNTDOWN: Millis = Millis::from_secs(10);
/// Characters that a user may add for one session. Longer texts belong in the task.
pub const OPERATOR_CHARS_MAX: usize = 4_000;
/// The default limit of one verification.
pub const VERIFY_TIMEOUT_DEFAULT: Millis = Millis::from_secs(120);
/// Lines kept of each list of a survey: commits, changed files, the size of the changes. More would not help
/// a reader, and each line is in the log and in prompts.
pub const SURVEY_LINES_MAX: usize = 40;
/// The limit of one survey of the work tree.
pub const SURVEY_TIMEOUT: Millis = Millis::from_secs(60);
/// After this, a warning reports a commit that is not finished: a hook may hang. Longer than a wait for git's
/// lock.
pub const COMMIT_SLOW: Millis = Millis::from_secs(15);
/// The limit of one commit: the repository's hooks may run its tests.
pub const COMMIT_TIMEOUT: Millis = Millis::from_secs(600);
/// How long another process may lock a repository before ekiden gives up a commit. Git holds its locks for
/// moments; a lock that stays was left by a dead git process.
pub const GIT_LOCK_PATIENCE: Millis = Millis::from_secs(10);
/// The limit for preparing a new worktree: the setup may install what the project needs.
pub const SETUP_TIMEOUT: Millis = Millis::from_secs(1_800);
/// Characters kept of the output of git and its hooks when they refuse a commit.
pub const COMMIT_SAID_CHARS: usize = 1_000;
/// The limit of one try to show or send a notification.
pub const NOTIFY_TIMEOUT: Millis = Millis::from_secs(10);
/// The pauses before it is sent again if nobody answered.
pub const NOTIFY_PAUSES: [Millis; 3] = [
    Millis::from_secs(1),
    Millis::from_secs(3),
    Millis::from_secs(10),
];
/// How long a finished run waits for notifications that are being sent, whatever happens to them.
pub const NOTIFY_AT_END: Millis = Millis::from_secs(5);
/// Notifications that may be sent at the same time. If this many are on their way, nobody answers.
pub const NOTIFY_MAX: usize = 32;

// ── Money, tokens, time, turns ───────────────────────────────────────────────────────────────

/// The share of a budget at which ekiden orders the handoff, so that a budget ends in one.
pub const SPEND_ORDER_PERCENT: u64 = 90;
/// A session that could spend less than one part in this many of the usual cost of a session is not worth starting.
pub const SHARE_MIN_PART: u64 = 4;
/// How long a stage waits for other stages to return some of the budget before it checks by itself.
pub const SHARE_WAIT: Millis = Millis::from_secs(3600);
/// Responses that a session has for its handoff once its turns are used up: three files, a check, and
/// repairing faults.
pub const TURNS_TO_HAND_OFF: u32 = 12;
/// More turns than this in a session is a typing error.
pub const TURNS_MAX_MAX: u32 = 100_000;
/// The price of a token of fresh input, in billionths of a US dollar, for a model that never reported its
/// cost. It is above what models cost, so that a budget holds in the first session too.
pub const PRICE_UNKNOWN_NANO_USD: u64 = 15_000;
/// A price that predicts a cost to within one part in this many is kept.
pub const PRICE_TELLS_PART: u64 = 50;
/// Two observations give two prices only if their mixes differ by more than one part in this many.
pub const PRICE_MIX_PART: u128 = 5;
/// How long a session works before it gets the order to hand off, by default.
pub const SESSION_TIMEOUT_DEFAULT: Millis = Millis::from_secs(30 * 60);
/// How long a session may take to hand off once its time is up. A command may be running when the
/// order comes.
pub const TIMEOUT_GRACE: Millis = Millis::from_secs(300);
/// How long a turn may take to end once the budget is spent: the last response may be writing the handoff.
pub const SPENT_GRACE: Millis = Millis::from_secs(60);
/// How much of its window a conversation needs if it is resumed only to hand off: three files, a look at the
/// work, and repairing faults.
pub const HANDOFF_ROOM_TOKENS: u64 = 15_000;
/// Kinds of content that are listed when a window is full at the first response.
pub const FILLED_BY_MAX: usize = 8;

// ── Context ──────────────────────────────────────────────────────────────────────────────────

/// The assumed window if the agent reports none.
pub const WINDOW_TOKENS_DEFAULT: u64 = 200_000;
/// How much Claude Code keeps free for compaction.
pub const RESERVE_TOKENS_CLAUDE: u64 = 33_000;
/// The relay profile uses at most this much of a larger window: quality falls before it is full.
pub const RELAY_CAP_TOKENS: u64 = 200_000;

// ── Handoff and prompt (tokens at `BYTES_PER_TOKEN`) ─────────────────────────────────────────

/// A fixed conservative rate: real tokenizers need fewer tokens for the same text.
pub const BYTES_PER_TOKEN: usize = 3;
/// Notes of a handoff shorter than this say too little to continue from.
pub const NEXT_PROMPT_CHARS_MIN: usize = 200;
/// Longer notes are no summary any more, and the next prompt shows a part of them.
pub const NEXT_PROMPT_CHARS_MAX: usize = 10_000;
/// How much of one handoff file is read, in bytes. The archive keeps larger ones whole.
pub const HANDOFF_FILE_BYTES_MAX: usize = 256 * 1024;
/// The most faults listed in one request.
pub const FAULTS_TOLD_MAX: usize = 8;
pub const PROTOCOL_TOKENS_MAX: usize = 900;
/// Knowledge inlined in a prompt.
pub const KNOWLEDGE_TOKENS_MAX: usize = 4_000;
/// The log's share of it: it changes each time, and facts are worth more.
pub const KNOWLEDGE_LOG_TOKENS_MAX: usize = 1_000;
/// A longer fact is cut in a prompt: it would take the place of all others.
pub const FACT_TOKENS_MAX: usize = 1_000;
/// The lines of such a fact are cut too, so that some of it always stays.
pub const FACT_LINE_CHARS_MAX: usize = 500;
/// Knowledge over its budget is cut in steps, so that its bytes seldom change.
pub const KNOWLEDGE_STEP_TOKENS: usize = 1_000;
pub const MEASURED_TOKENS_MAX: usize = 600;
pub const NOTES_TOKENS_MAX: usize = 4_000;
/// What a run's first session reads from the memory.
pub const MEMORY_TOKENS_MAX: usize = 1_000;
pub const RESCUE_TOKENS_MAX: usize = 2_500;
/// Commands that succeeded, and that failed, in a rescue: the last ones.
pub const RESCUE_SUCCEEDED_MAX: usize = 8;
pub const RESCUE_FAILED_MAX: usize = 5;
/// Entries kept in the Session Log.
pub const SESSION_LOG_KEPT: usize = 5;
/// A line of foreign text longer than this is cut with a mark.
pub const QUOTED_LINE_CHARS_MAX: usize = 2_000;
/// Bytes of a verification's output that are kept in its log file.
pub const VERIFY_LOG_BYTES: usize = 256 * 1024;
/// Lines kept of a verification's output.
pub const VERIFY_TAIL_LINES: usize = 40;
/// Bytes kept of a verification's output.
pub const VERIFY_TAIL_BYTES: usize = 4_000;

// ── Stages of a plan (tokens at `BYTES_PER_TOKEN`) ───────────────────────────────────────────

/// The whole prompt of a stage's session, including the protocol: a small part of any window, so that the
/// work has the rest.
pub const STAGE_PROMPT_TOKENS_MAX: usize = 30_000;
/// The summary of the whole: two pages or so, since a stage needs to know where it belongs.
pub const STAGE_ARCHITECTURE_TOKENS_MAX: usize = 5_000;
/// The files that the plan names for a stage, together. The agent can read more of them itself.
pub const STAGE_FILES_TOKENS_MAX: usize = 20_000;
/// The results of earlier stages, together: two whole ones, and where to read the others.
pub const STAGE_RESULTS_TOKENS_MAX: usize = 3_000;
/// Stages whose results are considered for that: in a long chain, each stage would otherwise carry all
/// earlier ones.
pub const STAGE_RESULTS_MAX: usize = 50;
/// The task of a stage. It is never cut, so a larger one is a fault of its manifest.
pub const STAGE_TASK_TOKENS_MAX: usize = 2_000;
/// The checks, as a stage's prompt lists them: a few commands.
pub const STAGE_CHECK_TOKENS_MAX: usize = 400;
/// The outputs that a stage's prompt names: some thirty paths.
pub const STAGE_OUTPUTS_TOKENS_MAX: usize = 300;
/// The closing request of a stage's session: the usual one, and what done means.
pub const STAGE_CLOSING_TOKENS_MAX: usize = 1_000;
/// Context files that are named if not all of them fit; the others are counted.
pub const STAGE_FILES_NAMED_MAX: usize = 100;
/// What happened in the previous try.
pub const STAGE_RETRY_TOKENS_MAX: usize = 1_800;
/// The output of the check in it: enough for the first fault and the last lines.
pub const STAGE_RETRY_OUTPUT_TOKENS_MAX: usize = 1_350;
/// Both sides of a merge.
pub const STAGE_MERGE_TOKENS_MAX: usize = 4_000;
/// Stages that it covers; more would not be treated well.
pub const STAGE_MERGE_SIDES_MAX: usize = 4;
/// What a finished stage leaves for those that need it: half of their room for results.
pub const STAGE_RESULT_TOKENS_MAX: usize = 1_500;
/// The diagnosis of a stage that failed for good, for a person: two pages.
pub const STAGE_DIAGNOSIS_TOKENS_MAX: usize = 4_000;
/// Tries that a diagnosis describes, the last ones.
pub const STAGE_DIAGNOSIS_TRIES_MAX: usize = 8;
/// Questions that an agent may ask before a task begins: people would not answer more with care.
pub const QUESTIONS_MAX: usize = 5;
/// The length of a question and of its default, each one line.
pub const QUESTION_CHARS_MAX: usize = 300;
/// The document that is split: a session still has room to read the project and to write the manifest.
pub const PLANNING_DOCUMENT_TOKENS_MAX: usize = 60_000;
/// Faults of a manifest that are sent back at once; the others appear in the next round.
pub const PLANNING_FAULTS_MAX: usize = 30;
/// One of them, in characters.
pub const PLANNING_FAULT_CHARS_MAX: usize = 400;
pub const PLANNING_FAULTS_TOKENS_MAX: usize = 2_000;

// ── Shards ───────────────────────────────────────────────────────────────────────────────────

/// Shards of a document: nobody would approve a plan with more.
pub const SHARDS_MAX: usize = 50;
/// Pieces between which cuts are sought: the time grows with their square.
pub const SHARD_PIECES_MAX: usize = 300;
/// Every shard gets the text before all sections, unless it is longer than this and a quarter of the
/// document.
pub const SHARD_HEAD_BYTES_MAX: usize = 4_500;

// ── Watched sessions ─────────────────────────────────────────────────────────────────────────

/// A longer gap between two responses is a person's pause, not work.
pub const IDLE_GAP: Millis = Millis::from_secs(300);
/// A due checkpoint waits no longer than this for a natural boundary.
pub const BOUNDARY_WAIT: Millis = Millis::from_secs(60);
/// A due checkpoint waits for no more tool batches than this.
pub const BOUNDARY_BATCHES: u32 = 3;
/// The use in percent from which a checkpoint waits for nothing.
pub const CHECKPOINT_LATEST_PERCENT: u8 = 90;
/// From this use in percent on, ekiden judges whether the work ahead fits into the rest of the window.
pub const TRAJECTORY_FROM_PERCENT: u8 = 60;
/// If it does not fit, the handoff begins at this use in percent, instead of at L2.
pub const TRAJECTORY_EARLY_PERCENT: u8 = 70;
/// From this use in percent on, a small remainder is finished first.
pub const TRAJECTORY_LATE_PERCENT: u8 = 80;
/// If a checkpoint takes longer than this to write, its process has died.
pub const CHECKPOINT_PATIENCE: Millis = Millis::from_secs(120);
/// How long a checkpoint, and the client's compaction, wait for another one that is being written: well below the
/// hook's own limit.
pub const CHECKPOINT_WAIT: Millis = Millis::from_secs(20);
/// A document covers the session until this much more of the usable window is used, in percent.
pub const DOCUMENT_COVERS_PERCENT: u64 = 10;
/// A document can replace the conversation without a summary until this much more is used since the agent filled it
/// in, in percent of the usable window and in tokens: later work would be lost.
pub const DOCUMENT_STANDS_PERCENT: u64 = 5;
pub const DOCUMENT_STANDS_TOKENS: u64 = 10_000;
/// Files that a session's state for other programs names.
pub const STATE_FILES_MAX: usize = 100;
/// A session that stops with more than this use in percent, without a handoff, is asked for one.
pub const STOP_REMINDER_PERCENT: u64 = 50;
/// If the use falls below this share of the last reported one, in percent, the context was compacted.
pub const REARM_PERCENT: u64 = 80;

// ── Handoff documents of watched sessions ────────────────────────────────────────────────────

/// A handoff document in characters, as clients count them (UTF-16): what a session can take in at its start and still
/// have room. A client cuts a hook's text above 10,000 to a preview.
pub const DOCUMENT_CHARS_MAX: usize = 9_000;
/// An older document is named at a session's start, not shown.
pub const DOCUMENT_SHOWN_FOR: Millis = Millis::from_secs(7 * 24 * 60 * 60);
/// The size of a document when ekiden makes it: what a whole one may have beyond this is left for the agent's text.
pub const DOCUMENT_MADE_TOKENS_MAX: usize = 2_200;
/// Larger new files stay out of a commit of work in progress: each version would be kept.
pub const WIP_FILE_BYTES_MAX: u64 = 20 * 1024 * 1024;
/// Files of a tree that the record of a checkpoint names.
pub const CHECKPOINT_FILES_MAX: usize = 2_000;
/// How much of an instructions file is read, in bytes.
pub const INSTRUCTIONS_BYTES_MAX: u64 = 128 * 1024;

// ── Manifests ────────────────────────────────────────────────────────────────────────────────

/// A manifest file, in bytes: room for 10,000 stages with long prompts.
pub const MANIFEST_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Values in a manifest file. A small file can hold very many, and each takes more memory than text.
pub const MANIFEST_NODES_MAX: usize = 4_000_000;
/// Values inside values. Our own format needs five.
pub const MANIFEST_DEPTH_MAX: usize = 32;
/// Values that the aliases of a YAML file may stand for: a few lines can stand for billions.
pub const MANIFEST_ALIASED_MAX: usize = 10_000;
/// Stages of a manifest. Nobody reads a longer plan.
pub const STAGES_MAX: usize = 100_000;
/// Faults of a manifest that are reported at once; the rest appear when these are fixed.
pub const MANIFEST_FAULTS_TOLD_MAX: usize = 50;
/// Faults that are kept for sorting; beyond these they are only counted.
pub const MANIFEST_FAULTS_KEPT_MAX: usize = 1_000;
/// Names that are compared for "did you mean", over a whole manifest: about 0.1 s.
pub const NEAREST_COMPARISONS_MAX: usize = 100_000;
/// Outputs that are compared with globs, over a whole manifest: about a second at most.
pub const OVERLAP_COMPARISONS_MAX: usize = 2_000_000;
/// Stages at the same time. More agents than this on one machine is a typing error.
pub const JOBS_MAX: u32 = 64;
/// Stages at the same time, by default: as many as one subscription and one machine can bear.
pub const JOBS_DEFAULT: u32 = 3;
/// Tries of a failed stage after the first, unless the manifest says otherwise.
pub const RETRIES_DEFAULT: u32 = 2;
/// Responses in one session of a stage, unless the manifest says otherwise.
pub const STAGE_TURNS_DEFAULT: u32 = 50;
/// The context at which a session of a stage hands off, unless the manifest says otherwise: well below any window.
pub const STAGE_SESSION_TOKENS_DEFAULT: u64 = 80_000;
/// Tries of a failed stage after the first: a stage that fails ten times fails for a reason.
pub const RETRIES_MAX: u32 = 10;
/// A command in a manifest, in bytes. A longer one is a script and belongs in a file.
pub const COMMAND_BYTES_MAX: usize = 16 * 1024;
/// A path or glob in a manifest, in bytes.
pub const PATH_BYTES_MAX: usize = 1_024;
/// The largest limit for one session of a stage, in dollars: more is a typing error.
pub const STAGE_DOLLARS_MAX: u32 = 100_000;
/// Stages named in a cycle; for a longer one, its beginning and end are named.
pub const CYCLE_TOLD_MAX: usize = 12;

// ── Memory ───────────────────────────────────────────────────────────────────────────────────

/// The title of an observation: a line of an index, which should cost 50 to 100 tokens.
pub const OBSERVATION_TITLE_CHARS_MAX: usize = 160;
/// The text of an observation: about 1,000 tokens in detail.
pub const OBSERVATION_TEXT_CHARS_MAX: usize = 3_000;
pub const OBSERVATION_FILES_MAX: usize = 20;

/// How many tokens each text for an agent may have. Tests hold the texts to it.
#[cfg(test)]
pub mod texts {
    pub const CLOSING_TOKENS_MAX: usize = 650;
    /// The handoff order: it interrupts work, so it is short.
    pub const ORDER_TOKENS_MAX: usize = 180;
    /// The reason of a refused call.
    pub const REFUSAL_TOKENS_MAX: usize = 80;
    /// A skill that a person or the agent calls: read only when it is called.
    pub const SKILL_TOKENS_MAX: usize = 400;
    /// The message that asks a session to continue, and the one after a resumption.
    pub const MESSAGE_TOKENS_MAX: usize = 100;
    /// The request to repair a handoff, without its faults.
    pub const ASK_AGAIN_TOKENS_MAX: usize = 60;
    pub const FAULT_TOKENS_MAX: usize = 40;
    /// The wording of a planning text, without the idea or the document.
    pub const PLANNING_TOKENS_MAX: usize = 900;
    /// An alert to the agent of a watched session: two or three sentences, read many times over.
    pub const ALERT_TOKENS_MAX: usize = 120;
    /// A handoff document: what a session can take in at its start and still have room.
    pub const DOCUMENT_TOKENS_MAX: usize = 3_000;
}
