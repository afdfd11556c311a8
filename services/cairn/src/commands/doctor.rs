//! `cairn doctor`: whether what this program depends on is as it must be.

use crate::attach::health;
use crate::context::Context;
use crate::error::CliError;
use crate::node::{DURABILITY, STORE};
use crate::ui::out;
use cairn_memory::StoreConfig;
use cairn_memory::redis::{Durability, RedisStore};
use cairn_memory::sqlite::{SqliteOptions, SqliteStore};
use cairn_rpc::{Address, ErrorKind, Link};
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;

/// How long what is asked may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// What can be said to `cairn doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Looks at the store and, if that is Redis, at its settings; with --server at the services instead.
Changes nothing. Ends with exit code 1 if something is not as it must be.")]
pub struct Args {}

/// What was found of one thing.
struct Finding {
    what: &'static str,
    place: String,
    /// How it is, in a word or a few.
    state: &'static str,
    /// What is not as it must be.
    faults: Vec<String>,
}

impl Finding {
    fn fine(what: &'static str, place: String, state: &'static str) -> Self {
        Self {
            what,
            place,
            state,
            faults: Vec::new(),
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
/// Standard output takes no more.
pub async fn run(_: Args, context: &Context) -> Result<ExitCode, CliError> {
    let findings = match &context.config().client.server {
        Some(servers) => futures::future::join_all(servers.0.iter().map(server_at)).await,
        None => vec![store(context).await],
    };
    for finding in &findings {
        show(finding, context.json)?;
    }
    let has_fault = findings.iter().any(|it| !it.faults.is_empty());
    Ok(ExitCode::from(u8::from(has_fault)))
}

fn show(finding: &Finding, json: bool) -> Result<(), CliError> {
    let Finding {
        what,
        place,
        state,
        faults,
    } = finding;
    if json {
        let line = json!({"what": what, "place": place, "state": state, "faults": faults});
        return out::json(&line);
    }
    out::line(&format!("{what}  {place}  {state}"))?;
    for fault in faults {
        out::line(&format!("  {fault}"))?;
    }
    Ok(())
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
        _ if !settings.path.exists() => {
            Finding::fine("store", place, "not made yet: the first run makes it")
        }
        _ => match SqliteStore::open_readonly(&settings.path, SqliteOptions::default()) {
            Ok(_) => Finding::fine("store", place, "durable"),
            Err(error) => Finding::bad("store", place, "unusable", &CliError::chain(&error)),
        },
    }
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
