//! What follows from the executor's reports.

use super::tools::{Ending, STEP, ending};
use super::{Decision, FullRequest, Reply, Retry, Summarised, Unfinished, words};
use crate::command::{Command, WhenFull, full};
use crate::event::{
    AttemptRef, CallFinished, Effect, EventKind, ReplyReceived, ResultHandle, StepCompleted,
    StepFailed,
};
use crate::failure::{Failure, FailureKind};
use crate::hooks::Point;
use crate::message::FinishReason;
use crate::refusal::Refusal;
use crate::session::{Attempt, Call, CallStatus, Received};
use crate::text::headline;
use crate::transitions::{Applied, CallPhase, IllegalTransition};

/// Longest line of a tool step's output that becomes its summary, in characters.
const HEADLINE_LENGTH: usize = 120;
/// Replies in a row that may be cut at the limit of their length: after each the model is asked to
/// continue.
const MOST_CUT_REPLIES: u32 = 3;

/// What an executor reports of an attempt.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) results: Vec<CallFinished>,
    pub(super) unfinished: Vec<Unfinished>,
    pub(super) reply: Option<Reply>,
    pub(super) failure: Option<Failure>,
    pub(super) full: Option<FullRequest>,
    pub(super) summary: Option<Box<Summarised>>,
    pub(super) retry: Option<Box<Retry>>,
}

/// What a reply leads to.
enum AfterReply {
    Continue,
    EndTurn,
    /// The step or the turn, as the text says.
    UsedUp(&'static str),
}

impl Decision<'_> {
    pub(super) fn report(&mut self, attempt: AttemptRef, report: Report) -> Applied {
        let Some(running) = self.session.attempt(attempt) else {
            return Ok(());
        };
        self.check_report(attempt, running, &report)?;
        let was_asked = running.summary.is_some();
        let Report {
            results,
            unfinished,
            reply,
            failure,
            full,
            summary,
            retry,
        } = report;
        for result in results {
            self.take_result(result, reply.is_some())?;
        }
        for call in unfinished {
            self.take_unfinished(call)?;
        }
        self.finish_tool_turn(attempt)?;
        if reply.is_none() && failure.is_none() {
            self.continue_after_write(attempt)?;
        }
        if reply.is_some() && failure.is_none() {
            self.hear(attempt)?;
        }
        if self.session.attempt(attempt).is_some() {
            match (reply, failure) {
                (Some(reply), None) => self.take_reply(attempt, reply)?,
                (Some(reply), Some(failure)) => {
                    let paid = Reply {
                        text: String::new(),
                        calls: Vec::new(),
                        opaque: Vec::new(),
                        ..reply
                    };
                    self.note_reply(attempt, paid, false)?;
                    self.fail_step(attempt, failure)?;
                }
                (None, Some(failure)) => self.fail_step(attempt, failure)?,
                (None, None) => {
                    if let Some(full) = full {
                        self.request_full(attempt, full, was_asked)?;
                    }
                    if let Some(summary) = summary {
                        self.summarised(attempt, *summary)?;
                    }
                    if let Some(retry) = retry {
                        self.ask_before_retry(attempt, *retry)?;
                    }
                    self.prepare_request(attempt)?;
                }
            }
        }
        self.advance(attempt.run)
    }

