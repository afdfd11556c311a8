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
    const BEGINS_WORK: bool = false;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::CreateContext;
    use crate::command::testing::Sent;
    use crate::refusal::Refusal;

    fn switch(context: &str) -> SwitchContext {
        SwitchContext {
            context: context.to_owned(),
        }
    }

    #[test]
    fn the_context_is_the_one_of_an_empty_name() {
        let mut sent = Sent::new();
        sent.send(CreateContext {
            name: "side".to_owned(),
            ..CreateContext::default()
        });
        for name in ["side", "side", "main"] {
            sent.send(switch(name));
            assert_eq!(sent.session.context_name(""), name);
        }
    }

    #[test]
    fn an_unknown_context_changes_nothing() {
        let mut sent = Sent::new();
        assert_eq!(sent.refused(switch("side")), Refusal::ContextNotFound);
    }
}
