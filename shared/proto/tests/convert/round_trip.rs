//! Nothing is lost on the way to the wire and back.

use crate::{decoded, encoded, strategies};
use cairn_engine::conversation::{CompactedMessages, Conversation};
use cairn_engine::decide::{FullRequest, Reply};
use cairn_engine::event::{self, Event, EventKind};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::level::LEVEL;
use cairn_engine::message::{Message, Usage};
use cairn_engine::session::SummaryTask;
use cairn_proto::convert::{Decoded, Named, decode_event, encode_stored_apart, summarised};
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
    fn requests_that_are_too_long_come_back_as_they_were(full in strategies::full_request()) {
        let wire = executor::FullRequest::from(full);
        let again = FullRequest::try_from(wire).map(executor::FullRequest::from);
        prop_assert_eq!(again, Ok(wire));
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

#[test]
fn a_summary_is_a_text_or_the_failure_beside_it() {
    let usage = Usage {
        input_tokens: 7,
        ..Usage::default()
    };
    let report = executor::SummaryReport {
        text: "so far".to_owned(),
        usage: Some(usage.into()),
        provider: "anthropic".to_owned(),
        model: "offline-1".to_owned(),
        duration_ms: 812,
    };
    let written = summarised(report.clone(), None).unwrap();
    assert_eq!(written.outcome, Ok("so far".to_owned()));
    assert_eq!((written.usage, written.duration_ms), (usage, 812));
    assert_eq!(
        (&*written.provider, &*written.model),
        ("anthropic", "offline-1")
    );
    let failure = Failure::new(FailureKind::Llm, "RateLimit", "slow down");
    let failed = summarised(report, Some(failure.clone().into())).unwrap();
    assert_eq!(failed.outcome, Err(failure));
    assert_eq!(failed.usage, usage, "it was paid all the same");
}

#[test]
fn an_executor_gets_the_whole_task_of_a_summary() {
    let messages = CompactedMessages {
        behind_mark: true,
        after: 3,
        through: 9,
        with_compressed: false,
    };
    let task = executor::SummaryTask::from(SummaryTask {
        messages,
        prompt: "Sum up.".to_owned(),
        estimate: 5_200,
        max_output_tokens: 1_000,
        by_model: false,
    });
    assert_eq!(task.messages.map(CompactedMessages::from), Some(messages));
    assert_eq!((&*task.prompt, task.max_output_tokens), ("Sum up.", 1_000));
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
