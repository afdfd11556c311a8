//! `[[hooks]]`: programs and services that runs ask before and after what they do, and which addresses clients may
//! store as hooks.

use super::Settings;
use crate::error::CliError;
use cairn_agents::of_other_program;
use cairn_boot::{Checks, ConfigErrors, ConfigFault, Loaded};
use cairn_engine::hooks::{MAX_HOOKS, Point};
use cairn_hooks::{
    AddressPattern, DEFAULT_TIMEOUT, Definition, Means, OnError, Policy, ProgramConfig,
    REACHED_WITHIN,
};
use serde::de::value::StrDeserializer;
use serde::de::{Deserializer, Error, IntoDeserializer, Unexpected, Visitor};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

/// Most patterns of addresses.
const MOST_ADDRESSES: usize = 100;
/// What Claude Code calls points, as the questions to programs do (`hook_event_name`).
const OF_CLAUDE_CODE: [(&str, Point); 7] = [
    ("PostToolUse", Point::PostToolCall),
    ("PreCompact", Point::OnCompaction),
    ("PreToolUse", Point::PreToolCall),
    ("SessionEnd", Point::OnRunEnd),
    ("SessionStart", Point::OnRunStart),
    ("Stop", Point::OnTurnEnd),
    ("UserPromptSubmit", Point::OnTurnStart),
];

/// A hook that the operator configures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HookSettings {
    /// Its name, which runs record.
    pub name: String,
    /// Where runs ask it.
    #[serde(deserialize_with = "named_points")]
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

/// The point that a word stands for which is no name of a point: a name in other letters, or Claude Code's.
pub(crate) fn point_meant(word: &str) -> Option<Point> {
    let own = Point::ALL.iter().map(|point| (point.name(), *point));
    let mut names = own.chain(OF_CLAUDE_CODE);
    let found = names.find(|(name, _)| name.eq_ignore_ascii_case(word));
    found.map(|(_, point)| point)
}

/// A point by its name.
struct NamedPoint(Point);

impl<'de> Deserialize<'de> for NamedPoint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;
        impl Visitor<'_> for Name {
            type Value = NamedPoint;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a point, as cairn hook points lists it")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<NamedPoint, E> {
                let name: StrDeserializer<'_, E> = text.into_deserializer();
                match (Point::deserialize(name), point_meant(text)) {
                    (Err(_), Some(meant)) => {
                        let problem = format!("{text:?}, did you mean {}?", meant.name());
                        Err(E::invalid_value(Unexpected::Other(&problem), &self))
                    }
                    (named, _) => named.map(NamedPoint),
                }
            }
        }
        deserializer.deserialize_str(Name)
    }
}

fn named_points<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Point>, D::Error> {
    let points = Vec::<NamedPoint>::deserialize(deserializer)?;
    Ok(points.into_iter().map(|NamedPoint(point)| point).collect())
}

/// Refuses hooks of this process, because a command has none: only programs in Rust register some.
///
/// # Errors
/// All hooks without a command and without a url, with exit code 2.
pub(crate) fn check_means(settings: &Loaded<Settings>) -> Result<(), CliError> {
    // The services at a server ask hooks of their own.
    if settings.config.client.server.is_some() {
        return Ok(());
    }
    let hooks = settings.config.hooks.iter().enumerate();
    let without = hooks.filter(|(_, hook)| hook.definition().means == Means::InProcess);
    let faults = without.map(|(index, _)| {
        let path = format!("hooks[{index}]");
        ConfigFault {
            source: settings.origin(&path).clone(),
            path,
            problem: "needs a command or a url".to_owned(),
            allowed: "a program with its arguments in command, or the address of a service in url"
                .to_owned(),
        }
    });
    let faults: Vec<_> = faults.collect();
    match faults.is_empty() {
        true => Ok(()),
        false => Err(CliError::usage(ConfigErrors(faults).to_string())),
    }
}

/// What is wrong with a list of tools of which no fault can be made, because a server may have tools of any name: tools
/// that other programs call so. A hook is asked about no call of them.
pub(crate) fn foreign_tools(tools: &[String], settings: &Settings) -> Option<String> {
    let commands = &settings.tools.commands;
    let is_own = |name: &str| commands.iter().any(|command| command.name == name);
    // Claude Code has one pattern for several tools.
    let names = tools.iter().flat_map(|pattern| pattern.split('|'));
    let words = names.filter_map(|name| match of_other_program(name)? {
        _ if is_own(name) => None,
        [] => Some(format!(
            "{name:?} is a tool of other programs, and Cairn has none like it"
        )),
        here => Some(format!(
            "{name:?} is a tool of other programs, which is {} here",
            here.join(" or ")
        )),
    });
    let words: Vec<_> = words.collect();
    (!words.is_empty()).then(|| words.join("; "))
}

/// The same for all hooks of the settings, each named by its setting.
pub(crate) fn warnings(settings: &Settings) -> Vec<String> {
    let hooks = settings.hooks.iter().enumerate();
    let warnings = hooks.filter_map(|(index, hook)| {
        let words = foreign_tools(&hook.tools, settings)?;
        Some(format!("hooks[{index}].tools: {words}"))
    });
    warnings.collect()
}

/// The longest time that hooks take which are asked about the end of a run, one after the other.
pub(crate) fn time_at_end(hooks: &[HookSettings]) -> Duration {
    let asked = hooks.iter();
    let asked = asked.filter(|hook| hook.points.contains(&Point::OnRunEnd));
    let times = asked.map(|hook| match hook.url {
        // A service that cannot be reached is asked again.
        Some(_) => hook.timeout + REACHED_WITHIN,
        None => hook.timeout,
    });
    times.sum()
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
