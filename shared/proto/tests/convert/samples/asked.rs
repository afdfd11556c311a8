//! Questions to people and their answers, budgets, and forks.

use super::{ATTEMPT, CALL, Kinds, UNLIMITED};
use cairn_engine::command::{Command, LimitOverrides, RunLimits, Settlement, StartRun};
use cairn_engine::event::{Budget, CallRef, EventKind, WaitReason};
use cairn_engine::failure::{Failure, FailureKind};

pub(super) fn settled() -> Kinds {
    let output = "sent to all".to_owned();
    let reason = "wrong address".to_owned();
    let done = Settlement::Done { output };
    let skip = Settlement::Skip {
        reason: reason.clone(),
    };
    let fail = Settlement::Fail { reason };
    kinds! {
        "decided": Decided {
            command_seq: 303, call: CALL, settlement: done.clone(), settle_after: 0
        }
        "call_settled.done": CallSettled { call: CALL, settlement: done }
        "call_settled.retry": CallSettled { call: CALL, settlement: Settlement::Retry }
        "call_settled.skip": CallSettled { call: CALL, settlement: skip }
        "call_settled.fail": CallSettled { call: CALL, settlement: fail }
    }
}

pub(super) fn asked() -> Kinds {
    let call = CallRef {
        attempt: ATTEMPT,
        tool_turn: 5,
        index: 0,
    };
    let decided = |settlement| EventKind::Decided {
        command_seq: 310,
        call,
        settlement,
        settle_after: 0,
    };
    let mut asked = kinds! {
        "approval_requested": ApprovalRequested { call: call, digest: "0a1b2c".into() }
        "question_asked": QuestionAsked {
            call: call,
            question: "Which of the two?".into(),
            choices: vec!["left".into(), "right".into()],
        }
        "forked_from": ForkedFrom {
            session: "s".into(), at_seq: 9, request_id: "q".into(), title: "t".into()
        }
        "run_waiting.approval": RunWaiting { run: 2, reason: WaitReason::Approval }
        "run_waiting.question": RunWaiting { run: 2, reason: WaitReason::Question }
        "run_waiting.plan_review": RunWaiting { run: 2, reason: WaitReason::PlanReview }
    };
    let reason = "not on a Friday".to_owned();
    let text = "left".to_owned();
    asked.push(("decided.approve", decided(Settlement::Approve)));
    asked.push(("decided.deny", decided(Settlement::Deny { reason })));
    asked.push(("decided.answer", decided(Settlement::Answer { text })));
    asked
}

pub(super) fn raises() -> Kinds {
    kinds! {
        "budget_raised": BudgetRaised {
            run: 2,
            turns: 50,
            command_seq: 301,
            tokens: 0,
            cost_nano_usd: 0,
            active_ms: 0,
            calls: 0,
        }
        "budget_raised.all": BudgetRaised {
            run: 2,
            turns: 50,
            command_seq: 301,
            tokens: 100_000,
            cost_nano_usd: 2_500_000_000,
            active_ms: 600_000,
            calls: 40,
        }
        "budget_refused": BudgetRefused {
            run: 2,
            command_seq: 301,
            failure: Failure::new(
                FailureKind::LimitExceeded,
                "max_tokens",
                "the run's 100 tokens are used up; enough",
            ),
        }
        "call_held": CallHeld { call: CALL }
        "run_resumed": RunResumed { run: 2, command_seq: 0 }
        "run_taken_over": RunTakenOver { run: 2 }
        "revision_requested.denied": RevisionRequested {
            run: 2, feedback: "mention the year".into(), apply: false, command_seq: 306, denied: 4
        }
    }
}

pub(super) fn budgets() -> Kinds {
    let limits = RunLimits {
        review_plan: true,
        max_tokens: 100_000,
        max_cost_nano_usd: 2_500_000_000,
        max_active_ms: 600_000,
        max_calls: 40,
        ..UNLIMITED
    };
    let start = StartRun {
        goal: "Within limits".into(),
        limits: LimitOverrides {
            review_plan: true,
            max_tokens: 100_000,
            max_cost_nano_usd: 2_500_000_000,
            max_active_ms: 600_000,
            max_calls: 40,
            ..LimitOverrides::default()
        },
        ..StartRun::default()
    };
    kinds! {
        "command_received.start_run.budgets": CommandReceived {
            request_id: "q-31".into(), command: Command::StartRun(start)
        }
        "run_started.budgets": RunStarted {
            run: 2,
            goal: "Within limits".into(),
            limits: limits,
            model: String::new(),
            command_seq: 300,
            trace_parent: String::new(),
        }
        "budget_exhausted.turns": BudgetExhausted { run: 2, budget: Budget::Turns }
        "budget_exhausted.tokens": BudgetExhausted { run: 2, budget: Budget::Tokens }
        "budget_exhausted.cost": BudgetExhausted { run: 2, budget: Budget::Cost }
        "budget_exhausted.time": BudgetExhausted { run: 2, budget: Budget::Time }
        "budget_exhausted.calls": BudgetExhausted { run: 2, budget: Budget::Calls }
    }
}
