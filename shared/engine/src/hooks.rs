//! Hooks: the points at which a run asks, what each point takes, and what follows from several answers. Pure.
//!
//! A question is named by its [`Gate`]. A gate is open in the state from an event on, and what comes next waits. The
//! owner asks ([`Work::AskHooks`](crate::outstanding::Work::AskHooks)) and decides
//! [`Input::Hooked`](crate::decide::Input::Hooked). No continuation is stored: the decision looks at the state behind the
//! gate once more.

mod fault;
mod gate;
mod outcome;
mod pin;
mod point;
mod question;
mod verdict;

pub use fault::fault_of;
pub(crate) use fault::fit;
pub use gate::Gate;
pub use outcome::{Answered, HookFailure, Outcome};
pub use pin::{PinnedHook, PresentHook, PresentHooks};
pub use point::{Changes, Point, Points};
pub use question::{AskedCall, EndStatus, NextRequest, Payload, Question};
pub use verdict::{Mutation, Verdict, VerdictKind};

/// Most hooks that one run asks.
pub const MAX_HOOKS: usize = 32;
/// Most bytes of an answer.
pub const MAX_ANSWER: usize = 256 * 1024;
/// Most bytes that all answers to one question change, those about all calls of a reply together.
pub(crate) const MAX_CHANGES: usize = 4 * MAX_ANSWER;
/// Most bytes of a reason.
pub const MAX_REASON: usize = 4096;
/// About the most bytes that the reasons of all hooks that answer one question have in the journal.
pub(crate) const MAX_REASONS: usize = 2 * MAX_REASON;
/// Most ended runs whose hooks on [`Point::OnRunEnd`] are still asked. The oldest are dropped.
pub const MAX_ENDED: usize = 16;
