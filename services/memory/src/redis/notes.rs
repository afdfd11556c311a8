//! What a session's hash keeps for listings, in one field: `tokens cost pending agent`, of which the
//! last may hold blanks.

use crate::port::{Header, pending_of, pending_text};

/// The field of a header.
pub(super) fn notes(header: &Header) -> String {
    let pending = pending_text(&header.pending);
    format!(
        "{} {} {pending} {}",
        header.tokens, header.cost_nano_usd, header.agent
    )
}

/// The header with what the field says.
pub(super) fn noted(header: Header, notes: &str) -> Header {
    let mut parts = notes.splitn(4, ' ');
    let mut next = || parts.next().unwrap_or_default();
    Header {
        tokens: next().parse().unwrap_or(0),
        cost_nano_usd: next().parse().unwrap_or(0),
        pending: pending_of(next()),
        agent: next().to_owned(),
        ..header
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::PendingKind;

    #[test]
    fn notes_are_read_back() {
        let open = PendingKind {
            kind: 3,
            since_unix_ms: 1_800_000_000_000,
            count: 1,
        };
        let full = Header {
            agent: "two words".to_owned(),
            tokens: 12,
            cost_nano_usd: u64::MAX,
            pending: vec![open],
            ..Header::default()
        };
        for header in [full, Header::default()] {
            assert_eq!(noted(Header::default(), &notes(&header)), header);
        }
        assert_eq!(noted(Header::default(), ""), Header::default());
    }
}
