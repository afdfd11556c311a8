//! The words about compactions.

use super::{around_notes, notice};

/// Repeats to a model the notes that it has written since its conversation began.
pub(in crate::decide) fn own_notes(notes: &str) -> String {
    match around_notes().around(notes).as_str() {
        "" => notice("Your notes are empty now."),
        notes => notice(&format!("Your notes are now:\n{notes}")),
    }
}

/// Tells the model that nothing came of the compaction that it asked for.
pub(in crate::decide) const NOT_COMPACTED: &str = "<system-reminder>\nThe summary that you asked for is not made: \
                                                   there is none, or it is not shorter than the older \
                                                   messages. They stay as they are.\n</system-reminder>";
/// Stands in a history view before a summary that the view takes over.
pub(in crate::decide) const EARLIER_SUMMARY: &str = "  Earlier summary:";
/// The result of a call of `compact`.
pub(in crate::decide) const COMPACTS: &str = "asked for: a reminder says what came of it";
/// The result of one that came to nothing.
pub(in crate::decide) const NOTHING_OLDER: &str =
    "nothing is compacted: there are no messages that are older than the newest ones, which stay";
/// The result of one that the reply has beside another one.
pub(in crate::decide) const COMPACTS_ONCE: &str =
    "not counted: the same reply asked for a compaction already";
/// The result of one that the reply has beside the end of its step.
pub(in crate::decide) const ENDS_INSTEAD: &str =
    "nothing is compacted: the same reply asks to end the step";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_repeated_as_they_are() {
        let told = own_notes("the port is 4711\n");
        let expected = "<system-reminder>\nYour notes are now:\n<scratchpad>\nthe port is 4711\n\
                        </scratchpad>\n</system-reminder>";
        assert_eq!(told, expected);
        assert_eq!(own_notes(""), notice("Your notes are empty now."));
    }

    #[test]
    fn a_reminder_is_told_as_one() {
        let inner = NOT_COMPACTED.strip_prefix("<system-reminder>\n");
        let inner = inner.and_then(|text| text.strip_suffix("\n</system-reminder>"));
        assert!(inner.is_some_and(|text| text.ends_with('.') && !text.contains("  ")));
    }
}
