//! What can be set.

use cairn_model::RetryPolicy;

/// Settings of the planner.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Plans that may be in the making at the same time; one more is refused.
    pub max_plans: usize,
    /// How often a model that does not answer is asked again.
    pub retry: RetryPolicy,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_plans: 256,
            retry: RetryPolicy::default(),
        }
    }
}
