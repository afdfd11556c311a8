//! `[[hooks]]`: programs and services that runs ask before and after what they do, and which addresses clients may
//! store as hooks.

use cairn_boot::Checks;
use cairn_engine::hooks::{MAX_HOOKS, Point};
use cairn_hooks::{
    AddressPattern, DEFAULT_TIMEOUT, Definition, Means, OnError, Policy, ProgramConfig,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::Duration;

/// Most patterns of addresses.
const MOST_ADDRESSES: usize = 100;

/// A hook that the operator configures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HookSettings {
    /// Its name, which runs record.
    pub name: String,
    /// Where runs ask it.
    pub points: Vec<Point>,
    /// Patterns of the tools whose calls it is asked about; empty for all.
    #[serde(default)]
    pub tools: Vec<String>,
    /// Patterns of the agents whose runs ask it; without a list, all runs. With an empty list, only runs of agents that
    /// name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<Vec<String>>,
    /// Program and arguments, which are not read by a shell. The program runs in the workspace, with all rights of
    /// Cairn's own process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Address of a service, such as `https://hooks.example.org:8443` or `unix:/run/hooks.sock`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Environment variables that the program gets, by name, besides `PATH`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// How long one answer may take.
    #[serde(default = "timeout", with = "cairn_boot::config::duration")]
    pub timeout: Duration,
    /// What counts if it fails. Without a value, `block` at points whose name begins with `Pre`, otherwise `proceed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error: Option<OnError>,
}

fn timeout() -> Duration {
    DEFAULT_TIMEOUT
}

/// Finds every fault of the hooks, which are named `LIST[0]`, `LIST[1]` and so on.
pub(crate) fn check(list: &str, hooks: &[HookSettings], checks: &mut Checks) {
    let problem = format!("has {} hooks", hooks.len());
    let allowed = format!("at most {MAX_HOOKS}");
    checks.require(hooks.len() <= MAX_HOOKS, list, &problem, &allowed);
    let mut names = BTreeSet::new();
    for (index, hook) in hooks.iter().enumerate() {
        let at = format!("{list}[{index}]");
        hook.check(&at, checks);
        let is_new = names.insert(&hook.name);
        let problem = format!("is '{}' twice", hook.name);
        checks.require(is_new, &format!("{at}.name"), &problem, "a name of its own");
    }
}

impl HookSettings {
    /// As an orchestrator takes it.
    pub(crate) fn definition(&self) -> Definition {
        let means = match (&self.url, self.command.is_empty()) {
            (Some(url), _) => Means::Host(url.clone()),
            (None, true) => Means::InProcess,
            (None, false) => Means::Program(ProgramConfig {
                argv: self.command.clone(),
                env: self.env.clone(),
            }),
        };
        Definition {
            name: self.name.clone(),
            points: self.points.iter().copied().collect(),
            agents: self.agents.clone(),
            tools: self.tools.clone(),
            means,
            policy: Policy {
                timeout: self.timeout,
                on_error: self.on_error,
            },
        }
    }

    fn check(&self, at: &str, checks: &mut Checks) {
        for fault in self.definition().faults() {
            let name = format!("{at}.{}", fault.field);
            checks.require(false, &name, &fault.problem, &fault.allowed);
        }
        // A definition cannot say what follows.
        let different: BTreeSet<Point> = self.points.iter().copied().collect();
        let are_different = different.len() == self.points.len();
        let points = format!("{at}.points");
        checks.require(are_different, &points, "names a point twice", "each once");
        let has_one = self.command.is_empty() || self.url.is_none();
        checks.require(
            has_one,
            &format!("{at}.command"),
            "stands beside url",
            "a command or a url, not both",
        );
        let has_command = self.env.is_empty() || !self.command.is_empty();
        checks.require(
            has_command,
            &format!("{at}.env"),
            "belongs to a program",
            "a command beside it",
        );
    }
}

/// Finds every fault of the patterns of `serve.hook_addresses`.
pub(super) fn check_addresses(patterns: &[String], checks: &mut Checks) {
    let name = "serve.hook_addresses";
    let problem = format!("has {} items", patterns.len());
    let allowed = format!("at most {MOST_ADDRESSES}");
    checks.require(patterns.len() <= MOST_ADDRESSES, name, &problem, &allowed);
    for pattern in patterns {
        let problem = format!("has {pattern:?}");
        let allowed = "a scheme, a host and a port, in which labels of the host and the port may be *, such as \
                       \"https://*.example.org:*\"";
        let is_read = AddressPattern::new(pattern).is_some();
        checks.require(is_read, name, &problem, allowed);
    }
}
