//! The terminal of a conversation: text as it comes, and above the line that a person types.
//!
//! While a turn runs, the first key opens the line editor. From then on output comes in whole lines above it.

use super::editor::{self, MESSAGE, Prompt, Typed};
use super::keys::Keys;
use super::line::{Kind, Line};
use super::printer::Printer;
use crate::error::CliError;
use crate::ui::flow::Flow;
use crate::ui::live::size;
use crate::ui::screen;
use crate::ui::style::Style;
use rustix::process::Signal as Number;
use std::io::{self, Write as _, stdout};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Text is no wider, however wide the terminal is.
const WIDEST: usize = 120;
/// A line that ends so soon had nothing but the key that began it.
const AT_ONCE: Duration = Duration::from_millis(100);

/// What the log says of a model without a price.
const NO_PRICE: &str = "no price is known for this model";

/// The terminal.
pub(super) struct Terminal {
    style: Style,
    flow: Flow,
    /// A person can type.
    is_editing: bool,
    /// The line that they type, or typed last.
    typing: Arc<Mutex<Line>>,
    /// When a key let the person type.
    opened: Option<Instant>,
    /// The begun line, while a person types.
    held: String,
    prompts: mpsc::Sender<Prompt>,
    typed: UnboundedReceiver<Typed>,
    printer: Printer,
    messages: UnboundedReceiver<String>,
    /// A text has begun and has not ended.
    is_in_text: bool,
    /// Messages that wait for its end, since they would tear it.
    late: Vec<String>,
    /// A person has read that no price of the model is known.
    pub(super) knows_price: bool,
    keys: Keys,
    /// The process continues after Ctrl-Z.
    continued: Signal,
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
        let refused = |error: io::Error| unusable(error.to_string());
        let continued = signal(SignalKind::from_raw(Number::CONT.as_raw())).map_err(refused)?;
        let keys = Keys::take().map_err(refused)?;
        let reading = editor::start(earlier).map_err(unusable)?;
        let (sender, messages) = unbounded_channel();
        screen::divert(Some(sender));
        Ok(Self {
            style,
            flow: Flow::new(WIDEST),
            is_editing: false,
            typing: Arc::new(Mutex::new(Line::new(Kind::Message))),
            opened: None,
            held: String::new(),
            prompts: reading.prompts,
            typed: reading.typed,
            printer: reading.printer,
            messages,
            is_in_text: false,
            late: Vec::new(),
            knows_price: false,
            keys,
            continued,
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
        self.is_in_text = true;
        self.flow.resize(Self::columns().saturating_sub(1));
        let ready = self.flow.push(text);
        self.write(&ready)
    }

    /// The text has ended. Messages that came meanwhile follow it.
    ///
    /// # Errors
    /// The terminal has gone.
    pub(super) fn end_text(&mut self) -> Result<(), CliError> {
        let rest = self.flow.end();
        self.write(&rest)?;
        self.is_in_text = false;
        let late = std::mem::take(&mut self.late);
        late.into_iter().try_for_each(|text| self.message(text))
    }

    /// A message of this process, after the text that has begun.
    ///
    /// # Errors
    /// The terminal has gone.
    pub(super) fn message(&mut self, text: String) -> Result<(), CliError> {
        if self.knows_price && text.contains(NO_PRICE) {
            return Ok(());
        }
        if self.is_in_text {
            self.late.push(text);
            return Ok(());
        }
        self.line(&self.style.dim(text.trim_end()))
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

    /// Lets the person type a message, unless they already can type.
    ///
    /// # Errors
    /// The terminal has gone.
    pub(super) fn ask_for_message(&mut self) -> Result<(), CliError> {
        let painted = self.mark();
        self.ask(Prompt::new(MESSAGE.to_owned(), painted, Kind::Message))
    }

    /// Has the person answer the question with this id, unless it is asked already. If they can type, the next line
    /// that they begin is the answer.
    ///
    /// # Errors
    /// The terminal has gone.
    pub(super) fn ask_for_answer(&mut self, id: &str, question: &str) -> Result<(), CliError> {
        let kind = Kind::Answer(id.to_owned());
        if !self.is_editing {
            let plain = format!("{question}\n{MESSAGE}");
            let painted = format!("{}\n{}", self.style.asks(question), self.mark());
            return self.ask(Prompt::new(plain, painted, kind));
        }
        let is_asked = *self.typing().now() == kind;
        // A begun line is no answer, and does not look like one.
        let is_next = !is_asked && self.typing().becomes(kind);
        match is_next {
            true => self.line(&self.style.asks(question)),
            false => Ok(()),
        }
    }

    /// The question that a person is asked has its answer from elsewhere: the next line that they begin is a message.
    ///
    /// # Errors
    /// The terminal has gone.
    pub(super) fn end_question(&mut self) -> Result<(), CliError> {
        if !self.is_editing || *self.typing().now() == Kind::Message {
            return Ok(());
        }
        self.typing().becomes(Kind::Message);
        // A line above the prompt has it painted anew.
        self.line(&self.style.dim("the question has its answer"))
    }

    fn typing(&self) -> MutexGuard<'_, Line> {
        self.typing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// [`MESSAGE`] as it is shown.
    fn mark(&self) -> String {
        format!("{} ", self.style.active(MESSAGE.trim_end()))
    }

    fn ask(&mut self, prompt: Prompt) -> Result<(), CliError> {
        if self.is_editing {
            return Ok(());
        }
        let broken = self.flow.interrupt();
        self.write(broken)?;
        self.typing = prompt.line.clone();
        let asked = self.prompts.send(prompt);
        asked.map_err(|_| CliError::new("cannot use the terminal: its reader has ended"))?;
        self.is_editing = true;
        Ok(())
    }

    /// Whether the person has typed something that no line has taken.
    ///
    /// # Errors
    /// The terminal has gone.
    pub(super) fn has_keys(&self) -> Result<bool, CliError> {
        Ok(self.keys.are_waiting()?)
    }

    /// Waits for a line, or for a message of this process. If the person cannot type yet, the first key
    /// lets them. Safe to drop at any moment.
    ///
    /// # Errors
    /// The terminal has gone.
    pub(super) async fn input(&mut self) -> Result<Input, CliError> {
        loop {
            tokio::select! {
                pressed = self.keys.pressed(), if !self.is_editing => {
                    pressed?;
                    self.ask_for_message()?;
                    self.opened = Some(Instant::now());
                }
                typed = self.typed.recv(), if self.is_editing => return self.taken(typed),
                Some(message) = self.messages.recv() => return Ok(Input::Message(message)),
                Some(()) = self.continued.recv() => self.keys.quieten()?,
            }
        }
    }

    /// Takes a line, whose reader has ended if there is none.
    fn taken(&mut self, typed: Option<Typed>) -> Result<Input, CliError> {
        self.is_editing = false;
        let opened = self.opened.take().map(|at| at.elapsed());
        if typed == Some(Typed::Interrupt) && opened.is_some_and(|since| since < AT_ONCE) {
            // The key was Ctrl-C, and the line is empty.
            self.write("\u{1b}[1A\r\u{1b}[J")?;
        }
        self.printer.settle();
        let held = std::mem::take(&mut self.held);
        self.write(&held)?;
        let ended = || Typed::Failed("its reader has ended".to_owned());
        Ok(Input::Typed(typed.unwrap_or_else(ended)))
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
        self.printer.print(lines);
        Ok(())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        screen::divert(None);
        if self.is_editing {
            // Below the line that nobody will finish.
            let _ = stdout().write_all(b"\n");
        }
        let late = std::mem::take(&mut self.late).into_iter();
        let left = std::iter::from_fn(|| self.messages.try_recv().ok());
        let is_new = |message: &String| !(self.knows_price && message.contains(NO_PRICE));
        let left: Vec<String> = left.filter(is_new).collect();
        for message in late.chain(left) {
            let _ = io::stderr().write_all(message.as_bytes());
        }
    }
}
