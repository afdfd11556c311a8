use super::export::Exporting;
use super::*;
use crate::logs::LogFormat;
use cairn_rpc::trace::TraceParent;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use std::io::{self, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Instant;

#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What is logged and what is traced while `work` runs.
fn reported(level: &str, has_collector: bool, work: impl FnOnce()) -> (String, Vec<SpanData>) {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(exporter.clone())
        .build();
    let tracer = has_collector.then(|| provider.tracer("test"));
    let log = LogConfig {
        level: level.to_owned(),
        format: LogFormat::Json,
    };
    let buffer = Buffer::default();
    let writer = buffer.clone();
    let subscriber = subscriber(&log, move || writer.clone(), tracer).unwrap();
    tracing::dispatcher::with_default(&subscriber, work);
    let bytes = buffer.0.lock().unwrap().clone();
    let spans = exporter.get_finished_spans().unwrap();
    (String::from_utf8(bytes).unwrap(), spans)
}

fn work() {
    let span = tracing::info_span!(target: TARGET, "traced", secret = "canary");
    let _inside = span.enter();
    tracing::info!(target: TARGET, "traced");
    let logged = tracing::info_span!("logged", run = 1);
    let _inside = logged.enter();
    tracing::info!("logged");
    tracing::info_span!(target: TARGET, "inner").in_scope(|| ());
}

#[test]
fn without_a_collector_spans_of_traces_are_disabled() {
    for level in ["info", "trace", "cairn=trace", "cairn::trace=trace", "off"] {
        let (log, spans) = reported(level, false, || {
            let span = tracing::info_span!(target: TARGET, "traced");
            assert!(span.is_disabled(), "{level}");
            assert!(!tracing::enabled!(target: TARGET, tracing::Level::ERROR));
            assert_eq!(TraceParent::of_span(&span), None);
            work();
        });
        assert!(!log.contains("traced") && !log.contains("canary"), "{log}");
        assert!(spans.is_empty());
    }
}

#[test]
fn logs_and_traces_know_nothing_of_each_other() {
    for level in ["info", "trace", "cairn=trace,info", "off"] {
        let (log, spans) = reported(level, true, work);
        assert_eq!(log.lines().count(), usize::from(level != "off"), "{log}");
        assert_eq!(log.contains("\"name\":\"logged\""), level != "off", "{log}");
        for word in ["traced", "canary", "inner", TARGET] {
            assert!(!log.contains(word), "{word} in {log}");
        }
        let [inner, outer] = &spans[..] else {
            panic!("{spans:#?}");
        };
        // The span for the logs between them is not there for traces.
        assert_eq!(inner.parent_span_id, outer.span_context.span_id());
        let events: Vec<_> = outer.events.iter().collect();
        assert_eq!(events.len(), 1);
        assert!(inner.events.iter().next().is_none());
    }
}

/// Ends a span, and the export after it, on a thread with a runtime of its own.
async fn end(endpoint: String, limit: Duration) -> Duration {
    let exporting = Exporting::start(endpoint, &Standard::default(), None, &[]).unwrap();
    let mut span = opentelemetry::trace::Tracer::start(&exporting.tracer(), "lost");
    opentelemetry::trace::Span::end(&mut span);
    let start = Instant::now();
    exporting.stop(limit);
    start.elapsed()
}

#[tokio::test]
async fn a_collector_that_says_nothing_holds_up_nobody() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let limit = Duration::from_millis(200);
    let took = end(endpoint, limit).await;
    // Less than a message may take.
    assert!(took >= limit && took < limit * 20, "{took:?}");
}

#[tokio::test]
async fn a_collector_that_is_not_there_holds_up_nobody() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", gone.local_addr().unwrap());
    drop(gone);
    let limit = Duration::from_secs(2);
    let took = end(endpoint, limit).await;
    assert!(took < limit * 2, "{took:?}");
}

#[tokio::test]
async fn an_export_may_be_dropped_on_any_thread() {
    let exporting = Exporting::start(
        "http://127.0.0.1:1".to_owned(),
        &Standard::default(),
        None,
        &[],
    );
    let exporting = exporting.unwrap();
    drop(Telemetry {
        exporting: Some(exporting),
    });
}
