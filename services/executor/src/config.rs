//! What can be set.

use cairn_engine::level::LEVEL;
use cairn_model::RetryPolicy;
use cairn_model::prompt::Prompts;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Settings of the executor.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Attempts that may be under way at the same time; one more is refused.
    pub max_attempts: usize,
    /// Bytes of memory that conversations take together, about: an attempt whose conversation is long waits
    /// until there is room for it, and one that can never have it fails.
    pub bytes: usize,
    /// A tool call that has no answer after this is given up. The tools service has a limit of
    /// its own for each tool, which is shorter; this one is for a tools service that hangs.
    pub call_limit: Duration,
    /// How often a model that does not answer is asked again.
    pub retry: RetryPolicy,
    /// What models are told that write files.
    pub prompts: Arc<Prompts>,
    /// The name of this executor in the pool. Empty: orchestrators name it by its address.
    pub name: String,
    /// Patterns of the tools that attempts in this executor may use, such as `github__*`. Empty for all.
    ///
    /// Orchestrators apply them. The executor only reports them.
    pub tools: Vec<String>,
    /// Capabilities that this executor has beside those that its tools give it, each with its level, from 1.
    pub capabilities: BTreeMap<String, u32>,
    /// Notes of the operator, for people.
    pub labels: BTreeMap<String, String>,
    /// The level that this process reports, in place of its release's: for tests of what an older and a newer
    /// one are sent.
    #[cfg(debug_assertions)]
    pub level: u32,
}

impl Config {
    /// How much this process can read; see [`LEVEL`].
    pub(crate) fn level(&self) -> u32 {
        #[cfg(debug_assertions)]
        return self.level;
        #[cfg(not(debug_assertions))]
        LEVEL
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_attempts: 256,
            bytes: 256 * 1024 * 1024,
            call_limit: Duration::from_secs(60 * 60),
            retry: RetryPolicy::default(),
            prompts: Arc::default(),
            name: String::new(),
            tools: Vec::new(),
            capabilities: BTreeMap::new(),
            labels: BTreeMap::new(),
            #[cfg(debug_assertions)]
            level: LEVEL,
        }
    }
}
