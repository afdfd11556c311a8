//! What can be configured: `cairn.toml` < environment < flags.
//!
//! | section | what |
//! |---|---|
//! | `[store]`, `[store.redis]` | where sessions are stored: in a file, or on Redis |
//! | `[workspace]` | the folder that tools read, and the one that they write to |
//! | `[tools]` | which tools may be called, and by whose word; programs as tools |
//! | `[tools.web_search]` | the provider that `web_search` asks |
//! | `[capabilities]` | the tools that each capability takes |
//! | `[mcp.servers.<name>]` | servers of the Model Context Protocol, whose tools may be called |
//! | `[[hooks]]` | programs and services that runs ask before and after what they do |
//! | `[agents]`, `[skills]` | the folders of the workspace that have agents and skills as files |
//! | `[prompts]` | prompts as files beside the settings file, and their variables |
//! | `[model]`, `[models.<name>]` | the default model, and limits of all; models by name |
//! | `[run]` | limits of a run |
//! | `[compaction]` | when older messages of a conversation give way |
//! | `[planner]` | what reads the plans of models |
//! | `[knowledge]` | how pages of knowledge are found |
//! | `[session]` | leases; how many sessions there may be at work |
//! | `[executor]` | how much work an executor takes, and what it can do |
//! | `[serve]`, `[links]` | the listeners of `cairn serve`; where services of other processes are |
//! | `[client]` | the processes that commands talk to instead of working themselves |
//! | `[log]` | logs |
//! | `[telemetry]` | where traces go and what may be in them; where metrics are shown |
//!
//! A `cairn.toml` that nobody named or confirmed counts in part only; see [`trust`].
//!
//! `CAIRN_MODEL__PACE=400ms` sets `model.pace`. `CAIRN_CONFIG` is `--config`. `CAIRN_STORE`, `CAIRN_SERVER`, `CAIRN_TOKEN`,
//! `OPENAI_API_KEY`, `OPENAI_BASE_URL`, `OPENAI_MODEL`, the same three of `ANTHROPIC_` and
//! `OTEL_EXPORTER_OTLP_ENDPOINT` are short names. Of the variables of OpenTelemetry none is a fault; see
//! [`Standard`]. `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` name proxies, as in other programs; they are no
//! settings.

mod agents;
mod compaction;
mod executor;
pub(crate) mod hooks;
mod knowledge;
mod limits;
pub mod links;
mod model;
pub mod models;
mod parts;
mod place;
mod planner;
mod prompts;
pub mod run;
mod servers;
mod store;
#[cfg(test)]
mod tests;
mod tools;
pub mod trust;

pub use agents::{AgentSettings, SkillSettings};
pub use compaction::CompactionSettings;
pub use executor::ExecutorSettings;
pub use hooks::HookSettings;
pub use knowledge::KnowledgeSettings;
pub use limits::SessionSettings;
pub use links::{Addresses, LinkSettings};
pub use model::ModelSettings;
pub use models::ProviderSettings;
pub(crate) use parts::hook_executor;
pub use parts::{holds, parts, reader, unconfined};
pub use planner::{ParserSetting, PlannerSettings};
pub use prompts::PromptSettings;
pub use run::{CommandLimits, RunSettings};
pub(crate) use run::{millis, nano_usd};
pub use servers::{LeftOut, McpSettings, OfWorkspace};
pub use store::{RedisSettings, StoreSettings};
pub use tools::ToolSettings;
pub use trust::Source;

