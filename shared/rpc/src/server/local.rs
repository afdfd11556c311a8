//! Services by name, for callers in the same process.
//!
//! A router finds a service by patterns, and wraps requests, responses and their bodies for its
//! own use; between two services of one process that cost as much as the rest of the call.

use super::Exposure;
use crate::guard::Guarded;
use crate::principal::Caller;
use futures::future::{BoxFuture, FutureExt as _};
use http::{Request, Response};
use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use tonic::body::Body;
use tower::Service;

/// A call that is being answered.
pub(crate) type LocalCall = BoxFuture<'static, Result<Response<Body>, Infallible>>;

/// The services of a server. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct LocalServices {
    services: Arc<HashMap<&'static str, Arc<dyn Endpoint>>>,
    /// The exposure of the calls, in place of the server's.
    exposure: Option<Exposure>,
}

impl LocalServices {
    /// Clones made earlier do not have the service.
    pub(super) fn add<S>(&mut self, name: &'static str, service: Guarded<S>)
    where
        Guarded<S>: Endpoint + 'static,
    {
        Arc::make_mut(&mut self.services).insert(name, Arc::new(service));
    }

    /// The same services for Cairn's own services in this process.
    pub(super) fn internal(&self) -> Self {
        Self {
            services: self.services.clone(),
            exposure: Some(Exposure::Internal),
        }
    }

    /// A call that is made for the caller, if there is one.
    pub(crate) fn call(&self, request: Request<Body>, caller: Option<Caller>) -> LocalCall {
        let mut parts = request.uri().path().split('/');
        let name = parts.nth(1).unwrap_or_default();
        match self.services.get(name) {
            Some(service) => service.call(request, caller, self.exposure.as_ref()),
            None => futures::future::ready(Ok(super::unknown_service(&request))).boxed(),
        }
    }
}

impl fmt::Debug for LocalServices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.services.keys()).finish()
    }
}

/// A service of whatever type.
pub(super) trait Endpoint: Send + Sync {
    /// Calls it. The exposure, if there is one, takes the place of the service's own.
    fn call(
        &self,
        request: Request<Body>,
        caller: Option<Caller>,
        exposure: Option<&Exposure>,
    ) -> LocalCall;
}

impl<S> Endpoint for Guarded<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
{
    fn call(
        &self,
        request: Request<Body>,
        caller: Option<Caller>,
        exposure: Option<&Exposure>,
    ) -> LocalCall {
        self.call_locally(request, caller, exposure)
    }
}
