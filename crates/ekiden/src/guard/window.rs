//! The window of a watched session, derived from how the client was started.
//!
//! The client reports its window only to its status line. Before that, and without a status line, the guard
//! derives it from the model's name, and a lower window for compaction from the client's arguments,
//! environment and settings. It guesses low: an alert too early costs a minute, one too late the session.

use std::path::Path;

use ekiden_core::guard::Window;
use ekiden_core::limits;

use crate::client::settings::ClientSettings;
use crate::client::window::flag;
use crate::settings::environment::Environment;

pub const WINDOW_UNKNOWN: u64 = 200_000;
/// The window of the models named here and of their successors.
const WINDOW_LARGE: u64 = 1_000_000;
/// Families whose versions have the large window from this one on.
const LARGE_FROM: [(&str, u8); 4] = [("opus", 5), ("sonnet", 5), ("haiku", 5), ("fable", 0)];

/// The first client seen to give them this window. With 2.1.197 they have 200,000 tokens, except names that
/// end in `[1m]`.
const LARGE_SINCE: [u32; 3] = [2, 1, 329];

/// How the client was told to compact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Compaction {
    /// A window lower than the model's, in tokens.
    pub window_tokens: Option<u64>,
    /// The share of the window at which it compacts, in percent.
    pub percent: Option<u64>,
}

impl Compaction {
    /// What the client was told: the one that this is called in, or one that is started here.
    pub fn here(environment: &Environment, dir: &Path) -> Self {
        let settings = ClientSettings::read(environment, dir, false);
        Self::of(environment, &client_args(environment), &settings)
    }

    /// The client's own arguments, otherwise the environment, otherwise its settings.
    pub fn of(
        environment: &Environment,
        client_args: &[String],
        settings: &ClientSettings,
    ) -> Self {
        let number = |name| {
            environment
                .variable(name)
                .and_then(|text| text.parse().ok())
        };
        Self {
            window_tokens: flag(client_args)
                .or_else(|| number("CLAUDE_CODE_AUTO_COMPACT_WINDOW"))
                .or_else(|| settings.compaction_window()),
            percent: number("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE")
                .filter(|percent| (1..=100).contains(percent)),
        }
    }

    pub fn window(self, model_tokens: u64) -> Window {
        let reserve_tokens = limits::RESERVE_TOKENS_CLAUDE;
        let window = self.window_tokens.unwrap_or(model_tokens).min(model_tokens);
        let by_share = self
            .percent
            .map(|percent| window * percent / 100 + reserve_tokens);
        let compaction_tokens = by_share.into_iter().chain(self.window_tokens).min();
        Window {
            model_tokens,
            compaction_tokens,
            reserve_tokens,
            cap_tokens: None,
        }
    }
}

/// The window of a model in a client of this version, in tokens.
pub fn window_of(model: &str, client: &str) -> u64 {
    let parts: Vec<u32> = client
        .split('.')
        .map_while(|part| part.parse().ok())
        .collect();
    let is_older = !parts.is_empty() && parts[..] < LARGE_SINCE[..];
    let large = LARGE_FROM
        .iter()
        .any(|(family, from)| version_of(model, family).is_some_and(|v| v >= *from));
    if large && !is_older || model.contains("[1m]") {
        WINDOW_LARGE
    } else {
        WINDOW_UNKNOWN
    }
}

/// The version after a family's name: `claude-opus-5-5` is version 5 of opus.
fn version_of(model: &str, family: &str) -> Option<u8> {
    let behind = &model[model.find(family)? + family.len()..];
    // Older names have only a date there, which is larger than any version.
    let number = behind.split('-').find_map(|part| part.parse().ok());
    Some(number.unwrap_or_default())
}

/// The arguments that the client was started with, if the system reports them.
pub fn client_args(environment: &Environment) -> Vec<String> {
    client_words(environment, "cmdline")
}

/// What the system reports of the client's start: its arguments or its environment.
pub(super) fn client_words(environment: &Environment, what: &str) -> Vec<String> {
    let pid = environment
        .variable("CLAUDE_PID")
        .filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit()));
    let path = pid.map(|pid| Path::new("/proc").join(pid).join(what));
    let bytes = path
        .and_then(|path| std::fs::read(path).ok())
        .unwrap_or_default();
    bytes
        .split(|byte| *byte == 0)
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use ekiden_core::guard::{Level, Profile};

    use super::*;

    fn of(vars: &[(&str, &str)], args: &[&str]) -> Compaction {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        Compaction::of(
            &Environment::of(vars.iter().copied()),
            &args,
            &ClientSettings::default(),
        )
    }

    // shows: MON-06
    #[test]
    fn a_window_is_told_from_the_models_name() {
        for (model, client, tokens) in [
            ("claude-opus-5-5", "2.1.329", 1_000_000),
            ("claude-sonnet-5", "2.1.330", 1_000_000),
            ("claude-sonnet-5", "2.1.197", 200_000),
            ("claude-sonnet-5", "", 1_000_000),
            ("claude-haiku-4-5-20251001", "2.1.329", 200_000),
            ("claude-sonnet-4-5-20250929", "2.1.329", 200_000),
            ("claude-3-7-sonnet-20250219", "2.1.329", 200_000),
            ("claude-3-opus-20240229", "", 200_000),
            (
                "us.anthropic.claude-3-5-sonnet-20241022-v2:0",
                "2.1.329",
                200_000,
            ),
            ("claude-sonnet-4-5[1m]", "2.1.197", 1_000_000),
            ("somebody-elses", "2.1.329", 200_000),
            ("", "", 200_000),
        ] {
            assert_eq!(window_of(model, client), tokens, "{model} {client}");
        }
    }

    /// The rows of what was measured: model, what the client was told, and where it then compacts.
    // shows: MON-06
    #[test]
    fn every_level_lies_before_the_clients_compaction() {
        let window = "CLAUDE_CODE_AUTO_COMPACT_WINDOW";
        let share = "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE";
        let rows = [
            ("claude-opus-5-5", of(&[], &[]), 967_000),
            (
                "claude-opus-5-5",
                of(&[], &["claude", "--autocompact", "400000"]),
                367_000,
            ),
            (
                "claude-opus-5-5",
                of(&[], &["claude", "--autocompact=150000"]),
                117_000,
            ),
            ("claude-opus-5-5", of(&[(window, "400000")], &[]), 367_000),
            (
                "claude-opus-5-5",
                of(&[(window, "400000"), (share, "50")], &[]),
                200_000,
            ),
            ("claude-opus-5-5", of(&[(share, "50")], &[]), 500_000),
            ("claude-haiku-4-5-20251001", of(&[], &[]), 200_000),
            (
                "claude-haiku-4-5-20251001",
                of(&[(share, "50")], &[]),
                200_000,
            ),
            (
                "claude-haiku-4-5-20251001",
                of(&[], &["claude", "--autocompact", "200000"]),
                167_000,
            ),
        ];
        for (model, compaction, compacts_at) in rows {
            let window = compaction.window(window_of(model, "2.1.329"));
            for level in [Level::L1, Level::L2, Level::L3] {
                let begins = window.tokens_of(Profile::Watch.levels(), level);
                assert!(
                    begins < compacts_at,
                    "{model} {compaction:?} {level} begins at {begins}"
                );
            }
        }
    }
}
