//! What follows from the executor's reports.

use super::state_tools::{self, STEP};
use super::step_tool::{self, Ending};
use super::{Decision, Reply};
use crate::event::{
    AttemptRef, CallFinished, CallRef, Effect, EventKind, ReplyReceived, RequestedCall,
};
use crate::failure::{Failure, FailureKind};
use crate::message::ToolCall;
use crate::state::{Call, CallStatus};
use crate::text::gist;
use crate::transitions::{CallPhase, IllegalTransition};

/// A call that was certainly not sent is intended anew; after so many times it is a failure.
const MOST_INTENTS: u32 = 5;

/// Longest line of a tool step's output that becomes its summary, in characters.
const GIST_LENGTH: usize = 120;

impl Decision<'_> {
    pub(super) fn report(
        &mut self,
        attempt: AttemptRef,
        results: Vec<CallFinished>,
        reply: Option<Reply>,
        failure: Option<Failure>,
    ) -> Result<(), IllegalTransition> {
        if self.session.attempt(attempt).is_none() {
            return Ok(());
        }
        self.check_report(attempt, &results, reply.as_ref())?;
        for result in results {
            self.take_result(result, reply.is_some())?;
        }
        self.finish_turn(attempt)?;
        if self.session.attempt(attempt).is_some() {
            match (reply, failure) {
                (Some(reply), _) => self.take_reply(attempt, reply)?,
                (None, Some(failure)) => self.fail_step(attempt, failure)?,
                (None, None) => {}
            }
        }
        self.advance(attempt.run)
    }

    /// Nothing is taken of a report that contradicts the state.
    fn check_report(
        &self,
        attempt: AttemptRef,
        results: &[CallFinished],
        reply: Option<&Reply>,
    ) -> Result<(), IllegalTransition> {
        for result in results {
            let call = self.session.call(result.call);
            let is_of_executor =
                |call: &&Call| result.call.attempt == attempt && call.effect != Effect::State;
            if call.filter(is_of_executor).is_none() {
                let what = format_args!("a call of the executor that is {:?}", result.call);
                return Err(IllegalTransition::missing(what));
            }
        }
        let (Some(reply), Some(running)) = (reply, self.session.attempt(attempt)) else {
            return Ok(());
        };
        let last = running.turns.last();
        let mut open = last.into_iter().flat_map(|turn| turn.calls.iter().zip(0..));
        let is_open = open.any(|(call, index)| match call.status.phase() {
            CallPhase::Finished => false,
            CallPhase::InDoubt | CallPhase::Asking => true,
            _ => !results.iter().any(|result| result.call.index == index),
        });
        let is_next = reply.tool_turn as usize == running.turns.len();
        if is_open || !is_next || self.is_tool_step(attempt) {
            let what = format_args!("tool turn {} of {attempt:?}", reply.tool_turn);
            return Err(IllegalTransition::not_allowed(
                what,
                running.turns.len(),
                "next",
            ));
        }
        Ok(())
    }

    /// `is_final`: the model has been told already.
    fn take_result(
        &mut self,
        result: CallFinished,
        is_final: bool,
    ) -> Result<(), IllegalTransition> {
        let call = self.session.call(result.call);
        let call = call.ok_or_else(|| IllegalTransition::missing(format!("{:?}", result.call)))?;
        let may_be_sent = result.reason == CallFinished::NOT_SENT && !is_final;
        match call.status {
            CallStatus::Finished { .. }
            | CallStatus::InDoubt { .. }
            | CallStatus::Asking { .. } => Ok(()),
            // It is certain that the call was not sent: it may be, with the same key.
            CallStatus::Intended { times, .. } if may_be_sent && times < MOST_INTENTS => {
                let tool = call.call.name.clone();
                match self.may_begin(result.call.attempt.run) {
                    true => self.intend(result.call, &tool),
                    false => self.emit(EventKind::CallHeld { call: result.call }),
                }
            }
            CallStatus::Requested if may_be_sent && self.may_begin(result.call.attempt.run) => {
                let tool = call.call.name.clone();
                self.intend(result.call, &tool)
            }
            // The next owner has it sent.
            CallStatus::Requested if may_be_sent => Ok(()),
            _ => self.emit(EventKind::CallFinished(result)),
        }
    }

    fn take_reply(&mut self, attempt: AttemptRef, reply: Reply) -> Result<(), IllegalTransition> {
        let limits = self.session.run(attempt.run).map(|run| run.limits);
        let limit = limits.map_or(0, |limits| limits.max_tool_turns);
        let tool_turn = reply.tool_turn;
        let calls = reply.calls.into_iter();
        let calls = calls.map(|call| self.requested(call)).collect();
        self.emit(EventKind::ReplyReceived(ReplyReceived {
            attempt,
            tool_turn,
            text: reply.text,
            calls,
            usage: reply.usage,
            model: reply.model,
            duration_ms: reply.duration_ms,
        }))?;
        if tool_turn >= limit {
            let message = format!("the step used all of its {limit} tool turns without completing");
            let failure = Failure::new(FailureKind::LimitExceeded, "max_tool_turns", message);
            return self.emit(EventKind::StepFailed { attempt, failure });
        }
        self.answer_and_intend(attempt)?;
        self.finish_turn(attempt)
    }

    fn requested(&self, call: ToolCall) -> RequestedCall {
        let effect = if state_tools::is_state_tool(&call.name) {
            Effect::State
        } else {
            // An unknown tool is answered here and never sent.
            self.facts
                .tools
                .get(&call.name)
                .map_or(Effect::State, |tool| tool.effect)
        };
        RequestedCall { call, effect }
    }

    /// State tools and unknown ones are answered at once, effectful calls get their intent. While a
    /// call of the reply waits for a person, the others wait with it. Calls of `step` count before
    /// all others, so that `read_progress` beside them tells what they have led to.
    fn answer_and_intend(&mut self, attempt: AttemptRef) -> Result<(), IllegalTransition> {
        let running = self.session.attempt(attempt).into_iter();
        let calls = running.flat_map(|running| running.last_calls(attempt));
        let mut calls: Vec<_> = calls
            .map(|(name, call)| (name, call.effect, call.call.clone()))
            .collect();
        calls.sort_by_key(|(_, _, call)| call.name != STEP);
        for (name, effect, call) in calls {
            match effect {
                Effect::State => self.answer_state_call(name, &call)?,
                Effect::Effectful | Effect::Pure | Effect::Idempotent => {
                    self.ask_approval(name, &call.name)?;
                }
            }
        }
        self.intend_requested_calls(attempt)
    }

    /// Ends a tool step with its call, and a step whose completion waits for the other calls of
    /// its reply.
    pub(super) fn finish_turn(&mut self, attempt: AttemptRef) -> Result<(), IllegalTransition> {
        if self.is_tool_step(attempt) {
            return self.finish_tool_step(attempt);
        }
        // A reply may hold more than one wish to end the step.
        while let Some(running) = self.session.attempt(attempt) {
            match step_tool::ending(running, attempt) {
                Ending::None => return Ok(()),
                Ending::Refused { call, because } => self.answer(call, because, "NotCompleted")?,
                Ending::Step {
                    call,
                    response,
                    summary,
                } => {
                    self.answer(call, "step completed".to_owned(), "")?;
                    return self.emit(EventKind::StepCompleted {
                        attempt,
                        response,
                        summary,
                    });
                }
            }
        }
        Ok(())
    }

    fn finish_tool_step(&mut self, attempt: AttemptRef) -> Result<(), IllegalTransition> {
        let running = self.session.attempt(attempt);
        let turn = running.and_then(|running| running.turns.first());
        let call = turn.and_then(|turn| turn.calls.first());
        let Some(CallStatus::Finished {
            output,
            is_error,
            reason,
        }) = call.map(|call| &call.status)
        else {
            return Ok(());
        };
        let end = if *is_error {
            let failure = Failure::new(FailureKind::Tool, reason.clone(), output.clone());
            EventKind::StepFailed { attempt, failure }
        } else {
            EventKind::StepCompleted {
                attempt,
                response: String::new(),
                summary: gist(output, GIST_LENGTH),
            }
        };
        self.emit(end)
    }

    /// A call that may have been sent is in doubt from then on, though nobody is asked any more.
    pub(super) fn fail_step(
        &mut self,
        attempt: AttemptRef,
        failure: Failure,
    ) -> Result<(), IllegalTransition> {
        self.doubt_intended_calls(attempt, false)?;
        self.emit(EventKind::StepFailed { attempt, failure })
    }

    /// Gives a call its result. A reason makes it an error.
    pub(super) fn answer(
        &mut self,
        call: CallRef,
        output: String,
        reason: &str,
    ) -> Result<(), IllegalTransition> {
        self.emit(EventKind::CallFinished(CallFinished {
            call,
            output,
            is_error: !reason.is_empty(),
            reason: reason.to_owned(),
            duration_ms: 0,
        }))
    }
}
