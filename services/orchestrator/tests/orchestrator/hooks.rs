//! Hooks between the owner and the executor: what waits for an answer, what goes on meanwhile, and what is asked again.

mod changed;
mod points;
mod several;

use crate::answers::results;
use crate::support::{
    Attempt, HookQuestion, HookQuestions, Kind, World, chain, count, model_step, names, reply,
    with_hook,
};
use cairn_engine::event::HooksAnswered;
use cairn_engine::hooks::{Gate, HookFailure, Mutation, Payload, Point, Verdict, VerdictKind};
use cairn_orchestrator::Config;
use cairn_proto::event as wire;
use cairn_proto::executor::RunStepResponse;
use cairn_proto::orchestrator as pb;
use std::time::Duration;

/// After so long without an answer, the attempt gives its slot back.
const SLOW: Duration = Duration::from_secs(5);

/// A world whose runs ask the hook at these points.
async fn world(points: &[Point]) -> (World, HookQuestions) {
    let (config, questions) = with_hook(points);
    (World::with_config(config).await, questions)
}

async fn question(world: &World, questions: &mut HookQuestions) -> HookQuestion {
    let question = world.until(questions.recv()).await;
    question.expect("a question")
}

fn one_step() -> wire::StartRun {
    chain(vec![model_step("one")])
}

/// The answers of hooks that are durable.
async fn answered(world: &World, session: &str) -> Vec<HooksAnswered> {
    let events = world.journal.events(session).await;
    let answered = events.into_iter().filter_map(|event| match event.kind {
        Kind::HooksAnswered(answered) => Some(answered),
        _ => None,
    });
    answered.collect()
}

/// Reports the result of a pure call without asking the model, as an executor does that waits for hooks.
fn settle(attempt: &mut Attempt, tool_turn: u32, output: &str) {
    let result = attempt.result(tool_turn, 0, output);
    attempt.report(RunStepResponse {
        results: vec![result],
        ..RunStepResponse::default()
    });
}

