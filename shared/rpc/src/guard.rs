//! What is put around every service: identity, deadline, and a net for panics.
//!
//! It sits on the service and not on the server, so that it holds on a local link as well.

mod body;
mod transport;

use crate::deadline::{Deadline, serving_time, timeout_of};
use crate::error::{ErrorKind, RpcError};
use crate::identity::{Identity, NAMESPACE_HEADER, from_header};
use crate::metrics::{self, counter};
use crate::server::Exposure;
use crate::text::clip;
use body::GuardedBody;
use http::uri::PathAndQuery;
use http::{HeaderMap, Request, Response};
use std::any::Any;
use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::{Code, Status};
use tower::Service;

/// A service with its guard. Health and reflection ask for no identity.
#[derive(Debug, Clone)]
pub(crate) struct Guarded<S> {
    inner: S,
    exposure: Option<Exposure>,
}

impl<S> Guarded<S> {
    pub(crate) fn new(inner: S, exposure: Exposure) -> Self {
        Self {
            inner,
            exposure: Some(exposure),
        }
    }

    pub(crate) fn without_identity(inner: S) -> Self {
        Self {
            inner,
            exposure: None,
        }
    }
}

impl<S: NamedService> NamedService for Guarded<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for Guarded<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = GuardedFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let path = Method(request.uri().path_and_query().cloned());
        let timeout = timeout_of(request.headers());
        let request = match identified(self.exposure.as_ref(), request) {
            Ok(request) => request,
            Err(error) => return GuardedFuture::refused(path, error),
        };
        let request = with_deadline(request, timeout);
        let sleep = timeout
            .and_then(|timeout| Instant::now().checked_add(serving_time(timeout)))
            .map(|end| Box::pin(sleep_until(end)));
        match catch_unwind(AssertUnwindSafe(|| self.inner.call(request))) {
            Ok(inner) => GuardedFuture {
                state: State::Running { inner },
                sleep,
                path,
            },
            Err(panic) => GuardedFuture {
                state: State::Refused {
                    status: Some(panicked(&path, &*panic)),
                },
                sleep: None,
                path,
            },
        }
    }
}

/// The request with the caller's identity as an extension, and with nothing left of what the
/// caller may have put in its place.
fn identified(
    exposure: Option<&Exposure>,
    mut request: Request<Body>,
) -> Result<Request<Body>, RpcError> {
    request.extensions_mut().remove::<Identity>();
    let identity = match exposure {
        None => None,
        Some(Exposure::Internal) => from_header(request.headers())?,
        Some(Exposure::Public(authenticate)) => {
            request.headers_mut().remove(NAMESPACE_HEADER);
            let (parts, body) = request.into_parts();
            let identity = authenticate.authenticate(&parts)?;
            request = Request::from_parts(parts, body);
            Some(identity)
        }
    };
    if let Some(identity) = identity {
        request.extensions_mut().insert(identity);
    }
    Ok(request)
}

fn with_deadline(
    mut request: Request<Body>,
    timeout: Option<std::time::Duration>,
) -> Request<Body> {
    request.extensions_mut().remove::<Deadline>();
    if let Some(deadline) = timeout.and_then(Deadline::after) {
        request.extensions_mut().insert(deadline);
    }
    request
}

pin_project_lite::pin_project! {
    /// The call of a guarded service.
    pub(crate) struct GuardedFuture<F> {
        #[pin]
        state: State<F>,
        sleep: Option<Pin<Box<Sleep>>>,
        path: Method,
    }
}

pin_project_lite::pin_project! {
    #[project = StateProjection]
    enum State<F> {
        Running { #[pin] inner: F },
        Refused { status: Option<Status> },
    }
}

impl<F> GuardedFuture<F> {
    fn refused(path: Method, error: RpcError) -> Self {
        Self {
            state: State::Refused {
                status: Some(error.into()),
            },
            sleep: None,
            path,
        }
    }
}

impl<F> Future for GuardedFuture<F>
where
    F: Future<Output = Result<Response<Body>, Infallible>>,
{
    type Output = Result<Response<Body>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_answer(cx).map(|answer| {
            count_error(answer.headers());
            Ok(answer)
        })
    }
}

impl<F> GuardedFuture<F>
where
    F: Future<Output = Result<Response<Body>, Infallible>>,
{
    fn poll_answer(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Response<Body>> {
        let this = self.project();
        let inner = match this.state.project() {
            StateProjection::Running { inner } => inner,
            StateProjection::Refused { status } => {
                let status = status.take().unwrap_or_else(|| Status::internal(""));
                return Poll::Ready(status.into_http());
            }
        };
        let status = match catch_unwind(AssertUnwindSafe(|| inner.poll(cx))) {
            Err(panic) => panicked(this.path, &*panic),
            Ok(Poll::Ready(Ok(response))) => {
                if let Some(status) = transport::in_own_words(response.headers()) {
                    return Poll::Ready(status.into_http());
                }
                let (path, sleep) = (this.path.clone(), this.sleep.take());
                let response = response.map(|body| Body::new(GuardedBody::new(body, sleep, path)));
                return Poll::Ready(response);
            }
            Ok(Poll::Pending) => match this.sleep.as_mut().map(|sleep| sleep.as_mut().poll(cx)) {
                Some(Poll::Ready(())) => late(),
                _ => return Poll::Pending,
            },
        };
        Poll::Ready(status.into_http())
    }
}

/// An answer that is an error alone says so in its headers.
fn count_error(headers: &HeaderMap) {
    let code = headers.get(Status::GRPC_STATUS);
    let code = code.map(|code| Code::from_bytes(code.as_bytes()));
    if let Some(code) = code.filter(|code| *code != Code::Ok) {
        let kind = metrics::label(metrics::Kind::Error, &format!("{code:?}"));
        counter!(metrics::ERRORS, "kind" => kind).increment(1);
    }
}

/// The method that was called, for logs: shared with the request, and written out only if somebody
/// is to read it.
#[derive(Debug, Clone)]
struct Method(Option<PathAndQuery>);

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.0.as_ref().map_or("", PathAndQuery::path);
        f.write_str(&clip(path, 256))
    }
}

/// The answer to a call whose time is up.
fn late() -> Status {
    RpcError::new(
        ErrorKind::DeadlineExceeded,
        "the call took longer than its caller waits",
    )
    .into()
}

/// The answer to a call whose handler panicked. What the panic said is logged and not sent.
fn panicked(path: &Method, panic: &(dyn Any + Send)) -> Status {
    let said = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let said = clip(said.unwrap_or("a value that is no text"), 1024);
    tracing::error!(method = %path, panic = said, "a handler panicked");
    let error = RpcError::new(ErrorKind::Internal, "internal error").reason("HANDLER_PANICKED");
    crate::error::unlogged(error)
}
