//! The bytes of a terminal, cut into pieces that a line editor may read at once. Pure.

use std::collections::VecDeque;
use std::str::from_utf8;

const ESCAPE: char = '\x1b';
const PASTE: &str = "\x1b[200~";
const PASTE_END: &str = "\x1b[201~";
/// Enter of a number pad.
const PAD_ENTER: &str = "\x1bOM";
/// Ctrl-C.
const INTERRUPT: u8 = 0x03;
/// The key after this one is a character, whatever it does otherwise.
const QUOTE: char = '\x16';

/// What a line editor may read at once.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Whole characters.
    pub(super) bytes: Vec<u8>,
    /// The last key may end the line.
    pub(super) ends_line: bool,
}

/// Cuts what a terminal sends. A paste is not cut: its line breaks end no line. It is text: the line editor would
/// drop letters after its control characters.
#[derive(Debug)]
pub(super) struct Pieces {
    ends: Vec<u8>,
    /// The beginning of a character whose other bytes have not come.
    begun: Vec<u8>,
    /// The latest keys outside of pastes, as many as a mark has.
    latest: VecDeque<char>,
    is_paste: bool,
    /// Characters of the paste that may begin the mark of its end.
    mark: String,
}

impl Pieces {
    /// Each of these keys may end a line.
    pub(super) fn new(ends: Vec<u8>) -> Self {
        Self {
            ends,
            begun: Vec::new(),
            latest: VecDeque::new(),
            is_paste: false,
            mark: String::new(),
        }
    }

    /// Cuts what was read next.
    pub(super) fn cut(&mut self, read: &[u8]) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut keys = String::new();
        if self.is_paste && read.first() == Some(&INTERRUPT) {
            // The end of the paste may be lost, and the editor would take every key as part of it.
            keys.push_str(PASTE_END);
            self.is_paste = false;
            self.mark.clear();
            self.begun.clear();
        }
        let text = self.whole_characters(read);
        let mut rest = text.chars().peekable();
        while let Some(key) = rest.next() {
            if self.is_paste {
                keys.push_str(&self.pasted(key));
                continue;
            }
            // CR LF is one Enter.
            let is_second = key == '\n' && self.latest.back() == Some(&'\r');
            self.note(key);
            if !is_second {
                let is_within = rest.peek().is_some_and(|next| !self.ends_line(*next));
                if key == '\t' && is_within {
                    // A person who has a command completed waits for that.
                    keys.push(QUOTE);
                }
                keys.push(key);
            }
            let ends_line = self.ends_line(key) || self.has_come(PAD_ENTER);
            if ends_line && !keys.is_empty() {
                let bytes = std::mem::take(&mut keys).into_bytes();
                pieces.push(Piece { bytes, ends_line });
            }
        }
        if !keys.is_empty() {
            let (bytes, ends_line) = (keys.into_bytes(), false);
            pieces.push(Piece { bytes, ends_line });
        }
        pieces
    }

    /// Takes a character of a paste, and returns what the editor may have by now.
    fn pasted(&mut self, character: char) -> String {
        if character == ESCAPE {
            let text = std::mem::take(&mut self.mark);
            self.mark.push(ESCAPE);
            return text_of(&text);
        }
        self.mark.push(character);
        if self.mark == PASTE_END {
            self.is_paste = false;
            return std::mem::take(&mut self.mark);
        }
        match PASTE_END.starts_with(&self.mark) {
            true => String::new(),
            false => text_of(&std::mem::take(&mut self.mark)),
        }
    }

    fn note(&mut self, key: char) {
        self.latest.push_back(key);
        if self.latest.len() > PASTE.len() {
            self.latest.pop_front();
        }
        self.is_paste = self.has_come(PASTE);
    }

    fn ends_line(&self, key: char) -> bool {
        key.is_ascii() && u8::try_from(key).is_ok_and(|key| self.ends.contains(&key))
    }

    fn has_come(&self, keys: &str) -> bool {
        let latest = self.latest.iter().rev();
        self.latest.len() >= keys.len() && latest.zip(keys.chars().rev()).all(|(a, b)| *a == b)
    }

    /// The characters that are whole by now. The editor would end at a byte that is part of none.
    fn whole_characters(&mut self, read: &[u8]) -> String {
        let mut bytes = std::mem::take(&mut self.begun);
        bytes.extend_from_slice(read);
        let (mut rest, mut text) = (bytes.as_slice(), String::new());
        while let Err(error) = from_utf8(rest) {
            let (valid, others) = rest.split_at(error.valid_up_to());
            text.push_str(&String::from_utf8_lossy(valid));
            let Some(wrong) = error.error_len() else {
                self.begun = others.to_vec();
                return text;
            };
            text.push(char::REPLACEMENT_CHARACTER);
            rest = &others[wrong..];
        }
        text.push_str(&String::from_utf8_lossy(rest));
        text
    }
}

