//! Which folder the work of a store belongs to: a note beside the store, and what follows from it.
//!
//! The store of a workspace works in that folder alone. One whose place is named, such as with `--store`, may
//! work in several, and only for those a note tells more than the place does.
//!
//! A run reads and changes one folder. Another process that continues it elsewhere would give it other files
//! without a word. So the holder of a store notes where it works, and which unfinished sessions belong to
//! other folders. Commands compare.

use crate::context::Context;
use crate::error::CliError;
use crate::ui::text::{command, command_in, quoted};
use cairn_boot::Origin;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The folder that this command is to work in, without links. None if there is no such folder.
pub fn own(context: &Context) -> Option<PathBuf> {
    fs::canonicalize(&context.config().workspace.path).ok()
}

/// Between the fields of a note: no path and no session id has it.
const SEPARATOR: u8 = 0;

/// The folders of a store's work.
#[derive(Debug, PartialEq, Eq)]
struct Note {
    /// The one that the store's holder works in, or the last one worked in.
    folder: PathBuf,
    /// The folders of unfinished sessions that belong to another one, by their ids.
    others: BTreeMap<String, PathBuf>,
}

impl Note {
    /// None without a note, or if it is damaged.
    fn read(store: &Path) -> Option<Self> {
        let bytes = fs::read(note_path(store)).ok()?;
        let mut fields = bytes.split(|byte| *byte == SEPARATOR);
        let folder = absolute(fields.next()?)?;
        let mut others = BTreeMap::new();
        while let (Some(session), Some(folder)) = (fields.next(), fields.next()) {
            let session = String::from_utf8(session.to_vec()).ok()?;
            others.insert(session, absolute(folder)?);
        }
        Some(Self { folder, others })
    }

    /// Durable once this returns; readers see the old note or the new one.
    fn write(&self, store: &Path) -> Result<(), CliError> {
        let mut bytes = self.folder.as_os_str().as_bytes().to_vec();
        for (session, folder) in &self.others {
            for field in [session.as_bytes(), folder.as_os_str().as_bytes()] {
                bytes.push(SEPARATOR);
                bytes.extend_from_slice(field);
            }
        }
        let path = note_path(store);
        replace(&path, &bytes)
            .map_err(|error| CliError::new(format!("cannot write {}: {error}", path.display())))
    }

    /// The folder that the unfinished work of a session belongs to.
    fn folder_of(&self, session: &str) -> &Path {
        self.others.get(session).unwrap_or(&self.folder)
    }
}

fn absolute(field: &[u8]) -> Option<PathBuf> {
    let path = PathBuf::from(OsStr::from_bytes(field));
    path.is_absolute().then_some(path)
}

/// The folder that the store's holder works in, or the last one worked in.
pub fn noted(store: &Path) -> Option<PathBuf> {
    Note::read(store).map(|note| note.folder)
}

