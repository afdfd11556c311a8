//! The trace that a call belongs to: the W3C `traceparent` in its metadata.
//!
//! Only the text is handled here, so that a run can be told which trace is its own whether or not
//! spans are recorded. See <https://www.w3.org/TR/trace-context/>.

use std::fmt;
use std::str::FromStr;

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
