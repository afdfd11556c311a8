//! Events that need a reader of a higher level.

use crate::samples::samples;
use cairn_proto::convert::{
    ConvertError, Decoded, decode_event, encode_event, encode_stored_apart,
};
use cairn_proto::event::{self as proto, event::Kind};
use prost::Message as _;

fn read(event: &proto::Event, level: u32) -> Result<Decoded, ConvertError> {
    decode_event(&event.encode_to_vec(), level)
}

/// What a newer version may write and this one does not know, with the level that it asks for: an event of
/// an unknown kind, and within known events a command, an operation, a choice, a value of an enum and a name.
fn growths(needs: u32) -> [(&'static str, proto::Event); 6] {
    let event = |kind| proto::Event {
        at_unix_ms: 1,
        needs,
        kind,
        ..Default::default()
    };
    let command = proto::CommandReceived {
        request_id: "request".to_owned(),
        command: Some(proto::Command { kind: None }),
    };
    let op = proto::ContextChanged {
        conversation: Some(proto::context_changed::Conversation::Context(
            "main".to_owned(),
        )),
        ops: vec![proto::Op { op: None }],
        ..Default::default()
    };
    let choice = proto::ContextChanged::default();
    let value = proto::RunWaiting {
        run: 1,
        reason: 4711,
    };
    let name = proto::CommandRefused {
        reason: "FUTURE".to_owned(),
        ..Default::default()
    };
    [
        ("kind", event(None)),
        ("command", event(Some(Kind::CommandReceived(command)))),
        ("op", event(Some(Kind::ContextChanged(op)))),
        ("choice", event(Some(Kind::ContextChanged(choice)))),
        ("value", event(Some(Kind::RunWaiting(value)))),
        ("name", event(Some(Kind::CommandRefused(name)))),
    ]
}

#[test]
fn nothing_is_read_of_an_event_above_the_level() {
    for (what, event) in growths(2) {
        assert_eq!(read(&event, 1), Ok(Decoded::Newer { needs: 2 }), "{what}");
    }
    // Nothing else is wrong with it, and what it means is another matter for who knows the level.
    for (name, event) in samples() {
        let marked = encode_event(&event, 3);
        let newer = Ok(Decoded::Newer { needs: 3 });
        assert_eq!(decode_event(&marked, 2), newer, "{name}");
        assert_eq!(
            decode_event(&marked, 3),
            Ok(Decoded::Event(event)),
            "{name}"
        );
    }
}

/// A newer version that does not mark what it adds has a fault. Its sessions wait for it all the same, and none
/// is called damaged.
#[test]
fn what_is_unknown_in_an_event_of_the_level_is_left_to_a_newer_version_too() {
    for (what, event) in growths(1) {
        assert_eq!(read(&event, 1), Ok(Decoded::Newer { needs: 1 }), "{what}");
    }
}

#[test]
fn an_event_that_is_stored_apart_asks_for_its_level_where_it_is_named() {
    let named = encode_stored_apart(7, 2, Vec::new(), "digest".to_owned(), 1);
    assert_eq!(decode_event(&named, 1), Ok(Decoded::Newer { needs: 2 }));
    assert!(matches!(
        decode_event(&named, 2),
        Ok(Decoded::StoredApart { .. })
    ));
}

#[test]
fn the_first_level_takes_no_bytes() {
    for (name, event) in samples() {
        assert_eq!(encode_event(&event, 1), encode_event(&event, 0), "{name}");
        let read = proto::Event::decode(&*encode_event(&event, 1)).unwrap();
        assert_eq!(read.needs, 0, "{name}");
    }
}
