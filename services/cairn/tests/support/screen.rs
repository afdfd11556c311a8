//! A program on a terminal of its own.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionbio;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{InputModes, LocalModes, tcgetattr};
use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
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
        ioctl_fionbio(&terminal, true).expect("reads and writes that do not wait");
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
        self.types_bytes(keys.as_bytes());
    }

    /// Types bytes, which need not be whole characters. Reads what is shown meanwhile: a program whose
    /// screen nobody reads takes no keys either.
    pub(crate) fn types_bytes(&mut self, mut keys: &[u8]) {
        while !keys.is_empty() {
            let ready = self.ready(PollFlags::IN | PollFlags::OUT, &PATIENCE);
            assert!(!ready.is_empty(), "no keys are taken: {:?}", self.shown);
            if ready.contains(PollFlags::IN) {
                self.read();
                continue;
            }
            match self.terminal.write(keys) {
                Ok(count) => keys = &keys[count..],
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
            }
        }
    }

    /// Reads on to this text, and returns what was shown before it.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        loop {
            if let Some((before, after)) = self.shown.split_once(text) {
                let (before, after) = (before.to_owned(), after.to_owned());
                self.shown = after;
                return before;
            }
            self.read_on(&text);
        }
    }

    /// Reads on until each of these texts was shown, in any order, and returns all up to there.
    pub(crate) fn wait_for_all(&mut self, texts: &[&str]) -> String {
        loop {
            let ends = texts
                .iter()
                .map(|text| Some(self.shown.find(text)? + text.len()));
            if let Some(ends) = ends.collect::<Option<Vec<_>>>() {
                let end = ends.into_iter().max().unwrap_or(0);
                let rest = self.shown.split_off(end);
                return std::mem::replace(&mut self.shown, rest);
            }
            self.read_on(&texts);
        }
    }

    fn read_on(&mut self, awaited: &dyn std::fmt::Debug) {
        let ready = self.ready(PollFlags::IN, &PATIENCE);
        assert!(!ready.is_empty(), "no {awaited:?} in {:?}", self.shown);
        self.read();
    }

    /// Reads what is shown until nothing new comes for a moment: a program whose screen nobody reads stands still.
    pub(crate) fn catch_up(&mut self) {
        const MOMENT: Timespec = Timespec {
            tv_sec: 0,
            tv_nsec: 20_000_000,
        };
        while self.ready(PollFlags::IN, &MOMENT).contains(PollFlags::IN) {
            self.read();
        }
    }

    /// Whether the terminal is as a shell has it for other programs: it gives whole lines, and shows what is typed.
    pub(crate) fn is_plain(&self) -> bool {
        let modes = tcgetattr(&self.terminal).expect("its modes");
        let local = LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        modes.local_modes.contains(local) && modes.input_modes.contains(InputModes::ICRNL)
    }

    fn ready(&self, wanted: PollFlags, patience: &Timespec) -> PollFlags {
        let mut ready = [PollFd::new(&self.terminal, wanted)];
        poll(&mut ready, Some(patience)).expect("the terminal");
        ready[0].revents()
    }

    fn read(&mut self) {
        let mut part = [0; 4096];
        let count = self.terminal.read(&mut part).expect("more is shown");
        let part = String::from_utf8_lossy(&part[..count]);
        self.shown.push_str(&part);
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
