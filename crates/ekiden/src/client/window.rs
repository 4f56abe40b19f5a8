//! The compaction window that a user has set for the client, by a flag or in its settings.
//!
//! A relay turns compaction off, so the client ignores both (only its environment variable counts, which it
//! reports as its window). But a user who set one wants no more of the window used than that.

use ekiden_core::agent::AgentKind;
use ekiden_core::settings::Settings;

use super::settings::ClientSettings;

const FLAG: &str = "--autocompact";

/// Lowers the cap of the window to the user's setting for the client, minus its reserve.
pub fn lower(settings: &mut Settings, client: &ClientSettings) {
    if settings.agent.kind != AgentKind::Claude {
        return;
    }
    let named = flag(&settings.agent.command).or_else(|| client.compaction_window());
    if let Some(tokens) = named {
        let most = tokens.saturating_sub(settings.agent.kind.reserve_tokens());
        settings.cap_tokens = Some(settings.cap_tokens.map_or(most, |cap| cap.min(most)));
    }
}

/// The flag in a user's own command, in either form. `auto` names no window.
pub fn flag(command: &[String]) -> Option<u64> {
    let place = command.iter().rposition(|word| word.starts_with(FLAG))?;
    let value = match command[place].strip_prefix(FLAG)? {
        "" => command.get(place + 1)?,
        joined => joined.strip_prefix('=')?,
    };
    value.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: MON-06
    #[test]
    fn the_flag_is_read_in_both_forms() {
        let named = |words: &[&str]| {
            flag(
                &words
                    .iter()
                    .map(|&word| word.to_owned())
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(named(&["claude", "--autocompact=150000"]), Some(150_000));
        assert_eq!(
            named(&["claude", "--autocompact", "150000", "--bare"]),
            Some(150_000)
        );
        assert_eq!(named(&["claude", "--autocompact=auto"]), None);
        assert_eq!(named(&["claude", "--autocompact"]), None);
        assert_eq!(named(&["claude"]), None);
    }
}
