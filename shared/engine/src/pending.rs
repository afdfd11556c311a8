//! The questions that a run waits for, and their names.

use crate::event::{AttemptRef, CallRef, WaitReason};
use crate::state::{Call, CallStatus, RunStatus, Session};
use std::fmt;

/// The name of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PendingId {
    /// What became of this call?
    Call(CallRef),
    /// May the run use more tool turns?
    Budget {
        /// Number of the run.
        run: u32,
    },
}

/// A question with what a person needs to answer it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// Its name.
    pub id: PendingId,
    /// For a call: the tool, its arguments, and when an answer takes effect.
    pub call: Option<PendingCall>,
    /// An answer was accepted and has not taken effect.
    pub is_answered: bool,
}

/// A call in doubt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingCall {
    /// Name of the tool.
    pub tool: String,
    /// Its arguments as JSON text.
    pub arguments: String,
    /// An answer takes effect from then on.
    pub settle_after: u64,
}

impl PendingId {
    /// Reads a name back.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(run) = text.strip_prefix("budget-") {
            return Some(Self::Budget {
                run: run.parse().ok()?,
            });
        }
        let numbers = text.strip_prefix("call-")?.split('.');
        let numbers: Vec<u32> = numbers.map(|n| n.parse().ok()).collect::<Option<_>>()?;
        let [run, step, attempt, tool_turn, index] = numbers[..] else {
            return None;
        };
        Some(Self::Call(CallRef {
            attempt: AttemptRef { run, step, attempt },
            tool_turn,
            index,
        }))
    }
}

impl fmt::Display for PendingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Budget { run } => write!(f, "budget-{run}"),
            Self::Call(call) => {
                let AttemptRef { run, step, attempt } = call.attempt;
                write!(
                    f,
                    "call-{run}.{step}.{attempt}.{}.{}",
                    call.tool_turn, call.index
                )
            }
        }
    }
}

/// The open questions of a session, oldest first.
pub fn pending(session: &Session) -> Vec<Pending> {
    let Some(run) = session.active_run() else {
        return Vec::new();
    };
    let mut open = Vec::new();
    for (name, _, attempt) in run.running_attempts() {
        for (call_name, call) in attempt.calls(name) {
            let CallStatus::InDoubt {
                settle_after,
                answer,
            } = &call.status
            else {
                continue;
            };
            open.push(Pending {
                id: PendingId::Call(call_name),
                call: Some(PendingCall {
                    tool: call.call.name.clone(),
                    arguments: call.call.arguments.clone(),
                    settle_after: *settle_after,
                }),
                is_answered: answer.is_some(),
            });
        }
    }
    if run.status == RunStatus::Waiting(WaitReason::Budget) {
        open.push(Pending {
            id: PendingId::Budget { run: run.number },
            call: None,
            is_answered: false,
        });
    }
    open
}

/// The call, if its run is active and its attempt under way.
pub(crate) fn pending_call(session: &Session, call: CallRef) -> Option<&Call> {
    let active = session.active_run()?;
    (active.number == call.attempt.run).then(|| session.call(call))?
}
