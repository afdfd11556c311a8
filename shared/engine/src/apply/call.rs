//! Events about replies and calls.

use crate::command::Settlement;
use crate::event::{CallFinished, CallRef, Effect, EventKind, ReplyReceived};
use crate::state::{Ask, Call, CallStatus, EffectfulCall, Session, Turn};
use crate::transitions::{CallPhase, IllegalTransition, call_may};
use std::fmt;

impl Session {
    pub(super) fn apply_to_call(&mut self, event: &EventKind) -> Result<(), IllegalTransition> {
        use EventKind as E;
        match event {
            E::ReplyReceived(reply) => self.take_reply(reply),
            E::CallIntended {
                call,
                not_after,
                time_limit_ms,
                in_process,
            } => {
                let call = self.call_mut(*call)?;
                let times = match call.status {
                    CallStatus::Intended { times, .. } => times + 1,
                    _ => 1,
                };
                call.enter(CallStatus::Intended {
                    not_after: *not_after,
                    time_limit_ms: *time_limit_ms,
                    in_process: *in_process,
                    times,
                })
            }
            E::CallHeld { call } => {
                let held = self.call_mut(*call)?;
                if held.status.phase() != CallPhase::Intended {
                    return Err(held.refuse("held"));
                }
                held.enter(CallStatus::Requested)
            }
            E::CallFinished(finished) => self.finish(finished),
            E::CallInDoubt { call, settle_after } => self.doubt(*call, *settle_after),
            E::ApprovalRequested { call, digest } => {
                let digest = digest.clone();
                self.ask(*call, Ask::Approval { digest })
            }
            E::QuestionAsked {
                call,
                question,
                choices,
            } => {
                let (question, choices) = (question.clone(), choices.clone());
                self.ask(*call, Ask::Question { question, choices })
            }
            E::Decided {
                command_seq,
                call,
                settlement,
                ..
            } => self.take_decision(*command_seq, *call, settlement),
            E::CallSettled { call, settlement } => self.settle(*call, settlement),
            other => Err(IllegalTransition::missing(format!("call event {other:?}"))),
        }
    }

    fn settle(&mut self, name: CallRef, settlement: &Settlement) -> Result<(), IllegalTransition> {
        let doubtful = self.call_mut(name)?;
        if doubtful.status.phase() != CallPhase::InDoubt {
            return Err(doubtful.refuse("settled"));
        }
        doubtful.enter(settled(settlement))?;
        self.run_mut(name.attempt.run)?.in_doubt -= 1;
        match settlement {
            Settlement::Done { .. } => self.note_effect(name, true),
            _ => Ok(()),
        }
    }

    fn finish(&mut self, finished: &CallFinished) -> Result<(), IllegalTransition> {
        let call = self.call_mut(finished.call)?;
        let was_asked = match &call.status {
            CallStatus::Requested if call.effect == Effect::Effectful => {
                return Err(call.refuse(CallPhase::Finished));
            }
            CallStatus::InDoubt { .. } | CallStatus::Asking { answer: None, .. } => {
                return Err(call.refuse(CallPhase::Finished));
            }
            CallStatus::Asking { .. } => true,
            _ => false,
        };
        call.enter(CallStatus::Finished {
            output: finished.output.clone(),
            is_error: finished.is_error,
            reason: finished.reason.clone(),
        })?;
        // Nothing was done if it was certainly not sent, or not allowed.
        let reason = finished.reason.as_str();
        if was_asked || matches!(reason, CallFinished::NOT_SENT | CallFinished::DENIED) {
            return Ok(());
        }
        self.note_effect(finished.call, !finished.is_error)
    }

    fn ask(&mut self, name: CallRef, ask: Ask) -> Result<(), IllegalTransition> {
        let call = self.call_mut(name)?;
        let is_approval = matches!(ask, Ask::Approval { .. });
        if is_approval && call.approval.is_some() {
            return Err(call.refuse(CallPhase::Asking));
        }
        call.enter(CallStatus::Asking { ask, answer: None })?;
        let run = self.run_mut(name.attempt.run)?;
        match is_approval {
            true => run.approvals += 1,
            false => run.questions += 1,
        }
        Ok(())
    }

    fn doubt(&mut self, name: CallRef, settle_after: u64) -> Result<(), IllegalTransition> {
        let call = self.call_mut(name)?;
        call.enter(CallStatus::InDoubt {
            settle_after,
            answer: None,
        })?;
        call.doubts += 1;
        self.run_mut(name.attempt.run)?.in_doubt += 1;
        self.note_effect(name, false)
    }

