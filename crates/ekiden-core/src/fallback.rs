//! Agents that replace each other: which one begins a conversation, and until when the others are out.
//!
//! The run's header freezes the list of agents. Which of them are out follows from the ends in the log, so a resumed
//! run decides the same.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::agent::{AgentKind, AgentSpec, Permissions};
use crate::ends::{EndCause, EndClass, Hint, LimitKind};
use crate::time::{Millis, Timestamp};

/// The agents that replace the run's own agent when it is out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Fallback {
    /// In this order, after the run's own agent. They get the same permissions.
    pub agents: Vec<AgentSpec>,
    pub returns: Returns,
}

/// When an agent that was out is used again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Returns {
    /// With the first conversation that begins after its reset.
    #[default]
    NextSession,
    /// Only when its replacement is out.
    Never,
}

impl Fallback {
    pub fn is_empty(&self) -> bool {
        self.agents.is_empty()
    }
}

/// The end of an outage that only a person can end.
const FOR_A_PERSON: Timestamp = Timestamp(u64::MAX);

/// The agents that a run does not use before some time. All relays of a run share them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Outages(Vec<Outage>);

#[derive(Debug, Clone, PartialEq)]
struct Outage {
    agent: AgentSpec,
    reach: Reach,
    until: Timestamp,
}

/// Which agents share an outage with the agent that hit it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Agents with the same account.
    Account,
    /// Agents with the same account and the same model.
    Model,
}

impl Outages {
    fn until(&self, agent: &AgentSpec) -> Timestamp {
        let is_out = |outage: &&Outage| {
            let is_same = outage.reach == Reach::Account || outage.agent.model == agent.model;
            is_same && has_same_account(&outage.agent, agent)
        };
        let until = self.0.iter().filter(is_out).map(|outage| outage.until);
        until.max().unwrap_or_default()
    }

    fn note(&mut self, agent: &AgentSpec, cause: &EndCause, until: Timestamp) {
        let of_model = matches!(
            cause,
            EndCause::Overloaded
                | EndCause::ModelNotFound
                | EndCause::RateLimited {
                    kind: LimitKind::SevenDayModel,
                    ..
                }
                | EndCause::LimitKnown {
                    kind: LimitKind::SevenDayModel,
                    ..
                }
        );
        let reach = if of_model {
            Reach::Model
        } else {
            Reach::Account
        };
        let is_its = |outage: &Outage| outage.reach == reach && outage.agent.is_same(agent);
        self.0.retain(|outage| !is_its(outage));
        self.0.push(Outage {
            agent: agent.clone(),
            reach,
            until,
        });
    }

    /// A person resumes the run: agents that were out are tried again. If only an engine died, a limit still holds, but
    /// what a person had to repair may be repaired.
    pub(crate) fn forgive(&mut self, has_ended: bool) {
        let stays = |outage: &Outage| !has_ended && outage.until != FOR_A_PERSON;
        self.0.retain(stays);
    }
}

/// Both count against the same limits. For agents by a command, the command is the account; it may have one at each of
/// several providers.
pub(crate) fn has_same_account(one: &AgentSpec, other: &AgentSpec) -> bool {
    let by_command = matches!(one.kind, AgentKind::Acp | AgentKind::Exec);
    (one.kind, &one.account) == (other.kind, &other.account)
        && (!by_command || one.command == other.command)
        && one.provider() == other.provider()
}

/// The agents that may begin a conversation, as one relay has seen them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Candidates {
    /// The run's own agent first.
    pub(crate) agents: Vec<AgentSpec>,
    returns: Returns,
    /// The agent that began the last conversation.
    current: usize,
    /// The run's outages, which the relay has while it takes a step.
    pub(crate) outages: Outages,
    /// The names of agents whose budget has no room for another session. It follows from their spend.
    pub(crate) spent: BTreeSet<String>,
}

impl Candidates {
    pub(crate) fn new(first: &AgentSpec, fallback: &Fallback) -> Self {
        Self {
            agents: std::iter::once(first)
                .chain(&fallback.agents)
                .cloned()
                .collect(),
            returns: fallback.returns,
            current: 0,
            outages: Outages::default(),
            spent: BTreeSet::new(),
        }
    }

    /// Another agent can continue.
    pub(crate) fn has_others(&self) -> bool {
        self.agents.len() > 1
    }

