//! What happens to the files of a folder, as the kernel tells it.

use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

/// What happened to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It appeared as a whole, in the place of another or of none.
    Replaced,
    /// It was made empty, or something was written into it.
    Written,
}

/// A folder under observation; nothing that happens to its files from now on is missed.
#[derive(Debug)]
pub struct Changes {
    kernel: OwnedFd,
    /// Read from the kernel, but not told.
    ahead: VecDeque<(String, Change)>,
}

impl Changes {
    /// Begins to observe a folder, which has to be there.
    pub fn of(folder: &Path) -> Self {
        let kernel = init(CreateFlags::CLOEXEC).expect("inotify");
        let flags = WatchFlags::MOVED_TO | WatchFlags::CREATE | WatchFlags::MODIFY;
        add_watch(&kernel, folder, flags).expect("the folder can be observed");
        let ahead = VecDeque::new();
        Self { kernel, ahead }
    }

    /// Waits for the next change: name of the file, and what happened to it.
    pub fn next_change(&mut self) -> (String, Change) {
        while self.ahead.is_empty() {
            let mut buffer = [MaybeUninit::uninit(); 4096];
            let mut reader = Reader::new(&self.kernel, &mut buffer);
            loop {
                let event = reader.next().expect("an event");
                let change = match event.events().contains(ReadFlags::MOVED_TO) {
                    true => Change::Replaced,
                    false => Change::Written,
                };
                if let Some(name) = event.file_name() {
                    let name = name.to_string_lossy().into_owned();
                    self.ahead.push_back((name, change));
                }
                if reader.is_buffer_empty() {
                    break;
                }
            }
        }
        self.ahead.pop_front().expect("a change")
    }
}
