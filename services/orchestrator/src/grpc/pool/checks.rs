//! What clients may register, and how they name what they change.

use cairn_agents::is_name;
use cairn_agents::resolve::OF_WORKSPACE;
use cairn_engine::pool::{MAX_LEVEL, is_capability};
use cairn_proto::api as pb;
use cairn_rpc::text::clip;
use cairn_rpc::{RpcError, check_text};
use std::collections::BTreeMap;

const MAX_ID: usize = 64;
const ID_RULE: &str = "1 to 64 letters, digits, '_', '-', '.' and ':'";
const MAX_KIND: usize = 64;
const KIND_RULE: &str = "1 to 64 lower-case letters, digits, '_' and '-'";
const CAPABILITY_RULE: &str = "1 to 64 lower-case letters, digits, '_', '-', '.' and ':'";
const MAX_CAPABILITIES: usize = 64;
const MAX_LABELS: usize = 64;
const MAX_LABEL_NAME: usize = 64;
const MAX_LABEL_VALUE: usize = 256;
const MAX_SLOTS: u32 = 10_000;
const MAX_TOOL: usize = 64;
const TOOL_RULE: &str = "1 to 64 letters, digits, '_' and '-'";
/// With what stands before it, the id of a document.
const MAX_EXECUTOR: usize = 110;
const EXECUTOR_RULE: &str =
    "the id of an executor, of 1 to 110 printable characters without spaces";
const AGENT_RULE: &str = "the name of an agent, such as default, reviewer or workspace:reviewer";

/// What a client registers, in the form in which it is stored: without a state.
///
/// # Errors
/// InvalidArgument that names the first field that is wrong.
pub(super) fn resource(asked: &pb::PutResourceRequest) -> Result<pb::Resource, RpcError> {
    resource_id("id", &asked.id)?;
    let is_of_kind = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
    name("kind", &asked.kind, MAX_KIND, is_of_kind, KIND_RULE)?;
    check_labels(&asked.labels)?;
    if asked.slots > MAX_SLOTS {
        let error = RpcError::invalid("slots", format!("is {}", asked.slots));
        return Err(error.allowed(format!("0 to {MAX_SLOTS}")));
    }
    Ok(pb::Resource {
        id: asked.id.clone(),
        kind: asked.kind.clone(),
        capabilities: capabilities(&asked.capabilities)?,
        labels: asked.labels.clone(),
        slots: asked.slots.max(1),
        ..pb::Resource::default()
    })
}

/// Sorted by name, each with its level.
fn capabilities(asked: &[pb::ResourceCapability]) -> Result<Vec<pb::ResourceCapability>, RpcError> {
    if asked.len() > MAX_CAPABILITIES {
        let error = RpcError::invalid("capabilities", format!("has {} entries", asked.len()));
        return Err(error.allowed(format!("at most {MAX_CAPABILITIES}")));
    }
    let mut levels = BTreeMap::new();
    for (at, capability) in asked.iter().enumerate() {
        let field = |field: &str| format!("capabilities[{at}].{field}");
        if capability.name.is_empty() {
            let error = RpcError::invalid(field("name"), "is empty").reason("FIELD_MISSING");
            return Err(error.allowed(CAPABILITY_RULE));
        }
        if !is_capability(&capability.name) {
            let error = RpcError::invalid(field("name"), "is no name of a capability");
            return Err(error.allowed(CAPABILITY_RULE).reason("ID_INVALID"));
        }
        if capability.level > MAX_LEVEL {
            let error = RpcError::invalid(field("level"), format!("is {}", capability.level));
            return Err(error.allowed(format!("0 to {MAX_LEVEL}")));
        }
        let level = capability.level.max(1);
        if levels.insert(capability.name.clone(), level).is_some() {
            let error = RpcError::invalid(field("name"), "is there twice");
            return Err(error.allowed("each capability once"));
        }
    }
    let levels = levels.into_iter();
    let sorted = levels.map(|(name, level)| pb::ResourceCapability { name, level });
    Ok(sorted.collect())
}

fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), RpcError> {
    if labels.len() > MAX_LABELS {
        let error = RpcError::invalid("labels", format!("has {} entries", labels.len()));
        return Err(error.allowed(format!("at most {MAX_LABELS}")));
    }
    for (name, value) in labels {
        if name.is_empty() {
            let error = RpcError::invalid("labels", "has an entry without a name");
            return Err(error.allowed(format!("names of 1 to {MAX_LABEL_NAME} bytes")));
        }
        check_text("labels", name, MAX_LABEL_NAME)?;
        check_text("labels", value, MAX_LABEL_VALUE).map_err(|error| {
            error.and_message(format!(" in the value of {}", clip(name, MAX_LABEL_NAME)))
        })?;
    }
    Ok(())
}

/// # Errors
/// InvalidArgument, unless something can be registered under the id.
pub(super) fn resource_id(field: &str, id: &str) -> Result<(), RpcError> {
    let is_of_id =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':');
    name(field, id, MAX_ID, is_of_id, ID_RULE)
}

/// # Errors
/// InvalidArgument, unless a tool can have the name.
pub(super) fn tool(tool: &str) -> Result<(), RpcError> {
    let is_of_tool = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    name("tool", tool, MAX_TOOL, is_of_tool, TOOL_RULE)
}

