//! The question whether a settings file that was found is the operator's.

use crate::cli::Command;
use crate::error::CliError;
use crate::settings::Source;
use crate::settings::trust::{Unconfirmed, confirm_as, effects, refused, trust_file};
use crate::ui::screen;
use cairn_boot::Environment;
use cairn_rpc::text::escape;
use std::io::{IsTerminal as _, Write as _, stderr, stdin};
use std::path::Path;

/// Lines of effects that are shown.
const MOST_LINES: usize = 20;

/// Has a person confirm the settings file, if one is there to ask. Else says in a line what has no
/// effect. Returns the file as it counts now.
///
/// # Errors
/// The answer cannot be kept.
pub(in crate::commands) fn settled(
    source: Source,
    command: &Command,
    environment: &Environment,
    is_json: bool,
) -> Result<Source, CliError> {
    let (needs_none, only_shows) = match command {
        Command::Completions(_) => (true, true),
        Command::Config(args) => (args.confirms(), true),
        Command::CheckConfig(_) => (false, true),
        _ => (false, false),
    };
    let Some(unconfirmed) = source.unconfirmed().filter(|_| !needs_none) else {
        return Ok(source);
    };
    // An answer that cannot be kept is not asked for.
    let may_ask = !is_json && trust_file(environment).is_some();
    let is_terminal = may_ask && stdin().is_terminal() && stderr().is_terminal();
    if !is_terminal || only_shows || unconfirmed.is_refused {
        screen::tell(&unconfirmed.to_line(source.path()));
        return Ok(source);
    }
    let is_confirmed = ask(source.path(), unconfirmed)?;
    let state = match is_confirmed {
        true => unconfirmed.digest.clone(),
        false => refused(&unconfirmed.digest),
    };
    confirm_as(source.path(), &state, environment)?;
    if is_confirmed {
        return Ok(source.confirmed());
    }
    screen::tell(&unconfirmed.to_line(source.path()));
    Ok(source)
}

/// Before any runtime is there: the process waits for the answer, and Ctrl-C ends it.
fn ask(path: &Path, unconfirmed: &Unconfirmed) -> Result<bool, CliError> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let path = path.display().to_string();
    let mut lines = effects(&unconfirmed.withheld);
    let more = lines.len().saturating_sub(MOST_LINES);
    lines.truncate(MOST_LINES);
    let mut err = stderr().lock();
    writeln!(err, "{} is not confirmed. It would:", escape(&path))?;
    for line in lines {
        writeln!(err, "  - {line}")?;
    }
    if more > 0 {
        writeln!(err, "  - and do {more} more things")?;
    }
    write!(
        err,
        "Confirm it only if its content is yours. Confirm? [y/N] "
    )?;
    err.flush()?;
    let mut answer = String::new();
    stdin().read_line(&mut answer)?;
    let answer = answer.trim().to_ascii_lowercase();
    Ok(answer == "y" || answer == "yes")
}
