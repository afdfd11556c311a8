//! The cost of a turn grows no faster than the request that the model is sent: bytes of the journal, bytes
//! to the executor, the orchestrator's processor time, and the time to resume the session.
//!
//! The five services run as processes over a file. One client talks in one context, without compaction.
//! After each window of turns the orchestrator is stopped and started, so that the next turn loads the
//! session from the store.
//!
//! # Figures
//!
//! `deploy/prove conversation`, November 2026, a debug build on a quiet virtual machine with 2 cores. Turns
//! 60 to 100, and 1,960 to 2,000:
//!
//! - Request: 52,016 and 1,121,716 bytes. To the executor: 42,980 and 1,034,781 bytes (0.83 and 0.92).
//! - Journal: 832 and 841 bytes a turn, at most 1.1 % more than at first.
//! - Processor of the orchestrator: 6.0 and 11.2 ms a turn. Resume: 15 and 52 ms, at most 84 ms.

use super::executor_stream::{ExecutorStream, Kind, Passed, median};
use crate::support::{connect, served, talk};
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use cairn_testkit::Cluster;
use clap::Args;
use prost::Message as _;
use served::SESSION;
use std::time::Duration;
use talk::Talked;
use tokio::runtime::Builder;

/// The turns of a window.
const WIDTH: usize = 40;
/// The first window ends here. Before it, connections and caches are new.
const FIRST: usize = 100;
/// The other windows end at multiples of this, and at the last turn.
const EVERY: usize = 500;
const MOST_JOURNAL_DIFFERENCE: f64 = 0.05;
/// Bytes to the executor, compared with the bytes of the request.
const MOST_TO_EXECUTOR: f64 = 1.10;
/// Growth of a time, compared with the growth of the request. Times are noisy.
const MOST_TIME_GROWTH: f64 = 1.5;

/// How long the conversation is. The defaults are the long form.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Turns of the conversation
    #[arg(long, value_name = "N", default_value_t = 2000,
          value_parser = clap::value_parser!(u16).range(150..=9000))]
    pub(crate) turns: u16,
    /// Turns after each window whose session is loaded from the store
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u16).range(1..=9))]
    pub(crate) resumes: u16,
    /// Compare bytes only, not times
    #[arg(long)]
    pub(crate) bytes_only: bool,
}

#[test]
fn a_turn_costs_no_more_than_its_request() {
    prove(&Options {
        turns: 150,
        resumes: 1,
        bytes_only: true,
    });
}

/// The cost of one turn.
#[derive(Debug, Default, Clone, Copy)]
struct Turn {
    request: usize,
    to_executor: usize,
    journal: usize,
    /// Processor time of the orchestrator until the next turn, in µs.
    processor_us: f64,
}

/// The means of a window's bytes, and the medians of its times.
#[derive(Debug)]
struct Window {
    end: usize,
    request: f64,
    to_executor: f64,
    journal: f64,
    processor_us: f64,
    /// From a request to the first event, of a session that was loaded. The shortest of a few: others that
    /// work at the same time only add to it.
    resume_ms: f64,
    /// From a request to its end.
    turn_ms: f64,
    slowest_ms: f64,
}

/// Has the conversation, prints its windows, and panics if a bound does not hold.
pub(crate) fn prove(options: &Options) {
    let (turns, resumes) = (usize::from(options.turns), usize::from(options.resumes));
    let ends = ends(turns);
    let (model, sent) = talk::model();
    let site = talk::site(&model, "");
    let mut cluster = Cluster::start(&site, &[]);
    let stream = ExecutorStream::within(&mut cluster);
    // Its thread closes the clients' connections while the orchestrator stops.
    let mut runtime = Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let url = cluster.url();
    let mut talked: Vec<Talked> = Vec::new();
    runtime.block_on(async { talk::create(&mut connect(&url), SESSION).await });
    for turn in 0..turns + resumes {
        if ends.iter().any(|end| (*end..end + resumes).contains(&turn)) {
            restart(&mut cluster, &stream);
        }
        // A client for each process of the orchestrator.
        let ended = runtime.block_on(async {
            let mut client = connect(&url);
            talk::talk(&mut client, SESSION, turn).await
        });
        let ended = ended.unwrap_or_else(|status| panic!("turn {turn}: {status:?}"));
        assert_eq!(ended.response, talk::reply(turn));
        assert_eq!(ended.turn_index as usize, turn);
        talked.push(ended);
    }
    let journal = runtime.block_on(journal(&url, &talked));
    let sent = std::mem::take(&mut *sent.lock().expect("no panic"));
    assert!(sent.findings.is_empty(), "{}", sent.findings.join("\n"));
    let measured = measured(&stream.take(), &sent.bytes, &journal);
    let windows = ends
        .iter()
        .map(|end| window(*end, &measured, &talked, resumes));
    let windows: Vec<Window> = windows.collect();
    print(&windows);
    check(&windows, options.bytes_only);
}

fn ends(turns: usize) -> Vec<usize> {
    let between = (EVERY..turns).step_by(EVERY);
    let mut ends: Vec<usize> = std::iter::once(FIRST).chain(between).collect();
    ends.push(turns);
    ends
}

