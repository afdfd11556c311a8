//! Server-sent events of a server, whose data are frames.
//!
//! The library's reader gives up a stream at bytes that are no UTF-8, and leaves out data that it cannot
//! read. What this one gives it is readable.

use super::frame::{Endless, Gathered, Room, is_unreadable};
use rmcp::model::{RequestId, ServerJsonRpcMessage};
use sse_stream::Sse;

/// Most bytes of a field that is no data.
const MOST_FIELD: usize = 64 * 1024;

/// Reads a stream as its bytes come.
pub(crate) struct Events {
    /// The beginning of a line whose end has not come, up to the data that it has.
    line: Vec<u8>,
    /// What is being read of the line.
    state: State,
    after_cr: bool,
    has_data: bool,
    /// An event had an id, after which the server can continue.
    has_id: bool,
    /// Its data go to `frame`.
    event: Sse,
    frame: Gathered,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The name of the field, and the value of one that is no data.
    Line,
    /// The value of a data field. `true` before its first byte, which may be a blank.
    Data(bool),
}

impl Events {
    /// The events of a stream; `asked` is the request that it answers.
    pub(crate) fn new(asked: Option<RequestId>, room: Room) -> Self {
        Self {
            line: Vec::new(),
            state: State::Line,
            after_cr: false,
            has_data: false,
            has_id: false,
            event: Sse::default(),
            frame: Gathered::new(asked, room),
        }
    }

    /// The events that end within these bytes.
    ///
    /// # Errors
    /// One has no end.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> Result<Vec<Sse>, Endless> {
        let mut ended = Vec::new();
        let mut rest = bytes;
        while let Some(first) = rest.first() {
            if self.after_cr && *first == b'\n' {
                self.after_cr = false;
                rest = &rest[1..];
                continue;
            }
            self.after_cr = false;
            let end = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
            self.piece(&rest[..end.unwrap_or(rest.len())])?;
            let Some(end) = end else {
                break;
            };
            self.after_cr = rest[end] == b'\r';
            self.line_ends(&mut ended);
            rest = &rest[end + 1..];
        }
        Ok(ended)
    }

    /// The last event, which may lack its end.
    pub(crate) fn end(&mut self) -> Vec<Sse> {
        let mut ended = Vec::new();
        // An empty line would end the event.
        if self.state != State::Line || !self.line.is_empty() {
            self.line_ends(&mut ended);
        }
        self.event_ends(&mut ended, true);
        ended
    }

    fn piece(&mut self, piece: &[u8]) -> Result<(), Endless> {
        match self.state {
            State::Data(is_first) => {
                let blank = is_first && piece.first() == Some(&b' ');
                self.state = State::Data(is_first && piece.is_empty());
                self.frame.add(&piece[usize::from(blank)..])
            }
            State::Line => {
                let room = MOST_FIELD.saturating_sub(self.line.len());
                let (kept, _) = piece.split_at(piece.len().min(room));
                let before = self.line.len();
                self.line.extend_from_slice(kept);
                if !self.line.starts_with(b"data:") {
                    return Ok(());
                }
                let data = "data:".len();
                self.line.clear();
                self.state = State::Data(true);
                // Lines of data are joined by line ends.
                if std::mem::replace(&mut self.has_data, true) {
                    self.frame.add(b"\n")?;
                }
                self.piece(&piece[data - before..])
            }
        }
    }

    fn line_ends(&mut self, ended: &mut Vec<Sse>) {
        let state = std::mem::replace(&mut self.state, State::Line);
        let line = std::mem::take(&mut self.line);
        match (state, line.as_slice()) {
            (State::Data(_), _) => {}
            (State::Line, b"") => self.event_ends(ended, false),
            (State::Line, line) => self.field(&String::from_utf8_lossy(line)),
        }
    }

    fn field(&mut self, line: &str) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "event" => self.event.event = Some(value.to_owned()),
            "id" if !value.contains('\0') => self.event.id = Some(value.to_owned()),
            "retry" => self.event.retry = value.parse().ok(),
            _ => {}
        }
    }

    fn event_ends(&mut self, ended: &mut Vec<Sse>, is_cut: bool) {
        self.has_data = false;
        let messages = self.frame.end();
        let event = std::mem::take(&mut self.event);
        let is_whole = !messages.is_empty() && !messages.iter().any(is_unreadable);
        if is_cut && !is_whole && (self.has_id || messages.is_empty()) {
            // With its id the server would continue after it.
            return;
        }
        self.has_id |= event.id.is_some();
        let is_message = matches!(event.event.as_deref(), None | Some("" | "message"));
        let messages = messages.into_iter().filter(|_| is_message);
        let data: Vec<String> = messages.filter_map(|it| data(&it)).collect();
        if data.is_empty() && event == Sse::default() {
            return;
        }
        let mut first = Some(event);
        for data in data {
            let event = first.take().unwrap_or_default();
            ended.push(event.data(data));
        }
        // It may have an id, or say when to come again.
        ended.extend(first);
    }
}

