//! A scripted HTTP/1.1 server, so that clients are tested against real sockets.
//!
//! Each request is answered with the next [`Reply`] of the script; the last one is repeated. One
//! connection serves one request.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// A server on a free port of the loopback interface; it ends when it is dropped.
#[derive(Debug)]
pub struct TestServer {
    url: String,
    seen: Arc<Mutex<Vec<SeenRequest>>>,
    gone: Arc<Semaphore>,
    task: JoinHandle<()>,
}

/// What a client sent.
#[derive(Debug, Clone, Default)]
pub struct SeenRequest {
    /// Method, path and version.
    pub line: String,
    /// Headers in the order of their arrival, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body as text.
    pub body: String,
}

/// How one request is answered.
#[derive(Debug, Clone)]
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    pieces: Vec<Vec<u8>>,
    end: End,
}

#[derive(Debug, Clone, Copy)]
enum End {
    Whole,
    Cut,
    Silence,
}

impl TestServer {
    /// Starts a server that follows `script`, which has at least one reply.
    ///
    /// # Errors
    /// No port is free, or the script is empty.
    pub async fn start(script: Vec<Reply>) -> io::Result<Self> {
        if script.is_empty() {
            return Err(io::Error::other("the script has no reply"));
        }
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let gone = Arc::new(Semaphore::new(0));
        let task = tokio::spawn(serve(
            listener,
            script,
            Arc::clone(&seen),
            Arc::clone(&gone),
        ));
        Ok(Self {
            url,
            seen,
            gone,
            task,
        })
    }

    /// `http://127.0.0.1:<port>`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The requests so far, oldest first.
    pub fn requests(&self) -> Vec<SeenRequest> {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl TestServer {
    /// Waits until a client has closed a connection on which the server was silent; each one
    /// counts once.
    pub async fn client_gone(&self) {
        if let Ok(permit) = self.gone.acquire().await {
            permit.forget();
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl SeenRequest {
    /// The first header of this name, written in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(header, _)| header == name);
        found.map(|(_, value)| value.as_str())
    }
}

impl Reply {
    /// An answer whose body is sent piece by piece, each as one HTTP chunk.
    pub fn pieces<P: AsRef<[u8]>>(status: u16, pieces: &[P]) -> Self {
        Self {
            status,
            headers: Vec::new(),
            pieces: pieces.iter().map(|piece| piece.as_ref().to_vec()).collect(),
            end: End::Whole,
        }
    }

    /// An answer in JSON.
    pub fn json(status: u16, body: impl AsRef<[u8]>) -> Self {
        Self::pieces(status, &[body]).header("content-type", "application/json")
    }

    /// A stream of server-sent events in these pieces.
    pub fn events<P: AsRef<[u8]>>(pieces: &[P]) -> Self {
        Self::pieces(200, pieces).header("content-type", "text/event-stream")
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Closes the connection after the last piece, in the middle of the body.
    #[must_use]
    pub fn then_cut(mut self) -> Self {
        self.end = End::Cut;
        self
    }

    /// Says nothing after the last piece until the client closes. With no piece at all, not even
    /// the head is sent.
    #[must_use]
    pub fn then_silence(mut self) -> Self {
        self.end = End::Silence;
        self
    }
}

async fn serve(
    listener: TcpListener,
    script: Vec<Reply>,
    seen: Arc<Mutex<Vec<SeenRequest>>>,
    gone: Arc<Semaphore>,
) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let Ok(request) = receive(&mut stream).await else {
            continue;
        };
        let turn = {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.push(request);
            seen.len() - 1
        };
        let reply = script[turn.min(script.len() - 1)].clone();
        // A client that goes away in the middle is part of what is tested.
        let gone = Arc::clone(&gone);
        tokio::spawn(async move {
            drop(answer(stream, &reply).await);
            if matches!(reply.end, End::Silence) {
                gone.add_permits(1);
            }
        });
    }
}

async fn receive(stream: &mut TcpStream) -> io::Result<SeenRequest> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
        read_some(stream, &mut bytes).await?;
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).into_owned();
    let mut lines = head.split("\r\n");
    let mut request = SeenRequest {
        line: lines.next().unwrap_or_default().to_owned(),
        ..SeenRequest::default()
    };
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let header = (name.to_ascii_lowercase(), value.trim().to_owned());
        request.headers.push(header);
    }
    let length = request.header("content-length").unwrap_or("0").parse();
    let length: usize = length.map_err(io::Error::other)?;
    while bytes.len() < head_end + 4 + length {
        read_some(stream, &mut bytes).await?;
    }
    request.body = String::from_utf8_lossy(&bytes[head_end + 4..]).into_owned();
    Ok(request)
}

async fn read_some(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> io::Result<()> {
    match stream.read_buf(bytes).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

async fn answer(mut stream: TcpStream, reply: &Reply) -> io::Result<()> {
    stream.set_nodelay(true)?;
    if !(reply.pieces.is_empty() && matches!(reply.end, End::Silence)) {
        stream.write_all(head(reply).as_bytes()).await?;
    }
    for piece in reply.pieces.iter().filter(|piece| !piece.is_empty()) {
        let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
        chunk.extend_from_slice(piece);
        chunk.extend_from_slice(b"\r\n");
        stream.write_all(&chunk).await?;
    }
    match reply.end {
        End::Whole => stream.write_all(b"0\r\n\r\n").await,
        End::Cut => Ok(()),
        End::Silence => stream.read(&mut [0]).await.map(drop),
    }
}

fn head(reply: &Reply) -> String {
    let mut head = format!(
        "HTTP/1.1 {} Scripted\r\nconnection: close\r\ntransfer-encoding: chunked\r\n",
        reply.status
    );
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head + "\r\n"
}
