//! Everything that permits, holds, doubts and settles a call.

mod hooked;

use super::{Decision, ToolFacts, Unfinished, asks_each_time, tools, words};
use crate::command::Settlement;
use crate::event::{
    ApprovalRequested, AttemptRef, CallFinished, CallHeld, CallInDoubt, CallIntended, CallRef,
    CallRejudged, CallSettled, Effect, RequestedCall, StepSkipped,
};
use crate::failure::{Failure, FailureKind};
use crate::key::approval_digest;
use crate::message::ToolCall;
use crate::rules::{AROUND_SECONDS, Answer, Called, SHELL_TOOL, Scope, command_seconds, scope};
use crate::session::{Attempt, Call, CallStatus, Grant};
use crate::transitions::{Applied, CallPhase, IllegalTransition};

/// A call that was certainly not sent is intended anew; after so many times it is a failure.
const MOST_INTENTS: u32 = 5;
/// Stands for the digest of a tool that is not in the catalogue. No tool has it.
pub const UNKNOWN_TOOL: &str = "unknown";
/// A call is judged anew, or asks, so many times at most.
const MOST_RENEWALS: u32 = 32;

impl Decision<'_> {
    /// What the model requests, with what the attempt's list says of the tool. A call of an unknown
    /// tool is answered here and never sent.
    pub(super) fn requested(&self, attempt: AttemptRef, call: ToolCall) -> RequestedCall {
        let known = self.facts.tool(attempt, &call.name);
        let known = known.filter(|_| self.offers(attempt, &call.name));
        let effect = match known {
            Some(tool) if !tools::is_state_tool(&call.name) => tool.effect,
            _ => Effect::State,
        };
        let tool_digest = match effect {
            Effect::State => String::new(),
            _ => known.map_or_else(String::new, |tool| tool.digest.clone()),
        };
        let previews = effect != Effect::State && known.is_some_and(|tool| tool.previews);
        let hooked = self.asks_before_call(attempt, &call.name, effect);
        RequestedCall {
            call,
            effect,
            tool_digest,
            previews,
            hooked,
        }
    }

    /// What the agent, the executor, the rules and the mode say of a call that has just been requested: it is refused,
    /// waits for hooks, for its preview or for a person, or may be sent. An approval is for one call, of its tool as it
    /// is. Before hooks have answered, only a refusal counts, of the call as the model wrote it.
    pub(super) fn judge(&mut self, name: CallRef) -> Applied {
        let Some(call) = self.session.call(name) else {
            return Ok(());
        };
        let tool = &call.call.name;
        let is_offered = self.offers(name.attempt, tool);
        if !is_offered || self.executor_that_lacks(name.attempt, tool).is_some() {
            let tool = tool.clone();
            return self.finish_unknown(name, &tool);
        }
        let Some(tool) = self.facts.tools.get(&call.call.name) else {
            return self.forget_tool(name);
        };
        let agent = self.session.agent_name(name.attempt.run);
        let own = self.session.agent_of(name.attempt);
        let tool_name = &call.call.name;
        let scope = judged_scope(call, tool);
        let verdict = self
            .facts
            .rules
            .judge(tool_name, &scope, agent, tool.default);
        let grants = &self.session.grants;
        let is_granted = |call: &Call| {
            let called = called(call, tool, &scope);
            let covers = |grant: &Grant| grant.covers(&called, &call.tool_digest, agent);
            grants.iter().any(covers)
        };
        let asks = own.is_some_and(|own| own.rights().asks(tool_name));
        let asks_each_time = asks_each_time(call, tool, &scope);
        let answer = match verdict.answer {
            Answer::Allow if asks || asks_each_time => Answer::Ask,
            answer => answer,
        };
        match answer {
            Answer::Deny => {
                let output = verdict.denial(tool_name).unwrap_or_default();
                self.finish_call(name, output, CallFinished::DENIED)
            }
            _ if self.is_only_planned(call, tool) => {
                let output = words::not_in_plan_mode(tool_name);
                self.finish_call(name, output, CallFinished::DENIED)
            }
            // It is neither sent nor asked about before hooks have answered and it is known what it would change.
            _ if call.is_unready() => Ok(()),
            Answer::Allow => Ok(()),
            Answer::Ask if !asks_each_time && is_granted(call) => Ok(()),
            Answer::Ask => {
                let is_by_default =
                    verdict.rule.is_none() && verdict.answer == Answer::Ask && !asks;
                self.ask(name, is_by_default, asks_each_time)
            }
        }
    }

    /// A call that no standing approval covers waits for a person, unless it has been approved, or only the default
    /// of its tool asks and something else decides.
    fn ask(&mut self, name: CallRef, is_by_default: bool, asks_each_time: bool) -> Applied {
        let Some(call) = self.session.call(name) else {
            return Ok(());
        };
        let preview = call.preview.as_deref();
        let (tool, arguments) = (&call.call.name, call.arguments());
        let digest = approval_digest(tool, &call.tool_digest, arguments, preview);
        if call.approval.as_ref() == Some(&digest) {
            return Ok(());
        }
        if is_by_default {
            if !asks_each_time && self.passes_by_mode(call) {
                return Ok(());
            }
            if self.is_unfollowed_write(name, call) {
                let output = words::ONLY_OUTPUT.to_owned();
                return self.finish_call(name, output, CallFinished::DENIED);
            }
        }
        self.emit(ApprovalRequested { call: name, digest })
    }

    /// The tool of a call is not there. Tools will say so; should it be there by then, the call is judged
    /// before it is sent. An approved call keeps the tool that it was approved for, so that nobody is asked
    /// twice; tools sends it to no other one.
    fn forget_tool(&mut self, name: CallRef) -> Applied {
        let Some(call) = self.session.call(name) else {
            return Ok(());
        };
        let is_forgotten = call.tool_digest.is_empty() || call.tool_digest == UNKNOWN_TOOL;
        if is_forgotten || call.approval.is_some() {
            return Ok(());
        }
        let (resolved, effect, previews) = (call.resolved.clone(), call.effect, call.previews);
        self.emit(CallRejudged {
            call: name,
            tool_digest: UNKNOWN_TOOL.to_owned(),
            resolved,
            effect,
            previews,
        })
    }

    /// The same, unless the call waits for a write before it in its reply. It is judged before it is intended. Hooks
    /// are asked about all calls of a reply at once, and about none that is refused as the model wrote it.
    pub(super) fn judge_in_turn(&mut self, name: CallRef) -> Applied {
        let attempt = self.session.attempt(name.attempt);
        let is_behind = attempt.is_some_and(|attempt| attempt.is_behind_write(name.index));
        let is_asked = self.session.call(name).is_some_and(Call::waits_for_hooks);
        match is_behind && !is_asked {
            true => Ok(()),
            false => self.judge(name),
        }
    }

    /// A copy may have been cut before they were judged, and the rules may be others since.
    pub(super) fn judge_again(&mut self, attempt: AttemptRef) -> Applied {
        if self.is_gated(attempt) {
            return Ok(());
        }
        let is_new = |call: &Call| {
            call.effect != Effect::State && matches!(call.status, CallStatus::Requested)
        };
        for call in self.last_calls(attempt, is_new) {
            self.judge_in_turn(call)?;
        }
        self.finish_tool_turn(attempt)
    }

    /// A call that has not ended: it is judged anew, or asks a person. A call that has ended or waits
    /// already is left as it is.
    pub(super) fn take_unfinished(&mut self, unfinished: Unfinished) -> Applied {
        let name = unfinished.call();
        let Some(call) = self.session.call(name) else {
            return Ok(());
        };
        if !matches!(
            call.status.phase(),
            CallPhase::Requested | CallPhase::Intended
        ) {
            return Ok(());
        }
        if call.renewals >= MOST_RENEWALS {
            let did = match unfinished {
                Unfinished::Asks(_) => "asked",
                Unfinished::Rejudge { .. } => "changed",
            };
            let tool = &call.call.name;
            let output = format!(
                "tool '{tool}' {did} {MOST_RENEWALS} times in one call; no more is allowed"
            );
            return self.finish_call(name, output, "ExecutionFailed");
        }
        match unfinished {
            Unfinished::Asks(asks) => self.emit(asks),
            Unfinished::Rejudge { resolved, .. } => {
                // What had no effect may have one by now, and the other way round. The call has the digest
                // of the tool that it is judged by; one that tools no longer have comes back again.
                let tool = self.facts.tools.get(&call.call.name);
                let effect = tool.map_or(call.effect, |tool| tool.effect);
                let previews = tool.map_or(call.previews, |tool| tool.previews);
                let tool_digest = match tool {
                    Some(tool) => tool.digest.clone(),
                    None => UNKNOWN_TOOL.to_owned(),
                };
                self.emit(CallRejudged {
                    call: name,
                    tool_digest,
                    resolved,
                    effect,
                    previews,
                })?;
                self.judge(name)?;
                self.intend_requested_calls(name.attempt)
            }
        }
    }

    /// The call may be sent, within these limits, once this is durable.
    fn intend(&mut self, call: CallRef) -> Applied {
        let asked = self.session.call(call);
        let name = asked.map(|asked| &asked.call.name);
        // A tool that came later is not among those that the attempt was offered.
        let now = name.and_then(|name| self.facts.tools.get(name));
        let tool = name
            .and_then(|name| self.facts.tool(call.attempt, name))
            .or(now);
        let time_limit_ms = asked
            .zip(tool)
            .map(|(asked, tool)| time_limit_ms(asked, tool));
        self.emit(CallIntended {
            call,
            not_after: self.facts.not_after,
            time_limit_ms: time_limit_ms.unwrap_or(0),
            in_process: tool.is_some_and(|tool| tool.in_process),
        })
    }

    /// Effectful calls that have just been requested, or that an owner left which was about to let go.
    /// While a call of the reply waits for a person, none is intended, and none before the writes that come before it
    /// in the reply have ended.
    pub(crate) fn intend_requested_calls(&mut self, attempt: AttemptRef) -> Applied {
        let asks = |call: &Call| matches!(call.status, CallStatus::Asking { .. });
        let may_intend = self.may_intend(attempt) && !self.is_gated(attempt);
        if !may_intend || !self.last_calls(attempt, asks).is_empty() {
            return Ok(());
        }
        let was_left = |call: &Call| {
            call.effect == Effect::Effectful && matches!(call.status, CallStatus::Requested)
        };
        // Since they were judged, an approval may have been revoked, or the rules be others.
        for call in self.last_calls(attempt, was_left) {
            self.judge_in_turn(call)?;
        }
        if !self.last_calls(attempt, asks).is_empty() {
            return Ok(());
        }
        for call in self.last_calls(attempt, |call| was_left(call) && !call.is_unready()) {
            let running = self.session.attempt(attempt);
            if !running.is_some_and(|running| running.is_behind_write(call.index)) {
                self.intend(call)?;
            }
        }
        Ok(())
    }

    /// A result from the executor. `is_final`: the model has it already.
    pub(super) fn take_result(&mut self, result: CallFinished, is_final: bool) -> Applied {
        let name = result.call;
        let call = self.session.call(name);
        let call = call.ok_or_else(|| IllegalTransition::missing(format!("{name:?}")))?;
        let may_be_sent = result.reason == CallFinished::NOT_SENT && !is_final;
        let may_begin = self.may_intend(name.attempt);
        match call.status {
            CallStatus::Finished { .. }
            | CallStatus::InDoubt { .. }
            | CallStatus::Asking { .. } => Ok(()),
            // It is certain that the call was not sent: it may be, with the same key.
            CallStatus::Intended { times, .. } if may_be_sent && times < MOST_INTENTS => {
                match may_begin {
                    true => self.intend(name),
                    false => self.emit(CallHeld { call: name }),
                }
            }
            CallStatus::Requested if may_be_sent => match may_begin && !call.is_unready() {
                true => self.intend(name),
                // It is sent once hooks have answered and it has its preview, or by the next owner.
                false => Ok(()),
            },
            _ => {
                let held = self.is_held_result(&result);
                let result = self.naming_hook_of(CallFinished { held, ..result }, is_final);
                let result = self.with_handle(result);
                self.emit(self.with_shown_media(result))
            }
        }
    }

    /// A result that a model does not get at once has a handle, and its output becomes the text that the
    /// model gets in place of it.
    pub(super) fn with_handle(&self, mut result: CallFinished) -> CallFinished {
        if let Some(whole) = &mut result.whole {
            let run = result.call.attempt.run;
            let most = self.session.result_bytes(run, self.facts.result_bytes);
            whole.handle = self.session.handles.next_name(&whole.blobs);
            result.output = words::beginning(&result.output, whole, most);
        }
        result
    }

    /// Gives a call its result. A reason makes it an error.
    pub(crate) fn finish_call(&mut self, call: CallRef, output: String, reason: &str) -> Applied {
        self.emit(ended(call, output, reason))
    }

    /// Gives a call the result that follows from a person's decision, unless it is to be sent.
    pub(crate) fn finish_decided(&mut self, call: CallRef, settlement: &Settlement) -> Applied {
        let output = words::decided(settlement);
        let Some((output, is_error)) = settlement.result(&output) else {
            return Ok(());
        };
        let reason = if is_error { CallFinished::DENIED } else { "" };
        self.finish_call(call, output.to_owned(), reason)
    }

    /// An answer counts once the call can no longer be running: at once if it died with its
    /// process, else after the last moment at which it may be sent plus the time it may take.
    pub(crate) fn doubt_intended_calls(
        &mut self,
        attempt: AttemptRef,
        holder_dead: bool,
    ) -> Applied {
        let running = self.session.attempt(attempt).into_iter();
        let calls = running.flat_map(|running| running.last_calls(attempt));
        let doubtful = calls.filter_map(|(call, state)| match state.status {
            CallStatus::Intended {
                not_after,
                time_limit_ms,
                in_process,
                ..
            } if state.effect == Effect::Effectful => {
                let is_dead = holder_dead && in_process;
                let latest = not_after.saturating_add(time_limit_ms);
                let settle_after = if is_dead { 0 } else { latest };
                Some(CallInDoubt { call, settle_after })
            }
            _ => None,
        });
        for doubt in doubtful.collect::<Vec<_>>() {
            self.emit(doubt)?;
        }
        Ok(())
    }

    /// Calls of an attempt that may have been carried out, and whose outcome is not known.
    pub(super) fn calls_in_doubt(&self, attempt: AttemptRef) -> usize {
        let in_doubt = |call: &Call| matches!(call.status, CallStatus::InDoubt { .. });
        self.last_calls(attempt, in_doubt).len()
    }

    /// Lets the decisions about calls in doubt take effect whose time has come.
    pub(crate) fn settle_due(&mut self) -> Applied {
        let Some(run) = self.session.active_run() else {
            return Ok(());
        };
        let (number, now) = (run.number, self.facts.now);
        let calls = run.running_attempts();
        let calls = calls.flat_map(|(name, _, attempt)| attempt.last_calls(name));
        let due = calls.filter_map(|(call, state)| match &state.status {
            CallStatus::InDoubt {
                settle_after,
                answer: Some(answer),
            } if *settle_after <= now => Some((call, answer.clone())),
            _ => None,
        });
        for (call, settlement) in due.collect::<Vec<_>>() {
            // An answer before this one may have ended the step.
            if self.session.call(call).is_some() {
                self.settle(call, settlement)?;
            }
        }
        self.advance(number)
    }

    fn settle(&mut self, call: CallRef, settlement: Settlement) -> Applied {
        let attempt = call.attempt;
        let is_tool_step = self.is_tool_step(attempt);
        self.emit(CallSettled {
            call,
            settlement: settlement.clone(),
            output: words::decided(&settlement),
        })?;
        match settlement {
            Settlement::Retry => {
                let again = self.session.call(call);
                let is_effectful = again.is_some_and(|call| call.effect == Effect::Effectful);
                match is_effectful && self.may_intend(attempt) {
                    true => self.intend(call),
                    false => Ok(()),
                }
            }
            Settlement::Skip { reason } if is_tool_step => self.emit(StepSkipped {
                run: attempt.run,
                step: attempt.step,
                reason,
                by_person: true,
                hook: String::new(),
            }),
            Settlement::Fail { reason } => {
                let message = format!("a person decided that a call failed: {reason}");
                let failure = Failure::new(FailureKind::Tool, "Decided", message);
                self.fail_step(attempt, failure)
            }
            // The rest are answers to other questions, which the command refuses.
            _ => self.finish_tool_turn(attempt),
        }
    }

    /// Calls of the last tool turn of an attempt.
    fn last_calls(&self, attempt: AttemptRef, which: impl Fn(&Call) -> bool) -> Vec<CallRef> {
        let running = self.session.attempt(attempt);
        let calls = |running: &Attempt| -> Vec<CallRef> {
            let calls = running.last_calls(attempt);
            let calls = calls.filter(|(_, call)| which(call));
            calls.map(|(name, _)| name).collect()
        };
        running.map(calls).unwrap_or_default()
    }

    pub(crate) fn is_tool_step(&self, attempt: AttemptRef) -> bool {
        self.session.is_tool_step(attempt)
    }
}

