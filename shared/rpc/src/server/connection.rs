//! Accepted connections: limited in number, in all and for each peer address; ended when they do not
//! begin, have no admitted call soon or no call for long; and cut when the server stops.

use super::addresses::{Addresses, Place, Repeated, Seat};
use super::calls::{OpenCall, OpenCalls};
use super::listener::Listener;
use crate::metrics::{self, counter};
use crate::principal::Principal;
use futures::Stream;
use http::Extensions;
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
use tokio::time::{Instant, Sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::server::Connected;

/// Length of `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n`.
const OPENING_BYTES: usize = 24;
/// Pause after a failed accept, so that a full table of files is not met with a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What the connections of one listener may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Connections at a time; further ones wait to be accepted.
    pub(super) connections: usize,
    /// Connections of one peer address at a time; further ones are closed at once. A Unix socket has
    /// no such limit: its file's mode says who may connect.
    pub(super) of_address: usize,
    /// The opening of HTTP/2 must be there within this time.
    pub(super) opening: Duration,
    /// A TCP connection without an admitted call ends after this time, also if it has open calls that need
    /// no token.
    pub(super) unauthenticated: Duration,
    /// A connection without an open call ends after this time. Pings do not count: they would keep
    /// a place for a client that asks nothing.
    pub(super) idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            of_address: 256,
            opening: Duration::from_secs(10),
            unauthenticated: Duration::from_secs(10),
            idle: Duration::from_secs(5 * 60),
        }
    }
}

/// Where a call comes from: an extension of each request that an authenticator sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// This process, over a local link.
    Local,
    /// A TCP client.
    Tcp(SocketAddr),
    /// A process of this machine, over a Unix socket.
    Unix {
        /// Its effective user id when it connected.
        uid: u32,
    },
}

impl Peer {
    /// The principal that the operating system names. None for a TCP client.
    pub fn principal(&self) -> Option<Principal> {
        match self {
            Self::Local => Some(Principal::process()),
            Self::Unix { uid } => Some(Principal::socket(*uid)),
            Self::Tcp(_) => None,
        }
    }
}

/// What the server knows of a connection: an extension of each of its requests.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionInfo {
    pub(crate) peer: Peer,
    pub(crate) calls: OpenCalls,
}

impl ConnectionInfo {
    /// Leaves of it only the peer in a request. The result counts as an open call of the connection;
    /// None if the request came over no socket.
    pub(crate) fn enter(request: &mut Extensions) -> Option<OpenCall> {
        let connection = request.remove::<Self>()?;
        request.insert(connection.peer);
        Some(connection.calls.open())
    }
}

/// The connections of a listener, each of which ends when `cut` is cancelled.
pub(super) fn incoming(
    listener: Listener,
    limits: Limits,
    cut: CancellationToken,
) -> impl Stream<Item = io::Result<Connection>> {
    let accepting = Accepting {
        listener,
        limits,
        cut,
        slots: Arc::new(Semaphore::new(limits.connections)),
        addresses: Addresses::new(limits.of_address),
        full: Repeated::default(),
    };
    futures::stream::unfold(accepting, async |mut accepting| {
        let connection = accepting.next().await?;
        Some((Ok(connection), accepting))
    })
}

struct Accepting {
    listener: Listener,
    limits: Limits,
    cut: CancellationToken,
    slots: Arc<Semaphore>,
    addresses: Addresses,
    full: Repeated,
}

impl Accepting {
    async fn next(&mut self) -> Option<Connection> {
        let slot = self.slot().await?;
        let (io, peer, seat, place) = loop {
            let (io, peer) = accept(&self.listener).await;
            let seat = Seat {
                calls: OpenCalls::new(peer.principal().is_some()),
                cut: self.cut.child_token(),
            };
            let place = match &peer {
                Peer::Tcp(address) => self.addresses.admit(address.ip(), seat.clone()).map(Some),
                Peer::Local | Peer::Unix { .. } => Some(None),
            };
            // A connection without a place is closed here.
            if let Some(place) = place {
                break (io, peer, seat, place);
            }
        };
        let needs_admission = !seat.calls.is_admitted();
        let admission_end =
            needs_admission.then(|| Box::pin(tokio::time::sleep(self.limits.unauthenticated)));
        Some(Connection {
            io,
            info: ConnectionInfo {
                peer,
                calls: seat.calls,
            },
            cut: Box::pin(seat.cut.cancelled_owned()),
            opening: Some(Opening {
                missing: OPENING_BYTES,
                end: Box::pin(tokio::time::sleep(self.limits.opening)),
            }),
            admission_end,
            idle: self.limits.idle,
            idle_end: Box::pin(tokio::time::sleep(self.limits.idle)),
            _slot: slot,
            _place: place,
        })
    }

