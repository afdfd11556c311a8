//! `retrieve` and `save_knowledge`: what models find of pages and of earlier messages, which page is saved, and who is
//! offered the tools.

use crate::agent_runs::{of, put};
use crate::answers::results;
use crate::support::{Attempt, Fault, Side, World, chain, count, for_tenant, model_step, reply};
use crate::turns::{session, submit, turn};
use cairn_orchestrator::{Config, KnowledgeConfig};
use cairn_proto::event as wire;
use cairn_proto::memory as memory_pb;
use cairn_proto::orchestrator as pb;
use cairn_rpc::RpcError;
use prost::Message as _;
use std::time::Duration;

const HARBOUR: &str = "The harbour closes at nine.";
const LIGHTHOUSE: &str = "The lighthouse is red.";
const SAVE: &str = r#"{"title": "Harbour", "text": "It closes at nine.", "tags": ["town"]}"#;

async fn put_page(world: &World, id: &str, title: &str, text: &str, tags: &[&str]) {
    let page = memory_pb::PageDocument {
        title: title.to_owned(),
        text: text.to_owned(),
        tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
    };
    let put = memory_pb::PutDocumentRequest {
        kind: memory_pb::DocumentKind::Page.into(),
        id: id.to_owned(),
        value: page.encode_to_vec().into(),
        expected_version: None,
        operation_id: world.request_id(),
    };
    let stored = world.documents.clone().put_document(for_tenant(put)).await;
    stored.expect("stored");
}

/// The ids of the pages that there are, their versions and what they say.
async fn pages(world: &World) -> Vec<(String, u64, memory_pb::PageDocument)> {
    let list = memory_pb::ListDocumentsRequest {
        kind: memory_pb::DocumentKind::Page.into(),
        ..memory_pb::ListDocumentsRequest::default()
    };
    let listed = world
        .documents
        .clone()
        .list_documents(for_tenant(list))
        .await;
    let documents = listed.expect("a list").into_inner().documents.into_iter();
    let decode = |value: &[u8]| memory_pb::PageDocument::decode(value).expect("a page");
    documents
        .map(|it| (it.id, it.version, decode(&it.value)))
        .collect()
}

fn said(role: wire::Role, text: &str) -> wire::Message {
    wire::Message {
        role: role.into(),
        parts: vec![wire::part::Part::Text(text.to_owned()).into()],
    }
}

/// Two facts, each with an answer.
fn talk() -> Vec<wire::Message> {
    vec![
        said(wire::Role::User, HARBOUR),
        said(wire::Role::Assistant, "Noted."),
        said(wire::Role::User, LIGHTHOUSE),
        said(wire::Role::Assistant, "Noted, too."),
    ]
}

async fn extend(world: &World, session: &str, context: &str, messages: Vec<wire::Message>) {
    let extend = pb::ExtendMessagesRequest {
        session: session.to_owned(),
        request_id: world.request_id(),
        context: context.to_owned(),
        messages,
        ..pb::ExtendMessagesRequest::default()
    };
    let mut contexts = world.contexts.clone();
    let extended = world.until(contexts.extend_messages(extend)).await;
    extended.expect("it is extended");
}

/// A session whose context `side` shows the last two messages of the talk.
async fn with_window(world: &World) -> String {
    let session = session(world).await;
    let create = pb::CreateContextRequest {
        session: session.clone(),
        request_id: world.request_id(),
        context: Some(wire::CreateContext {
            name: "side".to_owned(),
            window: Some(wire::Window { messages: 2 }),
            ..wire::CreateContext::default()
        }),
    };
    let mut contexts = world.contexts.clone();
    let created = world.until(contexts.create_context(create)).await;
    created.expect("it is created");
    extend(world, &session, "side", talk()).await;
    session
}

/// A turn begins in a context.
async fn begin(world: &World, session: &str, context: &str, tools: Option<&[&str]>) -> Attempt {
    let mut request = turn(world, session);
    if let Some(turn) = request.turn.as_mut() {
        turn.context = context.to_owned();
        turn.options = tools.map(|names| wire::TurnOptions {
            tools: Some(wire::ToolNames {
                names: names.iter().map(|&name| name.to_owned()).collect(),
            }),
            ..wire::TurnOptions::default()
        });
    }
    // The turn goes on without a client that reads of it.
    drop(submit(world, request).await.expect("a turn"));
    world.attempt().await
}

