//! The two folders that file tools see, and the paths in them.
//!
//! No path is checked as text for leading outside. In the workspace it is followed name by name, from
//! open folder to open folder, through no link ([`super::locate`]). The output folder itself is opened
//! in the same way ([`open_output`]). In it the kernel resolves a path beneath the open folder (through
//! cap-std), so that links, `..` and folders exchanged in the middle are all one case.

use super::name;
use super::protected::Protected;
use super::view::View;
use crate::error::ToolError;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, Metadata, MetadataExt, OpenOptions, OpenOptionsExt};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::path::{Component, Path, PathBuf};

/// How a folder is opened that is only passed through.
#[cfg(target_os = "linux")]
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);
#[cfg(not(target_os = "linux"))]
const FOLDER: OFlags = OFlags::DIRECTORY;

/// How tools address the output folder, wherever it really is.
pub(crate) const OUTPUT: &str = "cairn-out";

/// Which of the two folders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Area {
    /// Files of the person, written only where the setting lets tools.
    Workspace,
    /// Results, which tools write.
    Output,
}

/// A path as a tool was given it.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) area: Area,
    /// Relative to the area's folder; `.` for the folder itself.
    pub(crate) path: PathBuf,
    /// As it is shown, and may be given again.
    pub(crate) shown: String,
}

/// The two folders.
#[derive(Debug)]
pub(crate) struct Roots {
    workspace: Dir,
    output: PathBuf,
    view: View,
    protected: Protected,
}

impl Roots {
    /// Opens the workspace. The output folder need not exist.
    pub(crate) fn open(
        workspace: &Path,
        output: &Path,
        view: View,
        protected: Protected,
    ) -> io::Result<Self> {
        Ok(Self {
            workspace: Dir::open_ambient_dir(workspace, ambient_authority())?,
            output: std::path::absolute(output)?,
            view,
            protected,
        })
    }

    /// What decides about the files of the workspace.
    pub(super) fn view(&self) -> &View {
        &self.view
    }

    /// What a person approves each write of.
    pub(super) fn protected(&self) -> &Protected {
        &self.protected
    }

    /// Reads a path. Nothing is touched yet.
    ///
    /// # Errors
    /// [`ToolError::InvalidArguments`] if it cannot be a path.
    pub(crate) fn place(given: &str) -> Result<Place, ToolError> {
        let path = name::read(given)?;
        let mut parts = path.components();
        let first = parts.find(|part| *part != Component::CurDir);
        let (area, path) = match first {
            Some(Component::Normal(first)) if first == OUTPUT => {
                (Area::Output, parts.as_path().to_owned())
            }
            _ => (Area::Workspace, path),
        };
        let path = tidy(&path);
        let shown = name::show(&shown_path(area, &path));
        Ok(Place { area, path, shown })
    }

    /// The folder of an area.
    ///
    /// # Errors
    /// `NotFound` if nothing has been written to the output folder yet.
    pub(crate) fn dir(&self, area: Area) -> io::Result<Dir> {
        match area {
            Area::Workspace => self.workspace.try_clone(),
            // Opened anew each time: a person may have removed or exchanged it between two calls.
            Area::Output => open_output(&self.output, false),
        }
    }

    /// The output folder, made if it is not there, durable when this returns.
    pub(crate) fn output_for_writing(&self) -> io::Result<Dir> {
        open_output(&self.output, true)
    }

    /// Device and inode of the output folder, if it is there.
    pub(crate) fn output_identity(&self) -> Option<(u64, u64)> {
        let metadata = self.dir(Area::Output).ok()?.dir_metadata().ok()?;
        Some((metadata.dev(), metadata.ino()))
    }
}

/// A link where the output folder should be, or on the way to it.
#[derive(Debug, thiserror::Error)]
#[error(
    "'{0}' is a symbolic link, and the output folder is reached through none; put a folder in its place, \
     or set workspace.output to the path that it leads to"
)]
pub(crate) struct Linked(String);

