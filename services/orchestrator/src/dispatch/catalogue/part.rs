//! The part of the catalogue that an agent is offered.

use super::Catalogue;
use cairn_engine::rules::{Answer, DEFAULT_AGENT};
use cairn_engine::session::{Agent, Session};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Most parts of one catalogue that are kept.
const MOST_PARTS: usize = 64;

/// What a part is used for, without options that are those of one turn alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Use {
    /// The model of a step.
    Step,
    /// The model of a turn.
    Turn,
    /// The planner, whose plans name no state tools.
    Plan,
}

/// The agent of a run, as far as it says what is offered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PartOf<'a> {
    name: &'a str,
    /// Of its definition; empty for the plain default agent.
    digest: &'a str,
    agent: Option<&'a Agent>,
}

/// The parts that were made, by agent, definition and use. All attempts of the same have the same part.
#[derive(Debug, Default)]
pub(super) struct Parts(Mutex<BTreeMap<(String, String, Use), Arc<Catalogue>>>);

impl<'a> PartOf<'a> {
    /// The plain default agent.
    pub(crate) const fn plain() -> Self {
        Self {
            name: DEFAULT_AGENT,
            digest: "",
            agent: None,
        }
    }

    #[cfg(test)]
    pub(super) fn agent(agent: &'a Agent) -> Self {
        let name = &agent.definition.name;
        Self {
            name,
            digest: name,
            agent: Some(agent),
        }
    }

    /// The agent of the run of that number.
    pub(crate) fn run(session: &'a Session, number: u32) -> Self {
        let run = session.run(number);
        match run.and_then(|run| run.agent.as_ref()) {
            None => Self::plain(),
            Some(used) => Self {
                name: &used.name,
                digest: &used.digest,
                agent: session.agent(used),
            },
        }
    }

    /// What the definition says of calls of a tool. One that the session has lost gives no right.
    fn answer(self, tool: &str) -> Answer {
        match self.agent {
            Some(agent) => agent.rights().answer(tool),
            None if self.digest.is_empty() => Answer::Allow,
            None => Answer::Deny,
        }
    }
}

impl Catalogue {
    /// The part for an agent, which is made once: `is_offered` is the same for all attempts of that use.
    pub(crate) fn part(
        &self,
        of: PartOf<'_>,
        used: Use,
        is_offered: impl Fn(&str) -> bool,
    ) -> Arc<Self> {
        let key = (of.name.to_owned(), of.digest.to_owned(), used);
        let parts = || self.parts.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(part) = parts().get(&key) {
            return part.clone();
        }
        // Without the lock: it takes long. Two that are made at once are equal.
        let part = Arc::new(self.only(of, is_offered));
        let mut parts = parts();
        if parts.len() >= MOST_PARTS {
            parts.clear();
        }
        parts.entry(key).or_insert(part).clone()
    }

    /// The part of it that an attempt of an agent is offered.
    pub(crate) fn only(&self, of: PartOf<'_>, is_offered: impl Fn(&str) -> bool) -> Self {
        // Rules are about tools of the catalogue. State tools are the session's own.
        let is_callable =
            |name: &str| of.answer(name) != Answer::Deny && !self.rules.always_deny(name, of.name);
        let facts = self.facts.iter();
        let facts = facts.filter(|(name, _)| is_offered(name) && is_callable(name));
        let facts = facts.map(|(name, facts)| (name.clone(), facts.clone()));
        let mut only = Self {
            facts: Arc::new(facts.collect()),
            rules: self.rules.clone(),
            ..Self::default()
        };
        let tools = self.offered.tools.iter().filter_map(|tool| {
            let Some(facts) = self.facts.get(&tool.name) else {
                return is_offered(&tool.name).then(|| tool.clone());
            };
            only.facts.get(&tool.name)?;
            let mut tool = tool.clone();
            tool.is_allowed = of.answer(&tool.name) == Answer::Allow
                && self.rules.always_allow(&tool.name, of.name, facts.default);
            Some(tool)
        });
        let tools = tools.collect();
        only.offer(tools);
        only
    }

    /// The part of it that plans of an agent may name.
    pub(crate) fn of_plans(&self, of: PartOf<'_>) -> Arc<Self> {
        self.part(of, Use::Plan, |name| self.facts.contains_key(name))
    }
}
