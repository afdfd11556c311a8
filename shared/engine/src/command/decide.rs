//! Answers a question that a run waits for.

mod always;
mod hook;

pub use always::{always_covers, approval_scopes};

use super::{Handle, Settlement};
use crate::decide::{Change, Decision, Rejection};
use crate::event::{
    ApprovalGranted, AttemptRef, Budget, BudgetRaised, BudgetRefused, CallRef, Decided,
    RevisionRequested, WaitReason,
};
use crate::failure::{Failure, FailureKind};
use crate::limits::MAX_COMPACTION_TEXT;
use crate::pending::{PendingId, Subject, budget_question, pending_call, plan_question};
use crate::pool::Missing;
use crate::refusal::Refusal;
use crate::session::{Ask, Attempt, CallStatus, FullContext, Run, RunStatus};
use crate::text::counted;
use always::granted;
use serde::{Deserialize, Serialize};

/// Answer a question that a run waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decide {
    /// The question, as the list of pending questions names it.
    pub pending_id: String,
    /// The answer.
    pub settlement: Settlement,
}

impl Handle for Decide {
    const BEGINS_WORK: bool = false;

    fn handle(self, decision: &mut Decision<'_>) -> Result<(), Rejection> {
        let Some(id) = PendingId::parse(&self.pending_id) else {
            return Err(not_pending(self.pending_id));
        };
        let decide = Deciding {
            decision,
            id,
            settlement: self.settlement,
        };
        match id.subject {
            Subject::Call(call) => decide.doubt(call),
            Subject::Approval(call) | Subject::Question(call) => decide.call(call),
            Subject::Budget { run } => decide.budget(run),
            Subject::Plan { run, proposal } => decide.plan(run, proposal),
            Subject::Context(attempt) => decide.context(attempt),
            Subject::Shortage(attempt) => decide.shortage(attempt),
            Subject::Hook { run } => decide.hook(run),
        }
    }
}

/// One answer to one question.
struct Deciding<'d, 's> {
    decision: &'d mut Decision<'s>,
    id: PendingId,
    settlement: Settlement,
}

impl Deciding<'_, '_> {
    /// What became of a call in doubt. The answer takes effect once the call can no longer run.
    fn doubt(self, name: CallRef) -> Result<(), Rejection> {
        use Settlement as S;
        let call = pending_call(self.decision.session, name);
        let call = call.filter(|call| call.doubts == self.id.time);
        let Some(CallStatus::InDoubt {
            settle_after,
            answer,
        }) = call.map(|call| &call.status)
        else {
            return Err(not_pending(self.id));
        };
        if answer.is_some() {
            return Err(decided_already(format!(
                "'{}' has been answered already",
                self.id
            )));
        }
        if matches!(
            self.settlement,
            S::Approve | S::ApproveAlways { .. } | S::Deny { .. } | S::Answer { .. }
        ) {
            let allowed = "a call in doubt is settled by done, retry, skip or fail";
            return Err(bad_settlement(allowed));
        }
        let is_due = *settle_after <= self.decision.facts.now;
        let settle_after = if is_due { 0 } else { *settle_after };
        self.decision.answer(Decided {
            pending: self.id,
            settlement: self.settlement,
            settle_after,
            responses: String::new(),
        })?;
        Ok(self.decision.settle_due()?)
    }

