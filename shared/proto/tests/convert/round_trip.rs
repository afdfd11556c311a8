//! Nothing is lost on the way to the wire and back.

use crate::{decoded, encoded, strategies};
use cairn_engine::conversation::Conversation;
use cairn_engine::decide::Reply;
use cairn_engine::event::{self, Event, EventKind};
use cairn_engine::level::LEVEL;
use cairn_engine::message::Message;
use cairn_proto::convert::{Decoded, Named, decode_event, encode_stored_apart};
use cairn_proto::{event as proto, executor};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use prost::Message as _;

#[test]
fn events_of_every_kind_come_back_as_they_were() {
    for (name, kind) in strategies::kinds() {
        let events = strategies::event(kind);
        let mut runner = TestRunner::new(Config {
            failure_persistence: None,
            ..Config::with_cases(64)
        });
        let outcome = runner.run(&events, |event| {
            let bytes = encoded(&event);
            prop_assert_eq!(&decoded(&bytes), &event);
            prop_assert_eq!(proto::Event::from(event).encode_to_vec(), bytes);
            Ok(())
        });
        outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::with_cases(128) })]

    #[test]
    fn replies_come_back_as_they_were(reply in strategies::reply()) {
        let wire = executor::Reply::from(reply.clone());
        prop_assert_eq!(Reply::try_from(wire), Ok(reply));
    }

    #[test]
    fn messages_come_back_as_they_were(message in strategies::message()) {
        let wire = proto::Message::from(message.clone());
        prop_assert_eq!(Message::try_from(wire), Ok(message));
    }

    #[test]
    fn conversations_come_back_as_they_were(conversation in strategies::conversation()) {
        let wire = proto::Conversation::from(conversation.clone());
        prop_assert_eq!(Conversation::try_from(wire), Ok(conversation));
    }

    #[test]
    fn an_event_stored_apart_names_its_blob(
        at in strategies::time(),
        digest in any::<String>(),
        size in any::<u64>(),
        listed in prop::collection::vec((any::<String>(), any::<u32>()), 0..4)
    ) {
        let blobs = listed.into_iter().map(|(digest, size)| proto::Blob { digest, size });
        let blobs: Vec<_> = blobs.collect();
        let bytes = encode_stored_apart(at, 1, blobs.clone(), digest.clone(), size);
        let apart = Some(proto::StoredApart { digest: digest.clone(), size });
        prop_assert_eq!(Named::by(&bytes), Named { apart, blobs });
        prop_assert_eq!(decode_event(&bytes, LEVEL), Ok(Decoded::StoredApart { digest, size }));
    }
}

fn event_at(at: u64, kind: impl Into<EventKind>) -> Event {
    Event {
        at,
        answers: 0,
        principal: None,
        kind: kind.into(),
    }
}

#[test]
fn a_time_beyond_the_wire_becomes_the_latest() {
    let event = decoded(&encoded(&event_at(u64::MAX, event::MemoryCleared {})));
    assert_eq!(event.at, i64::MAX as u64);
}
