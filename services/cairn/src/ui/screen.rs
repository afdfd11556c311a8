//! The terminal, shared by a moving part at its end and by the lines that are written meanwhile.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc::UnboundedSender;

/// The moving part as it is on the screen. There is one terminal, as there is one standard output.
static MOVING: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Who shows the messages of this process in place of the terminal.
static DIVERTED: Mutex<Option<UnboundedSender<String>>> = Mutex::new(None);

/// Has a conversation show what would be written to standard error on a terminal; `None` ends that.
pub fn divert(to: Option<UnboundedSender<String>>) {
    *DIVERTED.lock().unwrap_or_else(PoisonError::into_inner) = to;
}

/// Whether a conversation has the terminal.
pub fn shows_conversation() -> bool {
    let to = DIVERTED.lock().unwrap_or_else(PoisonError::into_inner);
    to.is_some()
}

/// Whether a conversation shows the text.
fn is_diverted(text: &[u8]) -> bool {
    let to = DIVERTED.lock().unwrap_or_else(PoisonError::into_inner);
    let text = || String::from_utf8_lossy(text).into_owned();
    to.as_ref().is_some_and(|to| to.send(text()).is_ok())
}

/// Writes what stands from now on, and the moving part anew below it. No line may be wider than the
/// terminal, so that a line on the screen is a line here.
///
/// # Errors
/// The terminal has gone.
pub fn frame(standing: &[String], moving: Vec<String>) -> io::Result<()> {
    let mut shown = shown();
    if standing.is_empty() && moving == *shown {
        return Ok(());
    }
    let frame = cleared(shown.len()) + &lines(standing) + &lines(&moving);
    *shown = moving;
    write(&frame)
}

/// Standard error, whose lines stand above what moves. What is written at once has to be whole lines.
#[derive(Debug, Clone, Copy)]
pub struct Beside;

impl Write for Beside {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let mut err = io::stderr();
        if err.is_terminal() && is_diverted(text) {
            return Ok(text.len());
        }
        // Who writes elsewhere does not wait for a terminal that somebody has stopped.
        let shown = err.is_terminal().then(shown);
        let Some(shown) = shown.filter(|shown| !shown.is_empty()) else {
            err.write_all(text)?;
            return Ok(text.len());
        };
        // The line counts for more than what moves.
        let _ = write(&cleared(shown.len()));
        err.write_all(text)?;
        let _ = write(&lines(&shown));
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Writes a message of this program's own beside what moves. Where it cannot be written, nobody is
/// there to read it.
pub fn tell(text: &str) {
    let _ = Beside.write_all(format!("cairn: {text}\n").as_bytes());
}

fn shown() -> MutexGuard<'static, Vec<String>> {
    MOVING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What takes a moving part of so many lines off the screen.
fn cleared(count: usize) -> String {
    let mut text = String::new();
    if count > 0 {
        // Writing into a String cannot fail.
        let _ = write!(text, "\u{1b}[{count}A");
    }
    text + "\r\u{1b}[J"
}

fn lines(lines: &[String]) -> String {
    lines.iter().flat_map(|line| [line, "\n"]).collect()
}

fn write(frame: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(frame.as_bytes())?;
    out.flush()
}
