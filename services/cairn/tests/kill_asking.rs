//! Kill -9 of `cairn serve` before and after every commit of a run whose plan a person looks at, whose
//! model asks a person something, and whose calls need approval. Afterwards it asks what it asked
//! before, nothing that was answered is asked again, and what was approved happens once.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot set up its world is over"
)]

#[path = "support/served.rs"]
mod served;
mod support;

#[path = "kill_asking/person.rs"]
mod person;

use cairn_testkit::model_server::{Answer, reply};
use cairn_testkit::{Journal, ModelServer, Site};
use person::{Person, TOLD};
use serde_json::{Value, json};
use served::{SERVE, SESSION};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

const CAIRN: &str = env!("CARGO_BIN_EXE_cairn");
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
            let told = messages.iter().filter(|it| it["role"] == "tool");
            let told: Vec<_> = told.filter_map(|it| it["content"].as_str()).collect();
            assert_eq!(told, [TOLD], "what a person answered");
            reply("b", "", &[("record", json!({"what": "one"}))])
        }
        _ => served::done("It is paid."),
    }
}

/// Its tool `record` needs approval.
fn site(model: &ModelServer) -> Site {
    let site = Site::new(CAIRN);
    let settings = site.read("cairn.toml").expect("settings");
    let ask = "[tools]\nask = [\"record\"]\n\n[[tools.commands]]";
    let settings = settings.replacen("[[tools.commands]]", ask, 1);
    site.write("cairn.toml", &settings);
    served::add_model(&site, model);
    site
}

/// What the run comes to when nobody disturbs it.
struct Reference {
    model: ModelServer,
    journal: Journal,
}

async fn undisturbed() -> (Reference, usize) {
    let model = ModelServer::start(plays);
    let site = site(&model);
    let count = format!("count:{}", site.path().join("commits").display());
    let server = site.start(&SERVE, &[("CAIRN_FAIL_COMMIT", &count)]);
    let mut person = Person::default();
    let ended = person.go_on(&site, &Journal(Vec::new())).await;
    let log = || site.tail("listen.log", 12);
    ended.unwrap_or_else(|status| panic!("nobody disturbs it: {status:?}\n{}", log()));
    person.check_repeats(&site, "undisturbed").await;
    drop(server);
    let commits = site.read("commits").expect("commits are counted");
    let journal = site.journal(SESSION);
    let reference = Reference { model, journal };
    check_end(&site, &person, &reference, "undisturbed");
    assert_eq!(person.taken.len(), QUESTIONS.len(), "{:?}", person.taken);
    (reference, commits.lines().count())
}

