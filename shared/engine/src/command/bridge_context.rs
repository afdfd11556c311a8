//! Hands facts from one context to another, through session memory.

#![allow(missing_docs)] // Fields are described once, in `cairn/event/v1/event.proto`.

use super::Handle;
use crate::decide::{Decision, Rejection};
use crate::event::ContextChanged;
use crate::refusal::Refusal;
use serde::{Deserialize, Serialize};

/// Store pairs in session memory, and renew what the other context knows of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BridgeContext {
    pub from: String,
    pub to: String,
    pub values: Vec<(String, String)>,
}

impl Handle for BridgeContext {
    const BEGINS_WORK: bool = true;

    fn handle(self, decision: &mut Decision<'_>) -> Result<(), Rejection> {
        decision.known_context(&self.from)?;
        let to = decision.session.context_name(&self.to).to_owned();
        let has_prompt = !decision.free_context(&to)?.conversation.system.is_empty();
        decision.check_pairs(&self.values)?;
        if decision.session.context_name(&self.from) == to {
            let message = format!(
                "both contexts are '{to}'; name two, and an empty name is the active context"
            );
            return Err(Rejection::refused(Refusal::BadContext, message));
        }
        if !has_prompt {
            decision.write_layers(&to)?;
        }
        decision.set_pairs(self.values)?;
        let version = decision.known_context(&to)?.version + 1;
        let memory = decision.memory_layer();
        decision.answer(ContextChanged::of_context(&to, version, vec![memory]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::testing::Sent;
    use crate::command::{CreateContext, SubmitTurn};
    use crate::conversation::LayerKind;
    use crate::message::Message;

    fn bridge(from: &str, to: &str) -> BridgeContext {
        BridgeContext {
            from: from.to_owned(),
            to: to.to_owned(),
            values: vec![("fact".to_owned(), "it rains".to_owned())],
        }
    }

    fn with_side() -> Sent {
        let mut sent = Sent::new();
        sent.send(CreateContext {
            name: "side".to_owned(),
            ..CreateContext::default()
        });
        sent
    }

    #[test]
    fn the_other_context_knows_the_values() {
        let mut sent = with_side();
        let before = sent.session.context("side").expect("side").version;
        sent.send(bridge("", "side"));
        assert_eq!(sent.session.memory["fact"], "it rains");
        let side = sent.session.context("side").expect("side");
        assert_eq!(side.version, before + 1);
        let memory = side.conversation.layer(LayerKind::Memory);
        assert!(memory.expect("a layer").text.contains("fact: it rains"));
        assert!(side.is_empty(), "no message tells of it");
        let main = sent.session.context("main").expect("main");
        assert_eq!(main.version, 0);
    }

    #[test]
    fn both_contexts_are_known_and_the_other_one_is_free() {
        let mut sent = with_side();
        assert_eq!(sent.refused(bridge("none", "side")), Refusal::ContextNotFound);
        assert_eq!(sent.refused(bridge("main", "none")), Refusal::ContextNotFound);
        sent.send(SubmitTurn {
            context: "side".to_owned(),
            message: Some(Message::user("hello")),
            ..SubmitTurn::default()
        });
        assert_eq!(sent.refused(bridge("main", "side")), Refusal::ContextBusy);
        sent.send(bridge("side", "main"));
        assert_eq!(sent.session.memory["fact"], "it rains");
    }

    #[test]
    fn one_context_under_two_names_is_no_bridge() {
        let mut sent = with_side();
        for (from, to) in [("main", "main"), ("", ""), ("main", ""), ("", "main")] {
            assert_eq!(sent.refused(bridge(from, to)), Refusal::BadContext, "{from} {to}");
        }
        assert!(!sent.session.memory.contains_key("fact"));
    }
}
