//! Names of sessions among all tenants.

use cairn_proto::memory::SessionRef;
use cairn_rpc::{Namespace, RpcError, TraceParent};
use sha2::{Digest, Sha256};
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
    let mut digest = Sha256::new();
    digest.update((namespace.as_str().len() as u64).to_be_bytes());
    digest.update(namespace.as_str());
    digest.update(request_id);
    let digest = digest.finalize();
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
    let mut digest = Sha256::new();
    for part in ["trace", namespace.as_str(), session] {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    digest.update(request_id);
    let digest = digest.finalize();
    let (trace_id, _) = digest.split_at(16);
    let trace_id = trace_id
        .iter()
        .fold(0, |id, byte| id << 8 | u128::from(*byte));
    TraceParent {
        // Zero is no trace.
        trace_id: trace_id.max(1),
        span_id: 0,
        is_sampled: true,
    }
}
