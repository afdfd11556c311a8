//! What people approved for the rest of a session.

#![allow(missing_docs)] // Fields of events are described once, in `cairn/event/v1/event.proto`.

use super::{Apply, Envelope, Session};
use crate::principal::Principal;
use crate::rules::{Called, Condition, Conditions, GrantScope};
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
    pub scope: Option<GrantScope>,
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
    /// What it wants of a call, where it has no scope.
    pub when: Conditions,
    /// The calls that it covers whatever their values are. None for those that meet the conditions.
    pub scope: Option<GrantScope>,
    /// The agent whose calls it covers.
    pub agent: String,
    /// When it was given: milliseconds since 1970.
    pub at: u64,
    /// Who gave it.
    pub principal: Option<Principal>,
}

impl Grant {
    /// It lets this call of an agent through. `tool_digest` is that of the tool that the call is meant for. Nothing
    /// unclear matches a pattern.
    pub fn covers(&self, call: &Called<'_>, tool_digest: &str, agent: &str) -> bool {
        let is_of_tool =
            (self.tool.as_str(), self.tool_digest.as_str()) == (call.tool, tool_digest);
        let is_covered = match &self.scope {
            None => is_of_tool && self.when.covers(call.scope),
            Some(scope @ GrantScope::Server(_)) => scope.covers(call),
            Some(scope) => is_of_tool && scope.covers(call),
        };
        self.agent == agent && is_covered
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
            when: self.when.clone().into(),
            scope: self.scope.clone(),
            agent: self.agent.clone(),
            at: envelope.at,
            principal: envelope.principal.cloned(),
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;
    use crate::limits::MAX_GRANTS;
    use crate::rules::{DEFAULT_AGENT, compiled, scope};

    fn granted(grant: u32) -> Event {
        let condition = Condition {
            name: "path".to_owned(),
            pattern: format!("docs/{grant}/**"),
        };
        let granted = ApprovalGranted {
            grant,
            tool: "edit".to_owned(),
            tool_digest: "first".to_owned(),
            when: vec![condition],
            agent: DEFAULT_AGENT.to_owned(),
            scope: None,
        };
        Event {
            at: 1,
            answers: 0,
            principal: None,
            kind: granted.into(),
        }
    }

    #[test]
    fn a_judgement_under_many_approvals_compiles_no_pattern() {
        let mut session = Session::default();
        for grant in 1..=u32::try_from(MAX_GRANTS).unwrap() {
            session.apply(grant.into(), &granted(grant)).unwrap();
        }
        let read = Session::from_checkpoint(&session.to_checkpoint().unwrap()).unwrap();
        assert_eq!(read, session);
        for session in [session, read] {
            let before = compiled();
            let covering = |path: &str| {
                let arguments = serde_json::json!({ "path": path }).to_string();
                let scope = scope(&[], &arguments, &[]);
                let grants = session.grants.iter();
                let call = Called {
                    tool: "edit",
                    server: None,
                    scope: &scope,
                    arguments: &arguments,
                };
                let covers = |grant: &&Grant| grant.covers(&call, "first", DEFAULT_AGENT);
                grants.filter(covers).count()
            };
            assert_eq!((covering("docs/200/a"), covering("out/a")), (1, 0));
            assert_eq!(compiled() - before, 0, "patterns");
        }
    }
}
