//! Output above the line that a person types.

use rustyline::ExternalPrinter;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// How long lines may take to be shown before what comes next is.
const MOMENT: Duration = Duration::from_millis(50);

/// Writes above the line that a person types, in a thread of its own: the library's printer waits for the
/// editor, and an editor that has just taken the end of a line waits for the next prompt.
#[derive(Debug)]
pub(super) struct Printer {
    lines: mpsc::Sender<String>,
    waiting: Arc<AtomicUsize>,
}

impl Printer {
    /// # Errors
    /// The system has no room for a thread.
    pub(super) fn start(mut printer: impl ExternalPrinter + Send + 'static) -> io::Result<Self> {
        let (lines, given) = mpsc::channel::<String>();
        let waiting = Arc::<AtomicUsize>::default();
        let left = waiting.clone();
        let print = move || {
            // A terminal that has gone is seen by the editor.
            while let Ok(lines) = given.recv() {
                let _ = printer.print(lines);
                left.fetch_sub(1, Ordering::SeqCst);
            }
        };
        thread::Builder::new()
            .name("printer".to_owned())
            .spawn(print)?;
        Ok(Self { lines, waiting })
    }

    /// Shows whole lines soon.
    pub(super) fn print(&self, lines: String) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        // The thread ends with this value.
        let _ = self.lines.send(lines);
    }

    /// Waits until all lines are shown, for a moment at most: some may be shown with the next prompt only.
    pub(super) fn settle(&self) {
        let began = Instant::now();
        while self.waiting.load(Ordering::SeqCst) > 0 && began.elapsed() < MOMENT {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stands still like the library's while no line is read, until the test goes on.
    struct Standing {
        goes_on: mpsc::Receiver<()>,
        shown: mpsc::Sender<String>,
    }

    impl ExternalPrinter for Standing {
        fn print(&mut self, lines: String) -> rustyline::Result<()> {
            self.goes_on.recv().unwrap();
            self.shown.send(lines).unwrap();
            Ok(())
        }
    }

    #[test]
    fn an_editor_that_waits_for_a_prompt_holds_up_nobody_and_every_line_is_shown() {
        let (go_on, goes_on) = mpsc::channel();
        let (shown, seen) = mpsc::channel();
        let printer = Printer::start(Standing { goes_on, shown }).unwrap();
        for line in ["one\n", "two\n", "three\n"] {
            printer.print(line.to_owned());
        }
        printer.settle();
        assert!(seen.try_recv().is_err(), "nothing is read");
        for line in ["one\n", "two\n", "three\n"] {
            go_on.send(()).unwrap();
            assert_eq!(seen.recv().unwrap(), line);
        }
    }
}
