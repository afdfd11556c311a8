//! Who is admitted, and with which principal.

use crate::error::{ErrorKind, RpcError};
use crate::principal::{Authenticate, Caller, Principal, from_headers, remove_headers};
use crate::server::{Exposure, OpenCall, Peer};
use futures::future::{BoxFuture, FutureExt as _};
use http::Request;
use http::header::AUTHORIZATION;
use std::sync::Arc;
use tonic::body::Body;

/// The request with its principal, if the exposure admits it.
pub(crate) async fn admit(
    exposure: &Exposure,
    request: Request<Body>,
) -> Result<Request<Body>, RpcError> {
    match decide(Some(exposure), None, request)? {
        Decision::Admitted(request) => Ok(request),
        Decision::Later(decision) => decision.await,
    }
}

/// A call that needs no token may carry one, as those of links do. Its connection is authenticated if the
/// listener would admit another call of this caller. An authenticator that has to wait is not waited for.
pub(super) fn note_caller(
    exposure: &Exposure,
    mut request: Request<Body>,
    open: &OpenCall,
) -> Request<Body> {
    let (Exposure::Public(Some(authenticator)) | Exposure::Services(authenticator)) = exposure
    else {
        return request;
    };
    remove_headers(request.headers_mut());
    let (parts, body) = request.into_parts();
    if let Some(Ok(_)) = authenticator.authenticate(&parts).now_or_never() {
        open.admit();
    }
    Request::from_parts(parts, body)
}

/// Whether a call is admitted, with the caller's principal as an extension of the request.
#[expect(
    clippy::large_enum_variant,
    reason = "it is taken apart at once, and a box would cost every local call"
)]
pub(super) enum Decision {
    Admitted(Request<Body>),
    Later(BoxFuture<'static, Result<Request<Body>, RpcError>>),
}

/// Leaves nothing of what the caller may have put in the place of a principal. Only Cairn's services
/// may say for whom they call.
pub(super) fn decide(
    exposure: Option<&Exposure>,
    caller: Option<Caller>,
    mut request: Request<Body>,
) -> Result<Decision, RpcError> {
    request.extensions_mut().remove::<Principal>();
    match exposure {
        None => Ok(Decision::Admitted(request)),
        Some(Exposure::Internal) => match request.extensions().get() {
            Some(Peer::Tcp(_)) => Err(no_authenticator()),
            _ => carried(caller, request).map(Decision::Admitted),
        },
        Some(Exposure::Public(None)) => {
            remove_headers(request.headers_mut());
            let principal = request.extensions().get().and_then(Peer::principal);
            let principal = principal.ok_or_else(no_authenticator)?;
            request.extensions_mut().insert(principal);
            Ok(Decision::Admitted(request))
        }
        Some(Exposure::Public(Some(authenticator))) => {
            remove_headers(request.headers_mut());
            let decision = authenticated(Arc::clone(authenticator), request);
            let decision = decision.map(|admitted| {
                let (principal, mut request) = admitted?;
                request.extensions_mut().insert(principal);
                Ok(request)
            });
            Ok(Decision::Later(decision.boxed()))
        }
        Some(Exposure::Services(authenticator)) => {
            let decision = authenticated(Arc::clone(authenticator), request);
            // The process is admitted, and says for whom it calls.
            let decision = decision.map(|admitted| carried(caller, admitted?.1));
            Ok(Decision::Later(decision.boxed()))
        }
    }
}

fn no_authenticator() -> RpcError {
    RpcError::new(
        ErrorKind::Unauthenticated,
        "this listener has no authenticator, so it admits no calls over TCP",
    )
    .reason("NO_AUTHENTICATOR")
}

/// Asks the authenticator, and takes the credential out of the request: it is for nobody else.
async fn authenticated(
    authenticator: Arc<dyn Authenticate>,
    request: Request<Body>,
) -> Result<(Principal, Request<Body>), RpcError> {
    let (mut parts, body) = request.into_parts();
    let principal = authenticator.authenticate(&parts).await?;
    parts.headers.remove(AUTHORIZATION);
    Ok((principal, Request::from_parts(parts, body)))
}

/// The request of a service of Cairn, with the principal that a local link brought, or that is in its
/// headers, if there is one.
fn carried(caller: Option<Caller>, mut request: Request<Body>) -> Result<Request<Body>, RpcError> {
    let principal = match caller {
        Some(Caller(principal)) => Some(principal),
        None => from_headers(request.headers())?,
    };
    if let Some(principal) = principal {
        request.extensions_mut().insert(principal);
    }
    Ok(request)
}
