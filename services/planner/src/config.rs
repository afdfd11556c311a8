//! What can be set.

use cairn_model::RetryPolicy;
use cairn_model::prompt::Prompts;
use std::sync::Arc;

/// Settings of the planner.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Plans that may be in the making at the same time; one more is refused.
    pub max_plans: usize,
    /// How often a model that does not answer is asked again.
    pub retry: RetryPolicy,
    /// What models are told that make plans.
    pub prompts: Arc<Prompts>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_plans: 256,
            retry: RetryPolicy::default(),
            prompts: Arc::default(),
        }
    }
}
