//! What `cairn serve` shows of itself.
//!
//! Metrics are at the address that the first line of output names.

use crate::support::CAIRN;
use cairn_testkit::model_server::reply;
use cairn_testkit::{ModelServer, Site};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;

fn get(url: &str) -> String {
    let rest = url.strip_prefix("http://").expect("a URL");
    let (address, path) = rest.split_once('/').expect("a path");
    let mut stream = TcpStream::connect(address).expect("a connection");
    let request = format!("GET /{path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn metrics_are_where_the_first_line_says() {
    for services in [&[][..], &["memory"]] {
        let site = Site::new(CAIRN);
        let ports = ["--metrics", "127.0.0.1:0", "--json"];
        let listen: &[&str] = match services {
            [] => &["--listen", "127.0.0.1:0"],
            _ => &["--internal", "127.0.0.1:0"],
        };
        let arguments = [&["serve"], services, listen, &ports].concat();
        let mut serving = site.start(&arguments, &[]);
        let line: Value = serde_json::from_str(&serving.first_line).expect("JSON");
        let url = line["metrics"].as_str().expect("where metrics are");
        let answer = get(url);
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        assert!(answer.contains("\ncairn_runs_active "), "{answer}");
        assert!(get(&url.replace("/metrics", "/healthz")).ends_with("ok\n"));
        serving.interrupt();
        assert_eq!(serving.wait_for_code(), Some(0));
    }
}

#[test]
fn metrics_can_be_turned_off_and_are_not_opened_to_others_by_accident() {
    let site = Site::new(CAIRN);
    let serve = ["serve", "--listen", "127.0.0.1:0", "--json", "--metrics"];
    let with = |address: &'static str| [&serve[..], &[address]].concat();
    let remote = site.run(&with("0.0.0.0:0"));
    assert_eq!(remote.code, Some(2), "{remote:?}");
    assert!(
        remote.err.contains("flag --metrics: 0.0.0.0:0"),
        "{remote:?}"
    );
    assert!(remote.err.contains("--allow-remote"), "{remote:?}");

    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("an address").to_string();
    let refused = site.run(&with(taken.leak()));
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.err.contains("cannot show metrics on 127.0.0.1:"),
        "{refused:?}"
    );
    let nothing = !site.has_store();
    assert!(nothing, "a store was made in spite of it");

    let serving = site.start(&with("off"), &[]);
    let line: Value = serde_json::from_str(&serving.first_line).expect("JSON");
    assert_eq!(line.get("metrics"), None, "{line}");
}

/// The value of a metric with these labels.
fn value(metrics: &str, series: &str) -> f64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(series));
    let value = line.unwrap_or_else(|| panic!("{series} is not in {metrics}"));
    value.trim().parse().expect("a number")
}

