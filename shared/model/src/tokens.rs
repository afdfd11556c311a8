//! Counting without asking: tokens of messages.

use crate::{ChatRequest, OfferedTool};
use cairn_engine::message::{Media, Message, Part};
use std::borrow::Borrow;

/// What a message costs beside its text: role and separators.
const PER_MESSAGE: u64 = 4;
/// What a tool call or an offered tool costs beside its texts.
const PER_CALL: u64 = 8;
/// What a picture costs, whatever its bytes: providers scale a larger one down to about this.
const PER_IMAGE: u64 = 1_600;

/// Tokens that these messages would take in a common model: a fourth of the ASCII bytes, one per
/// other character, and a little for each message and call. Rather too many than too few.
pub fn estimate_tokens<M: Borrow<Message>>(messages: &[M]) -> u64 {
    let of_message = |message: &M| {
        let message: &Message = message.borrow();
        let parts = message.parts.iter().map(of_part);
        PER_MESSAGE + parts.sum::<u64>()
    };
    messages.iter().map(of_message).sum()
}

fn of_part(part: &Part) -> u64 {
    match part {
        Part::Text(text) => of_text(text),
        Part::Call(call) => PER_CALL + of_text(&call.name) + of_text(&call.arguments),
        Part::Result(result) => of_text(&result.text),
        Part::Media(Media { mime, .. }) if mime.starts_with("image/") => PER_IMAGE,
        Part::Media(media) => (media.data.len() as u64).div_ceil(4),
        Part::Opaque(opaque) => of_text(&opaque.json),
    }
}

/// As [`estimate_tokens`], with the tools that are offered.
pub fn estimate_request(request: &ChatRequest) -> u64 {
    estimate_tokens(&request.messages) + estimate_tools(&request.tools)
}

/// Tokens that these tools would take in each request that offers them.
pub fn estimate_tools(tools: &[OfferedTool]) -> u64 {
    let tools = tools.iter().map(|tool| {
        let parameters = of_text(&tool.parameters.to_string());
        PER_CALL + of_text(&tool.name) + of_text(&tool.description) + parameters
    });
    tools.sum()
}

fn of_text(text: &str) -> u64 {
    // Each request counts all texts of its conversation. A chunk is counted in one byte, so that the
    // compiler uses vectors.
    let of_chunk = |chunk: &[u8]| {
        chunk
            .iter()
            .map(|byte| u8::from(byte.is_ascii()))
            .sum::<u8>()
    };
    let chunks = text.as_bytes().chunks(u8::MAX.into());
    let ascii: usize = chunks.map(|chunk| usize::from(of_chunk(chunk))).sum();
    let other = text.chars().count() - ascii;
    (ascii as u64).div_ceil(4) + other as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_engine::message::{Opaque, Role, ToolCall};
    use std::sync::Arc;

    #[test]
    fn longer_conversations_take_more_tokens() {
        let short = [Message::user("12345678")];
        assert_eq!(estimate_tokens(&short), PER_MESSAGE + 2);
        assert_eq!(estimate_tokens(&[Message::user("计划")]), PER_MESSAGE + 2);
        let call = ToolCall {
            id: "c".into(),
            name: "read".into(),
            arguments: "{\"a\":1}".into(),
        };
        let with_call = [Message::assistant("", vec![call])];
        assert_eq!(estimate_tokens(&with_call), PER_MESSAGE + PER_CALL + 1 + 2);
        let parts = [
            (Part::Text("12345678".into()), 2),
            (
                Part::Media(Media {
                    mime: "image/png".into(),
                    data: vec![0; 9],
                }),
                PER_IMAGE,
            ),
            (
                Part::Media(Media {
                    mime: "application/pdf".into(),
                    data: vec![0; 9],
                }),
                3,
            ),
            (
                Part::Opaque(Opaque {
                    provider: "p".into(),
                    model: "m".into(),
                    kind: "thinking".into(),
                    json: "{}".into(),
                }),
                1,
            ),
        ];
        let message = Message {
            role: Role::Assistant,
            parts: parts.iter().map(|(part, _)| part.clone()).collect(),
        };
        let tokens: u64 = parts.iter().map(|(_, tokens)| tokens).sum();
        assert_eq!(estimate_tokens(&[message]), PER_MESSAGE + tokens);
        let request = ChatRequest {
            tools: Arc::new([OfferedTool {
                name: "read".into(),
                description: "Reads.".into(),
                parameters: serde_json::json!({"type": "object"}),
            }]),
            ..ChatRequest::new(short.to_vec())
        };
        assert!(estimate_request(&request) > estimate_tokens(&short) + PER_CALL);
    }
}
