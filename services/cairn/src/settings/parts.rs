//! From settings to the parts of a node.

use super::Settings;
use super::hooks::HookSettings;
use super::servers::OfWorkspace;
use super::trust::trust_file;
use crate::context::Context;
use crate::error::CliError;
use crate::node::{Authenticators, Parts};
use cairn_boot::{Environment, Trust, state_folder};
use cairn_hooks::{Definition, SystemHooks};
use cairn_memory::{Config as MemoryConfig, Deps as MemoryDeps};
use cairn_planner::PlanParser;
use cairn_supervise::Supervisor;
use cairn_tools::{Confinement, Holds, Programs, Unconfined, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a node of this process is made of, to work in `workspace`. No TCP listener may be served.
///
/// # Errors
/// A fail point that cannot be read.
pub fn parts(context: &Context, workspace: &Path) -> Result<Parts, CliError> {
    let settings = context.config();
    let environment = context.environment.iter();
    settings.prompts.log();
    Ok(Parts {
        memory: MemoryConfig {
            store: settings.store.config(),
            max_pages: settings.store.max_pages,
            retain: settings.store.retention.after,
            archive: settings.store.retention.archive.clone(),
            ..MemoryConfig::default()
        },
        memory_deps: memory_deps(context)?,
        tools: cairn_tools::Config {
            workspace: workspace.to_owned(),
            private: private(context, workspace),
            store_paths: deciding(context),
            #[cfg(debug_assertions)]
            leaves_gate_open: crate::fail::sabotage(&context.environment)?.gate,
            #[cfg(debug_assertions)]
            level: crate::fail::level(&context.environment)?,
            ..tools(settings, &of_workspace(workspace, &context.environment))
        },
        programs: Programs {
            environment: environment.map(|(n, v)| (n.into(), v.into())).collect(),
            supervisor: Some(supervisor()?),
            ..Programs::default()
        },
        more_tools: Vec::new(),
        more_hooks: Vec::new(),
        trust: trust(context),
        models: Arc::new(settings.registry()),
        executor: cairn_executor::Config {
            retry: settings.model.retry(),
            prompts: Arc::clone(&settings.prompts.all),
            #[cfg(debug_assertions)]
            level: crate::fail::level(&context.environment)?,
            ..settings.executor.config()
        },
        planner: planner(settings),
        plan_parser: plan_parser(context, workspace)?,
        orchestrator: cairn_orchestrator::Config {
            lease: settings.session.lease,
            max_sessions: settings.session.max_owned,
            state_bytes: settings.session.state_bytes,
            cache_bytes: settings.session.cache_bytes,
            max_queued: settings.session.max_queued,
            limits: settings.run.limits(),
            compaction: settings.compaction.config(),
            knowledge: settings.knowledge.config(),
            result_bytes: settings.tools.result_bytes,
            environment: surroundings(workspace, settings.workspace.write),
            #[cfg(debug_assertions)]
            trusts_leases: crate::fail::sabotage(&context.environment)?.leases,
            #[cfg(debug_assertions)]
            level: crate::fail::level(&context.environment)?,
            ..orchestrator_defaults(context)?
        },
        authenticators: Authenticators::default(),
    })
}

/// What reads the plans of models.
///
/// # Errors
/// The system does not say which program runs here.
fn plan_parser(context: &Context, workspace: &Path) -> Result<Arc<dyn PlanParser>, CliError> {
    let path = context.environment.get("PATH");
    let settings = &context.config().planner;
    Ok(settings.parser(workspace, path, supervisor()?))
}

fn planner(settings: &Settings) -> cairn_planner::Config {
    cairn_planner::Config {
        retry: settings.model.retry(),
        prompts: Arc::clone(&settings.prompts.all),
        ..cairn_planner::Config::default()
    }
}

/// The hooks of the settings, in their order.
fn definitions(settings: &Settings) -> Vec<Definition> {
    let hooks = settings.hooks.iter();
    hooks.map(HookSettings::definition).collect()
}

/// Asks hooks of the settings, for a command that asks one without a run.
///
/// # Errors
/// The system does not say which program runs here.
pub(crate) fn hook_executor(context: &Context) -> Result<SystemHooks, CliError> {
    let environment = context.environment.iter();
    let environment = environment.map(|(n, v)| (n.into(), v.into())).collect();
    let workspace = context.config().workspace.path.clone();
    Ok(SystemHooks::new(
        workspace,
        environment,
        Some(supervisor()?),
    ))
}

/// With the hooks and prompts of the settings, and what no setting changes.
#[cfg_attr(
    not(debug_assertions),
    allow(
        unused_variables,
        clippy::unnecessary_wraps,
        reason = "the environment changes it for tests"
    )
)]
fn orchestrator_defaults(context: &Context) -> Result<cairn_orchestrator::Config, CliError> {
    let settings = context.config();
    let config = cairn_orchestrator::Config {
        hooks: definitions(settings),
        hook_addresses: settings.serve.hook_addresses.clone(),
        prompts: Arc::clone(&settings.prompts.all),
        ..cairn_orchestrator::Config::default()
    };
    #[cfg(debug_assertions)]
    if let Some(times) = crate::fail::pool_times(&context.environment)? {
        return Ok(cairn_orchestrator::Config {
            stop_after: times.stop,
            none_after: times.none,
            lost_after: times.lost,
            ..config
        });
    }
    Ok(config)
}

