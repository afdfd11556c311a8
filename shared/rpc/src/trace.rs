//! Traces: the W3C `traceparent` of a call, and spans that belong under it.
//!
//! A [`TraceParent`] is read, written and passed on whether or not spans are recorded, so that a run
//! can always be told which trace is its own. See <https://www.w3.org/TR/trace-context/>.
//!
//! Spans and events of a trace are those of the target [`TARGET`], at the level INFO:
//!
//! ```
//! use cairn_rpc::trace::{self, TraceParent};
//!
//! # fn call(caller: Option<TraceParent>) -> tonic::Request<()> {
//! let span = tracing::info_span!(target: trace::TARGET, "execute_tool", otel.kind = "internal");
//! if let Some(caller) = caller {
//!     caller.adopt(&span); // Before the span is entered.
//! }
//! let mut request = tonic::Request::new(());
//! if let Some(own) = TraceParent::of_span(&span).or(caller) {
//!     own.set_on(&mut request);
//! }
//! # request
//! # }
//! ```
//!
//! They are for exporters of traces alone and never in the logs. Without an exporter they are
//! disabled where they stand, and everything here is a look at an atomic.

mod given;
mod past;
mod span;

pub(crate) use given::other_processes;
pub use given::{
    given_span_id, given_trace_id, install, is_content_wanted, is_passed_on, is_recording,
    is_sampled,
};
pub use opentelemetry::Value;
pub use opentelemetry::trace::SpanKind;
pub use past::{PastEvent, PastSpan};

use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;
use tonic::metadata::AsciiMetadataValue;

/// The target of spans and events that are for traces only, and never for logs.
pub const TARGET: &str = "cairn::trace";

/// The metadata key of a [`TraceParent`].
pub const TRACE_HEADER: &str = "traceparent";

/// A trace, and the span in it that something belongs under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceParent {
    /// Never zero.
    pub trace_id: u128,
    /// Zero where no span is known.
    pub span_id: u64,
    /// Whoever began the trace wants it recorded.
    pub is_sampled: bool,
}

/// The text is not a traceparent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is not a W3C traceparent; 00-<32 hexadecimal digits>-<16>-<2> is allowed")]
pub struct NotATraceParent;

impl TraceParent {
    /// The trace of a call, if its caller told of one that can be read.
    pub fn of<T>(request: &tonic::Request<T>) -> Option<Self> {
        let value = request.metadata().get(TRACE_HEADER)?;
        value.to_str().ok()?.parse().ok()
    }

    /// Tells whoever gets the request that it belongs to this trace, under this span.
    pub fn set_on<T>(self, request: &mut tonic::Request<T>) {
        // Digits and hyphens are always a value; were they none, the call would go without.
        if let Ok(value) = AsciiMetadataValue::try_from(self.to_string()) {
            request.metadata_mut().insert(TRACE_HEADER, value);
        }
    }

    /// The id of the span of this trace that `name` stands for: the same one in every process, and
    /// never zero. It is the first eight bytes of the SHA-256 of the trace's id (sixteen bytes, big
    /// endian) and the name.
    pub fn derived_child(&self, name: &str) -> u64 {
        let digest = Sha256::new()
            .chain_update(self.trace_id.to_be_bytes())
            .chain_update(name);
        let mut first = [0; 8];
        first.copy_from_slice(&digest.finalize()[..8]);
        u64::from_be_bytes(first).max(1)
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            trace_id,
            span_id,
            is_sampled,
        } = self;
        write!(
            f,
            "00-{trace_id:032x}-{span_id:016x}-{:02x}",
            u8::from(*is_sampled)
        )
    }
}

impl FromStr for TraceParent {
    type Err = NotATraceParent;

    /// Reads version 00, and of later versions what they share with it, as the standard asks.
    fn from_str(text: &str) -> Result<Self, NotATraceParent> {
        let mut fields = text.split('-');
        let mut field = |digits| {
            let field = fields.next().filter(|field| field.len() == digits);
            let is_digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
            field
                .filter(|field| field.bytes().all(is_digit))
                .ok_or(NotATraceParent)
        };
        let (version, trace, span, flags) = (field(2)?, field(32)?, field(16)?, field(2)?);
        let has_more = fields.next().is_some();
        let trace_id = u128::from_str_radix(trace, 16).map_err(|_| NotATraceParent)?;
        if trace_id == 0 || version == "ff" || (version == "00" && has_more) {
            return Err(NotATraceParent);
        }
        let flags = u8::from_str_radix(flags, 16).map_err(|_| NotATraceParent)?;
        Ok(Self {
            trace_id,
            span_id: u64::from_str_radix(span, 16).map_err(|_| NotATraceParent)?,
            is_sampled: flags & 1 == 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    const DERIVED: u64 = 0xe8e1_0903_681c_59cc;

    #[test]
    fn a_traceparent_is_written_as_it_is_read() {
        let read: TraceParent = TEXT.parse().unwrap();
        assert_eq!(read.trace_id, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!(
            (read.span_id, read.is_sampled),
            (0x00f0_67aa_0ba9_02b7, true)
        );
        assert_eq!(read.to_string(), TEXT);
        let later: TraceParent = format!("01{}-new", &TEXT[2..]).parse().unwrap();
        assert_eq!(later, read);
    }

    #[test]
    fn a_request_carries_it() {
        let parent: TraceParent = TEXT.parse().unwrap();
        let mut request = tonic::Request::new(());
        assert_eq!(TraceParent::of(&request), None);
        parent.set_on(&mut request);
        let child = TraceParent {
            span_id: parent.derived_child("step 1"),
            ..parent
        };
        assert_eq!(TraceParent::of(&request), Some(parent));
        child.set_on(&mut request);
        assert_eq!(TraceParent::of(&request), Some(child));
        assert_eq!(request.metadata().get_all(TRACE_HEADER).iter().count(), 1);
    }

    #[test]
    fn a_derived_span_is_the_same_everywhere() {
        let parent: TraceParent = TEXT.parse().unwrap();
        // printf '%s' 4bf92f3577b34da6a3ce929d0e0e4736 | xxd -r -p | (cat; printf run) | sha256sum
        assert_eq!(parent.derived_child("run"), DERIVED);
        let elsewhere = TraceParent {
            span_id: 0,
            is_sampled: false,
            ..parent
        };
        assert_eq!(elsewhere.derived_child("run"), DERIVED);
        assert_ne!(parent.derived_child("step"), DERIVED);
        let other = TraceParent {
            trace_id: 1,
            ..parent
        };
        assert_ne!(other.derived_child("run"), DERIVED);
    }

    #[test]
    fn what_is_none_is_refused() {
        let zero = format!("00-{:032}-00f067aa0ba902b7-01", 0);
        let more = format!("{TEXT}-more");
        let upper = TEXT.to_uppercase();
        let bad = [
            "",
            "00",
            &TEXT[..54],
            &zero,
            &more,
            &upper,
            &format!("ff{}", &TEXT[2..]),
        ];
        for text in bad {
            assert_eq!(
                text.parse::<TraceParent>(),
                Err(NotATraceParent),
                "{text:?}"
            );
        }
    }
}
