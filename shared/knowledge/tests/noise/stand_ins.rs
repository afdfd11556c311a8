//! The words of one page of noise, each in the place of a word of a page of the set.

use super::words::is_pair;
use super::{Language, made_up};
use crate::random::Random;
use crate::set::is_han;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// A word, and whether it is made up.
#[derive(Clone)]
struct StandIn {
    word: Rc<str>,
    made_up: bool,
}

pub(super) struct StandIns<'a> {
    language: &'a Language<'a>,
    random: &'a mut Random,
    chosen: HashMap<String, StandIn>,
    used: HashSet<Rc<str>>,
}

impl<'a> StandIns<'a> {
    pub(super) fn new(language: &'a Language<'a>, random: &'a mut Random) -> Self {
        Self {
            language,
            random,
            chosen: HashMap::new(),
            used: HashSet::new(),
        }
    }

    /// A text like this one.
    pub(super) fn text(&mut self, like: &str) -> String {
        let like: Vec<char> = like.to_lowercase().chars().collect();
        let runs: Vec<&[char]> = like.chunk_by(|a, b| Kind::of(*a) == Kind::of(*b)).collect();
        let mut pieces = self.chinese(&runs).into_iter();
        let (mut wanted, mut written) = (0, 0);
        let mut text = String::new();
        for run in runs {
            match Kind::of(run[0]) {
                Kind::Word => text.push_str(&self.instead(run).word),
                Kind::Other => text.extend(run),
                Kind::Han => {
                    wanted += run.len();
                    while written < wanted
                        && let Some(piece) = pieces.next()
                    {
                        written += piece.len();
                        text.extend(piece);
                    }
                }
            }
        }
        text.extend(pieces.flatten());
        text
    }

    fn instead(&mut self, term: &[char]) -> StandIn {
        let term: String = term.iter().collect();
        if let Some(chosen) = self.chosen.get(&term) {
            return chosen.clone();
        }
        let new = self.choose(&term);
        self.chosen.insert(term, new.clone());
        new
    }

    fn choose(&mut self, term: &str) -> StandIn {
        let Language {
            words,
            pairs,
            characters,
            ..
        } = self.language;
        let words = if is_pair(term) { pairs } else { words };
        // Two words with one stand-in would make it rarer than estimated.
        let known = (0..20)
            .map(|_| words.alike(term, self.random))
            .find(|word| word.is_none_or(|word| !self.used.contains(word)))
            .unwrap_or_else(|| words.alike(term, self.random))
            .or_else(|| words.asked(self.random));
        if let Some(known) = known {
            self.used.insert(Rc::clone(known));
            return StandIn {
                word: Rc::clone(known),
                made_up: false,
            };
        }
        let new = if is_pair(term) {
            made_up::pair(words, characters, self.random)
        } else {
            made_up::word(words, self.random)
        };
        StandIn {
            word: new.into(),
            made_up: true,
        }
    }

    /// Pieces of Chinese text, together about as long as the runs, with a stand-in for each of their known pairs.
    ///
    /// Pairs overlap where they can. Two neighbouring pieces form one more pair, in place of a made-up one.
    fn chinese(&mut self, runs: &[&[char]]) -> Vec<Vec<char>> {
        let chinese = runs.iter().filter(|run| Kind::of(run[0]) == Kind::Han);
        let length: usize = chinese.clone().map(|run| run.len()).sum();
        let (new, known): (Vec<_>, Vec<_>) = chinese
            .flat_map(|run| run.windows(2))
            .map(|pair| self.instead(pair))
            .partition(|pair| pair.made_up);
        let characters = |pair: StandIn| pair.word.chars().collect::<Vec<_>>();
        let mut pieces = chain(known.into_iter().map(characters).collect());
        let mut missing = length.saturating_sub(pieces.iter().map(Vec::len).sum());
        for pair in new.into_iter().map(characters) {
            if missing == 0 {
                break;
            }
            missing = missing.saturating_sub(pair.len());
            let at = self.random.below(pieces.len() + 1);
            pieces.insert(at, pair);
        }
        pieces
    }
}

/// Joins pairs where one begins with the last character of another.
fn chain(mut pairs: Vec<Vec<char>>) -> Vec<Vec<char>> {
    let mut pieces = Vec::new();
    while let Some(mut piece) = pairs.pop() {
        while let Some(next) = pairs.iter().position(|pair| Some(&pair[0]) == piece.last()) {
            piece.push(pairs.swap_remove(next)[1]);
        }
        pieces.push(piece);
    }
    pieces
}

#[derive(PartialEq)]
enum Kind {
    Word,
    Han,
    Other,
}

impl Kind {
    fn of(one: char) -> Self {
        match one {
            _ if is_han(one) => Self::Han,
            _ if one.is_alphanumeric() => Self::Word,
            _ => Self::Other,
        }
    }
}
