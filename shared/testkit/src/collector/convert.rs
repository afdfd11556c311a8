//! From messages to what tests look at.

use super::{SpanEvent, TraceSpan};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use std::collections::BTreeMap;
use std::fmt::Write as _;

pub(super) fn spans(request: ExportTraceServiceRequest) -> Vec<TraceSpan> {
    let mut found = Vec::new();
    for sender in request.resource_spans {
        let resource = sender.resource.map(|resource| resource.attributes);
        let resource = attributes(resource.unwrap_or_default());
        let spans = sender.scope_spans.into_iter().flat_map(|of| of.spans);
        found.extend(spans.map(|sent| span(sent, resource.clone())));
    }
    found
}

fn span(sent: Span, resource: BTreeMap<String, String>) -> TraceSpan {
    let kind = match sent.kind() {
        SpanKind::Unspecified | SpanKind::Internal => "internal",
        SpanKind::Server => "server",
        SpanKind::Client => "client",
        SpanKind::Producer => "producer",
        SpanKind::Consumer => "consumer",
    };
    let events = sent.events.into_iter().map(|event| SpanEvent {
        name: event.name,
        at_ns: event.time_unix_nano,
        attributes: attributes(event.attributes),
    });
    let links = sent.links.iter();
    let links = links.map(|link| (hex(&link.trace_id), hex(&link.span_id)));
    let failed = |code| code == StatusCode::Error as i32;
    TraceSpan {
        resource,
        trace_id: hex(&sent.trace_id),
        span_id: hex(&sent.span_id),
        parent_span_id: hex(&sent.parent_span_id),
        name: sent.name,
        kind,
        start_ns: sent.start_time_unix_nano,
        end_ns: sent.end_time_unix_nano,
        attributes: attributes(sent.attributes),
        events: events.collect(),
        links: links.collect(),
        error: sent
            .status
            .filter(|status| failed(status.code))
            .map(|status| status.message),
    }
}

fn attributes(sent: Vec<KeyValue>) -> BTreeMap<String, String> {
    let sent = sent.into_iter();
    sent.map(|pair| (pair.key, pair.value.map(text).unwrap_or_default()))
        .collect()
}

fn text(sent: AnyValue) -> String {
    match sent.value {
        Some(Value::StringValue(text)) => text,
        Some(Value::BoolValue(value)) => value.to_string(),
        Some(Value::IntValue(value)) => value.to_string(),
        Some(Value::DoubleValue(value)) => value.to_string(),
        Some(Value::ArrayValue(values)) => {
            let values: Vec<String> = values.values.into_iter().map(text).collect();
            values.join(",")
        }
        other => format!("{other:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