/// The settings of a process that only reads the store.
///
/// # Errors
/// A level that cannot be read.
pub fn reader(context: &Context) -> Result<cairn_orchestrator::Config, CliError> {
    let session = &context.config().session;
    let models = context.config().registry();
    Ok(cairn_orchestrator::Config {
        models: models.names().map(str::to_owned).collect(),
        prompts: Arc::clone(&context.config().prompts.all),
        state_bytes: session.state_bytes,
        cache_bytes: session.cache_bytes,
        knowledge: context.config().knowledge.config(),
        #[cfg(debug_assertions)]
        level: crate::fail::level(&context.environment)?,
        ..cairn_orchestrator::Config::default()
    })
}

/// Why programs that are to be confined cannot be, if they cannot.
pub fn unconfined(context: &Context, workspace: &Path) -> Option<Unconfined> {
    let config = cairn_tools::Config {
        store_paths: deciding(context),
        ..tools(context.config(), &OfWorkspace::default())
    };
    let environment = context.environment.iter();
    let environment = environment.map(|(n, v)| (n.into(), v.into())).collect();
    Confinement::of(&config, workspace, &environment).err()
}

/// What this system can hold of a confined program.
///
/// # Errors
/// The system does not say which program runs here.
pub fn holds() -> Result<Holds, CliError> {
    Ok(Holds::find(&supervisor()?))
}

fn of_workspace(workspace: &Path, environment: &Environment) -> OfWorkspace {
    let found = OfWorkspace::read(workspace, environment);
    found.log();
    found
}

fn trust(context: &Context) -> Option<Trust> {
    let named = context.config().tools.trust.clone().map(Trust::at);
    named.or_else(|| trust_file(&context.environment))
}

fn supervisor() -> Result<Supervisor, CliError> {
    Supervisor::this_program().map_err(|error| CliError::chain(&error))
}

#[cfg_attr(
    not(debug_assertions),
    allow(
        unused_variables,
        clippy::unnecessary_wraps,
        reason = "fail points are for tests"
    )
)]
fn memory_deps(context: &Context) -> Result<MemoryDeps, CliError> {
    Ok(MemoryDeps {
        #[cfg(debug_assertions)]
        commit_hook: crate::fail::hook(&context.environment)?,
        #[cfg(debug_assertions)]
        sabotage: crate::fail::sabotage(&context.environment)?.store,
        ..MemoryDeps::default()
    })
}

/// The tools of the settings, with the servers that the workspace names besides.
pub(super) fn tools(settings: &Settings, found: &OfWorkspace) -> cairn_tools::Config {
    let mut servers = found.servers.clone();
    // Of two servers with one name the operator's counts.
    servers.extend(settings.mcp.of_operator());
    cairn_tools::Config {
        workspace: settings.workspace.path.clone(),
        output: settings.workspace.output.clone(),
        write: settings.workspace.write,
        show: settings.workspace.show.clone(),
        allow: settings.tools.allow.clone(),
        deny: settings.tools.deny.clone(),
        ask: settings.tools.ask.clone(),
        has_further_servers: found.has_left_out(),
        rules: settings.tools.rules.clone(),
        offered: settings.tools.offered,
        replicas: settings.tools.replicas,
        limits: settings.tools.limits.clone(),
        commands: settings.tools.commands.clone(),
        agents_enabled: settings.agents.enabled,
        agent_paths: settings.agents.paths.clone(),
        skill_paths: settings.skills.paths.clone(),
        shell: settings.tools.shell.clone(),
        web_search: settings.tools.web_search.clone(),
        capabilities: settings.capabilities.clone(),
        servers,
        ..cairn_tools::Config::default()
    }
}

