use super::*;
use crate::ui::testing::golden;
use cairn_proto::event::event::Kind;
use prost::Message as _;
use prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, Kind as FieldKind, MessageDescriptor,
    ReflectMessage as _,
};
use serde_json::json;
use std::collections::BTreeSet;

#[test]
fn every_kind_has_the_fields_of_the_contract() {
    let pool = DescriptorPool::decode(cairn_proto::DESCRIPTORS).unwrap();
    let contract = pool.get_message_by_name("cairn.event.v1.Event").unwrap();
    let oneof = contract.oneofs().next().unwrap();
    let mut kinds = golden();
    for kind in oneof.fields() {
        let name = kind.name().to_owned();
        if !kinds
            .iter()
            .any(|(file, ..)| file.split('.').next() == Some(&name))
        {
            let mut event = DynamicMessage::new(contract.clone());
            event.set_field(&kind, kind.default_value());
            let bytes = event.encode_to_vec();
            let event = wire::Event::decode(bytes.as_slice()).unwrap();
            kinds.push((name, bytes, event));
        }
    }
    for (file, bytes, event) in kinds {
        let json = event_json(7, &event);
        let kind = json["kind"].as_str().unwrap().to_owned();
        assert_eq!(file.split('.').next(), Some(kind.as_str()));
        assert_eq!(json["seq"], 7, "{file}");
        assert_eq!(json["at"], utc(event.at_unix_ms), "{file}");
        let message = DynamicMessage::decode(contract.clone(), bytes.as_slice()).unwrap();
        let of_kind = message.get_field_by_name(&kind).unwrap();
        let descriptor = of_kind.as_message().unwrap().descriptor();
        let mut fields = json.as_object().unwrap().clone();
        for common in ["seq", "at", "kind", "answers", "principal", "blobs"] {
            fields.remove(common);
        }
        for own in OWN_KINDS {
            if let Some(own) = fields.remove(own) {
                fields.insert("kind".to_owned(), own);
            }
        }
        check(&file, &Value::Object(fields), &descriptor);
    }
}

/// The value has the fields of the message, with their types, and no others.
fn check(place: &str, value: &Value, message: &MessageDescriptor) {
    let object = value
        .as_object()
        .unwrap_or_else(|| panic!("{place}: {value}"));
    let names: BTreeSet<&str> = object.keys().map(String::as_str).collect();
    let fields: Vec<_> = message.fields().collect();
    let is_choice = |field: &&FieldDescriptor| {
        let oneof = field.containing_oneof();
        oneof.is_some_and(|oneof| !oneof.is_synthetic())
    };
    let (choices, plain): (Vec<_>, Vec<_>) = fields.iter().partition(is_choice);
    let choices: BTreeSet<&str> = choices.iter().map(|field| field.name()).collect();
    let plain: BTreeSet<&str> = plain.iter().map(|field| field.name()).collect();
    let (chosen, rest): (BTreeSet<&str>, BTreeSet<&str>) =
        names.iter().partition(|name| choices.contains(*name));
    assert_eq!(rest, plain, "{place}");
    // An event that only has its kind has no choice.
    let most = usize::from(!choices.is_empty());
    assert!(chosen.len() <= most, "{place}: {names:?}");
    for field in fields.iter().filter(|field| names.contains(field.name())) {
        let place = format!("{place}/{}", field.name());
        let value = &object[field.name()];
        let values: Vec<&Value> = match value.as_array() {
            Some(values) if field.is_list() => values.iter().collect(),
            _ => vec![value],
        };
        for value in values {
            match field.kind() {
                // Messages and optional fields that are not set are null, and only those.
                _ if value.is_null() && field.supports_presence() => {}
                _ if field.is_map() => assert!(value.is_object(), "{place}: {value}"),
                FieldKind::Message(message) => check(&place, value, &message),
                FieldKind::String | FieldKind::Bytes => {
                    assert!(value.is_string(), "{place}: {value}")
                }
                FieldKind::Bool => assert!(value.is_boolean(), "{place}: {value}"),
                FieldKind::Enum(_) => {
                    let name = value.as_str().unwrap();
                    assert_eq!(name, name.to_ascii_lowercase(), "{place}");
                    assert!(
                        !name.contains(&format!("{}_", field.name())),
                        "{place}: {name}"
                    );
                }
                _ => assert!(value.is_number(), "{place}: {value}"),
            }
        }
    }
}

#[test]
fn an_event_of_a_newer_version_is_shown_as_unknown() {
    let event = wire::Event {
        at_unix_ms: 0,
        kind: None,
        ..Default::default()
    };
    let json = event_json(3, &event).to_string();
    assert_eq!(
        json,
        r#"{"seq":3,"at":"1970-01-01T00:00:00.000Z","kind":"unknown"}"#
    );
}

#[test]
fn an_event_says_who_asked_for_it() {
    let event = wire::Event {
        principal: Some(wire::Principal {
            subject: "uid:1000".into(),
            namespace: "default".into(),
            authentication: wire::Authentication::Socket.into(),
        }),
        kind: Some(Kind::MemoryCleared(wire::MemoryCleared {})),
        ..Default::default()
    };
    assert_eq!(
        event_json(3, &event)["principal"],
        json!({"subject": "uid:1000", "namespace": "default", "authentication": "socket"})
    );
}

fn golden_json(name: &str, seq: u64) -> Value {
    let (_, _, event) = golden()
        .into_iter()
        .find(|(found, ..)| found == name)
        .unwrap();
    event_json(seq, &event)
}

#[test]
fn only_planning_that_failed_has_a_usage_with_the_failure() {
    let json = golden_json("run_failed.planning", 4);
    assert_eq!(json["usage"]["input_tokens"], 1200);
    assert_eq!(json["duration_ms"], 2345);
    let json = golden_json("run_failed", 4);
    assert_eq!(
        (&json["usage"], &json["duration_ms"]),
        (&json!(null), &json!(0))
    );
}

#[test]
fn the_form_of_an_event_stays_as_it_is() {
    assert_eq!(
        golden_json("call_settled.skip", 12),
        json!({
            "seq": 12,
            "at": "2025-10-09T08:53:20.001Z",
            "kind": "call_settled",
            "call": {"attempt": {"run": 2, "step": 3, "attempt": 1}, "tool_turn": 4, "index": 1},
            "settlement": {"skip": {"reason": "wrong address"}},
            "output": "a person skipped it",
        })
    );
}
