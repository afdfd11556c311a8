//! Budgets that are used up, and what a person says of them.

use super::Decision;
use super::command::{Refusal, not_pending, refuse};
use crate::command::Settlement;
use crate::event::{Budget, EventKind, WaitReason};
use crate::failure::{Failure, FailureKind};
use crate::pending::{PendingId, budget_question};
use crate::state::{Attempt, Raise, Run, RunStatus};
use crate::transitions::IllegalTransition;

impl Decision<'_> {
    /// Notes that the active time of the run is used up, once it is.
    pub(super) fn note_time(&mut self, number: u32) -> Result<(), IllegalTransition> {
        let deadline = self.session.run(number).and_then(Run::deadline);
        if deadline.is_none_or(|deadline| self.facts.now < deadline) {
            return Ok(());
        }
        self.emit(EventKind::BudgetExhausted {
            run: number,
            budget: Budget::Time,
        })
    }

    pub(super) fn decide_budget(
        &mut self,
        command_seq: u64,
        id: PendingId,
        number: u32,
        settlement: Settlement,
    ) -> Result<Option<Refusal>, IllegalTransition> {
        let waiting = RunStatus::Waiting(WaitReason::Budget);
        let run = self.session.run(number).filter(|run| run.status == waiting);
        let Some(run) = run.filter(|run| budget_question(run) == id) else {
            return Ok(not_pending(&id.to_string()));
        };
        match settlement {
            Settlement::Retry => {
                let now = self.facts.now;
                let more = run.asked_budget.map(|budget| fresh(run, budget, now));
                self.raise(number, command_seq, more.unwrap_or_default())?;
                self.begin_again(number)?;
                Ok(None)
            }
            Settlement::Fail { reason } => {
                let failure = used_up(run, &reason);
                self.emit(EventKind::BudgetRefused {
                    run: number,
                    command_seq,
                    failure: failure.clone(),
                })?;
                // An older wish would give it another plan, and let it live.
                self.drop_wishes(number, &failure.message)?;
                self.advance(number)?;
                Ok(None)
            }
            _ => Ok(refuse(
                "BAD_SETTLEMENT",
                "a budget can be raised (retry) or the run ended (fail)".to_owned(),
            )),
        }
    }

    fn raise(&mut self, run: u32, command_seq: u64, more: Raise) -> Result<(), IllegalTransition> {
        self.emit(EventKind::BudgetRaised {
            run,
            turns: more.turns,
            command_seq,
            tokens: more.tokens,
            cost_nano_usd: more.cost_nano_usd,
            active_ms: more.active_ms,
            calls: more.calls,
        })
    }

    /// What was held goes on.
    pub(super) fn begin_again(&mut self, number: u32) -> Result<(), IllegalTransition> {
        for attempt in self.running(number) {
            self.intend_requested_calls(attempt)?;
        }
        self.settle_due()
    }

    /// A person said that the run is not to be allowed more: nothing begins, calls with side effects
    /// that are under way end, and the run with them.
    pub(super) fn end_as_told(
        &mut self,
        number: u32,
        failure: Failure,
    ) -> Result<(), IllegalTransition> {
        let run = self.session.run(number);
        if run.is_none_or(|run| run.status == RunStatus::Paused || run.status.is_terminal()) {
            return Ok(());
        }
        for attempt in self.running(number) {
            let running = self.session.attempt(attempt);
            if !running.is_some_and(Attempt::has_intended_call) {
                self.fail_step(attempt, failure.clone())?;
            }
        }
        self.reconcile_status(number)?;
        if !self.running(number).is_empty() {
            return Ok(());
        }
        self.emit(EventKind::RunFailed {
            run: number,
            failure,
            usage: None,
            duration_ms: 0,
        })
    }
}

/// As much again of a budget that is used up as there was at first. What was used beyond it is not
/// taken from the next; calls beyond it have not been made, and are.
fn fresh(run: &Run, budget: Budget, now: u64) -> Raise {
    let (limits, allowed) = (run.limits, run.allowance);
    let mut more = Raise::default();
    match budget {
        Budget::Turns => {
            let over = run.tool_turns.saturating_sub(allowed.turns);
            more.turns = limits.max_turns.saturating_add(over);
        }
        Budget::Tokens => {
            more.tokens = limits.max_tokens + over(run.usage.tokens(), allowed.tokens);
        }
        Budget::Cost => {
            let over = over(run.usage.cost_nano_usd, allowed.cost_nano_usd);
            more.cost_nano_usd = limits.max_cost_nano_usd + over;
        }
        Budget::Time => {
            more.active_ms = limits.max_active_ms + over(run.active_ms_at(now), allowed.active_ms);
        }
        Budget::Calls => {
            let beyond = run.calls.saturating_sub(allowed.calls.unwrap_or(run.calls));
            more.calls = limits.max_calls.max(beyond);
        }
    }
    more
}

fn over(used: u64, most: Option<u64>) -> u64 {
    most.map_or(0, |most| used.saturating_sub(most))
}

/// Tells what it was allowed, with what people allowed it since.
fn used_up(run: &Run, reason: &str) -> Failure {
    let allowed = run.allowance;
    let (name, what) = match run.asked_budget {
        Some(Budget::Tokens) => {
            let most = allowed.tokens.unwrap_or_default();
            ("max_tokens", counted(most, "token"))
        }
        Some(Budget::Cost) => {
            let dollars = allowed.cost_nano_usd.unwrap_or_default() as f64 / 1e9;
            ("max_cost", format!("${dollars}"))
        }
        Some(Budget::Time) => {
            let seconds = allowed.active_ms.unwrap_or_default() as f64 / 1e3;
            ("max_active", format!("{seconds} s of active time"))
        }
        Some(Budget::Calls) => {
            let most = allowed.calls.unwrap_or_default();
            ("max_calls", counted(most.into(), "tool call"))
        }
        Some(Budget::Turns) | None => {
            let most = allowed.turns.into();
            ("max_turns", counted(most, "tool turn"))
        }
    };
    let mut message = format!("the run's budget of {what} is used up");
    if !reason.is_empty() {
        message = format!("{message}; {reason}");
    }
    Failure::new(FailureKind::LimitExceeded, name, message)
}

fn counted(number: u64, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}
