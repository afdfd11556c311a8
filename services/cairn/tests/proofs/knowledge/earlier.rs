//! Messages that requests of a conversation do not have any more are found by words of them, and those that a request
//! has are not. One conversation has a window of four messages, and most of another one gave way to a summary. Both
//! are searched again after `kill -9` of the one process that has all services, the first one after two more turns.
//!
//! The model looks for a word of each message. Its server notes what came back, and which messages the request had.

use super::pages::word;
use crate::support::place::Place;
use crate::support::served::{add_model, is_completed, wait_for};
use crate::support::{connect, link, talk};
use cairn_engine::message::Message;
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use cairn_proto::orchestrator::context_service_client::ContextServiceClient;
use cairn_rpc::Link;
use cairn_testkit::model_server::{Answer, reply};
use cairn_testkit::{ModelServer, TestStore};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// The session of each conversation.
const WINDOWED: &str = "windowed";
const SUMMED: &str = "summed";
/// The context that has a window of so many messages.
const CONTEXT: &str = "chat";
const WINDOW: u32 = 4;
/// Newest messages that a compaction leaves.
const KEPT: u32 = 4;
/// Turns after the kill: as many as fill the window.
const LATER: usize = 2;
/// Calls of one reply.
const AT_ONCE: usize = 10;
const SETTINGS: &str = "\n[run]\nmax_turns = 10000\nmax_tool_turns = 1000\n";
const SUM_UP: &str = "Sum up what was said.";
const SUMMARY: &str = "They talked.";
const END: &str = "It is looked for.";
/// How passages that are messages begin.
const HEAD: &str = "[message ";
const NOTHING: &str = "nothing was found";

/// What the model found, and what it had before its eyes.
#[derive(Debug, Default)]
struct Search {
    /// The texts of the request, without calls and their results.
    had: Vec<String>,
    /// What came back, by the word that was looked for.
    found: BTreeMap<String, String>,
}

/// The last search.
type Noted = Arc<Mutex<Option<Search>>>;

/// What searches came to.
#[derive(Debug, Default)]
struct Tally {
    found: usize,
    not_found: usize,
}

/// The conversations.
struct World {
    place: Place,
    noted: Noted,
    turns: usize,
    tally: Tally,
}

/// Talks, searches, kills and searches again, and panics with what is wrong.
pub(super) async fn prove(name: &str, store: TestStore, turns: usize) {
    let began = Instant::now();
    let noted = Noted::default();
    let model = model(&noted);
    let mut place = Place::over(store);
    place.site.append("cairn.toml", SETTINGS);
    add_model(&place.site, &model);
    place.site.append("cairn.toml", talk::WINDOW);
    place.keep_serving();
    let mut world = World {
        place,
        noted,
        turns,
        tally: Tally::default(),
    };
    Box::pin(world.begin_windowed()).await;
    Box::pin(world.begin_summed()).await;
    Box::pin(world.search_both("before the kill", turns)).await;
    world.place.kill_server();
    world.place.keep_serving();
    Box::pin(world.talk_windowed(turns..turns + LATER)).await;
    Box::pin(world.search_both("after the kill", turns + LATER)).await;
    println!(
        "{name}: {turns} turns in a window of {WINDOW} messages, and {} messages of which a compaction left {KEPT}: \
         a word of each found {} earlier messages and none of {} that the request had, before and after kill -9, in \
         {:.1?}",
        2 * turns,
        world.tally.found,
        world.tally.not_found,
        began.elapsed()
    );
}

impl World {
    fn contexts(&self) -> ContextServiceClient<Link> {
        ContextServiceClient::new(link(self.place.address()))
    }

    async fn begin_windowed(&self) {
        talk::create(&mut connect(self.place.address()), WINDOWED).await;
        let request = pb::CreateContextRequest {
            session: WINDOWED.to_owned(),
            request_id: "context".to_owned(),
            context: Some(wire::CreateContext {
                name: CONTEXT.to_owned(),
                window: Some(wire::Window { messages: WINDOW }),
                ..wire::CreateContext::default()
            }),
        };
        let created = self.contexts().create_context(request).await;
        created.expect("a context");
        Box::pin(self.talk_windowed(0..self.turns)).await;
    }