#[test]
fn what_a_run_does_is_counted() {
    const PLAN: &str = r#"{"order": "graph", "steps": [
        {"tool": "list_files", "arguments": {"path": "docs"}},
        {"tool": "read_file", "arguments": {"path": "docs/one.md"}},
        {"tool": "read_file", "arguments": {"path": "docs/none.md"}}]}"#;
    let site = Site::new(CAIRN);
    site.write("plan.json", PLAN);
    let serve = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--metrics",
        "127.0.0.1:0",
        "--json",
    ];
    let serving = site.start(&serve, &[]);
    let line: Value = serde_json::from_str(&serving.first_line).expect("JSON");
    let url = |name: &str| line[name].as_str().expect("a URL");
    let goal = "Which files under docs mention Redis?";
    let done = site.run(&["run", goal, "--server", url("listen")]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let failed = site.run(&["run", "--plan", "plan.json", "--server", url("listen")]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    let metrics = get(url("metrics"));
    let value = |series: &str| value(&metrics, series);
    assert_eq!(value("cairn_runs_total{status=\"completed\"}"), 1.0);
    assert_eq!(value("cairn_runs_total{status=\"failed\"}"), 1.0);
    assert_eq!(value("cairn_runs_active "), 0.0);
    assert_eq!(value("cairn_steps_total{status=\"failed\"}"), 1.0);
    assert!(value("cairn_steps_total{status=\"completed\"}") >= 4.0);
    assert!(value("cairn_tool_turns_total{model=\"offline\"}") >= 4.0);
    assert!(value("cairn_calls_total{tool=\"list_files\",outcome=\"ok\"}") >= 2.0);
    assert_eq!(
        value("cairn_calls_total{tool=\"read_file\",outcome=\"ExecutionFailed\"}"),
        1.0
    );
    assert!(value("cairn_call_seconds_count{tool=\"list_files\"}") >= 2.0);
    assert!(value("cairn_model_seconds_count{model=\"offline\"}") >= 4.0);
    assert!(value("cairn_commits_total{result=\"ok\"}") >= 4.0);
    assert!(value("cairn_commit_seconds_count ") >= 4.0);
}

#[test]
fn a_model_has_one_label_and_faults_of_callers_are_no_errors() {
    let site = Site::new(CAIRN);
    // No plan: planning fails, and its tokens count all the same.
    let server = ModelServer::start(|_| reply("r", "Yes.", &[]));
    let variables = [
        ("OPENAI_BASE_URL", server.url()),
        ("OPENAI_API_KEY", "sk-none-needed"),
        ("OPENAI_MODEL", "fake-1"),
    ];
    let serve = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--metrics",
        "127.0.0.1:0",
        "--json",
    ];
    let serving = site.start(&serve, &variables);
    let line: Value = serde_json::from_str(&serving.first_line).expect("JSON");
    let url = |name: &str| line[name].as_str().expect("a URL");
    let failed = site.run(&["run", "Say yes.", "--server", url("listen")]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    let planned = tokens(&get(url("metrics")));
    assert!(planned >= 1_000, "{planned}");
    let mut chat = site.command(&["chat", "--server", url("listen")]);
    let chat = chat.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut chat = chat.spawn().expect("the program can be started");
    let mut stdin = chat.stdin.take().expect("its input");
    stdin.write_all(b"Yes?\n").expect("a line");
    drop(stdin);
    assert!(chat.wait_with_output().expect("its end").status.success());
    let missing = site.run(&["show", "s-nowhere", "--server", url("listen")]);
    assert_ne!(missing.code, Some(0), "{missing:?}");

    let metrics = get(url("metrics"));
    assert_eq!(tokens(&metrics), planned + 1_000);
    let labels = metrics.lines().filter_map(|line| {
        let (_, rest) = line.split_once("model=\"")?;
        rest.split('"').next()
    });
    let labels: BTreeSet<&str> = labels.collect();
    assert_eq!(labels, BTreeSet::from(["fake-1"]), "{metrics}");
    assert!(!metrics.contains("kind=\"NotFound\""), "{metrics}");
}

/// The tokens that went to models.
fn tokens(metrics: &str) -> u64 {
    let lines = metrics.lines();
    let lines = lines.filter(|line| line.starts_with("cairn_tokens_total{"));
    let lines = lines.filter(|line| line.contains("direction=\"input\""));
    let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    values.sum()
}

const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1");

/// Variables that a shell may have for other programs, and the one that the warning names.
const FOR_OTHERS: [(&[(&str, &str)], &str); 8] = [
    (
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", "canary.example:4317")],
        "OTEL_EXPORTER_OTLP_ENDPOINT",
    ),
    (
        &[
            ENDPOINT,
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://canary@there"),
        ],
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    ),
    (
        &[ENDPOINT, ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")],
        "OTEL_EXPORTER_OTLP_PROTOCOL",
    ),
    (
        &[ENDPOINT, ("OTEL_TRACES_EXPORTER", "zipkin")],
        "OTEL_TRACES_EXPORTER",
    ),
    (
        &[ENDPOINT, ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon")],
        "OTEL_EXPORTER_OTLP_TIMEOUT",
    ),
    (
        &[ENDPOINT, ("OTEL_TRACES_SAMPLER", "xray")],
        "OTEL_TRACES_SAMPLER",
    ),
    (
        &[
            ENDPOINT,
            ("OTEL_TRACES_SAMPLER", "traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "half"),
        ],
        "OTEL_TRACES_SAMPLER_ARG",
    ),
    (
        &[ENDPOINT, ("OTEL_SDK_DISABLED", "perhaps")],
        "OTEL_SDK_DISABLED",
    ),
];

#[test]
fn variables_for_other_programs_stop_no_command() {
    let site = Site::new(CAIRN);
    for (variables, named) in FOR_OTHERS {
        let done = site.run_with(&["config", "check"], variables);
        assert_eq!(done.code, Some(0), "{variables:?}: {done:?}");
        let warnings = done.err.matches("WARN").count();
        assert_eq!(warnings, 1, "{variables:?}: {done:?}");
        assert!(done.err.contains(named), "{variables:?}: {done:?}");
        assert!(!done.err.contains("canary"), "{variables:?}: {done:?}");
    }
    let none = ("OTEL_EXPORTER_OTLP_ENDPOINT", "nowhere");
    for variables in [
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", "https://otel.corp.example")][..],
        &[none, ("OTEL_SDK_DISABLED", "TRUE")],
        &[none, ("OTEL_TRACES_EXPORTER", "none")],
        &[none, ("CAIRN_TELEMETRY__OTLP", "off")],
    ] {
        let done = site.run_with(&["config", "check"], variables);
        assert_eq!(
            (done.code, &*done.err),
            (Some(0), ""),
            "{variables:?}: {done:?}"
        );
    }
}
