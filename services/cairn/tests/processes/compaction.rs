//! Kill -9 of `cairn serve` before and after every commit of a turn whose conversation is compacted twice: by a
//! summary before the mark, and by a history view behind it. In a file, and at a third of the commits on Redis.
//!
//! After a kill the conversation is as it was before the compaction or as it is after it, and the turn continues
//! with it: the model is sent nothing else than without a kill, no message is lost, and each model call is
//! charged once, also a summary whose text was lost.

use crate::support::commits::{Sweep, kill_around_each};
use crate::support::fold::{Fold, at_most_one_compaction_for_each_tool_turn};
use crate::support::place::Place;
use crate::support::served::{SESSION, add_model};
use crate::support::{Client, connect, link, talk};
use cairn_engine::message::Message;
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use cairn_proto::orchestrator::context_service_client::ContextServiceClient;
use cairn_testkit::model_server::{Answer, reply};
use cairn_testkit::{Journal, ModelServer, TestStore};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use tonic::Status;

const SIGKILL: i32 = 9;
/// Kills at the same time.
const AT_ONCE: usize = 8;
/// With the older messages, the first result of a file is too much for it; without them, the third one.
const WINDOW: &str = "window_tokens = 6000\n";
/// One tool turn stays, so that few are needed.
const SETTINGS: &str = "\n[compaction]\nkeep_turns = 1\n";
/// Questions with their answers before the turn. A history view of them is as long as they are.
const OLDER: usize = 20;
/// Bytes of the files that the model reads, one in each tool turn.
const FILES: [usize; 3] = [5_000, 4_200, 5_500];
const END: &str = "It carries ten tonnes.";
const SUMMARY: &str = "They talked about bridges.";

/// What a model is sent of messages: role and text of each, without the system prompt.
type Sent = Vec<(String, String)>;

/// What the model was sent so far.
type Asked = Arc<Mutex<BTreeSet<Sent>>>;

/// The turn as it is when nothing disturbs it.
struct Reference {
    store: Arc<TestStore>,
    model: ModelServer,
    asked: Asked,
    fold: Fold,
    listed: Vec<(wire::Role, String)>,
}

/// A model that reads the files one after the other. It tells a token for four bytes of the request.
fn model() -> (ModelServer, Asked) {
    let asked = Asked::default();
    let noted = Arc::clone(&asked);
    let server = ModelServer::seeing(move |request| {
        let messages = request.body["messages"].as_array();
        let messages = messages.map(Vec::as_slice).unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let sent = messages.iter().skip(1);
        let sent = sent.map(|it| (text(&it["role"]), text(&it["content"])));
        let sent: Sent = sent.collect();
        let answer = answer(messages, &sent, request.text.len());
        noted.lock().expect("no panic").insert(sent);
        answer
    });
    (server, asked)
}

fn answer(messages: &[Value], sent: &[(String, String)], bytes: usize) -> Answer {
    let asks = |(role, text): &&(String, String)| role == "user" && text.contains("## Decisions");
    let asks_for_summary = sent.last().filter(asks).is_some();
    let mut newest_first = messages.iter().rev();
    let call = newest_first.find_map(|it| it["tool_calls"][0]["id"].as_str());
    let file = call.and_then(|id| id.strip_prefix("file-")?.split('-').next()?.parse().ok());
    let file = file.map_or(0, |file: usize| file + 1);
    let answer = match file {
        _ if asks_for_summary => reply("summary", SUMMARY, &[]),
        file if file < FILES.len() => {
            let path = json!({"path": format!("docs/{file}.md")});
            reply(&format!("file-{file}"), "I read.", &[("read_file", path)])
        }
        _ => reply("end", END, &[]),
    };
    let Answer::Whole(status, body) = answer else {
        unreachable!("a reply is whole");
    };
    let mut body: Value = serde_json::from_str(&body).expect("JSON");
    body["usage"] = json!({"prompt_tokens": bytes / 4, "completion_tokens": 20});
    Answer::Whole(status, body.to_string())
}

