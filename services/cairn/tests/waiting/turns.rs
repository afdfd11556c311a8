//! Turns through a real server: what they cost, what reaches the model, and what is said while they run.

use crate::support::served::{self, SESSION, client};
use crate::support::{Client, place};
use cairn_engine::message::Message;
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use cairn_testkit::model_server::{Answer, Release, parts, reply};
use cairn_testkit::{ModelServer, TestStore};
use pb::turn_event::Event;
use place::Place;
use serde_json::{Value, json};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use tonic::{Code, Status, Streaming};

/// A server with a model that answers as the test says, and what the model was asked.
struct World {
    place: Place,
    client: Client,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl World {
    async fn new(answer: impl Fn(&Value) -> Answer + Send + Sync + 'static) -> Self {
        Self::with("", answer).await
    }

    async fn with(
        settings: &str,
        answer: impl Fn(&Value) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let asked: Arc<Mutex<Vec<Value>>> = Arc::default();
        let seen = Arc::clone(&asked);
        let model = ModelServer::start(move |body| {
            seen.lock().expect("no panic").push(body.clone());
            answer(body)
        });
        let mut place = Place::over(TestStore::file());
        served::add_model(&place.site, &model);
        place.site.append("cairn.toml", settings);
        let count = format!("count:{}", place.site.path().join("commits").display());
        assert!(place.keep_serving_with(&[("CAIRN_FAIL_COMMIT", &count)]));
        let mut client = client(&place.site);
        let request = pb::CreateSessionRequest {
            session: SESSION.to_owned(),
            request_id: "create".to_owned(),
            ..pb::CreateSessionRequest::default()
        };
        client.create_session(request).await.expect("a session");
        Self {
            place,
            client,
            asked,
        }
    }

    /// What the model was asked last.
    fn last_asked(&self) -> Value {
        let asked = self.asked.lock().expect("no panic");
        asked.last().cloned().expect("a question")
    }

    fn commits(&self) -> usize {
        let counted = self.place.site.read("commits");
        counted.map_or(0, |counted| counted.lines().count())
    }

    async fn submit(
        &mut self,
        id: &str,
        turn: wire::SubmitTurn,
    ) -> Result<Streaming<pb::SubmitTurnResponse>, Status> {
        let request = pb::SubmitTurnRequest {
            session: SESSION.to_owned(),
            request_id: id.to_owned(),
            turn: Some(turn),
            after_seq: 0,
        };
        let submitted = self.client.submit_turn(request);
        let submitted = tokio::time::timeout(served::PATIENCE, submitted).await;
        Ok(submitted.expect("an answer in time")?.into_inner())
    }

    /// A turn to its end.
    async fn turn(&mut self, id: &str, turn: wire::SubmitTurn) -> Vec<Event> {
        let mut stream = self.submit(id, turn).await.expect("a turn");
        to_end(&mut stream).await
    }
}

fn says(text: &str) -> wire::SubmitTurn {
    wire::SubmitTurn {
        message: Some(Message::user(text).into()),
        ..wire::SubmitTurn::default()
    }
}

async fn next(stream: &mut Streaming<pb::SubmitTurnResponse>) -> Option<Vec<Event>> {
    let message = tokio::time::timeout(served::PATIENCE, stream.message()).await;
    let message = message.expect("an event in time").expect("no error")?;
    Some(
        message
            .events
            .into_iter()
            .filter_map(|it| it.event)
            .collect(),
    )
}

async fn to_end(stream: &mut Streaming<pb::SubmitTurnResponse>) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(more) = next(stream).await {
        events.extend(more);
    }
    events
}

async fn until(stream: &mut Streaming<pb::SubmitTurnResponse>, is: impl Fn(&Event) -> bool) {
    loop {
        let events = next(stream).await.expect("it has not ended");
        if events.iter().any(&is) {
            return;
        }
    }
}

fn completed(events: &[Event]) -> &pb::TurnComplete {
    match events.last() {
        Some(Event::Complete(complete)) => complete,
        other => panic!("it has not completed: {other:?}"),
    }
}

fn failed(events: &[Event]) -> &wire::Failure {
    match events.last() {
        Some(Event::Error(error)) => error.failure.as_ref().expect("a failure"),
        other => panic!("it has not failed: {other:?}"),
    }
}

