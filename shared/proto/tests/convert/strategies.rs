//! Any value of the engine's types, as far as the wire can hold it.

mod agents;
mod calls;
mod compaction;
mod envelope;

pub(crate) use envelope::event;

mod hooks;
mod messages;
mod turns;

pub(crate) use compaction::full_request;
pub(crate) use hooks::mutation;
pub(crate) use messages::{conversation, message, reply, thought};

use cairn_engine::command::{
    self, AtLimit, Command, LimitOverrides, OnFailure, RevisePlan, RunLimits, Settlement, StartRun,
};
use cairn_engine::event::{
    self, AttemptRef, Budget, CallFinished, CallRef, Effect, EventKind, OpenCall, ShortageKind,
    WaitReason,
};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::plan::{Order, PlanDraft, StepDraft, ToolInvocation};
use cairn_engine::pool::Missing;
use cairn_engine::refusal::Refusal;
use cairn_engine::session::{PerBudget, StepNo};
use messages::{context_changed, reply_received, usage};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

/// Times: the wire holds them with a sign.
pub(crate) fn time() -> impl Strategy<Value = u64> {
    prop_oneof![0..=i64::MAX as u64, Just(i64::MAX as u64), Just(0)]
}

fn text() -> BoxedStrategy<String> {
    prop_oneof![Just(String::new()), any::<String>()].boxed()
}

fn number() -> impl Strategy<Value = u32> {
    any::<u32>()
}

fn seq() -> impl Strategy<Value = u64> {
    any::<u64>()
}

fn limits() -> impl Strategy<Value = RunLimits> {
    let numbers = any::<[u32; 3]>();
    let flags = any::<(bool, bool)>();
    (numbers, on_failure(), flags, budgets()).prop_map(
        |(numbers, on_failure, (review_plan, asks), budgets)| {
            let [max_tool_turns, max_parallel_steps, max_own_revisions] = numbers;
            RunLimits {
                max_tool_turns,
                max_parallel_steps,
                max_own_revisions,
                on_failure,
                review_plan,
                budgets,
                at_limit: if asks { AtLimit::Ask } else { AtLimit::Fail },
            }
        },
    )
}

/// The wire holds tool turns and tool calls with 32 bits.
fn budgets() -> impl Strategy<Value = PerBudget<u64>> {
    any::<[u64; Budget::ALL.len()]>().prop_map(|most| {
        PerBudget::of(|budget| match budget {
            Budget::Turns | Budget::Calls => most[budget as usize] >> 32,
            Budget::Tokens | Budget::Cost | Budget::Time => most[budget as usize],
            Budget::ToolTurns => 0,
        })
    })
}

fn on_failure() -> impl Strategy<Value = OnFailure> {
    prop_oneof![
        Just(OnFailure::Stop),
        Just(OnFailure::GoOn),
        Just(OnFailure::Revise)
    ]
}

fn budget() -> impl Strategy<Value = Budget> {
    prop_oneof![
        Just(Budget::Turns),
        Just(Budget::Tokens),
        Just(Budget::Cost),
        Just(Budget::Time),
        Just(Budget::Calls),
        Just(Budget::ToolTurns),
    ]
}

fn at_limit() -> impl Strategy<Value = AtLimit> {
    prop_oneof![Just(AtLimit::Fail), Just(AtLimit::Ask)]
}

fn open_call() -> impl Strategy<Value = OpenCall> {
    (call(), text()).prop_map(|(call, output)| OpenCall { call, output })
}

fn waits_for() -> impl Strategy<Value = WaitReason> {
    prop_oneof![
        Just(WaitReason::InDoubt),
        Just(WaitReason::Budget),
        Just(WaitReason::Approval),
        Just(WaitReason::Question),
        Just(WaitReason::PlanReview),
        Just(WaitReason::Context),
        Just(WaitReason::Capability),
        Just(WaitReason::Hook),
    ]
}

fn shortage_kind() -> impl Strategy<Value = ShortageKind> {
    prop_oneof![Just(ShortageKind::Busy), Just(ShortageKind::None)]
}

