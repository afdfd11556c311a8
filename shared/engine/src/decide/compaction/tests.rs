//! Which compaction is chosen.

use super::candidates::{Asked, Choice, Request};
use super::cuts::Part;
use super::samples::{before, behind, part};
use crate::conversation::{CompactedMessages, Conversation, Entry};
use crate::decide::words::COMPACTED;
use crate::decide::{Compaction, FullRequest};
use crate::message::{Message, Role};
use crate::tokens::{estimate_tokens, of_message};

/// What a summary is asked with.
const PROMPT: &str = "Sum it up.";

/// Six tool turns of a step, with 524 tokens each.
const SIX: &str = "a! r500 a! r500 a! r500 a! r500 a! r500 a! r500";

fn step(signs: &str) -> Conversation {
    behind(Conversation::default(), signs)
}

/// The next request, with so many tokens beside the messages.
fn request(conversation: &Conversation, beside: u64, window: u64) -> Request<'_> {
    let estimate = estimate_tokens(&conversation.messages()) + beside;
    let first = conversation.behind.first();
    Request {
        conversation,
        is_turn: first.is_some_and(|entry| entry.message.role == Role::User),
        newer: 0,
        notice: of_message(&Message::user(COMPACTED)),
        size: FullRequest {
            tokens: estimate,
            estimated_tokens: estimate,
            window,
            max_output_tokens: 0,
            is_refused: false,
        },
    }
}

fn choose(conversation: &Conversation, beside: u64, window: u64) -> Option<Choice> {
    request(conversation, beside, window).choose(Compaction::default(), PROMPT, false)
}

/// The messages that give way to a view, and the view.
fn viewed(choice: Option<Choice>) -> (CompactedMessages, String) {
    match choice {
        Some(Choice::History { messages, text }) => (messages, text),
        other => panic!("no view: {other:?}"),
    }
}

/// The question for a summary.
fn asked(choice: Option<Choice>) -> Asked {
    match choice {
        Some(Choice::Summary(asked)) => asked,
        other => panic!("no summary: {other:?}"),
    }
}

fn tokens(entries: &[Entry]) -> u64 {
    let tokens = entries.iter().map(|entry| of_message(&entry.message));
    tokens.sum()
}

#[test]
fn a_history_view_comes_first_and_as_many_tool_turns_stay_as_can() {
    let said = step(SIX);
    let (messages, text) = viewed(choose(&said, 3_000, 8_000));
    assert_eq!(messages, part(true, 0, 6));
    let lines = [
        "  → look: result 2",
        "  → look: result 4",
        "  → look: result 6",
    ];
    assert_eq!(text, lines.join("\n"));
    // Where that does not bring the request below 5,600 tokens, fewer stay.
    let (messages, _) = viewed(choose(&said, 4_400, 8_000));
    assert_eq!(messages, part(true, 0, 8));
    let keeps_one = Compaction {
        keep_turns: 1,
        ..Compaction::default()
    };
    let choice = request(&said, 3_000, 8_000).choose(keeps_one, PROMPT, false);
    assert_eq!(viewed(choice).0, part(true, 0, 10));
}

#[test]
fn a_summary_is_asked_for_where_a_view_would_be_too_long() {
    let said = step("V400 a! r60 a! r60 a! r60 a! r60");
    let asked = asked(choose(&said, 200, 1_000));
    assert_eq!(asked.messages, part(true, 0, 3));
    let question = tokens(&said.behind[..3]) + of_message(&Message::user(PROMPT));
    assert_eq!(asked.estimate, 200 + question);
}

#[test]
fn a_view_loses_its_oldest_lines_where_no_question_fits() {
    let said = step("V400 a! r60 a! r60 a! r60 a! r60");
    let (messages, text) = viewed(choose(&said, 600, 1_000));
    assert_eq!(messages, part(true, 0, 3));
    let expected = "(older lines are left out)\n[done] goal 1\n  → look: result 3";
    assert_eq!(text, expected);
}

