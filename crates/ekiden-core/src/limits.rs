//! Every limit that ekiden works within, in one place, each with the reason for its size.
//!
//! Where a user may change a limit, it is a setting, and its default is here too.

use crate::time::Millis;

// ── Relay ────────────────────────────────────────────────────────────────────────────────────

/// Sessions of a relay unless the user says otherwise.
pub const SESSIONS_MAX_DEFAULT: u32 = 10;
/// More sessions than this in one go is a typing error, not a plan.
pub const SESSIONS_MAX_MAX: u32 = 10_000;
/// Attempts at one session: after three the session is given up and rescued.
pub const ATTEMPTS_MAX: u32 = 3;
/// How often a reviewer's findings go to another session. After that a person is asked.
pub const REVIEW_ROUNDS_MAX: u32 = 2;
/// The most of a reviewer's answer that is kept, in characters.
pub const REVIEW_ANSWER_CHARS_MAX: usize = 24_000;
/// Faults of one review that are passed on.
pub const FINDINGS_MAX: usize = 10;
/// The most of a diff that is kept for a reviewer, in bytes.
pub const REVIEW_DIFF_BYTES_MAX: usize = 64 * 1024;
/// The room of a diff in a reviewer's prompt, in tokens; the rest it can read.
pub const REVIEW_DIFF_TOKENS_MAX: usize = 12_000;
/// The room of findings in a session's prompt, in tokens.
pub const FINDINGS_TOKENS_MAX: usize = 2_500;
/// Sessions in a row that ended in a crash: then the cause is not chance.
pub const CRASHES_IN_A_ROW_MAX: u32 = 3;
/// Notes of which more than this is the same as before say nothing new.
pub const ALIKE_PERCENT: u8 = 85;
/// Handoffs in a row that repeat while nothing moves: the next would be the same again.
pub const REPEATS_MAX: u32 = 3;
/// Sessions in a row that left no valid handoff and moved nothing end a run: a third would do the same.
pub const RESCUES_IDLE_MAX: u32 = 2;
/// Sessions in a row without progress unless the user says otherwise: two can be bad luck.
pub const STALL_SESSIONS_DEFAULT: u32 = 3;
/// How often a session whose turn ended early is asked to continue.
pub const GO_ON_MAX: u32 = 2;
/// A session is asked for its handoff at most this often by a message.
pub const ASKS_MAX: u32 = 2;
/// A Stop callback holds the agent at most this often (the client overrides after eight).
pub const STOP_BLOCKS_MAX: u32 = 3;
/// Calls refused at L3 before the turn is interrupted.
pub const REFUSALS_MAX: u32 = 3;
/// Items after which an agent that cannot get messages in mid-turn hands off.
pub const ITEMS_A_SESSION: u32 = 3;
/// Sessions that work on one item of a list before it is set aside.
pub const ITEM_TRIES_MAX: u32 = 3;
/// Items that agents may add to a list: a list that grows faster than it is worked through never ends.
pub const ITEMS_ADDED_MAX: usize = 100;
/// The pause between two attempts after a crash; doubled for each crash in a row.
pub const CRASH_BACKOFF: Millis = Millis::from_secs(2);
/// A session without a handoff that is over sooner, without a call or a token, did not work at all.
pub const EMPTY_SESSION_MAX: Millis = Millis::from_secs(10);
/// The longest pause after a crash.
pub const CRASH_BACKOFF_MAX: Millis = Millis::from_secs(300);

// ── Waiting ──────────────────────────────────────────────────────────────────────────────────

