//! What one hook answers.

use super::{Changes, MAX_REASON};
use crate::conversation::Op;
use crate::message::Message;
use crate::plan::PlanDraft;
use serde::{Deserialize, Serialize};

/// The kinds of answers, from the mildest to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum VerdictKind {
    /// Continue.
    Proceed,
    /// Continue with a changed payload.
    Mutate,
    /// Continue as if it were done.
    Skip,
    /// Ask a person first.
    RequireApproval,
    /// Do not do it.
    Block,
}

impl VerdictKind {
    /// All of them, from the mildest to the strictest.
    pub const ALL: [Self; 5] = [
        Self::Proceed,
        Self::Mutate,
        Self::Skip,
        Self::RequireApproval,
        Self::Block,
    ];

    /// Its name in answers of programs and in traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Proceed => "proceed",
            Self::Mutate => "mutate",
            Self::Skip => "skip",
            Self::RequireApproval => "require_approval",
            Self::Block => "block",
        }
    }
}

/// What a hook answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Continue.
    Proceed,
    /// Continue with this in place of the payload.
    Mutate(Mutation),
    /// Continue with this result.
    Skip(String),
    /// Ask a person first, who reads this.
    RequireApproval(String),
    /// Do not do it, because of this.
    Block(String),
}

impl Verdict {
    /// Its kind.
    pub const fn kind(&self) -> VerdictKind {
        match self {
            Self::Proceed => VerdictKind::Proceed,
            Self::Mutate(_) => VerdictKind::Mutate,
            Self::Skip(_) => VerdictKind::Skip,
            Self::RequireApproval(_) => VerdictKind::RequireApproval,
            Self::Block(_) => VerdictKind::Block,
        }
    }

    /// The same with as much of a reason as is kept. A hook that says too much has blocked all the same.
    #[must_use]
    pub fn shortened(mut self) -> Self {
        if let Self::RequireApproval(reason) | Self::Block(reason) = &mut self {
            reason.truncate(reason.floor_char_boundary(MAX_REASON));
        }
        self
    }
}

/// A change of a payload; see `cairn/event/v1/hook.proto`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // Described in the contract.
pub enum Mutation {
    Arguments(String),
    Output(String),
    Text(String),
    Ops(Vec<Op>),
    Plan(PlanDraft),
    Prompt(String),
}

impl Mutation {
    /// What it changes.
    pub const fn changes(&self) -> Changes {
        match self {
            Self::Arguments(_) => Changes::Arguments,
            Self::Output(_) => Changes::Output,
            Self::Text(_) => Changes::Text,
            Self::Ops(_) => Changes::Ops,
            Self::Plan(_) => Changes::Plan,
            Self::Prompt(_) => Changes::Prompt,
        }
    }

    /// The changes of a conversation; none if it changes something else.
    pub fn ops(&self) -> Option<&[Op]> {
        match self {
            Self::Ops(ops) => Some(ops),
            _ => None,
        }
    }

    /// About as many bytes as it takes in the journal.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Arguments(text) | Self::Output(text) | Self::Text(text) | Self::Prompt(text) => {
                text.len()
            }
            Self::Ops(ops) => ops.iter().map(bytes_of).sum(),
            Self::Plan(plan) => serde_json::to_vec(plan).map_or(usize::MAX, |json| json.len()),
        }
    }
}

/// Bytes of a change of a conversation.
fn bytes_of(op: &Op) -> usize {
    let of = |message: &Message| usize::try_from(message.bytes()).unwrap_or(usize::MAX);
    match op {
        Op::Append(message) | Op::Update { message, .. } | Op::Insert { message, .. } => {
            of(message)
        }
        Op::Notice(text) => text.len(),
        _ => 0,
    }
}