    /// Whether a call may be made, or what the model wants to know.
    fn call(self, name: CallRef) -> Result<(), Rejection> {
        use Settlement as S;
        let call = pending_call(self.decision.session, name);
        let call = call.filter(|call| call.asks == self.id.time);
        let Some((call, ask)) = call.and_then(|call| match &call.status {
            CallStatus::Asking { ask, answer: None } => Some((call, ask)),
            _ => None,
        }) else {
            return Err(not_pending(self.id));
        };
        let allowed = match (self.id.subject, ask, &self.settlement) {
            (Subject::Approval(_), Ask::Approval { .. }, S::ApproveAlways { when, scope }) => {
                let grant = granted(self.decision, name, call, when, scope)?;
                return self.always(name, grant);
            }
            (Subject::Question(_), Ask::Input { question }, S::Answer { .. } | S::Deny { .. }) => {
                let read = self.decision.facts.responses;
                let responses = read(&question.requests, &self.settlement);
                return self.input(name, responses.map_err(bad_settlement)?);
            }
            (Subject::Approval(_), Ask::Approval { .. }, S::Approve | S::Deny { .. })
            | (Subject::Question(_), Ask::Question { .. }, S::Answer { .. }) => None,
            (Subject::Approval(_), Ask::Approval { .. }, _) => Some("approve or deny it"),
            (Subject::Question(_), Ask::Question { .. }, _) => Some("answer it"),
            (Subject::Question(_), Ask::Input { .. }, _) => Some("answer or deny it"),
            _ => return Err(not_pending(self.id)),
        };
        if let Some(allowed) = allowed {
            return Err(self.does_not_take(allowed));
        }
        let settlement = self.settlement.clone();
        let decision = self.accept()?;
        decision.finish_decided(name, &settlement)?;
        Ok(decision.continue_attempt(name.attempt)?)
    }

    /// The call may be made, and further ones that the approval covers.
    fn always(self, name: CallRef, grant: Option<ApprovalGranted>) -> Result<(), Rejection> {
        let decision = self.accept()?;
        if let Some(grant) = grant {
            decision.take_up(grant)?;
        }
        Ok(decision.continue_attempt(name.attempt)?)
    }

    /// The call continues with the responses, which its tool gets.
    fn input(self, name: CallRef, responses: String) -> Result<(), Rejection> {
        let decision = self.accept_with(responses)?;
        Ok(decision.continue_attempt(name.attempt)?)
    }

    /// Whether a run may use more of a budget.
    fn budget(self, number: u32) -> Result<(), Rejection> {
        let waiting = RunStatus::Waiting(WaitReason::Budget);
        let run = self.decision.session.run(number);
        let run = run.filter(|run| run.status == waiting && budget_question(run) == self.id);
        let Some((run, budget)) = run.and_then(|run| Some((run, run.spent.asked?))) else {
            return Err(not_pending(self.id));
        };
        match &self.settlement {
            Settlement::Retry => {
                let more = fresh(run, budget, self.decision.facts.now);
                let decision = self.accept()?;
                decision.emit(BudgetRaised {
                    run: number,
                    budget,
                    more,
                })?;
                Ok(decision.begin_again(number)?)
            }
            Settlement::Fail { reason } => {
                let failure = used_up(run, budget, reason);
                let decision = self.accept()?;
                decision.emit(BudgetRefused {
                    run: number,
                    failure: failure.clone(),
                })?;
                // An older request would give it another plan, and let it live.
                decision.drop_requests(number, &failure.message)?;
                Ok(decision.advance(number)?)
            }
            _ => Err(bad_settlement(
                "a budget can be raised (retry) or the run ended (fail)",
            )),
        }
    }

    /// How an attempt continues whose next request does not fit.
    fn context(self, name: AttemptRef) -> Result<(), Rejection> {
        let session = &self.decision.session;
        let active = session.active_run().filter(|run| run.number == name.run);
        let attempt = active.and_then(|_| session.attempt(name));
        let attempt = attempt.filter(|attempt| attempt.times_full == self.id.time);
        let Some(full) = attempt.and_then(|attempt| attempt.full.as_ref()) else {
            return Err(not_pending(self.id));
        };
        match &self.settlement {
            Settlement::Answer { text } if text.trim().is_empty() => Err(bad_settlement(
                "the answer is the prompt of another summary; to try again as before, retry",
            )),
            Settlement::Answer { text } if text.len() > MAX_COMPACTION_TEXT => {
                let message = format!(
                    "the prompt has {} bytes; at most {MAX_COMPACTION_TEXT} are allowed",
                    text.len()
                );
                Err(bad_settlement(message))
            }
            Settlement::Retry | Settlement::Answer { .. } => {
                let decision = self.accept()?;
                Ok(decision.continue_attempt(name)?)
            }
            Settlement::Fail { reason } => {
                let failure = does_not_fit(full, reason);
                let decision = self.accept()?;
                decision.fail_step(name, failure)?;
                Ok(decision.advance(name.run)?)
            }
            _ => Err(self.does_not_take(
                "retry it, answer it with the prompt of another summary, or fail it",
            )),
        }
    }