/// Added to a limit's reset time, since clocks differ.
pub const RESET_BUFFER: Millis = Millis::from_secs(30);
/// A reset that another run noted is believed no further ahead: no limit of an account is longer.
pub const LIMIT_AHEAD_MAX: Millis = Millis::from_secs(7 * 24 * 3600);
/// The wait where a limit names no reset time.
pub const RESET_UNKNOWN: Millis = Millis::from_secs(300);
/// The longest wait for a limit unless the user says otherwise.
pub const WAIT_MAX_DEFAULT: Millis = Millis::from_secs(6 * 3600);
/// How long a session may take to hand off after the first Ctrl-C.
pub const STOP_GRACE: Millis = Millis::from_secs(120);
/// How long `ekiden stop` waits for the end: the grace to hand off, and a verification of the usual
/// length after it.
pub const STOP_PATIENCE: Millis = Millis::from_secs(300);
/// How long `ekiden pause` waits for the engine's answer.
pub const STEER_PATIENCE: Millis = Millis::from_secs(10);
/// The same with `--wait 0s`: a refusal is told even to those who do not wait.
pub const STEER_PATIENCE_MIN: Millis = Millis(500);
/// How long a child may take to go after its standard input was closed.
pub const CLOSE_GRACE: Millis = Millis::from_secs(10);
/// How long a child may take to go after SIGTERM, before SIGKILL. RUN-10 promises that all is
/// over within 5 s.
pub const KILL_GRACE: Millis = Millis::from_secs(3);
/// How long an agent may write nothing. A client takes 300 s to notice that a stream is dead, and a
/// command of it may run for ten minutes.
pub const SILENCE_MAX: Millis = Millis::from_secs(25 * 60);
/// How long a message may wait for its turn to begin once no turn is running. A client begins it at once.
pub const UNHEARD_MAX: Millis = Millis::from_secs(60);
/// How long a guided relay counts down before it begins the next session: time to read a handoff's first
/// line and to press enter.
pub const GUIDED_COUNTDOWN: Millis = Millis::from_secs(10);
/// Characters of what an operator adds for one session. More belongs into the task.
pub const OPERATOR_CHARS_MAX: usize = 4_000;
/// The default limit of one verification.
pub const VERIFY_TIMEOUT_DEFAULT: Millis = Millis::from_secs(120);
/// Lines kept of each list of a survey: commits, changed files, the size of the changes. More says no
/// more to a reader, and each line stands in the log and in prompts.
pub const SURVEY_LINES_MAX: usize = 40;
/// The limit of one survey of the work tree.
pub const SURVEY_TIMEOUT: Millis = Millis::from_secs(60);
/// After this a warning tells of a commit that is not done: a hook may hang. More than a wait for git's lock.
pub const COMMIT_SLOW: Millis = Millis::from_secs(15);
/// The limit of one commit: the repository's hooks may run its tests.
pub const COMMIT_TIMEOUT: Millis = Millis::from_secs(600);
/// How long a repository may be locked by another process before a commit is given up. Git holds its
/// locks for moments; a lock that stays was left by a git that died.
pub const GIT_LOCK_PATIENCE: Millis = Millis::from_secs(10);
/// The limit of making a new worktree ready: it may install what the project needs.
pub const SETUP_TIMEOUT: Millis = Millis::from_secs(1_800);
/// Lines kept of what git and its hooks say of a commit that they refuse.
pub const COMMIT_TAIL_LINES: usize = 10;
/// Characters kept of it.
pub const COMMIT_TAIL_CHARS: usize = 1_000;
/// The limit of one try to show or send a notification.
pub const NOTIFY_TIMEOUT: Millis = Millis::from_secs(10);
/// The pauses before it is sent again where nobody answered.
pub const NOTIFY_PAUSES: [Millis; 3] = [
    Millis::from_secs(1),
    Millis::from_secs(3),
    Millis::from_secs(10),
];
/// How long a run that is over waits for notifications on their way, whatever becomes of them.
pub const NOTIFY_AT_END: Millis = Millis::from_secs(5);
/// Notifications on their way at the same time. Where so many are, nobody answers.
pub const NOTIFY_MAX: usize = 32;

// ── Money, tokens, time, turns ───────────────────────────────────────────────────────────────

/// The share of a budget at which the handoff is ordered, so that a budget ends in one.
pub const SPEND_ORDER_PERCENT: u64 = 90;
/// A session that could spend less than this part of what sessions cost would hardly begin: it is
/// not started.
pub const SHARE_MIN_PART: u64 = 4;
/// How long a stage waits for other stages to give back some of the budget, before it looks by itself.
pub const SHARE_WAIT: Millis = Millis::from_secs(3600);
/// Responses that a session has for its handoff once its turns are used up: three files, a check, and
/// the mending of faults.
pub const TURNS_TO_HAND_OFF: u32 = 12;
/// More turns than this in a session is a typing error.
pub const TURNS_MAX_MAX: u32 = 100_000;
/// The price of a fresh token, in billionths of a US dollar, of a model that never told its cost. Above
/// what models cost, so that a budget holds in the first session too.
pub const PRICE_UNKNOWN_NANO_USD: u64 = 15_000;
/// A price that tells a cost to within this part is kept.
pub const PRICE_TELLS_PART: u64 = 50;
/// Two observations tell two prices only if their mixes differ by more than this part.
pub const PRICE_MIX_PART: u128 = 5;
/// How long a session works before it is ordered to hand off, unless the user says otherwise.
pub const SESSION_TIMEOUT_DEFAULT: Millis = Millis::from_secs(30 * 60);
/// How long a session may take to hand off once its time is up. A command may be running when the
/// order comes.
pub const TIMEOUT_GRACE: Millis = Millis::from_secs(300);
/// How long a turn may take to end once the budget is spent.
pub const SPENT_GRACE: Millis = Millis::from_secs(10);
/// What a conversation that is resumed only to hand off needs of its window: three files, a look at the
/// work, and the mending of faults.
pub const HANDOFF_ROOM_TOKENS: u64 = 15_000;
/// Kinds of content told when a window is full at the first response.
pub const FILLED_BY_MAX: usize = 8;

