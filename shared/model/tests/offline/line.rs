//! The lines of a report, taken apart.

/// A line of a report: its shape with `#` for numbers and `{}` for code, and what stood there.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) shape: String,
    pub(crate) numbers: Vec<u64>,
    pub(crate) codes: Vec<String>,
}

impl Line {
    /// A line of which only the code counts.
    pub(crate) fn of(codes: &[String]) -> Self {
        Self {
            shape: String::new(),
            numbers: Vec::new(),
            codes: codes.to_vec(),
        }
    }
}

/// Takes a line apart.
pub(crate) fn read(text: &str) -> Line {
    let chars: Vec<char> = text.chars().collect();
    let (mut shape, mut numbers, mut codes) = (String::new(), vec![], vec![]);
    let mut at = 0;
    while at < chars.len() {
        let fence = chars[at..].iter().take_while(|c| **c == '`').count();
        let digits = chars[at..]
            .iter()
            .take_while(|c| c.is_ascii_digit())
            .count();
        if fence > 0 {
            let from = at + fence;
            let is_end = |end: &usize| {
                chars[*end..].iter().take_while(|c| **c == '`').count() == fence
                    && chars[*end - 1] != '`'
            };
            let end = (from..chars.len()).find(is_end);
            let end = end.unwrap_or_else(|| panic!("code without an end: {text}"));
            let code: String = chars[from..end].iter().collect();
            codes.push(if fence > 1 {
                code[1..code.len() - 1].to_owned()
            } else {
                code
            });
            shape += "{}";
            at = end + fence;
        } else if digits > 0 {
            let number: String = chars[at..at + digits].iter().collect();
            numbers.push(number.parse().unwrap());
            shape += "#";
            at += digits;
        } else {
            shape.push(chars[at]);
            at += 1;
        }
    }
    for noun in ["file", "line", "byte", "heading", "definition"] {
        shape = shape.replace(&format!(" {noun}s in lines"), &format!(" {noun} in lines"));
        for (plural, end) in [
            (" in", " in"),
            (",", ","),
            (":", ":"),
            (" with", " with"),
            (" (", " ("),
        ] {
            shape = shape.replace(&format!("{noun}s{plural}"), &format!("{noun}{end}"));
        }
    }
    Line {
        shape,
        numbers,
        codes,
    }
}
