use super::*;
use crate::trace::{
    PastEvent, PastSpan, TARGET, Value, given_span_id, given_trace_id, install, is_content_wanted,
    is_recording,
};
use opentelemetry::trace::{SpanKind, Status, TracerProvider as _};
use opentelemetry_sdk::trace::{
    IdGenerator, InMemorySpanExporter, RandomIdGenerator, Sampler, SdkTracer, SdkTracerProvider,
    SpanData,
};
use std::time::{Duration, SystemTime};
use tracing_subscriber::layer::SubscriberExt as _;

const TRACE: u128 = 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736;
const SPAN: u64 = 0x00f0_67aa_0ba9_02b7;
const PARENT: TraceParent = TraceParent {
    trace_id: TRACE,
    span_id: SPAN,
    is_sampled: true,
};

#[derive(Debug)]
struct Ids(RandomIdGenerator);

impl IdGenerator for Ids {
    fn new_trace_id(&self) -> TraceId {
        given_trace_id().map_or_else(|| self.0.new_trace_id(), TraceId::from)
    }

    fn new_span_id(&self) -> SpanId {
        given_span_id().map_or_else(|| self.0.new_span_id(), SpanId::from)
    }
}

/// What is recorded of spans while `work` runs.
fn recorded(work: impl FnOnce(&SdkTracer)) -> Vec<SpanData> {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(exporter.clone())
        .with_id_generator(Ids(RandomIdGenerator::default()))
        .with_sampler(Sampler::ParentBased(Box::new(Sampler::AlwaysOn)))
        .build();
    let tracer = provider.tracer("test");
    let layer = tracing_opentelemetry::layer().with_tracer(tracer.clone());
    let subscriber = tracing_subscriber::registry().with(layer);
    tracing::subscriber::with_default(subscriber, || work(&tracer));
    exporter.get_finished_spans().unwrap()
}

fn span() -> Span {
    tracing::info_span!(target: TARGET, "work")
}

fn ids(span: &SpanData) -> (u128, u64, u64) {
    let own = &span.span_context;
    (
        u128::from_be_bytes(own.trace_id().to_bytes()),
        u64::from_be_bytes(own.span_id().to_bytes()),
        u64::from_be_bytes(span.parent_span_id.to_bytes()),
    )
}

#[test]
fn a_span_is_adopted_and_tells_its_children_of_itself() {
    let mut reported = None;
    let spans = recorded(|_| {
        let span = span();
        PARENT.adopt(&span);
        reported = TraceParent::of_span(&span);
        let _inside = span.enter();
        // One that has begun stays where it is.
        TraceParent {
            trace_id: 1,
            ..PARENT
        }
        .adopt(&span);
    });
    let reported = reported.unwrap();
    assert_eq!(ids(&spans[0]), (TRACE, reported.span_id, SPAN));
    assert_eq!((reported.trace_id, reported.is_sampled), (TRACE, true));
}

#[test]
fn a_trace_without_a_span_is_begun_by_the_span() {
    let trace = TraceParent {
        span_id: 0,
        ..PARENT
    };
    let spans = recorded(|_| {
        let first = span();
        trace.adopt(&first);
        // Not what was given before.
        let second = span();
        drop(first);
        drop(second);
    });
    let (trace_id, span_id, parent) = ids(&spans[0]);
    assert_eq!((trace_id, parent), (TRACE, 0));
    assert_ne!(span_id, 0);
    assert_ne!(ids(&spans[1]).0, TRACE);
    let unwanted = recorded(|_| {
        let span = span();
        let trace = TraceParent {
            is_sampled: false,
            ..trace
        };
        trace.adopt(&span);
        assert_eq!(TraceParent::of_span(&span), None);
    });
    assert!(unwanted.is_empty(), "{unwanted:?}");
}

#[test]
fn a_trace_that_is_not_wanted_is_not_recorded() {
    let spans = recorded(|_| {
        let span = span();
        let unwanted = TraceParent {
            is_sampled: false,
            ..PARENT
        };
        unwanted.adopt(&span);
        assert_eq!(TraceParent::of_span(&span), None);
    });
    assert!(spans.is_empty(), "{spans:?}");
}

#[test]
fn a_span_is_linked() {
    let spans = recorded(|_| {
        let span = span();
        PARENT.link_on(&span);
        span.in_scope(|| ());
        let later = TraceParent {
            span_id: 7,
            ..PARENT
        };
        later.link_on(&span);
        let no_span = TraceParent {
            span_id: 0,
            ..PARENT
        };
        no_span.link_on(&span);
    });
    let links: Vec<_> = spans[0].links.iter().collect();
    let linked: Vec<_> = links.iter().map(|link| &link.span_context).collect();
    let later = TraceParent {
        span_id: 7,
        ..PARENT
    };
    assert_eq!(linked, [&PARENT.span_context(), &later.span_context()]);
}

#[test]
fn a_span_that_nobody_records_is_left_alone() {
    // No subscriber at all, and one without the layer.
    let spans = [
        span(),
        tracing::subscriber::with_default(tracing_subscriber::registry(), span),
    ];
    assert!(spans[0].is_disabled());
    for span in spans {
        PARENT.adopt(&span);
        PARENT.link_on(&span);
        assert_eq!(TraceParent::of_span(&span), None);
    }
}

fn past(parent: TraceParent) -> PastSpan {
    PastSpan {
        name: "invoke_workflow cairn".into(),
        parent,
        span_id: 42,
        kind: SpanKind::Internal,
        start_ms: 1_000,
        end_ms: 3_500,
        attributes: vec![("cairn.steps", Value::I64(3))],
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

/// The one test that installs a recorder: it holds for the process.
#[test]
fn what_is_over_is_recorded_with_the_ids_and_times_that_it_had() {
    assert!(!is_recording() && !is_content_wanted());
    past(PARENT).record();
    let root = TraceParent {
        span_id: 0,
        ..PARENT
    };
    let unwanted = TraceParent {
        is_sampled: false,
        ..PARENT
    };
    let spans = recorded(|tracer| {
        install(Box::new(tracer.clone()), true, 1.0);
        assert!(is_recording() && is_content_wanted());
        past(root).record();
        past(PARENT).record();
        past(unwanted).record();
        past(TraceParent {
            span_id: 0,
            ..unwanted
        })
        .record();
        drop(span());
    });
    assert_eq!(spans.len(), 3);
    assert_eq!(ids(&spans[0]), (TRACE, 42, 0));
    assert_eq!(ids(&spans[1]), (TRACE, 42, SPAN));
    // Ids are given once.
    let (trace, own, _) = ids(&spans[2]);
    assert!(trace != TRACE && own != 42);
    let at = |ms| SystemTime::UNIX_EPOCH + Duration::from_millis(ms);
    let span = &spans[0];
    assert_eq!((span.start_time, span.end_time), (at(1_000), at(3_500)));
    assert_eq!(span.status, Status::error("a step failed"));
    assert_eq!(span.attributes[0].key.as_str(), "cairn.steps");
    let event = span.events.iter().next().unwrap();
    assert_eq!(
        (event.name.as_ref(), event.timestamp),
        ("cairn.step.completed", at(2_000))
    );
    assert_eq!(span.links.iter().count(), 1);
}
