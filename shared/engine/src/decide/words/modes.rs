//! The words about the mode of a session.

use super::notice;
use crate::conversation::{LayerKind, Reminded, Reminder};
use crate::escape::line;
use crate::key::text_digest;
use crate::session::Mode;

const PLAN: &str = "You are in plan mode. Only look: read and search files, and work out what is to be done. Do not \
                    change files, run commands or make other changes; such calls are refused. End with a plan of \
                    the changes for the person, who can change the mode.";

/// What models are told of a mode; empty for one in which they work as usual.
pub(in crate::decide) fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Ask | Mode::AcceptEdits => "",
        Mode::Plan => PLAN,
    }
}

/// Reports the mode, of which `text` is what [`mode`] says. Empty after plan mode.
pub(in crate::decide) fn mode_is(text: &str) -> Reminder {
    let said = match text {
        "" => {
            "You are no longer in plan mode. You are permitted to make file changes, run shell commands, and \
             utilize your arsenal of tools as needed."
        }
        text => text,
    };
    Reminder {
        text: notice(said),
        of: Reminded::Layer {
            kind: LayerKind::Mode,
            digest: text_digest(text),
        },
    }
}

/// The result of a call that plan mode does not allow.
pub(in crate::decide) fn not_in_plan_mode(tool: &str) -> String {
    format!(
        "the mode is plan: '{}' was not called, as it may change something; the person can change it with /mode",
        line(tool)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_mode_begins_and_ends_with_a_reminder() {
        let begins = mode_is(mode(Mode::Plan));
        assert!(
            begins
                .text
                .starts_with("<system-reminder>\nYou are in plan mode.")
        );
        let ends = mode_is(mode(Mode::Ask));
        assert!(
            ends.text.contains("no longer in plan mode"),
            "{}",
            ends.text
        );
        assert_ne!(begins.of, ends.of);
        assert_eq!(ends, mode_is(mode(Mode::AcceptEdits)));
        assert!(!PLAN.contains("  "), "{PLAN}");
    }
}
