//! Which event it was that had a number: whether a store still has that one can be asked without
//! keeping it.

use sha2::{Digest as _, Sha256};

/// An event's number, and a digest of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    pub(crate) seq: u64,
    digest: u64,
}

impl Fingerprint {
    pub(crate) fn of(seq: u64, event: &[u8]) -> Self {
        let [a, b, c, d, e, f, g, h, ..]: [u8; 32] = Sha256::digest(event).into();
        let digest = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        Self { seq, digest }
    }

    /// The one that came later; of two with one number the first.
    pub(crate) fn later(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one, other) {
            (Some(one), Some(other)) if other.seq > one.seq => Some(other),
            (one, other) => one.or(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_told_from_another_with_its_number() {
        let of = |seq, event: &str| Fingerprint::of(seq, event.as_bytes());
        assert_eq!(of(3, "a"), of(3, "a"));
        assert_ne!(of(3, "a"), of(3, "b"));
        assert_ne!(of(3, "a"), of(4, "a"));
        assert_ne!(of(3, ""), of(3, "\0"));
    }

    #[test]
    fn what_came_later_counts() {
        let of = |seq, event: &str| Some(Fingerprint::of(seq, event.as_bytes()));
        let later = Fingerprint::later;
        assert_eq!(later(of(3, "a"), of(4, "b")), of(4, "b"));
        assert_eq!(later(of(4, "b"), of(3, "a")), of(4, "b"));
        assert_eq!(later(of(3, "a"), of(3, "b")), of(3, "a"));
        assert_eq!(later(None, of(3, "a")), of(3, "a"));
        assert_eq!(later(of(3, "a"), None), of(3, "a"));
    }
}
