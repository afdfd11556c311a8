//! Watching session memory over several processes, and from the command line.

use crate::support::{self, CAIRN};
use cairn_proto::event as wire;
use cairn_proto::memory as pb;
use cairn_proto::memory::session_memory_service_client::SessionMemoryServiceClient;
use cairn_rpc::{Link, Principal, with_principal};
use cairn_testkit::{Cluster, Journal, RedisServer, Site};
use pb::watch_memory_response::News;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use support::{chain, connect, link, model_step, start, watch_to_end};
use tonic::{Request, Streaming};

/// A model that sets and removes keys, one in each of its tool turns.
fn played() -> String {
    let call = |name: &str, arguments: Value| json!({"tool_calls": [{"name": name, "arguments": arguments}]});
    let mut replies: Vec<Value> = (0..20)
        .map(|number| {
            let key = format!("run-{}", number % 4);
            match number % 5 {
                4 => call("session_memory_remove", json!({"key": key})),
                _ => call(
                    "session_memory_set",
                    json!({"key": key, "value": number.to_string()}),
                ),
            }
        })
        .collect();
    replies.push(call("step", json!({"complete": true, "summary": "done"})));
    let step = json!({"match": {"step": "Remember"}, "replies": replies});
    format!("{step}\n")
}

fn site() -> Site {
    let site = Site::new(CAIRN);
    site.write("played.jsonl", &played());
    let model = "[models.played]\nprovider = \"recorded\"\npath = \"played.jsonl\"\n";
    site.append("cairn.toml", model);
    site
}

/// Session memory as a memory process has it, on its internal listener.
struct Memory(SessionMemoryServiceClient<Link>);

impl Memory {
    fn at(address: &str) -> Self {
        Self(SessionMemoryServiceClient::new(link(address)))
    }

    async fn set(&mut self, session: &str, key: String, value: String) {
        let session = session.to_owned();
        let set = pb::SetMemoryRequest {
            session,
            key,
            value,
            metadata: Default::default(),
        };
        self.0.set_memory(from_default(set)).await.expect("a write");
    }

    async fn watch(
        &mut self,
        session: &str,
        after_seq: Option<u64>,
    ) -> Streaming<pb::WatchMemoryResponse> {
        let session = session.to_owned();
        let watch = pb::WatchMemoryRequest { session, after_seq };
        let watch = self.0.watch_memory(from_default(watch)).await;
        watch.expect("a watch").into_inner()
    }
}

fn from_default<T>(message: T) -> Request<T> {
    with_principal(Request::new(message), &Principal::process())
}

/// The changes of memory after a number, as the journal has them.
fn changes(journal: &Journal, after: u64) -> Vec<(u64, News)> {
    let text = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
    let change = |event: &Value| {
        let key = text(event, "key");
        let news = match event["kind"].as_str()? {
            "memory_set" => News::Set(pb::MemoryEntry {
                key,
                value: text(event, "value"),
                ..pb::MemoryEntry::default()
            }),
            "memory_removed" => News::Removed(key),
            "memory_cleared" => News::Cleared(true),
            _ => return None,
        };
        Some((event["seq"].as_u64()?, news))
    };
    let changes = journal.0.iter().filter_map(change);
    changes.filter(|(seq, _)| *seq > after).collect()
}

/// The names of an entry follow from its session and its key.
fn without_names(news: News) -> News {
    match news {
        News::Set(entry) => {
            assert_eq!(entry.id, format!("{}:{}", entry.namespace, entry.key));
            assert!(entry.namespace.starts_with("_session_"), "{entry:?}");
            News::Set(pb::MemoryEntry {
                key: entry.key,
                value: entry.value,
                ..pb::MemoryEntry::default()
            })
        }
        other => other,
    }
}

/// What a watcher is told until a change of this number.
async fn seen(mut watch: Streaming<pb::WatchMemoryResponse>, last: u64) -> Vec<(u64, News)> {
    let mut seen = Vec::new();
    loop {
        let message = watch.message().await.expect("a message");
        let message = message.expect("the session is there");
        let is_last = message.seq >= last;
        if let Some(news) = message.news.map(without_names) {
            seen.push((message.seq, news));
            if is_last {
                return seen;
            }
        }
    }
}

/// It needs a server of Redis.
mod redis {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn one_memory_process_tells_what_another_writes_while_a_run_continues() {
        let server = RedisServer::start();
        let site = site();
        let variables = [("CAIRN_STORE", &*server.url())];
        let cluster = Cluster::several(&site, &variables, [2, 1, 1, 1, 1]);
        let [here, there] = &cluster.addresses("memory")[..] else {
            panic!("two memory processes");
        };
        let (mut here, mut there) = (Memory::at(here), Memory::at(there));
        let mut client = connect(&cluster.url());
        let run = wire::StartRun {
            model: "played".to_owned(),
            limits: Some(wire::LimitOverrides {
                max_tool_turns: 30,
                ..wire::LimitOverrides::default()
            }),
            ..chain(vec![model_step("Remember")])
        };
        let session = start(&mut client, "r-1", run).await;
        let watch = there.watch(&session, None).await;
        for number in 0..40 {
            let key = format!("client-{}", number % 3);
            here.set(&session, key, number.to_string()).await;
        }
        let events = watch_to_end(&mut client, &session, 0).await;
        support::check_completed(&events);
        let url = cluster.url();
        let set = ["memory", "set", "tone", "dry", "--session", &session];
        let set = site.run(&[&set[..], &["--server", &url]].concat());
        assert_eq!(set.code, Some(0), "{set:?}");
        here.set(&session, "last".to_owned(), "all".to_owned())
            .await;

