//! Events about a session as a whole.

#![allow(missing_docs)] // Fields are described once, in `cairn/event/v1/event.proto`.

use super::AttemptRef;
use crate::command::Command;
use crate::refusal::Refusal;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// First event of every journal.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionCreated {
    pub title: String,
    pub time_to_live_ms: u64,
}

/// A command was stored; a later event answers it.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandReceived {
    pub request_id: String,
    pub command: Command,
}

/// The answer no.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandRefused {
    pub reason: Refusal,
    pub message: String,
}

/// A key of session memory was given a value.
#[derive(Debug, Clone, PartialEq)]
pub struct MemorySet {
    pub key: String,
    pub value: String,
    pub writer: Option<MemoryWriter>,
    pub metadata: BTreeMap<String, String>,
}

/// A key of session memory was removed.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryRemoved {
    pub key: String,
    pub writer: Option<MemoryWriter>,
}

/// For whom the owner changed session memory. A client that changes it itself has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemoryWriter {
    /// The model of an attempt.
    Attempt(AttemptRef),
    /// A command.
    Command,
}

/// All keys of session memory were removed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MemoryCleared {}

/// The session is a copy of another one up to here.
#[derive(Debug, Clone, PartialEq)]
pub struct ForkedFrom {
    pub session: String,
    pub at_seq: u64,
    pub request_id: String,
    pub title: String,
}
