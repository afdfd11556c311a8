//! Pause, resume, skip and cancel at every point of a run, through processes: before, in and after
//! calls of each effect. What began is written down outside of Cairn: a cancelled run calls no tool any
//! more, a paused one begins nothing, also when its server is killed and started again, and a step that
//! is skipped is left where it was. In a file, on Redis and on a cluster.

mod world;

use crate::support::{self, place, served};
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_proto::event::settlement::{Done, Outcome, Retry};
use cairn_proto::orchestrator as pb;
use cairn_testkit::TestStore;
use place::Place;
use served::SESSION;
use std::sync::Arc;
use support::Client;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use world::{ALL, POINTS, Point, World};

/// Points at the same time: some wait until calls can no longer be running.
const AT_ONCE: usize = 6;

/// Goes through points.
async fn at_each<F>(store: TestStore, is_meant: fn(&Point) -> bool, check: fn(World, Point) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let store = Arc::new(store);
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let mut checks = JoinSet::new();
    let points = POINTS.into_iter().filter(is_meant);
    for (number, point) in points.enumerate() {
        let store = Arc::clone(&store);
        let turns = Arc::clone(&turns);
        checks.spawn(async move {
            let _turn = turns.acquire_owned().await.expect("turns");
            let place = Place::beside_others(&store, &format!("point-{number}"));
            let world = World::at(point, place).await;
            Box::pin(check(world, point)).await;
            println!("{}: {:?} had begun", point.name, point.begun);
        });
    }
    checks.join_all().await;
}

async fn pause(client: &mut Client) {
    let request = pb::PauseRunRequest {
        session: SESSION.to_owned(),
        request_id: "pause".to_owned(),
        ..pb::PauseRunRequest::default()
    };
    client.pause_run(request).await.expect("it is active");
}

async fn resume(client: &mut Client) {
    let request = pb::ResumeRunRequest {
        session: SESSION.to_owned(),
        request_id: "resume".to_owned(),
        ..pb::ResumeRunRequest::default()
    };
    client.resume_run(request).await.expect("it is paused");
}

async fn cancel(client: &mut Client) {
    let request = pb::CancelRunRequest {
        session: SESSION.to_owned(),
        request_id: "cancel".to_owned(),
        ..pb::CancelRunRequest::default()
    };
    client.cancel_run(request).await.expect("it is active");
}

async fn skip(client: &mut Client, step: u32) {
    let request = pb::SkipStepRequest {
        session: SESSION.to_owned(),
        request_id: "skip".to_owned(),
        step,
        ..pb::SkipStepRequest::default()
    };
    client.skip_step(request).await.expect("it has not ended");
}

/// Panics unless the run is paused and nothing has begun since it stood there.
async fn check_stands(world: &mut World, point: Point) {
    world.work_on_something_else().await;
    let request = pb::GetRunRequest {
        session: SESSION.to_owned(),
        run: 1,
    };
    let run = world.client().get_run(request).await.expect("a run");
    let run = run.into_inner().run.expect("a run");
    assert_eq!(run.status(), pb::RunStatus::Paused, "{}", point.name);
    assert_eq!(world.begun(), point.begun, "{}", point.name);
}

async fn a_cancelled_run_calls_no_tool_any_more(store: TestStore) {
    at_each(store, |_| true, cancelled).await;
}

async fn cancelled(mut world: World, point: Point) {
    cancel(&mut world.client()).await;
    world.release();
    // Whatever may still go on ends with the server, which is told to stop and not killed.
    world.stop_server();
    assert_eq!(world.begun(), point.begun, "{}", point.name);
    let journal = world.place.journal(SESSION);
    journal.check();
    let last = journal.0.last().expect("events");
    assert_eq!(last["kind"], "run_cancelled", "{}", point.name);
    // Another server finds nothing to be done.
    world.start_server();
    world.work_on_something_else().await;
    assert_eq!(world.place.journal(SESSION), journal, "{}", point.name);
    assert_eq!(world.begun(), point.begun, "{}", point.name);
}

async fn a_paused_run_begins_nothing_after_any_kill(store: TestStore) {
    at_each(store, |_| true, paused).await;
}

async fn paused(mut world: World, point: Point) {
    pause(&mut world.client()).await;
    world.release();
    // What has side effects and was begun ends, and its result is kept.
    world.wait_for_results(point.results).await;
    check_stands(&mut world, point).await;
    for _ in 0..2 {
        world.kill_server();
        world.start_server();
        check_stands(&mut world, point).await;
    }
    resume(&mut world.client()).await;
    let journal = world.check_completes(point.name, &[]).await;
    let doubts = journal.of_kind("call_in_doubt").len();
    assert_eq!(doubts, 0, "{}", point.name);
}

