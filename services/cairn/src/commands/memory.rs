//! `cairn memory`: what a session remembers beside its plan.

mod listed;
mod watch;

use super::confirm::agreed_session;
use super::pairs::{by_name, pair};
use crate::attach::Access;
use crate::client::Client;
use crate::context::Context;
use crate::error::{CliError, FAILURE};
use crate::ui::{out, table};
use cairn_engine::limits::{MAX_MEMORY_KEY, MAX_MEMORY_VALUE};
use cairn_proto::json;
use cairn_proto::memory as pb;
use cairn_rpc::text::clip;
use clap::Subcommand;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::ExitCode;
use table::{Column, Table};

/// An entry of session memory in the contract.
const ENTRY: &str = "cairn.memory.v1.MemoryEntry";

/// Shown for session memory without keys.
const NOTHING: &str = "nothing is remembered";

/// What can be said to `cairn memory`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Every change is an event of the session's journal; its steps see it from their next turn on.

With --json, get and list print an object for each key: id, namespace, key, value, metadata, create_time and
update_time. For a key without a value, get prints key, and null as value, with exit code 1.

Examples:
  cairn memory list
  cairn memory set tone \"dry, three lines at most\"
  cairn memory set tone dry --meta source=mail --meta by=anne
  cairn memory get tone --session s-7f3k
  cairn memory watch                  what there is, and every change as it comes")]
pub struct Args {
    /// The session: its id or a unique beginning of it [default: the latest]
    #[arg(long, value_name = "SESSION", global = true)]
    session: Option<String>,
    /// What is to be done
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Clone, Subcommand)]
enum Action {
    /// Give a key a value, whatever it had before
    Set {
        /// 1 to 128 bytes without control characters
        key: String,
        /// At most 64 KiB, with the notes
        value: String,
        /// A note for programs, which models do not see; may be repeated. The notes replace those of the value before
        #[arg(long, value_name = "NAME=TEXT", value_parser = note)]
        meta: Vec<(String, String)>,
    },
    /// Show the value of a key; exit code 1 if it has none
    Get {
        /// The key
        key: String,
    },
    /// Take a key out
    Remove {
        /// The key
        key: String,
    },
    /// Take all keys out
    Clear,
    /// Show all keys with their values
    List,
    /// Show what a model is told of them
    Snapshot,
    /// Show all keys with their values, and then every change, by whomever; ends with the session
    Watch {
        /// Only changes after this event
        #[arg(long, value_name = "SEQ")]
        after: Option<u64>,
    },
}

impl Action {
    /// What it takes from a session; none if it takes nothing.
    const fn takes(&self) -> Option<&'static str> {
        match self {
            Self::Remove { .. } => Some("Remove a key of"),
            Self::Clear => Some("Remove all that is remembered in"),
            _ => None,
        }
    }

    const fn access(&self) -> Access {
        match self {
            Self::Set { .. } | Self::Remove { .. } | Self::Clear => Access::Change,
            Self::Get { .. } | Self::List | Self::Snapshot | Self::Watch { .. } => Access::Read,
        }
    }
}

/// Reads or changes session memory.
///
/// # Errors
/// No such session, a key or a value that is not allowed.
pub async fn run(mut args: Args, context: &Context) -> Result<ExitCode, CliError> {
    if let Some(what) = args.action.takes() {
        args.session = Some(agreed_session(context, args.session, what).await?);
    }
    let mut client = Client::attach(context, args.action.access()).await?;
    if let Action::Watch { after } = args.action {
        return watch::run(&mut client, args.session.as_deref(), after).await;
    }
    let done = act(&client, args, context).await;
    client.finish().await;
    done
}

