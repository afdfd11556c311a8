//! What can be seen of a session: its state, and views of its journal.

use crate::key::SessionKey;
use crate::store::{Quarantine, agent_of, status_of};
use cairn_engine::command::{always_covers, approval_scopes};
use cairn_engine::decide::ToolList;
use cairn_engine::event::WaitReason;
use cairn_engine::pending::{Asked, Pending, pending};
use cairn_engine::rules::{ApprovalScope, SHELL_TOOL};
use cairn_engine::session::{
    HookAsk, PastDecision, PlanState, Run, RunStatus, RunSummary, Session, Step, StepNo, StepStatus,
};
use cairn_proto::event as wire;
use cairn_proto::{memory, orchestrator as pb};
use cairn_rpc::{ErrorKind, RpcError};
use cairn_views::{decisions, title};
use serde_json::Value as Json;

/// The run of that number, or the latest for 0.
pub(crate) fn run_of(session: &Session, number: u32) -> Result<RunSummary<'_>, RpcError> {
    let found = match number {
        0 => session.runs.last().map(Run::summary),
        number => session.runs.summary(number),
    };
    found.ok_or_else(|| no_such_run(number))
}

/// The error for a run that is not there; 0 is asked for where there is none.
pub(crate) fn no_such_run(number: u32) -> RpcError {
    let error = match number {
        0 => RpcError::new(ErrorKind::NotFound, "the session has no run yet"),
        number => RpcError::not_found("run", number.to_string()),
    };
    error.reason("NO_SUCH_RUN")
}

pub(crate) fn session_message(
    id: &str,
    session: &Session,
    quarantine: Option<Quarantine>,
) -> pb::Session {
    pb::Session {
        id: id.to_owned(),
        title: title::of_session(session),
        status: public_status(status_of(session), quarantine).into(),
        created_unix_ms: ms(session.created_at),
        updated_unix_ms: ms(session.updated_at),
        last_seq: session.seq,
        runs: session.runs.len() as u32,
        latest_run: session.runs.last().map(Run::summary).map(run_message),
        usage: Some(session.usage.into()),
        forked_from: session.forked_from.as_ref().map(|origin| pb::ForkOrigin {
            session: origin.session.clone(),
            seq: origin.seq,
        }),
        quarantine_reason: Quarantine::to_public(quarantine),
        decisions: session.decisions.iter().map(decision_message).collect(),
        active_context: session.active_context.clone(),
        agent: agent_of(session).to_owned(),
        turn_index: session.context("").map_or(0, |context| context.turns),
        queued_turns: session.queued_turns.iter().map(|it| it.number).collect(),
        mode: wire::Mode::from(session.mode).into(),
        ..pb::Session::default()
    }
}

fn decision_message(decision: &PastDecision) -> pb::PastDecision {
    pb::PastDecision {
        at_unix_ms: ms(decision.at),
        run: decision.run,
        step: decision.step.into(),
        what: decisions::words(&decision.kind),
        principal: Some(decision.principal.clone().into()),
    }
}

pub(crate) fn run_message(run: RunSummary<'_>) -> pb::Run {
    let (status, wait) = match run.status {
        RunStatus::Planning => (pb::RunStatus::Planning, None),
        RunStatus::Running => (pb::RunStatus::Running, None),
        RunStatus::Waiting(reason) => (pb::RunStatus::Waiting, Some(reason)),
        RunStatus::Paused => (pb::RunStatus::Paused, None),
        RunStatus::Completed => (pb::RunStatus::Completed, None),
        RunStatus::Failed => (pb::RunStatus::Failed, None),
        RunStatus::Cancelled => (pb::RunStatus::Cancelled, None),
    };
    let steps = run.plan.into_iter().flat_map(PlanState::current);
    pb::Run {
        number: run.number,
        goal: run.goal.to_owned(),
        status: status.into(),
        wait_reason: wait
            .map_or(wire::WaitReason::Unspecified, Into::into)
            .into(),
        started_unix_ms: ms(run.started_at),
        ended_unix_ms: run.ended_at.map_or(0, ms),
        answer: run.answer.to_owned(),
        failure: run.failure.cloned().map(Into::into),
        usage: Some(run.usage.into()),
        tool_turns: run.tool_turns,
        steps: steps.clone().count() as u32,
        steps_done: steps.filter(|(_, step)| step.is_done()).count() as u32,
        cancel_reason: run.cancel_reason.to_owned(),
        context: run.context.unwrap_or_default().to_owned(),
        is_compaction: run.is_compaction,
        first_seq: run.first_seq,
        last_seq: run.last_seq,
        agent: run.agent.cloned().map(Into::into),
        // It takes a look at the agent as it is now.
        agent_changed: false,
    }
}

