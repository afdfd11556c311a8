//! Who calls, and in which namespace.
//!
//! The server sets the caller's [`Principal`] on each request; no message carries one. On a public
//! listener it comes from [`Authenticate`], and a client's `cairn-namespace` and `cairn-principal`
//! headers are removed. On an internal listener [`Authenticate`] admits the process, and the headers
//! carry the principal from service to service; a local link passes it on as it is. A call that needs a
//! principal and has none is refused.

use crate::error::{ErrorKind, RpcError};
use crate::id::{ID_RULE, check_id, check_request_id};
use crate::server::Peer;
use async_trait::async_trait;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use tonic::Request;

/// The metadata key that carries the namespace between services.
pub const NAMESPACE_HEADER: &str = "cairn-namespace";
/// The metadata key that carries the rest of a principal between services: its authentication, a
/// space and its subject, such as `socket uid:1000`.
pub const PRINCIPAL_HEADER: &str = "cairn-principal";

/// The same as names of headers: each call of a service sets and reads them.
static NAMESPACE: HeaderName = HeaderName::from_static(NAMESPACE_HEADER);
static PRINCIPAL: HeaderName = HeaderName::from_static(PRINCIPAL_HEADER);

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

/// How a server established who calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Authentication {
    /// The caller runs in the server's process, under the user id of the process.
    Process,
    /// The operating system named the user at the other end of a Unix socket.
    Socket,
    /// The call carried the token of the listener.
    Token,
    /// The listener admits callers without a credential.
    Anonymous,
    /// One of Cairn's services acted by itself.
    Service,
}

impl Authentication {
    const ALL: [Self; 5] = [
        Self::Process,
        Self::Socket,
        Self::Token,
        Self::Anonymous,
        Self::Service,
    ];

    /// Its name in [`PRINCIPAL_HEADER`].
    const fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Socket => "socket",
            Self::Token => "token",
            Self::Anonymous => "anonymous",
            Self::Service => "service",
        }
    }
}

/// The caller, as the server established it: an extension of the request. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    subject: Subject,
    namespace: Namespace,
    authentication: Authentication,
}

/// Who it is. Services call for themselves with every step: their names are not allocated.
#[derive(Debug, Clone)]
enum Subject {
    Service(&'static str),
    Named(Arc<str>),
}

impl Subject {
    fn as_str(&self) -> &str {
        match self {
            Self::Service(name) => name,
            Self::Named(name) => name,
        }
    }
}

impl PartialEq for Subject {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Subject {}

impl Principal {
    /// A caller that an authenticator names in a way of its own.
    ///
    /// # Errors
    /// InvalidArgument unless the subject is 1 to 128 printable ASCII characters without spaces.
    pub fn new(
        authentication: Authentication,
        subject: &str,
        namespace: Namespace,
    ) -> Result<Self, RpcError> {
        check_request_id("subject", subject)?;
        Ok(Self {
            subject: Subject::Named(Arc::from(subject)),
            namespace,
            authentication,
        })
    }

    /// A caller inside this process: its effective user id, in the namespace `default`.
    pub fn process() -> Self {
        let uid = rustix::process::geteuid().as_raw();
        Self::known(Authentication::Process, format!("uid:{uid}"))
    }

    /// The user at the other end of a Unix socket, in the namespace `default`.
    pub fn socket(uid: u32) -> Self {
        Self::known(Authentication::Socket, format!("uid:{uid}"))
    }

    /// The holder of the listener's token, in the namespace `default`.
    pub fn token() -> Self {
        Self::known(Authentication::Token, "token")
    }

    /// A caller without a credential, in the namespace `default`.
    pub fn anonymous() -> Self {
        Self::known(Authentication::Anonymous, "anonymous")
    }

    /// One of Cairn's services that acts by itself, for a namespace. The name is a subject as
    /// [`new`](Self::new) takes it.
    pub fn service(name: &'static str, namespace: Namespace) -> Self {
        Self {
            subject: Subject::Service(name),
            namespace,
            authentication: Authentication::Service,
        }
    }

    fn known(authentication: Authentication, subject: impl Into<Arc<str>>) -> Self {
        Self {
            subject: Subject::Named(subject.into()),
            namespace: Namespace::default(),
            authentication,
        }
    }

    /// Names the caller within its way of authentication.
    pub fn subject(&self) -> &str {
        self.subject.as_str()
    }

    /// The namespace that the caller acts in.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// How the server established the subject.
    pub fn authentication(&self) -> Authentication {
        self.authentication
    }

