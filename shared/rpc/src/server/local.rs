//! Services by name, for callers in the same process.
//!
//! A router finds a service by patterns, and wraps requests, responses and their bodies for its
//! own use; between two services of one process that cost as much as the rest of the call.

use crate::guard::Guarded;
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
pub(crate) struct LocalServices(Arc<HashMap<&'static str, Box<dyn Endpoint>>>);

impl LocalServices {
    /// While a server is built; it is not shared yet.
    pub(super) fn add<S>(&mut self, name: &'static str, service: Guarded<S>)
    where
        Guarded<S>: Endpoint + 'static,
    {
        if let Some(services) = Arc::get_mut(&mut self.0) {
            services.insert(name, Box::new(service));
        }
    }

    pub(crate) fn call(&self, request: Request<Body>) -> LocalCall {
        let mut parts = request.uri().path().split('/');
        let name = parts.nth(1).unwrap_or_default();
        match self.0.get(name) {
            Some(service) => service.call(request),
            None => futures::future::ready(Ok(super::unknown_service(&request))).boxed(),
        }
    }
}

impl fmt::Debug for LocalServices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// A service of whatever type.
pub(super) trait Endpoint: Send + Sync {
    fn call(&self, request: Request<Body>) -> LocalCall;
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
    fn call(&self, request: Request<Body>) -> LocalCall {
        self.call_locally(request)
    }
}
