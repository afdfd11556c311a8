//! `cairn context import`: messages of JSON lines, in requests that the server takes.

use super::rpc;
use crate::client::Client;
use crate::error::{CliError, USAGE};
use crate::ui::out;
use cairn_proto::orchestrator::ImportContextRequest;
use cairn_rpc::MAX_MESSAGE_BYTES;
use cairn_rpc::text::escape;
use clap::builder::NonEmptyStringValueParser;
use serde_json::json;
use std::fs::File;
use std::io::{BufRead, BufReader, stdin};
use std::path::{Path, PathBuf};

/// Most bytes of the lines of one request, unless it has one line.
const MOST_BYTES: usize = 2 << 20;
/// Most bytes of one line: what a message to the server holds beside the names. A message takes more bytes
/// as a line than it counts: those of a picture by a third.
const MOST_OF_LINE: usize = MAX_MESSAGE_BYTES - (64 << 10);

/// The arguments of `cairn context import`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each line is the protobuf JSON of a cairn.event.v1.Message, as cairn context export writes it; blank
lines are skipped. The lines are sent in requests of about 2 MiB, each of which is added as a whole
or not at all. If one is refused, the error says how many messages were added before it.

With --json one object: session, context, messages, dropped_parts.")]
pub(super) struct Args {
    /// The session: its id or a unique beginning of it
    #[arg(value_name = "SESSION")]
    pub(super) session: String,
    /// The file, or - for standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// The context [default: the active one]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    context: Option<String>,
    /// Refuse a reply whose reasoning is missing or of another model, instead of leaving it out
    #[arg(long)]
    preserve_reasoning: bool,
}

/// Sends the lines, and says how many messages were added.
pub(super) async fn run(
    client: &mut Client<'_>,
    session: String,
    args: Args,
) -> Result<(), CliError> {
    let context = args.context.unwrap_or_default();
    let mut chunks = Chunks::new(open(&args.file)?, name_of(&args.file));
    let (mut messages, mut dropped) = (0_u64, 0_u64);
    loop {
        let added = |error: CliError| match messages {
            0 => error,
            _ => CliError {
                message: format!(
                    "{}; {messages} messages were added before it",
                    error.message
                ),
                ..error
            },
        };
        let Some(chunk) = chunks.next_chunk().map_err(added)? else {
            break;
        };
        let request = ImportContextRequest {
            session: session.clone(),
            context: context.clone(),
            jsonl: chunk.lines,
            preserve_reasoning: args.preserve_reasoning,
            ..ImportContextRequest::default()
        };
        let imported = rpc::import(client, request).await;
        let imported = imported.map_err(|error| added(placed(error, chunk.first_line)))?;
        messages += u64::from(imported.messages);
        dropped += u64::from(imported.dropped_parts);
    }
    report(client, &session, &context, messages, dropped)
}

fn report(
    client: &Client<'_>,
    session: &str,
    context: &str,
    messages: u64,
    dropped: u64,
) -> Result<(), CliError> {
    if client.context().json {
        return out::json(&json!({
            "session": session,
            "context": context,
            "messages": messages,
            "dropped_parts": dropped,
        }));
    }
    let count = |number: u64, noun: &str| match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    };
    let place = match context {
        "" => format!("the active context of {session}"),
        name => format!("the context {name} of {session}"),
    };
    out::line(&format!(
        "added {} to {}",
        count(messages, "message"),
        escape(&place)
    ))?;
    match dropped {
        0 => Ok(()),
        _ => out::line(&format!(
            "left out {} with reasoning of another model",
            count(dropped, "part")
        )),
    }
}

/// The server counts the lines of its request.
fn placed(error: CliError, first_line: u64) -> CliError {
    match first_line {
        ..=1 => error,
        _ => {
            let hint = format!("the lines of this request begin at line {first_line} of the file");
            error.hint(hint)
        }
    }
}

/// What an error calls the file.
fn name_of(path: &Path) -> String {
    match path.as_os_str() == "-" {
        true => "standard input".to_owned(),
        false => path.display().to_string(),
    }
}

fn open(path: &Path) -> Result<Box<dyn BufRead>, CliError> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(BufReader::new(stdin())));
    }
    let file = File::open(path);
    let file = file.map_err(|error| {
        CliError::new(format!("cannot read {}: {error}", name_of(path))).code(USAGE)
    })?;
    Ok(Box::new(BufReader::new(file)))
}

