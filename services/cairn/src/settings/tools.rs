//! `[tools]`: which tools may be called, and by whose word.

use super::servers::OfWorkspace;
use super::{Settings, parts};
use crate::node::Service;
use cairn_boot::{Checks, Environment};
use cairn_engine::limits::{RESULT_BYTES, RESULT_BYTES_RANGE};
use cairn_engine::rules::Rule;
use cairn_tools::{CommandConfig, Limits, Network, ShellConfig, WebSearchConfig};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Which tools may be called.
#[derive(Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolSettings {
    /// Names of the tools that may be called; without a list, all.
    pub allow: Option<Vec<String>>,
    /// Names of tools that may not be called, also if they are allowed.
    pub deny: Vec<String>,
    /// Names of tools of which each call waits for a person's approval.
    pub ask: Vec<String>,
    /// Who decides about calls: of the rules that match one, the strictest holds.
    pub rules: Vec<Rule>,
    /// With more tools than this, a model is offered the built-in tools and programs, and finds those of
    /// servers by `search_tools`.
    pub offered: u32,
    /// Most bytes of a result that a model gets at once. The whole of a longer one, of at most 64 MiB, is kept
    /// with the session, and the model reads it in pieces.
    pub result_bytes: usize,
    /// How many tools processes may run at a time. More than one have no server that keeps state.
    pub replicas: u32,
    /// The file that keeps which settings files, servers and tools a person confirmed; without it,
    /// `cairn/trust.json` below `XDG_STATE_HOME` or `~/.local/state`. Over Redis, and in a process of its own,
    /// tools keep servers and tools with memory.
    pub trust: Option<PathBuf>,
    /// Bounds of what one call may use up.
    pub limits: Limits,
    /// Programs as tools.
    pub commands: Vec<CommandConfig>,
    /// `shell_exec`, and what confined programs may do.
    pub shell: ShellConfig,
    /// The provider that `web_search` asks. Without one there is no such tool.
    pub web_search: Option<WebSearchConfig>,
}

impl Default for ToolSettings {
    fn default() -> Self {
        let config = cairn_tools::Config::default();
        Self {
            allow: config.allow,
            deny: config.deny,
            ask: config.ask,
            rules: config.rules,
            offered: config.offered,
            result_bytes: RESULT_BYTES,
            replicas: config.replicas,
            trust: None,
            limits: config.limits,
            commands: config.commands,
            shell: ShellConfig::default(),
            web_search: None,
        }
    }
}

/// The tools service knows its own rules; its faults are named as they are configured here.
pub(super) fn check(settings: &Settings, checks: &mut Checks) {
    let is_path = |path: &PathBuf| !path.as_os_str().is_empty();
    let has_path = settings.tools.trust.as_ref().is_none_or(is_path);
    checks.require(has_path, "tools.trust", "is empty", "a file");
    let bytes = settings.tools.result_bytes;
    checks.range("tools.result_bytes", bytes, RESULT_BYTES_RANGE);
    check_ports(settings, checks);
    // Without values of variables: a server that needs one may be there all the same, and lists may name it.
    let found = OfWorkspace::read(&settings.workspace.path, &Environment::default());
    let tools = parts::tools(settings, &found);
    let mut faults = tools.validate().err().unwrap_or_default();
    faults.extend(tools.check_names());
    for fault in faults {
        if let Some(name) = setting(&fault.field) {
            checks.require(false, &name, &fault.problem, &fault.allowed);
        }
    }
}

/// The setting that a field of the service is; none for one that is checked elsewhere.
fn setting(field: &str) -> Option<String> {
    let section = match field.split(['[', '.']).next() {
        Some(
            "commands" | "limits" | "allow" | "deny" | "ask" | "rules" | "offered" | "replicas"
            | "shell" | "web_search",
        ) => "tools",
        Some("capabilities") => return Some(field.to_owned()),
        Some("show") => "workspace",
        Some("servers") => "mcp",
        Some("agent_paths") => return Some("agents.paths".to_owned()),
        Some("skill_paths") => return Some("skills.paths".to_owned()),
        _ => return None,
    };
    Some(format!("{section}.{field}"))
}

/// A program that reaches a listener of Cairn needs only its token to approve a call, and one that reaches the store
/// may need nothing.
fn check_ports(settings: &Settings, checks: &mut Checks) {
    let Network::Ports(ports) = &settings.tools.shell.network else {
        return;
    };
    let internal = Service::ALL.map(|service| super::links::internal_address(service).port());
    let serve = &settings.serve;
    let own = [
        Some(serve.listen.port()),
        serve.internal.map(|it| it.port()),
    ];
    let own = own.into_iter().flatten().chain(internal);
    let elsewhere = settings.links.ports().chain(settings.store.ports());
    let own: Vec<u16> = own.chain(elsewhere).collect();
    if let Some(port) = ports.iter().find(|port| own.contains(port)) {
        let problem = format!("has the port {port}, on which Cairn or its store listens");
        checks.require(false, "tools.shell.network", &problem, "other ports");
    }
}
