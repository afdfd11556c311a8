//! The part of the catalogue that an agent is offered.

use super::Catalogue;
use cairn_engine::decide::{CODE_GENERATION, SEARCH_TOOLS, ToolFacts};
use cairn_engine::pool::{Grants, ResourceTools};
use cairn_engine::rules::{Answer, DEFAULT_AGENT, SHELL_TOOL};
use cairn_engine::session::{Agent, Session};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Most parts of one catalogue that are kept.
const MOST_PARTS: usize = 256;

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
    /// A person who can answer questions follows the run.
    is_followed: bool,
    /// What the operator granted to agents.
    grants: &'a Grants,
    /// The tools that the executor may use; none for all.
    tools: Option<&'a ResourceTools>,
    /// There is something to retrieve.
    has_knowledge: bool,
}

/// Agent, definition, whether a person follows, whether there is something to retrieve, use, and what the operator gave
/// to agent and executor. All attempts of the same have the same part.
type PartKey = (String, String, bool, bool, Use, String);

/// The parts that were made.
#[derive(Debug, Default)]
pub(super) struct Parts(Mutex<BTreeMap<PartKey, Arc<Catalogue>>>);

impl<'a> PartOf<'a> {
    /// The plain default agent.
    pub(crate) fn plain() -> Self {
        Self {
            name: DEFAULT_AGENT,
            digest: "",
            agent: None,
            is_followed: false,
            grants: Grants::none(),
            tools: None,
            has_knowledge: false,
        }
    }

    /// The same with what the operator granted to agents.
    pub(crate) fn granted(self, grants: &'a Grants) -> Self {
        Self { grants, ..self }
    }

    /// The same in an executor that may use these tools.
    pub(crate) fn in_executor(self, tools: &'a ResourceTools) -> Self {
        let tools = Some(tools);
        Self { tools, ..self }
    }

    /// The same with something to retrieve, or with nothing.
    pub(crate) fn with_knowledge(self, has_knowledge: bool) -> Self {
        Self {
            has_knowledge,
            ..self
        }
    }

    #[cfg(test)]
    pub(super) fn agent(agent: &'a Agent) -> Self {
        let name = &agent.definition.name;
        Self {
            name,
            digest: name,
            agent: Some(agent),
            ..Self::plain()
        }
    }

    /// The same for a run that a person follows.
    #[cfg(test)]
    pub(super) fn followed(self) -> Self {
        Self {
            is_followed: true,
            ..self
        }
    }

    /// The agent of the run of that number.
    pub(crate) fn run(session: &'a Session, number: u32) -> Self {
        let run = session.run(number);
        let is_followed = run.is_some_and(|run| run.answers_questions);
        match run.and_then(|run| run.agent.as_ref()) {
            None => Self {
                is_followed,
                ..Self::plain()
            },
            Some(used) => Self {
                name: &used.name,
                digest: &used.digest,
                agent: session.agent(used),
                is_followed,
                ..Self::plain()
            },
        }
    }

    /// What the definition and the operator say of calls of a tool. A definition that the session has lost gives no
    /// right.
    fn answer(self, tool: &str) -> Answer {
        if self.grants.revokes(self.name, tool) {
            return Answer::Deny;
        }
        let Some(agent) = self.agent else {
            return match self.digest {
                "" => Answer::Allow,
                _ => Answer::Deny,
            };
        };
        let rights = agent.rights();
        let is_granted = self.grants.grants(self.name, tool) && !rights.denies(tool);
        match rights.answer(tool) {
            Answer::Deny if is_granted && rights.asks(tool) => Answer::Ask,
            Answer::Deny if is_granted => Answer::Allow,
            answer => answer,
        }
    }

    fn may_use(self, tool: &str) -> bool {
        self.tools.is_none_or(|tools| tools.allows(tool))
    }

    /// Tells apart what the operator gave: nothing in most installations.
    fn given(self) -> String {
        let mut given = String::new();
        if let Some(grant) = self.grants.0.get(self.name) {
            add(&mut given, "agent has", &grant.granted);
            add(&mut given, "agent lacks", &grant.revoked);
        }
        if let Some(tools) = self.tools {
            add(&mut given, "executor may use", tools.patterns());
            add(&mut given, "executor has", &tools.granted);
            add(&mut given, "executor lacks", &tools.revoked);
        }
        given
    }
}

fn add<'a>(given: &mut String, what: &str, names: impl IntoIterator<Item = &'a String>) {
    for name in names {
        given.push_str(what);
        given.push(' ');
        given.push_str(name);
        given.push('\n');
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
        let key = (
            of.name.to_owned(),
            of.digest.to_owned(),
            of.is_followed,
            of.has_knowledge,
            used,
            of.given(),
        );
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
        let is_callable = |name: &str, facts: &ToolFacts| {
            of.answer(name) != Answer::Deny
                && of.may_use(name)
                && !self.rules.always_deny(name, of.name)
                && (name != SHELL_TOOL || self.may_run_commands(of, facts))
        };
        let facts = self.facts.iter();
        let facts = facts.filter(|(name, facts)| is_offered(name) && is_callable(name, facts));
        let facts = facts.map(|(name, facts)| (name.clone(), facts.clone()));
        let mut only = Self {
            facts: Arc::new(facts.collect()),
            rules: self.rules.clone(),
            ..Self::default()
        };
        let has_deferred = only.facts.values().any(|facts| facts.deferred.is_some());
        let tools = self.offered.tools.iter().filter_map(|tool| {
            let Some(facts) = self.facts.get(&tool.name) else {
                let finds_some = has_deferred || tool.name != SEARCH_TOOLS;
                return (finds_some && is_offered(&tool.name)).then(|| tool.clone());
            };
            only.facts.get(&tool.name)?;
            let mut tool = tool.clone();
            // A call that takes of the budgets is permitted one by one.
            tool.is_allowed = tool.name != CODE_GENERATION
                && of.answer(&tool.name) == Answer::Allow
                && self.rules.always_allow(&tool.name, of.name, facts.default);
            Some(tool)
        });
        let tools = tools.collect();
        only.offer(tools);
        only
    }

    /// Commands are offered where a person can be asked about each, or where a rule may allow some.
    fn may_run_commands(&self, of: PartOf<'_>, shell: &ToolFacts) -> bool {
        of.is_followed || self.rules.may_allow(SHELL_TOOL, of.name, shell.default)
    }

    /// The part of it that plans of an agent may name.
    pub(crate) fn of_plans(&self, of: PartOf<'_>) -> Arc<Self> {
        // The executor of a model's own attempt writes code for it. A step of one call has no model.
        let may_name = |name: &str| name != CODE_GENERATION && self.facts.contains_key(name);
        self.part(of, Use::Plan, may_name)
    }
}
