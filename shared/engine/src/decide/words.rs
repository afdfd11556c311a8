//! The words that models read, as decisions put them into events.
//!
//! Nothing outside of [`decide`](super) can name this module: what a fold knows of such a text stands in
//! an event, so another wording changes no session that there is.

use crate::command::Settlement;
use crate::conversation::{LayerKind, MemoryMark, Reminded, Reminder};
use crate::escape::line;
use crate::event::NotesFrame;
use crate::key::text_digest;
use crate::prompt::memory;
use crate::session::{EffectfulCall, Memory};
use std::collections::BTreeMap;

/// How a step is carried out.
pub const EXECUTION: &str = include_str!("words/execution.md");
/// How to work with the `step`, `read_progress`, `scratchpad` and `session_memory_*` tools.
pub const GUIDE: &str = include_str!("words/guide.md");
/// The first layer of the system prompt of a step: [`EXECUTION`] and [`GUIDE`].
pub(super) const STEP: &str = concat!(
    include_str!("words/execution.md"),
    "\n",
    include_str!("words/guide.md")
)
.trim_ascii_end();
/// The first layer of the system prompt of a turn.
pub(super) const TURN: &str = include_str!("words/conversation.md").trim_ascii_end();
/// The message of the turn that ends a context.
pub(super) const CONCLUDE: &str = "This conversation ends now, and nothing of it stays but session memory. \
                                   Store what has to be known later with `session_memory_set`, in few \
                                   short entries; then say in one sentence what you stored.";
/// Follows a reply without calls, because such a reply ends no step.
pub(super) const CONTINUE: &str = "Continue with the step; call the `step` tool with complete=true and a \
                                   summary when it is done.";
/// Follows a reply that was cut at the limit of its length.
pub(super) const CUT: &str = "Your last reply was cut because it was too long. Continue where it ends, in \
                              shorter pieces; tool calls that were not complete have not been made.";

/// Reports what a layer of the system prompt is from now on.
pub(super) fn changed(kind: LayerKind, text: &str) -> Reminder {
    let what = match kind {
        LayerKind::Prompt => "Your instructions have changed. They are now:",
        LayerKind::Agent => "The instructions of this conversation have changed. They are now:",
        LayerKind::Environment => "The environment has changed. It is now:",
        LayerKind::Memory => "Session memory has changed. It is now:",
    };
    let shown = match text.trim_end() {
        "" => "(empty)",
        text => text,
    };
    let digest = text_digest(text);
    Reminder {
        text: notice(&format!("{what}\n{shown}")),
        of: Reminded::Layer { kind, digest },
    }
}

/// Reports keys of session memory that have another value, or none any more.
pub(super) fn memory_changed(
    keys: &BTreeMap<&str, Option<&str>>,
    since: MemoryMark,
    through: MemoryMark,
) -> Reminder {
    let has_removed = keys.values().any(Option::is_none);
    let what = match has_removed {
        false => "Session memory has changed. These entries are new or have another value:",
        true => {
            "Session memory has changed. These entries are new or have another value; a key without a \
             value is not set any more:"
        }
    };
    let changes = memory::changes(keys.iter().map(|(key, value)| (*key, *value)));
    Reminder {
        text: notice(&format!("{what}\n{changes}")),
        of: Reminded::Memory {
            since: Some(since),
            through,
        },
    }
}

/// Reports the whole of session memory.
pub(super) fn memory_is(memory: &Memory, through: MemoryMark) -> Reminder {
    let whole = memory::whole(memory.iter());
    Reminder {
        text: notice(&format!("Session memory has changed. It is now:\n{whole}")),
        of: Reminded::Memory {
            since: None,
            through,
        },
    }
}

fn notice(text: &str) -> String {
    format!("<system-reminder>\n{text}\n</system-reminder>")
}

/// The words around the notes of a conversation, which are its last message.
pub(super) fn around_notes() -> NotesFrame {
    NotesFrame {
        before: "<scratchpad>\n".to_owned(),
        after: "\n</scratchpad>".to_owned(),
    }
}

/// Reports the calls with side effects that turns made of which the conversation has nothing.
pub(super) fn lost_calls(calls: &[EffectfulCall]) -> Option<String> {
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

/// The result of a call that a person decided about, where the decision has none of its own; empty
/// otherwise.
pub(super) fn decided(settlement: &Settlement) -> String {
    let (what, reason) = match settlement {
        Settlement::Deny { reason } => (
            "a person does not allow this call; do not repeat it",
            reason,
        ),
        Settlement::Skip { reason } => (
            "a person decided to go on without this call; do not repeat it",
            reason,
        ),
        Settlement::Fail { reason } => ("a person decided that this call failed", reason),
        Settlement::Done { .. }
        | Settlement::Answer { .. }
        | Settlement::Retry
        | Settlement::Approve
        | Settlement::ApproveAlways { .. } => return String::new(),
    };
    match reason.as_str() {
        "" => what.to_owned(),
        reason => format!("{what}: {reason}"),
    }
}
