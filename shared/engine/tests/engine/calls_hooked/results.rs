//! Models and tool steps get the result of a call as hooks leave it.

use super::{answer, answer_calls, guard, idle, mutate, outcome, world};
use crate::previews::{new_file, rules, write};
use crate::state_tools::complaint;
use crate::turns::turn;
use crate::world::{
    World, chain, finished, graph, kinds, long, look, model_step, report_reply, send, tool_call,
    tool_step,
};
use cairn_engine::command::{CancelRun, Command, Keep, SubmitTurn, TurnOptions};
use cairn_engine::decide::Input;
use cairn_engine::event::CallFinished;
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::hooks::{Gate, Mutation, Outcome, Point, VerdictKind};
use cairn_engine::message::Message;
use cairn_engine::rules::Answer;
use cairn_engine::session::{CallStatus, MAIN, StepStatus};
use serde_json::json;

fn output(text: &str) -> Outcome {
    mutate(0, Mutation::Output(text.to_owned()))
}

fn result(world: &World, index: u32) -> Gate {
    Gate::of_result(world.call(1, index))
}

#[test]
fn a_model_gets_a_result_as_hooks_leave_it() {
    let mut world = world(&[Point::PostToolCall]);
    world.reply(1, "", &[look(), send()]);
    let events = world.result(1, 0, "the secret is rose");
    assert_eq!(kinds(&events), ["CallFinished"]);
    assert!(world.made(0).holds_result() && !world.made(0).is_finished());
    assert_eq!(world.made(0).result(), None);
    let gate = result(&world, 0);
    let events = answer(&mut world, gate, vec![output("the secret is hidden")]);
    assert_eq!(kinds(&events), ["HooksAnswered"]);
    let message = world.made(0).result().unwrap();
    let given = message.results().next().unwrap();
    assert_eq!(
        (given.text.as_str(), given.is_error),
        ("the secret is hidden", false)
    );
    world.result(1, 1, "sent");
    let gate = result(&world, 1);
    let refused = outcome(0, VerdictKind::Block, "it is too long");
    answer(&mut world, gate, vec![refused]);
    let CallStatus::Finished {
        output,
        is_error: true,
        reason,
    } = &world.made(1).status
    else {
        panic!("{:?}", world.made(1));
    };
    let words =
        "the call was made, and hook 'guard' blocked its result at PostToolCall: it is too long";
    assert_eq!(
        (output.as_str(), reason.as_str()),
        (words, CallFinished::HOOK_BLOCKED)
    );
    let effects = &world.session.step(world.attempt(1)).unwrap().effects;
    assert!(effects[0].is_done, "it was sent all the same");
}

#[test]
fn hooks_are_not_asked_about_results_that_no_tool_gave() {
    for reason in [CallFinished::NOT_SENT, CallFinished::DENIED] {
        let mut world = world(&[Point::PostToolCall]);
        world.reply(1, "", &[look()]);
        world.error(1, 0, reason);
        assert!(!world.made(0).holds_result(), "{reason}");
    }
    let mut world = world(&[Point::PostToolCall]);
    world.reply(1, "", &[look()]);
    world.error(1, 0, "ExecutionFailed");
    assert!(world.made(0).holds_result(), "its tool gave it");
}

/// The executor had to wait until hooks have seen the result.
#[test]
fn a_reply_cannot_come_with_a_result_that_hooks_are_asked_about() {
    for (points, is_taken) in [(&[Point::OnTurnEnd], true), (&[Point::PostToolCall], false)] {
        let mut world = world(points);
        world.reply(1, "", &[look()]);
        let attempt = world.attempt(1);
        let running = world.session.attempt(attempt).unwrap();
        let seen = (running.tool_turns, running.newest_op());
        let mut report = report_reply(attempt, seen, "It says so.", &[]);
        if let Input::Report { results, .. } = &mut report {
            results.push(finished(world.call(1, 0), "text", ""));
        }
        assert_eq!(world.try_decide(report).is_ok(), is_taken, "{points:?}");
    }
}

