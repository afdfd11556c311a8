//! Counting without asking: tokens of messages and of offered tools.

use crate::{ChatRequest, OfferedTool};
pub use cairn_engine::tokens::{PER_CALL, estimate_tokens, of_message, of_text};

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

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_engine::message::Message;
    use std::sync::Arc;

    #[test]
    fn the_tools_of_a_request_count_with_its_messages() {
        let messages = [Message::user("Read the notes.")];
        let request = ChatRequest {
            tools: Arc::new([OfferedTool {
                name: "read".into(),
                description: "Reads a file.".into(),
                parameters: serde_json::json!({"type": "object"}),
            }]),
            ..ChatRequest::new(messages.clone())
        };
        let texts = ["read", "Reads a file.", r#"{"type":"object"}"#];
        let tools = PER_CALL + texts.map(of_text).iter().sum::<u64>();
        assert_eq!(
            estimate_request(&request),
            estimate_tokens(&messages) + tools
        );
    }
}
