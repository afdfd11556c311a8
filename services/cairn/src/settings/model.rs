//! `[model]`: the default model, and what holds for all models.

use cairn_boot::Checks;
use cairn_boot::config::duration;
use cairn_engine::limits::{LARGEST_REPLY, MAX_REPLY};
use cairn_model::RetryPolicy;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// The default model, and what holds for all models.
#[derive(Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelSettings {
    /// Its name; without one, `openai` or `anthropic` if it is configured, else `offline`.
    pub default: Option<String>,
    /// How long the offline model waits before each reply, so that a person can follow.
    #[serde(with = "cairn_boot::config::duration")]
    pub pace: Duration,
    /// A list of prices that counts more than the built-in one.
    pub prices: Option<PathBuf>,
    /// Most bytes of one reply: its text, and the ids, names and arguments of its calls. A larger
    /// one fails its step, and nothing of it is kept.
    pub max_reply_bytes: u64,
    /// Most retries of a request that failed with a rate limit, a fault of the server (5xx), a
    /// timeout or a broken connection. They also end after 5 minutes.
    pub max_retries: u32,
}

impl Default for ModelSettings {
    fn default() -> Self {
        Self {
            default: None,
            pace: Duration::ZERO,
            prices: None,
            max_reply_bytes: MAX_REPLY as u64,
            max_retries: RetryPolicy::default().max_retries,
        }
    }
}

impl ModelSettings {
    /// How a request that failed is sent again.
    pub(super) fn retry(&self) -> RetryPolicy {
        RetryPolicy {
            max_retries: self.max_retries,
            ..RetryPolicy::default()
        }
    }

    pub(super) fn check(&self, checks: &mut Checks) {
        let minute = Duration::from_secs(60);
        let problem = format!("is {}", duration::show(self.pace));
        checks.require(self.pace <= minute, "model.pace", &problem, "0s to 60s");
        let bytes = self.max_reply_bytes;
        checks.range("model.max_reply_bytes", bytes, 1024..=LARGEST_REPLY as u64);
        checks.range("model.max_retries", self.max_retries, 0..=100);
    }
}
