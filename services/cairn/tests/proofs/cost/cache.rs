//! What a provider's cache has of a request: the messages that it shares with the request before. Anthropic's cache
//! reads and writes up to the marks that a request sets, OpenAI's all.

use super::Dialect;
use crate::support::tokenizer::tokens;
use serde_json::Value;

/// Shorter beginnings are not cached.
const LEAST: u64 = 1_024;

/// The tokens of a request and its reply.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counted {
    pub(crate) tokens: u64,
    /// Those of them that the cache had.
    pub(crate) read: u64,
    /// Those of them that were put there.
    pub(crate) written: u64,
    /// Of the reply.
    pub(crate) replied: u64,
}

/// A part of a request that is the same in the next one, or is not.
#[derive(Debug)]
struct Block {
    text: String,
    tokens: u64,
    has_mark: bool,
}

/// The request before.
#[derive(Debug, Default)]
pub(crate) struct Cache(Vec<Block>);

impl Cache {
    /// Counts a request, which is then the one before.
    pub(crate) fn count(&mut self, dialect: Dialect, body: &Value) -> Counted {
        let blocks = match dialect {
            Dialect::Anthropic => blocks_with_marks(body),
            Dialect::OpenAi => blocks(body),
        };
        let pairs = blocks.iter().zip(&self.0);
        let common = pairs.take_while(|(now, before)| now.text == before.text);
        let common = common.count();
        let marked = |blocks: &[Block]| {
            let last = blocks.iter().rposition(|block| block.has_mark);
            last.map_or(0, |last| last + 1)
        };
        let up_to = |end: usize| {
            let tokens: u64 = blocks[..end].iter().map(|block| block.tokens).sum();
            if tokens < LEAST { 0 } else { tokens }
        };
        let (read, written) = match dialect {
            Dialect::OpenAi => (up_to(common), 0),
            Dialect::Anthropic => {
                let read = up_to(marked(&self.0[..common]));
                let cached = up_to(marked(&blocks[..]));
                (read, cached.saturating_sub(read))
            }
        };
        let counted = Counted {
            tokens: blocks.iter().map(|block| block.tokens).sum(),
            read,
            written,
            replied: 0,
        };
        self.0 = blocks;
        counted
    }
}

/// The tools, and each message.
fn blocks(body: &Value) -> Vec<Block> {
    let parts = std::iter::once(&body["tools"]).chain(list(&body["messages"]));
    parts.map(|part| block("", part)).collect()
}

/// The same in Anthropic's protocol: tools, the system prompt, and each block of each message.
fn blocks_with_marks(body: &Value) -> Vec<Block> {
    let messages = list(&body["messages"]).iter().flat_map(|message| {
        let role = message["role"].as_str().unwrap_or_default();
        list(&message["content"]).iter().map(move |it| (role, it))
    });
    let tools = std::iter::once(("tools", &body["tools"]));
    let system = list(&body["system"]).iter().map(|it| ("system", it));
    let all = tools.chain(system).chain(messages);
    all.map(|(place, part)| block(place, part)).collect()
}

fn block(place: &str, part: &Value) -> Block {
    let mut part = part.clone();
    let fields = part.as_object_mut();
    let mark = fields.and_then(|fields| fields.shift_remove("cache_control"));
    let text = part.to_string();
    Block {
        tokens: tokens(&text),
        text: format!("{place} {text}"),
        has_mark: mark.is_some(),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