// ── Context ──────────────────────────────────────────────────────────────────────────────────

/// The window assumed where the agent tells none.
pub const WINDOW_TOKENS_DEFAULT: u64 = 200_000;
/// What Claude Code keeps free for compaction.
pub const RESERVE_TOKENS_CLAUDE: u64 = 33_000;
/// The relay profile uses at most this much of a larger window: quality falls before it is full.
pub const RELAY_CAP_TOKENS: u64 = 200_000;

// ── Handoff and prompt (tokens at `BYTES_PER_TOKEN`) ─────────────────────────────────────────

/// A fixed conservative rate: real tokenizers need fewer tokens for the same text.
pub const BYTES_PER_TOKEN: usize = 3;
/// The notes of a handoff below this say too little to continue from.
pub const NEXT_PROMPT_CHARS_MIN: usize = 200;
/// Above this the notes are no summary any more; cut at line ends.
pub const NEXT_PROMPT_CHARS_MAX: usize = 10_000;
/// The most that is read of one handoff file, in bytes. Larger ones are kept whole in the archive.
pub const HANDOFF_FILE_BYTES_MAX: usize = 256 * 1024;
/// The most faults told in one request.
pub const FAULTS_TOLD_MAX: usize = 8;
pub const PROTOCOL_TOKENS_MAX: usize = 900;
/// Knowledge inlined in a prompt.
pub const KNOWLEDGE_TOKENS_MAX: usize = 4_000;
/// The log's share of it: it changes each time, and facts are worth more.
pub const KNOWLEDGE_LOG_TOKENS_MAX: usize = 1_000;
/// Knowledge over its budget is cut in steps, so that its bytes change seldom.
pub const KNOWLEDGE_STEP_TOKENS: usize = 1_000;
pub const MEASURED_TOKENS_MAX: usize = 600;
pub const NOTES_TOKENS_MAX: usize = 4_000;
/// What a run's first session reads of the memory.
pub const MEMORY_TOKENS_MAX: usize = 1_000;
pub const CLOSING_TOKENS_MAX: usize = 540;
pub const RESCUE_TOKENS_MAX: usize = 2_500;
/// The handoff order: it interrupts work, so it is short.
pub const ORDER_TOKENS_MAX: usize = 180;
/// The reason of a refused call.
pub const REFUSAL_TOKENS_MAX: usize = 80;
/// A skill that a person or the agent calls: read only when it is called.
pub const SKILL_TOKENS_MAX: usize = 400;
/// The message that asks a session to continue, and the one after a resumption.
pub const MESSAGE_TOKENS_MAX: usize = 100;
/// The request to mend a handoff, without its faults.
pub const ASK_AGAIN_TOKENS_MAX: usize = 60;
pub const FAULT_TOKENS_MAX: usize = 40;
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

