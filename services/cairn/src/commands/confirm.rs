//! Questions to whoever sits at the terminal.

use crate::attach::Access;
use crate::client::Client;
use crate::context::Context;
use crate::error::{CliError, INTERRUPTED};
use crate::ui::text::command;
use cairn_rpc::text::{clip, escape};
use std::io::{IsTerminal as _, Write as _, stdin, stdout};

/// Somebody reads what is printed, and can answer.
pub(super) fn is_at_terminal(context: &Context) -> bool {
    !context.json && stdin().is_terminal() && stdout().is_terminal()
}

/// The session of a command that ends something or takes it away: the one that is named, or the latest, if the
/// person agrees. While they think, nothing holds the store.
///
/// # Errors
/// None is named and nobody can be asked; there is no session; the person does not agree.
pub(super) async fn agreed_session(
    context: &Context,
    given: Option<String>,
    what: &str,
) -> Result<String, CliError> {
    if let Some(given) = given {
        return Ok(given);
    }
    if !is_at_terminal(context) {
        let message =
            "name the session: only a person at a terminal is asked whether the latest is meant";
        let sessions = command(context, "sessions");
        return Err(CliError::usage(message).hint(format!("see them all with: {sessions}")));
    }
    let reader = Client::attach(context, Access::Read).await?;
    let latest = reader.latest().await;
    reader.finish().await;
    let latest = latest?;
    let title = match latest.title.as_str() {
        "" => String::new(),
        title => format!(" ({})", clip(title, 200)),
    };
    let id = escape(&latest.id);
    let question = format!("{what} the latest session, {id}{title}?");
    agree(context, &question).await?;
    Ok(latest.id)
}

/// Asks, and fails unless the person agrees.
///
/// # Errors
/// The person does not agree; an interruption.
pub(super) async fn agree(context: &Context, question: &str) -> Result<(), CliError> {
    match is_wanted(context, question).await? {
        true => Ok(()),
        false => Err(CliError::new("nothing was changed")),
    }
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
