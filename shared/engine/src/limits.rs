//! Sizes that the core holds to. The store has limits of its own.

use crate::escape::breaks_line;
use std::ops::RangeInclusive;

/// Most bytes of a session's title.
pub const MAX_TITLE: usize = 256;

/// Most bytes of the notes of one step.
pub const MAX_NOTES: usize = 16 * 1024;
/// Most sub-goals of one attempt.
pub const MAX_SUB_GOALS: usize = 100;
/// Most bytes of a key of session memory.
pub const MAX_MEMORY_KEY: usize = 128;

/// Whether session memory takes the key.
pub fn is_memory_key(key: &str) -> bool {
    (1..=MAX_MEMORY_KEY).contains(&key.len()) && !key.chars().any(char::is_control)
}

/// Most bytes of a value of session memory.
pub const MAX_MEMORY_VALUE: usize = 64 * 1024;
/// Most bytes of all keys and values of a session's memory that a run may set. The store lets
/// clients fill less, and takes this much on top of what they have filled, so that it never refuses
/// what was decided here.
pub const MAX_MEMORY_BYTES: usize = 2 * 1024 * 1024;
/// Most keys of a session's memory that a run may set; the store has room for them as for the bytes.
pub const MAX_MEMORY_KEYS: usize = 1024;
/// Most bytes of the title of a page of knowledge.
pub const MAX_PAGE_TITLE: usize = 256;
/// Most bytes of the text of a page.
pub const MAX_PAGE_TEXT: usize = 200 * 1024;
/// Most tags of a page, and of a search for pages.
pub const MAX_PAGE_TAGS: usize = 16;
/// Most bytes of a tag of a page.
pub const MAX_PAGE_TAG: usize = 64;
/// Most bytes of the query of a search for pages.
pub const MAX_PAGE_QUERY: usize = 4 * 1024;

/// Whether a text can be a title or a tag of a page: one line that is not blank, of at most so many bytes. Models get
/// it in a line of its own, so it cannot look like another one.
pub fn is_page_line(text: &str, most_bytes: usize) -> bool {
    let is_broken = text.chars().any(|c| breaks_line(c) || c.is_control());
    !text.trim().is_empty() && text.len() <= most_bytes && !is_broken
}

/// Most bytes of a question to a person, its choices included.
pub const MAX_QUESTION: usize = 8 * 1024;
/// Most choices of a question to a person.
pub const MAX_CHOICES: usize = 10;
/// Most bytes of the prompt of a summary, and of what a person or a model asks it to keep.
pub const MAX_COMPACTION_TEXT: usize = 16 * 1024;
/// Most bytes of a goal.
pub const MAX_GOAL: usize = 64 * 1024;
/// Most bytes of the id that a run or a step has in another system.
pub const MAX_EXTERNAL_ID: usize = 128;
/// Most bytes of the note of a run or a step, which its models get in the system prompt.
pub const MAX_PROMPT_NOTE: usize = 4 * 1024;
/// Most bytes of the messages of a context.
pub const MAX_CONTEXT: u64 = 16 * 1024 * 1024;
/// Most bytes of the messages that one request adds to a context.
pub const MAX_EXTENSION: u64 = 2 * 1024 * 1024;
/// Most messages that one request takes out of a context by their indices.
pub const MAX_REMOVED: usize = 1000;

/// Refuses messages that are too large for one request. The error says so to people.
///
/// # Errors
/// More bytes than [`MAX_EXTENSION`].
pub fn check_extension(bytes: u64) -> Result<(), String> {
    if bytes <= MAX_EXTENSION {
        return Ok(());
    }
    Err(format!(
        "{bytes} bytes of messages are added; at most {MAX_EXTENSION} are allowed at once"
    ))
}

/// Most contexts of a session.
pub const MAX_CONTEXTS: usize = 64;
/// Most bytes of the name of a context.
pub const MAX_CONTEXT_NAME: usize = 64;

/// Whether the name of a context may have the character.
pub fn is_context_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

/// From so many thousandths of the journal's limits on, the end of a turn says how full the journal is.
pub const NEARLY_FULL_JOURNAL: u32 = 900;
/// What a person can do about a session that has reached its limit.
pub const CONTINUE_ELSEWHERE: &str = "continue in a new session: `/continue` in `cairn chat` takes \
    the last turns along, and `cairn context export` and `cairn context import` take all messages";