/// The end of a call that no tool carried out. A reason makes it an error.
pub(super) fn ended(call: CallRef, output: String, reason: &str) -> CallFinished {
    CallFinished {
        call,
        output,
        is_error: !reason.is_empty(),
        reason: reason.to_owned(),
        duration_ms: 0,
        media: Vec::new(),
        whole: None,
        file: None,
        usage: None,
        provider: String::new(),
        model: String::new(),
        held: false,
    }
}

/// What a call is judged by: what the arguments say that are sent, and where the tools service found that its texts
/// lead.
pub(crate) fn judged_scope(call: &Call, tool: &ToolFacts) -> Scope {
    scope(&tool.matchers, call.arguments(), &call.resolved)
}

/// A call as approvals of further calls compare it. `scope` is what it is judged by.
fn called<'a>(call: &'a Call, tool: &'a ToolFacts, scope: &'a Scope) -> Called<'a> {
    Called {
        tool: &call.call.name,
        server: tool.server.as_ref(),
        scope,
        arguments: call.arguments(),
    }
}

/// How long the call may run. A command has a time of its own, within that of its tool.
fn time_limit_ms(call: &Call, tool: &ToolFacts) -> u64 {
    if call.call.name != SHELL_TOOL || tool.server.is_some() {
        return tool.time_limit_ms;
    }
    let seconds = command_seconds(call.arguments()) + AROUND_SECONDS;
    (seconds * 1_000).min(tool.time_limit_ms)
}
