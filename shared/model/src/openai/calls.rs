//! The calls of a reply: which call a piece continues.

use crate::ModelError;
use crate::server::draft::{CallDraft, Draft};
use serde::de::IgnoredAny;

/// Adds a piece to the call that it continues, or as a call of its own.
pub(super) fn add(draft: &mut Draft, piece: CallDraft) -> Result<(), ModelError> {
    let at = continued(draft, &piece);
    let Some(call) = at.and_then(|at| draft.calls_mut().nth(at)) else {
        return draft.add_call(piece);
    };
    if call.id.is_empty() {
        call.id = piece.id;
    }
    // Some servers repeat the name in every piece, some send it once, in the first.
    if call.name != piece.name {
        call.name.push_str(&piece.name);
    }
    call.arguments.push_str(&piece.arguments);
    call.extra.add(piece.extra.into_fields());
    Ok(())
}

/// The position of the call that a piece continues. Its id decides first, because some servers number
/// all calls 0 and tell them apart by id.
fn continued(draft: &Draft, piece: &CallDraft) -> Option<usize> {
    let calls: Vec<&CallDraft> = draft.calls().collect();
    let has_index = |call: &CallDraft| piece.index.is_none() || call.index == piece.index;
    let has_id = |call: &CallDraft| !piece.id.is_empty() && call.id == piece.id;
    let by_id = calls
        .iter()
        .rposition(|&call| has_id(call) && has_index(call));
    by_id.or_else(|| {
        let at = calls.iter().rposition(|&call| has_index(call))?;
        continues(calls[at], piece).then_some(at)
    })
}

/// Whether a piece continues the last call with its index, where no id says so.
fn continues(call: &CallDraft, piece: &CallDraft) -> bool {
    let has_other_id = !piece.id.is_empty() && !call.id.is_empty();
    match (piece.name.is_empty(), piece.index) {
        // Some servers give each piece an id of its own.
        (true, Some(_)) => true,
        (true, None) => !has_other_id || !has_whole_arguments(call),
        // Servers that do not number calls begin each with its name.
        (false, None) => false,
        (false, Some(_)) => !has_other_id && !is_next(call, piece),
    }
}

/// A piece with a name and arguments after a whole call is the next call. A name alone may be one that
/// the server repeats.
fn is_next(call: &CallDraft, piece: &CallDraft) -> bool {
    let is_more = call.name != piece.name || piece.arguments.trim_start().starts_with('{');
    is_more && !call.name.is_empty() && has_whole_arguments(call)
}

fn has_whole_arguments(call: &CallDraft) -> bool {
    let text = call.arguments.trim_end();
    // Parsing the arguments at every piece would take too long.
    text.ends_with('}') && serde_json::from_str::<IgnoredAny>(text).is_ok()
}
