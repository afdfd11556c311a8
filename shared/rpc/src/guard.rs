//! What is put around every service: principal, deadline, the size of headers, and a net for panics.
//!
//! It sits on the service and not on the server, so that it holds on a local link as well.

mod admission;
mod body;
mod transport;

pub(crate) use admission::admit;
pub(crate) use transport::{MAX_HEADER_LIST_BYTES, header_list_too_large};

use crate::deadline::{Deadline, serving_time, timeout_of};
use crate::error::{ErrorKind, RpcError};
use crate::metrics::{self, counter};
use crate::principal::Caller;
use crate::server::{ConnectionInfo, Exposure, LocalCall, OpenCall, Peer};
use crate::text::clip;
use admission::{Decision, decide};
use body::GuardedBody;
use futures::future::{BoxFuture, FutureExt as _};
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

/// A service with its guard. Health and reflection ask for no principal.
#[derive(Debug, Clone)]
pub(crate) struct Guarded<S> {
    inner: S,
    exposure: Exposure,
    asks: bool,
}

impl<S> Guarded<S> {
    pub(crate) fn new(inner: S, exposure: Exposure) -> Self {
        Self {
            inner,
            exposure,
            asks: true,
        }
    }

    pub(crate) fn without_principal(inner: S, exposure: Exposure) -> Self {
        Self {
            inner,
            exposure,
            asks: false,
        }
    }

    /// The exposure that decides calls, if the service asks for a principal.
    fn deciding(&self) -> Option<&Exposure> {
        Some(&self.exposure).filter(|_| self.asks)
    }
}

impl<S: NamedService> NamedService for Guarded<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Guarded<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send + 'static,
{
    /// A call over a local link, with the link's exposure if it has one. Only an authenticator asks
    /// where a call comes from.
    ///
    /// Generated services are always ready: they are not asked.
    pub(crate) fn call_locally(
        &self,
        mut request: Request<Body>,
        caller: Option<Caller>,
        exposure: Option<&Exposure>,
    ) -> LocalCall {
        let own = self.deciding();
        let exposure = own.map(|own| exposure.unwrap_or(own));
        if matches!(exposure, Some(Exposure::Public(_) | Exposure::Services(_))) {
            request.extensions_mut().insert(Peer::Local);
        }
        self.begin(request, caller, exposure, None).boxed()
    }

    fn begin(
        &self,
        request: Request<Body>,
        caller: Option<Caller>,
        exposure: Option<&Exposure>,
        open: Option<OpenCall>,
    ) -> GuardedFuture<S> {
        let path = Method(request.uri().path_and_query().cloned());
        let timeout = timeout_of(request.headers());
        let sleep = timeout
            .and_then(|timeout| Instant::now().checked_add(serving_time(timeout)))
            .map(|end| Box::pin(sleep_until(end)));
        let over_socket = open.is_some();
        let decided = transport::check_request(&request, over_socket)
            .and_then(|()| decide(exposure, caller, with_deadline(request, timeout)));
        let state = match decided {
            Ok(Decision::Admitted(request)) => {
                if let (Some(open), Some(_)) = (&open, exposure) {
                    open.admit();
                }
                State::of_call(self.inner.clone(), request, &path)
            }
            Ok(Decision::Later(decision)) => State::Deciding {
                decision,
                service: self.inner.clone(),
            },
            Err(error) => State::Refused {
                status: Some(error.into()),
            },
        };
        GuardedFuture {
            state,
            sleep,
            path,
            open,
        }
    }
}

/// A call over a socket.
impl<S> Service<Request<Body>> for Guarded<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = GuardedFuture<S>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let open = ConnectionInfo::enter(request.extensions_mut());
        if let Some(open) = open.as_ref().filter(|_| !self.asks) {
            request = admission::note_caller(&self.exposure, request, open);
        }
        self.begin(request, None, self.deciding(), open)
    }
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
    pub(crate) struct GuardedFuture<S: Service<Request<Body>>> {
        #[pin]
        state: State<S>,
        sleep: Option<Pin<Box<Sleep>>>,
        path: Method,
        // Counts as a call of its connection until the answer has ended.
        open: Option<OpenCall>,
    }
}

