//! Formats an event as usual, then writes out whatever should not reach the reader as it is.

use cairn_rpc::text::{escape, is_hidden};
use std::borrow::Cow;
use std::fmt;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

pub(super) struct Escaped<F> {
    inner: F,
    escape: fn(&str) -> Cow<'_, str>,
}

impl<F> Escaped<F> {
    pub(super) fn text(inner: F) -> Self {
        Self { inner, escape }
    }

    /// JSON has escapes of its own for what its writer leaves alone.
    pub(super) fn json(inner: F) -> Self {
        Self {
            inner,
            escape: escape_json,
        }
    }
}

impl<F, S, N> FormatEvent<S, N> for Escaped<F>
where
    F: FormatEvent<S, N>,
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = String::new();
        self.inner
            .format_event(context, Writer::new(&mut line), event)?;
        let line = line.strip_suffix('\n').unwrap_or(&line);
        writeln!(writer, "{}", (self.escape)(line))
    }
}

fn escape_json(line: &str) -> Cow<'_, str> {
    if !line.contains(is_hidden) {
        return Cow::Borrowed(line);
    }
    let mut escaped = String::with_capacity(line.len() + 16);
    for c in line.chars() {
        if is_hidden(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                escaped.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}
