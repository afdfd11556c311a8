//! Kill -9 of `cairn serve` while a goal is pursued: while the model is asked for the plan, while
//! it is asked in each tool turn, and while a tool is being called. The model and the tools are
//! outside of Cairn and count what they were asked. In a file, on Redis and on a cluster.
//!
//! After a kill, only the open question to the model is asked again, and only a pure call is made
//! again.

use crate::support::{self, place, watcher};
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_proto::orchestrator as pb;
use cairn_testkit::model_server::{Answer, reply};
use cairn_testkit::{Journal, ModelServer, TestStore};
use place::Place;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Arc, Mutex};
use support::connect;
use tokio::net::unix::pipe;
use tokio::sync::Notify;
use tonic::Status;
use watcher::Watcher;

/// What the model is asked for, and how many results the journal has by then.
const TURNS: [(&str, usize); 5] = [
    ("plan", 0),
    ("First 0", 0),
    ("First 1", 3),
    ("Second 0", 6),
    ("Second 1", 8),
];

/// Notes each call in the ledger. A call of what `held` names says its process's number and stops,
/// before the note or after it.
const SCRIPT: &str = r#"
set -eu
arguments=$(cat)
hold() {
  if [ -e held ] && [ "$(cat held)" = "${VERB:-recorded} $1 $arguments" ]; then
    echo $$ >begun
    read -r _ <never
  fi
}
hold before
printf '%s %s\n' "$CAIRN_CALL_KEY" "$arguments" >>"$LEDGER"
sync "$LEDGER"
hold after
echo "${VERB:-recorded} $arguments"
"#;

/// What the model was asked, and which question is not answered.
#[derive(Debug, Default)]
struct Asked {
    times: BTreeMap<String, u32>,
    held: Option<String>,
}

struct World {
    place: Place,
    asked: Arc<Mutex<Asked>>,
    /// Tells when a question is there that is not answered.
    holds: Arc<Notify>,
    /// Names the process of a call that is held.
    begun: pipe::Receiver,
}

impl World {
    /// Watches until the run ends or the server is gone.
    async fn go_on(&self, watcher: &mut Watcher, reference: &Journal) -> Result<(), Status> {
        let client = connect(self.place.address());
        watcher
            .go_on_with(client, &self.place.site, reference)
            .await
    }

    /// The process of the next call that is held.
    async fn begun(&self) -> String {
        let mut written = [0; 64];
        loop {
            self.begun.readable().await.expect("a pipe");
            // It may have been a false alarm.
            if let Ok(length) = self.begun.try_read(&mut written) {
                let process = str::from_utf8(&written[..length]);
                return process.expect("a number").trim().to_owned();
            }
        }
    }
}

/// Beside others over the same store.
fn world(store: &Arc<TestStore>, name: &str) -> World {
    let place = Place::beside_others(store, name);
    let site = &place.site;
    let asked: Arc<Mutex<Asked>> = Arc::default();
    let holds: Arc<Notify> = Arc::default();
    let (seen, tell) = (Arc::clone(&asked), Arc::clone(&holds));
    let model = ModelServer::start(move |body| answer(body, &seen, &tell));
    let provider = format!(
        "[models.served]\nprovider = \"openai\"\nmodel = \"served-1\"\nbase_url = \"{}\"\n\
         api_key = \"sk-none\"\n",
        model.url()
    );
    site.append("cairn.toml", &provider);
    site.write("record.sh", SCRIPT);
    for pipe in ["begun", "never"] {
        let made = Command::new("mkfifo").arg(site.path().join(pipe)).status();
        assert!(made.expect("mkfifo can be started").success());
    }
    // Open for writing, too: it has no end, and whoever writes need not wait for a reader.
    let begun = site.path().join("begun");
    let begun = pipe::OpenOptions::new()
        .read_write(true)
        .open_receiver(begun);
    World {
        place,
        asked,
        holds,
        begun: begun.expect("a pipe"),
    }
}

/// Which question it is follows from the conversation alone.
fn question(body: &Value) -> String {
    let messages = body["messages"].as_array().expect("messages");
    let turn = messages.iter().filter(|it| it["role"] == "assistant");
    let turn = turn.count();
    let texts = messages.iter().filter_map(|it| it["content"].as_str());
    let mut current = texts.filter_map(|text| text.split_once("## Current step"));
    match current.next_back() {
        Some((_, step)) if step.contains("Record one.") => format!("First {turn}"),
        Some(_) => format!("Second {turn}"),
        None => "plan".to_owned(),
    }
}

