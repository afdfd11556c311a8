//! What a session has learned of its models: how many tokens they count, and how many they take.

use super::Session;
use crate::conversation::is_sample;
use crate::message::Usage;
use crate::result::most_for_window;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Tokens in thousandths of their estimate, before anything is learned.
const UNKNOWN: u32 = 1_000;
/// The least and the most that is learned. What lies outside is no count of the same texts.
const LEARNED: RangeInclusive<u32> = 500..=3_000;

/// What was learned of each model, by its name in the settings. The default model has an empty name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimates(BTreeMap<String, Estimate>);

/// What was learned of a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimate {
    /// What its provider counts, in thousandths of the estimate. [`Estimates::of`] gives 1000 for a model of
    /// which nothing was learned.
    pub permille: u32,
    /// Tokens of its window; 0 for not known.
    pub window: u64,
}

impl Estimates {
    /// What is known of the model of that name.
    pub fn of(&self, model: &str) -> Estimate {
        let known = self.0.get(model).copied().unwrap_or_default();
        match known.permille {
            0 => Estimate {
                permille: UNKNOWN,
                ..known
            },
            _ => known,
        }
    }

    /// Learns from a reply: what the provider counted for a request that was estimated so, and the window.
    /// A count that is not of one request says nothing.
    pub(super) fn learn(&mut self, model: &str, usage: &Usage, estimated_tokens: u64, window: u64) {
        let has_sample = is_sample(usage, estimated_tokens);
        if !has_sample && window == 0 {
            return;
        }
        let known = self.0.entry(model.to_owned()).or_default();
        if window > 0 {
            known.window = window;
        }
        if has_sample {
            let sample = usage.input_tokens.saturating_mul(1_000) / estimated_tokens;
            let sample = u32::try_from(sample).unwrap_or(u32::MAX);
            let sample = sample.clamp(*LEARNED.start(), *LEARNED.end());
            known.permille = match known.permille {
                0 => sample,
                before => (3 * before + sample) / 4,
            };
        }
    }
}

impl Session {
    /// Most bytes of a result that the model of a run gets at once. `most` holds for every model. The window of the
    /// model is known from its first reply on.
    pub fn result_bytes(&self, run: u32, most: usize) -> usize {
        let model = self.run(run).map_or("", |run| &run.model);
        most_for_window(most, self.estimates.of(model).window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(input_tokens: u64) -> Usage {
        Usage {
            input_tokens,
            model_calls: 1,
            ..Usage::default()
        }
    }

    #[test]
    fn the_first_count_is_taken_whole_and_each_later_one_by_a_quarter() {
        let mut estimates = Estimates::default();
        assert_eq!(estimates.of("a").permille, 1_000);
        estimates.learn("a", &counted(1_200), 1_000, 0);
        assert_eq!(estimates.of("a").permille, 1_200);
        estimates.learn("a", &counted(2_000), 1_000, 0);
        assert_eq!(estimates.of("a").permille, 1_400);
        assert_eq!(estimates.of("b").permille, 1_000, "each model for itself");
    }

    #[test]
    fn what_is_no_count_of_one_request_is_not_learned() {
        let mut estimates = Estimates::default();
        let twice = Usage {
            model_calls: 2,
            ..counted(2_000)
        };
        estimates.learn("", &twice, 1_000, 0);
        estimates.learn("", &counted(2_000), 0, 0);
        estimates.learn("", &counted(0), 1_000, 0);
        assert_eq!(estimates, Estimates::default());
        estimates.learn("", &counted(100_000), 1_000, 0);
        assert_eq!(estimates.of("").permille, 3_000);
        let mut estimates = Estimates::default();
        estimates.learn("", &counted(1), u64::MAX, 0);
        assert_eq!(estimates.of("").permille, 500);
        estimates.learn("", &counted(u64::MAX), u64::MAX, 0);
        let learned = estimates.of("").permille;
        assert!((500..1_000).contains(&learned), "{learned}");
    }

    #[test]
    fn a_result_fits_into_a_small_window() {
        let mut session = Session::default();
        let bytes = |session: &Session| session.result_bytes(1, 32 * 1024);
        assert_eq!(bytes(&session), 32 * 1024, "its window is not known");
        for (window, expected) in [(8_000, 8_000), (100, 1_024), (1_000_000, 32 * 1024)] {
            session.estimates.learn("", &counted(1), 0, window);
            assert_eq!(bytes(&session), expected);
        }
        session.estimates.learn("", &counted(1), 1, 0);
        assert_eq!(session.estimates.of("").window, 1_000_000, "it stays known");
    }
}
