//! What Cairn itself says to models: constants, session memory ([`memory`]) and the to-do list
//! ([`progress`]). The same conversation is byte for byte the same, so that providers' caches hit.

pub mod memory;
pub mod progress;

use crate::conversation::{Layer, LayerKind};

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
    let what = match layer.kind {
        LayerKind::Prompt => "Your instructions have changed. They are now:",
        LayerKind::Environment => "The environment has changed. It is now:",
        LayerKind::Memory => "Session memory has changed. It is now:",
    };
    let text = match layer.text.trim_end() {
        "" => "(empty)",
        text => text,
    };
    format!("<system-reminder>\n{what}\n{text}\n</system-reminder>")
}