fn missing() -> impl Strategy<Value = Missing> {
    (text(), any::<[u32; 3]>(), vec(text(), 0..3)).prop_map(|(capability, numbers, tools)| {
        let [level, available, total] = numbers;
        Missing {
            capability,
            level,
            available,
            total,
            tools,
        }
    })
}

fn effect() -> impl Strategy<Value = Effect> + Clone {
    prop_oneof![
        Just(Effect::Pure),
        Just(Effect::Idempotent),
        Just(Effect::Effectful),
        Just(Effect::State),
    ]
}

fn step_no() -> impl Strategy<Value = StepNo> {
    number().prop_map(StepNo::new)
}

fn attempt() -> impl Strategy<Value = AttemptRef> {
    (any::<u32>(), step_no(), any::<u32>()).prop_map(|(run, step, attempt)| AttemptRef {
        run,
        step,
        attempt,
    })
}

fn call() -> impl Strategy<Value = CallRef> {
    (attempt(), any::<(u32, u32)>()).prop_map(|(attempt, (tool_turn, index))| CallRef {
        attempt,
        tool_turn,
        index,
    })
}

pub(crate) fn failure() -> impl Strategy<Value = Failure> {
    let kind = prop_oneof![
        Just(FailureKind::Llm),
        Just(FailureKind::Tool),
        Just(FailureKind::Memory),
        Just(FailureKind::PlanParse),
        Just(FailureKind::HookBlocked),
        Just(FailureKind::LimitExceeded),
        Just(FailureKind::Config),
        Just(FailureKind::Other),
    ];
    let reason = prop_oneof![Just("RateLimit".to_owned()), text()];
    (kind, reason, text()).prop_map(|(kind, reason, message)| Failure::new(kind, reason, message))
}

fn settlement() -> BoxedStrategy<Settlement> {
    prop_oneof![
        text().prop_map(|output| Settlement::Done { output }),
        Just(Settlement::Retry),
        text().prop_map(|reason| Settlement::Skip { reason }),
        text().prop_map(|reason| Settlement::Fail { reason }),
        Just(Settlement::Approve),
        text().prop_map(|reason| Settlement::Deny { reason }),
        text().prop_map(|text| Settlement::Answer { text }),
        (vec(calls::condition(), 0..3), text())
            .prop_map(|(when, scope)| Settlement::ApproveAlways { when, scope }),
    ]
    .boxed()
}

fn step() -> impl Strategy<Value = StepDraft> {
    let tool = (text(), text()).prop_map(|(name, arguments)| ToolInvocation { name, arguments });
    let names = || vec(text(), 0..3);
    let texts = (text(), text(), text(), text(), text());
    (texts, option::of(tool), names(), names(), any::<u32>()).prop_map(
        |(texts, tool, depends_on, capabilities, redo)| {
            let (id, title, description, external_id, note) = texts;
            StepDraft {
                id,
                title,
                description,
                tool,
                depends_on,
                capabilities,
                redo,
                external_id,
                note,
            }
        },
    )
}

fn plan() -> BoxedStrategy<PlanDraft> {
    let order = prop_oneof![Just(Order::Chain), Just(Order::Graph)];
    (order, vec(step(), 0..4))
        .prop_map(|(order, steps)| PlanDraft { order, steps })
        .boxed()
}

fn command() -> BoxedStrategy<Command> {
    let limits = (limits(), option::of(on_failure()), option::of(at_limit()));
    let limits = limits.prop_map(|(limits, on_failure, at_limit)| LimitOverrides {
        max_tool_turns: limits.max_tool_turns,
        max_parallel_steps: limits.max_parallel_steps,
        max_own_revisions: limits.max_own_revisions,
        on_failure,
        review_plan: limits.review_plan,
        budgets: limits.budgets,
        at_limit,
    });
    let texts = (text(), text(), text(), text(), any::<bool>());
    let start = (text(), option::of(plan()), limits, texts);
    prop_oneof![
        start.prop_map(|(goal, plan, limits, texts)| {
            let (model, agent, external_id, note, answers_questions) = texts;
            Command::StartRun(StartRun {
                trace_parent: format!("00-{goal}"),
                goal,
                plan,
                limits,
                model,
                agent,
                answers_questions,
                external_id,
                note,
            })
        }),
        (any::<u32>(), text())
            .prop_map(|(run, reason)| Command::CancelRun(command::CancelRun { run, reason })),
        (text(), settlement()).prop_map(|(pending_id, settlement)| Command::Decide(
            command::Decide {
                pending_id,
                settlement
            }
        )),
        change(),
        turns::command(),
    ]
    .boxed()
}

