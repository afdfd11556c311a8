//! Serving on a bound listener, with every limit said out loud.

use super::connection::{self, Limits};
use crate::address::Address;
use crate::guard;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::time::Duration;
use thiserror::Error;
use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::transport::Server as Transport;

/// The HTTP/2 library refuses more with the bare status 431. Below that the guard refuses what is
/// more than a quarter of it, with a status that gRPC clients understand.
const MAX_HEADER_LIST_BYTES: u32 = 4 * guard::MAX_HEADER_LIST_BYTES as u32;
/// Streams that a client may open and reset before they are accepted; more closes the connection.
const MAX_PENDING_ACCEPT_RESETS: usize = 20;
/// Streams that may be reset for a client's protocol errors; more closes the connection.
const MAX_LOCAL_ERROR_RESETS: usize = 1024;
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;
/// A client that is frozen or cut off is noticed within ten seconds.
const PING_INTERVAL: Duration = Duration::from_secs(5);
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// A socket that is bound already, so that a port in use is known before any work begins.
#[derive(Debug)]
pub enum Listener {
    /// A TCP port.
    Tcp(TcpListener),
    /// A Unix socket. Its file's mode and its removal are the caller's.
    Unix(UnixListener),
}

impl Listener {
    /// Where a link to this listener leads. With port 0, this is the port that was given.
    ///
    /// # Errors
    /// An error of the system, or InvalidInput for a Unix socket without a path.
    pub fn address(&self) -> io::Result<Address> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(Address::from),
            Self::Unix(listener) => match listener.local_addr()?.as_pathname() {
                Some(path) => Ok(Address::unix(path)),
                None => Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "the socket has no path",
                )),
            },
        }
    }
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self::Tcp(listener)
    }
}

impl From<UnixListener> for Listener {
    fn from(listener: UnixListener) -> Self {
        Self::Unix(listener)
    }
}

/// A server that could not go on.
#[derive(Debug, Error)]
#[error("the server stopped serving")]
pub struct ServeError(#[from] tonic::transport::Error);

/// Serves the routes until `shutdown` completes.
///
/// Then no connection is accepted any more, clients are told, and running calls may end within
/// `grace`; what still runs after that is cut. When the returned future is dropped, all is cut at
/// once. Either way no connection outlives it.
///
/// # Errors
/// The transport's, of which none is known for a listener that is bound. What goes wrong on one
/// connection concerns only that connection.
pub async fn serve(
    listener: Listener,
    routes: Routes,
    max_streams: u32,
    shutdown: impl Future<Output = ()> + Send,
    grace: Duration,
) -> Result<(), ServeError> {
    let limits = Limits::default();
    serve_with(listener, limits, routes, max_streams, shutdown, grace).await
}

/// The same with other limits on the connections.
pub(super) async fn serve_with(
    listener: Listener,
    limits: Limits,
    routes: Routes,
    max_streams: u32,
    shutdown: impl Future<Output = ()> + Send,
    grace: Duration,
) -> Result<(), ServeError> {
    let cut = CancellationToken::new();
    let _cut_on_drop = cut.clone().drop_guard();
    let stopping = CancellationToken::new();
    let stopped = stopping.clone();
    let shutdown = async move {
        shutdown.await;
        stopping.cancel();
    };
    let incoming = connection::incoming(listener, limits, cut.clone());
    let mut serving = pin!(
        transport(max_streams)
            .add_routes(routes)
            .serve_with_incoming_shutdown(incoming, shutdown)
    );
    let grace_over = async {
        stopped.cancelled().await;
        tokio::time::sleep(grace).await;
    };
    tokio::select! {
        served = &mut serving => return Ok(served?),
        () = grace_over => tracing::warn!(?grace, "cutting the calls that did not end in time"),
    }
    cut.cancel();
    Ok(serving.await?)
}

fn transport(max_streams: u32) -> Transport {
    Transport::builder()
        .accept_http1(true)
        .max_concurrent_streams(max_streams)
        .http2_max_header_list_size(MAX_HEADER_LIST_BYTES)
        .http2_max_pending_accept_reset_streams(Some(MAX_PENDING_ACCEPT_RESETS))
        .http2_max_local_error_reset_streams(Some(MAX_LOCAL_ERROR_RESETS))
        .http2_keepalive_interval(Some(PING_INTERVAL))
        .http2_keepalive_timeout(Some(PING_TIMEOUT))
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
}
