//! Digests that say whether two things are the same: step keys and call keys.

use crate::event::CallRef;
use crate::plan::PlanStep;
use crate::state::Session;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;

/// Goes into every step key, so that a change of the rule invalidates all of them at once.
const STEP_KEY_VERSION: u32 = 1;

/// Says whether a step's result still counts: equal keys, equal step.
///
/// It covers the step's title, description, tool and canonical arguments, its redo counter and the
/// keys of the steps that it depends on, so a change runs on through everything that depends on
/// it. It does not cover capabilities, the run's requirement, session memory or the workspace.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StepKey([u8; 32]);

impl StepKey {
    /// The key of `step`, given the keys of its dependencies. Their order does not count: steps of
    /// a graph may change places without anything being done again.
    pub fn of(step: &PlanStep, dependencies: impl IntoIterator<Item = Self>) -> Self {
        let mut digest = Fields::new("cairn.step", STEP_KEY_VERSION);
        digest.text(&step.title).text(&step.description);
        match &step.tool {
            Some(tool) => digest.number(1).text(&tool.name).text(&tool.arguments),
            None => digest.number(0),
        };
        digest.number(step.redo.into());
        let mut dependencies: Vec<Self> = dependencies.into_iter().collect();
        dependencies.sort_unstable();
        for key in dependencies {
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

/// The keys of all steps of a plan, in its order. Dependencies may point forward, so the steps are
/// visited in an order in which each comes after those that it depends on.
pub fn step_keys(steps: &[PlanStep]) -> Vec<StepKey> {
    let mut keys: Vec<Option<StepKey>> = vec![None; steps.len()];
    let mut stack: Vec<usize> = (0..steps.len()).rev().collect();
    while let Some(&position) = stack.last() {
        if keys[position].is_some() {
            stack.pop();
            continue;
        }
        let before = stack.len();
        let missing = steps[position].depends_on.iter().map(|&d| d as usize);
        stack.extend(missing.filter(|&d| keys[d].is_none()));
        if stack.len() == before {
            let known = steps[position].depends_on.iter();
            let known = known.filter_map(|&d| keys[d as usize]);
            keys[position] = Some(StepKey::of(&steps[position], known));
            stack.pop();
        }
    }
    keys.into_iter().flatten().collect()
}

/// The key that goes with every repeat of one call, and with no other call of any session.
pub fn call_key(namespace: &str, session: &str, call: CallRef) -> String {
    let mut digest = Fields::new("cairn.call", 1);
    digest
        .text(namespace)
        .text(session)
        .number(call.attempt.run.into())
        .number(call.attempt.step.into())
        .number(call.attempt.attempt.into())
        .number(call.tool_turn.into())
        .number(call.index.into());
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

/// What an approval is bound to: a tool and its arguments, as they are written.
pub fn approval_digest(tool: &str, arguments: &str) -> String {
    let mut digest = Fields::new("cairn.approval", 1);
    digest.text(tool).text(arguments);
    hex(&digest.finish())
}

/// 16 hexadecimal digits that tell one list of numbers from another in the same domain.
pub(crate) fn short_digest(domain: &str, numbers: &[u32]) -> String {
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

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}