/// Lines for one request.
#[derive(Debug, PartialEq, Eq)]
struct Chunk {
    /// Whole lines.
    lines: String,
    /// The number of the first one, from 1.
    first_line: u64,
}

/// A text in chunks of whole lines.
struct Chunks<R> {
    from: R,
    /// What an error calls the file.
    name: String,
    /// The line that did not fit into the chunk before.
    next: String,
    /// Number of lines that were read.
    number: u64,
}

impl<R: BufRead> Chunks<R> {
    fn new(from: R, name: String) -> Self {
        Self {
            from,
            name,
            next: String::new(),
            number: 0,
        }
    }

    /// The next lines, with at most [`MOST_BYTES`] or one line; `None` at the end.
    fn next_chunk(&mut self) -> Result<Option<Chunk>, CliError> {
        let mut lines = String::new();
        let mut first_line = 0;
        loop {
            if self.next.is_empty() && !self.read_line()? {
                break;
            }
            if self.next.len() > MOST_OF_LINE {
                let number = self.number;
                let message = format!("line {number} has more than {MOST_OF_LINE} bytes");
                return Err(CliError::usage(message));
            }
            if !lines.is_empty() && lines.len() + self.next.len() > MOST_BYTES {
                break;
            }
            if lines.is_empty() {
                first_line = self.number;
            }
            lines.push_str(&std::mem::take(&mut self.next));
        }
        Ok((!lines.is_empty()).then_some(Chunk { lines, first_line }))
    }

    /// Reads a line, up to one byte more than one may have. False at the end.
    fn read_line(&mut self) -> Result<bool, CliError> {
        let mut bytes = Vec::new();
        let most = MOST_OF_LINE as u64 + 1;
        let mut from = std::io::Read::take(&mut self.from, most);
        let read = from.read_until(b'\n', &mut bytes);
        let read = read.map_err(|error| {
            CliError::new(format!("cannot read {}: {error}", self.name)).code(USAGE)
        })?;
        self.number += u64::from(read > 0);
        let number = self.number;
        self.next = String::from_utf8(bytes)
            .map_err(|_| CliError::usage(format!("line {number} is not UTF-8")))?;
        Ok(read > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(text: &str) -> Result<Vec<Chunk>, CliError> {
        let mut chunks = Chunks::new(text.as_bytes(), String::new());
        std::iter::from_fn(|| chunks.next_chunk().transpose()).collect()
    }

    #[test]
    fn small_texts_are_one_chunk() {
        assert_eq!(chunks("").unwrap(), []);
        let lines = "{}\n\n{}".to_owned();
        let want = Chunk {
            lines,
            first_line: 1,
        };
        assert_eq!(chunks("{}\n\n{}").unwrap(), [want]);
    }

    #[test]
    fn large_texts_are_split_between_lines() {
        let line = format!("{}\n", "x".repeat(MOST_BYTES / 2 - 10));
        let found = chunks(&line.repeat(5)).unwrap();
        let firsts: Vec<u64> = found.iter().map(|chunk| chunk.first_line).collect();
        assert_eq!(firsts, [1, 3, 5]);
        assert!(found.iter().all(|chunk| chunk.lines.len() <= MOST_BYTES));
        assert!(found.iter().all(|chunk| chunk.lines.ends_with('\n')));
        let all: usize = found.iter().map(|chunk| chunk.lines.len()).sum();
        assert_eq!(all, line.len() * 5);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let mut chunks = Chunks::new(open(path).unwrap(), name_of(path));
        let error = chunks.next_chunk().unwrap_err();
        let wanted = format!("cannot read {}: ", path.display());
        assert!(error.message.starts_with(&wanted), "{error}");
        assert_eq!(error.code, USAGE);
    }

    #[test]
    fn a_line_that_no_request_takes_is_named() {
        // Bytes of a picture take a third more as text.
        let line = format!("{}\n", "x".repeat(MOST_BYTES * 4 / 3));
        assert_eq!(chunks(&line.repeat(2)).unwrap().len(), 2);
        let text = format!("{{}}\n{}\n", "x".repeat(4 << 20));
        let error = chunks(&text).unwrap_err();
        assert!(error.message.starts_with("line 2 has more than"), "{error}");
        let mut chunks = Chunks::new(&b"{}\n\xff\n"[..], String::new());
        let error = chunks.next_chunk().unwrap_err();
        assert_eq!(error.message, "line 2 is not UTF-8");
    }
}