/// Commands that change a run or its plan.
fn change() -> impl Strategy<Value = Command> {
    let request = (
        number(),
        text(),
        option::of(plan()),
        number(),
        any::<bool>(),
    );
    prop_oneof![
        request.prop_map(
            |(run, feedback, plan, expected_revision, apply)| Command::RevisePlan(RevisePlan {
                run,
                feedback,
                plan,
                expected_revision,
                apply,
            })
        ),
        (number(), number()).prop_map(|(run, proposal)| Command::ApplyProposal(
            command::ApplyProposal { run, proposal }
        )),
        (number(), step_no())
            .prop_map(|(run, step)| Command::RedoStep(command::RedoStep { run, step })),
        (number(), step_no(), text()).prop_map(|(run, step, reason)| Command::SkipStep(
            command::SkipStep { run, step, reason }
        )),
        (number(), text())
            .prop_map(|(run, reason)| Command::PauseRun(command::PauseRun { run, reason })),
        number().prop_map(|run| Command::ResumeRun(command::ResumeRun { run })),
    ]
}

pub(crate) fn call_finished() -> impl Strategy<Value = CallFinished> {
    let of_result = (text(), any::<bool>(), text(), any::<u64>());
    let whole = option::of(calls::whole());
    let file = option::of(calls::file());
    let asked = (option::of(usage()), text(), text());
    let rest = (whole, file, asked, any::<bool>());
    (call(), of_result, vec(calls::media(), 0..2), rest).prop_map(
        |(call, (output, is_error, reason, duration_ms), media, (whole, file, asked, held))| {
            let (usage, provider, model) = asked;
            CallFinished {
                call,
                output,
                is_error,
                reason,
                duration_ms,
                media,
                whole: whole.map(Box::new),
                file,
                usage,
                provider,
                model,
                held,
            }
        },
    )
}

/// Every kind by its name in the contract, its fields each from a strategy of its own.
macro_rules! kinds {
    ($($name:ident: $kind:ident { $($field:ident: $strategy:expr),+ })*) => {
        pub(crate) fn kinds() -> Vec<(&'static str, BoxedStrategy<EventKind>)> {
            let kinds = vec![
                $((
                    stringify!($name),
                    ($($strategy,)+)
                        .prop_map(|($($field,)+)| event::$kind { $($field),+ }.into())
                        .boxed(),
                ),)*
                ("memory_cleared", Just(EventKind::MemoryCleared(event::MemoryCleared {})).boxed()),
                ("reply_received", reply_received().boxed()),
                ("context_changed", context_changed().prop_map(EventKind::ContextChanged).boxed()),
                ("call_finished", call_finished().prop_map(EventKind::CallFinished).boxed()),
            ];
            let more = turns::kinds().into_iter().chain(calls::kinds());
            let more = more.chain(compaction::kinds()).chain(agents::kinds()).chain(hooks::kinds());
            kinds.into_iter().chain(more).collect()
        }
    };
}

