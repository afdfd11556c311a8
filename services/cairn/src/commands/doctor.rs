//! `cairn doctor`: whether what this program depends on is as it must be.

use crate::attach::{Access, health};
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::node::{DURABILITY, STORE};
use crate::settings;
use crate::ui::out;
use cairn_engine::text::counted;
use cairn_http::{NamedProxy, ProxyEffect};
use cairn_memory::StoreConfig;
use cairn_memory::port::{Store as _, StoreError};
use cairn_memory::redis::{Durability, RedisStore};
use cairn_memory::sqlite::{OpenError, SqliteOptions, SqliteStore};
use cairn_proto::orchestrator::{ListSessionsRequest, NewerVersion, SessionStatus};
use cairn_rpc::{Address, ErrorKind, Link};
use cairn_tools::Unconfined;
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// How long what is asked may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Damaged parts, and sessions that wait, that are named.
const MOST_NAMED: usize = 20;

/// What can be said to `cairn doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Reads every event of a store in a file, with the checkpoints and blobs, and names the sessions and events
that are damaged. Of a store on Redis it looks at the settings; with --server at the services instead.
Names the sessions that wait for a newer version of Cairn, unless something else is wrong. Finished ones wait
for nothing. Without --server it also says how programs are confined here, and
names the proxies of the environment, without their credentials.
Changes nothing without --accept-loss. Ends with exit code 1 if something is not as it must be.")]
pub struct Args {
    /// Open a store in a file that was not closed although its write-ahead log is missing or damaged:
    /// what was acknowledged last may be lost
    #[arg(long)]
    accept_loss: bool,
}

/// What was found of one thing.
struct Finding {
    what: &'static str,
    place: String,
    /// How it is, in a word or a few.
    state: &'static str,
    /// What is not as it must be.
    faults: Vec<String>,
    /// What a person may want to know besides.
    notes: Vec<String>,
}

