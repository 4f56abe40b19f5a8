//! The bounds of a run besides its sessions: money, tokens, time, turns, hours of the day.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::budget::Budget;
use crate::quiet::QuietHours;
use crate::time::Millis;

/// The bounds of a run, resolved before it starts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// What all sessions together may spend, restarts and resumptions included.
    pub run: Budget,
    /// What one session may spend, all its attempts together.
    pub session: Budget,
    /// What the sessions of single agents together may spend, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub agents: BTreeMap<String, Budget>,
    /// How long a session works before it gets the order to hand off.
    pub session_timeout: Option<Millis>,
    /// Responses of the model before a session gets the order to hand off.
    pub turns_max: Option<u32>,
    pub quiet_hours: QuietHours,
    /// Local time's offset from UTC when the run began, in seconds.
    pub utc_offset_secs: i32,
    /// What a usage limit leads to.
    pub on_rate_limit: OnRateLimit,
}

/// What a usage limit leads to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnRateLimit {
    #[default]
    Wait,
    Stop,
}

/// Bounds that a resumption changes; what is not named stays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BoundsChange {
    /// The run's budget, which also covers earlier spend.
    pub run: Budget,
    pub session: Budget,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub agents: BTreeMap<String, Budget>,
    /// A session's time; zero for no limit.
    pub session_timeout: Option<Millis>,
    /// A session's turns; zero for no limit.
    pub turns_max: Option<u32>,
    pub quiet_hours: Option<QuietHours>,
    /// What a usage limit leads to.
    pub on_rate_limit: Option<OnRateLimit>,
}

impl Bounds {
    pub fn change(&mut self, change: &BoundsChange) {
        self.run = self.run.replaced(change.run);
        self.session = self.session.replaced(change.session);
        for (agent, budget) in &change.agents {
            let of_agent = self.agents.entry(agent.clone()).or_default();
            *of_agent = of_agent.replaced(*budget);
        }
        if let Some(timeout) = change.session_timeout {
            self.session_timeout = Some(timeout).filter(|timeout| *timeout > Millis(0));
        }
        if let Some(turns) = change.turns_max {
            self.turns_max = Some(turns).filter(|turns| *turns > 0);
        }
        if let Some(quiet) = &change.quiet_hours {
            self.quiet_hours = quiet.clone();
        }
        self.on_rate_limit = change.on_rate_limit.unwrap_or(self.on_rate_limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_leaves_what_it_does_not_name() {
        let money = |micro_usd| Budget {
            micro_usd: Some(micro_usd),
            tokens: None,
        };
        let mut bounds = Bounds {
            run: Budget {
                tokens: Some(7),
                ..money(5)
            },
            session_timeout: Some(Millis(9)),
            turns_max: Some(3),
            ..Bounds::default()
        };
        let before = bounds.clone();
        bounds.change(&BoundsChange::default());
        assert_eq!(bounds, before);
        bounds.change(&BoundsChange {
            run: money(8),
            session_timeout: Some(Millis(0)),
            turns_max: Some(0),
            on_rate_limit: Some(OnRateLimit::Stop),
            ..BoundsChange::default()
        });
        assert_eq!(
            bounds.run,
            Budget {
                tokens: Some(7),
                ..money(8)
            }
        );
        assert_eq!((bounds.session_timeout, bounds.turns_max), (None, None));
        assert_eq!(bounds.on_rate_limit, OnRateLimit::Stop);
    }
}
