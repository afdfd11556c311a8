//! Small helpers for sentences and for Markdown.

use super::notes::Quote;
use super::query::Scope;

/// How a sentence writes what is not its own: names, terms, messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// For a terminal.
    Plain,
    /// For the report.
    Markdown,
}

impl Style {
    /// The name of a file, or a tool's message.
    pub(super) fn name(self, text: &str) -> String {
        match self {
            Self::Plain => visible(text),
            Self::Markdown => code(&visible(text)),
        }
    }

    /// A line of a file, word for word, with its place.
    pub(super) fn line(self, path: &str, quote: &Quote) -> String {
        let mark = if quote.cut { " …" } else { "" };
        let text = match (quote.text.as_str(), self) {
            ("", _) => "(white space)".to_owned(),
            (text, Self::Plain) => text.to_owned(),
            (text, Self::Markdown) => code(text),
        };
        let place = self.name(&format!("{path}:{}", quote.at));
        format!("{text}{mark} ({place})")
    }

    /// A term that was searched for.
    pub(super) fn term(self, term: &str) -> String {
        match self {
            Self::Plain => quote(term),
            Self::Markdown => code(&visible(term)),
        }
    }

    /// How a scope is called.
    pub(super) fn place(self, scope: &Scope) -> String {
        let folder = match scope.path.as_str() {
            "." => "in the workspace".to_owned(),
            path => format!("under {}", self.name(path)),
        };
        let only: Vec<String> = scope
            .only
            .iter()
            .map(|pattern| self.name(pattern))
            .collect();
        match only.as_slice() {
            [] => folder,
            only => format!("{folder} (only {})", only.join(", ")),
        }
    }
}

/// Most characters of a line that is quoted.
pub(super) const QUOTE_CHARS: usize = 160;

/// `text` in double quotes, with escapes where they are needed.
pub(super) fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// `1 file`, `2 files`.
pub(super) fn plural(count: u64, noun: &str) -> String {
    if count == 1 {
        format!("1 {noun}")
    } else {
        format!("{count} {noun}s")
    }
}

/// `2 files`, or `at least 2 files` where more may exist.
pub(super) fn counted(at_least: bool, count: u64, noun: &str) -> String {
    let known = if at_least { "at least " } else { "" };
    format!("{known}{}", plural(count, noun))
}

/// `"a"`, `"a" and "b"`, `"a", "b" and "c"`.
pub(super) fn enumerated(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// The sentence with its first letter as a capital.
pub(super) fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => String::new(),
    }
}

/// `text` with every control character as a visible symbol, so that a line of a file cannot steer
/// a terminal or break the layout of the report. Tabs stay.
pub(super) fn visible(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\t' => c,
            '\u{7f}' => '\u{2421}',
            c if u32::from(c) < 0x20 => char::from_u32(0x2400 + u32::from(c)).unwrap_or(c),
            c if c.is_control() => char::REPLACEMENT_CHARACTER,
            c => c,
        })
        .collect()
}

/// One line of at most `chars` characters.
pub(super) fn brief(text: &str, chars: usize) -> String {
    let line = visible(text.trim().lines().next().unwrap_or_default().trim());
    if line.chars().count() <= chars {
        return line;
    }
    let kept: String = line.chars().take(chars).collect();
    format!("{kept}…")
}

/// `text` as Markdown code, whatever characters it holds.
pub(super) fn code(text: &str) -> String {
    let longest = text
        .split(|c| c != '`')
        .map(str::len)
        .max()
        .unwrap_or_default();
    let fence = "`".repeat(longest + 1);
    let pad = if longest > 0 { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

/// Markdown code for a cell of a table.
pub(super) fn cell(text: &str) -> String {
    code(text).replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown() {
        assert_eq!(visible("a\u{1b}[31m\tb\r\u{85}"), "a␛[31m\tb␍\u{fffd}");
        assert_eq!(brief("  one\ntwo", 10), "one");
        assert_eq!(brief("会话记忆", 2), "会话…");
    }

    #[test]
    fn code_holds_backticks() {
        assert_eq!(code("a"), "`a`");
        assert_eq!(code("a ``b` c"), "``` a ``b` c ```");
        assert_eq!(cell("a|b"), "`a\\|b`");
    }
}
