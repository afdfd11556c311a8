//! A file as a text: its encoding, its size, its front matter and what follows that.

use crate::fault::{AgentError, Fault};
use cairn_engine::text::without_bom;

/// Most bytes of the file of an agent, and of the front matter of any file.
pub const MAX_FILE: usize = 64 * 1024;
/// The line before and after front matter.
const MARK: &str = "---";

/// The text of a file.
///
/// # Errors
/// Bytes that are no UTF-8, with the line of the first one.
pub fn decode<'a>(path: &str, bytes: &'a [u8]) -> Result<&'a str, AgentError> {
    const ALLOWED: &str = "a text in UTF-8";
    let is_utf16 = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    if is_utf16 {
        return Err(AgentError::one(
            path,
            Fault::new(0, "", "is in UTF-16", ALLOWED),
        ));
    }
    std::str::from_utf8(bytes).map_err(|error| {
        let line = line_after(&bytes[..error.valid_up_to()]);
        AgentError::one(path, Fault::new(line, "", "is no text in UTF-8", ALLOWED))
    })
}

/// The number of the line that begins or continues after these bytes.
fn line_after(bytes: &[u8]) -> u64 {
    let breaks = bytes.iter().filter(|byte| **byte == b'\n');
    breaks.fold(1, |line, _| line + 1)
}

/// Front matter, and the text that follows it.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) front: Option<Front>,
    /// Without blank lines around it.
    pub(crate) body: String,
}

/// Front matter.
#[derive(Debug)]
pub(crate) struct Front {
    pub(crate) source: String,
    /// Lines of the file before it.
    pub(crate) before: u64,
}

impl Document {
    /// The document of a text of at most so many bytes.
    ///
    /// # Errors
    /// A text that is too long or no text, and front matter that is too long or has no end.
    pub(crate) fn of(text: &str, most: usize) -> Result<Self, Fault> {
        if text.len() > most {
            let problem = format!("has {} bytes", text.len());
            return Err(Fault::new(0, "", problem, format!("at most {most}")));
        }
        let text = normalised(text)?;
        let (front, body) = split(&text)?;
        let bytes = front.as_ref().map_or(0, |front| front.source.len());
        if bytes > MAX_FILE {
            let problem = format!("has front matter of {bytes} bytes");
            return Err(Fault::new(0, "", problem, format!("at most {MAX_FILE}")));
        }
        Ok(Self {
            front,
            body: trimmed(body).to_owned(),
        })
    }
}

/// A text with one kind of line breaks, so that a checkout on Windows is the same file.
///
/// # Errors
/// A character that no text has.
pub(crate) fn normalised(text: &str) -> Result<String, Fault> {
    let text = without_bom(text).replace("\r\n", "\n").replace('\r', "\n");
    match text.find('\0') {
        None => Ok(text),
        Some(at) => {
            let line = line_after(&text.as_bytes()[..at]);
            Err(Fault::new(line, "", "has a character of value 0", "text"))
        }
    }
}

fn split(text: &str) -> Result<(Option<Front>, &str), Fault> {
    let mut opened: Option<(usize, u64)> = None;
    let mut end = 0;
    for (line, number) in text.split_inclusive('\n').zip(1..) {
        let start = end;
        end += line.len();
        let is_mark = line.trim_end() == MARK;
        match opened {
            // Lines without text do not hide front matter: what it limits would be lost unseen.
            None if line.trim().is_empty() => {}
            None if is_mark => opened = Some((end, number)),
            None => break,
            Some((from, before)) if is_mark => {
                let source = text[from..start].to_owned();
                return Ok((Some(Front { source, before }), &text[end..]));
            }
            Some(_) => {}
        }
    }
    let Some((_, line)) = opened else {
        return Ok((None, text));
    };
    let problem = "begins front matter that no line `---` ends";
    let allowed = "a line `---` after it; a rule at the beginning of a text is `***`";
    Err(Fault::new(line, "", problem, allowed))
}

