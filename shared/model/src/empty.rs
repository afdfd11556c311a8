//! Replies with nothing in them to read or to carry out.

use crate::{ChatReply, FinishReason};
use cairn_engine::message::{Notice, Part};

/// What a reply with neither text nor calls has instead. The ends Refusal and Length say why there are
/// none, so such a reply is a whole one.
pub(crate) fn content_of(reply: &ChatReply) -> Option<&'static str> {
    let parts = &reply.message.parts;
    let has_content = |part: &Part| match part {
        Part::Text(text) | Part::Notice(Notice { text, .. }) => !text.trim().is_empty(),
        Part::Call(_) | Part::Media(_) => true,
        Part::Result(_) | Part::Opaque(_) => false,
    };
    let says_why = matches!(reply.finish, FinishReason::Refusal | FinishReason::Length);
    if says_why || parts.iter().any(has_content) {
        return None;
    }
    let is_reasoning = |part: &Part| matches!(part, Part::Opaque(opaque) if !opaque.is_fields());
    let is_text = |part: &Part| matches!(part, Part::Text(_));
    Some(if parts.iter().any(is_reasoning) {
        "only reasoning"
    } else if parts.iter().any(is_text) {
        "blank"
    } else {
        "empty"
    })
}
