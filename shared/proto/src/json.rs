//! Messages as JSON, by reflection: a new kind of event needs no code here.
//!
//! Fields have the names of the contract, and each is there: numbers as numbers, values of enums in
//! lower case without the name of their enum (`in_doubt`), bytes in base64, messages that are not set as
//! `null`. Of a `oneof` only the field is there that is set. Times and spans are texts, as in protobuf JSON:
//! `2026-11-21T23:11:34.512Z` and `1.500s`.
//!
//! Lines that clients send back are protobuf JSON instead, which holds all of a message.

use crate::DESCRIPTORS;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost::Message;
use prost_reflect::{
    DescriptorPool, DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, MapKey,
    MessageDescriptor, ReflectMessage as _, Value,
};
use prost_types::{Duration, Struct, Timestamp};
use serde_json::{Map, Value as Json};
use std::collections::{BTreeMap, HashMap};
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

/// The message as one line of protobuf JSON: names in lower camel case, bytes as base64, and only the
/// fields that are set. `None` for a name that is in no contract.
pub fn line(name: &str, message: &impl Message) -> Option<String> {
    let descriptor = POOL.as_ref()?.get_message_by_name(name)?;
    let message = DynamicMessage::decode(descriptor, &message.encode_to_vec()[..]).ok()?;
    serde_json::to_string(&message).ok()
}

/// The message that a line of protobuf JSON holds. A field of a decimal is refused: the library of reflection does
/// not know numbers that keep their digits. No message that clients send as a line has one.
///
/// # Errors
/// A text that says what is wrong, and at which column.
pub fn from_line<M: Message + Default>(name: &str, line: &str) -> Result<M, String> {
    let descriptor = POOL
        .as_ref()
        .and_then(|pool| pool.get_message_by_name(name));
    let descriptor = descriptor.ok_or_else(|| format!("{name} is in no contract"))?;
    let mut json = serde_json::Deserializer::from_str(line);
    let message = DynamicMessage::deserialize(descriptor, &mut json).and_then(|message| {
        json.end()?;
        Ok(message)
    });
    // A caller with several lines has its own number for this one.
    let message = message.map_err(|error| {
        error
            .to_string()
            .replace(" at line 1 column ", " at column ")
    })?;
    M::decode(&message.encode_to_vec()[..]).map_err(|error| error.to_string())
}

/// A JSON object as contracts hold it; `None` for a text that is no JSON object. A number has 53 bits there, as in
/// JavaScript.
pub fn to_struct(json: &str) -> Option<Struct> {
    serde_json::from_str(json).ok().map(struct_of)
}

fn struct_of(object: Map<String, Json>) -> Struct {
    let fields = object.into_iter().map(|(name, value)| (name, any(value)));
    Struct {
        fields: fields.collect(),
    }
}

fn any(value: Json) -> prost_types::Value {
    use prost_types::value::Kind as Of;
    let kind = match value {
        Json::Null => Of::NullValue(0),
        Json::Bool(value) => Of::BoolValue(value),
        Json::Number(number) => match number.as_f64() {
            Some(value) => Of::NumberValue(value),
            None => Of::StringValue(number.to_string()),
        },
        Json::String(text) => Of::StringValue(text),
        Json::Array(list) => Of::ListValue(prost_types::ListValue {
            values: list.into_iter().map(any).collect(),
        }),
        Json::Object(object) => Of::StructValue(struct_of(object)),
    };
    prost_types::Value { kind: Some(kind) }
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
        Value::Bytes(value) => STANDARD.encode(value).into(),
        Value::EnumNumber(number) => match kind {
            Kind::Enum(descriptor) => name_of(descriptor, *number).into(),
            _ => (*number).into(),
        },
        Value::Message(message) => match time(message) {
            Some(time) => time.into(),
            None => object(message).into(),
        },
        Value::List(values) => values.iter().map(|value| of(value, kind)).collect(),
        Value::Map(entries) => map(entries, kind),
    }
}

/// The text of a time or of a span.
fn time(message: &DynamicMessage) -> Option<String> {
    let descriptor = message.descriptor();
    let bytes = || message.encode_to_vec();
    match descriptor.full_name() {
        "google.protobuf.Timestamp" => Some(Timestamp::decode(&bytes()[..]).ok()?.to_string()),
        "google.protobuf.Duration" => Some(Duration::decode(&bytes()[..]).ok()?.to_string()),
        _ => None,
    }
}

/// A map as an object, in the order of its keys. Contracts have maps of texts only.
fn map(entries: &HashMap<MapKey, Value>, kind: &Kind) -> Json {
    let Kind::Message(entry) = kind else {
        return Json::Null;
    };
    let kind = entry.map_entry_value_field().kind();
    let texts = entries.iter().filter_map(|(key, value)| {
        let key = key.as_str()?;
        Some((key.to_owned(), of(value, &kind)))
    });
    let texts: BTreeMap<_, _> = texts.collect();
    texts.into_iter().collect()
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

#[cfg(test)]
mod tests {
    use super::{fields, from_line, line};
    use crate::{api, event as wire, time};

    const NAME: &str = "cairn.event.v1.Message";

    #[test]
    fn a_line_holds_all_of_a_message() {
        let parts = [
            wire::part::Part::Text("a\nb\0".to_owned()),
            wire::part::Part::Media(wire::Media {
                mime: "image/png".to_owned(),
                data: vec![0, 255, 128],
            }),
            wire::part::Part::Call(wire::ToolCall {
                id: "c".to_owned(),
                name: "look".to_owned(),
                arguments_json: "{".to_owned(),
            }),
        ];
        let message = wire::Message {
            role: wire::Role::Assistant.into(),
            parts: parts.map(wire::Part::from).into(),
        };
        let text = line(NAME, &message).unwrap();
        assert!(!text.contains('\n'));
        assert!(
            text.contains("\"ROLE_ASSISTANT\"") && text.contains("\"AP+A\""),
            "{text}"
        );
        assert_eq!(from_line::<wire::Message>(NAME, &text), Ok(message));
    }

    #[test]
    fn a_map_is_an_object() {
        let pair = |key: &str| (key.to_owned(), format!("of {key}"));
        let destroy = wire::DestroyContext {
            conclusions: [pair("b"), pair("a")].into(),
            ..wire::DestroyContext::default()
        };
        let json = fields("cairn.event.v1.DestroyContext", &destroy);
        let wanted = serde_json::json!({"a": "of a", "b": "of b"});
        assert_eq!(json["conclusions"], wanted);
    }

    #[test]
    fn a_time_and_a_span_are_texts() {
        let limits = api::AgentLimits {
            max_active_time: Some(time::duration(1_500)),
            ..api::AgentLimits::default()
        };
        let agent = api::Agent {
            change_time: Some(time::timestamp(1_700_000_000_250)),
            definition: Some(api::AgentDefinition {
                limits: Some(limits),
                ..api::AgentDefinition::default()
            }),
            ..api::Agent::default()
        };
        let json = fields("cairn.api.v1.Agent", &agent);
        assert_eq!(json["change_time"], "2023-11-14T22:13:20.250Z");
        let limits = &json["definition"]["limits"];
        assert_eq!(limits["max_active_time"], "1.500s");
        assert_eq!(limits["max_cost"], serde_json::Value::Null);
    }

    #[test]
    fn a_line_that_is_no_message_is_refused() {
        for line in [
            "",
            "[]",
            "{",
            "{} {}",
            r#"{"rolle":1}"#,
            r#"{"role":"ROLE_KING"}"#,
        ] {
            assert!(from_line::<wire::Message>(NAME, line).is_err(), "{line}");
        }
    }
}