/// Most turns that wait for the end of a run.
pub const MAX_QUEUED_TURNS: usize = 16;
/// Most bytes of one reply of a model, unless the settings say otherwise: its text, and the ids,
/// names and arguments of its calls. The reply is refused where it arrives.
pub const MAX_REPLY: usize = 1024 * 1024;
/// The most that the settings may allow a reply. With the results that travel beside it, it fits
/// into one message, and the journal keeps it in one piece.
pub const LARGEST_REPLY: usize = 2 * 1024 * 1024;
/// Most calls of one reply.
pub const MAX_CALLS: usize = 64;
/// Most conversations of a session that are open at the same time, whatever the limits of a run say: its
/// attempts under way. A step that is ready beyond that waits until one ends.
pub const MAX_CONVERSATIONS: u32 = 128;
/// A transition with so many events takes in nothing more, and starts no step. A decision that answers
/// commands on its way answers no more after so many events.
pub const FULL_TRANSITION: usize = 512;
/// Most events about one attempt that follow from one input, beside the answers to commands. The most have
/// calls in doubt whose answers take effect when the attempt continues: two for each call, one for
/// going on, one for what the model is told then, and two for its end. A compaction before its next request
/// takes at most four more, and hooks are asked or have answered by at most two.
pub const MAX_EVENTS_OF_ATTEMPT: usize = 2 * MAX_CALLS + 10;
/// Most events of a command that are not about attempts. The most sets as many keys of session memory as
/// there may be; the rest are about its context, its run, and the requests and turns that wait.
const MAX_EVENTS_OF_COMMAND: usize = MAX_MEMORY_KEYS + 64;
/// Most events of a transition. One that is almost full takes in one more input, which is about every
/// conversation that is open. Beside that it answers commands or starts steps until it is full once
/// more, and the last command may be the largest one.
///
/// The store takes as many by default, and is not to be set to take fewer.
pub const MAX_TRANSITION: usize = 2 * FULL_TRANSITION
    + MAX_EVENTS_OF_COMMAND
    + MAX_CONVERSATIONS as usize * MAX_EVENTS_OF_ATTEMPT;

/// Approvals of further calls that a session may have in force.
pub const MAX_GRANTS: usize = 200;
/// Tools that one search finds.
pub const MAX_FOUND: usize = 5;

/// Most bytes of the text of a call's result. Tools cut what is longer.
pub const MAX_RESULT: usize = 64 * 1024 * 1024;
/// Most bytes of a part of a long result: on its way to the owner, and as a blob.
pub const MAX_RESULT_PART: usize = 2 * 1024 * 1024;
/// A result with more bytes travels in parts.
pub const LARGEST_UNDIVIDED_RESULT: usize = 64 * 1024;
/// Most bytes of a result that a model gets at once, unless the settings say otherwise. A result with more is
/// kept in blobs, and the model gets its beginning and a handle.
pub const RESULT_BYTES: usize = 32 * 1024;
/// The least and the most that the settings may allow.
pub const RESULT_BYTES_RANGE: RangeInclusive<usize> = 1024..=1024 * 1024;
/// Most bytes of a picture or a file that a model gets with a result: as base64, they are the 5 MiB that
/// providers take.
pub const MAX_MEDIA: usize = 5 * 1024 * 1024 / 4 * 3;
/// Most pictures and files of a conversation to which a result adds one. Providers refuse large pictures among
/// more of them.
pub const MAX_MEDIA_COUNT: usize = 20;
/// Most pixels of a side of a picture that a model gets with a result. Providers refuse a larger one, and with
/// it each later request of the conversation.
pub const MAX_MEDIA_SIDE: u32 = 8_000;
/// Most bytes of a conversation to which a result adds a picture or a file. The rest of a context is for texts.
pub const MAX_WITH_MEDIA: u64 = MAX_CONTEXT / 2;

/// Results with a handle of which a session knows the blobs. With one more the oldest can no longer be read.
pub const MAX_HANDLES: usize = 4096;