use crate::cli::Global;
use crate::error::CliError;
use cairn_boot::telemetry::Standard;
use cairn_boot::{Checks, Environment, Layers, Loaded, LogConfig, Secret, TelemetryConfig};
use cairn_http::Proxies;
use cairn_rpc::{TOKEN_RULE, Token};
use cairn_tools::{Capabilities, Write};
use serde::de::{Deserializer, Error, Unexpected, Visitor};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Short for `client.server`.
pub const SERVER_VARIABLE: &str = "CAIRN_SERVER";
/// Short for `store.path`, or for `store.redis.url` if it is an address.
const STORE_VARIABLE: &str = "CAIRN_STORE";
/// Short for `serve.token`.
const TOKEN_VARIABLE: &str = "CAIRN_TOKEN";
/// What may be logged, least first.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// All settings.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Where sessions are stored.
    pub store: StoreSettings,
    /// Where work happens.
    pub workspace: WorkspaceSettings,
    /// Which tools may be called.
    pub tools: ToolSettings,
    /// The tools that each capability takes.
    pub capabilities: Capabilities,
    /// Servers that bring tools.
    pub mcp: McpSettings,
    /// Programs and services that runs ask before and after what they do, in this order.
    pub hooks: Vec<HookSettings>,
    /// Agents as files of the workspace.
    pub agents: AgentSettings,
    /// Skills as folders of the workspace.
    pub skills: SkillSettings,
    /// What prompts tell models of their work.
    pub prompts: PromptSettings,
    /// The default model, and what holds for all models.
    pub model: ModelSettings,
    /// Models by name.
    pub models: BTreeMap<String, ProviderSettings>,
    /// Limits of a run that names none.
    pub run: RunSettings,
    /// When older messages of a conversation give way.
    pub compaction: CompactionSettings,
    /// What reads the plans of models.
    pub planner: PlannerSettings,
    /// How pages of knowledge are found.
    pub knowledge: KnowledgeSettings,
    /// Leases, and how many sessions there may be at work.
    pub session: SessionSettings,
    /// How much work an executor takes, and what it can do.
    pub executor: ExecutorSettings,
    /// `cairn serve`.
    pub serve: ServeSettings,
    /// Services of other processes.
    pub links: LinkSettings,
    /// Commands.
    pub client: ClientSettings,
    /// Logs on standard error.
    pub log: LogConfig,
    /// Traces and metrics.
    pub telemetry: TelemetryConfig,
    /// The proxies that the environment names.
    #[serde(skip)]
    pub proxies: Proxies,
}

/// Where work happens.
#[derive(Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkspaceSettings {
    /// The folder that file tools read and commands run in.
    pub path: PathBuf,
    /// The folder for results.
    pub output: PathBuf,
    /// Whether file tools write in the workspace, too: `ask`, `allow` or `out`.
    pub write: Write,
    /// What file tools show although it is hidden, ignored by git or called `cairn.toml`: patterns as
    /// in a `.gitignore`, from the workspace.
    pub show: Vec<String>,
}

/// `cairn serve`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct ServeSettings {
    /// Address and port of the public API.
    #[serde(deserialize_with = "address")]
    pub listen: SocketAddr,
    /// Address and port for the other services of Cairn. Each service has a default of its own.
    #[serde(deserialize_with = "some_address")]
    pub internal: Option<SocketAddr>,
    /// The token that calls over TCP need, and that this process's own calls carry. Without one, and
    /// without a file, each listener has a random token of its own.
    pub token: Secret,
    /// A file with that token.
    pub token_file: Option<PathBuf>,
    /// The addresses that clients may store as hooks, as patterns such as `https://hooks.example.org:*`; empty for
    /// none.
    pub hook_addresses: Vec<String>,
    /// How long running calls may take to end when it stops.
    #[serde(with = "cairn_boot::config::duration")]
    pub grace: Duration,
}

/// Commands.
#[derive(Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientSettings {
    /// The public API to talk to: one address, or those of several processes over one store. Without
    /// one, a command works on the store itself, or talks to the process that holds it.
    pub server: Option<Addresses>,
    /// How long a command waits for room where there is as much work as there may be, and for a store
    /// of servers that is away.
    #[serde(with = "cairn_boot::config::duration")]
    pub wait: Duration,
}

/// What stands where an address should. Who writes a user into one writes a password too.
fn no_address(text: &str) -> Unexpected<'_> {
    match text.contains('@') {
        true => Unexpected::Other("an address with a user in it"),
        false => Unexpected::Str(text),
    }
}

impl Default for WorkspaceSettings {
    fn default() -> Self {
        Self {
            path: PathBuf::from("."),
            output: PathBuf::from("cairn-out"),
            write: Write::default(),
            show: Vec::new(),
        }
    }
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self {
            server: None,
            wait: Duration::from_secs(120),
        }
    }
}