#[test]
fn a_long_result_is_read_on_only_if_hooks_leave_it_as_it_was() {
    let proceed: fn(&World) -> Outcome = |_| outcome(0, VerdictKind::Proceed, "");
    // The note with the handle stays.
    let redacts: fn(&World) -> Outcome = |world| {
        let CallStatus::Finished { output: given, .. } = &world.made(0).status else {
            panic!("{:?}", world.made(0));
        };
        assert!(given.contains("read_result"), "{given}");
        output(&given.replace("123456789", "#"))
    };
    let hides: fn(&World) -> Outcome = |_| output("changed");
    let refuses: fn(&World) -> Outcome = |_| outcome(0, VerdictKind::Block, "no");
    let refuses_by_name: fn(&World) -> Outcome = |world| {
        outcome(
            0,
            VerdictKind::Block,
            &format!("{} is secret", whole(world)),
        )
    };
    for (answer_of, is_offered) in [
        (proceed, true),
        (redacts, false),
        (hides, false),
        (refuses, false),
        (refuses_by_name, false),
    ] {
        let mut world = world(&[Point::PostToolCall]);
        world.reply(1, "", &[look()]);
        let long = long(world.call(1, 0), 5 << 20);
        world.report(1, vec![long]);
        let handle = whole(&world);
        assert_eq!(world.session.handles.get(&handle), None, "not yet");
        let (gate, answered) = (result(&world, 0), answer_of(&world));
        answer(&mut world, gate, vec![answered.clone()]);
        let is_known = world.session.handles.get(&handle).is_some();
        assert_eq!(is_known, is_offered, "{answered:?}");
        if answered.verdict == VerdictKind::Mutate {
            let message = world.made(0).result().unwrap();
            let given = &message.results().next().unwrap().text;
            assert!(!given.contains(&handle), "{given}");
        }
        if !is_offered {
            for name in [handle.as_str(), "result-1"] {
                let told = complaint(&mut world, "read_result", &json!({"handle": name}));
                assert!(told.starts_with("there is no result"), "{told}");
            }
        }
    }
}

/// The name of the whole result of the first call.
fn whole(world: &World) -> String {
    let whole = world.made(0).whole.as_ref().unwrap();
    whole.handle.clone()
}

#[test]
fn the_note_of_a_changed_result_says_that_the_rest_is_withheld() {
    let mut world = world(&[Point::PostToolCall]);
    world.reply(1, "", &[look()]);
    let long = long(world.call(1, 0), 5 << 20);
    world.report(1, vec![long]);
    let CallStatus::Finished { output: given, .. } = &world.made(0).status else {
        panic!("{:?}", world.made(0));
    };
    let changed = output(&format!("{given}\n[a note of the hook]"));
    let gate = result(&world, 0);
    answer(&mut world, gate, vec![changed]);
    let message = world.made(0).result().unwrap();
    let given = &message.results().next().unwrap().text;
    let end = "; the rest is withheld, because a hook changed this result]\n[a note of the hook]";
    assert!(given.ends_with(end), "{given}");
}

/// Another step runs at the same time, and its model can guess names.
#[test]
fn no_step_reads_on_in_a_result_that_hooks_are_asked_about() {
    let mut world = idle(guard(&[Point::PostToolCall], &["look"]));
    world.start(graph(vec![model_step("a"), model_step("b")]));
    world.reply(1, "", &[look()]);
    let long = long(world.call(1, 0), 5 << 20);
    world.report(1, vec![long]);
    let read = || tool_call("read_result", &json!({"handle": "result-1"}));
    let events = world.reply(2, "", &[read()]);
    let (told, is_error) = World::reported(&events).remove(0);
    assert!(is_error && told.starts_with("there is no result"), "{told}");
    let gate = result(&world, 0);
    answer(&mut world, gate, vec![outcome(0, VerdictKind::Proceed, "")]);
    world.reply(2, "", &[read()]);
    let question = world.session.question(world.call(2, 0));
    assert!(matches!(question, Some(Ok(_))), "{question:?}");
}

#[test]
fn a_write_that_hooks_are_asked_about_holds_what_comes_behind_it() {
    let mut world = world(&[Point::PostToolCall]);
    world.rules = rules(&[("write", None, Answer::Allow)]);
    world.reply(1, "", &[write("a"), send()]);
    world.previewed(0, new_file("a"));
    let events = world.result(1, 0, "written");
    assert_eq!(kinds(&events), ["CallFinished"]);
    let gate = result(&world, 0);
    let events = answer(&mut world, gate, vec![outcome(0, VerdictKind::Proceed, "")]);
    assert_eq!(kinds(&events), ["HooksAnswered", "CallIntended"]);
}