    /// Given how the current agent ended, and whether its program was not even there: whether another agent is to
    /// continue, because it can do so sooner.
    pub(crate) fn gives_way(
        &mut self,
        at: Timestamp,
        (cause, is_missing): (&EndCause, bool),
        waited: Millis,
        permissions: &Permissions,
    ) -> bool {
        if !self.has_others() {
            return false;
        }
        let until = match cause.class() {
            EndClass::Wait => at + cause.wait(at, waited),
            // Only a person can change that.
            EndClass::Stop(Hint::LogIn | Hint::Pay | Hint::ChooseModel) => FOR_A_PERSON,
            EndClass::Retry if is_missing => FOR_A_PERSON,
            EndClass::Stop(_)
            | EndClass::Fine
            | EndClass::Retry
            | EndClass::Left
            | EndClass::TooLate => return false,
        };
        if let Some(agent) = self.agents.get(self.current) {
            self.outages.note(agent, cause, until);
        }
        let free_at = self.free_at(at, permissions);
        // Nobody knows how long an outage is: the conversation is not given up for another agent that is out too.
        let is_unknown = cause.class() == EndClass::Wait && cause.resets_at().is_none();
        free_at <= at || !is_unknown && free_at < until
    }

    /// When the next conversation may begin.
    pub(crate) fn free_at(&self, at: Timestamp, permissions: &Permissions) -> Timestamp {
        let may = self.may_begin(permissions);
        let until = may.map(|(_, agent)| self.outages.until(agent).max(at));
        until.min().unwrap_or(at)
    }

    /// Chooses the agent that begins a conversation now: the one that is free first. Of several that are free at
    /// once, it is the first in the list, or the current one if there is no way back.
    pub(crate) fn take(&mut self, at: Timestamp, permissions: &Permissions) -> Option<&AgentSpec> {
        let stays = |place: usize| self.returns == Returns::Never && place == self.current;
        let next = self
            .may_begin(permissions)
            .min_by_key(|(place, agent)| (self.outages.until(agent).max(at), !stays(*place)));
        self.current = next?.0;
        self.agents.get(self.current)
    }

    /// Agents with budget left that can keep to the permissions, with their places.
    fn may_begin(&self, permissions: &Permissions) -> impl Iterator<Item = (usize, &AgentSpec)> {
        let able = self.able(permissions);
        able.filter(|(_, agent)| !self.spent.contains(&agent.name))
    }

    /// Agents that can keep to the permissions. A person may have changed these since the run began.
    pub(crate) fn able(
        &self,
        permissions: &Permissions,
    ) -> impl Iterator<Item = (usize, &AgentSpec)> {
        let agents = self.agents.iter().enumerate();
        agents.filter(|(place, agent)| *place == 0 || agent.cannot_hold(permissions).is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::Interface;

    fn agent(kind: AgentKind, model: Option<&str>) -> AgentSpec {
        AgentSpec {
            name: "opencode".to_owned(),
            kind,
            command: vec!["opencode".to_owned(), "acp".to_owned()],
            model: model.map(str::to_owned),
            account: None,
            permissions: Permissions::default(),
            interface: Interface::Headless,
        }
    }

    // shows: REL-39
    #[test]
    fn an_outage_of_a_model_leaves_the_accounts_others() {
        let (small, big) = (
            agent(AgentKind::Claude, Some("small")),
            agent(AgentKind::Claude, Some("big")),
        );
        let ends = |outages: &Outages| [outages.until(&small).0, outages.until(&big).0];
        let mut own = Outages::default();
        own.note(&small, &EndCause::Overloaded, Timestamp(7));
        assert_eq!(ends(&own), [7, 0]);
        own.note(&small, &EndCause::Overloaded, Timestamp(5));
        assert_eq!(ends(&own), [5, 0], "the newest counts");
        own.note(&small, &EndCause::AuthenticationFailed, Timestamp(6));
        assert_eq!((ends(&own), own.0.len()), ([6, 6], 2));
        own.note(&big, &EndCause::AuthenticationFailed, Timestamp(9));
        assert_eq!((ends(&own), own.0.len()), ([9, 9], 3));
        own.forgive(false);
        assert_eq!(ends(&own), [9, 9]);
        own.forgive(true);
        assert!(own.0.is_empty());
    }

    // shows: REL-39
    #[test]
    fn programs_of_one_kind_are_accounts_of_their_own() {
        let one = agent(AgentKind::Acp, None);
        let other = AgentSpec {
            command: vec!["qwen".to_owned()],
            ..one.clone()
        };
        assert!(has_same_account(&one, &one) && !has_same_account(&one, &other));
        let claude = |spec: &AgentSpec| AgentSpec {
            kind: AgentKind::Claude,
            ..spec.clone()
        };
        assert!(has_same_account(&claude(&one), &claude(&other)));
    }

    // shows: REL-39
    #[test]
    fn a_program_may_have_an_account_at_each_provider() {
        let shared = |kind, one, other| has_same_account(&agent(kind, one), &agent(kind, other));
        let acp = AgentKind::Acp;
        assert!(shared(acp, Some("a/small"), Some("a/big")));
        assert!(!shared(acp, Some("a/small"), Some("b/small")));
        assert!(shared(acp, Some("small"), None));
        assert!(shared(AgentKind::Claude, Some("a/small"), Some("b/small")));
    }
}
