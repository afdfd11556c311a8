//! A service that another process has, offered here as if it were ours.
//!
//! The link passes on the principal that this server established. Deadline, trace and the rest stay as they
//! came.

use crate::link::Link;
use crate::principal::{Caller, Principal};
use futures::future::{BoxFuture, FutureExt as _};
use http::{Request, Response};
use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;
use std::task::{Context, Poll};
use tonic::body::Body;
use tonic::server::NamedService;
use tower::Service;

/// Passes the calls of the service `S` on over an internal link. `S` is a generated server, of
/// which only the name is used.
pub struct Forward<S> {
    link: Link,
    service: PhantomData<fn() -> S>,
}

impl<S> Forward<S> {
    /// `link` leads to a process that has the service on an internal listener.
    pub fn new(link: Link) -> Self {
        Self {
            link,
            service: PhantomData,
        }
    }
}

impl<S> Clone for Forward<S> {
    fn clone(&self) -> Self {
        Self::new(self.link.clone())
    }
}

impl<S> fmt::Debug for Forward<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Forward")
    }
}

impl<S: NamedService> NamedService for Forward<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for Forward<S> {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if let Some(principal) = request.extensions().get::<Principal>().cloned() {
            request.extensions_mut().insert(Caller(principal));
        }
        let mut link = self.link.clone();
        async move {
            let ready = std::future::poll_fn(|cx| link.poll_ready(cx)).await;
            let answer = match ready {
                Ok(()) => link.call(request).await,
                Err(status) => Err(status),
            };
            Ok(answer.unwrap_or_else(tonic::Status::into_http))
        }
        .boxed()
    }
}