impl Linked {
    /// The link that an error is about, if it is about one.
    pub(crate) fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

/// Opens the output folder, an absolute path, name by name and through no link: a process that makes a
/// link in the workspace must not choose what is read and written. With `make`, what is missing is
/// made, and is durable when this returns.
///
/// # Errors
/// [`Linked`] for a link, wherever in the path it is.
pub(crate) fn open_output(path: &Path, make: bool) -> io::Result<Dir> {
    let mut way = PathBuf::from("/");
    let mut dir = Dir::open_ambient_dir(&way, ambient_authority())?;
    for part in path.components().filter(|part| *part != Component::RootDir) {
        let name = part.as_os_str();
        way.push(name);
        let opened = match open_folder(&dir, name) {
            Err(error) if make && error.kind() == io::ErrorKind::NotFound => {
                make_folder(&dir, name)?;
                open_folder(&dir, name)
            }
            opened => opened,
        };
        let is_link = || dir.symlink_metadata(name).is_ok_and(|it| it.is_symlink());
        let fault = |error| match is_link() {
            true => io::Error::other(Linked(name::show(&way))),
            false => error,
        };
        dir = opened.map_err(fault)?;
    }
    Ok(dir)
}

/// Makes a folder, if it is not there, that is durable when this returns.
pub(super) fn make_folder(dir: &Dir, name: &OsStr) -> io::Result<()> {
    match dir.create_dir(name) {
        Ok(()) => sync(dir),
        // Another process made it.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes the entries of a folder durable.
pub(super) fn sync(dir: &Dir) -> io::Result<()> {
    // The folder itself may be open only as a path, which cannot be synced.
    dir.open(".")?.sync_all()
}

/// Opens `path` beneath `dir`, whatever it is, without ever waiting (as opening a pipe would).
pub(crate) fn open_file(dir: &Dir, path: &OsStr) -> io::Result<(File, Metadata)> {
    let mut options = OpenOptions::new();
    options.read(true);
    options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let file = dir.open_with(path, &options)?;
    let metadata = file.metadata()?;
    Ok((file, metadata))
}

/// Opens a file of `dir` by its name, like [`open_file`], but no link.
///
/// # Errors
/// `ELOOP` for a link.
pub(crate) fn open_entry(dir: &Dir, name: &OsStr) -> io::Result<(File, Metadata)> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(dir, name, flags, Mode::empty())?;
    let file = File::from_std(std::fs::File::from(file));
    let metadata = file.metadata()?;
    Ok((file, metadata))
}

/// Opens a folder in `dir` by its name, but no link.
///
/// # Errors
/// `ENOTDIR` for a link, as for a file.
pub(crate) fn open_folder(dir: &Dir, name: &OsStr) -> io::Result<Dir> {
    let flags = FOLDER | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = openat(dir, name, flags, Mode::empty())?;
    Ok(Dir::from_std_file(std::fs::File::from(folder)))
}

/// How a path below an area's folder is shown.
pub(crate) fn shown_path(area: Area, path: &Path) -> PathBuf {
    match area {
        Area::Workspace => path.to_owned(),
        Area::Output if path == Path::new(".") => PathBuf::from(OUTPUT),
        Area::Output => Path::new(OUTPUT).join(path),
    }
}

/// An error of the system about `place`, in words for the model.
pub(crate) fn explain(place: &Place, error: &io::Error) -> ToolError {
    let shown = &place.shown;
    let failed = ToolError::ExecutionFailed;
    if let Some(linked) = Linked::of(error) {
        return ToolError::Denied(linked.to_string());
    }
    // cap-std's own refusal carries no number of the system.
    if error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none() {
        return leaves(place);
    }
    match Errno::from_io_error(error) {
        Some(Errno::NOENT) if place.area == Area::Output => failed(format!(
            "there is no '{shown}'; list_files with path 'cairn-out' shows what was written"
        )),
        Some(Errno::NOENT) => failed(format!(
            "there is no '{shown}' in the workspace; list_files shows what there is"
        )),
        Some(Errno::ACCESS | Errno::PERM) => {
            failed(format!("the system does not permit access to '{shown}'"))
        }
        Some(Errno::NOTDIR) => failed(format!(
            "a part of '{shown}' is a file where a folder is needed"
        )),
        Some(Errno::ISDIR) => failed(format!("'{shown}' is a folder; give a file")),
        Some(Errno::NAMETOOLONG) => ToolError::InvalidArguments(format!(
            "path '{}' is longer than the system accepts",
            crate::text::brief(shown, 80)
        )),
        Some(Errno::LOOP) => failed(format!(
            "'{shown}' goes through links that cannot be followed; give the file itself"
        )),
        Some(Errno::NXIO) => irregular(place),
        _ => failed(format!("'{shown}' cannot be used: {error}")),
    }
}

/// For a path that leads out of its area's folder.
pub(super) fn leaves(place: &Place) -> ToolError {
    // It may lie inside. Rules and scopes see a path as it is given, so no other is taken for it.
    if place.path.is_absolute() {
        return ToolError::Denied(format!(
            "path '{}' is absolute; give it from the workspace, such as 'src/a.rs'",
            place.shown
        ));
    }
    let home = match place.area {
        Area::Workspace => "the workspace",
        Area::Output => "the output folder cairn-out/",
    };
    ToolError::Denied(format!(
        "path '{}' leaves {home}; give a path inside it, relative to it",
        place.shown
    ))
}

/// For pipes, sockets and devices.
pub(crate) fn irregular(place: &Place) -> ToolError {
    ToolError::ExecutionFailed(format!(
        "'{}' is not a regular file and cannot be read",
        place.shown
    ))
}

/// Without `.` parts and doubled slashes. `..` stays: what it means depends on the folders before it.
fn tidy(path: &Path) -> PathBuf {
    let tidy: PathBuf = path
        .components()
        .filter(|part| *part != Component::CurDir)
        .collect();
    if tidy.as_os_str().is_empty() {
        return PathBuf::from(".");
    }
    tidy
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absolute_path_is_not_said_to_leave_the_workspace() {
        let refused = |path: &str| leaves(&Roots::place(path).unwrap()).to_string();
        let absolute = refused("/home/me/src/a.rs");
        assert!(
            absolute.contains("'/home/me/src/a.rs' is absolute"),
            "{absolute}"
        );
        assert!(!absolute.contains("leaves"), "{absolute}");
        let above = refused("../a.rs");
        assert!(above.contains("leaves the workspace"), "{above}");
    }
}
