//! What people are asked before something is done: approvals, questions of the model, plans.

use crate::world::{
    World, chain, complete, graph, kinds, look, model_step, send, tool_call, tool_step,
};
use cairn_engine::command::{self, Command, RevisePlan, Settlement};
use cairn_engine::decide::Input;
use cairn_engine::event::{self, EventKind, WaitReason};
use cairn_engine::key::approval_digest;
use cairn_engine::message::ToolCall;
use cairn_engine::outstanding::Work;
use cairn_engine::pending::{Asked, pending};
use cairn_engine::session::{CallStatus, RunStatus, StepStatus};
use serde_json::json;

const APPROVAL: RunStatus = RunStatus::Waiting(WaitReason::Approval);
const QUESTION: RunStatus = RunStatus::Waiting(WaitReason::Question);

fn pay() -> ToolCall {
    tool_call("pay", &json!({"sum": 5}))
}

fn ask() -> ToolCall {
    let asked = json!({"question": "Which one?", "choices": ["left", "right"]});
    tool_call("ask_person", &asked)
}

pub(crate) fn deny(reason: &str) -> Settlement {
    let reason = reason.to_owned();
    Settlement::Deny { reason }
}

fn answer(text: &str) -> Settlement {
    let text = text.to_owned();
    Settlement::Answer { text }
}

/// The ids of the open questions.
pub(crate) fn open(world: &World) -> Vec<String> {
    let open = pending(&world.session);
    open.iter().map(|open| open.id().to_string()).collect()
}

#[test]
fn a_call_that_needs_approval_is_neither_intended_nor_sent_before() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    let events = world.reply(1, "", &[pay(), send()]);
    let asked = ["ReplyReceived", "ApprovalRequested", "RunWaiting"];
    assert_eq!(kinds(&events), asked);
    assert_eq!(world.run().status, APPROVAL);
    assert!(world.outstanding().is_empty(), "nobody keeps a slot for it");
    let about = pending(&world.session).remove(0);
    assert_eq!(about.id().to_string(), "approval-1.1.1.0.0");
    let Asked::Approval { call, .. } = about.asked else {
        panic!("{about:?}");
    };
    assert_eq!(call.arguments, r#"{"sum":5}"#);
    let EventKind::ApprovalRequested(event::ApprovalRequested { digest, .. }) = &events[1].kind
    else {
        panic!("{events:?}");
    };
    assert_eq!(*digest, approval_digest("pay", "", r#"{"sum":5}"#, None));

    let events = world.answer("approval-1.1.1.0.0", Settlement::Approve);
    let continues = ["Decided", "CallIntended", "CallIntended", "RunResumed"];
    assert_eq!(kinds(&events), continues);
    assert_eq!(world.outstanding(), [Work::RunStep(world.attempt(1))]);
    let call = world.session.call(world.call(1, 0)).unwrap();
    assert_eq!(call.approval.as_ref(), Some(digest));
}

#[test]
fn a_denied_call_is_reported_to_the_model_and_never_made() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    world.reply(1, "", &[pay()]);
    let events = world.answer("approval-1.1.1.0.0", deny("too dear"));
    assert_eq!(kinds(&events), ["Decided", "CallFinished", "RunResumed"]);
    let call = world.session.call(world.call(1, 0)).unwrap();
    let CallStatus::Finished {
        output, is_error, ..
    } = &call.status
    else {
        panic!("{call:?}");
    };
    assert!(*is_error && output.ends_with("too dear"), "{output}");
    let step = world.session.step(world.attempt(1)).unwrap();
    assert!(step.effects.is_empty(), "nothing was done");
    assert_eq!(world.outstanding(), [Work::RunStep(world.attempt(1))]);
}

#[test]
fn a_tool_step_waits_for_approval_and_fails_without() {
    for (word, ended) in [(Settlement::Approve, false), (deny(""), true)] {
        let mut world = World::with_plan(graph(vec![tool_step("pay", "pay"), model_step("b")]));
        assert_eq!(world.run().status, APPROVAL);
        let other = Work::RunStep(world.attempt(2));
        assert_eq!(world.outstanding(), [other], "the other step runs");
        world.answer("approval-1.1.1.0.0", word);
        let has_failed = matches!(world.status(1), StepStatus::Failed { .. });
        assert_eq!(has_failed, ended, "{:?}", world.status(1));
        if !ended {
            world.result(1, 0, "paid");
            assert!(matches!(world.status(1), StepStatus::Completed { .. }));
        }
    }
}

#[test]
fn answers_may_come_one_by_one_and_the_rest_waits() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    world.reply(1, "", &[pay(), ask(), pay(), look()]);
    let ids = [
        "approval-1.1.1.0.0",
        "question-1.1.1.0.1",
        "approval-1.1.1.0.2",
    ];
    assert_eq!(open(&world), ids);
    let events = world.answer(ids[2], Settlement::Approve);
    assert_eq!(kinds(&events), ["Decided"]);
    let events = world.answer(ids[0], deny("no"));
    let reported = ["Decided", "CallFinished", "RunResumed", "RunWaiting"];
    assert_eq!(kinds(&events), reported);
    assert_eq!(world.run().status, QUESTION);
    assert_eq!(open(&world), ids[1..2]);
    assert!(world.outstanding().is_empty());
    let events = world.answer(ids[1], answer("left"));
    let continues = ["Decided", "CallFinished", "CallIntended", "RunResumed"];
    assert_eq!(kinds(&events), continues);
    assert_eq!(World::reported(&events), [("left".to_owned(), false)]);
    assert_eq!(world.outstanding(), [Work::RunStep(world.attempt(1))]);
}

