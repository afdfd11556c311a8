//! Which request a frame answers, also if the frame cannot be read or is too long to be kept.

use rmcp::model::RequestId;

/// Most bytes of a key or an id.
const MOST_TOKEN: usize = 64;

/// Reads the keys and the id of an object, and nothing below it, as its bytes come.
#[derive(Debug, Default)]
pub(super) struct Scan {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    /// Bytes of the key or the value at the top that is being read.
    token: Vec<u8>,
    /// The key whose value is being read is `id`.
    is_id: bool,
    id: Option<RequestId>,
    /// It has a key that only messages have.
    is_message: bool,
    /// It asks, and answers nothing.
    has_method: bool,
    /// About how many values it has, at all depths.
    values: usize,
}

impl Scan {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.step(*byte);
        }
    }

    pub(super) fn values(&self) -> usize {
        self.values
    }

    /// The request that it answers; `asked` if it answers one that it does not name.
    pub(super) fn answers(&self, asked: Option<&RequestId>) -> Option<RequestId> {
        let is_answer = self.is_message && !self.has_method;
        let id = self.id.as_ref().or(asked);
        id.filter(|_| is_answer).cloned()
    }

    fn step(&mut self, byte: u8) {
        if self.in_string {
            self.keep(byte);
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.keep(byte);
            }
            b'{' | b'[' => {
                self.depth += 1;
                self.values += 1;
                self.token.clear();
            }
            b'}' | b']' => {
                self.value_ends();
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 => self.key_ends(),
            b',' => {
                self.values += 1;
                self.value_ends();
            }
            _ if byte.is_ascii_whitespace() => {}
            _ => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.token.len() < MOST_TOKEN {
            self.token.push(byte);
        }
    }

    fn key_ends(&mut self) {
        let key = std::mem::take(&mut self.token);
        self.is_id = key == b"\"id\"";
        match key.as_slice() {
            b"\"jsonrpc\"" | b"\"result\"" | b"\"error\"" => self.is_message = true,
            b"\"method\"" => self.has_method = true,
            _ => {}
        }
    }

    fn value_ends(&mut self) {
        if self.depth != 1 {
            return;
        }
        let value = std::mem::take(&mut self.token);
        if std::mem::take(&mut self.is_id) {
            self.id = std::str::from_utf8(&value).ok().and_then(number);
        }
    }
}

/// The number of a request: all that this client makes have one. Some servers write it as a text.
pub(super) fn number(id: &str) -> Option<RequestId> {
    match serde_json::from_str::<RequestId>(id).ok()? {
        RequestId::String(text) => text.trim().parse().ok().map(RequestId::Number),
        number => Some(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_in_pieces_names_the_request_that_it_answers() {
        for (frame, id) in [
            (r#"{"jsonrpc":"2.0","id":7,"result":{"id":8"#, Some(7)),
            (
                r#"{"result":{"id":8,"x":["}"]},"jsonrpc":"2.0","id":"7"}"#,
                Some(7),
            ),
            (r#"{"result":"a\"},\"id\":8","id" : 7.0 }"#, Some(7)),
            // More digits might follow.
            (r#"{"jsonrpc":"2.0","id":7"#, None),
            (r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#, None),
            (r#"{"level":"info","id":7,"msg":"x"}"#, None),
            (r#"{"jsonrpc":"2.0","id":"x","error":{}}"#, None),
            (r#"[{"jsonrpc":"2.0","id":7,"result":{}}]"#, None),
        ] {
            let mut scan = Scan::default();
            for piece in frame.as_bytes().chunks(3) {
                scan.add(piece);
            }
            assert_eq!(scan.answers(None), id.map(RequestId::Number), "{frame}");
        }
    }
}
