//! The server over HTTP, one connection for each request.

use super::Server;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

/// What SDKs answer to a session that they do not know.
const SESSION_GONE: &str = r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Session not found"}}"#;

/// Serves until the process is killed. The address is the first line of standard output that begins with
/// `http:`.
pub(super) fn serve(server: &Arc<Server>) {
    let address = std::env::vars().find(|(name, _)| name == "MCP_ADDRESS");
    let address = address.map_or("127.0.0.1:0".to_owned(), |it| it.1);
    let listener = TcpListener::bind(address).unwrap();
    println!("\nhttp://{}/mcp", listener.local_addr().unwrap());
    for stream in listener.incoming() {
        let server = server.clone();
        std::thread::spawn(move || {
            // A client that goes away is its own matter.
            _ = answer(&server, stream.unwrap());
        });
    }
}

/// What a client sent.
#[derive(Default)]
struct Request {
    first: String,
    session: String,
    body: Vec<u8>,
}

fn read(server: &Server, stream: &TcpStream) -> std::io::Result<Request> {
    let mut reader = BufReader::new(stream);
    let mut request = Request::default();
    reader.read_line(&mut request.first)?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim().split_once(':') else {
            break;
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().unwrap(),
            "mcp-session-id" => request.session = value.trim().to_owned(),
            "authorization" => server.note(&format!("authorization {}", value.trim())),
            _ => {}
        }
    }
    request.body = vec![0; length];
    reader.read_exact(&mut request.body)?;
    Ok(request)
}

fn answer(server: &Server, mut stream: TcpStream) -> std::io::Result<()> {
    let Request {
        first,
        session,
        body,
    } = read(server, &stream)?;
    if let Ok(message) = serde_json::from_slice::<Value>(&body)
        && let Some(raw) = server.raw(&message)
    {
        return stream.write_all(&raw.to_http(server.is("sse")));
    }
    if server.is("stream") && String::from_utf8_lossy(&body).contains("tools/call") {
        // An event with an id, after which the client may ask for the rest.
        stream.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nid: 1\ndata:\n\n",
        )?;
        stream.flush()?;
        server.note("stream begins");
        std::thread::sleep(std::time::Duration::from_secs(1000));
    }
    let own = std::process::id().to_string();
    let (status, content) = match serde_json::from_slice::<Value>(&body) {
        _ if !first.starts_with("POST") => ("405 Method Not Allowed", String::new()),
        _ if server.is("unauthorized") => (
            "401 Unauthorized\r\nWWW-Authenticate: Bearer",
            String::new(),
        ),
        Err(_) => ("400 Bad Request", String::new()),
        // A session of a process that is gone.
        Ok(message)
            if server.is("session") && message["method"] != "initialize" && session != own =>
        {
            server.note(&format!("unknown session {}", message["method"]));
            match server.is("refuses") {
                true => ("400 Bad Request", SESSION_GONE.to_owned()),
                false => ("404 Not Found", String::new()),
            }
        }
        Ok(message) => match server.handle(&message) {
            Some(answer) => ("200 OK", answer.to_string()),
            // A call without an answer is one that the connection breaks in.
            None if message["method"] == "tools/call" => return Ok(()),
            None => ("202 Accepted", String::new()),
        },
    };
    let header = match server.is("session") {
        true => format!("Mcp-Session-Id: {own}\r\n"),
        false => String::new(),
    };
    let is_stream = server.is("sse") && !content.is_empty();
    let (kind, content) = match is_stream {
        true => ("text/event-stream", format!("data: {content}\n\n")),
        false => ("application/json", content),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{header}Content-Length: {}\r\nConnection: close\r\n\r\n",
        content.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(content.as_bytes())
}
