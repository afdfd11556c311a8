//! Tokens as a vendor counts them. Cairn estimates them, and has no tokenizer.

use cairn_testkit::model_server::Answer;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, PoisonError};
use tiktoken_rs::{CoreBPE, o200k_base};

static TOKENIZER: LazyLock<CoreBPE> = LazyLock::new(|| o200k_base().expect("its vocabulary"));
/// The requests of a conversation repeat nearly all of their texts.
static COUNTED: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());
/// What surrounds a message, and what a reply begins with.
const AROUND_MESSAGE: u64 = 4;
const BEFORE_REPLY: u64 = 3;

/// Tokens of a text.
pub(crate) fn tokens(text: &str) -> u64 {
    let counted = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = counted.get(text) {
        return *known;
    }
    drop(counted);
    let count = TOKENIZER.count_ordinary(text) as u64;
    let mut counted = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    counted.insert(text.to_owned(), count);
    count
}

/// Tokens of a request of OpenAI's protocol: of its system prompt, messages, calls, results and tools.
pub(crate) fn tokens_of(body: &Value) -> u64 {
    let messages = body["messages"].as_array().map(Vec::as_slice);
    let messages = messages.unwrap_or_default().iter().map(tokens_of_message);
    let tools = &body["tools"];
    let tools = if tools.is_array() {
        tokens(&tools.to_string())
    } else {
        0
    };
    messages.sum::<u64>() + tools + BEFORE_REPLY
}

/// Tokens of one message of OpenAI's protocol.
pub(crate) fn tokens_of_message(message: &Value) -> u64 {
    let content = match &message["content"] {
        Value::String(text) => tokens(text),
        Value::Null => 0,
        parts => tokens(&parts.to_string()),
    };
    let others = ["tool_calls", "tool_call_id"].map(|field| match &message[field] {
        Value::Null => 0,
        value => tokens(&value.to_string()),
    });
    content + others.iter().sum::<u64>() + AROUND_MESSAGE
}

/// The reply with the tokens that its provider counted, in OpenAI's protocol. Without any, the provider
/// counts nothing.
pub(crate) fn counted(reply: Answer, request: Option<u64>) -> Answer {
    let Answer::Whole(status, body) = reply else {
        unreachable!("a reply is whole");
    };
    let mut body: Value = serde_json::from_str(&body).expect("JSON");
    let written = tokens_of_message(&body["choices"][0]["message"]);
    body["usage"] = match request {
        Some(tokens) => json!({"prompt_tokens": tokens, "completion_tokens": written}),
        None => Value::Null,
    };
    Answer::Whole(status, body.to_string())
}
