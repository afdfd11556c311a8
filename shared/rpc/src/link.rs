//! One transport for the generated clients, whether the service is in this process or elsewhere.
//!
//! A local link calls the services directly: no socket, no serialisation of HTTP, a few
//! microseconds a call. A remote link is a connection that is made when it is first needed and
//! made again when it broke. The same client, the same errors and the same streams on both; a
//! caller cannot tell them apart but by speed.

mod bearer;
mod pool;
mod remote;
mod resend;

pub use bearer::FindToken;
pub use remote::RemoteOptions;

use crate::address::Address;
use crate::deadline::{Deadlines, TIMEOUT_HEADER};
use crate::error::{ErrorKind, RpcError};
use crate::principal::Caller;
use crate::server::{LocalCall, LocalServices};
use crate::token::RequireToken;
use futures::future::BoxFuture;
use futures::stream::{self, Stream, StreamExt as _};
use http::{Extensions, Request, Response};
use pool::Pool;
use remote::{Answer, Remote};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio_stream::wrappers::WatchStream;
use tonic::Status;
use tonic::body::Body;
use tonic::transport::Endpoint;
use tower::Service;

/// A way to a service: give it, or a clone of it, to a generated client. Cheap to clone.
///
/// Errors of the transport reach the caller as
/// - Unavailable with the reason [`NOT_CONNECTED`](Self::NOT_CONNECTED): nothing was sent;
/// - Unavailable with the reason [`BROKEN`](Self::BROKEN): the connection broke, or its other end
///   no longer answers pings, and the call may have been carried out;
/// - ResourceExhausted with the reason [`READS_TOO_SLOWLY`](RpcError::READS_TOO_SLOWLY): the server dropped
///   the rest of a message that the caller did not read; a stream continues after its last message;
/// - DeadlineExceeded: time ran out, and the call may have been carried out.
///
/// [`did_not_begin`](Self::did_not_begin) finds the errors after which nothing was carried out.
#[derive(Clone)]
pub struct Link {
    transport: Transport,
    deadlines: Option<Deadlines>,
}

#[derive(Clone)]
enum Transport {
    Local(LocalServices),
    Remote(Remote),
    Pool(Pool),
    Member(Arc<pool::Member>),
}

/// One process behind a link to a service.
#[derive(Debug, Clone)]
pub struct Member {
    /// Its address; empty if the link has one process only.
    pub address: String,
    /// A way to this process alone.
    pub link: Link,
}

impl Link {
    /// Reason of an error: there was no connection, and nothing was sent.
    pub const NOT_CONNECTED: &'static str = "LINK_NOT_CONNECTED";
    /// Reason of an error: the connection broke, and the call may have been carried out.
    pub const BROKEN: &'static str = "LINK_BROKEN";

    /// Whether a call with this error certainly did not begin, and may begin when it is retried: there
    /// was no connection, or the other end refused the token before it read the call.
    ///
    /// The link looks for a token again after a refusal, and sends the call once more if it finds
    /// another one. Only then does the refusal reach the caller, and a retry looks again.
    pub fn did_not_begin(error: &RpcError) -> bool {
        match error.kind() {
            ErrorKind::Unavailable => error.reason_name() == Self::NOT_CONNECTED,
            ErrorKind::Unauthenticated => {
                [RequireToken::MISSING, RequireToken::WRONG].contains(&error.reason_name())
            }
            _ => false,
        }
    }

    /// A link to a server's services in this process.
    pub(crate) fn local(services: LocalServices) -> Self {
        Self {
            transport: Transport::Local(services),
            deadlines: None,
        }
    }

    /// A link to one of Cairn's own services elsewhere. Nothing is connected yet.
    ///
    /// Must be called inside a tokio runtime.
    pub fn remote(address: &Address) -> Self {
        Self::remote_with(address, &RemoteOptions::default())
    }

    /// A link to a service elsewhere, with these options. Nothing is connected yet.
    ///
    /// Must be called inside a tokio runtime.
    pub fn remote_with(address: &Address, options: &RemoteOptions) -> Self {
        Self {
            transport: Transport::Remote(Remote::new(address, options)),
            deadlines: None,
        }
    }

    /// A link to a server of others, at an endpoint with settings of its own, such as TLS. Its calls carry no token.
    /// Nothing is connected yet.
    ///
    /// Must be called inside a tokio runtime.
    pub fn to_endpoint(endpoint: Endpoint, options: &RemoteOptions) -> Self {
        Self {
            transport: Transport::Remote(Remote::at(endpoint, options)),
            deadlines: None,
        }
    }

