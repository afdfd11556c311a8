//! Lines of a text that comes in parts.

/// Most bytes of a line. A longer one counts as several, so that a text without line breaks can be read in
/// pieces, too.
pub const MAX_LINE: usize = 4096;

/// Takes a text apart into lines, whatever parts it comes in. Memory holds one line.
///
/// A line ends with `\n` or `\r\n`, or after [`MAX_LINE`] bytes, between two characters. A last line without
/// an end counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lines {
    /// Lines that have ended.
    ended: u64,
    /// What there is of the next one.
    open: String,
}

impl Lines {
    /// Lines so far.
    pub fn count(&self) -> u64 {
        self.ended + u64::from(!self.open.is_empty())
    }

    /// Takes the next part, and passes on the lines that end in it: number from 1, and text without its end.
    pub fn take(&mut self, part: &str, mut each: impl FnMut(u64, &str)) {
        let mut rest = part;
        while !rest.is_empty() {
            let room = MAX_LINE.saturating_sub(self.open.len());
            let (window, after) = rest.split_at(rest.floor_char_boundary(room));
            if let Some((line, _)) = window.split_once('\n') {
                self.end(line, true, &mut each);
                rest = &rest[line.len() + 1..];
            } else if after.is_empty() {
                self.open.push_str(window);
                rest = after;
            } else {
                let next = after.strip_prefix('\n');
                self.end(window, next.is_some(), &mut each);
                rest = next.unwrap_or(after);
            }
        }
    }

    /// Passes on the last line if it has no end. The text is over.
    pub fn finish(&mut self, mut each: impl FnMut(u64, &str)) {
        if !self.open.is_empty() {
            self.end("", false, &mut each);
        }
    }

    fn end(&mut self, piece: &str, is_break: bool, each: &mut impl FnMut(u64, &str)) {
        self.ended += 1;
        if self.open.is_empty() {
            return each(self.ended, without_return(piece, is_break));
        }
        self.open.push_str(piece);
        each(self.ended, without_return(&self.open, is_break));
        self.open.clear();
    }
}

/// Without the first half of a line end of two characters.
fn without_return(line: &str, is_break: bool) -> &str {
    let stripped = line.strip_suffix('\r').filter(|_| is_break);
    stripped.unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of a text that comes in parts of so many bytes, or the next character more.
    fn lines(text: &str, most: usize) -> Vec<String> {
        let (mut lines, mut found) = (Lines::default(), Vec::new());
        let mut rest = text;
        while !rest.is_empty() {
            let (part, after) = rest.split_at(rest.ceil_char_boundary(most.min(rest.len())));
            lines.take(part, |_, line| found.push(line.to_owned()));
            rest = after;
        }
        let count = lines.count();
        lines.finish(|number, line| {
            assert_eq!(number, count);
            found.push(line.to_owned());
        });
        assert_eq!(found.len() as u64, count);
        found
    }

    #[test]
    fn lines_are_the_same_whatever_the_parts_are() {
        let wide = "é".repeat(MAX_LINE);
        let full = "x".repeat(MAX_LINE);
        let giant = "{\"a\":1},".repeat(10_000);
        let edge = format!("{}\r\nb", "x".repeat(MAX_LINE - 1));
        let texts = [
            "",
            "a",
            "a\n",
            "a\nb",
            "\n\n",
            "a\r\nb\r\n",
            "a\rb",
            "\r\n",
            &wide,
            &full,
            &giant,
            &edge,
        ];
        for text in texts {
            let whole = lines(text, usize::MAX);
            for most in [1, 2, 3, 7, 4095, 4096, 4097] {
                assert_eq!(lines(text, most), whole, "{} bytes, {most}", text.len());
            }
        }
    }

    #[test]
    fn a_line_ends_at_a_break_or_where_it_is_too_long() {
        let cases: [(&str, &[&str]); 6] = [
            ("", &[]),
            ("a", &["a"]),
            ("a\n", &["a"]),
            ("\n\n", &["", ""]),
            ("a\r\nb\rc\r\n", &["a", "b\rc"]),
            ("é\n🦀", &["é", "🦀"]),
        ];
        for (text, expected) in cases {
            assert_eq!(lines(text, usize::MAX), expected, "{text:?}");
        }
        let full = "x".repeat(MAX_LINE);
        assert_eq!(lines(&format!("{full}\ny"), 100), [full.as_str(), "y"]);
        assert_eq!(lines(&format!("{full}y"), 100), [full.as_str(), "y"]);
        // A character does not fit: it begins the next line.
        let odd = format!("{}é", "x".repeat(MAX_LINE - 1));
        assert_eq!(
            lines(&odd, usize::MAX),
            ["x".repeat(MAX_LINE - 1).as_str(), "é"]
        );
        let giant = lines(&"🦀".repeat(MAX_LINE), usize::MAX);
        assert_eq!(giant.len(), 4);
    }
}
