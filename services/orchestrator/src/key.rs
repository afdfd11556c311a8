//! Names of sessions among all tenants.

use cairn_engine::key::digest;
use cairn_proto::memory::SessionRef;
use cairn_rpc::trace::is_sampled;
use cairn_rpc::{Authentication, Namespace, Principal, RpcError, TraceParent};
use std::fmt;
use std::sync::Arc;

/// A session, whoever's it is. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SessionKey {
    pub(crate) namespace: Namespace,
    pub(crate) id: Arc<str>,
}

impl SessionKey {
    pub(crate) fn new(namespace: &Namespace, id: &str) -> Self {
        Self {
            namespace: namespace.clone(),
            id: Arc::from(id),
        }
    }

    pub(crate) fn to_ref(&self) -> SessionRef {
        SessionRef {
            namespace: self.namespace.as_str().to_owned(),
            session: self.id.to_string(),
        }
    }

    pub(crate) fn from_ref(reference: &SessionRef) -> Result<Self, RpcError> {
        Ok(Self::new(&reference.namespace.parse()?, &reference.session))
    }
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.id)
    }
}

/// The id of a session that is created without one: the same for a repeated request, so that the
/// repeat finds the session, and 50 bits apart from others.
pub(crate) fn derived_session_id(namespace: &Namespace, request_id: &str) -> String {
    const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let digest = digest(&[namespace.as_str().as_bytes(), request_id.as_bytes()]);
    let mut id = String::from("s-");
    id.extend(
        digest
            .iter()
            .take(10)
            .map(|byte| char::from(ALPHABET[usize::from(byte & 31)])),
    );
    id
}

/// The trace of a run whose caller told of none: the same for a repeated request.
pub(crate) fn derived_trace(namespace: &Namespace, session: &str, request_id: &str) -> TraceParent {
    let parts = ["trace", namespace.as_str(), session, request_id];
    let digest = digest(&parts.map(str::as_bytes));
    let trace_id = digest[..16]
        .iter()
        .fold(0, |id, byte| id << 8 | u128::from(*byte));
    // Zero is no trace.
    let trace_id = trace_id.max(1);
    TraceParent {
        trace_id,
        span_id: 0,
        is_sampled: is_sampled(trace_id),
    }
}

/// A caller as the journal keeps it.
pub(crate) fn in_journal(principal: &Principal) -> cairn_engine::principal::Principal {
    use cairn_engine::principal::Authentication as Kept;
    cairn_engine::principal::Principal {
        subject: principal.subject().to_owned(),
        namespace: principal.namespace().to_string(),
        authentication: match principal.authentication() {
            Authentication::Process => Kept::Process,
            Authentication::Socket => Kept::Socket,
            Authentication::Token => Kept::Token,
            Authentication::Anonymous => Kept::Anonymous,
            Authentication::Service => Kept::Service,
        },
    }
}