fn texts(body: &Value) -> Vec<&str> {
    let messages = body["messages"].as_array().expect("messages");
    messages
        .iter()
        .filter_map(|it| it["content"].as_str())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_costs_its_replies_and_two_more_durable_rounds() {
    let mut world = World::new(|body| match served::turn(body) {
        0 => reply("z", "Hello.", &[]),
        // The session answers it itself, so its result comes with no report of its own.
        turn @ 1..4 => reply(
            &format!("t{turn}"),
            "",
            &[("session_memory_list", json!({}))],
        ),
        _ => reply("e", "Two files.", &[]),
    })
    .await;
    world.turn("first", says("Hello?")).await;
    // Until the session is parked.
    let parked = world.place.with_code(0, &["show", SESSION, "--json"]);
    assert!(parked.out.contains("\"idle\""), "{}", parked.out);
    let before = world.commits();
    let events = world.turn("second", says("What is there?")).await;
    let complete = completed(&events);
    assert_eq!(
        (complete.response.as_str(), complete.turn_index),
        ("Two files.", 1)
    );
    assert_eq!(complete.usage.expect("usage").model_calls, 4);
    let rounds = world.commits() - before;
    // Its command is stored with the lease; then its start, and each of its four replies.
    println!("{rounds} rounds for 4 replies");
    assert_eq!(rounds, 4 + 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_to_a_turn_reaches_the_next_request() {
    let (sender, receiver): (Sender<Release>, Receiver<Release>) = channel();
    let sender = Mutex::new(sender);
    let mut world = World::new(move |body| match served::turn(body) {
        0 => {
            let (release, answer) = parts();
            sender
                .lock()
                .expect("no panic")
                .send(release)
                .expect("a test");
            answer
        }
        _ => reply("b", "Eins, zwei.", &[]),
    })
    .await;
    let mut stream = world.submit("count", says("Count.")).await.expect("a turn");
    let release = tokio::task::block_in_place(|| receiver.recv()).expect("a question");
    release.text("One, ");
    until(&mut stream, |event| matches!(event, Event::Text(_))).await;
    let request = pb::SendMessageRequest {
        session: SESSION.to_owned(),
        request_id: "steer".to_owned(),
        step: 0,
        message: Some(Message::user("In German, please.").into()),
    };
    let first = world
        .client
        .send_message(request.clone())
        .await
        .expect("it is taken");
    let again = world
        .client
        .send_message(request)
        .await
        .expect("the same answer");
    assert_eq!(first.into_inner(), again.into_inner());
    release.text("two.");
    release.end("a", &[]);
    let events = to_end(&mut stream).await;
    assert_eq!(completed(&events).response, "Eins, zwei.");
    let asked = world.last_asked();
    let asked = texts(&asked);
    assert_eq!(asked[1..], ["Count.", "One, two.", "In German, please."]);
    let request = pb::SendMessageRequest {
        session: SESSION.to_owned(),
        request_id: "late".to_owned(),
        step: 0,
        message: Some(Message::user("And again.").into()),
    };
    let refused = world
        .client
        .send_message(request)
        .await
        .expect_err("nothing runs");
    assert_eq!(refused.code(), Code::FailedPrecondition);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_turn_survives_a_kill_and_can_be_cancelled() {
    let mut world = World::new(|body| match texts(body).last() {
        Some(&"Wait.") => Answer::Hold,
        Some(text) => reply("b", &format!("{text} done"), &[]),
        None => Answer::Hold,
    })
    .await;
    let _first = world.submit("first", says("Wait.")).await.expect("a turn");
    let refused = world
        .submit("busy", says("Now."))
        .await
        .expect_err("it is busy");
    assert_eq!(refused.code(), Code::FailedPrecondition);
    let queue = |text: &str| wire::SubmitTurn {
        when_busy: wire::WhenBusy::Queue.into(),
        ..says(text)
    };
    let mut second = world
        .submit("second", queue("Second."))
        .await
        .expect("queued");
    let mut third = world
        .submit("third", queue("Third."))
        .await
        .expect("queued");
    let number = |events: Option<Vec<Event>>| match events.expect("an event").pop() {
        Some(Event::Queued(queued)) => queued.number,
        other => panic!("it is not queued: {other:?}"),
    };
    number(next(&mut second).await);
    let third_number = number(next(&mut third).await);
    world.place.kill_server();
    world.place.keep_serving();
    world.client = client(&world.place.site);
    let request = pb::CancelTurnRequest {
        session: SESSION.to_owned(),
        request_id: "cancel-third".to_owned(),
        number: third_number,
        reason: "not needed".to_owned(),
    };
    world
        .client
        .cancel_turn(request)
        .await
        .expect("it is cancelled");
    let request = pb::CancelRunRequest {
        session: SESSION.to_owned(),
        request_id: "cancel-first".to_owned(),
        run: 1,
        ..pb::CancelRunRequest::default()
    };
    world
        .client
        .cancel_run(request)
        .await
        .expect("it is cancelled");
    let events = world.turn("second", queue("Second.")).await;
    assert_eq!(completed(&events).response, "Second. done");
    let events = world.turn("third", queue("Third.")).await;
    assert_eq!(failed(&events).reason, "Cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn options_reach_the_model() {
    let mut world = World::new(|_| reply("a", "", &[("record", json!({"what": "one"}))])).await;
    let options = wire::TurnOptions {
        temperature: Some(0.25),
        max_output_tokens: Some(77),
        response_format: Some(wire::ResponseFormat {
            format: Some(wire::response_format::Format::JsonSchema(
                wire::JsonSchema {
                    name: "answer".to_owned(),
                    schema_json: r#"{"type":"object"}"#.to_owned(),
                },
            )),
        }),
        tools: Some(wire::ToolNames {
            names: vec!["record".to_owned()],
        }),
        max_tool_turns: Some(0),
        ..wire::TurnOptions::default()
    };
    let turn = wire::SubmitTurn {
        options: Some(options),
        ..says("Pay.")
    };
    let events = world.turn("turn", turn).await;
    let complete = completed(&events);
    assert_eq!(complete.calls[0].name, "record");
    assert_eq!(complete.reason(), wire::FinishReason::ToolCalls);
    let body = world.last_asked();
    assert_eq!(body["temperature"], json!(0.25));
    let limit = body.get("max_tokens").or(body.get("max_completion_tokens"));
    assert_eq!(limit, Some(&json!(77)));
    assert_eq!(body["response_format"]["json_schema"]["name"], "answer");
    let tools = body["tools"].as_array().expect("tools");
    assert_eq!(tools.len(), 1);
    assert_eq!(tools[0]["function"]["name"], "record");
    assert_eq!(world.place.site.read("ledger"), None, "no call is made");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_may_not_be_compacted_is_refused_before_the_model_is_asked() {
    let window = "window_tokens = 4000\n";
    let mut world = World::with(window, |_| reply("a", "Fine.", &[])).await;
    let long = wire::SubmitTurn {
        options: Some(wire::TurnOptions {
            when_full: wire::WhenFull::Refuse.into(),
            ..wire::TurnOptions::default()
        }),
        ..says(&"word ".repeat(4_000))
    };
    let events = world.turn("long", long).await;
    let failure = failed(&events);
    assert_eq!(failure.kind(), wire::FailureKind::LimitExceeded);
    assert_eq!(failure.reason, "CONTEXT_FULL");
    assert!(
        failure.message.contains("window_tokens is 4000"),
        "{}",
        failure.message
    );
    assert!(world.asked.lock().expect("no panic").is_empty());
    // Nothing of it stays.
    let options = wire::TurnOptions {
        tools: Some(wire::ToolNames::default()),
        ..wire::TurnOptions::default()
    };
    let short = wire::SubmitTurn {
        options: Some(options),
        ..says("Short.")
    };
    let events = world.turn("short", short).await;
    assert_eq!(completed(&events).response, "Fine.");
    assert_eq!(texts(&world.last_asked())[1..], ["Short."]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_turn_knows_the_effects_of_a_failed_one() {
    let mut world = World::new(|body| match texts(body).len() {
        2 => reply("a", "", &[("record", json!({"what": "one"}))]),
        3 => Answer::Whole(400, json!({"error": {"message": "no"}}).to_string()),
        _ => reply("b", "Yes.", &[]),
    })
    .await;
    let events = world.turn("first", says("Pay.")).await;
    assert!(!failed(&events).message.is_empty());
    let asked = world.asked.lock().expect("no panic").len();
    let turn = wire::SubmitTurn {
        options: Some(wire::TurnOptions {
            max_tool_turns: Some(0),
            ..wire::TurnOptions::default()
        }),
        ..says("Did you pay?")
    };
    world.turn("second", turn).await;
    let bodies = world.asked.lock().expect("no panic");
    let user = texts(&bodies[asked])[1].to_owned();
    assert!(user.starts_with("Did you pay?"), "{user}");
    assert!(user.contains("`record`: it was carried out"), "{user}");
}
