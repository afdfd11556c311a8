//! Events that do not fit are refused, and the refusal names what is wrong.

use crate::turns::submit;
use crate::world::{
    World, chain, complete, finished, fold, graph, look, model_step, send, tool_step,
};
use cairn_engine::command::Settlement;
use cairn_engine::decide::Input;
use cairn_engine::event::{self, AttemptRef, CallRef, Effect, Event, EventKind};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::pending::{PendingId, Subject};
use cairn_engine::plan::PlanDraft;
use cairn_engine::session::{MAIN, Session};

/// The refusal of an event in a state.
pub(crate) fn refusal(session: &Session, kind: EventKind) -> String {
    let event = Event {
        at: 1,
        answers: 0,
        principal: None,
        kind,
    };
    let mut session = session.clone();
    match session.apply(session.seq + 1, &event) {
        Ok(()) => panic!("taken: {event:?}"),
        Err(error) => error.to_string(),
    }
}

fn attempt(step: u32, attempt: u32) -> AttemptRef {
    AttemptRef {
        run: 1,
        step: step.into(),
        attempt,
    }
}

fn call(step: u32, tool_turn: u32, index: u32) -> CallRef {
    CallRef {
        attempt: attempt(step, 1),
        tool_turn,
        index,
    }
}

fn completed(attempt: AttemptRef) -> EventKind {
    EventKind::StepCompleted(event::StepCompleted {
        attempt,
        response: String::new(),
        summary: String::new(),
    })
}

fn started(attempt: AttemptRef) -> EventKind {
    started_with(attempt, None)
}

fn started_with(attempt: AttemptRef, tool_effect: Option<Effect>) -> EventKind {
    EventKind::StepStarted(event::StepStarted {
        tool_digest: String::new(),
        tool_previews: false,
        context: String::new(),
        attempt,
        tool_effect,
        tool_hooked: false,
    })
}

fn result(call: CallRef) -> EventKind {
    EventKind::CallFinished(finished(call, "output", ""))
}

/// Step 1 runs: it has looked and is about to send. Steps 2 and 3 wait for it.
fn world() -> World {
    let mut world = World::with_plan(chain(vec![
        model_step("one"),
        model_step("two"),
        tool_step("three", "look"),
    ]));
    world.reply(1, "", &[look(), send()]);
    world.result(1, 0, "text");
    world
}

#[test]
fn events_about_the_wrong_step_or_attempt_are_refused() {
    let session = world().session;
    let cases = [
        (
            started(attempt(2, 1)),
            "illegal transition of step 2: \"not ready\" → Running",
        ),
        (
            started(attempt(1, 2)),
            "illegal transition of step 1: \"not ready\" → Running",
        ),
        (
            started(attempt(9, 1)),
            "illegal event: step 9 does not exist",
        ),
        (
            completed(attempt(2, 1)),
            "illegal event: running attempt 1 of step 2 does not exist",
        ),
        (
            completed(attempt(1, 2)),
            "illegal event: running attempt 2 of step 1 does not exist",
        ),
        (
            completed(attempt(9, 1)),
            "illegal event: step 9 does not exist",
        ),
        (
            completed(attempt(0, 1)),
            "illegal event: step 0 does not exist",
        ),
        (
            EventKind::StepSkipped(event::StepSkipped {
                run: 1,
                step: 9.into(),
                reason: String::new(),
                by_person: false,
                hook: String::new(),
            }),
            "illegal event: step 9 does not exist",
        ),
        (
            EventKind::RunResumed(event::RunResumed { run: 2 }),
            "illegal event: run 2 does not exist",
        ),
        (
            EventKind::SubGoalFocused(event::SubGoalFocused {
                attempt: attempt(1, 1),
                index: 0,
            }),
            "illegal event: open sub-goal 0 does not exist",
        ),
    ];
    for (kind, expected) in cases {
        assert_eq!(refusal(&session, kind), expected);
    }
}

#[test]
fn a_step_starts_with_the_next_attempt_and_as_what_it_is() {
    let mut world = world();
    world.result(1, 1, "sent");
    world.complete(1, "done");
    world.complete(2, "done");
    let mut journal = world.journal.clone();
    let last = journal.pop().unwrap();
    let pure = Some(Effect::Pure);
    assert_eq!(last.kind, started_with(attempt(3, 1), pure));
    let session = fold(&journal);
    let text = refusal(&session, started_with(attempt(3, 2), pure));
    assert!(text.contains("attempt 2 of step 3"), "{text}");
    let text = refusal(&session, started(attempt(3, 1)));
    assert!(text.contains("step 3") && text.contains("tool"), "{text}");
    let mut first = journal;
    first.truncate(4);
    let text = refusal(&fold(&first), started_with(attempt(1, 1), pure));
    assert!(text.contains("step 1") && text.contains("tool"), "{text}");
}

