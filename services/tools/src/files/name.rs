//! Paths as text.
//!
//! A name may hold anything but `/` and NUL: line ends, tabs, bytes that are no UTF-8. Results are
//! lines with tabs, so a path with such a name is shown in double quotes with backslash escapes,
//! as git does. A path given in that form means the same file, so what was shown can be given back.

use crate::error::ToolError;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The path on one line, without tabs and without anything invisible.
pub(crate) fn show(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.starts_with('"') && !text.chars().any(is_odd) => text.to_owned(),
        _ => quote(bytes),
    }
}

/// The path that `given` means.
///
/// # Errors
/// [`ToolError::InvalidArguments`] if it is empty, holds a NUL, or is badly quoted.
pub(crate) fn read(given: &str) -> Result<PathBuf, ToolError> {
    let quoted = given
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    let bytes = match quoted {
        Some(inner) => unquote(inner).ok_or_else(|| {
            ToolError::InvalidArguments(format!(
                "path {given} has an unknown escape; use \\t \\n \\r \\\\ \\\" \\xNN or \\u{{N}}"
            ))
        })?,
        None => given.as_bytes().to_vec(),
    };
    if bytes.is_empty() {
        return Err(ToolError::InvalidArguments(
            "the path is empty; give one, or '.' for the whole workspace".to_owned(),
        ));
    }
    if bytes.contains(&0) {
        return Err(ToolError::InvalidArguments(
            "the path holds a NUL character, which no file name can have".to_owned(),
        ));
    }
    Ok(PathBuf::from(OsString::from_vec(bytes)))
}

/// Characters that break lines, end cells, or change how the text around them looks.
pub(crate) fn is_odd(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}')
}

fn quote(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\t' => text.push_str("\\t"),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\\' => text.push_str("\\\\"),
                '"' => text.push_str("\\\""),
                // Writing to a String cannot fail.
                odd if is_odd(odd) => _ = write!(text, "\\u{{{:x}}}", u32::from(odd)),
                plain => text.push(plain),
            }
        }
        for byte in chunk.invalid() {
            _ = write!(text, "\\x{byte:02x}");
        }
    }
    text.push('"');
    text
}

fn unquote(inner: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        rest = &rest[at + 1..];
        let kind = rest.chars().next()?;
        rest = &rest[kind.len_utf8()..];
        match kind {
            't' => bytes.push(b'\t'),
            'n' => bytes.push(b'\n'),
            'r' => bytes.push(b'\r'),
            '\\' => bytes.push(b'\\'),
            '"' => bytes.push(b'"'),
            'x' => {
                let digits = rest.get(..2)?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
                rest = &rest[2..];
            }
            'u' => {
                let (digits, after) = rest.strip_prefix('{')?.split_once('}')?;
                let c = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
                bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                rest = after;
            }
            _ => return None,
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn plain_paths_are_shown_as_they_are() {
        for plain in [
            "a.md",
            "docs/a b.md",
            "ä/€/🦀.txt",
            "a\\b",
            "a\"b",
            "x:1:y",
            " a ",
        ] {
            assert_eq!(show(Path::new(plain)), plain);
            assert_eq!(read(plain).unwrap(), Path::new(plain));
        }
    }

    #[test]
    fn odd_paths_stay_on_one_line_and_can_be_given_back() {
        let odd: [&[u8]; 12] = [
            b"a\nb",
            b"a\tb\t12\t1\ttext",
            b"a\rb",
            b"\"quoted\"",
            b"\"half",
            b"bad\xff\xfe\\x.txt",
            b"\xc3",
            b"\x1b[31mred",
            b"del\x7f",
            "line\u{2028}sep".as_bytes(),
            "bidi\u{202e}txt.exe".as_bytes(),
            "zero\u{200b}width\u{feff}".as_bytes(),
        ];
        for bytes in odd {
            let path = Path::new(OsStr::from_bytes(bytes));
            let shown = show(path);
            assert!(shown.starts_with('"') && shown.ends_with('"'), "{shown}");
            assert!(!shown.chars().any(is_odd), "{shown:?}");
            assert_eq!(read(&shown).unwrap(), path, "{shown}");
        }
    }

    #[test]
    fn bad_paths_are_refused_in_words() {
        for (given, word) in [
            ("", "empty"),
            ("\"\"", "empty"),
            ("a\0b", "NUL"),
            ("\"a\\x00\"", "NUL"),
            ("\"a\\q\"", "escape"),
            ("\"a\\x1\"", "escape"),
            ("\"a\\u{d800}\"", "escape"),
            ("\"a\\u41\"", "escape"),
            ("\"a\\\"", "escape"),
        ] {
            let Err(ToolError::InvalidArguments(message)) = read(given) else {
                panic!("{given:?} is accepted");
            };
            assert!(message.contains(word), "{given:?}: {message}");
        }
    }
}
