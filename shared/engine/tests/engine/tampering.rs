//! A journal in which one event was changed or repeated is refused at that event.

use crate::play::{Op, ops};
use crate::world::World;
use cairn_engine::event::{AttemptRef, CallRef, Event, EventKind};
use cairn_engine::state::Session;
use proptest::prelude::*;

/// The events that would say something else of the same thing, and something of nothing.
fn mutants(kind: &EventKind) -> Vec<EventKind> {
    let mut mutants = Vec::new();
    let changes: [fn(&mut AttemptRef); 4] = [
        |it| it.run += 9,
        |it| it.step += 100,
        |it| it.step = 0,
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
        EventKind::StepStarted { attempt, .. }
        | EventKind::AttemptContinued { attempt }
        | EventKind::StepCompleted { attempt, .. }
        | EventKind::StepFailed { attempt, .. }
        | EventKind::SubGoalAdded { attempt, .. }
        | EventKind::SubGoalFocused { attempt, .. }
        | EventKind::SubGoalCompleted { attempt, .. }
        | EventKind::SubGoalDropped { attempt, .. }
        | EventKind::ScratchpadWritten { attempt, .. } => Some(attempt),
        EventKind::ReplyReceived(reply) => Some(&mut reply.attempt),
        other => call_of(other).map(|call| &mut call.attempt),
    }
}

fn call_of(kind: &mut EventKind) -> Option<&mut CallRef> {
    match kind {
        EventKind::CallFinished(finished) => Some(&mut finished.call),
        EventKind::CallIntended { call, .. }
        | EventKind::CallInDoubt { call, .. }
        | EventKind::Decided { call, .. }
        | EventKind::CallSettled { call, .. } => Some(call),
        _ => None,
    }
}

/// Kinds of which a second one, right after the first, says nothing that can be.
fn happens_once(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::SessionCreated { .. }
            | EventKind::RunStarted { .. }
            | EventKind::PlanApplied { .. }
            | EventKind::RunWaiting { .. }
            | EventKind::RunResumed { .. }
            | EventKind::RunCompleted { .. }
            | EventKind::RunFailed { .. }
            | EventKind::RunCancelled { .. }
            | EventKind::StepStarted { .. }
            | EventKind::StepCompleted { .. }
            | EventKind::StepFailed { .. }
            | EventKind::StepSkipped { .. }
            | EventKind::SubGoalAdded { .. }
            | EventKind::SubGoalCompleted { .. }
            | EventKind::SubGoalDropped { .. }
            | EventKind::ReplyReceived(_)
            | EventKind::CallFinished(_)
            | EventKind::CallInDoubt { .. }
            | EventKind::CallSettled { .. }
            | EventKind::Decided { .. }
    )
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
                let mutant = Event { at: event.at, kind };
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