fn data(message: &ServerJsonRpcMessage) -> Option<String> {
    // What was read can be written.
    serde_json::to_string(message).ok()
}

/// Events that give a message to the library.
pub(crate) fn of_messages(messages: &[ServerJsonRpcMessage]) -> Vec<Sse> {
    let data = messages.iter().filter_map(data);
    data.map(|data| Sse::default().data(data)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = r#"{"jsonrpc":"2.0","id":7,"result":{"content":[]}}"#;

    #[test]
    fn events_are_read_however_they_are_cut_and_end() {
        let data = |text: &str| Sse::default().data(text);
        let answer = of_messages(&super::super::frame::read(ANSWER.as_bytes(), None));
        let written = answer[0].data.clone().unwrap();
        for (stream, expected) in [
            (format!("data: {ANSWER}\n\n"), vec![data(&written)]),
            (format!("data:{ANSWER}\r\n\r\n"), vec![data(&written)]),
            (format!("data: {ANSWER}\r\r"), vec![data(&written)]),
            // Without its end.
            (format!("data: {ANSWER}"), vec![data(&written)]),
            (
                format!(": comment\nevent: message\nid: 1\nretry: 5\ndata: {ANSWER}\n\n"),
                vec![data(&written).event("message").id("1").retry(5)],
            ),
            // In two lines.
            (
                format!("data: {}\ndata: {}\n\n", &ANSWER[..10], &ANSWER[10..]),
                vec![data(&written)],
            ),
            ("id: 1\ndata:\n\n".to_owned(), vec![Sse::default().id("1")]),
            (
                format!("event: ping\ndata: {ANSWER}\n\n"),
                vec![Sse::default().event("ping")],
            ),
            ("\n\n: only a comment\n\ndata\n\n".to_owned(), vec![]),
        ] {
            for size in [1, 2, 7, 1_000] {
                let mut events = Events::new(None, Room::default());
                let mut found = Vec::new();
                for piece in stream.as_bytes().chunks(size) {
                    found.extend(events.add(piece).unwrap());
                }
                found.extend(events.end());
                assert_eq!(found, expected, "{stream:?} by {size}");
            }
        }
    }

    #[test]
    fn an_event_that_is_cut_off_is_left_to_the_server_that_sends_it_again() {
        let read = |stream: &str| {
            let mut events = Events::new(Some(RequestId::Number(7)), Room::default());
            let mut found = events.add(stream.as_bytes()).unwrap();
            found.extend(events.end());
            found
        };
        let cut = &ANSWER[..ANSWER.len() - 5];
        for cut in [cut, &cut[..5], format!("{cut}\n").as_str()] {
            let found = read(&format!("id: 1\ndata:\n\nid: 2\ndata: {cut}"));
            assert_eq!(found, [Sse::default().id("1")]);
        }
        // Only its end is missing.
        let found = read(&format!("id: 1\ndata:\n\nid: 2\ndata: {ANSWER}"));
        assert_eq!(found.len(), 2);
        // A stream without ids is not continued.
        let found = read(&format!("data: {cut}"));
        let data = found[0].data.clone().unwrap();
        assert!(data.contains("it is no JSON"), "{data}");
    }
}
