//! Messages of people, in requests and lines.

use super::commands::invalid;
use cairn_engine::message::{Message, Notice, Part, Role};
use cairn_proto::event as wire;
use cairn_rpc::{RpcError, check_text};

/// The roles of messages of a context.
pub(super) const ROLES: &str = "ROLE_USER, ROLE_ASSISTANT, ROLE_TOOL";

/// Most bytes of a MIME type, and of a name in data for a provider.
const MAX_PART_NAME: usize = 128;

/// A message that a request brings.
pub(super) fn message(field: &str, message: Option<wire::Message>) -> Result<Message, RpcError> {
    let message = message.ok_or_else(|| RpcError::missing(field))?;
    let message = Message::try_from(message).map_err(|error| invalid(field, &error))?;
    check(field, &message)?;
    Ok(message)
}

/// A message of a context, from a request or a line: its role may have its parts, and the data for a
/// provider is JSON with short names.
pub(super) fn check(field: &str, message: &Message) -> Result<(), RpcError> {
    if message.role == Role::System {
        let error = RpcError::invalid(format!("{field}.role"), "is the system's");
        return Err(error.allowed(ROLES));
    }
    check_parts(field, message)?;
    for (i, part) in message.parts.iter().enumerate() {
        let field = |name| format!("{field}.parts[{i}].{name}");
        match part {
            Part::Media(media) => check_text(&field("media.mime"), &media.mime, MAX_PART_NAME)?,
            Part::Opaque(opaque) => {
                check_text(&field("opaque.provider"), &opaque.provider, MAX_PART_NAME)?;
                check_text(&field("opaque.model"), &opaque.model, MAX_PART_NAME)?;
                check_text(&field("opaque.kind"), &opaque.kind, MAX_PART_NAME)?;
                if let Err(error) = serde_json::from_str::<serde_json::Value>(&opaque.json) {
                    let problem = format!("is no JSON: {error}");
                    return Err(RpcError::invalid(field("opaque.json"), problem));
                }
            }
            Part::Text(_) | Part::Notice(_) | Part::Call(_) | Part::Result(_) => {}
        }
    }
    Ok(())
}

/// The role may have each part. Only a reply may have none: a model can end its turn without text.
fn check_parts(field: &str, message: &Message) -> Result<(), RpcError> {
    if message.parts.is_empty() && message.role != Role::Assistant {
        return Err(RpcError::invalid(field, "has no part").allowed("1 part and more"));
    }
    let is_empty = |part: &Part| match part {
        Part::Text(text) | Part::Notice(Notice { text, .. }) => text.is_empty(),
        _ => false,
    };
    if let Some(i) = message.parts.iter().position(is_empty) {
        let error = RpcError::invalid(format!("{field}.parts[{i}].text"), "is empty");
        return Err(error.allowed("1 character and more"));
    }
    let may_have = |part: &Part| match part {
        Part::Text(_) => true,
        Part::Notice(_) => message.role == Role::User,
        Part::Media(_) => message.role != Role::System,
        Part::Call(_) | Part::Opaque(_) => message.role == Role::Assistant,
        Part::Result(_) => message.role == Role::Tool,
    };
    match message.parts.iter().position(|part| !may_have(part)) {
        None => Ok(()),
        Some(i) => {
            let problem = format!("is no part of a message of the role {:?}", message.role);
            Err(RpcError::invalid(
                format!("{field}.parts[{i}]"),
                problem.to_lowercase(),
            ))
        }
    }
}
