//! The cost of a tool turn does not grow with the turns before it: bytes between orchestrator and
//! executor, bytes of the journal, and the owner's time.
//!
//! The five services run as processes, and a step for the model makes one call with an effect in each
//! turn. The result of a pure call would travel with the next reply only if that comes soon.

use super::executor_stream::{ExecutorStream, Kind, Passed, THINKS, median};
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
use std::thread;
use tokio::runtime::Builder;

const SESSION: &str = "s";
const PROCESSOR: &str = "orchestrator's processor, µs";
/// With times that are long enough on a busy machine.
const SETTINGS: &str = r#"
[session]
lease = "10s"

[run]
max_turns = 1000
max_tool_turns = 1000

[[tools.commands]]
name = "note"
description = "Notes something."
argv = ["cat"]
confine = "none"
effect = "effectful"
time_limit_ms = 60000
parameters = { type = "object" }
"#;
/// The note of each turn. It comes back as the result.
const NOTE: &str = "The bridge carries ten tonnes, and its piers were looked at in spring. ";
/// The largest value in session memory.
const VALUE_KIB: usize = 32;
/// The turns that are compared. The first ones are left out: in them, connections and caches are new.
const EARLY: Range<usize> = 10..60;
/// As many at the end.
const LATE: usize = 50;
/// Numbers take one byte more from 128 on; nothing else may grow.
const MOST_BYTES_RATIO: f64 = 1.02;
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

/// The cost of one turn.
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

/// A figure of turns, and how much it may grow.
struct Column {
    name: &'static str,
    value: fn(&Turn) -> f64,
    of_many: fn(&[f64]) -> f64,
    most_ratio: f64,
}

/// A mean shows rare costs, too. A median is steady on a busy machine.
const COLUMNS: [Column; 4] = [
    Column {
        name: "bytes over the executor stream",
        value: |turn| (turn.to_executor + turn.to_owner) as f64,
        of_many: mean,
        most_ratio: MOST_BYTES_RATIO,
    },
    Column {
        name: "bytes of the journal",
        value: |turn| turn.journal as f64,
        of_many: mean,
        most_ratio: MOST_BYTES_RATIO,
    },
    Column {
        name: PROCESSOR,
        value: |turn| turn.processor_us,
        of_many: median,
        most_ratio: MOST_TIME_RATIO,
    },
    // It depends as much on the disk, so it is only printed.
    Column {
        name: "report to acknowledgement, µs",
        value: |turn| turn.owner_us,
        of_many: median,
        most_ratio: f64::MAX,
    },
];

/// Runs one attempt, prints each turn, and panics if late turns cost more than early ones.
pub(crate) fn prove(options: &Options) {
    let turns = usize::from(options.turns);
    let thinks = THINKS * u32::from(!options.bytes_only);
    let model = ModelServer::start(move |body| {
        thread::sleep(thinks);
        answer(body, turns)
    });
    let site = Site::new(CAIRN);
    site.write("cairn.toml", SETTINGS);
    add_model(&site, &model);
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

/// The same note in each turn.
fn answer(body: &Value, turns: usize) -> Answer {
    let turn = turn(body);
    if turn + 1 == turns {
        return done("It is noted.");
    }
    let note = ("note", json!({"what": NOTE.repeat(8)}));
    reply(&format!("turn-{turn:03}"), &NOTE.repeat(4), &[note])
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
            metadata: Default::default(),
        };
        memory.set_memory(request).await.expect("a write");
    }
    let request = pb::StartRunRequest {
        session: SESSION.to_owned(),
        request_id: "start".to_owned(),
        run: Some(chain(vec![model_step("Note")])),
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
                last.processor_us = message.cpu.saturating_sub(before.cpu).as_secs_f64() * 1e6;
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

fn compare(turns: &[Turn], bytes_only: bool) {
    let late = turns.len() - LATE;
    let range = |from, to| format!("{from}–{to}");
    println!(
        "{:<32} {:>10} {:>10} {:>7}",
        "turns",
        range(EARLY.start, EARLY.end),
        range(late, turns.len()),
        "ratio"
    );
    let mut findings = Vec::new();
    for column in COLUMNS {
        let of = |turns: &[Turn]| {
            let values: Vec<f64> = turns.iter().map(column.value).collect();
            (column.of_many)(&values)
        };
        let (early, late) = (of(&turns[EARLY]), of(&turns[late..]));
        let (name, ratio) = (column.name, late / early);
        println!("{name:<32} {early:>10.0} {late:>10.0} {ratio:>7.3}");
        let is_compared = !(bytes_only && name == PROCESSOR);
        if is_compared && ratio > column.most_ratio {
            findings.push(format!("{name}: {early:.0}, later {late:.0}"));
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
