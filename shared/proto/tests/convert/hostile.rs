//! Bytes from anywhere give an answer, and never a panic.

use crate::samples::samples;
use crate::{decoded, encoded};
use cairn_engine::event::{self, Event, EventKind};
use cairn_engine::level::LEVEL;
use cairn_proto::convert::{Decoded, decode_event};
use cairn_proto::event::{self as proto, event::Kind, settlement::Outcome};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use prost::Message as _;

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(4096)
    })]

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..200)) {
        let _ = decode_event(&bytes, LEVEL);
    }

    #[test]
    fn damaged_events_never_panic(
        (_, event) in select(samples()), cut in any::<Index>(), at in any::<Index>(), byte: u8
    ) {
        let mut bytes = encoded(&event);
        let position = at.index(bytes.len());
        bytes[position] = byte;
        bytes.truncate(cut.index(bytes.len()) + 1);
        if let Ok(Decoded::Event(event)) = decode_event(&bytes, LEVEL) {
            prop_assert_eq!(decoded(&encoded(&event)), event);
        }
    }
}

#[test]
fn what_is_no_event_at_all_is_said_so() {
    let error = decode_event(b"\x08", LEVEL).expect_err("a cut number");
    assert_eq!(error.field, "event");
    assert!(error.problem.starts_with("cannot be decoded: "), "{error}");
}

#[test]
fn kinds_from_newer_versions_are_known_to_be_that_and_fields_are_skipped() {
    // Field 1000 of the event: a message of two bytes.
    let new_kind = [0x08, 0x07, 0xc2, 0x3e, 0x02, 0x08, 0x01];
    let newer = Ok(Decoded::Newer { needs: 1 });
    assert_eq!(decode_event(&new_kind, LEVEL), newer);
    assert_eq!(decode_event(&[], LEVEL), newer);

    let known = Event {
        at: 7,
        answers: 0,
        principal: None,
        kind: EventKind::RunResumed(event::RunResumed { run: 3 }),
    };
    let mut bytes = encoded(&known);
    bytes.extend([0xc0, 0x3e, 0x05]);
    assert_eq!(decoded(&bytes), known);
}

#[test]
fn times_before_1970_are_named() {
    let event = |at_unix_ms, not_after_unix_ms| proto::Event {
        at_unix_ms,
        kind: Some(Kind::CallIntended(proto::CallIntended {
            call: Some(proto::CallRef {
                attempt: Some(proto::AttemptRef::default()),
                ..Default::default()
            }),
            not_after_unix_ms,
            ..Default::default()
        })),
        ..Default::default()
    };
    for (event, field) in [
        (event(-1, 1), "at_unix_ms"),
        (event(1, -1), "call_intended.not_after_unix_ms"),
    ] {
        let error = decode_event(&event.encode_to_vec(), LEVEL).expect_err(field);
        assert_eq!(error.field, field);
        assert_eq!(error.problem, "is -1; it cannot be negative");
    }
}

#[test]
fn a_decision_about_no_question_is_named() {
    for pending_id in ["", "budget-x", "approval-2.3.1.4.1-1"] {
        let event = proto::Event {
            at_unix_ms: 1,
            kind: Some(Kind::Decided(proto::Decided {
                responses_json: String::new(),
                pending_id: pending_id.to_owned(),
                settlement: Some(proto::Settlement {
                    outcome: Some(Outcome::Retry(proto::settlement::Retry {})),
                }),
                settle_after_unix_ms: 0,
            })),
            ..Default::default()
        };
        let error = decode_event(&event.encode_to_vec(), LEVEL).expect_err(pending_id);
        assert_eq!(error.field, "decided.pending_id");
        assert_eq!(error.problem, format!("'{pending_id}' names no question"));
    }
}

#[test]
fn a_fault_deep_in_a_list_is_named_by_position() {
    let call = proto::RequestedCall {
        tool_digest: String::new(),
        call: Some(proto::ToolCall::default()),
        effect: 0,
        previews: false,
        hooked: false,
    };
    let reply = proto::ReplyReceived {
        attempt: Some(proto::AttemptRef::default()),
        calls: vec![call, proto::RequestedCall::default()],
        usage: Some(proto::Usage::default()),
        ..Default::default()
    };
    let event = proto::Event {
        at_unix_ms: 1,
        kind: Some(Kind::ReplyReceived(reply)),
        ..Default::default()
    };
    let error = decode_event(&event.encode_to_vec(), LEVEL).expect_err("a call is missing");
    assert_eq!(error.field, "reply_received.calls[1].call");
}
