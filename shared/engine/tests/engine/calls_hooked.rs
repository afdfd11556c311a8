//! Hooks are asked about calls before they are made, and about their results before a model gets these.

use crate::asking::{deny, open};
use crate::previews::{end, is_sendable, new_file, rules, write, writer};
use crate::state_tools::complaint;
use crate::turns::turn;
use crate::world::{
    World, chain, finished, graph, hooked, kinds, long, look, model_step, report_reply, send,
    tool_call, tool_step,
};
use cairn_engine::command::{
    CancelRun, Command, Keep, Settlement, StartRun, SubmitTurn, TurnOptions,
};
use cairn_engine::decide::{Fork, Input, Previewed, Unfinished};
use cairn_engine::event::{CallFinished, Event, EventKind, WaitReason};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::hooks::{
    Gate, MAX_ANSWER, Mutation, Outcome, PinnedHook, Point, Points, PresentHook, PresentHooks,
    VerdictKind,
};
use cairn_engine::key::approval_digest;
use cairn_engine::limits::RESULT_BYTES;
use cairn_engine::message::Message;
use cairn_engine::outstanding::Work;
use cairn_engine::pending::{Asked, PendingId, pending};
use cairn_engine::rules::{Answer, Rules};
use cairn_engine::session::{CallHooks, CallStatus, MAIN, Mode, RunStatus, StepStatus};
use serde_json::json;

const APPROVAL: RunStatus = RunStatus::Waiting(WaitReason::Approval);
const HOOK: RunStatus = RunStatus::Waiting(WaitReason::Hook);
/// The arguments that hooks send in place of the model's.
const CHANGED: &str = r#"{"to":"ops"}"#;

fn guard(points: &[Point], tools: &[&str]) -> PresentHooks {
    let pin = PinnedHook {
        name: "guard".to_owned(),
        digest: "first".to_owned(),
        points: points.iter().copied().collect::<Points>(),
        tools: tools.iter().map(|&tool| tool.to_owned()).collect(),
    };
    PresentHooks(vec![PresentHook { pin, agents: None }])
}

/// No run yet. `write` writes files, and asks by default.
fn idle(hooks: PresentHooks) -> World {
    let mut world = World::new();
    world.tools.insert("write".to_owned(), writer(Answer::Ask));
    world.hooks = hooks;
    world
}

/// A run of one step that a person follows.
fn world(points: &[Point]) -> World {
    let mut world = idle(guard(points, &[]));
    start(&mut world, true);
    world
}

fn start(world: &mut World, answers_questions: bool) {
    world.command(Command::StartRun(StartRun {
        plan: Some(chain(vec![model_step("a")])),
        answers_questions,
        ..StartRun::default()
    }));
}

fn outcome(index: u32, verdict: VerdictKind, text: &str) -> Outcome {
    let hook = match verdict {
        VerdictKind::Proceed => "",
        _ => "guard",
    };
    Outcome {
        index,
        verdict,
        hook: hook.to_owned(),
        text: text.to_owned(),
        mutation: None,
        answers: Vec::new(),
    }
}

fn mutate(index: u32, mutation: Mutation) -> Outcome {
    Outcome {
        mutation: Some(mutation),
        ..outcome(index, VerdictKind::Mutate, "")
    }
}

fn arguments(index: u32, arguments: &str) -> Outcome {
    mutate(index, Mutation::Arguments(arguments.to_owned()))
}

fn output(text: &str) -> Outcome {
    mutate(0, Mutation::Output(text.to_owned()))
}

/// The question about the calls of the last reply.
fn calls(world: &World) -> Gate {
    let call = world.call(1, 0);
    Gate::of_attempt(Point::PreToolCall, call.attempt, call.tool_turn)
}

fn result(world: &World, index: u32) -> Gate {
    Gate::of_result(world.call(1, index))
}

fn is_asked(world: &World, gate: Gate) -> bool {
    world.outstanding().contains(&Work::AskHooks(gate))
}

