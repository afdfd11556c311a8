//! Valid requests of the service for hooks.

use cairn_proto::api as pb;
use cairn_proto::event::HookPoint;
use prost::Message;

/// Addresses at which hooks may be stored.
pub(crate) const ADDRESSES: &str = "http://*.example.org:*";

/// As [`super::valid::public`], for a hook that is stored first.
pub(crate) fn hooks(method: &str, n: usize) -> Vec<Vec<u8>> {
    let request_id = format!("{method}-{n}");
    let name = "audit".to_owned();
    let bytes = match method {
        "PutHook" => pb::PutHookRequest {
            request_id,
            hook: Some(definition(name)),
            expected_version: None,
        }
        .encode_to_vec(),
        "GetHook" => pb::GetHookRequest { name }.encode_to_vec(),
        "ListHooks" => pb::ListHooksRequest {
            page_size: 1,
            page_token: String::new(),
        }
        .encode_to_vec(),
        "DeleteHook" => pb::DeleteHookRequest {
            request_id,
            name,
            expected_version: None,
        }
        .encode_to_vec(),
        _ => return Vec::new(),
    };
    vec![bytes]
}

fn definition(name: String) -> pb::HookDefinition {
    pb::HookDefinition {
        name,
        points: vec![HookPoint::PreToolCall.into()],
        agents: Some(pb::HookPatterns {
            patterns: vec!["review*".to_owned()],
        }),
        tools: vec!["write_file".to_owned()],
        url: "http://hooks.example.org:9000".to_owned(),
        timeout: Some(prost_types::Duration {
            seconds: 2,
            nanos: 0,
        }),
        on_error: pb::HookOnError::Block.into(),
    }
}
