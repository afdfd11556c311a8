//! Clients that do not read, and long conversations: what the services hold for them is bounded, and what
//! finds no room fails in words.
//!
//! The five services run as processes. 400 watchers of a context of 13 MB, and 200 other streams of its
//! session, are opened and not read, while one watcher reads all of it. Then 14 turns begin at the same
//! time in contexts of 15 MB.

use crate::support::served::PATIENCE;
use crate::support::{Client, connect, link, talk};
use cairn_engine::message::Message;
use cairn_proto::orchestrator as pb;
use cairn_proto::orchestrator::context_service_client::ContextServiceClient;
use cairn_rpc::{Link, RpcError};
use cairn_testkit::model_server::reply;
use cairn_testkit::{Cluster, ModelServer};
use clap::Args;
use futures::future::join_all;
use pb::turn_event::Event;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};
use tonic::Status;

/// Bytes of a message.
const MESSAGE: usize = 1_000_000;
/// Streams of one connection, which may have 256.
const OF_CONNECTION: usize = 100;
const PAUSE: Duration = Duration::from_millis(200);
const SESSION: &str = "watched";
/// Room for all contexts.
const SETTINGS: &str = "state_bytes = 1073741824\n";

/// How much there is. The defaults are the long form.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Watchers of one context that do not read
    #[arg(long, value_name = "N", default_value_t = 400)]
    pub(crate) watchers: usize,
    /// Other streams of its session that nobody reads
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(crate) streams: usize,
    /// Messages of 1 MB in the context that is watched
    #[arg(long, value_name = "N", default_value_t = 13)]
    pub(crate) watched_mb: usize,
    /// Turns that begin at the same time
    #[arg(long, value_name = "N", default_value_t = 14)]
    pub(crate) turns: usize,
    /// Messages of 1 MB in the context of each turn
    #[arg(long, value_name = "N", default_value_t = 15,
          value_parser = clap::value_parser!(u16).range(1..=15))]
    pub(crate) turn_mb: u16,
    /// What the orchestrator may take while nobody reads, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 640)]
    pub(crate) orchestrator: u64,
    /// What the executor may take during the turns, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 512)]
    pub(crate) executor: u64,
}