    /// Nothing is taken of a report that contradicts the state.
    fn check_report(&self, attempt: AttemptRef, running: &Attempt, report: &Report) -> Applied {
        self.check_question(attempt, report)?;
        let Report {
            results,
            unfinished,
            reply,
            ..
        } = report;
        for call in unfinished {
            let name = call.call();
            let sent = self
                .session
                .call(name)
                .filter(|call| call.effect != Effect::State);
            if name.attempt != attempt || sent.is_none() || reply.is_some() {
                let what = format_args!("a call of the executor that is {name:?}");
                return Err(IllegalTransition::missing(what));
            }
        }
        for result in results {
            let call = self.session.call(result.call);
            // An effectful call without an intent has not been sent, whatever the report says; nor has a call
            // that waits for hooks or for its preview.
            let is_unsent = result.reason == CallFinished::NOT_SENT;
            let may_end = |call: &Call| match call.effect {
                Effect::State => false,
                _ if call.is_unready() => is_unsent,
                Effect::Effectful => is_unsent || call.status.phase() != CallPhase::Requested,
                Effect::Pure | Effect::Idempotent => true,
            };
            let is_of_executor = |call: &&Call| result.call.attempt == attempt && may_end(call);
            if call.filter(is_of_executor).is_none() {
                let what = format_args!("a call of the executor that is {:?}", result.call);
                return Err(IllegalTransition::missing(what));
            }
        }
        let Some(reply) = reply else {
            return Ok(());
        };
        let mut open = running.calls.iter().zip(0..);
        let is_open = open.any(|(call, index)| match call.status.phase() {
            CallPhase::Finished => !call.is_finished(),
            CallPhase::InDoubt | CallPhase::Asking => true,
            // The model cannot have a result that hooks are asked about.
            _ => !results
                .iter()
                .any(|result| result.call.index == index && !self.is_held_result(result)),
        });
        let is_next = reply.tool_turn == running.tool_turns;
        let has_ops = (running.ops_through..=running.newest_op()).contains(&reply.ops_through);
        if is_open || !is_next || !has_ops || self.is_tool_step(attempt) {
            let what = format_args!("tool turn {} of {attempt:?}", reply.tool_turn);
            return Err(IllegalTransition::not_allowed(
                what,
                running.tool_turns,
                "next",
            ));
        }
        Ok(())
    }

    /// A model answers one question, or is not asked because it does not fit. A tool step asks none, and a run
    /// that compacts asks for summaries only.
    fn check_question(&self, attempt: AttemptRef, report: &Report) -> Applied {
        let is_of_request =
            report.full.is_some() || report.summary.is_some() || report.retry.is_some();
        let answers = [
            report.reply.is_some(),
            report.full.is_some(),
            report.summary.is_some(),
            report.retry.is_some(),
            is_of_request && report.failure.is_some(),
        ];
        let compacts = self.compacts(attempt).is_some();
        // While hooks are asked, no model is.
        let is_gated = self.is_gated(attempt) && (is_of_request || report.reply.is_some());
        let is_wrong = [
            is_gated,
            answers.into_iter().filter(|there| *there).count() > 1,
            is_of_request && self.is_tool_step(attempt),
            report.reply.is_some() && compacts,
        ];
        match is_wrong.contains(&true) {
            false => Ok(()),
            true => {
                let what = format_args!("a report of {attempt:?} with its answers");
                Err(IllegalTransition::not_allowed(
                    what,
                    "asked once",
                    "answered",
                ))
            }
        }
    }

    /// With `held` hooks are asked about it, and nothing follows from it before they have answered.
    fn note_reply(&mut self, attempt: AttemptRef, reply: Reply, held: bool) -> Applied {
        let calls = reply.calls.into_iter();
        let calls = calls.map(|call| self.requested(attempt, call)).collect();
        self.emit(ReplyReceived {
            attempt,
            tool_turn: reply.tool_turn,
            text: reply.text,
            calls,
            opaque: reply.opaque,
            finish: reply.finish,
            usage: reply.usage,
            provider: reply.provider,
            model: reply.model,
            duration_ms: reply.duration_ms,
            ops_through: reply.ops_through,
            estimated_tokens: reply.estimated_tokens,
            window_tokens: reply.window_tokens,
            held,
        })
    }

    /// The model replied. Hooks are asked about the reply first, unless it has no use.
    fn take_reply(&mut self, attempt: AttemptRef, reply: Reply) -> Applied {
        let running = self.session.attempt(attempt);
        let cut = running.map_or(0, |running| running.cut_replies);
        let is_of_use = match reply.finish {
            FinishReason::Refusal => false,
            FinishReason::Length => cut < MOST_CUT_REPLIES,
            _ => true,
        };
        if !is_of_use || !self.listens(attempt.run, Point::PostRequest) {
            return self.take_unasked_reply(attempt, reply, None);
        }
        let finish = reply.finish;
        self.note_reply(attempt, reply, true)?;
        match self.unusable(attempt, finish) {
            Some(failure) => self.fail_step(attempt, failure),
            None => Ok(()),
        }
    }