/// What is pasted, without the control characters that are no part of a text.
fn text_of(pasted: &str) -> String {
    let is_text = |it: &char| !it.is_control() || ['\t', '\n', '\r'].contains(it);
    pasted.chars().filter(is_text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pieces of what is read in these parts; `|` stands where the editor may end a line.
    fn cut(read: &[&[u8]]) -> String {
        let mut pieces = Pieces::new(b"\r\n\x03\x04".to_vec());
        let pieces = read.iter().flat_map(|part| pieces.cut(part));
        let shown = pieces.map(|piece| {
            let text = String::from_utf8(piece.bytes).unwrap();
            text + if piece.ends_line { "|" } else { "" }
        });
        shown.collect()
    }

    #[test]
    fn bursts_are_cut_where_a_line_may_end() {
        let table: [(&[&[u8]], &str); 14] = [
            (&[b"one\rtwo\nth"], "one\r|two\n|th"),
            (&[b"one\r\ntwo"], "one\r|two"),
            (&[b"one\r", b"\ntwo"], "one\r|two"),
            (&[b"\n\n"], "\n|\n|"),
            (&[b"a\x03b\x04c"], "a\x03|b\x04|c"),
            (&[b"\x1bOMx"], "\x1bOM|x"),
            (&[b"\x1b[A\x1b[B"], "\x1b[A\x1b[B"),
            (
                &[b"\x1b[200~a\r\nb\n\tc\x1b[201~\rd"],
                "\x1b[200~a\r\nb\n\tc\x1b[201~\r|d",
            ),
            (
                &[b"\x1b[20", b"0~a\rb\x1b[2", b"01~\r"],
                "\x1b[200~a\rb\x1b[201~\r|",
            ),
            (&[b"caf\xc3", b"\xa9"], "café"),
            (&[b"\xf0\x9f", b"\x98", b"\x80\r"], "😀\r|"),
            (&[b"caf\xe9 \xe2\x82\r"], "caf\u{fffd} \u{fffd}\r|"),
            (&[b"a\tb\t\r/con\t"], "a\x16\tb\t\r|/con\t"),
            (&[b"\r", b"\n"], "\r|"),
        ];
        for (read, expected) in table {
            assert_eq!(cut(read), expected, "{read:?}");
        }
    }

    #[test]
    fn a_paste_is_text_however_its_bytes_are_cut() {
        let table = [
            ("a \x1b[31mred\x1b[0m \x07bell", "a [31mred[0m bell"),
            ("\x1b]0;title\x07\x1bOA \x1b\x1b[A\x1b", "]0;titleOA [A"),
            ("\x1b[200~a\x1b[201;b\x1b[20", "[200~a[201;b[20"),
            ("\u{9b}1m\0\x7f\x16\x04é", "1mé"),
            ("one\r\n\ttwo\nthree\r", "one\r\n\ttwo\nthree\r"),
        ];
        for (pasted, text) in table {
            let read = format!("\x1b[200~{pasted}\x1b[201~\rb");
            let expected = format!("\x1b[200~{text}\x1b[201~\r|b");
            for at in 0..read.len() {
                let (first, second) = read.as_bytes().split_at(at);
                assert_eq!(cut(&[first, second]), expected, "{read:?} at {at}");
            }
        }
    }

    #[test]
    fn ctrl_c_at_the_beginning_of_a_read_ends_a_paste() {
        let table: [(&[&[u8]], &str); 6] = [
            (&[b"\x1b[200~a\r", b"\x03"], "\x1b[200~a\r\x1b[201~\x03|"),
            (
                &[b"\x1b[200~", b"\x03\x03\x04"],
                "\x1b[200~\x1b[201~\x03|\x03|\x04|",
            ),
            (
                &[b"\x1b[200~a\x1b[20", b"\x031~\r"],
                "\x1b[200~a\x1b[201~\x03|1~\r|",
            ),
            (
                &[b"\x1b[200~caf\xc3", b"\x03\xa9\r"],
                "\x1b[200~caf\x1b[201~\x03|\u{fffd}\r|",
            ),
            (
                &[b"\x1b[200~a", b"\x03\x1b[200~b\x1b[201~\r"],
                "\x1b[200~a\x1b[201~\x03|\x1b[200~b\x1b[201~\r|",
            ),
            (
                &[b"\x1b[200~a", b"b\x03c\x1b[201~\r"],
                "\x1b[200~abc\x1b[201~\r|",
            ),
        ];
        for (read, expected) in table {
            assert_eq!(cut(read), expected, "{read:?}");
        }
    }
}
