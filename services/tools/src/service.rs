//! From settings and what the process gives to a service that can be registered.

use crate::allowances::Allowances;
use crate::command::{self, CommandTool};
use crate::config::{CapabilityConfig, CommandConfig, Config};
use crate::confine::{Confinement, Unconfined};
use crate::error::{BuildError, Fault};
use crate::files;
use crate::gate::{Gate, Refresher, StoreClock, StoreTime};
use crate::grpc::Grpc;
use crate::invoke::Invoker;
use crate::mcp::{McpDeps, McpSource};
use crate::permission::Permissions;
use crate::registry::{self, ToolRegistry};
use crate::shell::{self, ShellTool};
use crate::source::{FixedSource, Listed, ToolSource};
use crate::tool::{BUILT_IN, PROGRAM, Tool};
use crate::web_search;
use crate::workspace_files::WorkspaceFiles;
use cairn_engine::rules::{NamePattern, Rules, SHELL_TOOL};
use cairn_proto::tools::Capability;
use cairn_proto::tools::tools_service_server::ToolsServiceServer;
use cairn_rpc::{BootClock, MAX_MESSAGE_BYTES, Monotonic, ServerBuilder};
use cairn_supervise::Supervisor;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the service gets from the process that it runs in.
pub struct Deps {
    /// Where the gate learns the store's time.
    pub store_time: Arc<dyn StoreTime>,
    /// What measures the time since then.
    pub monotonic: Arc<dyn Monotonic>,
    /// What configured commands are started with.
    pub programs: Programs,
    /// Tools besides the file tools and the configured commands.
    pub tools: Vec<Arc<dyn Tool>>,
    /// Further sources, after those of the settings.
    pub sources: Vec<Arc<dyn ToolSource>>,
    /// Where allowances of servers, pins of their tools, and confirmed files of the workspace are kept.
    pub allowances: Allowances,
}

/// What configured commands are started with.
#[derive(Clone, Default)]
pub struct Programs {
    /// The process's environment; commands get of it what their settings name. It names the proxies, too.
    pub environment: BTreeMap<String, String>,
    /// What ends commands when this process cannot. Without it they may go on after a kill of this
    /// process, beyond their time limits.
    pub supervisor: Option<Supervisor>,
    /// How they are confined, or why they cannot be; decided with the settings of the service.
    pub confinement: Option<Result<Confinement, Unconfined>>,
}

impl Programs {
    /// How programs are confined that are to be.
    ///
    /// # Errors
    /// Why they cannot be, in words. They must not be started then.
    pub(crate) fn confined(&self) -> Result<&Confinement, &str> {
        match (&self.confinement, &self.supervisor) {
            (Some(Err(why)), _) => Err(why.why()),
            (Some(Ok(confinement)), Some(_)) => Ok(confinement),
            _ => Err("nothing supervises programs here, so none can be confined"),
        }
    }
}

impl fmt::Debug for Programs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The environment may hold secrets.
        f.debug_struct("Programs").finish_non_exhaustive()
    }
}

impl Deps {
    /// The system's clock, no environment and no supervisor for programs, no further tools.
    pub fn new(store_time: Arc<dyn StoreTime>) -> Self {
        Self {
            store_time,
            monotonic: Arc::new(BootClock),
            programs: Programs::default(),
            tools: Vec::new(),
            sources: Vec::new(),
            allowances: Allowances::in_process(),
        }
    }
}

impl fmt::Debug for Deps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The environment may hold secrets.
        f.debug_struct("Deps").finish_non_exhaustive()
    }
}

/// The running service. Dropping it ends the reading of the store's time; calls then end as that
/// time runs out.
#[derive(Debug)]
pub struct Tools {
    invoker: Arc<Invoker>,
    files: Arc<WorkspaceFiles>,
    offered: u32,
    level: u32,
    capabilities: Vec<Capability>,
    servers: Vec<Arc<McpSource>>,
    _refresher: Refresher,
}

impl Tools {
    /// Adds the service to a server.
    #[must_use]
    pub fn register(&self, server: ServerBuilder) -> ServerBuilder {
        server.register(self.grpc(), cairn_proto::DESCRIPTORS)
    }

    /// The calls without gRPC.
    pub fn invoker(&self) -> &Arc<Invoker> {
        &self.invoker
    }

    /// Waits until every call that has begun is over. For the end of the process, after the
    /// servers have stopped taking calls. Then the servers that tools come from are ended.
    pub async fn drain(&self) {
        self.invoker.drain().await;
        futures::future::join_all(self.servers.iter().map(|server| server.close())).await;
    }

