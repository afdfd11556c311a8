//! How vendors' caches count. A token is four bytes here.

use serde_json::{Value, json};
use std::collections::HashSet;

const BYTES_OF_TOKEN: usize = 4;
/// Shorter prefixes are not cached.
const LEAST_TOKENS: u64 = 1024;
/// What OpenAI's cache reads is a multiple of this.
const STEP_TOKENS: u64 = 128;
/// Anthropic's cache looks for a prefix at a breakpoint, and at this many blocks before it.
const LOOK_BACK: usize = 20;
/// The breakpoints that Anthropic's protocol allows.
const MOST_BREAKPOINTS: usize = 4;

/// Prefixes of requests.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    /// Anthropic's: beginnings that ended at a breakpoint.
    written: HashSet<String>,
    /// OpenAI's: whole requests.
    requests: Vec<String>,
}

/// The tokens of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counted {
    pub(crate) tokens: u64,
    /// Those of them that were in the cache.
    pub(crate) read: u64,
    /// Those of them that were put there.
    pub(crate) written: u64,
}

/// A beginning of a request, up to the end of a block.
struct Prefix {
    text: String,
    ends_at_breakpoint: bool,
}

impl Cache {
    /// Counts a request of Anthropic's protocol, and says which turn it is. The cache has each
    /// beginning of an earlier request that ended at a breakpoint.
    pub(crate) fn count_blocks(&mut self, body: &Value) -> (usize, Counted) {
        let prefixes = prefixes(body);
        let breakpoints = prefixes.iter().enumerate();
        let breakpoints: Vec<usize> = breakpoints
            .filter_map(|(at, prefix)| prefix.ends_at_breakpoint.then_some(at))
            .collect();
        assert!((1..=MOST_BREAKPOINTS).contains(&breakpoints.len()));
        let looked_at = breakpoints
            .iter()
            .flat_map(|at| at.saturating_sub(LOOK_BACK)..=*at);
        let known = looked_at.filter(|at| self.written.contains(&prefixes[*at].text));
        let read = known.map(|at| tokens(&prefixes[at].text)).max();
        let read = read.unwrap_or_default();
        let last = breakpoints.last().map(|at| tokens(&prefixes[*at].text));
        for at in breakpoints {
            if tokens(&prefixes[at].text) >= LEAST_TOKENS {
                self.written.insert(prefixes[at].text.clone());
            }
        }
        let counted = Counted {
            tokens: prefixes.last().map_or(0, |all| tokens(&all.text)),
            read,
            written: last.map_or(0, |last| last.saturating_sub(read)),
        };
        (turn(body), counted)
    }

    /// Counts a request of OpenAI's protocol, and says which turn it is. The cache has each
    /// beginning of an earlier request, in steps.
    pub(crate) fn count_prefix(&mut self, body: &Value) -> (usize, Counted) {
        let mut text = body["tools"].to_string();
        for message in list(&body["messages"]) {
            text += &message.to_string();
        }
        let common = |known: &String| {
            let pairs = known.bytes().zip(text.bytes());
            pairs.take_while(|(a, b)| a == b).count()
        };
        let common = self.requests.iter().map(common).max().unwrap_or_default();
        let common = (common / BYTES_OF_TOKEN) as u64 / STEP_TOKENS * STEP_TOKENS;
        let counted = Counted {
            tokens: tokens(&text),
            read: if common >= LEAST_TOKENS { common } else { 0 },
            written: 0,
        };
        self.requests.push(text);
        (turn(body), counted)
    }
}

/// The beginnings of a request in the order in which the server reads it: tools, system, messages.
fn prefixes(body: &Value) -> Vec<Prefix> {
    let messages = list(&body["messages"]).iter().flat_map(|message| {
        let blocks = list(&message["content"]).iter();
        blocks.map(|block| (&message["role"], block))
    });
    let (tools, system) = (json!("tools"), json!("system"));
    let tools = list(&body["tools"]).iter().map(|tool| (&tools, tool));
    let system = list(&body["system"]).iter().map(|block| (&system, block));
    let mut text = String::new();
    let blocks = tools.chain(system).chain(messages);
    let prefixes = blocks.map(|(place, block)| {
        let mut block = block.clone();
        let fields = block.as_object_mut().expect("an object");
        let breakpoint = fields.shift_remove("cache_control");
        text += &format!("{place}{block}");
        Prefix {
            text: text.clone(),
            ends_at_breakpoint: breakpoint.is_some(),
        }
    });
    prefixes.collect()
}

/// The replies so far.
fn turn(body: &Value) -> usize {
    let messages = list(&body["messages"]).iter();
    messages.filter(|it| it["role"] == "assistant").count()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn tokens(text: &str) -> u64 {
    text.len().div_ceil(BYTES_OF_TOKEN) as u64
}
