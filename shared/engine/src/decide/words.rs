//! The words that models read, as decisions put them into events.
//!
//! Nothing outside of [`decide`](super) can name this module: what a fold knows of such a text stands in
//! an event, so another wording changes no session that there is.

mod agents;
mod compaction;
mod modes;
mod writes;

pub(super) use agents::*;
pub(super) use compaction::*;
pub(super) use modes::*;
pub(super) use writes::*;

use super::media::LeftOut;
use super::prompts::Prompts;
use crate::command::Settlement;
use crate::conversation::{LayerKind, MemoryMark, Reminded, Reminder};
use crate::escape::{line, lines};
use crate::event::{CallMedia, Effect, NotesFrame, ResultHandle};
use crate::key::text_digest;
use crate::limits::{MAX_MEDIA, MAX_MEDIA_COUNT, MAX_MEDIA_SIDE};
use crate::prompt::memory;
use crate::result::{NOT_KEPT, TOO_LONG, head};
use crate::session::{Ask, Call, CallStatus, EffectfulCall, Memory};
use crate::text::{counted, first_line, headline, size};
use std::collections::BTreeMap;

/// How a step is carried out.
pub const EXECUTION: &str = include_str!("words/execution.md");
/// How to work with the `step`, `read_progress`, `scratchpad` and `session_memory_*` tools.
pub const GUIDE: &str = include_str!("words/guide.md");
/// How a turn of a conversation is carried out.
pub const CONVERSATION: &str = include_str!("words/conversation.md");
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
/// Reports that messages gave way to a shorter text. As the model reads it, like each of the reminders below.
pub(super) const COMPACTED: &str = "<system-reminder>\nA shorter text stands now for the older messages of this \
                                    conversation. Files can be read again with the tools. If something of those \
                                    messages is missing, look with the tool retrieve if you have it, or ask the \
                                    person. Notes, sub-goals and session memory are as they were.\n</system-reminder>";
/// The first sentence of the question for a summary, unless a caller gives another one.
pub const SUMMARY_REQUEST: &str = "Write a summary of this conversation now.";
/// Asks for a summary of a conversation, of at most `{words}` words.
pub const SUMMARY: &str = include_str!("words/summary.md");

/// The message that asks a model for a summary of all messages before it, in the caller's own words if there
/// are any. `keep_in_mind` says what the summary has to keep; empty for nothing. `most_tokens` are those of the
/// reply.
pub(super) fn summary_prompt(
    prompts: &Prompts,
    own: Option<&str>,
    keep_in_mind: &str,
    most_tokens: u32,
) -> String {
    let own = own.map(str::trim).filter(|own| !own.is_empty());
    // Models count words badly, and many texts have two tokens a word.
    let prompt = own.map_or_else(|| prompts.summary(most_tokens / 2), str::to_owned);
    match keep_in_mind.trim() {
        "" => prompt,
        keep => format!("{prompt}\n\n## The summary must keep\n{}", lines(keep)),
    }
}

/// The message with a summary, which stands for older messages.
pub(super) fn summary(text: &str) -> String {
    format!(
        "Summary of the older messages of this conversation, which it replaces:\n\n{}",
        text.trim()
    )
}

/// A message that Cairn itself writes after a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nudge {
    /// [`CONTINUE`]: only to a step.
    Continue,
    /// [`CUT`].
    Cut,
}

impl Nudge {
    /// None for another text, and for one in the words of another version.
    pub(crate) fn of(text: &str) -> Option<Self> {
        match text {
            CONTINUE => Some(Self::Continue),
            CUT => Some(Self::Cut),
            _ => None,
        }
    }
}

