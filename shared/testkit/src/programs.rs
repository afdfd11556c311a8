//! Programs that outlive the process that started them.
//!
//! A tool's program is ended soon after `cairn` is killed, and on a busy machine it may act before.
//! Whoever is to say what such a call did has to wait for its end first.

use std::path::Path;

/// Waits until no process works in this folder any more.
#[cfg(target_os = "linux")]
pub(crate) fn wait_for_all_in(folder: &Path) {
    while let Some(process) = one_in(folder) {
        let Ok(handle) = rustix::process::pidfd_open(process, rustix::process::PidfdFlags::empty())
        else {
            // It has ended since.
            continue;
        };
        let mut ends = [rustix::event::PollFd::new(
            &handle,
            rustix::event::PollFlags::IN,
        )];
        rustix::event::poll(&mut ends, None).expect("the end of a program");
    }
}

/// Elsewhere nothing tells what works in a folder; a machine that is not busy needs no telling.
#[cfg(not(target_os = "linux"))]
pub(crate) fn wait_for_all_in(_folder: &Path) {}

#[cfg(target_os = "linux")]
fn one_in(folder: &Path) -> Option<rustix::process::Pid> {
    let folder = folder.canonicalize().expect("the folder");
    let processes = std::fs::read_dir("/proc").expect("a list of processes");
    let works_here = |process: &std::fs::DirEntry| {
        let its_folder = std::fs::read_link(process.path().join("cwd"));
        its_folder.is_ok_and(|its_folder| its_folder == folder)
    };
    let found = processes.filter_map(Result::ok).find(works_here)?;
    let id = found.file_name().to_str()?.parse().ok()?;
    rustix::process::Pid::from_raw(id)
}
