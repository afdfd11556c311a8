//! Long conversations that end, or wait for a person in words. Summaries that grow or do not come, replies and
//! results larger than the window, small windows, and a context of 16 MiB: at most one compaction takes effect
//! for each tool turn, what waits is answered, and the session takes a further turn afterwards.

mod rows;

use crate::support::fold::at_most_one_compaction_for_each_tool_turn;
use crate::support::place::Place;
use crate::support::served::{SESSION, Watch, add_model, client, start};
use crate::support::{Client, link, talk};
use cairn_engine::limits::MAX_CONTEXT;
use cairn_engine::message::Message;
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_proto::event::settlement::{Answer as Said, Fail, Outcome, Retry};
use cairn_proto::orchestrator as pb;
use cairn_proto::orchestrator::context_service_client::ContextServiceClient;
use cairn_rpc::{Link, RpcError};
use cairn_testkit::model_server::reply;
use cairn_testkit::{ModelServer, TestStore};
use rows::{Begin, Decision, ROWS, Row, Waits};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// Bytes of a message of a large context, and messages of one import.
const MESSAGE: usize = 16 * 1024;
const AT_ONCE: [usize; 2] = [120, 1];

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_conversation_that_is_too_long_ends_or_waits_and_is_not_dead() {
    let rows = ROWS.iter().map(|row| tokio::spawn(Box::pin(check(row))));
    let rows: Vec<_> = rows.collect();
    for row in rows {
        row.await.expect("no panic");
    }
}

async fn check(row: &'static Row) {
    let model = rows::model(row);
    let mut place = Place::over(TestStore::file());
    place.site.write("docs/large.md", &rows::large_file());
    add_model(&place.site, &model);
    let window = format!("window_tokens = {}\n", row.window);
    place.site.append("cairn.toml", &window);
    place.keep_serving();
    let mut client = client(&place.site);
    talk::create(&mut client, SESSION).await;
    Box::pin(add_older(&place, row.older)).await;
    Box::pin(begin(&mut client, row)).await;
    let watch = Watch::after(&mut client, SESSION, 0).await;
    let mut watch = watch.expect("a watch");
    let mut end = next_stop(&mut watch).await;
    let waited = matches!(end, Stop::Waits);
    let is_expected = match row.waits {
        Waits::No => !waited,
        Waits::For(_) => waited,
        Waits::Maybe => true,
    };
    assert!(is_expected, "{}: {end:?}", row.name);
    if waited {
        Box::pin(answer(&place, &mut client, row)).await;
        end = next_stop(&mut watch).await;
    }
    check_end(row, waited, &end);
    let ended = Box::pin(talk::to_end(&mut client, further_turn("short", "Short."))).await;
    let ended = ended.unwrap_or_else(|status| panic!("{}: {status:?}", row.name));
    assert_eq!(ended.response(), rows::FINE, "{}", row.name);
    place.stop_server();
    let journal = place.journal(SESSION);
    at_most_one_compaction_for_each_tool_turn(&journal);
    let (compacted, full) = (
        journal.of_kind("context_compacted").len(),
        journal.of_kind("context_full").len(),
    );
    println!("{}: {compacted} compactions, asked {full} times", row.name);
    assert!(compacted >= row.least_compactions, "{}", row.name);
    assert_eq!(full, usize::from(waited), "{}", row.name);
}

/// Adds questions with their answers to the context. A history view of them is as long as they are.
async fn add_older(place: &Place, older: usize) {
    if older == 0 {
        return;
    }
    let older = (0..older).flat_map(|number| {
        let asked = format!("Question {number:02}: what does bridge {number:02} carry?");
        let answer = "It carries ten tonnes, as a plate on it says. ".repeat(9);
        let answer = format!("Answer {number:02}: {}", answer.trim_end());
        [Message::user(asked), Message::assistant(answer, Vec::new())]
    });
    let request = pb::ExtendMessagesRequest {
        session: SESSION.to_owned(),
        request_id: "extend".to_owned(),
        messages: older.map(Into::into).collect(),
        ..pb::ExtendMessagesRequest::default()
    };
    let mut contexts = ContextServiceClient::new(link(place.address()));
    contexts.extend_messages(request).await.expect("messages");
}

