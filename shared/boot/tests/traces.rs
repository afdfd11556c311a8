//! Spans on their way from a process to a collector. One test only: what it sets up holds for the
//! process.

#![allow(clippy::unwrap_used, reason = "a test")]

use cairn_boot::telemetry::Standard;
use cairn_boot::{LogConfig, TelemetryConfig, telemetry};
use cairn_http::Proxies;
use cairn_rpc::trace::{self, PastEvent, PastSpan, SpanKind, TARGET, TraceParent};
use cairn_testkit::{Collector, TraceSpan};
use std::time::Duration;

const PARENT: TraceParent = TraceParent {
    trace_id: 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736,
    span_id: 0,
    is_sampled: true,
};
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// There is no runtime here, as in a program that has not begun or is about to end.
#[test]
fn spans_reach_the_collector_before_the_process_ends() {
    let collector = Collector::start();
    let config = TelemetryConfig {
        otlp: Some(collector.endpoint()),
        content: true,
        ..TelemetryConfig::default()
    };
    let log = LogConfig {
        level: "off".to_owned(),
        ..LogConfig::default()
    };
    assert!(!trace::is_recording());
    let init = |services: &[&str]| {
        telemetry::init(
            &config,
            &Standard::default(),
            &log,
            services,
            &Proxies::default(),
            std::io::stderr,
        )
    };
    let telemetry = init(&["memory", "tools"]).unwrap();
    assert!(trace::is_recording() && trace::is_content_wanted());
    assert!(init(&[]).is_err());

    let run = TraceParent {
        span_id: PARENT.derived_child("run"),
        ..PARENT
    };
    step(run);
    // What is only for the logs is in no trace.
    tracing::error_span!("logged").in_scope(|| tracing::error!("logged"));
    past(run).record();
    telemetry.flush_and_stop();
    let spans = collector.spans();
    check(&spans, run);
}

fn step(run: TraceParent) {
    let step = tracing::info_span!(
        target: TARGET, "step", otel.name = "invoke_agent one", gen_ai.usage.input_tokens = 12,
        cairn.step.status = tracing::field::Empty,
    );
    run.adopt(&step);
    step.in_scope(|| {
        let call = tracing::info_span!(target: TARGET, "execute_tool", otel.kind = "client");
        call.in_scope(|| tracing::info!(target: TARGET, tries = 2, "cairn.retry"));
    });
    step.record("cairn.step.status", "completed");
}

fn past(run: TraceParent) -> PastSpan {
    PastSpan {
        name: "invoke_workflow cairn".into(),
        parent: PARENT,
        span_id: run.span_id,
        kind: SpanKind::Internal,
        start_ms: 1_000,
        end_ms: 3_500,
        attributes: vec![("cairn.steps", 3.into())],
        events: vec![PastEvent {
            name: "cairn.step.completed".into(),
            at_ms: 2_000,
            attributes: vec![("cairn.step", "one".into())],
        }],
        links: vec![TraceParent {
            span_id: 9,
            ..PARENT
        }],
        error: Some("a step failed".to_owned()),
    }
}

fn check(spans: &[TraceSpan], run: TraceParent) {
    let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(
        names,
        ["execute_tool", "invoke_agent one", "invoke_workflow cairn"]
    );
    let [call, step, root] = spans else {
        panic!("{spans:#?}");
    };
    assert!(spans.iter().all(|span| span.trace_id == TRACE));
    assert_eq!(root.span_id, format!("{:016x}", run.span_id));
    let parents = [
        &root.parent_span_id,
        &step.parent_span_id,
        &call.parent_span_id,
    ];
    assert_eq!(parents, ["", &root.span_id, &step.span_id]);

    let ms = |ms| u64::try_from(Duration::from_millis(ms).as_nanos()).unwrap();
    assert_eq!((root.start_ns, root.end_ns), (ms(1_000), ms(3_500)));
    assert_eq!(
        (root.events[0].name.as_str(), root.events[0].at_ns),
        ("cairn.step.completed", ms(2_000))
    );
    assert_eq!(root.links, [(TRACE.to_owned(), format!("{:016x}", 9))]);
    assert_eq!(root.error.as_deref(), Some("a step failed"));
    assert_eq!((call.kind, call.error.as_deref()), ("client", None));

    // Nothing but what the code puts there.
    let attributes: Vec<_> = step.attributes.iter().collect();
    let pair = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    let expected = [
        ("cairn.step.status", "completed"),
        ("gen_ai.usage.input_tokens", "12"),
    ]
    .map(pair);
    assert_eq!(
        attributes,
        expected.iter().map(|(k, v)| (k, v)).collect::<Vec<_>>()
    );
    assert_eq!(
        (
            call.events[0].name.as_str(),
            call.events[0].attributes["tries"].as_str()
        ),
        ("cairn.retry", "2")
    );

    let resource = |key: &str| root.resource[key].as_str();
    assert_eq!(resource("service.name"), "cairn");
    assert_eq!(resource("service.namespace"), "cairn");
    assert_eq!(resource("service.version"), env!("CARGO_PKG_VERSION"));
    assert_eq!(resource("service.instance.id").len(), 36);
    assert_eq!(resource("cairn.services"), "memory,tools");
    assert_eq!(resource("process.pid"), std::process::id().to_string());
}