    /// Whether an attempt waits longer for what no resource has.
    fn shortage(self, name: AttemptRef) -> Result<(), Rejection> {
        let session = &self.decision.session;
        let active = session.active_run().filter(|run| run.number == name.run);
        let attempt = active.and_then(|_| session.attempt(name));
        let attempt = attempt.filter(|attempt| attempt.times_short == self.id.time);
        let Some(short) = attempt.and_then(Attempt::shortage) else {
            return Err(not_pending(self.id));
        };
        let Settlement::Fail { reason } = &self.settlement else {
            return Err(self.does_not_take(
                "answer fail to end the step; it continues by itself once a resource has what it needs",
            ));
        };
        let failure = lacks(&short.missing, reason);
        let decision = self.accept()?;
        decision.fail_step(name, failure)?;
        Ok(decision.advance(name.run)?)
    }

    /// Whether a plan is put into force, or what is to be different.
    fn plan(self, number: u32, proposal: u32) -> Result<(), Rejection> {
        let run = self.decision.session.active_run();
        let run = run.filter(|run| run.number == number && run.revisions.review == Some(proposal));
        let run = run.filter(|run| plan_question(run, proposal) == self.id);
        let proposed = run.and_then(|run| Some((run, run.revisions.proposals.get(&proposal)?)));
        let Some((run, proposed)) = proposed else {
            return Err(not_pending(self.id));
        };
        match &self.settlement {
            Settlement::Approve => {
                self.decision.check_plan_of_run(number, &proposed.plan)?;
                let change = Change::given(proposed.plan.clone(), self.decision.command_seq());
                let decision = self.accept()?;
                Ok(decision.put_into_force(number, change)?)
            }
            Settlement::Deny { .. } if run.revisions.is_denied(proposal) => {
                let message = format!(
                    "'{}' was denied already, and another plan is requested",
                    self.id
                );
                Err(decided_already(message))
            }
            Settlement::Deny { reason } if reason.trim().is_empty() => Err(bad_settlement(
                "a plan is denied with what is to be different; to end the run, cancel it",
            )),
            Settlement::Deny { reason } => {
                let feedback = reason.clone();
                let decision = self.accept()?;
                decision.emit(RevisionRequested {
                    run: number,
                    feedback,
                    apply: false,
                    request: decision.command_seq(),
                    denied: proposal,
                })?;
                Ok(())
            }
            _ => Err(self.does_not_take("approve or deny it")),
        }
    }
}

impl<'d, 's> Deciding<'d, 's> {
    /// The decision is taken, and takes effect at once.
    fn accept(self) -> Result<&'d mut Decision<'s>, Rejection> {
        self.accept_with(String::new())
    }

    fn accept_with(self, responses: String) -> Result<&'d mut Decision<'s>, Rejection> {
        self.decision.answer(Decided {
            pending: self.id,
            settlement: self.settlement,
            settle_after: 0,
            responses,
        })?;
        Ok(self.decision)
    }

    fn does_not_take(&self, allowed: &str) -> Rejection {
        let verb = self.settlement.verb();
        bad_settlement(format!("'{}' does not take {verb}: {allowed}", self.id))
    }
}

fn bad_settlement(message: impl Into<String>) -> Rejection {
    Rejection::refused(Refusal::BadSettlement, message)
}

fn decided_already(message: String) -> Rejection {
    Rejection::refused(Refusal::AlreadyDecided, message)
}

fn not_pending(id: impl std::fmt::Display) -> Rejection {
    let message = format!("'{id}' is not an open question of this session");
    Rejection::refused(Refusal::NotPending, message)
}

/// As much again of a budget that is used up as there was at first. What was used beyond it is not
/// taken from the next; calls beyond it have not been made, and are.
fn fresh(run: &Run, budget: Budget, now: u64) -> u64 {
    let first = match budget {
        Budget::ToolTurns => run.limits.max_tool_turns.into(),
        _ => run.limits.budgets[budget],
    };
    let allowed = run.spent.allowed[budget];
    let beyond = allowed.map_or(0, |most| run.spent.used(budget, now).saturating_sub(most));
    match budget {
        Budget::Calls => first.max(beyond),
        // The reply beyond it is one of the next.
        Budget::ToolTurns => first,
        _ => first.saturating_add(beyond),
    }
}

