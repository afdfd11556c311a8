//! Metrics over HTTP, as Prometheus asks for them.

#![allow(clippy::unwrap_used, reason = "a test")]

use cairn_boot::telemetry::MetricsServer;
use cairn_rpc::metrics::{self, Kind, counter, gauge, histogram};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

struct Stand {
    address: SocketAddr,
    stop: CancellationToken,
    runtime: Runtime,
}

impl Stand {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let server = runtime.block_on(MetricsServer::bind(free)).unwrap();
        let address = server.local_addr().unwrap();
        let stop = CancellationToken::new();
        runtime.spawn(server.serve(stop.clone()));
        Self {
            address,
            stop,
            runtime,
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        let patience = Some(Duration::from_secs(10));
        stream.set_read_timeout(patience).unwrap();
        stream
    }

    /// Status, headers in small letters, body.
    fn ask(&self, head: &str) -> (u16, String, String) {
        let mut stream = self.connect();
        let request = format!("{head} HTTP/1.1\r\nhost: cairn\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        answer(stream)
    }
}

fn answer(mut stream: TcpStream) -> (u16, String, String) {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_lowercase(), body.to_owned())
}

fn line<'a>(text: &'a str, start: &str) -> &'a str {
    let found = text.lines().find(|line| line.starts_with(start));
    found.unwrap_or_else(|| panic!("{start} is not in {text}"))
}

#[test]
fn what_was_recorded_is_shown() {
    let stand = Stand::start();
    let model = metrics::label(Kind::Model, "gpt \"x\"\n");
    counter!(metrics::TOKENS, "model" => model.clone(), "direction" => "input").increment(7);
    counter!(metrics::RUNS, "status" => "completed").increment(2);
    gauge!(metrics::RUNS_ACTIVE).increment(3.0);
    gauge!(metrics::RUNS_ACTIVE).decrement(1.0);
    metrics::add_cost("m", 1_500_000);
    metrics::add_cost("m", 250_000_000);
    metrics::add_cost("free", 0);
    for seconds in [0.000_02, 0.000_02, 0.003, 400.0] {
        histogram!(metrics::CALL_SECONDS, "tool" => "read_file").record(seconds);
    }
    histogram!(metrics::COMMIT_SECONDS).record(Duration::from_micros(60));

    let (status, head, text) = stand.ask("GET /metrics?x=1");
    assert_eq!(status, 200);
    assert!(
        head.contains("content-type: text/plain; version=0.0.4"),
        "{head}"
    );
    let value = |start: &str| line(&text, start).rsplit(' ').next().unwrap().to_owned();
    let escaped = r#"cairn_tokens_total{model="gpt \"x\"\n",direction="input"}"#;
    assert_eq!(value(escaped), "7");
    assert_eq!(value("cairn_runs_total{status=\"completed\"}"), "2");
    assert_eq!(value("cairn_runs_active "), "2");
    assert_eq!(value("cairn_cost_usd_total{model=\"m\"}"), "0.2515");
    assert!(!text.contains("model=\"free\""));
    let bucket = |le: &str| {
        value(&format!(
            "cairn_call_seconds_bucket{{tool=\"read_file\",le=\"{le}\"}}"
        ))
    };
    assert_eq!(
        ["0.00001", "0.00005", "0.005", "300", "+Inf"].map(bucket),
        ["0", "2", "3", "3", "4"]
    );
    assert_eq!(value("cairn_commit_seconds_bucket{le=\"0.0001\"}"), "1");
    assert_eq!(value("cairn_commit_seconds_count"), "1");
    // There before anything happened.
    assert_eq!(value("cairn_claims_total"), "0");
    assert_eq!(value("cairn_queue_sessions"), "0");
    for (name, kind) in [
        ("cairn_cost_usd_total", "counter"),
        ("cairn_runs_total", "counter"),
        ("cairn_runs_active", "gauge"),
        ("cairn_call_seconds", "histogram"),
    ] {
        assert_eq!(value(&format!("# TYPE {name} ")), kind);
        assert!(line(&text, &format!("# HELP {name} ")).ends_with('.'));
    }
}

#[test]
fn what_is_no_question_is_refused() {
    let stand = Stand::start();
    assert_eq!(stand.ask("GET /healthz").2, "ok\n");
    let (status, head, _) = stand.ask("POST /metrics");
    assert_eq!(status, 405);
    assert!(head.contains("allow: get"), "{head}");
    let (status, _, body) = stand.ask("HEAD /healthz");
    assert_eq!((status, body.as_str()), (200, ""));
    assert_eq!(stand.ask("GET /").0, 404);
    assert_eq!(stand.ask("nonsense").0, 400);
}

/// Connections that ask nothing, or only begin to ask, keep no client out.
#[test]
fn half_open_requests_keep_nobody_out() {
    let stand = Stand::start();
    let _idle: Vec<TcpStream> = (0..40)
        .map(|number| {
            let mut stream = stand.connect();
            if number % 2 == 0 {
                stream.write_all(b"GET /metrics HTTP/1.1\r\n").unwrap();
            }
            stream
        })
        .collect();
    assert_eq!(stand.ask("GET /healthz").2, "ok\n");
}

#[test]
fn it_stops_when_it_is_reported() {
    let stand = Stand::start();
    let mut idle = stand.connect();
    assert_eq!(stand.ask("GET /healthz").0, 200);
    stand.stop.cancel();
    // What was open is cut, and the port is free.
    assert_eq!(idle.read(&mut [0; 1]).unwrap(), 0);
    let again = MetricsServer::bind(stand.address);
    assert_eq!(
        stand.runtime.block_on(again).unwrap().local_addr().unwrap(),
        stand.address
    );
}
