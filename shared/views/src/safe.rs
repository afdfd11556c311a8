//! Untrusted text in terminals and in Markdown: shown, never obeyed.

/// `text` with every character that could steer a terminal or turn the reading order written as
/// `\u{…}`. Line breaks and tabs stay.
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_steering(c) && c != '\n' && c != '\t' {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

/// As [`visible`], on one line: each stretch of white space becomes one blank.
pub fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    visible(&out)
}

/// Text for the middle of a Markdown line: it cannot make emphasis, code, links, images, HTML,
/// headings or list items.
pub fn inline(text: &str) -> String {
    let text = one_line(text);
    let mut out = String::with_capacity(text.len() + 8);
    let mut before = ' ';
    let mut chars = text.chars().peekable();
    let mut is_number = true;
    while let Some(c) = chars.next() {
        let is_inside_word = |next: Option<&char>| {
            before.is_alphanumeric() && next.is_some_and(|next| next.is_alphanumeric())
        };
        let is_special = match c {
            '\\' | '`' | '*' | '[' | ']' | '<' | '>' | '|' | '~' | '&' => true,
            '_' => !is_inside_word(chars.peek()),
            '#' | '+' | '-' | '=' => out.is_empty(),
            '.' | ')' => is_number && !out.is_empty(),
            _ => false,
        };
        if is_special {
            out.push('\\');
        }
        is_number &= c.is_ascii_digit();
        out.push(c);
        before = c;
    }
    out
}

/// Text as a Markdown code span on one line.
pub fn code(text: &str) -> String {
    let text = one_line(text);
    let ticks = "`".repeat(longest_run_of_ticks(&text) + 1);
    if text.is_empty() || text.starts_with('`') || text.ends_with('`') {
        return format!("{ticks} {text} {ticks}");
    }
    format!("{ticks}{text}{ticks}")
}

/// Text as a fenced Markdown block that it cannot end.
pub fn fenced(text: &str) -> String {
    let text = visible(text.trim_end());
    let ticks = "`".repeat((longest_run_of_ticks(&text) + 1).max(3));
    format!("{ticks}text\n{text}\n{ticks}")
}

/// A paragraph: one line is escaped, several are fenced.
pub fn paragraph(text: &str) -> String {
    let text = text.trim();
    if text.contains('\n') {
        fenced(text)
    } else {
        inline(text)
    }
}

fn is_steering(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
        )
        || matches!(c, '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

fn longest_run_of_ticks(text: &str) -> usize {
    let runs = text.split(|c| c != '`').map(str::len);
    runs.max().unwrap_or_default()
}