        let exported = site.run(&["export", &session, "--server", &url]);
        let journal = Journal::read(&exported.out);
        // The orchestrator's process passes the client on to one of memory's. A run asks for nothing.
        for (key, by) in [("tone", "token"), ("last", "process"), ("run-0", "null")] {
            let mut events = journal.0.iter();
            let event = events.find(|event| event["key"] == key).expect("a change");
            let authentication = &event["principal"]["authentication"];
            assert_eq!(authentication.as_str().unwrap_or("null"), by, "{event}");
        }
        let all = changes(&journal, 0);
        let by_run = |(_, news): &&(u64, News)| match news {
            News::Set(entry) => entry.key.starts_with("run-"),
            news => matches!(news, News::Removed(_)),
        };
        assert_eq!((all.len(), all.iter().filter(by_run).count()), (62, 20));
        let last = all.last().expect("a change").0;
        let mut reported = seen(watch, last).await;
        // It began somewhere in the run.
        let (begin, News::Contents(_)) = reported.remove(0) else {
            panic!("all of memory comes first");
        };
        assert_eq!(reported, changes(&journal, begin));
        for after in [0, all[7].0, all[30].0 + 1] {
            let reported = seen(there.watch(&session, Some(after)).await, last).await;
            assert_eq!(reported, changes(&journal, after));
        }
    }
}

#[test]
fn the_command_shows_what_there_is_and_every_change() {
    let site = site();
    let serving = site.start(&["serve", "--listen", "127.0.0.1:0", "--json"], &[]);
    let reported: Value = serde_json::from_str(&serving.first_line).expect("a line of JSON");
    let address = reported["listen"].as_str().expect("an address");
    let run = |arguments: &[&str]| {
        let output = site.run(&[arguments, &["--server", address]].concat());
        assert_eq!(output.code, Some(0), "{output:?}");
    };
    run(&["run", "--session", "s", "List the files under docs."]);
    let set = "memory set tone dry --meta source=mail --session s".split(' ');
    run(&set.collect::<Vec<_>>());

    let watch = ["memory", "watch", "--session", "s", "--server", address];
    let begin = |more: &[&str]| {
        let mut command: Command = site.command(&[&watch, more].concat());
        let mut child = command.stdout(Stdio::piped()).spawn().expect("a watcher");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        (child, lines.map(|line| line.expect("a line")))
    };
    let (mut plain, mut text) = begin(&[]);
    let (mut machine, mut json) = begin(&["--json"]);
    let mut next = || -> Value { serde_json::from_str(&json.next().unwrap()).unwrap() };
    let whole = next();
    check_entries(&whole["entries"]);
    assert_eq!(text.next().as_deref(), Some("KEY   VALUE"));
    assert_eq!(text.next().as_deref(), Some("tone  dry"));
    run(&["memory", "set", "length", "short", "--session", "s"]);
    // Over the Unix socket of the same process.
    let removed = site.run(&["memory", "remove", "tone", "--session", "s"]);
    assert_eq!(removed.code, Some(0), "{removed:?}");
    run(&["memory", "clear", "--session", "s"]);
    let seq = whole["seq"].as_u64().expect("a number");
    let uid = format!("uid:{}", rustix::process::geteuid().as_raw());
    let changes = [
        ("memory_set", "length = short", "token", "token"),
        ("memory_removed", "tone removed", &uid, "socket"),
        ("memory_cleared", "cleared", "token", "token"),
    ];
    for (place, (kind, expected, subject, authentication)) in (seq + 1..).zip(changes) {
        let event = next();
        assert_eq!(
            (&event["seq"], &event["kind"]),
            (&json!(place), &json!(kind))
        );
        let principal =
            json!({"subject": subject, "namespace": "default", "authentication": authentication});
        assert_eq!(event["principal"], principal);
        let line = text.next().unwrap();
        let end = format!("memory: {expected} by {subject}");
        assert!(line.ends_with(&end), "{line}");
    }
    let after = seq + 1;
    let (mut late, mut lines) = begin(&["--json", "--after", &after.to_string()]);
    let line = lines.next().unwrap();
    assert!(line.contains("memory_removed"), "{line}");
    for child in [&mut plain, &mut machine, &mut late] {
        let id = child.id().to_string();
        let sent = Command::new("kill").args(["-INT", &id]).status();
        assert!(sent.expect("kill can be started").success());
        assert_eq!(child.wait().expect("its end").code(), Some(130));
    }
}

/// The entry that was set first, with its note and its times.
fn check_entries(entries: &Value) {
    let entry = &entries[0];
    let shown = ["key", "value", "metadata"].map(|field| entry[field].clone());
    assert_eq!(
        shown,
        [json!("tone"), json!("dry"), json!({"source": "mail"})]
    );
    assert!(entry["update_time"].is_string(), "{entries}");
    assert_eq!(entry["create_time"], entry["update_time"]);
    assert_eq!(entries.as_array().map(Vec::len), Some(1));
}
