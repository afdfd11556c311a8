//! Accepted connections: limited in number, made to speak up soon, and cut when told.

use super::listener::Listener;
use futures::Stream;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::server::Connected;

/// Connections of one listener at a time; further ones wait to be accepted.
const MAX_CONNECTIONS: usize = 1024;
/// The opening of HTTP/2 must be there within this time.
const OPENING_TIME: Duration = Duration::from_secs(10);
/// Length of `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n`.
const OPENING_BYTES: usize = 24;
/// Pause after a failed accept, so that a full table of files is not met with a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The other end of a connection: an extension of each request that came over a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// A TCP client.
    Tcp(SocketAddr),
    /// A process of this machine, over a Unix socket.
    Unix,
}

/// The connections of a listener, each of which ends when `cut` is cancelled.
pub(super) fn incoming(
    listener: Listener,
    cut: CancellationToken,
) -> impl Stream<Item = io::Result<Connection>> {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    futures::stream::unfold((listener, slots, cut), async |(listener, slots, cut)| {
        // The semaphore is never closed, so this ends the stream only in theory.
        let slot = Arc::clone(&slots).acquire_owned().await.ok()?;
        let (io, peer) = accept(&listener).await;
        let connection = Connection {
            io,
            peer,
            cut: Box::pin(cut.clone().cancelled_owned()),
            opening: Some(Opening {
                missing: OPENING_BYTES,
                end: Box::pin(tokio::time::sleep(OPENING_TIME)),
            }),
            _slot: slot,
        };
        Some((Ok(connection), (listener, slots, cut)))
    })
}

async fn accept(listener: &Listener) -> (Io, Peer) {
    loop {
        let accepted = match listener {
            Listener::Tcp(listener) => listener.accept().await.and_then(|(stream, peer)| {
                stream.set_nodelay(true)?;
                Ok((Io::Tcp(stream), Peer::Tcp(peer)))
            }),
            Listener::Unix(listener) => {
                let accepted = listener.accept().await;
                accepted.map(|(stream, _)| (Io::Unix(stream), Peer::Unix))
            }
        };
        match accepted {
            Ok(accepted) => return accepted,
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

#[derive(Debug)]
enum Io {
    Tcp(TcpStream),
    Unix(UnixStream),
}

#[derive(Debug)]
struct Opening {
    missing: usize,
    end: Pin<Box<Sleep>>,
}

/// One accepted connection.
#[derive(Debug)]
pub(super) struct Connection {
    io: Io,
    peer: Peer,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Until the client has sent the opening of HTTP/2.
    opening: Option<Opening>,
    _slot: OwnedSemaphorePermit,
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl Connection {
    /// Why the connection has to end, if it has to. Registers the task for a later reason, which
    /// is enough in reading: a connection of HTTP/2 is always reading.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Result<(), io::Error> {
        if self.cut.as_mut().poll(cx).is_ready() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        match self.opening.as_mut().map(|o| o.end.as_mut().poll(cx)) {
            Some(Poll::Ready(())) => Err(io::ErrorKind::TimedOut.into()),
            _ => Ok(()),
        }
    }

    fn note_read(&mut self, bytes: usize) {
        if let Some(opening) = &mut self.opening {
            opening.missing = opening.missing.saturating_sub(bytes);
            if opening.missing == 0 {
                self.opening = None;
            }
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_end(cx)?;
        let before = buf.filled().len();
        let polled = match &mut self.io {
            Io::Tcp(io) => Pin::new(io).poll_read(cx, buf),
            Io::Unix(io) => Pin::new(io).poll_read(cx, buf),
        };
        self.note_read(buf.filled().len() - before);
        polled
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.io {
            Io::Tcp(io) => Pin::new(io).poll_write(cx, buf),
            Io::Unix(io) => Pin::new(io).poll_write(cx, buf),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.io {
            Io::Tcp(io) => Pin::new(io).poll_flush(cx),
            Io::Unix(io) => Pin::new(io).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.io {
            Io::Tcp(io) => Pin::new(io).poll_shutdown(cx),
            Io::Unix(io) => Pin::new(io).poll_shutdown(cx),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.io {
            Io::Tcp(io) => Pin::new(io).poll_write_vectored(cx, bufs),
            Io::Unix(io) => Pin::new(io).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.io {
            Io::Tcp(io) => io.is_write_vectored(),
            Io::Unix(io) => io.is_write_vectored(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixListener;

    /// A connection from both of its ends.
    async fn pair(cut: CancellationToken) -> (Connection, UnixStream, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let client = UnixStream::connect(&path).await.unwrap();
        let mut accepted = Box::pin(incoming(listener.into(), cut));
        (accepted.next().await.unwrap().unwrap(), client, folder)
    }

    #[tokio::test]
    async fn a_client_that_does_not_finish_its_opening_is_cut_off() {
        let (mut connection, mut client, _folder) = pair(CancellationToken::new()).await;
        client.write_all(&[b'P'; OPENING_BYTES - 1]).await.unwrap();
        let mut text = [0; OPENING_BYTES - 1];
        connection.read_exact(&mut text).await.unwrap();
        let opening = connection.opening.as_mut().unwrap();
        opening.end.as_mut().reset(tokio::time::Instant::now());
        let error = connection.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_client_that_has_begun_may_take_its_time() {
        let (mut connection, mut client, _folder) = pair(CancellationToken::new()).await;
        client.write_all(&[b'P'; OPENING_BYTES]).await.unwrap();
        let mut text = [0; OPENING_BYTES];
        connection.read_exact(&mut text).await.unwrap();
        assert!(connection.opening.is_none());
    }

    #[tokio::test]
    async fn a_cut_connection_stops_reading() {
        let cut = CancellationToken::new();
        let (mut connection, _client, _folder) = pair(cut.clone()).await;
        let reading = tokio::spawn(async move { connection.read_u8().await });
        cut.cancel();
        let error = reading.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
    }
}
