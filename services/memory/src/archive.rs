//! A session as a file: what the archive of old sessions holds, and what an import reads.
//!
//! # The format
//!
//! Lines of JSON. The first line names the session, the last line has the number of the last event,
//! and between them is one line for each event. Before the line of an event, each blob that the event
//! lists has a line of its own, in the order of the list:
//!
//! ```text
//! {"cairn_archive":1,"namespace":"default","session":"s-7f3k","time_to_live_ms":604800000,"sum":"…"}
//! {"seq":1,"ends":true,"event":"CJa1…","sum":"…"}
//! {"seq":2,"ends":true,"event":"CJa1…","blob":"CsAB…","sum":"…"}
//! {"part":"bGluZSAx…","sum":"…"}
//! {"part":"bGluZSA5…","sum":"…"}
//! {"seq":3,"ends":true,"event":"CJa1…","sum":"…"}
//! {"end":3,"sum":"…"}
//! ```
//!
//! | field | what |
//! |---|---|
//! | `cairn_archive` | the format; this program writes 1 |
//! | `time_to_live_ms` | how long the session stays without any change; absent if it was made without |
//! | `seq` | number of the event, from 1, without gaps |
//! | `ends` | the event is the last of its transition, so a fork may end here |
//! | `event` | the event as the store has it: a `cairn.event.v1.Event`, encoded, in Base64 |
//! | `blob` | the data that a `StoredApart` event names, in Base64 |
//! | `part` | the data of the next blob that the next event lists (`Event.blobs`), in Base64 |
//! | `sum` | the first 16 hexadecimal digits of a SHA-256: see below |
//!
//! Each sum is over the SHA-256 of the line before, none for the first line, and the line up to
//! `,"sum":`. So a line that is damaged, missing, or from another file is noticed where it stands.
//! Events are bytes: one that this program cannot decode is kept as it is.

mod read;

pub use read::{Item, ReadError, Reader};

use crate::port::TranscriptEvent;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cairn_engine::key::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The format that this program writes, and the newest that it reads.
const FORMAT: u32 = 1;

/// What stands before the sum of a line.
const SUM: &str = ",\"sum\":\"";

/// Hexadecimal digits of a sum.
const SUM_DIGITS: usize = 16;

/// The first line: whose journal it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    #[serde(rename = "cairn_archive")]
    format: u32,
    /// The namespace that the session was in.
    pub namespace: String,
    /// The session's id.
    pub session: String,
    /// How long the session stays without any change, if it was made so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_to_live_ms: Option<u64>,
}

impl Header {
    /// The header of a session's archive in the format that this program writes.
    pub fn new(namespace: &str, session: &str, time_to_live_ms: Option<u64>) -> Self {
        Self {
            format: FORMAT,
            namespace: namespace.to_owned(),
            session: session.to_owned(),
            time_to_live_ms,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct EventLine {
    seq: u64,
    #[serde(default, skip_serializing_if = "is_false")]
    ends: bool,
    event: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    blob: Option<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(value: &bool) -> bool {
    !value
}

#[derive(Debug, Serialize, Deserialize)]
struct PartLine {
    part: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct EndLine {
    end: u64,
}

/// Sums over the lines so far.
#[derive(Debug, Clone, Default)]
struct Chain(Option<[u8; 32]>);

impl Chain {
    /// Takes in the next line, up to its sum; answers the sum.
    fn add(&mut self, text: &str) -> String {
        let mut digest = Sha256::new();
        digest.update(self.0.as_ref().map_or(&[][..], |before| &before[..]));
        digest.update(text);
        self.0 = Some(digest.finalize().into());
        let mut sum = self.hex();
        sum.truncate(SUM_DIGITS);
        sum
    }

    fn hex(&self) -> String {
        hex(self.0.as_ref().map_or(&[][..], |sum| &sum[..]))
    }
}

/// Makes the lines of an archive, each with its end.
#[derive(Debug, Default)]
pub(crate) struct Lines(Chain);

impl Lines {
    pub(crate) fn header(&mut self, header: &Header) -> String {
        self.line(header)
    }

    pub(crate) fn event(&mut self, seq: u64, event: &TranscriptEvent) -> String {
        self.line(&EventLine {
            seq,
            ends: event.ends,
            event: STANDARD.encode(&event.event),
            blob: event.blob.as_ref().map(|blob| STANDARD.encode(blob)),
        })
    }

    /// A blob that the next event lists.
    pub(crate) fn part(&mut self, data: &[u8]) -> String {
        let part = STANDARD.encode(data);
        self.line(&PartLine { part })
    }

    pub(crate) fn end(&mut self, last_seq: u64) -> String {
        self.line(&EndLine { end: last_seq })
    }

    fn line(&mut self, fields: &impl Serialize) -> String {
        // Numbers, texts and flags always have a form in JSON.
        let mut line = serde_json::to_string(fields).unwrap_or_default();
        line.pop();
        let sum = self.0.add(&line);
        line.push_str(SUM);
        line.push_str(&sum);
        line.push_str("\"}\n");
        line
    }
}