/// The whole prompt of a stage's session, the protocol included: a small part of any window, so that
/// the work itself has the rest.
pub const STAGE_PROMPT_TOKENS_MAX: usize = 30_000;
/// The summary of the whole: two pages or so, since a stage needs to know where it belongs.
pub const STAGE_ARCHITECTURE_TOKENS_MAX: usize = 5_000;
/// The files that the plan names for a stage, together. The agent can read more of them itself.
pub const STAGE_FILES_TOKENS_MAX: usize = 20_000;
/// The results of earlier stages, together: two whole ones, and where to read the others.
pub const STAGE_RESULTS_TOKENS_MAX: usize = 3_000;
/// Stages whose results are looked at for that: in a long chain each would else carry all before it.
pub const STAGE_RESULTS_MAX: usize = 50;
/// The task of a stage. It is never cut, so a larger one is a fault of its manifest.
pub const STAGE_TASK_TOKENS_MAX: usize = 2_000;
/// What is checked, as a stage's prompt tells it: a few commands.
pub const STAGE_CHECK_TOKENS_MAX: usize = 400;
/// The outputs that a stage's prompt names: some thirty paths.
pub const STAGE_OUTPUTS_TOKENS_MAX: usize = 300;
/// The closing request of a stage's session: the usual one, and what done means.
pub const STAGE_CLOSING_TOKENS_MAX: usize = 1_000;
/// Context files that are named where not all of them fit; the others are counted.
pub const STAGE_FILES_NAMED_MAX: usize = 100;
/// What happened in the try before.
pub const STAGE_RETRY_TOKENS_MAX: usize = 1_800;
/// The output of the check in it: enough for the first fault and the last lines.
pub const STAGE_RETRY_OUTPUT_TOKENS_MAX: usize = 1_350;
/// Both sides of a merge.
pub const STAGE_MERGE_TOKENS_MAX: usize = 4_000;
/// Stages that it covers; more would not be treated well.
pub const STAGE_MERGE_SIDES_MAX: usize = 4;
/// What a finished stage leaves for those that need it: half of what they have for results.
pub const STAGE_RESULT_TOKENS_MAX: usize = 1_500;
/// What is written about a stage that failed for good, for a person: two pages.
pub const STAGE_DIAGNOSIS_TOKENS_MAX: usize = 4_000;
/// Tries that a diagnosis tells of, the last ones.
pub const STAGE_DIAGNOSIS_TRIES_MAX: usize = 8;
/// What an agent may ask before a task is begun: more would not be answered with care.
pub const QUESTIONS_MAX: usize = 5;
/// Its questions and their defaults are lines.
pub const QUESTION_CHARS_MAX: usize = 300;
/// The wording of a planning text, without the idea or the document.
pub const PLANNING_TOKENS_MAX: usize = 900;
/// The document that is split: a session still has room to read the project and to write the manifest.
pub const PLANNING_DOCUMENT_TOKENS_MAX: usize = 60_000;
/// The faults of a manifest that are sent back at once; the others show in the next round.
pub const PLANNING_FAULTS_MAX: usize = 30;
/// One of them, in characters.
pub const PLANNING_FAULT_CHARS_MAX: usize = 400;
pub const PLANNING_FAULTS_TOKENS_MAX: usize = 2_000;

// ── Shards ───────────────────────────────────────────────────────────────────────────────────

/// Shards of a document: more would be no plan that a person approves.
pub const SHARDS_MAX: usize = 50;
/// Pieces among which cuts are looked for: the time grows with their square.
pub const SHARD_PIECES_MAX: usize = 300;
/// What stands before all sections is told to every shard, unless it is longer and a quarter of the document.
pub const SHARD_HEAD_BYTES_MAX: usize = 4_500;

// ── Watched sessions ─────────────────────────────────────────────────────────────────────────

/// A longer gap between two responses is a person's pause and no work.
pub const IDLE_GAP: Millis = Millis::from_secs(300);
/// A due checkpoint waits no longer than this for a natural boundary.
pub const BOUNDARY_WAIT: Millis = Millis::from_secs(60);
/// A due checkpoint waits for no more tool batches than this.
pub const BOUNDARY_BATCHES: u32 = 3;
/// The use in percent at which a checkpoint waits for nothing any more.
pub const CHECKPOINT_LATEST_PERCENT: u8 = 90;
/// Where more lies ahead than remains, the handoff is decided from this use in percent on ...
pub const TRAJECTORY_FROM_PERCENT: u8 = 60;
/// ... and begins at this one, instead of at L2.
pub const TRAJECTORY_EARLY_PERCENT: u8 = 70;
/// From this use in percent on a small remainder is finished first.
pub const TRAJECTORY_LATE_PERCENT: u8 = 80;
/// A checkpoint that is written for longer has died with its process.
pub const CHECKPOINT_PATIENCE: Millis = Millis::from_secs(120);
/// How long a checkpoint is waited for before the client summarises: well below the hook's own limit.
pub const CHECKPOINT_WAIT: Millis = Millis::from_secs(20);
/// A document covers the session until so much more of the usable window is used, in percent.
pub const DOCUMENT_COVERS_PERCENT: u64 = 10;
/// It stands in the conversation's place without a summary until so much more is used since the agent filled it in, in
/// percent of the usable window and in tokens: whatever came later is lost.
pub const DOCUMENT_STANDS_PERCENT: u64 = 5;
pub const DOCUMENT_STANDS_TOKENS: u64 = 10_000;
/// Files that a session's state for other programs names.
pub const STATE_FILES_MAX: usize = 100;
/// A session that stops with more than this use in percent, without a handoff, is asked for one.
pub const STOP_REMINDER_PERCENT: u64 = 50;
/// Usage that fell below this share, in percent, of the last reported one was compacted.
pub const REARM_PERCENT: u64 = 80;

