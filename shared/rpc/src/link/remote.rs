//! The remote side of a link: a lazy connection with explicit limits, and one view of its errors.

use super::Link;
use super::bearer::{Bearer, FindToken};
use super::resend::Kept;
use crate::address::{Address, Place};
use crate::error::{ErrorKind, RpcError};
use crate::guard::header_list_too_large;
use crate::short::ShortPath;
use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt as _};
use http::header::AUTHORIZATION;
use http::{HeaderMap, Request, Response, StatusCode, Uri};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper_util::rt::TokioIo;
use std::error::Error as StdError;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::UnixStream;
use tonic::body::Body;
use tonic::transport::{self, Channel, Endpoint};
use tonic::{ConnectError, Status, TimeoutExpired};
use tower::{Service as _, service_fn};

/// The largest header list that a response may have.
const MAX_HEADER_LIST_BYTES: u32 = 16 * 1024;

/// How a remote link connects, which token its calls carry, and how it notices that the other end is
/// gone.
#[derive(Debug, Clone)]
pub struct RemoteOptions {
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How often the other end is pinged.
    pub ping_interval: Duration,
    /// How long an answer to a ping may take; after that the connection counts as broken.
    pub ping_timeout: Duration,
    /// Whether to ping while no call is running.
    pub ping_while_idle: bool,
    /// Bytes of one call's answer that may be on their way before they are read.
    pub stream_window: u32,
    /// The same for all calls together.
    pub connection_window: u32,
    /// Whether the log says when the other end comes and goes; not for a second link to it.
    pub is_logged: bool,
    /// Where the token of a listener is found. Without this, calls carry what their callers put into
    /// them.
    pub tokens: Option<Arc<dyn FindToken>>,
}

impl Default for RemoteOptions {
    /// For Cairn's own services: a process that is frozen, or a network that swallows packets,
    /// is noticed within ten seconds.
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            ping_interval: Duration::from_secs(5),
            ping_timeout: Duration::from_secs(5),
            ping_while_idle: true,
            stream_window: 256 * 1024,
            connection_window: 1024 * 1024,
            is_logged: true,
            tokens: None,
        }
    }
}

impl RemoteOptions {
    /// For a second link that carries many long streams: one that nobody reads must not hold up the
    /// others, so the windows of all of them fit into that of the connection.
    pub fn streams() -> Self {
        Self {
            stream_window: 64 * 1024,
            // The most that HTTP/2 knows.
            connection_window: (1 << 31) - 1,
            is_logged: false,
            ..Self::default()
        }
    }

    /// The same, with tokens from there.
    #[must_use]
    pub fn with_tokens(self, tokens: Arc<dyn FindToken>) -> Self {
        Self {
            tokens: Some(tokens),
            ..self
        }
    }

    /// For servers of others: many close a connection that pings more often than every five
    /// minutes.
    pub fn foreign() -> Self {
        Self {
            ping_interval: Duration::from_secs(310),
            ping_timeout: Duration::from_secs(20),
            ping_while_idle: false,
            ..Self::default()
        }
    }
}

pub(super) type Answer = Result<Response<Body>, Status>;

/// A connection to one address, with the token for its calls. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Remote {
    channel: Channel,
    bearer: Option<Arc<Bearer>>,
}

impl Remote {
    /// Nothing is connected yet. Must be called inside a tokio runtime.
    pub(super) fn new(address: &Address, options: &RemoteOptions) -> Self {
        let tokens = options.tokens.as_ref();
        Self {
            channel: channel(address, options),
            bearer: tokens.map(|tokens| Bearer::new(address, tokens)),
        }
    }

    /// At an endpoint with settings of its own. Must be called inside a tokio runtime.
    pub(super) fn at(endpoint: Endpoint, options: &RemoteOptions) -> Self {
        Self {
            channel: with(endpoint, options).connect_lazy(),
            bearer: None,
        }
    }

    /// Puts the token into a call over the bare connection.
    pub(super) fn put_token(&self, headers: &mut HeaderMap) {
        if let Some(bearer) = &self.bearer {
            bearer.put(headers);
        }
    }

    /// The process at the address may be another one now, with another token.
    pub(super) fn forget_token(&self) {
        if let Some(bearer) = &self.bearer {
            bearer.forget();
        }
    }

    /// The bare connection, for what needs no token.
    pub(super) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    pub(super) fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        self.channel.poll_ready(cx).map_err(|error| status(&error))
    }

    /// Sends a call. If the other end refuses its token and another one is found by then, the call
    /// is sent once more: a process that started anew may have a new token.
    pub(super) fn call(&mut self, mut request: Request<Body>) -> BoxFuture<'static, Answer> {
        let Some(bearer) = self.bearer.clone() else {
            return self.channel.call(request).map(received).boxed();
        };
        let token = bearer.put(request.headers_mut());
        let (parts, body) = request.into_parts();
        let (body, kept) = Kept::new(body);
        let first = self.channel.call(Request::from_parts(parts.clone(), body));
        let mut channel = self.channel.clone();
        async move {
            let answer = received(first.await)?;
            if !bearer.is_refused(token.as_ref(), answer.headers()) {
                kept.release();
                return Ok(answer);
            }
            let Some(other) = bearer.other_than(token.as_ref()) else {
                return Ok(answer);
            };
            let Some(body) = kept.again() else {
                return Ok(answer);
            };
            let mut request = Request::from_parts(parts, body);
            request.headers_mut().insert(AUTHORIZATION, other.clone());
            let ready = poll_fn(|cx| channel.poll_ready(cx)).await;
            ready.map_err(|error| status(&error))?;
            let answer = received(channel.call(request).await)?;
            bearer.is_refused(Some(&other), answer.headers());
            Ok(answer)
        }
        .boxed()
    }
}

