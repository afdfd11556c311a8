//! The keys of a conversation, on their way from the terminal to the line editor.
//!
//! The line editor reads ahead, and forgets what it has read when a line ends. So it reads from a terminal
//! of its own, and a thread hands it the keys: those after the end of a line only once it has taken that end.

mod pieces;

use pieces::Pieces;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{FdFlags, fcntl_setfd, retry_on_intr};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::stdio::dup2_stdin;
use rustix::termios::{OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Write as _, stdin, stdout};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;

/// How often a key is looked for while nobody types.
const LOOK: Duration = Duration::from_millis(30);
/// How soon the thread sees that the editor has taken the end of a line.
const TAKEN: Duration = Duration::from_millis(1);
/// Has the terminal mark what is pasted, so that its line breaks are distinguished from the key Enter.
const MARK_PASTES: &[u8] = b"\x1b[?2004h";
const MARK_NO_PASTES: &[u8] = b"\x1b[?2004l";

/// The terminal, whose keys go to the line editor. When this is dropped, the terminal is as it was before.
pub(super) struct Keys {
    before: Termios,
    quiet: Termios,
    way: Way,
}

/// From the terminal to the editor.
#[derive(Clone)]
struct Way {
    terminal: Arc<File>,
    /// The editor's terminal, from its side.
    editor: Arc<OwnedFd>,
    /// The thread has keys that it has not handed over. It has the lock while it hands over some.
    is_holding: Arc<Mutex<bool>>,
    has_ended: Arc<AtomicBool>,
}

impl Keys {
    /// Takes the keys from standard input, which is the editor's terminal from now on. Nothing is echoed, and
    /// Ctrl-C is a key.
    ///
    /// # Errors
    /// Standard input is not a terminal, or the system has none for the editor.
    pub(super) fn take() -> io::Result<Self> {
        let terminal = File::from(stdin().as_fd().try_clone_to_owned()?);
        let before = tcgetattr(&terminal)?;
        let mut quiet = before.clone();
        quiet.make_raw();
        // Lines that are written still begin at the left.
        quiet.output_modes = before.output_modes;
        let (keys, editor) = pair(&quiet)?;
        let way = Way {
            terminal: Arc::new(terminal),
            editor: Arc::new(editor),
            is_holding: Arc::default(),
            has_ended: Arc::default(),
        };
        let taken = Self {
            before,
            quiet,
            way: way.clone(),
        };
        dup2_stdin(&way.editor)?;
        taken.quieten()?;
        let pieces = Pieces::new(ends(&taken.before));
        let thread = thread::Builder::new().name("keys".to_owned());
        // A terminal that has gone is seen by the editor, whose terminal goes with the thread.
        thread.spawn(move || drop(way.hand_over(&keys, pieces)))?;
        Ok(taken)
    }

    /// Sets the terminal as a conversation needs it, also after another process used it.
    ///
    /// # Errors
    /// The terminal has gone.
    pub(super) fn quieten(&self) -> io::Result<()> {
        tcsetattr(&self.way.terminal, OptionalActions::Now, &self.quiet)?;
        let mut out = stdout().lock();
        out.write_all(MARK_PASTES)?;
        out.flush()
    }

    /// Whether there are keys that the editor has not read.
    ///
    /// # Errors
    /// The terminal has gone.
    pub(super) fn are_waiting(&self) -> io::Result<bool> {
        self.way.has_keys()
    }