/// Notes the folder beside the store, which the caller holds. The unfinished sessions of other folders
/// still belong there. `unfinished` are their ids, and is only asked for if there may be such sessions.
///
/// # Errors
/// The file cannot be written; what `unfinished` fails with.
pub async fn note(
    context: &Context,
    store: &Path,
    folder: PathBuf,
    unfinished: impl Future<Output = Result<Vec<String>, CliError>>,
) -> Result<(), CliError> {
    let mut new = Note {
        folder,
        others: BTreeMap::new(),
    };
    let Some(before) = Note::read(store) else {
        return new.write(store);
    };
    if before == new {
        return Ok(());
    }
    for session in unfinished.await? {
        let theirs = before.folder_of(&session);
        if is_elsewhere(context, theirs) {
            new.others.insert(session, theirs.to_owned());
        }
    }
    // On a full disk the store can still be read.
    if before == new {
        return Ok(());
    }
    let folder = quoted(&before.folder.to_string_lossy());
    let hint = format!("where the store works already, nothing is written: --in {folder}");
    new.write(store).map_err(|error| error.hint(hint))
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

/// Refuses to continue all unfinished work if some of it belongs to another folder. `unfinished` are the
/// ids of the sessions with such work, and is only asked for if a folder differs.
///
/// # Errors
/// There is such work; what `unfinished` fails with.
pub async fn check_unfinished(
    context: &Context,
    store: &Path,
    unfinished: impl Future<Output = Result<Vec<String>, CliError>>,
) -> Result<(), CliError> {
    let differs = Note::read(store).is_some_and(|note| {
        let mut folders = std::iter::once(&note.folder).chain(note.others.values());
        folders.any(|folder| is_elsewhere(context, folder))
    });
    if !differs {
        return Ok(());
    }
    // A holder notes its folder before it begins sessions, so the note is read after them: one that began
    // meanwhile belongs to the new folder.
    let sessions = unfinished.await?;
    let Some(note) = Note::read(store) else {
        return Ok(());
    };
    let folders = sessions
        .iter()
        .map(|session| (session, note.folder_of(session)));
    let mut other = folders.filter(|(_, folder)| is_elsewhere(context, folder));
    other.next().map_or(Ok(()), |(session, folder)| {
        Err(belongs_elsewhere(context, folder, session))
    })
}

/// Refuses to continue a session in the folder that the store's holder works in, if its unfinished work
/// belongs to another one. Without a session, any session counts. `is_holder` says whether this process
/// is the holder.
///
/// # Errors
/// The folder is another one.
pub fn check_session(
    context: &Context,
    store: &Path,
    session: Option<&str>,
    is_holder: bool,
) -> Result<(), CliError> {
    let Some(note) = Note::read(store) else {
        return Ok(());
    };
    let other = match session {
        Some(session) => note.others.get_key_value(session),
        None => note.others.first_key_value(),
    };
    match other {
        None => Ok(()),
        Some((session, folder)) if is_holder => Err(belongs_elsewhere(context, folder, session)),
        Some((session, folder)) => {
            let (works, folder) = (note.folder.display(), folder.display());
            Err(CliError::usage(format!(
                "session {session} is unfinished and belongs to the folder {folder}; another \
                 process holds this store and works in {works}"
            ))
            .hint(format!(
                "once that process has ended, continue it there: {}",
                resume_command(context, session)
            )))
        }
    }
}

/// The folder that the store's work belongs to, if this command would continue it in another one.
pub fn elsewhere(context: &Context, store: &Path) -> Option<PathBuf> {
    noted(store).filter(|folder| is_elsewhere(context, folder))
}

/// Whether work of this folder would continue in another one. A folder that is gone may have been
/// moved: then one that is named counts.
fn is_elsewhere(context: &Context, folder: &Path) -> bool {
    let is_moved = is_given(context) && !folder.is_dir();
    own(context).is_some_and(|own| own != folder) && !is_moved
}

/// The error of a command that would continue `session` in another folder than `noted`.
fn belongs_elsewhere(context: &Context, noted: &Path, session: &str) -> CliError {
    let (there, here) = (noted.display(), shown(context));
    let error = CliError::usage(format!(
        "session {session} is unfinished and belongs to the folder {there}; this command would \
         continue it in {here}"
    ));
    let resume = format!("resume {session}");
    let resume = match noted.is_dir() {
        true => command_in(context, &resume, &there.to_string()),
        false => command_in(context, &resume, &here),
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
    command_in_folder(context, session, &format!("resume {session}"))
}

/// A command that works in the folder that the work of a session belongs to.
pub fn command_in_folder(context: &Context, session: &str, rest: &str) -> String {
    let note = context.config().store.path.as_deref().and_then(Note::read);
    let folder = note.map(|note| note.folder_of(session).to_owned());
    let other = folder.filter(|folder| folder.is_dir() && own(context).as_ref() != Some(folder));
    match (other, context.settings.origin("workspace.path")) {
        (Some(folder), _) => command_in(context, rest, &folder.to_string_lossy()),
        (None, Origin::Flag(_)) => {
            let given = context.config().workspace.path.to_string_lossy();
            command_in(context, rest, &given)
        }
        (None, _) => command(context, rest),
    }
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
    use std::os::unix::fs::MetadataExt as _;
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
            given_file: None,
            is_confirmed: true,
            lacks_hooks: false,
            environment,
            json: false,
            color: false,
            live: false,
            stop: CancellationToken::new(),
        }
    }

    #[test]
    fn a_command_names_the_settings_that_this_one_was_told() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("my cairn.toml");
        let context = Context {
            given_file: Some(file.clone()),
            ..context(place.path(), file.clone())
        };
        let expected = format!("cairn resume s --config '{}'", file.display());
        assert_eq!(resume_command(&context, "s"), expected);
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
        let works_in = |folder: &Path| Note {
            folder: folder.to_owned(),
            others: BTreeMap::new(),
        };
        for (then, sessions, is_refused) in [
            (&there, &[][..], false),
            (&there, &["s"][..], true),
            (&here, &["s"][..], false),
        ] {
            works_in(&there).write(&store).unwrap();
            let unfinished = async {
                // A holder of the store notes its folder before it begins a session.
                works_in(then).write(&store)?;
                let sessions = sessions.iter().map(|id| (*id).to_owned());
                Ok::<_, CliError>(sessions.collect::<Vec<_>>())
            };
            let checked = check_unfinished(&context, &store, unfinished).await;
            assert_eq!(checked.is_err(), is_refused, "{then:?} {checked:?}");
        }
    }

    /// Each in its own, also after the store has worked in several.
    #[tokio::test]
    async fn unfinished_sessions_keep_their_folders_while_the_store_works_in_another() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let folders = ["one", "two", "three"].map(|name| place.join(name));
        let store = place.join("cairn.db");
        let note_in = async |folder: &PathBuf, unfinished: &[&str]| {
            fs::create_dir_all(folder).unwrap();
            let context = context(folder, place.join("cairn.toml"));
            let unfinished = unfinished.iter().map(|id| (*id).to_owned());
            let unfinished: Vec<String> = unfinished.collect();
            let unfinished = async { Ok(unfinished) };
            note(&context, &store, folder.clone(), unfinished)
                .await
                .unwrap();
            let note = Note::read(&store).unwrap();
            let others = note.others.into_iter();
            others.collect::<Vec<_>>()
        };
        let [one, two, three] = &folders;
        let of = |id: &str, folder: &PathBuf| (id.to_owned(), folder.clone());
        assert!(note_in(one, &[]).await.is_empty());
        assert_eq!(note_in(two, &["a"]).await, [of("a", one)]);
        let both = [of("a", one), of("b", two)];
        assert_eq!(note_in(three, &["b", "a"]).await, both);
        // What is noted already is not written again.
        let file = || fs::metadata(note_path(&store)).unwrap().ino();
        let written = file();
        assert_eq!(note_in(three, &["b", "a"]).await, both);
        assert_eq!(file(), written);
        // One whose work is in the folder now, and one that has ended.
        assert_eq!(note_in(two, &["b", "a"]).await, [of("a", one)]);
        assert!(note_in(two, &["b"]).await.is_empty());
        // A folder that was moved.
        assert_eq!(note_in(one, &["b"]).await, [of("b", two)]);
        fs::remove_dir(two).unwrap();
        assert!(note_in(three, &["b"]).await.is_empty());
    }
}
