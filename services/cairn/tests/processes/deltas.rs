//! Replies while the model writes them: parts are seen before the reply is whole, and they are what
//! it begins with.
//!
//! The model's server lets each part go when the test says, so what is seen is seen before the rest
//! was ever sent.

mod follow;

use crate::support::{self, CAIRN};
use cairn_model::{ModelRegistry, OpenAi, OpenAiConfig, RetryPolicy};
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_proto::orchestrator as pb;
use cairn_testkit::model_server::{Answer, Release, parts};
use cairn_testkit::{ModelServer, Site};
use follow::{Followed, Printed};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{Client, chain, connect, model_step, node};
use tonic::Streaming;

/// Parts of a reply; they are cut in lines, in words, and beside characters of several bytes.
const PARTS: [&str; 4] = ["The first li", "ne.\nzwö", "lf 数据", "库 the end"];
const PLAN: &str = r#"{"steps": [{"title": "Tell", "description": "Tell something."}]}"#;

/// A server whose replies are streams, in this order.
fn server(answers: Vec<Answer>) -> ModelServer {
    let answers = Mutex::new(answers.into_iter());
    ModelServer::start(move |_| {
        let next = answers.lock().expect("answers").next();
        next.unwrap_or_else(|| Answer::Whole(400, "nothing more to say".to_owned()))
    })
}

/// The end of a reply that ends the step.
fn end(release: Release) {
    let complete = json!({"complete": true, "summary": "Told."});
    release.end("end", &[("step", complete)]);
}

