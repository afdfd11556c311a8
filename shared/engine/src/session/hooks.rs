//! What a run asks of hooks, and what waits for their answers.

mod answers;
mod ended;
mod gates;
mod recorded;

pub use ended::EndedHooks;
pub use recorded::{HookAsk, RunHooks};

use crate::hooks::Gate;
use crate::transitions::IllegalTransition;

fn refused(gate: Gate, from: impl std::fmt::Debug, to: impl std::fmt::Debug) -> IllegalTransition {
    IllegalTransition::not_allowed(format_args!("{gate:?}"), from, to)
}
