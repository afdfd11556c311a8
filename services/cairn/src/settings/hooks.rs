//! `[[hooks]]`: programs and services that runs ask before and after what they do, and which addresses clients may
//! store as hooks.

use cairn_agents::is_name;
use cairn_boot::Checks;
use cairn_engine::hooks::{MAX_HOOKS, Point};
use cairn_engine::rules::NamePattern;
use cairn_hooks::{
    AddressPattern, DEFAULT_TIMEOUT, Definition, HostUrl, LONGEST_TIMEOUT, Means, OnError, Policy,
    ProgramConfig, SHORTEST_TIMEOUT,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::Duration;

/// Most patterns of addresses.
const MOST_ADDRESSES: usize = 100;
/// Variables that are set for a program and cannot be asked for.
const OWN_VARIABLES: [&str; 3] = ["CAIRN_HOOK_KEY", "PATH", "TRACEPARENT"];

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
        let name = format!("{at}.name");
        let problem = format!("is {:?}", hook.name);
        let allowed =
            "1 to 64 letters, digits, '.', '_' and '-', of which the first is a letter or a digit";
        checks.require(is_name(&hook.name), &name, &problem, allowed);
        let is_new = names.insert(&hook.name);
        let problem = format!("is '{}' twice", hook.name);
        checks.require(is_new, &name, &problem, "a name of its own");
        hook.check(&at, checks);
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
        let points = format!("{at}.points");
        let has_points = !self.points.is_empty();
        checks.require(has_points, &points, "is empty", &point_names());
        let known: BTreeSet<Point> = self.points.iter().copied().collect();
        let are_different = known.len() == self.points.len();
        checks.require(are_different, &points, "names a point twice", "each once");
        let of_calls = [Point::PreToolCall, Point::PostToolCall];
        let has_calls = of_calls.iter().any(|point| known.contains(point));
        checks.require(
            self.tools.is_empty() || has_calls,
            &format!("{at}.tools"),
            "is set, but the hook is not asked about calls",
            "PreToolCall or PostToolCall in points",
        );
        check_patterns(&format!("{at}.tools"), &self.tools, checks);
        let agents = self.agents.as_deref().unwrap_or_default();
        check_patterns(&format!("{at}.agents"), agents, checks);
        let timeout = format!("{at}.timeout");
        checks.range(&timeout, self.timeout, SHORTEST_TIMEOUT..=LONGEST_TIMEOUT);
        self.check_kind(at, checks);
    }

    /// What is asked: a program, a service, or a part of the process.
    fn check_kind(&self, at: &str, checks: &mut Checks) {
        let command = format!("{at}.command");
        let has_one = self.command.is_empty() || self.url.is_none();
        let allowed = "a command or a url, not both";
        checks.require(has_one, &command, "stands beside url", allowed);
        let is_word = |word: &String| !word.contains('\0');
        let has_program = self.command.first().is_none_or(|it| !it.is_empty());
        let holds = has_program && self.command.iter().all(is_word);
        checks.require(
            holds,
            &command,
            "has no program, or a zero byte",
            "a program and its arguments, such as [\"python3\", \"guard.py\"]",
        );
        if let Some(url) = &self.url {
            let problem = "is no address of a service";
            let allowed = "http://host:port, https://host:port or unix:/path/to/socket";
            let is_address = url.parse::<HostUrl>().is_ok();
            checks.require(is_address, &format!("{at}.url"), problem, allowed);
        }
        let env = format!("{at}.env");
        let needs = "belongs to a program";
        let has_command = self.env.is_empty() || !self.command.is_empty();
        checks.require(has_command, &env, needs, "a command beside it");
        let is_own = |name: &&String| OWN_VARIABLES.contains(&name.as_str());
        let is_wrong = |name: &&String| name.is_empty() || name.contains(['=', '\0']);
        if let Some(name) = self.env.iter().find(|it| is_own(it) || is_wrong(it)) {
            let problem = format!("has {name:?}");
            let allowed = format!("names of variables; a program has {OWN_VARIABLES:?} anyway");
            checks.require(false, &env, &problem, &allowed);
        }
    }
}

fn check_patterns(name: &str, patterns: &[String], checks: &mut Checks) {
    let mut patterns = patterns.iter();
    let wrong = patterns.find(|pattern| pattern.is_empty() || NamePattern::new(pattern).is_err());
    let problem = wrong.map(|pattern| format!("has {pattern:?}"));
    let allowed = "names, and patterns such as \"review*\"";
    let holds = problem.is_none();
    checks.require(holds, name, &problem.unwrap_or_default(), allowed);
}

/// The names of all points, in their order.
pub(crate) fn point_names() -> String {
    let names: Vec<_> = Point::ALL.iter().map(|point| point.name()).collect();
    names.join(", ")
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