/// Without blank lines around it. The first line keeps its indent.
pub(crate) fn trimmed(text: &str) -> &str {
    let text = text.trim_end();
    let blank = text
        .split_inclusive('\n')
        .take_while(|line| line.trim().is_empty());
    let start: usize = blank.map(str::len).sum();
    &text[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The front matter, the lines before it, and the body.
    fn parts(text: &str) -> (Option<(String, u64)>, String) {
        let document = Document::of(text, MAX_FILE).unwrap();
        let front = document.front.map(|front| (front.source, front.before));
        (front, document.body)
    }

    #[test]
    fn front_matter_stands_between_two_marks_at_the_beginning() {
        let front = |source: &str, before| Some((source.to_owned(), before));
        let body = |text: &str| text.to_owned();
        assert_eq!(
            parts("---\na: 1\n---\nB\n"),
            (front("a: 1\n", 1), body("B"))
        );
        assert_eq!(parts("---\n---"), (front("", 1), body("")));
        assert_eq!(
            parts("\n \n---  \na: 1\n---\t\n\n  B\nC\n\n"),
            (front("a: 1\n", 3), body("  B\nC"))
        );
        assert_eq!(
            parts("---\na: |\n  ---\n---\n---\nB"),
            (front("a: |\n  ---\n", 1), body("---\nB"))
        );
        for text in [
            "",
            "\n",
            "B\n---\na: 1\n---\n",
            " ---\na: 1\n---",
            "----\n",
            "--- x\n---",
        ] {
            assert_eq!(parts(text), (None, body(trimmed(text))), "{text:?}");
        }
    }

    #[test]
    fn line_breaks_of_windows_and_the_mark_of_an_editor_change_nothing() {
        let text = "---\na: 1\n---\nB\n\nC";
        assert_eq!(
            parts(&format!("\u{feff}{}", text.replace('\n', "\r\n"))),
            parts(text)
        );
        assert_eq!(parts(&text.replace('\n', "\r")), parts(text));
    }

    #[test]
    fn what_is_no_text_is_refused() {
        let error = |text: &str| Document::of(text, MAX_FILE).unwrap_err().to_string();
        assert_eq!(
            error("\n---\na: 1\n"),
            "line 2: begins front matter that no line `---` ends (allowed: a line `---` after it; a rule at \
             the beginning of a text is `***`)"
        );
        assert_eq!(
            error("a\r\nb\0"),
            "line 2: has a character of value 0 (allowed: text)"
        );
        let long = "a".repeat(MAX_FILE + 1);
        assert_eq!(error(&long), "has 65537 bytes (allowed: at most 65536)");
        assert!(Document::of(&long[1..], MAX_FILE).is_ok());
        assert!(Document::of(&long, MAX_FILE + 1).is_ok());
    }

    #[test]
    fn front_matter_is_no_longer_than_the_file_of_an_agent() {
        let of = |bytes: usize| {
            let text = format!("---\n{}\n---\nB", "a".repeat(bytes - 1));
            Document::of(&text, 4 * MAX_FILE).map_err(|fault| fault.to_string())
        };
        assert!(of(MAX_FILE).is_ok());
        assert_eq!(
            of(MAX_FILE + 1).unwrap_err(),
            "has front matter of 65537 bytes (allowed: at most 65536)"
        );
    }

    #[test]
    fn bytes_are_a_text_in_utf_8_or_an_error_with_its_line() {
        assert_eq!(decode("a.md", "é\u{feff}".as_bytes()).unwrap(), "é\u{feff}");
        let error = |bytes: &[u8]| decode("a.md", bytes).unwrap_err().to_string();
        assert_eq!(
            error(b"a\n\xc3("),
            "a.md:2: is no text in UTF-8 (allowed: a text in UTF-8)"
        );
        assert_eq!(
            error(b"\xff\xfea\0"),
            "a.md: is in UTF-16 (allowed: a text in UTF-8)"
        );
    }
}
