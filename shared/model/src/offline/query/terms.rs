//! What a goal is about: the words to search for.

use crate::offline::vocabulary::{is_stop, is_weak, subjects};
use crate::offline::words::Token;

/// Single characters that are left over between Chinese words.
const PARTICLES: &str = "下里中上内在有是把从对和与的都也就请找用写说讲到个几并或及跟将被给做";

/// Candidates that are looked at; a goal may be as long as a book.
const MAX_CANDIDATES: usize = 100;

/// Characters beyond which a word is no word that anybody searches for.
const MAX_CHARS: usize = 80;

/// Words that ask for words: with one of them even a weak word is a subject.
const ASKING: &str = "mention mentions mentioned search grep contain contains containing about word \
    term phrase";

const HAN_ASKING: [&str; 10] = [
    "提到", "提及", "谈到", "写到", "说到", "讲到", "搜索", "包含", "关于", "涉及",
];

/// How good a candidate is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Quoted,
    /// A name, an identifier, a run of Han characters.
    Special,
    Ordinary,
    /// A word that is a subject only where nothing else is left, and words are asked for.
    Weak,
}

/// The subjects among `tokens` that are not `used` otherwise: quoted phrases, else unusual words
/// before common ones.
pub(super) fn of(tokens: &[Token], used: &[bool]) -> Vec<String> {
    let mut found: Vec<(Rank, usize, String)> = Vec::new();
    let mut sentence_start = true;
    let mut at = 0;
    while at < tokens.len() {
        let mut next = at + 1;
        match &tokens[at] {
            _ if used[at] => {}
            Token::Quoted(phrase) => found.push((Rank::Quoted, at, phrase.clone())),
            Token::Han(run) => {
                let follows = at.checked_sub(1).map(|before| &tokens[before]);
                let follows = matches!(follows, Some(Token::Word(_) | Token::Quoted(_)));
                let subjects = subjects(run, follows).into_iter();
                let ranked =
                    subjects.filter_map(|subject| Some((han_rank(&subject)?, at, subject)));
                found.extend(ranked);
            }
            Token::Word(word) => {
                let end = name_end(tokens, used, at);
                if end > at + 1 {
                    found.push((Rank::Special, at, joined(&tokens[at..end])));
                    next = end;
                } else if let Some(rank) = rank(word, sentence_start) {
                    found.push((rank, at, word.clone()));
                }
            }
            Token::Comma | Token::Stop => {}
        }
        sentence_start = tokens[at] == Token::Stop;
        at = next;
    }
    chosen(tokens, found)
}

fn chosen(tokens: &[Token], mut found: Vec<(Rank, usize, String)>) -> Vec<String> {
    found.sort_by_key(|(rank, at, _)| (*rank, *at));
    let has = |wanted: Rank| found.iter().any(|(rank, _, _)| *rank == wanted);
    let (quoted, special, ordinary) = (has(Rank::Quoted), has(Rank::Special), has(Rank::Ordinary));
    let weak = !ordinary && !special && asks_for_words(tokens);
    let kept = found.into_iter().filter(|(rank, at, _)| match rank {
        Rank::Quoted => true,
        Rank::Special => !quoted,
        // Beside a name, a common word counts only as its equal: "Redis and sqlite".
        Rank::Ordinary => !quoted && (!special || is_listed(tokens, *at)),
        Rank::Weak => !quoted && weak,
    });
    let mut terms: Vec<String> = Vec::new();
    for (rank, _, term) in kept.take(MAX_CANDIDATES) {
        let term = if rank == Rank::Quoted {
            term
        } else {
            singular(&term)
        };
        if !terms
            .iter()
            .any(|known| known.to_lowercase() == term.to_lowercase())
        {
            terms.push(term);
        }
    }
    terms
}

fn asks_for_words(tokens: &[Token]) -> bool {
    tokens.iter().any(|token| {
        let word = token.lower();
        let asked = ASKING.split_whitespace().any(|asking| asking == word);
        asked || HAN_ASKING.iter().any(|asking| token.han().contains(asking))
    })
}

/// Whether the word at `at` is a member of a list: after "and", or before it.
fn is_listed(tokens: &[Token], at: usize) -> bool {
    let joins = |at: Option<usize>| match at.and_then(|at| tokens.get(at)) {
        Some(Token::Comma) => true,
        Some(token) => matches!(
            token.lower().as_str(),
            "and" | "or" | "nor" | "vs" | "versus"
        ),
        None => false,
    };
    joins(at.checked_sub(1)) || joins(Some(at + 1))
}

fn han_rank(subject: &str) -> Option<Rank> {
    match subject.chars().count() {
        1 if PARTICLES.contains(subject) => None,
        1 => Some(Rank::Weak),
        MAX_CHARS.. => None,
        _ if is_weak(subject) => Some(Rank::Weak),
        _ => Some(Rank::Special),
    }
}

fn rank(word: &str, sentence_start: bool) -> Option<Rank> {
    let lower = word.to_lowercase();
    let number = word.chars().all(|c| c.is_numeric() || c == '.');
    if is_stop(&lower)
        || !(2..=MAX_CHARS).contains(&word.chars().count())
        || (number && word.len() < 3)
    {
        return None;
    }
    let tail_is_lower = !word.chars().skip(1).any(char::is_uppercase);
    let capital = word.chars().any(char::is_uppercase) && !(sentence_start && tail_is_lower);
    let sign = word.chars().any(|c| !c.is_alphabetic() && c != '\'');
    if capital || sign {
        return Some(Rank::Special);
    }
    // "How are leases renewed?" is about leases.
    let participle = lower.ends_with("ed") && lower.len() > 4;
    if is_weak(&lower) || participle {
        return Some(Rank::Weak);
    }
    Some(Rank::Ordinary)
}

/// Where a name of several capitalised words that begins at `at` ends.
fn name_end(tokens: &[Token], used: &[bool], at: usize) -> usize {
    let is_part = |index: &usize| match &tokens[*index] {
        Token::Word(word) => {
            let mut chars = word.chars();
            chars.next().is_some_and(char::is_uppercase)
                && chars.next().is_some_and(char::is_lowercase)
                && word.chars().all(char::is_alphabetic)
                && !used[*index]
                && !is_stop(&word.to_lowercase())
        }
        _ => false,
    };
    at + (at..tokens.len()).take(6).take_while(is_part).count()
}

fn joined(tokens: &[Token]) -> String {
    let words = tokens.iter().filter_map(|token| match token {
        Token::Word(word) => Some(word.as_str()),
        _ => None,
    });
    words.collect::<Vec<_>>().join(" ")
}

/// A plural without its ending where that is sure enough: a search for the rest finds both.
fn singular(word: &str) -> String {
    let Some(stem) = word.strip_suffix('s') else {
        return word.to_owned();
    };
    let shouted = stem.len() >= 3 && stem.chars().all(char::is_uppercase);
    let common = stem.len() >= 3 && stem.chars().all(|c| c.is_ascii_lowercase());
    let odd = [
        "s",
        "u",
        "i",
        "ie",
        "xe",
        "che",
        "she",
        "sse",
        "kubernete",
        "postgre",
        "alway",
    ];
    if shouted || (common && !odd.iter().any(|end| stem.ends_with(end))) {
        stem.to_owned()
    } else {
        word.to_owned()
    }
}
