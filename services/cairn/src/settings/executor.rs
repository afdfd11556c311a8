//! `[executor]`: how much work an executor takes, and what it can do in the pool.

use cairn_boot::Checks;
use cairn_engine::pool::Needed;
use cairn_engine::rules::NamePattern;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

const MIB: usize = 1024 * 1024;
/// Most bytes of the executor's name.
const MAX_NAME: usize = 64;
/// Most capabilities, and most labels. As in PoolService.PutResource, like the next ones.
const MOST: usize = 64;
/// Most bytes of a label's name and of its value.
const MAX_LABEL: usize = 64;
const MAX_LABEL_VALUE: usize = 256;

/// How much work an executor takes, and what it can do.
#[derive(Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct ExecutorSettings {
    /// Most attempts at steps in an executor at a time: further ones go to another, or wait.
    pub max_attempts: usize,
    /// Bytes of memory that the conversations of these attempts take, about: long ones wait for room.
    pub bytes: usize,
    /// The executor's name in the pool; empty for its address.
    pub name: String,
    /// Patterns of the tools that its attempts may use; empty for all.
    pub tools: Vec<String>,
    /// What it can do beside what its tools give it: `gpu`, or `web_search>=5` for that level.
    pub capabilities: Vec<String>,
    /// Notes for people.
    pub labels: BTreeMap<String, String>,
}

impl Default for ExecutorSettings {
    fn default() -> Self {
        let config = cairn_executor::Config::default();
        Self {
            max_attempts: config.max_attempts,
            bytes: config.bytes,
            name: config.name,
            tools: config.tools,
            capabilities: Vec::new(),
            labels: config.labels,
        }
    }
}

impl ExecutorSettings {
    /// The executor's part of these settings.
    pub(super) fn config(&self) -> cairn_executor::Config {
        cairn_executor::Config {
            max_attempts: self.max_attempts,
            bytes: self.bytes,
            name: self.name.clone(),
            tools: self.tools.clone(),
            capabilities: self.levels(),
            labels: self.labels.clone(),
            ..cairn_executor::Config::default()
        }
    }

    /// The capabilities with their levels. One that cannot be read is a fault of the settings, and left out here.
    fn levels(&self) -> BTreeMap<String, u32> {
        let capabilities = self.capabilities.iter();
        let capabilities = capabilities.filter_map(|text| Needed::parse(text).ok());
        capabilities
            .map(|needed| (needed.capability, needed.level.max(1)))
            .collect()
    }

    pub(super) fn check(&self, checks: &mut Checks) {
        let most = self.max_attempts;
        checks.range("executor.max_attempts", most, 1..=100_000);
        checks.range("executor.bytes", self.bytes, MIB..=MIB * MIB);
        let has_name = self.name.is_empty() || is_name(&self.name);
        let problem = format!("is '{}'", self.name);
        let allowed = "1 to 64 letters, digits, '_', '-', '.' and ':', or empty for the address";
        checks.require(has_name, "executor.name", &problem, allowed);
        for pattern in &self.tools {
            let problem = match NamePattern::new(pattern) {
                Err(problem) => problem,
                Ok(_) if pattern.is_empty() => "has an empty item".to_owned(),
                Ok(_) => continue,
            };
            let allowed = "names of tools, or patterns such as github__*";
            checks.require(false, "executor.tools", &problem, allowed);
        }
        self.check_capabilities(checks);
        self.check_labels(checks);
    }

    fn check_capabilities(&self, checks: &mut Checks) {
        let name = "executor.capabilities";
        let allowed = "1 to 64 lower-case letters, digits, '_', '-', '.' and ':', and then perhaps >= and a level \
                       from 1 to 1000000, such as web_search>=5";
        let mut seen = BTreeSet::new();
        for text in &self.capabilities {
            match Needed::parse(text) {
                Ok(needed) => {
                    let problem = format!("has '{}' twice", needed.capability);
                    let is_new = seen.insert(needed.capability);
                    checks.require(is_new, name, &problem, "each capability once");
                }
                Err(_) => checks.require(false, name, &format!("has '{text}'"), allowed),
            }
        }
        check_count(checks, name, self.capabilities.len());
    }

    fn check_labels(&self, checks: &mut Checks) {
        let name = "executor.labels";
        for (label, value) in &self.labels {
            let is_label = (1..=MAX_LABEL).contains(&label.len());
            let problem = format!("has the name '{label}'");
            checks.require(is_label, name, &problem, "names of 1 to 64 bytes");
            let problem = format!("has {} bytes in '{label}'", value.len());
            let is_value = value.len() <= MAX_LABEL_VALUE;
            checks.require(is_value, name, &problem, "at most 256 bytes");
        }
        check_count(checks, name, self.labels.len());
    }
}

fn check_count(checks: &mut Checks, name: &str, count: usize) {
    let problem = format!("has {count} items");
    checks.require(count <= MOST, name, &problem, "at most 64");
}

/// Whether a resource of the pool can have the id.
fn is_name(name: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte);
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_of_name)
}
