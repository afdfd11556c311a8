//! What Cairn itself says to models: constants, session memory ([`memory`]) and the to-do list
//! ([`progress`]). The same conversation is byte for byte the same, so that providers' caches hit.

pub mod memory;
pub mod progress;

use crate::conversation::{Layer, LayerKind};
use crate::escape::{line, lines};
use crate::session::EffectfulCall;

/// How a step is carried out.
pub const EXECUTION: &str = include_str!("prompt/execution.md");
/// How to work with the `step`, `read_progress`, `scratchpad` and `session_memory_*` tools.
pub const GUIDE: &str = include_str!("prompt/guide.md");
/// The first layer of the system prompt of a step: [`EXECUTION`], a blank line, and [`GUIDE`].
pub(crate) const STEP: &str = concat!(
    include_str!("prompt/execution.md"),
    "\n",
    include_str!("prompt/guide.md")
)
.trim_ascii_end();
/// The first layer of the system prompt of a turn.
pub(crate) const TURN: &str = include_str!("prompt/conversation.md").trim_ascii_end();
/// The message of the turn that ends a context.
pub(crate) const CONCLUDE: &str = "This conversation ends now, and nothing of it stays but session memory. \
                                   Store what has to be known later with `session_memory_set`, in few \
                                   short entries; then say in one sentence what you stored.";
/// Follows a reply without calls, because such a reply ends no step.
pub const CONTINUE: &str = "Continue with the step; call the `step` tool with complete=true and a \
                            summary when it is done.";
/// Follows a reply that was cut at the limit of its length.
pub const CUT: &str = "Your last reply was cut because it was too long. Continue where it ends, in \
                       shorter pieces; tool calls that were not complete have not been made.";

/// Ends a reminder that session memory has become empty.
pub(crate) const EMPTIED: &str = "Session memory has changed. It is now:\n(empty)";

/// Says what a layer of the system prompt is from now on.
pub(crate) fn reminder(layer: &Layer) -> String {
    let (what, text) = (changed(layer.kind), shown(&layer.text));
    notice(&format!("{what}\n{text}"))
}

/// Whether a part of a message reminds of a layer with this text; none if it is no reminder of the layer.
pub(crate) fn reminds(kind: LayerKind, part: &str, text: &str) -> Option<bool> {
    let part = part.strip_prefix(OPEN)?.strip_prefix(changed(kind))?;
    let part = part.strip_prefix('\n')?.strip_suffix(CLOSE)?;
    Some(part == shown(text))
}

fn changed(kind: LayerKind) -> &'static str {
    match kind {
        LayerKind::Prompt => "Your instructions have changed. They are now:",
        LayerKind::Agent => "The instructions of this conversation have changed. They are now:",
        LayerKind::Environment => "The environment has changed. It is now:",
        LayerKind::Memory => "Session memory has changed. It is now:",
    }
}

fn shown(text: &str) -> &str {
    match text.trim_end() {
        "" => "(empty)",
        text => text,
    }
}

const OPEN: &str = "<system-reminder>\n";
const CLOSE: &str = "\n</system-reminder>";

fn notice(text: &str) -> String {
    format!("{OPEN}{text}{CLOSE}")
}

/// Notes of a conversation, as its last message; none if there are none.
pub(crate) fn scratch(notes: &str) -> Option<String> {
    let notes = notes.trim_end();
    (!notes.is_empty()).then(|| format!("<scratchpad>\n{}\n</scratchpad>", lines(notes)))
}

/// Tells of the calls with side effects that turns made of which the conversation has nothing.
pub(crate) fn lost_calls(calls: &[EffectfulCall]) -> Option<String> {
    if calls.is_empty() {
        return None;
    }
    let mut text =
        "An earlier turn of this conversation failed or was cancelled, and its messages are \
                    not kept. These calls had effects, or may have had:"
            .to_owned();
    for call in calls {
        let outcome = match call.is_done {
            true => "it was carried out",
            false => "it failed, or its outcome is not known",
        };
        text.push_str(&format!("\n- `{}`: {outcome}", line(&call.tool)));
    }
    Some(notice(&text))
}
