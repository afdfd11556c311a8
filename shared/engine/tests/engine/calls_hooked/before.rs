//! A call is made as hooks leave it, or ends without being made.

use super::{
    CHANGED, answer_calls, arguments, calls, guard, idle, is_asked, outcome, start, world,
};
use crate::previews::{end, is_sendable, write};
use crate::turns::turn;
use crate::world::{World, chain, finished, hooked, kinds, long, look, send, tool_call, tool_step};
use cairn_engine::command::{Command, SubmitTurn, TurnOptions};
use cairn_engine::decide::{Fork, Input, Previewed};
use cairn_engine::event::{CallFinished, EventKind};
use cairn_engine::hooks::{Gate, MAX_ANSWER, Point, VerdictKind};
use cairn_engine::limits::RESULT_BYTES;
use cairn_engine::session::{CallHooks, CallStatus, RunStatus, StepStatus};
use serde_json::json;

#[test]
fn a_call_is_made_as_hooks_leave_it() {
    let mut world = world(&[Point::PreToolCall]);
    let events = world.reply(1, "", &[send()]);
    assert_eq!(kinds(&events), ["ReplyReceived"]);
    assert!(world.made(0).waits_for_hooks() && !is_sendable(world.made(0)));
    let running = world.session.attempt(world.attempt(1)).unwrap();
    assert!(running.waits_for_owner(), "no executor waits for hooks");
    let events = answer_calls(&mut world, vec![arguments(0, CHANGED)]);
    assert_eq!(kinds(&events), ["HooksAnswered", "CallIntended"]);
    let made = world.made(0);
    assert_eq!(made.arguments(), CHANGED);
    assert_eq!(made.as_sent().arguments, CHANGED);
    assert_eq!(made.call.arguments, send().arguments);
    assert!(is_sendable(made) && !is_asked(&world, calls(&world)));
    // A repetition of the answer finds nothing to do.
    let late = vec![outcome(0, VerdictKind::Block, "late")];
    let again = hooked(calls(&world), late);
    assert!(world.decide(again).is_empty());
}

#[test]
fn each_answer_has_its_effect_on_a_call() {
    type Check = fn(&CallStatus) -> bool;
    let words = "hook 'guard' blocked PreToolCall: not now";
    let table: [(VerdictKind, &str, Check); 4] = [
        (VerdictKind::Proceed, "", |status| {
            matches!(status, CallStatus::Intended { .. })
        }),
        (
            VerdictKind::Skip,
            "done by hand",
            |status| matches!(status, CallStatus::Finished { output, is_error: false, .. } if output == "done by hand"),
        ),
        (VerdictKind::RequireApproval, "look at it", |status| {
            matches!(status, CallStatus::Asking { .. })
        }),
        (
            VerdictKind::Block,
            "not now",
            |status| matches!(status, CallStatus::Finished { is_error: true, reason, .. } if reason == "HookBlocked"),
        ),
    ];
    for (verdict, text, check) in table {
        let mut world = world(&[Point::PreToolCall]);
        world.reply(1, "", &[send()]);
        let events = answer_calls(&mut world, vec![outcome(0, verdict, text)]);
        assert!(check(&world.made(0).status), "{verdict:?}: {events:?}");
        let is_made = verdict < VerdictKind::Skip;
        let step = world.session.step(world.attempt(1)).unwrap();
        assert!(step.effects.is_empty(), "nothing was done");
        assert_eq!(is_sendable(world.made(0)), is_made, "{verdict:?}");
        if verdict == VerdictKind::Block {
            assert_eq!(end(&events), (CallFinished::HOOK_BLOCKED, words));
        }
    }
}