fn site(server: &ModelServer) -> (Site, [(&'static str, String); 2]) {
    let site = Site::new(CAIRN);
    site.write("plan.json", PLAN);
    let url = server.url().to_owned();
    let key = "sk-none-needed".to_owned();
    (site, [("OPENAI_BASE_URL", url), ("OPENAI_API_KEY", key)])
}

/// The text of the reply in lines of JSON as `cairn export` writes them.
fn reply(lines: &[Value]) -> String {
    let reply = lines.iter().find(|line| line["kind"] == "reply_received");
    let text = reply.expect("a reply")["text"].as_str();
    text.expect("a text").to_owned()
}

fn is_delta(line: &Value) -> bool {
    line["kind"] == "text_delta"
}

#[test]
fn a_run_prints_parts_before_the_reply_is_whole() {
    let (release, answer) = parts();
    let server = server(vec![answer]);
    let (site, variables) = site(&server);
    let run = [
        "run",
        "--session",
        "s",
        "--plan",
        "plan.json",
        "--json",
        "--deltas",
    ];
    let mut run = Printed::of(site.command(&run).envs(variables));
    run.wait_for_kind("step_started");
    let mut followed = Followed::default();
    let mut sent = String::new();
    for part in PARTS {
        release.text(part);
        sent.push_str(part);
        // Nothing but parts can come: the server has not said more.
        while followed.text != sent {
            followed.take_line(&run.next_line());
            followed.check_begins(&sent);
        }
    }
    end(release);
    let rest = run.read_to_end();
    assert_eq!(rest.iter().filter(|line| is_delta(line)).count(), 0);
    assert_eq!(reply(&rest), sent);
    check_journal(&site, &sent);
}

/// The journal has the reply, and nothing of its parts.
fn check_journal(site: &Site, text: &str) {
    let journal = site.journal("s");
    journal.check();
    assert_eq!(reply(&journal.0), text);
    assert!(!journal.0.iter().any(is_delta), "{journal:?}");
}

#[test]
fn without_the_flag_nothing_is_reported_before_the_reply() {
    let (release, answer) = parts();
    let server = server(vec![answer]);
    let (site, variables) = site(&server);
    let variables = variables.each_ref().map(|(name, value)| (*name, value));
    let run = ["run", "--session", "s", "--plan", "plan.json", "--json"];
    let mut run = Printed::of(site.command(&run).envs(variables));
    run.wait_for_kind("step_started");
    let watch = |flags: &[&str]| {
        let all = [&["watch", "s", "--json"], flags].concat();
        let mut watch = Printed::of(&mut site.command(&all));
        watch.wait_for_kind("step_started");
        watch
    };
    let mut without = watch(&[]);
    let mut with = watch(&["--deltas"]);
    let mut followed = Followed::default();
    release.text(PARTS[0]);
    // One that asked has seen it: so it has been told to everybody who wants it.
    while followed.text != PARTS[0] {
        followed.take_line(&with.next_line());
        followed.check_begins(PARTS[0]);
    }
    release.text(PARTS[1]);
    end(release);
    for printed in [&mut run, &mut without] {
        let rest = printed.read_to_end();
        assert!(!rest.iter().any(is_delta), "{rest:?}");
        assert_eq!(reply(&rest), [PARTS[0], PARTS[1]].concat());
    }
    let rest = with.read_to_end();
    for line in rest.iter().filter(|line| is_delta(line)) {
        followed.take_line(line);
    }
    assert!(reply(&rest).starts_with(&followed.text), "{followed:?}");
    check_journal(&site, &[PARTS[0], PARTS[1]].concat());
}

/// For people: whole lines, as soon as they are whole.
#[test]
fn people_are_shown_lines_as_they_become_whole() {
    let (release, answer) = parts();
    let server = server(vec![answer]);
    let (site, variables) = site(&server);
    let run = ["run", "--session", "s", "--plan", "plan.json", "--deltas"];
    let mut run = Printed::of(site.command(&run).envs(variables));
    run.wait_for("→ step 1");
    let mut watch = Printed::of(&mut site.command(&["watch", "s", "--deltas"]));
    watch.wait_for("step 1");
    for part in ["one\ntw", "o\n"] {
        release.text(part);
    }
    for printed in [&mut run, &mut watch] {
        printed.wait_for("step 1 ┊ one");
        printed.wait_for("step 1 ┊ two");
    }
    end(release);
    run.check_ended();
    watch.check_ended();
}

/// A watch of a session's beginning over the public API.
async fn watch(client: &mut Client, with_deltas: bool) -> Streaming<pb::WatchSessionResponse> {
    let request = pb::WatchSessionRequest {
        session: "s".to_owned(),
        after_seq: 0,
        with_deltas,
    };
    let stream = client.watch_session(request).await.expect("a watch");
    let mut stream = stream.into_inner();
    loop {
        let message = stream.message().await.expect("a message").expect("more");
        let kind = message.event.and_then(|event| event.kind);
        if matches!(kind, Some(Kind::StepStarted(_))) {
            return stream;
        }
    }
}

async fn start(client: &mut Client, model: &str) {
    let request = pb::CreateSessionRequest {
        session: "s".to_owned(),
        request_id: "create".to_owned(),
        title: String::new(),
        ..pb::CreateSessionRequest::default()
    };
    client.create_session(request).await.expect("a session");
    let mut run = chain(vec![model_step("tell")]);
    run.model = model.to_owned();
    let request = pb::StartRunRequest {
        session: "s".to_owned(),
        request_id: "start".to_owned(),
        run: Some(run),
        ..pb::StartRunRequest::default()
    };
    client.start_run(request).await.expect("a run");
}

/// What comes until the run has ended: parts, and the texts of replies.
async fn to_the_end(
    stream: &mut Streaming<pb::WatchSessionResponse>,
) -> (Vec<wire::TextDelta>, Vec<String>) {
    let (mut deltas, mut replies) = (Vec::new(), Vec::new());
    loop {
        let message = stream.message().await.expect("a message").expect("more");
        deltas.extend(message.delta);
        match message.event.and_then(|event| event.kind) {
            Some(Kind::ReplyReceived(reply)) => replies.push(reply.text),
            Some(Kind::RunCompleted(_)) => return (deltas, replies),
            Some(Kind::RunFailed(failed)) => panic!("{failed:?}"),
            _ => {}
        }
    }
}

/// Waits for parts until they are this text.
async fn wait_for(
    stream: &mut Streaming<pb::WatchSessionResponse>,
    followed: &mut Followed,
    text: &str,
) {
    while followed.text != text {
        let message = stream.message().await.expect("a message").expect("more");
        let kind = message.event.and_then(|event| event.kind);
        let begins = matches!(kind, None | Some(Kind::ContextChanged(_)));
        assert!(begins, "the reply is not whole: {kind:?}");
        if let Some(delta) = message.delta {
            followed.take(&delta);
            followed.check_begins(text);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_ask_see_parts_and_others_do_not() {
    let (release, answer) = parts();
    let server = server(vec![answer]);
    let (site, variables) = site(&server);
    let variables = variables
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    let serve = ["serve", "--listen", "127.0.0.1:0", "--json"];
    let serve = site.start(&serve, &variables);
    let reported: Value = serde_json::from_str(&serve.first_line).expect("a line of JSON");
    let mut client = connect(reported["listen"].as_str().expect("an address"));
    start(&mut client, "openai").await;
    let mut with = watch(&mut client, true).await;
    let mut without = watch(&mut client, false).await;
    let mut followed = Followed::default();
    let mut sent = String::new();
    for part in PARTS {
        release.text(part);
        sent.push_str(part);
        wait_for(&mut with, &mut followed, &sent).await;
    }
    end(release);
    let (late, replies) = to_the_end(&mut with).await;
    assert!(late.is_empty(), "{late:?}");
    assert_eq!(replies, [sent.as_str()]);
    let (deltas, replies) = to_the_end(&mut without).await;
    assert!(deltas.is_empty(), "{deltas:?}");
    assert_eq!(replies, [sent.as_str()]);
    // Who comes later finds the reply and nothing of its parts.
    let mut late = watch(&mut client, true).await;
    assert_eq!(
        to_the_end(&mut late).await,
        (Vec::new(), vec![sent.clone()])
    );
    check_journal(&site, &sent);
}

/// The first stream is cut in the middle: what was seen of it is void, and the next begins at 0.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_cut_begins_anew() {
    let ((first, one), (second, two)) = (parts(), parts());
    let server = server(vec![one, two]);
    let model = OpenAi::new(OpenAiConfig::new(server.url(), "m")).expect("a model");
    let mut models = ModelRegistry::new();
    models.insert("served", Arc::new(model));
    let folder = tempfile::tempdir().expect("a folder");
    let mut parts = support::parts(folder.path(), models);
    parts.executor.retry = RetryPolicy {
        min_delay: Duration::from_millis(1),
        max_delay: Duration::from_millis(1),
        ..RetryPolicy::default()
    };
    let node = node(parts).await;
    let mut client = support::client(&node);
    start(&mut client, "served").await;
    let mut stream = watch(&mut client, true).await;
    let mut followed = Followed::default();
    first.text("Void, ");
    first.text("all of it");
    wait_for(&mut stream, &mut followed, "Void, all of it").await;
    drop(first);
    second.text("Anew");
    wait_for(&mut stream, &mut followed, "Anew").await;
    assert_eq!(followed.beginnings, 2);
    second.text(", and whole");
    wait_for(&mut stream, &mut followed, "Anew, and whole").await;
    end(second);
    let (late, replies) = to_the_end(&mut stream).await;
    assert_eq!((late.len(), replies), (0, vec![followed.text]));
    node.drain().await;
}