    fn grpc(&self) -> ToolsServiceServer<Grpc> {
        let grpc = Grpc {
            invoker: self.invoker.clone(),
            files: self.files.clone(),
            offered: self.offered,
            level: self.level,
            capabilities: self.capabilities.clone(),
        };
        ToolsServiceServer::new(grpc)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES)
    }
}

/// Builds the service and begins to read the store's time. Needs a tokio runtime.
///
/// # Errors
/// Every fault of the settings at once; else the first thing that cannot be opened or registered.
pub fn build(config: Config, mut deps: Deps) -> Result<Tools, BuildError> {
    let Assembled {
        built_in,
        programs,
        allow,
        rules,
        workspace,
    } = assemble(&config, &deps.tools, &mut deps.programs)?;
    let (level, capabilities) = (config.level(), capabilities(&config));
    let files = WorkspaceFiles::open(workspace.clone(), &config, deps.allowances.clone());
    let files = files.map_err(|source| workspace_error(&config, source))?;
    let mut sources: Vec<Arc<dyn ToolSource>> = vec![
        Arc::new(FixedSource::of(BUILT_IN, built_in)),
        Arc::new(FixedSource::of(PROGRAM, programs)),
    ];
    let mcp = McpDeps {
        workspace,
        programs: deps.programs,
        allowances: deps.allowances,
    };
    let servers = config.servers.into_iter();
    let servers: Vec<_> = servers
        .map(|(name, server)| Arc::new(McpSource::start(&name, server, &mcp)))
        .collect();
    let source = |server: &Arc<McpSource>| -> Arc<dyn ToolSource> { server.clone() };
    sources.extend(servers.iter().map(source));
    sources.extend(deps.sources);
    let settings: String = capabilities.iter().map(line).collect();
    let registry = ToolRegistry::follow(sources, &settings);
    let clock = Arc::new(StoreClock::new(deps.store_time, deps.monotonic));
    let gate = Gate::new(clock.clone());
    #[cfg(debug_assertions)]
    let gate = gate.left_open(config.leaves_gate_open);
    let invoker = Invoker::new(
        registry,
        Permissions::new(allow, rules),
        gate,
        config.limits.parallel_calls,
    );
    Ok(Tools {
        invoker: Arc::new(invoker),
        files: Arc::new(files),
        offered: config.offered,
        level,
        capabilities,
        servers,
        _refresher: clock.keep_fresh(),
    })
}

/// The capabilities as the list has them.
fn capabilities(config: &Config) -> Vec<Capability> {
    let rows = config.capabilities.rows();
    let row = |(name, capability): (&str, &CapabilityConfig)| Capability {
        name: name.to_owned(),
        tools: capability.tools.clone(),
        level: capability.level,
    };
    rows.map(row).collect()
}

/// A capability as the digest of the list covers it.
fn line(capability: &Capability) -> String {
    let Capability { name, tools, level } = capability;
    format!("{name}>={level} {}\n", tools.join(" "))
}

/// Finds every fault that [`build`] would find, and begins nothing: for whoever has more to begin
/// that should not be there if this fails.
///
/// # Errors
/// Those of [`build`].
pub fn check(config: &Config, tools: &[Arc<dyn Tool>]) -> Result<(), BuildError> {
    assemble(config, tools, &mut Programs::default()).map(|_| ())
}

/// What the settings alone give.
struct Assembled {
    built_in: Vec<Listed>,
    programs: Vec<Listed>,
    allow: Option<Vec<NamePattern>>,
    rules: Rules,
    /// Absolute and without links.
    workspace: PathBuf,
}