#[test]
fn events_about_the_wrong_call_are_refused() {
    let session = world().session;
    let missing = [call(1, 1, 0), call(1, 0, 2)];
    for call in missing {
        let text = refusal(&session, result(call));
        assert!(
            text.contains("does not exist") && text.contains("call"),
            "{text}"
        );
    }
    let twice = refusal(&session, result(call(1, 0, 0)));
    assert_eq!(
        twice,
        "illegal transition of call 'id-look': Finished → Finished"
    );
    let settled = EventKind::CallSettled(event::CallSettled {
        call: call(1, 0, 1),
        settlement: Settlement::Retry,
        output: String::new(),
    });
    let text = refusal(&session, settled);
    assert!(
        text.starts_with("illegal transition of call 'id-send': Intended"),
        "{text}"
    );
    let doubt = EventKind::CallInDoubt(event::CallInDoubt {
        call: call(1, 0, 0),
        settle_after: 0,
    });
    assert_eq!(
        refusal(&session, doubt),
        "illegal transition of call 'id-look': Finished → InDoubt"
    );
    let decided = EventKind::Decided(event::Decided {
        responses: String::new(),
        pending: PendingId {
            subject: Subject::Call(call(1, 0, 1)),
            time: 1,
        },
        settlement: Settlement::Retry,
        settle_after: 0,
    });
    assert!(refusal(&session, decided).starts_with("illegal transition of call"));
}

#[test]
fn a_call_in_doubt_is_finished_by_a_persons_word_only() {
    let mut world = world();
    world.decide(Input::TakenOver { holder_dead: true });
    let text = refusal(&world.session, result(call(1, 0, 1)));
    assert_eq!(
        text,
        "illegal transition of call 'id-send': InDoubt → Finished"
    );
    assert_eq!(world.in_doubt(), 1);
}

#[test]
fn a_call_that_is_not_in_doubt_cannot_be_settled() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    world.reply(1, "", &[look()]);
    let settled = EventKind::CallSettled(event::CallSettled {
        call: call(1, 0, 0),
        settlement: Settlement::Done {
            output: String::new(),
        },
        output: String::new(),
    });
    let text = refusal(&world.session, settled);
    assert_eq!(
        text,
        "illegal transition of call 'id-look': Requested → \"settled\""
    );
}

/// It is refused or skipped before it is sent, and so it has no effect. An executor that reports more of
/// it contradicts the state.
#[test]
fn an_effectful_call_may_be_refused_before_it_is_intended() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    world.reply(1, "", &[send()]);
    let mut journal = world.journal.clone();
    assert!(matches!(
        journal.pop().unwrap().kind,
        EventKind::CallIntended(_)
    ));
    let before = fold(&journal);
    let event = Event {
        at: 1,
        answers: 0,
        principal: None,
        kind: result(call(1, 0, 0)),
    };
    let mut refused = before.clone();
    refused.apply(before.seq + 1, &event).unwrap();
    assert!(refused.step(attempt(1, 1)).unwrap().effects.is_empty());
    world.session = before;
    let EventKind::CallFinished(sent) = result(call(1, 0, 0)) else {
        unreachable!("a result");
    };
    let report = Input::Report {
        unfinished: Vec::new(),
        attempt: attempt(1, 1),
        results: vec![sent],
        reply: None,
        failure: None,
        full: None,
        summary: None,
        retry: None,
    };
    assert!(world.try_decide(report).is_err());
}

#[test]
fn a_reply_comes_in_its_turn() {
    let world = world();
    let reply = world.journal.iter().find_map(|event| match &event.kind {
        EventKind::ReplyReceived(reply) => Some(reply.clone()),
        _ => None,
    });
    let reply = reply.unwrap();
    for (tool_turn, expected) in [
        (0, "illegal transition of tool turn 0: 1 → \"next\""),
        (2, "illegal transition of tool turn 2: 1 → \"next\""),
        (
            1,
            "illegal transition of tool turn 1: \"a call before it is open\" → \"next\"",
        ),
    ] {
        let mut reply = reply.clone();
        reply.tool_turn = tool_turn;
        assert_eq!(
            refusal(&world.session, EventKind::ReplyReceived(reply)),
            expected
        );
    }
}

