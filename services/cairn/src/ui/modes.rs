//! Modes of sessions for people.

use cairn_proto::event::Mode;

/// The name of a mode. A session that says none has the mode `ask`.
pub const fn name(mode: Mode) -> &'static str {
    match mode {
        Mode::Plan => "plan",
        Mode::Ask | Mode::Unspecified => "ask",
        Mode::AcceptEdits => "accept-edits",
    }
}

/// The meaning of a mode.
pub const fn meaning(mode: Mode) -> &'static str {
    match mode {
        Mode::Plan => "models read files, and change nothing but their own notes",
        Mode::Ask | Mode::Unspecified => {
            "writes and commands ask, unless a rule or an approval allows them"
        }
        Mode::AcceptEdits => "writes in the workspace are made without asking; commands ask",
    }
}