#[test]
fn a_person_who_gives_a_prompt_gets_a_summary() {
    let said = step(SIX);
    let choice = request(&said, 2_800, 8_000).choose(Compaction::default(), PROMPT, true);
    assert_eq!(asked(choice).messages, part(true, 0, 6));
}

#[test]
fn nothing_is_compacted_where_nothing_is_older_or_little_is_won() {
    assert_eq!(choose(&step("a! r500"), 6_000, 8_000), None);
    let said = step("a! r180 a! r1500");
    assert_eq!(choose(&said, 4_000, 8_000), None, "it fits all the same");
    // It does not fit otherwise.
    assert_eq!(viewed(choose(&said, 5_950, 8_000)).0, part(true, 0, 2));
}

#[test]
fn what_stands_before_the_mark_gives_way_before_what_the_turn_has_said() {
    let said = behind(before("u a! r900 a"), "u a! r500 a! r500 a! r500 a! r500");
    let (messages, text) = viewed(choose(&said, 3_000, 8_000));
    assert_eq!(messages, part(false, 0, 4));
    let expected = "[done] message 1\n  → look: result 3\n  Summary: reply 4";
    assert_eq!(text, expected);
}

#[test]
fn a_view_continues_the_one_that_is_the_last_compressed_message() {
    let mut said = before("V u a! r900 a");
    said.compressed = said.incremental.drain(..1).collect();
    let said = behind(said, "u a! r500 a! r500 a! r500 a! r500");
    let (messages, text) = viewed(choose(&said, 3_000, 8_000));
    assert_eq!(messages, part(false, 0, 5));
    let expected = "[done] goal 1\n[done] message 2\n  → look: result 4\n  Summary: reply 5";
    assert_eq!(text, expected);
}

#[test]
fn messages_beyond_a_window_give_nothing() {
    let mut said = behind(before("u a! r900 a u a"), "u a! r500 a! r500");
    said.window = Some(2);
    assert_eq!(viewed(choose(&said, 4_800, 8_000)).0, part(true, 7, 9));
}

#[test]
fn a_summary_takes_in_compressed_messages_that_have_become_long() {
    let mut said = before("S1000 S900");
    said.compressed = std::mem::take(&mut said.incremental);
    let said = behind(said, "u a! r500 a! r500 a! r500 a! r500");
    let expected = CompactedMessages {
        with_compressed: true,
        ..part(false, 0, 0)
    };
    assert_eq!(asked(choose(&said, 2_300, 8_000)).messages, expected);
}

#[test]
fn a_summary_behind_the_mark_stays_beside_a_view() {
    let said = step("S200 a! r500 a! r500 a! r500 a! r500 a! r500");
    let (messages, text) = viewed(choose(&said, 3_300, 8_000));
    assert_eq!(messages, part(true, 1, 5));
    assert_eq!(text, "  → look: result 3\n  → look: result 5");
}

#[test]
fn a_model_gets_the_summary_that_it_wants_if_anything_is_older() {
    let wanted = |signs: &str| {
        let said = step(signs);
        let asked = request(&said, 100, 0).summary_beyond(3, PROMPT);
        asked.map(|asked| asked.messages)
    };
    assert_eq!(wanted(SIX), Some(part(true, 0, 6)));
    assert_eq!(wanted("a! r a! r"), Some(part(true, 0, 2)));
    assert_eq!(wanted("a! r"), None);
    assert_eq!(wanted("S V a! r"), None, "that is short already");
    assert_eq!(wanted("S a! r a! r"), Some(part(true, 0, 3)));
}

#[test]
fn a_question_has_as_many_of_the_oldest_messages_as_fit() {
    let said = before("u100 a100 u100 a100 u");
    let all = Part {
        is_behind: false,
        range: 0..4,
    };
    for (beside, window, through) in [(50, 8_000, 4), (50, 400, 2), (300, 400, 2)] {
        let asked = request(&said, beside, window).summary_of(all.clone(), PROMPT);
        assert_eq!(asked.messages, part(false, 0, through), "{beside} {window}");
    }
}
