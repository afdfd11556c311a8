//! Escaping of text that came from somebody else, before it goes into a message or a log.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a character could break a line, drive a terminal, or show a text other than it is.
///
/// These are the control characters, the two Unicode line separators, the marks that change the
/// direction of writing, and characters without any width. The joiners that emoji and several
/// scripts need (U+200C, U+200D) are left alone.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{061C}'
            | '\u{200B}'
            | '\u{200E}' | '\u{200F}'
            | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}'
            | '\u{FEFF}'
            | '\u{FFF9}'..='\u{FFFB}'
            | '\u{E0000}'..='\u{E007F}')
}

/// The text with every [hidden](is_hidden) character written out, as `\n` or `\u{202e}`.
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        push_escaped(&mut escaped, c);
    }
    Cow::Owned(escaped)
}

/// The escaped text, cut to at most `max_bytes` bytes; a cut text ends with `…`.
pub fn clip(text: &str, max_bytes: usize) -> String {
    // Escaping never shortens, so what lies beyond the limit can be left out before it.
    let head = &text[..text.floor_char_boundary(max_bytes)];
    let escaped = escape(head);
    if head.len() == text.len() && escaped.len() <= max_bytes {
        return escaped.into_owned();
    }
    let room = max_bytes.saturating_sub('…'.len_utf8());
    let mut clipped = escaped[..escaped.floor_char_boundary(room)].to_owned();
    clipped.push('…');
    clipped
}

fn push_escaped(out: &mut String, c: char) {
    match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        c if is_hidden(c) => {
            // Writing into a String cannot fail.
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        }
        c => out.push(c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_written_out() {
        let cases = [
            ("a\r\nb", "a\\r\\nb"),
            ("\x1b[31mred\x1b[0m", "\\u{1b}[31mred\\u{1b}[0m"),
            ("\x1b]8;;http://x\x07y", "\\u{1b}]8;;http://x\\u{7}y"),
            (
                "a\u{2028}b\u{2029}c\u{85}d",
                "a\\u{2028}b\\u{2029}c\\u{85}d",
            ),
            ("user\u{202e}nimda", "user\\u{202e}nimda"),
            ("zero\u{200b}width\u{feff}", "zero\\u{200b}width\\u{feff}"),
            ("nul\0", "nul\\u{0}"),
        ];
        for (text, want) in cases {
            assert_eq!(escape(text), want);
        }
    }

    #[test]
    fn ordinary_text_is_left_alone() {
        for text in [
            "",
            "plain",
            "Grüße, Каирн, 石標",
            "👩\u{200d}🚀",
            "back\\slash",
        ] {
            assert!(matches!(escape(text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn a_clipped_text_keeps_to_its_limit_and_says_so() {
        assert_eq!(clip("short", 5), "short");
        assert_eq!(clip("longer", 5), "lo…");
        assert_eq!(clip("ééé", 5), "é…");
        assert_eq!(clip("\n\n\n", 5), "\\n…");
        for limit in 3..40 {
            assert!(clip(&"ü\u{1b}\n".repeat(20), limit).len() <= limit);
        }
    }
}
