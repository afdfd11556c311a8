//! The line editor, in a thread of its own: it reads a line each time that it is asked for one.

use super::slash;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{ColorMode, Config, Context, Editor, ExternalPrinter, Helper};
use std::sync::mpsc;
use std::thread;
use tokio::sync::mpsc as outgoing;

/// Lines that arrow keys find again.
const MOST_LINES: usize = 1_000;

/// Writes above the line that a person types.
pub(super) type Printer = Box<dyn ExternalPrinter + Send>;

/// What a person is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Prompt {
    /// As it is measured.
    pub(super) plain: String,
    /// As it is shown, of the same width.
    pub(super) painted: String,
    /// The line is a message, which the arrow keys find again, and may have several lines.
    pub(super) is_message: bool,
}

/// What a person typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Typed {
    /// A message.
    Message(String),
    /// An answer to a question.
    Answer(String),
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D.
    End,
    /// The terminal cannot be read any more.
    Failed(String),
}

/// Both ends of the thread.
pub(super) struct Reading {
    /// Asks for a line.
    pub(super) prompts: mpsc::Sender<Prompt>,
    /// The answers, one for each.
    pub(super) typed: outgoing::UnboundedReceiver<Typed>,
    /// Writes above the line.
    pub(super) printer: Printer,
}

/// Starts the thread. Earlier messages are in its history, oldest first.
///
/// # Errors
/// The terminal cannot be used.
pub(super) fn start(color: bool, earlier: Vec<String>) -> Result<Reading, String> {
    let (prompts, asked) = mpsc::channel::<Prompt>();
    let (sender, typed) = outgoing::unbounded_channel();
    let (ready, printer) = mpsc::channel();
    let read = move || {
        let made = editor(color, earlier);
        let (mut editor, printer) = match made {
            Ok((editor, printer)) => (editor, Ok(printer)),
            Err(error) => {
                // Without a listener there is no conversation.
                let _ = ready.send(Err(error.to_string()));
                return;
            }
        };
        if ready.send(printer).is_err() {
            return;
        }
        while let Ok(prompt) = asked.recv() {
            let line = read_line(&mut editor, &prompt);
            if sender.send(line).is_err() {
                return;
            }
        }
    };
    let thread = thread::Builder::new().name("line-editor".to_owned());
    thread.spawn(read).map_err(|error| error.to_string())?;
    let printer = printer.recv().map_err(|error| error.to_string())??;
    Ok(Reading {
        prompts,
        typed,
        printer,
    })
}

type Lines = Editor<Slashes, MemHistory>;

fn editor(color: bool, earlier: Vec<String>) -> rustyline::Result<(Lines, Printer)> {
    let config = Config::builder()
        .max_history_size(MOST_LINES)?
        .color_mode(match color {
            true => ColorMode::Forced,
            false => ColorMode::Disabled,
        })
        .build();
    let history = MemHistory::with_config(&config);
    let mut editor = Lines::with_history(config, history)?;
    for line in earlier {
        editor.add_history_entry(line)?;
    }
    let printer = editor.create_external_printer()?;
    Ok((editor, Box::new(printer)))
}

fn read_line(editor: &mut Lines, prompt: &Prompt) -> Typed {
    editor.set_helper(prompt.is_message.then_some(Slashes));
    let text = (prompt.plain.as_str(), prompt.painted.as_str());
    match editor.readline(&text) {
        Ok(line) => {
            if !prompt.is_message {
                return Typed::Answer(line);
            }
            let line = joined(&line);
            if !line.trim().is_empty() {
                // A full history is no reason to refuse a line.
                let _ = editor.add_history_entry(line.as_str());
            }
            Typed::Message(line)
        }
        Err(ReadlineError::Interrupted) => Typed::Interrupt,
        Err(ReadlineError::Eof) => Typed::End,
        Err(error) => Typed::Failed(error.to_string()),
    }
}

/// A message of several lines, without the marks that continued them.
fn joined(line: &str) -> String {
    line.replace("\\\n", "\n")
}

/// Completes the commands of a conversation, and continues a line that ends with `\`.
#[derive(Debug)]
struct Slashes;

impl Helper for Slashes {}
impl Highlighter for Slashes {}

impl Hinter for Slashes {
    type Hint = String;
}

impl Validator for Slashes {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match context.input().ends_with('\\') {
            true => ValidationResult::Incomplete,
            false => ValidationResult::Valid(None),
        })
    }
}

impl Completer for Slashes {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = &line[..position];
        let names = slash::names().into_iter();
        let fitting = names.filter(|name| typed.starts_with('/') && name.starts_with(typed));
        Ok((0, fitting.map(str::to_owned).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_continued_lines_are_taken_out() {
        assert_eq!(joined("one\\\ntwo"), "one\ntwo");
        assert_eq!(joined("C:\\dir"), "C:\\dir");
    }
}
