//! Questions to whoever sits at the terminal.

use crate::context::Context;
use crate::error::{CliError, INTERRUPTED};
use std::io::{IsTerminal as _, Write as _, stdin, stdout};

/// Somebody reads what is printed, and can answer.
pub(super) fn is_at_terminal(context: &Context) -> bool {
    !context.json && stdin().is_terminal() && stdout().is_terminal()
}

/// Asks for yes or no; anything else is a no.
///
/// # Errors
/// An interruption; a terminal that cannot be read.
pub(super) async fn is_wanted(context: &Context, question: &str) -> Result<bool, CliError> {
    let mut out = stdout().lock();
    write!(out, "{question} [y/N] ")?;
    out.flush()?;
    drop(out);
    let answer = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        stdin().read_line(&mut line).map(|_| line)
    });
    let answer = tokio::select! {
        answer = answer => answer.map_err(|error| CliError::chain(&error))??,
        () = context.stop.cancelled() => {
            return Err(CliError::new("interrupted; nothing was changed").code(INTERRUPTED));
        }
    };
    let answer = answer.trim().to_ascii_lowercase();
    Ok(answer == "y" || answer == "yes")
}