    /// The same for a reply that no hook is asked about. `hook` is the one that gave it in place of the model.
    pub(super) fn take_unasked_reply(
        &mut self,
        attempt: AttemptRef,
        reply: Reply,
        hook: Option<&str>,
    ) -> Applied {
        let finish = reply.finish;
        self.note_reply(attempt, reply, false)?;
        match self.unusable(attempt, finish) {
            Some(failure) => self.fail_step(attempt, failure),
            None => self.follow_reply(attempt, finish, hook),
        }
    }

    /// Hooks let the last reply pass, and it says what they left of it.
    pub(super) fn after_post_request(&mut self, attempt: AttemptRef) -> Applied {
        let running = self.session.attempt(attempt);
        let is_cut = running.is_some_and(|running| running.cut_replies > 0);
        let finish = match is_cut {
            true => FinishReason::Length,
            false => FinishReason::Stop,
        };
        self.follow_reply(attempt, finish, None)
    }

    fn follow_reply(
        &mut self,
        attempt: AttemptRef,
        finish: FinishReason,
        hook: Option<&str>,
    ) -> Applied {
        let limits = self.session.run(attempt.run).map(|run| run.limits);
        let limit = limits.map_or(0, |limits| limits.failing_tool_turns());
        match self.after_reply(attempt, finish, limit) {
            AfterReply::Continue => {}
            AfterReply::EndTurn => return self.emit(StepCompleted::of_turn(attempt)),
            AfterReply::UsedUp(what) => {
                let mut message =
                    format!("the {what} used all of its {limit} tool turns without completing");
                if let Some(hook) = hook {
                    // A hook that replies each time keeps the model from ending the step.
                    message = format!("{message}; hook '{hook}' skipped the last request");
                }
                let failure = Failure::new(FailureKind::LimitExceeded, "max_tool_turns", message);
                return self.fail_step(attempt, failure);
            }
        }
        self.answer_and_intend(attempt)?;
        self.finish_tool_turn(attempt)?;
        self.answer_reply(attempt, finish)
    }

    /// What a person has said by now counts before the reply that might end the attempt.
    pub(super) fn hear(&mut self, attempt: AttemptRef) -> Applied {
        let says = |received: &Received| matches!(received.command, Command::SendMessage(_));
        self.handle_commands_while(|session| {
            let has_steering = session.commands.values().any(|it| says(it));
            has_steering && session.attempt(attempt).is_some()
        })
    }

    /// Whether the attempt continues. A turn ends with a reply without calls, a step does not; neither
    /// ends while the model has not read what a person said.
    fn after_reply(&self, attempt: AttemptRef, finish: FinishReason, limit: u32) -> AfterReply {
        let Some(running) = self.session.attempt(attempt) else {
            return AfterReply::Continue;
        };
        if self.session.turn(attempt).is_none() {
            return match running.tool_turns > limit {
                true => AfterReply::UsedUp("step"),
                false => AfterReply::Continue,
            };
        }
        let has_calls = !running.calls.is_empty();
        let is_answer = !has_calls && finish != FinishReason::Length && !running.has_unread();
        let is_used_up = has_calls && running.call_turns > limit;
        match (is_answer || limit == 0, is_used_up) {
            (true, _) => AfterReply::EndTurn,
            (false, true) => AfterReply::UsedUp("turn"),
            (false, false) => AfterReply::Continue,
        }
    }

    /// A reply that was refused, or cut once more, has no use.
    fn unusable(&self, attempt: AttemptRef, finish: FinishReason) -> Option<Failure> {
        let running = self.session.attempt(attempt)?;
        let cut = running.cut_replies;
        // Else it is compacted before the next request.
        let is_refused = self.session.when_full(attempt) == WhenFull::Refuse;
        if let Some((name, bytes)) = self.excess(attempt).filter(|_| is_refused) {
            let message = full(&name, bytes);
            return Some(Failure::refused(Refusal::Limit, message));
        }
        match finish {
            FinishReason::Refusal => Some(Failure::refused_by_model()),
            FinishReason::Length if cut > MOST_CUT_REPLIES => {
                let message = format!(
                    "{cut} replies in a row were cut at the limit of their length; allow longer ones \
                     with max_output_tokens, or split the step"
                );
                Some(Failure::new(FailureKind::Llm, "reply_cut", message))
            }
            _ => None,
        }
    }

