//! What a journal says: its state, its events by name.

use super::World;
use super::words::{chain, complete, look, model_step, step_call, tool_call, tool_step};
use cairn_engine::command::{Command, StartRun};
use cairn_engine::event::{self, AttemptRef, Event, EventKind};
use cairn_engine::pending::Subject;
use cairn_engine::session::Session;
use serde_json::json;

/// Folds a journal from its start.
pub(crate) fn fold(journal: &[Event]) -> Session {
    let mut session = Session::default();
    for (event, seq) in journal.iter().zip(1..) {
        session.apply(seq, event).unwrap();
    }
    session
}

/// The step context that an attempt under way began with.
pub(crate) fn step_context(session: &Session, attempt: AttemptRef) -> Option<String> {
    let began_with = &session.attempt(attempt)?.conversation.immutable;
    began_with.first().map(|entry| entry.message.text())
}

/// The names of the events' kinds, as far as they matter for their order.
pub(crate) fn kinds(events: &[Event]) -> Vec<String> {
    let name = |event: &Event| {
        let text = format!("{:?}", event.kind);
        let end = text.find([' ', '(', '{']).unwrap_or(text.len());
        text[..end].to_owned()
    };
    events.iter().map(name).collect()
}

/// The run that an event is about; none for what concerns the session.
pub(crate) fn run_of(event: &Event) -> Option<u32> {
    use EventKind as E;
    match &event.kind {
        E::RunStarted(event::RunStarted { run, .. })
        | E::RevisionRequested(event::RevisionRequested { run, .. })
        | E::PlanProposed(event::PlanProposed { run, .. })
        | E::RevisionFailed(event::RevisionFailed { run, .. })
        | E::PlanApplied(event::PlanApplied { run, .. })
        | E::RunPaused(event::RunPaused { run, .. })
        | E::RunWaiting(event::RunWaiting { run, .. })
        | E::RunResumed(event::RunResumed { run, .. })
        | E::RunTakenOver(event::RunTakenOver { run })
        | E::BudgetExhausted(event::BudgetExhausted { run, .. })
        | E::BudgetRaised(event::BudgetRaised { run, .. })
        | E::BudgetRefused(event::BudgetRefused { run, .. })
        | E::RunCompleted(event::RunCompleted { run, .. })
        | E::RunFailed(event::RunFailed { run, .. })
        | E::RunCancelled(event::RunCancelled { run, .. })
        | E::StepSkipped(event::StepSkipped { run, .. }) => Some(*run),
        E::StepStarted(event::StepStarted { attempt, .. })
        | E::AttemptContinued(event::AttemptContinued { attempt })
        | E::AttemptPlaced(event::AttemptPlaced { attempt, .. })
        | E::CapabilityShort(event::CapabilityShort { attempt, .. })
        | E::CapabilityFound(event::CapabilityFound { attempt })
        | E::StepCompleted(event::StepCompleted { attempt, .. })
        | E::StepFailed(event::StepFailed { attempt, .. })
        | E::SubGoalAdded(event::SubGoalAdded { attempt, .. })
        | E::SubGoalFocused(event::SubGoalFocused { attempt, .. })
        | E::SubGoalCompleted(event::SubGoalCompleted { attempt, .. })
        | E::SubGoalDropped(event::SubGoalDropped { attempt, .. })
        | E::ScratchpadWritten(event::ScratchpadWritten { attempt, .. }) => Some(attempt.run),
        E::CompactionRequested(event::CompactionRequested { attempt, .. })
        | E::SummaryAsked(event::SummaryAsked { attempt, .. })
        | E::ContextCompacted(event::ContextCompacted { attempt, .. })
        | E::ContextFull(event::ContextFull { attempt, .. }) => Some(attempt.run),
        E::ReplyReceived(reply) => Some(reply.attempt.run),
        E::CallFinished(finished) => Some(finished.call.attempt.run),
        E::Decided(decided) => Some(match decided.pending.subject {
            Subject::Call(call) | Subject::Approval(call) | Subject::Question(call) => {
                call.attempt.run
            }
            Subject::Budget { run } | Subject::Plan { run, .. } | Subject::Hook { run } => run,
            Subject::Context(attempt) | Subject::Shortage(attempt) => attempt.run,
        }),
        E::CallIntended(event::CallIntended { call, .. })
        | E::CallHeld(event::CallHeld { call })
        | E::CallInDoubt(event::CallInDoubt { call, .. })
        | E::ApprovalRequested(event::ApprovalRequested { call, .. })
        | E::QuestionAsked(event::QuestionAsked { call, .. })
        | E::CallSettled(event::CallSettled { call, .. }) => Some(call.attempt.run),
        _ => None,
    }
}

/// A run that shows everything: a planner, thoughts, parallel calls, parts of a step, a tool step,
/// and a step that is still under way.
pub(crate) fn explored() -> World {
    let mut world = World::new();
    world.command(Command::StartRun(StartRun {
        goal: "Change the configuration".to_owned(),
        trace_parent: "00-abc123-0-01".to_owned(),
        ..StartRun::default()
    }));
    world.now += 1_000;
    world.planned(Ok(chain(vec![
        model_step("Explore"),
        tool_step("Count", "look"),
        model_step("Change"),
        model_step("Test"),
    ])));
    world.now += 1_000;
    let send = tool_call("send", &json!({"to": "ops", "lines": 3, "tags": ["a"]}));
    world.reply(1, "I need the layout first. Then more.", &[look(), send]);
    world.now += 1_000;
    world.result(1, 0, "15 files\nsrc/main.rs");
    world.error(1, 1, "ExecutionFailed");
    world.reply(
        1,
        "",
        &[step_call(&json!({"plan": ["Read it"], "focus": "Read it"}))],
    );
    world.reply(1, "", &[look()]);
    world.result(1, 0, "host = db");
    world.reply(
        1,
        "",
        &[step_call(
            &json!({"complete": true, "summary": "The host is db."}),
        )],
    );
    world.now += 1_000;
    world.reply(1, "All is known.", &[complete("The file is src/config.")]);
    world.now += 500;
    world.result(2, 0, "31 lines");
    world.reply(3, "Now I change it.", &[look()]);
    world
}