async fn begin(client: &mut Client, row: &Row) {
    let none: &[&str] = &[];
    let (tools, when_full) = match row.begin {
        Begin::Step => {
            let step = json!({"title": "Look", "description": "Look at it."});
            return start(client, &json!({"steps": [step]})).await;
        }
        Begin::Turn { tools } => (tools, wire::WhenFull::Unspecified),
        Begin::RefusingTurn => (none, wire::WhenFull::Refuse),
    };
    let options = wire::TurnOptions {
        tools: Some(wire::ToolNames {
            names: tools.iter().map(|&name| name.to_owned()).collect(),
        }),
        when_full: when_full.into(),
        ..wire::TurnOptions::default()
    };
    let mut request = talk::request(SESSION, "turn", "Look at it.");
    if let Some(turn) = &mut request.turn {
        turn.options = Some(options);
    }
    // The watch shows what becomes of it.
    client.submit_turn(request).await.expect("a turn");
}

/// A turn without tools.
fn further_turn(id: &str, text: &str) -> pb::SubmitTurnRequest {
    let mut request = talk::request(SESSION, id, text);
    if let Some(turn) = &mut request.turn {
        turn.options = Some(wire::TurnOptions {
            tools: Some(wire::ToolNames::default()),
            ..wire::TurnOptions::default()
        });
    }
    request
}

/// Where a run comes to.
#[derive(Debug)]
enum Stop {
    Waits,
    Completed,
    Failed(wire::Failure),
}

async fn next_stop(watch: &mut Watch) -> Stop {
    loop {
        let (_, event) = watch.next().await.expect("an event");
        match event.kind.expect("a kind") {
            Kind::RunWaiting(waiting) => {
                assert_eq!(waiting.reason(), wire::WaitReason::Context);
                return Stop::Waits;
            }
            Kind::RunCompleted(_) => return Stop::Completed,
            Kind::RunFailed(failed) => return Stop::Failed(failed.failure.unwrap_or_default()),
            _ => {}
        }
    }
}

/// Looks at the question as a person does, and decides.
async fn answer(place: &Place, client: &mut Client, row: &Row) {
    let request = pb::ListPendingRequest {
        session: SESSION.to_owned(),
        ..pb::ListPendingRequest::default()
    };
    let pending = client.list_pending(request).await.expect("an answer");
    let pending = pending.into_inner().pending;
    let [open] = &pending[..] else {
        panic!("{}: {pending:?}", row.name);
    };
    assert_eq!(open.id, "context-1.1.1", "{}", row.name);
    assert_eq!(open.reason(), wire::WaitReason::Context);
    assert!(open.tokens > 0, "{open:?}");
    // What became of a summary says nothing of the window, which the session learns from a reply.
    let is_told = open.cause() == wire::FullCause::NothingToCompact || open.window_tokens > 0;
    let window = if is_told { u64::from(row.window) } else { 0 };
    assert_eq!(open.window_tokens, window, "{}", row.name);
    if let Waits::For(cause) = row.waits {
        assert_eq!(open.cause(), cause, "{}", row.name);
    }
    let has_failed = open.cause() == wire::FullCause::NoSummary;
    assert_eq!(open.failure.is_some(), has_failed, "{open:?}");
    let shown = place.with_code(0, &["pending", SESSION]).out;
    let id = open.id.as_str();
    for part in [id, "does not fit", "tokens", "retry", "answer", "fail"] {
        assert!(shown.contains(part), "{part:?}: {shown}");
    }
    let shown = place.with_code(0, &["pending", SESSION, "--json"]).out;
    let shown: Value = serde_json::from_str(&shown).expect("a line of JSON");
    assert_eq!(shown["reason"], "context");
    let outcome = match row.decision {
        Decision::Retry => Outcome::Retry(Retry {}),
        Decision::Answer(text) => Outcome::Answer(Said {
            text: text.to_owned(),
        }),
        Decision::Fail => Outcome::Fail(Fail {
            reason: "enough".to_owned(),
        }),
    };
    let request = pb::DecideRequest {
        session: SESSION.to_owned(),
        request_id: "decide".to_owned(),
        pending_id: open.id.clone(),
        settlement: Some(wire::Settlement {
            outcome: Some(outcome),
        }),
    };
    client.decide(request).await.expect("it is open");
}

