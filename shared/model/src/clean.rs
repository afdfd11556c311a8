//! Making a provider's words fit for people and logs.

use secrecy::{ExposeSecret, SecretString};

/// Longest text of a provider that an error shows, in characters.
const MAX_CHARS: usize = 500;
/// What is shorter is a placeholder (`none`, `EMPTY`), not a secret; replacing it would maim texts.
const SHORTEST_SECRET: usize = 8;
const REPLACEMENT: &str = "[secret]";

/// Cleans texts of the provider that was given these secrets.
#[derive(Debug, Default)]
pub(crate) struct Cleaner {
    secrets: Vec<SecretString>,
}

impl Cleaner {
    pub(crate) fn new(secrets: impl IntoIterator<Item = SecretString>) -> Self {
        let long = |secret: &SecretString| secret.expose_secret().len() >= SHORTEST_SECRET;
        let mut secrets: Vec<_> = secrets.into_iter().filter(long).collect();
        // The longest first, so that no rest of it stays when it contains another.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.expose_secret().len()));
        Self { secrets }
    }

    /// The text on one line, without control characters and secrets, cut.
    ///
    /// In this order: a secret hidden behind control characters, or reaching over the cut, is
    /// found all the same.
    pub(crate) fn clean(&self, text: &str) -> String {
        let mut text: String = text.chars().filter_map(printable).collect();
        for secret in &self.secrets {
            text = text.replace(secret.expose_secret(), REPLACEMENT);
        }
        let text = text.trim();
        match text.char_indices().nth(MAX_CHARS) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text.to_owned(),
        }
    }
}

/// Line ends and tabs become spaces; other control characters, and the invisible ones that change
/// how their neighbours are shown, are dropped.
fn printable(character: char) -> Option<char> {
    match character {
        '\n' | '\r' | '\t' => Some(' '),
        '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' => None,
        '\u{2060}'..='\u{206f}' | '\u{feff}' => None,
        control if control.is_control() => None,
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaner() -> Cleaner {
        Cleaner::new(["sk-canary", "sk-canary-long", "none"].map(SecretString::from))
    }

    #[test]
    fn secrets_are_replaced_even_behind_control_characters_and_over_the_cut() {
        let clean = |text: &str| cleaner().clean(text);
        assert_eq!(clean("key sk-canary-long!"), "key [secret]!");
        assert_eq!(
            clean("sk-ca\u{0}nary and sk-\u{200b}canary"),
            "[secret] and [secret]"
        );
        let over_the_cut = clean(&format!("{}sk-canary", "x".repeat(MAX_CHARS - 4)));
        assert!(!over_the_cut.contains("sk-c"), "{over_the_cut}");
        assert_eq!(clean("none of them"), "none of them");
        assert!(!format!("{:?}", cleaner()).contains("canary"));
    }

    #[test]
    fn texts_are_cut_at_characters_and_lose_what_a_terminal_would_obey() {
        let clean = |text: &str| cleaner().clean(text);
        assert_eq!(
            clean("a\u{1b}[31mred\u{7}\r\nline\t\u{202e}x "),
            "a[31mred  line x"
        );
        let long = clean(&"é".repeat(MAX_CHARS + 1));
        assert_eq!(long.chars().count(), MAX_CHARS + 1);
        assert!(long.ends_with('…'));
        assert_eq!(clean(&"é".repeat(MAX_CHARS)).chars().count(), MAX_CHARS);
    }
}
