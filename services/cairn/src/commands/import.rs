//! `cairn import`: a session out of the file that retention wrote.

use crate::attach::{Access, Servers};
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::out;
use crate::ui::text::{command, quoted};
use cairn_memory::archive::{Item, ReadError, Reader};
use cairn_proto::orchestrator::{
    ArchivedEvent, ImportSessionRequest, ImportSessionResponse, ImportStart,
};
use cairn_rpc::check_session_id;
use cairn_rpc::text::escape;
use serde_json::json;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of events and blobs in one message, about.
const MESSAGE_BYTES: usize = 512 << 10;

/// Blobs in one message. More may wait for their event.
const MESSAGE_BLOBS: usize = 256;

/// The arguments of `cairn import`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The file is one that store.retention.archive holds; what cairn export writes cannot be imported. Without --new-session the session is restored
under its own id, exactly as it was: runs, results, session memory. With --new-session the result is a
fork of the archived session. Commands without an answer are not restored, and files are not part of an
archive.

All or nothing: a file that is cut off or damaged is refused, and the error names the line. Importing
a file again changes nothing.

With --json one object: session, archived_session, events, imported (false if it was there already).

Examples:
  cairn import archive/default/s-7f3k.jsonl
  cairn import s-7f3k.jsonl --new-session s-7f3k-again
  cairn import s-7f3k.jsonl --server http://127.0.0.1:7878")]
pub struct Args {
    /// The archive of a session
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Import the session under this id, as a fork [default: the id that it had]
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    new_session: String,
}

/// What a file holds that was read to its end.
struct Whole {
    session: String,
    time_to_live_ms: u64,
    last_seq: u64,
    /// Names the content.
    digest: String,
}

/// Makes the session, unless it is there.
///
/// # Errors
/// A file that is no whole archive; a session of this id that came from elsewhere.
pub async fn run(args: Args, context: &Context) -> Result<ExitCode, CliError> {
    if !args.new_session.is_empty() {
        check_session_id("new_session", &args.new_session)?;
    }
    let whole = read(&args.file)?;
    let mut client = Client::attach_with(context, Access::Make, Servers::None).await?;
    let imported = import(&mut client, &args, &whole).await;
    client.finish().await;
    let imported = imported.map_err(|error| refused(context, error, &args, &whole))?;
    report(context, &whole, &imported)?;
    Ok(ExitCode::SUCCESS)
}

fn open(path: &Path) -> Result<Reader<BufReader<File>>, CliError> {
    let file = File::open(path);
    let file = file.map_err(|error| not_read(path, &error.to_string()))?;
    Reader::new(BufReader::new(file)).map_err(|error| unusable(path, &error))
}

fn not_read(path: &Path, why: &str) -> CliError {
    CliError::new(format!("cannot read {}: {why}", path.display()))
}

fn unusable(path: &Path, error: &ReadError) -> CliError {
    let message = format!("cannot import {}: {error}", path.display());
    let hint = match error {
        ReadError::Foreign => {
            "nothing was imported; what cairn export writes cannot be imported: give a file that \
             store.retention.archive holds"
        }
        _ => "nothing was imported",
    };
    CliError::new(message).hint(hint)
}

/// Reads the whole file before anything is sent.
fn read(path: &Path) -> Result<Whole, CliError> {
    let mut reader = open(path)?;
    while let Some(_item) = reader.next_item().map_err(|error| unusable(path, &error))? {}
    let header = reader.header();
    Ok(Whole {
        session: header.session.clone(),
        time_to_live_ms: header.time_to_live_ms.unwrap_or(0),
        last_seq: reader.seq(),
        digest: reader.digest(),
    })
}

