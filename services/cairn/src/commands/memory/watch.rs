//! `cairn memory watch`: what a session remembers, and every change of it.
//!
//! Goes by the session's events as `cairn watch` does, so that it outlives the process that serves
//! them, and reads a file that nobody works on.

use super::{entry_json, show};
use crate::client::{Client, Watched};
use crate::commands::watch::{check_cursor, event_text};
use crate::error::{CliError, INTERRUPTED};
use crate::ui::event_json::event_json;
use crate::ui::event_line::Narrator;
use crate::ui::style::Style;
use crate::ui::{out, text};
use cairn_proto::event::event::Kind;
use cairn_proto::memory::ListMemoryRequest;
use serde_json::{Value, json};
use std::process::ExitCode;

/// Shows all of the memory, unless only changes after an event are wanted, and then the changes.
///
/// # Errors
/// No such session, or nobody to read it from; a session that is deleted meanwhile.
pub(super) async fn run(
    client: &mut Client<'_>,
    session: Option<&str>,
    after: Option<u64>,
) -> Result<ExitCode, CliError> {
    let context = client.context();
    let session = client.resolve(session).await?;
    let after = match after {
        Some(after) => {
            check_cursor(client, &session, after).await?;
            after
        }
        None => contents(client, &session).await?,
    };
    let (style, mut narrator) = (Style::new(context.color), Narrator::default());
    let mut watch = client.watch(&session, after);
    while let Some(next) = watch.next().await? {
        let Watched::Event { seq, event } = next else {
            continue;
        };
        let Some(Kind::MemorySet(_) | Kind::MemoryRemoved(_) | Kind::MemoryCleared(_)) = event.kind
        else {
            continue;
        };
        if context.json {
            out::line(&text::json(&event_json(seq, &event)))?;
        } else {
            let line = narrator.line(&event);
            out::line(&event_text(seq, event.at_unix_ms, &line, style))?;
        }
    }
    match context.stop.is_cancelled() {
        true => Ok(ExitCode::from(INTERRUPTED)),
        false => Err(CliError::new(format!("session {session} was deleted"))),
    }
}

/// Shows what there is, and answers the last event that it covers.
async fn contents(client: &Client<'_>, session: &str) -> Result<u64, CliError> {
    let request = ListMemoryRequest {
        session: session.to_owned(),
    };
    let list = client.memory().list_memory(request).await?.into_inner();
    if !client.context().json {
        show(&list.entries)?;
        return Ok(list.seq);
    }
    let entries: Vec<Value> = list.entries.iter().map(entry_json).collect();
    out::json(&json!({"seq": list.seq, "kind": "memory", "entries": entries}))?;
    Ok(list.seq)
}
