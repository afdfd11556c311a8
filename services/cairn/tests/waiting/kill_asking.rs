//! Kill -9 of `cairn serve` before and after every commit of a run whose plan a person looks at, whose
//! model asks a person something, and whose calls need approval. Afterwards it asks what it asked
//! before, nothing that was answered is asked again, and what was approved happens once. In a file, and at a
//! third of the commits on Redis and on a cluster.

mod person;

use crate::support::{self, commits, place, served};
use cairn_testkit::model_server::{Answer, reply};
use cairn_testkit::{Journal, ModelServer, TestStore};
use commits::{Sweep, kill_around_each};
use person::{Person, REPORTED};
use place::Place;
use serde_json::{Value, json};
use served::SESSION;
use std::collections::BTreeSet;
use std::sync::Arc;
use support::connect;
use tonic::Code;

const SIGKILL: i32 = 9;
/// Kills at the same time: calls in doubt wait until they can no longer be running.
const AT_ONCE: usize = 6;
/// What is asked in a run that nobody disturbs, in this order.
const QUESTIONS: [&str; 4] = [
    "plan-1.1",
    "question-1.1.1.0.0",
    "approval-1.1.1.1.0",
    "approval-1.2.1.0.0",
];

/// A plan of a step for the model, which asks which one and pays for it, and of a tool step.
fn plays(body: &Value) -> Answer {
    let Some(_) = served::title(body) else {
        return served::planned(&json!({"steps": [
            {"title": "Choose", "description": "Choose one, and pay for it."},
            {"title": "Pay again", "tool": "record", "arguments": {"what": "two"}},
        ]}));
    };
    match served::turn(body) {
        0 => {
            let asked = json!({"question": "Which one?", "choices": ["left", "right"]});
            reply("a", "", &[("ask_person", asked)])
        }
        1 => {
            let messages = body["messages"].as_array().expect("messages");
            let reported = messages.iter().filter(|it| it["role"] == "tool");
            let reported: Vec<_> = reported.filter_map(|it| it["content"].as_str()).collect();
            assert_eq!(reported, [REPORTED], "what a person answered");
            reply("b", "", &[("record", json!({"what": "one"}))])
        }
        _ => served::done("It is paid."),
    }
}

/// What the run comes to when nobody disturbs it.
struct Reference {
    store: Arc<TestStore>,
    model: ModelServer,
    journal: Journal,
}

async fn undisturbed(store: TestStore) -> (Reference, usize) {
    let store = Arc::new(store);
    let model = ModelServer::start(plays);
    let mut place = Place::that_asks(&store, "undisturbed", &model);
    let count = format!("count:{}", place.site.path().join("commits").display());
    assert!(place.keep_serving_with(&[("CAIRN_FAIL_COMMIT", &count)]));
    let mut person = Person::default();
    let ended = person.go_on(&place, &Journal(Vec::new())).await;
    let log = || place.site.tail("listen.log", 12);
    ended.unwrap_or_else(|status| panic!("nobody disturbs it: {status:?}\n{}", log()));
    // Repeats are no commits in a file, and elsewhere such that change nothing.
    let commits = place.site.read("commits").expect("commits are counted");
    person.check_repeats(&place, "undisturbed").await;
    place.kill_server();
    let reference = Reference {
        journal: place.journal(SESSION),
        store,
        model,
    };
    check_end(&place, &person, &reference, "undisturbed");
    assert_eq!(person.taken.len(), QUESTIONS.len(), "{:?}", person.taken);
    (reference, commits.lines().count())
}

/// What a killed server left in a file. Elsewhere only another server can tell, and that continues with
/// what it finds.
struct Left {
    journal: Journal,
    /// The questions that are open.
    open: BTreeSet<String>,
}

impl Left {
    fn read(place: &Place) -> Self {
        if !place.is_file() || place.sessions().is_empty() {
            return Self {
                journal: Journal(Vec::new()),
                open: BTreeSet::new(),
            };
        }
        let output = place.with_code(0, &["pending", SESSION, "--json"]);
        let open = output.out.lines().map(|line| {
            let open: Value = serde_json::from_str(line).expect("JSON");
            open["id"].as_str().expect("an id").to_owned()
        });
        Self {
            open: open.collect(),
            journal: place.journal(SESSION),
        }
    }

    /// The questions to which an answer is stored that nobody has taken yet.
    fn on_their_way(&self) -> BTreeSet<String> {
        let answered = |seq: &Value| {
            let mut events = self.journal.0.iter();
            events.any(|event| event["answers"] == *seq)
        };
        let received = self.journal.of_kind("command_received").into_iter();
        let open = received.filter(|event| !answered(&event["seq"]));
        let ids = open.filter_map(|event| event["command"]["decide"]["pending_id"].as_str());
        ids.map(str::to_owned).collect()
    }

    /// Panics unless what was asked before the kill is what is asked in the store, and the answers
    /// that were taken are in it.
    fn check(&self, person: &Person, fail: &str) {
        let decides = self.journal.of_kind("command_received").into_iter();
        let decides = decides.filter_map(|it| it["command"]["decide"]["pending_id"].as_str());
        let decides: BTreeSet<&str> = decides.collect();
        for id in person.taken.keys() {
            assert!(decides.contains(id.as_str()), "{fail}: {id} is lost");
            assert!(!self.open.contains(id), "{fail}: {id} is asked again");
        }
        let known = |id: &String| QUESTIONS.contains(&id.as_str()) || id.starts_with("call-");
        assert!(self.open.iter().all(known), "{fail}: {:?}", self.open);
    }
}

/// What a kill came to.
struct Killed {
    /// What was asked then.
    open: BTreeSet<String>,
    /// An answer was stored and had not been taken.
    was_on_its_way: bool,
    /// How many calls were in doubt.
    doubts: usize,
}

