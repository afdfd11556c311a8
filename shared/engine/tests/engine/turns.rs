//! Turns of a conversation: how they begin, continue and end, and what stays of them.

use crate::world::{World, chain, kinds, model_step, send, tool_call};
use cairn_engine::command::{
    CancelRun, ChangeContext, Command, ContextOp, DestroyContext, PauseRun, ResumeRun, SendMessage,
    SubmitTurn, TurnOptions, WhenBusy,
};
use cairn_engine::decide::Input;
use cairn_engine::event::{Event, EventKind};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::message::{Message, Role, ToolCall};
use cairn_engine::outstanding::Work;
use cairn_engine::session::{MAIN, RunStatus};
use serde_json::json;

pub(crate) fn turn(text: &str) -> SubmitTurn {
    SubmitTurn {
        message: Some(Message::user(text)),
        ..SubmitTurn::default()
    }
}

pub(crate) fn submit(world: &mut World, text: &str) -> Vec<Event> {
    world.command(turn(text).into())
}

pub(crate) fn say(world: &mut World, text: &str) -> Vec<Event> {
    let message = Message::user(text);
    world.command(
        SendMessage {
            step: None,
            message,
        }
        .into(),
    )
}

fn look() -> ToolCall {
    tool_call("look", &json!({}))
}

/// What the context has, as `role: text`.
pub(crate) fn said(world: &World) -> Vec<String> {
    let context = world.session.context(MAIN).unwrap();
    let line = |message: &Message| {
        let role = format!("{:?}", message.role).to_lowercase();
        format!("{role}: {}", message.text())
    };
    context.messages().map(line).collect()
}

/// What the model of the running turn is sent next, without the system prompt.
pub(crate) fn sent(world: &World) -> Vec<String> {
    let name = world.attempt(1);
    let before = world.session.conversation(name).unwrap();
    let zones = [&before.immutable, &before.compressed, &before.incremental];
    let before = zones.into_iter().flatten().map(|entry| &entry.message);
    let own = world.session.said(name);
    before.chain(&own).map(|message| message.text()).collect()
}

pub(crate) fn refusal(events: &[Event]) -> &str {
    match &events.last().unwrap().kind {
        EventKind::CommandRefused(refused) => refused.reason.name(),
        other => panic!("it is not refused: {other:?}"),
    }
}

#[test]
fn a_reply_without_calls_ends_the_turn_and_enters_the_context() {
    let mut world = World::new();
    let begun = submit(&mut world, "hello");
    assert_eq!(
        kinds(&begun),
        ["RunStarted", "StepStarted", "ContextChanged"],
        "the context has its system prompt from its first turn on"
    );
    assert_eq!(
        said(&world),
        [""; 0],
        "nothing is said before the turn ends"
    );
    let ended = world.reply(1, "hi", &[]);
    assert_eq!(
        kinds(&ended),
        ["ReplyReceived", "StepCompleted", "RunCompleted"]
    );
    assert_eq!(said(&world), ["user: hello", "assistant: hi"]);
    let run = world.run();
    assert_eq!(
        (run.status, run.goal.as_str()),
        (RunStatus::Completed, "hello")
    );
    assert!(run.plan.is_none(), "a turn that has ended costs little");
    assert_eq!(world.session, world.folded());
}

#[test]
fn the_end_of_a_turn_says_how_full_the_journal_is_from_900_on() {
    let told = |events: &[Event]| match &events.last().unwrap().kind {
        EventKind::RunCompleted(completed) => completed.journal_permille,
        other => panic!("it is not completed: {other:?}"),
    };
    for (permille, want) in [(0, 0), (899, 0), (900, 900), (1_015, 1_015)] {
        let mut world = World::new();
        world.journal_permille = permille;
        submit(&mut world, "hello");
        assert_eq!(told(&world.reply(1, "hi", &[])), want, "{permille}");
    }
    // The end of a plan is no place to continue from.
    let mut world = World::with_plan(chain(vec![model_step("a")]));
    world.journal_permille = 950;
    assert_eq!(told(&world.complete(1, "done")), 0);
}

#[test]
fn all_that_was_said_in_a_turn_is_sent_in_the_next() {
    let mut world = World::new();
    submit(&mut world, "look");
    world.reply(1, "I look.", &[look()]);
    world.result(1, 0, "seen");
    world.reply(1, "It is there.", &[]);
    submit(&mut world, "and now?");
    assert_eq!(
        sent(&world),
        ["look", "I look.", "seen", "It is there.", "and now?"]
    );
    // A layer is written once.
    let begun = submit_after(&mut world, "done", "again");
    assert_eq!(kinds(&begun), ["RunStarted", "StepStarted"]);
}

fn submit_after(world: &mut World, reply: &str, text: &str) -> Vec<Event> {
    world.reply(1, reply, &[]);
    submit(world, text)
}