/// Each way in which a run ends.
fn ends() -> [EventKind; 3] {
    let failure = Failure::new(FailureKind::Other, "x", "x");
    [
        EventKind::RunCompleted(event::RunCompleted {
            run: 1,
            answer: String::new(),
            kept_through: 0,
            results: Vec::new(),
            journal_permille: 0,
        }),
        EventKind::RunFailed(event::RunFailed {
            run: 1,
            failure,
            usage: None,
            duration_ms: 0,
            kept_through: 0,
            results: Vec::new(),
        }),
        EventKind::RunCancelled(event::RunCancelled {
            run: 1,
            reason: String::new(),
            kept_through: 0,
            results: Vec::new(),
        }),
    ]
}

#[test]
fn runs_begin_and_end_once_and_with_nothing_running() {
    let mut world = world();
    let again = world
        .journal
        .iter()
        .find(|event| matches!(event.kind, EventKind::RunStarted(_)));
    let again = again.unwrap().kind.clone();
    let text = refusal(&world.session, again);
    assert!(text.starts_with("illegal transition of run 1"), "{text}");
    let ends = ends();
    for end in &ends {
        let text = refusal(&world.session, end.clone());
        assert!(
            text.contains("run 1") && text.contains("steps are running"),
            "{text}"
        );
    }
    let mut early = World::with_plan(chain(vec![model_step("one"), model_step("two")]));
    // The step and its conversation have not begun.
    early.journal.truncate(early.journal.len() - 2);
    let text = refusal(&fold(&early.journal), ends[0].clone());
    assert!(text.contains("run 1") && text.contains("open"), "{text}");

    world.result(1, 1, "sent");
    world.reply(1, "", &[complete("done")]);
    world.complete(2, "done");
    world.result(3, 0, "text");
    for end in ends {
        let text = refusal(&world.session, end);
        assert!(
            text.starts_with("illegal transition of run 1: Completed → "),
            "{text}"
        );
    }
    let resumed = EventKind::RunResumed(event::RunResumed { run: 1 });
    assert_eq!(
        refusal(&world.session, resumed),
        "illegal transition of run 1: Completed → \"resumed\""
    );
}

#[test]
fn nothing_starts_in_a_run_that_has_ended() {
    let mut world = World::with_plan(graph(vec![tool_step("a", "look"), model_step("b")]));
    world
        .session
        .runs
        .last_mut()
        .unwrap()
        .limits
        .max_parallel_steps = 1;
    let mut failing = World::new();
    failing.start_with(
        graph(vec![tool_step("a", "look"), model_step("b")]),
        cairn_engine::command::LimitOverrides {
            max_parallel_steps: 1,
            ..Default::default()
        },
    );
    failing.error(1, 0, "ExecutionFailed");
    let text = refusal(&failing.session, started(attempt(2, 1)));
    assert!(text.contains("step 2"), "{text}");
}

#[test]
fn a_plan_that_is_none_is_refused_with_its_fault() {
    let mut world = World::new();
    world.command(cairn_engine::command::Command::StartRun(
        cairn_engine::command::StartRun {
            goal: "a goal".to_owned(),
            ..Default::default()
        },
    ));
    let plan = EventKind::PlanApplied(event::PlanApplied {
        run: 1,
        revision: 1,
        plan: PlanDraft::default(),
        numbers: Vec::new(),
        request: 0,
        usage: Default::default(),
        duration_ms: 0,
        stops: 0,
    });
    let text = refusal(&world.session, plan);
    assert_eq!(text, "illegal event: a plan needs at least one step");
}

/// The end of a turn names a message of that turn, and nothing has changed for one of another turn.
#[test]
fn a_turn_keeps_messages_of_its_own() {
    let mut world = World::new();
    submit(&mut world, "hello");
    world.reply(1, "hi", &[]);
    submit(&mut world, "and now?");
    let entries = &world.session.context(MAIN).unwrap().conversation;
    let earlier = entries.incremental[0].number;
    let skipped = EventKind::StepSkipped(event::StepSkipped {
        run: 2,
        step: 1.into(),
        reason: "cancelled".to_owned(),
        by_person: false,
        hook: String::new(),
    });
    world.foreign(skipped);
    for kept_through in [earlier, 99] {
        let text = refusal(
            &world.session,
            EventKind::RunCancelled(event::RunCancelled {
                run: 2,
                reason: String::new(),
                kept_through,
                results: Vec::new(),
            }),
        );
        assert!(text.contains(&format!("message {kept_through}")), "{text}");
    }
}
