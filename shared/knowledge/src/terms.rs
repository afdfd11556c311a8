//! The terms of a text: what a query and an entry are compared by.

mod pairs;
mod words;

use std::borrow::Cow;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Longer words are cut, and longer identifiers have only their parts.
const LONGEST: usize = 64;

/// How much a single character of a script without spaces counts. Pairs of characters are nearer to words.
const CHARACTER: f64 = 0.3;

/// Gives `take` the terms of a text, each as often as it stands there.
pub(crate) fn each(text: &str, mut take: impl FnMut(&str)) {
    let characters = plain(text);
    let mut at = 0;
    while let Some(first) = characters.get(at) {
        let rest = &characters[at..];
        at += match Class::of(*first) {
            Class::Word => words::take(rest, &mut take),
            Class::Spaceless => pairs::take(rest, &mut take),
            Class::Other => 1,
        };
    }
}

/// The different terms of a text, in the order in which they first stand there.
pub(crate) fn distinct(text: &str) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    let mut terms = Vec::new();
    each(text, |term| {
        if seen.insert(term.to_owned()) {
            terms.push(term.to_owned());
        }
    });
    terms
}

/// Whether a text has a term, and is not only stop words and signs.
pub fn has_terms(text: &str) -> bool {
    let mut has_terms = false;
    each(text, |_| has_terms = true);
    has_terms
}

/// How much a term counts beside others.
pub(crate) fn weight(term: &str) -> f64 {
    let mut characters = term.chars();
    match (characters.next(), characters.next()) {
        (Some(one), None) if Class::of(one) == Class::Spaceless => CHARACTER,
        _ => 1.0,
    }
}

/// Text without differences of case and form: two tags are the same if this is.
pub(crate) fn fold(text: &str) -> String {
    lower(&plain(text))
}

/// Characters in compatible form (NFKC), without those that only change how others look.
fn plain(text: &str) -> Vec<char> {
    if text.is_ascii() {
        return text.chars().collect();
    }
    text.nfkc().filter(|&one| !is_invisible(one)).collect()
}

/// Accents that no character has in one, selectors of forms, joiners.
fn is_invisible(one: char) -> bool {
    let joins = matches!(
        one,
        '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}'
    );
    joins || (is_combining_mark(one) && !one.is_alphabetic())
}

fn lower(characters: &[char]) -> String {
    (characters.iter().copied())
        .flat_map(char::to_lowercase)
        .collect()
}

/// Gives `take` a word in lower case, by its stem.
fn take_word(word: &str, take: &mut impl FnMut(&str)) {
    take(&stem(&word[..word.floor_char_boundary(LONGEST)]));
}

/// English words without their endings, others as they are.
fn stem(word: &str) -> Cow<'_, str> {
    if word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        words::stem(word)
    } else {
        Cow::Borrowed(word)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Letters and digits of scripts that put spaces between words.
    Word,
    /// Letters of other scripts, and of Korean, whose words have too many endings.
    Spaceless,
    Other,
}

impl Class {
    fn of(one: char) -> Self {
        match one {
            _ if one.is_ascii_alphanumeric() => Self::Word,
            _ if one.is_ascii() || !one.is_alphanumeric() => Self::Other,
            // Thai and Lao, Myanmar, Khmer.
            '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
            // Signs of repetition, kana, bopomofo, Hangul jamo, Han.
            | '\u{1100}'..='\u{11ff}' | '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{9fff}'
            | '\u{a960}'..='\u{a97f}' | '\u{ac00}'..='\u{d7ff}' | '\u{f900}'..='\u{faff}'
            | '\u{20000}'..='\u{3ffff}' => Self::Spaceless,
            _ => Self::Word,
        }
    }
}

#[cfg(test)]
mod tests;
