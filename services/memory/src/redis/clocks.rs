//! The servers' clocks, held against each other.

use super::ask::Answered;
use super::node::Node;
use super::script::{Odd, Reply};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The clocks of a store's servers may differ by so much without a word.
pub(super) const STEP_MS: i64 = 300;

/// What a server's clock said, and when: it did some time between the question and the answer, so
/// that a server that answers late is not taken for one whose clock is ahead.
#[derive(Debug, Clone)]
pub(super) struct Reading {
    server: Arc<Node>,
    pub(super) unix_ms: i64,
    /// Counted from a moment that is the same for all that are held against each other.
    asked: Duration,
    answered: Duration,
}

/// Two servers whose clocks differ.
#[derive(Clone)]
pub(super) struct Apart {
    ahead: Arc<Node>,
    behind: Arc<Node>,
    /// At least so many milliseconds.
    pub(super) by_ms: i64,
}

impl Reading {
    /// From an answer to TIME.
    pub(super) fn of(answered: Answered) -> Result<Self, Odd> {
        let mut parts = Reply::new(answered.value)?;
        Ok(Self {
            unix_ms: parts.int()? * 1000 + parts.int()? / 1000,
            server: answered.node,
            asked: answered.asked,
            answered: answered.answered,
        })
    }

    /// What the clock said at the common moment, at least.
    fn from(&self) -> i64 {
        self.unix_ms.saturating_sub(millis(self.answered))
    }

    /// And at most.
    fn to(&self) -> i64 {
        self.unix_ms.saturating_sub(millis(self.asked))
    }
}

/// The two that are furthest apart, if some are for sure.
pub(super) fn apart(readings: &[Reading]) -> Option<Apart> {
    let ahead = readings.iter().max_by_key(|it| it.from())?;
    let behind = readings.iter().min_by_key(|it| it.to())?;
    let by_ms = ahead.from() - behind.to();
    (by_ms > 0).then(|| Apart {
        ahead: ahead.server.clone(),
        behind: behind.server.clone(),
        by_ms,
    })
}

/// Of several times the one in the middle, the earlier of two: one wrong clock among three or more
/// changes nothing.
pub(super) fn middle(times: impl IntoIterator<Item = i64>) -> Option<i64> {
    let mut times: Vec<_> = times.into_iter().collect();
    times.sort_unstable();
    times.get(times.len().saturating_sub(1) / 2).copied()
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

impl fmt::Display for Apart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            ahead,
            behind,
            by_ms,
        } = self;
        let (ahead, behind) = (ahead.name(), behind.name());
        write!(
            f,
            "the clock of {ahead} is {by_ms} ms ahead of that of {behind}: leases end by them, and \
             so they have to be set alike"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::RedisUrl;
    use crate::redis::address::{Endpoint, TlsFiles};

    #[test]
    fn one_wrong_clock_does_not_decide() {
        for (times, want) in [
            (&[][..], None),
            (&[5][..], Some(5)),
            (&[3_600_005, 5][..], Some(5)),
            (&[6, 3_600_000, 5][..], Some(6)),
            (&[6, -3_600_000, 5][..], Some(5)),
            (&[6, 7, 3_600_000, 5][..], Some(6)),
        ] {
            assert_eq!(middle(times.iter().copied()), want, "{times:?}");
        }
    }

    fn reading(port: u16, unix_ms: i64, asked: u64, answered: u64) -> Reading {
        let url = RedisUrl::from(format!("redis://127.0.0.1:{port}"));
        let endpoint = Endpoint::parse(&url, TlsFiles::default()).unwrap();
        Reading {
            server: Arc::new(Node::new(endpoint).unwrap()),
            unix_ms,
            asked: Duration::from_millis(asked),
            answered: Duration::from_millis(answered),
        }
    }

    #[test]
    fn clocks_that_differ_do_so_by_what_the_wait_for_their_answers_cannot_explain() {
        for (one, other, want) in [
            ((50_000, 0, 10), (50_000, 0, 10), None),
            // It may have looked at its clock late.
            ((54_000, 0, 4_000), (50_000, 0, 10), None),
            ((74_000, 0, 4_000), (50_000, 0, 10), Some(20_000)),
            // It was asked late.
            ((54_000, 4_000, 4_010), (50_000, 0, 10), None),
            ((50_000, 0, 10), (70_000, 0, 10), Some(19_990)),
        ] {
            let (one, other) = (
                reading(1, one.0, one.1, one.2),
                reading(2, other.0, other.1, other.2),
            );
            let found = apart(&[one.clone(), other.clone()]);
            assert_eq!(found.as_ref().map(|it| it.by_ms), want, "{one:?} {other:?}");
            if let Some(found) = found {
                let (first, last) = match one.unix_ms > other.unix_ms {
                    true => (1, 2),
                    false => (2, 1),
                };
                let told = found.to_string();
                let want = format!("the clock of redis at 127.0.0.1:{first} is ");
                assert!(told.starts_with(&want), "{told}");
                assert!(told.contains(&format!("127.0.0.1:{last}: ")), "{told}");
            }
        }
        assert!(apart(&[]).is_none());
    }
}
