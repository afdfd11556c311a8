//! What a supervising process keeps of a confined program, besides its time.
//!
//! The process enters the program's mounts and network, and encloses itself: from then on it can signal nothing but
//! what is below it. So one signal to all reaches every process of the program at one moment, also those that left
//! the process group and those that are just being started. It counts what all of them use up, and ends them
//! beyond the limits. The program's folder for temporary files is made and removed here.

use super::bounds::{Bounds, Network};
use super::watch::{Watch, descendants};
use super::{landlock, namespaces, stage};
use crate::supervisor::descendants::{adopt, reap};
use rustix::process::{Pid, Signal, getpid, getuid, kill_process, kill_process_group};
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::process::Command;
use tokio::time::sleep;

/// Between two looks at the number of tasks.
pub(crate) const LOOK: Duration = Duration::from_millis(20);
/// So many of them pass between two looks at everything else.
const WHOLE: u32 = 5;
/// So many pass between two looks for children that have ended.
const REAP: u32 = 50;
/// Between two looks for what is left of a program that was killed.
const LEFT: Duration = Duration::from_millis(5);
/// Of many processes, this one must get its turn.
const FIRST: i32 = -20;

/// A program's enclosure, in the process that supervises it.
pub(crate) struct Enclosure {
    bounds: Bounds,
    temporary: PathBuf,
    /// A signal to all processes reaches the program's, and no others.
    is_enclosed: bool,
    watch: Watch,
    looks: u32,
    /// Why the processes were killed, if they were.
    why: Option<String>,
}

impl Enclosure {
    /// Encloses this process. It must have one thread.
    ///
    /// # Errors
    /// The system cannot hold the bounds. Nothing may be started then.
    pub(crate) fn begin(bounds: Bounds) -> io::Result<Self> {
        let (base, temporary) = make_temporary(&bounds.temporary)?;
        let write: Vec<PathBuf> = bounds.write.iter().cloned().chain([base]).collect();
        let loopback = bounds.network == Network::Loopback;
        if let Err(error) = namespaces::enter(bounds.mounts, loopback, &write) {
            remove(&temporary);
            return Err(match loopback {
                true => io::Error::other(format!(
                    "it cannot get a network of its own here ({error}); set network = \"none\" or a list of \
                     ports in [tools.shell]"
                )),
                false => error,
            });
        }
        // Only the superuser may.
        _ = rustix::process::setpriority_process(None, FIRST);
        adopt();
        Ok(Self {
            watch: Watch::begin(bounds.clone(), temporary.clone()),
            is_enclosed: landlock::enclose(),
            bounds,
            temporary,
            looks: 0,
            why: None,
        })
    }

    /// A command line of the second stage that becomes the program.
    pub(crate) fn command(&self, argv: &[OsString]) -> Command {
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0("cairn")
            .args(stage::arguments(&self.bounds, &self.temporary))
            .args(argv)
            .envs(["TMPDIR", "TMP", "TEMP"].map(|name| (name, &self.temporary)))
            // What these keep is worth nothing after the program, and lies where it may not write.
            .env("XDG_CACHE_HOME", self.temporary.join("cache"))
            .env("npm_config_cache", self.temporary.join("npm"));
        command
    }

    /// Kills what is below this process if it uses up too much; every [`LOOK`]. `first` is the program itself, which
    /// is waited for elsewhere.
    pub(crate) fn look(&mut self, first: Option<Pid>) {
        self.looks = self.looks.wrapping_add(1);
        if self.looks.is_multiple_of(REAP) {
            reap(first);
        }
        let is_growing = self.watch.is_growing();
        if !is_growing && !self.looks.is_multiple_of(WHOLE) {
            return;
        }
        // They would become more while they are counted.
        let is_frozen = is_growing && self.signal_all(Signal::STOP);
        let why = self.watch.look();
        if why.is_some() {
            self.kill();
            self.why = self.why.take().or(why);
        } else if is_frozen {
            self.signal_all(Signal::CONT);
        }
    }

    /// Kills everything below this process.
    pub(crate) fn kill(&self) {
        if !self.signal_all(Signal::KILL) {
            // What is started meanwhile is killed with the next look.
            for id in descendants(usize::MAX)
                .into_iter()
                .filter_map(Pid::from_raw)
            {
                // It may have ended.
                _ = kill_process(id, Signal::KILL);
            }
        }
    }

    /// Kills everything below this process, and waits until nothing is left; then removes the folder for temporary
    /// files. Returns why it was killed before, if it was.
    pub(crate) async fn end(self) -> Option<String> {
        loop {
            self.kill();
            reap(None);
            if descendants(1).is_empty() {
                break;
            }
            sleep(LEFT).await;
        }
        remove(&self.temporary);
        self.why
    }

    /// Whether a signal could be sent to all processes below this one, and to no others.
    fn signal_all(&self, signal: Signal) -> bool {
        if self.is_enclosed {
            // The group of the first process of the system stands for all that may be signalled.
            _ = kill_process_group(Pid::INIT, signal);
        }
        self.is_enclosed
    }
}

/// Makes a folder for temporary files, in one that only this user's programs have. Returns both.
fn make_temporary(place: &Path) -> io::Result<(PathBuf, PathBuf)> {
    let user = getuid().as_raw();
    let base = place.join(format!("cairn-{user}"));
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    match builder.create(&base) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = base.symlink_metadata()?;
    if !found.is_dir() || found.uid() != user {
        return Err(io::Error::other(format!(
            "'{}' is not a folder of this user; remove it, or set TMPDIR",
            base.display()
        )));
    }
    if found.mode() & 0o777 != 0o700 {
        // A program can change the mode, and would keep all later ones from their work.
        fs::set_permissions(&base, fs::Permissions::from_mode(0o700))?;
    }
    let own = base.join(getpid().as_raw_nonzero().to_string());
    // One of a process that had this number before.
    remove(&own);
    builder.create(&own)?;
    Ok((base, own))
}

/// Removes a folder with what is in it, as far as that is possible.
fn remove(folder: &Path) {
    if fs::remove_dir_all(folder).is_ok() || !folder.exists() {
        return;
    }
    // A folder may be closed to its own user.
    let mut left = vec![folder.to_owned()];
    while let Some(folder) = left.pop() {
        _ = fs::set_permissions(&folder, fs::Permissions::from_mode(0o700));
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        left.extend(folders.map(|entry| entry.path()));
    }
    _ = fs::remove_dir_all(folder);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_for_temporary_files_is_its_users_alone() {
        let place = tempfile::tempdir().unwrap();
        let (base, own) = make_temporary(place.path()).unwrap();
        assert_eq!(base.metadata().unwrap().mode() & 0o777, 0o700);
        assert_eq!(own.metadata().unwrap().mode() & 0o777, 0o700);
        fs::create_dir(own.join("closed")).unwrap();
        fs::write(own.join("closed/file"), "x").unwrap();
        fs::set_permissions(own.join("closed"), fs::Permissions::from_mode(0o0)).unwrap();
        remove(&own);
        assert!(!own.exists());
        for mode in [0o777, 0] {
            fs::set_permissions(&base, fs::Permissions::from_mode(mode)).unwrap();
            let (_, own) = make_temporary(place.path()).unwrap();
            assert_eq!(base.metadata().unwrap().mode() & 0o777, 0o700);
            fs::remove_dir(own).unwrap();
        }
        fs::remove_dir(&base).unwrap();
        std::os::unix::fs::symlink("/", &base).unwrap();
        let refused = make_temporary(place.path()).unwrap_err();
        assert!(refused.to_string().contains("of this user"), "{refused}");
    }
}