#[tokio::test(start_paused = true)]
async fn nothing_of_a_run_begins_before_its_hook_has_answered() {
    let (world, mut questions) = world(&[Point::OnRunStart]).await;
    let session = world.start(one_step()).await;
    let asked = question(&world, &mut questions).await;
    assert_eq!(asked.asked.session, session);
    assert_eq!(
        asked.asked.question.gate,
        Gate::of_run(Point::OnRunStart, 1)
    );
    assert!(world.other_attempts().await.is_empty());
    asked.proceed();
    let mut attempt = world.attempt().await;
    attempt.complete(0);
    let events = world.ended(&session).await;
    assert_eq!(count(&events, "HooksAnswered"), 1, "{:?}", names(&events));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_a_hook_blocks_fails_with_its_words() {
    let (world, mut questions) = world(&[Point::OnRunStart]).await;
    let session = world.start(one_step()).await;
    question(&world, &mut questions).await.block("not today");
    world.ended(&session).await;
    let failure = world.run(&session).await.failure.expect("a failure");
    assert_eq!(failure.kind(), wire::FailureKind::HookBlocked);
    assert_eq!(failure.reason, "HOOK_BLOCKED");
    let words = "hook 'played' blocked OnRunStart: not today";
    assert_eq!(failure.message, words);
    assert!(world.other_attempts().await.is_empty());
}

/// The executor has reported all results, and waits for the acknowledgement.
#[tokio::test(start_paused = true)]
async fn an_executor_waits_for_the_hook_before_each_request() {
    let (world, mut questions) = world(&[Point::PreRequest]).await;
    let session = world.start(one_step()).await;
    let first = question(&world, &mut questions).await;
    assert!(world.other_attempts().await.is_empty(), "before dispatch");
    first.proceed();
    let mut attempt = world.attempt().await;
    assert!(attempt.start.settles_before_request);
    attempt.reply(reply(0, "", &[("pure", "{}")]));
    assert!(!world.until(attempt.settled()).await);

    settle(&mut attempt, 0, "found");
    let second = question(&world, &mut questions).await;
    assert_eq!(second.asked.question.gate.turn, 1);
    let Payload::Request(request) = &second.asked.question.payload else {
        panic!("{second:?}");
    };
    assert_eq!(
        request.new_messages().count(),
        2,
        "the reply and the result"
    );
    world.settle().await;
    assert!(attempt.received().is_none(), "the result is durable");
    second.proceed();
    assert!(!world.until(attempt.settled()).await);
    attempt.complete(1);
    world.ended(&session).await;
}

/// A Proceed is worth no transition of its own: it comes with what follows from it.
#[tokio::test(start_paused = true)]
async fn a_proceed_is_durable_with_the_next_report() {
    let (world, mut questions) = world(&[Point::PreRequest]).await;
    let session = world.start(one_step()).await;
    let commits = || world.faults.calls("Commit");
    let asked = question(&world, &mut questions).await;
    let before = commits();
    asked.proceed();
    let mut attempt = world.attempt().await;
    world.settle().await;
    assert_eq!(commits(), before);
    assert!(answered(&world, &session).await.is_empty());
    attempt.complete(0);
    world.ended(&session).await;
    assert_eq!(answered(&world, &session).await.len(), 1);
    assert_eq!(commits(), before + 1);
    assert!(questions.try_recv().is_err(), "it is asked once");
}

/// The executor is lost after a Proceed that is not durable: the hook is not asked again.
#[tokio::test(start_paused = true)]
async fn a_proceed_survives_its_executor() {
    let (world, mut questions) = world(&[Point::PreRequest]).await;
    let session = world.start(one_step()).await;
    question(&world, &mut questions).await.proceed();
    let attempt = world.attempt().await;
    attempt.break_with(tonic::Status::unavailable("gone"));
    let mut again = world.attempt().await;
    again.complete(0);
    world.ended(&session).await;
    assert_eq!(answered(&world, &session).await.len(), 1);
    assert!(questions.try_recv().is_err(), "it is asked once");
}

/// After a crash the same question comes with the same key.
#[tokio::test(start_paused = true)]
async fn the_next_owner_asks_again_with_the_same_key() {
    let (config, mut questions) = with_hook(&[Point::PreRequest]);
    let world = World::with_config(config.clone()).await;
    let session = world.start(one_step()).await;
    let asked = question(&world, &mut questions).await;
    let key = asked.asked.key.clone();
    world.until(world.running.drain()).await;
    assert!(asked.is_dropped(), "nobody waits for the answer any more");
    let next = Config {
        owner: "o-2".to_owned(),
        ..config
    };
    let (_, running) = world.successor(next).await;
    let again = question(&world, &mut questions).await;
    assert_eq!(again.asked.key, key);
    again.proceed();
    let mut attempt = world.attempt().await;
    attempt.complete(0);
    world.ended(&session).await;
    assert_eq!(answered(&world, &session).await.len(), 1);
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn a_slow_hook_keeps_no_executor() {
    let (world, mut questions) = world(&[Point::PreRequest]).await;
    let session = world.start(one_step()).await;
    question(&world, &mut questions).await.proceed();
    let mut attempt = world.attempt().await;
    attempt.reply(reply(0, "", &[("pure", "{}")]));
    assert!(!world.until(attempt.settled()).await);
    settle(&mut attempt, 0, "found");
    let slow = question(&world, &mut questions).await;
    world.pass(SLOW / 2).await;
    assert!(attempt.is_held());
    world.pass(SLOW).await;
    world.until(attempt.dropped()).await;
    assert!(world.other_attempts().await.is_empty());
    assert!(!slow.is_dropped(), "the hook has its time");
    slow.proceed();
    let mut again = world.attempt().await;
    assert_eq!(again.said(), 2, "it continues with the result");
    again.complete(1);
    world.ended(&session).await;
}

/// A paused attempt keeps no executor, and its question is asked again when the run continues.
#[tokio::test(start_paused = true)]
async fn a_question_of_a_paused_run_is_asked_again() {
    let (world, mut questions) = world(&[Point::PreRequest]).await;
    let session = world.start(one_step()).await;
    question(&world, &mut questions).await.proceed();
    let mut attempt = world.attempt().await;
    attempt.reply(reply(0, "", &[("pure", "{}")]));
    assert!(!world.until(attempt.settled()).await);
    settle(&mut attempt, 0, "found");
    let asked = question(&world, &mut questions).await;
    let key = asked.asked.key.clone();
    let pause = pb::PauseRunRequest {
        session: session.clone(),
        request_id: world.request_id(),
        ..pb::PauseRunRequest::default()
    };
    let mut client = world.client.clone();
    world.until(client.pause_run(pause)).await.expect("a pause");
    world.until(attempt.dropped()).await;
    world.settle().await;
    assert!(asked.is_dropped());
    let resume = pb::ResumeRunRequest {
        session: session.clone(),
        request_id: world.request_id(),
        ..pb::ResumeRunRequest::default()
    };
    world
        .until(client.resume_run(resume))
        .await
        .expect("it continues");
    let again = question(&world, &mut questions).await;
    assert_eq!(again.asked.key, key);
    again.proceed();
    let mut attempt = world.attempt().await;
    attempt.complete(1);
    world.ended(&session).await;
}

/// An answer that its point does not take is a failure of the hook, and `on_error` decides.
#[tokio::test(start_paused = true)]
async fn a_wrong_answer_is_a_failure_of_the_hook() {
    let (world, mut questions) = world(&[Point::OnTurnEnd]).await;
    let session = world.start(one_step()).await;
    let mut attempt = world.attempt().await;
    attempt.complete(0);
    let asked = question(&world, &mut questions).await;
    asked.answer(Verdict::Skip("no".to_owned()));
    let events = world.ended(&session).await;
    assert_eq!(count(&events, "RunCompleted"), 1, "{:?}", names(&events));
    let answered = answered(&world, &session).await.remove(0);
    let outcome = &answered.outcomes[0];
    assert_eq!(outcome.verdict, VerdictKind::Proceed);
    assert_eq!(outcome.answers[0].failure, Some(HookFailure::Wrong));
    let why = "OnTurnEnd does not take the answer skip; it takes: proceed, block";
    assert_eq!(outcome.answers[0].reason, why);
}

/// The hook cannot be reached for 30 s. Before a request, that is a Block.
#[tokio::test(start_paused = true)]
async fn a_hook_that_cannot_be_reached_is_asked_for_a_while() {
    let (world, mut questions) = world(&[Point::PreRequest]).await;
    let session = world.start(one_step()).await;
    let began = tokio::time::Instant::now();
    let gone = async {
        while let Some(question) = questions.recv().await {
            drop(question);
        }
    };
    tokio::select! {
        () = gone => panic!("the executor of hooks has gone"),
        _ = world.ended(&session) => {}
    }
    assert!(began.elapsed() >= Duration::from_secs(28));
    let answered = answered(&world, &session).await.remove(0);
    let outcome = &answered.outcomes[0];
    assert_eq!(outcome.verdict, VerdictKind::Block);
    assert_eq!(outcome.answers[0].failure, Some(HookFailure::Unreachable));
    let failure = world.run(&session).await.failure.expect("a failure");
    assert_eq!(failure.reason, "HOOK_BLOCKED");
}

/// The last point of a run is asked about when the run is over.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_run_waits_for_no_hook() {
    let (world, mut questions) = world(&[Point::OnRunEnd]).await;
    let session = world.start(one_step()).await;
    let mut attempt = world.attempt().await;
    attempt.complete(0);
    world.ended(&session).await;
    let asked = question(&world, &mut questions).await;
    assert!(matches!(
        asked.asked.question.payload,
        Payload::RunEnd { .. }
    ));
    asked.proceed();
    let is_answer = |kind: &Kind| matches!(kind, Kind::HooksAnswered(_));
    world.seen(&session, is_answer).await;
}

/// After a command, no other process may come to ask.
#[tokio::test(start_paused = true)]
async fn a_process_that_stops_waits_for_hooks_about_the_end_of_a_run() {
    let (world, mut questions) = world(&[Point::OnRunEnd]).await;
    let session = world.start(one_step()).await;
    let mut attempt = world.attempt().await;
    attempt.complete(0);
    let asked = question(&world, &mut questions).await;
    let answers = async {
        world.settle().await;
        assert!(!asked.is_dropped(), "the process waits for the answer");
        asked.proceed();
    };
    let stopped = async { tokio::join!(world.running.drain(), answers) };
    world.until(stopped).await;
    assert_eq!(answered(&world, &session).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn runs_without_hooks_ask_nothing_and_read_no_documents() {
    let (config, mut questions) = with_hook(&[]);
    let without = Config {
        hook_addresses: Vec::new(),
        ..config
    };
    let world = World::with_config(without).await;
    // Whether the namespace has pages is known from the run before.
    let session = world.start(one_step()).await;
    let mut attempt = world.attempt().await;
    attempt.complete(0);
    world.ended(&session).await;
    let before = world.faults.calls("ListDocuments");
    let session = world.start(one_step()).await;
    let mut attempt = world.attempt().await;
    let start = &attempt.start;
    assert!(!start.settles_before_request && !start.leaves_results);
    assert!(!start.reports_retries && !start.no_deltas && !start.no_early_calls);
    attempt.reply(reply(0, "", &[("pure", "{}")]));
    let held = attempt.result(0, 0, "found");
    let end = r#"{"complete": true, "summary": "done"}"#;
    attempt.reply_with(vec![held], reply(1, "", &[("step", end)]));
    let events = world.ended(&session).await;
    let names = names(&events);
    assert!(!names.iter().any(|name| name.starts_with("Hooks")));
    assert!(questions.try_recv().is_err());
    assert_eq!(world.faults.calls("ListDocuments"), before);
}

/// Results are the owner's to send while a hook is asked about them.
#[tokio::test(start_paused = true)]
async fn the_model_gets_a_result_as_the_hook_left_it() {
    let (world, mut questions) = world(&[Point::PostToolCall]).await;
    let session = world.start(one_step()).await;
    let mut attempt = world.attempt().await;
    assert!(attempt.start.leaves_results);
    attempt.reply(reply(0, "", &[("pure", "{}")]));
    assert!(!world.until(attempt.settled()).await);
    settle(&mut attempt, 0, "secret");
    let asked = question(&world, &mut questions).await;
    assert_eq!(asked.asked.question.gate.index, 0);
    let output = Mutation::Output("clean".to_owned());
    asked.answer(Verdict::Mutate(output));
    let told = results(&world, &mut attempt).await;
    assert_eq!(told.len(), 1);
    assert_eq!(
        (told[0].output.as_str(), told[0].is_error),
        ("clean", false)
    );
    attempt.complete(1);
    world.ended(&session).await;
}