    /// State tools and unknown ones are answered at once, effectful calls get their intent. While a
    /// call of the reply waits for a person, the others wait with it. Calls of `step` count before
    /// all others, so that `read_progress` beside them shows what they have led to.
    fn answer_and_intend(&mut self, attempt: AttemptRef) -> Applied {
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
                    self.judge_in_turn(name)?;
                }
            }
        }
        self.intend_requested_calls(attempt)
    }

    /// Ends a tool step with its call, and what waits for the other calls of its reply: a compaction, and the
    /// end of a step.
    pub(crate) fn finish_tool_turn(&mut self, attempt: AttemptRef) -> Applied {
        if self.is_gated(attempt) {
            return Ok(());
        }
        if self.is_tool_step(attempt) {
            return self.finish_tool_step(attempt);
        }
        self.answer_compaction(attempt)?;
        // A reply may ask more than once to end the step.
        while let Some(running) = self.session.attempt(attempt) {
            match ending(running, attempt) {
                Ending::None => return Ok(()),
                Ending::Refused { call, because } => {
                    self.finish_call(call, because, "NotCompleted")?;
                }
                Ending::Step {
                    call,
                    response,
                    summary,
                } => {
                    self.finish_call(call, "step completed".to_owned(), "")?;
                    return self.emit(StepCompleted {
                        attempt,
                        response,
                        summary,
                    });
                }
            }
        }
        Ok(())
    }

    fn finish_tool_step(&mut self, attempt: AttemptRef) -> Applied {
        let running = self.session.attempt(attempt);
        let call = running.and_then(|running| running.calls.first());
        let Some(CallStatus::Finished {
            output,
            is_error,
            reason,
        }) = call
            .filter(|call| call.is_finished())
            .map(|call| &call.status)
        else {
            return Ok(());
        };
        if *is_error {
            let failure = match reason.as_str() {
                CallFinished::HOOK_BLOCKED => Failure::by_hook(output.clone()),
                Failure::MISSING => {
                    Failure::new(FailureKind::Config, Failure::MISSING, output.clone())
                }
                reason => Failure::new(FailureKind::Tool, reason, output.clone()),
            };
            return self.fail_step(attempt, failure);
        }
        let held = call.and_then(|call| call.whole.as_deref());
        let summary = match self.long_result(attempt).or(held) {
            Some(whole) => words::long_summary(output, whole, HEADLINE_LENGTH),
            None => headline(output, HEADLINE_LENGTH),
        };
        self.emit(StepCompleted {
            attempt,
            response: String::new(),
            summary,
        })
    }

    /// The result with which a tool step ends, if it is longer than a model gets at once. It is an event of
    /// this transition, as the end of the step is, unless hooks were asked about it.
    fn long_result(&self, attempt: AttemptRef) -> Option<&ResultHandle> {
        let mut events = self.events.iter().rev();
        events.find_map(|event| match &event.kind {
            EventKind::CallFinished(finished) if finished.call.attempt == attempt => {
                finished.whole.as_deref()
            }
            _ => None,
        })
    }

    /// A call that may have been sent is in doubt from then on, though no person is asked any more.
    pub(crate) fn fail_step(&mut self, attempt: AttemptRef, failure: Failure) -> Applied {
        self.doubt_intended_calls(attempt, false)?;
        let failure = self.naming_lost_steering(attempt, failure);
        self.emit(StepFailed { attempt, failure })
    }

    /// With the last answer the calls begin that waited with it, and a step ends that did.
    pub(crate) fn continue_attempt(&mut self, attempt: AttemptRef) -> Applied {
        self.judge_again(attempt)?;
        self.intend_requested_calls(attempt)?;
        self.prepare_request(attempt)?;
        self.advance(attempt.run)
    }
}
