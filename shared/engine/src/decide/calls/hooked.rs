//! What hooks say of calls and of their results.

use super::ended;
use crate::decide::{Decision, words};
use crate::event::{AttemptRef, CallFinished, CallRef, Effect, ResultHandle};
use crate::failure::Failure;
use crate::hooks::{Gate, Mutation, Outcome, Point, VerdictKind};
use crate::session::CallStatus;
use crate::transitions::Applied;
use std::collections::BTreeMap;

impl Decision<'_> {
    /// Hooks are asked about a call before it is made. Of calls that the owner answers they are not: those change
    /// nothing but the session.
    pub(in crate::decide) fn asks_before_call(
        &self,
        attempt: AttemptRef,
        tool: &str,
        effect: Effect,
    ) -> bool {
        effect != Effect::State
            && self.makes_calls(attempt)
            && self.listens_to(attempt, Point::PreToolCall, tool)
    }

    /// The calls of a reply are made, and not returned to the caller of a turn without tool turns.
    fn makes_calls(&self, attempt: AttemptRef) -> bool {
        let run = self.session.run(attempt.run);
        run.is_some_and(|run| run.turn.is_none() || run.limits.max_tool_turns > 0)
    }

    fn listens_to(&self, attempt: AttemptRef, point: Point, tool: &str) -> bool {
        let run = self.session.run(attempt.run);
        run.is_some_and(|run| run.hooks.listens_to(point, tool))
    }

    /// Hooks have answered about calls, as the state has it by now. The calls are judged with what hooks left of them.
    pub(in crate::decide) fn calls_hooked(
        &mut self,
        gate: Gate,
        outcomes: &[Outcome],
        mut wholes: BTreeMap<u32, Box<ResultHandle>>,
    ) -> Applied {
        for outcome in outcomes {
            let name = gate.call_at(outcome.index);
            // It may have ended while hooks were asked.
            let call = self.session.call(name);
            if call.is_none_or(|call| call.status != CallStatus::Requested) {
                continue;
            }
            match outcome.verdict {
                VerdictKind::Block => {
                    let output = Failure::blocked(gate.point, outcome).message;
                    self.finish_call(name, output, CallFinished::HOOK_BLOCKED)?;
                }
                VerdictKind::Skip => {
                    let mut result = ended(name, outcome.text.clone(), "");
                    result.whole = wholes.remove(&outcome.index);
                    let result = self.with_handle(result);
                    self.emit(result)?;
                }
                VerdictKind::Proceed | VerdictKind::Mutate | VerdictKind::RequireApproval => {
                    self.judge_in_turn(name)?;
                }
            }
        }
        self.continue_after_owner(gate.attempt)
    }

    /// A result that hooks changed offers its model nothing to read on, though they may have left the note that did.
    pub(in crate::decide) fn withhold_rest(&self, gate: Gate, outcomes: &mut [Outcome]) {
        if gate.point != Point::PostToolCall {
            return;
        }
        let call = self.session.call(gate.call_at(gate.index));
        let Some(whole) = call.and_then(|call| call.whole.as_deref()) else {
            return;
        };
        for outcome in outcomes {
            if let Some(Mutation::Output(output)) = &mut outcome.mutation {
                *output = words::without_rest(output, &whole.handle);
            }
        }
    }

    /// The output of a call, which names the hook that it is due to, if it is due to one.
    pub(in crate::decide) fn naming_hook(
        &self,
        name: CallRef,
        reason: &str,
        output: String,
    ) -> String {
        let call = self.session.call(name);
        match call.and_then(|call| call.blamed_hook(reason)) {
            Some(hook) => words::refused_change(hook, &output),
            None => output,
        }
    }

    /// The same for a result of an executor, unless the model may have it as it came: with results of calls without
    /// effects, it is asked again before the owner has taken them.
    pub(in crate::decide) fn naming_hook_of(
        &self,
        result: CallFinished,
        is_final: bool,
    ) -> CallFinished {
        let name = result.call;
        let call = self.session.call(name);
        let is_effectful = call.is_some_and(|call| call.effect == Effect::Effectful);
        let is_open = result.held || is_effectful || self.is_tool_step(name.attempt);
        match is_open && !is_final {
            true => CallFinished {
                output: self.naming_hook(name, &result.reason, result.output),
                ..result
            },
            false => result,
        }
    }

    /// Hooks have answered about the result of a call, which the model gets as the state has it by now.
    pub(in crate::decide) fn result_hooked(&mut self, gate: Gate) -> Applied {
        self.continue_after_owner(gate.attempt)
    }

    /// The owner has done something for calls of an attempt: what waited for that continues.
    pub(in crate::decide) fn continue_after_owner(&mut self, attempt: AttemptRef) -> Applied {
        self.finish_tool_turn(attempt)?;
        self.intend_requested_calls(attempt)?;
        self.prepare_request(attempt)?;
        self.advance(attempt.run)
    }

    /// Hooks are asked about a result before its model gets it: its tool gave it, or failed.
    pub(in crate::decide) fn is_held_result(&self, result: &CallFinished) -> bool {
        let is_unsent = matches!(
            result.reason.as_str(),
            CallFinished::NOT_SENT | CallFinished::DENIED
        );
        let call = self.session.call(result.call).filter(|_| !is_unsent);
        call.is_some_and(|call| {
            let tool = &call.call.name;
            self.listens_to(result.call.attempt, Point::PostToolCall, tool)
        })
    }
}
