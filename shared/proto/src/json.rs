//! Messages as JSON, by reflection: a new kind of event needs no code here.
//!
//! Fields have the names of the contract, and each is there: numbers as numbers, values of enums in
//! lower case without the name of their enum (`in_doubt`), messages that are not set as `null`. Of a
//! `oneof` only the field is there that is set.

use crate::DESCRIPTORS;
use prost::Message;
use prost_reflect::{
    DescriptorPool, DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor,
    ReflectMessage as _, Value,
};
use serde_json::{Map, Value as Json};
use std::sync::LazyLock;

/// `None` only if the build made no descriptors.
static POOL: LazyLock<Option<DescriptorPool>> =
    LazyLock::new(|| DescriptorPool::decode(DESCRIPTORS).ok());

/// The fields of a message; `name` is its full name, such as `cairn.event.v1.Usage`. Empty for a name
/// that is in no contract.
pub fn fields(name: &str, message: &impl Message) -> Map<String, Json> {
    let descriptor = POOL
        .as_ref()
        .and_then(|pool| pool.get_message_by_name(name));
    let read = |descriptor: MessageDescriptor| {
        DynamicMessage::decode(descriptor, &message.encode_to_vec()[..]).ok()
    };
    let message = descriptor.and_then(read);
    message.map(|message| object(&message)).unwrap_or_default()
}

/// The message as JSON; `null` if there is none.
pub fn value<M: Message>(name: &str, message: Option<&M>) -> Json {
    message.map_or(Json::Null, |message| fields(name, message).into())
}

fn object(message: &DynamicMessage) -> Map<String, Json> {
    let descriptor = message.descriptor();
    let is_there = |field: &FieldDescriptor| {
        let is_choice = field
            .containing_oneof()
            .is_some_and(|it| !it.is_synthetic());
        !is_choice || message.has_field(field)
    };
    let fields = descriptor.fields().filter(is_there);
    let json = |field: FieldDescriptor| {
        let is_null = field.supports_presence() && !message.has_field(&field);
        let json = match is_null {
            true => Json::Null,
            false => of(&message.get_field(&field), &field.kind()),
        };
        (field.name().to_owned(), json)
    };
    fields.map(json).collect()
}

fn of(value: &Value, kind: &Kind) -> Json {
    match value {
        Value::Bool(value) => (*value).into(),
        Value::I32(value) => (*value).into(),
        Value::I64(value) => (*value).into(),
        Value::U32(value) => (*value).into(),
        Value::U64(value) => (*value).into(),
        Value::F32(value) => (*value).into(),
        Value::F64(value) => (*value).into(),
        Value::String(value) => value.as_str().into(),
        Value::Bytes(value) => String::from_utf8_lossy(value).into(),
        Value::EnumNumber(number) => match kind {
            Kind::Enum(descriptor) => name_of(descriptor, *number).into(),
            _ => (*number).into(),
        },
        Value::Message(message) => object(message).into(),
        Value::List(values) => values.iter().map(|value| of(value, kind)).collect(),
        // No contract has a map.
        Value::Map(_) => Json::Null,
    }
}

/// The name of a value of an enum; that of the first one for a number that this version does not know.
fn name_of(descriptor: &EnumDescriptor, number: i32) -> String {
    let first = descriptor.default_value();
    let value = descriptor
        .get_value(number)
        .unwrap_or_else(|| first.clone());
    let prefix = first.name().trim_end_matches("UNSPECIFIED");
    let name = value.name().strip_prefix(prefix).unwrap_or(value.name());
    name.to_ascii_lowercase()
}
