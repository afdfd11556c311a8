//! A line of Markdown as words and code.

/// A part of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    Words(String),
    Code(String),
}

/// Takes a line apart. Code stands between equal numbers of backticks; one space on either side is
/// no part of it.
pub(crate) fn parts(line: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = line;
    while let Some(start) = rest.find('`') {
        let ticks = rest[start..].chars().take_while(|c| *c == '`').count();
        let mark = "`".repeat(ticks);
        let Some(length) = end_of_code(&rest[start + ticks..], &mark) else {
            break;
        };
        let code = &rest[start + ticks..start + ticks + length];
        let inner = code
            .strip_prefix(' ')
            .and_then(|code| code.strip_suffix(' '));
        parts.push(Part::Words(rest[..start].to_owned()));
        parts.push(Part::Code(inner.unwrap_or(code).to_owned()));
        rest = &rest[start + ticks + length + ticks..];
    }
    parts.push(Part::Words(rest.to_owned()));
    parts
}

/// Where a run of exactly as many backticks begins.
fn end_of_code(text: &str, mark: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        let found = at + text[at..].find('`')?;
        let ticks = text[found..].chars().take_while(|c| *c == '`').count();
        if ticks == mark.len() {
            return Some(found);
        }
        at = found + ticks;
    }
}

/// The words of a line with `{}` for each code, and the codes.
pub(crate) fn shape(line: &str) -> (String, Vec<String>) {
    let mut codes = Vec::new();
    let mut words = String::new();
    for part in parts(line) {
        match part {
            Part::Words(text) => words.push_str(&text),
            Part::Code(code) => {
                words.push_str("{}");
                codes.push(code);
            }
        }
    }
    (words, codes)
}

/// The words with `#` for each number, and the numbers.
pub(crate) fn numbers(words: &str) -> (String, Vec<usize>) {
    let mut found = Vec::new();
    let mut shape = String::new();
    let mut digits = String::new();
    for c in words.chars().chain(['\0']) {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        if !digits.is_empty() {
            found.push(digits.parse().expect("a number"));
            digits.clear();
            shape.push('#');
        }
        if c != '\0' {
            shape.push(c);
        }
    }
    (shape, found)
}
