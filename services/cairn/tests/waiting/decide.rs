//! Requests to a session with an open question, a call whose outcome nobody knows: in a file, on Redis
//! and on a cluster.
//!
//! Each doubt is answered once, under its own name. An answer that is sent again gets the same
//! reply. A run that asks can be cancelled.

mod world;

use crate::support;
use cairn_proto::event as wire;
use cairn_proto::event::settlement::{Done, Fail, Outcome, Retry, Skip};
use cairn_proto::orchestrator as pb;
use cairn_rpc::RpcError;
use cairn_testkit::{Cluster, TestStore};
use std::time::Duration;
use support::{Client, connect};
use tonic::{Code, Status};
use world::{Served, World};

/// A call may run for so long where the test waits for that, and where it does not.
const SHORT: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(60);
/// The one call of the run.
const QUESTION: &str = "call-1.1.1.0.0";
/// The same call, in doubt for the second time.
const AGAIN: &str = "call-1.1.1.0.0-2";

fn done(output: &str) -> Option<Outcome> {
    let output = output.to_owned();
    Some(Outcome::Done(Done { output }))
}

fn retry() -> Option<Outcome> {
    Some(Outcome::Retry(Retry {}))
}

async fn decide(
    client: &mut Client,
    request_id: &str,
    pending_id: &str,
    outcome: Option<Outcome>,
) -> Result<pb::DecideResponse, Status> {
    let request = pb::DecideRequest {
        session: "s".to_owned(),
        pending_id: pending_id.to_owned(),
        settlement: Some(wire::Settlement { outcome }),
        request_id: request_id.to_owned(),
    };
    Ok(client.decide(request).await?.into_inner())
}

async fn cancel(client: &mut Client, request_id: &str) -> Result<pb::CancelRunResponse, Status> {
    let request = pb::CancelRunRequest {
        session: "s".to_owned(),
        run: 1,
        reason: "enough".to_owned(),
        request_id: request_id.to_owned(),
    };
    Ok(client.cancel_run(request).await?.into_inner())
}

/// The open questions: id, and whether an answer waits to take effect.
async fn pending(client: &mut Client) -> Vec<(String, bool)> {
    let session = "s".to_owned();
    let answer = client
        .list_pending(pb::ListPendingRequest { session })
        .await;
    let pending = answer.expect("an answer").into_inner().pending;
    let open = pending.into_iter().map(|open| (open.id, open.answered));
    open.collect()
}

/// Panics unless it was refused for this reason.
fn check_refused<T: std::fmt::Debug>(answer: Result<T, Status>, reason: &str) {
    let status = answer.expect_err(reason);
    let error = RpcError::from_status(&status);
    assert_eq!(error.reason_name(), reason, "{status:?}");
    assert_eq!(status.code(), Code::FailedPrecondition, "{status:?}");
}

/// Panics unless this field was refused.
fn check_invalid<T: std::fmt::Debug>(answer: Result<T, Status>, field: &str) {
    let status = answer.expect_err(field);
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    let error = RpcError::from_status(&status);
    let named = error.violations().iter().map(|wrong| wrong.field.clone());
    assert_eq!(named.collect::<Vec<_>>(), [field], "{status:?}");
}

/// What does not answer a question leaves it open.
async fn check_what_is_no_answer(client: &mut Client, id: &str) {
    let before = pending(client).await;
    let others = [
        "call-1.1.1.0.1",
        "call-1.1.1.0.0-9",
        "call-2.1.1.0.0",
        "budget-1",
        "it",
        "call-",
    ];
    for (n, other) in others.iter().enumerate() {
        let answer = decide(client, &format!("other-{n}-{id}"), other, retry()).await;
        check_refused(answer, "NOT_PENDING");
    }
    let long = "x".repeat(48 * 1024 + 1);
    let reason = || "x".repeat(1025);
    let skip = Outcome::Skip(Skip { reason: reason() });
    let fail = Outcome::Fail(Fail { reason: reason() });
    for (outcome, field) in [
        (None, "settlement.outcome"),
        (done(&long), "settlement.done.output"),
        (Some(skip), "settlement.skip.reason"),
        (Some(fail), "settlement.fail.reason"),
    ] {
        check_invalid(decide(client, "wrong", id, outcome).await, field);
    }
    check_invalid(decide(client, "wrong", "", retry()).await, "pending_id");
    check_invalid(decide(client, "", id, retry()).await, "request_id");
    assert_eq!(pending(client).await, before);
}