impl Default for ServeSettings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7878)),
            internal: None,
            token: Secret::default(),
            token_file: None,
            hook_addresses: Vec::new(),
            grace: Duration::from_secs(10),
        }
    }
}

impl cairn_boot::Settings for Settings {
    fn check(&self, checks: &mut Checks) {
        self.store.check(checks);
        let has_path = |path: &Path| !path.as_os_str().is_empty();
        let folder = "a folder";
        let WorkspaceSettings { path, output, .. } = &self.workspace;
        checks.require(has_path(path), "workspace.path", "is empty", folder);
        checks.require(has_path(output), "workspace.output", "is empty", folder);
        let hour = Duration::from_secs(3600);
        checks.range("serve.grace", self.serve.grace, Duration::ZERO..=hour);
        let token = self.serve.token.expose();
        let is_token = token.is_empty() || token.parse::<Token>().is_ok();
        checks.require(is_token, "serve.token", "is not a token", TOKEN_RULE);
        let token_file = self.serve.token_file.as_deref();
        let is_file = token_file.is_none_or(has_path);
        checks.require(is_file, "serve.token_file", "is empty", "a file");
        checks.range("client.wait", self.client.wait, Duration::ZERO..=hour);
        self.run.check(checks);
        self.compaction.check(checks);
        self.planner.check(checks);
        self.knowledge.check(checks);
        self.session.check(checks);
        self.executor.check(checks);
        tools::check(self, checks);
        hooks::check("hooks", &self.hooks, checks);
        hooks::check_addresses(&self.serve.hook_addresses, checks);
        self.prompts.check(checks);
        self.check_models(checks);
        checks.nested("log", &self.log);
        checks.nested("telemetry", &self.telemetry);
        // One word that is no level is a directive for a target of that name, and silences all
        // others: a slip of the pen.
        let level = self.log.level.to_lowercase();
        let is_word = !level.contains(['=', ',', ':', '[']);
        let holds = !is_word || LEVELS.contains(&level.as_str());
        let problem = format!("is {level:?}");
        checks.require(holds, "log.level", &problem, &LEVELS.join(", "));
    }
}

/// Reads the settings of a command: file, environment, the flags that all commands have, and
/// those of this command as `(flag, setting, value)`.
///
/// # Errors
/// All faults at once, with exit code 2.
pub fn load(
    global: &Global,
    environment: &Environment,
    flags: &[(&str, &str, String)],
) -> Result<Loaded<Settings>, CliError> {
    load_from(
        Source::find(global, environment)?,
        global,
        environment,
        flags,
    )
}

/// The same with a settings file that was found before.
///
/// # Errors
/// As [`load`].
pub fn load_from(
    source: Source,
    global: &Global,
    environment: &Environment,
    flags: &[(&str, &str, String)],
) -> Result<Loaded<Settings>, CliError> {
    let beside = source.beside();
    let collector = Standard::read(environment).collector;
    let (otlp_variable, otlp) = collector.unzip();
    let otlp_variable = otlp_variable.unwrap_or_default();
    let otlp = Environment::of(otlp.map(|value| (otlp_variable, value)));
    let mut layers = source
        .layers()
        .environment(&without_short_names(environment))
        .alias(environment, STORE_VARIABLE, store_setting(environment))
        .alias(environment, SERVER_VARIABLE, "client.server")
        .alias(environment, TOKEN_VARIABLE, "serve.token")
        .alias(&otlp, otlp_variable, "telemetry.otlp")
        .alias(environment, "OPENAI_API_KEY", "models.openai.api_key")
        .alias(environment, "OPENAI_BASE_URL", "models.openai.base_url")
        .alias(environment, "OPENAI_MODEL", "models.openai.model")
        .alias(environment, "ANTHROPIC_API_KEY", "models.anthropic.api_key")
        .alias(
            environment,
            "ANTHROPIC_BASE_URL",
            "models.anthropic.base_url",
        )
        .alias(environment, "ANTHROPIC_MODEL", "models.anthropic.model");
    // Whoever names a store means it, whatever servers are configured.
    let named = environment.get(STORE_VARIABLE).unwrap_or_default();
    if !named.is_empty() && !store::is_redis_url(named) {
        let none = Environment::of([(STORE_VARIABLE, "")]);
        layers = layers.alias(&none, STORE_VARIABLE, "store.redis.url");
    }
    if let Some(path) = &global.workspace {
        layers = layers.flag("--in", "workspace.path", &path.to_string_lossy());
    }
    if let Some(path) = &global.store {
        layers = with_store(layers, &path.to_string_lossy());
    }
    if let Some(server) = &global.server {
        layers = layers.flag("--server", "client.server", server);
    }
    if let Some(level) = &global.log {
        layers = layers.flag("--log", "log.level", level);
    }
    for (flag, setting, value) in flags {
        layers = layers.flag(flag, setting, value);
    }
    check_given(global, flags)?;
    let mut loaded: Loaded<Settings> = layers
        .load()
        .map_err(|faults| CliError::usage(faults.to_string()))?;
    loaded.config.find_store(environment);
    loaded.config.proxies = Proxies::read(|name| environment.get(name));
    prompts::read(&mut loaded, beside)?;
    Ok(loaded)
}

