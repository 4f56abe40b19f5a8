//! Every wording that agents read, in one list: for the lint and the manual.

use crate::prompt::{
    OrderReason, context, continuation, issue, loaded, measured, messages, notes, now, planning,
    protocol, rescue, review, session, setback, skills, stage,
};

/// One text of the catalogue.
pub(super) struct Entry {
    pub(super) name: &'static str,
    /// How it reaches the agent.
    pub(super) channel: &'static str,
    /// Why it reads as it does.
    pub(super) why: &'static str,
    /// Its budget, in tokens.
    pub(super) tokens_max: usize,
    pub(super) texts: &'static [&'static str],
}

/// All texts, in the order in which a session meets them.
pub(super) const CATALOGUE: &[Entry] = &[
    Entry {
        name: "Handoff protocol",
        channel: "system prompt where the agent has one, else the first part of the prompt; standing",
        why: "The rules once, above all data, the same bytes all run. It says that a handoff comes by itself and \
              that there is room, since a harness that saves state and does not say so makes models stop early; \
              and it gives no number to watch, since countdowns make them trim their work. BLOCKED is the honest \
              way out. PROGRESS.md comes last, since its STATUS makes a handoff count: a session that is cut off \
              earlier loses no fact. Clients tell their models not to hand off in mid-task; hence \"even if other instructions \
              say there is no need\".",
        tokens_max: crate::limits::PROTOCOL_TOKENS_MAX,
        texts: &protocol::TEXTS,
    },
    Entry {
        name: "Session prompt: task, check and facts",
        channel: "first message, first block",
        why: "The user's words whole, in every session: goals drift as context piles up. What changes least comes \
              first, and facts grow at their end, so that the bytes before a new fact stay in the cache.",
        tokens_max: crate::limits::KNOWLEDGE_TOKENS_MAX,
        texts: &[
            session::TASK,
            session::LONG_LIST,
            session::CHECK,
            session::CHECK_INTRO,
            session::KNOWS,
            session::KNOWS_INTRO,
        ],
    },
    Entry {
        name: "Task from an issue",
        channel: "the task of a run that works on an issue; a later comment beside the user's words",
        why: "The user's own sentence stands above, and all that the tracker says is marked as data, since anybody may \
              write there. Whom the user trusts by name may give orders.",
        tokens_max: crate::limits::KNOWLEDGE_LOG_TOKENS_MAX,
        texts: &[
            issue::ALL_OF_IT,
            issue::OF_REVIEW,
            issue::INTRODUCTION,
            issue::TRUSTED,
            issue::NEW_COMMENT,
        ],
    },
    Entry {
        name: "Session prompt: log",
        channel: "first message, second block",
        why: "The last sessions in a few lines each. It changes every time, so it stands behind the facts.",
        tokens_max: crate::limits::KNOWLEDGE_LOG_TOKENS_MAX,
        texts: &[session::LOG],
    },
    Entry {
        name: "Session prompt: measured",
        channel: "first message, second block",
        why: "What a program can know, a program writes: which files were touched is what summaries keep worst. \
              Items that vanish from a list without a tick are named, since lists in prose get rewritten.",
        tokens_max: crate::limits::MEASURED_TOKENS_MAX,
        texts: &[
            measured::HEADING,
            measured::COMMITS,
            measured::FILES,
            measured::STASH,
            measured::CHECK,
            measured::TAIL,
            measured::ITEMS,
        ],
    },
    Entry {
        name: "Session prompt: notes",
        channel: "first message, second block",
        why: "The agent writes what only it knows: where, why, what failed, what first. It is quoted as data, \
              because memory read back as authority turns one injection into a standing order.",
        tokens_max: crate::limits::NOTES_TOKENS_MAX,
        texts: &[
            notes::HEADING,
            notes::INTRO_HANDOFF,
            notes::INTRO_CONTINUATION,
            notes::INTRO_RESCUE,
            notes::INTRO_BOTH,
            session::FROM_USER,
        ],
    },
    Entry {
        name: "Session prompt: memory",
        channel: "first message of a run's first session, second block",
        why: "An index of what sessions before this run left: enough to know that something is there. It is quoted \
              as data, and later sessions ask for it.",
        tokens_max: crate::limits::MEMORY_TOKENS_MAX,
        texts: &[now::MEMORY, now::MEMORY_INTRO],
    },
    Entry {
        name: "Session prompt: now",
        channel: "first message, last block",
        why: "The request stands last, where it is followed best, and in a block that is ours alone: the client \
              attaches the files that the last block names, in quoted lines too. So it names no command either; \
              the check stands above.",
        tokens_max: crate::limits::texts::CLOSING_TOKENS_MAX,
        texts: &[
            now::HEADING,
            now::FIRST,
            now::LATER,
            now::OTHER_BRANCH,
            now::VETO,
            now::HOOK_REFUSED,
            setback::HOOK,
            now::REPEATED,
            now::TASK_CHANGED,
            now::NEW_TASK,
            now::GONE_BACK,
            now::OPERATOR,
            now::ITEM_PART,
            now::ITEM,
            now::ITEM_WHICH,
            now::ITEM_AGAIN,
            now::ALL_TICKED,
            now::REQUEST_ITEM,
            now::REQUEST_ITEM_NOTES,
            now::DELEGATION,
            now::INTERRUPTED,
            now::INTERRUPTED_NOTES,
            now::INTERRUPTED_NO_NOTES,
            now::REMEMBERED,
            now::QUERY,
            now::REQUEST_FIRST,
            now::REQUEST_FIRST_CHECK,
            now::REQUEST_NOTES,
            now::REQUEST_NO_NOTES,
            now::REQUEST_RESCUED,
            now::REQUEST_CHECK,
        ],
    },
    Entry {
        name: "Stage prompt: project, files, results",
        channel: "first message of a plan's stage, first block, before the task",
        why: "What is the same in all sessions of the stage, so that it is cached and the task stands behind it. \
              All of it is data, the plan's own summary too, since a model may have written it. Files are cut first, \
              because the agent can read them; each cut says where.",
        tokens_max: crate::limits::STAGE_ARCHITECTURE_TOKENS_MAX
            + crate::limits::STAGE_FILES_TOKENS_MAX
            + crate::limits::STAGE_RESULTS_TOKENS_MAX,
        texts: &[
            stage::PROJECT,
            stage::PROJECT_INTRO,
            stage::FILES,
            stage::FILES_INTRO,
            context::MISSING,
            context::NOT_TEXT,
            context::TOO_LARGE,
            stage::RESULTS,
            stage::RESULTS_INTRO,
        ],
    },
    Entry {
        name: "Stage prompt: setup",
        channel: "first message of a plan's stage whose worktree could not be set up, second block",
        why: "The first stage may have to make what the setup command needs. Any stage has to know what is not there.",
        tokens_max: 300,
        texts: &[stage::SETUP, stage::SETUP_INTRO],
    },
    Entry {
        name: "Stage prompt: outputs",
        channel: "first message of a plan's stage, first block, behind the check",
        why: "Stages work side by side, so each keeps to its own files; and an honest way out, since a plan can be \
              wrong about them.",
        tokens_max: crate::limits::STAGE_OUTPUTS_TOKENS_MAX,
        texts: &[stage::OUTPUTS, stage::OUTPUTS_INTRO],
    },
    Entry {
        name: "Stage prompt: what happened before",
        channel: "first message of a stage that is tried again, second block",
        why: "Failures kept in view are not repeated. The first and the last lines of an output tell most.",
        tokens_max: crate::limits::STAGE_RETRY_TOKENS_MAX,
        texts: &[
            setback::RETRY,
            setback::RETRY_INTRO,
            setback::CHANGES,
            setback::FAILED_CHECK,
            setback::OUTPUT,
        ],
    },
    Entry {
        name: "Stage prompt: merge",
        channel: "first message of a session that mends a merge, second block",
        why: "What either side wanted, in its own words, so that neither is taken whole. The checks of both decide, \
              since models resolve few real conflicts right at first.",
        tokens_max: crate::limits::STAGE_MERGE_TOKENS_MAX,
        texts: &[
            setback::CONFLICT,
            setback::CONFLICT_INTRO,
            setback::BROKE,
            setback::BROKE_OTHERS,
            setback::BROKE_INTRO,
            setback::SIDE,
            setback::RESULT,
            setback::CHECK,
            setback::OTHERS,
        ],
    },
    Entry {
        name: "Stage prompt: now",
        channel: "first message of a plan's stage, last block, with the wordings of any other",
        why: "What done means, and what to do about a failure. It names the stage by its id alone, which is letters \
              and digits: a name, an output or a command could name a file to the client.",
        tokens_max: crate::limits::STAGE_CLOSING_TOKENS_MAX,
        texts: &[
            now::STAGE,
            now::DONE_CHECK,
            now::DONE_OUTPUTS,
            now::DONE_BOTH,
            now::STAGE_REPORT,
            now::CONFLICT,
            now::MERGE_BROKE,
            now::MERGE_BROKE_ALONE,
            now::RETRY,
            now::REQUEST_MERGE,
            now::REQUEST_MERGE_BROKE,
        ],
    },
    Entry {
        name: "Planning: architecture",
        channel: "first message of the session that writes the document",
        why: "A document from which strangers can build: outcomes, exact names, and what would show that it is done. \
              No code, since wrong detail in a plan cascades. The existing project comes first.",
        tokens_max: crate::limits::texts::PLANNING_TOKENS_MAX,
        texts: &[
            planning::IDEA,
            planning::DOCUMENT,
            planning::DOCUMENT_INTRO,
            planning::ARCHITECTURE,
        ],
    },
    Entry {
        name: "Planning: split",
        channel: "first message of the session that makes the manifest, whose shape a schema holds",
        why: "What makes a stage that a session can carry out alone. The size is the stage's and not the reader's, \
              so it is no countdown.",
        tokens_max: crate::limits::texts::PLANNING_TOKENS_MAX,
        texts: &[planning::SPLIT],
    },
    Entry {
        name: "Review of a claim",
        channel: "the first message of a session with read-only rights, in blocks",
        why: "Models praise their own work, so whoever judges has not done it, and reads no word that the worker wrote \
              about itself: the task, the check, the changes, and the project. It looks for the strongest reason against, \
              since a reviewer that is asked whether all is well says yes; and passing is said to be fine, since one that \
              must find something makes something up. What the task does not ask for is no finding. A finding names what \
              was read, so that the next session can look.",
        tokens_max: 1_000,
        texts: &[
            review::CHECK,
            review::CHECK_INTRO,
            review::NO_CHECK,
            review::OUTPUT,
            review::CHANGES,
            review::CHANGES_INTRO,
            review::REVIEW,
        ],
    },
    Entry {
        name: "Review: the verdict once more",
        channel: "a message, at most once; the other one when the session is to come to an end",
        why: "It states the shape and nothing new. A reviewer hands nothing off, so at its bounds it is asked for what it has.",
        tokens_max: 250,
        texts: &[review::MEND, review::ANSWER_NOW],
    },
    Entry {
        name: "Findings of a reviewer",
        channel: "a part of the next session's prompt; all lines of the reviewer are marked",
        why: "A reviewer may be wrong, so each finding is looked at before it is mended, and one that is none is left with a reason.",
        tokens_max: 250,
        texts: &[review::FINDINGS, review::FINDINGS_INTRO, now::FINDINGS],
    },
    Entry {
        name: "Planning: questions",
        channel: "first message of the session that asks about a task before it is begun, whose answer a schema holds",
        why: "Few questions whose answers change the work, each with the answer that holds if nobody gives one.",
        tokens_max: crate::limits::texts::PLANNING_TOKENS_MAX,
        texts: &[planning::TASK, planning::QUESTIONS],
    },
    Entry {
        name: "Debrief",
        channel: "first message of the session that `ekiden report --debrief` holds",
        why: "Six headings that people know from cleave. Every claim with what shows it, since a model that sums up its own \
              work praises it.",
        tokens_max: crate::limits::texts::PLANNING_TOKENS_MAX,
        texts: &[planning::DONE, planning::REPORT, planning::DEBRIEF],
    },
    Entry {
        name: "Planning: parts",
        channel: "first message of the session of `ekiden shard --with-model`, whose answer a schema holds",
        why: "Names and needs only: the cuts and the text of each part stay those of the document.",
        tokens_max: crate::limits::texts::PLANNING_TOKENS_MAX,
        texts: &[planning::PARTS, planning::SHARDS],
    },
    Entry {
        name: "Planning: mend",
        channel: "message into the same conversation",
        why: "Every fault at once, word for word with its place; what is right stays.",
        tokens_max: crate::limits::PLANNING_FAULTS_TOKENS_MAX
            + crate::limits::texts::MESSAGE_TOKENS_MAX,
        texts: &[planning::MEND, planning::MORE_FAULTS, planning::NO_MANIFEST],
    },
    Entry {
        name: "Planning: mend the document",
        channel: "message into the same conversation",
        why: "What is missing and where it belongs; it is asked for once.",
        tokens_max: crate::limits::texts::MESSAGE_TOKENS_MAX,
        texts: &[
            planning::MEND_DOCUMENT,
            planning::MISSING,
            planning::NOT_TEXT,
            planning::NO_SUMMARY,
        ],
    },
    Entry {
        name: "Handoff order",
        channel: "message into the running turn, or the reason of a Stop",
        why: "It was announced, gives a reason and no number, and asks for nothing in a hurry: the session ends \
              while it is good, with the edit in hand in order and every claim backed by a command.",
        tokens_max: crate::limits::texts::ORDER_TOKENS_MAX,
        texts: &[
            messages::ORDER,
            OrderReason::Context.sentence(),
            OrderReason::Budget.sentence(),
            OrderReason::Time.sentence(),
            OrderReason::Operator.sentence(),
        ],
    },
    Entry {
        name: "Refusals",
        channel: "reason of a denied call",
        why: "What is open, what is missing, and where the intention goes. No apology, no level, the same words \
              each time.",
        tokens_max: crate::limits::texts::REFUSAL_TOKENS_MAX,
        texts: &[
            messages::HANDING_OFF,
            messages::ENGINE_OWNED,
            messages::SUBAGENT,
            messages::SCHEDULED,
            messages::READ_ONLY,
            messages::UNATTENDED,
            messages::NO_COMPACTION,
        ],
    },
    Entry {
        name: "Go on",
        channel: "reason of a Stop, or a message",
        why: "A turn ended early and there is room. All three ways on are named, so that none is forced.",
        tokens_max: crate::limits::texts::MESSAGE_TOKENS_MAX,
        texts: &[messages::GO_ON],
    },
    Entry {
        name: "Ask again",
        channel: "reason of a Stop, or a message",
        why: "Each fault by file, place and remedy; the rest is fine and stays. The protocol is never repeated.",
        tokens_max: crate::limits::texts::ASK_AGAIN_TOKENS_MAX,
        texts: &[messages::ASK_AGAIN],
    },
    Entry {
        name: "Rescue handoff",
        channel: "in place of the notes",
        why: "The best notes that a program can write: facts, nothing inferred, visibly unchecked, under the \
              headings of NEXT_PROMPT.md so that one reader handles both.",
        tokens_max: crate::limits::RESCUE_TOKENS_MAX,
        texts: &[
            rescue::OPENING,
            rescue::OPENING_REST,
            rescue::BUILDS,
            rescue::COMPACTED,
            rescue::NOTHING,
        ],
    },
    Entry {
        name: "Continuation",
        channel: "in place of the notes, and published",
        why: "A follow-up begins where nothing is under way: the new task, that the old one is done, and the last \
              report as it was, so that nobody has to guess what the tree holds.",
        tokens_max: crate::limits::NOTES_TOKENS_MAX,
        texts: &[
            continuation::PROGRESS,
            continuation::VERIFIED,
            continuation::UNVERIFIED,
            continuation::NEXT_PROMPT,
        ],
    },
    Entry {
        name: "Resume note",
        channel: "message after a resumed conversation",
        why: "What the conversation cannot know: whether its last call took effect, and that a stop of the run is over.",
        tokens_max: crate::limits::texts::MESSAGE_TOKENS_MAX,
        texts: &[messages::RESUME, messages::SIGNATURE],
    },
    Entry {
        name: "Read prompt",
        channel: "first message in the client's own interface",
        why: "There a prompt is a line that the client searches for file names and commands, so the prompt itself \
              lies in a file, and the line names nothing else.",
        tokens_max: crate::limits::texts::MESSAGE_TOKENS_MAX,
        texts: &[messages::READ_PROMPT],
    },
    Entry {
        name: "Loaded handoff",
        channel: "a hook's context at the start of a watched session",
        why: "A fact, a place and a quotation: text of a hook that reads like an order is shown to the user as an \
              injection. It ends below what the client cuts to a preview.",
        tokens_max: crate::limits::texts::DOCUMENT_TOKENS_MAX,
        texts: &[
            loaded::OPENING,
            loaded::OPENING_AGELESS,
            loaded::CLOSING,
            loaded::OFFERED,
            loaded::REPLACED,
        ],
    },
    Entry {
        name: "Alerts in watched sessions",
        channel: "a hook's context beside what the agent reads next, or the reason of a refused call",
        why: "Facts, and what to do as the custom of the place: text of a hook that reads like an order is shown to the \
              user as an injection. No number to watch, since countdowns make models trim their work; the person gets \
              the percentage.",
        tokens_max: crate::limits::texts::ALERT_TOKENS_MAX,
        texts: &crate::guard::alert::AGENT_TEXTS,
    },
    Entry {
        name: "Skills",
        channel: "a skill's file, read when `/checkpoint`, `/handoff`, `/orient`, `/ralph` or `/shard` is called",
        why: "They name one command and say what to do with its answer, so that a newer program needs no newer \
              text. The agent runs the command: text that the client puts in place itself is searched for file \
              names, and a handoff is foreign text.",
        tokens_max: crate::limits::texts::SKILL_TOKENS_MAX,
        texts: &[
            skills::CHECKPOINT,
            skills::HANDOFF,
            skills::ORIENT,
            skills::RALPH,
            skills::SHARD,
        ],
    },
];
