//! What a command of a shell is, as far as that can be said without a shell.
//!
//! An approval of further commands covers those that begin with the same words. So a command is read only if
//! every shell reads it in the same way: as one program with plain words. And no prefix stands before a
//! program that runs another one, since the words after it would name any program.

mod programs;

use programs::{base, needs_second_word, runs_another};

/// Longest word of a prefix, in bytes.
const LONGEST_WORD: usize = 128;
/// Words that begin something else than a simple command.
const RESERVED: [&str; 20] = [
    "if", "then", "else", "elif", "fi", "do", "done", "case", "esac", "while", "until", "for",
    "in", "function", "select", "time", "coproc", "repeat", "foreach", "end",
];
/// Runners of tests that an option of their program names. What follows are options and files of tests.
const RUNNERS: [(&str, &[&str]); 3] = [
    ("python", &["-m", "pytest"]),
    ("python", &["-m", "unittest"]),
    ("node", &["--test"]),
];

/// The words of a text that is exactly one simple command of plain words. Quotes with nothing to expand in them
/// are taken off. None for everything else: shells differ about it, or it does more than to run one program.
pub fn simple_command(text: &str) -> Option<Vec<String>> {
    let mut reader = Reader {
        rest: text.chars(),
        words: Vec::new(),
        word: None,
    };
    while let Some(letter) = reader.rest.next() {
        reader.take(letter)?;
    }
    reader.end_word();
    let first = reader.words.first()?;
    let is_command = !first.is_empty() && !first.contains('=') && !is_reserved(first);
    is_command.then_some(reader.words)
}

/// The words that an approval of further commands covers: the program, and the word after it if that is a plain
/// one, such as a sub-command. None if these words do not say which program runs.
pub fn prefix_of(words: &[String]) -> Option<Vec<String>> {
    let (first, rest) = words.split_first()?;
    if !is_program(first) || runs_another(words) {
        return None;
    }
    let name = base(first);
    let is_runner = |(program, options): &&(&str, &[&str])| {
        name == *program
            && rest.len() >= options.len()
            && rest.iter().zip(*options).all(|(a, b)| a == b)
    };
    if let Some((_, options)) = RUNNERS.iter().find(is_runner) {
        return Some(words[..=options.len()].to_vec());
    }
    let second = rest.first().map(String::as_str).unwrap_or_default();
    match () {
        () if is_plain(second) => Some(words[..2].to_vec()),
        // A script by its path. Without it, the prefix would cover every script.
        () if needs_second_word(first) && is_script(second) => Some(words[..2].to_vec()),
        () if needs_second_word(first) => None,
        () => Some(words[..1].to_vec()),
    }
}

/// Whether an approval of commands that begin with these words covers the command: it is one simple command, it
/// begins with them, and it runs no other program.
pub fn is_covered(prefix: &[String], command: &str) -> bool {
    let words = simple_command(command);
    words.is_some_and(|words| {
        !prefix.is_empty() && words.starts_with(prefix) && prefix_of(&words).is_some()
    })
}

/// Reads the words of a command.
struct Reader<'a> {
    rest: std::str::Chars<'a>,
    words: Vec<String>,
    /// The word under way. An empty one has been quoted.
    word: Option<String>,
}

impl Reader<'_> {
    /// One letter that stands outside of quotes. None if the text is no simple command of plain words.
    fn take(&mut self, letter: char) -> Option<()> {
        match letter {
            ' ' | '\t' => self.end_word(),
            '\'' => self.single_quoted()?,
            '"' => self.double_quoted()?,
            // Before a letter it is no plain escape: some shells and programs read it as a control character.
            '\\' => {
                let escaped = self.rest.next()?;
                let is_plain = escaped == ' ' || escaped.is_ascii_punctuation();
                self.push(is_plain.then_some(escaped)?);
            }
            letter => self.push(is_plain_letter(letter).then_some(letter)?),
        }
        Some(())
    }

    fn single_quoted(&mut self) -> Option<()> {
        self.begin_word();
        loop {
            match self.rest.next()? {
                '\'' => return Some(()),
                letter => self.push(is_quotable(letter).then_some(letter)?),
            }
        }
    }

    fn double_quoted(&mut self) -> Option<()> {
        self.begin_word();
        loop {
            match self.rest.next()? {
                '"' => return Some(()),
                // The last one is a history expansion in some shells.
                '$' | '`' | '!' => return None,
                '\\' => {
                    let escaped = self.rest.next()?;
                    let is_plain = matches!(escaped, '"' | '\\' | '$' | '`');
                    self.push(is_plain.then_some(escaped)?);
                }
                letter => self.push(is_quotable(letter).then_some(letter)?),
            }
        }
    }

    fn begin_word(&mut self) {
        self.word.get_or_insert_default();
    }

    fn push(&mut self, letter: char) {
        self.word.get_or_insert_default().push(letter);
    }

    fn end_word(&mut self) {
        self.words.extend(self.word.take());
    }
}

/// No shell gives the letter a meaning, wherever it stands. What cannot be seen is none.
fn is_plain_letter(letter: char) -> bool {
    match letter.is_ascii() {
        true => letter.is_ascii_alphanumeric() || "_-./,:+@%=".contains(letter),
        false => letter.is_alphanumeric(),
    }
}

/// The letter stands for itself in quotes. Lines are not: a command of several is not read at a glance.
fn is_quotable(letter: char) -> bool {
    !letter.is_control() && !matches!(letter, '\u{2028}' | '\u{2029}')
}

fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word)
}

/// The name of a program, or a path of one.
fn is_program(word: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "_-./+".contains(c);
    let is_known =
        word.starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '/' | '_'));
    // `.` reads a file as commands, and a path may end with `..`.
    let is_named = word.chars().any(|c| c.is_ascii_alphanumeric()) && !word.ends_with(['/', '.']);
    word.len() <= LONGEST_WORD && is_known && is_named && word.chars().all(is_letter)
}

/// A word such as `test` or `README.md`: no option, no path and no assignment.
fn is_plain(word: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
    word.len() <= LONGEST_WORD
        && word.starts_with(|c: char| c.is_ascii_alphanumeric())
        && word.chars().all(is_letter)
}

/// The path of a script.
fn is_script(word: &str) -> bool {
    word.contains('/') && is_program(word)
}

#[cfg(test)]
mod tests;
