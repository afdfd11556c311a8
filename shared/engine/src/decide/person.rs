//! What people are asked before something is done: approvals, questions of the model, plans.

use super::Decision;
use super::command::{Refusal, not_pending, refuse};
use super::revise::Change;
use super::state_tools::{Answer, Complaint, arguments, complain};
use crate::command::Settlement;
use crate::event::{AttemptRef, CallFinished, CallRef, EventKind};
use crate::key::approval_digest;
use crate::limits::{MAX_CHOICES, MAX_QUESTION};
use crate::message::{ToolCall, Usage};
use crate::pending::{PendingId, Subject, pending_call, plan_question};
use crate::state::{Ask, CallStatus};
use crate::transitions::IllegalTransition;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct QuestionArguments {
    question: String,
    #[serde(default)]
    choices: Vec<String>,
}

impl Decision<'_> {
    /// A call of a tool that needs approval waits for it; an approval is for one call, once.
    pub(super) fn ask_approval(
        &mut self,
        name: CallRef,
        tool: &str,
    ) -> Result<(), IllegalTransition> {
        let facts = self.facts.tools.get(tool);
        if !facts.is_some_and(|facts| facts.needs_approval) {
            return Ok(());
        }
        let Some(call) = self.session.call(name) else {
            return Ok(());
        };
        let digest = approval_digest(&call.call.name, &call.call.arguments);
        self.emit(EventKind::ApprovalRequested { call: name, digest })
    }

    /// The model asks a person; the call has no result until one answers.
    pub(super) fn ask_person(
        &mut self,
        name: CallRef,
        call: &ToolCall,
    ) -> Result<Answer, IllegalTransition> {
        let asked = arguments(call).and_then(check_question);
        let QuestionArguments { question, choices } = match asked {
            Ok(asked) => asked,
            Err(complaint) => return Ok(Err(complaint)),
        };
        self.emit(EventKind::QuestionAsked {
            call: name,
            question,
            choices,
        })?;
        Ok(Ok(None))
    }

    /// A person says whether a call may be made, or answers the model.
    pub(super) fn decide_asked(
        &mut self,
        command_seq: u64,
        id: PendingId,
        name: CallRef,
        settlement: Settlement,
    ) -> Result<Option<Refusal>, IllegalTransition> {
        use Settlement as S;
        let call = pending_call(self.session, name);
        let ask = match call.map(|call| &call.status) {
            Some(CallStatus::Asking { ask, answer: None }) => ask,
            _ => return Ok(not_pending(&id.to_string())),
        };
        let allowed = match (id.subject, ask, &settlement) {
            (Subject::Approval(_), Ask::Approval { .. }, S::Approve | S::Deny { .. })
            | (Subject::Question(_), Ask::Question { .. }, S::Answer { .. }) => None,
            (Subject::Approval(_), Ask::Approval { .. }, _) => Some("approve or deny it"),
            (Subject::Question(_), Ask::Question { .. }, _) => Some("answer it"),
            _ => return Ok(not_pending(&id.to_string())),
        };
        if let Some(allowed) = allowed {
            let message = format!("'{id}' does not take {}: {allowed}", settlement.word());
            return Ok(refuse("BAD_SETTLEMENT", message));
        }
        let result = settlement.result();
        self.emit(EventKind::Decided {
            command_seq,
            call: name,
            settlement,
            settle_after: 0,
        })?;
        if let Some((output, is_error)) = result {
            let reason = if is_error { CallFinished::DENIED } else { "" };
            self.answer(name, output, reason)?;
        }
        self.go_on_after_word(name.attempt)?;
        Ok(None)
    }

    /// With the last answer the calls begin that waited with it, and a step ends that did.
    fn go_on_after_word(&mut self, attempt: AttemptRef) -> Result<(), IllegalTransition> {
        self.finish_turn(attempt)?;
        self.intend_requested_calls(attempt)?;
        self.advance(attempt.run)
    }

    /// A person agrees to a plan, or says what is to be different.
    pub(super) fn decide_plan(
        &mut self,
        command_seq: u64,
        id: PendingId,
        number: u32,
        proposal: u32,
        settlement: Settlement,
    ) -> Result<Option<Refusal>, IllegalTransition> {
        let run = self.session.active_run();
        let run = run.filter(|run| run.number == number && run.review == Some(proposal));
        let run = run.filter(|run| plan_question(run, proposal) == id);
        let proposed = run.and_then(|run| Some((run, run.proposals.get(&proposal)?)));
        let Some((run, proposed)) = proposed else {
            return Ok(not_pending(&id.to_string()));
        };
        match settlement {
            Settlement::Approve => {
                let change = Change {
                    plan: proposed.plan.clone(),
                    command_seq,
                    usage: Usage::default(),
                    duration_ms: 0,
                };
                self.put_into_force(number, change)?;
                Ok(None)
            }
            Settlement::Deny { .. } if run.is_denied(proposal) => {
                let message = format!("'{id}' was denied already, and another plan is asked for");
                Ok(refuse("ALREADY_DECIDED", message))
            }
            Settlement::Deny { reason } if reason.trim().is_empty() => {
                let message = "a plan is denied with what is to be different; to end the run, \
                               cancel it";
                Ok(refuse("BAD_SETTLEMENT", message.to_owned()))
            }
            Settlement::Deny { reason } => {
                self.emit(EventKind::RevisionRequested {
                    run: number,
                    feedback: reason,
                    apply: false,
                    command_seq,
                    denied: proposal,
                })?;
                Ok(None)
            }
            other => {
                let message = format!("'{id}' does not take {}: approve or deny it", other.word());
                Ok(refuse("BAD_SETTLEMENT", message))
            }
        }
    }
}

fn check_question(asked: QuestionArguments) -> Result<QuestionArguments, Complaint> {
    let (question, choices) = (&asked.question, &asked.choices);
    if question.trim().is_empty() {
        return Err(complain("a question must not be empty"));
    }
    if choices.len() > MAX_CHOICES {
        let message = format!("a question has at most {MAX_CHOICES} choices");
        return Err(complain(message));
    }
    let bytes = question.len() + choices.iter().map(String::len).sum::<usize>();
    if bytes > MAX_QUESTION {
        let message = format!("a question has at most {MAX_QUESTION} bytes, its choices included");
        return Err(complain(message));
    }
    Ok(asked)
}
