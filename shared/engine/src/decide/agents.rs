//! Which agent a run or a context uses.

use super::{Decision, Rejection, is_state_tool, words};
use crate::agent::{AgentDefinition, asked_name};
use crate::command::Command;
use crate::event::{AgentDefined, AgentUse};
use crate::plan::PlanDraft;
use crate::pool::Grants;
use crate::refusal::Refusal;
use crate::rules::DEFAULT_AGENT;
use crate::session::{Agent, Session, may_call, name_of};
use crate::transitions::IllegalTransition;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What there is of an agent: its definition, or none for the plain default agent, or why it cannot be used.
pub type ResolvedAgent = Result<Option<Arc<AgentDefinition>>, AgentFault>;

/// What the outside knows of agents, by their names as commands give them. The empty name is the default agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Agents(pub BTreeMap<String, ResolvedAgent>);

/// Why an agent cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentFault {
    /// The reason of the refusal.
    pub refusal: Refusal,
    /// For people: what is wrong, and what there is.
    pub message: String,
}

impl Agents {
    /// Nothing is known of any agent.
    pub fn none() -> &'static Self {
        static NONE: Agents = Agents(BTreeMap::new());
        &NONE
    }

    /// What is known of the agent of that name.
    pub fn get(&self, name: &str) -> Option<&ResolvedAgent> {
        self.0.get(asked_name(name))
    }
}

/// The names of the agents that commands will ask for: those that wait in the session, and `extra`. The empty
/// name is the default agent.
pub fn agents_needed(session: &Session, extra: Option<&Command>) -> BTreeSet<String> {
    let waiting = session.commands.values().map(|received| &received.command);
    let names = waiting.chain(extra).filter_map(|command| match command {
        Command::StartRun(start) => Some(start.agent.as_str()),
        Command::CreateContext(create) => Some(create.agent.as_str()),
        Command::SwitchAgent(switch) => Some(switch.agent.as_str()),
        Command::SubmitTurn(turn) => name_in(session, &turn.context),
        // A turn behind it is one of that context.
        Command::SwitchContext(switch) => name_in(session, &switch.context),
        _ => None,
    });
    names.map(|name| asked_name(name).to_owned()).collect()
}

/// The name of a context's agent. None if there is no such context.
fn name_in<'s>(session: &'s Session, context: &str) -> Option<&'s str> {
    let context = session.contexts.get(session.context_name(context))?;
    Some(name_of(context.agent.as_ref()))
}

impl Decision<'_> {
    /// The agent that a command names; none for the plain default agent. One of which nothing is known now is
    /// as the session has it.
    pub(crate) fn agent_named(
        &self,
        name: &str,
    ) -> Result<Option<Arc<AgentDefinition>>, Rejection> {
        match self.facts.agents.get(name) {
            Some(Ok(known)) => Ok(known.clone().filter(|agent| !agent.is_plain())),
            Some(Err(fault)) => Err(Rejection::refused(fault.refusal, fault.message.clone())),
            None => self.pinned(name),
        }
    }

    /// The agent of a turn in this context, which has the newest definition of that name. An agent that the
    /// operator stored does not become the one of a file of its name when it is deleted: that one has another
    /// prompt and other tools, and no rule for the stored agent is for it.
    pub(crate) fn agent_of_turn(
        &self,
        context: &str,
    ) -> Result<Option<Arc<AgentDefinition>>, Rejection> {
        let used = self.known_context(context)?.agent.as_ref();
        let name = name_of(used);
        match self.facts.agents.get(name) {
            Some(_) => same_agent(name, self.agent_named(name)?),
            None => Ok(self.used_definition(used)),
        }
    }

    /// The agent of a context as the session has it: for what ends or shortens the context, which no change of
    /// a file prevents.
    pub(crate) fn agent_of_context(
        &self,
        context: &str,
    ) -> Result<Option<Arc<AgentDefinition>>, Rejection> {
        let used = self.known_context(context)?.agent.as_ref();
        Ok(self.used_definition(used))
    }

    fn used_definition(&self, used: Option<&AgentUse>) -> Option<Arc<AgentDefinition>> {
        let agent = self.session.agent(used?)?;
        Some(Arc::clone(&agent.definition))
    }

    /// The definition that the session has under this name. The default agent may have none.
    fn pinned(&self, name: &str) -> Result<Option<Arc<AgentDefinition>>, Rejection> {
        let name = match asked_name(name) {
            "" => DEFAULT_AGENT,
            name => name,
        };
        let mut agents = self.session.agents.values();
        match agents.find(|agent| agent.definition.name == name) {
            Some(agent) => Ok(Some(Arc::clone(&agent.definition))),
            None if name == DEFAULT_AGENT => Ok(None),
            // Another agent in its place could do more than it may.
            None => {
                let message = format!("agent '{name}' cannot be read now; try again");
                Err(Rejection::refused(Refusal::AgentNotUsable, message))
            }
        }
    }

    /// The use of a definition, which the journal has from now on.
    pub(crate) fn define(
        &mut self,
        agent: Option<Arc<AgentDefinition>>,
    ) -> Result<Option<AgentUse>, IllegalTransition> {
        let Some(agent) = agent else {
            return Ok(None);
        };
        let used = AgentUse {
            name: agent.name.clone(),
            digest: agent.digest(),
        };
        if !self.session.agents.contains_key(&used.digest) {
            self.emit(AgentDefined {
                digest: used.digest.clone(),
                capabilities: words::capabilities(&agent),
                agent,
            })?;
        }
        Ok(Some(used))
    }

    /// The agent of a run may make every call of a plan.
    pub(crate) fn check_plan_of_run(&self, run: u32, plan: &PlanDraft) -> Result<(), Rejection> {
        checked_plan(
            self.session.agent_of_run(run),
            plan,
            &self.facts.pool.grants,
        )
    }
}

