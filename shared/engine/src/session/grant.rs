//! What people approved for the rest of a session.

#![allow(missing_docs)] // Fields of events are described once, in `cairn/event/v1/event.proto`.

use super::{Apply, Envelope, Session};
use crate::principal::Principal;
use crate::rules::{Condition, Scope, covers};
use crate::transitions::{Applied, IllegalTransition};
use serde::{Deserialize, Serialize};

/// Calls like the one that a person approved need no further approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalGranted {
    pub grant: u32,
    pub tool: String,
    pub tool_digest: String,
    pub when: Vec<Condition>,
    pub agent: String,
}

/// An approval of further calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// From 1 within the session.
    pub number: u32,
    /// Name of the tool.
    pub tool: String,
    /// The tool as it was approved. Another one is asked about again.
    pub tool_digest: String,
    /// All of them must match.
    pub when: Vec<Condition>,
    /// The agent whose calls it covers.
    pub agent: String,
    /// When it was given: milliseconds since 1970.
    pub at: u64,
    /// Who gave it.
    pub principal: Option<Principal>,
}

impl Grant {
    /// It lets this call through. Nothing unclear matches a pattern.
    pub fn covers(&self, tool: &str, tool_digest: &str, agent: &str, scope: &Scope) -> bool {
        (
            self.tool.as_str(),
            self.tool_digest.as_str(),
            self.agent.as_str(),
        ) == (tool, tool_digest, agent)
            && covers(&self.when, scope)
    }
}

impl Apply for ApprovalGranted {
    fn apply(&self, session: &mut Session, envelope: Envelope<'_>) -> Applied {
        if self.grant != session.grants_given + 1 {
            let what = format_args!("approval {}", self.grant);
            return Err(IllegalTransition::not_allowed(
                what,
                session.grants_given,
                "next",
            ));
        }
        session.grants_given = self.grant;
        session.grants.push(Grant {
            number: self.grant,
            tool: self.tool.clone(),
            tool_digest: self.tool_digest.clone(),
            when: self.when.clone(),
            agent: self.agent.clone(),
            at: envelope.at,
            principal: envelope.principal.cloned(),
        });
        Ok(())
    }
}
