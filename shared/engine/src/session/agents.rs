//! The agents that a session uses.

use super::{Apply, Context, Envelope, Run, Session};
use crate::agent::{AgentDefinition, Rights};
use crate::command::WhenFull;
use crate::decide::{Compaction, is_state_tool};
use crate::event::{AgentDefined, AgentUse, AttemptRef};
use crate::pool::Grants;
use crate::rules::{Answer, DEFAULT_AGENT};
use crate::transitions::{Applied, IllegalTransition};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

/// The state tool that reads a skill: there for agents that have some.
const READ_SKILL: &str = "read_skill";

/// State tools that a definition may deny. The others belong to every conversation.
const DENIABLE: [&str; 4] = ["delegate", "report_generator", "retrieve", "save_knowledge"];
/// How the names of state tools begin that a definition may deny, too.
const OF_MEMORY: &str = "session_memory_";

/// An agent that a context or a run uses, as it was when it was defined here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Agent {
    /// What its file or document said.
    pub definition: Arc<AgentDefinition>,
    /// What its system prompt says of tools and skills; may be empty.
    pub capabilities: String,
    #[serde(skip)]
    rights: Compiled,
}

/// Follows from the definition, so it is no part of what is compared or stored.
#[derive(Clone, Default)]
struct Compiled(OnceLock<Rights>);

impl PartialEq for Compiled {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl std::fmt::Debug for Compiled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Compiled")
    }
}

/// The agent of a context before a switch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switched {
    /// None for the plain default agent.
    pub from: Option<AgentUse>,
}

impl Switched {
    /// The name of the agent before the switch.
    pub fn name(&self) -> &str {
        name_of(self.from.as_ref())
    }
}

/// The name of an agent that is used; [`DEFAULT_AGENT`] for none.
pub(crate) fn name_of(used: Option<&AgentUse>) -> &str {
    used.map_or(DEFAULT_AGENT, |used| &used.name)
}

impl Agent {
    /// The agent of this definition.
    pub fn new(definition: Arc<AgentDefinition>, capabilities: String) -> Self {
        Self {
            definition,
            capabilities,
            rights: Compiled::default(),
        }
    }

    /// What its definition says of calls.
    pub fn rights(&self) -> &Rights {
        self.rights.0.get_or_init(|| Rights::of(&self.definition))
    }

    /// It may call the tool, if there is one of that name. State tools belong to the session and not to its
    /// list; a few of them it may lack.
    pub fn offers(&self, tool: &str) -> bool {
        if tool == READ_SKILL {
            return !self.definition.skills.is_empty();
        }
        match is_state_tool(tool) {
            true => !is_deniable(tool) || !self.rights().denies(tool),
            false => self.rights().answer(tool) != Answer::Deny,
        }
    }

    /// The operator granted it the tool, and its definition does not deny it.
    fn is_granted(&self, tool: &str, grants: &Grants) -> bool {
        let is_granted = !is_state_tool(tool) && grants.grants(&self.definition.name, tool);
        is_granted && !self.rights().denies(tool)
    }

    /// Bytes of its texts.
    pub(super) fn bytes(&self) -> usize {
        let of = &self.definition;
        let skills = of.skills.iter();
        let skills: usize = skills
            .map(|skill| skill.name.len() + skill.description.len() + skill.digest.len())
            .sum();
        let texts = [
            &of.name,
            &of.prompt,
            &of.model,
            &of.instructions,
            &self.capabilities,
        ];
        let texts: usize = texts.into_iter().map(String::len).sum();
        let lists = [
            of.tools.as_deref().unwrap_or_default(),
            of.denied.as_slice(),
            of.asked.as_slice(),
            of.capabilities.as_slice(),
        ];
        let lists: usize = lists.into_iter().flatten().map(String::len).sum();
        texts + lists + skills
    }
}

/// A definition may deny the tool, and an operator may revoke it. The other state tools belong to every conversation.
pub fn can_be_denied(tool: &str) -> bool {
    !is_state_tool(tool) || is_deniable(tool)
}

/// The agent, or the plain default one, may call the tool, if there is one of that name.
pub(crate) fn may_call(agent: Option<&Agent>, tool: &str, grants: &Grants) -> bool {
    let name = agent.map_or(DEFAULT_AGENT, |agent| &agent.definition.name);
    if can_be_denied(tool) && grants.revokes(name, tool) {
        return false;
    }
    match agent {
        None => tool != READ_SKILL,
        Some(agent) => agent.offers(tool) || agent.is_granted(tool, grants),
    }
}

/// An agent can lack the state tool.
fn is_deniable(tool: &str) -> bool {
    DENIABLE.contains(&tool) || tool.starts_with(OF_MEMORY)
}

impl Session {
    /// The agent of that digest, if a context or the newest run may still use it.
    pub fn agent(&self, used: &AgentUse) -> Option<&Agent> {
        self.agents.get(&used.digest).map(Arc::as_ref)
    }

    /// The agent of a run; none for the plain default.
    pub fn agent_of_run(&self, run: u32) -> Option<&Agent> {
        self.agent(self.run(run)?.agent.as_ref()?)
    }

    /// The agent of the run that an attempt belongs to; none for the plain default.
    pub fn agent_of(&self, attempt: AttemptRef) -> Option<&Agent> {
        self.agent_of_run(attempt.run)
    }

