//! Budgets that are used up, and what a person says of them.

use super::Decision;
use super::command::{Refusal, not_pending, refuse};
use crate::command::{RunLimits, Settlement};
use crate::event::{AttemptRef, Budget, EventKind, WaitReason};
use crate::failure::{Failure, FailureKind};
use crate::pending::{PendingId, budget_question};
use crate::state::{Raise, Run, RunStatus};
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
                let more = fresh(run);
                self.raise(number, command_seq, more)?;
                self.begin_again(number)?;
                Ok(None)
            }
            Settlement::Fail { reason } => {
                let failure = used_up(run, &reason);
                self.raise(number, command_seq, Raise::default())?;
                self.end_at_budget(number, failure)?;
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

    /// What needs no more of the budget goes on; the run ends with the last of it.
    fn end_at_budget(&mut self, number: u32, failure: Failure) -> Result<(), IllegalTransition> {
        for attempt in self.held(number) {
            self.fail_step(attempt, failure.clone())?;
        }
        self.advance(number)?;
        let is_idle = |run: &&Run| run.running_attempts().next().is_none();
        let run = self.session.active_run().filter(is_idle);
        if run.is_none_or(|run| run.number != number) {
            return Ok(());
        }
        self.drop_wishes(number, &failure.message)?;
        self.emit(EventKind::RunFailed {
            run: number,
            failure,
            usage: None,
            duration_ms: 0,
        })
    }

    /// Attempts that cannot go on without more of the budget.
    fn held(&self, number: u32) -> Vec<AttemptRef> {
        let Some(run) = self.session.run(number) else {
            return Vec::new();
        };
        let holds_calls = run.no_calls().is_some();
        let held = run.running_attempts().filter(|(_, step, attempt)| {
            step.plan.tool.is_none() || (holds_calls && !attempt.has_intended_call())
        });
        held.map(|(name, ..)| name).collect()
    }
}

/// As much again of what is used up as there was at first.
fn fresh(run: &Run) -> Raise {
    let RunLimits {
        max_turns,
        max_tokens,
        max_cost_nano_usd,
        max_active_ms,
        max_calls,
        ..
    } = run.limits;
    let mut more = Raise::default();
    for budget in run.used_up() {
        match budget {
            Budget::Turns => more.turns = max_turns,
            // What was used beyond the budget is not taken from the next.
            Budget::Tokens => {
                more.tokens = max_tokens + over(run.usage.tokens(), run.allowance.tokens)
            }
            Budget::Cost => {
                let over = over(run.usage.cost_nano_usd, run.allowance.cost_nano_usd);
                more.cost_nano_usd = max_cost_nano_usd + over;
            }
            Budget::Time => {
                more.active_ms = max_active_ms + over(run.active_ms, run.allowance.active_ms)
            }
            Budget::Calls => {
                let beyond = run
                    .calls
                    .saturating_sub(run.allowance.calls.unwrap_or(run.calls));
                more.calls = max_calls.max(beyond);
            }
        }
    }
    more
}

fn over(used: u64, most: Option<u64>) -> u64 {
    most.map_or(0, |most| used.saturating_sub(most))
}

fn used_up(run: &Run, reason: &str) -> Failure {
    let limits = run.limits;
    let (name, what) = match run.lacks() {
        Some(Budget::Tokens) => ("max_tokens", format!("{} tokens", limits.max_tokens)),
        Some(Budget::Cost) => {
            let dollars = limits.max_cost_nano_usd as f64 / 1e9;
            ("max_cost", format!("budget of ${dollars}"))
        }
        Some(Budget::Time) => {
            let seconds = limits.max_active_ms as f64 / 1e3;
            ("max_active", format!("{seconds} s of active time"))
        }
        Some(Budget::Calls) => ("max_calls", format!("{} tool calls", limits.max_calls)),
        Some(Budget::Turns) | None => ("max_turns", format!("{} tool turns", limits.max_turns)),
    };
    let message = format!("the run's {what} are used up; {reason}");
    Failure::new(FailureKind::LimitExceeded, name, message)
}
