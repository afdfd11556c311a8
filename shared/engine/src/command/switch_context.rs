//! Makes another context the active one.

#![allow(missing_docs)] // Fields are described once, in `cairn/event/v1/event.proto`.

use super::Handle;
use crate::decide::{Decision, Rejection};
use crate::session::{Apply, Envelope, Session};
use crate::transitions::Applied;
use serde::{Deserialize, Serialize};

/// Make another context the active one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchContext {
    pub context: String,
}

/// Another context is the active one.
#[derive(Debug, Clone, PartialEq)]
pub struct ContextSwitched {
    pub context: String,
}

impl Handle for SwitchContext {
    fn handle(self, decision: &mut Decision<'_>) -> Result<(), Rejection> {
        let context = decision.session.context_name(&self.context).to_owned();
        decision.known_context(&context)?;
        decision.answer(ContextSwitched { context })
    }
}

impl Apply for ContextSwitched {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        session.context_mut(&self.context)?;
        session.active_context.clone_from(&self.context);
        Ok(())
    }
}