#[test]
fn a_failed_turn_leaves_nothing_but_its_effects() {
    let mut world = World::new();
    submit(&mut world, "send it");
    world.reply(1, "", &[send()]);
    world.result(1, 0, "sent");
    let failure = Failure::new(FailureKind::Llm, "Server", "the model is gone");
    world.fail(1, failure);
    assert_eq!(world.run().status, RunStatus::Failed);
    assert_eq!(said(&world), [""; 0]);
    submit(&mut world, "did you?");
    let asked = sent(&world).pop().unwrap();
    assert!(asked.starts_with("did you?<system-reminder>"), "{asked}");
    assert!(asked.contains("`send`: it was carried out"), "{asked}");
    world.reply(1, "yes", &[]);
    submit(&mut world, "good");
    assert_eq!(sent(&world).pop().unwrap(), "good", "it is told once");
}

#[test]
fn an_interruption_cancels_a_turn_and_never_a_plan() {
    let interrupt = || {
        let when_busy = WhenBusy::Interrupt;
        Command::from(SubmitTurn {
            when_busy,
            ..turn("now")
        })
    };
    let mut world = World::new();
    submit(&mut world, "first");
    let events = world.command(interrupt());
    assert_eq!(
        kinds(&events),
        ["StepSkipped", "RunCancelled", "RunStarted", "StepStarted"]
    );
    assert_eq!(sent(&world), ["now"]);
    let mut planned = World::with_plan(chain(vec![model_step("one")]));
    assert_eq!(refusal(&planned.command(interrupt())), "RUN_ACTIVE");
}

#[test]
fn without_tool_turns_calls_are_returned_and_not_made() {
    let mut world = World::new();
    let options = TurnOptions {
        max_tool_turns: Some(0),
        ..TurnOptions::default()
    };
    world.command(Command::from(SubmitTurn {
        options,
        ..turn("send it")
    }));
    let ended = world.reply(1, "", &[send()]);
    assert_eq!(
        kinds(&ended),
        ["ReplyReceived", "StepCompleted", "RunCompleted"]
    );
    assert!(world.session.context(MAIN).unwrap().lost_calls.is_empty());
}

#[test]
fn a_turn_has_so_many_tool_turns_and_then_an_answer() {
    let mut world = World::new();
    let options = TurnOptions {
        max_tool_turns: Some(1),
        ..TurnOptions::default()
    };
    let limited = SubmitTurn {
        options,
        ..turn("look")
    };
    world.command(limited.clone().into());
    world.reply(1, "", &[look()]);
    world.result(1, 0, "seen");
    world.reply(1, "there", &[]);
    assert_eq!(world.run().status, RunStatus::Completed);
    world.command(limited.into());
    world.reply(1, "", &[look()]);
    world.result(1, 0, "seen");
    world.reply(1, "", &[look()]);
    let failure = world.run().end.failure.clone().unwrap();
    assert_eq!(failure.reason, "max_tool_turns");
}

#[test]
fn a_turn_that_names_no_limit_has_that_of_the_settings() {
    for most in [1, 11] {
        let mut world = World::new();
        world.limits.max_tool_turns = most;
        world.command(turn("look").into());
        for _ in 0..most {
            assert_eq!(world.run().status, RunStatus::Running);
            world.reply(1, "", &[look()]);
            world.result(1, 0, "seen");
        }
        world.reply(1, "", &[look()]);
        let failure = world.run().end.failure.clone().unwrap();
        assert_eq!(failure.reason, "max_tool_turns");
    }
}

#[test]
fn only_named_tools_are_there() {
    let mut world = World::new();
    let options = TurnOptions {
        tools: Some(vec!["look".to_owned()]),
        ..TurnOptions::default()
    };
    world.command(Command::from(SubmitTurn {
        options,
        ..turn("send it")
    }));
    let events = world.reply(1, "", &[send()]);
    let (text, is_error) = World::reported(&events).pop().unwrap();
    assert!(
        is_error && text.ends_with("there are: look, read_result"),
        "{text}"
    );
    // And a turn has no step.
    let events = world.reply(1, "", &[tool_call("step", &json!({"complete": true}))]);
    assert!(World::reported(&events)[0].1, "{events:?}");
}

#[test]
fn a_context_changes_while_its_turn_waits_but_not_while_it_works() {
    let mut world = World::new();
    let change = || {
        Command::from(ChangeContext {
            ops: vec![ContextOp::Append(Message::user("aside"))],
            ..ChangeContext::default()
        })
    };
    submit(&mut world, "pay");
    assert_eq!(refusal(&world.command(change())), "CONTEXT_BUSY");
    world.reply(1, "", &[tool_call("pay", &json!({}))]);
    assert!(matches!(world.run().status, RunStatus::Waiting(_)));
    assert_eq!(kinds(&world.command(change())), ["ContextChanged"]);
    assert_eq!(sent(&world)[..2], ["aside", "pay"]);
    let reason = String::new();
    world.command(CancelRun { run: 0, reason }.into());
    assert_eq!(said(&world), ["user: aside"]);
}