fn answer(world: &mut World, gate: Gate, outcomes: Vec<Outcome>) -> Vec<Event> {
    assert!(is_asked(world, gate), "{:?}", world.outstanding());
    let events = world.decide(hooked(gate, outcomes));
    assert_eq!(world.folded(), world.session);
    events
}

fn answer_calls(world: &mut World, outcomes: Vec<Outcome>) -> Vec<Event> {
    let gate = calls(world);
    answer(world, gate, outcomes)
}

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
fn a_refusal_comes_before_hooks_and_counts_again_after_them() {
    let denying = || rules(&[("write", Some("secret/**"), Answer::Deny)]);
    let mut world = world(&[Point::PreToolCall]);
    world.rules = denying();
    let events = world.reply(1, "", &[write("secret/a")]);
    assert_eq!(kinds(&events), ["ReplyReceived", "CallFinished"]);
    assert!(
        !is_asked(&world, calls(&world)),
        "nothing loosens a refusal"
    );
    world.reply(1, "", &[write("src/a")]);
    let changed = write("secret/a").arguments;
    let events = answer_calls(&mut world, vec![arguments(0, &changed)]);
    assert_eq!(kinds(&events), ["HooksAnswered", "CallFinished"]);
    assert_eq!(end(&events).0, CallFinished::DENIED);
}

#[test]
fn a_refused_call_behind_a_write_is_not_asked_about() {
    let mut world = world(&[Point::PreToolCall]);
    world.rules = rules(&[("send", None, Answer::Deny), ("write", None, Answer::Allow)]);
    let events = world.reply(1, "", &[write("a"), send()]);
    assert_eq!(kinds(&events), ["ReplyReceived", "CallFinished"]);
    assert!(world.made(0).waits_for_hooks() && world.made(1).is_finished());
}

#[test]
fn a_write_is_previewed_and_approved_as_hooks_leave_it() {
    let mut world = world(&[Point::PreToolCall]);
    world.reply(1, "", &[write("src/a")]);
    let preview = Work::Preview(world.call(1, 0));
    assert!(!world.outstanding().contains(&preview));
    let changed = write("src/b").arguments;
    let events = answer_calls(&mut world, vec![arguments(0, &changed)]);
    assert_eq!(kinds(&events), ["HooksAnswered"]);
    assert!(world.outstanding().contains(&preview) && !is_sendable(world.made(0)));
    let shown = new_file("src/b");
    let events = world.previewed(0, shown.clone());
    assert_eq!(
        kinds(&events),
        ["CallPreviewed", "ApprovalRequested", "RunWaiting"]
    );
    let Asked::Approval { call, .. } = pending(&world.session).remove(0).asked else {
        panic!("{:?}", pending(&world.session));
    };
    assert_eq!(call.arguments, changed, "what is approved is what is sent");
    world.answer("approval-1.1.1.0.0", Settlement::Approve);
    let digest = approval_digest("write", "first", &changed, Some(&shown));
    assert_eq!(world.made(0).approval, Some(digest));
    assert!(is_sendable(world.made(0)));
}

#[test]
fn no_rule_no_mode_and_no_approval_answers_for_the_person_that_a_hook_requires() {
    let mut world = world(&[Point::PreToolCall]);
    world.rules = rules(&[("*", None, Answer::Allow)]);
    world.set_mode(Mode::AcceptEdits);
    world.reply(1, "", &[write("a")]);
    let required = outcome(0, VerdictKind::RequireApproval, "it is Friday");
    answer_calls(&mut world, vec![required.clone()]);
    world.previewed(0, new_file("a"));
    assert_eq!(world.run().status, APPROVAL);
    let demand = world.made(0).demand.as_ref().unwrap();
    assert_eq!(
        (demand.hook.as_str(), demand.reason.as_str()),
        ("guard", "it is Friday")
    );
    let always = |scope: &str| Settlement::ApproveAlways {
        when: Vec::new(),
        scope: scope.to_owned(),
    };
    for scope in ["tool", "folder:.", ""] {
        let events = world.answer("approval-1.1.1.0.0", always(scope));
        assert_eq!(kinds(&events), ["CommandRefused"], "{scope}");
    }
    let events = world.answer("approval-1.1.1.0.0", Settlement::Approve);
    assert_eq!(kinds(&events), ["Decided", "RunResumed"]);
    assert!(is_sendable(world.made(0)), "it was approved");
    world.result(1, 0, "written");
    // An approval of further calls, given for one that no hook asked about, does not help either.
    world.rules = Rules::default();
    world.set_mode(Mode::Ask);
    world.reply(1, "", &[write("b")]);
    answer_calls(&mut world, vec![outcome(0, VerdictKind::Proceed, "")]);
    world.previewed(0, new_file("b"));
    world.answer("approval-1.1.1.1.0", always("tool"));
    assert!(is_sendable(world.made(0)));
    world.result(1, 0, "written");
    world.reply(1, "", &[write("c")]);
    answer_calls(&mut world, vec![required]);
    world.previewed(0, new_file("c"));
    assert_eq!(open(&world), ["approval-1.1.1.2.0"]);
}

