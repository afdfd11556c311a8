//! What JavaScript and Python write and JSON forbids.

use std::borrow::Cow;

/// The text with half a pair of surrogates as U+FFFD, bytes of control characters as escapes, and no number
/// in place of `NaN` and the infinities. It may be no JSON for other reasons.
pub(super) fn repaired(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let mut repaired = String::new();
    let (mut at, mut copied) = (0, 0);
    let mut in_string = false;
    while at < bytes.len() {
        let (length, replacement) = match in_string {
            true => in_text(&bytes[at..]),
            false => outside(&bytes[at..]),
        };
        in_string ^= bytes[at] == b'"';
        if let Some(replacement) = replacement {
            repaired.push_str(&text[copied..at]);
            repaired.push_str(&replacement);
            copied = at + length;
        }
        at += length;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    repaired.push_str(&text[copied..]);
    Cow::Owned(repaired)
}

/// How many bytes belong together at the beginning, and what stands for them instead.
type Step = (usize, Option<Cow<'static, str>>);

fn in_text(rest: &[u8]) -> Step {
    match rest {
        [b'\\', b'u', ..] => match (unit(rest), unit(rest.get(6..).unwrap_or_default())) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => (12, None),
            (Some(0xd800..=0xdfff), _) => (6, Some("\\ufffd".into())),
            _ => (2, None),
        },
        [b'\\', _, ..] => (2, None),
        [control @ 0..=0x1f, ..] => (1, Some(format!("\\u{control:04x}").into())),
        _ => (1, None),
    }
}

fn outside(rest: &[u8]) -> Step {
    for word in ["NaN", "-Infinity", "Infinity"] {
        if rest.starts_with(word.as_bytes()) {
            return (word.len(), Some("null".into()));
        }
    }
    (1, None)
}

/// The code unit of an escape at the beginning.
fn unit(rest: &[u8]) -> Option<u16> {
    let digits = rest.strip_prefix(b"\\u")?.get(..4)?;
    // A sign would be a digit to the parser.
    let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| is_hex)?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_forbidden_is_replaced() {
        for (text, expected) in [
            (r#"{"a":"b","n":-1}"#, None),
            (r#"["😀","\ud83d\ude00","\\ud83d","\\\"NaN"]"#, None),
            (r#"["\ud83d"]"#, Some(r#"["\ufffd"]"#)),
            (r#"["\ude00\ud83d"]"#, Some(r#"["\ufffd\ufffd"]"#)),
            (
                r#"["\uD83D\uD83D\uDE00"]"#,
                Some(r#"["\ufffd\uD83D\uDE00"]"#),
            ),
            ("[\"a\tb\0\"]", Some(r#"["a\u0009b\u0000"]"#)),
            ("[NaN,-Infinity,Infinity]", Some("[null,null,null]")),
            // Cut in all places.
            (r#"["\"#, None),
            (r#"["\u"#, None),
            (r#"["\ud83"#, None),
            (r#"["\ud83d"#, Some(r#"["\ufffd"#)),
            (r#"["\ud83d\ude0"#, Some(r#"["\ufffd\ude0"#)),
        ] {
            assert_eq!(repaired(text), expected.unwrap_or(text), "{text}");
        }
    }
}
