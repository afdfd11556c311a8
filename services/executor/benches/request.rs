//! The bytes that are allocated for the request of a turn, in short conversations and in long ones, counted by
//! an allocator.
//!
//! ```text
//! cargo bench -p cairn-executor --bench request
//! ```
//!
//! A request shares its messages with the conversation and has a list of them, of at most 16 bytes for each.
//! Everything else costs the same in a long conversation. Panics if it does not.
//!
//! The encoding is shown beside it: its bytes without those of the encoded body. It is no part of the bound.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and is over when a bound does not hold"
)]

use allocation_counter::measure;
use cairn_engine::conversation::{Conversation, Layer, LayerKind, Op};
use cairn_engine::message::Message;
use cairn_model::{Anthropic, AnthropicConfig, OpenAi, OpenAiConfig};
use cairn_model::{ChatOptions, ChatRequest, OfferedTool};
use std::hint::black_box;
use std::sync::Arc;

/// The turns whose requests are compared with that of the first one here.
const TURNS: [usize; 4] = [10, 100, 500, 2_000];
const PROMPT_BYTES: usize = 2_000;
const QUESTION_BYTES: usize = 200;
const REPLY_BYTES: usize = 300;
/// What the list of a request's messages may take for each.
const OF_A_MESSAGE: f64 = 16.0;
/// All the rest, compared with the first turn.
const MOST_RATIO: f64 = 1.10;
/// Bodies are encoded, and not sent.
const URL: &str = "http://127.0.0.1:9/v1";

/// The bytes that are allocated for one request.
#[derive(Debug, Clone, Copy)]
struct Request {
    messages: usize,
    /// From the conversation to the request.
    built: f64,
    /// From the request to the body, without the body, for each provider.
    encoded: [f64; 2],
    body: usize,
}

/// The providers, and what their requests offer.
struct World {
    openai: OpenAi,
    anthropic: Anthropic,
    tools: Arc<[OfferedTool]>,
}

fn main() {
    let world = World {
        openai: OpenAi::new(OpenAiConfig::new(URL, "m")).expect("a model"),
        anthropic: Anthropic::new(AnthropicConfig::new(URL, "m")).expect("a model"),
        tools: Arc::new([OfferedTool {
            name: "look".to_owned(),
            description: "Looks.".to_owned(),
            parameters: serde_json::json!({"type": "object"}),
        }]),
    };
    // The providers keep the form of the tools from their first request on.
    world.count(1);
    let counted = TURNS.map(|turn| world.count(turn));
    let first = counted[0];
    println!(
        "{:<6} {:>9} {:>12} {:>10} {:>12} {:>10} {:>12} {:>10} {:>12}",
        "turn",
        "messages",
        "request",
        "a message",
        "OpenAI",
        "a message",
        "Anthropic",
        "a message",
        "body"
    );
    for (turn, request) in TURNS.into_iter().zip(counted) {
        let more = (request.messages - first.messages).max(1) as f64;
        let [openai, anthropic] = request.encoded;
        let [first_openai, first_anthropic] = first.encoded;
        println!(
            "{turn:<6} {:>9} {:>10.0} B {:>8.1} B {openai:>10.0} B {:>8.1} B {anthropic:>10.0} B {:>8.1} B {:>10} B",
            request.messages,
            request.built,
            (request.built - first.built) / more,
            (openai - first_openai) / more,
            (anthropic - first_anthropic) / more,
            request.body,
        );
    }
    for (turn, request) in TURNS.into_iter().zip(counted) {
        let most = first.most(request.messages);
        let built = request.built;
        assert!(
            built <= most,
            "the request of turn {turn} takes {built:.0} bytes, and may take {most:.0}"
        );
    }
}

impl Request {
    /// What a later request with so many messages may take.
    fn most(&self, messages: usize) -> f64 {
        self.built * MOST_RATIO + (messages - self.messages) as f64 * OF_A_MESSAGE
    }
}

impl World {
    /// Counts the request of a turn. As the executor does, it reads the conversation and shares the tools.
    fn count(&self, turn: usize) -> Request {
        let conversation = conversation(turn);
        let mut request = None;
        let built = measure(|| {
            request = Some(black_box(ChatRequest {
                messages: conversation.messages(),
                stable: conversation.stable(),
                tools: Arc::clone(&self.tools),
                options: ChatOptions::default(),
            }));
        });
        let request = request.expect("a request");
        assert_eq!(
            request.messages.len(),
            2 * turn,
            "the system prompt, and all that was said"
        );
        let mut body = Vec::new();
        let openai = measure(|| {
            body = black_box(self.openai.request_body(&request).expect("a body"));
        });
        let openai_body = body.capacity();
        let anthropic = measure(|| {
            body = black_box(self.anthropic.request_body(&request).expect("a body"));
        });
        let beside = |counted: u64, body: usize| counted as f64 - body as f64;
        Request {
            messages: request.messages.len(),
            built: built.bytes_total as f64,
            encoded: [
                beside(openai.bytes_total, openai_body),
                beside(anthropic.bytes_total, body.capacity()),
            ],
            body: openai_body,
        }
    }
}

/// All that was said when the model is asked in this turn, the first of which is 1.
fn conversation(turn: usize) -> Conversation {
    let said = |number: usize| {
        let at = number / 2;
        match number % 2 {
            0 => Message::user(filled(&format!("Question {at:05}: "), QUESTION_BYTES)),
            _ => Message::assistant(
                filled(&format!("Answer {at:05}: "), REPLY_BYTES),
                Vec::new(),
            ),
        }
    };
    let prompt = Layer::new(LayerKind::Prompt, filled("You answer. ", PROMPT_BYTES));
    let said = (0..2 * turn - 1).map(|number| Op::Append(said(number)));
    let mut conversation = Conversation::default();
    for op in std::iter::once(Op::SetLayer(prompt)).chain(said) {
        conversation.apply(op).expect("a change");
    }
    conversation
}

fn filled(start: &str, bytes: usize) -> String {
    format!("{start:.<bytes$}")
}
