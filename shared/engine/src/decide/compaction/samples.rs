//! Conversations in few signs, for tests.
//!
//! `u` is a message of the user, `a` a reply, `a!` one with a call, `r` the result of the last call, `V` a
//! history view and `S` a summary. A number behind a sign is how many tokens more the message has, on a line of
//! their own.

use crate::conversation::{CompactedMessages, CompactionKind, Conversation, Entry};
use crate::message::{Message, ToolCall};

/// A conversation with these messages before its mark, numbered from 1.
pub(super) fn before(signs: &str) -> Conversation {
    let mut conversation = behind(Conversation::default(), signs);
    conversation.incremental = std::mem::take(&mut conversation.behind);
    conversation
}

/// The conversation with these messages more behind its mark.
pub(super) fn behind(mut conversation: Conversation, signs: &str) -> Conversation {
    for sign in signs.split_whitespace() {
        let more = sign.find(|c: char| c.is_ascii_digit());
        let (sign, tokens) = sign.split_at(more.unwrap_or(sign.len()));
        let tokens: usize = tokens.parse().unwrap_or_default();
        let more = match tokens {
            0 => String::new(),
            // A word with the blank before it is a token.
            tokens => format!("\n{}", vec!["more"; tokens].join(" ")),
        };
        add(&mut conversation, sign, &more);
    }
    conversation
}

fn add(conversation: &mut Conversation, sign: &str, more: &str) {
    let n = conversation.last_number + 1;
    let (message, compaction) = match sign {
        "u" => (Message::user(format!("message {n}{more}")), None),
        "a" => {
            let text = format!("reply {n}{more}");
            (Message::assistant(text, Vec::new()), None)
        }
        "a!" => {
            let call = ToolCall {
                id: format!("call-{n}"),
                name: "look".to_owned(),
                arguments: "{}".to_owned(),
            };
            (Message::assistant(more.trim_start(), vec![call]), None)
        }
        "r" => {
            let said = conversation.behind.iter().rev();
            let call = said.flat_map(|entry| entry.message.calls()).next();
            let call = call.expect("a call before its result").id.clone();
            (
                Message::tool(call, format!("result {n}{more}"), false),
                None,
            )
        }
        "V" => {
            let text = format!("[done] goal {n}{more}");
            let kind = CompactionKind::History;
            (Message::assistant(text, Vec::new()), Some(kind))
        }
        "S" => {
            let text = format!("summary {n}{more}");
            (Message::user(text), Some(CompactionKind::Summary))
        }
        other => panic!("a sign: {other:?}"),
    };
    conversation.append(message);
    let last = conversation.behind.last_mut().expect("the message");
    last.compaction = compaction;
}

/// The numbers of messages.
pub(super) fn numbers(entries: &[Entry]) -> Vec<u32> {
    entries.iter().map(|entry| entry.number).collect()
}

/// Messages by their numbers.
pub(super) fn part(behind_mark: bool, after: u32, through: u32) -> CompactedMessages {
    CompactedMessages {
        behind_mark,
        after,
        through,
        with_compressed: false,
    }
}
