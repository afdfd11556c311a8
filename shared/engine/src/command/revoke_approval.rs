//! Ends an approval of further calls.

#![allow(missing_docs)] // Fields are described once, in `cairn/event/v1/event.proto`.

use super::Handle;
use crate::decide::{Decision, Rejection};
use crate::refusal::Refusal;
use crate::session::{Apply, Envelope, Session};
use crate::transitions::{Applied, IllegalTransition};
use serde::{Deserialize, Serialize};

/// End an approval of further calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevokeApproval {
    pub grant: u32,
}

/// An approval of further calls holds no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApprovalRevoked {
    pub grant: u32,
}

impl Handle for RevokeApproval {
    const BEGINS_WORK: bool = false;

    fn handle(self, decision: &mut Decision<'_>) -> Result<(), Rejection> {
        let Self { grant } = self;
        if !decision.session.grants.iter().any(|it| it.number == grant) {
            let message = format!("approval {grant} is not in force in this session");
            return Err(Rejection::refused(Refusal::NoSuchApproval, message));
        }
        decision.answer(ApprovalRevoked { grant })
    }
}

impl Apply for ApprovalRevoked {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        let at = session.grants.iter().position(|it| it.number == self.grant);
        let at = at.ok_or_else(|| IllegalTransition::missing(format!("approval {}", self.grant)))?;
        session.grants.remove(at);
        Ok(())
    }
}
