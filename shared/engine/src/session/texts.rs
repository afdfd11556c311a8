//! The texts of system prompts. Each is in the state once: conversations share it, and a checkpoint has it
//! under its number.

use super::{Attempt, Session, StepStatus};
use crate::conversation::{KnownLayer, Layer, LayerKind, Op};
use crate::transitions::IllegalTransition;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Session {
    /// Numbers the layers that are written, and puts the text of a known layer in its place.
    pub(super) fn with_texts(&mut self, ops: Vec<Op>) -> Result<Vec<Op>, IllegalTransition> {
        let mut whole = Vec::with_capacity(ops.len());
        for op in ops {
            let layer = match op {
                Op::SetLayer(layer) => {
                    self.texts_written += 1;
                    let number = self.texts_written;
                    Layer { number, ..layer }
                }
                Op::UseLayer(known) => self.known_layer(known)?,
                op => {
                    whole.push(op);
                    continue;
                }
            };
            self.layers.insert(layer.kind, layer.clone());
            whole.push(Op::SetLayer(layer));
        }
        Ok(whole)
    }

    fn known_layer(&self, known: KnownLayer) -> Result<Layer, IllegalTransition> {
        let KnownLayer {
            kind,
            number,
            through,
            names,
        } = known;
        let mut layers = self.all_layers();
        let found = layers.find(|layer| (layer.kind, layer.number) == (kind, number));
        let found =
            found.ok_or_else(|| IllegalTransition::missing(format_args!("text {number}")))?;
        Ok(Layer {
            kind,
            text: Arc::clone(&found.text),
            number,
            through,
            names,
            // The text says so.
            allotted: found.allotted.clone(),
        })
    }

    /// The number of a layer with this text, if there is one.
    pub(crate) fn number_of(&self, kind: LayerKind, text: &str) -> Option<u32> {
        let mut layers = self.all_layers();
        let found = layers.find(|layer| layer.kind == kind && *layer.text == *text)?;
        Some(found.number)
    }

    /// All layers of the state: those written last, of contexts, and of attempts.
    fn all_layers(&self) -> impl Iterator<Item = &Layer> {
        let contexts = self.contexts.values();
        let contexts = contexts.flat_map(|context| &context.conversation.system);
        let attempts = self.active_run().into_iter();
        let attempts = attempts.flat_map(|run| run.running_attempts());
        let attempts = attempts.flat_map(|(_, _, attempt)| layers_of(attempt));
        self.layers.values().chain(contexts).chain(attempts)
    }

    /// The text of each layer by its number.
    pub(crate) fn texts(&self) -> BTreeMap<u32, &str> {
        let layers = self.all_layers();
        layers.map(|layer| (layer.number, &*layer.text)).collect()
    }

    /// Gives the layers of a state that was stored their texts again. None if one is missing.
    pub(crate) fn take_texts(&mut self, texts: &BTreeMap<u32, Arc<str>>) -> Option<()> {
        let contexts = self.contexts.values_mut();
        let contexts = contexts.flat_map(|context| &mut context.conversation.system);
        let active = self.runs.last_mut();
        let active = active.filter(|run| !run.status.is_terminal());
        let plan = active.and_then(|run| run.plan.as_mut());
        let attempts = plan.into_iter().flat_map(|plan| &mut plan.steps);
        let attempts = attempts.filter_map(|step| match &mut step.status {
            StepStatus::Running(attempt) => Some(attempt),
            _ => None,
        });
        let attempts = attempts.flat_map(|attempt| layers_of_mut(attempt));
        let layers = self.layers.values_mut().chain(contexts).chain(attempts);
        for layer in layers {
            layer.text = Arc::clone(texts.get(&layer.number)?);
        }
        Some(())
    }
}

fn layers_of(attempt: &Attempt) -> impl Iterator<Item = &Layer> {
    let waiting = attempt.waiting_ops.iter().filter_map(|op| match op {
        Op::SetLayer(layer) => Some(layer),
        _ => None,
    });
    attempt.conversation.system.iter().chain(waiting)
}

fn layers_of_mut(attempt: &mut Attempt) -> impl Iterator<Item = &mut Layer> {
    let waiting = attempt.waiting_ops.iter_mut();
    let waiting = waiting.filter_map(|op| match op {
        Op::SetLayer(layer) => Some(layer),
        _ => None,
    });
    attempt.conversation.system.iter_mut().chain(waiting)
}
