//! Compactions, as clients and executors see them: before a request that is too long, and by request.

mod lost;
mod manual;
mod settings;
mod turns;
mod waiting;

use crate::support::{Attempt, World, chain, count, model_step, names, real_executor_with, reply};
use crate::turns::{submit, turn};
use cairn_engine::tokens::of_text;
use cairn_executor::Config as ExecutorConfig;
use cairn_proto::event as wire;
use cairn_proto::executor::{Reply, SummaryTask};
use cairn_proto::orchestrator as pb;
use pb::context_notice::Notice;
use tonic::Streaming;

/// A result is in brief what its first line says.
const ROWS: &str = "found 120 rows\n";

fn message(role: wire::Role, part: wire::part::Part) -> wire::Message {
    wire::Message {
        role: role.into(),
        parts: vec![part.into()],
    }
}

fn user(text: &str) -> wire::Message {
    message(wire::Role::User, wire::part::Part::Text(text.to_owned()))
}

fn assistant(text: &str) -> wire::Message {
    message(
        wire::Role::Assistant,
        wire::part::Part::Text(text.to_owned()),
    )
}

/// A reply that only asks for a call.
fn called(id: &str) -> wire::Message {
    let call = wire::ToolCall {
        id: id.to_owned(),
        name: "pure".to_owned(),
        arguments_json: "{}".to_owned(),
    };
    message(wire::Role::Assistant, wire::part::Part::Call(call))
}

fn result(id: &str, text: &str) -> wire::Message {
    let result = wire::ToolResult {
        call_id: id.to_owned(),
        text: text.to_owned(),
        ..wire::ToolResult::default()
    };
    message(wire::Role::Tool, wire::part::Part::Result(result))
}

fn long_result() -> String {
    ROWS.to_owned() + &"a row of words\n".repeat(120)
}

/// A question whose answer was looked up. A list of it is much shorter.
fn looked_up(n: u32) -> Vec<wire::Message> {
    let id = format!("id-{n}");
    vec![
        user(&format!("Question {n}?")),
        called(&id),
        result(&id, &long_result()),
        assistant(&format!("Answer {n}.")),
    ]
}

/// What a person says at length. A list of it is about as long.
fn told(n: u32) -> Vec<wire::Message> {
    let fact = |part: u32| user(&format!("Fact {n}.{part}: {}", "word ".repeat(190)));
    vec![fact(1), fact(2), fact(3), assistant(&format!("Noted {n}."))]
}

/// The text of a message, if it begins with one.
fn text_of(message: Option<&wire::Message>) -> &str {
    let part = message.and_then(|message| message.parts.first()?.part.as_ref());
    match part {
        Some(wire::part::Part::Text(text)) => text,
        _ => "",
    }
}

fn texts(messages: &[wire::NumberedMessage]) -> Vec<&str> {
    let messages = messages.iter();
    messages.map(|it| text_of(it.message.as_ref())).collect()
}

/// Adds messages to the active context.
async fn extend(world: &World, session: &str, messages: Vec<wire::Message>) -> u64 {
    extend_context(world, session, "", messages).await
}

async fn extend_context(
    world: &World,
    session: &str,
    context: &str,
    messages: Vec<wire::Message>,
) -> u64 {
    let extend = pb::ExtendMessagesRequest {
        session: session.to_owned(),
        request_id: world.request_id(),
        context: context.to_owned(),
        messages,
        ..pb::ExtendMessagesRequest::default()
    };
    let mut contexts = world.contexts.clone();
    let extended = world.until(contexts.extend_messages(extend)).await;
    extended.expect("it is extended").into_inner().seq
}

/// All messages of the active context before its mark.
async fn listed(world: &World, session: &str) -> Vec<pb::IndexedMessage> {
    let request = pb::ListMessagesRequest {
        session: session.to_owned(),
        ..pb::ListMessagesRequest::default()
    };
    let page = world.contexts.clone().list_messages(request).await;
    page.expect("a page").into_inner().messages
}

async fn version(world: &World, session: &str) -> u64 {
    let request = pb::CountMessagesRequest {
        session: session.to_owned(),
        ..pb::CountMessagesRequest::default()
    };
    let counted = world.contexts.clone().count_messages(request).await;
    counted.expect("an answer").into_inner().version
}

async fn watch(
    world: &World,
    session: &str,
    after_seq: u64,
) -> Streaming<pb::WatchContextResponse> {
    let request = pb::WatchContextRequest {
        session: session.to_owned(),
        context: String::new(),
        after_seq,
    };
    let watched = world.contexts.clone().watch_context(request).await;
    watched.expect("a watch").into_inner()
}

/// The notices of the next event that has some.
async fn notices(world: &World, watched: &mut Streaming<pb::WatchContextResponse>) -> Vec<Notice> {
    loop {
        let message = world.until(watched.message()).await.expect("no error");
        let notices = message.expect("more").notices.into_iter();
        let notices: Vec<_> = notices.filter_map(|it| it.notice).collect();
        if !notices.is_empty() {
            return notices;
        }
    }
}

/// A turn begins in the active context.
async fn begin(world: &World, session: &str) -> (Streaming<pb::SubmitTurnResponse>, Attempt) {
    let submitted = submit(world, turn(world, session)).await;
    (submitted.expect("a turn"), world.attempt().await)
}

/// A turn begins whose request takes 0.8 of the window of its model.
async fn begin_full(world: &World, session: &str) -> (Streaming<pb::SubmitTurnResponse>, Attempt) {
    let (stream, mut attempt) = begin(world, session).await;
    report_full(&mut attempt);
    (stream, attempt)
}

