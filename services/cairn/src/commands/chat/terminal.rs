//! The terminal of a conversation: text as it comes, and above the line that a person types.
//!
//! Nothing is echoed, and Ctrl-C is a key, for as long as the conversation lasts. While a turn runs, the
//! first key opens the line editor. From then on output comes in whole lines above it.

use super::editor::{self, MESSAGE, Printer, Prompt, Typed};
use crate::error::CliError;
use crate::ui::flow::Flow;
use crate::ui::live::size;
use crate::ui::screen;
use crate::ui::style::Style;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{self, Write as _, stdin, stdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Text is no wider, however wide the terminal is.
const WIDEST: usize = 120;
/// How often a key is looked for while nobody types.
const LOOK: Duration = Duration::from_millis(30);
/// A line that ends so soon had nothing but the key that began it.
const AT_ONCE: Duration = Duration::from_millis(100);

/// The terminal.
pub(super) struct Terminal {
    style: Style,
    flow: Flow,
    /// A person can type.
    is_editing: bool,
    /// Set as soon as the question that the person is asked has its answer.
    asked: Option<Arc<AtomicBool>>,
    /// When a key let the person type.
    opened: Option<Instant>,
    /// The begun line, while a person types.
    held: String,
    prompts: mpsc::Sender<Prompt>,
    typed: UnboundedReceiver<Typed>,
    printer: Printer,
    messages: UnboundedReceiver<String>,
    _quiet: Quiet,
}

/// What the terminal brings.
#[derive(Debug)]
pub(super) enum Input {
    /// From the person.
    Typed(Typed),
    /// A message of this process, such as a log line.
    Message(String),
}

impl Terminal {
    /// Takes the terminal. Earlier messages are in the history, oldest first.
    ///
    /// # Errors
    /// The terminal cannot be used.
    pub(super) fn take(style: Style, earlier: Vec<String>) -> Result<Self, CliError> {
        let unusable = |error: String| CliError::new(format!("cannot use the terminal: {error}"));
        let quiet = Quiet::begin().map_err(|error| unusable(error.to_string()))?;
        let reading = editor::start(earlier).map_err(unusable)?;
        let (sender, messages) = unbounded_channel();
        screen::divert(Some(sender));
        Ok(Self {
            style,
            flow: Flow::new(WIDEST),
            is_editing: false,
            asked: None,
            opened: None,
            held: String::new(),
            prompts: reading.prompts,
            typed: reading.typed,
            printer: reading.printer,
            messages,
            _quiet: quiet,
        })
    }

    /// Columns of a line.
    pub(super) fn columns() -> usize {
        size().0.min(WIDEST)
    }

    /// Part of a text, which is broken into lines between words.
    ///
    /// # Errors
    /// The terminal has gone.
    pub(super) fn text(&mut self, text: &str) -> Result<(), CliError> {
        self.flow.resize(Self::columns().saturating_sub(1));
        let ready = self.flow.push(text);
        self.write(&ready)
    }

    /// The text has ended.
    ///
    /// # Errors
    /// The terminal has gone.
    pub(super) fn end_text(&mut self) -> Result<(), CliError> {
        let rest = self.flow.end();
        self.write(&rest)
    }

    /// A whole line, between the words of a text that has not ended.
    ///
    /// # Errors
    /// The terminal has gone.
    pub(super) fn line(&mut self, line: &str) -> Result<(), CliError> {
        let broken = self.flow.interrupt();
        self.write(&format!("{broken}{line}\n"))
    }

    /// Several whole lines.
    ///
    /// # Errors
    /// The terminal has gone.
    pub(super) fn lines(&mut self, lines: &[String]) -> Result<(), CliError> {
        lines.iter().try_for_each(|line| self.line(line))
    }

    /// Lets the person type a message, unless they already can.
    ///
    /// # Errors
    /// The terminal has gone.
    pub(super) fn ask_for_message(&mut self) -> Result<(), CliError> {
        self.ask(Prompt {
            plain: MESSAGE.to_owned(),
            painted: format!("{} ", self.style.active(MESSAGE.trim_end())),
            is_message: true,
            is_over: Arc::default(),
        })
    }

    /// Lets the person answer a question. Waits for the line that they have begun.
    ///
    /// # Errors
    /// The terminal has gone.
    pub(super) fn ask_for_answer(&mut self, question: &str) -> Result<(), CliError> {
        self.ask(Prompt {
            plain: question.to_owned(),
            painted: self.style.asks(question),
            is_message: false,
            is_over: Arc::default(),
        })
    }

    /// The question that a person is asked has its answer from elsewhere: what they type is a message.
    ///
    /// # Errors
    /// The terminal has gone.
    pub(super) fn end_question(&mut self) -> Result<(), CliError> {
        let is_over = self.asked.take().filter(|_| self.is_editing);
        let Some(is_over) = is_over else {
            return Ok(());
        };
        is_over.store(true, Ordering::Relaxed);
        // A line above the prompt has it painted anew.
        self.line(&self.style.dim("the question has its answer"))
    }

    fn ask(&mut self, prompt: Prompt) -> Result<(), CliError> {
        if self.is_editing {
            return Ok(());
        }
        let broken = self.flow.interrupt();
        self.write(broken)?;
        self.asked = (!prompt.is_message).then(|| prompt.is_over.clone());
        let asked = self.prompts.send(prompt);
        asked.map_err(|_| CliError::new("cannot use the terminal: its reader has ended"))?;
        self.is_editing = true;
        Ok(())
    }

    /// Waits for a line, or for a message of this process. If the person cannot type yet, the first key
    /// lets them. Safe to drop at any moment.
    ///
    /// # Errors
    /// The terminal has gone.
    pub(super) async fn input(&mut self) -> Result<Input, CliError> {
        if !self.is_editing {
            tokio::select! {
                pressed = key() => pressed?,
                Some(message) = self.messages.recv() => return Ok(Input::Message(message)),
            }
            self.ask_for_message()?;
            self.opened = Some(Instant::now());
        }
        tokio::select! {
            typed = self.typed.recv() => {
                self.is_editing = false;
                let opened = self.opened.take().map(|at| at.elapsed());
                if typed == Some(Typed::Interrupt) && opened.is_some_and(|since| since < AT_ONCE) {
                    // The key was Ctrl-C, and the line is empty.
                    self.write("\u{1b}[1A\r\u{1b}[J")?;
                }
                let held = std::mem::take(&mut self.held);
                self.write(&held)?;
                let ended = || Typed::Failed("its reader has ended".to_owned());
                Ok(Input::Typed(typed.unwrap_or_else(ended)))
            }
            Some(message) = self.messages.recv() => Ok(Input::Message(message)),
        }
    }

    fn write(&mut self, text: &str) -> Result<(), CliError> {
        if text.is_empty() {
            return Ok(());
        }
        if !self.is_editing {
            let mut out = stdout().lock();
            out.write_all(text.as_bytes())?;
            out.flush()?;
            return Ok(());
        }
        self.held.push_str(text);
        let Some(end) = self.held.rfind('\n') else {
            return Ok(());
        };
        let rest = self.held.split_off(end + 1);
        let lines = std::mem::replace(&mut self.held, rest);
        let printed = self.printer.print(lines);
        printed.map_err(|error| CliError::new(format!("cannot write to the terminal: {error}")))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        screen::divert(None);
        if self.is_editing {
            // Below the line that nobody will finish.
            let _ = stdout().write_all(b"\n");
        }
        while let Ok(message) = self.messages.try_recv() {
            let _ = io::stderr().write_all(message.as_bytes());
        }
    }
}

/// Waits until a key is pressed, and leaves it to the line editor. Looks again and again, because what
/// waits for input must be safe to drop, and a thread that reads is not.
async fn key() -> io::Result<()> {
    let mut looks = tokio::time::interval(LOOK);
    loop {
        looks.tick().await;
        let stdin = stdin();
        let mut keys = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut keys, Some(&Timespec::default())) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// The terminal's settings before the conversation; they are put back when this is dropped.
struct Quiet(Termios);

impl Quiet {
    fn begin() -> io::Result<Self> {
        let before = tcgetattr(stdin())?;
        let mut quiet = before.clone();
        quiet.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        tcsetattr(stdin(), OptionalActions::Now, &quiet)?;
        Ok(Self(before))
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // A terminal that has gone needs nothing. The line editor may have been cut off while it took
        // pasted text as such.
        let _ = stdout().write_all(b"\x1b[?2004l");
        let _ = stdout().flush();
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.0);
    }
}
