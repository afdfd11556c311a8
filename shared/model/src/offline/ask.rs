//! What a goal, a step or a question asks for: where to look, and for which words.

use super::words::{FOLDERS, has, is_file_name, is_stop};

/// Most words that one request searches for.
const MAX_TERMS: usize = 4;
/// A longer word or phrase is not searched for.
const MAX_TERM_CHARS: usize = 200;
/// A text may be as long as a book, and what it asks for stands at its beginning.
const MAX_BYTES: usize = 4096;
/// Most characters of the name of a report. With four bytes each they fit into the name of a file.
const MAX_NAME_CHARS: usize = 60;
/// The folder that tools write to.
const OUTPUT: &str = "cairn-out/";

/// A request as the rules understand it.
#[derive(Debug, Clone, Default)]
pub(super) struct Ask {
    /// The folder or file to look in; empty means the workspace.
    pub(super) path: String,
    /// The words to search for.
    pub(super) terms: Vec<String>,
    /// The file to write.
    pub(super) output: Option<String>,
}

impl Ask {
    /// Reads a text. If it has phrases in quotes, these are searched for, and no other words.
    pub(super) fn parse(text: &str) -> Self {
        let tokens = tokens(&text[..text.floor_char_boundary(MAX_BYTES)]);
        let (mut ask, mut words, mut quoted) = (Self::default(), Vec::new(), Vec::new());
        let (mut before, mut writes) = (String::new(), false);
        for (at, (is_quoted, word)) in tokens.iter().enumerate() {
            if *is_quoted {
                match std::mem::take(&mut before).as_str() {
                    "under" => ask.path.clone_from(word),
                    _ => quoted.push(word.clone()),
                }
                continue;
            }
            let lower = word.to_lowercase();
            let next = tokens.get(at + 1).map(|(_, next)| next.to_lowercase());
            let next = next.unwrap_or_default();
            writes |= has("write save store put report", &lower);
            let is_file = is_file_name(&lower);
            if word.starts_with(OUTPUT) && word.len() > OUTPUT.len() {
                ask.output = Some(word.clone());
            } else if is_file && writes && has("to into as write", &before) {
                ask.output = Some(format!("{OUTPUT}{word}"));
            } else if is_file || names_folder(&lower, &before, &next) {
                ask.path = word.trim_end_matches('/').to_owned();
            } else if is_term(word) && !is_stop(&lower, &next) {
                words.push(singular(word).to_owned());
            }
            if !has("the a my our your file folder", &lower) {
                before = lower;
            }
        }
        ask.add_terms(if quoted.is_empty() { words } else { quoted });
        ask
    }

    /// Adds what another request asks for. Its folder and its file take the place of these.
    pub(super) fn add(&mut self, other: Self) {
        self.add_terms(other.terms);
        self.output = other.output.or(self.output.take());
        if !other.path.is_empty() {
            self.path = other.path;
        }
    }

    /// Adds words: each once, and as many as are allowed.
    pub(super) fn add_terms(&mut self, terms: Vec<String>) {
        for term in terms {
            if self.terms.len() < MAX_TERMS && !self.has_term(&term) {
                self.terms.push(term);
            }
        }
    }

    pub(super) fn has_term(&self, term: &str) -> bool {
        let mut terms = self.terms.iter();
        terms.any(|known| known.to_lowercase() == term.to_lowercase())
    }

    /// The file to write: the one that is asked for, or one that is named after what is looked for, so that
    /// runs beside each other write files of their own.
    pub(super) fn report(&self) -> String {
        let looked_for = [&self.path].into_iter().chain(&self.terms);
        let words = looked_for.flat_map(|text| text.split(|c: char| !c.is_alphanumeric()));
        let words = words.filter(|word| !word.is_empty()).map(str::to_lowercase);
        let name = ["report".to_owned()].into_iter().chain(words);
        let name = name.collect::<Vec<_>>().join("-");
        let name: String = name.chars().take(MAX_NAME_CHARS).collect();
        let own = || format!("{OUTPUT}{name}.md");
        self.output.clone().unwrap_or_else(own)
    }

    /// The folder or file to look in, for a tool.
    pub(super) fn tool_path(&self) -> &str {
        if self.path.is_empty() {
            "."
        } else {
            &self.path
        }
    }

    /// Where to look, as [`Ask::parse`] reads it.
    pub(super) fn place(&self) -> String {
        match self.path.as_str() {
            "" => "in the workspace".to_owned(),
            path => format!("under {}", quote(path)),
        }
    }

    /// The words to search for, in quotes.
    pub(super) fn quoted_terms(&self) -> String {
        let terms: Vec<String> = self.terms.iter().map(|term| quote(term)).collect();
        terms.join(", ")
    }
}

/// `text` in quotes, which it does not have itself.
pub(super) fn quote(text: &str) -> String {
    format!("\"{text}\"")
}

fn names_folder(word: &str, before: &str, next: &str) -> bool {
    let is_known = has(FOLDERS, word);
    let can_be = is_known || (!is_stop(word, "") && !has("load pressure hood", word));
    let is_named = has("folder directory", next) || has("under below inside within", before);
    let is_used = has("in from search only of", before) && (word.contains('/') || is_known);
    can_be && (is_named || is_used || word.ends_with('/'))
}

fn is_term(word: &str) -> bool {
    let is_number = word.chars().all(|c| c.is_numeric() || c == '.');
    let chars = word.chars().count();
    (2..=MAX_TERM_CHARS).contains(&chars) && !(is_number && chars < 3)
}

/// A plural without its ending: a search for the rest finds both.
fn singular(word: &str) -> &str {
    let is_plain = word.len() > 4 && word.bytes().all(|byte| byte.is_ascii_lowercase());
    let stem = word.strip_suffix('s').filter(|_| is_plain);
    let stem = stem.filter(|stem| !stem.ends_with(['s', 'u', 'i']));
    stem.unwrap_or(word)
}

/// The words of a text and its phrases in quotes, and for each whether it is a phrase.
fn tokens(text: &str) -> Vec<(bool, String)> {
    let text = text.replace(['`', '“', '”', '「', '」', '『', '』'], "\"");
    let (mut tokens, last) = (Vec::new(), text.matches('"').count());
    for (at, part) in text.split('"').enumerate() {
        let phrase = part.trim();
        let is_phrase = (1..=MAX_TERM_CHARS).contains(&phrase.chars().count());
        // A phrase ends with a quote, on the same line.
        if is_phrase && at % 2 == 1 && at < last && !phrase.contains('\n') {
            tokens.push((true, phrase.to_owned()));
            continue;
        }
        let is_part = |c: char| c.is_alphanumeric() || "_./*+#-:@'".contains(c);
        for word in part
            .split(|c| !is_part(c))
            .filter(|word| word.contains(char::is_alphanumeric))
        {
            let word = word.trim_matches(['\'', ':', '-']).trim_end_matches('.');
            tokens.push((false, word.strip_suffix("'s").unwrap_or(word).to_owned()));
        }
    }
    tokens
}