/// The definition, which is that of the agent with this name.
///
/// # Errors
/// It is another agent's.
fn same_agent(
    name: &str,
    now: Option<Arc<AgentDefinition>>,
) -> Result<Option<Arc<AgentDefinition>>, Rejection> {
    let other = now.as_ref().filter(|now| now.name != name);
    match other.map(|other| &other.name) {
        None => Ok(now),
        Some(other) => {
            let message = format!(
                "agent '{name}' does not exist any more, and '{other}' is another agent; switch the context to \
                 an agent that exists, or to 'default'"
            );
            Err(Rejection::refused(Refusal::AgentNotFound, message))
        }
    }
}

/// The agent may make every call of a plan.
///
/// # Errors
/// The refusal that names the first step of which it may not.
pub(crate) fn check_given_plan(
    agent: Option<&Arc<AgentDefinition>>,
    plan: &PlanDraft,
    grants: &Grants,
) -> Result<(), Rejection> {
    let agent = agent.map(|it| Agent::new(Arc::clone(it), String::new()));
    checked_plan(agent.as_ref(), plan, grants)
}

fn checked_plan(agent: Option<&Agent>, plan: &PlanDraft, grants: &Grants) -> Result<(), Rejection> {
    match check_plan(agent, plan, grants) {
        None => Ok(()),
        Some(message) => Err(Rejection::refused(Refusal::ToolNotAllowed, message)),
    }
}

/// The agent may call each of these tools, which a turn names.
///
/// # Errors
/// The refusal that names the first one that it may not.
pub(crate) fn check_tools_of_turn(
    agent: Option<&Arc<AgentDefinition>>,
    tools: &[String],
    grants: &Grants,
) -> Result<(), Rejection> {
    let agent = agent.map(|it| Agent::new(Arc::clone(it), String::new()));
    let denied = tools
        .iter()
        .find(|tool| !may_call(agent.as_ref(), tool, grants));
    match denied {
        None => Ok(()),
        Some(tool) => {
            let name = agent.map_or(DEFAULT_AGENT.to_owned(), |it| it.definition.name.clone());
            let message =
                format!("options.tools names '{tool}', which agent '{name}' may not call");
            Err(Rejection::refused(Refusal::ToolNotAllowed, message))
        }
    }
}

/// What is wrong with a plan for this agent; none if it may make every call of it.
pub(super) fn check_plan(
    agent: Option<&Agent>,
    plan: &PlanDraft,
    grants: &Grants,
) -> Option<String> {
    let calls = plan.steps.iter().zip(1..);
    let mut calls = calls.filter_map(|(step, number)| Some((number, &step.tool.as_ref()?.name)));
    // That no plan names a state tool is checked for every agent.
    let may_make =
        |tool: &str| (agent.is_none() && is_state_tool(tool)) || may_call(agent, tool, grants);
    let (number, tool) = calls.find(|(_, tool)| !may_make(tool))?;
    let name = agent.map_or(DEFAULT_AGENT, |agent| &agent.definition.name);
    Some(format!(
        "step {number} calls '{tool}', which agent '{name}' may not call; take another tool, or another agent"
    ))
}
