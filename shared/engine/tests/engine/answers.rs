//! Long results, and calls that the owner answers by I/O.

use crate::state_tools::complaint;
use crate::world::{World, chain, complete, kinds, long, look, model_step, send, tool_call};
use cairn_engine::command::{CancelRun, Command, LimitOverrides, PauseRun, ResumeRun};
use cairn_engine::decide::{Answer, Input, Question};
use cairn_engine::event::{Budget, CallRef, Event, EventKind};
use cairn_engine::limits::{MAX_HANDLES, RESULT_BYTES};
use cairn_engine::message::ToolCall;
use cairn_engine::outstanding::Work;
use cairn_engine::session::{PerBudget, StepStatus};
use serde_json::{Value, json};

fn read(arguments: &Value) -> ToolCall {
    tool_call("read_result", arguments)
}

/// A model that has a long result, and calls these tools.
fn with_long_result(calls: &[ToolCall]) -> (World, Vec<Event>) {
    let mut world = World::with_plan(chain(vec![model_step("one"), model_step("two")]));
    world.reply(1, "", &[look()]);
    let result = long(world.call(1, 0), 1_000_000);
    world.report(1, vec![result]);
    let events = world.reply(1, "", calls);
    (world, events)
}

fn reading() -> World {
    with_long_result(&[read(&json!({"handle": "result-1"}))]).0
}

fn answered(world: &mut World, call: CallRef) -> Vec<Event> {
    let answer = Answer::found("a piece".to_owned());
    world.decide(Input::Answered { call, answer })
}

#[test]
fn a_long_result_is_its_beginning_and_a_handle() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    world.reply(1, "", &[look(), look()]);
    for index in [0, 1] {
        let result = long(world.call(1, index), 1_000_000);
        let events = world.report(1, vec![result]);
        let EventKind::CallFinished(finished) = &events[0].kind else {
            panic!("{events:?}");
        };
        assert!(finished.output.len() <= RESULT_BYTES);
        let name = &finished.whole.as_ref().unwrap().handle;
        assert!(name.starts_with(&format!("result-{}-", index + 1)));
        assert!(finished.output.contains(&format!("with handle '{name}'")));
        assert!(finished.output.starts_with("123456789\n123456789\n"));
        assert_eq!(events[0].kind.blobs()[0].digest, "digest-1000000");
        let kept = world.session.handles.get(name).unwrap();
        assert_eq!(Some(kept), finished.whole.as_deref());
    }
    assert_eq!(world.folded(), world.session);
    assert!(world.session.handles.get("result-3").is_none());
}

#[test]
fn a_session_knows_the_newest_handles() {
    let mut session = reading().session;
    let call = session.active_run().unwrap().running_attempts().next();
    let attempt = call.map(|(name, ..)| name).unwrap();
    let name = CallRef {
        attempt,
        tool_turn: 1,
        index: 0,
    };
    let checkpoint = session.to_checkpoint().unwrap();
    for number in 2..=MAX_HANDLES + 1 {
        // Each result is the first of this call in a state of its own; only the handles are carried on.
        let handles = std::mem::take(&mut session.handles);
        session = cairn_engine::session::Session::from_checkpoint(&checkpoint).unwrap();
        session.handles = handles;
        let mut result = long(name, 100);
        result.whole.as_mut().unwrap().handle = format!("result-{number}");
        let event = Event {
            at: 1,
            answers: 0,
            principal: None,
            kind: result.into(),
        };
        session.apply(session.seq + 1, &event).unwrap();
    }
    assert_eq!(session.handles.names().count(), MAX_HANDLES);
    assert!(session.handles.get("result-1").is_none());
    assert!(session.handles.get("result-2").is_some());
}

#[test]
fn the_owner_answers_once_and_the_executor_has_no_work_with_it() {
    let mut world = reading();
    let (attempt, call) = (world.attempt(1), world.call(1, 0));
    assert_eq!(
        world.outstanding(),
        [Work::RunStep(attempt), Work::Answer(call)]
    );
    let running = world.session.attempt(attempt).unwrap();
    assert!(running.waits_for_owner() && running.needs_tool_turn());
    let Some(Ok(Question::ReadResult(asked))) = world.session.question(call) else {
        panic!("{:?}", world.session.question(call));
    };
    assert_eq!((asked.from, asked.to), (1, u64::MAX));
    assert_eq!(asked.whole.blobs[0].digest, "digest-1000000");

    let events = answered(&mut world, call);
    assert_eq!(kinds(&events), ["CallFinished"]);
    assert_eq!(World::reported(&events), [("a piece".to_owned(), false)]);
    assert_eq!(world.outstanding(), [Work::RunStep(attempt)]);
    assert!(world.session.question(call).is_none());
    assert!(answered(&mut world, call).is_empty(), "it has its result");
    world.complete(1, "read");
    assert!(answered(&mut world, call).is_empty(), "the attempt is over");
    assert_eq!(world.folded(), world.session);
}

#[test]
fn a_report_is_of_the_run_that_asks_and_has_a_handle_if_it_is_long() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    world.reply(1, "", &[tool_call("report_generator", &json!({}))]);
    let (attempt, call) = (world.attempt(1), world.call(1, 0));
    assert_eq!(
        world.outstanding(),
        [Work::RunStep(attempt), Work::Answer(call)]
    );
    let asked = world.session.question(call);
    assert_eq!(asked, Some(Ok(Question::Report { run: attempt.run })));

    let found = long(call, 1_000_000);
    let whole = *found.whole.expect("it is long");
    let answer = Answer::long(found.output, whole);
    let events = world.decide(Input::Answered { call, answer });
    let EventKind::CallFinished(finished) = &events[0].kind else {
        panic!("{events:?}");
    };
    assert!(!finished.is_error && finished.output.len() <= RESULT_BYTES);
    let name = &finished.whole.as_ref().expect("a handle").handle;
    assert!(finished.output.contains(&format!("with handle '{name}'")));
    assert!(world.session.handles.get(name).is_some());
    assert_eq!(world.folded(), world.session);
}