#[test]
fn an_answer_that_does_not_fit_or_comes_twice_changes_nothing() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    world.reply(1, "", &[pay(), ask()]);
    let (approval, question) = ("approval-1.1.1.0.0", "question-1.1.1.0.1");
    let done = Settlement::Done {
        output: String::new(),
    };
    let wrong = [
        (approval, done.clone(), "BAD_SETTLEMENT"),
        (approval, answer("yes"), "BAD_SETTLEMENT"),
        (question, Settlement::Approve, "BAD_SETTLEMENT"),
        ("call-1.1.1.0.0", done, "NOT_PENDING"),
        ("approval-1.1.1.0.1", Settlement::Approve, "NOT_PENDING"),
        ("question-1.1.1.0.0", answer("x"), "NOT_PENDING"),
        ("approval-1.1.1.0.0-2", Settlement::Approve, "NOT_PENDING"),
        ("plan-1.1", Settlement::Approve, "NOT_PENDING"),
    ];
    for (id, word, reason) in wrong {
        assert_refused(&world.answer(id, word), reason, id);
    }
    world.answer(approval, Settlement::Approve);
    let again = world.answer(approval, Settlement::Approve);
    assert_refused(&again, "NOT_PENDING", "the second answer");
}

pub(crate) fn assert_refused(events: &[event::Event], expected: &str, what: &str) {
    let [event] = events else {
        panic!("{what}: {events:?}");
    };
    let EventKind::CommandRefused(event::CommandRefused { reason, .. }) = &event.kind else {
        panic!("{what}: {event:?}");
    };
    assert_eq!(reason.name(), expected, "{what}");
}

#[test]
fn a_call_in_doubt_is_not_approved_but_settled() {
    let mut world = World::with_plan(chain(vec![tool_step("one", "send")]));
    let attempt = world.attempt(1);
    world.decide(Input::AttemptLost { attempt });
    let events = world.answer("call-1.1.1.0.0", Settlement::Approve);
    assert_refused(&events, "BAD_SETTLEMENT", "a call in doubt");
}

#[test]
fn an_approval_counts_for_a_call_that_is_sent_again_after_a_doubt() {
    let mut world = World::with_plan(chain(vec![tool_step("one", "pay")]));
    world.answer("approval-1.1.1.0.0", Settlement::Approve);
    let attempt = world.attempt(1);
    world.decide(Input::AttemptLost { attempt });
    world.now += 1_000_000;
    let events = world.answer("call-1.1.1.0.0", Settlement::Retry);
    let again = ["Decided", "CallSettled", "CallIntended", "RunResumed"];
    assert_eq!(kinds(&events), again);
}

