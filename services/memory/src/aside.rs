//! Sessions that are quarantined, told to whoever looks after the store: nothing else would show it,
//! and nobody works on them before a person has said so.

use crate::port::{Quarantine, SessionKey};
use cairn_rpc::metrics::{self, counter};

/// A session was quarantined just now.
pub(crate) fn tell(key: &SessionKey, quarantine: Quarantine) {
    let why = match quarantine {
        Quarantine::Claims => "its owners died on it five times",
        Quarantine::WritesLost => "the store has lost acknowledged writes of it",
    };
    tracing::warn!(
        namespace = key.namespace(),
        session = key.session(),
        why,
        "a session is quarantined: nobody works on it before it is released, as cairn resume does"
    );
    counter!(metrics::SESSIONS_QUARANTINED, "why" => quarantine.name()).increment(1);
}
