//! Answers of the tables, byte by byte as they are there.

use super::Server;
use crate::frames::{answer, page};
use serde_json::Value;
use std::io::Write as _;

/// What is sent for one request.
pub(super) struct Raw {
    pub(super) sent: Vec<Vec<u8>>,
    status: u16,
    content_type: Option<String>,
}

impl Server {
    /// The answer of a table, if the request is for one.
    pub(super) fn raw(&self, message: &Value) -> Option<Raw> {
        let (id, params) = (message["id"].to_string(), &message["params"]);
        match message["method"].as_str()? {
            "tools/call" => {
                let entry = params["arguments"]["entry"].as_str()?;
                let (entry, sent) = answer(entry, &id)?;
                self.note(&format!("call {}", entry.name));
                Some(Raw {
                    sent,
                    status: entry.status,
                    content_type: entry.content_type,
                })
            }
            "tools/list" => {
                let name = self.modes.iter().find_map(|it| it.strip_prefix("list:"))?;
                let sent = vec![page(name, params["cursor"].as_str(), &id)?];
                Some(Raw {
                    sent,
                    status: 200,
                    content_type: None,
                })
            }
            _ => None,
        }
    }

    pub(super) fn send_raw(&self, lines: &[Vec<u8>]) {
        let mut out = std::io::stdout().lock();
        for line in lines {
            out.write_all(line).unwrap();
            out.write_all(b"\n").unwrap();
        }
        out.flush().unwrap();
    }
}

impl Raw {
    /// The whole answer: a body, or a stream of events.
    pub(super) fn to_http(&self, is_stream: bool) -> Vec<u8> {
        let kind = match (&self.content_type, is_stream) {
            (Some(kind), _) => kind,
            (None, true) => "text/event-stream",
            (None, false) => "application/json",
        };
        let mut body = Vec::new();
        for frame in &self.sent {
            match is_stream {
                true => body.extend([&b"event: message\ndata: "[..], frame, b"\n\n"].concat()),
                false => body.extend_from_slice(frame),
            }
        }
        let kind = match kind {
            "" => String::new(),
            kind => format!("Content-Type: {kind}\r\n"),
        };
        let status = self.status;
        let head = format!(
            "HTTP/1.1 {status} Scripted\r\n{kind}Content-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        [head.into_bytes(), body].concat()
    }
}
