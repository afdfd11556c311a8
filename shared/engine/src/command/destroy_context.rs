//! Destroys a context, and keeps what it concluded.

#![allow(missing_docs)] // Fields are described once, in `cairn/event/v1/event.proto`.

use super::{Handle, SubmitTurn};
use crate::decide::{Decision, Rejection};
use crate::event::MemorySet;
use crate::session::{Apply, Envelope, MAIN, Session};
use crate::transitions::{Applied, IllegalTransition};
use serde::{Deserialize, Serialize};

/// Destroy a context.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DestroyContext {
    pub context: String,
    /// Pairs for session memory, by key.
    pub conclusions: Vec<(String, String)>,
    /// The model writes them first, in one last turn.
    pub ask_model: bool,
}

/// A context was destroyed.
#[derive(Debug, Clone, PartialEq)]
pub struct ContextDestroyed {
    pub context: String,
}

impl Handle for DestroyContext {
    const BEGINS_WORK: bool = true;

    fn handle(self, decision: &mut Decision<'_>) -> Result<(), Rejection> {
        let context = decision.session.context_name(&self.context).to_owned();
        let known = decision.free_context(&context)?;
        if context == MAIN {
            let message = "context 'main' is part of every session; clear it instead";
            return Err(Rejection::refused("BAD_CONTEXT", message));
        }
        let is_empty = known.is_empty();
        decision.check_pairs(&self.conclusions)?;
        if self.ask_model && !is_empty {
            if let Some(active) = decision.session.active_run() {
                let message = format!("run {} is active; wait for its end or cancel it", active.number);
                return Err(Rejection::refused("RUN_ACTIVE", message));
            }
            decision.set_pairs(self.conclusions)?;
            let turn = SubmitTurn {
                context,
                ..SubmitTurn::conclusion()
            };
            return decision.start_turn(turn, 0);
        }
        decision.set_pairs(self.conclusions)?;
        decision.answer(ContextDestroyed { context })
    }
}

impl Decision<'_> {
    /// Stores pairs that were checked.
    pub(crate) fn set_pairs(&mut self, pairs: Vec<(String, String)>) -> Result<(), Rejection> {
        for (key, value) in pairs {
            self.take_up(MemorySet { key, value })?;
        }
        Ok(())
    }
}

impl Apply for ContextDestroyed {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        if self.context == MAIN || session.contexts.remove(&self.context).is_none() {
            let what = format_args!("context {}", self.context);
            return Err(IllegalTransition::missing(what));
        }
        if session.active_context == self.context {
            session.active_context = MAIN.to_owned();
        }
        Ok(())
    }
}