fn check_end(row: &Row, waited: bool, end: &Stop) {
    let fails = match row.begin {
        Begin::RefusingTurn => true,
        Begin::Turn { .. } | Begin::Step => waited && matches!(row.decision, Decision::Fail),
    };
    match end {
        Stop::Failed(failure) if fails => {
            assert_eq!(failure.reason, "CONTEXT_FULL", "{}", row.name);
        }
        Stop::Completed if !fails => {}
        other => panic!("{}: {other:?}", row.name),
    }
}

/// Imports messages until no further one has room. Returns how many there are.
async fn fill(contexts: &mut ContextServiceClient<Link>) -> usize {
    let mut messages = 0;
    for at_once in AT_ONCE {
        loop {
            let lines = (messages..messages + at_once).map(|number| {
                let text = format!(
                    "Message {number:04}: {}",
                    "ten tonnes ".repeat(MESSAGE / 11)
                );
                let message = match number % 2 {
                    0 => Message::user(text),
                    _ => Message::assistant(text, Vec::new()),
                };
                let message = wire::Message::from(message);
                let line = cairn_proto::json::line("cairn.event.v1.Message", &message);
                line.expect("a message") + "\n"
            });
            let request = pb::ImportContextRequest {
                session: SESSION.to_owned(),
                request_id: format!("import-{messages}-{at_once}"),
                jsonl: lines.collect(),
                ..pb::ImportContextRequest::default()
            };
            match contexts.import_context(request).await {
                Ok(_) => messages += at_once,
                Err(status) => {
                    let error = RpcError::from_status(&status);
                    assert_eq!(error.reason_name(), "LIMIT", "{status:?}");
                    break;
                }
            }
        }
    }
    messages
}

#[tokio::test(flavor = "multi_thread")]
async fn a_context_of_16_mib_takes_a_turn() {
    let asked = Arc::new(Mutex::new(String::new()));
    let noted = Arc::clone(&asked);
    let model = ModelServer::seeing(move |request| {
        request
            .text
            .clone_into(&mut noted.lock().expect("no panic"));
        reply("fine", rows::FINE, &[])
    });
    let mut place = Place::over(TestStore::file());
    add_model(&place.site, &model);
    place.site.append("cairn.toml", "window_tokens = 1000000\n");
    place.keep_serving();
    let mut client = client(&place.site);
    let mut contexts = ContextServiceClient::new(link(place.address()));
    talk::create(&mut client, SESSION).await;
    let messages = Box::pin(fill(&mut contexts)).await;
    assert!(messages > 1_000, "{messages}");
    let text = format!("And now? {}", "more ".repeat(4_000));
    let mut refused = further_turn("refused", &text);
    let turn = refused.turn.as_mut().expect("a turn");
    let options = turn.options.as_mut().expect("options");
    options.when_full = wire::WhenFull::Refuse.into();
    let refused = client.submit_turn(refused).await.expect_err("it is full");
    assert_eq!(RpcError::from_status(&refused).reason_name(), "LIMIT");
    for turn in ["first", "second"] {
        let ended = Box::pin(talk::to_end(&mut client, further_turn(turn, &text))).await;
        let ended = ended.unwrap_or_else(|status| panic!("{turn}: {status:?}"));
        assert_eq!(ended.response(), rows::FINE);
        let is_first = turn == "first";
        assert_eq!(ended.compacted.is_empty(), !is_first, "{turn}");
    }
    let asked = asked.lock().expect("no panic").clone();
    // The newest messages are sent as they were said, and the oldest ones are not.
    let newest = format!("Message {:04}", messages - 1);
    assert!(asked.contains(&newest), "{newest} is not sent");
    assert!(asked.len() < 1024 * 1024, "{} bytes", asked.len());
    let request = pb::ListContextsRequest {
        session: SESSION.to_owned(),
    };
    let listed = contexts.list_contexts(request).await.expect("contexts");
    let bytes = listed.into_inner().contexts[0].bytes;
    println!("{messages} messages, then {bytes} bytes");
    assert!(bytes <= MAX_CONTEXT / 2, "{bytes} bytes");
}
