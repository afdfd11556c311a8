//! The question whether a settings file that was found is the operator's.

use crate::cli::{Cli, Command};
use crate::error::CliError;
use crate::settings::trust::{Unconfirmed, keep, trust_file};
use crate::settings::{SERVER_VARIABLE, Source};
use crate::ui::screen;
use cairn_boot::Environment;
use cairn_rpc::text::escape;
use std::io::{IsTerminal as _, Write as _, stderr, stdin};
use std::path::Path;

/// Most lines and bytes of effects that a person is asked about. What cannot be read at a glance is
/// not confirmed at a glance.
const MOST_LINES: usize = 100;
const MOST_BYTES: usize = 8 * 1024;
/// It replaces the hooks of the file.
const HOOKS_VARIABLE: &str = "CAIRN_HOOKS";
/// The full name of [`SERVER_VARIABLE`].
const FULL_SERVER_VARIABLE: &str = "CAIRN_CLIENT__SERVER";

/// Has a person confirm the settings file, if one is there to ask. Else says in a line what has no
/// effect. Returns the file as it counts now.
///
/// # Errors
/// The answer cannot be kept; the file of a server has faults; no person can be asked, and the command would
/// begin or continue work without the hooks of the file.
pub(in crate::commands) fn settled(
    source: Source,
    cli: &Cli,
    environment: &Environment,
) -> Result<Source, CliError> {
    let command = &cli.command;
    let (needs_none, only_shows) = match command {
        Command::Completions(_) => (true, true),
        Command::Config(args) => (args.confirms(), true),
        Command::Agent(args) => (args.only_checks(), false),
        Command::Hook(args) => (args.only_explains(), true),
        Command::CheckConfig(_) => (false, true),
        _ => (false, false),
    };
    let Some(unconfirmed) = source.unconfirmed().filter(|_| !needs_none) else {
        return Ok(source);
    };
    // A server without them would listen, and store, elsewhere than its operator thinks.
    if matches!(command, Command::Serve(_)) && !unconfirmed.is_refused {
        let shown = escape(&source.path().display().to_string()).into_owned();
        let hint = format!("mend {shown}, or name another settings file with --config");
        source
            .check_whole(environment)
            .map_err(|error| error.hint(hint))?;
    }
    // An answer that cannot be kept is not asked for.
    let may_ask = !cli.global.json && trust_file(environment).is_some();
    let is_terminal = may_ask && stdin().is_terminal() && stderr().is_terminal();
    // A person who refused the file knows that its hooks guard nothing.
    let loses_guards = !unconfirmed.is_refused && loses_guards(unconfirmed, cli, environment);
    if !is_terminal && loses_guards {
        return Err(without_guards(source.path()));
    }
    if !is_terminal || only_shows || unconfirmed.is_refused {
        screen::tell(&unconfirmed.to_line(source.path()));
        return Ok(source);
    }
    let effects = unconfirmed.effects();
    if let Some(problem) = problem(&source, &effects, environment) {
        let shown = escape(&source.path().display().to_string()).into_owned();
        let line = format!("{shown}: {problem}");
        if loses_guards {
            let error = without_guards(source.path());
            let hint = format!("{line}\n{}", error.hint);
            return Err(error.hint(hint));
        }
        screen::tell(&unconfirmed.to_line(source.path()));
        screen::tell(&line);
        return Ok(source);
    }
    let is_confirmed = ask(source.path(), &effects)?;
    keep(
        source.path(),
        &unconfirmed.digest,
        is_confirmed,
        environment,
    )?;
    if is_confirmed {
        return Ok(source.confirmed());
    }
    screen::tell(&unconfirmed.to_line(source.path()));
    Ok(source)
}

/// Why a person is not asked at a terminal.
fn problem(source: &Source, effects: &[String], environment: &Environment) -> Option<&'static str> {
    match source.check_whole(environment) {
        Err(_) => {
            Some("it has faults, so it cannot be confirmed; see them with: cairn config check")
        }
        Ok(_) if is_too_long(effects) => {
            Some("it does more than can be shown here; read it before you confirm it")
        }
        Ok(_) => None,
    }
}

/// Whether hooks of the file do not count for the only reason that it is not confirmed.
pub(in crate::commands) fn withholds_hooks(
    unconfirmed: &Unconfirmed,
    environment: &Environment,
) -> bool {
    unconfirmed.has_hooks() && environment.get(HOOKS_VARIABLE).is_none()
}

/// Whether the command begins or continues work here, and would do it without the hooks of the file.
fn loses_guards(unconfirmed: &Unconfirmed, cli: &Cli, environment: &Environment) -> bool {
    let works = match &cli.command {
        Command::Run(_) | Command::Chat(_) | Command::Resume(_) | Command::Serve(_) => true,
        Command::Tools(args) => args.calls(),
        _ => false,
    };
    // A server asks hooks of its own. A store that is named means no server.
    let given = |name: &str| environment.get(name).is_some_and(|value| !value.is_empty());
    let is_elsewhere = match cli.global.store {
        Some(_) => false,
        None => {
            cli.global.server.is_some() || given(SERVER_VARIABLE) || given(FULL_SERVER_VARIABLE)
        }
    };
    works && !is_elsewhere && withholds_hooks(unconfirmed, environment)
}

/// Work that lost its guards would end as if they had agreed.
fn without_guards(path: &Path) -> CliError {
    let shown = escape(&path.display().to_string()).into_owned();
    let message =
        format!("{shown} has hooks and is not confirmed, so this command would work without them");
    CliError::usage(message).hint(format!(
        "confirm it with: cairn config trust\nor name it, if its content is yours: --config {shown}"
    ))
}

/// Whether there is more than a person would read.
pub(in crate::commands) fn is_too_long(lines: &[String]) -> bool {
    lines.len() > MOST_LINES || lines.iter().map(String::len).sum::<usize>() > MOST_BYTES
}

/// Effects as a list; what belongs to one is indented below it.
pub(super) fn listed(effects: &[String]) -> impl Iterator<Item = String> {
    effects.iter().map(|line| match line.starts_with("  ") {
        true => format!("    {line}"),
        false => format!("  - {line}"),
    })
}

/// Before any runtime is there: the process waits for the answer, and Ctrl-C ends it.
fn ask(path: &Path, effects: &[String]) -> Result<bool, CliError> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let path = path.display().to_string();
    let mut err = stderr().lock();
    writeln!(err, "{} is not confirmed. It would:", escape(&path))?;
    for line in listed(effects) {
        writeln!(err, "{line}")?;
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