/// What the model of a turn finds.
async fn retrieve(world: &World, attempt: &mut Attempt, tool_turn: u32, arguments: &str) -> String {
    attempt.reply(reply(tool_turn, "", &[("retrieve", arguments)]));
    let answer = results(world, attempt).await.remove(0);
    assert!(!answer.is_error, "{}", answer.output);
    answer.output
}

/// The heads of the passages, and their scores.
fn heads(found: &str) -> Vec<(&str, f64)> {
    let heads = found.lines().filter(|line| line.starts_with('['));
    let heads = heads.map(|line| {
        let (head, _) = line.split_once(']').expect("a head");
        let (_, score) = line.split_once("(score ").expect("a score");
        (head, score[..4].parse().expect("a number"))
    });
    heads.collect()
}

#[tokio::test(start_paused = true)]
async fn a_message_before_the_window_is_found_and_one_in_it_is_not() {
    let world = World::new().await;
    let session = with_window(&world).await;
    let mut attempt = begin(&world, &session, "side", None).await;
    let found = retrieve(&world, &mut attempt, 0, r#"{"query": "harbour"}"#).await;
    assert!(found.starts_with("[message 1, user] (score "), "{found}");
    assert!(found.ends_with(&format!("\n  {HARBOUR}")), "{found}");
    for query in ["lighthouse", "hello"] {
        let arguments = format!(r#"{{"query": "{query}"}}"#);
        let turn = if query == "hello" { 2 } else { 1 };
        let found = retrieve(&world, &mut attempt, turn, &arguments).await;
        let expected = format!("nothing was found for the words: {query}; try other words");
        assert_eq!(found, expected, "the model sees it");
    }
}

/// Without a window of the context, that of its agent counts.
#[tokio::test(start_paused = true)]
async fn a_message_before_the_window_of_an_agent_is_found() {
    let world = World::new().await;
    put(&world, "---\nname: brief\ncairn: {window: 2}\n---\nP").await;
    let session = session(&world).await;
    let create = pb::CreateContextRequest {
        session: session.clone(),
        request_id: world.request_id(),
        context: Some(wire::CreateContext {
            name: "side".to_owned(),
            agent: "brief".to_owned(),
            ..wire::CreateContext::default()
        }),
    };
    let mut contexts = world.contexts.clone();
    let created = world.until(contexts.create_context(create)).await;
    created.expect("it is created");
    extend(&world, &session, "side", talk()).await;
    let list = pb::ListContextsRequest {
        session: session.clone(),
    };
    let listed = world.until(contexts.list_contexts(list)).await;
    let listed = listed.expect("a list").into_inner().contexts;
    let side = listed.iter().find(|it| it.name == "side");
    let side = side.expect("the context");
    let two = Some(wire::Window { messages: 2 });
    assert_eq!((side.window, side.agent_window), (None, two));
    let mut attempt = begin(&world, &session, "side", None).await;
    let found = retrieve(&world, &mut attempt, 0, r#"{"query": "harbour"}"#).await;
    assert!(found.starts_with("[message 1, user] (score "), "{found}");
}

/// A turn with an earlier message and two pages.
async fn with_pages(world: &World) -> Attempt {
    let tags = ["harbour", "town"];
    put_page(world, "hours", "Hours", "The harbour opens at six.", &tags).await;
    put_page(world, "food", "Bakeries", "Bread from five on.", &["town"]).await;
    let session = with_window(world).await;
    begin(world, &session, "side", None).await
}

#[tokio::test(start_paused = true)]
async fn pages_and_messages_are_found_in_one_order() {
    let world = World::new().await;
    let mut attempt = with_pages(&world).await;
    let found = retrieve(&world, &mut attempt, 0, r#"{"query": "the harbour"}"#).await;
    let all = heads(&found);
    let mut names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    assert_eq!(names, ["[message 1, user", "[page hours"], "{found}");
    assert!(all.is_sorted_by(|a, b| a.1 >= b.1), "{found}");
    assert!(all.iter().all(|(_, score)| (0.0..=1.0).contains(score)));
    let tags = "; tags harbour, town; changed 2023-11-14)";
    assert!(found.contains(tags), "{found}");
}

#[tokio::test(start_paused = true)]
async fn a_search_is_narrowed_by_scope_tags_number_and_score() {
    let world = World::new().await;
    let mut attempt = with_pages(&world).await;
    let narrow = [
        (r#""scope": "knowledge""#, "[page hours"),
        (r#""scope": "conversation""#, "[message 1, user"),
        (r#""tags": ["Town"]"#, "[page hours"),
        (r#""tags": ["harbour"], "max": 1"#, "[page hours"),
    ];
    for ((narrow, expected), turn) in narrow.into_iter().zip(0..) {
        let arguments = format!(r#"{{"query": "harbour", {narrow}}}"#);
        let found = retrieve(&world, &mut attempt, turn, &arguments).await;
        let names: Vec<&str> = heads(&found).iter().map(|(name, _)| *name).collect();
        assert_eq!(names, [expected], "{narrow}: {found}");
    }
    let none = [
        (
            r#"{"query": "harbour", "tags": ["sea"]}"#,
            "with the tags sea",
        ),
        (
            r#"{"query": "harbour", "min_score": 1}"#,
            "a score of at least 1 ",
        ),
        (r#"{"query": "of the"}"#, "only common words"),
    ];
    for ((arguments, expected), turn) in none.into_iter().zip(4..) {
        let found = retrieve(&world, &mut attempt, turn, arguments).await;
        assert!(found.starts_with("nothing was found"), "{found}");
        assert!(found.contains(expected), "{arguments}: {found}");
    }
}

/// It counts for pages and for messages.
#[tokio::test(start_paused = true)]
async fn a_search_that_names_no_score_has_the_least_one_of_the_settings() {
    let world = World::with_config(Config {
        knowledge: KnowledgeConfig {
            min_score: 1.0,
            ..KnowledgeConfig::default()
        },
        ..Config::default()
    })
    .await;
    let mut attempt = with_pages(&world).await;
    let query = r#"{"query": "harbour lantern"}"#;
    let found = retrieve(&world, &mut attempt, 0, query).await;
    assert!(found.starts_with("nothing was found"), "{found}");
    let any = r#"{"query": "harbour lantern", "min_score": 0}"#;
    let found = retrieve(&world, &mut attempt, 1, any).await;
    let mut names: Vec<&str> = heads(&found).iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    assert_eq!(names, ["[message 1, user", "[page hours"], "{found}");
}

/// A session of which three messages gave way to a summary.
async fn compacted(world: &World) -> String {
    let session = session(world).await;
    extend(world, &session, "", talk()).await;
    let request = pb::CompactContextRequest {
        session: session.clone(),
        request_id: world.request_id(),
        compact: Some(wire::CompactContext {
            keep: 1,
            ..wire::CompactContext::default()
        }),
    };
    let mut contexts = world.contexts.clone();
    let answer = world.until(contexts.compact_context(request)).await;
    answer.expect("an answer");
    let mut attempt = world.attempt().await;
    attempt.summarise("A talk about a town.");
    world.ended(&session).await;
    session
}

/// Also in a copy: it has the events of the session before.
#[tokio::test(start_paused = true)]
async fn a_compacted_message_is_found() {
    let world = World::new().await;
    let parent = compacted(&world).await;
    let fork = pb::ForkSessionRequest {
        session: parent.clone(),
        request_id: world.request_id(),
        ..pb::ForkSessionRequest::default()
    };
    let mut client = world.client.clone();
    let forked = world.until(client.fork_session(fork)).await;
    let forked = forked.expect("a copy").into_inner().session;
    // An attempt whose executor is gone would begin again, and be taken for the next one.
    let mut under_way = Vec::new();
    for session in [parent, forked] {
        let mut attempt = begin(&world, &session, "", None).await;
        let query = r#"{"query": "harbour lighthouse town"}"#;
        let found = retrieve(&world, &mut attempt, 0, query).await;
        let mut names: Vec<&str> = heads(&found).iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        // The summary is in the request.
        assert_eq!(names, ["[message 1, user", "[message 3, user"], "{found}");
        let again = retrieve(&world, &mut attempt, 1, query).await;
        assert_eq!(again, found, "the search before is not found");
        under_way.push(attempt);
    }
}

/// The owner dies before the answer is durable, and the next one reads the journal anew.
#[tokio::test(start_paused = true)]
async fn the_next_owner_finds_a_compacted_message_too() {
    let world = World::new().await;
    let session = compacted(&world).await;
    let mut attempt = begin(&world, &session, "", None).await;
    let died = world.faults.die_at("Commit", 2, Side::Before);
    attempt.reply(reply(0, "", &[("retrieve", r#"{"query": "harbour"}"#)]));
    world.until(died).await.expect("it dies");
    drop(attempt);
    let (_client, _running) = world.successor(successor()).await;
    let attempt = world.attempt().await;
    let [answer] = &attempt.start.results[..] else {
        panic!("{:?}", attempt.start.results);
    };
    assert!(answer.output.contains(HARBOUR), "{}", answer.output);
}

fn successor() -> Config {
    Config {
        owner: "o-2".to_owned(),
        ..Config::default()
    }
}

/// The answer of the store is lost, and then the owner dies before it records that the page is saved.
#[tokio::test(start_paused = true)]
async fn a_page_is_saved_once_whatever_is_lost() {
    let world = World::new().await;
    let session = world.start(chain(vec![model_step("one")])).await;
    let mut attempt = world.attempt().await;
    world.faults.next("PutDocument", Fault::LoseAnswer, 1);
    let died = world.faults.die_at("Commit", 2, Side::Before);
    attempt.reply(reply(0, "", &[("save_knowledge", SAVE)]));
    world.until(died).await.expect("it dies");
    drop(attempt);
    assert!(world.faults.calls("PutDocument") >= 2);
    let before = pages(&world).await;
    let [(id, version, page)] = &before[..] else {
        panic!("{before:?}");
    };
    assert!(id.starts_with("call-"), "{id}");
    let expected = memory_pb::PageDocument {
        title: "Harbour".to_owned(),
        text: "It closes at nine.".to_owned(),
        tags: vec!["town".to_owned()],
    };
    assert_eq!((*version, page), (1, &expected));

    let (_client, _running) = world.successor(successor()).await;
    let mut attempt = world.attempt().await;
    let [answer] = &attempt.start.results[..] else {
        panic!("{:?}", attempt.start.results);
    };
    assert_eq!(answer.output, format!("Saved as page {id}."));
    assert_eq!(pages(&world).await, before, "nothing was written again");
    attempt.complete(1);
    let events = world.ended(&session).await;
    assert_eq!(count(&events, "StepCompleted"), 1);
}

#[tokio::test(start_paused = true)]
async fn each_call_saves_a_page_of_its_own() {
    let world = World::new().await;
    world.start(chain(vec![model_step("one")])).await;
    let mut attempt = world.attempt().await;
    attempt.reply(reply(0, "", &[("save_knowledge", SAVE); 2]));
    let mut saved = Vec::new();
    while saved.len() < 2 {
        let results = results(&world, &mut attempt).await.into_iter();
        saved.extend(results.map(|result| result.output));
    }
    let mut expected: Vec<String> = pages(&world).await.into_iter().map(|(id, ..)| id).collect();
    expected
        .iter_mut()
        .for_each(|id| *id = format!("Saved as page {id}."));
    saved.sort_unstable();
    expected.sort_unstable();
    assert_eq!(saved, expected);
    assert_eq!(saved.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_refuses_a_page_is_named() {
    let world = World::new().await;
    world.start(chain(vec![model_step("one")])).await;
    let mut attempt = world.attempt().await;
    world.faults.next("PutDocument", Fault::Damage, 1);
    attempt.reply(reply(0, "", &[("save_knowledge", SAVE)]));
    let answer = results(&world, &mut attempt).await.remove(0);
    assert!(answer.is_error, "{}", answer.output);
    assert!(
        answer.output.starts_with("the page is not saved: "),
        "{}",
        answer.output
    );
}

/// Which of the two tools the model of an attempt is offered.
async fn offered(world: &World, attempt: &mut Attempt) -> Vec<String> {
    let mut tools = world.until(attempt.tools()).await;
    tools.retain(|tool| matches!(tool.as_str(), "retrieve" | "save_knowledge"));
    tools
}

#[tokio::test(start_paused = true)]
async fn the_tools_are_offered_where_there_is_something_to_find() {
    let world = World::new().await;
    let none = [""; 0];
    let both = ["retrieve", "save_knowledge"];
    world.start(chain(vec![model_step("one")])).await;
    let mut attempt = world.attempt().await;
    assert_eq!(
        offered(&world, &mut attempt).await,
        none,
        "no page and no window"
    );
    let session = with_window(&world).await;
    let mut attempt = begin(&world, &session, "side", None).await;
    assert_eq!(offered(&world, &mut attempt).await, both, "a window");
    let named = ["retrieve"];
    let other = self::session(&world).await;
    let mut attempt = begin(&world, &other, "", Some(&named)).await;
    assert_eq!(
        offered(&world, &mut attempt).await,
        named,
        "the turn names it"
    );
    let other = self::session(&world).await;
    let mut attempt = begin(&world, &other, "", Some(&["pure"])).await;
    assert_eq!(
        offered(&world, &mut attempt).await,
        none,
        "the turn names others"
    );
    put(
        &world,
        "---\nname: keeper\ntools: [pure, save_knowledge]\n---\nP",
    )
    .await;
    world
        .start(of("keeper", chain(vec![model_step("one")])))
        .await;
    let mut attempt = world.attempt().await;
    assert_eq!(
        offered(&world, &mut attempt).await,
        ["save_knowledge"],
        "the agent lists it"
    );
}

#[tokio::test(start_paused = true)]
async fn with_pages_every_model_is_offered_them_unless_its_agent_denies_them() {
    let world = World::new().await;
    put_page(&world, "hours", "Hours", HARBOUR, &[]).await;
    world.start(chain(vec![model_step("one")])).await;
    let mut attempt = world.attempt().await;
    let both = ["retrieve", "save_knowledge"];
    assert_eq!(offered(&world, &mut attempt).await, both);
    put(
        &world,
        "---\nname: reader\ndisallowed-tools: [save_knowledge]\n---\nP",
    )
    .await;
    world
        .start(of("reader", chain(vec![model_step("one")])))
        .await;
    let mut attempt = world.attempt().await;
    assert_eq!(offered(&world, &mut attempt).await, ["retrieve"]);
    attempt.reply(reply(0, "", &[("save_knowledge", SAVE)]));
    let refused = results(&world, &mut attempt).await.remove(0);
    assert!(refused.is_error, "{}", refused.output);
    assert_eq!(pages(&world).await.len(), 1);
}

/// A request that had other tools would lose what its provider keeps of the ones before it.
#[tokio::test(start_paused = true)]
async fn the_tools_of_an_attempt_stay_as_they_were_when_it_began() {
    let world = World::new().await;
    world.start(chain(vec![model_step("one")])).await;
    let mut attempt = world.attempt().await;
    let before = world.until(attempt.tools()).await;
    assert!(!before.iter().any(|tool| tool == "retrieve"), "{before:?}");
    let (name, catalogue) = (attempt.start.attempt, attempt.start.catalogue.clone());
    put_page(&world, "hours", "Hours", HARBOUR, &[]).await;
    world.pass(Duration::from_secs(10)).await;
    attempt.break_with(RpcError::unavailable("the executor stops").into());
    let mut again = world.attempt().await;
    assert_eq!(
        (again.start.attempt, &again.start.catalogue),
        (name, &catalogue)
    );
    assert_eq!(world.until(again.tools()).await, before);
    // It is answered nevertheless.
    let found = retrieve(&world, &mut again, 0, r#"{"query": "harbour"}"#).await;
    assert!(found.starts_with("[page hours] Hours (score "), "{found}");
}