fn answer(body: &Value, asked: &Mutex<Asked>, tell: &Notify) -> Answer {
    let question = question(body);
    {
        let mut asked = asked.lock().expect("a lock");
        *asked.times.entry(question.clone()).or_default() += 1;
        if asked.held.as_ref() == Some(&question) {
            asked.held = None;
            tell.notify_one();
            return Answer::Hold;
        }
    }
    let step = |summary: &str| ("step", json!({"complete": true, "summary": summary}));
    let one = json!({"what": "one"});
    let note = json!({"path": "cairn-out/books.md", "content": "two lines\n"});
    match question.as_str() {
        "plan" => {
            let steps = [("First", "Record one."), ("Second", "Record two.")];
            let steps = steps.map(|(title, text)| json!({"title": title, "description": text}));
            reply("p", &json!({"steps": steps}).to_string(), &[])
        }
        "First 0" => {
            let search = ("search_files", json!({"pattern": "Redis", "path": "docs"}));
            let calls = [("look", one.clone()), ("record", one), search];
            reply("f0", "I look first.", &calls)
        }
        "First 1" => {
            let memory = json!({"key": "one", "value": "recorded"});
            let notes = ("scratchpad", json!({"text": "one line"}));
            let calls = [("session_memory_set", memory), notes, step("One line.")];
            reply("f1", "", &calls)
        }
        "Second 0" => {
            let calls = [("write_file", note), ("record", json!({"what": "two"}))];
            reply("s0", "", &calls)
        }
        "Second 1" => reply("s1", "", &[step("Another line.")]),
        other => panic!("nobody should ask {other}"),
    }
}

fn run() -> wire::StartRun {
    wire::StartRun {
        goal: "Keep the books.".to_owned(),
        model: "served".to_owned(),
        ..wire::StartRun::default()
    }
}

/// The journal of a run that nobody disturbs.
async fn undisturbed(store: &Arc<TestStore>) -> Journal {
    let mut world = world(store, "undisturbed");
    world.place.keep_serving();
    let mut watcher = Watcher::of(run());
    let nothing = Journal(Vec::new());
    let ended = world.go_on(&mut watcher, &nothing).await;
    ended.expect("a run that nobody disturbs");
    let journal = world.place.journal(&watcher.session);
    watcher.check(&journal, "undisturbed");
    let asked = world.asked.lock().expect("a lock");
    let once = TURNS.map(|(question, _)| (question.to_owned(), 1));
    assert_eq!(asked.times, BTreeMap::from(once));
    assert_eq!(world.place.site.looks().uses().len(), 1);
    assert_eq!(world.place.site.ledger().uses().len(), 2);
    journal
}

/// Waits until so many replies and results are durable.
async fn wait_for(world: &World, session: &str, replies: usize, results: usize) {
    let request = pb::WatchSessionRequest {
        session: session.to_owned(),
        after_seq: 0,
        ..pb::WatchSessionRequest::default()
    };
    let stream = connect(world.place.address()).watch_session(request).await;
    let mut stream = stream.expect("a watch").into_inner();
    let (mut replied, mut finished) = (0, 0);
    while replied < replies || finished < results {
        let message = stream.message().await.expect("an event");
        let event = message.expect("the stream continues").event;
        match event.and_then(|event| event.kind) {
            Some(Kind::ReplyReceived(_)) => replied += 1,
            Some(Kind::CallFinished(_)) => finished += 1,
            _ => {}
        }
    }
}

/// The session of the run, which is made with it.
async fn session_of(world: &World) -> String {
    let request = pb::StartRunRequest {
        session: String::new(),
        request_id: "r-1".to_owned(),
        run: Some(run()),
        ..pb::StartRunRequest::default()
    };
    let started = connect(world.place.address()).start_run(request).await;
    started.expect("the run").into_inner().session
}

/// Watches until `moment` has come; then kills the server, and what it left running, and continues
/// with another. Panics if the run ends before that moment.
async fn killed(
    world: &mut World,
    reference: &Journal,
    moment: impl AsyncFnOnce(&World, &str) -> Option<String>,
    name: &str,
) -> Journal {
    world.place.keep_serving();
    let session = session_of(world).await;
    let mut watcher = Watcher::of(run());
    let left = tokio::select! {
        left = moment(world, &session) => left,
        watched = world.go_on(&mut watcher, reference) => {
            panic!("{name}: the watch ended before the kill: {watched:?}");
        }
    };
    world.place.kill_server();
    if let Some(process) = left {
        // It ends with the server, though perhaps not yet.
        let ended = Command::new("kill").args(["-KILL", &process]).status();
        ended.expect("kill can be started");
    }
    assert!(!watcher.has_ended, "{name}: it has ended");
    world.place.keep_serving();
    while !watcher.has_ended {
        let watched = world.go_on(&mut watcher, reference).await;
        watched.unwrap_or_else(|status| panic!("{name}: {status:?}"));
    }
    let journal = world.place.journal(&watcher.session);
    journal.check();
    watcher.check(&journal, name);
    journal.check_like(reference);
    journal
}

