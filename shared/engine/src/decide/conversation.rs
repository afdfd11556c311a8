//! What Cairn says to the model of an attempt: the system prompt, reminders of what has changed in it, and
//! the word to continue.

use super::Decision;
use crate::conversation::{Layer, LayerKind, Op};
use crate::event::{AttemptRef, ContextChanged};
use crate::message::{FinishReason, Message};
use crate::prompt;
use crate::session::Call;
use crate::transitions::Applied;

const ALL: [LayerKind; 3] = [LayerKind::Prompt, LayerKind::Environment, LayerKind::Memory];

impl Decision<'_> {
    /// Writes the system prompt. A layer that is as it was written last in this session is not written
    /// a second time.
    pub(super) fn begin_conversation(&mut self, attempt: AttemptRef) -> Applied {
        let layers = ALL.map(|kind| (kind, self.layer_now(kind))).into_iter();
        let layers = layers.filter(|(_, text)| !text.is_empty());
        let written = |kind: LayerKind| self.session.layers.get(&kind).map(String::as_str);
        let (same, new): (Vec<_>, Vec<_>) =
            layers.partition(|(kind, text)| written(*kind) == Some(*text));
        let changed = ContextChanged {
            attempt,
            same_layers: same.into_iter().map(|(kind, _)| kind).collect(),
            ops: new.into_iter().map(layer).map(Op::SetLayer).collect(),
        };
        self.emit(changed)
    }

    /// The model is asked next, once the calls of its last reply have ended: it is told what of its
    /// system prompt has changed.
    pub(crate) fn prepare_request(&mut self, attempt: AttemptRef) -> Applied {
        let running = self.session.attempt(attempt);
        let is_next = running.is_some_and(|running| running.calls.iter().all(Call::is_finished));
        match is_next {
            true => self.say(attempt, None),
            false => Ok(()),
        }
    }

    /// The same after a reply. One without calls ended nothing, and one that was cut is to continue.
    pub(super) fn answer_reply(&mut self, attempt: AttemptRef, finish: FinishReason) -> Applied {
        let Some(running) = self.session.attempt(attempt) else {
            return Ok(());
        };
        let nudge = match finish {
            FinishReason::Length => Some(prompt::CUT),
            _ => running.calls.is_empty().then_some(prompt::CONTINUE),
        };
        self.say(attempt, nudge)
    }

    fn say(&mut self, attempt: AttemptRef, nudge: Option<&str>) -> Applied {
        if self.is_tool_step(attempt) {
            return Ok(());
        }
        let Some(running) = self.session.attempt(attempt) else {
            return Ok(());
        };
        let changed = ALL.map(|kind| (kind, self.layer_now(kind))).into_iter();
        let changed = changed.filter(|(kind, text)| running.layer(*kind) != *text);
        let changed = changed.map(layer);
        let nudge = nudge.map(|text| Op::Append(Message::user(text)));
        let ops: Vec<_> = nudge.into_iter().chain(changed.map(Op::Remind)).collect();
        if ops.is_empty() {
            return Ok(());
        }
        self.emit(ContextChanged {
            attempt,
            same_layers: Vec::new(),
            ops,
        })
    }

    /// Compared at each report, so nothing is rendered here that has not changed.
    fn layer_now(&self, kind: LayerKind) -> &str {
        match kind {
            LayerKind::Prompt => prompt::STEP,
            LayerKind::Environment => self.facts.environment,
            LayerKind::Memory => self.session.memory.snapshot(),
        }
    }
}

fn layer((kind, text): (LayerKind, &str)) -> Layer {
    Layer {
        kind,
        text: text.to_owned(),
    }
}
