//! Lines of a stream that the parser of events would drop: servers put their errors there.
//!
//! The field `error`, and JSON without any field, become data of an event. All other lines pass as they
//! are. Only the line that has not ended is held here, so that what is in memory is the open event, as
//! without this.

use super::first_bytes::is_field;
use serde::de::IgnoredAny;

const ERROR: &[u8] = b"error:";

#[derive(Debug, Default)]
pub(super) struct Lines {
    /// The beginning of the line that has not ended.
    line: Vec<u8>,
    /// The last byte was CR: an LF after it ends no other line.
    after_cr: bool,
    /// The open event has data.
    has_data: bool,
    /// The lines of JSON without a field are not at their end.
    in_json: bool,
    ended: bool,
}

impl Lines {
    /// The lines that are whole with these bytes, each ended by LF.
    pub(super) fn take(&mut self, chunk: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(chunk.len());
        let mut rest = chunk;
        if !rest.is_empty() && std::mem::take(&mut self.after_cr) {
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(at) = rest.iter().position(|&byte| byte == b'\n' || byte == b'\r') {
            self.line.extend_from_slice(&rest[..at]);
            self.end_line(&mut out);
            let is_cr = rest[at] == b'\r';
            rest = &rest[at + 1..];
            if is_cr {
                self.after_cr = rest.is_empty();
                rest = rest.strip_prefix(b"\n").unwrap_or(rest);
            }
        }
        self.line.extend_from_slice(rest);
        out
    }

    /// The last lines, once: a server that ends a stream may leave out the end of its last event.
    pub(super) fn end(&mut self) -> Option<Vec<u8>> {
        if std::mem::replace(&mut self.ended, true) {
            return None;
        }
        let mut out = Vec::new();
        if !self.line.is_empty() {
            self.end_line(&mut out);
        }
        self.end_event(&mut out);
        Some(out)
    }

    fn end_line(&mut self, out: &mut Vec<u8>) {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            self.end_event(out);
        } else if let Some(value) = line.strip_prefix(ERROR) {
            self.end_data(out);
            self.has_data = true;
            put(out, b"event: error\ndata:", value);
        } else if is_field(&line) {
            if self.in_json {
                self.end_data(out);
            }
            self.has_data |= line.starts_with(b"data");
            put(out, b"", &line);
        } else if self.in_json {
            put(out, b"data: ", &line);
        } else if begins_json(line.trim_ascii_start()) {
            self.end_data(out);
            (self.has_data, self.in_json) = (true, true);
            put(out, b"data: ", &line);
            // More lines belong to it only if it is not whole.
            if serde_json::from_slice::<IgnoredAny>(&line).is_ok() {
                self.end_event(out);
            }
        } else {
            put(out, b"", &line);
        }
    }

    /// Ends the open event if it has data. One that has only a name continues: its data may follow
    /// without a field.
    fn end_data(&mut self, out: &mut Vec<u8>) {
        if self.has_data {
            self.end_event(out);
        }
    }

    fn end_event(&mut self, out: &mut Vec<u8>) {
        (self.has_data, self.in_json) = (false, false);
        out.push(b'\n');
    }
}

/// A line of JSON, or the end of a stream. Other lines in brackets are signs of life.
fn begins_json(line: &[u8]) -> bool {
    line.starts_with(b"{") || line.starts_with(b"[{") || line == b"[DONE]"
}

fn put(out: &mut Vec<u8>, field: &[u8], value: &[u8]) {
    out.extend_from_slice(field);
    out.extend_from_slice(value);
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of a stream that comes in pieces of each length.
    fn lines(stream: &str) -> String {
        let read = |length: usize| {
            let mut lines = Lines::default();
            let mut out = Vec::new();
            for chunk in stream.as_bytes().chunks(length) {
                out.extend(lines.take(chunk));
            }
            out.extend(lines.end().expect("an end"));
            assert_eq!(lines.end(), None);
            String::from_utf8(out).expect("text")
        };
        let all = read(1);
        assert_eq!(all, read(2));
        assert_eq!(all, read(stream.len()));
        all
    }

    #[test]
    fn lines_of_events_pass_as_they_are() {
        let stream = ": hi\n\nevent: a\ndata: {\ndata:}\n\nupstream\n\n";
        assert_eq!(lines(stream), format!("{stream}\n"));
        for end in ["\r\n", "\r"] {
            assert_eq!(lines(&stream.replace('\n', end)), format!("{stream}\n"));
        }
        assert_eq!(lines("data: x"), "data: x\n\n");
    }

    #[test]
    fn errors_outside_of_events_become_events() {
        let cases = [
            ("error: {}\n\n", "event: error\ndata: {}\n\n\n"),
            (
                "data: x\nerror: y\n",
                "data: x\n\nevent: error\ndata: y\n\n",
            ),
            ("data: x\n{\"a\":1}\n", "data: x\n\ndata: {\"a\":1}\n\n\n"),
            (
                "{\"a\":1}\n{\"b\":1}\n",
                "data: {\"a\":1}\n\ndata: {\"b\":1}\n\n\n",
            ),
            (
                "{\n \"a\":\n{}\n}",
                "data: {\ndata:  \"a\":\ndata: {}\ndata: }\n\n",
            ),
            ("{\n}\ndata: x\n", "data: {\ndata: }\n\ndata: x\n\n"),
            (
                "event: error\n{\"a\":1}\n\n",
                "event: error\ndata: {\"a\":1}\n\n\n\n",
            ),
        ];
        for (stream, expected) in cases {
            assert_eq!(lines(stream), expected, "{stream:?}");
        }
    }
}