/// Stops the orchestrator, which parks its sessions, and starts it again.
fn restart(cluster: &mut Cluster<'_>, stream: &ExecutorStream) {
    let orchestrator = cluster.members_of("orchestrator")[0];
    cluster.terminate(orchestrator);
    let status = cluster.wait_for_end(orchestrator);
    assert!(status.success(), "{status:?}");
    cluster.start_again("orchestrator");
    stream.follow(cluster);
}

/// The bytes of the events of each turn.
async fn journal(url: &str, talked: &[Talked]) -> Vec<usize> {
    let request = pb::WatchSessionRequest {
        session: SESSION.to_owned(),
        ..pb::WatchSessionRequest::default()
    };
    let watch = connect(url).watch_session(request).await;
    let mut watch = watch.expect("a watch").into_inner();
    let mut bytes = vec![0; talked.len()];
    let last = talked.last().map_or(0, |it| it.seq);
    let mut turn = 0;
    let mut is_begun = false;
    while turn < talked.len() {
        let message = tokio::time::timeout(served::PATIENCE, watch.message()).await;
        let message = message.expect("an event in time").expect("no error");
        let message = message.expect("the watch continues");
        let Some(event) = message.event else { continue };
        is_begun |= matches!(event.kind, Some(wire::event::Kind::RunStarted(_)));
        if is_begun {
            bytes[turn] += event.encoded_len();
        }
        turn += usize::from(message.seq >= talked[turn].seq);
        assert!(message.seq <= last, "an event after the last turn");
    }
    bytes
}

fn measured(passed: &[Passed], requests: &[usize], journal: &[usize]) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    let mut before = Duration::ZERO;
    for message in passed {
        match message.kind {
            Kind::Start => turns.push(Turn::default()),
            // The tools on offer are sent once to a connection.
            Kind::Catalogue => continue,
            _ => {}
        }
        let count = turns.len();
        if message.kind == Kind::Reply && count > 1 {
            let used = message.cpu.saturating_sub(before);
            turns[count - 2].processor_us = used.as_secs_f64() * 1e6;
        }
        if message.kind == Kind::Reply {
            before = message.cpu;
        }
        if let Some(turn) = turns.last_mut().filter(|_| message.kind.is_to_executor()) {
            turn.to_executor += message.bytes;
        }
    }
    assert_eq!(
        (turns.len(), requests.len()),
        (journal.len(), journal.len()),
        "one attempt and one request for each turn"
    );
    for (turn, (request, journal)) in turns.iter_mut().zip(requests.iter().zip(journal)) {
        (turn.request, turn.journal) = (*request, *journal);
    }
    turns
}

fn window(end: usize, turns: &[Turn], talked: &[Talked], resumes: usize) -> Window {
    // The last turn's processor time has the stop of the process in it.
    let inside = end - WIDTH..end - 1;
    let of = |value: fn(&Turn) -> f64| turns[inside.clone()].iter().map(value).collect::<Vec<_>>();
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let resumed = talked[end..end + resumes].iter();
    let resumed = resumed.map(|it| ms(it.first_event));
    let whole: Vec<f64> = talked[inside.clone()]
        .iter()
        .map(|it| ms(it.whole))
        .collect();
    Window {
        end,
        request: mean(of(|it| it.request as f64)),
        to_executor: mean(of(|it| it.to_executor as f64)),
        journal: mean(of(|it| it.journal as f64)),
        processor_us: median(&of(|it| it.processor_us)),
        resume_ms: resumed.fold(f64::MAX, f64::min),
        turn_ms: median(&whole),
        slowest_ms: whole.iter().copied().fold(0.0, f64::max),
    }
}

fn print(windows: &[Window]) {
    println!(
        "{:>13} {:>12} {:>14} {:>7} {:>10} {:>14} {:>10} {:>10} {:>10}",
        "turns",
        "request",
        "to executor",
        "ratio",
        "journal",
        "processor",
        "resume",
        "turn",
        "slowest"
    );
    for it in windows {
        println!(
            "{:>13} {:>10.0} B {:>12.0} B {:>7.3} {:>8.1} B {:>11.0} µs {:>7.1} ms {:>7.1} ms {:>7.0} ms",
            format!("{}–{}", it.end - WIDTH, it.end),
            it.request,
            it.to_executor,
            it.to_executor / it.request,
            it.journal,
            it.processor_us,
            it.resume_ms,
            it.turn_ms,
            it.slowest_ms
        );
    }
}

fn check(windows: &[Window], bytes_only: bool) {
    let first = &windows[0];
    let mut findings = Vec::new();
    for window in windows {
        let end = window.end;
        let journal = (window.journal / first.journal - 1.0).abs();
        if journal > MOST_JOURNAL_DIFFERENCE {
            findings.push(format!("turns to {end}: journal differs by {journal:.3}"));
        }
        let ratio = window.to_executor / window.request;
        if ratio > MOST_TO_EXECUTOR {
            findings.push(format!("turns to {end}: {ratio:.3} of the request"));
        }
        let growth = window.request / first.request;
        let times: [(&str, f64); 2] = [
            ("processor", window.processor_us / first.processor_us),
            ("resume", window.resume_ms / first.resume_ms),
        ];
        for (name, time) in times {
            println!("turns to {end}: the request grew by {growth:.2}, {name} by {time:.2}");
            if !bytes_only && time > growth * MOST_TIME_GROWTH {
                findings.push(format!("turns to {end}: {name} grew by {time:.2}"));
            }
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}
