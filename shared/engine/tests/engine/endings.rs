//! How a step ends: when its model says so and nothing else is open, or with its one call.

use crate::world::{
    World, chain, complete, finished, kinds, long, look, model_step, send, step_call, tool_call,
    tool_step,
};
use cairn_engine::decide::Input;
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::session::{RunStatus, StepStatus};
use serde_json::json;

fn world() -> World {
    World::with_plan(chain(vec![model_step("one"), model_step("two")]))
}

fn summary(world: &World, step: u32) -> &str {
    match world.status(step) {
        StepStatus::Completed { summary, .. } => summary,
        other => panic!("step {step} is {other:?}"),
    }
}

#[test]
fn text_alone_ends_nothing() {
    let mut world = world();
    let events = world.reply(1, "I am done. Everything is finished.", &[]);
    assert_eq!(kinds(&events), ["ReplyReceived", "ContextChanged"]);
    assert_eq!(world.running(), [1]);
}

#[test]
fn completing_ends_the_step_and_starts_the_next() {
    let mut world = world();
    world.reply(1, "First I think.", &[]);
    let events = world.complete(1, "12 files");
    let expected = [
        "ReplyReceived",
        "CallFinished",
        "StepCompleted",
        "StepStarted",
        "ContextChanged",
    ];
    assert_eq!(kinds(&events), expected);
    match world.status(1) {
        StepStatus::Completed { response, summary } => {
            assert_eq!(
                (response.as_str(), summary.as_str()),
                ("First I think.", "12 files")
            );
        }
        other => panic!("{other:?}"),
    }
    world.complete(2, "the answer");
    assert_eq!(world.run().status, RunStatus::Completed);
    assert_eq!(world.run().end.answer, "the answer");
}

#[test]
fn the_end_waits_for_the_other_calls_of_the_reply() {
    let mut world = world();
    let events = world.reply(1, "", &[look(), complete("12 files"), send()]);
    assert_eq!(kinds(&events), ["ReplyReceived", "CallIntended"]);
    world.result(1, 0, "text");
    assert_eq!(world.running(), [1]);
    let events = world.result(1, 2, "sent");
    let expected = [
        "CallFinished",
        "CallFinished",
        "StepCompleted",
        "StepStarted",
        "ContextChanged",
    ];
    assert_eq!(kinds(&events), expected);
    assert_eq!(summary(&world, 1), "12 files");
}

#[test]
fn the_end_is_refused_when_another_call_failed() {
    let mut world = world();
    world.reply(1, "", &[complete("12 files"), look(), look()]);
    let events = world.error(1, 1, "ExecutionFailed");
    let (reported, is_error) = World::reported(&events).remove(1);
    assert!(is_error);
    world.result(1, 2, "text");
    assert!(
        reported.starts_with("not completed: 'look' of the same reply failed"),
        "{reported}"
    );
    assert_eq!(world.running(), [1]);
    world.complete(1, "12 files, one unreadable");
    assert_eq!(summary(&world, 1), "12 files, one unreadable");
}

#[test]
fn the_end_is_refused_when_it_is_asked_for_twice() {
    let mut world = world();
    let events = world.reply(1, "", &[complete("a"), complete("b")]);
    let reported = World::reported(&events);
    assert_eq!(reported.len(), 2, "{reported:?}");
    assert!(
        reported
            .iter()
            .all(|(text, is_error)| *is_error && text.starts_with("not completed"))
    );
    assert_eq!(world.running(), [1]);
    assert!(crate::play::open_calls(&world.session, world.attempt(1)).is_empty());
}

#[test]
fn the_end_is_refused_while_sub_goals_are_open() {
    let mut world = world();
    let add = step_call(&json!({"plan": ["A"]}));
    // The sub-goal comes after the wish to end the step, in the same reply.
    let events = world.reply(1, "", &[complete("done"), add]);
    let reported = World::reported(&events);
    assert_eq!(reported[0], ("sub-goals added: 1".to_owned(), false));
    assert!(
        reported[1].1 && reported[1].0.contains("open"),
        "{reported:?}"
    );
    assert_eq!(world.running(), [1]);
    world.reply(1, "", &[step_call(&json!({"focus": "A"}))]);
    world.reply(
        1,
        "",
        &[step_call(&json!({"complete": true})), complete("done")],
    );
    assert_eq!(summary(&world, 1), "done");
}

#[test]
fn an_end_that_waits_survives_a_take_over() {
    let mut world = world();
    world.reply(1, "", &[look(), complete("12 files")]);
    world.session = world.folded();
    world.decide(Input::TakenOver { holder_dead: true });
    assert_eq!(world.running(), [1]);
    world.result(1, 0, "text");
    assert_eq!(summary(&world, 1), "12 files");
}