/// None if there was no such commit.
async fn kill_once(side: &str, commit: usize, reference: &Reference) -> Option<Killed> {
    let fail = &format!("{side}:{commit}");
    let name = format!("{side}-{commit}");
    let mut place = Place::that_asks(&reference.store, &name, &reference.model);
    let mut person = Person::default();
    assert!(place.keep_serving_with(&[("CAIRN_FAIL_COMMIT", fail)]));
    // The server dies under it, or has just served it to the end. A busy store may be away between.
    while place.is_served() && !person.has_ended {
        let _ = person.go_on(&place, &reference.journal).await;
        place.pause().await;
    }
    if place.is_served() {
        return None;
    }
    assert_eq!(place.wait_for_signal(), Some(SIGKILL), "{fail}");
    // Whoever answers looks at what the call did.
    place.site.wait_for_programs();
    let left = Left::read(&place);
    if place.is_file() {
        left.check(&person, fail);
    }

    place.keep_serving();
    let on_their_way = left.on_their_way();
    let asked = asked_again(&place, &person).await;
    let mut lost = left.open.difference(&asked);
    assert!(
        lost.all(|id| on_their_way.contains(id)),
        "{fail}: {:?}, and then {asked:?}",
        left.open
    );
    while !person.has_ended {
        let went = person.go_on(&place, &reference.journal).await;
        went.unwrap_or_else(|status| panic!("{fail}: {status:?}"));
    }
    person.check_repeats(&place, fail).await;
    let journal = check_end(&place, &person, reference, fail);
    let before = &left.journal.0;
    let kept = &journal.0[..before.len()];
    assert_eq!(kept, before, "{fail}: what was durable is");
    Some(Killed {
        open: asked,
        was_on_its_way: !on_their_way.is_empty(),
        doubts: journal.of_kind("call_in_doubt").len(),
    })
}

/// What a server that has just begun asks; nothing if the session was not there yet.
async fn asked_again(place: &Place, person: &Person) -> BTreeSet<String> {
    match person::pending(&mut connect(place.address())).await {
        Ok(asked) => asked.into_iter().map(|it| it.id).collect(),
        Err(status) => {
            assert_eq!(status.code(), Code::NotFound, "{status:?}");
            assert!(person.taken.is_empty(), "{:?}", person.taken);
            BTreeSet::new()
        }
    }
}

/// Panics unless it all ended as if nobody had disturbed it.
fn check_end(place: &Place, person: &Person, reference: &Reference, fail: &str) -> Journal {
    let journal = place.journal(SESSION);
    journal.check();
    journal.check_like(&reference.journal);
    person.check_watched(&journal, fail);
    for (kind, times) in [
        ("plan_applied", 1),
        ("question_asked", 1),
        ("approval_requested", 2),
        ("run_completed", 1),
    ] {
        assert_eq!(journal.of_kind(kind).len(), times, "{fail}: {kind}");
    }
    // One decision each, however often it was sent.
    let decided = journal.of_kind("decided").into_iter();
    let words = decided.filter(|it| {
        let said = &it["settlement"];
        said["approve"].is_object() || said["answer"].is_object()
    });
    assert_eq!(words.count(), QUESTIONS.len(), "{fail}");
    let ledger = place.site.ledger();
    let uses = ledger.uses();
    assert!(uses.values().all(|&times| times == 1), "{fail}: {uses:?}");
    for what in ["one", "two"] {
        let known = ledger.times(&format!(r#"{{"what":"{what}"}}"#));
        assert_eq!(known, 1, "{fail}: {what}");
    }
    journal
}

async fn what_a_person_is_asked_survives_kills(store: TestStore) {
    let sweep = Sweep::over(&store);
    let (reference, commits) = undisturbed(store).await;
    let reference = Arc::new(reference);
    let kill = |side: &'static str, commit: usize| {
        let reference = Arc::clone(&reference);
        let kill = tokio::spawn(async move { Box::pin(kill_once(side, commit, &reference)).await });
        async move { kill.await.expect("a kill") }
    };
    let swept = kill_around_each(commits, AT_ONCE, sweep, kill).await;
    let kills: &[Killed] = &swept.killed;
    let asked = |id: &str| kills.iter().filter(|it| it.open.contains(id)).count();
    let on_their_way = kills.iter().filter(|it| it.was_on_its_way).count();
    let doubts: usize = kills.iter().map(|it| it.doubts).sum();
    println!(
        "{commits} commits, {} kills, {doubts} calls in doubt, {on_their_way} answers on their way",
        kills.len()
    );
    for id in QUESTIONS {
        println!("{} kills while {id} was open", asked(id));
        assert!(
            asked(id) >= 2 || !swept.is_complete(),
            "{id} was never open"
        );
    }
    swept.check_reached(4);
    if swept.is_complete() {
        assert!(doubts >= 2, "no call was killed on its way");
        assert!(on_their_way >= 1, "no answer was killed on its way");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 12)]
async fn in_a_file_what_a_person_is_asked_survives_a_kill_at_every_commit() {
    what_a_person_is_asked_survives_kills(TestStore::file()).await;
}

/// Each needs servers of Redis.
mod redis {
    use super::{TestStore, what_a_person_is_asked_survives_kills};

    #[tokio::test(flavor = "multi_thread", worker_threads = 12)]
    async fn over_redis_what_a_person_is_asked_survives_kills_at_sampled_commits() {
        what_a_person_is_asked_survives_kills(TestStore::redis()).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 12)]
    async fn over_a_cluster_what_a_person_is_asked_survives_kills_at_sampled_commits() {
        what_a_person_is_asked_survives_kills(TestStore::cluster()).await;
    }
}
