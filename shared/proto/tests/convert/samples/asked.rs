//! Questions to people and their answers, budgets, and forks.

use super::{ATTEMPT, CALL, Kinds, unlimited};
use cairn_engine::command::{Command, LimitOverrides, RunLimits, Settlement, StartRun};
use cairn_engine::event::{self, Budget, CallRef, Effect, EventKind, WaitReason};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::pending::{PendingId, Subject};
use cairn_engine::rules::{Condition, GrantScope, ToolServer};
use cairn_engine::session::PerBudget;

fn condition(name: &str, pattern: &str) -> Condition {
    Condition {
        name: name.to_owned(),
        pattern: pattern.to_owned(),
    }
}

pub(super) fn settled() -> Kinds {
    let output = "sent to all".to_owned();
    let reason = "wrong address".to_owned();
    let done = Settlement::Done { output };
    let skip = Settlement::Skip {
        reason: reason.clone(),
    };
    let fail = Settlement::Fail { reason };
    let doubt = |time| PendingId {
        subject: Subject::Call(CALL),
        time,
    };
    kinds! {
        "decided": Decided { pending: doubt(1), settlement: done.clone(), settle_after: 0, responses: String::new() }
        "decided.again": Decided {
            pending: doubt(2),
            settlement: Settlement::Retry,
            settle_after: 1_760_000_072_000,
            responses: String::new(),
        }
        "decided.responses": Decided {
            pending: PendingId { subject: Subject::Question(CALL), time: 1 },
            settlement: Settlement::Answer { text: "yes".to_owned() },
            settle_after: 0,
            responses: r#"{"a":{"action":"accept"}}"#.to_owned(),
        }
        "call_settled.done": CallSettled { call: CALL, settlement: done, output: String::new() }
        "call_settled.retry": CallSettled {
            call: CALL, settlement: Settlement::Retry, output: String::new()
        }
        "call_settled.skip": CallSettled {
            call: CALL, settlement: skip, output: "a person skipped it".to_owned()
        }
        "call_settled.fail": CallSettled {
            call: CALL, settlement: fail, output: "a person says that it failed".to_owned()
        }
    }
}

/// Calls that are judged anew or ask, and what people approve for the rest of a session.
pub(super) fn judged() -> Kinds {
    let call = CallRef {
        attempt: ATTEMPT,
        tool_turn: 5,
        index: 0,
    };
    let mut judged = kinds! {
        "call_rejudged": CallRejudged {
            call: call,
            tool_digest: "0a1b2c".into(),
            resolved: vec![condition("path", "secret/a")],
            effect: Effect::Effectful,
            previews: false,
        }
        "call_rejudged.previews": CallRejudged {
            call: call,
            tool_digest: "0a1b2c".into(),
            resolved: Vec::new(),
            effect: Effect::Idempotent,
            previews: true,
        }
        "call_previewed": CallPreviewed {
            call: call,
            preview: event::CallPreview {
                path: "src/lib.rs".into(),
                before_digest: "3c4d".into(),
                after_digest: "5e6f".into(),
                diff: "-a\n+b\n".into(),
                added: 1,
                removed: 2,
                is_protected: true,
            },
        }
        "input_requested": InputRequested {
            call: call,
            question: event::ToolQuestion {
                text: "Which?".into(),
                choices: vec!["red".into()],
                requests: "{}".into(),
                state: Some("state-1".into()),
            },
        }
        "approval_granted": ApprovalGranted {
            grant: 1,
            tool: "github__create_issue".into(),
            tool_digest: "0a1b2c".into(),
            when: vec![condition("owner", "acme")],
            agent: "default".into(),
            scope: None,
        }
        "approval_revoked": ApprovalRevoked { grant: 1 }
        "tools_found": ToolsFound { attempt: ATTEMPT, tools: vec!["github__create_issue".into()] }
    };
    judged.extend(granted());
    judged
}