/// Where one turn is had.
fn place(store: &Arc<TestStore>, name: &str, model: &ModelServer) -> Place {
    let place = Place::beside_others(store, name);
    for (number, bytes) in FILES.into_iter().enumerate() {
        let line = "The bridge carries ten tonnes, and its piers were looked at in spring.\n";
        let text = line.repeat(bytes / line.len());
        place.site.write(&format!("docs/{number}.md"), &text);
    }
    place.site.append("cairn.toml", SETTINGS);
    add_model(&place.site, model);
    place.site.append("cairn.toml", WINDOW);
    place
}

/// Makes the session with its older messages. A repetition changes nothing.
async fn set_up(place: &Place) -> Result<(), Status> {
    let request = pb::CreateSessionRequest {
        session: SESSION.to_owned(),
        request_id: "create".to_owned(),
        ..pb::CreateSessionRequest::default()
    };
    connect(place.address()).create_session(request).await?;
    let older = (0..OLDER).flat_map(|number| {
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
    contexts.extend_messages(request).await.map(drop)
}

/// Submits the turn, or finds it submitted, and follows it to its end.
async fn go_on(place: &Place) -> Result<(), Status> {
    Box::pin(set_up(place)).await?;
    let options = wire::TurnOptions {
        tools: Some(wire::ToolNames {
            names: vec!["read_file".to_owned()],
        }),
        ..wire::TurnOptions::default()
    };
    let mut request = talk::request(SESSION, "turn", "Read the files.");
    if let Some(turn) = &mut request.turn {
        turn.options = Some(options);
    }
    let mut client = connect(place.address());
    let ended = Box::pin(talk::to_end(&mut client, request)).await?;
    assert_eq!(ended.response(), END);
    Ok(())
}

/// The turn without a kill, the commits before it, and all commits.
async fn undisturbed(store: TestStore) -> (Reference, usize, usize) {
    let store = Arc::new(store);
    let (model, asked) = model();
    let mut place = place(&store, "undisturbed", &model);
    let count = format!("count:{}", place.site.path().join("commits").display());
    assert!(place.keep_serving_with(&[("CAIRN_FAIL_COMMIT", &count)]));
    let commits = |place: &Place| {
        let counted = place.site.read("commits");
        counted.map_or(0, |counted| counted.lines().count())
    };
    Box::pin(set_up(&place)).await.expect("nothing disturbs it");
    let before = commits(&place);
    go_on(&place).await.expect("nothing disturbs it");
    let all = commits(&place);
    let listed = talk::messages(&link(place.address()), SESSION).await;
    let usage = usage_of_run(&mut connect(place.address())).await;
    place.kill_server();
    let journal = place.journal(SESSION);
    let fold = Fold::of(&journal);
    assert_eq!(fold.compactions, ["summary", "history"]);
    at_most_one_compaction_for_each_tool_turn(&journal);
    assert_eq!(usage, usage_in(&journal));
    let reference = Reference {
        store,
        model,
        asked,
        fold,
        listed,
    };
    (reference, before, all)
}

/// How many lost summaries were charged; none if there was no such commit.
async fn kill_once(side: &str, commit: usize, reference: &Reference) -> Option<usize> {
    let fail = &format!("{side}:{commit}");
    let name = format!("{side}-{commit}");
    let mut place = place(&reference.store, &name, &reference.model);
    assert!(place.keep_serving_with(&[("CAIRN_FAIL_COMMIT", fail)]));
    let mut has_ended = false;
    while place.is_served() && !has_ended {
        has_ended = go_on(&place).await.is_ok();
        place.pause().await;
    }
    if place.is_served() {
        return None;
    }
    assert_eq!(place.wait_for_signal(), Some(SIGKILL), "{fail}");
    if place.is_file() {
        let left = Fold::of(&place.journal(SESSION)).conversation;
        let is_known = reference.fold.states.contains(&left);
        assert!(is_known, "{fail}: half of a compaction: {left:?}");
    }
    place.keep_serving();
    let went = go_on(&place).await;
    went.unwrap_or_else(|status| panic!("{fail}: {status:?}"));
    let listed = talk::messages(&link(place.address()), SESSION).await;
    assert_eq!(listed, reference.listed, "{fail}: the conversation");
    let usage = usage_of_run(&mut connect(place.address())).await;
    place.kill_server();
    let journal = place.journal(SESSION);
    journal.check();
    let fold = Fold::of(&journal);
    assert_eq!(fold.said, reference.fold.said, "{fail}: what was said");
    assert_eq!(fold.requests, reference.fold.requests, "{fail}");
    assert_eq!(fold.compactions, reference.fold.compactions, "{fail}");
    at_most_one_compaction_for_each_tool_turn(&journal);
    assert_eq!(usage, usage_in(&journal), "{fail}: the usage");
    let asked = journal.of_kind("summary_asked").into_iter();
    Some(asked.filter(|event| event["again"] == true).count())
}

/// Tokens in, tokens out and model calls.
type Used = [u64; 3];

async fn usage_of_run(client: &mut Client) -> Used {
    let request = pb::GetRunRequest {
        session: SESSION.to_owned(),
        run: 1,
    };
    let run = client.get_run(request).await.expect("the run").into_inner();
    let usage = run.run.and_then(|run| run.usage).expect("its usage");
    [
        usage.input_tokens,
        usage.output_tokens,
        usage.model_calls.into(),
    ]
}

/// The same by the events. A question for a summary whose answer was lost counts as it was estimated.
fn usage_in(journal: &Journal) -> Used {
    let number = |value: &Value| value.as_u64().expect("a number");
    let (mut used, mut estimate) = ([0; 3], 0);
    for event in &journal.0 {
        match event["kind"].as_str().expect("a kind") {
            "reply_received" | "context_compacted" => {
                let fields = ["input_tokens", "output_tokens", "model_calls"];
                for (sum, field) in used.iter_mut().zip(fields) {
                    *sum += number(&event["usage"][field]);
                }
            }
            "summary_asked" => {
                if event["again"] == true {
                    used[0] += estimate;
                    used[2] += 1;
                }
                estimate = number(&event["estimate"]);
            }
            _ => {}
        }
    }
    used
}

async fn compactions_survive_kills(store: TestStore) {
    let sweep = Sweep::over(&store);
    let (reference, before, all) = Box::pin(undisturbed(store)).await;
    let known = reference.asked.lock().expect("no panic").clone();
    let reference = Arc::new(reference);
    let kill = |side: &'static str, commit: usize| {
        let reference = Arc::clone(&reference);
        let commit = before + commit;
        let kill = tokio::spawn(async move { Box::pin(kill_once(side, commit, &reference)).await });
        async move { kill.await.expect("a kill") }
    };
    let swept = kill_around_each(all - before, AT_ONCE, sweep, kill).await;
    let lost: usize = swept.killed.iter().sum();
    println!(
        "{} commits, {} kills, {lost} lost summaries",
        all - before,
        swept.killed.len()
    );
    swept.check_reached(4);
    assert!(lost > 0 || !swept.is_complete(), "no summary was lost");
    let asked = reference.asked.lock().expect("no panic");
    let other = asked.difference(&known).next();
    assert_eq!(other, None, "sent only after a kill");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 12)]
async fn in_a_file_compactions_survive_a_kill_at_every_commit() {
    compactions_survive_kills(TestStore::file()).await;
}

/// It needs a server of Redis.
mod redis {
    use super::{TestStore, compactions_survive_kills};

    #[tokio::test(flavor = "multi_thread", worker_threads = 12)]
    async fn over_redis_compactions_survive_kills_at_sampled_commits() {
        compactions_survive_kills(TestStore::redis()).await;
    }
}
