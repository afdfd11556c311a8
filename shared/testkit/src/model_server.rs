//! A language model's server for another process, which answers as the test says.

use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// How one request is answered.
#[derive(Debug, Clone)]
pub enum Answer {
    /// With this status and this body.
    Whole(u16, String),
    /// With the beginning of a body; then the connection is closed.
    Cut(String),
    /// Not at all; the connection is closed when the client goes.
    Hold,
}

/// A server on a free port of the loopback interface. It serves until the test's process ends.
#[derive(Debug)]
pub struct ModelServer {
    url: String,
}

impl ModelServer {
    /// Starts a server. What it answers is decided by the request's body.
    pub fn start(answer: impl Fn(&Value) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}/v1", listener.local_addr().expect("its address"));
        let answer = Arc::new(answer);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let answer = Arc::clone(&answer);
                thread::spawn(move || serve(stream, &*answer));
            }
        });
        Self { url }
    }

    /// What a provider is configured with.
    pub fn url(&self) -> &str {
        &self.url
    }
}

/// A reply of a model: a text, and calls as names with their arguments. The ids of calls begin
/// with `prefix`.
pub fn reply(prefix: &str, text: &str, calls: &[(&str, Value)]) -> Answer {
    let call = |(index, (name, arguments)): (usize, &(&str, Value))| {
        json!({"id": format!("{prefix}-{index}"), "type": "function",
            "function": {"name": name, "arguments": arguments.to_string()}})
    };
    let calls: Vec<Value> = calls.iter().enumerate().map(call).collect();
    let finish = if calls.is_empty() {
        "stop"
    } else {
        "tool_calls"
    };
    let message = json!({"role": "assistant", "content": text, "tool_calls": calls});
    let body = json!({
        "model": "served-1",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 100},
    });
    Answer::Whole(200, body.to_string())
}

/// A client that goes away in the middle is part of what is tested.
fn serve(stream: TcpStream, answer: &dyn Fn(&Value) -> Answer) {
    let mut reader = BufReader::new(stream);
    let Some(body) = receive(&mut reader) else {
        return;
    };
    let (status, body, length) = match answer(&body) {
        Answer::Whole(status, body) => (status, body.clone(), body.len()),
        Answer::Cut(body) => (200, body.clone(), body.len() + 1000),
        Answer::Hold => {
            let _ = reader.read(&mut [0]);
            return;
        }
    };
    let head = format!(
        "HTTP/1.1 {status} Said\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n"
    );
    let mut stream = reader.into_inner();
    let _ = stream.write_all((head + &body).as_bytes());
}

fn receive(reader: &mut BufReader<TcpStream>) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|&read| read > 0)?;
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}
