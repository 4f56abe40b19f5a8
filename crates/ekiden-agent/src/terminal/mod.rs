//! Claude Code in its own interface, on the user's terminal.
//!
//! The client draws and reads the terminal itself, so there is no stream to talk over. What the control
//! protocol is headless, hooks are here: the client is given a settings text whose hooks are ekiden in
//! a hidden role ([`hook`]), and each of them carries its question to this process and the answer back.
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
//! So the engine sees the same reports as from a headless session, and decides by the same rules. What
//! differs:
//!
//! - A message cannot be sent at any time. It waits, and reaches the agent with the answer to the next
//!   hook that can carry a text: the end of a batch of tools, the end of a turn, the next prompt. Where no turn
//!   runs, a mod of ours asks for it and submits it as a prompt; a client without mods is started anew with it.
//! - Context is read from the end of the transcript at each hook; the window and the cost come from the
//!   status line, which is ours unless the user has one.
//! - Closing the conversation is SIGTERM: the client puts the terminal in order and exits 143.
//! - The person can type at any time, and leaving the client ends the session.
//!
//! A hook acts only if it names this attempt's conversation: the agent may start agents. When nobody
//! answers, a hook says nothing, and the client follows its own rules.
//!
//! Where hooks are switched off, the session is watched through its transcript alone, and says so.

mod conversation;
mod driver;
pub mod hook;
pub(crate) mod launch;
mod listener;
mod unhooked;

pub(crate) use driver::run;

/// The mod that the client is started with. The empty `hooks` is for a client without mods, which wants that field.
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
