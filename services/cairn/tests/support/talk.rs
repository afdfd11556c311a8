//! One conversation, turn after turn, with a model that answers each turn in the same words and checks
//! that it was sent all turns before.

use super::CAIRN;
use super::Client;
use super::served::{self, PATIENCE};
use cairn_engine::message::Message;
use cairn_proto::event as wire;
use cairn_proto::event::part::Part;
use cairn_proto::orchestrator as pb;
use cairn_proto::orchestrator::context_service_client::ContextServiceClient;
use cairn_rpc::Link;
use cairn_testkit::model_server::Answer;
use cairn_testkit::{ModelServer, Site};
use pb::turn_event::Event;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tonic::Status;

const QUESTION_BYTES: usize = 200;
const REPLY_BYTES: usize = 300;
/// A window that no conversation fills.
pub(crate) const WINDOW: &str = "window_tokens = 100000000\n";

/// A folder with this model and its window, and leases that last on a busy machine. `session` is added to
/// the settings of sessions.
pub(crate) fn site(model: &ModelServer, session: &str) -> Site {
    let site = Site::new(CAIRN);
    let settings = site.read("cairn.toml").expect("settings");
    let long = format!("\n[session]\nlease = \"10s\"\n{session}");
    let short = "\n[session]\nlease = \"1s\"\n";
    site.write("cairn.toml", &settings.replace(short, &long));
    served::add_model(&site, model);
    site.append("cairn.toml", WINDOW);
    site
}

/// The user message of a turn.
pub(crate) fn question(turn: usize) -> String {
    filled(
        format!("Question {turn:05}: "),
        "what does the bridge carry? ",
        QUESTION_BYTES,
    )
}

/// The reply of the model in a turn.
pub(crate) fn reply(turn: usize) -> String {
    filled(
        format!("Answer {turn:05}: "),
        "it carries ten tonnes. ",
        REPLY_BYTES,
    )
}

fn filled(start: String, words: &str, bytes: usize) -> String {
    let mut text = start + &words.repeat(bytes / words.len());
    text.truncate(bytes);
    text
}

/// The turn that a request is about.
///
/// # Errors
/// The request lacks a message of the turns before, or has another one.
pub(crate) fn turn_of(body: &Value) -> Result<usize, String> {
    let messages = body["messages"].as_array().ok_or("no messages")?;
    let messages: Vec<&Value> = messages
        .iter()
        .filter(|it| it["role"] != "system")
        .collect();
    for (number, message) in messages.iter().enumerate() {
        let (role, text) = match number % 2 {
            0 => ("user", question(number / 2)),
            _ => ("assistant", reply(number / 2)),
        };
        if message["role"] != role || message["content"] != text {
            return Err(format!("message {number} is {message}, not {text:?}"));
        }
    }
    match messages.len() % 2 {
        1 => Ok(messages.len() / 2),
        _ => Err(format!("{} messages", messages.len())),
    }
}

/// The requests of a model: the bytes of each, in order, and what is wrong with them.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    pub(crate) bytes: Vec<usize>,
    pub(crate) findings: Vec<String>,
}

/// A model's server for a conversation.
pub(crate) fn model() -> (ModelServer, Arc<Mutex<Sent>>) {
    let sent = Arc::new(Mutex::new(Sent::default()));
    let noted = sent.clone();
    let server = ModelServer::seeing(move |asked| {
        let turn = turn_of(&asked.body);
        let mut sent = noted.lock().expect("no panic");
        sent.bytes.push(asked.text.len());
        let turn = turn.unwrap_or_else(|finding| {
            let number = sent.bytes.len();
            sent.findings.push(format!("request {number}: {finding}"));
            number - 1
        });
        answer(turn, asked.text.len())
    });
    (server, sent)
}

fn answer(turn: usize, bytes: usize) -> Answer {
    let message = json!({"role": "assistant", "content": reply(turn)});
    let choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
    let usage = json!({"prompt_tokens": bytes / 4, "completion_tokens": REPLY_BYTES / 4});
    let body = json!({"model": "served-1", "choices": [choice], "usage": usage});
    Answer::Whole(200, body.to_string())
}

/// A turn as its client sees it.
#[derive(Debug, Clone)]
pub(crate) struct Talked {
    /// Number of its last event.
    pub(crate) seq: u64,
    pub(crate) response: String,
    pub(crate) turn_index: u32,
    /// From the request to the first event.
    pub(crate) first_event: Duration,
    /// From the request to the first text.
    pub(crate) first_text: Option<Duration>,
    /// From the request to the end.
    pub(crate) whole: Duration,
}

