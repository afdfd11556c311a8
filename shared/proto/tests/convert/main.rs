//! The conversions between the contracts and the engine's vocabulary.

#![allow(clippy::unwrap_used)] // Helpers of tests are tests.

mod enums;
mod filled;
mod golden;
mod hooks;
mod hostile;
mod levels;
mod missing;
mod round_trip;
mod samples;
mod strategies;

use cairn_engine::event::Event;
use cairn_engine::level::LEVEL;
use cairn_proto::convert::{Decoded, decode_event, encode_event};
use prost_reflect::{DescriptorPool, MessageDescriptor};

fn encoded(event: &Event) -> Vec<u8> {
    encode_event(event, LEVEL)
}

fn decoded(bytes: &[u8]) -> Event {
    match decode_event(bytes, LEVEL) {
        Ok(Decoded::Event(event)) => event,
        other => panic!("not an event: {other:?}"),
    }
}

fn descriptor(message: &str) -> MessageDescriptor {
    let pool = DescriptorPool::decode(cairn_proto::DESCRIPTORS).unwrap();
    pool.get_message_by_name(&format!("cairn.event.v1.{message}"))
        .unwrap()
}
