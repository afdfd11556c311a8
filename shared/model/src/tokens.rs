//! Counting without asking: tokens of messages, price of tokens.

use crate::{ChatRequest, ModelInfo};
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

impl ModelInfo {
    /// What so many tokens sent and received cost, in 10⁻⁹ US dollars, rounded up.
    pub fn cost_nano_usd(&self, input_tokens: u64, output_tokens: u64) -> u64 {
        let input = u128::from(input_tokens) * u128::from(self.input_nano_usd_per_million);
        let output = u128::from(output_tokens) * u128::from(self.output_nano_usd_per_million);
        let cost = input.saturating_add(output).div_ceil(1_000_000);
        u64::try_from(cost).unwrap_or(u64::MAX)
    }
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

    #[test]
    fn a_price_is_rounded_up_once_and_never_overflows() {
        let info = |input, output| ModelInfo {
            provider: "p".into(),
            name: "m".into(),
            window_tokens: 1,
            input_nano_usd_per_million: input,
            output_nano_usd_per_million: output,
        };
        // 2.50 and 10 dollars a million: 1,000 × 2,500 + 100 × 10,000 nano-dollars.
        let priced = info(2_500_000_000, 10_000_000_000);
        assert_eq!(priced.cost_nano_usd(1_000, 100), 3_500_000);
        assert_eq!(info(400_000, 400_000).cost_nano_usd(1, 1), 1);
        assert_eq!(
            info(u64::MAX, u64::MAX).cost_nano_usd(u64::MAX, u64::MAX),
            u64::MAX
        );
        assert_eq!(info(0, 0).cost_nano_usd(5, 5), 0);
    }
}