/// An approval of further calls for each kind of scope.
fn granted() -> Kinds {
    let server = ToolServer {
        name: "github".to_owned(),
        digest: "4e5f".to_owned(),
    };
    let scopes = [
        ("approval_granted.tool", GrantScope::Tool),
        (
            "approval_granted.folder",
            GrantScope::Folder {
                folder: "docs".to_owned(),
            },
        ),
        (
            "approval_granted.prefix",
            GrantScope::Prefix {
                words: vec!["cargo".to_owned(), "test".to_owned()],
                folder: ".".to_owned(),
            },
        ),
        ("approval_granted.server", GrantScope::Server(server)),
    ];
    let granted = scopes.map(|(name, scope)| {
        let granted = event::ApprovalGranted {
            grant: 1,
            tool: "github__create_issue".to_owned(),
            tool_digest: "0a1b2c".to_owned(),
            when: Vec::new(),
            agent: "default".to_owned(),
            scope: Some(scope),
        };
        (name, EventKind::from(granted))
    });
    granted.into()
}

pub(super) fn asked() -> Kinds {
    let call = CallRef {
        attempt: ATTEMPT,
        tool_turn: 5,
        index: 0,
    };
    let decided = |subject, settlement| {
        EventKind::Decided(event::Decided {
            responses: String::new(),
            pending: PendingId { subject, time: 1 },
            settlement,
            settle_after: 0,
        })
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
    let (approval, question) = (Subject::Approval(call), Subject::Question(call));
    let plan = Subject::Plan {
        run: 2,
        proposal: 4,
    };
    let (deny, answer) = (Settlement::Deny { reason }, Settlement::Answer { text });
    let budget = Subject::Budget { run: 2 };
    asked.extend([
        ("decided.approve", decided(approval, Settlement::Approve)),
        ("decided.deny", decided(approval, deny)),
        ("decided.answer", decided(question, answer)),
        ("decided.budget", decided(budget, Settlement::Retry)),
        ("decided.plan", decided(plan, Settlement::Approve)),
    ]);
    asked
}

pub(super) fn raises() -> Kinds {
    kinds! {
        "budget_raised.turns": BudgetRaised { run: 2, budget: Budget::Turns, more: 50 }
        "budget_raised.tokens": BudgetRaised { run: 2, budget: Budget::Tokens, more: 100_000 }
        "budget_raised.cost": BudgetRaised {
            run: 2, budget: Budget::Cost, more: 2_500_000_000
        }
        "budget_raised.time": BudgetRaised { run: 2, budget: Budget::Time, more: 600_000 }
        "budget_raised.calls": BudgetRaised { run: 2, budget: Budget::Calls, more: 40 }
        "budget_raised.tool_turns": BudgetRaised { run: 2, budget: Budget::ToolTurns, more: 100 }
        "budget_refused": BudgetRefused {
            run: 2,
            failure: Failure::new(
                FailureKind::LimitExceeded,
                "max_tokens",
                "the run's 100 tokens are used up; enough",
            ),
        }
        "call_held": CallHeld { call: CALL }
        "run_resumed": RunResumed { run: 2 }
        "run_taken_over": RunTakenOver { run: 2 }
        "revision_requested.denied": RevisionRequested {
            run: 2, feedback: "mention the year".into(), apply: false, request: 306, denied: 4
        }
    }
}

pub(super) fn budgets() -> Kinds {
    let budgets = PerBudget::from([
        (Budget::Tokens, 100_000),
        (Budget::Cost, 2_500_000_000),
        (Budget::Time, 600_000),
        (Budget::Calls, 40),
    ]);
    let limits = RunLimits {
        review_plan: true,
        budgets,
        ..unlimited()
    };
    let start = StartRun {
        goal: "Within limits".into(),
        limits: LimitOverrides {
            review_plan: true,
            budgets,
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
            trace_parent: String::new(),
            turn: None,
            agent: None,
            hooks: Vec::new(),
        }
        "budget_exhausted.turns": BudgetExhausted { run: 2, budget: Budget::Turns }
        "budget_exhausted.tokens": BudgetExhausted { run: 2, budget: Budget::Tokens }
        "budget_exhausted.cost": BudgetExhausted { run: 2, budget: Budget::Cost }
        "budget_exhausted.time": BudgetExhausted { run: 2, budget: Budget::Time }
        "budget_exhausted.calls": BudgetExhausted { run: 2, budget: Budget::Calls }
        "budget_exhausted.tool_turns": BudgetExhausted { run: 2, budget: Budget::ToolTurns }
    }
}