#[test]
fn a_window_stays_where_it_is_during_a_turn() {
    let mut world = World::new();
    let messages = ["a", "b", "c"].map(|text| ContextOp::Append(Message::user(text)));
    let window = ContextOp::SetWindow(Some(2));
    world.command(Command::from(ChangeContext {
        ops: messages.into_iter().chain([window]).collect(),
        ..ChangeContext::default()
    }));
    submit(&mut world, "look");
    world.reply(1, "I look.", &[look()]);
    world.result(1, 0, "seen");
    assert_eq!(sent(&world), ["b", "c", "look", "I look.", "seen"]);
    world.reply(1, "there", &[]);
    submit(&mut world, "and now?");
    assert_eq!(sent(&world), ["seen", "there", "and now?"]);
}

/// Its last reply came before the pause, and the run ends after it.
#[test]
fn a_paused_turn_is_no_part_of_its_context_before_it_ends() {
    let paused = || {
        let mut world = World::new();
        submit(&mut world, "hello");
        let reason = String::new();
        world.command(PauseRun { run: 0, reason }.into());
        let replied = world.reply(1, "hi", &[]);
        assert_eq!(kinds(&replied), ["ReplyReceived", "StepCompleted"]);
        world.command(Command::from(ChangeContext {
            ops: vec![ContextOp::Append(Message::user("aside"))],
            ..ChangeContext::default()
        }));
        assert_eq!(said(&world), ["user: aside"]);
        world
    };
    let mut resumed = paused();
    let ended = resumed.command(ResumeRun { run: 0 }.into());
    assert_eq!(kinds(&ended), ["RunResumed", "RunCompleted"]);
    let all = ["user: aside", "user: hello", "assistant: hi"];
    assert_eq!(said(&resumed), all);
    assert_eq!(resumed.session, resumed.folded());
    let mut cancelled = paused();
    let reason = String::new();
    cancelled.command(CancelRun { run: 0, reason }.into());
    assert_eq!(said(&cancelled), ["user: aside"]);
    assert_eq!(cancelled.session, cancelled.folded());
}

#[test]
fn a_plan_that_completes_is_said_in_the_active_context() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    world.complete(1, "the result");
    assert_eq!(said(&world), ["user: the goal", "assistant: the result"]);
    let roles: Vec<_> = world.session.context("").unwrap().messages().collect();
    assert_eq!(roles[1].role, Role::Assistant);
}

#[test]
fn a_turn_without_a_message_sends_the_context_as_it_stands() {
    let mut world = World::new();
    assert_eq!(
        refusal(&world.command(SubmitTurn::default().into())),
        "EMPTY_CONTEXT"
    );
    world.command(Command::from(ChangeContext {
        ops: vec![ContextOp::Append(Message::user("hello"))],
        ..ChangeContext::default()
    }));
    world.command(SubmitTurn::default().into());
    assert_eq!(sent(&world), ["hello"]);
    world.reply(1, "hi", &[]);
    assert_eq!(said(&world), ["user: hello", "assistant: hi"]);
}

#[test]
fn a_model_concludes_before_its_context_is_destroyed() {
    let mut world = World::new();
    let create = cairn_engine::command::CreateContext {
        name: "side".to_owned(),
        immutable: vec![Message::user("the facts")],
        ..Default::default()
    };
    world.command(create.into());
    let begun = world.command(Command::from(DestroyContext {
        context: "side".to_owned(),
        ask_model: true,
        ..DestroyContext::default()
    }));
    assert_eq!(
        kinds(&begun),
        ["RunStarted", "StepStarted", "ContextChanged"]
    );
    let set = tool_call("session_memory_set", &json!({"key": "k", "value": "v"}));
    world.reply(1, "", &[set]);
    let ended = world.reply(1, "stored", &[]);
    assert_eq!(kinds(&ended).last().unwrap(), "ContextDestroyed");
    assert!(world.session.context("side").is_none());
    assert_eq!(world.session.memory.get("k").map(String::as_str), Some("v"));
    assert_eq!(world.session, world.folded());
}

#[test]
fn a_turn_continues_after_its_owner_is_lost() {
    let mut world = World::new();
    submit(&mut world, "look");
    world.reply(1, "", &[look()]);
    world.decide(Input::TakenOver { holder_dead: true });
    assert!(
        world
            .outstanding()
            .contains(&Work::RunStep(world.attempt(1)))
    );
    world.result(1, 0, "seen");
    world.reply(1, "there", &[]);
    assert_eq!(said(&world).len(), 4);
    assert_eq!(world.session, world.folded());
}
