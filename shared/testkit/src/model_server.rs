//! A language model's server for another process, which answers as the test says.

use serde_json::{Value, json};
use std::fmt::Debug;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What came in a request.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Method and path.
    pub line: String,
    /// Headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Value,
    /// The body as it came.
    pub text: String,
}

impl Asked {
    /// The value of a header, empty without one.
    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }
}

/// How one request is answered.
#[derive(Debug, Clone)]
pub enum Answer {
    /// With this status and this body.
    Whole(u16, String),
    /// With the beginning of a body; then the connection is closed.
    Cut(String),
    /// With a stream of parts, each of which comes when the test says; see [`parts`].
    Parts(Parts),
    /// Not at all; the connection is closed when the client goes.
    Hold,
    /// With this body after a time, unless the client goes before.
    Late(Late),
}

/// A reply that takes a time.
#[derive(Debug, Clone)]
pub struct Late {
    /// Time from the request to the reply.
    pub after: Duration,
    /// The body, with status 200.
    pub body: String,
    /// Dropped before the reply is sent, or as soon as the client goes: counts the requests that are open.
    pub open: Arc<dyn Debug + Send + Sync>,
}

/// The parts of a reply, on their way to a client.
#[derive(Debug, Clone)]
pub struct Parts(Arc<Mutex<Receiver<String>>>);

/// Lets the parts of a reply go, one by one. If it is dropped before the end was said, the stream
/// is cut.
#[derive(Debug)]
pub struct Release(Sender<String>);

/// A reply of which each part comes when the test lets it go.
pub fn parts() -> (Release, Answer) {
    let (release, parts) = channel();
    let parts = Parts(Arc::new(Mutex::new(parts)));
    (Release(release), Answer::Parts(parts))
}

impl Release {
    /// Some more text.
    pub fn text(&self, text: &str) {
        let delta = json!({"content": text});
        self.send(&json!({"choices": [{"index": 0, "delta": delta}]}).to_string());
    }

    /// The end of the reply, with calls as names with their arguments.
    pub fn end(self, prefix: &str, calls: &[(&str, Value)]) {
        let message = message(prefix, "", calls);
        let mut delta = message;
        delta["content"] = Value::Null;
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish_reason(calls)});
        self.send(&json!({"choices": [choice]}).to_string());
        self.send("[DONE]");
        self.put(String::new());
    }

    fn send(&self, data: &str) {
        self.put(format!("data: {data}\n\n"));
    }

    /// A client that is gone needs nothing any more.
    fn put(&self, part: String) {
        let _ = self.0.send(part);
    }
}

/// A server on a free port of the loopback interface. It serves until the test's process ends.
#[derive(Debug)]
pub struct ModelServer {
    url: String,
}

impl ModelServer {
    /// Starts a server. What it answers is decided by the request's body.
    pub fn start(answer: impl Fn(&Value) -> Answer + Send + Sync + 'static) -> Self {
        Self::seeing(move |asked| answer(&asked.body))
    }

    /// Starts a server. What it answers is decided by the whole request.
    pub fn seeing(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}/v1", listener.local_addr().expect("its address"));
        let answer = Arc::new(answer);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let answer = Arc::clone(&answer);
                // A client that goes away in the middle is part of what is tested.
                thread::spawn(move || drop(serve(stream, &*answer)));
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
    let message = message(prefix, text, calls);
    let choice = json!({"index": 0, "message": message, "finish_reason": finish_reason(calls)});
    let body = json!({
        "model": "served-1",
        "choices": [choice],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 100},
    });
    Answer::Whole(200, body.to_string())
}

/// A reply in Anthropic's protocol: its blocks, and the tokens that the server counted.
pub fn anthropic_reply(content: &[Value], usage: &Value) -> Answer {
    let has_calls = content.iter().any(|block| block["type"] == "tool_use");
    let body = json!({
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "served-1",
        "content": content,
        "stop_reason": if has_calls { "tool_use" } else { "end_turn" },
        "usage": usage,
    });
    Answer::Whole(200, body.to_string())
}

fn message(prefix: &str, text: &str, calls: &[(&str, Value)]) -> Value {
    let call = |(index, (name, arguments)): (usize, &(&str, Value))| {
        json!({"index": index, "id": format!("{prefix}-{index}"), "type": "function",
            "function": {"name": name, "arguments": arguments.to_string()}})
    };
    let calls: Vec<Value> = calls.iter().enumerate().map(call).collect();
    json!({"role": "assistant", "content": text, "tool_calls": calls})
}

fn finish_reason(calls: &[(&str, Value)]) -> &'static str {
    match calls.is_empty() {
        true => "stop",
        false => "tool_calls",
    }
}

fn serve(stream: TcpStream, answer: &dyn Fn(&Asked) -> Answer) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let Some(asked) = receive(&mut reader) else {
        return Ok(());
    };
    let head = |status: u16, kind: &str, rest: &str| {
        format!(
            "HTTP/1.1 {status} Said\r\nconnection: close\r\ncontent-type: {kind}\r\n{rest}\r\n\r\n"
        )
    };
    let length = |length: usize| format!("content-length: {length}");
    let json = "application/json";
    let whole = match answer(&asked) {
        Answer::Whole(status, body) => head(status, json, &length(body.len())) + &body,
        Answer::Cut(body) => head(200, json, &length(body.len() + 1000)) + &body,
        Answer::Hold => return reader.read(&mut [0]).map(drop),
        Answer::Late(late) => {
            let stays = stays(reader.get_ref(), late.after);
            drop(late.open);
            if !stays {
                return Ok(());
            }
            head(200, json, &length(late.body.len())) + &late.body
        }
        Answer::Parts(parts) => {
            let head = head(200, "text/event-stream", "transfer-encoding: chunked");
            return stream_parts(&mut reader.into_inner(), &head, &parts);
        }
    };
    reader.into_inner().write_all(whole.as_bytes())
}

/// Waits this long, and tells whether the client is still there. A client that stays sends nothing more.
fn stays(stream: &TcpStream, time: Duration) -> bool {
    if time.is_zero() {
        return true;
    }
    let waited = stream
        .set_read_timeout(Some(time))
        .and_then(|()| stream.peek(&mut [0]));
    match waited {
        Ok(bytes) => bytes > 0,
        Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    }
}

/// An empty part is the end, as it is on the wire.
fn stream_parts(stream: &mut TcpStream, head: &str, parts: &Parts) -> std::io::Result<()> {
    stream.write_all(head.as_bytes())?;
    let parts = parts.0.lock().expect("nobody else has it");
    while let Ok(part) = parts.recv() {
        let chunk = format!("{:x}\r\n{part}\r\n", part.len());
        stream.write_all(chunk.as_bytes())?;
    }
    Ok(())
}

fn receive(reader: &mut BufReader<TcpStream>) -> Option<Asked> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|&read| read > 0)?;
        match line.trim() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let mut lines = lines.into_iter();
    let line = lines.next()?;
    let pairs = lines.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    });
    let mut asked = Asked {
        line,
        headers: pairs.collect(),
        body: Value::Null,
        text: String::new(),
    };
    let mut body = vec![0; asked.header("content-length").parse().unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    asked.text = String::from_utf8(body).ok()?;
    asked.body = serde_json::from_str(&asked.text).ok()?;
    Some(asked)
}