    async fn talk_windowed(&self, turns: Range<usize>) {
        for turn in turns {
            let response = self.say(WINDOWED, CONTEXT, &question(turn)).await;
            assert_eq!(response, answer(turn));
        }
    }

    /// The messages are there at once, and then most of them give way to a summary.
    async fn begin_summed(&self) {
        let mut client = connect(self.place.address());
        talk::create(&mut client, SUMMED).await;
        let messages = (0..self.turns).flat_map(|turn| {
            [
                Message::user(question(turn)),
                Message::assistant(answer(turn), Vec::new()),
            ]
        });
        let request = pb::ExtendMessagesRequest {
            session: SUMMED.to_owned(),
            request_id: "extend".to_owned(),
            messages: messages.map(Into::into).collect(),
            ..pb::ExtendMessagesRequest::default()
        };
        let extended = self.contexts().extend_messages(request).await;
        extended.expect("messages");
        let request = pb::CompactContextRequest {
            session: SUMMED.to_owned(),
            request_id: "compact".to_owned(),
            compact: Some(wire::CompactContext {
                keep: KEPT,
                prompt: Some(SUM_UP.to_owned()),
                ..wire::CompactContext::default()
            }),
        };
        let compacted = self.contexts().compact_context(request).await;
        let compacted = compacted.expect("a compaction").into_inner();
        assert!(compacted.run > 0, "messages give way: {compacted:?}");
        wait_for(&mut client, SUMMED, 1, is_completed).await;
    }

    /// Takes a turn, and returns the response.
    async fn say(&self, session: &str, context: &str, text: &str) -> String {
        let id = text.replace(' ', "-");
        let mut request = talk::request(session, &id, text);
        if let Some(turn) = &mut request.turn {
            context.clone_into(&mut turn.context);
        }
        let mut client = connect(self.place.address());
        let ended = Box::pin(talk::to_end(&mut client, request)).await;
        let ended = ended.unwrap_or_else(|status| panic!("{session}, {text:?}: {status:?}"));
        ended.response().to_owned()
    }

    /// The conversation with a window had so many turns.
    async fn search_both(&mut self, when: &str, turns: usize) {
        let conversations = [
            (WINDOWED, CONTEXT, turns, WINDOW),
            (SUMMED, "", self.turns, KEPT),
        ];
        for (session, context, turns, had) in conversations {
            let had = usize::try_from(had).expect("a small number");
            let text = format!("Search {turns} turns {when}.");
            let response = self.say(session, context, &text).await;
            assert_eq!(response, END, "{session}");
            let search = self.noted.lock().expect("no panic").take();
            let search = search.expect("a search is noted");
            let tally = check(&search, turns, &format!("{session}, {when}"));
            assert_eq!(
                (tally.found, tally.not_found),
                (2 * turns - had, had),
                "{session}, {when}: messages that are found, and messages of the request"
            );
            self.tally.found += tally.found;
            self.tally.not_found += tally.not_found;
        }
    }
}

/// Panics unless each message was found that the request did not have, alone and whole, and no other one.
fn check(search: &Search, turns: usize, what: &str) -> Tally {
    let mut tally = Tally::default();
    for (word, text) in said(turns) {
        let found = search.found.get(&word);
        let found = found.unwrap_or_else(|| panic!("{what}: no answer for {word:?}"));
        if search.had.iter().any(|had| had.contains(&word)) {
            tally.not_found += 1;
            assert!(
                found.starts_with(NOTHING),
                "{what}: the request has {text:?}, and a search gives {found:?}"
            );
            continue;
        }
        tally.found += 1;
        let heads = found.lines().filter(|line| line.starts_with(HEAD));
        assert!(
            heads.count() == 1 && found.contains(&text),
            "{what}: the request lacks {text:?}, and a search for {word:?} gives {found:?}"
        );
    }
    tally
}