    /// Keeps with the step what its call with side effects came to, for when the step is dropped.
    fn note_effect(&mut self, name: CallRef, is_done: bool) -> Result<(), IllegalTransition> {
        let call = self.call_mut(name)?;
        if call.effect != Effect::Effectful {
            return Ok(());
        }
        let (tool, origin) = (call.call.name.clone(), call.origin.clone());
        let effects = &mut self.step_mut(name.attempt)?.effects;
        let mut of_turn = effects.iter_mut().rev().take_while(|known| {
            (known.call.attempt, known.call.tool_turn) == (name.attempt, name.tool_turn)
        });
        match of_turn.find(|known| known.call == name) {
            Some(known) => known.is_done = is_done,
            None => effects.push(EffectfulCall {
                call: name,
                tool,
                is_done,
                origin,
            }),
        }
        Ok(())
    }

    fn take_decision(
        &mut self,
        command_seq: u64,
        call: CallRef,
        settlement: &Settlement,
    ) -> Result<(), IllegalTransition> {
        let decided = self.call_mut(call)?;
        match &mut decided.status {
            CallStatus::InDoubt { answer, .. } if answer.is_none() => {
                *answer = Some(settlement.clone());
            }
            CallStatus::Asking { ask, answer } if answer.is_none() => {
                let ask = ask.clone();
                self.take_word(call, ask, settlement)?;
            }
            _ => return Err(decided.refuse("decided")),
        }
        self.answer_command(command_seq);
        Ok(())
    }

    /// An approved call is as if just asked for; any other answer is followed by the call's result.
    fn take_word(
        &mut self,
        name: CallRef,
        ask: Ask,
        settlement: &Settlement,
    ) -> Result<(), IllegalTransition> {
        let run = self.run_mut(name.attempt.run)?;
        match ask {
            Ask::Approval { .. } => run.approvals -= 1,
            Ask::Question { .. } => run.questions -= 1,
        }
        let call = self.call_mut(name)?;
        match (ask, settlement) {
            (Ask::Approval { digest }, Settlement::Approve) => {
                call.approval = Some(digest);
                call.enter(CallStatus::Requested)
            }
            (ask @ Ask::Approval { .. }, Settlement::Deny { .. })
            | (ask @ Ask::Question { .. }, Settlement::Answer { .. }) => {
                let answer = Some(settlement.clone());
                call.status = CallStatus::Asking { ask, answer };
                Ok(())
            }
            _ => Err(call.refuse(settlement.word())),
        }
    }

    fn take_reply(&mut self, reply: &ReplyReceived) -> Result<(), IllegalTransition> {
        let attempt = self.attempt_mut(reply.attempt)?;
        if attempt.turns.len() != reply.tool_turn as usize {
            let what = format_args!("tool turn {}", reply.tool_turn);
            return Err(IllegalTransition::not_allowed(
                what,
                attempt.turns.len(),
                "next",
            ));
        }
        let mut before = attempt
            .turns
            .last()
            .into_iter()
            .flat_map(|turn| &turn.calls);
        if before.any(|call| !call.is_finished()) {
            let what = format_args!("tool turn {}", reply.tool_turn);
            let from = "a call before it is open";
            return Err(IllegalTransition::not_allowed(what, from, "next"));
        }
        let calls = reply.calls.iter().map(|requested| Call {
            call: requested.call.clone(),
            effect: requested.effect,
            status: CallStatus::Requested,
            doubts: 0,
            approval: None,
            origin: None,
        });
        let of_tools = reply.calls.iter();
        let of_tools = of_tools.filter(|requested| requested.effect != Effect::State);
        let of_tools = of_tools.count() as u32;
        attempt.turns.push(Turn {
            text: reply.text.clone(),
            calls: calls.collect(),
        });
        let step = self.step_mut(reply.attempt)?;
        step.usage.add(&reply.usage);
        step.tool_turns += 1;
        let run = self.run_mut(reply.attempt.run)?;
        run.usage.add(&reply.usage);
        run.tool_turns += 1;
        run.calls = run.calls.saturating_add(of_tools);
        Ok(())
    }

    fn call_mut(&mut self, name: CallRef) -> Result<&mut Call, IllegalTransition> {
        let turns = &mut self.attempt_mut(name.attempt)?.turns;
        turns
            .get_mut(name.tool_turn as usize)
            .and_then(|turn| turn.calls.get_mut(name.index as usize))
            .ok_or_else(|| IllegalTransition::missing(format!("call {name:?}")))
    }
}

impl Call {
    fn enter(&mut self, to: CallStatus) -> Result<(), IllegalTransition> {
        let (from, into): (CallPhase, CallPhase) = (self.status.phase(), to.phase());
        if !call_may(from, into) {
            return Err(self.refuse(into));
        }
        self.status = to;
        Ok(())
    }

    fn refuse(&self, to: impl fmt::Debug) -> IllegalTransition {
        let what = format_args!("call '{}'", self.call.id);
        IllegalTransition::not_allowed(what, self.status.phase(), to)
    }
}

/// What a person's word makes of a call; a call to be sent again is as if just asked for.
fn settled(settlement: &Settlement) -> CallStatus {
    match settlement.result() {
        None => CallStatus::Requested,
        Some((output, is_error)) => CallStatus::Finished {
            output,
            is_error,
            reason: if is_error { "Decided" } else { "" }.to_owned(),
        },
    }
}