#[test]
fn an_executor_with_a_call_of_its_own_has_work_beside_it() {
    let calls = [read(&json!({"handle": "result-1"})), send()];
    let (mut world, _) = with_long_result(&calls);
    let (attempt, call) = (world.attempt(1), world.call(1, 0));
    let running = world.session.attempt(attempt).unwrap();
    assert!(!running.waits_for_owner() && !running.needs_tool_turn());
    world.result(1, 1, "sent");
    let running = world.session.attempt(attempt).unwrap();
    assert!(running.waits_for_owner() && running.needs_tool_turn());
    assert!(world.outstanding().contains(&Work::Answer(call)));
}

#[test]
fn the_end_of_a_step_waits_for_the_answer() {
    let calls = [
        read(&json!({"handle": "result-1", "search": "9"})),
        complete("it is read"),
    ];
    let (mut world, _) = with_long_result(&calls);
    let call = world.call(1, 0);
    assert!(matches!(world.status(1), StepStatus::Running(_)));
    let events = answered(&mut world, call);
    assert_eq!(
        kinds(&events)[..3],
        ["CallFinished", "CallFinished", "StepCompleted"]
    );

    let (mut world, _) = with_long_result(&calls);
    let answer = Answer::failed(Answer::TIMEOUT, "it took too long");
    let call = world.call(1, 0);
    let events = world.decide(Input::Answered { call, answer });
    let told = World::reported(&events);
    assert_eq!(told[0], ("it took too long".to_owned(), true));
    assert!(told[1].0.starts_with("not completed"), "{told:?}");
}

#[test]
fn an_answer_ends_with_its_call_and_is_found_again() {
    let answer = |world: &World| {
        world
            .outstanding()
            .contains(&Work::Answer(world.call(1, 0)))
    };
    let mut world = reading();
    world.command(Command::PauseRun(PauseRun::default()));
    assert!(!answer(&world), "the run is paused");
    world.command(Command::ResumeRun(ResumeRun::default()));
    assert!(answer(&world), "it continues");
    for holder_dead in [true, false] {
        world.session = world.folded();
        world.decide(Input::TakenOver { holder_dead });
        assert!(answer(&world), "another owner finds it");
    }
    let attempt = world.attempt(1);
    world.decide(Input::AttemptLost { attempt });
    assert!(answer(&world), "the executor has no part in it");
    world.command(Command::CancelRun(CancelRun::default()));
    assert!(world.outstanding().is_empty());
}

#[test]
fn a_used_up_budget_asks_no_model_and_lets_the_answer_come() {
    let mut world = World::new();
    let budgets = PerBudget::from([
        (Budget::Turns, 2),
        (Budget::Tokens, 0),
        (Budget::Time, 0),
        (Budget::Calls, 0),
    ]);
    let limits = LimitOverrides {
        budgets,
        ..LimitOverrides::default()
    };
    world.start_with(chain(vec![model_step("one")]), limits);
    world.reply(1, "", &[look()]);
    let result = long(world.call(1, 0), 1_000_000);
    world.report(1, vec![result]);
    world.reply(1, "", &[read(&json!({"handle": "result-1"}))]);
    let call = world.call(1, 0);
    assert_eq!(world.outstanding(), [Work::Answer(call)]);
    answered(&mut world, call);
    assert!(world.outstanding().is_empty());
}

#[test]
fn what_cannot_be_read_is_refused_at_once_in_words() {
    let cases = [
        (json!({}), "handle is missing; allowed is the name"),
        (
            json!({"handle": "result-7"}),
            "there is no result 'result-7'; the newest are: result-1-",
        ),
        (
            json!({"handle": "result-1", "from_line": 0}),
            "from_line is 0; lines count from 1",
        ),
        (
            json!({"handle": "result-1", "to_line": 0}),
            "to_line is 0; lines count from 1",
        ),
        (
            json!({"handle": "result-1", "from_line": -5}),
            "from_line is -5; allowed is a whole number from 1",
        ),
        (
            json!({"handle": "result-1", "to_line": "7"}),
            "to_line is \"7\"; allowed is a whole number from 1",
        ),
        (
            json!({"handle": "result-1", "from_line": 9, "to_line": 8}),
            "to_line 8 is before from_line 9",
        ),
        (
            json!({"handle": "result-1", "from_line": 100_001}),
            "from_line 100001 is beyond the end: 'result-1-",
        ),
        (json!({"handle": 1}), "handle is 1; allowed is the name"),
        (
            json!({"handle": "result-1", "search": 9}),
            "search is 9; allowed is a text",
        ),
        (
            json!({"handle": "result-1", "line": 9}),
            "there is no argument 'line'; there are handle, from_line, to_line, search",
        ),
        (json!(["result-1"]), "allowed is a JSON object"),
        (
            json!({"handle": "result-1", "search": "a\nb"}),
            "search is one line",
        ),
    ];
    for (arguments, expected) in cases {
        let (mut world, _) = with_long_result(&[]);
        let told = complaint(&mut world, "read_result", &arguments);
        assert!(told.contains(expected), "{told}");
        let answers = |work: &Work| matches!(work, Work::Answer(_));
        assert!(!world.outstanding().iter().any(answers));
    }
    let mut none = crate::state_tools::world();
    let told = complaint(&mut none, "read_result", &json!({"handle": "result-1"}));
    assert_eq!(
        told,
        "there is no result 'result-1': no result was too long so far"
    );
}