/// Why an attempt fails whose next request does not fit.
fn does_not_fit(full: &FullContext, reason: &str) -> Failure {
    let FullContext { tokens, window, .. } = full;
    let mut message = format!(
        "the next request has {tokens} tokens and does not fit into the window of {window} tokens"
    );
    if !reason.is_empty() {
        message = format!("{message}; {reason}");
    }
    Failure::new(FailureKind::LimitExceeded, "CONTEXT_FULL", message)
}

/// Why an attempt fails that lacks what no resource has.
fn lacks(missing: &[Missing], reason: &str) -> Failure {
    let names: Vec<_> = missing.iter().map(Missing::to_string).collect();
    let names = names.join(", ");
    let mut message = format!("no resource of the pool has {names}");
    if !reason.is_empty() {
        message = format!("{message}; {reason}");
    }
    Failure::new(FailureKind::Config, "capability", message)
}

/// Names what it was allowed, with what people allowed it since.
fn used_up(run: &Run, budget: Budget, reason: &str) -> Failure {
    let most = run.spent.allowed[budget].unwrap_or_default();
    let (name, what) = match budget {
        Budget::Turns => ("max_turns", counted(most, "tool turn")),
        Budget::Tokens => ("max_tokens", counted(most, "token")),
        Budget::Cost => ("max_cost", format!("${}", most as f64 / 1e9)),
        Budget::Time => (
            "max_active",
            format!("{} s of active time", most as f64 / 1e3),
        ),
        Budget::Calls => ("max_calls", counted(most, "tool call")),
        Budget::ToolTurns => (
            "max_tool_turns",
            format!("{} in one attempt", counted(most, "tool turn")),
        ),
    };
    let mut message = format!("the run's budget of {what} is used up");
    if !reason.is_empty() {
        message = format!("{message}; {reason}");
    }
    Failure::new(FailureKind::LimitExceeded, name, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::testing::{Sent, plan};
    use crate::command::{LimitOverrides, StartRun};

    /// A run whose plan waits for a review, and the question.
    fn reviewed() -> (Sent, String) {
        let mut sent = Sent::new();
        sent.send(StartRun {
            plan: Some(plan(&["one"])),
            limits: LimitOverrides {
                review_plan: true,
                ..LimitOverrides::default()
            },
            ..StartRun::default()
        });
        let question = plan_question(sent.run(), 1).to_string();
        (sent, question)
    }

    fn decide(question: &str, settlement: Settlement) -> Decide {
        Decide {
            pending_id: question.to_owned(),
            settlement,
        }
    }

    fn deny(reason: &str) -> Settlement {
        Settlement::Deny {
            reason: reason.to_owned(),
        }
    }

    #[test]
    fn an_approved_plan_begins() {
        let (mut sent, question) = reviewed();
        sent.send(decide(&question, Settlement::Approve));
        assert_eq!(sent.run().status, RunStatus::Running);
        let again = decide(&question, Settlement::Approve);
        assert_eq!(sent.refused(again), Refusal::NotPending);
    }

    #[test]
    fn a_plan_is_denied_once_and_with_a_reason() {
        let (mut sent, question) = reviewed();
        assert_eq!(sent.refused(decide(&question, deny(" "))), Refusal::BadSettlement);
        assert_eq!(
            sent.refused(decide(&question, Settlement::Retry)),
            Refusal::BadSettlement
        );
        sent.send(decide(&question, deny("add a test")));
        assert_eq!(sent.run().revisions.requests.len(), 1);
        assert_eq!(
            sent.refused(decide(&question, deny("x"))),
            Refusal::AlreadyDecided
        );
    }

    #[test]
    fn a_question_that_is_not_asked_has_no_answer() {
        let (mut sent, _) = reviewed();
        for question in ["", "nonsense", "run-1/budget/0", "run-9/plan/1/0"] {
            let decide = decide(question, Settlement::Approve);
            assert_eq!(sent.refused(decide), Refusal::NotPending, "{question}");
        }
    }
}
