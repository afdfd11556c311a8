//! The questions that a run waits for, and their names.

use crate::event::{AttemptRef, CallRef, WaitReason};
use crate::state::{Call, CallStatus, Run, RunStatus, Session};
use std::fmt;

/// The name of a question. What is asked again is another question: an answer to the first, sent
/// once more by a client that did not hear it was taken, must not answer the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingId {
    /// What it is about.
    pub subject: Subject,
    /// How often this has been asked, from 1.
    pub time: u32,
}

/// What a question is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
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
        let (kind, rest) = text.split_once('-')?;
        let (place, time) = match rest.split_once('-') {
            Some((place, time)) => (place, time.parse().ok().filter(|time| *time > 1)?),
            None => (rest, 1),
        };
        let numbers = place.split('.').map(|n| n.parse().ok());
        let numbers: Vec<u32> = numbers.collect::<Option<_>>()?;
        let subject = match (kind, &numbers[..]) {
            ("budget", &[run]) => Subject::Budget { run },
            ("call", &[run, step, attempt, tool_turn, index]) => Subject::Call(CallRef {
                attempt: AttemptRef { run, step, attempt },
                tool_turn,
                index,
            }),
            _ => return None,
        };
        Some(Self { subject, time })
    }
}

impl fmt::Display for PendingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.subject {
            Subject::Budget { run } => write!(f, "budget-{run}")?,
            Subject::Call(call) => {
                let AttemptRef { run, step, attempt } = call.attempt;
                let CallRef {
                    tool_turn, index, ..
                } = call;
                write!(f, "call-{run}.{step}.{attempt}.{tool_turn}.{index}")?;
            }
        }
        match self.time {
            1 => Ok(()),
            time => write!(f, "-{time}"),
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
                id: PendingId {
                    subject: Subject::Call(call_name),
                    time: call.doubts,
                },
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
            id: budget_question(run),
            call: None,
            is_answered: false,
        });
    }
    open
}

/// The question that a run asks when its tool turns are used up.
pub(crate) fn budget_question(run: &Run) -> PendingId {
    PendingId {
        subject: Subject::Budget { run: run.number },
        time: run.raises + 1,
    }
}

/// The call, if its run is active and its attempt under way.
pub(crate) fn pending_call(session: &Session, call: CallRef) -> Option<&Call> {
    let active = session.active_run()?;
    (active.number == call.attempt.run).then(|| session.call(call))?
}