async fn each_doubt_is_answered_once_under_its_own_name(store: TestStore) {
    let world = World::with_limit(SHORT, store);
    let served = Served::start(&world);
    let mut client = served.client();
    world.start_run(&mut client).await;
    world.wait_for_call();
    let mut client = served.killed_in_a_call(&world, 1).await;
    assert_eq!(pending(&mut client).await, [(QUESTION.to_owned(), false)]);
    check_what_is_no_answer(&mut client, QUESTION).await;

    let answer = decide(&mut client, "a-1", QUESTION, retry()).await;
    let answer = answer.expect("it is open");
    world.wait_for_call();
    // Asked again it is the same answer, and the call is not made again.
    let again = decide(&mut client, "a-1", QUESTION, retry()).await;
    assert_eq!(again.expect("the same answer"), answer);
    let other = decide(&mut client, "a-1", QUESTION, done("other")).await;
    let status = other.expect_err("another request of the same name");
    assert_eq!(status.code(), Code::AlreadyExists, "{status:?}");
    // It has taken effect: nothing is asked any more.
    assert_eq!(pending(&mut client).await, []);
    check_refused(
        decide(&mut client, "a-2", QUESTION, retry()).await,
        "NOT_PENDING",
    );
    check_refused(
        decide(&mut client, "a-3", AGAIN, retry()).await,
        "NOT_PENDING",
    );

    let mut client = served.killed_in_a_call(&world, 2).await;
    assert_eq!(pending(&mut client).await, [(AGAIN.to_owned(), false)]);
    check_what_is_no_answer(&mut client, AGAIN).await;
    check_refused(
        decide(&mut client, "a-4", QUESTION, retry()).await,
        "NOT_PENDING",
    );
    // The answer of before is still that of before, and answers nothing now.
    let again = decide(&mut client, "a-1", QUESTION, retry()).await;
    assert_eq!(again.expect("the same answer"), answer);
    assert_eq!(pending(&mut client).await, [(AGAIN.to_owned(), false)]);
    let answer = decide(&mut client, "a-5", AGAIN, done("paid by hand")).await;
    answer.expect("it is open");
    world.wait_for_end(&mut client, "run_completed").await;
    check_refused(
        decide(&mut client, "a-6", AGAIN, retry()).await,
        "NOT_PENDING",
    );
    check_refused(cancel(&mut client, "c-1").await, "RUN_ENDED");
    assert_eq!(world.calls(), 2, "the first call and its one retry");
}

async fn a_run_can_be_cancelled_while_it_asks(store: TestStore) {
    let world = World::with_limit(LONG, store);
    let served = Served::start(&world);
    let mut client = served.client();
    world.start_run(&mut client).await;
    world.wait_for_call();
    let mut client = served.killed_in_a_call(&world, 1).await;
    check_what_is_no_answer(&mut client, QUESTION).await;
    let cancelled = cancel(&mut client, "c-1").await.expect("it is active");
    let again = cancel(&mut client, "c-1").await.expect("the same answer");
    assert_eq!((cancelled.run, again.run), (1, 1));
    check_refused(cancel(&mut client, "c-2").await, "RUN_ENDED");
    assert_eq!(pending(&mut client).await, []);
    check_refused(
        decide(&mut client, "a-1", QUESTION, retry()).await,
        "NOT_PENDING",
    );
    world.wait_for_end(&mut client, "run_cancelled").await;
    assert_eq!(world.calls(), 1);
}

/// The call may still be running in a process that lives: the answer has to wait, and meanwhile it
/// is the only one.
async fn an_answer_that_waits_to_take_effect_is_the_only_one(store: TestStore) {
    let world = World::with_limit(LONG, store);
    let mut cluster = Cluster::start(&world.site, &world.store.variables());
    let mut client = connect(&cluster.url());
    world.start_run(&mut client).await;
    world.wait_for_call();
    cluster.kill("orchestrator");
    cluster.start_again("orchestrator");
    let mut client = connect(&cluster.url());
    world.wait_for_question(&mut client, 1).await;
    check_what_is_no_answer(&mut client, QUESTION).await;

    let answer = decide(&mut client, "a-1", QUESTION, done("paid")).await;
    let answer = answer.expect("it is open");
    assert!(answer.settle_after_unix_ms > 0, "{answer:?}");
    assert_eq!(pending(&mut client).await, [(QUESTION.to_owned(), true)]);
    for (request_id, outcome) in [("a-2", retry()), ("a-3", done("paid"))] {
        let other = decide(&mut client, request_id, QUESTION, outcome).await;
        check_refused(other, "ALREADY_DECIDED");
    }
    check_what_is_no_answer(&mut client, QUESTION).await;
    let again = decide(&mut client, "a-1", QUESTION, done("paid")).await;
    assert_eq!(again.expect("the same answer"), answer);
    cancel(&mut client, "c-1").await.expect("it is active");
    check_refused(
        decide(&mut client, "a-4", QUESTION, retry()).await,
        "NOT_PENDING",
    );
    world.wait_for_end(&mut client, "run_cancelled").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_file_each_doubt_is_answered_once_under_its_own_name() {
    each_doubt_is_answered_once_under_its_own_name(TestStore::file()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_file_a_run_can_be_cancelled_while_it_asks() {
    a_run_can_be_cancelled_while_it_asks(TestStore::file()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_file_an_answer_that_waits_to_take_effect_is_the_only_one() {
    an_answer_that_waits_to_take_effect_is_the_only_one(TestStore::file()).await;
}

/// Each needs servers of Redis. There nobody is known to be dead: an answer takes effect once the call
/// can no longer be running.
mod redis {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn over_redis_each_doubt_is_answered_once_under_its_own_name() {
        each_doubt_is_answered_once_under_its_own_name(TestStore::redis()).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn over_redis_a_run_can_be_cancelled_while_it_asks() {
        a_run_can_be_cancelled_while_it_asks(TestStore::redis()).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn over_redis_an_answer_that_waits_to_take_effect_is_the_only_one() {
        an_answer_that_waits_to_take_effect_is_the_only_one(TestStore::redis()).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn over_a_cluster_each_doubt_is_answered_once_under_its_own_name() {
        each_doubt_is_answered_once_under_its_own_name(TestStore::cluster()).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn over_a_cluster_an_answer_that_waits_to_take_effect_is_the_only_one() {
        an_answer_that_waits_to_take_effect_is_the_only_one(TestStore::cluster()).await;
    }
}
