//! The line editor, in a thread of its own: it reads a line each time that it is asked for one.

use super::line::{Kind, Line};
use super::printer::Printer;
use super::slash;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{ColorMode, Config, Context, Editor, ExternalPrinter, Helper};
use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use tokio::sync::mpsc as outgoing;

/// Lines that arrow keys find again.
const MOST_LINES: usize = 1_000;

/// At the end of a line, continues the message in another one.
const MARK: char = '\\';

/// What a person is asked for.
#[derive(Debug, Clone)]
pub(super) struct Prompt {
    /// As it is measured.
    pub(super) plain: String,
    /// As it is shown, of the same width.
    pub(super) painted: String,
    /// What is asked for. A message is found again with the arrow keys, and may have several lines.
    pub(super) asks: Kind,
    /// The line. While it is typed, another question can take the place of this one.
    pub(super) line: Arc<Mutex<Line>>,
}

/// Stands before a message, and below a question before its answer.
pub(super) const MESSAGE: &str = "› ";

/// What a person typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Typed {
    /// A message.
    Message(String),
    /// An answer.
    Answer {
        /// The id of the question that stood there when it was begun.
        question: String,
        /// What was typed.
        line: String,
    },
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
pub(super) fn start(earlier: Vec<String>) -> Result<Reading, String> {
    let (prompts, asked) = mpsc::channel::<Prompt>();
    let (sender, typed) = outgoing::unbounded_channel();
    let (ready, printer) = mpsc::channel();
    let read = move || {
        let made = editor(earlier);
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
    let printer = Printer::start(printer).map_err(|error| error.to_string())?;
    Ok(Reading {
        prompts,
        typed,
        printer,
    })
}

type Lines = Editor<Slashes, MemHistory>;

fn editor(
    earlier: Vec<String>,
) -> rustyline::Result<(Lines, impl ExternalPrinter + Send + 'static)> {
    let config = Config::builder()
        .max_history_size(MOST_LINES)?
        // Without it no prompt is painted anew. What is painted has colours only if they are wanted.
        .color_mode(ColorMode::Forced)
        // They are marked for as long as the conversation lasts, also while nobody types.
        .bracketed_paste(false)
        .build();
    let history = MemHistory::with_config(&config);
    let mut editor = Lines::with_history(config, history)?;
    for line in earlier {
        editor.add_history_entry(line)?;
    }
    let printer = editor.create_external_printer()?;
    Ok((editor, printer))
}

fn read_line(editor: &mut Lines, prompt: &Prompt) -> Typed {
    editor.set_helper(Some(Slashes::new(prompt.clone())));
    let text = (prompt.plain.as_str(), prompt.painted.as_str());
    match editor.readline(&text) {
        Ok(line) => {
            prompt.line().shows(&line);
            if let Kind::Answer(question) = prompt.kind() {
                return Typed::Answer { question, line };
            }
            let helper = editor.helper();
            let continued = helper.map(|helper| helper.continued.take());
            let line = joined(line, &continued.unwrap_or_default());
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

/// A message of several lines, without the marks that continued it. It was continued after each of these
/// beginnings; a mark that was pasted is text.
fn joined(mut line: String, continued: &[String]) -> String {
    for begun in continued.iter().rev() {
        let rest = line.strip_prefix(begun.as_str());
        if rest.is_some_and(|rest| rest.starts_with('\n')) {
            line.remove(begun.len() - MARK.len_utf8());
        }
    }
    line
}

/// Completes the commands of a conversation, and continues a line that ends with `\`.
#[derive(Debug)]
struct Slashes {
    prompt: Prompt,
    /// The message as it was each time that it was continued.
    continued: RefCell<Vec<String>>,
}

impl Slashes {
    fn new(prompt: Prompt) -> Self {
        Self {
            prompt,
            continued: RefCell::default(),
        }
    }
}

impl Prompt {
    /// Asks for this, with an empty line.
    pub(super) fn new(plain: String, painted: String, asks: Kind) -> Self {
        Self {
            plain,
            painted,
            line: Arc::new(Mutex::new(Line::new(asks.clone()))),
            asks,
        }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the line is that is typed.
    fn kind(&self) -> Kind {
        self.line().kind().clone()
    }

    fn takes_message(&self) -> bool {
        self.kind() == Kind::Message
    }

    /// The question that the prompt shows is asked no more.
    fn is_over(&self) -> bool {
        self.asks != Kind::Message && *self.line().now() != self.asks
    }

    /// The prompt in the place of a question that is over, whose rows count until the line ends.
    fn in_place(&self) -> String {
        let question = self.plain.lines().next().unwrap_or_default();
        let width = question.chars().count();
        format!("{:width$}\n{MESSAGE}", "")
    }
}

impl Helper for Slashes {}

impl Highlighter for Slashes {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(
        &'s self,
        prompt: &'p str,
        is_default: bool,
    ) -> Cow<'b, str> {
        // A search in the history has a prompt of its own.
        match is_default && self.prompt.is_over() {
            true => Cow::Owned(self.prompt.in_place()),
            false => Cow::Borrowed(prompt),
        }
    }
}

impl Hinter for Slashes {
    type Hint = String;

    /// Called with each change of the line. There are no hints.
    fn hint(&self, line: &str, _position: usize, _context: &Context<'_>) -> Option<String> {
        self.prompt.line().shows(line);
        None
    }
}

impl Validator for Slashes {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let input = context.input();
        if !self.prompt.takes_message() || !input.ends_with(MARK) {
            return Ok(ValidationResult::Valid(None));
        }
        self.continued.borrow_mut().push(input.to_owned());
        Ok(ValidationResult::Incomplete)
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
        let takes_message = self.prompt.takes_message();
        let names = slash::names().into_iter();
        let fitting =
            names.filter(|name| takes_message && typed.starts_with('/') && name.starts_with(typed));
        Ok((0, fitting.map(str::to_owned).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_that_is_over_takes_a_message_in_its_place() {
        let answer = |question: &str| Kind::Answer(question.to_owned());
        let text = "approve?\n› ".to_owned();
        let prompt = Prompt::new(text.clone(), text, answer("one"));
        let helper = Slashes::new(prompt.clone());
        assert!(!prompt.takes_message());
        let painted = prompt.painted.as_str();
        assert_eq!(helper.highlight_prompt(painted, true), "approve?\n› ");
        prompt.line().becomes(Kind::Message);
        assert!(prompt.takes_message());
        assert_eq!(helper.highlight_prompt(painted, true), "        \n› ");
        prompt.line().becomes(answer("two"));
        assert!(!prompt.takes_message());
        assert_eq!(helper.highlight_prompt(painted, true), "        \n› ");
        assert_eq!(prompt.kind(), answer("two"));
    }

    #[test]
    fn marks_of_continued_lines_are_taken_out_and_pasted_ones_are_not() {
        let table: [(&str, &[&str], &str); 6] = [
            ("one\\\ntwo", &["one\\"], "one\ntwo"),
            ("1\\\n2\\\n3", &["1\\", "1\\\n2\\"], "1\n2\n3"),
            ("ls \\\n -l\\\nend", &["ls \\\n -l\\"], "ls \\\n -l\nend"),
            ("ls \\\n -l", &[], "ls \\\n -l"),
            ("changed\\\ntwo", &["one\\"], "changed\\\ntwo"),
            ("C:\\dir", &[], "C:\\dir"),
        ];
        for (line, continued, expected) in table {
            let continued: Vec<String> = continued.iter().map(|it| (*it).to_owned()).collect();
            assert_eq!(joined(line.to_owned(), &continued), expected);
        }
    }
}