    /// The name of a run's agent, by which rules and approvals know it.
    pub fn agent_name(&self, run: u32) -> &str {
        let run = self.run(run);
        name_of(run.and_then(|run| run.agent.as_ref()))
    }

    /// The attempt's agent may call the tool, if there is one of that name.
    pub(super) fn agent_offers(&self, attempt: AttemptRef, tool: &str, grants: &Grants) -> bool {
        let used = self.run(attempt.run).and_then(|run| run.agent.as_ref());
        match used.map(|used| self.agent(used)) {
            None => may_call(None, tool, grants),
            // One that the session has lost offers nothing.
            Some(agent) => agent.is_some() && may_call(agent, tool, grants),
        }
    }

    /// The definition of the attempt's agent, or what the operator revoked, keeps the tool from it.
    pub(crate) fn is_kept_from(&self, attempt: AttemptRef, tool: &str, grants: &Grants) -> bool {
        let agent = self.agent_of(attempt);
        (agent.is_some() || tool != READ_SKILL) && !may_call(agent, tool, grants)
    }

    /// When and how far the conversation of an attempt is compacted. `settings` count where its agent says
    /// nothing.
    pub fn compaction(&self, attempt: AttemptRef, settings: Compaction) -> Compaction {
        let own = self.agent_of(attempt);
        let own = own
            .map(|agent| agent.definition.compaction)
            .unwrap_or_default();
        Compaction {
            at_permille: own.at_permille.unwrap_or(settings.at_permille),
            keep_turns: own.keep_turns.unwrap_or(settings.keep_turns),
        }
    }

    /// What the agent of an attempt says of a full window.
    pub(super) fn agent_when_full(&self, attempt: AttemptRef) -> Option<WhenFull> {
        self.agent_of(attempt)?.definition.compaction.when_full
    }

    /// How much of a context the requests of an agent have; none for all.
    pub(crate) fn agent_window(&self, used: Option<&AgentUse>) -> Option<u32> {
        self.agent(used?)?.definition.window
    }

    /// What is used here has a definition.
    ///
    /// # Errors
    /// It has none.
    pub(crate) fn check_agent(&self, used: Option<&AgentUse>) -> Applied {
        match used {
            Some(used) if !self.agents.contains_key(&used.digest) => Err(
                IllegalTransition::missing(format_args!("agent {}", used.name)),
            ),
            _ => Ok(()),
        }
    }

    /// Drops what nothing names: no context, and not the newest run, which another plan may open again. A
    /// queued turn uses the agent of its context.
    fn forget_agents(&mut self) {
        if self.agents.is_empty() {
            return;
        }
        let contexts = self.contexts.values().flat_map(|context| names(context));
        let run = self.runs.last().into_iter().flat_map(names_of_run);
        let named: BTreeSet<String> = contexts
            .chain(run)
            .map(|used| used.digest.clone())
            .collect();
        self.agents.retain(|digest, _| named.contains(digest));
    }
}

/// What a context uses, and what it used before a switch that its model does not know of.
fn names(context: &Context) -> impl Iterator<Item = &AgentUse> {
    let before = context.switched.as_ref();
    let before = before.and_then(|switched| switched.from.as_ref());
    context.agent.iter().chain(before)
}

fn names_of_run(run: &Run) -> impl Iterator<Item = &AgentUse> {
    let before = run.turn.as_ref().and_then(|turn| turn.switched.as_ref());
    let before = before.and_then(|switched| switched.from.as_ref());
    run.agent.iter().chain(before)
}

impl Apply for AgentDefined {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        if session.agents.contains_key(&self.digest) {
            let what = format_args!("agent {}", self.agent.name);
            return Err(IllegalTransition::not_allowed(what, "defined", "defined"));
        }
        session.forget_agents();
        let agent = Agent::new(Arc::clone(&self.agent), self.capabilities.clone());
        session.agents.insert(self.digest.clone(), Arc::new(agent));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Grant;
    use std::collections::BTreeMap;

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn grants(agent: &str, granted: &[&str], revoked: &[&str]) -> Grants {
        let grant = Grant {
            granted: list(granted).into_iter().collect(),
            revoked: list(revoked).into_iter().collect(),
        };
        Grants(BTreeMap::from([(agent.to_owned(), grant)]))
    }

    #[test]
    fn a_grant_adds_to_the_list_and_overrides_no_denial() {
        let definition = AgentDefinition {
            tools: Some(list(&["look"])),
            denied: list(&["pay"]),
            ..AgentDefinition::named("reviewer")
        };
        let agent = Agent::new(Arc::new(definition), String::new());
        let granted = grants("reviewer", &["send", "pay"], &["look"]);
        for (tool, before, now) in [
            ("look", true, false),
            ("send", false, true),
            ("pay", false, false),
            ("step", true, true),
        ] {
            let may = |given: &Grants| may_call(Some(&agent), tool, given);
            assert_eq!(may(Grants::none()), before, "{tool}");
            assert_eq!(may(&granted), now, "{tool}");
            let of_others = grants("other", &["send", "pay"], &["look"]);
            assert_eq!(may(&of_others), before, "{tool}");
        }
    }

    #[test]
    fn only_state_tools_that_an_agent_can_lack_are_taken_from_it() {
        let revoked = grants(DEFAULT_AGENT, &[], &["step", "session_memory_set", "look"]);
        let lost = ["step", "session_memory_set", "look"].map(|it| !may_call(None, it, &revoked));
        assert_eq!(lost, [false, true, true]);
    }
}
