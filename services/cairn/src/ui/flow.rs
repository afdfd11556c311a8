//! Text that arrives in parts, broken into lines between words.

use cairn_engine::text::{counted, first_line, size};
use cairn_rpc::text::{escape, is_hidden};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// A text on its way to the terminal. The last word of a part is kept back until it is whole.
#[derive(Debug, Clone)]
pub struct Flow {
    width: usize,
    column: usize,
    /// Columns of blanks that the line began with, as do the lines that it is broken into.
    indent: usize,
    /// Blanks before the word; dropped where a line is broken.
    blanks: String,
    word: String,
}

impl Flow {
    /// An empty line of this many columns.
    pub fn new(width: usize) -> Self {
        Self {
            width: width.max(1),
            column: 0,
            indent: 0,
            blanks: String::new(),
            word: String::new(),
        }
    }

    /// The terminal has this many columns from now on.
    pub fn resize(&mut self, width: usize) {
        self.width = width.max(1);
    }

    /// Takes the next part, and returns what can be written of it. Line ends stay; everything else
    /// that could drive a terminal is written out.
    pub fn push(&mut self, text: &str) -> String {
        let mut out = String::new();
        for c in text.chars() {
            match c {
                '\n' => {
                    self.place(&mut out);
                    self.blanks.clear();
                    out.push('\n');
                    (self.column, self.indent) = (0, 0);
                }
                '\r' => {}
                ' ' | '\t' => {
                    self.place(&mut out);
                    self.blanks.push_str(if c == '\t' { "    " } else { " " });
                }
                c if is_hidden(c) => self.word.push_str(&escape(c.encode_utf8(&mut [0; 4]))),
                // Scripts without blanks are broken between any two characters.
                c if c.width() == Some(2) => {
                    self.place(&mut out);
                    self.word.push(c);
                    self.place(&mut out);
                }
                c => self.word.push(c),
            }
        }
        out
    }

    /// Returns what was kept back, and ends the line if it has begun.
    pub fn end(&mut self) -> String {
        let mut out = String::new();
        self.place(&mut out);
        self.blanks.clear();
        if self.column > 0 {
            out.push('\n');
        }
        (self.column, self.indent) = (0, 0);
        out
    }

    /// Ends the line if it has begun, for other output. A word that is not whole comes after that.
    pub fn interrupt(&mut self) -> &'static str {
        self.blanks.clear();
        match std::mem::take(&mut self.column) {
            0 => "",
            _ => "\n",
        }
    }

    /// Writes the word, on the next line if this one has no room for it.
    fn place(&mut self, out: &mut String) {
        if self.word.is_empty() {
            return;
        }
        let (blanks, word) = (self.blanks.width(), self.word.width());
        if self.column > 0 && self.column + blanks + word > self.width {
            out.push('\n');
            out.push_str(&" ".repeat(self.indent));
            self.column = self.indent;
        } else {
            if self.column == 0 && blanks * 2 <= self.width {
                self.indent = blanks;
            }
            out.push_str(&self.blanks);
            self.column += blanks;
        }
        out.push_str(&self.word);
        self.column += word;
        if self.column > self.width {
            // The terminal breaks a word that is wider than a line.
            self.column = (self.column - 1) % self.width + 1;
        }
        self.word.clear();
        self.blanks.clear();
    }
}

/// The text on one line of at most this many columns, escaped; a cut text ends with `…`.
pub fn one_line(text: &str, columns: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    let line = escape(&line);
    if line.width() <= columns {
        return line.into_owned();
    }
    let (mut cut, mut used) = (String::new(), 1);
    for c in line.chars() {
        used += c.width().unwrap_or(0);
        if used > columns {
            break;
        }
        cut.push(c);
    }
    cut.push('…');
    cut
}

/// The first line of a text, and how many more there are, in at most this many columns.
pub fn gist(text: &str, columns: usize) -> String {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let first = lines.next().unwrap_or("(nothing)");
    match lines.count() {
        0 => one_line(first, columns),
        more => {
            let more = format!(" (+{more} line{})", if more == 1 { "" } else { "s" });
            one_line(first, columns.saturating_sub(more.len())) + &more
        }
    }
}

