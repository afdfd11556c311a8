//! The one way to build and to run a server.
//!
//! Services register themselves with a [`ServerBuilder`]; health and reflection follow from what
//! was registered. One router carries them and pages over HTTP. The result is used through a [`Link`], or served on any number of listeners
//! that the caller has bound.

mod addresses;
mod calls;
mod connection;
mod health;
mod listener;
mod local;
mod pages;
mod reflection;

pub(crate) use calls::OpenCall;
pub(crate) use connection::ConnectionInfo;
pub use connection::Peer;
pub use health::Health;
pub use listener::{Listener, ServeError, serve};
pub(crate) use local::{LocalCall, LocalServices};

use crate::error::{ErrorKind, RpcError};
use crate::guard::Guarded;
use crate::link::Link;
use crate::principal::Authenticate;
use crate::text::clip;
use axum::Router;
use http::{Request, Response, StatusCode, header};
use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::service::{AxumBody, Routes};
use tower::{Service, service_fn};

/// The largest message that a service takes: set it as `max_decoding_message_size`. A larger one
/// is refused with OutOfRange.
pub const MAX_MESSAGE_BYTES: usize = 4 * 1024 * 1024;

/// Calls of one client's connection at a time.
const MAX_PUBLIC_STREAMS: u32 = 256;
/// Calls of one process at a time: attempts and followers of very many sessions.
const MAX_INTERNAL_STREAMS: u32 = 64 * 1024;

/// Who reaches the registered services, and so where the caller's principal comes from.
///
/// Without an authenticator, a server is for local links and Unix sockets. Calls over TCP are refused,
/// so that a forgotten authenticator opens nothing.
#[derive(Clone)]
pub enum Exposure {
    /// Clients: the authenticator names the caller, or without one the operating system does. The
    /// headers of a client that carry a principal are removed.
    Public(Option<Arc<dyn Authenticate>>),
    /// Cairn's own services in other processes: the authenticator admits the process, and the
    /// headers say for whom it calls.
    Services(Arc<dyn Authenticate>),
    /// The same without an authenticator.
    Internal,
}

impl fmt::Debug for Exposure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public(_) => "Public",
            Self::Services(_) => "Services",
            Self::Internal => "Internal",
        })
    }
}

