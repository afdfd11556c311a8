//! Counting without asking: tokens of messages.

use crate::ChatRequest;
use cairn_engine::message::Message;

/// What a message costs beside its text: role and separators.
const PER_MESSAGE: u64 = 4;
/// What a tool call or an offered tool costs beside its texts.
const PER_CALL: u64 = 8;

/// Tokens that these messages would take in a common model: a fourth of the ASCII bytes, one per
/// other character, and a little for each message and call. Rather too many than too few.
pub fn estimate_tokens(messages: &[Message]) -> u64 {
    let of_message = |message: &Message| {
        let calls = message.tool_calls.iter();
        let calls: u64 = calls
            .map(|call| PER_CALL + of_text(&call.name) + of_text(&call.arguments))
            .sum();
        PER_MESSAGE + of_text(&message.text) + calls
    };
    messages.iter().map(of_message).sum()
}

/// As [`estimate_tokens`], with the tools that are offered.
pub fn estimate_request(request: &ChatRequest) -> u64 {
    let tools = request.tools.iter().map(|tool| {
        let parameters = of_text(&tool.parameters.to_string());
        PER_CALL + of_text(&tool.name) + of_text(&tool.description) + parameters
    });
    estimate_tokens(&request.messages) + tools.sum::<u64>()
}

fn of_text(text: &str) -> u64 {
    let ascii = text.bytes().filter(u8::is_ascii).count() as u64;
    let other = text
        .chars()
        .filter(|character| !character.is_ascii())
        .count() as u64;
    ascii.div_ceil(4) + other
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OfferedTool;
    use cairn_engine::message::ToolCall;

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
        let request = ChatRequest {
            messages: short.to_vec(),
            tools: vec![OfferedTool {
                name: "read".into(),
                description: "Reads.".into(),
                parameters: serde_json::json!({"type": "object"}),
            }],
            ..ChatRequest::default()
        };
        assert!(estimate_request(&request) > estimate_tokens(&short) + PER_CALL);
    }
}