/// # Errors
/// InvalidArgument, unless an executor can have the id. One without a name of its own has its address.
pub(super) fn executor(id: &str) -> Result<(), RpcError> {
    let is_graphic = |byte: u8| byte.is_ascii_graphic();
    name("executor", id, MAX_EXECUTOR, is_graphic, EXECUTOR_RULE)
}

/// # Errors
/// InvalidArgument, unless an agent can have the name.
pub(super) fn agent(agent: &str) -> Result<(), RpcError> {
    let refuse = |problem: &str, reason| {
        let error = RpcError::invalid("agent", problem).allowed(AGENT_RULE);
        Err(error.reason(reason))
    };
    match agent {
        "" => refuse("is empty", "FIELD_MISSING"),
        agent if is_name(agent.strip_prefix(OF_WORKSPACE).unwrap_or(agent)) => Ok(()),
        _ => refuse("is no agent's name", "ID_INVALID"),
    }
}

fn name(
    field: &str,
    value: &str,
    most: usize,
    admits: impl Fn(u8) -> bool,
    rule: &str,
) -> Result<(), RpcError> {
    let refuse = |problem: String, reason| {
        let error = RpcError::invalid(field, problem).allowed(rule);
        Err(error.reason(reason))
    };
    match value.len() {
        0 => refuse("is empty".to_owned(), "FIELD_MISSING"),
        bytes if bytes > most => refuse(format!("has {bytes} bytes"), "ID_INVALID"),
        _ if !value.bytes().all(admits) => refuse(
            "holds a character that is not allowed".to_owned(),
            "ID_INVALID",
        ),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> pb::PutResourceRequest {
        pb::PutResourceRequest {
            id: "gpu-1".to_owned(),
            kind: "gpu".to_owned(),
            ..pb::PutResourceRequest::default()
        }
    }

    fn capability(name: &str, level: u32) -> pb::ResourceCapability {
        pb::ResourceCapability {
            name: name.to_owned(),
            level,
        }
    }

    fn refused(asked: &pb::PutResourceRequest) -> String {
        let error = resource(asked).expect_err("refused");
        error.violations()[0].field.clone()
    }

    #[test]
    fn what_is_registered_is_sorted_and_has_levels_and_slots() {
        let stored = resource(&pb::PutResourceRequest {
            capabilities: vec![capability("region:eu", 3), capability("gpu", 0)],
            ..asked()
        });
        let stored = stored.expect("accepted");
        let expected = [capability("gpu", 1), capability("region:eu", 3)];
        assert_eq!(stored.capabilities, expected);
        assert_eq!((stored.slots, stored.state, stored.version), (1, 0, 0));
    }

    #[test]
    fn each_field_has_bounds() {
        let long = "x".repeat(MAX_ID + 1);
        for id in ["", "a b", "ü", &long] {
            let asked = pb::PutResourceRequest {
                id: id.to_owned(),
                ..asked()
            };
            assert_eq!(refused(&asked), "id", "{id}");
        }
        for kind in ["", "GPU", &long] {
            let asked = pb::PutResourceRequest {
                kind: kind.to_owned(),
                ..asked()
            };
            assert_eq!(refused(&asked), "kind", "{kind}");
        }
        for (capabilities, field) in [
            (vec![capability("", 1)], "capabilities[0].name"),
            (vec![capability("Web", 1)], "capabilities[0].name"),
            (
                vec![capability("gpu", MAX_LEVEL + 1)],
                "capabilities[0].level",
            ),
            (vec![capability("gpu", 1); 2], "capabilities[1].name"),
            (vec![capability("gpu", 1); 65], "capabilities"),
        ] {
            let asked = pb::PutResourceRequest {
                capabilities,
                ..asked()
            };
            assert_eq!(refused(&asked), field);
        }
        let slots = MAX_SLOTS + 1;
        assert_eq!(
            refused(&pb::PutResourceRequest { slots, ..asked() }),
            "slots"
        );
    }

    #[test]
    fn labels_are_few_and_short() {
        let many = (0..=MAX_LABELS).map(|n| (n.to_string(), String::new()));
        let one = |name: &str, value: String| BTreeMap::from([(name.to_owned(), value)]);
        for labels in [
            many.collect(),
            one("", "x".to_owned()),
            one(&"n".repeat(MAX_LABEL_NAME + 1), String::new()),
            one("rack", "v".repeat(MAX_LABEL_VALUE + 1)),
        ] {
            assert_eq!(
                refused(&pb::PutResourceRequest { labels, ..asked() }),
                "labels"
            );
        }
    }

    #[test]
    fn agents_executors_and_tools_are_named_as_they_are_elsewhere() {
        for name in ["default", "reviewer", "workspace:reviewer"] {
            assert!(agent(name).is_ok(), "{name}");
        }
        for name in ["", "a b", "workspace:", "other:x"] {
            assert!(agent(name).is_err(), "{name}");
        }
        for id in ["executor", "general@10.0.0.5:7883", "http://[::1]:7883"] {
            assert!(executor(id).is_ok(), "{id}");
        }
        assert!(executor("").is_err() && executor(&"x".repeat(111)).is_err());
        assert!(tool("github__search").is_ok() && tool("a.b").is_err());
    }
}
