//! Sessions that are quarantined: nobody works on them before they are released.

use crate::key::SessionKey;
use cairn_proto::{memory, orchestrator};
use cairn_rpc::RpcError;

/// Why a session is quarantined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quarantine {
    /// Its owners died on it five times.
    Claims,
    /// The store has lost acknowledged writes of it.
    WritesLost,
}

impl Quarantine {
    /// What the store tells of a session. A store that does not say why knows of no loss.
    pub(crate) fn read(is_quarantined: bool, reason: memory::QuarantineReason) -> Option<Self> {
        let why = match reason {
            memory::QuarantineReason::WritesLost => Self::WritesLost,
            memory::QuarantineReason::Claims | memory::QuarantineReason::Unspecified => {
                Self::Claims
            }
        };
        is_quarantined.then_some(why)
    }

    /// What clients are told of it.
    pub(crate) fn to_public(quarantine: Option<Self>) -> i32 {
        let reason = match quarantine {
            None => orchestrator::QuarantineReason::Unspecified,
            Some(Self::Claims) => orchestrator::QuarantineReason::Claims,
            Some(Self::WritesLost) => orchestrator::QuarantineReason::WritesLost,
        };
        reason.into()
    }

    /// What is said to whoever would copy a session that the store has lost writes of, and does not
    /// accept that.
    pub(crate) fn refuse_copy(key: &SessionKey) -> RpcError {
        let id = &key.id;
        let message = format!(
            "the store has lost acknowledged writes of session \"{id}\": a copy begins from an older \
             state, and calls with side effects that were made since may be made again; nothing was \
             copied, as that has to be accepted (accept_loss)"
        );
        RpcError::precondition(message)
            .reason("WRITES_LOST")
            .meta("session", id)
    }

    /// What is said to whoever waits for something of such a session; `so` is what becomes of that.
    pub(crate) fn error(self, key: &SessionKey, so: &str) -> RpcError {
        let id = &key.id;
        let (why, word, release) = match self {
            Self::Claims => (
                "its owners died on it five times",
                "claims",
                "ReleaseQuarantine",
            ),
            Self::WritesLost => (
                "the store has lost acknowledged writes of it, so that calls with side effects may \
                 be made again when it continues",
                "writes_lost",
                "ReleaseQuarantine with accept_loss",
            ),
        };
        let message = format!(
            "session \"{id}\" is quarantined, because {why}; {so} once {release} lets it be worked \
             on again"
        );
        RpcError::precondition(message)
            .reason("SESSION_QUARANTINED")
            .meta("session", id)
            .meta("why", word)
    }
}
