//! Time to the first token of a turn, beside the same request sent to the same streaming server by a bare
//! socket, alternated.
//!
//! The server sends the first text at once, and the rest after the client has it. Cairn's time is from
//! SubmitTurn to the first text of its stream: the command and the start of the turn are durable by then.
//!
//! # Figures
//!
//! `-- tokens`, November 2026, a quiet virtual machine with 2 cores, 380 turns each:
//!
//! - Direct: p50 0.21 and 0.22 ms, p99 0.33 and 0.46 ms.
//! - Embedded: p50 3.55 ms, p99 4.73 ms. Five processes: p50 5.03 ms, p99 8.68 ms. No first text was late.

use crate::support::{CAIRN, Client, client, connect, node, parts, served, talk};
use crate::{at, median};
use cairn_model::{ModelRegistry, OpenAi, OpenAiConfig};
use cairn_proto::orchestrator::turn_event::Event;
use cairn_testkit::model_server::{Release, parts as parts_of_a_reply};
use cairn_testkit::{Cluster, ModelServer, Site};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A first text that has not come by then counts as late, and the rest of the reply follows.
const PATIENCE: Duration = Duration::from_millis(500);
/// Sessions, one after the other, so that no conversation is long.
const SESSIONS: usize = 20;
const TURNS: usize = 20;

/// A server that sends a first text at once. The other end gets each request's body, and what lets the
/// rest of the reply go.
struct Streaming {
    server: ModelServer,
    asked: Receiver<(String, Release)>,
}

impl Streaming {
    fn start() -> Self {
        let (sender, asked) = channel();
        let sender = Mutex::new(sender);
        let server = ModelServer::seeing(move |request| {
            let (release, answer) = parts_of_a_reply();
            release.text("It carries ");
            let sender = sender.lock().expect("no panic");
            sender
                .send((request.text.clone(), release))
                .expect("a benchmark");
            answer
        });
        Self { server, asked }
    }

    /// Lets the rest of the reply go; the body of its request.
    fn end(&self) -> String {
        let (body, release) = self.asked.recv().expect("a request");
        release.text("ten tonnes.");
        release.end("e", &[]);
        body
    }

    /// The same if there was a request.
    fn try_end(&self) -> Option<String> {
        let (body, release) = self.asked.try_recv().ok()?;
        release.text("ten tonnes.");
        release.end("e", &[]);
        Some(body)
    }

    /// Milliseconds to the first text, by a bare socket.
    fn direct(&self, body: &str) -> f64 {
        let began = Instant::now();
        let url = self.server.url();
        let address = url.trim_start_matches("http://").trim_end_matches("/v1");
        let mut stream = TcpStream::connect(address).expect("a connection");
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream
            .write_all((head + body).as_bytes())
            .expect("a request");
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        while !line.starts_with("data:") {
            line.clear();
            let read = reader.read_line(&mut line).expect("a line");
            assert!(read > 0, "the stream ended");
        }
        let took = began.elapsed().as_secs_f64() * 1e3;
        self.end();
        let _ = reader.read_to_end(&mut Vec::new());
        took
    }
}

pub(crate) async fn measure() {
    println!(
        "{:<16} {:>22} {:>22} {:>10}",
        "first token", "direct p50, p99", "Cairn p50, p99", "added p50"
    );
    let streaming = Streaming::start();
    let folder = tempfile::tempdir().expect("a folder");
    let config = OpenAiConfig::new(streaming.server.url(), "served-1");
    let mut models = ModelRegistry::new();
    models.insert("served", Arc::new(OpenAi::new(config).expect("a model")));
    let node = node(parts(folder.path(), models)).await;
    compare("embedded", &streaming, &mut client(&node)).await;
    node.drain().await;

    let site = Site::new(CAIRN);
    let settings = site.read("cairn.toml").expect("settings");
    let longer = settings.replace(r#"lease = "1s""#, r#"lease = "15s""#);
    site.write("cairn.toml", &longer);
    served::add_model(&site, &streaming.server);
    let cluster = Cluster::start(&site, &[]);
    compare("five processes", &streaming, &mut connect(&cluster.url())).await;
}

async fn compare(name: &str, streaming: &Streaming, client: &mut Client) {
    let (mut ours, mut direct) = (Vec::new(), Vec::new());
    for session in 0..SESSIONS {
        let session = format!("s-{session}");
        talk::create(client, &session).await;
        for turn in 0..TURNS {
            let (took, body) = first_token(client, streaming, &session, turn).await;
            let took_direct = tokio::task::block_in_place(|| streaming.direct(&body));
            // Connections and caches are new in the first session.
            if session != "s-0" {
                ours.push(took);
                direct.push(took_direct);
            }
        }
    }
    let late = ours.iter().filter(|it| it.is_infinite()).count();
    ours.retain(|it| it.is_finite());
    println!("{name}: {late} first texts were late, {} came", ours.len());
    if ours.is_empty() {
        return;
    }
    let added = median(ours.clone()) - median(direct.clone());
    let pair = |values: &mut Vec<f64>| {
        let (p50, p99) = (at(values, 0.5), at(values, 0.99));
        format!("{p50:>8.2} ms {p99:>7.2} ms")
    };
    let (direct, ours) = (pair(&mut direct), pair(&mut ours));
    println!("{name:<16} {direct:>22} {ours:>22} {added:>7.2} ms");
}

/// Milliseconds to the first text of a turn, and the body of its request. Follows the turn to its end.
async fn first_token(
    client: &mut Client,
    streaming: &Streaming,
    session: &str,
    turn: usize,
) -> (f64, String) {
    let request = talk::request(session, &format!("t-{turn}"), &talk::question(turn));
    let began = Instant::now();
    let mut stream = client
        .submit_turn(request)
        .await
        .expect("a turn")
        .into_inner();
    let mut first = None;
    loop {
        let message = match tokio::time::timeout(PATIENCE, stream.message()).await {
            Ok(message) => message.expect("an event"),
            // The first text was not sent before the rest of the reply comes.
            Err(_) if first.is_none() => match streaming.try_end() {
                Some(body) => {
                    first = Some((f64::INFINITY, body));
                    continue;
                }
                None => continue,
            },
            Err(_) => continue,
        };
        let Some(message) = message else { break };
        for event in message.events.into_iter().filter_map(|it| it.event) {
            match event {
                Event::Text(_) if first.is_none() => {
                    let took = began.elapsed().as_secs_f64() * 1e3;
                    first = Some((took, streaming.end()));
                }
                Event::Error(error) => panic!("{error:?}"),
                _ => {}
            }
        }
    }
    first.expect("a text")
}