    /// Makes the headers of an internal call carry this principal and no other.
    pub(crate) fn set_on(&self, headers: &mut HeaderMap) {
        let principal = format!("{} {}", self.authentication.name(), self.subject());
        // Both are ASCII, so they always are values; without them the server would refuse.
        if let (Ok(namespace), Ok(principal)) = (
            HeaderValue::from_str(self.namespace.as_str()),
            HeaderValue::try_from(principal),
        ) {
            headers.insert(&NAMESPACE, namespace);
            headers.insert(&PRINCIPAL, principal);
        }
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
    /// The principal behind a request's headers and extensions. Of the extensions, the server sets
    /// [`Peer`]. Clients cannot set the headers that carry a principal: they have been removed.
    ///
    /// On a listener for Cairn's services the answer only admits the process. The principal that
    /// it calls for travels in [`NAMESPACE_HEADER`] and [`PRINCIPAL_HEADER`].
    ///
    /// # Errors
    /// The reason why the caller is refused.
    async fn authenticate(&self, request: &http::request::Parts) -> Result<Principal, RpcError>;
}

/// Admits every caller. One that the operating system does not name is `anonymous`.
#[derive(Debug, Clone, Copy, Default)]
pub struct AllowAnonymous;

#[async_trait]
impl Authenticate for AllowAnonymous {
    async fn authenticate(&self, request: &http::request::Parts) -> Result<Principal, RpcError> {
        let peer = request.extensions.get::<Peer>();
        Ok(peer
            .and_then(Peer::principal)
            .unwrap_or_else(Principal::anonymous))
    }
}

/// The caller of a request.
///
/// # Errors
/// Unauthenticated, if the request came over an internal link without a namespace. There is no
/// default: a service that forgets to say for whom it calls is refused.
pub fn principal<T>(request: &Request<T>) -> Result<&Principal, RpcError> {
    request.extensions().get().ok_or_else(|| {
        RpcError::new(
            ErrorKind::Unauthenticated,
            format!("the call names no namespace in its {NAMESPACE_HEADER} metadata"),
        )
        .reason("NAMESPACE_MISSING")
    })
}

/// A request that is made for `principal`, for an internal link: the [`Link`](crate::Link) takes it to
/// the service.
pub fn with_principal<T>(mut request: Request<T>, principal: &Principal) -> Request<T> {
    request.extensions_mut().insert(Caller(principal.clone()));
    request
}

/// For whom a call is made: an extension of its request until a link takes it.
#[derive(Clone)]
pub(crate) struct Caller(pub(crate) Principal);

/// Takes out of a client's call what only Cairn's services may say.
pub(crate) fn remove_headers(headers: &mut HeaderMap) {
    headers.remove(&NAMESPACE);
    headers.remove(&PRINCIPAL);
}

/// The principal that the headers of an internal call carry. None for a call without a namespace.
pub(crate) fn from_headers(headers: &HeaderMap) -> Result<Option<Principal>, RpcError> {
    let mut values = headers.get_all(&NAMESPACE).iter();
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
    let Ok(Ok(namespace)) = value.to_str().map(Namespace::from_str) else {
        return invalid("is not a namespace");
    };
    in_namespace(headers, namespace).map(Some)
}

fn in_namespace(headers: &HeaderMap, namespace: Namespace) -> Result<Principal, RpcError> {
    let refused = |problem: &str, reason| {
        let message = format!(
            "the call names {problem} in its {PRINCIPAL_HEADER} metadata (allowed: authentication, \
             space and subject, once, such as \"socket uid:1000\")"
        );
        RpcError::new(ErrorKind::Unauthenticated, message).reason(reason)
    };
    let mut values = headers.get_all(&PRINCIPAL).iter();
    let principal = match (values.next(), values.next()) {
        (None, _) => return Err(refused("no principal", "PRINCIPAL_MISSING")),
        (Some(value), None) => parsed(value, namespace),
        (Some(_), Some(_)) => None,
    };
    principal.ok_or_else(|| refused("no valid principal", "PRINCIPAL_INVALID"))
}

fn parsed(value: &HeaderValue, namespace: Namespace) -> Option<Principal> {
    let (name, subject) = value.to_str().ok()?.split_once(' ')?;
    let mut all = Authentication::ALL.into_iter();
    let authentication = all.find(|authentication| authentication.name() == name)?;
    Principal::new(authentication, subject, namespace).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn team() -> Namespace {
        "team-1".parse().unwrap()
    }

    #[test]
    fn a_namespace_is_a_plain_name() {
        assert_eq!(Namespace::default().as_str(), "default");
        assert_eq!(team().as_str(), "team-1");
        for bad in ["", "Team", "a/b", "{a}", "a b", "-a", &"x".repeat(64)] {
            assert!(bad.parse::<Namespace>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_request_carries_one_principal() {
        for authentication in Authentication::ALL {
            let principal = Principal::new(authentication, "anne@example.com:7", team()).unwrap();
            let mut headers = HeaderMap::new();
            Principal::token().set_on(&mut headers);
            principal.set_on(&mut headers);
            assert_eq!(from_headers(&headers).unwrap(), Some(principal));
        }
    }

    #[test]
    fn a_subject_is_printable() {
        for bad in ["", "a b", " a", "a\n", "ä", &"x".repeat(129)] {
            let refused = Principal::new(Authentication::Token, bad, team());
            assert!(refused.is_err(), "{bad:?}");
        }
    }

    #[test]
    fn without_a_principal_a_call_is_refused() {
        let error = principal(&Request::new(())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unauthenticated);
        let mut request = Request::new(());
        request.extensions_mut().insert(Principal::anonymous());
        assert_eq!(principal(&request).unwrap(), &Principal::anonymous());
    }
}
