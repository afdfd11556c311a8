//! `session_memory_*`: what the session remembers.

use super::{Answers, StateTool, arguments, invalid};
use crate::decide::{Decision, Rejection};
use crate::event::{MemoryRemoved, MemorySet, MemoryWriter};
use crate::limits::{
    MAX_MEMORY_BYTES, MAX_MEMORY_KEY, MAX_MEMORY_KEYS, MAX_MEMORY_VALUE, is_memory_key,
};
use crate::prompt::memory;
use crate::refusal::Refusal;
use crate::session::Memory;
use serde::Deserialize;
use std::collections::BTreeMap;

pub(super) const GET: StateTool = StateTool {
    name: "session_memory_get",
    description: "Reads one key of the session's memory.",
    parameters: r#"{"type":"object","properties":{"key":{"type":"string"}},"required":["key"],"additionalProperties":false}"#,
    answers: Answers::InTransition(|decision, _, call| {
        let Key { key } = arguments(call)?;
        let found = decision.session.memory.get(&key).cloned();
        Ok(Some(found.unwrap_or_else(|| format!("'{key}' is not set"))))
    }),
};

pub(super) const LIST: StateTool = StateTool {
    name: "session_memory_list",
    description: "Reads all keys and values of the session's memory, each on a line as it stands in the system prompt: \\n is a line break, \\\\ a backslash, &lt; a <. session_memory_get reads a value as it was set.",
    parameters: r#"{"type":"object","properties":{},"additionalProperties":false}"#,
    answers: Answers::InTransition(|decision, _, _| {
        Ok(Some(match decision.session.memory.is_empty() {
            true => "session memory is empty".to_owned(),
            false => memory::list(decision.session.memory.iter()),
        }))
    }),
};

pub(super) const REMOVE: StateTool = StateTool {
    name: "session_memory_remove",
    description: "Takes one key out of the session's memory.",
    parameters: r#"{"type":"object","properties":{"key":{"type":"string"}},"required":["key"],"additionalProperties":false}"#,
    answers: Answers::InTransition(|decision, name, call| {
        let Key { key } = arguments(call)?;
        let result = format!("'{key}' is not set any more");
        let writer = Some(MemoryWriter::Attempt(name.attempt));
        decision.emit(MemoryRemoved { key, writer })?;
        Ok(Some(result))
    }),
};

pub(super) const SET: StateTool = StateTool {
    name: "session_memory_set",
    description: "Remembers a value under a key for the whole session, over steps and runs.",
    parameters: r#"{"type":"object","properties":{"key":{"type":"string"},"value":{"type":"string"}},"required":["key","value"],"additionalProperties":false}"#,
    answers: Answers::InTransition(|decision, name, call| {
        let entry: Entry = arguments(call)?;
        let fits = check(&decision.session.memory, &entry.key, &entry.value);
        fits.map_err(|(_, message)| invalid(message))?;
        let Entry { key, value } = entry;
        let result = format!("'{key}' is set");
        let writer = Some(MemoryWriter::Attempt(name.attempt));
        let metadata = BTreeMap::new();
        decision.emit(MemorySet {
            key,
            value,
            writer,
            metadata,
        })?;
        Ok(Some(result))
    }),
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Key {
    key: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    key: String,
    value: String,
}

impl Decision<'_> {
    /// Whether session memory takes all of these pairs.
    pub(crate) fn check_pairs(&self, pairs: &[(String, String)]) -> Result<(), Rejection> {
        let mut memory = self.session.memory.clone();
        for (key, value) in pairs {
            check(&memory, key, value)
                .map_err(|(reason, message)| Rejection::refused(reason, message))?;
            let set = MemorySet {
                key: key.clone(),
                value: value.clone(),
                writer: None,
                metadata: BTreeMap::new(),
            };
            memory.set(&set, 0);
        }
        Ok(())
    }
}

/// # Errors
/// Why a command with this pair is refused.
fn check(memory: &Memory, key: &str, value: &str) -> Result<(), (Refusal, String)> {
    if !is_memory_key(key) {
        let message = format!("a key has 1 to {MAX_MEMORY_KEY} bytes and no control characters");
        return Err((Refusal::BadPair, message));
    }
    if value.len() > MAX_MEMORY_VALUE {
        let message = format!("a value has at most {MAX_MEMORY_VALUE} bytes");
        return Err((Refusal::BadPair, message));
    }
    // Both sums as they would be: the store has room for what is set within these limits, whatever
    // clients have set since.
    let (others, bytes) = memory.size_without(key);
    if others + 1 > MAX_MEMORY_KEYS {
        let message = format!("session memory is full: at most {MAX_MEMORY_KEYS} keys");
        return Err((Refusal::Limit, message));
    }
    if bytes + key.len() + value.len() > MAX_MEMORY_BYTES {
        let message = format!("session memory is full: at most {MAX_MEMORY_BYTES} bytes");
        return Err((Refusal::Limit, message));
    }
    Ok(())
}
