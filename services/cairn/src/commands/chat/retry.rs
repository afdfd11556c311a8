//! How long a broken stream of a turn is opened again.

use std::time::Duration;

/// Tries in a row that bring nothing.
const MOST_TRIES: u32 = 30;
const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);

/// The tries since something arrived.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Retry {
    tries: u32,
}

impl Retry {
    /// How long to wait before the next try, at least as long as the server asks; `None` after the
    /// last one. Each pause is twice as long as the one before.
    pub(super) fn pause(&mut self, asked: Option<Duration>) -> Option<Duration> {
        if self.tries >= MOST_TRIES {
            return None;
        }
        let doubled = FIRST * 2_u32.saturating_pow(self.tries.min(8));
        self.tries += 1;
        Some(doubled.min(LONGEST).max(asked.unwrap_or_default()))
    }

    /// Whether this is the first try since something arrived.
    pub(super) fn is_first(&self) -> bool {
        self.tries == 1
    }

    /// Something arrived. Returns whether tries came before it.
    pub(super) fn arrived(&mut self) -> bool {
        std::mem::take(&mut self.tries) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_end() {
        let mut retry = Retry::default();
        let pauses: Vec<Duration> = std::iter::from_fn(|| retry.pause(None)).collect();
        assert_eq!(pauses.len(), MOST_TRIES as usize);
        assert_eq!(pauses[..3], [100, 200, 400].map(Duration::from_millis));
        assert_eq!(pauses.last(), Some(&LONGEST));
        assert!(retry.arrived());
        assert_eq!(retry.pause(None), Some(FIRST));
        assert!(retry.is_first());
    }

    #[test]
    fn the_servers_pause_counts_if_it_is_longer() {
        let mut retry = Retry::default();
        let asked = Duration::from_secs(7);
        assert_eq!(retry.pause(Some(asked)), Some(asked));
        assert_eq!(retry.pause(Some(Duration::ZERO)), Some(FIRST * 2));
        assert!(!retry.is_first());
    }

    #[test]
    fn without_tries_nothing_came_before() {
        assert!(!Retry::default().arrived());
    }
}
