//! One event of each kind with every field filled in, and the variants within kinds.

#[macro_use]
mod macros {
    macro_rules! kinds {
        ($($name:literal: $kind:ident { $($field:ident: $value:expr),* $(,)? })*) => {
            vec![$(($name, EventKind::$kind(event::$kind { $($field: $value),* }))),*]
        };
    }
}
mod agents;
mod asked;
mod attempt;
mod compaction;
mod envelope;
mod hooks;
mod turns;

use crate::strategies::thought;
use cairn_engine::command::{
    self, AtLimit, Command, LimitOverrides, OnFailure, RevisePlan, RunLimits, Settlement, StartRun,
};
use cairn_engine::event::{
    self, AttemptRef, Blob, Budget, CallFinished, CallMedia, CallRef, Effect, Event, EventKind,
    FileState, MemoryWriter, OpenCall, ReplyReceived, RequestedCall, ResultHandle, WaitReason,
};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::message::{FinishReason, ToolCall, Usage};
use cairn_engine::plan::{Order, PlanDraft, StepDraft, ToolInvocation};
use cairn_engine::refusal::Refusal;
use cairn_engine::session::{PerBudget, StepNo};

const AT: u64 = 1_760_000_000_001;
const ATTEMPT: AttemptRef = AttemptRef {
    run: 2,
    step: StepNo::new(3),
    attempt: 1,
};
const CALL: CallRef = CallRef {
    attempt: ATTEMPT,
    tool_turn: 4,
    index: 1,
};
const USAGE: Usage = Usage {
    input_tokens: 1200,
    cached_input_tokens: 800,
    cache_write_tokens: 100,
    output_tokens: 340,
    reasoning_tokens: 40,
    cost_nano_usd: 5_600_000_000,
    unpriced_tokens: 0,
    model_calls: 2,
};

/// Events by the names of the files that keep them: the kind, and the variant after a point.
pub(crate) fn samples() -> Vec<(&'static str, Event)> {
    let kinds = [
        session(),
        commands(),
        changes(),
        runs(),
        plans(),
        attempt::steps(),
        attempt::placing(),
        attempt::parts(),
        calls(),
        asked::settled(),
        asked::asked(),
        asked::judged(),
        asked::budgets(),
        asked::raises(),
        turns::contexts(),
        turns::turns(),
        turns::commands(),
        turns::of_contexts(),
        compaction::events(),
        compaction::questions(),
        compaction::commands(),
        agents::events(),
        agents::commands(),
        hooks::events(),
        hooks::answers(),
        hooks::marks(),
    ];
    let kinds = kinds.into_iter().flatten();
    let mut samples: Vec<_> = kinds
        .map(|(name, kind)| (name, envelope::bare(kind)))
        .collect();
    samples.extend(envelope::samples());
    samples
}