impl Finding {
    fn fine(what: &'static str, place: String, state: &'static str) -> Self {
        Self {
            what,
            place,
            state,
            faults: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn bad(what: &'static str, place: String, state: &'static str, fault: &CliError) -> Self {
        Self {
            faults: vec![fault.message.clone()],
            ..Self::fine(what, place, state)
        }
    }
}

/// Looks at the services if some are named, at each address, else at the store, and says what was
/// found. Commands do with one address that answers; here each that has a fault is one.
///
/// # Errors
/// Standard output takes no more; a loss that cannot be accepted.
pub async fn run(args: Args, context: &Context) -> Result<ExitCode, CliError> {
    if args.accept_loss {
        accept_loss(context).await?;
    }
    let mut findings = match &context.config().client.server {
        Some(servers) => futures::future::join_all(servers.0.iter().map(server_at)).await,
        None => {
            let mut findings = vec![store(context).await];
            findings.extend(workspace(context));
            findings.extend(programs(context));
            findings.extend(context.config().proxies.named().iter().map(proxy));
            findings
        }
    };
    let has_fault = |findings: &[Finding]| findings.iter().any(|it| !it.faults.is_empty());
    if !has_fault(&findings) {
        let too_old = tokio::time::timeout(PATIENCE, Box::pin(too_old(context))).await;
        findings.extend(too_old.ok().flatten());
    }
    for finding in &findings {
        show(finding, context.json)?;
    }
    Ok(ExitCode::from(u8::from(has_fault(&findings))))
}

/// The caller's sessions for which the process that serves them is too old. One that is finished is no fault.
/// None if there are none, or none can be listed: a store that was not made yet has none, and one on Redis
/// needs --server.
async fn too_old(context: &Context) -> Option<Finding> {
    let client = Client::attach(context, Access::Read).await.ok()?;
    let all = ListSessionsRequest::default();
    let sessions = client.list(all, usize::MAX).await.ok()?;
    let newer = sessions
        .iter()
        .filter_map(|it| Some((it, it.newer_version?)));
    let newer: Vec<_> = newer.collect();
    let waiting = newer
        .iter()
        .filter(|(session, _)| session.status() != SessionStatus::Idle);
    let faults = waiting.map(|(session, NewerVersion { needs, level })| {
        let id = &session.id;
        format!("session \"{id}\" needs level {needs}, and what serves it has level {level}")
    });
    let mut faults: Vec<String> = faults.collect();
    let more = faults.len().saturating_sub(MOST_NAMED);
    faults.truncate(MOST_NAMED);
    if more > 0 {
        faults.push(format!("and {}", counted(more, "more session")));
    }
    let state = match faults.is_empty() {
        true => "finished ones of a newer version",
        false => "some wait for a newer version",
    };
    let place = counted(sessions.len(), "session");
    let finding = Finding {
        faults,
        ..Finding::fine("sessions", place, state)
    };
    Some(finding).filter(|_| !newer.is_empty())
}

fn show(finding: &Finding, json: bool) -> Result<(), CliError> {
    let Finding {
        what,
        place,
        state,
        faults,
        notes,
    } = finding;
    if json {
        let line =
            json!({"what": what, "place": place, "state": state, "faults": faults, "notes": notes});
        return out::json(&line);
    }
    out::line(&format!("{what}  {place}  {state}"))?;
    for fault in faults.iter().chain(notes) {
        out::line(&format!("  {fault}"))?;
    }
    Ok(())
}

/// A variable that is about proxies.
fn proxy(named: &NamedProxy) -> Finding {
    let NamedProxy {
        variable,
        value,
        effect,
    } = named;
    let place = match value.as_str() {
        "" => variable.clone(),
        value => format!("{variable} {value}"),
    };
    let state = match effect {
        ProxyEffect::Https => "used for https addresses",
        ProxyEffect::Http => "used for http addresses",
        ProxyEffect::All => "used for all other addresses",
        ProxyEffect::Direct => "not used for these",
        ProxyEffect::Ignored => {
            let fault = CliError::new(format!("it {}", NamedProxy::FAULT));
            return Finding::bad("proxy", place, "ignored", &fault);
        }
    };
    Finding::fine("proxy", place, state)
}

async fn store(context: &Context) -> Finding {
    let settings = &context.config().store;
    let place = settings.place();
    match settings.config() {
        StoreConfig::Redis(redis) => {
            let examined = tokio::time::timeout(PATIENCE, RedisStore::examine(&redis)).await;
            match examined {
                Ok(Ok(Durability::Durable)) => Finding::fine("store", place, "durable"),
                Ok(Ok(Durability::Degraded { reasons })) => Finding {
                    faults: reasons,
                    ..Finding::fine("store", place, "degraded")
                },
                Ok(Err(error)) => {
                    Finding::bad("store", place, "unusable", &CliError::chain(&error))
                }
                Err(_) => {
                    let late = CliError::new("no answer came in time");
                    Finding::bad("store", place, "unusable", &late)
                }
            }
        }
        _ => match settings.file() {
            Ok(path) => file(path, place).await,
            Err(error) => Finding::bad("store", place, "not found", &error),
        },
    }
}

/// The folder whose store was looked at. None if the store is that of no folder.
fn workspace(context: &Context) -> Option<Finding> {
    if context.config().store.is_redis() {
        return None;
    }
    let path = &context.config().workspace.path;
    let (place, fault) = match std::fs::canonicalize(path) {
        Ok(found) if found.is_dir() => (found, None),
        Ok(found) => (found, Some("it is not a folder".to_owned())),
        Err(error) => (path.clone(), Some(error.to_string())),
    };
    let place = place.display().to_string();
    Some(match fault {
        None => Finding::fine("workspace", place, "there"),
        Some(fault) => Finding::bad("workspace", place, "unusable", &CliError::new(fault)),
    })
}

/// How programs are confined that tools start in the workspace. None if it cannot be found out.
fn programs(context: &Context) -> Option<Finding> {
    if context.config().store.is_redis() {
        return None;
    }
    let holds = settings::holds().ok()?;
    let workspace = &context.config().workspace.path;
    let (state, mut notes) = match settings::unconfined(context, workspace) {
        None => (
            "confined",
            vec![cairn_tools::confine::limits(&context.config().tools.shell)],
        ),
        Some(why @ Unconfined::Store(_)) => ("turned off", vec![why.why().to_owned()]),
        Some(Unconfined::System(_)) => ("not confined", Vec::new()),
    };
    notes.extend(holds.gaps().into_iter().map(str::to_owned));
    Some(Finding {
        notes,
        ..Finding::fine("programs", holds.to_string(), state)
    })
}

/// A store in a file, read from its first session to its last.
async fn file(path: &Path, place: String) -> Finding {
    let store = match SqliteStore::open_readonly(path, SqliteOptions::default()) {
        Ok(store) => store,
        Err(OpenError::Missing { .. }) if !path.exists() => {
            return Finding::fine("store", place, "not made yet: the first run makes it");
        }
        Err(error) => return Finding::bad("store", place, "unusable", &CliError::chain(&error)),
    };
    let (mut faults, mut more) = (Vec::new(), 0);
    let checked = store.check(|key, part| {
        let error = StoreError::Damaged(part);
        let (session, namespace) = (key.session(), key.namespace());
        match faults.len() < MOST_NAMED {
            true => faults.push(format!("session \"{session}\" of \"{namespace}\": {error}")),
            false => more += 1,
        }
    });
    if let Err(error) = checked.await {
        faults.push(error.to_string());
    }
    if more > 0 {
        faults.push(format!("and {}", counted(more, "more session")));
    }
    let state = if faults.is_empty() {
        "durable"
    } else {
        "damaged"
    };
    Finding {
        faults,
        ..Finding::fine("store", place, state)
    }
}

/// Opens the store once as far as it is there, which leaves it as one that was closed.
async fn accept_loss(context: &Context) -> Result<(), CliError> {
    let is_file = !context.config().store.is_redis() && context.config().client.server.is_none();
    let path = context.config().store.path.as_deref();
    let Some(path) = path.filter(|path| is_file && path.exists()) else {
        let error = "--accept-loss is for a store in a file, and there is none";
        return Err(CliError::usage(error).hint("name its file with --store"));
    };
    let options = SqliteOptions {
        accept_loss: true,
        ..SqliteOptions::default()
    };
    let store = SqliteStore::open(path, options).map_err(|error| CliError::chain(&error))?;
    store.close().await;
    Ok(())
}

async fn server_at(address: &Address) -> Finding {
    let (link, place) = (Link::remote(address), address.to_string());
    match health(&link, "").await {
        Err(error) => Finding::bad("services", place, "unreachable", &CliError::chain(&error)),
        Ok(false) => {
            let fault = CliError::new("it says that it does not serve");
            Finding::bad("services", place, "not serving", &fault)
        }
        Ok(true) => store_behind(&link, place).await,
    }
}

/// What services that serve say of the store, if it is in their process.
async fn store_behind(link: &Link, place: String) -> Finding {
    if let Ok(false) = health(link, STORE).await {
        let fault = CliError::new(
            "its store does not do its work for now: it does not answer, is full, is a replica, or \
             the clocks of its servers differ; its log says why",
        );
        return Finding::bad("services", place, "serving, store away", &fault);
    }
    match health(link, DURABILITY).await {
        Ok(false) => {
            let fault = CliError::new("what was answered may be lost; its log says why");
            Finding::bad("services", place, "serving, store degraded", &fault)
        }
        Ok(true) => Finding::fine("services", place, "serving, store durable"),
        Err(error) if error.kind() == ErrorKind::NotFound => Finding::fine(
            "services",
            place,
            "serving; memory's own address tells of the store",
        ),
        Err(error) => {
            let fault = CliError::chain(&error);
            Finding::bad("services", place, "serving, store unknown", &fault)
        }
    }
}
