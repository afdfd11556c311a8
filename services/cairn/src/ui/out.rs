//! Standard output, line by line.

use crate::error::CliError;
use serde_json::Value;
use std::io::{self, ErrorKind, IsTerminal as _, Write as _};

/// What a shell makes of a program that nobody listens to any more.
const NOBODY_LISTENS: u8 = 141;

/// Writes a line. Standard output is flushed, so that a reader at the other end of a pipe sees
/// each line at once.
///
/// # Errors
/// Standard output takes no more; silent if its reader has simply gone.
pub fn line(text: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    let written = writeln!(out, "{text}").and_then(|()| out.flush());
    written.map_err(|error| not_written(&error))
}

fn not_written(error: &io::Error) -> CliError {
    match error.kind() {
        ErrorKind::BrokenPipe => CliError::new("").code(NOBODY_LISTENS),
        _ => CliError::new(format!("cannot write to standard output: {error}")),
    }
}

/// Whether standard output is a terminal, for which texts of others have to be made harmless.
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Writes bytes as they are, for a program that reads them.
///
/// # Errors
/// As [`line()`].
pub fn bytes(bytes: &[u8]) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    let written = out.write_all(bytes).and_then(|()| out.flush());
    written.map_err(|error| not_written(&error))
}

/// Writes a text of others: as it is for a program that reads it, and harmless for a terminal. It ends
/// with a line end.
///
/// # Errors
/// As [`line()`].
pub fn text(text: &str) -> Result<(), CliError> {
    match is_terminal() {
        true => line(&super::text::block(text)),
        false => line(text.strip_suffix('\n').unwrap_or(text)),
    }
}

/// Writes a JSON document as one line.
///
/// # Errors
/// As [`line()`].
pub fn json(value: &Value) -> Result<(), CliError> {
    line(&super::text::json(value))
}
