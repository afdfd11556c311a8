//! Which folder the work of a store belongs to: a note beside the store, and what follows from it.
//!
//! A run reads and changes one folder. Another process that continues it elsewhere would give it other files
//! without a word, so the holder of a store notes where it works, and others compare.

use crate::context::Context;
use crate::error::CliError;
use crate::ui::text::{command, quoted};
use cairn_boot::Origin;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// The folder that this command is to work in, without links. None if there is no such folder.
pub fn own(context: &Context) -> Option<PathBuf> {
    fs::canonicalize(&context.config().workspace.path).ok()
}

/// The folder that the store's holder works in, or the last one worked in.
pub fn noted(store: &Path) -> Option<PathBuf> {
    let bytes = fs::read(note_path(store)).ok()?;
    let path = PathBuf::from(OsString::from_vec(bytes));
    path.is_absolute().then_some(path)
}

/// Notes the folder beside the store, which the caller holds. Durable once this returns; readers
/// see the old note or the new one.
///
/// # Errors
/// The file cannot be written.
pub fn note(store: &Path, workspace: &Path) -> Result<(), CliError> {
    if noted(store).as_deref() == Some(workspace) {
        return Ok(());
    }
    let path = note_path(store);
    replace(&path, workspace.as_os_str().as_bytes())
        .map_err(|error| CliError::new(format!("cannot write {}: {error}", path.display())))
}

/// Refuses a folder that was asked for where another process works in another one.
///
/// # Errors
/// The two folders differ.
pub fn check_holder(context: &Context, noted: Option<&Path>) -> Result<(), CliError> {
    let Some(noted) = noted.filter(|_| is_given(context)) else {
        return Ok(());
    };
    if own(context).as_deref() == Some(noted) {
        return Ok(());
    }
    let (there, here) = (noted.display(), shown(context));
    Err(CliError::usage(format!(
        "another process holds this store and works in {there}, not in {here}"
    ))
    .hint(format!(
        "work there with: --in {}\nor use another store with --store",
        quoted(&there.to_string())
    )))
}

/// Refuses to continue unfinished work in another folder than its own. `unfinished` is the id of a
/// session with such work, and is only asked for if the folder differs.
///
/// # Errors
/// There is such work; what `unfinished` fails with.
pub async fn check_unfinished(
    context: &Context,
    store: &Path,
    unfinished: impl Future<Output = Result<Option<String>, CliError>>,
) -> Result<(), CliError> {
    if elsewhere(context, store).is_none() {
        return Ok(());
    }
    // A holder notes its folder before it begins sessions, so the note is read after them: one that began
    // meanwhile belongs to the new folder.
    let session = unfinished.await?;
    match (session, elsewhere(context, store)) {
        (Some(session), Some(noted)) => Err(belongs_elsewhere(context, &noted, &session)),
        _ => Ok(()),
    }
}

/// The folder that unfinished work of the store belongs to, if this command would continue it in
/// another one. A folder that is gone may have been moved: then one that is named counts.
pub fn elsewhere(context: &Context, store: &Path) -> Option<PathBuf> {
    let (noted, own) = (noted(store)?, own(context)?);
    let is_moved = is_given(context) && !noted.is_dir();
    (noted != own && !is_moved).then_some(noted)
}

/// The error of a command that would continue `session` in another folder than `noted`.
fn belongs_elsewhere(context: &Context, noted: &Path, session: &str) -> CliError {
    let (there, here) = (noted.display(), shown(context));
    let error = CliError::usage(format!(
        "session {session} is unfinished and belongs to the folder {there}; this command would \
         continue it in {here}"
    ));
    let resume = match noted.is_dir() {
        true => resume_in(context, "resume", &there.to_string()),
        false => resume_in(context, "resume", &here),
    };
    let go_on = match noted.is_dir() {
        true => "continue it there",
        false => "that folder is gone; if it was moved, continue where it is now",
    };
    let cancel = command(context, &format!("cancel {session}"));
    error.hint(format!(
        "{go_on}: {resume}\nor end it: {cancel}\nor use another store with --store"
    ))
}

/// The command that continues with a session in the folder that its work belongs to.
pub fn resume_command(context: &Context, session: &str) -> String {
    command_in_folder(context, &format!("resume {session}"))
}

/// A command that works in the folder that the work of the store belongs to.
pub fn command_in_folder(context: &Context, rest: &str) -> String {
    let noted = noted(&context.config().store.path);
    let other = noted.filter(|noted| noted.is_dir() && own(context).as_ref() != Some(noted));
    match (other, context.settings.origin("workspace.path")) {
        (Some(noted), _) => resume_in(context, rest, &noted.to_string_lossy()),
        (None, Origin::Flag(_)) => {
            let given = context.config().workspace.path.to_string_lossy();
            resume_in(context, rest, &given)
        }
        (None, _) => command(context, rest),
    }
}

fn resume_in(context: &Context, rest: &str, folder: &str) -> String {
    command(context, &format!("{rest} --in {}", quoted(folder)))
}

/// Whether somebody said which folder, on the command line or in the settings.
fn is_given(context: &Context) -> bool {
    context.settings.origin("workspace.path") != &Origin::Default
}

fn shown(context: &Context) -> String {
    let configured = || context.config().workspace.path.clone();
    let own = own(context).unwrap_or_else(configured);
    own.display().to_string()
}

/// Beside the store itself, so that two names of a store have one note.
fn note_path(store: &Path) -> PathBuf {
    let store = fs::canonicalize(store).unwrap_or_else(|_| store.to_owned());
    let mut name = OsString::from(store);
    name.push(".workspace");
    PathBuf::from(name)
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("workspace.new");
    let mut file = File::create(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Global;
    use cairn_boot::Environment;
    use tokio_util::sync::CancellationToken;

    fn context(workspace: &Path, file: PathBuf) -> Context {
        fs::write(&file, format!("workspace.path = {workspace:?}\n")).unwrap();
        let global = Global {
            config: Some(file.clone()),
            ..Global::default()
        };
        let environment = Environment::default();
        Context {
            settings: crate::settings::load(&global, &environment, &[]).unwrap(),
            file,
            is_confirmed: true,
            environment,
            json: false,
            color: false,
            live: false,
            stop: CancellationToken::new(),
        }
    }

    /// Of two commands in one folder, one may begin its session while the other one looks.
    #[tokio::test]
    async fn unfinished_work_is_refused_only_if_its_own_folder_is_another_one() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let [here, there] = ["here", "there"].map(|name| place.join(name));
        for folder in [&here, &there] {
            fs::create_dir(folder).unwrap();
        }
        let context = context(&here, place.join("cairn.toml"));
        let store = place.join("cairn.db");
        for (works_in, session, is_refused) in [
            (&there, None, false),
            (&there, Some("s"), true),
            (&here, Some("s"), false),
        ] {
            note(&store, &there).unwrap();
            let unfinished = async {
                // Whoever holds the store notes its folder before it begins a session.
                note(&store, works_in)?;
                Ok::<_, CliError>(session.map(str::to_owned))
            };
            let checked = check_unfinished(&context, &store, unfinished).await;
            assert_eq!(checked.is_err(), is_refused, "{works_in:?} {checked:?}");
        }
    }
}