impl Settings {
    /// Takes the store of the workspace if no setting names one.
    fn find_store(&mut self, environment: &Environment) {
        if self.store.path.is_none() {
            self.store.path = place::default_store(&self.workspace.path, environment);
            self.store.is_of_workspace = true;
        }
    }
}

/// A store that is named on the command line means it, whatever servers are configured.
fn with_store(layers: Layers, place: &str) -> Layers {
    let layers =
        layers
            .flag("--store", place_setting(place), place)
            .flag("--store", "client.server", "");
    match store::is_redis_url(place) {
        true => layers,
        false => layers.flag("--store", "store.redis.url", ""),
    }
}

/// The setting that a place of sessions is for: a file's, or that of servers.
fn place_setting(value: &str) -> &'static str {
    match store::is_redis_url(value) {
        true => "store.redis.url",
        false => "store.path",
    }
}

/// The same for the short name among the variables.
fn store_setting(environment: &Environment) -> &'static str {
    place_setting(environment.get(STORE_VARIABLE).unwrap_or_default())
}

/// An empty variable is one that is not set; an empty flag is a slip, such as a script's variable
/// that is not set, and must not lead to another server, store or model than the one meant.
///
/// # Errors
/// A flag has no value.
pub fn check_given(global: &Global, flags: &[(&str, &str, String)]) -> Result<(), CliError> {
    let is_empty = |(_, _, value): &&(&str, &str, String)| value.is_empty();
    let no_server = global.server.as_ref().is_some_and(String::is_empty);
    let of_command = flags.iter().find(is_empty).map(|(flag, ..)| *flag);
    match no_server.then_some("--server").or(of_command) {
        Some(flag) => Err(CliError::usage(format!("the flag {flag} has no value"))
            .hint("give it one, or leave it out")),
        None => Ok(()),
    }
}

/// The environment without the short names that read like those of whole sections.
fn without_short_names(environment: &Environment) -> Environment {
    let short = [
        STORE_VARIABLE,
        SERVER_VARIABLE,
        TOKEN_VARIABLE,
        trust::CONFIG_VARIABLE,
    ];
    let is_short = |name: &str| short.contains(&name);
    match environment.iter().any(|(name, _)| is_short(name)) {
        false => environment.clone(),
        true => Environment::of(environment.iter().filter(|(name, _)| !is_short(name))),
    }
}

fn some_address<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SocketAddr>, D::Error> {
    address(deserializer).map(Some)
}

/// Reads an address; says what one looks like if it is none.
fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    struct Text;
    impl Visitor<'_> for Text {
        type Value = SocketAddr;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an IP address with a port, such as 127.0.0.1:7878")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<SocketAddr, E> {
            let parsed = text.parse();
            parsed.map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
        }
    }
    deserializer.deserialize_str(Text)
}
