//! Claude Code in its own interface, on the user's terminal.
//!
//! The client draws and reads the terminal itself, so there is no stream to talk over. Hooks do here what the
//! control protocol does headless. The client gets a settings text whose hooks are ekiden in a hidden role
//! ([`hook`]). Each hook passes its question to this process and the answer back.
//!
//! ```text
//!                  ┌───────────── one task an attempt ────────────┐
//!  AgentCommand ─► │ Conversation: what was asked, what is to be said │ ─► Report
//!                  └──▲─────────────────────────────┬─────────────┘
//!                  │ question                answer │
//!            socket in the session's directory      │
//!                  │                                ▼
//!   terminal ◄── client ──► ekiden __hook ──────────┘
//! ```
//!
//! So the engine sees the same reports as from a headless session, and decides by the same rules. The differences:
//!
//! - A message cannot be sent at any time. It waits, and reaches the agent with the answer to the next
//!   hook that can carry a text: the end of a batch of tools, the end of a turn, the next prompt. If no turn is
//!   running, our mod asks for the message and submits it as a prompt; a client without mods is restarted with it.
//! - Context is read from the end of the transcript at each hook. The window and the cost come from the
//!   status line, which is ours, with the user's below it.
//! - Closing the conversation is SIGTERM: the client restores the terminal and exits 143.
//! - The person can type at any time, and leaving the client ends the session.
//!
//! A hook acts only if it names this attempt's conversation, since the agent may start agents. If it gets no
//! answer, a hook says nothing, and the client follows its own rules.
//!
//! If hooks are switched off, the session is watched only through its transcript, and says so.

mod conversation;
mod driver;
pub mod hook;
pub(crate) mod launch;
mod listener;
mod unhooked;

pub(crate) use driver::run;
pub use unhooked::transcript_in;

/// The mod that the client starts with. The empty `hooks` is for a client without mods, which requires that field.
pub const MOD: [(&str, &str); 4] = [
    (
        "mod/.claude-plugin/plugin.json",
        r#"{"name":"ekiden-terminal","version":"1.0.0","description":"Carries messages of an ekiden run","author":{"name":"The ekiden authors"},"types":"./types/relay.d.ts"}"#,
    ),
    (
        "mod/hooks/hooks.json",
        r#"{"modules":["./relay.ts"],"hooks":{}}"#,
    ),
    ("mod/hooks/relay.ts", include_str!("relay.ts")),
    ("mod/types/relay.d.ts", include_str!("relay.d.ts")),
];
/// Its directory, beside the protocol's file.
const MOD_DIR: &str = "mod";
