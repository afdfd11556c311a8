//! From settings to the parts of a node.

use super::Settings;
use crate::context::Context;
use crate::error::CliError;
use crate::node::Parts;
use crate::ui::event_json::event_json;
use crate::ui::text;
use cairn_memory::{Config as MemoryConfig, Deps as MemoryDeps};
use cairn_proto::event::Event;
use cairn_tools::{Programs, Supervisor};
use prost::Message as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a node of this process is made of, to work in `workspace`.
///
/// # Errors
/// A fail point that cannot be read.
pub fn parts(context: &Context, workspace: &Path) -> Result<Parts, CliError> {
    let settings = context.config();
    let environment = context.environment.iter();
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
            #[cfg(debug_assertions)]
            leaves_gate_open: crate::fail::sabotage(&context.environment)?.gate,
            ..tools(settings)
        },
        programs: Programs {
            environment: environment.map(|(n, v)| (n.into(), v.into())).collect(),
            supervisor: Some(supervisor()?),
        },
        more_tools: Vec::new(),
        models: Arc::new(settings.registry()),
        executor: cairn_executor::Config {
            max_attempts: settings.executor.max_attempts,
            ..cairn_executor::Config::default()
        },
        planner: cairn_planner::Config::default(),
        orchestrator: cairn_orchestrator::Config {
            lease: settings.session.lease,
            max_sessions: settings.session.max_owned,
            max_queued: settings.session.max_queued,
            limits: settings.run.limits(),
            environment: surroundings(workspace),
            #[cfg(debug_assertions)]
            trusts_leases: crate::fail::sabotage(&context.environment)?.leases,
            ..cairn_orchestrator::Config::default()
        },
    })
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
        archive_line: Some(Arc::new(archived)),
        #[cfg(debug_assertions)]
        commit_hook: crate::fail::hook(&context.environment)?,
        #[cfg(debug_assertions)]
        sabotage: crate::fail::sabotage(&context.environment)?.store,
        ..MemoryDeps::default()
    })
}

/// An event's line in an archive: what `cairn export` says of it.
fn archived(seq: u64, event: &[u8]) -> String {
    // What cannot be read is kept as what an export makes of it, too: an event of no kind.
    let event = Event::decode(event).unwrap_or_default();
    text::json(&event_json(seq, &event))
}

pub(super) fn tools(settings: &Settings) -> cairn_tools::Config {
    cairn_tools::Config {
        workspace: settings.workspace.path.clone(),
        output: settings.workspace.output.clone(),
        allow: settings.tools.allow.clone(),
        deny: settings.tools.deny.clone(),
        ask: settings.tools.ask.clone(),
        commands: settings.tools.commands.clone(),
        ..cairn_tools::Config::default()
    }
}

/// Where the work happens, for every system prompt.
fn surroundings(workspace: &Path) -> String {
    let absolute: PathBuf = std::path::absolute(workspace).unwrap_or_else(|_| workspace.into());
    let workspace = absolute.display().to_string();
    format!(
        "Workspace: {}\nPaths are relative to the workspace, which is read-only. Files are written \
         below cairn-out/ only.",
        cairn_rpc::text::escape(&workspace)
    )
}
