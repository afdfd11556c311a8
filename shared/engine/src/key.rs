//! Digests that say whether two things are the same: step keys and call keys.

use crate::dependencies::{Named, keys_of};
use crate::event::{CallPreview, CallRef};
use crate::hooks::Gate;
use crate::plan::PlanStep;
use crate::session::{Place, Session};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;

/// Goes into every step key, so that a change of the rule invalidates all of them at once.
const STEP_KEY_VERSION: u32 = 2;

/// Says whether a step's result still counts: equal keys, equal step.
///
/// It covers the step's title, description, tool and canonical arguments, its redo counter and the
/// keys of its effective dependencies (see [`crate::dependencies`]), so a change reaches everything
/// that depends on it. A skipped step is not among them: the steps after it have the keys that they
/// would have without it. The key does not cover capabilities, external ids, notes, the run's
/// requirement, session memory or the workspace.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StepKey([u8; 32]);

/// Digest of the keys of a step's effective dependencies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeySet([u8; 32]);

impl StepKey {
    pub(crate) fn of<At>(step: &PlanStep<At>, dependencies: KeySet) -> Self {
        let mut digest = Fields::new("cairn.step", STEP_KEY_VERSION);
        digest.text(&step.title).text(&step.description);
        match &step.tool {
            Some(tool) => digest.number(1).text(&tool.name).text(&tool.arguments),
            None => digest.number(0),
        };
        digest.number(step.redo.into()).bytes(&dependencies.0);
        Self(digest.finish())
    }
}

impl KeySet {
    /// The order of the keys does not count: steps of a graph may change places without anything
    /// being done again.
    pub(crate) fn of(mut keys: Vec<StepKey>) -> Self {
        keys.sort_unstable();
        let mut digest = Fields::new("cairn.step.dependencies", STEP_KEY_VERSION);
        for key in keys {
            digest.bytes(&key.0);
        }
        Self(digest.finish())
    }
}

impl fmt::Display for StepKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for StepKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StepKey({self})")
    }
}

/// The keys of all steps of a plan, in its order, with the steps skipped whose places
/// `is_skipped` names. Proportional to the steps and their effective dependencies.
pub fn step_keys(steps: &[PlanStep], is_skipped: impl Fn(Place) -> bool) -> Vec<StepKey> {
    let named: Vec<Named<'_>> = steps.iter().map(Named::of).collect();
    keys_of(&named, |place, key| (key, is_skipped(place)))
}

/// The key that goes with every repeat of one call, and with no other call of any session.
pub fn call_key(namespace: &str, session: &str, call: CallRef) -> String {
    let mut digest = Fields::new("cairn.call", 1);
    digest
        .text(namespace)
        .text(session)
        .number(call.attempt.run.into())
        .number(u32::from(call.attempt.step).into())
        .number(call.attempt.attempt.into())
        .number(call.tool_turn.into())
        .number(call.index.into());
    hex(&digest.finish())
}

/// See [`Gate::key`].
pub(crate) fn hook_key(namespace: &str, session: &str, hook: &str, gate: Gate) -> String {
    let Gate {
        point,
        attempt,
        turn,
        index,
    } = gate;
    let mut digest = Fields::new("cairn.hook", 1);
    digest
        .text(namespace)
        .text(session)
        .text(hook)
        .text(point.name())
        .number(attempt.run.into())
        .number(u32::from(attempt.step).into())
        .number(attempt.attempt.into())
        .number(turn.into())
        .number(index.into());
    hex(&digest.finish())
}

impl Session {
    /// The key of a call of this session, which has the id `own`. What was sent in the session that
    /// this one was copied from keeps the key of there.
    pub fn call_key(&self, namespace: &str, own: &str, name: CallRef) -> String {
        let origin = self.call(name).and_then(|call| call.origin.as_deref());
        call_key(namespace, origin.unwrap_or(own), name)
    }
}

/// What an approval is bound to: a tool as it is now, its arguments as they are written, and what the call was said
/// to change.
pub fn approval_digest(
    tool: &str,
    tool_digest: &str,
    arguments: &str,
    preview: Option<&CallPreview>,
) -> String {
    let mut digest = Fields::new("cairn.approval", 2);
    digest.text(tool).text(tool_digest).text(arguments);
    if let Some(preview) = preview {
        let CallPreview {
            path,
            before_digest,
            after_digest,
            ..
        } = preview;
        digest.text(path).text(before_digest).text(after_digest);
    }
    hex(&digest.finish())
}

/// Tells one text of a layer from another.
pub(crate) fn text_digest(text: &str) -> String {
    let mut digest = Fields::new("cairn.layer", 1);
    digest.text(text);
    hex(&digest.finish())
}

/// 16 hexadecimal digits that tell one list of numbers from another in the same domain.
pub fn short_digest(domain: &str, numbers: &[u32]) -> String {
    let mut digest = Fields::new(domain, 1);
    for &number in numbers {
        digest.number(number.into());
    }
    hex(&digest.finish()[..8])
}

/// Fields fed to a digest with their lengths, so that no two lists of fields look alike.
struct Fields(Sha256);

impl Fields {
    fn new(domain: &str, version: u32) -> Self {
        let mut fields = Self(Sha256::new());
        fields.text(domain).number(version.into());
        fields
    }

    fn text(&mut self, text: &str) -> &mut Self {
        self.bytes(text.as_bytes())
    }

    fn number(&mut self, number: u64) -> &mut Self {
        self.bytes(&number.to_be_bytes())
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
        self
    }

    fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}

/// The digest of a file's content, fed part by part: equal digests, equal bytes.
pub struct ContentDigest(Sha256);

impl Default for ContentDigest {
    fn default() -> Self {
        Self(Fields::new("cairn.file", 1).0)
    }
}

impl ContentDigest {
    /// The digest of a whole content.
    pub fn of(content: &[u8]) -> String {
        let mut digest = Self::default();
        digest.update(content);
        digest.finish()
    }

    /// Takes the next part.
    pub fn update(&mut self, part: &[u8]) {
        self.0.update(part);
    }

    /// The digest of all parts, in hexadecimal.
    pub fn finish(self) -> String {
        let digest: [u8; 32] = self.0.finalize().into();
        hex(&digest)
    }
}

impl fmt::Debug for ContentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContentDigest").finish_non_exhaustive()
    }
}

/// SHA-256 over parts with their lengths, so that no two lists of parts look alike.
pub fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut fields = Fields(Sha256::new());
    for part in parts {
        fields.bytes(part);
    }
    fields.finish()
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}
