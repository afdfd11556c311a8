//! Words and identifiers: every word, and an identifier also as a whole.

use super::{Class, LONGEST, lower, take_word};
use crate::stop_words::is_english;
use snowball_stemmers_rs::{Algorithm, Stemmer};
use std::borrow::Cow;
use std::sync::LazyLock;

static ENGLISH: LazyLock<Stemmer> = LazyLock::new(|| Stemmer::create(Algorithm::English));

/// An English word in lower case without its endings.
pub(super) fn stem(word: &str) -> Cow<'_, str> {
    ENGLISH.stem(word)
}

/// Takes the identifier that the characters begin with. Returns its length, at least 1.
///
/// Its whole is without the signs between letters, so that "post-mortem" is found by "postmortem" and `max_items` by
/// `maxItems`. Signs between digits stay: 3.12 is not 312.
pub(super) fn take(characters: &[char], take: &mut impl FnMut(&str)) -> usize {
    let mut whole = String::new();
    let (mut parts, mut others) = (0, 0);
    let mut at = 0;
    loop {
        let word = &characters[at..at + word_length(&characters[at..])];
        for part in humps(word) {
            let part = lower(part);
            parts += 1;
            if !is_english(&part) {
                others += 1;
                take_word(&part, take);
            }
            if whole.len() <= LONGEST {
                whole.push_str(&part);
            }
        }
        at += word.len();
        let Some(joint) = joint(&characters[at - 1..]) else {
            break;
        };
        whole.extend(joint);
        at += 1;
    }
    if parts > 1 && others > 0 && whole.len() <= LONGEST {
        take_word(&whole, take);
    }
    at + contraction(&characters[at..])
}

fn word_length(characters: &[char]) -> usize {
    (characters.iter())
        .take_while(|&&one| Class::of(one) == Class::Word)
        .count()
}

/// Whether a sign joins the first character and the third, and what of it is kept.
fn joint(characters: &[char]) -> Option<Option<char>> {
    let &[before, sign, after, ..] = characters else {
        return None;
    };
    let joins = matches!(sign, '_' | '-' | '.' | '/') && Class::of(after) == Class::Word;
    let digits = before.is_numeric() && after.is_numeric();
    joins.then(|| digits.then_some(sign))
}

/// The parts of a word in camel case, such as "Http" and "Server".
fn humps(word: &[char]) -> impl Iterator<Item = &[char]> {
    let mut rest = word;
    std::iter::from_fn(move || {
        let length = (1..rest.len())
            .find(|&at| begins_hump(rest[at - 1], rest[at], rest.get(at + 1)))
            .unwrap_or(rest.len());
        let (hump, others) = rest.split_at(length);
        rest = others;
        (!hump.is_empty()).then_some(hump)
    })
}

fn begins_hump(before: char, one: char, after: Option<&char>) -> bool {
    let upper_again = before.is_uppercase() && after.is_some_and(|next| next.is_lowercase());
    one.is_uppercase() && (before.is_lowercase() || upper_again)
}

/// Length of an apostrophe and the short word after it, such as that of "don't", which says nothing.
fn contraction(characters: &[char]) -> usize {
    match characters {
        ['\'' | '\u{2019}', after @ ..] => match word_length(after) {
            short @ (1 | 2) => 1 + short,
            _ => 0,
        },
        _ => 0,
    }
}
