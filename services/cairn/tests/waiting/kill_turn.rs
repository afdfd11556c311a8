//! Kill -9 of `cairn serve` before and after every commit of a turn that calls two tools, one of which
//! needs approval. While the turn waits for it, the client changes the context. The conversation becomes what
//! it is without a kill, the client's stream has each thing once, the model is sent each change once, and what
//! was approved happens once. In a file, and at a third of the commits on Redis.

mod talker;

use crate::support::{commits, place, served};
use cairn_testkit::model_server::{Answer, reply};
use cairn_testkit::{Journal, ModelServer, TestStore};
use commits::{Sweep, kill_around_each};
use place::Place;
use serde_json::{Value, json};
use served::SESSION;
use std::sync::Arc;
use talker::Talker;

const SIGKILL: i32 = 9;
/// Kills at the same time: calls in doubt wait until they can no longer be running.
const AT_ONCE: usize = 8;
/// The response of the turn.
const PAID: &str = "It is paid, and there are two files.";

fn plays(body: &Value) -> Answer {
    match served::turn(body) {
        0 => reply("a", "I pay.", &[("record", json!({"what": "one"}))]),
        _ if !has_changes(body) => reply("lost", "The context is not as it was made.", &[]),
        1 => reply("b", "I look.", &[("list_files", json!({"path": "docs"}))]),
        _ => reply("c", PAID, &[]),
    }
}

/// The messages that the client adds stand before the turn, once and in their order.
fn has_changes(body: &Value) -> bool {
    let messages = body["messages"].to_string();
    let places =
        |text: &str| -> Vec<usize> { messages.match_indices(text).map(|(at, _)| at).collect() };
    let turn = places("Pay one, then look.");
    let [first, second] = talker::ADDED.map(places);
    let order = [&first[..], &second, &turn].concat();
    let is_once = [&first, &second, &turn].iter().all(|it| it.len() == 1);
    is_once && order.is_sorted() && places(talker::REMOVED).is_empty()
}

/// What the turn comes to when nobody disturbs it.
struct Reference {
    store: Arc<TestStore>,
    model: ModelServer,
    journal: Journal,
    messages: Vec<String>,
}

async fn undisturbed(store: TestStore) -> (Reference, usize) {
    let store = Arc::new(store);
    let model = ModelServer::start(plays);
    let mut place = Place::that_asks(&store, "undisturbed", &model);
    let count = format!("count:{}", place.site.path().join("commits").display());
    assert!(place.keep_serving_with(&[("CAIRN_FAIL_COMMIT", &count)]));
    let mut talker = Talker::default();
    let ended = talker.go_on(&place, &Journal(Vec::new())).await;
    ended.unwrap_or_else(|status| panic!("nobody disturbs it: {status:?}"));
    let commits = place.site.read("commits").expect("commits are counted");
    let messages = talker::messages(&place).await;
    place.kill_server();
    let reference = Reference {
        journal: place.journal(SESSION),
        store,
        model,
        messages,
    };
    check_end(&place, &talker, &reference, "undisturbed");
    (reference, commits.lines().count())
}

/// How many calls were in doubt; none if there was no such commit.
async fn kill_once(side: &str, commit: usize, reference: &Reference) -> Option<usize> {
    let fail = &format!("{side}:{commit}");
    let name = format!("{side}-{commit}");
    let mut place = Place::that_asks(&reference.store, &name, &reference.model);
    let mut talker = Talker::default();
    assert!(place.keep_serving_with(&[("CAIRN_FAIL_COMMIT", fail)]));
    while place.is_served() && !talker.has_ended {
        let _ = talker.go_on(&place, &reference.journal).await;
        place.pause().await;
    }
    if place.is_served() {
        return None;
    }
    assert_eq!(place.wait_for_signal(), Some(SIGKILL), "{fail}");
    // The answer depends on what the call did.
    place.site.wait_for_programs();
    place.keep_serving();
    while !talker.has_ended {
        let went = talker.go_on(&place, &reference.journal).await;
        went.unwrap_or_else(|status| panic!("{fail}: {status:?}"));
    }
    let messages = talker::messages(&place).await;
    assert_eq!(messages, reference.messages, "{fail}: the conversation");
    place.kill_server();
    let journal = check_end(&place, &talker, reference, fail);
    Some(journal.of_kind("call_in_doubt").len())
}

/// Panics unless it all ended as if nobody had disturbed it.
fn check_end(place: &Place, talker: &Talker, reference: &Reference, fail: &str) -> Journal {
    let journal = place.journal(SESSION);
    journal.check();
    journal.check_like(&reference.journal);
    talker.check(fail);
    assert_eq!(journal.of_kind("run_completed").len(), 1, "{fail}");
    let ledger = place.site.ledger();
    let uses = ledger.uses();
    assert!(uses.values().all(|&times| times == 1), "{fail}: {uses:?}");
    assert_eq!(ledger.times(r#"{"what":"one"}"#), 1, "{fail}");
    journal
}

async fn a_turn_survives_kills(store: TestStore) {
    let sweep = Sweep::over(&store);
    let (reference, commits) = undisturbed(store).await;
    let said = reference.messages.len();
    assert_eq!(said, 8, "{:?}", reference.messages);
    let reference = Arc::new(reference);
    let kill = |side: &'static str, commit: usize| {
        let reference = Arc::clone(&reference);
        let kill = tokio::spawn(async move { Box::pin(kill_once(side, commit, &reference)).await });
        async move { kill.await.expect("a kill") }
    };
    let swept = kill_around_each(commits, AT_ONCE, sweep, kill).await;
    let doubts: usize = swept.killed.iter().sum();
    println!(
        "{commits} commits, {} kills, {doubts} calls in doubt",
        swept.killed.len()
    );
    swept.check_reached(4);
    assert!(
        doubts >= 1 || !swept.is_complete(),
        "no call was killed on its way"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 12)]
async fn in_a_file_a_turn_survives_a_kill_at_every_commit() {
    a_turn_survives_kills(TestStore::file()).await;
}

/// It needs a server of Redis.
mod redis {
    use super::{TestStore, a_turn_survives_kills};

    #[tokio::test(flavor = "multi_thread", worker_threads = 12)]
    async fn over_redis_a_turn_survives_kills_at_sampled_commits() {
        a_turn_survives_kills(TestStore::redis()).await;
    }
}
