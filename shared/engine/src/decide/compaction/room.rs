//! How much fits into the window of a model.

/// The most tokens of a history view, whatever the window.
const LARGEST_VIEW: u64 = 65_536;
/// The least and the most tokens that a summary is given.
const LEAST_SUMMARY: u64 = 64;
const LARGEST_SUMMARY: u64 = 4_096;

/// The parts of a window. One of 0 tokens is not known, and everything fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Room {
    window: u64,
    /// Tokens that stay free for a reply.
    reserve: u64,
}

impl Room {
    /// `max_output_tokens` are those of a reply; 0 if that is not known.
    pub(super) fn new(window: u64, max_output_tokens: u32) -> Self {
        let reply = match max_output_tokens {
            0 => window / 20,
            most => most.into(),
        };
        Self {
            window,
            reserve: reply.min(window / 8),
        }
    }

    /// The most tokens of a request.
    pub(super) fn request(self) -> u64 {
        match self.window {
            0 => u64::MAX,
            window => window - self.reserve,
        }
    }

    /// A request of so many tokens fits.
    pub(super) fn has(self, tokens: u64) -> bool {
        tokens <= self.request()
    }

    /// The most tokens of a summary.
    pub(super) fn summary(self) -> u32 {
        let share = match self.window {
            0 => LARGEST_SUMMARY,
            window => (window / 8).clamp(LEAST_SUMMARY, LARGEST_SUMMARY),
        };
        u32::try_from(share).unwrap_or(u32::MAX)
    }

    /// The most tokens of a question for a summary.
    pub(super) fn question(self) -> u64 {
        match self.window {
            0 => u64::MAX,
            _ => self.request().saturating_sub(self.summary().into()),
        }
    }

    /// The most tokens of a history view.
    pub(super) fn view(self) -> u64 {
        match self.window {
            0 => LARGEST_VIEW,
            window => (window / 5).min(LARGEST_VIEW),
        }
    }
}

/// How many tokens a model counts for a text of an estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scale {
    tokens: u64,
    estimate: u64,
}

impl Scale {
    /// By a request with so many tokens that is estimated so.
    pub(super) fn new(tokens: u64, estimate: u64) -> Self {
        match (tokens, estimate) {
            (0, _) | (_, 0) => Self::permille(1_000),
            (tokens, estimate) => Self { tokens, estimate },
        }
    }

    /// By thousandths of the estimate.
    pub(super) fn permille(permille: u32) -> Self {
        Self {
            tokens: permille.into(),
            estimate: 1_000,
        }
    }

    /// Tokens of a text of this estimate.
    pub(super) fn of(self, estimate: u64) -> u64 {
        share(estimate, self.tokens, self.estimate)
    }

    /// The estimate of a text of so many tokens.
    pub(super) fn estimate_of(self, tokens: u64) -> u64 {
        share(tokens, self.estimate, self.tokens.max(1))
    }
}

/// `number` × `times` / `by`.
fn share(number: u64, times: u64, by: u64) -> u64 {
    let share = u128::from(number) * u128::from(times) / u128::from(by);
    u64::try_from(share).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_and_a_summary_have_their_parts_of_the_window() {
        let parts = |window, output| {
            let room = Room::new(window, output);
            (room.request(), room.summary(), room.question(), room.view())
        };
        assert_eq!(parts(8_000, 0), (7_600, 1_000, 6_600, 1_600));
        assert_eq!(parts(8_000, 4_096), (7_000, 1_000, 6_000, 1_600));
        assert_eq!(parts(8_000, 200), (7_800, 1_000, 6_800, 1_600));
        assert_eq!(parts(100, 0), (95, 64, 31, 20));
        assert_eq!(parts(1_000_000, 8_192), (991_808, 4_096, 987_712, 65_536));
        assert_eq!(parts(0, 100), (u64::MAX, 4_096, u64::MAX, 65_536));
        assert!(Room::new(8_000, 0).has(7_600) && !Room::new(8_000, 0).has(7_601));
    }

    #[test]
    fn tokens_follow_from_estimates_and_back() {
        let scale = Scale::new(1_500, 1_000);
        assert_eq!((scale.of(200), scale.estimate_of(300)), (300, 200));
        for unknown in [Scale::new(0, 1_000), Scale::new(1_000, 0)] {
            assert_eq!(unknown.of(7), 7);
        }
        assert_eq!(Scale::new(u64::MAX, 1).of(u64::MAX), u64::MAX);
        assert_eq!(Scale::permille(0).estimate_of(5), 5_000);
    }
}
