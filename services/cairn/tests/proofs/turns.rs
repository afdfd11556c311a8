//! The cost of a tool turn does not grow with the turns before it: bytes between orchestrator and
//! executor, bytes of the journal, and the owner's time.
//!
//! The five services run as processes, and a step for the model reads a file in each turn.

use super::executor_stream::{ExecutorStream, Kind, Passed, median};
use crate::support::served::{add_model, done, turn};
use crate::support::{CAIRN, chain, check_completed, connect, link, model_step, watch_to_end};
use cairn_proto::event::event::Kind as EventKind;
use cairn_proto::memory::SetMemoryRequest;
use cairn_proto::memory::session_memory_service_client::SessionMemoryServiceClient;
use cairn_proto::orchestrator as pb;
use cairn_testkit::model_server::{Answer, reply};
use cairn_testkit::{Cluster, ModelServer, Site};
use clap::Args;
use prost::Message as _;
use serde_json::{Value, json};
use std::ops::Range;
use tokio::runtime::Builder;

const SESSION: &str = "s";
/// The largest value in session memory.
const VALUE_KIB: usize = 32;
/// The turns that are compared. The first ones are left out: in them, connections and caches are new.
const EARLY: Range<usize> = 10..60;
/// As many at the end.
const LATE: usize = 50;
/// Numbers of turns take one byte more from 128 on; nothing else may grow.
const MOST_BYTES_RATIO: f64 = 1.03;
/// Processor time is noisy, also on a quiet machine.
const MOST_TIME_RATIO: f64 = 1.25;

/// How long the attempt is. The defaults are the long form.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Tool turns of the attempt
    #[arg(long, value_name = "N", default_value_t = 200,
          value_parser = clap::value_parser!(u16).range(120..=900))]
    pub(crate) turns: u16,
    /// Session memory beside, in KiB
    #[arg(long, value_name = "KIB", default_value_t = 64,
          value_parser = clap::value_parser!(u16).range(0..=900))]
    pub(crate) memory_kib: u16,
    /// Compare bytes only, not times
    #[arg(long)]
    pub(crate) bytes_only: bool,
}

#[test]
fn a_turn_costs_as_many_bytes_as_the_turns_before_it() {
    prove(&Options {
        turns: 200,
        memory_kib: 4,
        bytes_only: true,
    });
}

/// What one turn cost.
#[derive(Debug, Default, Clone, Copy)]
struct Turn {
    to_executor: usize,
    to_owner: usize,
    journal: usize,
    /// From the report of the reply to its acknowledgement, in µs: the owner's time and a commit.
    owner_us: f64,
    /// Processor time of the orchestrator's process, in µs.
    processor_us: f64,
}

