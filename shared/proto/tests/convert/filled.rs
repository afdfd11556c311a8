//! Every kind of event and of command, with every field set by reflection: a kind needs no sample of
//! its own to be known to come through whole.

use crate::{decoded, descriptor, encoded};
use prost::Message as _;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, Value};

/// An event of this kind with this payload, encoded.
fn event_of(kind: &FieldDescriptor, payload: Value) -> Vec<u8> {
    let mut event = DynamicMessage::new(descriptor("Event"));
    event.set_field_by_name("at_unix_ms", Value::I64(7));
    event.set_field(kind, payload);
    event.encode_to_vec()
}

fn filled(message: &MessageDescriptor) -> DynamicMessage {
    let mut filled = DynamicMessage::new(message.clone());
    for field in message.fields() {
        let is_other_choice = field
            .containing_oneof()
            .and_then(|choice| choice.fields().next())
            .is_some_and(|first| first != field);
        if !is_other_choice {
            filled.set_field(&field, value(&field));
        }
    }
    filled
}

fn value(field: &FieldDescriptor) -> Value {
    let one = match field.kind() {
        Kind::String if field.name() == "pending_id" => Value::String("call-1.2.1.0.0".to_owned()),
        Kind::String if field.full_name() == "cairn.event.v1.CommandRefused.reason" => {
            Value::String("RUN_ACTIVE".to_owned())
        }
        Kind::String => Value::String("text".to_owned()),
        // It follows from the kind of the failure.
        Kind::Bool => Value::Bool(field.name() != "recoverable"),
        Kind::Uint32 => Value::U32(1),
        Kind::Float => Value::F32(1.5),
        Kind::Uint64 => Value::U64(2),
        Kind::Int64 => Value::I64(3),
        Kind::Enum(values) => Value::EnumNumber(values.values().len() as i32 - 1),
        Kind::Bytes => Value::Bytes(b"data".as_slice().into()),
        Kind::Message(message) => Value::Message(filled(&message)),
        other => panic!("{}: {other:?}", field.full_name()),
    };
    if field.is_list() {
        return Value::List(vec![one]);
    }
    one
}

#[test]
fn every_kind_of_event_comes_through_with_all_its_fields() {
    let kinds = descriptor("Event").oneofs().next().unwrap();
    for kind in kinds.fields().filter(|kind| kind.name() != "stored_apart") {
        let bytes = event_of(&kind, value(&kind));
        assert_eq!(encoded(&decoded(&bytes)), bytes, "{}", kind.name());
    }
}

#[test]
fn every_kind_of_command_comes_through_with_all_its_fields() {
    let received = descriptor("Event");
    let received = received.get_field_by_name("command_received").unwrap();
    let kinds = descriptor("Command").oneofs().next().unwrap();
    for kind in kinds.fields() {
        let mut command = DynamicMessage::new(descriptor("Command"));
        command.set_field(&kind, value(&kind));
        let mut payload = DynamicMessage::new(descriptor("CommandReceived"));
        payload.set_field_by_name("request_id", Value::String("text".to_owned()));
        payload.set_field_by_name("command", Value::Message(command));
        let bytes = event_of(&received, Value::Message(payload));
        assert_eq!(encoded(&decoded(&bytes)), bytes, "{}", kind.name());
    }
}