// ── Handoff documents of watched sessions ────────────────────────────────────────────────────

/// A handoff document: what a session can take in at its start and still have room.
pub const DOCUMENT_TOKENS_MAX: usize = 3_000;
/// The same in characters, as clients count them (UTF-16). A client cuts a hook's text above 10,000 to
/// a preview.
pub const DOCUMENT_CHARS_MAX: usize = 9_000;
/// An older document is named at a session's start, not shown.
pub const DOCUMENT_SHOWN_FOR: Millis = Millis::from_secs(7 * 24 * 60 * 60);
/// A document when it is made: the rest is left to what the agent fills in.
pub const DOCUMENT_MADE_TOKENS_MAX: usize = 2_200;
/// New files above this stay out of a commit of work in progress: each version would be kept.
pub const WIP_FILE_BYTES_MAX: u64 = 20 * 1024 * 1024;
/// Files of a tree that a checkpoint compares.
pub const CHECKPOINT_FILES_MAX: usize = 2_000;
/// What is read of a file of standing instructions, in bytes.
pub const INSTRUCTIONS_BYTES_MAX: u64 = 128 * 1024;
/// An alert to the agent of a watched session: two or three sentences, read many times over.
pub const ALERT_TOKENS_MAX: usize = 120;

// ── Manifests ────────────────────────────────────────────────────────────────────────────────

/// A manifest file, in bytes: room for 10,000 stages with long prompts.
pub const MANIFEST_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Values in a manifest file. A small file can hold very many, and each takes more memory than text.
pub const MANIFEST_NODES_MAX: usize = 4_000_000;
/// Values inside values. Our own format needs five.
pub const MANIFEST_DEPTH_MAX: usize = 32;
/// Values that the aliases of a YAML file may stand for: a few lines can stand for billions.
pub const MANIFEST_ALIASED_MAX: usize = 10_000;
/// Stages of a manifest. Nobody reads a plan of more.
pub const STAGES_MAX: usize = 100_000;
/// Faults of a manifest that are reported at once; the rest appear when these are mended.
pub const MANIFEST_FAULTS_TOLD_MAX: usize = 50;
/// Faults that are kept to be put in order; beyond these they are only counted.
pub const MANIFEST_FAULTS_KEPT_MAX: usize = 1_000;
/// Names that are compared to find the one that was meant, over all of a manifest: about 0.1 s.
pub const NEAREST_COMPARISONS_MAX: usize = 100_000;
/// Outputs that are compared with globs, over all of a manifest: about a second at most.
pub const OVERLAP_COMPARISONS_MAX: usize = 2_000_000;
/// Stages at the same time. More agents than this on one machine is a typing error.
pub const JOBS_MAX: u32 = 64;
/// Stages at the same time unless somebody says otherwise: what one subscription and one machine bear.
pub const JOBS_DEFAULT: u32 = 3;
/// Tries of a failed stage after the first, unless the manifest says otherwise.
pub const RETRIES_DEFAULT: u32 = 2;
/// Responses in one session of a stage, unless the manifest says otherwise.
pub const STAGE_TURNS_DEFAULT: u32 = 50;
/// Tokens of one session of a stage, unless the manifest says otherwise: well below any window.
pub const STAGE_SESSION_TOKENS_DEFAULT: u64 = 80_000;
/// Tries of a failed stage after the first: what fails ten times fails for a reason.
pub const RETRIES_MAX: u32 = 10;
/// A command in a manifest, in bytes. What is longer is a script and belongs into a file.
pub const COMMAND_BYTES_MAX: usize = 16 * 1024;
/// A path or glob in a manifest, in bytes.
pub const PATH_BYTES_MAX: usize = 1_024;
/// What one session of a stage may be allowed to spend, in dollars: more is a typing error.
pub const STAGE_DOLLARS_MAX: u32 = 100_000;
/// Stages named in a cycle; of a longer one the beginning and the end are.
pub const CYCLE_TOLD_MAX: usize = 12;

// ── Memory ───────────────────────────────────────────────────────────────────────────────────

/// The title of an observation: a line of an index, which shall cost 50 to 100 tokens.
pub const OBSERVATION_TITLE_CHARS_MAX: usize = 160;
/// The text of an observation: about 1,000 tokens in detail.
pub const OBSERVATION_TEXT_CHARS_MAX: usize = 3_000;
pub const OBSERVATION_FILES_MAX: usize = 20;
