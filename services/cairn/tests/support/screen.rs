//! A program on a terminal of its own.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};

/// How long the screen may stay as it is.
const PATIENCE: Timespec = Timespec {
    tv_sec: 60,
    tv_nsec: 0,
};

/// A program on a terminal of its own.
pub(crate) struct Screen {
    terminal: File,
    shown: String,
    pub(crate) child: Child,
}

impl Screen {
    pub(crate) fn of(command: &mut Command) -> Self {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&terminal).expect("the terminal is ours");
        unlockpt(&terminal).expect("and can be opened");
        let name = ptsname(&terminal, Vec::new()).expect("its name");
        let end = || {
            let name = name.to_str().expect("a path");
            let file = File::options().read(true).write(true).open(name);
            Stdio::from(file.expect("the terminal can be opened"))
        };
        let command = command.env("TERM", "xterm").env("NO_COLOR", "1");
        let command = command.stdin(end()).stdout(end()).stderr(end());
        Self {
            child: command.spawn().expect("the program can be started"),
            terminal: File::from(terminal),
            shown: String::new(),
        }
    }

    pub(crate) fn types(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).expect("keys");
    }

    /// Reads on to this text, and returns what was shown before it.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        loop {
            if let Some((before, after)) = self.shown.split_once(text) {
                let (before, after) = (before.to_owned(), after.to_owned());
                self.shown = after;
                return before;
            }
            let mut ready = [PollFd::new(&self.terminal, PollFlags::IN)];
            let count = poll(&mut ready, Some(&PATIENCE)).expect("the terminal");
            assert!(count > 0, "no {text:?} in {:?}", self.shown);
            let mut part = [0; 4096];
            let count = self.terminal.read(&mut part).expect("more is shown");
            let part = String::from_utf8_lossy(&part[..count]);
            self.shown.push_str(&part);
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
