//! Turns that wait for the end of a run.

use crate::turns::{refusal, sent, submit, turn};
use crate::world::{World, kinds};
use cairn_engine::command::{
    CancelTurn, Command, CreateContext, DestroyContext, QueuedTurnDropped, SubmitTurn, WhenBusy,
};
use cairn_engine::decide::Input;
use cairn_engine::event::{CommandReceived, Event, EventKind};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::outstanding::Work;
use cairn_engine::principal::{Authentication, Principal};

fn queued(text: &str) -> Command {
    let when_busy = WhenBusy::Queue;
    Command::from(SubmitTurn {
        when_busy,
        ..turn(text)
    })
}

#[test]
fn a_queued_turn_begins_in_the_transition_that_ends_the_run() {
    let mut world = World::new();
    submit(&mut world, "first");
    assert_eq!(refusal(&submit(&mut world, "refused")), "RUN_ACTIVE");
    assert_eq!(kinds(&world.command(queued("second"))), ["TurnQueued"]);
    assert_eq!(kinds(&world.command(queued("third"))), ["TurnQueued"]);
    let number = world.session.queued_turns[0].number;
    let reason = "not needed".to_owned();
    let dropped = world.command(CancelTurn { number, reason }.into());
    assert_eq!(kinds(&dropped), ["QueuedTurnDropped"]);
    let reason = String::new();
    assert_eq!(
        refusal(&world.command(CancelTurn { number, reason }.into())),
        "NO_SUCH_TURN"
    );
    let before = world.session.seq;
    let ended = world.reply(1, "done", &[]);
    assert_eq!(
        kinds(&ended),
        [
            "ReplyReceived",
            "StepCompleted",
            "RunCompleted",
            "RunStarted",
            "StepStarted"
        ]
    );
    let seqs: Vec<_> = world
        .session
        .runs
        .summaries()
        .map(|run| (run.first_seq, run.last_seq))
        .collect();
    let [(_, first_end), second] = seqs[..] else {
        panic!("{seqs:?}");
    };
    assert_eq!(
        first_end,
        before + 3,
        "the events of an ended turn are found"
    );
    assert_eq!(second, (before + 4, 0));
    assert_eq!(sent(&world), ["first", "done", "third"]);
    assert_eq!(world.session, world.folded());
    assert!(
        world
            .outstanding()
            .contains(&Work::RunStep(world.attempt(1)))
    );
}

#[test]
fn at_most_sixteen_turns_wait() {
    let mut world = World::new();
    submit(&mut world, "first");
    for _ in 0..16 {
        world.command(queued("next"));
    }
    assert_eq!(refusal(&world.command(queued("one too many"))), "LIMIT");
}

fn dropped(events: &[Event]) -> &QueuedTurnDropped {
    let mut dropped = events.iter().filter_map(|event| match &event.kind {
        EventKind::QueuedTurnDropped(dropped) => Some(dropped),
        _ => None,
    });
    dropped.next().expect("a turn is dropped")
}

#[test]
fn a_queued_turn_waits_until_the_hooks_are_known() {
    let mut world = World::new();
    submit(&mut world, "first");
    world.command(queued("second"));
    world.starts_queued = false;
    let ended = world.reply(1, "done", &[]);
    let expected = ["ReplyReceived", "StepCompleted", "RunCompleted"];
    assert_eq!(kinds(&ended), expected);
    assert!(world.session.needs_owner());
    world.starts_queued = true;
    let begun = world.decide(Input::Tick);
    assert_eq!(kinds(&begun), ["RunStarted", "StepStarted"]);
}

#[test]
fn a_queued_turn_that_cannot_begin_fails_with_the_reason() {
    let mut world = World::new();
    let context = "side".to_owned();
    world.command(
        CreateContext {
            name: context.clone(),
            ..CreateContext::default()
        }
        .into(),
    );
    submit(&mut world, "first");
    let when_busy = WhenBusy::Queue;
    world.command(Command::from(SubmitTurn {
        context: context.clone(),
        when_busy,
        ..turn("second")
    }));
    world.command(
        DestroyContext {
            context,
            ..DestroyContext::default()
        }
        .into(),
    );
    let ended = world.reply(1, "done", &[]);
    let failure = dropped(&ended).failure.as_ref().expect("it failed");
    assert_eq!(failure.reason, "CONTEXT_NOT_FOUND");
    assert!(failure.message.contains("side"), "{failure}");
    assert!(world.session.queued_turns.is_empty());
    assert_eq!(world.session, world.folded());
}

#[test]
fn at_the_limit_of_the_session_turns_are_refused_and_queued_ones_fail() {
    let mut world = World::new();
    submit(&mut world, "first");
    world.command(queued("second"));
    world.foreign(EventKind::CommandReceived(CommandReceived {
        request_id: "late".to_owned(),
        command: turn("third").into(),
    }));
    let failure = Failure::new(FailureKind::LimitExceeded, "journal_events", "it is full");
    let events = world.decide(Input::LimitReached {
        failure: failure.clone(),
    });
    assert_eq!(dropped(&events).failure, Some(failure));
    assert_eq!(refusal(&events), "LIMIT");
    let Some(EventKind::CommandRefused(refused)) = events.last().map(|event| &event.kind) else {
        panic!("{events:?}");
    };
    for part in ["it is full", "cairn context export", "cairn context import"] {
        assert!(refused.message.contains(part), "{}", refused.message);
    }
}

#[test]
fn a_queued_turn_begins_for_the_person_who_submitted_it() {
    let mut world = World::new();
    submit(&mut world, "first");
    let person = Principal {
        subject: "uid:1000".to_owned(),
        namespace: "default".to_owned(),
        authentication: Authentication::Socket,
    };
    let received = Event {
        at: world.now,
        answers: 0,
        principal: Some(person.clone()),
        kind: EventKind::CommandReceived(CommandReceived {
            request_id: "theirs".to_owned(),
            command: queued("second"),
        }),
    };
    let number = world.session.seq + 1;
    world.session.apply(number, &received).unwrap();
    world.journal.push(received);
    world.decide(Input::HandleCommand);
    let events = world.reply(1, "done", &[]);
    let started = events
        .iter()
        .find(|event| matches!(event.kind, EventKind::RunStarted(_)));
    let started = started.expect("the turn begins");
    assert_eq!(started.principal.as_ref(), Some(&person));
    assert_eq!(world.run().command_seq, number);
    assert_eq!(world.session, world.folded());
}