#[test]
fn all_calls_of_a_reply_are_answered_at_once_and_others_are_not_asked_about() {
    let mut world = idle(guard(&[Point::PreToolCall], &["send", "exec"]));
    start(&mut world, true);
    let exec = tool_call("exec", &json!({}));
    world.reply(1, "", &[look(), send(), exec]);
    assert!(is_sendable(world.made(0)), "nobody asks about it");
    assert!(world.made(1).waits_for_hooks() && world.made(2).waits_for_hooks());
    let answers = vec![
        outcome(1, VerdictKind::Block, ""),
        outcome(2, VerdictKind::Proceed, ""),
    ];
    let events = answer_calls(&mut world, answers);
    let expected = ["HooksAnswered", "CallFinished", "CallIntended"];
    assert_eq!(kinds(&events), expected);
    assert_eq!(end(&events).1, "hook 'guard' blocked PreToolCall");
}

#[test]
fn results_of_skipped_calls_that_are_too_large_together_block_the_rest() {
    let mut world = world(&[Point::PreToolCall]);
    world.reply(1, "", &[look(), look(), look(), look(), look()]);
    let large = "x".repeat(MAX_ANSWER);
    let answers = (0..5).map(|index| outcome(index, VerdictKind::Skip, &large));
    let events = answer_calls(&mut world, answers.collect());
    let sizes = events.iter().filter_map(|event| match &event.kind {
        EventKind::CallFinished(ended) => Some((ended.output.len(), ended.is_error)),
        _ => None,
    });
    let sizes: Vec<_> = sizes.collect();
    assert_eq!(sizes[..4], [(MAX_ANSWER, false); 4]);
    assert!(sizes[4].1 && sizes[4].0 < 200, "{sizes:?}");
}

#[test]
fn a_long_result_of_a_skipped_call_has_a_handle_as_those_of_tools_have() {
    let mut world = world(&[Point::PreToolCall]);
    world.reply(1, "", &[look(), look()]);
    let whole = long(world.call(1, 1), 200_000);
    let gate = calls(&world);
    let outcomes = vec![
        outcome(0, VerdictKind::Skip, "short"),
        outcome(1, VerdictKind::Skip, &whole.output),
    ];
    let wholes = whole.whole.map(|whole| (1, whole)).into_iter().collect();
    let events = world.decide(Input::Hooked {
        gate,
        outcomes,
        wholes,
    });
    let ends: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::CallFinished(ended) => Some(ended),
            _ => None,
        })
        .collect();
    let [short, cut] = ends[..] else {
        panic!("{events:?}");
    };
    assert_eq!((short.output.as_str(), &short.whole), ("short", &None));
    let name = &cut.whole.as_ref().expect("a handle").handle;
    assert!(cut.output.len() <= RESULT_BYTES && !cut.is_error);
    assert!(cut.output.contains(&format!("with handle '{name}'")));
    assert!(world.session.handles.get(name).is_some());
    assert_eq!(world.folded(), world.session);
}

#[test]
fn calls_of_the_owner_and_calls_that_are_returned_ask_no_hook() {
    let mut world = world(&[Point::PreToolCall, Point::PostToolCall]);
    let note = tool_call("scratchpad", &json!({"text": "a note"}));
    world.reply(1, "", &[note]);
    assert!(world.made(0).is_finished());

    let mut world = idle(guard(&[Point::PreToolCall], &[]));
    let options = TurnOptions {
        max_tool_turns: Some(0),
        ..TurnOptions::default()
    };
    world.command(Command::SubmitTurn(SubmitTurn {
        options,
        ..turn("Send it.")
    }));
    let events = world.reply(1, "", &[send()]);
    let hooked = events.iter().any(|event| match &event.kind {
        EventKind::ReplyReceived(reply) => reply.calls.iter().any(|asked| asked.hooked),
        _ => false,
    });
    assert!(!hooked, "{events:?}");
    assert_eq!(world.run().status, RunStatus::Completed);
}

