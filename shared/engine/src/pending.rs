//! The questions that a run waits for, and their names.

use crate::event::{AttemptRef, Budget, CallRef, WaitReason};
use crate::plan::PlanDraft;
use crate::state::{Ask, Call, CallStatus, Run, RunStatus, Session};
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
    /// May the run use more?
    Budget {
        /// Number of the run.
        run: u32,
    },
    /// May this call be made?
    Approval(CallRef),
    /// What the model asked by this call.
    Question(CallRef),
    /// Is this plan to be put into force?
    Plan {
        /// Number of the run.
        run: u32,
        /// Number of the proposal.
        proposal: u32,
    },
}

/// A question with what a person needs to answer it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// Its name.
    pub id: PendingId,
    /// For a call in doubt or one that needs approval: the tool, its arguments, and when an answer
    /// takes effect.
    pub call: Option<PendingCall>,
    /// For a question: its text, and the answers that the model proposes.
    pub question: Option<(String, Vec<String>)>,
    /// For a budget: which one is used up.
    pub budget: Option<Budget>,
    /// For a plan: the plan.
    pub plan: Option<PlanDraft>,
    /// An answer was accepted and has not taken effect.
    pub is_answered: bool,
}

/// A call that a question is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingCall {
    /// Name of the tool.
    pub tool: String,
    /// Its arguments as JSON text.
    pub arguments: String,
    /// An answer takes effect from then on; 0 for at once.
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
        let call = match numbers[..] {
            [run, step, attempt, tool_turn, index] => Some(CallRef {
                attempt: AttemptRef { run, step, attempt },
                tool_turn,
                index,
            }),
            _ => None,
        };
        let subject = match (kind, &numbers[..]) {
            ("budget", &[run]) => Subject::Budget { run },
            ("plan", &[run, proposal]) => Subject::Plan { run, proposal },
            ("call", _) => Subject::Call(call?),
            ("approval", _) => Subject::Approval(call?),
            ("question", _) => Subject::Question(call?),
            _ => return None,
        };
        // An approval and a question of the model are asked once.
        let is_asked_again = !matches!(subject, Subject::Approval(_) | Subject::Question(_));
        (is_asked_again || time == 1).then_some(Self { subject, time })
    }
}

impl fmt::Display for PendingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, call) = match &self.subject {
            Subject::Budget { run } => {
                write!(f, "budget-{run}")?;
                return self.fmt_time(f);
            }
            Subject::Plan { run, proposal } => {
                write!(f, "plan-{run}.{proposal}")?;
                return self.fmt_time(f);
            }
            Subject::Call(call) => ("call", call),
            Subject::Approval(call) => ("approval", call),
            Subject::Question(call) => ("question", call),
        };
        let AttemptRef { run, step, attempt } = call.attempt;
        let CallRef {
            tool_turn, index, ..
        } = call;
        write!(f, "{kind}-{run}.{step}.{attempt}.{tool_turn}.{index}")?;
        self.fmt_time(f)
    }
}

impl PendingId {
    /// What is asked for the first time has no number.
    fn fmt_time(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
        let calls = attempt.last_calls(name);
        open.extend(calls.filter_map(|(call_name, call)| question_of(call_name, call)));
    }
    let review = run.review.and_then(|proposal| {
        let plan = run.proposals.get(&proposal)?.plan.clone();
        Some((proposal, plan))
    });
    if let Some((proposal, plan)) = review {
        open.push(Pending {
            plan: Some(plan),
            is_answered: run.is_denied(proposal),
            ..Pending::about(plan_question(run, proposal))
        });
    }
    if run.status == RunStatus::Waiting(WaitReason::Budget) {
        open.push(Pending {
            budget: run.lacks(),
            ..Pending::about(budget_question(run))
        });
    }
    open
}

/// What a call asks, if it does.
fn question_of(name: CallRef, call: &Call) -> Option<Pending> {
    let about = |subject| Pending::about(PendingId { subject, time: 1 });
    let told = |settle_after| PendingCall {
        tool: call.call.name.clone(),
        arguments: call.call.arguments.clone(),
        settle_after,
    };
    match &call.status {
        CallStatus::InDoubt {
            settle_after,
            answer,
        } => Some(Pending {
            call: Some(told(*settle_after)),
            is_answered: answer.is_some(),
            ..Pending::about(PendingId {
                subject: Subject::Call(name),
                time: call.doubts,
            })
        }),
        CallStatus::Asking {
            ask: Ask::Approval { .. },
            answer: None,
        } => Some(Pending {
            call: Some(told(0)),
            ..about(Subject::Approval(name))
        }),
        CallStatus::Asking {
            ask: Ask::Question { question, choices },
            answer: None,
        } => Some(Pending {
            question: Some((question.clone(), choices.clone())),
            ..about(Subject::Question(name))
        }),
        _ => None,
    }
}

impl Pending {
    fn about(id: PendingId) -> Self {
        Self {
            id,
            call: None,
            question: None,
            budget: None,
            plan: None,
            is_answered: false,
        }
    }
}

/// The question that a run asks when a budget is used up.
pub(crate) fn budget_question(run: &Run) -> PendingId {
    PendingId {
        subject: Subject::Budget { run: run.number },
        time: run.raises + 1,
    }
}

/// The question whether that plan is to be put into force. A plan that was denied is asked about
/// anew if there is no other one.
pub(crate) fn plan_question(run: &Run, proposal: u32) -> PendingId {
    let denials = run.proposals.get(&proposal).map_or(0, |it| it.denials);
    PendingId {
        subject: Subject::Plan {
            run: run.number,
            proposal,
        },
        time: match run.is_denied(proposal) {
            true => denials,
            false => denials + 1,
        },
    }
}

impl Run {
    /// A person said no to this plan, and another one is being made.
    pub(crate) fn is_denied(&self, proposal: u32) -> bool {
        let mut wishes = self.revising.values();
        wishes.any(|wish| wish.denied == proposal)
    }
}

/// The call, if its run is active and its attempt under way.
pub(crate) fn pending_call(session: &Session, call: CallRef) -> Option<&Call> {
    let active = session.active_run()?;
    (active.number == call.attempt.run).then(|| session.call(call))?
}