fn assemble(
    config: &Config,
    tools: &[Arc<dyn Tool>],
    programs: &mut Programs,
) -> Result<Assembled, BuildError> {
    config.validate().map_err(BuildError::Config)?;
    let folders = Folders::check(config)?;
    let Folders {
        workspace,
        output,
        private,
    } = folders;
    let protected = config.agent_paths.iter().chain(&config.skill_paths);
    let settings = files::Settings {
        show: &config.show,
        private,
        write: config.write,
        protected: protected.cloned().collect(),
        limits: &config.limits,
    };
    let file_tools = files::tools(&workspace, &output, settings);
    let file_tools = file_tools.map_err(|source| workspace_error(config, source))?;
    let confinement = Confinement::of(config, &workspace, &programs.environment);
    programs.confinement = Some(confinement);
    let shell = config.shell.enabled.then(|| Listed {
        tool: Arc::new(ShellTool::new(&config.shell, &workspace, programs)),
        disabled: shell::unusable(programs),
    });
    let others = file_tools.into_iter().chain(tools.iter().cloned());
    let search = search(config, programs)?;
    let others = others.map(Listed::enabled);
    let built_in: Vec<Listed> = others.chain(shell).chain(search).collect();
    let program = |config: &CommandConfig| Listed {
        tool: Arc::new(CommandTool::new(config.clone(), &workspace, programs)),
        disabled: command::unusable(config, programs),
    };
    let programs: Vec<Listed> = config.commands.iter().map(program).collect();
    let all = built_in.iter().chain(&programs);
    let all: Vec<Arc<dyn Tool>> = all.map(|listed| listed.tool.clone()).collect();
    registry::check(&all)?;
    let names = all.iter().map(|tool| tool.spec().name.as_str());
    // A rule may be there for a shell that is turned off.
    let mut known: Vec<&str> = names.chain([SHELL_TOOL]).collect();
    known.sort_unstable();
    known.dedup();
    let mut faults = config.check_lists(&known);
    let rules = config.rules().map_err(|fault| faults.push(fault));
    let allow = config.allowed().map_err(|fault| faults.push(fault));
    match (rules, allow, faults.is_empty()) {
        (Ok(rules), Ok(allow), true) => Ok(Assembled {
            built_in,
            programs,
            allow,
            rules,
            workspace,
        }),
        _ => Err(BuildError::Config(faults)),
    }
}

/// `web_search`, if there is a provider.
fn search(config: &Config, programs: &Programs) -> Result<Option<Listed>, BuildError> {
    let listed = |search| web_search::listed(search, &programs.environment);
    let listed = config.web_search.as_ref().map(listed).transpose();
    listed.map_err(|why| {
        let problem = format!("cannot be used: {why}");
        let allowed = "an address that this process can send requests to";
        BuildError::Config(vec![Fault::new("web_search.url", problem, allowed)])
    })
}

/// Paths of the settings made absolute, so that a later change of the process's folder means nothing.
struct Folders {
    workspace: PathBuf,
    output: PathBuf,
    private: Vec<PathBuf>,
}

impl Folders {
    fn check(config: &Config) -> Result<Self, BuildError> {
        let workspace = config.workspace.canonicalize();
        let workspace = workspace.map_err(|source| workspace_error(config, source))?;
        let output = std::path::absolute(&config.output)
            .map_err(|error| fault("output", format!("cannot be made absolute: {error}")))?;
        // Links on the way must not hide that it is the workspace.
        let real = without_links(&output);
        if workspace.starts_with(&real) {
            return Err(fault(
                "output",
                format!(
                    "'{}' is or holds the workspace, which must stay as it is; give a folder \
                     inside or beside it",
                    config.output.display()
                ),
            ));
        }
        let opened = files::open_output(&output, false);
        if let Some(linked) = opened.as_ref().err().and_then(files::Linked::of) {
            return Err(fault("output", linked.to_string()));
        }
        if real.is_file() {
            return Err(fault(
                "output",
                format!("'{}' is a file; give a folder", real.display()),
            ));
        }
        let private = config.private.iter().map(std::path::absolute);
        let private: Vec<PathBuf> = private
            .collect::<Result<_, _>>()
            .map_err(|error| fault("private", format!("cannot be made absolute: {error}")))?;
        let is_inside = |path: &&PathBuf| without_links(path).starts_with(&real);
        if let Some(path) = private.iter().find(is_inside) {
            return Err(fault(
                "output",
                format!(
                    "'{}' holds '{}', which tools must neither read nor write; give a folder of its \
                     own",
                    config.output.display(),
                    path.display()
                ),
            ));
        }
        Ok(Self {
            workspace,
            output,
            private,
        })
    }
}

/// An absolute path without links, as far as it is there.
fn without_links(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (above.canonicalize(), path.strip_prefix(above)) {
            return match rest.as_os_str().is_empty() {
                true => real,
                false => real.join(rest),
            };
        }
    }
    path.to_owned()
}

fn fault(field: &str, problem: String) -> BuildError {
    let allowed = "a folder below an existing one";
    BuildError::Config(vec![Fault::new(field, problem, allowed)])
}

fn workspace_error(config: &Config, source: std::io::Error) -> BuildError {
    BuildError::Workspace {
        path: Path::new(&config.workspace).display().to_string(),
        source,
    }
}
