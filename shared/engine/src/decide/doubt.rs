//! Owners that come and go, and calls whose outcome nobody knows.

use super::Decision;
use crate::command::Settlement;
use crate::event::{AttemptRef, CallRef, Effect, EventKind};
use crate::failure::{Failure, FailureKind};
use crate::state::{Attempt, Call, CallStatus, Run};
use crate::transitions::IllegalTransition;

/// Most commands that are answered before anything begins: one transition has to hold what follows
/// from them.
const MOST_COMMANDS: usize = 64;

impl Decision<'_> {
    /// What the owner before had running goes on, but for calls with side effects that may have
    /// been sent: those are in doubt. What people have said meanwhile counts before anything else
    /// begins: whoever cancels the run of a process that has died wants no more of it.
    pub(super) fn take_over(&mut self, holder_dead: bool) -> Result<(), IllegalTransition> {
        let active = self.session.active_run();
        let attempts = active.map_or_else(Vec::new, |run| self.running(run.number));
        self.note_absence()?;
        for &attempt in &attempts {
            self.emit(EventKind::AttemptContinued { attempt })?;
            self.doubt_intended_calls(attempt, holder_dead)?;
        }
        if self.facts.starts {
            for _ in 0..self.session.commands.len().min(MOST_COMMANDS) {
                self.handle_command()?;
            }
        }
        // Those of them that are still under way.
        for attempt in attempts {
            self.ask_for_approvals(attempt)?;
            self.intend_requested_calls(attempt)?;
        }
        self.settle_due()
    }

    /// The time in which the run had no owner is not taken from its own.
    fn note_absence(&mut self) -> Result<(), IllegalTransition> {
        let active = self.session.active_run();
        let is_counted = |run: &&Run| run.active_since.is_some() && run.deadline().is_some();
        let Some(run) = active.filter(is_counted).map(|run| run.number) else {
            return Ok(());
        };
        self.emit(EventKind::RunTakenOver { run })
    }

    pub(super) fn attempt_lost(&mut self, attempt: AttemptRef) -> Result<(), IllegalTransition> {
        if self.session.attempt(attempt).is_none() {
            return Ok(());
        }
        self.emit(EventKind::AttemptContinued { attempt })?;
        self.doubt_intended_calls(attempt, false)?;
        self.advance(attempt.run)
    }

    /// A copy may have been cut before they were asked for, and a tool may need approval since.
    fn ask_for_approvals(&mut self, attempt: AttemptRef) -> Result<(), IllegalTransition> {
        let is_new = |call: &Call| {
            call.effect != Effect::State
                && call.approval.is_none()
                && matches!(call.status, CallStatus::Requested)
        };
        let running = self.session.attempt(attempt).into_iter();
        let calls = running.flat_map(|running| running.last_calls(attempt));
        let calls = calls.filter(|(_, call)| is_new(call));
        let calls: Vec<_> = calls
            .map(|(name, call)| (name, call.call.name.clone()))
            .collect();
        for (name, tool) in calls {
            self.ask_approval(name, &tool)?;
        }
        Ok(())
    }

    /// They have just been asked for, or an owner that was about to let go has left them. While a call
    /// of the reply waits for a person, none is.
    pub(super) fn intend_requested_calls(
        &mut self,
        attempt: AttemptRef,
    ) -> Result<(), IllegalTransition> {
        let asks = |(_, call): (_, &Call)| matches!(call.status, CallStatus::Asking { .. });
        let asks = |running: &Attempt| running.last_calls(attempt).any(asks);
        let running = self.session.attempt(attempt);
        let running = running.filter(|running| !asks(running)).into_iter();
        let is_left = |call: &Call| {
            call.effect == Effect::Effectful && matches!(call.status, CallStatus::Requested)
        };
        let left = running
            .flat_map(|running| running.last_calls(attempt))
            .filter(|(_, call)| is_left(call) && self.may_begin(attempt.run));
        let left: Vec<_> = left
            .map(|(name, call)| (name, call.call.name.clone()))
            .collect();
        for (name, tool) in left {
            self.intend(name, &tool)?;
        }
        Ok(())
    }

    /// An answer counts once the call can no longer be running: at once if it died with its
    /// process, else after the last moment at which it may be sent plus the time it may take.
    pub(super) fn doubt_intended_calls(
        &mut self,
        attempt: AttemptRef,
        holder_dead: bool,
    ) -> Result<(), IllegalTransition> {
        let Some(running) = self.session.attempt(attempt) else {
            return Ok(());
        };
        let mut doubtful = Vec::new();
        for (name, call) in running.last_calls(attempt) {
            if let CallStatus::Intended {
                not_after,
                time_limit_ms,
                in_process,
                ..
            } = call.status
                && call.effect == Effect::Effectful
            {
                let is_dead = holder_dead && in_process;
                let settle_after = if is_dead {
                    0
                } else {
                    not_after.saturating_add(time_limit_ms)
                };
                doubtful.push((name, settle_after));
            }
        }
        for (call, settle_after) in doubtful {
            self.emit(EventKind::CallInDoubt { call, settle_after })?;
        }
        Ok(())
    }

    /// Calls of an attempt that may have been carried out, and nobody knows.
    pub(super) fn calls_in_doubt(&self, attempt: AttemptRef) -> usize {
        let running = self.session.attempt(attempt).into_iter();
        let calls = running.flat_map(|running| running.last_calls(attempt));
        calls
            .filter(|(_, call)| matches!(call.status, CallStatus::InDoubt { .. }))
            .count()
    }

    /// Lets the answers take effect whose time has come.
    pub(super) fn settle_due(&mut self) -> Result<(), IllegalTransition> {
        let Some(run) = self.session.active_run() else {
            return Ok(());
        };
        let number = run.number;
        let mut due = Vec::new();
        for (name, _, attempt) in run.running_attempts() {
            for (call, state) in attempt.last_calls(name) {
                if let CallStatus::InDoubt {
                    settle_after,
                    answer: Some(answer),
                } = &state.status
                    && *settle_after <= self.facts.now
                {
                    due.push((call, answer.clone()));
                }
            }
        }
        for (call, settlement) in due {
            // An answer before this one may have ended the step.
            if self.session.call(call).is_some() {
                self.settle(call, settlement)?;
            }
        }
        self.advance(number)
    }

    fn settle(&mut self, call: CallRef, settlement: Settlement) -> Result<(), IllegalTransition> {
        let attempt = call.attempt;
        let is_tool_step = self.is_tool_step(attempt);
        self.emit(EventKind::CallSettled {
            call,
            settlement: settlement.clone(),
        })?;
        match settlement {
            Settlement::Retry => {
                let again = self.session.call(call);
                let is_intended = |call: &&Call| call.effect == Effect::Effectful;
                let may_begin = self.may_begin(attempt.run);
                let again = again.filter(is_intended).filter(|_| may_begin);
                match again.map(|call| call.call.name.clone()) {
                    Some(tool) => self.intend(call, &tool),
                    None => Ok(()),
                }
            }
            Settlement::Skip { reason } if is_tool_step => self.emit(EventKind::StepSkipped {
                run: attempt.run,
                step: attempt.step,
                reason,
                is_wish: true,
                command_seq: 0,
            }),
            Settlement::Fail { reason } => {
                let message = format!("a person decided that a call failed: {reason}");
                let failure = Failure::new(FailureKind::Tool, "Decided", message);
                self.fail_step(attempt, failure)
            }
            // The rest are answers to other questions, which `decide_call` refuses.
            _ => self.finish_turn(attempt),
        }
    }

    pub(super) fn is_tool_step(&self, attempt: AttemptRef) -> bool {
        let step = self.session.step(attempt);
        step.is_some_and(|step| step.plan.tool.is_some())
    }
}