#[test]
fn a_tool_step_ends_as_hooks_say() {
    let both = [Point::PreToolCall, Point::PostToolCall];
    let begun = || {
        let mut world = idle(guard(&both, &[]));
        world.start(chain(vec![tool_step("a", "look")]));
        world
    };
    let mut world = begun();
    let refused = outcome(0, VerdictKind::Block, "not this file");
    answer_calls(&mut world, vec![refused]);
    let words = "hook 'guard' blocked PreToolCall: not this file";
    let expected = Failure::new(FailureKind::HookBlocked, "HOOK_BLOCKED", words);
    let StepStatus::Failed { failure } = world.status(1) else {
        panic!("{:?}", world.status(1));
    };
    assert_eq!(*failure, expected);

    let mut world = begun();
    answer_calls(&mut world, vec![outcome(0, VerdictKind::Proceed, "")]);
    world.result(1, 0, "as it is");
    assert!(matches!(world.status(1), StepStatus::Running(_)));
    let gate = result(&world, 0);
    answer(&mut world, gate, vec![output("as hooks leave it")]);
    let StepStatus::Completed { summary, .. } = world.status(1) else {
        panic!("{:?}", world.status(1));
    };
    assert_eq!(summary, "as hooks leave it");
}

#[test]
fn a_long_result_of_a_tool_step_is_named_in_its_summary_after_hooks_too() {
    let summary = |points: &[Point]| {
        let mut world = idle(guard(points, &[]));
        world.start(chain(vec![tool_step("a", "look")]));
        let whole = long(world.call(1, 0), 5 << 20);
        world.report(1, vec![whole]);
        if points == [Point::PostToolCall] {
            let gate = result(&world, 0);
            let proceed = outcome(0, VerdictKind::Proceed, "");
            answer(&mut world, gate, vec![proceed]);
        }
        match world.status(1) {
            StepStatus::Completed { summary, .. } => summary.clone(),
            other => panic!("{other:?}"),
        }
    };
    let asked = summary(&[Point::PostToolCall]);
    assert!(asked.contains("read_result"), "{asked}");
    assert_eq!(asked, summary(&[]));
}

/// Nobody asks hooks about a call of a turn that has ended, and the next turn has its messages.
#[test]
fn a_cancelled_turn_keeps_no_result_that_hooks_have_not_let_pass() {
    let mut world = idle(guard(&[Point::PostToolCall], &[]));
    world.command(Command::SubmitTurn(SubmitTurn {
        options: TurnOptions {
            keep: Some(Keep::Complete),
            ..TurnOptions::default()
        },
        ..turn("Look.")
    }));
    world.reply(1, "I look.", &[look(), look(), look()]);
    world.result(1, 0, "as the tool gave it");
    let gate = result(&world, 0);
    answer(&mut world, gate, vec![output("as hooks left it")]);
    let held = long(world.call(1, 1), 5 << 20);
    world.report(1, vec![held]);
    let CallStatus::Finished { output: given, .. } = &world.made(1).status else {
        panic!("{:?}", world.made(1));
    };
    let given = given.clone();
    let whole = world.made(1).whole.as_ref().unwrap().handle.clone();
    world.command(Command::CancelRun(CancelRun {
        run: 1,
        ..CancelRun::default()
    }));
    let context = world.session.context(MAIN).unwrap();
    let results: Vec<(&str, bool)> = context
        .messages()
        .flat_map(Message::results)
        .map(|result| (result.text.as_str(), result.is_error))
        .collect();
    let withheld = "the call was made, and its result is withheld: the turn ended before the hooks had answered \
                    about it";
    let interrupted =
        "interrupted: the turn ended before this call had a result; it changed nothing";
    let expected = [
        ("as hooks left it", false),
        (withheld, true),
        (interrupted, true),
    ];
    assert_eq!(results, expected);
    assert!(given.contains(&whole), "the model would have read on");
    assert_eq!(world.session.handles.get(&whole), None);
    assert_eq!(world.folded(), world.session);
}