#[test]
fn a_tool_step_ends_with_its_result() {
    let mut world = World::with_plan(chain(vec![tool_step("one", "look"), model_step("two")]));
    let events = world.result(1, 0, "first line\nsecond line");
    assert_eq!(
        kinds(&events),
        [
            "CallFinished",
            "StepCompleted",
            "StepStarted",
            "ContextChanged"
        ]
    );
    assert_eq!(summary(&world, 1), "first line (+1 line)");
}

#[test]
fn the_summary_of_a_long_result_says_how_a_later_step_reads_it() {
    let mut world = World::with_plan(chain(vec![tool_step("one", "look"), model_step("two")]));
    let result = long(world.call(1, 0), 1_000_000);
    world.report(1, vec![result]);
    let handle = world.session.handles.names().next().unwrap().to_owned();
    let expected =
        format!("123456789 (100000 lines, 976.5 KiB; read_result with handle '{handle}' reads it)");
    assert_eq!(summary(&world, 1), expected);
    let read = tool_call(
        "read_result",
        &json!({"handle": handle, "from_line": 99_999}),
    );
    world.reply(2, "", &[read]);
    assert!(world.session.question(world.call(2, 0)).unwrap().is_ok());
    assert_eq!(world.folded(), world.session);
}

#[test]
fn a_tool_step_fails_with_its_call() {
    let mut world = World::with_plan(chain(vec![tool_step("one", "look"), model_step("two")]));
    world.error(1, 0, "ExecutionFailed");
    let run = world.run();
    assert_eq!(run.status, RunStatus::Failed);
    let failure = run.end.failure.as_ref().unwrap();
    assert_eq!(
        (failure.kind, failure.reason.as_str()),
        (FailureKind::Tool, "ExecutionFailed")
    );
    assert_eq!(*world.status(2), StepStatus::Pending);
}

#[test]
fn an_effectful_tool_step_is_intended_when_it_starts() {
    let world = World::with_plan(chain(vec![tool_step("one", "send")]));
    let expected = [
        "CommandReceived",
        "RunStarted",
        "PlanApplied",
        "StepStarted",
        "CallIntended",
    ];
    assert_eq!(kinds(&world.journal)[1..], expected);
}

#[test]
fn a_call_that_was_certainly_not_sent_is_intended_again_but_not_indefinitely() {
    let mut world = World::with_plan(chain(vec![tool_step("one", "send")]));
    for _ in 0..4 {
        let events = world.error(1, 0, "NotSent");
        assert_eq!(kinds(&events), ["CallIntended"]);
    }
    let events = world.error(1, 0, "NotSent");
    assert_eq!(kinds(&events), ["CallFinished", "StepFailed", "RunFailed"]);
}

#[test]
fn after_a_failure_nothing_new_begins_and_what_runs_is_received() {
    let mut world = World::new();
    world.start(crate::world::graph(vec![
        model_step("a"),
        model_step("b"),
        crate::world::after(model_step("c"), &["2"]),
    ]));
    world.fail(1, Failure::new(FailureKind::Llm, "Refused", "no"));
    assert_eq!(world.run().status, RunStatus::Running);
    world.complete(2, "b is done");
    assert_eq!(world.run().status, RunStatus::Failed);
    assert_eq!(world.run().end.failure.as_ref().unwrap().message, "no");
    assert_eq!(*world.status(3), StepStatus::Pending);
}

#[test]
fn a_report_that_contradicts_the_state_is_refused() {
    let mut world = World::with_plan(crate::world::graph(vec![
        model_step("a"),
        model_step("b"),
        tool_step("c", "look"),
    ]));
    let add = tool_call("scratchpad", &json!({"text": "a"}));
    world.reply(1, "", &[look(), add, complete("a is done")]);
    world.reply(2, "", &[look()]);
    let good = finished(world.call(1, 0), "text", "");
    let mut absent = good.clone();
    absent.call.index = 7;
    let of_another = finished(world.call(2, 0), "text", "");
    let of_the_owner = finished(world.call(1, 2), "text", "");
    let attempt = world.attempt(1);
    for wrong in [absent, of_another, of_the_owner] {
        let report = Input::Report {
            unfinished: Vec::new(),
            attempt,
            results: vec![good.clone(), wrong],
            reply: None,
            failure: None,
            full: None,
            summary: None,
            retry: None,
        };
        assert!(world.clone().try_decide(report).is_err());
    }
    let replies = [
        // The results of the turn before are not there yet.
        (attempt, 1),
        // Turns that were, and turns that are not due.
        (attempt, 0),
        (attempt, 2),
        // A tool step has no model.
        (world.attempt(3), 1),
    ];
    for (attempt, turn) in replies {
        let reply = crate::world::report_reply(attempt, (turn, 0), "", &[]);
        assert!(
            world.clone().try_decide(reply).is_err(),
            "{attempt:?} {turn}"
        );
    }
}

#[test]
fn a_result_that_is_known_already_changes_nothing() {
    let mut world = world();
    world.reply(1, "", &[look(), look()]);
    world.result(1, 0, "text");
    assert!(world.result(1, 0, "other text").is_empty());
}
