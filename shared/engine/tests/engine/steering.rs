//! What a person says to a turn or a step that runs.

use crate::turns::{refusal, said, say, sent, submit, turn};
use crate::world::{World, chain, kinds, model_step, report_reply, tool_call};
use cairn_engine::command::{CancelRun, SendMessage, SubmitTurn, WhenBusy};
use cairn_engine::event::{CommandReceived, EventKind};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::message::Message;
use cairn_engine::plan::{Order, PlanDraft};
use cairn_engine::session::RunStatus;
use serde_json::json;

#[test]
fn a_message_to_a_running_turn_is_read_before_it_ends() {
    let mut world = World::new();
    submit(&mut world, "count");
    let attempt = world.attempt(1);
    let running = world.session.attempt(attempt).unwrap();
    let seen = (running.tool_turns, running.newest_op());
    let said_events = say(&mut world, "in German, please");
    assert_eq!(kinds(&said_events), ["ContextChanged"]);
    // The reply was asked for before that.
    let events = world.decide(report_reply(attempt, seen, "one, two", &[]));
    assert_eq!(kinds(&events), ["ReplyReceived"], "it stays as a thought");
    assert_eq!(sent(&world), ["count", "one, two", "in German, please"]);
    world.reply(1, "eins, zwei", &[]);
    assert_eq!(world.run().status, RunStatus::Completed);
    assert_eq!(said(&world).len(), 4);
}

#[test]
fn a_message_that_waits_beside_the_final_reply_is_read_too() {
    let mut world = World::new();
    submit(&mut world, "count");
    let message = Message::user("wait");
    world.foreign(EventKind::CommandReceived(CommandReceived {
        request_id: "steer".to_owned(),
        command: SendMessage {
            step: None,
            message,
        }
        .into(),
    }));
    let events = world.reply(1, "one, two", &[]);
    assert_eq!(kinds(&events), ["ContextChanged", "ReplyReceived"]);
    assert_eq!(world.run().status, RunStatus::Running);
    assert_eq!(world.session, world.folded());
}

#[test]
fn a_step_does_not_complete_before_a_message_was_read() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    let attempt = world.attempt(1);
    let running = world.session.attempt(attempt).unwrap();
    let seen = (running.tool_turns, running.newest_op());
    say(&mut world, "one more thing");
    let complete = tool_call("step", &json!({"complete": true, "summary": "done"}));
    let events = world.decide(report_reply(attempt, seen, "", &[complete]));
    assert!(World::reported(&events)[0].1, "{events:?}");
    assert_eq!(world.run().status, RunStatus::Running);
    world.complete(1, "done");
    assert_eq!(world.run().status, RunStatus::Completed);
}

#[test]
fn a_failed_turn_names_the_messages_to_it() {
    let mut world = World::new();
    submit(&mut world, "count");
    say(&mut world, "in German");
    let failure = Failure::new(FailureKind::Llm, "Server", "the model is gone");
    world.fail(1, failure);
    let failure = world.run().end.failure.clone().unwrap();
    assert!(
        failure.message.contains("\"in German\""),
        "{}",
        failure.message
    );
    assert_eq!(said(&world), [""; 0]);
}

#[test]
fn nothing_can_be_said_to_a_session_that_rests() {
    let mut world = World::new();
    assert_eq!(refusal(&say(&mut world, "hello?")), "NO_RUNNING_TURN");
}

/// Why the first run was cancelled.
fn cancelled(world: &World) -> String {
    let run = world.session.runs.summary(1).unwrap();
    assert_eq!(run.status, RunStatus::Cancelled);
    run.cancel_reason.to_owned()
}

fn cancel(world: &mut World, reason: &str) {
    let reason = reason.to_owned();
    world.command(CancelRun { run: 1, reason }.into());
}

#[test]
fn a_cancelled_turn_names_the_messages_to_it() {
    for (reason, wanted) in [("stop", "stop; these messages"), ("", "these messages")] {
        let mut world = World::new();
        submit(&mut world, "count");
        say(&mut world, "in German");
        cancel(&mut world, reason);
        let why = cancelled(&world);
        assert!(
            why.starts_with(wanted) && why.ends_with("\"in German\""),
            "{why}"
        );
        assert_eq!(world.session, world.folded());
    }
    let mut world = World::new();
    submit(&mut world, "count");
    cancel(&mut world, "stop");
    assert_eq!(cancelled(&world), "stop");
}

#[test]
fn a_turn_that_is_interrupted_names_the_messages_to_it() {
    let mut world = World::new();
    submit(&mut world, "count");
    say(&mut world, "in German");
    world.command(
        SubmitTurn {
            when_busy: WhenBusy::Interrupt,
            ..turn("now")
        }
        .into(),
    );
    let why = cancelled(&world);
    assert!(
        why.starts_with("another turn interrupted it; ") && why.ends_with("\"in German\""),
        "{why}"
    );
}

#[test]
fn a_message_without_a_step_reaches_all_that_run_and_a_lost_one_is_named_once() {
    let mut world = World::with_plan(PlanDraft {
        order: Order::Graph,
        ..chain(vec![model_step("one"), model_step("two")])
    });
    let running = |world: &World, step| world.session.attempt(world.attempt(step)).unwrap().clone();
    assert_eq!(kinds(&say(&mut world, "in German")), ["ContextChanged"; 2]);
    for step in [1, 2] {
        let said = world.session.said(world.attempt(step));
        assert_eq!(said.last().unwrap().text(), "in German");
    }
    let message = Message::user("for two");
    let step = Some(2.into());
    world.command(SendMessage { step, message }.into());
    assert_eq!(running(&world, 2).steering.len(), 2);
    assert_eq!(running(&world, 1).steering.len(), 1);
    // The model of step 1 reads its message, that of step 2 does not.
    world.reply(1, "gut", &[]);
    cancel(&mut world, "");
    assert_eq!(
        cancelled(&world),
        "these messages were not read: \"in German\", \"for two\""
    );
}

#[test]
fn a_failed_step_names_what_its_model_has_not_read() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    say(&mut world, "read");
    world.reply(1, "yes", &[]);
    say(&mut world, "unread");
    let failure = Failure::new(FailureKind::Llm, "Server", "the model is gone");
    world.fail(1, failure);
    let failure = world.run().end.failure.clone().unwrap();
    let wanted = "the model is gone; these messages were not read: \"unread\"";
    assert_eq!(failure.message, wanted);
}