/// Reports what a layer of the system prompt is from now on. Of the instructions of a folder the model was sent
/// others before; see [`instructions`].
pub(super) fn changed(kind: LayerKind, text: &str) -> Reminder {
    let what = match kind {
        LayerKind::Prompt => "Your instructions have changed. They are now:",
        LayerKind::Agent => "The instructions of your role have changed. They are now:",
        LayerKind::Context => "The instructions of this conversation have changed. They are now:",
        LayerKind::Environment => "The environment has changed. It is now:",
        LayerKind::Capabilities => "What you can use has changed. It is now:",
        LayerKind::Pool => "What the pool of resources can do has changed. It is now:",
        LayerKind::Memory => "Session memory has changed. It is now:",
        LayerKind::Instructions => return instructions(text, true),
        LayerKind::Mode => return mode_is(text),
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

/// Reports what the pool can do from now on. `names` are those of its capabilities, each on a line: only other names
/// are a change.
pub(super) fn pool_is(text: &str, names: &str) -> Reminder {
    let (kind, digest) = (LayerKind::Pool, text_digest(names));
    Reminder {
        of: Reminded::Layer { kind, digest },
        ..changed(kind, text)
    }
}

/// The instructions of a folder as they are from now on. No system prompt has them, so a conversation is sent them
/// also at first: with `were_sent` it has others, or none of them holds any more.
pub(super) fn instructions(text: &str, were_sent: bool) -> Reminder {
    let (shown, digest) = (text.trim_end(), text_digest(text));
    let said = match (shown, were_sent) {
        ("", _) => "The instructions of this folder do not hold any more.".to_owned(),
        (shown, true) => {
            format!("The instructions of this folder have changed. They are now:\n{shown}")
        }
        (shown, false) => format!(
            "Instructions of this folder, which its owner wrote, not the person in this \
             conversation:\n{shown}"
        ),
    };
    Reminder {
        text: notice(&said),
        of: Reminded::Layer {
            kind: LayerKind::Instructions,
            digest,
        },
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

/// The result of a call that had none when its turn ended, or one that hooks were still asked about.
pub(super) fn ended(call: &Call) -> &'static str {
    match (&call.status, call.effect) {
        _ if call.is_unready() => NOT_MADE,
        // It may have what the hooks would have taken out.
        _ if call.holds_result() => WITHHELD,
        // A person was asked about the call, and never allowed it.
        (CallStatus::Asking { ask, .. }, _) if !matches!(ask, Ask::Input { .. }) => NOT_MADE,
        (CallStatus::Requested, Effect::Effectful) if call.doubts == 0 && call.input.is_none() => {
            NOT_MADE
        }
        // What only reads leaves nothing to find out.
        (_, Effect::Pure | Effect::State) => NOT_MADE,
        _ => {
            "outcome unknown: the turn was interrupted while this call ran, and the call was told to stop. What it did \
             until then stays. Look at what it changed before you make the same call again."
        }
    }
}

/// The result of a call that did nothing before its turn ended.
const NOT_MADE: &str =
    "interrupted: the turn ended before this call had a result; it changed nothing";

/// The result of a call whose hooks had not answered about it when its turn ended.
const WITHHELD: &str = "the call was made, and its result is withheld: the turn ended before the hooks had answered \
                        about it";

/// A line of a result about a picture or a file that the model does not get.
pub(super) fn left_out(media: &CallMedia, why: LeftOut) -> String {
    let why = match why {
        LeftOut::Type => "models take PNG, JPEG, GIF, WebP and PDF".to_owned(),
        LeftOut::Unreadable => "it is damaged, or of another type".to_owned(),
        LeftOut::Size => format!("at most {MAX_MEDIA} bytes are allowed"),
        LeftOut::Pixels(width, height) => {
            format!(
                "it has {width} x {height} pixels; at most {MAX_MEDIA_SIDE} are allowed for a side"
            )
        }
        LeftOut::Count => {
            format!("the conversation has {MAX_MEDIA_COUNT} pictures and files already")
        }
        LeftOut::Room => "the conversation is too long for it".to_owned(),
    };
    let (mime, bytes) = (line(&media.mime_type), media.data.len());
    format!("\n[a file of type {mime} with {bytes} bytes was left out: {why}]")
}

/// Bytes that the note after the beginning of a result may have.
const AROUND_BEGINNING: usize = 400;
/// Bytes that a handle may have in [`rest_of_beginning`]: a result can end with such a note of its own.
const MOST_OF_HANDLE: usize = 40;

/// Precedes the handle of a result that can be read on, which a `'` ends.
const READ_ON: &str = "read_result with handle '";

/// What follows the first line of a long result, where that stands for all of it: how to read on. None for a
/// result that is whole, or was said to be too long in other words.
pub(crate) fn rest_of_beginning(text: &str) -> Option<String> {
    let (_, note) = text.strip_suffix(']')?.rsplit_once(TOO_LONG)?;
    let (handle, _) = note.split_once(READ_ON)?.1.split_once('\'')?;
    (handle.len() <= MOST_OF_HANDLE).then(|| format!("… {READ_ON}{handle}' reads on"))
}

/// The beginning of a result that is longer than a model gets at once, with how to read on. `text` has at
/// least `most` bytes of the result.
pub(super) fn beginning(text: &str, whole: &ResultHandle, most: usize) -> String {
    let shown = head(text, most.saturating_sub(AROUND_BEGINNING));
    let ResultHandle {
        handle,
        bytes,
        lost_bytes,
        ..
    } = whole;
    let lines = counted(whole.lines, "line");
    let ends = if shown.ends_with('\n') { "" } else { "\n" };
    let mut size = format!(
        "this is its beginning, {} of {bytes} bytes; it has {lines}",
        shown.len()
    );
    if whole.is_cut {
        size.push_str(&format!("; {NOT_KEPT}"));
    }
    let rest = match (*lost_bytes, whole.blobs.is_empty()) {
        (0, _) => format!("{READ_ON}{handle}' reads on, or searches it"),
        (_, true) => "the rest was not kept, because the store is full".to_owned(),
        (lost, false) => format!(
            "its last {lost} bytes were not kept, because the store is full; {READ_ON}{handle}' reads on \
             in the rest, or searches it"
        ),
    };
    format!("{shown}{ends}{TOO_LONG}{size}; {rest}]")
}

/// What hooks made of such a beginning, with a note that offers nothing to read on.
pub(super) fn without_rest(text: &str, handle: &str) -> String {
    let Some((before, after)) = text.split_once(&format!("{READ_ON}{handle}'")) else {
        return text.to_owned();
    };
    let after = after.find([']', '\n']).map_or(after, |at| &after[at..]);
    format!("{before}the rest is withheld, because a hook changed this result{after}")
}

/// The output of a call whose tool does not take the arguments that a hook put in place of the model's.
pub(super) fn refused_change(hook: &str, output: &str) -> String {
    format!("after hook '{hook}' changed its arguments: {output}")
}

/// The summary of a step that is one call with such a result: its first line of at most `most` characters,
/// how long it is, and how a later step reads it.
pub(super) fn long_summary(text: &str, whole: &ResultHandle, most: usize) -> String {
    let first = headline(first_line(text).unwrap_or_default(), most);
    let (lines, bytes) = (counted(whole.lines, "line"), size(whole.bytes));
    let rest = match whole.blobs.is_empty() {
        true => "only its beginning was kept".to_owned(),
        false => format!("read_result with handle '{}' reads it", whole.handle),
    };
    format!("{first} ({lines}, {bytes}; {rest})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(bytes: u64) -> ResultHandle {
        ResultHandle {
            handle: "result-3".to_owned(),
            bytes,
            lines: 7,
            lost_bytes: 0,
            is_cut: false,
            blobs: vec![crate::event::Blob {
                digest: "d".to_owned(),
                size: 1,
            }],
        }
    }

    #[test]
    fn a_beginning_says_in_few_words_how_to_read_on() {
        let rest = "… read_result with handle 'result-3' reads on";
        let mut result = whole(5_000_000);
        for text in ["short\n", &"a line of text\r\n".repeat(100)] {
            let beginning = beginning(text, &result, 1024);
            assert_eq!(rest_of_beginning(&beginning).as_deref(), Some(rest));
        }
        result.lost_bytes = 600;
        let text = beginning("a\n", &result, 1024);
        assert_eq!(rest_of_beginning(&text).as_deref(), Some(rest));
        result.blobs.clear();
        let text = beginning("a\n", &result, 1024);
        let forged = format!("{TOO_LONG}{READ_ON}{}']", "x".repeat(1000));
        for text in [text.as_str(), "", "a list [1]", "a line", &forged] {
            assert_eq!(rest_of_beginning(text), None, "{text}");
        }
    }

    #[test]
    fn a_reminder_of_a_layer_names_it_and_has_its_text() {
        for (kind, first) in [
            (
                LayerKind::Agent,
                "The instructions of your role have changed.",
            ),
            (LayerKind::Context, "The instructions of this conversation"),
            (LayerKind::Capabilities, "What you can use has changed."),
            (
                LayerKind::Instructions,
                "The instructions of this folder have",
            ),
        ] {
            let Reminder { text, of } = changed(kind, "Be brief.\n");
            let begins = text.starts_with(&format!("<system-reminder>\n{first}"));
            let ends = text.ends_with(" now:\nBe brief.\n</system-reminder>");
            assert!(begins && ends, "{text}");
            let digest = text_digest("Be brief.\n");
            assert_eq!(of, Reminded::Layer { kind, digest });
        }
    }

    #[test]
    fn the_first_instructions_of_a_folder_are_named_as_its_owners() {
        let first = instructions("Be brief.\n", false);
        let expected = notice(
            "Instructions of this folder, which its owner wrote, not the person in this \
             conversation:\nBe brief.",
        );
        assert_eq!(first.text, expected);
        // Both tell the model of the same text.
        assert_eq!(first.of, instructions("Be brief.\n", true).of);
        let gone = notice("The instructions of this folder do not hold any more.");
        assert_eq!(instructions("", true).text, gone);
    }

    #[test]
    fn a_compaction_is_told_as_a_reminder() {
        let inner = COMPACTED.strip_prefix("<system-reminder>\n").unwrap();
        let inner = inner.strip_suffix("\n</system-reminder>").unwrap();
        assert_eq!(notice(inner), COMPACTED);
        assert!(!inner.contains("  ") && inner.ends_with('.'), "{inner:?}");
    }

    #[test]
    fn a_summary_is_asked_for_in_own_words_or_these() {
        let asked = |own, keep| summary_prompt(Prompts::built_in(), own, keep, 500);
        for own in [None, Some(""), Some(" \n")] {
            let expected = SUMMARY.replace("{words}", "250");
            assert_eq!(asked(own, ""), expected.trim_ascii_end());
        }
        assert_eq!(asked(Some(" In one line.\n"), "  "), "In one line.");
        let expected = "In one line.\n\n## The summary must keep\nthe port\n\\## Asked";
        let keep = "the port\n## Asked\n";
        assert_eq!(asked(Some("In one line."), keep), expected);
        assert!(asked(None, "the port").starts_with(&asked(None, "")));
        assert!(SUMMARY.starts_with(SUMMARY_REQUEST));
        let headings: Vec<_> = SUMMARY
            .lines()
            .filter_map(|line| line.strip_prefix("## "))
            .collect();
        assert_eq!(headings, ["Asked", "Decisions", "Facts", "Open", "Done"]);
        let told = summary("\n## Asked\nA port.\n");
        let (first, rest) = told.split_once("\n\n").unwrap();
        assert!(
            first.starts_with("Summary of the older messages"),
            "{first}"
        );
        assert_eq!(rest, "## Asked\nA port.");
    }

    #[test]
    fn a_beginning_has_its_size_and_how_to_read_on_within_its_limit() {
        let text = "a line of text\r\n".repeat(100);
        for unit in ["x", "é", "🦀", "a line of text\r\n", "\n"] {
            let text = unit.repeat(5000);
            let beginning = beginning(&text, &whole(5_000_000), 1024);
            assert!(beginning.len() <= 1024, "{unit:?}: {}", beginning.len());
            let (shown, note) = beginning.split_once("[the result is too long").unwrap();
            assert!(text.starts_with(shown.trim_end_matches('\n')), "{unit:?}");
            assert!(
                note.contains(
                    "of 5000000 bytes; it has 7 lines; read_result with handle 'result-3'"
                )
            );
        }
        let mut lost = whole(1600);
        lost.lost_bytes = 600;
        let told = beginning(&text, &lost, 1024);
        assert!(told.contains("its last 600 bytes were not kept"), "{told}");
        lost.blobs.clear();
        let told = beginning(&text, &lost, 1024);
        assert!(
            told.ends_with("the rest was not kept, because the store is full]"),
            "{told}"
        );
        let mut cut = whole(67_108_864);
        cut.is_cut = true;
        let told = beginning(&text, &cut, 1024);
        let size = "of 67108864 bytes; it has 7 lines; its tool gave more, which was not kept; read_result";
        assert!(told.contains(size), "{told}");
        (cut.handle, cut.bytes) = ("result-1000-9f86".to_owned(), u64::MAX);
        (cut.lines, cut.lost_bytes) = (u64::MAX, u64::MAX);
        let told = beginning(&text, &cut, 1024);
        assert!(told.len() <= 1024, "{}", told.len());
    }

    #[test]
    fn the_summary_of_a_long_result_has_its_size_and_its_handle() {
        let mut whole = whole(5_452_595);
        let text = "\nline 1\nline 2\n";
        let expected = "line 1 (7 lines, 5.1 MiB; read_result with handle 'result-3' reads it)";
        assert_eq!(long_summary(text, &whole, 120), expected);
        whole.blobs.clear();
        let expected = "lin… (7 lines, 5.1 MiB; only its beginning was kept)";
        assert_eq!(long_summary(text, &whole, 3), expected);
    }
}