/// The first line of a long result, and how long the whole is, in at most this many columns.
pub fn gist_of_long(text: &str, lines: u64, bytes: u64, columns: usize) -> String {
    let whole = format!(" ({}, {})", counted(lines, "line"), size(bytes));
    let first = first_line(text).unwrap_or("(nothing)");
    one_line(first, columns.saturating_sub(whole.len())) + &whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(width: usize, parts: &[&str]) -> String {
        let mut flow = Flow::new(width);
        let text: String = parts.iter().map(|part| flow.push(part)).collect();
        text + &flow.end()
    }

    #[test]
    fn lines_are_broken_between_words_however_the_parts_are_cut() {
        let text = "The quick brown fox\njumps  over\n\n  the dog";
        let want = "The quick\nbrown fox\njumps\nover\n\n  the dog\n";
        assert_eq!(whole(9, &[text]), want);
        let parts: Vec<String> = text.chars().map(String::from).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        assert_eq!(whole(9, &parts), want);
    }

    #[test]
    fn a_line_that_is_set_in_stays_so_where_it_is_broken() {
        let text = "- one\n  two three four\nfive six seven";
        let want = "- one\n  two\n  three\n  four\nfive six\nseven\n";
        assert_eq!(whole(9, &[text]), want);
        assert_eq!(whole(9, &["       ab cd"]), "       ab\ncd\n");
    }

    #[test]
    fn a_word_is_written_as_soon_as_it_is_whole() {
        let mut flow = Flow::new(80);
        assert_eq!(flow.push("one tw"), "one");
        assert_eq!(flow.push("o "), " two");
        assert_eq!(flow.push("石標"), " 石標");
        assert_eq!(flow.push(" last"), "");
        assert_eq!(flow.end(), " last\n");
        assert_eq!(flow.end(), "");
    }

    #[test]
    fn other_output_comes_between_words() {
        let mut flow = Flow::new(80);
        assert_eq!(flow.push("one tw"), "one");
        assert_eq!((flow.interrupt(), flow.interrupt()), ("\n", ""));
        assert_eq!(flow.push("o three"), "two");
        assert_eq!(flow.end(), " three\n");
    }

    #[test]
    fn wide_characters_and_long_words_keep_to_the_width() {
        assert_eq!(whole(4, &["石標石標"]), "石標\n石標\n");
        assert_eq!(whole(4, &["abcdefgh i"]), "abcdefgh\ni\n");
    }

    #[test]
    fn nothing_drives_the_terminal() {
        assert_eq!(whole(80, &["a\u{1b}[2J\r\nb"]), "a\\u{1b}[2J\nb\n");
    }

    #[test]
    fn the_gist_of_a_text_counts_its_other_lines() {
        assert_eq!(gist("", 20), "(nothing)");
        assert_eq!(gist("\n one\ntwo\n", 20), "one (+1 line)");
        assert_eq!(gist("abcdefghij\nb\n\nc", 16), "abcd… (+2 lines)");
    }

    #[test]
    fn the_gist_of_a_long_result_has_the_size_of_the_whole() {
        let text = "\nabcdefghij\nb\n[the result is too long]";
        let gist = |columns| gist_of_long(text, 80_000, 5_452_595, columns);
        assert_eq!(gist(40), "abcdefghij (80000 lines, 5.1 MiB)");
        assert_eq!(gist(28), "abcd… (80000 lines, 5.1 MiB)");
    }

    #[test]
    fn one_line_is_cut_by_columns() {
        assert_eq!(one_line("a\n  b", 10), "a b");
        assert_eq!(one_line("石標石標", 5), "石標…");
        assert_eq!(one_line("abcdef", 4), "abc…");
        assert_eq!(one_line("a\u{1b}b", 20), "a\\u{1b}b");
    }
}
