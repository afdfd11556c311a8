//! A reply while it comes, whole or in pieces: its parts in the order of their beginning.

use super::extra::Extra;
use crate::{FinishReason, ModelError};
use serde_json::Value;

/// More calls than this in one reply are an attack or a model gone astray.
const MAX_CALLS: usize = 128;
/// The same for the parts that only the provider can read.
const MAX_OPAQUE: usize = 1_024;

#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) parts: Vec<PartDraft>,
    /// The model refused in a field of its own.
    pub(crate) refused: bool,
    /// Why it ended, once the server has said so.
    pub(crate) finish: Option<FinishReason>,
    /// The server gave it an end that is not known.
    pub(crate) has_unknown_end: bool,
    pub(crate) usage: Reported,
    pub(crate) model: Option<String>,
    /// Fields of the message that the protocol does not name.
    pub(crate) extra: Extra,
}

#[derive(Debug)]
pub(crate) enum PartDraft {
    /// Text as the server sent it: with a secret that it may contain.
    Text(String),
    Call(CallDraft),
    Opaque(OpaqueDraft),
}

#[derive(Debug, Default)]
pub(crate) struct CallDraft {
    /// The server's number of the call.
    pub(crate) index: Option<u64>,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
    /// All arguments came with the beginning of the call: pieces of them only repeat them.
    pub(crate) came_whole: bool,
    /// Fields of the call that the protocol does not name.
    pub(crate) extra: Extra,
}

#[derive(Debug)]
pub(crate) struct OpaqueDraft {
    /// The server's number of the block until its end. A block that never ends is incomplete, and no
    /// part of the reply.
    pub(crate) open: Option<u64>,
    pub(crate) kind: String,
    pub(crate) json: Value,
    /// Bytes that were gathered. Measuring the JSON at every piece would take too long.
    pub(crate) bytes: usize,
}

/// Tokens as far as the server reported them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reported {
    /// All that were sent, those of the cache included.
    pub(crate) input: Option<u64>,
    pub(crate) cached: u64,
    pub(crate) cache_write: u64,
    /// All that were received, those of reasoning included.
    pub(crate) output: Option<u64>,
    pub(crate) reasoning: u64,
}

impl Draft {
    /// The server said why the reply ended: nothing of it is missing.
    pub(crate) fn is_whole(&self) -> bool {
        self.finish.is_some()
    }

    /// It has neither text nor calls. Thinking alone is no reply.
    pub(crate) fn is_empty(&self) -> bool {
        let opaque = |part: &PartDraft| matches!(part, PartDraft::Opaque(_));
        self.parts.iter().all(opaque)
    }

    /// Bytes that are gathered.
    pub(crate) fn bytes(&self) -> usize {
        let bytes = self.parts.iter().map(|part| match part {
            PartDraft::Text(text) => text.len(),
            PartDraft::Call(call) => {
                call.id.len() + call.name.len() + call.arguments.len() + call.extra.bytes()
            }
            PartDraft::Opaque(opaque) => opaque.bytes,
        });
        bytes.sum::<usize>() + self.extra.bytes()
    }

    /// All of the text.
    pub(crate) fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            PartDraft::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// Adds text at the end.
    pub(crate) fn add_text(&mut self, piece: &str) {
        match self.parts.last_mut() {
            _ if piece.is_empty() => {}
            Some(PartDraft::Text(text)) => text.push_str(piece),
            _ => self.parts.push(PartDraft::Text(piece.to_owned())),
        }
    }

    pub(crate) fn calls(&self) -> impl Iterator<Item = &CallDraft> {
        self.parts.iter().filter_map(|part| match part {
            PartDraft::Call(call) => Some(call),
            _ => None,
        })
    }

    pub(crate) fn calls_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut CallDraft> {
        self.parts.iter_mut().filter_map(|part| match part {
            PartDraft::Call(call) => Some(call),
            _ => None,
        })
    }

    pub(crate) fn opaque_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut OpaqueDraft> {
        self.parts.iter_mut().filter_map(|part| match part {
            PartDraft::Opaque(opaque) => Some(opaque),
            _ => None,
        })
    }

    /// Adds a call at the end.
    pub(crate) fn add_call(&mut self, call: CallDraft) -> Result<(), ModelError> {
        refuse_more(self.calls().count(), MAX_CALLS, "tool calls")?;
        self.parts.push(PartDraft::Call(call));
        Ok(())
    }

    /// Adds a part that only the provider can read.
    pub(crate) fn add_opaque(&mut self, opaque: OpaqueDraft) -> Result<(), ModelError> {
        refuse_more(self.opaque_mut().count(), MAX_OPAQUE, "blocks of thinking")?;
        self.parts.push(PartDraft::Opaque(opaque));
        Ok(())
    }
}

fn refuse_more(count: usize, most: usize, things: &str) -> Result<(), ModelError> {
    match count < most {
        true => Ok(()),
        false => Err(ModelError::BadAnswer {
            message: format!("it has more than {most} {things}"),
        }),
    }
}