type Kinds = Vec<(&'static str, EventKind)>;

/// Limits of a run without budgets.
fn unlimited() -> RunLimits {
    RunLimits {
        max_tool_turns: 0,
        max_parallel_steps: 0,
        max_own_revisions: 0,
        on_failure: OnFailure::Stop,
        review_plan: false,
        budgets: PerBudget::default(),
        at_limit: AtLimit::Fail,
    }
}

fn session() -> Kinds {
    kinds! {
        "session_created": SessionCreated {
            title: "Survey of the docs".into(), time_to_live_ms: 0
        }
        "session_created.time_to_live": SessionCreated {
            title: "A week".into(), time_to_live_ms: 604_800_000
        }
        "memory_set": MemorySet {
            key: "tone".into(),
            value: "dry, ≤ 3 lines\n✓".into(),
            writer: None,
            metadata: Default::default(),
        }
        "memory_set.metadata": MemorySet {
            key: "tone".into(),
            value: "dry".into(),
            writer: None,
            metadata: [("source".into(), "handbook".into())].into(),
        }
        "memory_set.attempt": MemorySet {
            key: "tone".into(),
            value: "dry".into(),
            writer: Some(MemoryWriter::Attempt(ATTEMPT)),
            metadata: Default::default(),
        }
        "memory_removed": MemoryRemoved { key: "tone".into(), writer: None }
        "memory_removed.command": MemoryRemoved { key: "tone".into(), writer: Some(MemoryWriter::Command) }
        "memory_cleared": MemoryCleared {}
        "command_refused": CommandRefused {
            reason: Refusal::RunActive,
            message: "run 2 is active; cancel it first".into(),
        }
    }
}

fn commands() -> Kinds {
    let start = StartRun {
        goal: "Which files mention Redis?".into(),
        plan: Some(plan(Order::Chain)),
        limits: LimitOverrides {
            max_tool_turns: 20,
            max_parallel_steps: 2,
            ..LimitOverrides::default()
        },
        model: "offline".into(),
        trace_parent: String::new(),
        agent: String::new(),
        answers_questions: false,
        external_id: String::new(),
        note: String::new(),
    };
    let cancel = Command::CancelRun(command::CancelRun {
        run: 2,
        reason: "no longer needed".into(),
    });
    let decide = Command::Decide(command::Decide {
        pending_id: "2.3.1.4.1".into(),
        settlement: Settlement::Retry,
    });
    kinds! {
        "command_received.start_run": CommandReceived {
            request_id: "q-17".into(), command: Command::StartRun(start)
        }
        "command_received.start_run.task": CommandReceived {
            request_id: "q-17".into(), command: Command::StartRun(start_for_task())
        }
        "command_received.cancel_run": CommandReceived {
            request_id: "q-18".into(), command: cancel
        }
        "command_received.decide": CommandReceived { request_id: "q-19".into(), command: decide }
    }
}

fn runs() -> Kinds {
    let limits = RunLimits {
        max_tool_turns: 11,
        max_parallel_steps: 9,
        budgets: PerBudget::from([(Budget::Turns, 51)]),
        ..unlimited()
    };
    let failure = failure(FailureKind::Llm, "RateLimit");
    kinds! {
        "run_started": RunStarted {
            run: 2,
            goal: "Which files mention Redis?".into(),
            limits: limits,
            model: "offline".into(),
            trace_parent: String::new(),
            turn: None,
            agent: None,
            hooks: Vec::new(),
        }
        "plan_applied": PlanApplied {
            run: 2,
            revision: 1,
            plan: plan(Order::Graph),
            numbers: Vec::new(),
            request: 0,
            usage: USAGE,
            duration_ms: 2_345,
            stops: 0,
        }
        "run_waiting.in_doubt": RunWaiting { run: 2, reason: WaitReason::InDoubt }
        "run_waiting.budget": RunWaiting { run: 2, reason: WaitReason::Budget }
        "run_paused": RunPaused { run: 2, reason: "lunch".into() }
        "run_completed": RunCompleted {
            run: 2, answer: "5 of 12 files".into(), kept_through: 0, results: Vec::new(),
            journal_permille: 0
        }
        "run_completed.turn": RunCompleted {
            run: 3, answer: String::new(), kept_through: 14, results: Vec::new(), journal_permille: 0
        }
        "run_completed.full_journal": RunCompleted {
            run: 4, answer: String::new(), kept_through: 9, results: Vec::new(), journal_permille: 934
        }
        "run_failed": RunFailed {
            run: 2, failure: failure.clone(), usage: None, duration_ms: 0, kept_through: 0,
            results: Vec::new()
        }
        "run_failed.planning": RunFailed {
            run: 2, failure: failure, usage: Some(USAGE), duration_ms: 2_345, kept_through: 0,
            results: Vec::new()
        }
        "run_cancelled": RunCancelled {
            run: 2, reason: "no longer needed".into(), kept_through: 0, results: Vec::new()
        }
        "run_cancelled.kept": RunCancelled {
            run: 3,
            reason: "another turn interrupted it".into(),
            kept_through: 14,
            results: vec![OpenCall { call: CALL, output: "outcome unknown".into() }],
        }
    }
}

/// A start that another system asks for, with what models are told in addition.
fn start_for_task() -> StartRun {
    let mut plan = plan(Order::Chain);
    plan.steps[0].external_id = "T-17/1".into();
    plan.steps[0].note = "Look below docs first.".into();
    StartRun {
        goal: "Which files mention Redis?".into(),
        plan: Some(plan),
        external_id: "T-17".into(),
        note: "Use executor-research".into(),
        ..StartRun::default()
    }
}

/// A start that says what is to happen when a step fails.
fn start_on_failure() -> StartRun {
    StartRun {
        goal: "Go on".into(),
        limits: LimitOverrides {
            max_own_revisions: 2,
            on_failure: Some(OnFailure::Revise),
            ..LimitOverrides::default()
        },
        ..StartRun::default()
    }
}

fn changes() -> Kinds {
    let request = RevisePlan {
        run: 2,
        feedback: "mention the year".into(),
        plan: None,
        expected_revision: 1,
        apply: true,
    };
    let by_hand = RevisePlan {
        run: 2,
        plan: Some(plan(Order::Graph)),
        ..RevisePlan::default()
    };
    let step = ATTEMPT.step;
    let skip = Command::SkipStep(command::SkipStep {
        run: 2,
        step,
        reason: "not needed".into(),
    });
    let pause = Command::PauseRun(command::PauseRun {
        run: 2,
        reason: "lunch".into(),
    });
    let commands = [
        (
            "command_received.start_run.on_failure",
            Command::StartRun(start_on_failure()),
        ),
        ("command_received.revise_plan", Command::RevisePlan(request)),
        (
            "command_received.revise_plan.by_hand",
            Command::RevisePlan(by_hand),
        ),
        (
            "command_received.apply_proposal",
            Command::ApplyProposal(command::ApplyProposal {
                run: 2,
                proposal: 4,
            }),
        ),
        (
            "command_received.redo_step",
            Command::RedoStep(command::RedoStep { run: 2, step }),
        ),
        ("command_received.skip_step", skip),
        ("command_received.pause_run", pause),
        (
            "command_received.resume_run",
            Command::ResumeRun(command::ResumeRun { run: 2 }),
        ),
    ];
    let received = |command| {
        EventKind::CommandReceived(event::CommandReceived {
            request_id: "q-20".into(),
            command,
        })
    };
    commands
        .into_iter()
        .map(|(name, command)| (name, received(command)))
        .collect()
}

fn plans() -> Kinds {
    let mut again = plan(Order::Chain);
    again.steps[0].redo = 2;
    let limits = RunLimits {
        max_tool_turns: 11,
        max_parallel_steps: 9,
        max_own_revisions: 4,
        on_failure: OnFailure::GoOn,
        budgets: PerBudget::from([(Budget::Turns, 51)]),
        ..unlimited()
    };
    kinds! {
        "run_started.on_failure": RunStarted {
            run: 2,
            goal: "Go on".into(),
            limits: limits,
            model: String::new(),
            trace_parent: String::new(),
            turn: None,
            agent: None,
            hooks: Vec::new(),
        }
        "plan_applied.revision": PlanApplied {
            run: 2,
            revision: 2,
            plan: again,
            numbers: vec![StepNo::new(1), StepNo::new(5)],
            request: 305,
            usage: USAGE,
            duration_ms: 2_345,
            stops: 0,
        }
        "revision_requested": RevisionRequested {
            run: 2, feedback: "mention the year".into(), apply: true, request: 306, denied: 0
        }
        "plan_proposed": PlanProposed {
            run: 2,
            proposal: 4,
            base_revision: 1,
            plan: plan(Order::Graph),
            request: 306,
            usage: USAGE,
            duration_ms: 2_345,
        }
        "revision_failed": RevisionFailed {
            run: 2,
            request: 306,
            failure: failure(FailureKind::PlanParse, "BadPlan"),
            usage: USAGE,
            duration_ms: 2_345,
        }
    }
}

fn reply() -> ReplyReceived {
    let effects = [
        Effect::Pure,
        Effect::Idempotent,
        Effect::Effectful,
        Effect::State,
    ];
    let requested = |effect: Effect| RequestedCall {
        tool_digest: String::new(),
        call: tool_call(&format!("{effect:?}")),
        effect,
        previews: false,
        hooked: false,
    };
    ReplyReceived {
        attempt: ATTEMPT,
        tool_turn: 4,
        text: "I read the file first.".into(),
        calls: effects.map(requested).into(),
        opaque: vec![thought()],
        finish: FinishReason::ToolCalls,
        usage: USAGE,
        provider: "anthropic".into(),
        ops_through: 3,
        model: "offline-1".into(),
        duration_ms: 812,
        estimated_tokens: 0,
        window_tokens: 0,
        held: false,
    }
}

fn calls() -> Kinds {
    let estimated = ReplyReceived {
        estimated_tokens: 1_100,
        window_tokens: 128_000,
        ..reply()
    };
    let finished = CallFinished {
        media: Vec::new(),
        call: CALL,
        output: "no such file: a.md".into(),
        is_error: true,
        reason: "NotFound".into(),
        duration_ms: 3,
        whole: None,
        file: None,
        usage: None,
        provider: String::new(),
        model: String::new(),
        held: false,
    };
    let mut calls = kinds! {
        "call_intended": CallIntended {
            call: CALL, not_after: 1_760_000_012_000, time_limit_ms: 60_000, in_process: true
        }
        "call_in_doubt": CallInDoubt { call: CALL, settle_after: 1_760_000_072_000 }
    };
    calls.push(("reply_received", EventKind::ReplyReceived(reply())));
    calls.push((
        "reply_received.estimated",
        EventKind::ReplyReceived(estimated),
    ));
    calls.push(("call_finished", EventKind::CallFinished(finished)));
    calls.push((
        "call_finished.whole",
        EventKind::CallFinished(long_result()),
    ));
    calls.push((
        "call_finished.media",
        EventKind::CallFinished(result_with_media()),
    ));
    let read = CallFinished {
        file: Some(FileState {
            path: "src/lib.rs".into(),
            digest: "9f86d081".into(),
        }),
        ..result_with_media()
    };
    calls.push(("call_finished.file", EventKind::CallFinished(read)));
    let generated = CallFinished {
        usage: Some(USAGE),
        provider: "anthropic".into(),
        model: "offline-1".into(),
        ..result_with_media()
    };
    calls.push(("call_finished.usage", EventKind::CallFinished(generated)));
    calls
}

fn result_with_media() -> CallFinished {
    let media = |mime_type: &str, name: &str, is_shown| CallMedia {
        mime_type: mime_type.to_owned(),
        name: name.to_owned(),
        data: vec![1, 2, 3],
        is_shown,
    };
    CallFinished {
        media: vec![
            media("image/png", "chart", true),
            media("audio/wav", "", false),
        ],
        call: CALL,
        output: "seen".into(),
        is_error: false,
        reason: String::new(),
        duration_ms: 3,
        whole: None,
        file: None,
        usage: None,
        provider: String::new(),
        model: String::new(),
        held: false,
    }
}

fn long_result() -> CallFinished {
    let blob = |digest: &str, size| Blob {
        digest: digest.to_owned(),
        size,
    };
    CallFinished {
        media: Vec::new(),
        call: CALL,
        output: "the first line\n[the result is too long]".into(),
        is_error: false,
        reason: String::new(),
        duration_ms: 3,
        whole: Some(Box::new(ResultHandle {
            handle: "result-3".into(),
            bytes: 5_000_000,
            lines: 70_000,
            lost_bytes: 1_000_000,
            is_cut: false,
            blobs: vec![blob("9f86d081", 2_097_152), blob("884c7d65", 1_902_848)],
        })),
        file: None,
        usage: None,
        provider: String::new(),
        model: String::new(),
        held: false,
    }
}

fn plan(order: Order) -> PlanDraft {
    PlanDraft {
        order,
        steps: vec![
            StepDraft {
                id: "survey".into(),
                title: "Survey".into(),
                description: "List the files under docs.".into(),
                ..StepDraft::default()
            },
            StepDraft {
                id: "count".into(),
                tool: Some(ToolInvocation {
                    name: "search_files".into(),
                    arguments: r#"{"pattern":"TODO"}"#.into(),
                }),
                depends_on: vec!["survey".into()],
                capabilities: vec!["file_ops".into(), "search".into()],
                ..StepDraft::default()
            },
        ],
    }
}

fn tool_call(id: &str) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: "read_file".into(),
        arguments: r#"{"path": "docs/a.md""#.into(),
    }
}

fn failure(kind: FailureKind, reason: &str) -> Failure {
    Failure::new(kind, reason, "the provider asks to slow down")
}
