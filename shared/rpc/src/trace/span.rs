//! From a [`TraceParent`] to a span of this process, and back.

use super::TraceParent;
use super::given::{Ids, with_ids};
use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

impl TraceParent {
    /// Makes the span a child of this one, wherever that is. If no span is known here, the span
    /// begins in this trace without a parent.
    ///
    /// To be called before the span is entered and before anything is asked of it: a span that has
    /// begun stays where it is. Does nothing to a span that nobody records.
    pub fn adopt(self, span: &Span) {
        if span.is_disabled() || span.set_parent(self.context()).is_err() {
            return;
        }
        if self.span_id == 0 {
            // A parent without an id is none, and its trace would be forgotten: so the span begins
            // now, with the trace's id as a given one.
            let ids = Ids {
                trace: Some(self.trace_id),
                span: None,
            };
            with_ids(ids, || span.context());
        }
    }

    /// What to send along so that others belong under this span; none if nobody records it.
    pub fn of_span(span: &Span) -> Option<Self> {
        if span.is_disabled() {
            return None;
        }
        let context = span.context();
        let span = context.span();
        let own = span.span_context();
        (own.is_valid() && own.is_sampled()).then(|| Self {
            trace_id: u128::from_be_bytes(own.trace_id().to_bytes()),
            span_id: u64::from_be_bytes(own.span_id().to_bytes()),
            is_sampled: true,
        })
    }

    /// Links the span to this one, which belongs to what it is about without being its parent. Does
    /// nothing if no span is known here or nobody records the span.
    pub fn link_on(self, span: &Span) {
        if !span.is_disabled() {
            span.add_link(self.span_context());
        }
    }

    pub(super) fn span_context(self) -> SpanContext {
        SpanContext::new(
            TraceId::from(self.trace_id),
            SpanId::from(self.span_id),
            TraceFlags::default().with_sampled(self.is_sampled),
            true,
            TraceState::NONE,
        )
    }

    /// Valid for a sampler even where it has no span: it tells whether the trace is wanted.
    pub(super) fn context(self) -> Context {
        Context::new().with_remote_span_context(self.span_context())
    }
}

#[cfg(test)]
mod tests;