/// What decides about calls: the store with what lies beside it, tokens, and what a person confirmed. A program
/// that reaches one of these could answer for a person.
fn deciding(context: &Context) -> Vec<PathBuf> {
    let settings = context.config();
    // A store on servers has no file.
    let file = settings.store.path.clone();
    let file = file.filter(|_| !settings.store.redis.url.is_set());
    let mut paths: Vec<PathBuf> = file.into_iter().collect();
    paths.extend(state_folder(|name| {
        context.environment.get(name).map(str::to_owned)
    }));
    paths.extend(trust(context).map(|trust| trust.path().to_owned()));
    paths.extend(settings.serve.token_file.clone());
    paths.extend(settings.store.redis.key_file.clone());
    paths.extend(crate::tokens::runtime_folder(&context.environment));
    paths
}

/// What no file tool may show or write: the settings in use, the files with secrets that they name, the store, and
/// what a person confirmed. Of a store in the workspace's own folder, or above it, only its files. A workspace may
/// be a home folder, so Cairn's own folder with the stores of other workspaces is among them.
fn private(context: &Context, workspace: &Path) -> Vec<PathBuf> {
    let settings = context.config();
    let redis = &settings.store.redis;
    let mut private = vec![context.file.clone()];
    private.extend(settings.store.retention.archive.clone());
    private.extend(settings.prompts.private.clone());
    private.extend(redis.key_file.clone());
    private.extend(settings.serve.token_file.clone());
    let search = settings.tools.web_search.as_ref();
    let key = search.and_then(|search| search.key.as_ref()?.file());
    private.extend(key.map(Path::to_owned));
    let store = settings.store.path.as_deref();
    private.extend(
        store
            .into_iter()
            .flat_map(|store| of_store(store, workspace)),
    );
    private.extend(trust(context).map(|trust| trust.path().to_owned()));
    let own = state_folder(|name| context.environment.get(name).map(str::to_owned));
    let tokens = crate::tokens::runtime_folder(&context.environment);
    let folders = own.into_iter().chain(tokens);
    private.extend(folders.filter(|folder| !contains(folder, workspace)));
    private
}

/// The store's folder, or its files.
fn of_store(store: &Path, workspace: &Path) -> Vec<PathBuf> {
    let folder = match store.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    match contains(folder, workspace) {
        false => vec![folder.to_owned()],
        true => store_files(store).collect(),
    }
}

/// Whether the workspace is in the folder, or is the folder.
fn contains(folder: &Path, workspace: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path));
    match (real(folder), real(workspace)) {
        (Ok(folder), Ok(workspace)) => workspace.starts_with(folder),
        _ => false,
    }
}

/// The files that a store in a file consists of, and those beside it. The token of a listener is
/// there if `XDG_RUNTIME_DIR` is not set, under the listener's port.
fn store_files(store: &Path) -> impl Iterator<Item = PathBuf> {
    let beside = |end: &str| {
        let mut name = store.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    let files = ["", "-wal", "-shm", "-journal", ".lock", ".workspace"].map(beside);
    let others = ["cairn.sock", "cairn.change.sock", "*.token"];
    files
        .into_iter()
        .chain(others.map(|name| store.with_file_name(name)))
}

/// Where the work happens, for every system prompt.
fn surroundings(workspace: &Path, write: Write) -> String {
    let absolute: PathBuf = std::path::absolute(workspace).unwrap_or_else(|_| workspace.into());
    let workspace = absolute.display().to_string();
    let writes = match write {
        Write::Out => ", which is read-only. Files are written below cairn-out/ only.",
        Write::Ask => {
            ". Reports and other results go below cairn-out/. A person may be asked before any other file is \
             changed; where no person can be asked, only files below cairn-out/ can be written."
        }
        Write::Allow => ". Reports and other results go below cairn-out/.",
    };
    format!(
        "Workspace: {}\nPaths are relative to the workspace{writes}",
        cairn_rpc::text::escape(&workspace)
    )
}