async fn act(client: &Client<'_>, args: Args, context: &Context) -> Result<ExitCode, CliError> {
    let session = client.resolve(args.session.as_deref()).await?;
    let mut memory = client.memory();
    let seq = match args.action {
        Action::Set { key, value, meta } => {
            let metadata = by_name("--meta", meta)?;
            check_value(&key, &value, &metadata)?;
            let request = pb::SetMemoryRequest {
                session,
                key,
                value,
                metadata,
            };
            memory.set_memory(request).await?.into_inner().seq
        }
        Action::Remove { key } => {
            let request = pb::RemoveMemoryRequest { session, key };
            memory.remove_memory(request).await?.into_inner().seq
        }
        Action::Clear => {
            let request = pb::ClearMemoryRequest { session };
            memory.clear_memory(request).await?.into_inner().seq
        }
        Action::Get { key } => return get(client, context, session, key).await,
        Action::List => return listed::run(client, context, session).await,
        Action::Snapshot => return snapshot(client, context, session).await,
        // Goes its own way: it outlives the connection.
        Action::Watch { .. } => return Ok(ExitCode::SUCCESS),
    };
    if context.json {
        out::json(&json!({"seq": seq}))?;
    } else {
        out::line(&format!("done (event {seq})"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn note(text: &str) -> Result<(String, String), String> {
    pair(text, "a name, = and a text, such as source=mail")
}

/// Refuses a value that no store takes, with the name of its key, which the services do not know then.
fn check_value(
    key: &str,
    value: &str,
    metadata: &BTreeMap<String, String>,
) -> Result<(), CliError> {
    let notes = metadata.iter().map(|(name, text)| name.len() + text.len());
    let bytes = value.len() + notes.sum::<usize>();
    if bytes <= MAX_MEMORY_VALUE {
        return Ok(());
    }
    let key = clip(key, MAX_MEMORY_KEY);
    let with = match metadata.is_empty() {
        true => "",
        false => " with its notes",
    };
    let message = format!(
        "the value of the key {key} has {bytes} bytes{with}; at most {MAX_MEMORY_VALUE} are allowed"
    );
    Err(CliError::usage(message))
}

async fn get(
    client: &Client<'_>,
    context: &Context,
    session: String,
    key: String,
) -> Result<ExitCode, CliError> {
    let request = pb::GetMemoryRequest {
        session,
        key: key.clone(),
    };
    let found = client.memory().get_memory(request).await?.into_inner();
    if context.json {
        out::json(&match &found.entry {
            Some(entry) => entry_json(entry),
            // A server of a version before has the value alone.
            None => json!({"key": key, "value": found.value}),
        })?;
        let has_value = found.entry.is_some() || found.value.is_some();
        return Ok(match has_value {
            true => ExitCode::SUCCESS,
            false => ExitCode::from(FAILURE),
        });
    }
    let Some(value) = found.value else {
        return Err(CliError::new(format!("{key} has no value")));
    };
    out::text(&value)?;
    Ok(ExitCode::SUCCESS)
}

fn entry_json(entry: &pb::MemoryEntry) -> Value {
    json::value(ENTRY, Some(entry))
}

fn show(entries: &[pb::MemoryEntry]) -> Result<(), CliError> {
    let mut lines = table(entries).into_iter();
    lines.try_for_each(|line| out::line(&line))
}

/// The keys with their values.
pub(super) fn table(entries: &[pb::MemoryEntry]) -> Vec<String> {
    if entries.is_empty() {
        return vec![NOTHING.to_owned()];
    }
    let mut table = Table::new([Column::Left("KEY"), Column::Left("VALUE")]);
    for entry in entries {
        table.row([&entry.key, &entry.value]);
    }
    table.lines(None)
}

async fn snapshot(
    client: &Client<'_>,
    context: &Context,
    session: String,
) -> Result<ExitCode, CliError> {
    let request = pb::SnapshotMemoryRequest { session };
    let text = client
        .memory()
        .snapshot_memory(request)
        .await?
        .into_inner()
        .text;
    if context.json {
        out::json(&json!({"text": text}))?;
    } else if !text.is_empty() {
        out::text(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_too_large_is_refused_with_its_key_and_both_sizes() {
        let none = BTreeMap::new();
        let largest = "x".repeat(MAX_MEMORY_VALUE);
        assert_eq!(check_value("tone", &largest, &none), Ok(()));
        let error = check_value("tone", &"x".repeat(100_000), &none).unwrap_err();
        let wanted = "the value of the key tone has 100000 bytes; at most 65536 are allowed";
        assert_eq!(error.message, wanted);
        let notes = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        let error = check_value("tone", &largest, &notes).unwrap_err();
        let wanted =
            "the value of the key tone has 65538 bytes with its notes; at most 65536 are allowed";
        assert_eq!(error.message, wanted);
    }
}