kinds! {
    session_created: SessionCreated { title: text(), time_to_live_ms: seq() }
    command_received: CommandReceived { request_id: text(), command: command() }
    command_refused: CommandRefused { reason: select(Refusal::ALL), message: text() }
    memory_set: MemorySet {
        key: text(), value: text(), writer: messages::writer(), metadata: btree_map(text(), text(), 0..3)
    }
    memory_removed: MemoryRemoved { key: text(), writer: messages::writer() }
    forked_from: ForkedFrom { session: text(), at_seq: seq(), request_id: text(), title: text() }
    run_started: RunStarted {
        run: number(), goal: text(), limits: limits(), model: text(), trace_parent: text(),
        turn: option::of(turns::started()), agent: option::of(agents::used()),
        hooks: vec(hooks::pinned(), 0..3)
    }
    revision_requested: RevisionRequested {
        run: number(), feedback: text(), apply: any::<bool>(), request: seq(), denied: number()
    }
    plan_proposed: PlanProposed {
        run: number(), proposal: number(), base_revision: number(), plan: plan(),
        request: seq(), usage: usage(), duration_ms: seq()
    }
    revision_failed: RevisionFailed {
        run: number(), request: seq(), failure: failure(), usage: usage(), duration_ms: seq()
    }
    plan_applied: PlanApplied {
        run: number(), revision: number(), plan: plan(), numbers: vec(step_no(), 0..4),
        request: seq(), usage: usage(), duration_ms: seq(), stops: number()
    }
    run_paused: RunPaused { run: number(), reason: text() }
    run_waiting: RunWaiting { run: number(), reason: waits_for() }
    run_resumed: RunResumed { run: number() }
    run_taken_over: RunTakenOver { run: number() }
    approval_requested: ApprovalRequested { call: call(), digest: text() }
    question_asked: QuestionAsked { call: call(), question: text(), choices: vec(text(), 0..3) }
    budget_exhausted: BudgetExhausted { run: number(), budget: budget() }
    budget_raised: BudgetRaised { run: number(), budget: budget(), more: seq() }
    budget_refused: BudgetRefused { run: number(), failure: failure() }
    call_held: CallHeld { call: call() }
    run_completed: RunCompleted {
        run: number(), answer: text(), kept_through: number(), results: vec(open_call(), 0..3),
        journal_permille: number()
    }
    run_failed: RunFailed {
        run: number(), failure: failure(), usage: option::of(usage()), duration_ms: seq(),
        kept_through: number(), results: vec(open_call(), 0..3)
    }
    run_cancelled: RunCancelled {
        run: number(), reason: text(), kept_through: number(), results: vec(open_call(), 0..3)
    }
    step_started: StepStarted { attempt: attempt(), tool_effect: option::of(effect()), tool_digest: text(),
        tool_previews: any::<bool>(), tool_hooked: any::<bool>(), context: text() }
    attempt_continued: AttemptContinued { attempt: attempt() }
    attempt_placed: AttemptPlaced {
        attempt: attempt(), resources: vec(text(), 0..3), waited_ms: seq()
    }
    capability_short: CapabilityShort {
        attempt: attempt(), missing: vec(missing(), 0..3), kind: shortage_kind()
    }
    capability_found: CapabilityFound { attempt: attempt() }
    step_completed: StepCompleted { attempt: attempt(), response: text(), summary: text() }
    step_failed: StepFailed { attempt: attempt(), failure: failure() }
    step_skipped: StepSkipped {
        run: number(), step: step_no(), reason: text(), by_person: any::<bool>(), hook: text()
    }
    call_intended: CallIntended {
        call: call(), not_after: time(), time_limit_ms: seq(), in_process: any::<bool>()
    }
    call_in_doubt: CallInDoubt { call: call(), settle_after: time() }
    decided: Decided {
        pending: envelope::pending(), settlement: settlement(), settle_after: time(),
        responses: text()
    }
    call_settled: CallSettled { call: call(), settlement: settlement(), output: text() }
    sub_goal_added: SubGoalAdded { attempt: attempt(), index: number(), text: text() }
    sub_goal_focused: SubGoalFocused { attempt: attempt(), index: number() }
    sub_goal_completed: SubGoalCompleted { attempt: attempt(), index: number(), summary: text() }
    sub_goal_dropped: SubGoalDropped { attempt: attempt(), index: number() }
    scratchpad_written: ScratchpadWritten {
        attempt: attempt(), text: text(), replaces: any::<bool>(), frame: messages::frame()
    }
}
