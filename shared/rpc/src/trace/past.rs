//! Spans of what is over.

use super::TraceParent;
use super::given::{Ids, tracer, with_ids};
use opentelemetry::trace::{Event, Link, Span as _, SpanBuilder, SpanKind, Status, Tracer as _};
use opentelemetry::{KeyValue, Value};
use std::borrow::Cow;
use std::time::{Duration, SystemTime};

/// A span of something that is over and whose ids and times are known, such as a run: its journal
/// says when it began, and it has the same ids in whatever process it ends.
///
/// Make one only if [`is_recording`](super::is_recording).
#[derive(Debug, Clone)]
pub struct PastSpan {
    /// Such as `invoke_workflow cairn`.
    pub name: Cow<'static, str>,
    /// The trace, and the span that it belongs under; zero for none.
    pub parent: TraceParent,
    /// Its own id; zero for a random one.
    pub span_id: u64,
    /// What it was to others.
    pub kind: SpanKind,
    /// When it began, in milliseconds since 1970.
    pub start_ms: u64,
    /// When it ended, in milliseconds since 1970.
    pub end_ms: u64,
    /// What is known of it.
    pub attributes: Vec<(&'static str, Value)>,
    /// What happened meanwhile. An exporter takes the first of them, up to its limit for each span.
    pub events: Vec<PastEvent>,
    /// Spans that belong to what it was about; those without a span id are left out.
    pub links: Vec<TraceParent>,
    /// What went wrong, if anything did.
    pub error: Option<String>,
}

/// Something that happened at a moment of a [`PastSpan`].
#[derive(Debug, Clone)]
pub struct PastEvent {
    /// What happened.
    pub name: Cow<'static, str>,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// What is known of it.
    pub attributes: Vec<(&'static str, Value)>,
}

impl PastSpan {
    /// Hands the span to the exporter. Does nothing if there is none, or if whoever began the trace
    /// does not want it recorded.
    pub fn record(self) {
        let Some(tracer) = tracer() else { return };
        if !self.parent.is_sampled {
            return;
        }
        let ids = Ids {
            trace: Some(self.parent.trace_id),
            span: (self.span_id != 0).then_some(self.span_id),
        };
        let (parent, end) = (self.parent.context(), time(self.end_ms));
        let status = self.error.clone().map(Status::error);
        let builder = self.builder();
        let mut span = with_ids(ids, || tracer.build_with_context(builder, &parent));
        if let Some(status) = status {
            span.set_status(status);
        }
        span.end_with_timestamp(end);
    }

    fn builder(self) -> SpanBuilder {
        let events = self.events.into_iter().map(|event| {
            let attributes = attributes(event.attributes);
            Event::new(event.name, time(event.at_ms), attributes, 0)
        });
        let links = self.links.into_iter().map(TraceParent::span_context);
        let links = links.filter(|link| link.is_valid()).map(Link::with_context);
        SpanBuilder::from_name(self.name)
            .with_kind(self.kind)
            .with_start_time(time(self.start_ms))
            .with_attributes(attributes(self.attributes))
            .with_events(events.collect())
            .with_links(links.collect())
    }
}

fn attributes(known: Vec<(&'static str, Value)>) -> Vec<KeyValue> {
    let known = known.into_iter();
    known
        .map(|(key, value)| KeyValue::new(key, value))
        .collect()
}

fn time(unix_ms: u64) -> SystemTime {
    let since = Duration::from_millis(unix_ms);
    // What lies beyond the end of time is as good as its beginning.
    let time = SystemTime::UNIX_EPOCH.checked_add(since);
    time.unwrap_or(SystemTime::UNIX_EPOCH)
}
