//! The kinds of events and of commands: one row each.

use super::Decoded;
use super::command::commands;
use super::error::{ConvertError, required};
use super::event::{kinds, read};
use super::wire::{OnWire, plain_record, record};
use crate::event::{self as proto, command::Kind as CommandKind, event::Kind};
use cairn_engine::command::{
    ApplyProposal, CancelRun, Command, Decide, PauseRun, RedoStep, RenameSession, ResumeRun,
    SessionRenamed, SkipStep,
};
use cairn_engine::event::{self, EventKind};

kinds! {
    same {
        session_created: SessionCreated { title, time_to_live_ms }
        command_received: CommandReceived { request_id, command }
        command_refused: CommandRefused { reason, message }
        memory_set: MemorySet { key, value, writer, metadata }
        memory_removed: MemoryRemoved { key, writer }
        memory_cleared: MemoryCleared {}
        forked_from: ForkedFrom { session, at_seq, request_id, title }
        run_started: RunStarted { run, goal, limits, model, trace_parent, turn, agent, hooks }
        revision_requested: RevisionRequested { run, feedback, apply, request, denied }
        plan_proposed: PlanProposed {
            run, proposal, base_revision, plan, request, usage, duration_ms
        }
        revision_failed: RevisionFailed { run, request, failure, usage, duration_ms }
        plan_applied: PlanApplied {
            run, revision, plan, numbers, request, usage, duration_ms, stops
        }
        run_paused: RunPaused { run, reason }
        run_waiting: RunWaiting { run, reason }
        run_resumed: RunResumed { run }
        run_taken_over: RunTakenOver { run }
        run_completed: RunCompleted {
            run, answer, kept_through, results, journal_permille
        }
        run_failed: RunFailed { run, failure, usage, duration_ms, kept_through, results }
        run_cancelled: RunCancelled { run, reason, kept_through, results }
        step_started: StepStarted {
            attempt, tool_effect, tool_digest, tool_previews, tool_hooked, context
        }
        attempt_continued: AttemptContinued { attempt }
        attempt_placed: AttemptPlaced { attempt, resources, waited_ms }
        capability_short: CapabilityShort { attempt, missing, kind }
        capability_found: CapabilityFound { attempt }
        step_completed: StepCompleted { attempt, response, summary }
        step_failed: StepFailed { attempt, failure }
        step_skipped: StepSkipped { run, step, reason, by_person, hook }
        call_settled: CallSettled { call, settlement, output }
        sub_goal_added: SubGoalAdded { attempt, index, text }
        sub_goal_focused: SubGoalFocused { attempt, index }
        sub_goal_completed: SubGoalCompleted { attempt, index, summary }
        sub_goal_dropped: SubGoalDropped { attempt, index }
        scratchpad_written: ScratchpadWritten { attempt, text, replaces, frame }
        approval_requested: ApprovalRequested { call, digest }
        question_asked: QuestionAsked { call, question, choices }
        budget_exhausted: BudgetExhausted { run, budget }
        budget_raised: BudgetRaised { run, budget, more }
        budget_refused: BudgetRefused { run, failure }
        call_held: CallHeld { call }
        compaction_requested: CompactionRequested { attempt, keep_in_mind }
        summary_asked: SummaryAsked {
            attempt, messages, prompt, estimate, max_output_tokens, again
        }
        context_compacted: ContextCompacted {
            attempt, context, messages, kind, text, usage, provider, model, duration_ms, version,
            replaced, tokens_before, tokens_after
        }
        agent_defined: AgentDefined { agent, digest, capabilities }
        context_full: ContextFull {
            attempt, cause, tokens, window, failure, usage, provider, model, duration_ms
        }
        hooks_asked: HooksAsked { gate, failure, plan }
        hooks_answered: HooksAnswered { gate, outcomes }
        hooks_changed: HooksChanged { run, missing, changed }
        hooks_pinned: HooksPinned { run, hooks }
        hooks_dropped: HooksDropped {}
        run_ending: RunEnding { run, failure, usage }
    }
    renamed {
        call_intended: CallIntended {
            call => call,
            not_after => not_after_unix_ms,
            time_limit_ms => time_limit_ms,
            in_process => in_process
        }
        decided: Decided {
            pending => pending_id,
            settlement => settlement,
            settle_after => settle_after_unix_ms,
            responses => responses_json
        }
        call_in_doubt: CallInDoubt { call => call, settle_after => settle_after_unix_ms }
    }
    records {
        reply_received: ReplyReceived
        call_finished: CallFinished
        session_renamed: SessionRenamed
        call_rejudged: CallRejudged
        call_previewed: CallPreviewed
        mode_set: ModeSet
        input_requested: InputRequested
        approval_granted: ApprovalGranted
        approval_revoked: ApprovalRevoked
        tools_found: ToolsFound
        agent_switched: AgentSwitched
        context_changed: ContextChanged
        context_created: ContextCreated
        context_switched: ContextSwitched
        context_destroyed: ContextDestroyed
        turn_queued: TurnQueued
        queued_turn_dropped: QueuedTurnDropped
    }
}

commands! {
    start_run: StartRun
    cancel_run: CancelRun
    decide: Decide
    revise_plan: RevisePlan
    apply_proposal: ApplyProposal
    redo_step: RedoStep
    rename_session: RenameSession
    skip_step: SkipStep
    pause_run: PauseRun
    resume_run: ResumeRun
    submit_turn: SubmitTurn
    cancel_turn: CancelTurn
    send_message: SendMessage
    create_context: CreateContext
    switch_context: SwitchContext
    switch_agent: SwitchAgent
    destroy_context: DestroyContext
    bridge_context: BridgeContext
    change_context: ChangeContext
    revoke_approval: RevokeApproval
    compact_context: CompactContext
    set_mode: SetMode
}

record! { SessionRenamed => proto::SessionRenamed { title } }
plain_record! { RenameSession => proto::RenameSession { title } }
plain_record! { CancelRun => proto::CancelRun { run, reason } }
plain_record! { ApplyProposal => proto::ApplyProposal { run, proposal } }
plain_record! { RedoStep => proto::RedoStep { run, step } }
plain_record! { SkipStep => proto::SkipStep { run, step, reason } }
plain_record! { PauseRun => proto::PauseRun { run, reason } }
plain_record! { ResumeRun => proto::ResumeRun { run } }
record! { Decide => proto::Decide { pending_id, settlement } }