/// Creates a session.
pub(crate) async fn create(client: &mut Client, session: &str) {
    let request = pb::CreateSessionRequest {
        session: session.to_owned(),
        request_id: format!("create-{session}"),
        ..pb::CreateSessionRequest::default()
    };
    client.create_session(request).await.expect("a session");
}

/// The request for a turn.
pub(crate) fn request(session: &str, id: &str, text: &str) -> pb::SubmitTurnRequest {
    pb::SubmitTurnRequest {
        session: session.to_owned(),
        request_id: id.to_owned(),
        turn: Some(wire::SubmitTurn {
            message: Some(Message::user(text).into()),
            ..wire::SubmitTurn::default()
        }),
        after_seq: 0,
    }
}

/// Submits a turn of the conversation and follows it to its end.
///
/// # Errors
/// The turn was refused or its stream broke.
///
/// # Panics
/// If the turn fails, or does not end.
pub(crate) async fn talk(
    client: &mut Client,
    session: &str,
    turn: usize,
) -> Result<Talked, Status> {
    let began = Instant::now();
    let request = request(session, &format!("turn-{turn}"), &question(turn));
    let mut stream = client.submit_turn(request).await?.into_inner();
    let (mut seq, mut first_event, mut first_text) = (0, None, None);
    loop {
        let message = tokio::time::timeout(PATIENCE, stream.message()).await;
        let message = message.expect("an event in time")?;
        let message = message.ok_or_else(|| Status::unavailable("the stream has ended"))?;
        seq = seq.max(message.seq);
        first_event.get_or_insert_with(|| began.elapsed());
        for event in message.events.into_iter().filter_map(|it| it.event) {
            match event {
                Event::Text(_) => drop(first_text.get_or_insert_with(|| began.elapsed())),
                Event::Error(error) => panic!("turn {turn}: {error:?}"),
                Event::Complete(complete) => {
                    return Ok(Talked {
                        seq,
                        response: complete.response,
                        turn_index: complete.turn_index,
                        first_event: first_event.unwrap_or_default(),
                        first_text,
                        whole: began.elapsed(),
                    });
                }
                _ => {}
            }
        }
    }
}

/// How a turn ended, and what its client saw on the way.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The response, or why there is none.
    pub(crate) end: Result<pb::TurnComplete, wire::Failure>,
    /// Messages that were replaced, for each compaction.
    pub(crate) compacted: Vec<u32>,
}

impl Ended {
    /// The response.
    ///
    /// # Panics
    /// If the turn has failed.
    pub(crate) fn response(&self) -> &str {
        match &self.end {
            Ok(complete) => &complete.response,
            Err(failure) => panic!("the turn fails: {failure:?}"),
        }
    }
}

/// Submits a turn and follows it to its end.
///
/// # Errors
/// The turn was refused or its stream broke.
///
/// # Panics
/// If the turn does not end, or waits for a person.
pub(crate) async fn to_end(
    client: &mut Client,
    request: pb::SubmitTurnRequest,
) -> Result<Ended, Status> {
    let mut stream = client.submit_turn(request).await?.into_inner();
    let mut compacted = Vec::new();
    loop {
        let message = tokio::time::timeout(PATIENCE, stream.message()).await;
        let message = message.expect("an event in time")?;
        let message = message.ok_or_else(|| Status::unavailable("the stream has ended"))?;
        for event in message.events.into_iter().filter_map(|it| it.event) {
            let end = match event {
                Event::Compacted(event) => {
                    compacted.push(event.replaced);
                    continue;
                }
                Event::Waiting(waiting) => panic!("the turn waits: {waiting:?}"),
                Event::Error(error) => Err(error.failure.unwrap_or_default()),
                Event::Complete(complete) => Ok(complete),
                _ => continue,
            };
            return Ok(Ended { end, compacted });
        }
    }
}

/// The messages of a session's context, as role and text, from all pages.
pub(crate) async fn messages(link: &Link, session: &str) -> Vec<(wire::Role, String)> {
    let mut contexts = ContextServiceClient::new(link.clone());
    let (mut messages, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = pb::ListMessagesRequest {
            session: session.to_owned(),
            page_token,
            ..pb::ListMessagesRequest::default()
        };
        let page = contexts.list_messages(request).await.expect("messages");
        let page = page.into_inner();
        for listed in page.messages {
            assert_eq!(listed.index as usize, messages.len(), "the order");
            let message = listed.message.expect("a message");
            messages.push((message.role(), text(&message)));
        }
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return messages;
        }
    }
}

fn text(message: &wire::Message) -> String {
    let parts = message.parts.iter().filter_map(|it| it.part.as_ref());
    let texts = parts.filter_map(|part| match part {
        Part::Text(text) => Some(text.clone()),
        _ => None,
    });
    texts.collect()
}
