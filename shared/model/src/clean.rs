//! Removing secrets from a provider's texts: from errors, for people and logs, and from replies.

use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

/// Longest text of a provider that an error shows, in characters.
const MAX_CHARS: usize = 500;
/// What is shorter is a placeholder (`none`, `EMPTY`), not a secret; replacing it would maim texts.
const SHORTEST_SECRET: usize = 8;
const REPLACEMENT: &str = "[secret]";

/// Cleans texts of the provider that was given these secrets.
#[derive(Debug, Default)]
pub(crate) struct Cleaner {
    /// The longest first: the rest of a longer secret must not stay when it contains a shorter one.
    secrets: Vec<SecretString>,
}

/// The end of a text that comes in pieces, as long as it may be the beginning of a secret.
#[derive(Default)]
pub(crate) struct HeldBack(String);

impl Cleaner {
    pub(crate) fn new(secrets: impl IntoIterator<Item = SecretString>) -> Self {
        let long = |secret: &SecretString| secret.expose_secret().len() >= SHORTEST_SECRET;
        let secrets = secrets.into_iter().flat_map(|secret| spellings(&secret));
        let mut secrets: Vec<_> = secrets.filter(long).collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.expose_secret().len()));
        Self { secrets }
    }

    /// The text on one line, without control characters and secrets, cut.
    ///
    /// In this order: a secret hidden behind control characters, or reaching over the cut, is
    /// found all the same.
    pub(crate) fn clean(&self, text: &str) -> String {
        let text = self.redact(text.chars().filter_map(printable).collect());
        let text = text.trim();
        match text.char_indices().nth(MAX_CHARS) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text.to_owned(),
        }
    }

    /// The text with each secret replaced; the same text if it has none.
    pub(crate) fn redact(&self, text: String) -> String {
        self.replace(text, false).0
    }

    /// Redacts all texts of a JSON value, names of fields included. Not its JSON text: there a
    /// server may write any character of a secret as an escape.
    pub(crate) fn redact_json(&self, json: &mut Value) {
        match json {
            Value::String(text) => *text = self.redact(std::mem::take(text)),
            Value::Array(list) => list.iter_mut().for_each(|value| self.redact_json(value)),
            Value::Object(fields) => {
                let old = std::mem::take(fields);
                fields.extend(old.into_iter().map(|(name, mut value)| {
                    self.redact_json(&mut value);
                    (self.redact(name), value)
                }));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// As [`redact`](Self::redact), for the next piece of a text. A secret that is cut between two
    /// pieces is found, because an end that may be the beginning of one waits for the next piece.
    pub(crate) fn redact_piece(&self, held: &mut HeldBack, piece: String) -> String {
        let mut text = std::mem::take(&mut held.0);
        if text.is_empty() {
            text = piece;
        } else {
            text.push_str(&piece);
        }
        let (text, rest) = self.replace(text, true);
        held.0 = rest;
        text
    }

    /// The rest of a text of which no further piece comes.
    pub(crate) fn redact_rest(&self, held: &mut HeldBack) -> String {
        self.redact(std::mem::take(&mut held.0))
    }

    /// Replaces secrets. If more text follows, an end that may begin a secret is returned apart.
    fn replace(&self, mut text: String, more_follows: bool) -> (String, String) {
        let mut clean = String::new();
        let (mut copied, mut at) = (0, 0);
        while let Some(step) = self.next_start(&text.as_bytes()[at..]) {
            at += step;
            match self.secret_at(&text.as_bytes()[at..], more_follows) {
                Found::Secret(length) => {
                    clean.push_str(&text[copied..at]);
                    clean.push_str(REPLACEMENT);
                    at += length;
                    copied = at;
                }
                Found::Beginning => {
                    let rest = text.split_off(at);
                    clean.push_str(&text[copied..]);
                    return (clean, rest);
                }
                Found::Nothing => at += 1,
            }
        }
        if copied == 0 {
            return (text, String::new());
        }
        clean.push_str(&text[copied..]);
        (clean, String::new())
    }

    /// Where a secret may begin next. That is never inside a character: no first byte of one occurs
    /// there.
    fn next_start(&self, text: &[u8]) -> Option<usize> {
        let first = |secret: &SecretString| secret.expose_secret().as_bytes().first().copied();
        let starts = |byte: &u8| {
            self.secrets
                .iter()
                .any(|secret| first(secret) == Some(*byte))
        };
        text.iter().position(starts)
    }

    fn secret_at(&self, text: &[u8], more_follows: bool) -> Found {
        for secret in &self.secrets {
            let secret = secret.expose_secret().as_bytes();
            if text.starts_with(secret) {
                return Found::Secret(secret.len());
            }
            if more_follows && secret.starts_with(text) {
                return Found::Beginning;
            }
        }
        Found::Nothing
    }
}

enum Found {
    /// A secret of so many bytes.
    Secret(usize),
    /// The text ends before it is known whether this is a secret.
    Beginning,
    Nothing,
}

/// The ways in which a server may write a secret: as it is, without the scheme before it
/// (`Bearer …`), and as JSON within the text of a tool call's arguments.
fn spellings(secret: &SecretString) -> Vec<SecretString> {
    let secret = secret.expose_secret();
    let mut all = vec![secret.to_owned()];
    if let Some((_, token)) = secret.split_once(' ').filter(|(_, it)| !it.contains(' ')) {
        all.push(token.to_owned());
    }
    for plain in all.clone() {
        let json = plain.replace('\\', "\\\\").replace('"', "\\\"");
        let slashes = json.replace('/', "\\/");
        all.extend([json, slashes]);
    }
    all.sort();
    all.dedup();
    all.into_iter().map(SecretString::from).collect()
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

    /// However a reply is cut into pieces, it is the same reply, and no piece has a part of a secret.
    #[test]
    fn a_secret_that_is_cut_between_pieces_is_replaced() {
        let cleaner = Cleaner::new(
            [
                "sk-canary",
                "sk-canary-long",
                "Bearer tok/canary\"1",
                "数据密钥一二",
            ]
            .map(SecretString::from),
        );
        let cases = [
            ("sk-canary", "[secret]"),
            ("sk-canary-lon", "[secret]-lon"),
            (
                "say sk-canary-long, sk-canarysk-canary.",
                "say [secret], [secret][secret].",
            ),
            ("sk-sk-sk-canary sk-can", "sk-sk-[secret] sk-can"),
            (
                "Bearer tok/canary\"1; tok/canary\"1;",
                "[secret]; [secret];",
            ),
            (
                r#"{"a":"tok\/canary\"1"} {"a":"tok/canary\"1"}"#,
                r#"{"a":"[secret]"} {"a":"[secret]"}"#,
            ),
            ("die 数据密钥一二 und 数据", "die [secret] und 数据"),
            ("nothing here", "nothing here"),
            ("", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(cleaner.redact(text.to_owned()), expected);
            let chars: Vec<char> = text.chars().collect();
            for length in 1..=chars.len() {
                let mut held = HeldBack::default();
                let mut seen = String::new();
                for piece in chars.chunks(length) {
                    seen += &cleaner.redact_piece(&mut held, piece.iter().collect());
                    let is_begun = expected.starts_with(&seen);
                    assert!(is_begun, "{seen:?} is no beginning of {expected:?}");
                }
                seen += &cleaner.redact_rest(&mut held);
                assert_eq!(seen, expected, "in pieces of {length}");
            }
        }
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