    /// Waits until a key is pressed, and leaves it to the editor. Safe to drop at any moment.
    ///
    /// # Errors
    /// The terminal has gone.
    pub(super) async fn pressed(&self) -> io::Result<()> {
        let mut looks = tokio::time::interval(LOOK);
        loop {
            looks.tick().await;
            if self.are_waiting()? {
                return Ok(());
            }
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.way.has_ended.store(true, Ordering::SeqCst);
        // A terminal that has gone needs nothing.
        let _ = stdout().write_all(MARK_NO_PASTES);
        let _ = stdout().flush();
        let _ = tcsetattr(&self.way.terminal, OptionalActions::Now, &self.before);
        // Standard input stays the editor's: an editor that is cut off would take keys of the terminal, and set
        // its modes.
    }
}

impl Way {
    /// Hands the keys over until the conversation ends, or the terminal goes.
    fn hand_over(&self, keys: &File, mut pieces: Pieces) -> io::Result<()> {
        let (mut terminal, mut keys) = (&*self.terminal, keys);
        let mut bytes = [0; 4096];
        loop {
            wait_for(terminal)?;
            self.hold(true);
            if self.has_ended.load(Ordering::SeqCst) {
                // What is typed now is for another program.
                return Ok(());
            }
            let count = match terminal.read(&mut bytes) {
                Ok(0) => return Ok(()),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {
                    self.hold(false);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let mut others = pieces.cut(&bytes[..count]).into_iter().peekable();
            if others.peek().is_none() {
                self.hold(false);
            }
            while let Some(piece) = others.next() {
                let mut is_holding = self
                    .is_holding
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                keys.write_all(&piece.bytes)?;
                *is_holding = others.peek().is_some();
                drop(is_holding);
                while piece.ends_line
                    && is_readable(&self.editor)?
                    && !self.has_ended.load(Ordering::SeqCst)
                {
                    thread::sleep(TAKEN);
                }
            }
        }
    }

    /// Whether there are keys that the editor has not read.
    fn has_keys(&self) -> io::Result<bool> {
        // In the order of the way: a key that moves on between two looks is seen at the next place.
        loop {
            if is_readable(&self.terminal)? {
                return Ok(true);
            }
            let is_holding = match self.is_holding.try_lock() {
                Ok(is_holding) => Some(*is_holding),
                Err(TryLockError::Poisoned(_)) => Some(false),
                // Keys are handed over at this moment, or the editor has no room for them.
                Err(TryLockError::WouldBlock) => None,
            };
            if is_holding == Some(true) || is_readable(&self.editor)? {
                return Ok(true);
            }
            if is_holding.is_some() {
                return Ok(false);
            }
            thread::yield_now();
        }
    }

    fn hold(&self, is_holding: bool) {
        *self
            .is_holding
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = is_holding;
    }
}

/// The keys with which the editor may end a line: Enter, and those that interrupt it or end the input.
fn ends(modes: &Termios) -> Vec<u8> {
    let codes = [
        SpecialCodeIndex::VINTR,
        SpecialCodeIndex::VQUIT,
        SpecialCodeIndex::VEOF,
    ];
    let set = codes.map(|code| modes.special_codes[code]);
    // The editor knows these, whatever the terminal's settings are.
    [&set[..], &b"\r\n\x03\x04"[..]].concat()
}

/// A terminal: the end that takes keys, and the one that an editor reads.
fn pair(modes: &Termios) -> io::Result<(File, OwnedFd)> {
    let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    fcntl_setfd(&keys, FdFlags::CLOEXEC)?;
    grantpt(&keys)?;
    unlockpt(&keys)?;
    let name = ptsname(&keys, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let editor = open(name, flags, Mode::empty())?;
    tcsetattr(&editor, OptionalActions::Now, modes)?;
    Ok((File::from(keys), editor))
}

fn wait_for(terminal: &impl AsFd) -> io::Result<()> {
    let mut keys = [PollFd::new(terminal, PollFlags::IN)];
    retry_on_intr(|| poll(&mut keys, None))?;
    Ok(())
}

fn is_readable(terminal: &impl AsFd) -> io::Result<bool> {
    let mut keys = [PollFd::new(terminal, PollFlags::IN)];
    Ok(retry_on_intr(|| poll(&mut keys, Some(&Timespec::default())))? > 0)
}

#[cfg(test)]
mod tests;
