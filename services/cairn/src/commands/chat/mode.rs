//! The mode of a conversation's session: shown, and set at any time, also while a turn works.

use super::{Chat, start};
use crate::commands::mode::{self, ModeName};
use crate::error::CliError;
use crate::ui::modes::{meaning, name};
use cairn_proto::event::Mode;

/// Reads the mode of a session that is there, and gives it the one that the person named. Returns what is shown.
///
/// # Errors
/// The service's.
pub(super) async fn begin(chat: &mut Chat<'_, '_>) -> Result<Vec<String>, CliError> {
    if chat.is_new {
        return Ok(Vec::new());
    }
    refresh(chat).await?;
    let before = chat.mode;
    set_wanted(chat).await?;
    let line = format!(
        "the mode is {} now, and was {}",
        name(chat.mode),
        name(before)
    );
    Ok(match before == chat.mode {
        true => Vec::new(),
        false => vec![line],
    })
}

/// Gives the session the mode that the person named, if it has another one.
///
/// # Errors
/// The service's. Then the next turn tries it again.
pub(super) async fn set_wanted(chat: &mut Chat<'_, '_>) -> Result<(), CliError> {
    if let Some(wanted) = chat.wanted_mode.filter(|wanted| *wanted != chat.mode) {
        mode::set(chat.client, &chat.session, wanted).await?;
        chat.mode = wanted;
    }
    chat.wanted_mode = None;
    Ok(())
}

/// Takes the mode of a conversation into the new session that continues it.
///
/// # Errors
/// The service's.
pub(super) async fn keep(chat: &mut Chat<'_, '_>) -> Result<(), CliError> {
    refresh(chat).await?;
    chat.wanted_mode = chat.wanted_mode.or(Some(chat.mode));
    Ok(())
}

/// `/mode`: the mode of the session.
///
/// # Errors
/// The service's.
pub(super) async fn show(chat: &mut Chat<'_, '_>) -> Result<Vec<String>, CliError> {
    if !chat.is_new {
        refresh(chat).await?;
    }
    let mode = current(chat);
    Ok(vec![
        format!("mode {}: {}", name(mode), meaning(mode)),
        format!("/mode NAME sets another one: {}", ModeName::all()),
    ])
}

/// `/mode NAME`: another mode, for the calls that are judged from now on.
///
/// # Errors
/// The service's.
pub(super) async fn switch(
    chat: &mut Chat<'_, '_>,
    wanted: ModeName,
) -> Result<Vec<String>, CliError> {
    let mode = wanted.of_contract();
    chat.wanted_mode = Some(mode);
    if !chat.is_new {
        refresh(chat).await?;
        let set = set_wanted(chat).await;
        chat.wanted_mode = None;
        set?;
    }
    Ok(vec![format!("mode {}: {}", name(mode), meaning(mode))])
}

/// The mode of the next call.
pub(super) fn current(chat: &Chat<'_, '_>) -> Mode {
    chat.wanted_mode.unwrap_or(chat.mode)
}

/// Reads which mode the session has: other clients may have set it.
async fn refresh(chat: &mut Chat<'_, '_>) -> Result<(), CliError> {
    let mode = start::session(chat).await?.mode();
    chat.mode = match mode {
        Mode::Unspecified => Mode::Ask,
        mode => mode,
    };
    Ok(())
}
