//! Gives a context another agent.

#![allow(missing_docs)] // Fields are described once, in `cairn/event/v1/event.proto`.

use super::Handle;
use crate::decide::{Decision, Rejection};
use crate::event::AgentUse;
use crate::session::{Apply, Envelope, Session};
use crate::transitions::Applied;
use serde::{Deserialize, Serialize};

/// Give a context another agent, from its next turn on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchAgent {
    pub context: String,
    pub agent: String,
}

/// A context has another agent.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentSwitched {
    pub context: String,
    pub agent: Option<AgentUse>,
}

impl Handle for SwitchAgent {
    const BEGINS_WORK: bool = true;

    fn handle(self, decision: &mut Decision<'_>) -> Result<(), Rejection> {
        let context = decision.session.context_name(&self.context).to_owned();
        decision.known_context(&context)?;
        let agent = decision.agent_named(&self.agent)?;
        let agent = decision.define(agent)?;
        decision.answer(AgentSwitched { context, agent })
    }
}

impl Apply for AgentSwitched {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        session.check_agent(self.agent.as_ref())?;
        let window = session.agent_window(self.agent.as_ref());
        // The window moves between turns only: the next turn brings it otherwise.
        let is_at_rest = session.active_turn_of(&self.context).is_none();
        let context = session.context_mut(&self.context)?;
        context.switch_agent(self.agent.clone());
        if is_at_rest {
            context.conversation.use_agent_window(window);
        }
        Ok(())
    }
}