/// Why a server could not be built: mistakes of the program, not of its user.
#[derive(Debug, Error)]
pub enum BuildError {
    /// Two services have the same name.
    #[error("the service {0} is registered twice")]
    RegisteredTwice(&'static str),
    /// A descriptor set cannot be read.
    #[error("a registered descriptor set is not valid")]
    Descriptors(#[source] tonic_reflection::server::Error),
}

/// Gathers services into a [`Server`].
#[derive(Debug)]
pub struct ServerBuilder {
    exposure: Exposure,
    routes: Routes,
    local: LocalServices,
    names: Vec<&'static str>,
    descriptor_sets: Vec<&'static [u8]>,
    registered_twice: Option<&'static str>,
}

impl ServerBuilder {
    /// A builder without services.
    pub fn new(exposure: Exposure) -> Self {
        let mut routes = Routes::default();
        let router = std::mem::take(routes.axum_router_mut());
        *routes.axum_router_mut() = router.fallback_service(service_fn(unrouted));
        Self {
            exposure,
            routes,
            local: LocalServices::default(),
            names: Vec::new(),
            descriptor_sets: Vec::new(),
            registered_twice: None,
        }
    }

    /// Adds a generated service, with the encoded descriptor set that describes it. Its health is
    /// known under its full name and is good to begin with.
    #[must_use]
    pub fn register<S>(mut self, service: S, descriptor_set: &'static [u8]) -> Self
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
            + NamedService
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send + 'static,
    {
        if self.names.contains(&S::NAME) {
            self.registered_twice = Some(S::NAME);
            return self;
        }
        self.names.push(S::NAME);
        if !self.descriptor_sets.contains(&descriptor_set) {
            self.descriptor_sets.push(descriptor_set);
        }
        let guarded = Guarded::new(service, self.exposure.clone());
        self.add(guarded)
    }

    fn add<S>(mut self, service: Guarded<S>) -> Self
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
            + NamedService
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send + 'static,
    {
        self.local.add(S::NAME, service.clone());
        self.routes = self.routes.add_service(service);
        self
    }

    /// A link for Cairn's own services in this process to what was registered so far. As on
    /// [`Exposure::Internal`], no authenticator is asked, and the request names the caller.
    pub fn internal_link(&self) -> Link {
        Link::local(self.local.internal())
    }

    /// Adds health, also as the page `/healthz`, and reflection to what was registered.
    ///
    /// # Errors
    /// A service that was registered twice, or a descriptor set that cannot be read.
    pub async fn build(self) -> Result<Server, BuildError> {
        if let Some(name) = self.registered_twice {
            return Err(BuildError::RegisteredTwice(name));
        }
        let (health, health_service) = Health::new(&self.names).await;
        let reflection =
            |own_name| reflection::builder(own_name, &self.names, &self.descriptor_sets);
        let v1 = reflection("grpc.reflection.v1.ServerReflection")
            .and_then(tonic_reflection::server::Builder::build_v1);
        let v1alpha = reflection("grpc.reflection.v1alpha.ServerReflection")
            .and_then(tonic_reflection::server::Builder::build_v1alpha);
        let (v1, v1alpha) = (
            v1.map_err(BuildError::Descriptors)?,
            v1alpha.map_err(BuildError::Descriptors)?,
        );
        let exposure = || self.exposure.clone();
        let health_service = Guarded::without_principal(health_service, exposure());
        let v1 = Guarded::without_principal(v1, exposure());
        let v1alpha = Guarded::without_principal(v1alpha, exposure());
        let built = self.add(health_service).add(v1).add(v1alpha);
        Ok(Server {
            max_streams: match built.exposure {
                Exposure::Public(_) => MAX_PUBLIC_STREAMS,
                Exposure::Services(_) | Exposure::Internal => MAX_INTERNAL_STREAMS,
            },
            routes: built.routes,
            local: built.local,
            exposure: built.exposure,
            health: health.clone(),
        }
        .merge(pages::health(health)))
    }
}

/// Services that are ready to be called. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Server {
    max_streams: u32,
    routes: Routes,
    local: LocalServices,
    exposure: Exposure,
    health: Health,
}

impl Server {
    /// A link to the services, without a socket.
    pub fn link(&self) -> Link {
        Link::local(self.local.clone())
    }

    /// The same with pages over HTTP, for the callers that the services admit. The router has a route,
    /// and no fallback.
    #[must_use]
    pub fn with_pages(self, pages: Router) -> Self {
        let pages = pages::guarded(pages, self.exposure.clone());
        self.merge(pages)
    }

    fn merge(mut self, pages: Router) -> Self {
        let router = self.routes.axum_router_mut();
        *router = std::mem::take(router).merge(pages);
        self
    }

    /// What the health service says.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Serves on a listener until `shutdown`, then lets running calls end for at most `grace`.
    ///
    /// As soon as `shutdown` completes, the health service says that nothing is served any more.
    ///
    /// # Errors
    /// See [`serve`].
    pub async fn serve(
        self,
        listener: Listener,
        shutdown: impl Future<Output = ()> + Send,
        grace: Duration,
    ) -> Result<(), ServeError> {
        let health = self.health;
        let shutdown = async move {
            shutdown.await;
            health.stop().await;
        };
        serve(
            listener,
            self.routes.prepare(),
            self.max_streams,
            shutdown,
            grace,
        )
        .await
    }
}

async fn unrouted(request: Request<AxumBody>) -> Result<Response<Body>, Infallible> {
    Ok(unknown_service(&request))
}

/// What nobody registered: gRPC clients get a status, anybody else a plain 404.
fn unknown_service<B>(request: &Request<B>) -> Response<Body> {
    let is_grpc = request
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"));
    if is_grpc {
        let method = clip(request.uri().path(), 256);
        let error = RpcError::new(
            ErrorKind::Unimplemented,
            format!("this server has no method {method}"),
        );
        return Status::from(error).into_http();
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}
