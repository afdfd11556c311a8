//! Hands facts from one context to another, through session memory.

#![allow(missing_docs)] // Fields are described once, in `cairn/event/v1/event.proto`.

use super::Handle;
use crate::conversation::{Layer, LayerKind, Op};
use crate::decide::{Decision, Rejection};
use crate::event::ContextChanged;
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
        let version = decision.free_context(&to)?.version + 1;
        decision.check_pairs(&self.values)?;
        decision.set_pairs(self.values)?;
        let text = decision.session.memory.snapshot().to_owned();
        let layer = Layer {
            kind: LayerKind::Memory,
            text,
        };
        decision.answer(ContextChanged::of_context(&to, version, vec![Op::SetLayer(layer)]))
    }
}