#[test]
fn crashes_and_pauses_leave_questions_open() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    world.reply(1, "", &[pay(), ask()]);
    for holder_dead in [true, false] {
        world.session = world.folded();
        let events = world.decide(Input::TakenOver { holder_dead });
        assert_eq!(kinds(&events), ["AttemptContinued"]);
        assert_eq!(open(&world).len(), 2);
    }
    let (run, reason) = (1, String::new());
    world.command(Command::PauseRun(command::PauseRun { run, reason }));
    world.answer("approval-1.1.1.0.0", Settlement::Approve);
    world.answer("question-1.1.1.0.1", answer("right"));
    assert_eq!(world.run().status, RunStatus::Paused);
    assert!(world.outstanding().is_empty(), "it is paused");
    let events = world.command(Command::ResumeRun(command::ResumeRun { run }));
    assert_eq!(kinds(&events), ["RunResumed", "CallIntended"]);
}

#[test]
fn a_question_that_cannot_be_asked_is_reported_to_the_model() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    let choices = vec!["x"; 11];
    let wrong = [
        json!({"question": " "}),
        json!({"question": "Which?", "choices": choices}),
        json!({"question": "x".repeat(9000)}),
        json!({"choices": []}),
    ];
    let calls: Vec<_> = wrong.iter().map(|it| tool_call("ask_person", it)).collect();
    let events = world.reply(1, "", &calls);
    let reported = World::reported(&events);
    assert_eq!(reported.len(), 4);
    assert!(
        reported.iter().all(|(_, is_error)| *is_error),
        "{reported:?}"
    );
    assert_eq!(world.run().status, RunStatus::Running);
}

#[test]
fn a_step_is_not_complete_before_the_model_has_seen_an_answer() {
    let mut world = World::with_plan(chain(vec![model_step("one"), model_step("two")]));
    world.reply(1, "", &[ask(), complete("asked")]);
    assert_eq!(world.run().status, QUESTION);
    let events = world.answer("question-1.1.1.0.0", answer("left"));
    let reported = World::reported(&events);
    assert_eq!(reported[0], ("left".to_owned(), false));
    assert!(
        reported[1].1 && reported[1].0.contains("a person has answered"),
        "{reported:?}"
    );
    assert_eq!(world.outstanding(), [Work::RunStep(world.attempt(1))]);
    world.complete(1, "went left");
    assert!(matches!(world.status(1), StepStatus::Completed { .. }));
    assert_eq!(world.running(), [2]);
}

#[test]
fn what_a_dropped_step_asked_is_not_asked_any_more() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    world.reply(1, "", &[pay(), ask()]);
    let revise = RevisePlan {
        run: 1,
        plan: Some(chain(vec![model_step("other")])),
        apply: true,
        ..RevisePlan::default()
    };
    world.command(Command::RevisePlan(revise));
    assert!(open(&world).is_empty());
    assert_eq!(world.run().status, RunStatus::Running);
    assert!(!world.run().asks_person());
}

#[test]
fn a_question_says_since_when_it_is_open() {
    let mut world = World::with_plan(graph(vec![model_step("one"), model_step("two")]));
    let asked_at = world.now;
    world.reply(1, "", &[pay()]);
    world.now += 60_000;
    world.reply(2, "", &[ask()]);
    let since = |world: &World| -> Vec<_> {
        let open = pending(&world.session).into_iter();
        open.map(|open| (open.reason(), open.since)).collect()
    };
    let expected = [
        (WaitReason::Approval, asked_at),
        (WaitReason::Question, asked_at + 60_000),
    ];
    assert_eq!(since(&world), expected);
    assert_eq!(pending(&world.folded()), pending(&world.session));
    world.now += 60_000;
    world.answer("approval-1.1.1.0.0", Settlement::Approve);
    assert_eq!(since(&world), expected[1..]);
}