    /// A slot among all connections. The semaphore is never closed, so there is one in the end.
    async fn slot(&mut self) -> Option<OwnedSemaphorePermit> {
        if let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() {
            return Some(slot);
        }
        if let Some(times) = self.full.is_logged() {
            let limit = self.limits.connections;
            tracing::warn!(limit, times, "connection limit reached: further ones wait");
        }
        Arc::clone(&self.slots).acquire_owned().await.ok()
    }
}

async fn accept(listener: &Listener) -> (Io, Peer) {
    loop {
        let accepted = match listener {
            Listener::Tcp(listener) => listener.accept().await.and_then(|(stream, peer)| {
                stream.set_nodelay(true)?;
                Ok((Io::Tcp(stream), Peer::Tcp(peer)))
            }),
            Listener::Unix(listener) => listener.accept().await.and_then(|(stream, _)| {
                let uid = stream.peer_cred()?.uid();
                Ok((Io::Unix(stream), Peer::Unix { uid }))
            }),
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
    info: ConnectionInfo,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Until the client has sent the opening of HTTP/2.
    opening: Option<Opening>,
    /// Until then a call has to be admitted; none once that has been looked at.
    admission_end: Option<Pin<Box<Sleep>>>,
    idle: Duration,
    /// Not before then has the connection been idle for too long.
    idle_end: Pin<Box<Sleep>>,
    _slot: OwnedSemaphorePermit,
    _place: Option<Place>,
}

impl Connected for Connection {
    type ConnectInfo = ConnectionInfo;

    fn connect_info(&self) -> ConnectionInfo {
        self.info.clone()
    }
}

impl Connection {
    /// Why reading ends although the client sends nothing: an error, or as if the client had closed
    /// the connection, so that answers on their way still go out. Registers the task for a later
    /// reason, which is enough in reading: a connection of HTTP/2 is always reading.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let peer = &self.info.peer;
        match self.opening.as_mut().map(|o| o.end.as_mut().poll(cx)) {
            Some(Poll::Ready(())) => {
                counter!(metrics::CONNECTIONS_CLOSED, "why" => "opening").increment(1);
                tracing::debug!(?peer, "connection closed: HTTP/2 did not begin in time");
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            Some(Poll::Pending) => return Poll::Pending,
            None => {}
        }
        let admission_end = self.admission_end.as_mut();
        if admission_end.is_some_and(|end| end.as_mut().poll(cx).is_ready()) {
            self.admission_end = None;
            if !self.info.calls.is_admitted() {
                counter!(metrics::CONNECTIONS_CLOSED, "why" => "unauthenticated").increment(1);
                tracing::debug!(?peer, "connection closed: no call was admitted in time");
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
        }
        while self.idle_end.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            let end = self.info.calls.idle_since().unwrap_or(now) + self.idle;
            if end <= now {
                counter!(metrics::CONNECTIONS_CLOSED, "why" => "idle").increment(1);
                tracing::debug!(?peer, idle = ?self.idle, "connection closed: no open call");
                return Poll::Ready(Ok(()));
            }
            self.idle_end.as_mut().reset(end);
        }
        Poll::Pending
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
        if self.cut.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        let before = buf.filled().len();
        let polled = match &mut self.io {
            Io::Tcp(io) => Pin::new(io).poll_read(cx, buf),
            Io::Unix(io) => Pin::new(io).poll_read(cx, buf),
        };
        self.note_read(buf.filled().len() - before);
        match polled {
            Poll::Pending => self.poll_end(cx),
            Poll::Ready(read) => Poll::Ready(read),
        }
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
mod tests;
