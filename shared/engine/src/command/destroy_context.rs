//! Destroys a context, and keeps what it concluded.

#![allow(missing_docs)] // Fields are described once, in `cairn/event/v1/event.proto`.

use super::{Handle, SubmitTurn};
use crate::decide::{Decision, Rejection};
use crate::event::{MemorySet, MemoryWriter};
use crate::refusal::Refusal;
use crate::session::{Apply, Envelope, MAIN, Session};
use crate::transitions::{Applied, IllegalTransition};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
            let message = "context 'main' stays as long as its session; begin a new context or a new session instead";
            return Err(Rejection::refused(Refusal::BadContext, message));
        }
        let is_empty = known.is_empty();
        if let Some(run) = decision.session.active_turn_of(&context) {
            let message = format!(
                "run {} is a turn of context '{context}' and has not ended; wait for its end or cancel it",
                run.number
            );
            return Err(Rejection::refused(Refusal::ContextBusy, message));
        }
        decision.check_pairs(&self.conclusions)?;
        if self.ask_model && !is_empty {
            if let Some(active) = decision.session.active_run() {
                let message = format!("run {} is active; wait for its end or cancel it", active.number);
                return Err(Rejection::refused(Refusal::RunActive, message));
            }
            let agent = decision.agent_of_context(&context)?;
            decision.pins(agent.as_deref())?;
            decision.set_pairs(self.conclusions)?;
            let turn = SubmitTurn {
                context,
                ..SubmitTurn::conclusion()
            };
            return decision.start_turn(turn, agent, None);
        }
        decision.set_pairs(self.conclusions)?;
        decision.answer(ContextDestroyed { context })
    }
}

impl Decision<'_> {
    /// Stores pairs that were checked.
    pub(crate) fn set_pairs(&mut self, pairs: Vec<(String, String)>) -> Result<(), Rejection> {
        for (key, value) in pairs {
            let writer = Some(MemoryWriter::Command);
            let metadata = BTreeMap::new();
            self.take_up(MemorySet {
                key,
                value,
                writer,
                metadata,
            })?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::testing::Sent;
    use crate::command::{CreateContext, SwitchContext};
    use crate::event::EventKind;
    use crate::message::Message;

    /// A session whose active context is `side`.
    fn with_side(immutable: Vec<Message>) -> Sent {
        let mut sent = Sent::new();
        sent.send(CreateContext {
            name: "side".to_owned(),
            immutable,
            ..CreateContext::default()
        });
        sent.send(SwitchContext {
            context: "side".to_owned(),
        });
        sent
    }

    fn destroy(context: &str) -> DestroyContext {
        DestroyContext {
            context: context.to_owned(),
            conclusions: vec![("key".to_owned(), "value".to_owned())],
            ask_model: false,
        }
    }

    #[test]
    fn conclusions_stay_and_main_is_active_again() {
        let mut sent = with_side(vec![Message::user("hello")]);
        let events = sent.send(destroy(""));
        assert!(matches!(
            &events[..],
            [EventKind::MemorySet(_), EventKind::ContextDestroyed(it)] if it.context == "side"
        ));
        assert_eq!(sent.session.active_context, MAIN);
        assert!(sent.session.context("side").is_none());
        assert_eq!(sent.session.memory["key"], "value");
    }

    #[test]
    fn without_conclusions_nothing_is_stored() {
        let mut sent = with_side(vec![Message::user("hello")]);
        let events = sent.send(DestroyContext::default());
        assert!(matches!(&events[..], [EventKind::ContextDestroyed(_)]));
        assert!(sent.session.memory.is_empty());
    }

    #[test]
    fn the_model_is_asked_first_if_there_is_anything_to_conclude() {
        let asking = || DestroyContext {
            ask_model: true,
            ..destroy("side")
        };
        let mut sent = with_side(vec![Message::user("hello")]);
        let events = sent.send(asking());
        let is_start = |event: &EventKind| matches!(event, EventKind::RunStarted(_));
        assert!(events.iter().any(is_start), "{events:?}");
        assert!(sent.session.context("side").is_some());
        assert_eq!(sent.refused(asking()), Refusal::ContextBusy);
        let mut empty = with_side(Vec::new());
        empty.send(asking());
        assert!(empty.session.context("side").is_none());
    }

    #[test]
    fn main_and_unknown_contexts_are_refused() {
        let mut sent = with_side(Vec::new());
        assert_eq!(sent.refused(destroy(MAIN)), Refusal::BadContext);
        assert_eq!(sent.refused(destroy("other")), Refusal::ContextNotFound);
        let faulty = DestroyContext {
            conclusions: vec![(String::new(), String::new())],
            ..destroy("side")
        };
        assert_eq!(sent.refused(faulty), Refusal::BadPair);
        assert!(sent.session.context("side").is_some());
    }
}
