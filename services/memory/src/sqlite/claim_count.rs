//! How often a session was claimed without progress.

use rusqlite::ToSql;
use rusqlite::types::{FromSql, FromSqlResult, ToSqlOutput, ValueRef};

/// Claims without progress that quarantine a session.
const MAX_CLAIMS: i64 = 5;

/// Claims of a session without progress, as the column `claims` has them.
///
/// The number is negative from a claim until its owner first writes or renews. That claim does not count
/// yet: its answer may be lost, and an owner that never got the answer cannot have died of the session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ClaimCount(i64);

impl ClaimCount {
    fn counted(self) -> i64 {
        match self.0 {
            unconfirmed if unconfirmed < 0 => -unconfirmed - 1,
            counted => counted,
        }
    }

    /// Whether the next claim quarantines the session.
    pub(super) fn is_full(self) -> bool {
        self.counted() >= MAX_CLAIMS
    }

    /// After one claim more.
    pub(super) fn claimed(self) -> Self {
        Self(-(self.counted() + 1))
    }

    /// After a write or a renewal of the owner, which has the answer to its claim.
    pub(super) fn confirmed(self) -> Self {
        Self(self.0.abs())
    }

    /// After the owner let go by itself: its claim does not count.
    pub(super) fn released(self) -> Self {
        Self((self.0.abs() - 1).max(0))
    }
}

impl FromSql for ClaimCount {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_i64().map(Self)
    }
}

impl ToSql for ClaimCount {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        self.0.to_sql()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_counts_once_its_owner_confirms_it() {
        let none = ClaimCount::default();
        let lost = none.claimed().claimed().claimed();
        assert_eq!((lost.counted(), lost.confirmed().counted()), (0, 1));
        let confirmed = lost.confirmed();
        assert_eq!(confirmed.confirmed(), confirmed);
        assert_eq!(confirmed.claimed().counted(), 1);
        assert_eq!(confirmed.claimed().confirmed().counted(), 2);
    }

    #[test]
    fn a_claim_that_ends_cleanly_does_not_count() {
        let one = ClaimCount::default().claimed().confirmed();
        for second in [one.claimed(), one.claimed().confirmed()] {
            assert_eq!(second.released(), one);
        }
        // A creation is no claim.
        assert_eq!(ClaimCount::default().released(), ClaimCount::default());
    }
}