fn report_full(attempt: &mut Attempt) {
    let tokens = attempt.tokens();
    attempt.report_full(tokens, tokens * 10 / 8);
}

/// A turn for whose request a summary is needed, with the attempt whose model is to write it.
async fn begin_summary(
    world: &World,
    session: &str,
) -> (Streaming<pb::SubmitTurnResponse>, Attempt) {
    extend(world, session, (0..10).flat_map(told).collect()).await;
    let (stream, attempt) = begin_full(world, session).await;
    let writing = world.attempt().await;
    world.until(attempt.dropped()).await;
    task(&writing);
    (stream, writing)
}

fn task(attempt: &Attempt) -> SummaryTask {
    let task = attempt.start.summary.clone();
    task.expect("its model is to write a summary")
}

/// What the model is sent beside older messages: those behind the mark, and changes since.
fn news(attempt: &Attempt) -> String {
    format!(
        "{:?} {:?}",
        attempt.conversation().behind,
        attempt.start.ops
    )
}

/// The model replies to all that it was sent.
fn says(attempt: &mut Attempt, text: &str) {
    let start = &attempt.start;
    let said = Reply {
        ops_through: start.ops_through + start.ops.len() as u64,
        ..reply(start.tool_turns, text, &[])
    };
    attempt.reply(said);
}

/// A step works behind its mark alone, and its task stays.
#[tokio::test(start_paused = true)]
async fn older_tool_turns_of_a_step_give_way_to_a_list() {
    let world = World::new().await;
    let session = world.start(chain(vec![model_step("think")])).await;
    let mut attempt = world.attempt().await;
    let before = attempt.tokens();
    let long = long_result();
    for tool_turn in 0..6 {
        attempt.reply(reply(tool_turn, "", &[("pure", "{}")]));
        attempt.report_result(tool_turn, 0, &long);
    }
    let tokens = before + 6 * (of_text(&long) + 30);
    attempt.report_full(tokens, tokens * 10 / 8);
    let mut again = world.attempt().await;
    world.until(attempt.dropped()).await;
    let said = again.conversation();
    assert_eq!(said.immutable.len(), 1, "the task of the step");
    assert_eq!(said.compressed, []);
    let view = &said.behind[0];
    assert_eq!(view.compaction(), wire::CompactionKind::History);
    let text = text_of(view.message.as_ref());
    assert!(
        text.contains("→ pure") && !text.contains("a row of words"),
        "{text}"
    );
    assert!(news(&again).contains("shorter text"), "{}", news(&again));
    assert_eq!(again.start.tool_turns, 6);
    assert_eq!(again.start.results.len(), 1, "that of the last call");
    again.complete(6);
    let events = world.ended(&session).await;
    assert_eq!(count(&events, "RunCompleted"), 1, "{:?}", names(&events));
    assert_eq!(count(&events, "ContextCompacted"), 1);
    assert_eq!(count(&events, "AttemptContinued"), 0);
}

/// The model asks itself, and says what the summary is to keep.
#[tokio::test(start_paused = true)]
async fn the_model_has_its_conversation_compacted() {
    let world = World::new().await;
    let session = crate::turns::session(&world).await;
    extend(&world, &session, (0..4).flat_map(told).collect()).await;
    let (_stream, mut attempt) = begin(&world, &session).await;
    let keep = r#"{"keep_in_mind": "the port"}"#;
    attempt.reply(reply(0, "", &[("compact", keep)]));
    let mut writing = world.attempt().await;
    world.until(attempt.dropped()).await;
    assert!(task(&writing).prompt.contains("the port"));
    let [result] = &writing.start.results[..] else {
        panic!("{:?}", writing.start.results);
    };
    assert!(
        !result.is_error && result.output.contains("asked for"),
        "{result:?}"
    );
    writing.summarise("A port, 17.");
    let mut again = world.attempt().await;
    let compressed = texts(&again.conversation().compressed).concat();
    assert!(compressed.contains("A port, 17."), "{compressed}");
    says(&mut again, "Done.");
    let events = world.ended(&session).await;
    assert_eq!(
        count(&events, "CompactionRequested"),
        1,
        "{:?}",
        names(&events)
    );
    assert_eq!(count(&events, "RunCompleted"), 1);
}

/// The executor of the attempt has no second slot, in which the attempt could continue.
#[tokio::test(start_paused = true)]
async fn a_step_is_compacted_in_the_only_slot() {
    let config = ExecutorConfig {
        max_attempts: 1,
        ..ExecutorConfig::default()
    };
    let (executor, mut questions) = real_executor_with(config, 16_000).await;
    let world = World::with_executor(executor).await;
    let session = world.start(chain(vec![model_step("think")])).await;
    let long = format!("I think. {}", "word ".repeat(2_000));
    let mut replies = 0;
    let compacted = loop {
        let question = world.until(questions.recv()).await.expect("a question");
        let is_told = |text: &String| text.contains("A shorter text stands now");
        if question.texts.iter().any(is_told) {
            break question;
        }
        question.reply(&long, &[]);
        replies += 1;
        assert!(replies < 9, "nothing is compacted");
    };
    let long_ones = compacted.texts.iter().filter(|text| text.contains(&long));
    assert!(long_ones.count() < replies);
    compacted.reply("", &[("step", r#"{"complete": true, "summary": "done"}"#)]);
    let events = world.ended(&session).await;
    assert_eq!(count(&events, "RunCompleted"), 1, "{:?}", names(&events));
    assert_eq!(count(&events, "ContextCompacted"), 1);
    assert_eq!(count(&events, "AttemptContinued"), 0);
}