fn question_word(turn: usize) -> String {
    word("vor", turn)
}

fn answer_word(turn: usize) -> String {
    word("nal", turn)
}

fn question(turn: usize) -> String {
    format!("Question {turn} is what {} carries.", question_word(turn))
}

fn answer(turn: usize) -> String {
    format!(
        "Answer {turn} is that {} carries ten tonnes.",
        answer_word(turn)
    )
}

/// The messages of so many turns, each with a word that no other one has.
fn said(turns: usize) -> impl Iterator<Item = (String, String)> {
    (0..turns).flat_map(|turn| {
        [
            (question_word(turn), question(turn)),
            (answer_word(turn), answer(turn)),
        ]
    })
}

/// A model's server. It answers a question, writes a summary, or looks for a word of each message.
fn model(noted: &Noted) -> ModelServer {
    let noted = Arc::clone(noted);
    ModelServer::start(move |body| {
        let messages = body["messages"].as_array();
        plays(messages.map(Vec::as_slice).unwrap_or_default(), &noted)
    })
}

fn plays(messages: &[Value], noted: &Noted) -> Answer {
    if messages.last().is_some_and(|it| text(it).contains(SUM_UP)) {
        return reply("sum", SUMMARY, &[]);
    }
    let place = messages.iter().rposition(|it| {
        it["role"] == "user"
            && (number(it, "Question ").is_some() || number(it, "Search ").is_some())
    });
    let (before, here) = messages.split_at(place.expect("the message of the turn"));
    let Some(turns) = number(&here[0], "Search ") else {
        let turn = number(&here[0], "Question ").expect("a question");
        return reply("answer", &answer(turn), &[]);
    };
    let replies = here.iter().filter(|it| it["role"] == "assistant").count();
    let words: Vec<String> = said(turns).map(|(word, _)| word).collect();
    let Some(words) = words.chunks(AT_ONCE).nth(replies) else {
        let search = Search {
            had: had(before),
            found: found(here),
        };
        *noted.lock().expect("no panic") = Some(search);
        return reply("end", END, &[]);
    };
    let calls = words.iter().map(|word| {
        let arguments = json!({"query": word, "scope": "conversation"});
        ("retrieve", arguments)
    });
    let calls: Vec<(&str, Value)> = calls.collect();
    reply(&format!("find-{}", messages.len()), "", &calls)
}

fn text(message: &Value) -> &str {
    message["content"].as_str().unwrap_or_default()
}

/// The number in a text behind these words.
fn number(message: &Value, words: &str) -> Option<usize> {
    let (_, rest) = text(message).split_once(words)?;
    rest.split(' ').next()?.parse().ok()
}

/// What persons and the model said.
fn had(messages: &[Value]) -> Vec<String> {
    let said = messages
        .iter()
        .filter(|it| it["role"] == "user" || it["role"] == "assistant");
    said.map(|it| text(it).to_owned()).collect()
}

/// The results of the calls of a turn, by the words that these look for.
fn found(messages: &[Value]) -> BTreeMap<String, String> {
    let calls = messages.iter().filter_map(|it| it["tool_calls"].as_array());
    let words = calls.flatten().filter_map(|call| {
        let arguments = call["function"]["arguments"].as_str()?;
        let arguments: Value = serde_json::from_str(arguments).ok()?;
        let id = call["id"].as_str()?;
        Some((id, arguments["query"].as_str()?.to_owned()))
    });
    let words: BTreeMap<&str, String> = words.collect();
    let results = messages.iter().filter(|it| it["role"] == "tool");
    let results = results.filter_map(|it| {
        let word = words.get(it["tool_call_id"].as_str()?)?;
        Some((word.clone(), text(it).to_owned()))
    });
    results.collect()
}