pin_project_lite::pin_project! {
    #[project = StateProjection]
    enum State<S: Service<Request<Body>>> {
        Deciding {
            decision: BoxFuture<'static, Result<Request<Body>, RpcError>>,
            service: S,
        },
        Running { #[pin] inner: S::Future },
        Refused { status: Option<Status> },
    }
}

impl<S: Service<Request<Body>>> State<S> {
    fn of_call(mut service: S, request: Request<Body>, path: &Method) -> Self {
        match catch_unwind(AssertUnwindSafe(|| service.call(request))) {
            Ok(inner) => Self::Running { inner },
            Err(panic) => Self::Refused {
                status: Some(panicked(path, &*panic)),
            },
        }
    }
}

impl<S> Future for GuardedFuture<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone,
{
    type Output = Result<Response<Body>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_answer(cx).map(|answer| {
            count_error(answer.headers());
            Ok(answer)
        })
    }
}

impl<S> GuardedFuture<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone,
{
    fn poll_answer(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Response<Body>> {
        let mut this = self.project();
        loop {
            let polled = catch_unwind(AssertUnwindSafe(|| this.state.as_mut().poll(cx)));
            let status = match polled {
                Err(panic) => panicked(this.path, &*panic),
                Ok(Poll::Ready(Step::Call(service, request))) => {
                    if let Some(open) = this.open.as_ref() {
                        open.admit();
                    }
                    let call = State::of_call(service, request, this.path);
                    this.state.set(call);
                    continue;
                }
                Ok(Poll::Ready(Step::Refuse(status))) => status,
                Ok(Poll::Ready(Step::Answer(mut response))) => {
                    if let Some(status) = transport::in_own_words(response.headers()) {
                        return Poll::Ready(status.into_http());
                    }
                    let (path, sleep) = (this.path.clone(), this.sleep.take());
                    let open = this.open.take();
                    let unsent = response.extensions_mut().remove();
                    let unsent = unsent.filter(|_| open.is_some());
                    let guarded =
                        |body| Body::new(GuardedBody::new(body, sleep, path, open, unsent));
                    return Poll::Ready(response.map(guarded));
                }
                Ok(Poll::Pending) => {
                    match this.sleep.as_mut().map(|sleep| sleep.as_mut().poll(cx)) {
                        Some(Poll::Ready(())) => late(),
                        _ => return Poll::Pending,
                    }
                }
            };
            return Poll::Ready(status.into_http());
        }
    }
}

/// What a call does next.
enum Step<S> {
    Call(S, Request<Body>),
    Answer(Response<Body>),
    Refuse(Status),
}

impl<S> State<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone,
{
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Step<S>> {
        match self.project() {
            StateProjection::Deciding { decision, service } => {
                decision.as_mut().poll(cx).map(|decided| match decided {
                    Ok(request) => Step::Call(service.clone(), request),
                    Err(error) => Step::Refuse(error.into()),
                })
            }
            StateProjection::Running { inner } => inner.poll(cx).map(|answer| match answer {
                Ok(response) => Step::Answer(response),
                Err(never) => match never {},
            }),
            StateProjection::Refused { status } => {
                let status = status.take().unwrap_or_else(|| Status::internal(""));
                Poll::Ready(Step::Refuse(status))
            }
        }
    }
}

/// Whether an operator can act on the error. The others tell callers what they asked for: a session that is
/// not there, a request that is late or wrong.
fn is_for_operators(code: Code) -> bool {
    match code {
        Code::Unknown
        | Code::DeadlineExceeded
        | Code::PermissionDenied
        | Code::ResourceExhausted
        | Code::Unimplemented
        | Code::Internal
        | Code::Unavailable
        | Code::DataLoss
        | Code::Unauthenticated => true,
        Code::Ok
        | Code::Cancelled
        | Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::OutOfRange => false,
    }
}

/// An answer that is an error alone says so in its headers.
fn count_error(headers: &HeaderMap) {
    let code = headers.get(Status::GRPC_STATUS);
    let code = code.map(|code| Code::from_bytes(code.as_bytes()));
    if let Some(code) = code.filter(|code| is_for_operators(*code)) {
        let kind = metrics::label(metrics::Kind::Error, &format!("{code:?}"));
        counter!(metrics::ERRORS, "kind" => kind).increment(1);
    }
}

/// The method that was called, for logs: shared with the request, and formatted only for a log line.
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
