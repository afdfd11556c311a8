//! A journal in which one event was changed or repeated is refused at that event.

use crate::play::{Op, ops};
use crate::world::World;
use cairn_engine::event::{self, AttemptRef, CallRef, Event, EventKind};
use cairn_engine::pending::Subject;
use cairn_engine::session::Session;
use proptest::prelude::*;

/// The events that would say something else of the same thing, and something of nothing.
fn mutants(kind: &EventKind) -> Vec<EventKind> {
    let mut mutants = Vec::new();
    let changes: [fn(&mut AttemptRef); 4] = [
        |it| it.run += 9,
        |it| it.step = (u32::from(it.step) + 100).into(),
        |it| it.step = 0.into(),
        |it| it.attempt += 1,
    ];
    for change in changes {
        let mut mutant = kind.clone();
        if let Some(attempt) = attempt_of(&mut mutant) {
            change(attempt);
            mutants.push(mutant);
        }
    }
    let changes: [fn(&mut CallRef); 2] = [|it| it.tool_turn += 1, |it| it.index += 50];
    for change in changes {
        let mut mutant = kind.clone();
        if let Some(call) = call_of(&mut mutant) {
            change(call);
            mutants.push(mutant);
        }
    }
    if let EventKind::ReplyReceived(reply) = kind {
        let mut reply = reply.clone();
        reply.tool_turn += 1;
        mutants.push(EventKind::ReplyReceived(reply));
    }
    mutants
}

fn attempt_of(kind: &mut EventKind) -> Option<&mut AttemptRef> {
    match kind {
        EventKind::StepStarted(event::StepStarted { attempt, .. })
        | EventKind::AttemptContinued(event::AttemptContinued { attempt })
        | EventKind::StepCompleted(event::StepCompleted { attempt, .. })
        | EventKind::StepFailed(event::StepFailed { attempt, .. })
        | EventKind::SubGoalAdded(event::SubGoalAdded { attempt, .. })
        | EventKind::SubGoalFocused(event::SubGoalFocused { attempt, .. })
        | EventKind::SubGoalCompleted(event::SubGoalCompleted { attempt, .. })
        | EventKind::SubGoalDropped(event::SubGoalDropped { attempt, .. })
        | EventKind::ScratchpadWritten(event::ScratchpadWritten { attempt, .. }) => Some(attempt),
        EventKind::CompactionRequested(event::CompactionRequested { attempt, .. })
        | EventKind::SummaryAsked(event::SummaryAsked { attempt, .. })
        | EventKind::ContextCompacted(event::ContextCompacted { attempt, .. })
        | EventKind::ContextFull(event::ContextFull { attempt, .. })
        | EventKind::AttemptPlaced(event::AttemptPlaced { attempt, .. })
        | EventKind::CapabilityShort(event::CapabilityShort { attempt, .. })
        | EventKind::CapabilityFound(event::CapabilityFound { attempt }) => Some(attempt),
        EventKind::ReplyReceived(reply) => Some(&mut reply.attempt),
        other => call_of(other).map(|call| &mut call.attempt),
    }
}

fn call_of(kind: &mut EventKind) -> Option<&mut CallRef> {
    match kind {
        EventKind::CallFinished(finished) => Some(&mut finished.call),
        EventKind::Decided(decided) => match &mut decided.pending.subject {
            Subject::Call(call) | Subject::Approval(call) | Subject::Question(call) => Some(call),
            Subject::Budget { .. }
            | Subject::Plan { .. }
            | Subject::Context(_)
            | Subject::Shortage(_)
            | Subject::Hook { .. } => None,
        },
        EventKind::CallIntended(event::CallIntended { call, .. })
        | EventKind::CallInDoubt(event::CallInDoubt { call, .. })
        | EventKind::CallSettled(event::CallSettled { call, .. }) => Some(call),
        _ => None,
    }
}

/// Kinds of which a second one, right after the first, says nothing that can be.
fn happens_once(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::SessionCreated(_)
            | EventKind::RunStarted(_)
            | EventKind::PlanApplied(_)
            | EventKind::RunWaiting(_)
            | EventKind::RunResumed(_)
            | EventKind::RunCompleted(_)
            | EventKind::RunFailed(_)
            | EventKind::RunCancelled(_)
            | EventKind::StepStarted(_)
            | EventKind::StepCompleted(_)
            | EventKind::StepFailed(_)
            | EventKind::StepSkipped(_)
            | EventKind::SubGoalAdded(_)
            | EventKind::SubGoalCompleted(_)
            | EventKind::SubGoalDropped(_)
            | EventKind::ReplyReceived(_)
            | EventKind::CallFinished(_)
            | EventKind::CallInDoubt(_)
            | EventKind::CallSettled(_)
            | EventKind::CapabilityShort(_)
            | EventKind::CapabilityFound(_)
    ) || matches!(kind, EventKind::Decided(decided) if decided.pending.call().is_some())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_journal_that_was_tampered_with_is_refused(ops in ops()) {
        let mut world = World::new();
        ops.iter().for_each(|op: &Op| world.play(op));
        let mut session = Session::default();
        for (event, seq) in world.journal.iter().zip(1..) {
            for kind in mutants(&event.kind) {
                let mutant = Event { kind, ..event.clone() };
                prop_assert!(session.clone().apply(seq, &mutant).is_err(), "taken: {mutant:?}");
            }
            session.apply(seq, event).unwrap();
            if happens_once(&event.kind) {
                let again = session.clone().apply(seq + 1, event);
                prop_assert!(again.is_err(), "taken twice: {event:?}");
            }
        }
    }
}
