//! Leases: who owns which session, and until when.

use super::{Level, SessionKey};
use std::time::Duration;

/// A wish for a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRequest {
    /// The owner to be; unique among all processes and over restarts.
    pub owner: String,
    /// Length of the lease.
    pub lease_ms: u32,
}

/// A lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// Goes with every write of the owner.
    pub epoch: u64,
    /// Its end, by the store's clock.
    pub until_unix_ms: i64,
}

/// See [`Store::claim`](super::Store::claim).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRequest {
    /// The owner to be.
    pub owner: String,
    /// Most sessions to claim.
    pub max_sessions: usize,
    /// Length of the leases.
    pub lease_ms: u32,
    /// How long to wait if there is nothing to tell.
    pub wait: Duration,
    /// Claims this session or none.
    pub only: Option<SessionKey>,
    /// The caller's level. Sessions that need more are not claimed.
    pub level: Level,
}

/// A session that the caller owns from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Which one.
    pub key: SessionKey,
    /// Its lease.
    pub lease: Lease,
    /// Whoever owned it before is proven dead together with its tools.
    pub previous_holder_dead: bool,
}

/// What a claim brought.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Claims {
    /// Claimed just now.
    pub claims: Vec<Claim>,
    /// Owned by the caller already, with unhandled commands.
    pub woken: Vec<SessionKey>,
    /// The store's time.
    pub now_unix_ms: i64,
}

/// A session with its owner's epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedSession {
    /// Which one.
    pub key: SessionKey,
    /// From the claim.
    pub epoch: u64,
}

/// Why a session is quarantined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quarantine {
    /// It was claimed five times without progress: it may be what its owners die of.
    Claims,
    /// The store has lost acknowledged writes of it: whoever continues from what is left may make
    /// calls with side effects again.
    WritesLost,
}

impl Quarantine {
    /// Its name, for metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Claims => "claims",
            Self::WritesLost => "writes_lost",
        }
    }

    /// As the embedded store keeps it; 0 stands for a session that is not quarantine. Never given to
    /// another: it is on disks.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Claims => 1,
            Self::WritesLost => 2,
        }
    }

    /// The way back; whatever a newer program knows of, quarantines as well.
    pub(crate) fn of_number(number: i64) -> Option<Self> {
        match number {
            0 => None,
            2 => Some(Self::WritesLost),
            _ => Some(Self::Claims),
        }
    }
}

/// See [`Store::renew`](super::Store::renew).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenewRequest {
    /// The caller.
    pub owner: String,
    /// What it believes to own.
    pub sessions: Vec<OwnedSession>,
    /// Length of the leases.
    pub lease_ms: u32,
}

/// What a renewal brought.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Renewed {
    /// No longer the caller's.
    pub lost: Vec<SessionKey>,
    /// Still the caller's, with unhandled commands.
    pub woken: Vec<SessionKey>,
    /// Neither renewed for certain nor lost: their server did not answer. Their leases end when
    /// they would have ended, or later.
    pub unanswered: Vec<SessionKey>,
    /// End of the renewed leases.
    pub lease_until_unix_ms: i64,
    /// The store's time.
    pub now_unix_ms: i64,
}

/// A session that waits for capabilities; see [`Store::waiting`](super::Store::waiting).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingSession {
    /// The session.
    pub key: SessionKey,
    /// Since when it waits for exactly this, by the store's clock.
    pub since_unix_ms: i64,
    /// As in its [`Header`](super::Header); not empty.
    pub waits_for: Vec<String>,
}

/// What a session waits for, as stores keep it: a line for each entry, and no text for nothing.
pub(crate) fn waits_text(waits_for: &[String]) -> String {
    waits_for.join("\n")
}

/// The way back.
pub(crate) fn waits_of(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

/// See [`Store::release`](super::Store::release).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseRequest {
    /// The session.
    pub key: SessionKey,
    /// The caller.
    pub owner: String,
    /// From the claim.
    pub epoch: u64,
    /// It is to be claimed so much later at the earliest, unless it is woken; 0 for at once.
    pub delay_ms: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_are_kept_as_text() {
        for (waits_for, text) in [
            (&[][..], ""),
            (&["gpu"][..], "gpu"),
            (&["gpu,web_search>=5", "tpu"][..], "gpu,web_search>=5\ntpu"),
        ] {
            let waits_for: Vec<_> = waits_for.iter().map(|&it| it.to_owned()).collect();
            assert_eq!(waits_text(&waits_for), text);
            assert_eq!(waits_of(text), waits_for);
        }
    }
}