fn channel(address: &Address, options: &RemoteOptions) -> Channel {
    match &address.0 {
        Place::Http(uri) => with(uri.clone().into(), options).connect_lazy(),
        Place::Unix(path) => {
            let path = path.clone();
            // Some URI is needed for the requests' authority; the connector does not look at it.
            with(Uri::from_static("http://localhost").into(), options).connect_with_connector_lazy(
                service_fn(move |_: Uri| {
                    let path = path.clone();
                    async move {
                        let short = ShortPath::of(&path)?;
                        UnixStream::connect(short.path()).await.map(TokioIo::new)
                    }
                }),
            )
        }
    }
}

fn with(endpoint: Endpoint, options: &RemoteOptions) -> Endpoint {
    endpoint
        .connect_timeout(options.connect_timeout)
        .http2_keep_alive_interval(options.ping_interval)
        .keep_alive_timeout(options.ping_timeout)
        .keep_alive_while_idle(options.ping_while_idle)
        .http2_max_header_list_size(MAX_HEADER_LIST_BYTES)
        .initial_stream_window_size(options.stream_window)
        .initial_connection_window_size(options.connection_window)
        .tcp_nodelay(true)
}

/// The answer of a call, whose errors are those of the link.
fn received(answer: Result<Response<Body>, transport::Error>) -> Answer {
    let mut response = answer.map_err(|error| status(&error))?;
    if response.status() == StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE {
        // The server's HTTP/2 library answers so before any service sees the request.
        return Err(header_list_too_large().into());
    }
    drop_broken_details(response.headers_mut());
    Ok(response.map(|body| Body::new(RemoteBody(body))))
}

/// A response's body whose errors are those of the link.
struct RemoteBody(Body);

impl HttpBody for RemoteBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.0).poll_frame(cx).map(|frame| {
            frame.map(|result| match result {
                Ok(mut frame) => {
                    if let Some(trailers) = frame.trailers_mut() {
                        drop_broken_details(trailers);
                    }
                    Ok(frame)
                }
                Err(error) => Err(status(&error)),
            })
        })
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

/// What an error of the transport means to the caller.
pub(super) fn status(error: &(dyn StdError + 'static)) -> Status {
    let mut cause = Some(error);
    let mut last = error;
    let mut reason = Link::BROKEN;
    while let Some(error) = cause {
        if error.is::<TimeoutExpired>() {
            return RpcError::new(ErrorKind::DeadlineExceeded, "no answer came in time").into();
        }
        if is_reset_for_room(error) {
            let message = "the client reads too slowly, and other streams needed the room";
            let error = RpcError::exhausted(message);
            return error.reason(RpcError::READS_TOO_SLOWLY).into();
        }
        if error.is::<ConnectError>() {
            reason = Link::NOT_CONNECTED;
        }
        last = error;
        cause = error.source();
    }
    let what = match reason {
        Link::NOT_CONNECTED => "cannot connect",
        _ => "the connection broke",
    };
    RpcError::unavailable(format!("{what}: {last}"))
        .reason(reason)
        .into()
}

/// The server has dropped the rest of a message that the client did not read: see [`crate::Unsent`]. A
/// connection that ends for the same reason is broken.
fn is_reset_for_room(error: &(dyn StdError + 'static)) -> bool {
    let error = error.downcast_ref::<h2::Error>();
    let reset = error.filter(|error| error.is_reset() && error.is_remote());
    reset.and_then(h2::Error::reason) == Some(h2::Reason::ENHANCE_YOUR_CALM)
}

/// Removes status details that are not base64: tonic panics over them, and a server of somebody
/// else may send anything.
fn drop_broken_details(headers: &mut HeaderMap) {
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &base64::alphabet::STANDARD,
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
    );
    if let Some(details) = headers.get(Status::GRPC_STATUS_DETAILS)
        && LENIENT.decode(details.as_bytes()).is_err()
    {
        headers.remove(Status::GRPC_STATUS_DETAILS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_that_are_not_base64_are_dropped() {
        for (details, stays) in [("CAU", true), ("CAU=", true), ("C", false), ("?!", false)] {
            let mut headers = HeaderMap::new();
            headers.insert(Status::GRPC_STATUS, "5".parse().unwrap());
            headers.insert(Status::GRPC_STATUS_DETAILS, details.parse().unwrap());
            drop_broken_details(&mut headers);
            assert_eq!(headers.contains_key(Status::GRPC_STATUS_DETAILS), stays);
            assert!(Status::from_header_map(&headers).is_some());
        }
    }
}