/// Panics unless everybody was asked once, but for these questions to the model, and the pure tool
/// so many times.
fn check_asked(world: &World, name: &str, twice: &[&str], look_times: u32) {
    let asked = world.asked.lock().expect("a lock");
    for (question, _) in TURNS {
        let expected = if twice.contains(&question) { 2 } else { 1 };
        let times = asked.times.get(question).copied().unwrap_or(0);
        assert_eq!(times, expected, "{name}: {question} was asked: {asked:?}");
    }
    let (records, looks) = (
        world.place.site.ledger().uses(),
        world.place.site.looks().uses(),
    );
    let records: Vec<u32> = records.into_values().collect();
    assert_eq!(records, [1, 1], "{name}");
    let looks: Vec<u32> = looks.into_values().collect();
    assert_eq!(looks, [look_times], "{name}");
}

async fn a_question_to_the_model_is_asked_again_and_nothing_else_happens_twice(store: TestStore) {
    let store = Arc::new(store);
    let reference = undisturbed(&store).await;
    for (number, (question, results)) in TURNS.into_iter().enumerate() {
        let mut world = world(&store, &format!("turn-{number}"));
        world.asked.lock().expect("a lock").held = Some(question.to_owned());
        let moment = async |world: &World, session: &str| {
            world.holds.notified().await;
            wait_for(world, session, number.saturating_sub(1), results).await;
            None
        };
        let journal = killed(&mut world, &reference, moment, question).await;
        check_asked(&world, question, &[question], 1);
        assert!(journal.of_kind("call_in_doubt").is_empty(), "{question}");
    }
}

/// What is held, how many replies and results are durable by then, how often the pure tool is
/// called, and whether a call is in doubt.
type Held = (&'static str, usize, usize, u32, bool);

const CALLS: [Held; 4] = [
    (r#"looked after {"what":"one"}"#, 1, 2, 2, false),
    (r#"recorded before {"what":"one"}"#, 1, 2, 1, true),
    (r#"recorded after {"what":"one"}"#, 1, 2, 1, true),
    (r#"recorded after {"what":"two"}"#, 3, 7, 1, true),
];

async fn a_call_under_way_is_repeated_only_if_it_is_pure_and_the_model_is_not_asked_again(
    store: TestStore,
) {
    let store = &Arc::new(store);
    let reference = &undisturbed(store).await;
    // Each waits until its call in doubt can no longer be running: at the same time.
    let cases = CALLS.into_iter().enumerate();
    let cases = cases.map(async |(number, case)| {
        let (held, replies, results, times, is_doubt) = case;
        let mut world = world(store, &format!("call-{number}"));
        world.place.site.write("held", held);
        let moment = async |world: &World, session: &str| {
            let begun = world.begun().await;
            wait_for(world, session, replies, results).await;
            world.place.site.write("held", "nothing");
            Some(begun)
        };
        let journal = killed(&mut world, reference, moment, held).await;
        check_asked(&world, held, &[], times);
        let doubts = journal.of_kind("call_in_doubt").len();
        assert_eq!(doubts, usize::from(is_doubt), "{held}");
    });
    futures::future::join_all(cases).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_file_a_question_to_the_model_is_asked_again_and_nothing_else_happens_twice() {
    a_question_to_the_model_is_asked_again_and_nothing_else_happens_twice(TestStore::file()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_file_a_call_under_way_is_repeated_only_if_it_is_pure_and_the_model_is_not_asked_again()
 {
    a_call_under_way_is_repeated_only_if_it_is_pure_and_the_model_is_not_asked_again(
        TestStore::file(),
    )
    .await;
}

/// Each needs servers of Redis.
mod redis {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn over_redis_a_question_to_the_model_is_asked_again_and_nothing_else_happens_twice() {
        a_question_to_the_model_is_asked_again_and_nothing_else_happens_twice(TestStore::redis())
            .await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn over_redis_a_call_under_way_is_repeated_only_if_it_is_pure_and_the_model_is_not_asked_again()
     {
        a_call_under_way_is_repeated_only_if_it_is_pure_and_the_model_is_not_asked_again(
            TestStore::redis(),
        )
        .await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn over_a_cluster_a_call_under_way_is_repeated_only_if_it_is_pure_and_the_model_is_not_asked_again()
     {
        a_call_under_way_is_repeated_only_if_it_is_pure_and_the_model_is_not_asked_again(
            TestStore::cluster(),
        )
        .await;
    }
}
