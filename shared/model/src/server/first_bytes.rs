//! What a body is, by its first bytes: servers label streams as JSON, and JSON as a stream.

use cairn_http::{HttpError, HttpResponse};
use http::header::CONTENT_TYPE;
use serde::de::IgnoredAny;

/// The byte order mark that some servers write before all else.
const MARK: &[u8] = b"\xef\xbb\xbf";
/// The beginnings of a line of a stream. The last one is a comment, and `error` is no field of the
/// standard.
const FIELDS: [&[u8]; 6] = [b"data:", b"event:", b"error:", b"id:", b"retry:", b":"];

/// What a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Server-sent events.
    Events,
    /// JSON, or a page in its place.
    Whole,
}

/// Reads until the first bytes show what the body is. Returns them too. The label decides only where
/// the bytes do not.
///
/// # Errors
/// Those of [`HttpResponse::chunk`].
pub(super) async fn read(response: &mut HttpResponse) -> Result<(Kind, Vec<u8>), HttpError> {
    let label = label_of(response);
    let mut head = Vec::new();
    let kind = loop {
        if let Some(kind) = kind_of(&head, label) {
            break kind;
        }
        let Some(chunk) = response.chunk().await? else {
            break label;
        };
        head.extend_from_slice(&chunk);
        // Whitespace at the beginning means nothing, and a server may send it without end.
        let start = begin(&head).len();
        head.drain(..head.len() - start);
    };
    Ok((kind, head))
}

/// A line of a stream begins like this.
pub(super) fn is_field(line: &[u8]) -> bool {
    FIELDS.iter().any(|name| line.starts_with(name))
}

/// The JSON of a body. Some servers end even a whole reply with `data: [DONE]`.
pub(super) fn json_of(body: &[u8]) -> &[u8] {
    let mut values = serde_json::Deserializer::from_slice(body).into_iter::<IgnoredAny>();
    if !matches!(values.next(), Some(Ok(_))) {
        return body;
    }
    let (json, rest) = body.split_at(values.byte_offset());
    match is_field(rest.trim_ascii_start()) {
        true => json,
        false => body,
    }
}

fn label_of(response: &HttpResponse) -> Kind {
    let label = response.headers().get(CONTENT_TYPE);
    let is = |name: &[u8]| label.is_some_and(|label| label.as_bytes().starts_with(name));
    match is(b"application/json") || is(b"text/html") {
        true => Kind::Whole,
        false => Kind::Events,
    }
}

/// The bytes after whitespace and byte order marks.
fn begin(mut head: &[u8]) -> &[u8] {
    loop {
        let text = head.trim_ascii_start();
        let text = text.strip_prefix(MARK).unwrap_or(text);
        if text.len() == head.len() {
            return text;
        }
        head = text;
    }
}

/// None while more bytes are needed.
fn kind_of(head: &[u8], label: Kind) -> Option<Kind> {
    let text = begin(head);
    let may_begin = |name: &&[u8]| name.starts_with(text);
    match text.first() {
        Some(b'{' | b'[' | b'<') => Some(Kind::Whole),
        _ if is_field(text) => Some(Kind::Events),
        _ if MARK.starts_with(text) || FIELDS.iter().any(may_begin) => None,
        _ => Some(label),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_decide_and_else_the_label() {
        let kind = |head: &[u8]| kind_of(head, Kind::Whole);
        for head in [
            &b"data: x"[..],
            b"\xef\xbb\xbfdata:",
            b"\r\nevent:",
            b": hi",
        ] {
            assert_eq!(kind(head), Some(Kind::Events), "{head:?}");
        }
        for head in [&b"{"[..], b" [", b"\xef\xbb\xbf{", b"<html>", b"datum"] {
            assert_eq!(kind(head), Some(Kind::Whole), "{head:?}");
        }
        for head in [&b""[..], b" ", b"da", b"\xef", b"\xef\xbb\xbf"] {
            assert_eq!(kind(head), None, "{head:?}");
        }
        assert_eq!(kind_of(b"datum", Kind::Events), Some(Kind::Events));
    }

    #[test]
    fn json_ends_where_a_line_of_a_stream_follows() {
        assert_eq!(json_of(b"{\"a\":1}\n\ndata: [DONE]\n\n"), b"{\"a\":1}");
        for body in ["{\"a\":1}\n", "{\"a\":1}{}", "{\"a\"", ""] {
            assert_eq!(json_of(body.as_bytes()), body.as_bytes());
        }
    }
}