type Column = (&'static str, fn(&Turn) -> f64);

const BYTES: [Column; 3] = [
    ("bytes to the executor", |turn| turn.to_executor as f64),
    ("bytes to the owner", |turn| turn.to_owner as f64),
    ("bytes of the journal", |turn| turn.journal as f64),
];

const TIMES: [Column; 2] = [
    ("report to acknowledgement, µs", |turn| turn.owner_us),
    ("orchestrator's processor, µs", |turn| turn.processor_us),
];

/// Runs one attempt, prints each turn, and panics if late turns cost more than early ones.
pub(crate) fn prove(options: &Options) {
    let turns = usize::from(options.turns);
    let model = ModelServer::start(move |body| answer(body, turns));
    let site = Site::new(CAIRN);
    add_model(&site, &model);
    site.append(
        "cairn.toml",
        "\n[run]\nmax_turns = 1000\nmax_tool_turns = 1000\n",
    );
    let mut cluster = Cluster::start(&site, &[]);
    let stream = ExecutorStream::within(&mut cluster);
    let runtime = Builder::new_current_thread().enable_all().build();
    let url = cluster.url();
    let run = run(&url, usize::from(options.memory_kib));
    let journal = runtime.expect("a runtime").block_on(run);
    let measured = measured(&stream.take(), &journal, turns);
    print(&measured);
    compare(&measured, options.bytes_only);
}

/// A turn reads a file, the same each time.
fn answer(body: &Value, turns: usize) -> Answer {
    let turn = turn(body);
    if turn + 1 == turns {
        return done("It is read.");
    }
    let read = ("read_file", json!({"path": "docs/one.md"}));
    reply(
        &format!("turn-{turn:03}"),
        "I read the file again.",
        &[read],
    )
}

/// Runs the step in a session with so much memory. The bytes of the events of each turn, which begins
/// with its reply.
async fn run(url: &str, memory_kib: usize) -> Vec<usize> {
    let mut client = connect(url);
    let request = pb::CreateSessionRequest {
        session: SESSION.to_owned(),
        request_id: "create".to_owned(),
        ..pb::CreateSessionRequest::default()
    };
    client.create_session(request).await.expect("a session");
    let mut memory = SessionMemoryServiceClient::new(link(url));
    for number in 0..memory_kib.div_ceil(VALUE_KIB) {
        let request = SetMemoryRequest {
            session: SESSION.to_owned(),
            key: format!("key-{number}"),
            value: "x".repeat(1024 * VALUE_KIB.min(memory_kib - number * VALUE_KIB)),
        };
        memory.set_memory(request).await.expect("a write");
    }
    let request = pb::StartRunRequest {
        session: SESSION.to_owned(),
        request_id: "start".to_owned(),
        run: Some(chain(vec![model_step("Read")])),
        ..pb::StartRunRequest::default()
    };
    client.start_run(request).await.expect("a run");
    let events = watch_to_end(&mut client, SESSION, 0).await;
    check_completed(&events);
    let mut turns = Vec::new();
    for (_, event) in events {
        if matches!(event.kind, Some(EventKind::ReplyReceived(_))) {
            turns.push(0);
        }
        if let Some(last) = turns.last_mut() {
            *last += event.encoded_len();
        }
    }
    turns
}

fn measured(passed: &[Passed], journal: &[usize], turns: usize) -> Vec<Turn> {
    let mut measured: Vec<Turn> = Vec::new();
    let mut reply: Option<Passed> = None;
    for message in passed {
        if message.kind == Kind::Reply {
            let before = reply.replace(*message);
            if let (Some(last), Some(before)) = (measured.last_mut(), before) {
                last.processor_us = (message.cpu - before.cpu).as_secs_f64() * 1e6;
            }
            measured.push(Turn::default());
        }
        let (Some(turn), Some(reply)) = (measured.last_mut(), &reply) else {
            continue;
        };
        match message.kind.is_to_executor() {
            true => turn.to_executor += message.bytes,
            false => turn.to_owner += message.bytes,
        }
        if message.kind == Kind::Acknowledgement && turn.owner_us == 0.0 {
            turn.owner_us = (message.at - reply.at).as_secs_f64() * 1e6;
        }
    }
    assert_eq!((measured.len(), journal.len()), (turns, turns));
    for (turn, bytes) in measured.iter_mut().zip(journal) {
        turn.journal = *bytes;
    }
    // The last turn ends the step.
    measured.pop();
    measured
}

fn print(turns: &[Turn]) {
    println!(
        "{:>5} {:>12} {:>10} {:>10} {:>12} {:>14}",
        "turn", "to executor", "to owner", "journal", "owner, µs", "processor, µs"
    );
    for (number, turn) in turns.iter().enumerate() {
        println!(
            "{number:>5} {:>10} B {:>8} B {:>8} B {:>12.0} {:>14.0}",
            turn.to_executor, turn.to_owner, turn.journal, turn.owner_us, turn.processor_us
        );
    }
}

/// Bytes are compared by their mean, times by their median.
fn compare(turns: &[Turn], bytes_only: bool) {
    let (early, late) = (&turns[EARLY], &turns[turns.len() - LATE..]);
    let mean = |turns: &[Turn], value: fn(&Turn) -> f64| {
        turns.iter().map(value).sum::<f64>() / turns.len() as f64
    };
    let middle = |turns: &[Turn], value: fn(&Turn) -> f64| median(turns.iter().map(value));
    let bytes = BYTES.map(|(name, value)| {
        let ends = (mean(early, value), mean(late, value));
        (name, ends, MOST_BYTES_RATIO)
    });
    let times = TIMES.map(|(name, value)| {
        let ends = (middle(early, value), middle(late, value));
        (
            name,
            ends,
            if bytes_only {
                f64::MAX
            } else {
                MOST_TIME_RATIO
            },
        )
    });
    let mut findings = Vec::new();
    println!(
        "{:<32} {:>10} {:>10} {:>7}",
        "",
        format!("{}–{}", EARLY.start, EARLY.end),
        format!("{}–{}", turns.len() - LATE, turns.len()),
        "ratio"
    );
    for (name, (early, late), most) in bytes.into_iter().chain(times) {
        let ratio = late / early;
        println!("{name:<32} {early:>10.0} {late:>10.0} {ratio:>7.3}");
        if ratio > most {
            findings.push(format!("{name}: {early:.0}, later {late:.0}"));
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}