#[test]
fn a_call_that_waits_for_hooks_takes_no_result() {
    let mut world = world(&[Point::PreToolCall]);
    world.reply(1, "", &[look()]);
    let result = finished(world.call(1, 0), "text", "");
    let attempt = world.attempt(1);
    let mut other = world.clone();
    let report = |results| Input::Report {
        attempt,
        results,
        unfinished: Vec::new(),
        reply: None,
        failure: None,
        full: None,
        summary: None,
        retry: None,
    };
    other.try_decide(report(vec![result])).unwrap_err();
    let unsent = finished(world.call(1, 0), "", CallFinished::NOT_SENT);
    assert!(world.decide(report(vec![unsent])).is_empty());
    assert!(is_asked(&world, calls(&world)));
}

#[test]
fn a_tool_that_refuses_changed_arguments_names_the_hook() {
    let words = "after hook 'guard' changed its arguments: it went wrong";
    for (reason, expected) in [
        (CallFinished::INVALID_ARGUMENTS, words),
        ("ExecutionFailed", "it went wrong"),
    ] {
        let mut world = world(&[Point::PreToolCall]);
        world.reply(1, "", &[send()]);
        answer_calls(&mut world, vec![arguments(0, CHANGED)]);
        let events = world.error(1, 0, reason);
        assert_eq!(end(&events), (reason, expected));
    }

    let mut world = idle(guard(&[Point::PreToolCall], &[]));
    world.start(chain(vec![tool_step("a", "look")]));
    answer_calls(&mut world, vec![arguments(0, CHANGED)]);
    world.error(1, 0, CallFinished::INVALID_ARGUMENTS);
    let StepStatus::Failed { failure } = world.status(1) else {
        panic!("{:?}", world.status(1));
    };
    assert_eq!(failure.message, words);

    let mut world = world_of_writes();
    let refused = Previewed::Failed {
        output: "path is no text".to_owned(),
        reason: CallFinished::INVALID_ARGUMENTS.to_owned(),
    };
    let call = world.call(1, 0);
    let events = world.decide(Input::Previewed {
        call,
        outcome: refused,
    });
    let words = "after hook 'guard' changed its arguments: path is no text";
    assert_eq!(end(&events).1, words);
}

/// A write whose arguments a hook changed waits for its preview.
fn world_of_writes() -> World {
    let mut world = world(&[Point::PreToolCall]);
    world.reply(1, "", &[write("a")]);
    answer_calls(&mut world, vec![arguments(0, r#"{"path":1}"#)]);
    world
}

#[test]
fn a_copy_asks_hooks_itself_and_its_call_has_a_key_of_its_own() {
    let mut world = world(&[Point::PreToolCall]);
    world.reply(1, "", &[look()]);
    world.decide(Input::Forked(Fork {
        session: "parent".to_owned(),
        request_id: "request".to_owned(),
        title: String::new(),
        principal: None,
        continues: true,
    }));
    assert_eq!(world.made(0).hooks, CallHooks::Before);
    assert_eq!(world.made(0).origin, None, "it was not sent there");
    answer_calls(&mut world, vec![outcome(0, VerdictKind::Proceed, "")]);
    assert!(is_sendable(world.made(0)));
}

#[test]
fn each_question_to_each_hook_has_a_key_of_its_own() {
    let world = world(&[Point::PreToolCall]);
    let gate = Gate::of_attempt(Point::PreToolCall, world.attempt(1), 1);
    let mut other = gate;
    other.attempt.attempt += 1;
    let mut keys = vec![
        gate.key("n", "s", "guard"),
        gate.key("m", "s", "guard"),
        gate.key("n", "t", "guard"),
        gate.key("n", "s", "other"),
        other.key("n", "s", "guard"),
    ];
    let gates = [
        Gate {
            point: Point::PreRequest,
            ..gate
        },
        Gate { turn: 2, ..gate },
        Gate { index: 1, ..gate },
    ];
    keys.extend(gates.map(|gate| gate.key("n", "s", "guard")));
    let distinct: std::collections::BTreeSet<_> = keys.iter().collect();
    assert_eq!(distinct.len(), keys.len());
    assert_eq!(keys[0], gate.key("n", "s", "guard"));
}