pub(crate) fn plan_message(run: RunSummary<'_>) -> pb::GetPlanResponse {
    let Some(plan) = run.plan else {
        return pb::GetPlanResponse {
            run: run.number,
            ..pb::GetPlanResponse::default()
        };
    };
    let ids: Vec<&str> = plan
        .steps
        .iter()
        .map(|step| step.plan.id.as_str())
        .collect();
    let steps = plan.current();
    let steps = steps.map(|(number, step)| planned_step(step, number, &ids));
    pb::GetPlanResponse {
        run: run.number,
        revision: plan.revision,
        order: wire::Order::from(plan.order).into(),
        steps: steps.collect(),
    }
}

fn planned_step(step: &Step, number: StepNo, ids: &[&str]) -> pb::PlannedStep {
    let mut message = pb::PlannedStep {
        number: number.into(),
        step: Some(step_message(step, ids)),
        key: step.key.to_string(),
        attempts: step.attempts,
        tool_turns: step.tool_turns,
        usage: Some(step.usage.into()),
        started_unix_ms: step.started.map_or(0, |moment| ms(moment.at)),
        ended_unix_ms: step.ended.map_or(0, |moment| ms(moment.at)),
        notes: step.notes(),
        ..pb::PlannedStep::default()
    };
    let status = match &step.status {
        StepStatus::Pending => pb::StepStatus::Pending,
        StepStatus::Running(_) => pb::StepStatus::Running,
        StepStatus::Completed { response, summary } => {
            message.response.clone_from(response);
            message.summary.clone_from(summary);
            pb::StepStatus::Completed
        }
        StepStatus::Failed { failure } => {
            message.failure = Some(failure.clone().into());
            pb::StepStatus::Failed
        }
        StepStatus::Skipped { reason, .. } => {
            message.skip_reason.clone_from(reason);
            pb::StepStatus::Skipped
        }
    };
    message.status = status.into();
    message
}

fn step_message(step: &Step, ids: &[&str]) -> wire::PlanStep {
    let depends_on = step
        .plan
        .depends_on
        .iter()
        .filter_map(|slot| ids.get(slot.index()));
    wire::PlanStep {
        id: step.plan.id.clone(),
        title: step.plan.title.clone(),
        description: step.plan.description.clone(),
        tool: step.plan.tool.clone().map(Into::into),
        depends_on: depends_on.map(|&id| id.to_owned()).collect(),
        capabilities: step.plan.capabilities.clone(),
        redo: step.plan.redo,
        external_id: step.plan.external_id.clone(),
        note: step.plan.note.clone(),
    }
}

/// The open questions of a session. `tools` says what an approval would cover.
pub(crate) fn pending_messages(
    key: &SessionKey,
    session: &Session,
    tools: &ToolList,
) -> Vec<pb::Pending> {
    let covers = |open: &Pending| match &open.asked {
        Asked::Approval { name, .. } => always_covers(session, *name, tools),
        _ => None,
    };
    let scopes_of = |open: &Pending| match &open.asked {
        Asked::Approval { name, .. } => approval_scopes(session, *name, tools),
        _ => Vec::new(),
    };
    let scope = |offered: ApprovalScope| pb::ApprovalScope {
        id: offered.id.to_string(),
        scope: offered.scope.map(Into::into),
    };
    let message = |open: Pending| {
        let scopes = scopes_of(&open).into_iter().map(scope).collect();
        let always_covers = covers(&open).map(|when| pb::Coverage {
            when: when.into_iter().map(Into::into).collect(),
        });
        let message = pb::Pending {
            always_covers,
            scopes,
            ..pending_message(key, session, open)
        };
        with_command(message, tools)
    };
    pending(session).into_iter().map(message).collect()
}

/// Adds to the question whether a command may run what the command is, and what it opens.
fn with_command(mut message: pb::Pending, tools: &ToolList) -> pb::Pending {
    let is_asked = message.reason() == wire::WaitReason::Approval && message.tool == SHELL_TOOL;
    if !is_asked {
        return message;
    }
    let arguments = serde_json::from_str(&message.arguments_json).unwrap_or(Json::Null);
    let text = |name: &str| arguments.get(name).and_then(Json::as_str);
    message.command = text("command").unwrap_or_default().to_owned();
    message.folder = text("cwd").unwrap_or(".").to_owned();
    let opens = tools.get(SHELL_TOOL).map(|tool| tool.opens.clone());
    message.opens = opens.unwrap_or_default();
    message
}