/// The open questions in a store that nobody holds: ids.
fn open_in(site: &Site) -> BTreeSet<String> {
    if !site.sessions().contains(&SESSION.to_owned()) {
        return BTreeSet::new();
    }
    let output = site.run(&["pending", SESSION, "--json"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let open = output.out.lines().map(|line| {
        let open: Value = serde_json::from_str(line).expect("JSON");
        open["id"].as_str().expect("an id").to_owned()
    });
    open.collect()
}

/// The questions to which an answer is stored that nobody has taken yet.
fn on_their_way(journal: &Journal) -> BTreeSet<String> {
    let answered = |seq: &Value| {
        let mut events = journal.0.iter();
        events.any(|event| event["command_seq"] == *seq)
    };
    let received = journal.of_kind("command_received").into_iter();
    let open = received.filter(|event| !answered(&event["seq"]));
    let ids = open.filter_map(|event| event["command"]["decide"]["pending_id"].as_str());
    ids.map(str::to_owned).collect()
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
async fn kill_once(fail: &str, reference: &Reference) -> Option<Killed> {
    let site = site(&reference.model);
    let mut person = Person::default();
    let mut server = site.start(&SERVE, &[("CAIRN_FAIL_COMMIT", fail)]);
    // The server dies under it, or has just served it to the end.
    let went = person.go_on(&site, &reference.journal).await;
    if went.is_ok() && person.has_ended && is_alive(&server) {
        return None;
    }
    assert_eq!(server.wait_for_signal(), Some(SIGKILL), "{fail}");
    // Whoever answers looks at what the call did.
    site.wait_for_programs();
    let open = open_in(&site);
    let before = match site.sessions().is_empty() {
        true => Journal(Vec::new()),
        false => site.journal(SESSION),
    };
    check_durable(&person, &before, &open, fail);

    let _server = site.start(&SERVE, &[]);
    let on_their_way = on_their_way(&before);
    if !before.0.is_empty() {
        let asked = person::pending(&mut served::client(&site)).await;
        let asked = asked.expect("an answer").into_iter().map(|it| it.id);
        let asked: BTreeSet<String> = asked.collect();
        let lost: Vec<_> = open.difference(&asked).collect();
        let is_taken = |id: &&&String| on_their_way.contains(**id);
        assert!(
            lost.iter().all(|id| is_taken(&id)),
            "{fail}: {lost:?} of {open:?}"
        );
    }
    while !person.has_ended {
        let went = person.go_on(&site, &reference.journal).await;
        went.unwrap_or_else(|status| panic!("{fail}: {status:?}"));
    }
    person.check_repeats(&site, fail).await;
    let journal = check_end(&site, &person, reference, fail);
    let kept = &journal.0[..before.0.len()];
    assert_eq!(kept, before.0, "{fail}: what was durable is");
    Some(Killed {
        open,
        was_on_its_way: !on_their_way.is_empty(),
        doubts: journal.of_kind("call_in_doubt").len(),
    })
}

/// The last commit may be followed by the death of the server only after the client has heard of it.
fn is_alive(server: &cairn_testkit::site::Running) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.id()));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

/// Panics unless what was asked before the kill is what is asked in the store, and the answers that
/// were taken are in it.
fn check_durable(person: &Person, journal: &Journal, open: &BTreeSet<String>, fail: &str) {
    let decides = journal.of_kind("command_received").into_iter();
    let decides = decides.filter_map(|it| it["command"]["decide"]["pending_id"].as_str());
    let decides: BTreeSet<&str> = decides.collect();
    for id in person.taken.keys() {
        assert!(decides.contains(id.as_str()), "{fail}: {id} is lost");
        assert!(!open.contains(id), "{fail}: {id} is asked again");
    }
    let known = |id: &String| QUESTIONS.contains(&id.as_str()) || id.starts_with("call-");
    assert!(open.iter().all(known), "{fail}: {open:?}");
}

/// Panics unless it all ended as if nobody had disturbed it.
fn check_end(site: &Site, person: &Person, reference: &Reference, fail: &str) -> Journal {
    let journal = site.journal(SESSION);
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
    // One word each, however often it was sent.
    let decided = journal.of_kind("decided").into_iter();
    let words = decided.filter(|it| {
        let said = &it["settlement"];
        said["approve"].is_object() || said["answer"].is_object()
    });
    assert_eq!(words.count(), QUESTIONS.len() - 1, "{fail}");
    let ledger = site.ledger();
    let uses = ledger.uses();
    assert!(uses.values().all(|&times| times == 1), "{fail}: {uses:?}");
    for what in ["one", "two"] {
        let known = ledger.times(&format!(r#"{{"what":"{what}"}}"#));
        assert_eq!(known, 1, "{fail}: {what}");
    }
    journal
}

#[tokio::test(flavor = "multi_thread", worker_threads = 12)]
async fn what_a_person_is_asked_survives_a_kill_at_every_commit() {
    let (reference, commits) = undisturbed().await;
    let reference = Arc::new(reference);
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let mut kills = JoinSet::new();
    for commit in 1..=commits {
        for side in ["before", "after"] {
            let (reference, turns) = (Arc::clone(&reference), Arc::clone(&turns));
            kills.spawn(async move {
                let _turn = turns.acquire_owned().await.expect("turns");
                Box::pin(kill_once(&format!("{side}:{commit}"), &reference)).await
            });
        }
    }
    let kills: Vec<Killed> = kills.join_all().await.into_iter().flatten().collect();
    let asked = |id: &str| kills.iter().filter(|it| it.open.contains(id)).count();
    let on_their_way = kills.iter().filter(|it| it.was_on_its_way).count();
    let doubts: usize = kills.iter().map(|it| it.doubts).sum();
    println!(
        "{commits} commits, {} kills, {doubts} calls in doubt, {on_their_way} answers on their way",
        kills.len()
    );
    for id in QUESTIONS {
        println!("{} kills while {id} was open", asked(id));
        assert!(asked(id) >= 2, "{id} was never open");
    }
    // A busy machine may make one commit of two.
    assert!(kills.len() + 4 >= 2 * commits, "too few were killed");
    assert!(doubts >= 2, "no call was killed on its way");
    assert!(on_their_way >= 1, "no answer was killed on its way");
}