async fn import(
    client: &mut Client<'_>,
    args: &Args,
    whole: &Whole,
) -> Result<ImportSessionResponse, CliError> {
    let start = ImportStart {
        session: whole.session.clone(),
        // The same file, and so the same request, however often it is imported.
        request_id: format!("import-{}", whole.digest),
        last_seq: whole.last_seq,
        time_to_live_ms: whole.time_to_live_ms,
        new_session: args.new_session.clone(),
    };
    let failed: Arc<Mutex<Option<CliError>>> = Arc::default();
    let imported = client.persist(|mut orchestrator| {
        let messages = Messages {
            start: Some(start.clone()),
            path: args.file.clone(),
            reader: None,
            digest: whole.digest.clone(),
            failed: failed.clone(),
        };
        async move {
            orchestrator
                .import_session(tokio_stream::iter(messages))
                .await
        }
    });
    let imported = imported.await;
    // The server sees no more than a stream that ends early.
    let failed = failed.lock().unwrap_or_else(PoisonError::into_inner).take();
    match failed {
        Some(error) => Err(error),
        None => imported,
    }
}

/// The file in messages. It is read again for each try, a message at a time.
struct Messages {
    start: Option<ImportStart>,
    path: PathBuf,
    reader: Option<Reader<BufReader<File>>>,
    digest: String,
    failed: Arc<Mutex<Option<CliError>>>,
}

impl Messages {
    /// The next message; empty once the file was read to its end.
    fn batch(&mut self) -> Result<ImportSessionRequest, CliError> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            empty => empty.insert(open(&self.path)?),
        };
        let mut message = ImportSessionRequest::default();
        let mut bytes = 0;
        while bytes < MESSAGE_BYTES && message.blobs.len() < MESSAGE_BLOBS {
            let item = reader.next_item();
            match item.map_err(|error| unusable(&self.path, &error))? {
                Some(Item::Part(data)) => {
                    bytes += data.len();
                    message.blobs.push(data);
                }
                Some(Item::Event(event)) => {
                    let blob = event.blob.unwrap_or_default();
                    bytes += event.event.len() + blob.len();
                    message.events.push(ArchivedEvent {
                        event: event.event,
                        blob,
                        ends: event.ends,
                    });
                }
                None if reader.digest() == self.digest => break,
                None => {
                    return Err(not_read(&self.path, "the file changes while it is read"));
                }
            }
        }
        Ok(message)
    }
}

impl Iterator for Messages {
    type Item = ImportSessionRequest;

    fn next(&mut self) -> Option<ImportSessionRequest> {
        match self.batch() {
            Ok(message) if message.events.is_empty() && message.blobs.is_empty() => None,
            Ok(message) => Some(ImportSessionRequest {
                start: self.start.take(),
                ..message
            }),
            Err(error) => {
                let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
                *failed = Some(error);
                None
            }
        }
    }
}

fn report(
    context: &Context,
    whole: &Whole,
    imported: &ImportSessionResponse,
) -> Result<(), CliError> {
    let (session, events) = (&imported.session, whole.last_seq);
    if context.json {
        return out::json(&json!({
            "session": session,
            "archived_session": whole.session,
            "events": events,
            "imported": !imported.duplicate,
        }));
    }
    let what = match imported.duplicate {
        true => "was imported before; nothing changed".to_owned(),
        false => format!("imported: {events} events"),
    };
    out::line(&format!("session {}  {what}", escape(session)))?;
    let show = command(context, &format!("show {session}"));
    out::line(&format!("look   {show}"))
}

/// What to do about an id that is not free.
fn refused(context: &Context, error: CliError, args: &Args, whole: &Whole) -> CliError {
    let id = match args.new_session.as_str() {
        "" => &whole.session,
        id => id,
    };
    let problem = match error.reason.as_str() {
        "REQUEST_MISMATCH" => format!("there is another session {id}"),
        "TERMINAL" => format!("there was a session {id}, and its id is not free yet"),
        _ => return error,
    };
    let file = quoted(&args.file.display().to_string());
    let import = command(context, &format!("import {file} --new-session ID"));
    CliError {
        message: format!("{problem}; nothing was imported"),
        ..error
    }
    .hint(format!("import it under another id: {import}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_export_writes_is_reported_from_an_archive() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.jsonl");
        std::fs::write(&path, "{\"seq\":1,\"kind\":\"session_created\"}\n").unwrap();
        let error = read(&path).map(|_| ()).unwrap_err().to_string();
        for words in [
            "cairn export",
            "store.retention.archive",
            "nothing was imported",
        ] {
            assert!(error.contains(words), "{words} is not in {error}");
        }
    }
}