#[test]
fn a_required_approval_does_not_make_a_write_possible_that_nobody_follows() {
    let mut world = idle(guard(&[Point::PreToolCall], &[]));
    start(&mut world, false);
    world.reply(1, "", &[write("a")]);
    answer_calls(
        &mut world,
        vec![outcome(0, VerdictKind::RequireApproval, "")],
    );
    let events = world.previewed(0, new_file("a"));
    assert_eq!(end(&events).0, CallFinished::DENIED);
}

#[test]
fn a_person_who_denies_what_a_hook_requires_ends_the_call() {
    let mut world = world(&[Point::PreToolCall]);
    world.reply(1, "", &[send()]);
    answer_calls(
        &mut world,
        vec![outcome(0, VerdictKind::RequireApproval, "")],
    );
    let events = world.answer("approval-1.1.1.0.0", deny("too dear"));
    assert_eq!(kinds(&events), ["Decided", "CallFinished", "RunResumed"]);
    assert_eq!(end(&events).0, CallFinished::DENIED);
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
fn a_call_that_is_judged_anew_keeps_what_hooks_made_of_it() {
    let mut world = world(&[Point::PreToolCall]);
    world.reply(1, "", &[send()]);
    let changed = Outcome {
        mutation: Some(Mutation::Arguments(CHANGED.to_owned())),
        ..outcome(0, VerdictKind::RequireApproval, "")
    };
    answer_calls(&mut world, vec![changed]);
    world.answer("approval-1.1.1.0.0", Settlement::Approve);
    let again = Unfinished::Rejudge {
        call: world.call(1, 0),
        resolved: Vec::new(),
    };
    world.unfinished(1, again);
    assert_eq!(world.made(0).arguments(), CHANGED);
    assert!(!world.made(0).waits_for_hooks());
    assert_eq!(open(&world), ["approval-1.1.1.0.0-2"], "it asks anew");
}

/// A run that waits because its hook is not there any more.
fn missing() -> World {
    let mut world = world(&[Point::PreToolCall]);
    world.decide(Input::HooksMissing {
        run: 1,
        missing: vec!["guard".to_owned()],
        changed: Vec::new(),
    });
    world
}

#[test]
fn a_run_whose_hook_is_missing_waits_for_a_person() {
    let fail = |reason: &str| Settlement::Fail {
        reason: reason.to_owned(),
    };
    let mut world = missing();
    assert_eq!(world.run().status, HOOK);
    assert_eq!(open(&world), ["hook-1"]);
    assert_eq!(pending(&world.session)[0].reason(), WaitReason::Hook);
    let events = world.answer("hook-1", deny("no"));
    assert_eq!(kinds(&events), ["CommandRefused"]);

    let events = world.answer("hook-1", Settlement::Retry);
    assert_eq!(kinds(&events), ["Decided", "RunResumed"]);
    world.decide(Input::HooksMissing {
        run: 1,
        missing: vec!["guard".to_owned()],
        changed: Vec::new(),
    });
    assert_eq!(open(&world), ["hook-1-2"], "another question");
    let events = world.answer("hook-1", Settlement::Retry);
    assert_eq!(kinds(&events), ["CommandRefused"]);
    world.answer("hook-1-2", fail("not without it"));
    assert_eq!(world.run().status, RunStatus::Failed);
    let failure = world.run().end.failure.as_ref().unwrap();
    assert_eq!(
        failure.message,
        "hook 'guard' is not configured any more; not without it"
    );
    assert_eq!(world.folded(), world.session);
}

#[test]
fn a_run_takes_the_present_hooks_in_place_of_its_own_and_no_others() {
    let mut world = missing();
    let mut present = guard(&[Point::PostToolCall], &[]);
    present.0[0].pin.digest = "second".to_owned();
    let mut other = present.0[0].clone();
    other.pin.name = "other".to_owned();
    present.0.insert(0, other);
    world.hooks = present.clone();
    let events = world.answer("hook-1", Settlement::Approve);
    assert_eq!(kinds(&events), ["Decided", "HooksPinned", "RunResumed"]);
    assert_eq!(world.run().hooks.pinned, [present.0[1].pin.clone()]);

    let mut world = missing();
    world.hooks = PresentHooks::default();
    world.answer("hook-1", Settlement::Approve);
    assert!(world.run().hooks.pinned.is_empty(), "it is not there");
    assert_eq!(world.run().status, RunStatus::Running);
}

#[test]
fn a_person_lets_a_run_begin_or_ends_it() {
    let waiting = || {
        let mut world = world(&[Point::OnRunStart]);
        let required = outcome(0, VerdictKind::RequireApproval, "it is Friday");
        let gate = Gate::of_run(Point::OnRunStart, 1);
        answer(&mut world, gate, vec![required]);
        assert_eq!(world.run().status, HOOK);
        assert_eq!(open(&world), ["hook-1"]);
        world
    };
    let mut world = waiting();
    let events = world.answer("hook-1", Settlement::Retry);
    assert_eq!(kinds(&events), ["CommandRefused"]);
    world.answer("hook-1", Settlement::Approve);
    assert!(matches!(world.status(1), StepStatus::Running(_)));

    let mut world = waiting();
    world.answer("hook-1", deny("not today"));
    assert_eq!(world.run().status, RunStatus::Failed);
    let failure = world.run().end.failure.as_ref().unwrap();
    let words = "a person did not approve the run, as hook 'guard' requires; not today";
    assert_eq!(
        (failure.kind, failure.message.as_str()),
        (FailureKind::HookBlocked, words)
    );
}

#[test]
fn a_person_lets_a_step_begin_or_fails_it() {
    for (settlement, is_begun) in [(Settlement::Approve, true), (deny("no"), false)] {
        let mut world = world(&[Point::OnStepStart]);
        let gate = world.outstanding().into_iter().find_map(|work| match work {
            Work::AskHooks(gate) => Some(gate),
            _ => None,
        });
        let required = outcome(0, VerdictKind::RequireApproval, "");
        answer(&mut world, gate.unwrap(), vec![required]);
        assert_eq!(world.run().status, HOOK);
        world.answer("hook-1", settlement);
        let has_begun = matches!(world.status(1), StepStatus::Running(_));
        assert_eq!(has_begun, is_begun, "{:?}", world.status(1));
        if !is_begun {
            let StepStatus::Failed { failure } = world.status(1) else {
                panic!("{:?}", world.status(1));
            };
            let words = "a person did not approve the step, as hook 'guard' requires; no";
            assert_eq!(failure.message, words);
        }
    }
}

#[test]
fn the_name_of_a_question_of_hooks_is_read_back() {
    for name in ["hook-7", "hook-7-3"] {
        let id = PendingId::parse(name).unwrap();
        assert_eq!((id.to_string().as_str(), id.run()), (name, 7));
        assert_eq!((id.call(), id.attempt()), (None, None));
    }
    for name in ["hook-", "hook-7-1", "hook-7.1", "hook-a"] {
        assert_eq!(PendingId::parse(name), None, "{name}");
    }
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