/// Loads the services, prints what they take, and panics with what is wrong.
pub(crate) fn prove(options: &Options) {
    let model = ModelServer::start(|_| reply("", "It carries ten tonnes.", &[]));
    let site = talk::site(&model, SETTINGS);
    let cluster = Cluster::start(&site, &[]);
    let mut runtime = Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build();
    let (url, runtime) = (cluster.url(), runtime.expect("a runtime"));
    let mut findings = Vec::new();
    runtime.block_on(async {
        fill(&url, SESSION, options.watched_mb).await;
        findings.extend(unread(&url, options).await);
    });
    let mut peak = |service, most: u64| {
        let process = cluster.process_id(service).expect("a process");
        let peak = super::kib(process, "VmHWM") / 1024;
        println!("{service} at its peak: {peak} MiB of {most}");
        if peak > most {
            findings.push(format!("{service} took {peak} MiB"));
        }
    };
    peak("orchestrator", options.orchestrator);
    let (began, failures) = runtime.block_on(async {
        let sessions = (0..options.turns).map(|number| format!("turn-{number}"));
        for session in sessions.clone() {
            fill(&url, &session, usize::from(options.turn_mb)).await;
        }
        let began = Instant::now();
        let turns = sessions.map(|session| turn(&url, session));
        (began, join_all(turns).await)
    });
    peak("executor", options.executor);
    let failures: Vec<String> = failures.into_iter().filter_map(Result::err).collect();
    println!(
        "{} turns in contexts of {} MB in {} s, {} failed",
        options.turns,
        options.turn_mb,
        began.elapsed().as_secs(),
        failures.len()
    );
    findings.extend(failures);
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

/// A session whose context has so many messages.
async fn fill(url: &str, session: &str, messages: usize) {
    talk::create(&mut connect(url), session).await;
    let mut contexts = ContextServiceClient::new(link(url));
    for number in 0..messages {
        let text = format!("{number:03} {}", "x".repeat(MESSAGE));
        let request = pb::AppendMessageRequest {
            session: session.to_owned(),
            request_id: format!("append-{number}"),
            message: Some(Message::user(&text).into()),
            ..pb::AppendMessageRequest::default()
        };
        contexts.append_message(request).await.expect("a message");
    }
}

/// A stream that was opened and is not read.
type Open = Box<dyn Send>;

async fn open(link: Link, number: usize, is_watcher: bool) -> Result<Open, Status> {
    let session = SESSION.to_owned();
    let mut contexts = ContextServiceClient::new(link.clone());
    let mut client = Client::new(link);
    let stream: Open = match number % 3 {
        _ if is_watcher => {
            let request = pb::WatchContextRequest {
                session,
                ..pb::WatchContextRequest::default()
            };
            Box::new(contexts.watch_context(request).await?.into_inner())
        }
        0 => {
            let request = pb::WatchSessionRequest {
                session,
                ..pb::WatchSessionRequest::default()
            };
            Box::new(client.watch_session(request).await?.into_inner())
        }
        1 => {
            let request = pb::ExportSessionRequest { session };
            Box::new(client.export_session(request).await?.into_inner())
        }
        _ => {
            let request = pb::ExportContextRequest {
                session,
                ..pb::ExportContextRequest::default()
            };
            Box::new(contexts.export_context(request).await?.into_inner())
        }
    };
    Ok(stream)
}

/// Opens the streams that are not read, while one watcher reads. Returns what is wrong.
async fn unread(url: &str, options: &Options) -> Vec<String> {
    let (watchers, all) = (options.watchers, options.watchers + options.streams);
    let links: Vec<Link> = (0..all.div_ceil(OF_CONNECTION))
        .map(|_| link(url))
        .collect();
    let opened = (0..all).map(|number| {
        let link = links[number / OF_CONNECTION].clone();
        open(link, number, number < watchers)
    });
    let (opened, read) = tokio::join!(join_all(opened), read_all(url, options.watched_mb));
    let mut refused: BTreeMap<String, usize> = BTreeMap::new();
    let mut findings = Vec::new();
    let held: Vec<Open> = opened
        .into_iter()
        .filter_map(|opened| match opened {
            Ok(open) => Some(open),
            Err(status) => {
                let error = RpcError::from_status(&status);
                *refused.entry(error.reason_name().to_owned()).or_default() += 1;
                if error.reason_name() != RpcError::OVERLOADED {
                    findings.push(format!("a stream is refused: {status:?}"));
                }
                None
            }
        })
        .collect();
    println!(
        "{} streams of a context of {} MB are open and not read; refused: {refused:?}",
        held.len(),
        options.watched_mb
    );
    // One that comes when nobody reads finds room.
    let again = read_all(url, options.watched_mb).await;
    findings.extend([read, again].into_iter().filter_map(Result::err));
    findings
}

/// Watches the context from its beginning until it has all messages, over as many streams as it takes.
async fn read_all(url: &str, messages: usize) -> Result<(), String> {
    let mut contexts = ContextServiceClient::new(link(url));
    let (mut seen, mut after_seq, end) = (0, 0, Instant::now() + 2 * PATIENCE);
    while Instant::now() < end {
        let request = pb::WatchContextRequest {
            session: SESSION.to_owned(),
            after_seq,
            ..pb::WatchContextRequest::default()
        };
        let ended = match contexts.watch_context(request).await {
            Ok(watched) => {
                let mut watched = watched.into_inner();
                loop {
                    match timeout(PATIENCE, watched.message()).await {
                        Ok(Ok(Some(message))) => {
                            seen += message.notices.len();
                            after_seq = after_seq.max(message.seq);
                        }
                        Ok(Ok(None)) => return Err("a watch ended".to_owned()),
                        Ok(Err(status)) => break status,
                        Err(_) => return Err("a watch brings nothing".to_owned()),
                    }
                    if seen == messages {
                        return Ok(());
                    }
                }
            }
            Err(status) => status,
        };
        let error = RpcError::from_status(&ended);
        if ![RpcError::OVERLOADED, RpcError::READS_TOO_SLOWLY].contains(&error.reason_name()) {
            return Err(format!("a watch failed: {ended:?}"));
        }
        sleep(PAUSE).await;
    }
    Err(format!(
        "a watcher that reads has {seen} of {messages} messages"
    ))
}

/// Has a turn in a session, which has to complete.
async fn turn(url: &str, session: String) -> Result<(), String> {
    let request = talk::request(&session, "turn", "What does the bridge carry?");
    let stream = connect(url).submit_turn(request).await;
    let mut stream = stream
        .map_err(|status| format!("{session}: {status:?}"))?
        .into_inner();
    loop {
        let message = timeout(2 * PATIENCE, stream.message()).await;
        let message = message.map_err(|_| format!("{session}: nothing comes"))?;
        let message = message.map_err(|status| format!("{session}: {status:?}"))?;
        let message = message.ok_or_else(|| format!("{session}: the stream has ended"))?;
        for event in message.events.into_iter().filter_map(|it| it.event) {
            match event {
                Event::Complete(_) => return Ok(()),
                Event::Error(error) => return Err(format!("{session}: {error:?}")),
                _ => {}
            }
        }
    }
}