/// The server is killed in a call: whether it was made is asked, and answered, while the run is paused.
async fn a_call_that_is_lost_while_paused_is_asked_about_and_nothing_begins(store: TestStore) {
    at_each(store, |point| point.results > 0, paused_in_doubt).await;
}

async fn paused_in_doubt(mut world: World, point: Point) {
    pause(&mut world.client()).await;
    world.kill_server();
    world.release();
    world.place.site.wait_for_programs();
    world.start_server();
    check_stands(&mut world, point).await;
    let mut client = world.client();
    let is_doubt = |kind: &Kind| matches!(kind, Kind::CallInDoubt(_));
    served::wait_for(&mut client, SESSION, 1, is_doubt).await;
    settle(&mut world, point).await;
    let is_settled = |kind: &Kind| matches!(kind, Kind::CallSettled(_));
    served::wait_for(&mut client, SESSION, 1, is_settled).await;
    check_stands(&mut world, point).await;
    resume(&mut client).await;
    world.check_completes(point.name, &[]).await;
}

/// Answers as the ledger has it: the program was killed with its server, perhaps before it wrote.
async fn settle(world: &mut World, point: Point) {
    let request = pb::ListPendingRequest {
        session: SESSION.to_owned(),
        ..pb::ListPendingRequest::default()
    };
    let mut client = world.client();
    let open = client.list_pending(request).await.expect("questions");
    let open = open.into_inner().pending;
    assert_eq!(open.len(), 1, "{}: {open:?}", point.name);
    let outcome = match world.place.site.ledger().has(&open[0].call_key) {
        true => Outcome::Done(Done {
            output: "a person saw it".to_owned(),
        }),
        false => {
            world.repeated = point.begun.last().copied();
            Outcome::Retry(Retry::default())
        }
    };
    let request = pb::DecideRequest {
        session: SESSION.to_owned(),
        request_id: "decide".to_owned(),
        pending_id: open[0].id.clone(),
        settlement: Some(wire::Settlement {
            outcome: Some(outcome),
        }),
    };
    client.decide(request).await.expect("it is open");
}

async fn a_step_that_is_skipped_is_left_where_it_was(store: TestStore) {
    at_each(store, |_| true, skipped).await;
}

async fn skipped(mut world: World, point: Point) {
    skip(&mut world.client(), point.step).await;
    world.release();
    let is_left = |call: &&str| *call != "two" && !point.begun.contains(call);
    let left_out: Vec<_> = ALL.into_iter().filter(is_left).collect();
    let journal = world.check_completes(point.name, &left_out).await;
    let skipped = journal.of_kind("step_skipped");
    assert_eq!(skipped.len(), 1, "{}", point.name);
    assert_eq!(skipped[0]["step"], point.step, "{}", point.name);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 12)]
async fn in_a_file_a_cancelled_run_calls_no_tool_any_more() {
    a_cancelled_run_calls_no_tool_any_more(TestStore::file()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 12)]
async fn in_a_file_a_paused_run_begins_nothing_after_any_kill() {
    a_paused_run_begins_nothing_after_any_kill(TestStore::file()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 12)]
async fn in_a_file_a_call_that_is_lost_while_paused_is_asked_about_and_nothing_begins() {
    a_call_that_is_lost_while_paused_is_asked_about_and_nothing_begins(TestStore::file()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 12)]
async fn in_a_file_a_step_that_is_skipped_is_left_where_it_was() {
    a_step_that_is_skipped_is_left_where_it_was(TestStore::file()).await;
}

/// Each needs servers of Redis.
mod redis {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 12)]
    async fn over_redis_a_cancelled_run_calls_no_tool_any_more() {
        a_cancelled_run_calls_no_tool_any_more(TestStore::redis()).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 12)]
    async fn over_redis_a_paused_run_begins_nothing_after_any_kill() {
        a_paused_run_begins_nothing_after_any_kill(TestStore::redis()).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 12)]
    async fn over_redis_a_call_that_is_lost_while_paused_is_asked_about_and_nothing_begins() {
        a_call_that_is_lost_while_paused_is_asked_about_and_nothing_begins(TestStore::redis())
            .await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 12)]
    async fn over_redis_a_step_that_is_skipped_is_left_where_it_was() {
        a_step_that_is_skipped_is_left_where_it_was(TestStore::redis()).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 12)]
    async fn over_a_cluster_a_paused_run_begins_nothing_after_any_kill() {
        a_paused_run_begins_nothing_after_any_kill(TestStore::cluster()).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 12)]
    async fn over_a_cluster_a_call_that_is_lost_while_paused_is_asked_about_and_nothing_begins() {
        a_call_that_is_lost_while_paused_is_asked_about_and_nothing_begins(TestStore::cluster())
            .await;
    }
}