    /// A link to the processes of one of Cairn's own services, which `service` names in the log.
    ///
    /// Each address may stand for several processes: one for each address behind a name. They are
    /// watched from now on, and a call goes to the next one that serves.
    ///
    /// Must be called inside a tokio runtime.
    pub fn to_service(
        service: &'static str,
        addresses: &[Address],
        options: RemoteOptions,
    ) -> Self {
        crate::trace::other_processes();
        Self {
            transport: Transport::Pool(Pool::new(service, addresses, options)),
            deadlines: None,
        }
    }

    /// Waits until a process of the service serves. A link that is not watched counts as serving.
    pub async fn serves(&self) {
        if let Transport::Pool(pool) = &self.transport {
            pool.serves().await;
        }
    }

    /// The processes behind the link: at once, and whenever a name stands for others.
    pub fn members(&self) -> impl Stream<Item = Vec<Member>> + Send + use<> {
        let Transport::Pool(pool) = &self.transport else {
            let (address, link) = (String::new(), self.clone());
            let only = stream::once(async { vec![Member { address, link }] });
            return only.chain(stream::pending()).left_stream();
        };
        let deadlines = self.deadlines.clone();
        let members = WatchStream::new(pool.members());
        let members = members.map(move |members| {
            let link = |member: Arc<pool::Member>| Member {
                address: member.address(),
                link: Self {
                    transport: Transport::Member(member),
                    deadlines: deadlines.clone(),
                },
            };
            members.into_iter().map(link).collect()
        });
        members.right_stream()
    }

    /// The link, giving these deadlines to unary calls that have none.
    #[must_use]
    pub fn with_deadlines(self, deadlines: Deadlines) -> Self {
        Self {
            deadlines: Some(deadlines),
            ..self
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.transport {
            Transport::Local(_) => "Link(local)",
            Transport::Remote(_) => "Link(remote)",
            Transport::Pool(_) => "Link(service)",
            Transport::Member(_) => "Link(member)",
        })
    }
}

impl Service<Request<Body>> for Link {
    type Response = Response<Body>;
    type Error = Status;
    type Future = LinkFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        match &mut self.transport {
            Transport::Local(_) | Transport::Pool(_) | Transport::Member(_) => Poll::Ready(Ok(())),
            Transport::Remote(remote) => remote.poll_ready(cx),
        }
    }

    fn call(&mut self, mut request: Request<Body>) -> LinkFuture {
        if let Some(deadlines) = &self.deadlines
            && let Some(timeout) = deadlines.missing(request.uri().path(), request.headers())
        {
            request.headers_mut().insert(TIMEOUT_HEADER, timeout);
        }
        let caller = request.extensions_mut().remove::<Caller>();
        LinkFuture(match &mut self.transport {
            Transport::Local(services) => {
                // What a caller keeps in its extensions does not travel on a wire, and must not
                // reach the service here either.
                request.extensions_mut().clear();
                Inner::Local(services.call(request, caller))
            }
            Transport::Remote(remote) => Inner::Elsewhere(remote.call(on_wire(request, caller))),
            Transport::Pool(pool) => Inner::Elsewhere(pool.call(on_wire(request, caller))),
            Transport::Member(member) => Inner::Elsewhere(member.call(on_wire(request, caller))),
        })
    }
}

/// The request with the headers that say for whom it is made.
fn on_wire(mut request: Request<Body>, caller: Option<Caller>) -> Request<Body> {
    if let Some(Caller(principal)) = caller {
        principal.set_on(request.headers_mut());
    }
    request
}

/// A call over a [`Link`].
pub struct LinkFuture(Inner);

enum Inner {
    Local(LocalCall),
    Elsewhere(BoxFuture<'static, Answer>),
}

impl Future for LinkFuture {
    type Output = Result<Response<Body>, Status>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Inner::Local(call) => Pin::new(call).poll(cx).map(|result| {
                result
                    .map(|mut response| {
                        *response.extensions_mut() = Extensions::new();
                        response
                    })
                    .map_err(|never| match never {})
            }),
            Inner::Elsewhere(call) => call.as_mut().poll(cx),
        }
    }
}

impl fmt::Debug for LinkFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LinkFuture")
    }
}
