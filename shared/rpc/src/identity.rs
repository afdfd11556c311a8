//! Who calls, and in which namespace.
//!
//! The server sets the caller's [`Identity`] on each request; no message carries a namespace. On
//! a public listener it comes from [`Authenticate`], and a client's `cairn-namespace` header is
//! removed. On an internal listener [`Authenticate`] admits the process, and the header carries the
//! namespace from service to service. A call that needs a namespace and has none is refused.

use crate::error::{ErrorKind, RpcError};
use crate::id::{ID_RULE, check_id};
use async_trait::async_trait;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use tonic::Request;
use tonic::metadata::AsciiMetadataValue;

/// The metadata key that carries the namespace between services.
pub const NAMESPACE_HEADER: &str = "cairn-namespace";

/// A tenant's space. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace(Arc<str>);

impl Namespace {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Namespace {
    type Err = RpcError;

    /// Takes names of `[a-z0-9][a-z0-9_-]{0,62}`; anything else is InvalidArgument.
    fn from_str(name: &str) -> Result<Self, RpcError> {
        check_id("namespace", name)?;
        Ok(Self(Arc::from(name)))
    }
}

impl Default for Namespace {
    /// The namespace `default`, where everybody is who is not told apart.
    fn default() -> Self {
        Self(Arc::from("default"))
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Namespace({})", self.0)
    }
}

/// The caller, as the server knows it: an extension of the request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    namespace: Namespace,
}

impl Identity {
    /// A caller in a namespace.
    pub fn new(namespace: Namespace) -> Self {
        Self { namespace }
    }

    /// The caller's namespace.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }
}

/// Decides who calls: the one place where a credential is checked.
///
/// The server asks it once for each call, before a handler reads anything of the message, and the
/// call's deadline includes the wait. An error ends the call; Unauthenticated and PermissionDenied
/// are the kinds to use. The server removes the `authorization` header afterwards, so no handler and
/// no other process sees the credential.
#[async_trait]
pub trait Authenticate: Send + Sync + 'static {
    /// The identity behind a request's headers and extensions. Of the extensions, the server sets
    /// [`Peer`](crate::Peer). Clients cannot set the namespace header: it has been removed.
    ///
    /// On a listener for Cairn's services the answer only admits the process. The namespace that
    /// it calls for travels in [`NAMESPACE_HEADER`].
    ///
    /// # Errors
    /// The reason why the caller is refused.
    async fn authenticate(&self, request: &http::request::Parts) -> Result<Identity, RpcError>;
}

/// Admits every caller, and puts it in the namespace `default`.
#[derive(Debug, Clone, Copy, Default)]
pub struct DefaultNamespace;

#[async_trait]
impl Authenticate for DefaultNamespace {
    async fn authenticate(&self, _request: &http::request::Parts) -> Result<Identity, RpcError> {
        Ok(Identity::default())
    }
}

/// The caller of a request.
///
/// # Errors
/// Unauthenticated, if the request came over an internal link without a namespace. There is no
/// default: a service that forgets to say for whom it calls is refused.
pub fn identity<T>(request: &Request<T>) -> Result<&Identity, RpcError> {
    request.extensions().get().ok_or_else(|| {
        RpcError::new(
            ErrorKind::Unauthenticated,
            format!("the call names no namespace in its {NAMESPACE_HEADER} metadata"),
        )
        .reason("NAMESPACE_MISSING")
    })
}

/// A request that is made for a caller in `namespace`, for an internal link.
pub fn with_namespace<T>(mut request: Request<T>, namespace: &Namespace) -> Request<T> {
    // A namespace is ASCII, so this always is a value; without it the server would refuse.
    if let Ok(value) = AsciiMetadataValue::try_from(namespace.as_str()) {
        request.metadata_mut().insert(NAMESPACE_HEADER, value);
    }
    request
}

/// The identity that the header of an internal call carries, if there is one.
pub(crate) fn from_header(headers: &http::HeaderMap) -> Result<Option<Identity>, RpcError> {
    let mut values = headers.get_all(NAMESPACE_HEADER).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let invalid = |problem: &str| {
        Err(RpcError::invalid(NAMESPACE_HEADER, problem)
            .allowed(ID_RULE)
            .reason("NAMESPACE_INVALID"))
    };
    if values.next().is_some() {
        return invalid("is there more than once");
    }
    match value.to_str().map(Namespace::from_str) {
        Ok(Ok(namespace)) => Ok(Some(Identity::new(namespace))),
        _ => invalid("is not a namespace"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_a_plain_name() {
        assert_eq!(Namespace::default().as_str(), "default");
        assert_eq!("team-1".parse::<Namespace>().unwrap().as_str(), "team-1");
        for bad in ["", "Team", "a/b", "{a}", "a b", "-a", &"x".repeat(64)] {
            assert!(bad.parse::<Namespace>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_request_carries_its_namespace_once() {
        let (one, two) = ("one".parse().unwrap(), "two".parse().unwrap());
        let request = with_namespace(with_namespace(Request::new(()), &one), &two);
        let headers = request.metadata().clone().into_headers();
        assert_eq!(from_header(&headers).unwrap(), Some(Identity::new(two)));
    }

    #[test]
    fn a_header_that_is_not_one_namespace_is_refused() {
        let mut headers = http::HeaderMap::new();
        assert_eq!(from_header(&headers).unwrap(), None);
        headers.append(NAMESPACE_HEADER, "a".parse().unwrap());
        headers.append(NAMESPACE_HEADER, "b".parse().unwrap());
        assert!(from_header(&headers).is_err());
        headers.insert(NAMESPACE_HEADER, "A b".parse().unwrap());
        assert!(from_header(&headers).is_err());
    }

    #[test]
    fn without_an_identity_a_call_is_refused() {
        let error = identity(&Request::new(())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unauthenticated);
        let mut request = Request::new(());
        request.extensions_mut().insert(Identity::default());
        assert_eq!(identity(&request).unwrap().namespace().as_str(), "default");
    }
}
