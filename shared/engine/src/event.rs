//! The journal's events: facts, in the past tense, written once.

mod agent;
mod call;
mod compaction;
mod hook;
mod plan;
mod pool;
mod run;
mod session;
mod step;

pub use agent::*;
pub use call::*;
pub use compaction::*;
pub use hook::*;
pub use plan::*;
pub use pool::*;
pub use run::*;
pub use session::*;
pub use step::*;

pub use crate::command::{ApprovalRevoked, EventKind};
pub use crate::session::ApprovalGranted;

use crate::conversation::Op;
use crate::message::ToolCall;
use crate::principal::Principal;
use crate::session::StepNo;
use serde::{Deserialize, Serialize};

/// One fact about a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// When its transition was decided: milliseconds since 1970 by the store's clock.
    pub at: u64,
    /// The seq of the command that it answers; 0 for none.
    pub answers: u64,
    /// Who asked for it or decided it; none where the owner acts by itself.
    pub principal: Option<Principal>,
    /// What happened.
    pub kind: EventKind,
}

/// Names an attempt at a step.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct AttemptRef {
    /// Number of the run, from 1.
    pub run: u32,
    /// Number of the step in the run.
    pub step: StepNo,
    /// Number of the attempt, from 1.
    pub attempt: u32,
}

/// Names a call within a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CallRef {
    /// The attempt that makes it.
    pub attempt: AttemptRef,
    /// The tool turn whose reply asked for it, from 0; 0 for a tool step.
    pub tool_turn: u32,
    /// Position in that reply, from 0.
    pub index: u32,
}

/// What may happen when a call is made a second time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Effect {
    /// Nothing: it only reads.
    Pure,
    /// Nothing, as long as the key is the same.
    Idempotent,
    /// A second effect.
    Effectful,
    /// The owner of the session answers it itself.
    State,
}

/// A call that a reply asks for, with what the catalogue said of its tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestedCall {
    /// The model's call.
    pub call: ToolCall,
    /// What it may do.
    pub effect: Effect,
    /// The digest of its tool; empty if the owner answers it.
    pub tool_digest: String,
    /// It is judged and sent only with a preview.
    pub previews: bool,
    /// Hooks are asked about it, and it is neither sent nor asked about before they have answered.
    pub hooked: bool,
}

/// Why a run cannot go on by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum WaitReason {
    /// A call's outcome is not known.
    InDoubt,
    /// A budget is used up.
    Budget,
    /// A call is made only once a person allows it.
    Approval,
    /// The model asked a person something.
    Question,
    /// A plan is put into force only once a person agrees to it.
    PlanReview,
    /// The next request of a model does not fit into its window, and no compaction helps.
    Context,
    /// No resource of the pool has a capability that an attempt needs. No person has to answer.
    Capability,
    /// A hook requires an approval before the run or a step begins, or a hook of the run is missing or changed.
    Hook,
}

/// What a run may use up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Budget {
    /// Tool turns.
    Turns,
    /// Tokens, in and out.
    Tokens,
    /// Money.
    Cost,
    /// Time in which the run is active.
    Time,
    /// Tool calls.
    Calls,
    /// Tool turns of one attempt, where a person is asked for more.
    ToolTurns,
}

impl Budget {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Turns,
        Self::Tokens,
        Self::Cost,
        Self::Time,
        Self::Calls,
        Self::ToolTurns,
    ];
}

/// What an event does to its session. Each row of `kinds!` names one: a full journal, and the count of
/// claims without progress, follow from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Impact {
    /// It begins or adds something. A full journal refuses it from an owner.
    Grows,
    /// It settles, pauses, ends, renames or takes back. A full journal takes it into its reserve.
    Ends,
    /// An owner writes it only because it takes the session up, or asks a model again. A full journal takes
    /// it into its reserve, and it shows no progress.
    Continues,
}

impl EventKind {
    /// The blobs that the event refers to, in order. Its envelope lists them, so that stores find them
    /// without reading the kind.
    pub fn blobs(&self) -> &[Blob] {
        match self {
            Self::CallFinished(finished) => {
                let whole = finished.whole.as_ref();
                whole.map_or(&[][..], |whole| &whole.blobs[..])
            }
            _ => &[],
        }
    }

    /// Takes the blobs that the envelope lists. A kind that refers to none drops them.
    pub fn set_blobs(&mut self, blobs: Vec<Blob>) {
        if let Self::CallFinished(CallFinished {
            whole: Some(whole), ..
        }) = self
        {
            whole.blobs = blobs;
        }
    }

    /// A full journal takes the event into its reserve.
    pub fn ends_only(&self) -> bool {
        self.impact() != Impact::Grows
    }

    /// The event shows progress of its owner. A session whose owners die one after the other without
    /// progress is quarantined.
    pub fn is_progress(&self) -> bool {
        self.impact() != Impact::Continues
    }

    /// The lowest level of a reader that can read it, with the command, the operations and the reason that it
    /// has.
    pub fn needs(&self) -> u32 {
        let content = match self {
            Self::CommandReceived(received) => received.command.needs(),
            Self::CommandRefused(refused) => refused.reason.since(),
            Self::ContextChanged(changed) => Op::needs_of(&changed.ops),
            _ => 1,
        };
        self.since().max(content)
    }
}

/// Makes [`EventKind`] of its payloads, and folds each by its own [`Apply`](crate::session::Apply).
/// The list stands beside that of the commands, so that a command and its event are one row each.
///
/// A row is `Kind since LEVEL: Impact`, or `Kind since LEVEL: Impact, or Other if test`. The other
/// [`Impact`] is that of a payload whose method `test` returns true. An event of the kind needs a reader of
/// that level; see [`LEVEL`](crate::level::LEVEL).
macro_rules! kinds {
    ($($kind:ident since $since:literal: $impact:ident $(, or $other:ident if $test:ident)?)*) => {
        /// What happened.
        #[derive(Debug, Clone, PartialEq)]
        #[allow(missing_docs)] // Each payload says what it is.
        pub enum EventKind {
            $($kind($kind),)*
        }

        $(impl From<$kind> for EventKind {
            fn from(payload: $kind) -> Self {
                Self::$kind(payload)
            }
        })*

        $(const _: () = assert!($since <= $crate::level::LEVEL);)*

        impl EventKind {
            pub(crate) fn since(&self) -> u32 {
                match self {
                    $(Self::$kind(_) => $since,)*
                }
            }

            pub(crate) fn apply(
                &self,
                session: &mut $crate::session::Session,
                envelope: $crate::session::Envelope<'_>,
            ) -> $crate::transitions::Applied {
                match self {
                    $(Self::$kind(payload) => payload.apply(session, envelope),)*
                }
            }

            pub(crate) fn impact(&self) -> $crate::event::Impact {
                match self {
                    $(
                        $(Self::$kind(payload) if payload.$test() => $crate::event::Impact::$other,)?
                        Self::$kind(_) => $crate::event::Impact::$impact,
                    )*
                }
            }
        }
    };
}
pub(crate) use kinds;
