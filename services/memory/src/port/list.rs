//! Listing sessions: what is asked for, and which sessions pass.

use super::{Level, Quarantine, SessionStatus};

/// Sessions that one page looks at, at most. It bounds what a listing costs whatever the filter is.
pub(crate) const MOST_LOOKED_AT: usize = 2000;

/// Milliseconds to which the order of last changes is kept: a session at work changes its place in
/// that order a few times a second, and not with each transition.
const CHANGED_MS: i64 = 100;

/// What a session asks a person, of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingKind {
    /// From 1 to 31; opaque to the store.
    pub kind: u8,
    /// When the oldest question of the kind was asked.
    pub since_unix_ms: i64,
    /// How many there are.
    pub count: u32,
}

/// By what sessions are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ListOrder {
    /// By their creation.
    #[default]
    Created,
    /// By the tenth of a second of their last change, and then by their ids.
    Changed,
}

/// A place in a listing. It stays valid if the session there is deleted or changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageToken {
    /// Its meaning depends on the order, and for the order of creation on the store.
    pub number: u64,
    /// The id of the last session of the page before.
    pub session: String,
}

/// See [`Store::list`](super::Store::list).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListQuery {
    /// Which sessions.
    pub filter: ListFilter,
    /// In which order.
    pub order: ListOrder,
    /// Oldest first instead of newest first.
    pub is_ascending: bool,
    /// The end of the page before.
    pub from: Option<PageToken>,
    /// Most sessions of the page.
    pub max: usize,
}

impl ListQuery {
    /// The first page of all sessions, newest first.
    pub fn newest(max: usize) -> Self {
        Self {
            max,
            ..Self::default()
        }
    }
}

/// Which sessions are listed: those that pass all conditions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListFilter {
    /// With one of these statuses and not quarantined. Empty without `quarantined`: any status.
    pub statuses: Vec<SessionStatus>,
    /// Also quarantined sessions, or only these if `statuses` is empty.
    pub quarantined: bool,
    /// With an open question of one of these kinds, if there are any.
    pub pending: Vec<u8>,
    /// With an open question of any kind.
    pub has_pending: bool,
    /// Of this agent, if not empty.
    pub agent: String,
    /// Whose id or title begins so; upper and lower case are the same in titles.
    pub prefix: String,
    /// With a later last change.
    pub changed_after: Option<i64>,
    /// With an earlier last change.
    pub changed_before: Option<i64>,
}

impl ListFilter {
    /// Only sessions with open questions pass.
    pub(crate) fn asks_pending(&self) -> bool {
        self.has_pending || !self.pending.is_empty()
    }

    /// The first and the last tenth of a second in which what passes may have changed last.
    pub(crate) fn tenths(&self) -> (u64, u64) {
        let first = self.changed_after.map_or(0, tenth);
        (
            first,
            self.changed_before.map_or(u64::from(u32::MAX) << 16, tenth),
        )
    }

    /// The test of a session.
    pub(crate) fn test(&self) -> impl Fn(&SessionEntry) -> bool {
        let lower: String = self.prefix.chars().flat_map(char::to_lowercase).collect();
        move |entry| {
            self.passes_status(entry)
                && self.passes_pending(entry)
                && (self.agent.is_empty() || self.agent == entry.agent)
                && (entry.session.starts_with(&self.prefix) || begins(&entry.title, &lower))
                && self
                    .changed_after
                    .is_none_or(|at| entry.updated_unix_ms > at)
                && self
                    .changed_before
                    .is_none_or(|at| entry.updated_unix_ms < at)
        }
    }

    fn passes_status(&self, entry: &SessionEntry) -> bool {
        let is_any = self.statuses.is_empty() && !self.quarantined;
        is_any
            || match entry.quarantined {
                Some(_) => self.quarantined,
                None => self.statuses.contains(&entry.status),
            }
    }

    fn passes_pending(&self, entry: &SessionEntry) -> bool {
        let is_asked = |open: &PendingKind| self.pending.contains(&open.kind);
        (!self.has_pending || !entry.pending.is_empty())
            && (self.pending.is_empty() || entry.pending.iter().any(is_asked))
    }
}

/// Whether a title begins with this text, which is in lower case.
fn begins(title: &str, lower: &str) -> bool {
    let mut of_title = title.chars().flat_map(char::to_lowercase);
    lower.chars().all(|c| of_title.next() == Some(c))
}

/// A time as the order of last changes has it.
pub(crate) fn tenth(unix_ms: i64) -> u64 {
    u64::try_from(unix_ms.div_euclid(CHANGED_MS)).unwrap_or(0)
}

/// What a listing tells of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionEntry {
    /// Its id.
    pub session: String,
    /// As its owner noted it last.
    pub status: SessionStatus,
    /// As its owner noted it last.
    pub title: String,
    /// As its owner noted it last.
    pub agent: String,
    /// As its owner noted it last.
    pub tokens: u64,
    /// As its owner noted it last.
    pub cost_nano_usd: u64,
    /// As its owner noted it last, ordered by kind.
    pub pending: Vec<PendingKind>,
    /// The level of an owner that can claim it.
    pub needs: Level,
    /// By the store's clock.
    pub created_unix_ms: i64,
    /// Time of the last change of the journal, by the store's clock.
    pub updated_unix_ms: i64,
    /// Number of the last event.
    pub last_seq: u64,
    /// Why it is quarantined, if it is: nobody works on it before it is released.
    pub quarantined: Option<Quarantine>,
}

/// A part of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionPage {
    /// In the order that was asked for.
    pub sessions: Vec<SessionEntry>,
    /// Where the next page begins, if there is one.
    pub next: Option<PageToken>,
}

/// The open questions as stores keep them: `kind:since:count`, separated by commas; `-` for none.
pub(crate) fn pending_text(pending: &[PendingKind]) -> String {
    if pending.is_empty() {
        return "-".to_owned();
    }
    let parts = pending.iter().map(|open| {
        let PendingKind {
            kind,
            since_unix_ms,
            count,
        } = open;
        format!("{kind}:{since_unix_ms}:{count}")
    });
    parts.collect::<Vec<_>>().join(",")
}

/// The way back; what is not understood is left out.
pub(crate) fn pending_of(text: &str) -> Vec<PendingKind> {
    let part = |part: &str| {
        let mut numbers = part.splitn(3, ':');
        Some(PendingKind {
            kind: numbers.next()?.parse().ok()?,
            since_unix_ms: numbers.next()?.parse().ok()?,
            count: numbers.next()?.parse().ok()?,
        })
    };
    text.split(',').filter_map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_questions_are_kept_as_text() {
        let open = |kind, count| PendingKind {
            kind,
            since_unix_ms: 1_800_000_000_000,
            count,
        };
        for (pending, text) in [
            (vec![], "-"),
            (vec![open(3, 1)], "3:1800000000000:1"),
            (
                vec![open(1, 2), open(5, 1)],
                "1:1800000000000:2,5:1800000000000:1",
            ),
        ] {
            assert_eq!(pending_text(&pending), text);
            assert_eq!(pending_of(text), pending);
        }
    }

    #[test]
    fn upper_and_lower_case_are_the_same_in_titles() {
        assert!(begins("Über das Meer", "über"));
        assert!(begins("REDIS", "redis"));
        assert!(!begins("Red", "redis"));
        assert!(begins("whatever", ""));
    }
}