fn pending_message(key: &SessionKey, session: &Session, open: Pending) -> pb::Pending {
    let message = pb::Pending {
        session: key.id.to_string(),
        id: open.id().to_string(),
        answered: open.is_answered,
        since_unix_ms: ms(open.since),
        ..pb::Pending::default()
    };
    let reason = |reason: WaitReason| wire::WaitReason::from(reason).into();
    match open.asked {
        Asked::Budget {
            run,
            budget,
            used,
            allowed,
            waiting,
        } => pb::Pending {
            reason: reason(WaitReason::Budget),
            run,
            budget: wire::Budget::from(budget).into(),
            used,
            allowed,
            waiting,
            ..message
        },
        Asked::Plan {
            run,
            proposal,
            plan,
        } => pb::Pending {
            reason: reason(WaitReason::PlanReview),
            run,
            plan: Some(plan.into()),
            proposal,
            ..message
        },
        Asked::Context {
            name,
            cause,
            tokens,
            window,
            failure,
        } => pb::Pending {
            reason: reason(WaitReason::Context),
            run: name.run,
            step: name.step.into(),
            cause: wire::FullCause::from(cause).into(),
            tokens,
            window_tokens: window,
            failure: failure.map(Into::into),
            ..message
        },
        Asked::Shortage { name, missing } => pb::Pending {
            reason: reason(WaitReason::Capability),
            run: name.run,
            step: name.step.into(),
            missing: missing.into_iter().map(Into::into).collect(),
            ..message
        },
        other => pending_call_message(key, session, other, message),
    }
}

/// Adds what is asked about a call, or because of hooks.
fn pending_call_message(
    key: &SessionKey,
    session: &Session,
    asked: Asked,
    mut message: pb::Pending,
) -> pb::Pending {
    let (name, reason, call) = match asked {
        Asked::Hook { run, ask } => return pending_hook_message(run, ask, message),
        Asked::Doubt {
            name,
            call,
            settle_after,
        } => {
            message.settle_after_unix_ms = ms(settle_after);
            (name, WaitReason::InDoubt, Some(call))
        }
        Asked::Approval {
            name,
            call,
            preview,
        } => {
            message.preview = preview.map(|preview| (*preview).into());
            (name, WaitReason::Approval, Some(call))
        }
        Asked::Question {
            name,
            question,
            choices,
        } => {
            (message.question, message.choices) = (question, choices);
            (name, WaitReason::Question, None)
        }
        Asked::Budget { .. }
        | Asked::Plan { .. }
        | Asked::Context { .. }
        | Asked::Shortage { .. } => return message,
    };
    message.reason = wire::WaitReason::from(reason).into();
    message.run = name.attempt.run;
    message.step = name.attempt.step.into();
    message.call_key = session.call_key(key.namespace.as_str(), &key.id, name);
    if let Some(call) = call {
        (message.tool, message.arguments_json) = (call.name, call.arguments);
    }
    if let Some(call) = session.call(name) {
        if let Some(demand) = &call.demand {
            message.hook.clone_from(&demand.hook);
            message.hook_reason.clone_from(&demand.reason);
        }
        if reason != WaitReason::Question && call.arguments() != call.call.arguments {
            message
                .asked_arguments_json
                .clone_from(&call.call.arguments);
        }
    }
    message
}

/// Adds what hooks ask about a run or a step, or which of them the run lacks.
fn pending_hook_message(run: u32, ask: HookAsk, message: pb::Pending) -> pb::Pending {
    let message = pb::Pending {
        reason: wire::WaitReason::Hook.into(),
        run,
        ..message
    };
    match ask {
        HookAsk::Changed {
            missing, changed, ..
        } => pb::Pending {
            missing_hooks: missing,
            changed_hooks: changed,
            ..message
        },
        HookAsk::Approval {
            gate, hook, reason, ..
        } => pb::Pending {
            step: gate.attempt.step.into(),
            hook,
            hook_reason: reason,
            ..message
        },
    }
}

/// Milliseconds as the contracts have them.
pub(crate) fn ms(at: u64) -> i64 {
    i64::try_from(at).unwrap_or(i64::MAX)
}

/// What clients are told of a session, given what its owner noted.
pub(crate) fn public_status(
    noted: memory::SessionStatus,
    quarantine: Option<Quarantine>,
) -> pb::SessionStatus {
    match noted {
        _ if quarantine.is_some() => pb::SessionStatus::Quarantined,
        memory::SessionStatus::Running => pb::SessionStatus::Running,
        memory::SessionStatus::Waiting => pb::SessionStatus::Waiting,
        memory::SessionStatus::Paused => pb::SessionStatus::Paused,
        memory::SessionStatus::Idle | memory::SessionStatus::Unspecified => pb::SessionStatus::Idle,
    }
}
